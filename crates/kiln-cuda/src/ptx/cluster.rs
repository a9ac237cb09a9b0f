//! Operations among the blocks of a cluster (PTX ISA 7.8, "barrier.cluster", "mapa", "st").
//!
//! That a store of 16 bytes to another block's shared memory arrives whole is, as for [ordered
//! accesses](super::ordered), a property of every GPU with clusters that this crate supports and
//! not of the memory model: an aligned vector lies in one 32-byte sector, which travels between
//! multiprocessors as one packet, and banks of shared memory are written 128 bytes at a time. What
//! relies on it tests it.

use super::memory::list;
use super::register::Class;
use super::target::HOPPER_VERSION;
use super::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{ClusterOp, OpData, OpKind};

/// Whether an operation stores to the shared memory of another block.
fn stores(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Cluster(ClusterOp::StoreQuad | ClusterOp::PtrStoreQuad))
}

impl Writer<'_> {
    /// Finds out where shared memory lies among generic addresses, for a kernel that stores to that
    /// of other blocks. Such stores are to generic addresses for the hardware anyway, and the
    /// assembler asks it for their upper half wherever it makes one of a shared address: some 50
    /// cycles before the store.
    pub(super) fn begin_cluster(&mut self) {
        let kernel = self.kernel;
        let mut any = false;
        kernel.walk(|_, data| any |= stores(&data.kind));
        if any {
            let (shared, window) = (self.reg(Class::B64), self.reg(Class::B64));
            self.put(format_args!("mov.b64 {shared}, shared_memory"));
            self.put(format_args!("cvta.shared.u64 {window}, {shared}"));
            self.put(format_args!("sub.u64 {window}, {window}, {shared}"));
            self.shared_window = Some(window);
        }
    }

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
                let (address, rank) = (self.get(op.address())?, self.narrow(op.rank())?);
                let words = op.stored_values().iter().map(|&v| self.get(v)).collect::<Result<Vec<_>>>()?;
                let there = self.reg(Class::B64);
                let words = list(&words);
                if let Some(window) = self.shared_window {
                    self.put(format_args!("add.u64 {there}, {address}, {window}"));
                }
                self.put(format_args!("mapa.u64 {there}, {there}, {rank}"));
                self.put(format_args!("st.relaxed.cluster.v4.b32 [{there}], {words}"));
            }
        }
        Ok(())
    }
}
