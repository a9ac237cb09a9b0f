//! The first thread's value in every thread of the block.

use super::Lowering;
use crate::error::CompileError;
use kiln_ir::{CompareOp, Level, OpData, OpKind, ShuffleMode, Value};

impl Lowering<'_> {
    /// One thread has it, a warp shuffles, and several warps meet in scratch memory, where the
    /// barrier pass orders them.
    pub(super) fn block_uniform(&mut self, data: &OpData) -> Result<(), CompileError> {
        let value = self.scalar(data.input())?;
        let threads = match self.em.kernel.level {
            Level::Thread { block } => block.iter().product(),
            Level::Tile { .. } => 1,
        };
        let shared = match threads {
            _ if self.em.kernel.as_const(value).is_some() => value,
            1 => value,
            // What one warp computes of one value is one value.
            2..=32 if self.uniformity.as_ref().is_some_and(|u| !u.varies(data.input())) => value,
            2..=32 => {
                let first = self.em.i64(0);
                let elem = self.em.elem(value);
                self.em.one(OpKind::Shuffle(ShuffleMode::Index), &[value, first], elem)
            }
            _ => self.through_scratch(value),
        };
        self.define_scalar(data.results[0], shared);
        Ok(())
    }

    fn through_scratch(&mut self, value: Value) -> Value {
        let elem = self.em.elem(value);
        let area = self.scratch.area(elem.bytes(), self.em.loc);
        let start = self.em.i32(0);
        let base = self.scratch_at(area, start);
        let thread = self.em.thread();
        let is_first = self.em.hoisted(|e| e.compare(CompareOp::Eq, thread, start));
        self.scratch_store(area, base, 0, Some(is_first), &[value]);
        self.scratch_load(area, base, 0, elem, 1)[0]
    }
}
