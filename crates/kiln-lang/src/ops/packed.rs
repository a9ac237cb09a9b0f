//! Words of several small integers: bytes chosen by a selector, and sums of products.

use super::select;
use crate::elem::Int;
use crate::val::{IntoVal, Val};

impl Val<u32> {
    /// Four bytes of eight: those of `self` are 0 to 3, those of `other` 4 to 7, the lowest byte of
    /// each word first. The lowest four bits of the selector choose the lowest byte of the result,
    /// and so on: three bits the byte, and the fourth one, where it is set, 0xff or 0 by the byte's
    /// uppermost bit in its place, as PTX's `prmt`.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// A word of the other byte order.
    /// fn swapped(word: Val<u32>) -> Val<u32> {
    ///     word.byte_permute(0, 0x0123)
    /// }
    ///
    /// /// The upper halves of two words: two f32, cut off to bf16.
    /// fn packed(low: Val<f32>, high: Val<f32>) -> Val<u32> {
    ///     low.bitcast::<u32>().byte_permute(high.bitcast::<u32>(), 0x7632)
    /// }
    /// ```
    #[track_caller]
    pub fn byte_permute(self, other: impl IntoVal<u32>, selector: impl IntoVal<u32>) -> Val<u32> {
        let (other, selector) = (other.into_val(), selector.into_val());
        let mut word: Val<u32> = 0.into_val();
        for place in 0..4 {
            let nibble = selector >> (4 * place);
            let source = select((nibble & 4).ne(0), other, self);
            let byte = (source >> ((nibble & 3) << 3)) & 0xff;
            let sign = select(byte.gt(0x7f), 0xff, 0);
            word |= select((nibble & 8).ne(0), sign, byte) << (8 * place);
        }
        word
    }

    /// The sum of the products of four unsigned bytes of `self` with four signed bytes of `other`,
    /// and `sum`. It wraps.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// Activations above zero, and weights of either sign.
    /// fn step(activations: Val<u32>, weights: Val<i32>, sum: Val<i32>) -> Val<i32> {
    ///     activations.dp4a_mixed(weights, sum)
    /// }
    /// ```
    #[track_caller]
    pub fn dp4a_mixed(self, other: impl IntoVal<i32>, sum: impl IntoVal<i32>) -> Val<i32> {
        let other = other.into_val();
        let mut total = sum.into_val();
        for place in 0..4 {
            total = field(self, place, 8).cast::<i32>().fma(field(other, place, 8), total);
        }
        total
    }
}

macro_rules! dot_products {
    ($($t:ty: $sign:literal;)*) => {$(
        impl Val<$t> {
            #[doc = concat!("The sum of the products of four ", $sign, " bytes each, and `sum`. It wraps.")]
            ///
            /// ```
            /// use kiln_lang::Val;
            ///
            #[doc = concat!("fn step(a: Val<", stringify!($t), ">, b: Val<", stringify!($t), ">, sum: Val<", stringify!($t), ">) -> Val<", stringify!($t), "> {")]
            ///     a.dp4a(b, sum)
            /// }
            /// ```
            #[track_caller]
            pub fn dp4a(self, other: impl IntoVal<$t>, sum: impl IntoVal<$t>) -> Val<$t> {
                let other = other.into_val();
                let mut total = sum.into_val();
                for place in 0..4 {
                    total = field(self, place, 8).fma(field(other, place, 8), total);
                }
                total
            }

            #[doc = concat!("The sum of the products of two ", $sign, " numbers of 16 bits with the two lower ", $sign)]
            /// bytes of `other`, and `sum`. It wraps.
            ///
            /// ```
            #[doc = include_str!("../on_interp.txt")]
            /// # on_interp(Level::Tile { warps: None }, &|_| {
            #[doc = concat!("let (a, b) = (val::<", stringify!($t), ">(0x0001_0002), val::<", stringify!($t), ">(0x0403_0201));")]
            /// device_assert!(a.dp2a_low(b, 100).eq(104));
            /// # });
            /// ```
            #[track_caller]
            pub fn dp2a_low(self, other: impl IntoVal<$t>, sum: impl IntoVal<$t>) -> Val<$t> {
                dp2a(self, other.into_val(), 0, sum.into_val())
            }

            #[doc = concat!("The sum of the products of two ", $sign, " numbers of 16 bits with the two upper ", $sign)]
            /// bytes of `other`, and `sum`. It wraps.
            ///
            /// ```
            #[doc = include_str!("../on_interp.txt")]
            /// # on_interp(Level::Tile { warps: None }, &|_| {
            #[doc = concat!("let (a, b) = (val::<", stringify!($t), ">(0x0001_0002), val::<", stringify!($t), ">(0x0403_0201));")]
            /// device_assert!(a.dp2a_high(b, 100).eq(110));
            /// # });
            /// ```
            #[track_caller]
            pub fn dp2a_high(self, other: impl IntoVal<$t>, sum: impl IntoVal<$t>) -> Val<$t> {
                dp2a(self, other.into_val(), 2, sum.into_val())
            }
        }
    )*};
}

dot_products! {
    i32: "signed";
    u32: "unsigned";
}

#[track_caller]
fn dp2a<T: Int>(a: Val<T>, b: Val<T>, first: i32, sum: Val<T>) -> Val<T> {
    let low = field(a, 0, 16).fma(field(b, first, 8), sum);
    field(a, 1, 16).fma(field(b, first + 1, 8), low)
}

/// The number at a place of a word of such of so many bits, with the word's signedness.
#[track_caller]
fn field<T: Int>(word: Val<T>, place: i32, bits: i32) -> Val<T> {
    (word << (32 - bits * (place + 1))) >> (32 - bits)
}
