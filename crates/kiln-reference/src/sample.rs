//! Element types as the host sees them: random values, and arithmetic that does not depend on
//! Kiln's.

use crate::Rng;
use half::{bf16, f16};
use kiln_lang::{E4M3, E5M2, Elem};

/// A value of any element type, wide enough to compute with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Host {
    /// An integer, or a bool as 0 or 1.
    Int(i128),
    /// A float.
    Float(f64),
}

#[expect(clippy::should_implement_trait, reason = "operations are passed by name, such as `Host::add`")]
impl Host {
    /// As a float, which may round.
    pub fn float(self) -> f64 {
        match self {
            Host::Int(n) => n as f64,
            Host::Float(x) => x,
        }
    }

    /// An operation in integers, which wrap when they are converted back, or in floats.
    pub fn with(self, other: Host, int: fn(i128, i128) -> i128, float: fn(f64, f64) -> f64) -> Host {
        match (self, other) {
            (Host::Int(a), Host::Int(b)) => Host::Int(int(a, b)),
            (a, b) => Host::Float(float(a.float(), b.float())),
        }
    }

    /// The sum.
    pub fn add(self, other: Host) -> Host {
        self.with(other, i128::wrapping_add, |a, b| a + b)
    }

    /// The difference.
    pub fn sub(self, other: Host) -> Host {
        self.with(other, i128::wrapping_sub, |a, b| a - b)
    }

    /// The product.
    pub fn mul(self, other: Host) -> Host {
        self.with(other, i128::wrapping_mul, |a, b| a * b)
    }

    /// The lesser.
    pub fn min(self, other: Host) -> Host {
        self.with(other, i128::min, f64::min)
    }

    /// The greater.
    pub fn max(self, other: Host) -> Host {
        self.with(other, i128::max, f64::max)
    }

    /// Whether this value is smaller.
    pub fn less(self, other: Host) -> bool {
        match (self, other) {
            (Host::Int(a), Host::Int(b)) => a < b,
            (a, b) => a.float() < b.float(),
        }
    }
}

/// The elements of a matrix by rows, of which `data` holds the rows, or where it is by columns the
/// columns, one after another.
pub fn by_rows<T: Sample>(data: &[T], [rows, columns]: [usize; 2], by_columns: bool) -> Vec<Host> {
    match by_columns {
        true => (0..rows * columns).map(|e| data[e % columns * rows + e / columns].host()).collect(),
        false => data.iter().map(|x| x.host()).collect(),
    }
}

/// An element type under test.
pub trait Sample: Elem {
    /// The distance from 1 to the next number; 0 for exact types.
    const EPSILON: f64;
    /// The bits of a value.
    const BITS: u32;
    /// Garbage: not a likely result.
    const POISON: Self;

    /// A random value: floats in -4..4, integers small or of any size.
    fn sample(rng: &mut Rng) -> Self;

    /// The value, exactly.
    fn host(self) -> Host;

    /// As Rust's `as` converts: integers wrap, floats round to nearest even, float to integer
    /// saturates; to bool is `!= 0`.
    fn from_host(value: Host) -> Self;

    /// A small integer, in the type.
    fn small(n: i32) -> Self {
        Self::from_host(Host::Int(i128::from(n)))
    }
}

impl Sample for bool {
    const EPSILON: f64 = 0.0;
    const BITS: u32 = 8;
    const POISON: bool = true;

    fn sample(rng: &mut Rng) -> bool {
        rng.below(2) == 1
    }

    fn host(self) -> Host {
        Host::Int(i128::from(self))
    }

    fn from_host(value: Host) -> bool {
        match value {
            Host::Int(n) => n != 0,
            Host::Float(x) => x != 0.0,
        }
    }
}

macro_rules! integers {
    ($($t:ty, $poison:expr;)*) => {$(
        impl Sample for $t {
            const EPSILON: f64 = 0.0;
            const BITS: u32 = <$t>::BITS;
            const POISON: $t = $poison;

            fn sample(rng: &mut Rng) -> $t {
                let bits = rng.bits();
                match rng.below(4) {
                    0 => bits as $t,
                    _ => ((bits % 201) as i64 - 100) as $t,
                }
            }

            fn host(self) -> Host {
                Host::Int(self as i128)
            }

            fn from_host(value: Host) -> $t {
                match value {
                    Host::Int(n) => n as $t,
                    Host::Float(x) => x as $t,
                }
            }
        }
    )*};
}
integers! { i32, -0x5a5a_5a5b; u32, 0x5a5a_5a5b; i64, -0x5a5a_5a5a_5a5a_5a5b; u64, 0x5a5a_5a5a_5a5a_5a5b; i8, -0x5b; u8, 0x5b; i16, -0x5a5b; u16, 0x5a5b; }

macro_rules! floats {
    ($($t:ty, $epsilon:expr, $bits:literal, $poison:expr, |$n:ident| $int:expr, |$x:ident| $float:expr;)*) => {$(
        impl Sample for $t {
            const EPSILON: f64 = $epsilon;
            const BITS: u32 = $bits;
            const POISON: $t = $poison;

            fn sample(rng: &mut Rng) -> $t {
                let $x = rng.between(-4.0, 4.0);
                $float
            }

            fn host(self) -> Host {
                Host::Float(f64::from(self))
            }

            fn from_host(value: Host) -> $t {
                match value {
                    Host::Int($n) => $int,
                    Host::Float($x) => $float,
                }
            }
        }
    )*};
}
floats! {
    f16, 1.0 / 1024.0, 16, f16::from_f64_const(-7777.0), |n| nearest_f16(n as f64), |x| nearest_f16(x);
    bf16, 1.0 / 128.0, 16, bf16::from_f64_const(-7777.0), |n| nearest_bf16(n as f64), |x| nearest_bf16(x);
    f32, f32::EPSILON as f64, 32, -7777.7, |n| n as f32, |x| x as f32;
    f64, f64::EPSILON, 64, -7777.7, |n| n as f64, |x| x;
}

/// `half` rounds doubles from their upper 32 bits, which breaks ties that are none: the neighbors
/// of its result are looked at too.
fn nearest_f16(x: f64) -> f16 {
    let value = |bits| f64::from(f16::from_bits(bits));
    f16::from_bits(nearest(x, f16::from_f64(x).to_bits(), 65536.0, value))
}

fn nearest_bf16(x: f64) -> bf16 {
    let value = |bits| f64::from(bf16::from_bits(bits));
    bf16::from_bits(nearest(x, bf16::from_f64(x).to_bits(), 128f64.exp2(), value))
}

/// The bits of the number nearest to `x`, of two the even one; `limit` is where the next number
/// would be if there were no infinity.
fn nearest(x: f64, guess: u16, limit: f64, value: impl Fn(u16) -> f64) -> u16 {
    if !x.is_finite() {
        return guess;
    }
    let (sign, magnitude) = (guess & 0x8000, guess & 0x7fff);
    let distance = |m: u16| (value(m).min(limit) - x.abs()).abs();
    let neighbors = magnitude.saturating_sub(1)..=magnitude + 1;
    let finite = neighbors.filter(|&m| !value(m).is_nan());
    let order = |a: &u16, b: &u16| distance(*a).total_cmp(&distance(*b)).then((a & 1).cmp(&(b & 1)));
    sign | finite.min_by(order).unwrap_or(magnitude)
}

macro_rules! floats_of_8_bits {
    ($($t:ty, $significand:literal, $bias:literal, $greatest:literal;)*) => {$(
        impl Sample for $t {
            const EPSILON: f64 = 1.0 / (1 << $significand) as f64;
            const BITS: u32 = 8;
            const POISON: $t = <$t>::from_bits(0xf5);

            fn sample(rng: &mut Rng) -> $t {
                Self::from_host(Host::Float(rng.between(-4.0, 4.0)))
            }

            fn host(self) -> Host {
                let size = match self.to_bits() & 0x7f {
                    code if code <= $greatest => float8(code, $significand, $bias),
                    0x7c => f64::INFINITY,
                    _ => f64::NAN,
                };
                Host::Float(if self.to_bits() > 0x7f { -size } else { size })
            }

            fn from_host(value: Host) -> $t {
                let x = value.float();
                if x.is_nan() {
                    return <$t>::from_bits(0x7f);
                }
                let distance = |code: u8| (float8(code, $significand, $bias) - x.abs()).abs();
                let order = |a: &u8, b: &u8| {
                    distance(*a).total_cmp(&distance(*b)).then((a & 1).cmp(&(b & 1)))
                };
                // Codes are in the order of what they say: the last that says no more than x, or
                // the next.
                let (mut low, mut high) = (0u8, $greatest);
                while low < high {
                    let middle = high - (high - low) / 2;
                    if float8(middle, $significand, $bias) <= x.abs() {
                        low = middle;
                    } else {
                        high = middle - 1;
                    }
                }
                let size = [low, (low + 1).min($greatest)].into_iter().min_by(order).unwrap_or(low);
                <$t>::from_bits(size | u8::from(x.is_sign_negative()) << 7)
            }
        }
    )*};
}
floats_of_8_bits! { E4M3, 3, 7, 0x7e; E5M2, 2, 15, 0x7b; }

/// What the code of a finite number says, by the definition of the format.
fn float8(code: u8, significand: u32, bias: i32) -> f64 {
    let (field, low) = (i32::from(code >> significand), f64::from(code & ((1 << significand) - 1)));
    let fraction = low / f64::from(1 << significand);
    match field {
        0 => fraction * f64::from(1 - bias).exp2(),
        _ => (1.0 + fraction) * f64::from(field - bias).exp2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_floats_saturate() {
        let bits =
            |x: f64| (E4M3::from_host(Host::Float(x)).to_bits(), E5M2::from_host(Host::Float(x)).to_bits());
        assert_eq!(bits(f64::NEG_INFINITY), (0xfe, 0xfb));
        assert_eq!((bits(1.0), bits(-0.0), bits(449.0)), ((0x38, 0x3c), (0x80, 0x80), (0x7e, 0x5f)));
        // The middle between the least numbers, and just above it.
        let least = 2f64.powi(-9);
        assert_eq!((bits(0.5 * least).0, bits(0.51 * least).0, bits(1.5 * least).0), (0, 1, 2));
    }

    #[test]
    fn sixteen_bit_floats_are_rounded_once() {
        let bf = |x: f64| f64::from(bf16::from_host(Host::Float(x)));
        // The middle between 3.125 and 3.140625, and just above it.
        assert_eq!((bf(3.1328125), bf(3.1328125 + 1e-12), bf(3.1328125 - 1e-12)), (3.125, 3.140625, 3.125));
        let f = |x: f64| f64::from(f16::from_host(Host::Float(x)));
        assert_eq!((f(65519.999), f(65520.0), f(-65520.0)), (65504.0, f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!((f(2049.0), f(2049.0 + 1e-9), f(2051.0)), (2048.0, 2050.0, 2052.0));
        assert_eq!((f(1e-9).to_bits(), f(-0.0).to_bits()), (0, (-0.0f64).to_bits()));
    }
}
