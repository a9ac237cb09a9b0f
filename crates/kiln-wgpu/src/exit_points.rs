//! Where in a kernel threads that fail a check may leave, and how.

use crate::features::Features;
use kiln_ir::{Block, Kernel, Op, OpData, OpKind, Scope, Uniformity};

/// How a thread leaves that fails a check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// At once. If all threads have the same condition, all do.
    Return,
    /// With the block, after a decision.
    Together,
    /// Out of the operation in which threads part, after which the block decides.
    Break,
}

/// Where in a kernel threads may leave.
#[derive(Default)]
pub(crate) struct ExitPoints {
    /// By operation: whether a barrier may come after it.
    followed: Vec<bool>,
    /// By operation: whether it is or holds a check.
    checks: Vec<bool>,
    /// By operation: whether it is or holds a barrier.
    barriers: Vec<bool>,
    /// Whether threads of the block decide anything together.
    pub(crate) decides: bool,
}

impl ExitPoints {
    pub(crate) fn of(kernel: &Kernel, features: Features, uniformity: &Uniformity) -> ExitPoints {
        let count = kernel.counts().1;
        let mut barriers = vec![false; count];
        let mut points = ExitPoints {
            followed: vec![false; count],
            checks: vec![false; count],
            barriers: Vec::new(),
            decides: false,
        };
        let is_barrier = |data: &OpData| meets(data, features);
        find(kernel, kernel.body, &is_barrier, &mut barriers);
        find(kernel, kernel.body, &|data| ends_thread(&data.kind), &mut points.checks);
        points.follow(kernel, kernel.body, false, &barriers);
        kernel.walk(|op, data| {
            let alone = ends_thread(&data.kind) && points.way(kernel, uniformity, op) == Leave::Together;
            let block =
                matches!(data.kind, OpKind::BlockCheck(_) | OpKind::DeferFault { together: false, .. });
            points.decides |= alone || block || points.parts(kernel, uniformity, op);
        });
        points.barriers = barriers;
        points
    }

    /// Fills in a block, after which a barrier may come or not.
    fn follow(&mut self, kernel: &Kernel, block: Block, after: bool, barriers: &[bool]) {
        let mut after = after;
        for &op in kernel.block(block).ops.iter().rev() {
            let data = kernel.op(op);
            // In a loop, what comes first follows what comes last.
            let again = matches!(data.kind, OpKind::For | OpKind::While) && barriers[op.index()];
            self.followed[op.index()] = after || again;
            data.regions.iter().for_each(|&region| self.follow(kernel, region, after || again, barriers));
            after |= barriers[op.index()];
        }
    }

    /// Whether threads of the block wait for each other in an operation.
    pub(crate) fn waits(&self, op: Op) -> bool {
        self.barriers[op.index()]
    }

    /// How threads leave that fail a check.
    pub(crate) fn way(&self, kernel: &Kernel, uniformity: &Uniformity, op: Op) -> Leave {
        if !self.followed[op.index()] {
            Leave::Return
        } else if uniformity.diverges(op) {
            Leave::Break
        } else if uniformity.varies(kernel.op(op).condition()) {
            Leave::Together
        } else {
            Leave::Return
        }
    }

    /// Whether a thread may fail a check in an operation, and a barrier may follow it.
    pub(crate) fn may_break(&self, op: Op) -> bool {
        self.checks[op.index()] && self.followed[op.index()]
    }

    /// Whether threads part in an operation, may leave there, and a barrier may follow.
    pub(crate) fn parts(&self, kernel: &Kernel, uniformity: &Uniformity, op: Op) -> bool {
        let inside = kernel.op(op).regions.iter().flat_map(|&region| &kernel.block(region).ops);
        let parted = || inside.copied().any(|op| uniformity.diverges(op));
        self.may_break(op) && !uniformity.diverges(op) && parted()
    }
}

/// Notes which operations are or hold such ones; whether one in this block does.
fn find(kernel: &Kernel, block: Block, is: &dyn Fn(&OpData) -> bool, found: &mut [bool]) -> bool {
    let mut any = false;
    for &op in &kernel.block(block).ops {
        let data = kernel.op(op);
        let inside = data.regions.iter().fold(false, |any, &region| find(kernel, region, is, found) | any);
        found[op.index()] = inside || is(data);
        any |= found[op.index()];
    }
    any
}

/// Whether a thread that fails an operation leaves alone.
fn ends_thread(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Assert(_) | OpKind::CheckBounds | OpKind::CheckDivisor)
}

/// Whether all threads of the block wait for each other in an operation.
fn meets(data: &OpData, features: Features) -> bool {
    let exchange = matches!(data.kind, OpKind::Shuffle(_) | OpKind::Vote(_));
    let meeting = matches!(
        data.kind,
        OpKind::Barrier
            | OpKind::BlockUniform
            | OpKind::Fence(Scope::Block)
            | OpKind::BlockCheck(_)
            | OpKind::DeferFault { together: false, .. }
    );
    let warp = data.kind == OpKind::WarpBarrier && !features.warp_barriers();
    meeting || warp || (exchange && !features.native_warps())
}
