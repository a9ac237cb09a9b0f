//! The parts of floats, neighbors, remainders, and functions of multiples of π: made of operations,
//! most of them of the bits, so that every device gives the same.
//!
//! Those of 16-bit floats pass through f32, which holds each of them.

use super::select;
use crate::elem::{Elem, Float};
use crate::val::{IntoVal, Val};
use kiln_ir::Scalar;

/// `name(operands): formula`: methods that compute a formula in f32 at least.
macro_rules! in_f32_at_least {
    ($($(#[$doc:meta])* $name:ident($($other:ident),*): $formula:ident;)*) => {
        impl<T: Elem> Val<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self $(, $other: impl IntoVal<T>)*) -> Val<T>
            where
                T: Float,
            {
                $(let $other = $other.into_val();)*
                match T::SCALAR {
                    Scalar::F16 | Scalar::BF16 => {
                        $formula(self.cast::<f32>() $(, $other.cast::<f32>())*).cast::<T>()
                    }
                    _ => $formula(self $(, $other)*),
                }
            }
        )*}
    };
}

in_f32_at_least! {
    /// The magnitude of the value with the sign of another, of zeros and NaN too.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// The square root of a magnitude, with the sign that the value had.
    /// fn signed_root(x: Val<f32>) -> Val<f32> {
    ///     x.abs().sqrt().copysign(x)
    /// }
    /// ```
    copysign(sign): copysign;
    /// The difference where it is positive, else 0; NaN where an operand is.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = val::<f32>(2.5);
    /// device_assert!(x.fdim(1.0).eq(1.5) & x.fdim(3.0).eq(0.0));
    /// device_assert!(x.round_away().eq(3.0) & (-x).fract().eq(-0.5));
    /// # });
    /// ```
    fdim(other): fdim;
    /// The nearest integer; ties go away from zero, as `round` of Rust and C. [`round`](Val::round)
    /// sends them to the even one.
    round_away(): round_away;
    /// What the value has beyond its whole part, with its sign: `x - x.trunc()`.
    fract(): fract;
    /// The remainder of IEEE 754, exact: that of the division whose quotient is rounded to the
    /// nearest integer, ties to the even one. It is at most half of the divisor, of either sign;
    /// `%` has the sign of the dividend.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// An angle in degrees from -180 to 180.
    /// fn normalized(degrees: Val<f32>) -> Val<f32> {
    ///     degrees.remainder(360.0)
    /// }
    /// ```
    remainder(divisor): remainder;
    /// The sine of π times the value, within a few ulp: of whole numbers exactly 0.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// The factor of a fast Fourier transform for `i` of `n`.
    /// fn factor(i: Val<f32>, n: f32) -> (Val<f32>, Val<f32>) {
    ///     let turns = i * (-2.0 / n);
    ///     (turns.cos_pi(), turns.sin_pi())
    /// }
    /// ```
    sin_pi(): sin_pi;
    /// The cosine of π times the value, within a few ulp: of 0.5, 1.5, … exactly 0.
    cos_pi(): cos_pi;
    /// The smaller of two values; NaN where one of them is. [`min`](Val::min) prefers numbers.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// A limit that lets nobody overlook what went wrong before.
    /// fn limited(gradient: Val<f32>, limit: f32) -> Val<f32> {
    ///     gradient.min_nan(limit).max_nan(-limit)
    /// }
    /// ```
    min_nan(other): min_nan;
    /// The larger of two values; NaN where one of them is. [`max`](Val::max) prefers numbers.
    max_nan(other): max_nan;
}

impl<T: Float> Val<T> {
    /// Whether the sign is negative, of zeros and NaN too.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn is_negative_zero(x: Val<f32>) -> Val<bool> {
    ///     x.eq(0.0) & x.is_sign_negative()
    /// }
    /// ```
    #[track_caller]
    pub fn is_sign_negative(self) -> Val<bool> {
        match T::SCALAR {
            Scalar::F64 => self.bitcast::<i64>().lt(0),
            Scalar::F32 => self.bitcast::<i32>().lt(0),
            _ => self.cast::<f32>().bitcast::<i32>().lt(0),
        }
    }

    /// The value limited to 0 to 1; of NaN it is 0.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = iota::<f32>(4) * 0.75;
    /// device_assert!(x.saturate().eq(x.min(1.0)).all() & val::<f32>(-0.5).saturate().eq(0.0));
    /// # });
    /// ```
    #[track_caller]
    pub fn saturate(self) -> Val<T> {
        self.max(0.0).min(1.0)
    }

    /// The least number above the value: of the largest number infinity, which is its own.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// A range that holds a sum whatever way it was rounded.
    /// fn around(sum: Val<f32>) -> (Val<f32>, Val<f32>) {
    ///     (sum.next_down(), sum.next_up())
    /// }
    /// ```
    #[track_caller]
    pub fn next_up(self) -> Val<T> {
        match T::SCALAR {
            Scalar::F64 => {
                let bits = self.bitcast::<i64>();
                let next = select(bits.lt(0), bits - 1, bits + 1);
                above(self, select(self.eq(0.0), 1, next).bitcast())
            }
            Scalar::F32 => above(self, next_of(self.bitcast(), 1).cast()),
            Scalar::BF16 => above(self, next_of(self.cast::<f32>().bitcast(), 1 << 16).cast()),
            _ => above(self, next_of_half(self.cast::<f32>()).cast()),
        }
    }

    /// The greatest number below the value: of the least number minus infinity, which is its own.
    #[track_caller]
    pub fn next_down(self) -> Val<T> {
        -(-self).next_up()
    }

    /// The next number on the way to another, which it is where both are equal; NaN where one is.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let one = val::<f32>(1.0);
    /// device_assert!(one.next_after(2.0).eq(1.0 + f32::EPSILON) & one.next_after(1.0).eq(1.0));
    /// device_assert!(one.next_after(0.0).eq(one.next_down()));
    /// # });
    /// ```
    #[track_caller]
    pub fn next_after(self, toward: impl IntoVal<T>) -> Val<T> {
        let toward = toward.into_val();
        let next = select(self.lt(toward), self.next_up(), self.next_down());
        let moved = select(self.eq(toward), toward, next);
        select(self.is_nan() | toward.is_nan(), self + toward, moved)
    }

    /// The value times 2 to the power of `n`, rounded once.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// A number of a block of numbers that share an exponent.
    /// fn decoded(mantissa: Val<i32>, exponent: Val<i32>) -> Val<f32> {
    ///     mantissa.cast::<f32>().ldexp(exponent)
    /// }
    /// ```
    #[track_caller]
    pub fn ldexp(self, n: impl IntoVal<i32>) -> Val<T> {
        let n = n.into_val();
        match T::SCALAR {
            Scalar::F64 => ldexp(self, n, &DOUBLE, |n| ((n.cast::<i64>() + 1023) << 52).bitcast::<T>()),
            Scalar::F32 => ldexp(self, n, &SINGLE, |n| ((n + 127) << 23).bitcast::<T>()),
            _ => self.cast::<f32>().ldexp(n).cast::<T>(),
        }
    }

    /// A fraction of magnitude 0.5 to 1, without 1, and the power of 2 by which it is multiplied. A
    /// zero, an infinity and NaN are their own fraction, and have the exponent 0.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// The least power of 2 above a scale.
    /// fn power_above(scale: Val<f32>) -> Val<f32> {
    ///     scale.frexp().1.cast::<f32>().exp2()
    /// }
    /// ```
    #[track_caller]
    pub fn frexp(self) -> (Val<T>, Val<i32>) {
        match T::SCALAR {
            Scalar::F64 => {
                let bits = self.bitcast::<u64>();
                let (mantissa, exponent) = (bits & ((1u64 << 52) - 1), (bits >> 52).cast::<i32>() & 0x7ff);
                let shift = mantissa.clz() - 11;
                let is_normal = exponent.ne(0);
                let fraction = select(is_normal, mantissa, (mantissa << shift) & ((1u64 << 52) - 1));
                let power = select(is_normal, exponent - 1022, (-shift.cast::<i32>()) - 1021);
                let fraction = (bits & (1u64 << 63)) | fraction | (1022u64 << 52);
                parts(self, fraction.bitcast(), power)
            }
            Scalar::F32 => {
                let bits = self.bitcast::<u32>();
                let (mantissa, exponent) = (bits & 0x7f_ffff, (bits >> 23).cast::<i32>() & 0xff);
                let shift = mantissa.clz() - 8;
                let is_normal = exponent.ne(0);
                let fraction = select(is_normal, mantissa, (mantissa << shift) & 0x7f_ffff);
                let power = select(is_normal, exponent - 126, (-shift.cast::<i32>()) - 125);
                let fraction = (bits & (1u32 << 31)) | fraction | (126 << 23);
                parts(self, fraction.bitcast(), power)
            }
            _ => {
                let (fraction, power) = self.cast::<f32>().frexp();
                (fraction.cast(), power)
            }
        }
    }
}

/// What [`Val::frexp`] gives, but of what has no exponent.
#[track_caller]
fn parts<T: Float>(x: Val<T>, fraction: Val<T>, power: Val<i32>) -> (Val<T>, Val<i32>) {
    let is_own = x.eq(0.0) | !x.is_finite();
    (select(is_own, x, fraction), select(is_own, 0, power))
}

/// The number above, where there is one: of infinity and NaN themselves.
#[track_caller]
fn above<T: Float>(x: Val<T>, next: Val<T>) -> Val<T> {
    select(x.lt(f64::INFINITY), next, x)
}

/// The next number above one with these bits, of those whose bits are multiples of a step.
#[track_caller]
fn next_of(bits: Val<i32>, step: i32) -> Val<f32> {
    let next = select(bits.lt(0), bits - step, bits + step);
    // Of zeros of both signs the least number above.
    select((bits << 1).eq(0), step, next).bitcast()
}

/// The next f16 above one: in steps of its thirteenth bit as f32, or of 2^-24 where it has fewer.
#[track_caller]
fn next_of_half(x: Val<f32>) -> Val<f32> {
    let least_normal = 2f32.powi(-14);
    let bits = x.bitcast::<i32>();
    let normal = select(bits.lt(0), bits - (1 << 13), bits + (1 << 13)).bitcast::<f32>();
    let is_small = x.ge(-least_normal) & x.lt(least_normal);
    let next = select(is_small, x + 2f32.powi(-24), normal);
    select(x.eq(f64::NEG_INFINITY), -65504.0, next)
}

#[track_caller]
fn copysign<F: Float>(x: Val<F>, sign: Val<F>) -> Val<F> {
    select(x.is_sign_negative().ne(sign.is_sign_negative()), -x, x)
}

#[track_caller]
fn fdim<F: Float>(x: Val<F>, y: Val<F>) -> Val<F> {
    select(x.le(y), 0.0, x - y)
}

#[track_caller]
fn fract<F: Float>(x: Val<F>) -> Val<F> {
    x - x.trunc()
}

#[track_caller]
fn round_away<F: Float>(x: Val<F>) -> Val<F> {
    let whole = x.trunc();
    let one = copysign(1.0.into_val(), x);
    select((x - whole).abs().ge(0.5), whole + one, whole)
}

#[track_caller]
fn min_nan<F: Float>(a: Val<F>, b: Val<F>) -> Val<F> {
    select(a.is_nan() | b.is_nan(), a + b, a.min(b))
}

#[track_caller]
fn max_nan<F: Float>(a: Val<F>, b: Val<F>) -> Val<F> {
    select(a.is_nan() | b.is_nan(), a + b, a.max(b))
}

/// By the remainder of twice the divisor, which tells whether the quotient is odd; twice a divisor
/// too large for that is infinite, and the remainder the dividend.
#[track_caller]
fn remainder<F: Float>(x: Val<F>, y: Val<F>) -> Val<F> {
    let y = y.abs();
    let rest = x.abs() % (y + y);
    let less = rest - y;
    let less = select((less + less).ge(y), less - y, less);
    // Half of the divisor stays where the quotient is even, which is where nothing is taken off.
    let rest = select((rest + rest).gt(y), less, rest);
    select(x.is_sign_negative(), -rest, rest)
}

/// What is left of a number without the multiple of 2 nearest to it: -1 to 1, exactly.
#[track_caller]
fn half_turns<F: Float>(x: Val<F>) -> Val<F> {
    let turns = (x * 0.5).round();
    x - (turns + turns)
}

#[track_caller]
fn sin_pi<F: Float>(x: Val<F>) -> Val<F> {
    let r = half_turns(x);
    // The sine has the same values on both sides of half a turn.
    let near = select(r.abs().gt(0.5), copysign(-r.abs() + 1.0, r), r);
    let sine = (near * std::f64::consts::PI).sin();
    select(sine.eq(0.0), copysign(0.0.into_val(), x), sine)
}

#[track_caller]
fn cos_pi<F: Float>(x: Val<F>) -> Val<F> {
    ((-half_turns(x).abs() + 0.5) * std::f64::consts::PI).sin()
}

/// The powers of 2 that scale a number of a type without rounding it.
struct Powers {
    greatest: i32,
    least: i32,
    /// A power that leaves all bits of a number whose result is one.
    down: i32,
}

const SINGLE: Powers = Powers { greatest: 127, least: -126, down: -102 };
const DOUBLE: Powers = Powers { greatest: 1023, least: -1022, down: -969 };

/// Scales by powers in range, of which only the last one rounds.
#[track_caller]
fn ldexp<T: Float>(x: Val<T>, n: Val<i32>, powers: &Powers, power: impl Fn(Val<i32>) -> Val<T>) -> Val<T> {
    let (mut x, mut n) = (x, n.clamp(4 * powers.least, 4 * powers.greatest));
    for _ in 0..2 {
        let is_far = n.gt(powers.greatest);
        x = select(is_far, x * 2f64.powi(powers.greatest), x);
        n = select(is_far, n - powers.greatest, n);
    }
    for _ in 0..2 {
        let is_far = n.lt(powers.least);
        x = select(is_far, x * 2f64.powi(powers.down), x);
        n = select(is_far, n - powers.down, n);
    }
    x * power(n.clamp(powers.least, powers.greatest))
}
