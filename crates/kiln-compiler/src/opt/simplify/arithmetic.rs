//! Element-wise operations.

use super::{Change, Cursor};
use kiln_ir::{BinaryOp, CompareOp, Kernel, Literal, OpKind, Scalar, UnaryOp, Value, eval};

/// The operation that defines a value, if it is of one kind with two operands.
fn binary_def(kernel: &Kernel, value: Value, kind: BinaryOp) -> Option<(Value, Value)> {
    let data = kernel.defining_op(value)?;
    (data.kind == OpKind::Binary(kind)).then(|| (data.left(), data.right()))
}

fn unary_def(kernel: &Kernel, value: Value, kind: UnaryOp) -> Option<Value> {
    let data = kernel.defining_op(value)?;
    (data.kind == OpKind::Unary(kind)).then(|| data.input())
}

pub(super) fn unary(cx: &mut Cursor<'_>, kind: UnaryOp, x: Value) -> Change {
    if let Some(literal) = cx.kernel.as_const(x).and_then(|x| eval::unary(kind, x)) {
        return Change::Constant(literal);
    }
    if matches!(kind, UnaryOp::Neg | UnaryOp::Not)
        && let Some(inner) = unary_def(cx.kernel, x, kind)
    {
        return Change::Value(inner);
    }
    if kind == UnaryOp::Not
        && let Some(data) = cx.kernel.defining_op(x)
        && let OpKind::Compare(compare) = data.kind
    {
        let float = cx.kernel.ty(data.left()).elem().is_float();
        if let Some(inverse) = inverse(compare, float) {
            return Change::Become(OpKind::Compare(inverse), data.operands.to_vec());
        }
    }
    Change::None
}

/// The comparison that holds exactly where this one does not; with NaN only equality has one.
fn inverse(kind: CompareOp, float: bool) -> Option<CompareOp> {
    Some(match kind {
        CompareOp::Eq => CompareOp::Ne,
        CompareOp::Ne => CompareOp::Eq,
        _ if float => return None,
        CompareOp::Lt => CompareOp::Ge,
        CompareOp::Le => CompareOp::Gt,
        CompareOp::Gt => CompareOp::Le,
        CompareOp::Ge => CompareOp::Lt,
    })
}

/// Whether operands may change places.
pub(in crate::opt) fn commutes(kind: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(kind, Add | Mul | Min | Max | And | Or | Xor)
}

pub(super) fn binary(cx: &mut Cursor<'_>, kind: BinaryOp, a: Value, b: Value) -> Change {
    // As a `neg`, with which each backend knows what to do. Of floats, `0 - 0` is not `-0`.
    if kind == BinaryOp::Sub
        && cx.kernel.as_const(a).is_some_and(is_zero_of_ints)
        && cx.kernel.as_const(b).is_none()
    {
        return Change::Become(OpKind::Unary(UnaryOp::Neg), vec![b]);
    }
    match (cx.kernel.as_const(a), cx.kernel.as_const(b)) {
        (Some(x), Some(y)) => match eval::binary(kind, x, y) {
            Some(literal) => Change::Constant(literal),
            None => Change::None, // a fault, which stays
        },
        (Some(_), None) if commutes(kind) => Change::Become(OpKind::Binary(kind), vec![b, a]),
        (None, Some(y)) if y.elem().is_float() => float_by_constant(cx, kind, a, b, y),
        (None, Some(y)) => int_by_constant(cx, kind, a, b, y),
        (None, None) if a == b => with_itself(cx, kind, a),
        (None, None) if complements(cx, a, b) => with_complement(cx, kind, a),
        _ => Change::None,
    }
}

fn is_zero_of_ints(literal: Literal) -> bool {
    let elem = literal.elem();
    elem.is_int() && elem.is_signed() && literal == Literal::zero(elem)
}

/// Whether one value is `not` of the other.
fn complements(cx: &Cursor<'_>, a: Value, b: Value) -> bool {
    let not = |x, of| unary_def(cx.kernel, x, UnaryOp::Not) == Some(of);
    not(a, b) || not(b, a)
}

/// `x kind not x`. NVIDIA's assembler (ptxas 13.0, sm_90) must not see these: of 64-bit `or` and
/// `xor` behind a jump that depends on `x` it makes 0 where the upper half of `x` is known to be 0.
fn with_complement(cx: &Cursor<'_>, kind: BinaryOp, x: Value) -> Change {
    use BinaryOp::*;
    let elem = cx.kernel.ty(x).elem();
    match kind {
        And => Change::Constant(Literal::zero(elem)),
        Or | Xor => Change::Constant(Literal::from_bits(elem, u64::MAX)),
        Add | Sub | Mul | Div | FastDiv | Rem | Min | Max | Shl | Shr | Pow | Atan2 => Change::None,
    }
}

fn with_itself(cx: &Cursor<'_>, kind: BinaryOp, x: Value) -> Change {
    use BinaryOp::*;
    let elem = cx.kernel.ty(x).elem();
    match kind {
        Min | Max | And | Or => Change::Value(x),
        Xor => Change::Constant(Literal::zero(elem)),
        Sub if !elem.is_float() => Change::Constant(Literal::zero(elem)),
        Add | Sub | Mul | Div | FastDiv | Rem | Shl | Shr | Pow | Atan2 => Change::None,
    }
}

/// `a kind c`, of integers and bools; `b` is the value that is `c`.
fn int_by_constant(cx: &mut Cursor<'_>, kind: BinaryOp, a: Value, b: Value, c: Literal) -> Change {
    use BinaryOp::*;
    let elem = c.elem();
    let (zero, one) = (Literal::zero(elem), Literal::one(elem));
    let ones = Literal::from_bits(elem, u64::MAX);
    let become_ = |kind, operands: [Value; 2]| Change::Become(OpKind::Binary(kind), operands.to_vec());
    let unsigned = matches!(elem, Scalar::U32 | Scalar::U64);
    match kind {
        Add | Sub | Or | Xor | Shl | Shr if c == zero => Change::Value(a),
        Mul | Div if c == one => Change::Value(a),
        Mul | And if c == zero => Change::Constant(zero),
        Mul if c == ones && elem.is_signed() => Change::Become(OpKind::Unary(UnaryOp::Neg), vec![a]),
        Rem if c == one => Change::Constant(zero),
        And if c == ones => Change::Value(a),
        Or if c == ones => Change::Constant(ones),
        Xor if c == ones => Change::Become(OpKind::Unary(UnaryOp::Not), vec![a]),
        // Differences of signed integers are sums, so that constants meet.
        Sub if elem.is_signed() => match eval::unary(UnaryOp::Neg, c) {
            Some(minus) => {
                let minus = cx.constant_like(b, minus);
                become_(Add, [a, minus])
            }
            None => Change::None,
        },
        Add | Mul | And | Or | Xor | Min | Max => match binary_def(cx.kernel, a, kind) {
            Some((x, d)) => match cx.kernel.as_const(d).and_then(|d| eval::binary(kind, c, d)) {
                Some(both) => {
                    let both = cx.constant_like(b, both);
                    become_(kind, [x, both])
                }
                None => Change::None,
            },
            None => Change::None,
        },
        Div if unsigned && c.bits().is_power_of_two() => {
            let amount = Literal::from_bits(elem, u64::from(c.bits().trailing_zeros()));
            let amount = cx.constant_like(b, amount);
            become_(Shr, [a, amount])
        }
        Rem if unsigned && c.bits().is_power_of_two() => {
            let mask = cx.constant_like(b, Literal::from_bits(elem, c.bits() - 1));
            become_(And, [a, mask])
        }
        Sub | Div | FastDiv | Rem | Shl | Shr | Pow | Atan2 => Change::None,
    }
}

/// `a kind c`, of floats, where it holds for every `a`.
fn float_by_constant(cx: &mut Cursor<'_>, kind: BinaryOp, a: Value, b: Value, c: Literal) -> Change {
    use BinaryOp::*;
    let elem = c.elem();
    let (one, zero) = (Literal::one(elem), Literal::zero(elem));
    let minus_zero = eval::unary(UnaryOp::Neg, zero);
    match kind {
        Mul | Div | FastDiv if c == one => Change::Value(a),
        // `x + 0` is not `x` for a negative zero; these two are.
        Add if Some(c) == minus_zero => Change::Value(a),
        Sub if c == zero => Change::Value(a),
        Div | FastDiv => match exact_reciprocal(c) {
            Some(reciprocal) => {
                let reciprocal = cx.constant_like(b, reciprocal);
                Change::Become(OpKind::Binary(Mul), vec![a, reciprocal])
            }
            None => Change::None,
        },
        Add | Sub | Mul | Rem | Min | Max | And | Or | Xor | Shl | Shr | Pow | Atan2 => Change::None,
    }
}

/// 1 / c, if both are powers of two that are normal in their type: dividing by one is multiplying
/// by the other.
fn exact_reciprocal(c: Literal) -> Option<Literal> {
    let reciprocal = Literal::from_f64(c.elem(), 1.0 / c.as_f64());
    let least_normal = match c.elem() {
        Scalar::F16 => 2f64.powi(-14),
        Scalar::BF16 | Scalar::F32 => 2f64.powi(-126),
        _ => 2f64.powi(-1022),
    };
    let exact = |l: Literal| {
        let v = l.as_f64();
        v.is_finite() && v.abs() >= least_normal && v.to_bits().trailing_zeros() >= 52
    };
    (exact(c) && exact(reciprocal)).then_some(reciprocal)
}

pub(super) fn compare(cx: &mut Cursor<'_>, kind: CompareOp, a: Value, b: Value) -> Change {
    let elem = cx.kernel.ty(a).elem();
    match (cx.kernel.as_const(a), cx.kernel.as_const(b)) {
        (Some(x), Some(y)) => Change::Constant(eval::compare(kind, x, y)),
        (Some(_), None) => Change::Become(OpKind::Compare(mirrored(kind)), vec![b, a]),
        (None, Some(y)) if elem == Scalar::Bool => {
            if y.is_true() == (kind == CompareOp::Eq) {
                Change::Value(a)
            } else {
                Change::Become(OpKind::Unary(UnaryOp::Not), vec![a])
            }
        }
        (None, None) if a == b && !elem.is_float() => {
            Change::Constant(Literal::bool(matches!(kind, CompareOp::Eq | CompareOp::Le | CompareOp::Ge)))
        }
        (None, Some(y)) => compare_choice(cx.kernel, kind, a, y),
        _ => Change::None,
    }
}

/// A comparison with a selection of two constants is the selection's condition, its negation, or a
/// constant.
fn compare_choice(kernel: &Kernel, kind: CompareOp, choice: Value, with: Literal) -> Change {
    let Some(data) = kernel.defining_op(choice).filter(|data| data.kind == OpKind::Select) else {
        return Change::None;
    };
    let holds = |choice: Value| {
        let known = kernel.as_const(choice)?;
        Some(eval::compare(kind, known, with).is_true())
    };
    match (holds(data.if_true()), holds(data.if_false())) {
        (Some(a), Some(b)) if a == b => Change::Constant(Literal::bool(a)),
        (Some(true), Some(_)) => Change::Value(data.condition()),
        (Some(false), Some(_)) => Change::Become(OpKind::Unary(UnaryOp::Not), vec![data.condition()]),
        _ => Change::None,
    }
}

/// The comparison with its operands changed over.
fn mirrored(kind: CompareOp) -> CompareOp {
    match kind {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        CompareOp::Eq => CompareOp::Eq,
        CompareOp::Ne => CompareOp::Ne,
    }
}

pub(super) fn select(cx: &mut Cursor<'_>, cond: Value, a: Value, b: Value) -> Change {
    if let Some(known) = cx.kernel.as_const(cond) {
        return Change::Value(if known.is_true() { a } else { b });
    }
    if a == b {
        return Change::Value(a);
    }
    if let Some(inner) = unary_def(cx.kernel, cond, UnaryOp::Not) {
        return Change::Become(OpKind::Select, vec![inner, b, a]);
    }
    if cx.kernel.ty(a).elem() != Scalar::Bool {
        return Change::None;
    }
    // Of bools, a selection is logic.
    let logic = |kind, x| Change::Become(OpKind::Binary(kind), vec![cond, x]);
    let known = |cx: &Cursor<'_>, v| cx.kernel.as_const(v).map(Literal::is_true);
    match (known(cx, a), known(cx, b)) {
        (Some(true), Some(false)) => Change::Value(cond),
        (Some(false), Some(true)) => Change::Become(OpKind::Unary(UnaryOp::Not), vec![cond]),
        (_, Some(false)) => logic(BinaryOp::And, a),
        (Some(true), _) => logic(BinaryOp::Or, b),
        _ => Change::None,
    }
}

pub(super) fn fma(cx: &mut Cursor<'_>, a: Value, b: Value, c: Value) -> Change {
    let [x, y, z] = [a, b, c].map(|v| cx.kernel.as_const(v));
    if let (Some(x), Some(y), Some(z)) = (x, y, z)
        && let Some(literal) = eval::fma(x, y, z)
    {
        return Change::Constant(literal);
    }
    let elem = cx.kernel.ty(a).elem();
    let (zero, one) = (Some(Literal::zero(elem)), Some(Literal::one(elem)));
    let sum = |x, y| Change::Become(OpKind::Binary(BinaryOp::Add), vec![x, y]);
    // For GPUs sums of 16-bit floats are expanded, and multiply-adds are not: this may come after.
    let is_half = matches!(elem, Scalar::F16 | Scalar::BF16);
    if y == one && !is_half {
        return sum(a, c);
    }
    if x == one && !is_half {
        return sum(b, c);
    }
    if !elem.is_float() && (x == zero || y == zero) {
        return Change::Value(c);
    }
    if !elem.is_float() && z == zero {
        return Change::Become(OpKind::Binary(BinaryOp::Mul), vec![a, b]);
    }
    Change::None
}
