//! Combinations of elements.

use kiln_ir::{BinaryOp, Literal, ReduceOp, Scalar, eval};

/// What a combination leaves unchanged.
pub(crate) fn identity(op: ReduceOp, elem: Scalar) -> Literal {
    match op {
        ReduceOp::Sum | ReduceOp::Or | ReduceOp::Xor => Literal::zero(elem),
        ReduceOp::Prod => Literal::one(elem),
        ReduceOp::And if elem == Scalar::Bool => Literal::bool(true),
        ReduceOp::And => Literal::wrapping(elem, -1),
        ReduceOp::Min | ReduceOp::ArgMin => extreme(elem, true),
        ReduceOp::Max | ReduceOp::ArgMax => extreme(elem, false),
    }
}

/// The greatest or the least number of a type.
fn extreme(elem: Scalar, greatest: bool) -> Literal {
    if elem.is_float() {
        return Literal::from_f64(elem, if greatest { f64::INFINITY } else { f64::NEG_INFINITY });
    }
    let bits = 8 * elem.bytes();
    let half = 1i128 << (bits - 1);
    let (least, most) = if elem.is_signed() { (-half, half - 1) } else { (0, 2 * half - 1) };
    Literal::wrapping(elem, if greatest { most } else { least })
}

/// The element-wise operation that a reduction repeats.
pub(crate) fn combination(op: ReduceOp) -> Option<BinaryOp> {
    eval::combination(op)
}
