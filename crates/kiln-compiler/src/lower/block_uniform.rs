//! The first thread's value in every thread of the block.

use super::Lowering;
use crate::error::CompileError;
use kiln_ir::{CompareOp, Level, OpData, Value};

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
            _ if threads <= self.target.warp
                && self.uniformity.as_ref().is_some_and(|u| !u.varies(data.input())) =>
            {
                value
            }
            _ if threads <= self.target.warp => {
                let first = self.em.i64(0);
                self.read_lane(value, first)
            }
            _ => self.through_scratch(value),
        };
        self.define_scalar(data.results[0], shared);
        Ok(())
    }

    fn through_scratch(&mut self, value: Value) -> Value {
        let elem = self.em.elem(value);
        let area = self.scratch.area(elem.bytes(), self.em.loc);
        let place = self.exchange(area, elem);
        let start = self.em.i32(0);
        let thread = self.em.thread();
        let is_first = self.em.hoisted(|e| e.compare(CompareOp::Eq, thread, start));
        self.scratch_store(place, 0, Some(is_first), &[value]);
        self.scratch_load(place, 0, 1)[0]
    }
}
