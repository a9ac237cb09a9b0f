//! Keeping the lanes of a warp together, against four defects of NVIDIA's assembler (sm_90; random
//! kernels found them). The first two were seen with ptxas 13.0 to 13.5, the last two with ptxas
//! 13.0 and the assembler of a driver for CUDA 13.0.
//!
//! - A predicated store before a jump becomes a branch around the store. Where the assembler has
//!   proved that the warp enters the block as a whole (an aligned barrier in it is a proof too),
//!   the new branch has no point of reconvergence (`@!P BRA L; STG; BRA L`). The lanes reach the
//!   next shuffle in two groups, and each reads the other's as inactive; barriers further down, of
//!   the warp too, hold neither. A `bar.warp.sync` between store and jump prevents the branch; it
//!   costs one `NOP`.
//! - Aligned barriers in a `while` loop end the assembler with a segmentation fault when the code
//!   behind the loop has the same stores and barriers. Unaligned ones (`barrier.sync`) do not. They
//!   cost duplicated code where the assembler cannot prove convergence, so `for` loops, which all
//!   fast kernels are made of, keep aligned ones. So does a loop with barriers of the grid behind
//!   which the kernel has no barrier: that of a kernel that stays on the device.
//! - Lanes that leave a loop at different times may stay divided behind it, whatever point of
//!   reconvergence there is (behind the `BSYNC` of a loop with a `YIELD` in it, `activemask` named
//!   one lane to that lane, and 31 to the others). `bar.warp.sync` does not mend it: in
//!   relocatable code it waits for the lanes, but leaves them divided (`BRA.DIV`,
//!   `WARPSYNC.COLLECTIVE`). Nor do barriers of the block further down. An aligned one is proof to
//!   the assembler that the warp is whole before it too: a register of the warp gets another
//!   meaning in the same block, which the second group of lanes then reads. At an unaligned one in
//!   a `for` loop divided lanes waited for ever. What joins them is the `WARPSYNC.ALL` of an
//!   instruction that is for whole warps, such as `movmatrix`, which writes no memory. It must be
//!   of use, or the assembler removes it: the mask of a `bar.warp.sync` comes of what it gives and
//!   of a zero that the assembler does not see.
//! - A branch around a barrier, by a condition that a `while` loop hands on, ends the assembler
//!   with a segmentation fault: it knows the condition at one of the loop's ends, and copies what
//!   comes after. All lanes have the same condition there, so a vote among them is that condition,
//!   of which the assembler knows nothing.

use super::register::{Class, Reg};
use super::target::MOVMATRIX_VERSION;
use super::writer::Writer;
use kiln_ir::{Block, ControlFlow, Kernel, Op, OpData, OpKind, Uniformity};

/// Whether an operation is a loop, or has one in its regions.
fn has_loop(kernel: &Kernel, op: Op) -> bool {
    let data = kernel.op(op);
    matches!(data.kind.control_flow(), Some(ControlFlow::For | ControlFlow::While))
        || data.regions.iter().any(|&r| kernel.block(r).ops.iter().any(|&inner| has_loop(kernel, inner)))
}

/// Whether an operation of a block, or in its regions, is one of a kind.
fn holds(kernel: &Kernel, block: Block, is: &dyn Fn(&OpKind) -> bool) -> bool {
    kernel.block(block).ops.iter().any(|&op| {
        let data = kernel.op(op);
        is(&data.kind) || data.regions.iter().any(|&region| holds(kernel, region, is))
    })
}

fn is_barrier(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Barrier | OpKind::BlockCheck(_) | OpKind::DeferFault { together: false, .. })
}

impl Writer<'_> {
    /// The condition of an `if`, as the warp votes on it where the block meets inside and the
    /// kernel has a `while` loop. Not in kernels of the explicit level, as in [`Self::converge`].
    pub(super) fn voted(&mut self, op: &OpData, condition: Reg) -> Reg {
        let kernel = self.kernel;
        let meets = op.regions.iter().any(|&region| holds(kernel, region, &is_barrier));
        if self.explicit.used || !meets || !holds(kernel, kernel.body, &|kind| *kind == OpKind::While) {
            return condition;
        }
        let (voted, members) = (self.reg(Class::Pred), self.members.clone());
        self.put(format_args!("vote.sync.any.pred {voted}, {condition}, {members}"));
        voted
    }

    /// Holds the lanes together before the jump at the end of a region that the whole block runs.
    ///
    /// Not in kernels of the explicit level: [`Uniformity`] does not look into tasks, where a
    /// single lane may run a branch and would wait for the others for ever.
    pub(super) fn converge(&mut self, region: Block) {
        if self.explicit.used {
            return;
        }
        let kernel = self.kernel;
        let ops = &kernel.block(region).ops;
        let predicated = ops.iter().any(|&op| kernel.op(op).mask().is_some());
        let Some(&end) = ops.last().filter(|_| predicated) else { return };
        if !self.uniformity.get_or_insert_with(|| Uniformity::of_warps(kernel)).diverges(end) {
            let members = self.members.clone();
            self.put(format_args!("bar.warp.sync {members}"));
        }
    }

    /// Makes lanes meet behind an operation in whose loops they part, where they reach the
    /// operation together. Not in kernels of the explicit level, as in [`Self::converge`].
    pub(super) fn meet_behind(&mut self, op: Op) {
        if !self.explicit.used && has_loop(self.kernel, op) && self.parts_lanes(op) {
            self.join_lanes();
        }
    }

    /// An instruction that is for whole warps alone, and a barrier of the warp that needs it.
    fn join_lanes(&mut self) {
        self.version = self.version.max(MOVMATRIX_VERSION);
        let members = self.members.clone();
        let [zero, turned, below, above] = [(); 4].map(|()| self.reg(Class::B32));
        self.put(format_args!("mov.b32 {zero}, 0"));
        self.put(format_args!("movmatrix.sync.aligned.m8n8.trans.b16 {turned}, {zero}"));
        // No lane is below and above another. Where lanes have ended, `turned` may be anything.
        self.put(format_args!("mov.u32 {below}, %lanemask_lt"));
        self.put(format_args!("mov.u32 {above}, %lanemask_gt"));
        self.put(format_args!("and.b32 {below}, {below}, {above}"));
        self.put(format_args!("and.b32 {turned}, {turned}, {below}"));
        self.put(format_args!("xor.b32 {turned}, {turned}, {members}"));
        self.put(format_args!("bar.warp.sync {turned}"));
    }

    /// Whether barriers in a `while` loop are aligned: if it has one of the grid, and none stands
    /// behind it.
    pub(super) fn keeps_aligned(&self, op: &OpData) -> bool {
        let kernel = self.kernel;
        let of_grid = |kind: &OpKind| *kind == OpKind::GridBarrier;
        let ops = &kernel.block(kernel.body).ops;
        let mut behind = ops.iter().skip_while(|&&other| !std::ptr::eq(kernel.op(other), op));
        behind.next().is_some()
            && op.regions.iter().any(|&region| holds(kernel, region, &of_grid))
            && !behind.any(|&other| {
                let data = kernel.op(other);
                let meets = |kind: &OpKind| is_barrier(kind) || of_grid(kind);
                meets(&data.kind) || data.regions.iter().any(|&region| holds(kernel, region, &meets))
            })
    }

    /// The barrier of all threads of the block.
    pub(super) fn block_barrier(&mut self) {
        let barrier = if self.while_loops > 0 { "barrier" } else { "bar" };
        self.put(format_args!("{barrier}.sync 0"));
    }

    /// Whether lanes that reach an operation with regions together end them at different times, or
    /// not all of them.
    fn parts_lanes(&mut self, op: Op) -> bool {
        let kernel = self.kernel;
        let uniformity = self.uniformity.get_or_insert_with(|| Uniformity::of_warps(kernel));
        let ends = |&region: &Block| kernel.block(region).ops.last();
        let mut ends = kernel.op(op).regions.iter().filter_map(ends);
        !uniformity.diverges(op) && ends.any(|&end| uniformity.diverges(end))
    }
}
