//! Operations that move elements, and combinations along an axis.

use super::{Change, Cursor};
use kiln_ir::{BinaryOp, Kernel, Literal, Op, OpKind, ReduceOp, Shape, Type, Value, eval};

/// The operand of the operation that defines a value, if it is of this kind.
fn operand_of(kernel: &Kernel, value: Value, is: impl Fn(&OpKind) -> bool) -> Option<Value> {
    let data = kernel.defining_op(value)?;
    is(&data.kind).then(|| data.input())
}

/// The scalar that every element of a tile is, if a broadcast made it.
fn spread(kernel: &Kernel, value: Value) -> Option<Value> {
    operand_of(kernel, value, |k| *k == OpKind::Broadcast).filter(|&s| kernel.ty(s).is_scalar())
}

/// What is common to operations that only move elements: a tile that is one element everywhere
/// remains one.
fn moved(cx: &Cursor<'_>, x: Value) -> Change {
    if let Some(literal) = cx.kernel.as_const(x) {
        return Change::Constant(literal);
    }
    match spread(cx.kernel, x) {
        Some(scalar) => Change::Become(OpKind::Broadcast, vec![scalar]),
        None => Change::None,
    }
}

pub(super) fn broadcast(cx: &mut Cursor<'_>, x: Value, result: Value) -> Change {
    if cx.kernel.ty(x) == cx.kernel.ty(result) {
        return Change::Value(x);
    }
    moved(cx, x).or_else(|| match operand_of(cx.kernel, x, |k| *k == OpKind::Broadcast) {
        // Of the same rank; `spread` handles the others.
        Some(inner) => Change::Become(OpKind::Broadcast, vec![inner]),
        None => Change::None,
    })
}

pub(super) fn reshape(cx: &mut Cursor<'_>, x: Value, result: Value) -> Change {
    if cx.kernel.ty(x) == cx.kernel.ty(result) {
        return Change::Value(x);
    }
    // A scalar under another shape is a broadcast.
    if cx.kernel.ty(x).is_scalar() {
        return Change::Become(OpKind::Broadcast, vec![x]);
    }
    if let (Some(scalar), true) = (spread(cx.kernel, x), cx.kernel.ty(result).is_scalar()) {
        return Change::Value(scalar);
    }
    moved(cx, x).or_else(|| match operand_of(cx.kernel, x, |k| *k == OpKind::Reshape) {
        Some(inner) => Change::Become(OpKind::Reshape, vec![inner]),
        None => Change::None,
    })
}

pub(super) fn transpose(cx: &mut Cursor<'_>, perm: &Shape, x: Value) -> Change {
    if perm.extents().iter().copied().eq(0..perm.rank() as u32) {
        return Change::Value(x);
    }
    let inner = cx.kernel.defining_op(x).and_then(|data| {
        let OpKind::Transpose(first) = &data.kind else { return None };
        Some((first.clone(), data.input()))
    });
    moved(cx, x).or_else(|| match inner {
        Some((first, source)) => {
            let both: Vec<u32> = perm.extents().iter().map(|&p| first[p as usize]).collect();
            Change::Become(OpKind::Transpose(Shape::new(&both)), vec![source])
        }
        None => Change::None,
    })
}

pub(super) fn reduce(cx: &mut Cursor<'_>, op: ReduceOp, axis: u32, x: Value, result: Value) -> Change {
    let extent = cx.kernel.shape(x)[axis as usize];
    let combination = eval::combination(op);
    if extent == 1 {
        return match combination {
            Some(_) => Change::Become(OpKind::Reshape, vec![x]),
            None => Change::Constant(Literal::zero(cx.kernel.ty(result).elem())),
        };
    }
    let literal = cx.kernel.as_const(x);
    let Some(combination) = combination else {
        // The first of equal elements; of NaN nothing is said.
        let number = literal.is_some_and(|l| !l.as_f64().is_nan());
        return if number {
            Change::Constant(Literal::zero(cx.kernel.ty(result).elem()))
        } else {
            Change::None
        };
    };
    let idempotent = matches!(combination, BinaryOp::Min | BinaryOp::Max | BinaryOp::And | BinaryOp::Or);
    match literal {
        Some(literal) if idempotent => Change::Constant(literal),
        Some(literal) if !literal.elem().is_float() => {
            let all = (1..extent).try_fold(literal, |sum, _| eval::binary(combination, sum, literal));
            all.map_or(Change::None, Change::Constant)
        }
        None if idempotent => match spread(cx.kernel, x) {
            Some(scalar) if cx.kernel.ty(result).is_scalar() => Change::Value(scalar),
            Some(scalar) => Change::Become(OpKind::Broadcast, vec![scalar]),
            None => Change::None,
        },
        _ => Change::None,
    }
}

pub(super) fn scan(cx: &mut Cursor<'_>, axis: u32, exclusive: bool, x: Value) -> Change {
    if cx.kernel.shape(x)[axis as usize] == 1 && !exclusive { Change::Value(x) } else { Change::None }
}

/// An element-wise operation on tiles of one element everywhere is done once and spread.
pub(super) fn splat(cx: &mut Cursor<'_>, op: Op, result: Value) -> Change {
    let data = cx.kernel.op(op);
    let element_wise = matches!(
        data.kind,
        OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Fma
            | OpKind::Cast
            | OpKind::Bitcast
    );
    let (kind, operands) = (data.kind.clone(), data.operands.to_vec());
    let one_element = |&v: &Value| cx.kernel.as_const(v).is_some() || spread(cx.kernel, v).is_some();
    if !element_wise || cx.kernel.ty(result).is_scalar() || !operands.iter().all(one_element) {
        return Change::None;
    }
    let mut scalars = Vec::new();
    for v in operands {
        scalars.push(match (spread(cx.kernel, v), cx.kernel.as_const(v)) {
            (Some(scalar), _) => scalar,
            (None, Some(literal)) => cx.emit(OpKind::Const(literal), &[], Type::scalar(literal.elem())),
            (None, None) => return Change::None,
        });
    }
    let ty = Type::scalar(cx.kernel.ty(result).elem());
    let scalar = cx.emit(kind, &scalars, ty);
    Change::Become(OpKind::Broadcast, vec![scalar])
}
