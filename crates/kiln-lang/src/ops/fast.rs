//! Functions of floats in few operations: without the cases and digits that the exact ones take
//! care of, and only for the range that each one names.
//!
//! They are made of operations, so that devices differ by the last bits of `exp2` and
//! [`fast_div`](crate::Val::fast_div) alone. Those of f64 are the exact functions. Those of 16-bit
//! floats are computed in f32.

use super::select;
use crate::elem::{Elem, Float};
use crate::val::{IntoVal, Val};
use kiln_ir::Scalar;

/// `name: quick, exact`: methods that compute a formula in f32, and of f64 another one.
macro_rules! fast {
    ($($(#[$doc:meta])* $name:ident($($other:ident),*): $formula:ident, $exact:expr;)*) => {
        impl<T: Elem> Val<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self $(, $other: impl IntoVal<T>)*) -> Val<T>
            where
                T: Float,
            {
                $(let $other = $other.into_val();)*
                match T::SCALAR {
                    Scalar::F64 => $exact(self $(, $other)*),
                    _ => $formula(self.cast::<f32>() $(, $other.cast::<f32>())*).cast::<T>(),
                }
            }
        )*}
    };
}

fast! {
    /// e to the power of the value, within about `2 + |x|` ulp: [`exp2`](Val::exp2) of a product.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn weight(score: Val<f32>, greatest: Val<f32>) -> Val<f32> {
    ///     (score - greatest).fast_exp()
    /// }
    /// ```
    fast_exp(): exp, Val::exp;
    /// 10 to the power of the value, within about `2 + 2.4 |x|` ulp.
    ///
    /// With the other functions in few operations:
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let near = |a: Val<f32>, b: f32| (a - b).abs().lt(1e-4);
    /// let x = val::<f32>(0.5);
    /// device_assert!(near(x.fast_log2(), -1.0) & near(x.fast_log10(), -0.30103));
    /// device_assert!(near(x.fast_exp10(), 3.16228) & near(x.fast_pow(3.0), 0.125));
    /// device_assert!(near(x.fast_cos(), 0.87758) & near(x.fast_tan(), 0.5463));
    /// device_assert!(near(x.fast_sigmoid(), 0.62246));
    /// # });
    /// ```
    fast_exp10(): exp10, |x: Val<T>| (x * std::f64::consts::LN_10).exp();
    /// The logarithm to base 2, within 4 ulp, or 2^-22 where it is less than 1. Of magnitudes below
    /// 2^-126 it is not accurate. Of 0 it is minus infinity, below NaN.
    fast_log2(): log2, Val::log2;
    /// The natural logarithm, as [`fast_log2`](Val::fast_log2).
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn entropy(p: Val<f32>) -> Val<f32> {
    ///     -p * p.max(1e-30).fast_log()
    /// }
    /// ```
    fast_log(): log, Val::log;
    /// The logarithm to base 10, as [`fast_log2`](Val::fast_log2).
    fast_log10(): log10, Val::log10;
    /// The value to the power of another: `2^(y log2(x))`, for x above 0. The result's relative
    /// error grows with `|y log2(x)|`, by 2^-22 for each unit.
    fast_pow(exponent): pow, Val::pow;
    /// The sine of an angle of at most 10,000 radians, within 2^-22.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn wave(time: Val<f32>, frequency: f32) -> Val<f32> {
    ///     (time * frequency).fast_sin()
    /// }
    /// ```
    fast_sin(): sin, Val::sin;
    /// The cosine of an angle of at most 10,000 radians, within 2^-22.
    fast_cos(): cos, Val::cos;
    /// The tangent of an angle of at most 10,000 radians: the quotient of
    /// [`fast_sin`](Val::fast_sin) and [`fast_cos`](Val::fast_cos).
    fast_tan(): tan, Val::tan;
    /// The hyperbolic tangent, within 2^-21.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// GELU in the form with a hyperbolic tangent.
    /// fn gelu(x: Val<f32>) -> Val<f32> {
    ///     x * 0.5 * ((x * (x * x * 0.044715 + 1.0) * 0.797_884_6).fast_tanh() + 1.0)
    /// }
    /// ```
    fast_tanh(): tanh, Val::tanh;
    /// 1 / (1 + e^-x), within 2^-21.
    fast_sigmoid(): sigmoid, Val::sigmoid;
}

#[track_caller]
fn exp(x: Val<f32>) -> Val<f32> {
    (x * std::f32::consts::LOG2_E).exp2()
}

#[track_caller]
fn exp10(x: Val<f32>) -> Val<f32> {
    (x * std::f32::consts::LOG2_10).exp2()
}

/// The square root of one half, from which on fractions count as below 1.
const ROOT_HALF: i32 = 0x3f35_04f3;

/// The exponent, and the logarithm of a fraction of √½ to √2 by the series of the inverse
/// hyperbolic tangent of (m - 1) / (m + 1), of which four terms are within 2^-23.
#[track_caller]
fn log2(x: Val<f32>) -> Val<f32> {
    const TERMS: [f64; 4] = [2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0];
    let bits = x.bitcast::<i32>();
    let exponent = (bits - ROOT_HALF) >> 23;
    let fraction = (bits - (exponent << 23)).bitcast::<f32>();
    let slope = (fraction - 1.0).fast_div(fraction + 1.0);
    let square = slope * slope;
    let series = TERMS.map(|term| term * std::f64::consts::LOG2_E);
    let sum = series[1..].iter().fold(val_of(series[0]), |sum, term| sum.fma(square, *term));
    let log = slope.fma(sum, exponent.cast::<f32>());
    let outside = select(x.eq(0.0), f64::NEG_INFINITY, f64::NAN.into_val());
    select(x.gt(0.0), select(x.lt(f64::INFINITY), log, x), outside)
}

#[track_caller]
fn val_of(x: f64) -> Val<f32> {
    x.into_val()
}

#[track_caller]
fn log(x: Val<f32>) -> Val<f32> {
    log2(x) * std::f32::consts::LN_2
}

#[track_caller]
fn log10(x: Val<f32>) -> Val<f32> {
    log2(x) * std::f32::consts::LOG10_2
}

#[track_caller]
fn pow(x: Val<f32>, y: Val<f32>) -> Val<f32> {
    (y * log2(x)).exp2()
}

/// π/2 in two parts, the first one with as many bits as f32 has.
const QUARTER: [f32; 2] = [std::f32::consts::FRAC_PI_2, -4.371_139e-8];

/// The sine and the cosine of what is left of an angle without the nearest quarter turns, and how
/// many those are. The polynomials meet the functions where those of Chebyshev are zero; they are
/// within 1e-8.
#[track_caller]
fn quarter(x: Val<f32>) -> (Val<f32>, Val<f32>, Val<i32>) {
    const SINE: [f32; 3] = [-1.958_786_6e-4, 8.332_748e-3, -0.166_666_65];
    const COSINE: [f32; 3] = [2.454_791_7e-5, -1.388_830_3e-3, 0.041_666_664];
    let turns = (x * std::f32::consts::FRAC_2_PI).round();
    let rest = QUARTER.iter().fold(x, |rest, part| (-turns).fma(*part, rest));
    let square = rest * rest;
    let polynomial = |c: [f32; 3]| square.fma(c[0], c[1]).fma(square, c[2]);
    let sine = (square * rest).fma(polynomial(SINE), rest);
    let cosine = (square * square).fma(polynomial(COSINE), square.fma(-0.5, 1.0));
    (sine, cosine, turns.cast::<i32>())
}

#[track_caller]
fn sin(x: Val<f32>) -> Val<f32> {
    let (sine, cosine, turns) = quarter(x);
    let value = select((turns & 1).eq(0), sine, cosine);
    select((turns & 2).eq(0), value, -value)
}

#[track_caller]
fn cos(x: Val<f32>) -> Val<f32> {
    let (sine, cosine, turns) = quarter(x);
    let value = select((turns & 1).eq(0), cosine, sine);
    select(((turns + 1) & 2).eq(0), value, -value)
}

#[track_caller]
fn tan(x: Val<f32>) -> Val<f32> {
    sin(x).fast_div(cos(x))
}

/// From here on the exponential is a divisor that `fast_div` takes, and adds nothing to the result.
const FAR: f32 = 40.0;

#[track_caller]
fn tanh(x: Val<f32>) -> Val<f32> {
    let twice = x + x;
    let e = exp(select(twice.gt(FAR), FAR, twice));
    -(val_of(2.0).fast_div(e + 1.0)) + 1.0
}

#[track_caller]
fn sigmoid(x: Val<f32>) -> Val<f32> {
    let negative = select(x.lt(-FAR), FAR, -x);
    val_of(1.0).fast_div(exp(negative) + 1.0)
}
