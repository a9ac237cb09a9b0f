//! Clocks and rest: lanes advance together, so that one reading or one rest is for all.

use super::rewrite::Rewrite;
use kiln_backend::Result;
use kiln_ir::{Literal, OpData, ReduceOp, Scalar, Type};

impl Rewrite<'_> {
    pub(super) fn clock(&mut self, data: &OpData) -> Result<()> {
        let now = self.one(data.kind.clone(), &[], Type::scalar(Scalar::U64));
        if self.uniformity.varies(data.results[0]) {
            let lanes = self.b.broadcast(now, self.shape());
            self.set_lanes(data.results[0], lanes);
        } else {
            self.set_uniform(data.results[0], now);
        }
        Ok(())
    }

    /// Sleeps for the longest time of any active lane; not at all if no lane is active.
    pub(super) fn sleep(&mut self, data: &OpData) -> Result<()> {
        let wanted = data.duration();
        let time = if self.mask.is_none() && !self.is_lanes(wanted)? {
            self.uniform(wanted)?
        } else {
            let none = self.b.splat(Literal::zero(Scalar::U32), self.shape());
            let times = self.lanes_of(wanted)?;
            let times = self.under_mask(times, none);
            self.b.reduce(ReduceOp::Max, 0, times)
        };
        self.b.op(data.kind.clone(), &[time], &[]);
        Ok(())
    }
}
