//! Conditions on which all threads of a block agree, though the lowered code does not show it.
//!
//! What a tile comes to is one value for the block, and a kernel may ask it whether to go on. The
//! lowering computes it by exchanges among lanes, after which it looks like a value of each
//! thread's own. Barriers under such a condition are right: the verifier has seen to it that all
//! threads reach them. Browsers need a proof, and so does [`Writer::together`]: the first thread's
//! value for all is one. Browsers ask for it too where the condition is of a vote or comes from
//! memory that is written.
//!
//! [`Writer::together`]: crate::writer::Writer::together

use crate::features::Features;
use kiln_ir::{Block, Kernel, Op, OpData, OpKind, Type, Uniformity, Value};
use std::borrow::Cow;

/// The kernel with every condition that decides about a barrier made the first thread's. It was
/// lowered from one that the verifier has accepted.
pub(crate) fn with_agreement(kernel: &Kernel, features: Features) -> Cow<'_, Kernel> {
    let mut kernel = Cow::Borrowed(kernel);
    // An outer condition makes what is inside of it diverge, so each is looked for anew.
    while let Some(unproved) = Search::of(&kernel, features).first(kernel.body) {
        prove(kernel.to_mut(), unproved);
    }
    kernel
}

/// A value that decides about a barrier.
#[derive(Clone, Copy)]
struct Unproved {
    value: Value,
    /// The operation that takes it.
    taken_by: Op,
    /// The block with that operation.
    block: Block,
}

/// Has the operation take the first thread's value.
fn prove(kernel: &mut Kernel, Unproved { value, taken_by, block }: Unproved) {
    let loc = kernel.op(taken_by).loc;
    let ty = Type::scalar(kernel.ty(value).elem());
    let agreed = kernel.add_op(OpKind::BlockUniform, &[value], &[ty], &[], loc);
    let result = kernel.op(agreed).results[0];
    let ops = &mut kernel.block_mut(block).ops;
    let at = ops.iter().position(|&op| op == taken_by).unwrap_or(ops.len());
    ops.insert(at, agreed);
    let control = kernel.op(taken_by).control().len();
    for operand in kernel.op_mut(taken_by).operands.iter_mut().take(control) {
        if *operand == value {
            *operand = result;
        }
    }
}

/// The search for a value that decides about a barrier and is not known to be uniform.
struct Search<'a> {
    kernel: &'a Kernel,
    /// Whether lanes exchange values at barriers, and their compiler asks for a proof.
    exchange_meets: bool,
    uniformity: Uniformity,
    /// What the compiler that comes next sees of it.
    seen: Option<Uniformity>,
}

impl<'a> Search<'a> {
    fn of(kernel: &'a Kernel, features: Features) -> Search<'a> {
        Search {
            kernel,
            exchange_meets: features.asks_for_proof && !features.native_warps(),
            uniformity: Uniformity::of(kernel),
            seen: features.asks_for_proof.then(|| Uniformity::in_plain_sight(kernel)),
        }
    }

    fn first(&self, block: Block) -> Option<Unproved> {
        let kernel = self.kernel;
        for &op in &kernel.block(block).ops {
            let data = kernel.op(op);
            let has_barrier = holds(kernel, data, &is_barrier);
            let has_exchange = self.exchange_meets && holds(kernel, data, &exchanges);
            if !(has_barrier || has_exchange) {
                continue;
            }
            // A `while` has its condition at the end of its first region.
            let test = data.regions[0];
            let last = kernel.block(test).ops.last().filter(|_| data.kind == OpKind::While);
            let (block, taken_by) = last.map_or((block, op), |&last| (test, last));
            let control = kernel.op(taken_by).control();
            if let Some(&value) = control.iter().find(|&&value| self.is_unproved(value, has_barrier)) {
                return Some(Unproved { value, taken_by, block });
            }
            let inside = data.regions.iter().find_map(|&region| self.first(region));
            if inside.is_some() {
                return inside;
            }
        }
        None
    }

    /// Under a condition that varies lanes may exchange values, which is refused where they meet
    /// for it; no barrier is there.
    fn is_unproved(&self, value: Value, has_barrier: bool) -> bool {
        match self.uniformity.varies(value) {
            true => has_barrier,
            false => self.seen.as_ref().is_some_and(|seen| seen.varies(value)),
        }
    }
}

/// Whether an operation has a region with one of a kind.
fn holds(kernel: &Kernel, data: &OpData, is: &dyn Fn(&OpKind) -> bool) -> bool {
    let inside = |op: &Op| {
        let data = kernel.op(*op);
        is(&data.kind) || holds(kernel, data, is)
    };
    data.regions.iter().any(|&region| kernel.block(region).ops.iter().any(inside))
}

/// A barrier that the kernel or its tiles asked for.
fn is_barrier(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Barrier
            | OpKind::BlockUniform
            | OpKind::BlockCheck(_)
            | OpKind::DeferFault { together: false, .. }
    )
}

fn exchanges(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Shuffle(_) | OpKind::Vote(_))
}
