//! Copies from global to shared memory in flight (PTX ISA 7.0, "cp.async"), for GPUs of compute
//! capability 8.0 and later.

use super::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{AsyncCopyOp, OpData, Operand};

/// The compute capability that has them.
const LEAST: u32 = 80;

impl Writer<'_> {
    pub(super) fn async_copy(&mut self, op: &OpData, kind: AsyncCopyOp) -> Result<()> {
        if self.target.capability() < LEAST {
            let hint = "It needs a GPU of compute capability 8.0 or later";
            return Err(self.unsupported(op, format!("`{}`", kind.name()), hint));
        }
        match kind {
            AsyncCopyOp::Copy { width } => {
                let names = [Operand::Address, Operand::Source, Operand::Bytes];
                let [to, from, bytes] = names.map(|name| self.get(op.operand(name)));
                let (to, from, bytes) = (to?, from?, bytes?);
                // `.cg` passes by L1, and takes 16 bytes alone.
                let cache = if width == 16 { "cg" } else { "ca" };
                self.put(format_args!("cp.async.{cache}.shared.global [{to}], [{from}], {width}, {bytes}"));
            }
            AsyncCopyOp::Commit => self.put(format_args!("cp.async.commit_group")),
            AsyncCopyOp::Wait { pending } => self.put(format_args!("cp.async.wait_group {pending}")),
        }
        Ok(())
    }
}
