//! Functions that are made of operations: each is recorded as a few of them, so that it is the same
//! on every device.
//!
//! Those of 16-bit floats are computed in f32 and rounded once at the end. Formulas: Kahan,
//! "Branch Cuts for Complex Elementary Functions" (1987), and the identities of Abramowitz and
//! Stegun, 4.4 to 4.6, in the forms that cancel nothing.

use super::select;
use crate::elem::{Elem, Float, Num};
use crate::val::{IntoVal, Val};
use kiln_ir::Scalar;

/// `name: formula`: methods that compute a formula in f32 at least.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $formula:ident;)*) => {
        impl<T: Elem> Val<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self) -> Val<T>
            where
                T: Float,
            {
                match T::SCALAR {
                    Scalar::F16 | Scalar::BF16 => $formula(self.cast::<f32>()).cast::<T>(),
                    _ => $formula(self),
                }
            }
        )*}
    };
}

functions! {
    /// e to the power of the value, minus 1, which keeps its digits where the value is small.
    ///
    /// ```
    /// use kiln_lang::{Val, select};
    ///
    /// /// The exponential linear unit.
    /// fn elu(x: Val<f32>) -> Val<f32> {
    ///     select(x.gt(0.0), x, x.expm1())
    /// }
    /// ```
    expm1: expm1;
    /// The logarithm to base 10, within a few ulp: that of 1000 may not be exactly 3.
    ///
    /// With the other functions that are made of operations:
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let near = |a: Val<f32>, b: f32| (a - b).abs().lt(1e-4);
    /// let (half, two) = (val::<f32>(0.5), val::<f32>(2.0));
    /// device_assert!(near(two.log10(), 0.30103) & near(half.tan(), 0.5463));
    /// device_assert!(near(half.asin(), 0.5236) & near(half.acos(), 1.0472));
    /// device_assert!(near(half.atan(), 0.46365) & near(half.atanh(), 0.54931));
    /// device_assert!(near(half.sinh(), 0.5211) & near(half.cosh(), 1.12763));
    /// device_assert!(near(half.asinh(), 0.48121) & near(two.acosh(), 1.31696));
    /// device_assert!((two / 0.0).is_infinite());
    /// # });
    /// ```
    log10: log10;
    /// The cube root, of negative values too.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn edge(volume: Val<f64>) -> Val<f64> {
    ///     volume.cbrt()
    /// }
    /// ```
    cbrt: cbrt;
    /// The tangent of an angle in radians.
    tan: tan;
    /// The angle in radians whose sine is the value; NaN outside of -1 to 1.
    asin: asin;
    /// The angle in radians whose cosine is the value; NaN outside of -1 to 1.
    acos: acos;
    /// The angle in radians whose tangent is the value. [`atan2`](Val::atan2) takes two sides.
    atan: atan;
    /// The hyperbolic sine.
    sinh: sinh;
    /// The hyperbolic cosine.
    cosh: cosh;
    /// The value whose hyperbolic sine this is.
    asinh: asinh;
    /// The value of at least 0 whose hyperbolic cosine this is; NaN below 1.
    acosh: acosh;
    /// The value whose hyperbolic tangent this is; NaN outside of -1 to 1.
    atanh: atanh;
}

impl<T: Float> Val<T> {
    /// The sine and the cosine of an angle in radians.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn rotated(x: Val<f32>, y: Val<f32>, angle: Val<f32>) -> (Val<f32>, Val<f32>) {
    ///     let (sin, cos) = angle.sin_cos();
    ///     (x * cos - y * sin, x * sin + y * cos)
    /// }
    /// ```
    #[track_caller]
    pub fn sin_cos(self) -> (Val<T>, Val<T>) {
        (self.sin(), self.cos())
    }

    /// The length of the hypotenuse, `sqrt(self² + other²)`, without overflow between.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn distance(a: [Val<f32>; 2], b: [Val<f32>; 2]) -> Val<f32> {
    ///     (a[0] - b[0]).hypot(a[1] - b[1])
    /// }
    /// ```
    #[track_caller]
    pub fn hypot(self, other: impl IntoVal<T>) -> Val<T> {
        let other = other.into_val();
        match T::SCALAR {
            Scalar::F16 | Scalar::BF16 => hypot(self.cast::<f32>(), other.cast::<f32>()).cast::<T>(),
            _ => hypot(self, other),
        }
    }

    /// The value to the power of an integer of the host, by repeated squaring: at most
    /// `2 log2 |n|` products, each rounded.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// The Lennard-Jones potential of a distance.
    /// fn potential(r: Val<f32>) -> Val<f32> {
    ///     r.powi(-12) - r.powi(-6)
    /// }
    /// ```
    #[track_caller]
    pub fn powi(self, n: i32) -> Val<T> {
        match T::SCALAR {
            Scalar::F16 | Scalar::BF16 => powi(self.cast::<f32>(), n).cast::<T>(),
            _ => powi(self, n),
        }
    }

    /// e to the power of each element along an axis, over the sum of all of them. The greatest is
    /// subtracted first, so that nothing overflows.
    ///
    /// ```
    /// use kiln_lang::{Val, dot};
    ///
    /// /// What queries find among keys and values, unmasked.
    /// fn attention(queries: Val<f32>, keys: Val<f32>, values: Val<f32>) -> Val<f32> {
    ///     dot(dot(queries, keys.transpose()).softmax(1), values)
    /// }
    /// ```
    #[track_caller]
    pub fn softmax(self, axis: usize) -> Val<T> {
        match T::SCALAR {
            Scalar::F16 | Scalar::BF16 => softmax(self.cast::<f32>(), axis).cast::<T>(),
            _ => softmax(self, axis),
        }
    }

    /// Whether the value is an infinity of either sign.
    #[track_caller]
    pub fn is_infinite(self) -> Val<bool> {
        self.abs().eq(f64::INFINITY)
    }

    /// Whether the value is neither infinite nor NaN.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn overflowed(gradient: Val<f32>) -> Val<bool> {
    ///     !gradient.is_finite().all()
    /// }
    /// ```
    #[track_caller]
    pub fn is_finite(self) -> Val<bool> {
        self.abs().lt(f64::INFINITY)
    }
}

impl<T: Num> Val<T> {
    /// -1, 0 or 1 by the sign; of a zero or NaN the value itself.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// A step of the optimizer Lion.
    /// fn step(momentum: Val<f32>, gradient: Val<f32>) -> Val<f32> {
    ///     (momentum * 0.9 + gradient * 0.1).sign()
    /// }
    /// ```
    #[track_caller]
    pub fn sign(self) -> Val<T> {
        let positive = select(self.gt(0), 1.into_val(), self);
        match T::SCALAR.is_signed() {
            true => select(self.lt(0), (-1).into_val(), positive),
            false => positive,
        }
    }
}

/// Below 1 in magnitude by (u - 1) x / ln(u) with u = e^x rounded, where the factor makes good what
/// rounding lost (Kahan, in HP-15C Advanced Functions Handbook); u - 1 cancels nothing elsewhere.
#[track_caller]
fn expm1<F: Float>(x: Val<F>) -> Val<F> {
    let u = x.exp();
    let difference = u - 1.0;
    let near = difference * (x / u.log());
    let result = select(x.abs().lt(1.0), near, difference);
    select(u.eq(1.0), x, result)
}

#[track_caller]
fn log10<F: Float>(x: Val<F>) -> Val<F> {
    x.log() * std::f64::consts::LOG10_E
}

/// 2^(log2(x) / 3), and a step of Newton's.
#[track_caller]
fn cbrt<F: Float>(x: Val<F>) -> Val<F> {
    let magnitude = x.abs();
    let guess = (magnitude.log2() * (1.0 / 3.0)).exp2();
    let root = guess - (guess - magnitude / (guess * guess)) * (1.0 / 3.0);
    let signed = select(x.lt(0.0), -root, root);
    let is_own_root = x.eq(0.0) | magnitude.eq(f64::INFINITY);
    select(is_own_root, x, signed)
}

#[track_caller]
fn tan<F: Float>(x: Val<F>) -> Val<F> {
    x.sin() / x.cos()
}

/// √(1 - x²).
#[track_caller]
fn other_side<F: Float>(x: Val<F>) -> Val<F> {
    ((-x + 1.0) * (x + 1.0)).sqrt()
}

#[track_caller]
fn asin<F: Float>(x: Val<F>) -> Val<F> {
    x.atan2(other_side(x))
}

#[track_caller]
fn acos<F: Float>(x: Val<F>) -> Val<F> {
    other_side(x).atan2(x)
}

#[track_caller]
fn atan<F: Float>(x: Val<F>) -> Val<F> {
    x.atan2(1.0)
}

/// A magnitude from which on `e^-x` adds nothing to `e^x`, of f64 too.
const FAR: f64 = 20.0;

/// e^x / 2 for x above [`FAR`], which may be finite where e^x is not.
#[track_caller]
fn half_exp<F: Float>(x: Val<F>) -> Val<F> {
    let root = (x * 0.5).exp();
    root * 0.5 * root
}

#[track_caller]
fn sinh<F: Float>(x: Val<F>) -> Val<F> {
    let magnitude = x.abs();
    let e = expm1(magnitude);
    let near = (e + e / (e + 1.0)) * 0.5;
    with_sign_of(x, select(magnitude.gt(FAR), half_exp(magnitude), near))
}

#[track_caller]
fn cosh<F: Float>(x: Val<F>) -> Val<F> {
    let magnitude = x.abs();
    let e = magnitude.exp();
    select(magnitude.gt(FAR), half_exp(magnitude), (e + e.recip()) * 0.5)
}

/// From this magnitude on `√(x² ± 1)` is the magnitude, and its square is finite below.
const SQUARE_ADDS: f64 = 1e9;

#[track_caller]
fn asinh<F: Float>(x: Val<F>) -> Val<F> {
    let magnitude = x.abs();
    let square = magnitude * magnitude;
    let near = (magnitude + square / ((square + 1.0).sqrt() + 1.0)).log1p();
    let far = magnitude.log() + std::f64::consts::LN_2;
    with_sign_of(x, select(magnitude.gt(SQUARE_ADDS), far, near))
}

#[track_caller]
fn acosh<F: Float>(x: Val<F>) -> Val<F> {
    let above = x - 1.0;
    let near = (above + (above * (above + 2.0)).sqrt()).log1p();
    let result = select(x.gt(SQUARE_ADDS), x.log() + std::f64::consts::LN_2, near);
    // Of large negative values the root and the value cancel.
    select(x.lt(1.0), f64::NAN, result)
}

#[track_caller]
fn atanh<F: Float>(x: Val<F>) -> Val<F> {
    let magnitude = x.abs();
    let twice = magnitude + magnitude;
    let result = (twice + twice * magnitude / (-magnitude + 1.0)).log1p() * 0.5;
    let result = select(magnitude.eq(1.0), f64::INFINITY, result);
    // Of large values the fraction is -2 or so.
    let result = select(magnitude.gt(1.0), f64::NAN, result);
    with_sign_of(x, result)
}

/// A magnitude with the sign of x; x itself where that is a zero.
#[track_caller]
fn with_sign_of<F: Float>(x: Val<F>, magnitude: Val<F>) -> Val<F> {
    select(x.eq(0.0), x, select(x.lt(0.0), -magnitude, magnitude))
}

#[track_caller]
fn hypot<F: Float>(x: Val<F>, y: Val<F>) -> Val<F> {
    let (x, y) = (x.abs(), y.abs());
    let (long, short) = (x.max(y), x.min(y));
    let slope = short / long;
    let length = select(long.eq(0.0), long, long * (slope * slope + 1.0).sqrt());
    // A number wins over NaN in `max` and `min`, and infinity over both here.
    let length = select(x.is_nan() | y.is_nan(), x + y, length);
    select(long.eq(f64::INFINITY), long, length)
}

#[track_caller]
fn softmax<F: Float>(x: Val<F>, axis: usize) -> Val<F> {
    let e = (x - x.max_keep(axis)).exp();
    e / e.sum_keep(axis)
}

#[track_caller]
fn powi<F: Float>(x: Val<F>, n: i32) -> Val<F> {
    let (mut left, mut square) = (n.unsigned_abs(), x);
    let mut product: Option<Val<F>> = None;
    while left > 0 {
        if left & 1 == 1 {
            product = Some(product.map_or(square, |product| product * square));
        }
        left >>= 1;
        if left > 0 {
            square = square * square;
        }
    }
    match product {
        // 1, of the shape of x, whatever x is.
        None => select(x.is_nan(), 1.0, 1.0),
        Some(product) if n < 0 => product.recip(),
        Some(product) => product,
    }
}
