//! What each operation means for one element, on bits, without a thought of speed.

use kiln_ir::{BinaryOp, CompareOp, MathFn, Scalar, UnaryOp};
use std::cmp::Ordering;
use std::sync::LazyLock;

/// The positive finite values of f16 and bf16 in order, as f64: the index is the bits.
static F16: LazyLock<Vec<f64>> = LazyLock::new(|| (0..0x7c00).map(|b| small_float(b, 10, 15)).collect());
static BF16: LazyLock<Vec<f64>> = LazyLock::new(|| (0..0x7f80).map(|b| small_float(b, 7, 127)).collect());

fn small_float(bits: u32, mantissa: u32, bias: i32) -> f64 {
    let (exponent, fraction) = ((bits >> mantissa) as i32, (bits & ((1 << mantissa) - 1)) as f64);
    let fraction = fraction / (1u32 << mantissa) as f64;
    if exponent == 0 { fraction * 2f64.powi(1 - bias) } else { (1.0 + fraction) * 2f64.powi(exponent - bias) }
}

/// The nearest of a table of values, ties to the even index; the index behind the last is infinity.
fn nearest(table: &[f64], x: f64) -> u64 {
    let above = table.partition_point(|&v| v < x);
    let last = table.len() - 1;
    let limit = table[last] + (table[last] - table[last - 1]) / 2.0;
    match above {
        0 => 0,
        i if i > last => last as u64 + (x >= limit) as u64,
        i => {
            let (down, up) = (x - table[i - 1], table[i] - x);
            let closer = down.partial_cmp(&up).expect("a number");
            (i - (closer == Ordering::Less || (closer == Ordering::Equal && i % 2 == 1)) as usize) as u64
        }
    }
}

/// The lowest bits, as many as the type has.
pub fn truncate(scalar: Scalar, bits: u64) -> u64 {
    match scalar {
        Scalar::Bool => bits & 1,
        _ => bits & (u64::MAX >> (64 - 8 * scalar.bytes())),
    }
}

/// An integer or bool.
pub fn to_int(scalar: Scalar, bits: u64) -> i128 {
    match scalar {
        Scalar::I32 => bits as i32 as i128,
        Scalar::I64 => bits as i64 as i128,
        _ => bits as i128,
    }
}

/// A float, exactly.
pub fn to_float(scalar: Scalar, bits: u64) -> f64 {
    let half = |table: &[f64], infinity: u64| {
        let magnitude = bits & 0x7fff;
        let value = match magnitude.cmp(&infinity) {
            Ordering::Less => table[magnitude as usize],
            Ordering::Equal => f64::INFINITY,
            Ordering::Greater => f64::NAN,
        };
        if bits >> 15 == 1 { -value } else { value }
    };
    match scalar {
        Scalar::F16 => half(&F16, 0x7c00),
        Scalar::BF16 => half(&BF16, 0x7f80),
        Scalar::F32 => f32::from_bits(bits as u32) as f64,
        _ => f64::from_bits(bits),
    }
}

/// The nearest float of the type.
pub fn from_float(scalar: Scalar, x: f64) -> u64 {
    let half = |table: &[f64], infinity: u64| {
        let magnitude = if x.is_nan() { infinity + 1 } else { nearest(table, x.abs()) };
        magnitude | (x.is_sign_negative() as u64) << 15
    };
    match scalar {
        Scalar::F16 => half(&F16, 0x7c00),
        Scalar::BF16 => half(&BF16, 0x7f80),
        Scalar::F32 => (x as f32).to_bits() as u64,
        _ => x.to_bits(),
    }
}

/// Any element as a number.
pub fn to_number(scalar: Scalar, bits: u64) -> f64 {
    if scalar.is_float() { to_float(scalar, bits) } else { to_int(scalar, bits) as f64 }
}

/// A number as any element.
pub fn from_number(scalar: Scalar, x: f64) -> u64 {
    if scalar.is_float() { from_float(scalar, x) } else { truncate(scalar, x as i128 as u64) }
}

/// Values at which things go wrong.
pub fn specials(scalar: Scalar) -> Vec<u64> {
    if !scalar.is_float() {
        let width = if scalar == Scalar::Bool { 1 } else { 8 * scalar.bytes() };
        let top = 1u64 << (width - 1);
        return [0, 1, 2, u64::MAX, u64::MAX - 1, top, top - 1, top + 1]
            .map(|b| truncate(scalar, b))
            .to_vec();
    }
    let infinity = from_float(scalar, f64::INFINITY);
    let mut positive = vec![0, 1, 2, infinity, infinity - 1, infinity + 1];
    let numbers =
        [0.5, 1.0, 1.5, 2.5, 3.5, 1.0 - 1e-3, 100.0, 88.7, 89.5, 104.5, 126.5, 150.0, 1e-5, 65504.0, 65520.0];
    positive.extend(numbers.map(|x| from_float(scalar, x)));
    positive.extend([2147483648.0, 4294967296.0, 9.3e18, 1.85e19, 1e-30].map(|x| from_float(scalar, x)));
    let sign = 1u64 << (8 * scalar.bytes() - 1);
    positive.iter().flat_map(|&b| [b, b | sign]).collect()
}

/// Whether two results of a type are the same: the same bits, or both NaN.
pub fn same(scalar: Scalar, a: u64, b: u64) -> bool {
    a == b || (scalar.is_float() && to_float(scalar, a).is_nan() && to_float(scalar, b).is_nan())
}

/// How many floats of the type lie between two.
pub fn distance(scalar: Scalar, a: u64, b: u64) -> u64 {
    if same(scalar, a, b) {
        return 0;
    }
    if to_float(scalar, a).is_nan() || to_float(scalar, b).is_nan() {
        return u64::MAX;
    }
    let sign = 1u64 << (8 * scalar.bytes() - 1);
    let order = |bits: u64| if bits & sign != 0 { -((bits ^ sign) as i128) } else { bits as i128 };
    (order(a) - order(b)).unsigned_abs() as u64
}

/// The result of a unary operation and by how many units it may be missed, if the operation is
/// defined.
pub fn unary(op: UnaryOp, scalar: Scalar, bits: u64) -> Option<(u64, u64)> {
    let width = 8 * scalar.bytes();
    if scalar == Scalar::Bool {
        return (op == UnaryOp::Not).then_some((1 - bits, 0));
    }
    if scalar.is_int() {
        let x = to_int(scalar, bits);
        let result = match op {
            UnaryOp::Neg => -x,
            UnaryOp::Not => !x,
            UnaryOp::Abs => x.abs(),
            UnaryOp::Popcount => (0..width).filter(|i| bits >> i & 1 == 1).count() as i128,
            UnaryOp::BitReverse => (0..width).map(|i| (bits >> i & 1) << (width - 1 - i)).sum::<u64>().into(),
            UnaryOp::Clz => (0..width).rev().take_while(|i| bits >> i & 1 == 0).count() as i128,
            _ => return None,
        };
        return Some((truncate(scalar, result as u64), 0));
    }
    let x = to_float(scalar, bits);
    // The 16-bit floats go through f32: its error can only tip a rounding.
    let slack = if scalar.bytes() == 2 { 1 } else { 2 };
    let (result, slack) = match op {
        UnaryOp::Neg => (-x, 0),
        UnaryOp::Abs => (x.abs(), 0),
        UnaryOp::Math(MathFn::Exp) => (x.exp(), slack),
        UnaryOp::Exp2 => (x.exp2(), slack),
        UnaryOp::Math(MathFn::Log) => (x.ln(), slack),
        UnaryOp::Math(MathFn::Log2) => (x.log2(), slack),
        UnaryOp::Math(MathFn::Log1p) => (x.ln_1p(), 2 * slack),
        UnaryOp::Sqrt => (x.sqrt(), 0),
        UnaryOp::Rsqrt => (1.0 / x.sqrt(), slack),
        UnaryOp::Recip => (1.0 / x, 0),
        UnaryOp::Math(MathFn::Sin) => (x.sin(), slack),
        UnaryOp::Math(MathFn::Cos) => (x.cos(), slack),
        UnaryOp::Math(MathFn::Tanh) => (x.tanh(), slack),
        UnaryOp::Math(MathFn::Erf) => (libm::erf(x), slack),
        UnaryOp::Math(MathFn::Sigmoid) if x < 0.0 => (x.exp() / (1.0 + x.exp()), slack),
        UnaryOp::Math(MathFn::Sigmoid) => (1.0 / (1.0 + (-x).exp()), slack),
        UnaryOp::Floor => (x.floor(), 0),
        UnaryOp::Ceil => (x.ceil(), 0),
        UnaryOp::Round => (x.round_ties_even(), 0),
        UnaryOp::Trunc => (x.trunc(), 0),
        UnaryOp::IsNan => return Some((x.is_nan() as u64, 0)),
        UnaryOp::Not | UnaryOp::Popcount | UnaryOp::Clz | UnaryOp::BitReverse => return None,
    };
    Some((from_float(scalar, result), slack))
}

/// The result of a binary operation and by how many units it may be missed, if the operation is
/// defined.
pub fn binary(op: BinaryOp, scalar: Scalar, a: u64, b: u64) -> Option<(u64, u64)> {
    if scalar.is_float() {
        return float_binary(op, scalar, to_float(scalar, a), to_float(scalar, b));
    }
    let (x, y) = (to_int(scalar, a), to_int(scalar, b));
    let logical = match op {
        BinaryOp::And => Some(x & y),
        BinaryOp::Or => Some(x | y),
        BinaryOp::Xor => Some(x ^ y),
        BinaryOp::Min => Some(x.min(y)),
        BinaryOp::Max => Some(x.max(y)),
        _ => None,
    };
    let amount = b % (8 * scalar.bytes()) as u64;
    let result = match op {
        _ if logical.is_some() => logical?,
        _ if scalar == Scalar::Bool => return None,
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x.wrapping_mul(y),
        BinaryOp::Div => x.checked_div(y).unwrap_or(0),
        BinaryOp::Rem => x.checked_rem(y).unwrap_or(0),
        BinaryOp::Shl => x << amount,
        BinaryOp::Shr => x >> amount,
        _ => return None,
    };
    Some((truncate(scalar, result as u64), 0))
}

fn float_binary(op: BinaryOp, scalar: Scalar, x: f64, y: f64) -> Option<(u64, u64)> {
    let slack = if scalar.bytes() == 2 { 1 } else { 2 };
    let (result, slack) = match op {
        BinaryOp::Add => (x + y, 0),
        BinaryOp::Sub => (x - y, 0),
        BinaryOp::Mul => (x * y, 0),
        BinaryOp::Div | BinaryOp::FastDiv => (x / y, 0),
        BinaryOp::Rem => (x % y, 0),
        BinaryOp::Min => (if x.is_nan() || y < x { y } else { x }, 0),
        BinaryOp::Max => (if x.is_nan() || y > x { y } else { x }, 0),
        BinaryOp::Pow => (x.powf(y), slack),
        BinaryOp::Atan2 => (x.atan2(y), slack),
        _ => return None,
    };
    Some((from_float(scalar, result), slack))
}

/// The result of a comparison.
pub fn compare(op: CompareOp, scalar: Scalar, a: u64, b: u64) -> u64 {
    let order = if scalar.is_float() {
        to_float(scalar, a).partial_cmp(&to_float(scalar, b))
    } else {
        Some(to_int(scalar, a).cmp(&to_int(scalar, b)))
    };
    let holds = match op {
        CompareOp::Eq => order == Some(Ordering::Equal),
        CompareOp::Ne => order != Some(Ordering::Equal),
        CompareOp::Lt => order == Some(Ordering::Less),
        CompareOp::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        CompareOp::Gt => order == Some(Ordering::Greater),
        CompareOp::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    };
    holds as u64
}

/// The result of a cast.
pub fn cast(from: Scalar, to: Scalar, bits: u64) -> u64 {
    if from == to {
        return bits;
    }
    if from.is_float() {
        let x = to_float(from, bits);
        match to {
            Scalar::Bool => (x != 0.0) as u64,
            Scalar::I32 => truncate(to, x as i32 as u64),
            Scalar::U32 => x as u32 as u64,
            Scalar::I64 => x as i64 as u64,
            Scalar::U64 => x as u64,
            _ => from_float(to, x),
        }
    } else {
        let x = to_int(from, bits);
        match to {
            Scalar::Bool => (x != 0) as u64,
            Scalar::F64 => (x as f64).to_bits(),
            Scalar::F32 => (x as f32).to_bits() as u64,
            // f64 does not hold every integer, but more than enough of one that is not halfway
            // between two 16-bit floats.
            Scalar::F16 | Scalar::BF16 => from_float(to, sticky(x)),
            _ => truncate(to, x as u64),
        }
    }
}

/// An integer as f64, rounded towards zero and to odd if that is inexact.
fn sticky(x: i128) -> f64 {
    let magnitude = x.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let kept = magnitude >> excess << excess;
    let value = (kept | ((kept != magnitude) as u128) << excess) as f64;
    if x < 0 { -value } else { value }
}
