//! The 8-bit floats of the OCP specification "OFP8" (revision 1.0): numbers that are stored, moved
//! and multiplied by tensor cores, and converted for everything else.
//!
//! They are types of Kiln's own because their conversions are part of what the IR means: rounded
//! once from f64, ties to even, and *saturating* (what is too large, infinity too, becomes the
//! largest finite number), as tensor cores' GPUs convert.

use std::cmp::Ordering;
use std::fmt;

/// Encodes a format with so many bits of significand, a least exponent and a greatest finite code.
fn encode(value: f64, significand: u32, least: i32, greatest: u8) -> u8 {
    const NAN: u8 = 0x7f;
    if value.is_nan() {
        return NAN;
    }
    let (sign, size) = (u8::from(value.is_sign_negative()) << 7, value.abs());
    if size >= decode(greatest, significand, least) {
        return sign | greatest;
    }
    // The exponent of an f64 stands in its bits; those of zero and of subnormal ones are below any
    // of these formats.
    let exponent = ((size.to_bits() >> 52) as i32 - 1023).max(least);
    let units = (size / power(exponent - significand as i32)).round_ties_even() as u32;
    // A carry out of the significand runs into the exponent, where it belongs.
    sign | (((exponent - least) as u32) << significand).wrapping_add(units) as u8
}

/// The size of a finite number with this code.
fn decode(code: u8, significand: u32, least: i32) -> f64 {
    let (field, low) = (i32::from(code & 0x7f) >> significand, i32::from(code) & ((1 << significand) - 1));
    let units = if field == 0 { low } else { low | 1 << significand };
    f64::from(units) * power(least + (field - 1).max(0) - significand as i32)
}

/// 2 to a power that is a normal f64.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

macro_rules! float8 {
    ($(#[$doc:meta])* $name:ident, $significand:literal, $least:literal, $greatest:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The largest number.
            pub const MAX: $name = $name($greatest);
            /// The least number.
            pub const MIN: $name = $name(0x80 | $greatest);
            /// 0.
            pub const ZERO: $name = $name(0);
            /// Not a number.
            pub const NAN: $name = $name(0x7f);

            /// The number with these bits.
            pub const fn from_bits(bits: u8) -> $name {
                $name(bits)
            }

            /// Its bits.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest number, ties to even, the largest for what is beyond it.
            pub fn from_f32(value: f32) -> $name {
                $name::from_f64(value.into())
            }

            /// The nearest number, ties to even, the largest for what is beyond it.
            pub fn from_f64(value: f64) -> $name {
                $name(encode(value, $significand, $least, $greatest))
            }

            /// The same number.
            pub fn to_f32(self) -> f32 {
                self.to_f64() as f32
            }

            /// The same number.
            pub fn to_f64(self) -> f64 {
                let size = match self.0 & 0x7f {
                    code if code <= $greatest => decode(code, $significand, $least),
                    // Infinity stands between the greatest number and what is none, if the format
                    // has it.
                    code if code == $greatest + 1 && code != 0x7f => f64::INFINITY,
                    _ => f64::NAN,
                };
                if self.0 >> 7 == 1 { -size } else { size }
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }
    };
}

float8! {
    /// An 8-bit float of 4 bits of exponent and 3 of significand: up to 448, NaN, no infinity. For
    /// weights and activations.
    ///
    /// ```
    /// use kiln_ir::E4M3;
    /// assert_eq!(E4M3::from_f32(0.3).to_f32(), 0.3125);
    /// assert_eq!(E4M3::from_f32(-1e9).to_f32(), -448.0);
    /// assert_eq!(E4M3::from_bits(1).to_f32(), 2f32.powi(-9));
    /// assert_eq!((E4M3::from_f64(1.0).to_bits(), E4M3::from_bits(0x38).to_f64()), (0x38, 1.0));
    /// ```
    E4M3, 3, -6, 0x7e
}

float8! {
    /// An 8-bit float of 5 bits of exponent and 2 of significand: up to 57344, infinity, NaN. For
    /// gradients. Conversions give no infinity.
    ///
    /// ```
    /// use kiln_ir::E5M2;
    /// assert_eq!(E5M2::from_f32(0.3).to_f32(), 0.3125);
    /// assert_eq!(E5M2::from_f32(f32::INFINITY).to_f32(), 57344.0);
    /// assert_eq!(E5M2::from_bits(0x7c).to_f32(), f32::INFINITY);
    /// assert_eq!((E5M2::from_f64(1.0).to_bits(), E5M2::from_bits(0x3c).to_f64()), (0x3c, 1.0));
    /// ```
    E5M2, 2, -14, 0x7b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nearest of all numbers of a format, by search; of two, the one with an even code.
    fn nearest(value: f64, greatest: u8, number: impl Fn(u8) -> f64) -> u8 {
        let size = value.abs();
        let far = |code: u8| (number(code) - size).abs();
        let mut best = 0;
        for code in 1..=greatest {
            let closer = far(code) < far(best) || far(code) == far(best) && code % 2 == 0;
            best = if closer { code } else { best };
        }
        best | u8::from(value.is_sign_negative()) << 7
    }

    #[test]
    fn rounding_agrees_with_a_search() {
        let mut state = 1u64;
        for round in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Also the numbers halfway between two, and just beside them.
            let code = (state >> 40) as u8;
            let halves = |number: &dyn Fn(u8) -> f64| {
                let middle = (number(code & 0x7f) + number((code & 0x7f).saturating_sub(1))) / 2.0;
                f64::from_bits((middle.to_bits() as i64 + round % 3 - 1).max(0) as u64)
            };
            let any = f64::from_bits(state >> 12 | 0x3ff0 << 48) * 2f64.powi((state % 60) as i32 - 40);
            let by_e4m3 = |code| E4M3::from_bits(code).to_f64();
            let by_e5m2 = |code| E5M2::from_bits(code).to_f64();
            for value in [any, -any, halves(&by_e4m3), halves(&by_e5m2)] {
                // Distances of what is far beyond the formats are equal in f64.
                if value.abs() < 1e6 {
                    assert_eq!(E4M3::from_f64(value).to_bits(), nearest(value, 0x7e, by_e4m3), "{value:e}");
                    assert_eq!(E5M2::from_f64(value).to_bits(), nearest(value, 0x7b, by_e5m2), "{value:e}");
                }
            }
        }
    }

    #[test]
    fn every_number_comes_back() {
        for code in 0..=255u8 {
            let (x, y) = (E4M3::from_bits(code), E5M2::from_bits(code));
            if x.to_f64().is_nan() {
                assert_eq!(code & 0x7f, 0x7f);
                assert_eq!(E4M3::from_f64(f64::NAN).to_bits(), 0x7f);
            } else {
                assert_eq!(E4M3::from_f64(x.to_f64()).to_bits(), code);
            }
            if y.to_f64().is_finite() {
                assert_eq!(E5M2::from_f32(y.to_f32()).to_bits(), code);
            }
        }
        let known = [(0x08, 2f64.powi(-6)), (0x38, 1.0), (0x7e, 448.0), (0xc0, -2.0)];
        known.into_iter().for_each(|(code, value)| assert_eq!(E4M3::from_bits(code).to_f64(), value));
        let known = [(0x01, 2f64.powi(-16)), (0x3c, 1.0), (0x7b, 57344.0), (0xfc, f64::NEG_INFINITY)];
        known.into_iter().for_each(|(code, value)| assert_eq!(E5M2::from_bits(code).to_f64(), value));
    }
}
