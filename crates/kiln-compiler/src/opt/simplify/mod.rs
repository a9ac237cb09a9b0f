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
use kiln_ir::{Kernel, Literal, Op, OpKind, Value};

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
    let operands = data.operands.to_vec();
    match (&data.kind, operands.as_slice()) {
        (&OpKind::Unary(kind), &[x]) => arithmetic::unary(cx, kind, x),
        (&OpKind::Binary(kind), &[a, b]) => arithmetic::binary(cx, kind, a, b),
        (&OpKind::Compare(kind), &[a, b]) => arithmetic::compare(cx, kind, a, b),
        (OpKind::Select, &[cond, a, b]) => arithmetic::select(cx, cond, a, b),
        (OpKind::Fma, &[a, b, c]) => arithmetic::fma(cx, a, b, c),
        (OpKind::Cast, &[x]) => convert::cast(cx, x, result),
        (OpKind::Bitcast, &[x]) => convert::bitcast(cx, x, result),
        (OpKind::Broadcast, &[x]) => shape::broadcast(cx, x, result),
        (OpKind::Reshape, &[x]) => shape::reshape(cx, x, result),
        (OpKind::Transpose(perm), &[x]) => shape::transpose(cx, &perm.clone(), x),
        (&OpKind::Reduce { op, axis }, &[x]) => shape::reduce(cx, op, axis, x, result),
        (&OpKind::Scan { axis, exclusive, .. }, &[x]) => shape::scan(cx, axis, exclusive, x),
        (OpKind::Iota, _) if cx.kernel.shape(result).len() == 1 => {
            Change::Constant(Literal::zero(cx.kernel.ty(result).elem()))
        }
        (OpKind::Gather { .. }, _) => effect::gather(cx, op),
        _ => known::of_launch(cx.kernel, cx.kernel.op(op)),
    }
    .or_else(|| shape::splat(cx, op, result))
}

impl Change {
    fn or_else(self, other: impl FnOnce() -> Change) -> Change {
        if let Change::None = self { other() } else { self }
    }
}
