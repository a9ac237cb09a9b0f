//! Which votes of a warp decide branches and nothing else, and which NVIDIA's assembler breaks at.

use super::register::Class;
use super::writer::Writer;
use kiln_ir::{BinaryOp, Block, Def, Kernel, Op, OpData, OpKind, UnaryOp, Value};
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

impl Writer<'_> {
    /// Sets the predicate of lanes that there are not, in kernels with votes and calls.
    ///
    /// Of a ballot whose answer comes to nothing and whose condition is the same in all lanes, the
    /// assembler (CUDA 13.1, and a driver that ends the process) makes something in relocatable
    /// code that it cannot keep across a call. Whether an answer comes to nothing it knows better
    /// than we do; a condition that also asks for such a lane is not the same in all lanes.
    pub(super) fn begin_votes(&mut self) {
        let (mut votes, mut calls) = (false, false);
        let kernel = self.kernel;
        kernel.walk(|_, data| {
            votes |= matches!(data.kind, OpKind::Vote(_));
            calls |= may_be_a_call(kernel, data);
        });
        if votes && calls {
            let (lane, none) = (self.reg(Class::B32), self.reg(Class::Pred));
            self.put(format_args!("mov.u32 {lane}, %laneid"));
            self.put(format_args!("setp.gt.u32 {none}, {lane}, 31"));
            self.no_lane = Some(none);
        }
    }
}

/// Whether an operation may be a call of a function of the assembler's own.
fn may_be_a_call(kernel: &Kernel, op: &OpData) -> bool {
    let divides = matches!(op.kind, OpKind::Binary(BinaryOp::Div | BinaryOp::FastDiv | BinaryOp::Rem));
    let wide = |value: Value| {
        let elem = kernel.ty(value).elem();
        elem.is_float() || elem.bytes() == 8
    };
    matches!(op.kind, OpKind::Unary(UnaryOp::Sqrt | UnaryOp::Recip | UnaryOp::Rsqrt))
        || divides && wide(op.left())
}
