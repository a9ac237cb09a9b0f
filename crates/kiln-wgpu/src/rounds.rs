//! How many rounds of loops a thread of a kernel makes at most.

use crate::regions::{Cell, is_native};
use kiln_ir::{Block, Kernel, LinearOp, OpData, OpKind};

/// The number of rounds after which the driver ends loops, if a kernel may make as many.
pub(crate) fn loop_limit(kernel: &Kernel, rounds: Option<u32>) -> Option<u32> {
    rounds.filter(|&limit| most_rounds(kernel, kernel.body).is_none_or(|most| most >= limit.into()))
}

/// How many rounds of loops a thread makes in a block at most; `None` where that is not known.
fn most_rounds(kernel: &Kernel, block: Block) -> Option<u64> {
    let rounds = |data: &OpData| {
        if data.kind == OpKind::While || repeats(kernel, data) {
            return None;
        }
        if data.regions.is_empty() {
            return Some(0);
        }
        let inside = data.regions.iter().map(|&region| most_rounds(kernel, region)).sum::<Option<u64>>()?;
        // Threads may part in an operation, which lies in a loop of one round then.
        let times = if data.kind == OpKind::For { trips(kernel, data)? } else { 1 };
        times.checked_mul(inside.checked_add(1)?)
    };
    let ops = &kernel.block(block).ops;
    ops.iter().try_fold(0u64, |sum, &op| sum.checked_add(rounds(kernel.op(op))?))
}

/// The rounds of a counted loop, if they are known.
fn trips(kernel: &Kernel, data: &OpData) -> Option<u64> {
    let [low, high, step] = data.for_bounds().map(|bound| kernel.as_const(bound));
    let [low, high, step] = [low?.as_i128(), high?.as_i128(), step?.as_i128()];
    if step <= 0 || low >= high {
        return Some(1);
    }
    // One more for the loop that lies around it where threads part.
    u64::try_from((high - low + step - 1) / step + 1).ok()
}

/// Whether an atomic operation may be a loop of compare-and-exchange.
fn repeats(kernel: &Kernel, data: &OpData) -> bool {
    let (OpKind::Atomic { op, .. } | OpKind::Linear { op: LinearOp::Atomic { op, .. }, .. }) = data.kind
    else {
        return matches!(
            data.kind,
            OpKind::AtomicCas { .. } | OpKind::Linear { op: LinearOp::AtomicCas { .. }, .. }
        );
    };
    !is_native(op, Cell::Words(true), kernel.ty(data.stored_value()).elem())
}
