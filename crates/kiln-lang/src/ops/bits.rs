//! Functions of the bits of integers that are made of operations.

use crate::elem::Int;
use crate::val::{IntoVal, Val};
use kiln_ir::Scalar;

impl<T: Int> Val<T> {
    /// The number of trailing zero bits; of 0 as many as the type has.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// The next free place of a map of 32.
    /// fn free(taken: Val<u32>) -> Val<u32> {
    ///     (!taken).ctz()
    /// }
    /// ```
    #[track_caller]
    pub fn ctz(self) -> Val<T> {
        (!self & (self - 1)).popcount()
    }

    /// The bits moved up by `n`, those that leave at the top coming in at the bottom. `n` counts
    /// modulo the width.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// A step of a hash (xxHash, 32 bits).
    /// fn mix(h: Val<u32>, word: Val<u32>) -> Val<u32> {
    ///     (h + word * 0xC2B2_AE3Du32).rotate_left(17) * 0x27D4_EB2Fu32
    /// }
    /// ```
    #[track_caller]
    pub fn rotate_left(self, n: impl IntoVal<T>) -> Val<T> {
        self.funnel_shift_left(self, n)
    }

    /// The bits moved down by `n`, those that leave at the bottom coming in at the top. `n` counts
    /// modulo the width.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = val::<u32>(0x1234_5678);
    /// device_assert!(x.rotate_right(8).eq(0x7812_3456) & x.rotate_right(8).rotate_left(8).eq(x));
    /// # });
    /// ```
    #[track_caller]
    pub fn rotate_right(self, n: impl IntoVal<T>) -> Val<T> {
        self.funnel_shift_right(self, n)
    }

    /// The upper half of the product, which has twice the bits.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// A random word as a number below `n` (Lemire, "Fast Random Integer Generation in an
    /// /// Interval", 2019, without the rejection).
    /// fn below(word: Val<u32>, n: u32) -> Val<u32> {
    ///     word.mul_hi(n)
    /// }
    /// ```
    #[track_caller]
    pub fn mul_hi(self, other: impl IntoVal<T>) -> Val<T> {
        let other = other.into_val();
        match T::SCALAR {
            Scalar::I32 => ((self.cast::<i64>() * other.cast::<i64>()) >> 32).cast::<T>(),
            Scalar::U32 => ((self.cast::<u64>() * other.cast::<u64>()) >> 32).cast::<T>(),
            scalar if scalar.is_small_int() => {
                let product = self.cast::<i64>() * other.cast::<i64>();
                (product >> (scalar.bytes() * 8)).cast::<T>()
            }
            scalar => {
                let (a, b) = (self.cast::<u64>(), other.cast::<u64>());
                let high = high_of(a, b);
                if !scalar.is_signed() {
                    return high.cast::<T>();
                }
                // Of a negative factor the bits say 2^64 more.
                high.cast::<T>() - (other & negative(self)) - (self & negative(other))
            }
        }
    }
}

/// All bits where a number is negative.
#[track_caller]
fn negative<T: Int>(x: Val<T>) -> Val<T> {
    x >> (T::SCALAR.bytes() as i32 * 8 - 1)
}

/// A shift down that brings in zeros, of signed integers too.
#[track_caller]
pub(super) fn logical_shift<T: Int>(x: Val<T>, n: Val<T>) -> Val<T> {
    match T::SCALAR {
        Scalar::I32 => (x.cast::<u32>() >> n.cast::<u32>()).cast::<T>(),
        Scalar::I64 => (x.cast::<u64>() >> n.cast::<u64>()).cast::<T>(),
        Scalar::I8 => (x.cast::<u8>() >> n.cast::<u8>()).cast::<T>(),
        Scalar::I16 => (x.cast::<u16>() >> n.cast::<u16>()).cast::<T>(),
        _ => x >> n,
    }
}

/// The upper 64 bits of a product, by halves (Knuth, The Art of Computer Programming, 4.3.1).
#[track_caller]
fn high_of(a: Val<u64>, b: Val<u64>) -> Val<u64> {
    let low = |x: Val<u64>| x & 0xffff_ffffu64;
    let (a_low, a_high, b_low, b_high) = (low(a), a >> 32, low(b), b >> 32);
    let middle = a_high * b_low + ((a_low * b_low) >> 32);
    let rest = low(middle) + a_low * b_high;
    a_high * b_high + (middle >> 32) + (rest >> 32)
}
