//! Operations among the blocks of a cluster.

use super::Lowering;
use crate::error::CompileError;
use kiln_ir::{ClusterOp, OpData, OpKind};

impl Lowering<'_> {
    pub(super) fn cluster(&mut self, data: &OpData, op: ClusterOp) -> Result<(), CompileError> {
        match op {
            ClusterOp::Barrier | ClusterOp::PtrStoreQuad => self.copy(data),
            ClusterOp::StoreQuad => {
                let at = (self.scalar(data.view())?, self.scalar(data.index())?);
                let mut operands = vec![self.view_address(at)];
                operands
                    .extend(self.scalars(&[&[data.rank()], data.stored_values()].concat())?.iter().copied());
                self.em.op(OpKind::Cluster(ClusterOp::PtrStoreQuad), &operands, &[]);
                Ok(())
            }
        }
    }
}
