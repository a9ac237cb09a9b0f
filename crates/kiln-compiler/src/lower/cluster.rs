//! Operations among the blocks of a cluster.

use super::Lowering;
use crate::error::CompileError;
use kiln_ir::{ClusterOp, OpData, OpKind, Scalar};

impl Lowering<'_> {
    pub(super) fn cluster(&mut self, data: &OpData, op: ClusterOp) -> Result<(), CompileError> {
        match op {
            ClusterOp::Barrier | ClusterOp::PtrStoreQuad => self.copy(data),
            ClusterOp::StoreQuad => {
                let index = self.scalar(data.index())?;
                let (base, bytes) = (self.address(data.view())?, self.em.i64(4));
                let distance = self.em.mul(index, bytes);
                let distance = self.em.cast(distance, Scalar::U64);
                let mut operands = vec![self.em.add(base, distance)];
                operands
                    .extend(self.scalars(&[&[data.rank()], data.stored_values()].concat())?.iter().copied());
                self.em.op(OpKind::Cluster(ClusterOp::PtrStoreQuad), &operands, &[]);
                Ok(())
            }
        }
    }
}
