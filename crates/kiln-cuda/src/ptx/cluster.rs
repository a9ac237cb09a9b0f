//! Operations among the blocks of a cluster (PTX ISA 7.8, "barrier.cluster", "mapa", "st").
//!
//! That a store of 16 bytes to another block's shared memory arrives whole is, as for [ordered accesses](super::ordered), a property of every GPU with clusters that this crate knows
//! of and not of the memory model: an aligned vector lies in one 32-byte sector, which travels between multiprocessors as one packet, and banks of shared memory are written
//! 128 bytes at a time. What relies on it tests it.

use super::entry::HOPPER_VERSION;
use super::memory::list;
use super::writer::{Class, Writer};
use kiln_backend::Result;
use kiln_ir::{ClusterOp, OpData};

impl Writer<'_> {
    pub(super) fn cluster(&mut self, op: &OpData, kind: ClusterOp) -> Result<()> {
        if self.target.capability() < 90 {
            let hint = "They need a GPU of compute capability 9.0 or newer";
            return Err(self.unsupported(op, "clusters of blocks", hint));
        }
        self.version = self.version.max(HOPPER_VERSION);
        match kind {
            ClusterOp::Barrier => {
                self.put(format_args!("barrier.cluster.arrive.release"));
                self.put(format_args!("barrier.cluster.wait.acquire"));
            }
            ClusterOp::StoreQuad | ClusterOp::PtrStoreQuad => {
                let (address, rank) = (self.get(op.operands[0])?, self.narrow(op.operands[1])?);
                let words = op.operands[2..].iter().map(|&v| self.get(v)).collect::<Result<Vec<_>>>()?;
                let there = self.reg(Class::B64);
                self.put(format_args!("mapa.shared::cluster.u64 {there}, {address}, {rank}"));
                let words = list(&words);
                self.put(format_args!("st.relaxed.cluster.shared::cluster.v4.b32 [{there}], {words}"));
            }
        }
        Ok(())
    }
}
