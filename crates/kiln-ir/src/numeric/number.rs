//! Arithmetic of integers and floats, and bit operations of bool and integers.

use super::element::Element;
use crate::rounding;
use half::{bf16, f16};

/// Integers, which wrap, and floats.
///
/// ```
/// use kiln_ir::numeric::Number;
///
/// /// a · b + 1 and the remainder of a by b, of whichever type.
/// fn example<T: Number>(a: T, b: T) -> (T, Option<T>) {
///     (T::add(T::mul(a, b), T::ONE), T::rem(a, b))
/// }
///
/// assert_eq!((example(7, 2), example(7.5, 2.0)), ((15, Some(1)), (16.0, Some(1.5))));
/// assert_eq!((Number::sub(0u8, 1), Number::neg(i32::MIN), Number::abs(-3)), (255, i32::MIN, 3));
/// assert_eq!((Number::div(7, 0), Number::div(7.0, 2.0), Number::fma(2.0, 3.0, 1.0)), (None, Some(3.5), 7.0));
/// // 16-bit floats accumulate in f32, and are rounded once at the end.
/// let sum: f32 = half::f16::ONE.widen();
/// assert_eq!(half::f16::narrow(sum + 1e-9), half::f16::ONE);
/// ```
pub trait Number: Element {
    /// The type that sums and dot products accumulate in.
    type Acc: Number;
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// The value as its accumulator.
    fn widen(self) -> Self::Acc;
    /// An accumulator rounded to this type.
    fn narrow(acc: Self::Acc) -> Self;

    /// Sum.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Product.
    fn mul(self, other: Self) -> Self;
    /// `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Negation.
    fn neg(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Quotient; `None` for an integer divided by zero.
    fn div(self, other: Self) -> Option<Self>;
    /// Remainder of the dividend's sign; `None` for an integer divided by zero.
    fn rem(self, other: Self) -> Option<Self>;
}

/// Bool and integers.
///
/// ```
/// use kiln_ir::numeric::Bits;
/// assert_eq!((Bits::and(6u32, 3), Bits::or(6u32, 3), Bits::xor(6u32, 3), Bits::not(6u8)), (2, 7, 5, 249));
/// assert_eq!((Bits::xor(true, true), Bits::not(<bool as Bits>::NONE)), (false, <bool as Bits>::ALL));
/// ```
pub trait Bits: Element {
    /// The identity of `and`.
    const ALL: Self;
    /// The identity of `or` and `xor`.
    const NONE: Self;
    /// Bitwise or logical and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or logical or.
    fn or(self, other: Self) -> Self;
    /// Bitwise or logical exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Bitwise or logical not.
    fn not(self) -> Self;
}

/// Integers.
///
/// ```
/// use kiln_ir::numeric::Int;
/// // Amounts count modulo the width; signed numbers keep their sign.
/// assert_eq!((Int::shl(1u32, 33), Int::shr(-8i32, 1), Int::shr(0x80u8, 7)), (2, -4, 1));
/// assert_eq!((7u8.to_index(), u64::MAX.to_index()), (7, i64::MAX));
/// ```
pub trait Int: Number + Bits {
    /// Shift left by an amount modulo the width.
    fn shl(self, amount: Self) -> Self;
    /// Shift right, arithmetic for signed types, by an amount modulo the width.
    fn shr(self, amount: Self) -> Self;
    /// The value, or the nearest i64: for indices.
    fn to_index(self) -> i64;
}

macro_rules! int_number {
    ($t:ty, $abs:expr) => {
        impl Number for $t {
            type Acc = $t;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            fn widen(self) -> Self {
                self
            }
            fn narrow(acc: Self) -> Self {
                acc
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn fma(self, b: Self, c: Self) -> Self {
                self.wrapping_mul(b).wrapping_add(c)
            }
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            fn abs(self) -> Self {
                $abs(self)
            }
            fn div(self, other: Self) -> Option<Self> {
                (other != 0).then(|| self.wrapping_div(other))
            }
            fn rem(self, other: Self) -> Option<Self> {
                (other != 0).then(|| self.wrapping_rem(other))
            }
        }

        impl Bits for $t {
            const ALL: Self = !0;
            const NONE: Self = 0;
            fn and(self, other: Self) -> Self {
                self & other
            }
            fn or(self, other: Self) -> Self {
                self | other
            }
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            fn not(self) -> Self {
                !self
            }
        }

        impl Int for $t {
            // The wrapping shifts take the amount modulo the width, and the width divides 2^32.
            fn shl(self, amount: Self) -> Self {
                self.wrapping_shl(amount as u32)
            }
            fn shr(self, amount: Self) -> Self {
                self.wrapping_shr(amount as u32)
            }
            fn to_index(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
    };
}

int_number!(i32, i32::wrapping_abs);
int_number!(u32, |x| x);
int_number!(i64, i64::wrapping_abs);
int_number!(u64, |x| x);
int_number!(i8, i8::wrapping_abs);
int_number!(u8, |x| x);
int_number!(i16, i16::wrapping_abs);
int_number!(u16, |x| x);

impl Bits for bool {
    const ALL: Self = true;
    const NONE: Self = false;
    fn and(self, other: Self) -> Self {
        self & other
    }
    fn or(self, other: Self) -> Self {
        self | other
    }
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    fn not(self) -> Self {
        !self
    }
}

macro_rules! float_number {
    ($t:ty) => {
        impl Number for $t {
            type Acc = $t;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            fn widen(self) -> Self {
                self
            }
            fn narrow(acc: Self) -> Self {
                acc
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            fn neg(self) -> Self {
                -self
            }
            fn abs(self) -> Self {
                <$t>::abs(self)
            }
            fn div(self, other: Self) -> Option<Self> {
                Some(self / other)
            }
            fn rem(self, other: Self) -> Option<Self> {
                Some(self % other)
            }
        }
    };
}

float_number!(f32);
float_number!(f64);

/// The 16-bit floats: one operation in f32, which has more than twice their precision, then one
/// rounding.
macro_rules! half_number {
    ($t:ty) => {
        impl Number for $t {
            type Acc = f32;
            const ZERO: Self = <$t>::ZERO;
            const ONE: Self = <$t>::ONE;
            fn widen(self) -> f32 {
                self.to_f32()
            }
            fn narrow(acc: f32) -> Self {
                <$t>::from_f32(acc)
            }
            fn add(self, other: Self) -> Self {
                Self::narrow(self.to_f32() + other.to_f32())
            }
            fn sub(self, other: Self) -> Self {
                Self::narrow(self.to_f32() - other.to_f32())
            }
            fn mul(self, other: Self) -> Self {
                Self::narrow(self.to_f32() * other.to_f32())
            }
            fn fma(self, b: Self, c: Self) -> Self {
                // The product is exact in f64.
                let product = self.to_f64() * b.to_f64();
                <Self as Element>::of_f64(rounding::sum_to_odd(product, c.to_f64()))
            }
            fn neg(self) -> Self {
                <$t>::from_bits(self.to_bits() ^ 0x8000)
            }
            fn abs(self) -> Self {
                <$t>::from_bits(self.to_bits() & 0x7fff)
            }
            fn div(self, other: Self) -> Option<Self> {
                Some(Self::narrow(self.to_f32() / other.to_f32()))
            }
            fn rem(self, other: Self) -> Option<Self> {
                Some(Self::narrow(self.to_f32() % other.to_f32()))
            }
        }
    };
}

half_number!(f16);
half_number!(bf16);
