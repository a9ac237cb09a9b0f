//! Which votes of a warp decide branches and nothing else.

use kiln_ir::{Block, Def, Kernel, Op, OpKind, UnaryOp, Value};
use smallvec::{SmallVec, smallvec};

/// Whether a vote's answer goes to branches of the block that the vote stands in, and into the next
/// turn of a loop, and nowhere else: where all lanes are that voted.
pub(super) fn branches_alone(kernel: &Kernel, answer: Value) -> bool {
    let Def::Result(vote, _) = kernel.def(answer) else { return false };
    let Some((block, holder)) = place(kernel, vote) else { return false };
    let loops = holder.is_some_and(|op| matches!(kernel.op(op).kind, OpKind::While | OpKind::For));
    let mut answers: SmallVec<[Value; 2]> = smallvec![answer];
    let mut branches: SmallVec<[Op; 2]> = SmallVec::new();
    for &op in &kernel.block(block).ops {
        let data = kernel.op(op);
        if !data.operands.iter().any(|operand| answers.contains(operand)) {
            continue;
        }
        let goes_on = loops && data.kind == OpKind::Yield;
        if data.kind == OpKind::Unary(UnaryOp::Not) {
            answers.push(kernel.result(op));
        } else if !goes_on && !matches!(data.kind, OpKind::If | OpKind::Condition) {
            return false;
        }
        branches.push(op);
    }
    let mut alone = true;
    kernel.walk(|op, data| {
        alone &= branches.contains(&op) || !data.operands.iter().any(|operand| answers.contains(operand));
    });
    alone
}

/// The block that an operation stands in, and the operation whose region that is.
fn place(kernel: &Kernel, op: Op) -> Option<(Block, Option<Op>)> {
    let stands = |block: Block| kernel.block(block).ops.contains(&op);
    let mut found = stands(kernel.body).then_some((kernel.body, None));
    kernel.walk(|holder, data| {
        let inner = data.regions.iter().find(|&&region| stands(region));
        found = found.or(inner.map(|&region| (region, Some(holder))));
    });
    found
}
