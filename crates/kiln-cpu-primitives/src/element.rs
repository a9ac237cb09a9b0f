//! The element types as the loops see them. Bool is `u8`, 0 or 1.

use super::isa::IsaProfile;
use half::{bf16, f16};

/// A type that tiles are made of.
pub(crate) trait Element: Copy + Default + PartialEq + PartialOrd + Send + Sync + 'static {
    /// The element whose bits are the lowest of `bits`.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! element {
    ($($t:ty: |$bits:ident| $from:expr),* $(,)?) => {$(
        impl Element for $t {
            #[inline(always)]
            fn from_bits($bits: u64) -> $t {
                $from
            }
        }
    )*};
}

element! {
    u8: |bits| bits as u8,
    u16: |bits| bits as u16,
    i32: |bits| bits as i32,
    u32: |bits| bits as u32,
    i64: |bits| bits as i64,
    u64: |bits| bits,
    f16: |bits| f16::from_bits(bits as u16),
    bf16: |bits| bf16::from_bits(bits as u16),
    f32: |bits| f32::from_bits(bits as u32),
    f64: |bits| f64::from_bits(bits),
}

/// Elements with bitwise operations: bool and the integers.
pub(crate) trait Bits: Element {
    const ZEROS: Self;
    const ALL_ONES: Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

/// Elements with a least and a greatest; a NaN loses to a number.
pub(crate) trait Ordered: Element {
    /// The identity of `greater`.
    const LEAST: Self;
    /// The identity of `lesser`.
    const GREATEST: Self;
    /// What loses to everything in `lesser` and `greater` alike, where there is such a value: NaN.
    const LOSER: Option<Self>;
    fn lesser(self, other: Self) -> Self;
    fn greater(self, other: Self) -> Self;
}

/// Elements with arithmetic; integers wrap.
pub(crate) trait Number: Ordered {
    const ZERO: Self;
    const ONE: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// `self * b + c`, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `self * b + c` in the fastest way, rounded once or twice.
    fn mul_add_fast<I: IsaProfile>(self, b: Self, c: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
}

/// The integers. Division by zero gives 0; the caller reports it.
pub(crate) trait Int: Number + Bits {
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn shl(self, amount: Self) -> Self;
    fn shr(self, amount: Self) -> Self;
    fn popcount(self) -> Self;
    fn clz(self) -> Self;
    /// The value `index`, wrapped.
    fn from_index(index: usize) -> Self;
}

macro_rules! bits {
    ($($t:ty = $ones:expr),*) => {$(
        impl Bits for $t {
            const ZEROS: $t = 0;
            const ALL_ONES: $t = $ones;
            #[inline(always)]
            fn and(self, other: $t) -> $t {
                self & other
            }
            #[inline(always)]
            fn or(self, other: $t) -> $t {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: $t) -> $t {
                self ^ other
            }
        }
    )*};
}
bits!(u8 = 1, i32 = -1, u32 = u32::MAX, i64 = -1, u64 = u64::MAX);

macro_rules! ordered_int {
    ($($t:ty: $least:expr, $greatest:expr);*) => {$(
        impl Ordered for $t {
            const LEAST: $t = $least;
            const GREATEST: $t = $greatest;
            const LOSER: Option<$t> = None;
            #[inline(always)]
            fn lesser(self, other: $t) -> $t {
                Ord::min(self, other)
            }
            #[inline(always)]
            fn greater(self, other: $t) -> $t {
                Ord::max(self, other)
            }
        }
    )*};
}
ordered_int!(u8: 0, 1; i32: i32::MIN, i32::MAX; u32: 0, u32::MAX; i64: i64::MIN, i64::MAX; u64: 0, u64::MAX);

macro_rules! int {
    ($($t:ty: |$x:ident| $neg:expr, $abs:expr);* $(;)?) => {$(
        impl Number for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            #[inline(always)]
            fn add(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: $t) -> $t {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn mul_add(self, b: $t, c: $t) -> $t {
                self.wrapping_mul(b).wrapping_add(c)
            }
            #[inline(always)]
            fn mul_add_fast<I: IsaProfile>(self, b: $t, c: $t) -> $t {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn neg(self) -> $t {
                let $x = self;
                $neg
            }
            #[inline(always)]
            fn abs(self) -> $t {
                let $x = self;
                $abs
            }
        }

        impl Int for $t {
            #[inline(always)]
            fn div(self, other: $t) -> $t {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn rem(self, other: $t) -> $t {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn shl(self, amount: $t) -> $t {
                self.wrapping_shl(amount as u32)
            }
            #[inline(always)]
            fn shr(self, amount: $t) -> $t {
                self.wrapping_shr(amount as u32)
            }
            #[inline(always)]
            fn popcount(self) -> $t {
                self.count_ones() as $t
            }
            #[inline(always)]
            fn clz(self) -> $t {
                self.leading_zeros() as $t
            }
            #[inline(always)]
            fn from_index(index: usize) -> $t {
                index as $t
            }
        }
    )*};
}
int! {
    i32: |x| x.wrapping_neg(), x.wrapping_abs();
    u32: |x| x.wrapping_neg(), x;
    i64: |x| x.wrapping_neg(), x.wrapping_abs();
    u64: |x| x.wrapping_neg(), x;
}

macro_rules! float_number {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            const LEAST: $t = <$t>::NEG_INFINITY;
            const GREATEST: $t = <$t>::INFINITY;
            const LOSER: Option<$t> = Some(<$t>::NAN);
            #[inline(always)]
            fn lesser(self, other: $t) -> $t {
                self.min(other)
            }
            #[inline(always)]
            fn greater(self, other: $t) -> $t {
                self.max(other)
            }
        }

        impl Number for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            #[inline(always)]
            fn add(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: $t) -> $t {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: $t) -> $t {
                self * other
            }
            #[inline(always)]
            fn mul_add(self, b: $t, c: $t) -> $t {
                <$t>::mul_add(self, b, c)
            }
            #[inline(always)]
            fn mul_add_fast<I: IsaProfile>(self, b: $t, c: $t) -> $t {
                if I::FMA { <$t>::mul_add(self, b, c) } else { self * b + c }
            }
            #[inline(always)]
            fn neg(self) -> $t {
                -self
            }
            #[inline(always)]
            fn abs(self) -> $t {
                <$t>::abs(self)
            }
        }
    )*};
}
float_number!(f32, f64);
