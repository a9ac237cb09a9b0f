//! Element types as Rust types: their bits, conversions between them, their order.

use crate::float8::{E4M3, E5M2};
use crate::rounding;
use crate::types::Scalar;
use half::{bf16, f16};
use std::fmt::Display;

/// A Rust type that an IR element type is held as.
///
/// ```
/// use kiln_ir::Scalar;
/// use kiln_ir::numeric::Element;
///
/// assert_eq!((<i8 as Element>::SCALAR, Element::bits(-1i8), <i8 as Element>::of_bits(0xff)), (Scalar::I8, 0xff, -1));
/// // Conversions saturate from floats and wrap between integers.
/// assert_eq!((<u8 as Element>::of_f32(300.0), <u8 as Element>::of_f64(-1.0)), (255, 0));
/// assert_eq!((<i8 as Element>::of_i64(200), <u32 as Element>::of_u64(1 << 32)), (-56, 0));
/// assert_eq!(Element::cast::<i32>(2.9f32), 2);
/// // NaN loses, and a negative zero is below a zero.
/// assert_eq!((f32::NAN.least(1.0), 1f32.greatest(f32::NAN)), (1.0, 1.0));
/// assert!((-0f32).below(0.0) && Element::is_nan(f32::NAN));
/// ```
pub trait Element: Copy + PartialOrd + Display + 'static {
    /// The IR type.
    const SCALAR: Scalar;
    /// The identity of `max`: the least value, negative infinity for floats.
    const LEAST: Self;
    /// The identity of `min`: the greatest value, infinity for floats.
    const GREATEST: Self;

    /// The bits, zero-extended.
    fn bits(self) -> u64;
    /// The value with these low bits; bool is `!= 0`.
    fn of_bits(bits: u64) -> Self;

    /// Conversions as `OpKind::Cast` says, from the four types that together hold every element
    /// type exactly.
    fn of_i64(x: i64) -> Self;
    /// From an unsigned integer.
    fn of_u64(x: u64) -> Self;
    /// From a float of at most 32 bits.
    fn of_f32(x: f32) -> Self;
    /// From a double.
    fn of_f64(x: f64) -> Self;
    /// To any element type.
    fn cast<T: Element>(self) -> T;

    /// Whether this is less than the other, or a negative zero beside a zero; never of NaN.
    fn below(self, other: Self) -> bool {
        self < other
    }

    /// The smaller; NaN loses.
    fn least(self, other: Self) -> Self {
        if Element::is_nan(other) || self.below(other) { self } else { other }
    }

    /// The larger; NaN loses.
    fn greatest(self, other: Self) -> Self {
        if Element::is_nan(other) || other.below(self) { self } else { other }
    }

    /// Whether this is NaN.
    #[allow(clippy::eq_op)]
    fn is_nan(self) -> bool {
        self != self
    }
}

/// What differs between the types only in names: the IR type, and the widest type to cast through.
macro_rules! element_common {
    ($variant:ident, $cast:ident, $wide:expr) => {
        const SCALAR: Scalar = Scalar::$variant;
        fn cast<T: Element>(self) -> T {
            T::$cast($wide(self))
        }
    };
}

macro_rules! int_element {
    ($t:ty, $unsigned:ty, $variant:ident, $cast:ident) => {
        impl Element for $t {
            element_common!($variant, $cast, |x| x as _);
            const LEAST: Self = <$t>::MIN;
            const GREATEST: Self = <$t>::MAX;
            fn bits(self) -> u64 {
                self as $unsigned as u64
            }
            fn of_bits(bits: u64) -> Self {
                bits as $t
            }
            fn of_i64(x: i64) -> Self {
                x as $t
            }
            fn of_u64(x: u64) -> Self {
                x as $t
            }
            fn of_f32(x: f32) -> Self {
                x as $t
            }
            fn of_f64(x: f64) -> Self {
                x as $t
            }
        }
    };
}

int_element!(i32, u32, I32, of_i64);
int_element!(u32, u32, U32, of_i64);
int_element!(i64, u64, I64, of_i64);
int_element!(u64, u64, U64, of_u64);
int_element!(i8, u8, I8, of_i64);
int_element!(u8, u8, U8, of_i64);
int_element!(i16, u16, I16, of_i64);
int_element!(u16, u16, U16, of_i64);

macro_rules! float_element {
    ($t:ty, $variant:ident, $cast:ident) => {
        impl Element for $t {
            element_common!($variant, $cast, |x| x);
            const LEAST: Self = <$t>::NEG_INFINITY;
            const GREATEST: Self = <$t>::INFINITY;
            fn below(self, other: Self) -> bool {
                self < other || (self == other && self.is_sign_negative())
            }
            fn bits(self) -> u64 {
                self.to_bits() as u64
            }
            fn of_bits(bits: u64) -> Self {
                <$t>::from_bits(bits as _)
            }
            fn of_i64(x: i64) -> Self {
                x as $t
            }
            fn of_u64(x: u64) -> Self {
                x as $t
            }
            fn of_f32(x: f32) -> Self {
                x as $t
            }
            fn of_f64(x: f64) -> Self {
                x as $t
            }
        }
    };
}

float_element!(f32, F32, of_f32);
float_element!(f64, F64, of_f64);

/// The 16-bit floats, to which nothing wider than f32 converts with one rounding by itself.
macro_rules! half_element {
    ($t:ty, $variant:ident) => {
        impl Element for $t {
            element_common!($variant, of_f32, <$t>::to_f32);
            const LEAST: Self = <$t>::NEG_INFINITY;
            const GREATEST: Self = <$t>::INFINITY;
            fn below(self, other: Self) -> bool {
                self < other || (self == other && self.is_sign_negative())
            }
            fn bits(self) -> u64 {
                self.to_bits() as u64
            }
            fn of_bits(bits: u64) -> Self {
                <$t>::from_bits(bits as u16)
            }
            fn of_i64(x: i64) -> Self {
                Self::of_f64(rounding::f64_to_odd(x.into()))
            }
            fn of_u64(x: u64) -> Self {
                Self::of_f64(rounding::f64_to_odd(x.into()))
            }
            fn of_f32(x: f32) -> Self {
                <$t>::from_f32(x)
            }
            fn of_f64(x: f64) -> Self {
                <$t>::from_f32(rounding::f32_to_odd(x))
            }
        }
    };
}

half_element!(f16, F16);
half_element!(bf16, BF16);

/// The 8-bit floats, whose conversions saturate.
macro_rules! float8_element {
    ($t:ty, $variant:ident) => {
        impl Element for $t {
            element_common!($variant, of_f32, <$t>::to_f32);
            const LEAST: Self = <$t>::MIN;
            const GREATEST: Self = <$t>::MAX;
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn of_bits(bits: u64) -> Self {
                <$t>::from_bits(bits as u8)
            }
            // Integers that an f64 does not hold are beyond the largest number.
            fn of_i64(x: i64) -> Self {
                <$t>::from_f64(x as f64)
            }
            fn of_u64(x: u64) -> Self {
                <$t>::from_f64(x as f64)
            }
            fn of_f32(x: f32) -> Self {
                <$t>::from_f32(x)
            }
            fn of_f64(x: f64) -> Self {
                <$t>::from_f64(x)
            }
        }
    };
}

float8_element!(E4M3, E4M3);
float8_element!(E5M2, E5M2);

impl Element for bool {
    element_common!(Bool, of_i64, i64::from);
    const LEAST: Self = false;
    const GREATEST: Self = true;
    fn bits(self) -> u64 {
        self.into()
    }
    fn of_bits(bits: u64) -> Self {
        bits != 0
    }
    fn of_i64(x: i64) -> Self {
        x != 0
    }
    fn of_u64(x: u64) -> Self {
        x != 0
    }
    fn of_f32(x: f32) -> Self {
        x != 0.0
    }
    fn of_f64(x: f64) -> Self {
        x != 0.0
    }
}
