//! Which operations can fault, and which of them all threads of a block must reach together.

use crate::cluster::ClusterOp;
use crate::kernel::{Block, Kernel, Op, OpData};
use crate::op::{Bounds, OpKind};

/// What an operation can do wrong while a kernel runs.
///
/// ```
/// use kiln_ir::{OpFault, parse};
/// let kernel = parse("kernel @k(%n: i64, %c: bool) tile {\n  assert %c, \"no luck\"\n  %0 = div %n, %n : i64\n  %1 = mul %n, %0 : i64\n}")?;
/// let faults: Vec<_> = kernel.block(kernel.body).ops.iter().map(|&op| kernel.fault_of(op)).collect();
/// assert_eq!(faults, [Some(OpFault::Assert), Some(OpFault::DivisionByZero), None]);
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpFault {
    /// The condition of an assert is false.
    Assert,
    /// A checked access lies outside its view.
    OutOfBounds,
    /// An integer is divided by zero.
    DivisionByZero,
}

impl Kernel {
    /// How an operation can fault, if it can.
    pub fn fault_of(&self, op: Op) -> Option<OpFault> {
        let kind = &self.op(op).kind;
        if let OpKind::Assert(_) = kind {
            Some(OpFault::Assert)
        } else if kind.bounds() == Some(Bounds::Check) {
            Some(OpFault::OutOfBounds)
        } else {
            (kind.divides() && !self.is_pure(op)).then_some(OpFault::DivisionByZero)
        }
    }
}

/// Whether an operation is or holds a loop.
pub(crate) fn takes_steps(kernel: &Kernel, op: Op) -> bool {
    let data = kernel.op(op);
    matches!(data.kind, OpKind::For | OpKind::While)
        || data.regions.iter().any(|&r| kernel.block(r).ops.iter().any(|&op| takes_steps(kernel, op)))
}

/// What an operation is at which all threads of a block meet, whatever it works on.
pub(crate) fn meeting(kind: &OpKind) -> Option<&'static str> {
    if let OpKind::Barrier = kind {
        Some("a barrier")
    } else if let OpKind::Cluster(ClusterOp::Barrier) = kind {
        Some("a barrier of the cluster")
    } else if let OpKind::GridBarrier = kind {
        Some("a barrier of the grid")
    } else if let OpKind::BlockUniform = kind {
        Some("a value of the first thread for all")
    } else {
        None
    }
}

/// Whether all threads of a block must reach an operation together.
pub(crate) fn is_collective(kernel: &Kernel, data: &OpData) -> bool {
    let is_tile = |v| kernel.ty(v).as_tile().is_some_and(|t| t.shape.rank() > 0);
    let tiles = || data.operands.iter().chain(&data.results).any(|&v| is_tile(v));
    meeting(&data.kind).is_some() || (!data.kind.is_terminator() && tiles())
}

/// Which operations in fault regions may be followed, inside the innermost fault region around
/// them, by one that all threads must reach together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Followed(Vec<bool>);

impl Followed {
    pub(crate) fn of(kernel: &Kernel) -> Followed {
        let mut followed = Followed(Vec::new());
        let mut fault_regions = false;
        kernel.walk(|_, data| fault_regions |= data.kind == OpKind::FaultRegion);
        if fault_regions {
            let mut holds = vec![false; kernel.counts().1];
            holds_collective(kernel, kernel.body, &mut holds);
            followed.0.resize(holds.len(), false);
            followed.block(kernel, kernel.body, false, &holds);
        }
        followed
    }

    /// Whether such an operation may come after a fault in `op`.
    pub(crate) fn by_collective(&self, op: Op) -> bool {
        self.0.get(op.index()).copied().unwrap_or(false)
    }

    /// Fills in a block, after which such an operation may come or not.
    fn block(&mut self, kernel: &Kernel, block: Block, after: bool, holds: &[bool]) {
        let mut after = after;
        for &op in kernel.block(block).ops.iter().rev() {
            let data = kernel.op(op);
            // In a loop, what comes first follows what comes last.
            let again = matches!(data.kind, OpKind::For | OpKind::While) && holds[op.index()];
            self.0[op.index()] = after || again;
            // Tiles that leave a region are those of all threads.
            let own = is_collective(kernel, data);
            let inside = if data.kind == OpKind::FaultRegion { own } else { after || again || own };
            data.regions.iter().for_each(|&region| self.block(kernel, region, inside, holds));
            after |= holds[op.index()];
        }
    }
}

/// Notes which operations are or hold such ones; whether one in this block does.
fn holds_collective(kernel: &Kernel, block: Block, holds: &mut [bool]) -> bool {
    let mut any = false;
    for &op in &kernel.block(block).ops {
        let data = kernel.op(op);
        let inside = data.regions.iter().fold(false, |any, &r| holds_collective(kernel, r, holds) | any);
        holds[op.index()] = inside || is_collective(kernel, data);
        any |= holds[op.index()];
    }
    any
}
