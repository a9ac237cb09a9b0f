//! Simplification: constants are folded, identities applied, operations brought into one form.
//!
//! | file | simplifies |
//! |---|---|
//! | `arithmetic.rs` | element-wise operations on integers, floats and bools |
//! | `convert.rs` | casts and bitcasts |
//! | `shape.rs` | broadcasts, reshapes, transpositions, reductions, scans |
//! | `known.rs` | what is known of the launch: block extents, facts on parameters |
//! | `effect.rs` | accesses under constant masks, asserts that hold |
//! | `control.rs` | `if` with a known condition, loops that run never or once |
//!
//! Folding uses the interpreter's meaning of each operation ([`kiln_ir::eval`]). Of floats only
//! identities that hold for every value are used, NaN, infinities and signed zeros included.

mod arithmetic;
mod control;
mod convert;
mod effect;
mod known;
mod shape;

pub(super) use arithmetic::commutes;

use super::rewrite::{Cursor, Fate, Pass, rewrite};
use kiln_ir::{Computed, Kernel, Literal, Op, OpKind, Value};
use known::Launch;

/// Simplifies until nothing changes in one operation, over the whole kernel once; whether anything
/// changed.
pub(crate) fn run(kernel: &mut Kernel) -> bool {
    known::parameters(kernel) | rewrite(kernel, &mut Simplify)
}

struct Simplify;

/// What an operation with one result can be replaced by.
enum Change {
    None,
    /// Its result is this value.
    Value(Value),
    /// Every element of its result is this literal.
    Constant(Literal),
    /// It is this operation on these operands.
    Become(OpKind, Vec<Value>),
}

/// How often one operation is simplified in a row; far more than any chain of rules needs.
const ROUNDS: usize = 8;

impl Pass for Simplify {
    fn enter(&mut self, cx: &mut Cursor<'_>, op: Op) -> Fate {
        control::enter(cx, op)
    }

    fn leave(&mut self, cx: &mut Cursor<'_>, op: Op) -> Fate {
        for _ in 0..ROUNDS {
            match change(cx, op) {
                Change::None => break,
                Change::Value(value) => {
                    let result = cx.kernel.result(op);
                    cx.rename(result, value);
                    return Fate::Drop;
                }
                Change::Constant(literal) => cx.become_(op, OpKind::Const(literal), &[]),
                Change::Become(kind, operands) => cx.become_(op, kind, &operands),
            }
        }
        effect::leave(cx, op)
    }
}

fn change(cx: &mut Cursor<'_>, op: Op) -> Change {
    let data = cx.kernel.op(op);
    let [result] = data.results[..] else { return Change::None };
    let kind = data.kind.clone();
    let change = match kind.computed() {
        Some(computed) => compute(cx, op, computed, result),
        None => combine(cx, op, &kind, result),
    };
    change.or_else(|| shape::splat(cx, op, result))
}

fn compute(cx: &mut Cursor<'_>, op: Op, computed: Computed<'_>, result: Value) -> Change {
    let data = cx.kernel.op(op);
    let launch = |asked| known::of_launch(cx.kernel, data, asked);
    match computed {
        Computed::Unary(kind) => arithmetic::unary(cx, kind, data.input()),
        Computed::Binary(kind) => arithmetic::binary(cx, kind, data.left(), data.right()),
        Computed::Compare(kind) => arithmetic::compare(cx, kind, data.left(), data.right()),
        Computed::Select => arithmetic::select(cx, data.condition(), data.if_true(), data.if_false()),
        Computed::Fma => arithmetic::fma(cx, data.left(), data.right(), data.addend()),
        Computed::Cast => convert::cast(cx, data.input(), result),
        Computed::Bitcast => convert::bitcast(cx, data.input(), result),
        Computed::Broadcast => shape::broadcast(cx, data.input(), result),
        Computed::Reshape => shape::reshape(cx, data.input(), result),
        Computed::Transpose(perm) => shape::transpose(cx, perm, data.input()),
        Computed::Iota if cx.kernel.shape(result).len() == 1 => {
            Change::Constant(Literal::zero(cx.kernel.ty(result).elem()))
        }
        Computed::BlockDim(axis) => launch(Launch::BlockDim(axis)),
        Computed::ThreadId(axis) => launch(Launch::ThreadId(axis)),
        Computed::Extent(axis) => launch(Launch::Extent(axis)),
        Computed::Stride(axis) => launch(Launch::Stride(axis)),
        Computed::Const(_)
        | Computed::Iota
        | Computed::ProgramId(_)
        | Computed::NumPrograms(_)
        | Computed::BlockUniform => Change::None,
    }
}

/// Operations on several elements, of which three have identities.
fn combine(cx: &mut Cursor<'_>, op: Op, kind: &OpKind, result: Value) -> Change {
    let data = cx.kernel.op(op);
    if let OpKind::Reduce { op, axis } = *kind {
        shape::reduce(cx, op, axis, data.input(), result)
    } else if let OpKind::Scan { axis, exclusive, .. } = *kind {
        shape::scan(cx, axis, exclusive, data.input())
    } else if let OpKind::Gather { .. } = kind {
        effect::gather(cx, op)
    } else {
        Change::None
    }
}

impl Change {
    fn or_else(self, other: impl FnOnce() -> Change) -> Change {
        if let Change::None = self { other() } else { self }
    }
}
