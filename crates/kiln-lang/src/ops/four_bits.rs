//! Numbers of four bits, which tensors hold two to a byte or eight to a word: integers, and the
//! floats e2m1 (fp4). They are storage: a kernel converts them to a type that computes.
//!
//! Made of operations on integers, so that every device has the same.

use super::select;
use super::shape::iota;
use crate::elem::{Elem, Float, Num};
use crate::trace::error;
use crate::val::{IntoVal, Val};
use std::panic::Location;

/// The lowest four bits of a word as a number.
///
/// ```
/// use kiln_lang::prelude::*;
///
/// /// Element `i` of weights of four bits, eight to a word, in a kernel over threads.
/// #[device(crate = kiln_lang)]
/// fn weight(words: View<u32, 1>, i: Val<i64>) -> Val<f32> {
///     let word = words.get(i / 8);
///     (word >> (i % 8 * 4).cast::<u32>()).low_int4::<f32>()
/// }
/// ```
impl Val<u32> {
    /// The lowest four bits as a signed integer, -8 to 7.
    #[track_caller]
    pub fn low_int4<T: Num>(self) -> Val<T> {
        ((self << 28).bitcast::<i32>() >> 28).cast::<T>()
    }

    /// The lowest four bits as an unsigned integer, 0 to 15.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let word = val::<u32>(0x1f); // the lowest four bits are 1111
    /// device_assert!(word.low_uint4::<i32>().eq(15) & word.low_int4::<i32>().eq(-1));
    /// device_assert!(word.low_e2m1::<f32>().eq(-6.0));
    /// # });
    /// ```
    #[track_caller]
    pub fn low_uint4<T: Num>(self) -> Val<T> {
        (self & 15).cast::<T>()
    }

    /// The lowest four bits as a float e2m1: 0, 0.5, 1, 1.5, 2, 3, 4 or 6, of either sign. Every
    /// float type holds them all.
    #[track_caller]
    pub fn low_e2m1<T: Float>(self) -> Val<T> {
        let (exponent, fraction) = ((self >> 1) & 3, self & 1);
        // Twice the number is an integer: of exponent 0 the fraction, else 2 or 3 times a power.
        let normal = (fraction | 2) << (exponent.max(1) - 1);
        let twice = select(exponent.eq(0), fraction, normal);
        let magnitude = twice.cast::<f32>() * 0.5;
        select((self & 8).ne(0), -magnitude, magnitude).cast::<T>()
    }

    /// Pairs of the last axis as bytes, of each the lowest four bits, those of the first element
    /// lowest. Undoes `unpack_uint4` of bytes.
    ///
    /// ```
    /// # use kiln_lang::{iota, trace, Level, Val};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// let bytes: Val<u8> = (iota::<f32>(16) * 0.25 - 2.0).to_e2m1().pack_four_bits();
    /// assert_eq!(bytes.shape(), [8]);
    /// assert_eq!(bytes.unpack_e2m1::<f32>().shape(), [16]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn pack_four_bits(self) -> Val<u8> {
        let mut shape = self.shape();
        let Some(last) = shape.last_mut().filter(|last| last.is_multiple_of(2)) else {
            let message = format!("`pack_four_bits` of shape {shape:?}: the last axis has no pairs");
            error(Location::caller(), message, "give it a last axis of an even extent");
            return Val::poison();
        };
        *last /= 2;
        shape.push(2);
        let axis = shape.len() - 1;
        let placed = (self & 15).reshape(shape) << (iota::<u32>(2) * 4);
        placed.or_bits_axis(axis).cast::<u8>()
    }
}

/// The numbers of four bits that each element holds, the lowest first: the last axis has as many
/// times the extent.
#[track_caller]
fn unpacked<T: Elem>(words: Val<u32>, each: usize, of: impl Fn(Val<u32>) -> Val<T>) -> Val<T> {
    let mut shape = words.shape();
    let shifted = words.expand(shape.len()) >> (iota::<u32>(each) * 4);
    match shape.last_mut() {
        Some(last) => *last *= each,
        None => shape.push(each),
    }
    of(shifted.reshape(shape))
}

macro_rules! unpacks {
    ($($t:ty: $each:literal, $words:literal;)*) => {$(
        #[doc = concat!("The numbers of four bits in ", $words, ", which hold ", stringify!($each), " each, the")]
        /// lowest bits first: the last axis has as many times the extent.
        ///
        /// ```
        /// use kiln_lang::prelude::*;
        ///
        /// /// Weights of four bits with a scale.
        #[doc = concat!("fn weights(packed: Val<", stringify!($t), ">, scale: Val<f32>) -> Val<f32> {")]
        ///     packed.unpack_int4::<f32>() * scale
        /// }
        /// ```
        impl Val<$t> {
            /// As signed integers, -8 to 7.
            ///
            /// ```
            #[doc = include_str!("../on_interp.txt")]
            /// # on_interp(Level::Tile { warps: None }, &|_| {
            #[doc = concat!("let numbers = full(4, val::<", stringify!($t), ">(15)).unpack_int4::<i32>();")]
            #[doc = concat!("assert_eq!(numbers.shape(), [4 * ", stringify!($each), "]);")]
            /// // The lowest bits of each are 1111, the others 0.
            /// device_assert!(numbers.sum().eq(4 * (-1 as i32)));
            /// # });
            /// ```
            #[track_caller]
            pub fn unpack_int4<T: Num>(self) -> Val<T> {
                unpacked(self.cast::<u32>(), $each, Val::low_int4)
            }

            /// As unsigned integers, 0 to 15.
            ///
            /// ```
            #[doc = include_str!("../on_interp.txt")]
            /// # on_interp(Level::Tile { warps: None }, &|_| {
            #[doc = concat!("let numbers = full(4, val::<", stringify!($t), ">(15)).unpack_uint4::<i32>();")]
            #[doc = concat!("assert_eq!(numbers.shape(), [4 * ", stringify!($each), "]);")]
            /// // The lowest bits of each are 1111, the others 0.
            /// device_assert!(numbers.sum().eq(4 * (15 as i32)));
            /// # });
            /// ```
            #[track_caller]
            pub fn unpack_uint4<T: Num>(self) -> Val<T> {
                unpacked(self.cast::<u32>(), $each, Val::low_uint4)
            }

            /// As floats e2m1: 0, 0.5, 1, 1.5, 2, 3, 4 and 6, of either sign.
            ///
            /// ```
            #[doc = include_str!("../on_interp.txt")]
            /// # on_interp(Level::Tile { warps: None }, &|_| {
            #[doc = concat!("let numbers = full(4, val::<", stringify!($t), ">(15)).unpack_e2m1::<f32>();")]
            #[doc = concat!("assert_eq!(numbers.shape(), [4 * ", stringify!($each), "]);")]
            /// // The lowest bits of each are 1111, the others 0.
            /// device_assert!(numbers.sum().eq(4 * (-6.0 as i32)));
            /// # });
            /// ```
            #[track_caller]
            pub fn unpack_e2m1<T: Float>(self) -> Val<T> {
                unpacked(self.cast::<u32>(), $each, Val::low_e2m1)
            }
        }
    )*};
}

unpacks! {
    u8: 2, "bytes";
    u32: 8, "words";
}

impl Val<i32> {
    /// The four bits of a signed integer. What is less than -8 or more than 7 becomes that.
    /// [`pack_four_bits`](Val::pack_four_bits) puts them into bytes.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = iota::<i32>(4) * 10 - 10; // -10 0 10 20
    /// let (signed, unsigned) = (x.to_int4(), x.to_uint4());
    /// device_assert!(signed.low_int4::<i32>().eq(x.clamp(-8, 7)).all());
    /// device_assert!(unsigned.low_uint4::<i32>().eq(x.clamp(0, 15)).all());
    /// # });
    /// ```
    #[track_caller]
    pub fn to_int4(self) -> Val<u32> {
        self.clamp(-8, 7).bitcast::<u32>() & 15
    }

    /// The four bits of an unsigned integer. What is less than 0 or more than 15 becomes that.
    #[track_caller]
    pub fn to_uint4(self) -> Val<u32> {
        self.clamp(0, 15).bitcast::<u32>()
    }
}

impl<T: Float> Val<T> {
    /// The four bits of the nearest float e2m1; of two equally near ones that whose last bit is 0.
    /// What is larger than 6 becomes 6, of either sign, and NaN becomes 6, as PTX's
    /// `cvt.rn.satfinite`. [`pack_four_bits`](Val::pack_four_bits) puts them into bytes.
    #[track_caller]
    pub fn to_e2m1(self) -> Val<u32> {
        let magnitude = self.abs();
        let mut code: Val<u32> = 0.into_val();
        // The middles between neighbors; at every other one the even number is above.
        for (at, middle) in [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0].into_iter().enumerate() {
            let above = if at % 2 == 0 { magnitude.gt(middle) } else { magnitude.ge(middle) };
            code += above.cast::<u32>();
        }
        let signed = select(self.is_sign_negative(), code | 8, code);
        select(self.is_nan(), 7, signed)
    }
}
