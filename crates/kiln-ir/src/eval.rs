//! What element-wise operations compute, one element at a time. The interpreter and constant folding share it, so that
//! folding changes no bit.
//!
//! Floats of up to 32 bits are computed in f64 and rounded once: f64 has more than twice their precision, so sums, products,
//! quotients and roots come out as if rounded directly. Transcendental functions are those of the `libm` crate and therefore
//! the same on every host.

use crate::literal::Literal;
use crate::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use crate::types::Scalar;
use std::cmp::Ordering;

/// A unary operation; `None` if the element type has no such operation.
///
/// ```
/// use kiln_ir::{Literal, UnaryOp, eval};
/// assert_eq!(eval::unary(UnaryOp::Round, Literal::f32(2.5)), Some(Literal::f32(2.0)));
/// assert_eq!(eval::unary(UnaryOp::Clz, Literal::index(1)), Some(Literal::index(63)));
/// assert_eq!(eval::unary(UnaryOp::Sqrt, Literal::index(4)), None);
/// ```
pub fn unary(op: UnaryOp, x: Literal) -> Option<Literal> {
    let elem = x.elem();
    if elem.is_float() { unary_float(op, x) } else { unary_bits(op, x) }
}

fn unary_bits(op: UnaryOp, x: Literal) -> Option<Literal> {
    let elem = x.elem();
    let width = 8 * elem.bytes();
    Some(match op {
        UnaryOp::Neg => Literal::wrapping(elem, -x.as_i128()),
        UnaryOp::Abs => Literal::wrapping(elem, x.as_i128().abs()),
        UnaryOp::Not if elem == Scalar::Bool => Literal::bool(x.bits() == 0),
        UnaryOp::Not => Literal::from_bits(elem, !x.bits()),
        UnaryOp::Popcount => Literal::from_bits(elem, u64::from(x.bits().count_ones())),
        UnaryOp::Clz => Literal::from_bits(elem, u64::from(x.bits().leading_zeros() - (64 - width))),
        UnaryOp::IsNan
        | UnaryOp::Exp
        | UnaryOp::Exp2
        | UnaryOp::Log
        | UnaryOp::Log2
        | UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Recip
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Tanh
        | UnaryOp::Erf
        | UnaryOp::Sigmoid
        | UnaryOp::Floor
        | UnaryOp::Ceil
        | UnaryOp::Round
        | UnaryOp::Trunc => return None,
    })
}

fn unary_float(op: UnaryOp, x: Literal) -> Option<Literal> {
    let elem = x.elem();
    let sign = 1u64 << (8 * elem.bytes() - 1);
    Some(match op {
        // On bits, so that they reach the sign of NaN.
        UnaryOp::Neg => Literal::from_bits(elem, x.bits() ^ sign),
        UnaryOp::Abs => Literal::from_bits(elem, x.bits() & !sign),
        UnaryOp::IsNan => Literal::bool(x.as_f64().is_nan()),
        _ => Literal::from_f64(elem, float_function(op)?(x.as_f64())),
    })
}

/// The function of one f64 that a float operation rounds to its element type; `None` for operations
/// that are not functions of that kind.
///
/// ```
/// use kiln_ir::{UnaryOp, eval};
/// let sigmoid = eval::float_function(UnaryOp::Sigmoid).unwrap();
/// assert!(sigmoid(-740.0) > 0.0);
/// assert!(eval::float_function(UnaryOp::Popcount).is_none());
/// ```
pub fn float_function(op: UnaryOp) -> Option<fn(f64) -> f64> {
    Some(match op {
        UnaryOp::Exp => libm::exp,
        UnaryOp::Exp2 => libm::exp2,
        UnaryOp::Log => libm::log,
        UnaryOp::Log2 => libm::log2,
        UnaryOp::Sqrt => f64::sqrt,
        UnaryOp::Rsqrt => |x| 1.0 / x.sqrt(),
        UnaryOp::Recip => |x| 1.0 / x,
        UnaryOp::Sin => libm::sin,
        UnaryOp::Cos => libm::cos,
        UnaryOp::Tanh => libm::tanh,
        UnaryOp::Erf => libm::erf,
        UnaryOp::Sigmoid => sigmoid,
        UnaryOp::Floor => f64::floor,
        UnaryOp::Ceil => f64::ceil,
        UnaryOp::Round => f64::round_ties_even,
        UnaryOp::Trunc => f64::trunc,
        UnaryOp::Neg | UnaryOp::Abs | UnaryOp::IsNan | UnaryOp::Not | UnaryOp::Popcount | UnaryOp::Clz => {
            return None;
        }
    })
}

/// `1 / (1 + e^-x)`. The exponential is of a negative number, so that it cannot overflow: below -709
/// the result is as small as the exponential, and not zero.
fn sigmoid(x: f64) -> f64 {
    let e = libm::exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// A binary operation on operands of one type; `None` is the fault of an integer division by zero, or
/// that the element type has no such operation.
///
/// ```
/// use kiln_ir::{BinaryOp, Literal, eval};
/// let nan = Literal::f32(f32::NAN);
/// assert_eq!(eval::binary(BinaryOp::Min, nan, Literal::f32(1.0)), Some(Literal::f32(1.0)));
/// assert_eq!(eval::binary(BinaryOp::Div, Literal::index(1), Literal::index(0)), None);
/// ```
pub fn binary(op: BinaryOp, a: Literal, b: Literal) -> Option<Literal> {
    if a.elem().is_float() { binary_float(op, a, b) } else { binary_bits(op, a, b) }
}

fn binary_bits(op: BinaryOp, a: Literal, b: Literal) -> Option<Literal> {
    let elem = a.elem();
    let (x, y) = (a.as_i128(), b.as_i128());
    let amount = (b.bits() as u32) & (8 * elem.bytes() - 1);
    let value = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x.wrapping_mul(y),
        BinaryOp::Div => x.checked_div(y)?,
        BinaryOp::Rem => x.checked_rem(y)?,
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::Shl => x << amount,
        BinaryOp::Shr => x >> amount,
        BinaryOp::FastDiv | BinaryOp::Pow | BinaryOp::Atan2 => return None,
    };
    Some(Literal::wrapping(elem, value))
}

fn binary_float(op: BinaryOp, a: Literal, b: Literal) -> Option<Literal> {
    let (x, y) = (a.as_f64(), b.as_f64());
    let value = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div | BinaryOp::FastDiv => x / y,
        BinaryOp::Rem => x % y,
        BinaryOp::Min => return Some(if y.is_nan() || below(a, b) { a } else { b }),
        BinaryOp::Max => return Some(if y.is_nan() || below(b, a) { a } else { b }),
        BinaryOp::Pow => libm::pow(x, y),
        BinaryOp::Atan2 => libm::atan2(x, y),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => return None,
    };
    let value = match a.elem() {
        // As devices compute them: in f32, which matters to bf16 numbers that are subnormal there.
        Scalar::F16 | Scalar::BF16 if !matches!(op, BinaryOp::Pow | BinaryOp::Atan2) => {
            f64::from(value as f32)
        }
        _ => value,
    };
    Some(Literal::from_f64(a.elem(), value))
}

/// A comparison of operands of one type.
pub fn compare(op: CompareOp, a: Literal, b: Literal) -> Literal {
    let order = if a.elem().is_float() {
        a.as_f64().partial_cmp(&b.as_f64())
    } else {
        Some(a.as_i128().cmp(&b.as_i128()))
    };
    Literal::bool(match op {
        CompareOp::Eq => order == Some(Ordering::Equal),
        CompareOp::Ne => order != Some(Ordering::Equal),
        CompareOp::Lt => order == Some(Ordering::Less),
        CompareOp::Le => order.is_some_and(Ordering::is_le),
        CompareOp::Gt => order == Some(Ordering::Greater),
        CompareOp::Ge => order.is_some_and(Ordering::is_ge),
    })
}

/// `a * b + c`, rounded once.
///
/// ```
/// use kiln_ir::{Literal, eval};
/// let near = Literal::f32(1.0 + f32::EPSILON); // its square needs twice the bits
/// let minus = Literal::f32(-(1.0 + 2.0 * f32::EPSILON));
/// assert_eq!(eval::fma(near, near, minus), Literal::f32(f32::EPSILON * f32::EPSILON));
/// ```
pub fn fma(a: Literal, b: Literal, c: Literal) -> Literal {
    let elem = a.elem();
    match elem {
        Scalar::F64 => Literal::from_f64(elem, a.as_f64().mul_add(b.as_f64(), c.as_f64())),
        Scalar::F32 => {
            let f = |l: Literal| f32::from_bits(l.bits() as u32);
            Literal::f32(f(a).mul_add(f(b), f(c)))
        }
        // The product of 16-bit floats is exact; the sum is rounded to odd, so that the second rounding is the only one.
        Scalar::F16 | Scalar::BF16 => {
            Literal::from_f64(elem, sum_to_odd(a.as_f64() * b.as_f64(), c.as_f64()))
        }
        Scalar::Bool
        | Scalar::I8
        | Scalar::U8
        | Scalar::I32
        | Scalar::U32
        | Scalar::I64
        | Scalar::U64
        | Scalar::E4M3
        | Scalar::E5M2 => {
            Literal::wrapping(elem, a.as_i128().wrapping_mul(b.as_i128()).wrapping_add(c.as_i128()))
        }
    }
}

/// `x + y`, where an inexact sum gets a last bit of 1.
fn sum_to_odd(x: f64, y: f64) -> f64 {
    let sum = x + y;
    let y_part = sum - x;
    let error = (x - (sum - y_part)) + (y - y_part); // Knuth's two-sum
    if error == 0.0 || !error.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // An even sum is off by `error`: the odd neighbour on that side stands for everything between the two.
    let away_from_zero = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away_from_zero { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

/// Converts to another element type, as Rust's `as`; to bool is `!= 0`.
///
/// ```
/// use kiln_ir::{Literal, Scalar, eval};
/// assert_eq!(eval::cast(Literal::f32(-1.5), Scalar::U32), Literal::zero(Scalar::U32));
/// assert_eq!(eval::cast(Literal::f32(f32::NAN), Scalar::Bool), Literal::bool(true));
/// assert_eq!(eval::cast(Literal::index(-1), Scalar::U32).as_i128(), u32::MAX as i128);
/// ```
pub fn cast(x: Literal, elem: Scalar) -> Literal {
    match (x.elem().is_float(), elem) {
        (true, Scalar::Bool) => Literal::bool(x.as_f64() != 0.0),
        (false, Scalar::Bool) => Literal::bool(x.bits() != 0),
        (true, _) => Literal::from_f64(elem, x.as_f64()),
        (false, _) => Literal::wrapping(elem, x.as_i128()),
    }
}

/// The same bits as another element type of the same size.
pub fn bitcast(x: Literal, elem: Scalar) -> Literal {
    Literal::from_bits(elem, x.bits())
}

/// The element-wise operation that a reduction repeats; `None` for those that give an index.
pub fn combination(op: ReduceOp) -> Option<BinaryOp> {
    Some(match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Min => BinaryOp::Min,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::And => BinaryOp::And,
        ReduceOp::Or => BinaryOp::Or,
        ReduceOp::Xor => BinaryOp::Xor,
        ReduceOp::ArgMin | ReduceOp::ArgMax => return None,
    })
}

/// What a reduction begins with: combined with any number, it gives the number.
///
/// ```
/// use kiln_ir::{Literal, ReduceOp, Scalar, eval};
/// assert_eq!(eval::identity(ReduceOp::Max, Scalar::I32).as_i128(), i32::MIN as i128);
/// assert_eq!(eval::identity(ReduceOp::Min, Scalar::F32), Literal::f32(f32::INFINITY));
/// ```
pub fn identity(op: ReduceOp, elem: Scalar) -> Literal {
    match op {
        ReduceOp::Sum | ReduceOp::Or | ReduceOp::Xor => Literal::zero(elem),
        ReduceOp::Prod => Literal::one(elem),
        ReduceOp::And => Literal::from_bits(elem, u64::MAX),
        ReduceOp::Min | ReduceOp::ArgMin => greatest(elem, false),
        ReduceOp::Max | ReduceOp::ArgMax => greatest(elem, true),
    }
}

/// The greatest value of a type, infinity for floats; `negative` gives the least.
fn greatest(elem: Scalar, negative: bool) -> Literal {
    if elem.is_float() {
        return Literal::from_f64(elem, if negative { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    let width = 8 * elem.bytes();
    let bits = match (elem, negative) {
        (Scalar::Bool, _) => u64::from(!negative),
        (Scalar::I8 | Scalar::I32 | Scalar::I64, false) => u64::MAX >> (65 - width),
        (Scalar::I8 | Scalar::I32 | Scalar::I64, true) => 1 << (width - 1),
        (_, false) => u64::MAX,
        (_, true) => 0,
    };
    Literal::from_bits(elem, bits)
}

/// Whether `a` is less than `b`, or a negative zero beside a zero; never of NaN.
fn below(a: Literal, b: Literal) -> bool {
    let (x, y) = (a.as_f64(), b.as_f64());
    x < y || (x == y && x.is_sign_negative())
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    fn f16_of(bits: u16) -> Literal {
        Literal::from_bits(Scalar::F16, u64::from(bits))
    }

    #[test]
    fn integers_agree_with_rust() {
        let values = [0i32, 1, -1, 7, -8, 31, 33, i32::MAX, i32::MIN, 0x1234_5678];
        let lit = |v: i32| Literal::wrapping(Scalar::I32, v as i128);
        let ulit = |v: u32| Literal::wrapping(Scalar::U32, v as i128);
        for a in values {
            assert_eq!(unary(UnaryOp::Neg, lit(a)), Some(lit(a.wrapping_neg())));
            assert_eq!(unary(UnaryOp::Abs, lit(a)), Some(lit(a.wrapping_abs())));
            assert_eq!(unary(UnaryOp::Not, lit(a)), Some(lit(!a)));
            assert_eq!(unary(UnaryOp::Clz, lit(a)), Some(lit(a.leading_zeros() as i32)));
            assert_eq!(unary(UnaryOp::Popcount, lit(a)), Some(lit(a.count_ones() as i32)));
            for b in values {
                let (ua, ub) = (a as u32, b as u32);
                let check = |op, signed: Option<i32>, unsigned: Option<u32>| {
                    assert_eq!(binary(op, lit(a), lit(b)), signed.map(lit), "{op:?} {a} {b}");
                    assert_eq!(binary(op, ulit(ua), ulit(ub)), unsigned.map(ulit), "{op:?} {ua} {ub}");
                };
                check(BinaryOp::Add, Some(a.wrapping_add(b)), Some(ua.wrapping_add(ub)));
                check(BinaryOp::Sub, Some(a.wrapping_sub(b)), Some(ua.wrapping_sub(ub)));
                check(BinaryOp::Mul, Some(a.wrapping_mul(b)), Some(ua.wrapping_mul(ub)));
                let div = (b != 0).then(|| a.wrapping_div(b));
                check(BinaryOp::Div, div, ua.checked_div(ub));
                check(BinaryOp::Rem, (b != 0).then(|| a.wrapping_rem(b)), ua.checked_rem(ub));
                check(BinaryOp::Shl, Some(a.wrapping_shl(ub)), Some(ua.wrapping_shl(ub)));
                check(BinaryOp::Shr, Some(a.wrapping_shr(ub)), Some(ua.wrapping_shr(ub)));
                check(BinaryOp::Max, Some(a.max(b)), Some(ua.max(ub)));
            }
        }
    }

    #[test]
    fn f32_agrees_with_the_processor() {
        let values = [0.0f32, -0.0, 1.0, -1.5, 1e-45, 3.4e38, 1e-38, f32::INFINITY, 0.1, 7.25, 1.0e10];
        for a in values {
            let root = Literal::f32(a.abs().sqrt());
            assert_eq!(unary(UnaryOp::Sqrt, Literal::f32(a.abs())), Some(root));
            for b in values {
                let check = |op, expected: f32| {
                    let got =
                        binary(op, Literal::f32(a), Literal::f32(b)).map(|l| f32::from_bits(l.bits() as u32));
                    let same = got.is_some_and(|g| {
                        g.to_bits() == expected.to_bits() || g.is_nan() && expected.is_nan()
                    });
                    assert!(same, "{op:?} {a} {b}: {got:?}, expected {expected}");
                };
                check(BinaryOp::Add, a + b);
                check(BinaryOp::Sub, a - b);
                check(BinaryOp::Mul, a * b);
                check(BinaryOp::Div, a / b);
                check(BinaryOp::Rem, a % b);
            }
        }
    }

    /// Against exact rational arithmetic: a finite f16 is an integer times 2^-24, so a product is one times 2^-48.
    #[test]
    fn f16_fma_rounds_once() {
        let units = |l: Literal| (l.as_f64() * 16_777_216.0) as i128;
        let mut state = 1u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let [a, b, c] = [16, 32, 48].map(|s| f16_of((state >> s) as u16));
            if [a, b, c].iter().any(|l| !l.as_f64().is_finite()) {
                continue;
            }
            let exact = units(a) * units(b) + (units(c) << 24);
            let got = fma(a, b, c);
            // The nearest f16: no neighbour is closer, and a tie has an even last bit.
            let distance = |l: Literal| (exact - (units(l) << 24)).abs();
            if !got.as_f64().is_finite() {
                assert!(exact.abs() >= (65520i128 << 48), "{a} * {b} + {c} = {got}");
                continue;
            }
            for neighbour in [got.bits().wrapping_sub(1), got.bits() + 1] {
                let neighbour = f16_of(neighbour as u16);
                if neighbour.as_f64().is_finite() {
                    let (near, far) = (distance(got), distance(neighbour));
                    assert!(near < far || near == far && got.bits() & 1 == 0, "{a} * {b} + {c} = {got}");
                }
            }
        }
    }

    #[test]
    fn casts_round_once() {
        // Halfway between two f16 but for the last bit of the f64.
        let above = f64::from_bits((1.0 + 2f64.powi(-11)).to_bits() + 1);
        assert_eq!(Literal::from_f64(Scalar::F16, above).bits(), u64::from(f16::ONE.to_bits() + 1));
        let above = f64::from_bits((1.0 + 2f64.powi(-8)).to_bits() + 1);
        assert_eq!(Literal::from_f64(Scalar::BF16, above).bits(), u64::from(bf16::ONE.to_bits() + 1));
        // Halfway between two f32 but for the last bit of the i64.
        let big = (1i64 << 62) + (1 << 38) + 1;
        assert_eq!(cast(Literal::index(big), Scalar::F32), Literal::f32(big as f32));
        let big = (1i64 << 62) + (1 << 54) + 1;
        assert_eq!(
            cast(Literal::index(big), Scalar::BF16).as_f64(),
            (1i64 << 62) as f64 * (1.0 + 1.0 / 128.0)
        );
        for v in [i64::MIN, i64::MAX, -1, 0, 1, 1 << 53] {
            assert_eq!(cast(Literal::index(v), Scalar::F32), Literal::f32(v as f32));
            assert_eq!(cast(Literal::index(v), Scalar::F64).as_f64(), v as f64);
            assert_eq!(cast(Literal::index(v), Scalar::I32).as_i128(), (v as i32) as i128);
        }
        assert_eq!(cast(Literal::f32(1e20), Scalar::I32).as_i128(), i32::MAX as i128);
        assert_eq!(cast(Literal::f32(f32::NAN), Scalar::I64).as_i128(), 0);
    }

    /// Values from tables and series of high precision, not from this machine's functions.
    #[test]
    fn extremes_of_functions_are_those_of_the_tables() {
        let smallest = f64::from_bits(1);
        // (operation, argument, value, the relative error that is allowed; of subnormals, in units of the smallest one)
        let table = [
            // sigmoid(-x) = e^-x / (1 + e^-x), and e^-x to 17 digits
            (UnaryOp::Sigmoid, -700.0, 9.859_676_543_759_77e-305),
            (UnaryOp::Sigmoid, -709.0, 1.216_780_750_623_423e-308),
            (UnaryOp::Sigmoid, -710.0, 4.476_286_225_675_13e-309),
            (UnaryOp::Sigmoid, -720.0, 2.032_230_802_424_29e-313),
            (UnaryOp::Sigmoid, -745.0, smallest),
            (UnaryOp::Sigmoid, -746.0, 0.0),
            (UnaryOp::Sigmoid, -37.0, 8.533_047_625_744_065e-17),
            (UnaryOp::Sigmoid, -1.0, 0.268_941_421_369_995_1),
            (UnaryOp::Sigmoid, 1.0, 0.731_058_578_630_004_9),
            (UnaryOp::Sigmoid, 800.0, 1.0),
            (UnaryOp::Exp, -745.0, smallest),
            (UnaryOp::Exp, 709.0, 8.218_407_461_554_972e307),
            (UnaryOp::Exp2, -1074.0, smallest),
            (UnaryOp::Log, 5e-324, -744.440_071_921_381_2),
            (UnaryOp::Log2, 5e-324, -1074.0),
            (UnaryOp::Tanh, 1e-300, 1e-300),
            (UnaryOp::Tanh, 0.5, 0.462_117_157_260_009_76),
            (UnaryOp::Tanh, -30.0, -1.0),
            // Abramowitz and Stegun, table 7.1, and the series to 16 digits
            (UnaryOp::Erf, 0.1, 0.112_462_916_018_284_9),
            (UnaryOp::Erf, 0.5, 0.520_499_877_813_046_5),
            (UnaryOp::Erf, 1.0, 0.842_700_792_949_714_9),
            (UnaryOp::Erf, 2.0, 0.995_322_265_018_952_7),
            (UnaryOp::Erf, -3.0, -0.999_977_909_503_001_4),
            (UnaryOp::Erf, 1e-300, 1.128_379_167_095_512_6e-300),
            (UnaryOp::Erf, 6.0, 1.0),
            (UnaryOp::Rsqrt, smallest, 4.498_913_794_543_196_4e161),
        ];
        for (op, x, want) in table {
            let got = unary(op, Literal::from_f64(Scalar::F64, x)).map(Literal::as_f64).unwrap_or(f64::NAN);
            let close = (got - want).abs() <= want.abs() * 1e-15 + smallest;
            assert!(close, "{op:?}({x}) = {got:e}, not {want:e}");
        }
    }

    #[test]
    fn operations_of_other_types_are_not_folded() {
        for op in [UnaryOp::Exp, UnaryOp::Floor, UnaryOp::IsNan, UnaryOp::Sigmoid] {
            assert_eq!(unary(op, Literal::index(3)), None, "{op:?}");
        }
        for op in [UnaryOp::Not, UnaryOp::Popcount, UnaryOp::Clz] {
            assert_eq!(unary(op, Literal::f32(3.0)), None, "{op:?}");
        }
        assert_eq!(binary(BinaryOp::Pow, Literal::index(3), Literal::index(3)), None);
        assert_eq!(binary(BinaryOp::Xor, Literal::f32(3.0), Literal::f32(1.0)), None);
    }

    #[test]
    fn nan_and_zeros_in_extrema_and_comparisons() {
        let (nan, one) = (Literal::f32(f32::NAN), Literal::f32(1.0));
        let (plus, minus) = (Literal::f32(0.0), Literal::f32(-0.0));
        for op in [BinaryOp::Min, BinaryOp::Max] {
            assert_eq!(binary(op, nan, one), Some(one));
            assert_eq!(binary(op, one, nan), Some(one));
            assert!(binary(op, nan, nan).is_some_and(|l| l.as_f64().is_nan()));
        }
        assert_eq!(binary(BinaryOp::Min, plus, minus), Some(minus));
        assert_eq!(binary(BinaryOp::Max, minus, plus), Some(plus));
        assert_eq!(binary(BinaryOp::Max, plus, minus), Some(plus));
        for op in CompareOp::ALL {
            assert_eq!(compare(*op, nan, one).is_true(), *op == CompareOp::Ne);
        }
        assert!(compare(CompareOp::Eq, plus, minus).is_true());
    }

    #[test]
    fn identities_leave_numbers_alone() {
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max] {
            for elem in Scalar::COMPUTED.into_iter().filter(|&e| e != Scalar::Bool) {
                for v in [0i128, 1, 100] {
                    let v = Literal::wrapping(elem, v);
                    let combined = combination(op).and_then(|b| binary(b, identity(op, elem), v));
                    assert_eq!(combined, Some(v), "{op:?} {elem}");
                }
            }
        }
    }
}
