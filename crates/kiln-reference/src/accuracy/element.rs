//! Float types whose errors are measured in units in the last place.

use crate::sample::{Host, Sample};
use half::{bf16, f16};
use kiln_lang::{Float, Val};

/// Two operands in the code of a device; functions of one ignore the second.
pub type Operands<T> = [Val<T>; 2];

/// A function of the language in each type.
#[derive(Clone, Copy, Debug)]
pub struct InEachType {
    /// Of f16.
    pub f16: fn(Operands<f16>) -> Val<f16>,
    /// Of bf16.
    pub bf16: fn(Operands<bf16>) -> Val<bf16>,
    /// Of f32.
    pub f32: fn(Operands<f32>) -> Val<f32>,
    /// Of f64.
    pub f64: fn(Operands<f64>) -> Val<f64>,
}

/// A float type whose errors are measured.
pub trait Measured: Sample + Float {
    /// The number of digits of the significand.
    const DIGITS: i32;
    /// The exponent of the least normal number.
    const LEAST: i32;
    /// The exponent of the largest numbers.
    const GREATEST: i32;

    /// The bits of the value.
    fn bits(self) -> u64;

    /// The value, exactly.
    fn value(self) -> f64;

    /// The number nearest to a value, of two the even one.
    fn nearest(exact: f64) -> Self;

    /// The function in this type.
    fn of(function: &InEachType) -> fn(Operands<Self>) -> Val<Self>;

    /// How far a number is from an exact value, in units in the last place of the exact one. An
    /// infinity stands for the number that would follow the largest. Neither is NaN.
    ///
    /// The exact value of a function of f64 is known as the nearest f64 alone. So the distance is a
    /// whole number there, and off by half a unit at most.
    fn distance(self, exact: f64) -> f64 {
        if Self::DIGITS == f64::MANTISSA_DIGITS as i32 {
            return ordered(self.value()).abs_diff(ordered(exact)) as f64;
        }
        let beyond = power_of_two(Self::GREATEST + 1);
        let (got, exact) = (self.value().clamp(-beyond, beyond), exact.clamp(-beyond, beyond));
        let exponent = (exact.to_bits() >> 52 & 0x7ff) as i32 - 1023;
        let unit = exponent.clamp(Self::LEAST, Self::GREATEST) - (Self::DIGITS - 1);
        (got - exact).abs() * power_of_two(-unit)
    }

    /// Whether a value is smaller than any normal number, and not zero.
    fn is_subnormal(value: f64) -> bool {
        value != 0.0 && value.abs() < power_of_two(Self::LEAST)
    }
}

/// 2^exponent, of a normal f64.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// A number that counts the f64 in their order. Both zeros are 0.
fn ordered(x: f64) -> i64 {
    let bits = x.to_bits() as i64;
    if bits < 0 { i64::MIN - bits } else { bits }
}

macro_rules! measured {
    ($($t:ident: $digits:literal, $least:literal, $greatest:literal;)*) => {$(
        impl Measured for $t {
            const DIGITS: i32 = $digits;
            const LEAST: i32 = $least;
            const GREATEST: i32 = $greatest;

            fn bits(self) -> u64 {
                self.to_bits().into()
            }

            fn value(self) -> f64 {
                self.into()
            }

            fn nearest(exact: f64) -> $t {
                <$t>::from_host(Host::Float(exact))
            }

            fn of(function: &InEachType) -> fn(Operands<$t>) -> Val<$t> {
                function.$t
            }
        }
    )*};
}
measured! { f16: 11, -14, 15; bf16: 8, -126, 127; f32: 24, -126, 127; f64: 53, -1022, 1023; }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_in_units_of_the_exact_value() {
        let above = f32::from_bits(1.0f32.to_bits() + 1);
        assert_eq!((1.0f32.distance(1.0), above.distance(1.0)), (0.0, 1.0));
        // Below 1 the numbers are twice as dense.
        assert_eq!(1.0f32.distance(1.0 - 2f64.powi(-25)), 0.5);
        assert_eq!(f32::from_bits(1).distance(0.0), 1.0);
        assert_eq!(f32::INFINITY.distance(f64::from(f32::MAX)), 1.0);
        assert_eq!(f32::INFINITY.distance(1e300), 0.0);
        assert_eq!(f32::MAX.distance(f64::INFINITY), 1.0);
        assert_eq!(f16::from_bits(1).distance(0.0), 1.0);
        assert_eq!(bf16::from_f32(1.0).distance(1.0 + 2f64.powi(-9)), 0.25);
        assert_eq!((-0.0f64).distance(f64::from_bits(3)), 3.0);
        assert_eq!((1.0f64).distance(1.0 - f64::EPSILON), 2.0);
    }
}
