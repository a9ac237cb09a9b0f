//! Casts and bitcasts.

use super::{Change, Cursor};
use kiln_ir::{OpKind, Scalar, Value, eval};

pub(super) fn cast(cx: &mut Cursor<'_>, x: Value, result: Value) -> Change {
    let to = cx.kernel.ty(result).elem();
    if let Some(literal) = cx.kernel.as_const(x) {
        return Change::Constant(eval::cast(literal, to));
    }
    let from = cx.kernel.ty(x).elem();
    let Some(inner) = cx.kernel.defining_op(x).filter(|d| d.kind == OpKind::Cast) else {
        return Change::None;
    };
    let source = inner.input();
    let first = cx.kernel.ty(source).elem();
    // A cast that keeps every value can be skipped, unless what follows saturates floats and would
    // wrap integers.
    let saturates =
        from.is_float() && !first.is_float() && to.is_int() && to != first && !keeps_values(first, to);
    // Devices convert integers of 16 bits by way of 32.
    let is_half = |elem| matches!(elem, Scalar::I16 | Scalar::U16);
    let direct = first == to || !(is_half(first) || is_half(to));
    if !keeps_values(first, from) || saturates || !direct {
        return Change::None;
    }
    if first == to { Change::Value(source) } else { Change::Become(OpKind::Cast, vec![source]) }
}

/// Whether every value of a type is one of another.
fn keeps_values(from: Scalar, to: Scalar) -> bool {
    use Scalar::*;
    match from {
        Bool => to != Bool,
        I32 => matches!(to, I64 | F64),
        U32 => matches!(to, I64 | U64 | F64),
        F16 | BF16 => matches!(to, F32 | F64),
        F32 => to == F64,
        E4M3 | E5M2 => matches!(to, F16 | BF16 | F32 | F64),
        I8 => matches!(to, I16 | I32 | I64 | F16 | BF16 | F32 | F64),
        U8 => matches!(to, I16 | U16 | I32 | U32 | I64 | U64 | F16 | BF16 | F32 | F64),
        I16 => matches!(to, I32 | I64 | F32 | F64),
        U16 => matches!(to, I32 | U32 | I64 | U64 | F32 | F64),
        I64 | U64 | F64 => false,
    }
}

pub(super) fn bitcast(cx: &mut Cursor<'_>, x: Value, result: Value) -> Change {
    let to = cx.kernel.ty(result).elem();
    if let Some(literal) = cx.kernel.as_const(x) {
        return Change::Constant(eval::bitcast(literal, to));
    }
    let Some(inner) = cx.kernel.defining_op(x).filter(|d| d.kind == OpKind::Bitcast) else {
        return Change::None;
    };
    let source = inner.input();
    if cx.kernel.ty(source).elem() == to {
        Change::Value(source)
    } else {
        Change::Become(OpKind::Bitcast, vec![source])
    }
}
