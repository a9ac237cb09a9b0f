//! Element-wise mathematics.

use super::{binary, elementwise, unary};
use crate::elem::{Elem, Float, Int, Num};
use crate::val::{IntoVal, Val};
use kiln_ir::{BinaryOp, MathFn, OpKind, Scalar, UnaryOp};
use std::panic::Location;

macro_rules! unary {
    ($bound:ident: $($(#[$doc:meta])* $name:ident $op:expr;)*) => {
        impl<T: Elem> Val<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self) -> Val<T>
            where
                T: $bound,
            {
                Val::from_raw(unary($op, self.raw(), T::SCALAR, Location::caller()))
            }
        )*}
    };
}

unary! { Num:
    /// The absolute value; wraps for the least integer.
    abs UnaryOp::Abs;
}

unary! { Float:
    /// e to the power of the value.
    exp UnaryOp::Math(MathFn::Exp);
    /// 2 to the power of the value.
    exp2 UnaryOp::Exp2;
    /// The natural logarithm.
    ///
    /// Functions of floats, each element by itself:
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let (x, near) = (val::<f32>(2.5), |a: Val<f32>, b: f32| (a - b).abs().lt(1e-4));
    /// device_assert!(x.floor().eq(2.0) & x.ceil().eq(3.0));
    /// device_assert!(x.round().eq(2.0) & (-x).trunc().eq(-2.0));
    /// device_assert!(x.recip().eq(0.4) & near(x.rsqrt(), 0.63246) & x.is_nan().eq(false));
    /// device_assert!(near(x.log(), 0.91629) & near(x.log2(), 1.32193));
    /// device_assert!(near(x.tanh(), 0.98661) & near(x.erf(), 0.99959));
    /// device_assert!(near(x.sigmoid(), 0.92414) & near(x.atan2(1.0), 1.19029));
    /// device_assert!(near(x.pow(2.0), 6.25) & near(x.powf(0.5), 1.58114));
    /// device_assert!(x.min(1.0).eq(1.0) & x.minimum(3.0).eq(2.5) & x.mul_add(2.0, 1.0).eq(6.0));
    /// # });
    /// ```
    log UnaryOp::Math(MathFn::Log);
    /// [`log`](Val::log), by its name in Rust.
    ln UnaryOp::Math(MathFn::Log);
    /// The logarithm to base 2.
    log2 UnaryOp::Math(MathFn::Log2);
    /// The natural logarithm of 1 + the value, which keeps its digits where the value is small.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// ln(1 + e^x) without overflow.
    /// fn softplus(x: Val<f32>) -> Val<f32> {
    ///     (-x.abs()).exp().log1p() + x.max(0.0)
    /// }
    /// ```
    log1p UnaryOp::Math(MathFn::Log1p);
    /// The square root, correctly rounded.
    sqrt UnaryOp::Sqrt;
    /// One over the square root, within a few ulp.
    rsqrt UnaryOp::Rsqrt;
    /// One over the value, correctly rounded. [`fast_recip`](Val::fast_recip) is faster on GPUs.
    recip UnaryOp::Recip;
    /// The sine of an angle in radians.
    sin UnaryOp::Math(MathFn::Sin);
    /// The cosine of an angle in radians.
    cos UnaryOp::Math(MathFn::Cos);
    /// The hyperbolic tangent.
    tanh UnaryOp::Math(MathFn::Tanh);
    /// The error function.
    erf UnaryOp::Math(MathFn::Erf);
    /// 1 / (1 + e^-x).
    sigmoid UnaryOp::Math(MathFn::Sigmoid);
    /// The largest integer not above the value.
    floor UnaryOp::Floor;
    /// The smallest integer not below the value.
    ceil UnaryOp::Ceil;
    /// The nearest integer; ties go to the even one.
    round UnaryOp::Round;
    /// The value without its fraction.
    trunc UnaryOp::Trunc;
}

unary! { Int:
    /// The number of one bits.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = val::<u32>(0b1011);
    /// device_assert!(x.popcount().eq(3) & x.clz().eq(28));
    /// # });
    /// ```
    popcount UnaryOp::Popcount;
    /// The number of leading zero bits.
    clz UnaryOp::Clz;
    /// The bits in the opposite order.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// The place of element `i` of `2^bits` in a fast Fourier transform.
    /// fn place(i: Val<u32>, bits: u32) -> Val<u32> {
    ///     i.bit_reverse() >> (32 - bits)
    /// }
    /// ```
    bit_reverse UnaryOp::BitReverse;
}

macro_rules! binary {
    ($bound:ident: $($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl<T: Elem> Val<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self, other: impl IntoVal<T>) -> Val<T>
            where
                T: $bound,
            {
                let other = other.into_val();
                Val::from_raw(binary(BinaryOp::$op, self.raw(), other.raw(), T::SCALAR, Location::caller()))
            }
        )*}
    };
}

binary! { Num:
    /// The smaller of two values, element by element; a number wins over NaN, as in [`f32::min`].
    /// [`reduce_min`](Val::reduce_min) is the least element of a tile.
    min Min;
    /// The larger of two values, element by element; a number wins over NaN, as in [`f32::max`].
    /// [`reduce_max`](Val::reduce_max) is the greatest element of a tile.
    ///
    /// ```
    /// # use kiln_lang::{iota, trace, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// let x = iota::<f32>(8) - 4.0;
    /// let positive = x.max(0.0);
    /// assert_eq!((positive.shape(), positive.reduce_max().rank()), (vec![8], 0));
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    max Max;
    /// [`min`](Val::min), by the name that arrays have elsewhere.
    minimum Min;
    /// [`max`](Val::max), by the name that arrays have elsewhere.
    maximum Max;
}

binary! { Float:
    /// The quotient within 2 ulp, for divisors of magnitude 2^-126 to 2^126. On GPUs it is several
    /// times faster than `/`, which is correctly rounded; its last bits differ between devices.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn share(part: Val<f32>, whole: Val<f32>) -> Val<f32> {
    ///     part.fast_div(whole)
    /// }
    /// ```
    fast_div FastDiv;
    /// The value to the power of another.
    pow Pow;
    /// [`pow`](Val::pow), by its name in Rust.
    powf Pow;
    /// The angle of the point (x = `other`, y = the value), in radians.
    atan2 Atan2;
}

impl<T: Float> Val<T> {
    /// One over the value, within 2 ulp: as [`fast_div`](Val::fast_div).
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn inverse(x: Val<f32>) -> Val<f32> {
    ///     x.fast_recip()
    /// }
    /// ```
    #[track_caller]
    pub fn fast_recip(self) -> Val<T> {
        let one: Val<T> = 1.into_val();
        Val::from_raw(binary(BinaryOp::FastDiv, one.raw(), self.raw(), T::SCALAR, Location::caller()))
    }

    /// Whether the value is not a number.
    #[track_caller]
    pub fn is_nan(self) -> Val<bool> {
        Val::from_raw(unary(UnaryOp::IsNan, self.raw(), Scalar::Bool, Location::caller()))
    }
}

/// Products with sums, in one operation.
///
/// ```
/// # use kiln_lang::{iota, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let x = iota::<f32>(8);
/// let line = x.fma(2.0, 1.0); // 2x + 1, rounded once
/// assert_eq!(line.shape(), [8]);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
impl<T: Num> Val<T> {
    /// `self * a + b`, rounded once for floats.
    #[track_caller]
    pub fn fma(self, a: impl IntoVal<T>, b: impl IntoVal<T>) -> Val<T> {
        let (a, b) = (a.into_val(), b.into_val());
        let operands = [self.raw(), a.raw(), b.raw()];
        Val::from_raw(elementwise(OpKind::Fma, &operands, T::SCALAR, Location::caller()))
    }

    /// [`fma`](Val::fma), by its name in Rust.
    #[track_caller]
    pub fn mul_add(self, a: impl IntoVal<T>, b: impl IntoVal<T>) -> Val<T> {
        self.fma(a, b)
    }
}
