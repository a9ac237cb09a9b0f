//! Arithmetic of f32 that rounds in a given direction.
//!
//! The result rounded to nearest is compared with the exact one, and moved to its neighbor where it
//! lies on the wrong side. A product of two f32 is exact in f64, and so is the sign of what a
//! quotient or a root leaves; of a sum, what rounding took is exact in f32 (Dekker, "A
//! Floating-Point Technique for Extending the Available Precision", 1971).

use super::select;
use crate::val::{IntoVal, Val};

/// Where a result that is no f32 goes.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Zero,
    Up,
    Down,
}

use Direction::{Down, Up, Zero};

macro_rules! rounded {
    ($($what:literal $formula:ident($($operand:ident),*): $zero:ident $up:ident $down:ident $example:literal;)*) => {
        impl Val<f32> {$(
            #[doc = concat!($what, ", rounded towards zero.")]
            ///
            /// ```
            /// use kiln_lang::Val;
            ///
            #[doc = $example]
            /// ```
            #[track_caller]
            pub fn $zero(self $(, $operand: impl IntoVal<f32>)*) -> Val<f32> {
                $formula(self $(, $operand.into_val())*, Zero)
            }

            #[doc = concat!($what, ", rounded up, towards plus infinity.")]
            #[track_caller]
            pub fn $up(self $(, $operand: impl IntoVal<f32>)*) -> Val<f32> {
                $formula(self $(, $operand.into_val())*, Up)
            }

            #[doc = concat!($what, ", rounded down, towards minus infinity.")]
            #[track_caller]
            pub fn $down(self $(, $operand: impl IntoVal<f32>)*) -> Val<f32> {
                $formula(self $(, $operand.into_val())*, Down)
            }
        )*}
    };
}

rounded! {
    "The sum" add(other): add_rz add_ru add_rd
        "fn bounds(a: Val<f32>, b: Val<f32>) -> [Val<f32>; 3] {\n    [a.add_rd(b), a.add_rz(b), a.add_ru(b)]\n}";
    "The difference" sub(other): sub_rz sub_ru sub_rd
        "fn bounds(a: Val<f32>, b: Val<f32>) -> [Val<f32>; 3] {\n    [a.sub_rd(b), a.sub_rz(b), a.sub_ru(b)]\n}";
    "The product" mul(other): mul_rz mul_ru mul_rd
        "fn bounds(a: Val<f32>, b: Val<f32>) -> [Val<f32>; 3] {\n    [a.mul_rd(b), a.mul_rz(b), a.mul_ru(b)]\n}";
    "The quotient" div(other): div_rz div_ru div_rd
        "fn bounds(a: Val<f32>, b: Val<f32>) -> [Val<f32>; 3] {\n    [a.div_rd(b), a.div_rz(b), a.div_ru(b)]\n}";
    "The square root" sqrt(): sqrt_rz sqrt_ru sqrt_rd
        "fn bounds(a: Val<f32>) -> [Val<f32>; 3] {\n    [a.sqrt_rd(), a.sqrt_rz(), a.sqrt_ru()]\n}";
    "`self * a + b`" fma(a, b): fma_rz fma_ru fma_rd
        "fn bounds(x: Val<f32>, a: Val<f32>, b: Val<f32>) -> [Val<f32>; 3] {\n    [x.fma_rd(a, b), x.fma_rz(a, b), x.fma_ru(a, b)]\n}";
}

/// A result that was rounded to nearest, and whether the exact one is above or below it.
#[track_caller]
fn moved(nearest: Val<f32>, above: Val<bool>, below: Val<bool>, to: Direction) -> Val<f32> {
    let bits = nearest.bitcast::<i32>();
    let neighbor = |is_wrong: Val<bool>, step: Val<i32>, of_zero: i32| {
        let next = select(nearest.eq(0.0), of_zero, bits + step);
        select(is_wrong, next, bits).bitcast::<f32>()
    };
    let away = |is_away: Val<bool>| select(is_away, 1, (-1).into_val());
    match to {
        Up => neighbor(above, away(bits.ge(0)), 1),
        Down => neighbor(below, away(bits.lt(0)), i32::MIN + 1),
        Zero => {
            let too_far = (nearest.gt(0.0) & below) | (nearest.lt(0.0) & above);
            select(too_far, bits - 1, bits).bitcast()
        }
    }
}

/// A sum that is exactly zero: rounded down it is negative, but of two positive zeros.
#[track_caller]
fn sign_of_zero(sum: Val<f32>, is_negative: Val<bool>, to: Direction) -> Val<f32> {
    match to {
        Down => select(sum.eq(0.0) & is_negative, -0.0, sum),
        Zero | Up => sum,
    }
}

#[track_caller]
fn add(a: Val<f32>, b: Val<f32>, to: Direction) -> Val<f32> {
    let sum = a + b;
    let is_first = a.abs().ge(b.abs());
    let (long, short) = (select(is_first, a, b), select(is_first, b, a));
    let lost = short - (sum - long);
    // A sum that overflowed lies beyond the exact one.
    let (low, high) = (sum.eq(f64::NEG_INFINITY), sum.eq(f64::INFINITY));
    let is_finite = a.is_finite() & b.is_finite();
    let above = select(low, is_finite, lost.gt(0.0));
    let below = select(high, is_finite, lost.lt(0.0));
    let sum_moved = moved(sum, above, below, to);
    let is_exact_zero = sum.eq(0.0);
    let negative = is_exact_zero & (a.is_sign_negative() | b.is_sign_negative());
    sign_of_zero(sum_moved, negative, to)
}

#[track_caller]
fn sub(a: Val<f32>, b: Val<f32>, to: Direction) -> Val<f32> {
    add(a, -b, to)
}

#[track_caller]
fn mul(a: Val<f32>, b: Val<f32>, to: Direction) -> Val<f32> {
    let exact = a.cast::<f64>() * b.cast::<f64>();
    let nearest = exact.cast::<f32>();
    let rounded = nearest.cast::<f64>();
    moved(nearest, exact.gt(rounded), exact.lt(rounded), to)
}

#[track_caller]
fn div(a: Val<f32>, b: Val<f32>, to: Direction) -> Val<f32> {
    let quotient = a / b;
    let rest = (-quotient.cast::<f64>()).fma(b.cast::<f64>(), a.cast::<f64>());
    let is_negative = b.lt(0.0);
    let above = select(is_negative, rest.lt(0.0), rest.gt(0.0));
    let below = select(is_negative, rest.gt(0.0), rest.lt(0.0));
    moved(quotient, above, below, to)
}

#[track_caller]
fn sqrt(a: Val<f32>, to: Direction) -> Val<f32> {
    let root = a.sqrt();
    let wide = root.cast::<f64>();
    let rest = (-wide).fma(wide, a.cast::<f64>());
    moved(root, rest.gt(0.0), rest.lt(0.0), to)
}

/// The exact result as a sum of two f64, of which the second one counts where the first one is the
/// result.
#[track_caller]
fn fma(x: Val<f32>, a: Val<f32>, b: Val<f32>, to: Direction) -> Val<f32> {
    let (product, b_wide) = (x.cast::<f64>() * a.cast::<f64>(), b.cast::<f64>());
    let sum = product + b_wide;
    let is_first = product.abs().ge(b_wide.abs());
    let (long, short) = (select(is_first, product, b_wide), select(is_first, b_wide, product));
    let lost = short - (sum - long);
    let nearest = x.fma(a, b);
    let wide = nearest.cast::<f64>();
    let is_same = sum.eq(wide);
    let above = select(is_same, lost.gt(0.0), sum.gt(wide));
    let below = select(is_same, lost.lt(0.0), sum.lt(wide));
    let result = moved(nearest, above, below, to);
    let is_exact_zero = sum.eq(0.0) & lost.eq(0.0);
    let negative = is_exact_zero & (product.is_sign_negative() | b.is_sign_negative());
    sign_of_zero(result, negative, to)
}
