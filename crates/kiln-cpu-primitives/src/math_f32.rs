//! Elementary functions of f32, within 2 units in the last place, without branches so that loops
//! over them vectorize.
//!
//! The polynomials are minimax fits (Remez) of the functions on the intervals named beside them,
//! rounded to f32 or f64. A few functions compute in f64, where that makes their accuracy obvious
//! and their speed matters less.

use super::element::Number;
use super::isa::IsaProfile;
use std::f32::consts::LOG2_E;

/// `c[0] + c[1] x + c[2] x² + …`
#[inline(always)]
fn polynomial<I: IsaProfile, T: Number, const N: usize>(x: T, c: [T; N]) -> T {
    let mut sum = c[N - 1];
    for &term in c[..N - 1].iter().rev() {
        sum = sum.mul_add_fast::<I>(x, term);
    }
    sum
}

/// Adding this and taking it away rounds an f32 of magnitude below 2^22 to an integer, ties to
/// even; between the two, the lowest bits of the sum are that integer.
const ROUND: f32 = 12_582_912.0;
/// As `ROUND`, for f64 below 2^51.
const ROUND_64: f64 = 6_755_399_441_055_744.0;

/// ln 2 in two parts; the first has so few bits that its product with an exponent is exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// 2^n for an `n` that is a normal number's exponent; other values give garbage.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `y * 2^n` with gradual underflow, for `n` from -252 to 254 and `y` near 1.
#[inline(always)]
fn scale(y: f32, n: i32) -> f32 {
    let half = n >> 1;
    y * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `x` within the limits; NaN is kept.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `n` and `e^(x - n ln 2)` for the integer `n` nearest to `x / ln 2`.
#[inline(always)]
fn exp_reduced<I: IsaProfile>(x: f32) -> (i32, f32) {
    let shifted = x.mul_add_fast::<I>(LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add_fast::<I>(-LN_2_HIGH, x);
    let r = n.mul_add_fast::<I>(-LN_2_LOW, r);
    // (e^r - 1 - r) / r² on ±ln(2)/2
    let p =
        polynomial::<I, f32, 5>(r, [0.499_999_93, 0.166_665_15, 0.041_668_456, 0.008_369_419, 0.001_381_316]);
    let y = p.mul_add_fast::<I>(r * r, r) + 1.0;
    (shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32, y)
}

/// e^x
#[inline(always)]
pub(crate) fn exp<I: IsaProfile>(x: f32) -> f32 {
    // Beyond the limits lie infinity and, below half of the least subnormal, zero.
    let (n, y) = exp_reduced::<I>(clamp(x, -104.0, 89.0));
    scale(y, n)
}

/// e^x for results that are normal numbers.
#[inline(always)]
fn exp_normal<I: IsaProfile>(x: f32) -> f32 {
    let (n, y) = exp_reduced::<I>(x);
    y * power_of_two(n)
}

/// 2^x
#[inline(always)]
pub(crate) fn exp2<I: IsaProfile>(x: f32) -> f32 {
    let x = clamp(x, -151.0, 129.0);
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    // (2^r - 1) / r on ±0.5
    let c = [0.693_147_24, 0.240_226_53, 0.055_503_063, 0.009_617_674, 0.001_340_818_3, 0.000_155_986_13];
    let y = polynomial::<I, f32, 6>(r, c).mul_add_fast::<I>(r, 1.0);
    scale(y, shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32)
}

/// The exponent `e`, `f` and `g` with x = 2^e (1 + f), f from √½ - 1 to √2 - 1, and ln(1 + f) = f +
/// g. For positive finite `x`.
#[inline(always)]
fn log_reduced<I: IsaProfile>(x: f32) -> (f32, f32, f32) {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let subnormal = x < f32::MIN_POSITIVE;
    let bits = (if subnormal { x * 8_388_608.0 } else { x }).to_bits();
    let e = (bits.wrapping_sub(SQRT_HALF) as i32) >> 23;
    let f = f32::from_bits(bits.wrapping_sub((e << 23) as u32)) - 1.0;
    // (ln(1 + f) - f + f²/2) / f³
    let c = [
        0.333_333_13,
        -0.250_000_1,
        0.200_021_19,
        -0.166_679_96,
        0.142_195_54,
        -0.124_055_9,
        0.118_881_53,
        -0.116_756_32,
        0.067_466_26,
    ];
    let square = f * f;
    let g = (square * f) * polynomial::<I, f32, 9>(f, c);
    let g = square.mul_add_fast::<I>(-0.5, g);
    (e as f32 - if subnormal { 23.0 } else { 0.0 }, f, g)
}

/// `y`, or the logarithm of an `x` that is not positive and finite.
#[inline(always)]
fn log_special(x: f32, y: f32) -> f32 {
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

/// ln x
#[inline(always)]
pub(crate) fn log<I: IsaProfile>(x: f32) -> f32 {
    let (e, f, g) = log_reduced::<I>(x);
    let low = e.mul_add_fast::<I>(LN_2_LOW, g);
    log_special(x, e.mul_add_fast::<I>(LN_2_HIGH, f + low))
}

/// log₂ x
#[inline(always)]
pub(crate) fn log2<I: IsaProfile>(x: f32) -> f32 {
    // The part of log₂ e above 1 multiplies, so that the large terms are added exactly.
    const LOG2_E_ABOVE_1: f32 = 0.442_695_04;
    let (e, f, g) = log_reduced::<I>(x);
    let low = f.mul_add_fast::<I>(LOG2_E_ABOVE_1, g * LOG2_E_ABOVE_1) + g;
    log_special(x, e + (f + low))
}

/// Above this magnitude `sin` and `cos` are computed one by one; their argument reduction is exact
/// up to here.
pub(crate) const TRIGONOMETRIC_LIMIT: f32 = 1.0e6;

/// `n` and `x - n π/2` for the integer `n` nearest to `x / (π/2)`, for magnitudes up to
/// `TRIGONOMETRIC_LIMIT`.
#[inline(always)]
fn quarter_turns<I: IsaProfile>(x: f32) -> (i32, f32) {
    // π/2 in two parts, the first of 33 bits: its product with n is exact.
    const HIGH: f64 = f64::from_bits(0x3ff9_21fb_5440_0000);
    const LOW: f64 = 6.077_100_506_506_192e-11;
    let x = x as f64;
    let shifted = x.mul_add_fast::<I>(std::f64::consts::FRAC_2_PI, ROUND_64);
    let n = shifted - ROUND_64;
    let r = n.mul_add_fast::<I>(-HIGH, x);
    let r = n.mul_add_fast::<I>(-LOW, r);
    (shifted.to_bits() as i32, r as f32)
}

/// The sine of `r` plus `n` quarter turns.
#[inline(always)]
fn sin_of_quarters<I: IsaProfile>(n: i32, r: f32) -> f32 {
    let z = r * r;
    // (sin r - r) / r³ and (cos r - 1 + r²/2) / r⁴ on ±π/4
    let s = polynomial::<I, f32, 3>(z, [-0.166_666_54, 0.008_332_151, -0.000_195_139_8]);
    let c = polynomial::<I, f32, 3>(z, [0.041_666_646, -0.001_388_730_3, 2.443_167e-5]);
    let sin = s.mul_add_fast::<I>(z * r, r);
    let cos = c.mul_add_fast::<I>(z * z, z.mul_add_fast::<I>(-0.5, 1.0));
    let y = if n & 1 == 0 { sin } else { cos };
    f32::from_bits(y.to_bits() ^ ((n & 2) as u32) << 30)
}

/// sin x, for magnitudes up to `TRIGONOMETRIC_LIMIT`.
#[inline(always)]
pub(crate) fn sin<I: IsaProfile>(x: f32) -> f32 {
    let (n, r) = quarter_turns::<I>(x);
    let y = sin_of_quarters::<I>(n, r);
    // The reduction turns -0 into 0.
    if x == 0.0 { x } else { y }
}

/// cos x, for magnitudes up to `TRIGONOMETRIC_LIMIT`.
#[inline(always)]
pub(crate) fn cos<I: IsaProfile>(x: f32) -> f32 {
    let (n, r) = quarter_turns::<I>(x);
    sin_of_quarters::<I>(n.wrapping_add(1), r)
}

/// tanh x
#[inline(always)]
pub(crate) fn tanh<I: IsaProfile>(x: f32) -> f32 {
    let z = x * x;
    // (tanh x - x) / x³ on ±0.625
    let t = polynomial::<I, f32, 5>(
        z,
        [-0.333_332_8, 0.133_314_42, -0.053_739_72, 0.020_639_093, -0.005_704_992_3],
    );
    let small = t.mul_add_fast::<I>(z * x, x);
    // Beyond 9.1 the result rounds to 1.
    let magnitude = clamp(x.abs(), 0.0, 9.1);
    let large = 1.0 - 2.0 / (exp_normal::<I>(2.0 * magnitude) + 1.0);
    let y = if magnitude < 0.625 { small } else { large };
    y.copysign(x)
}

/// 1 / (1 + e^-x)
#[inline(always)]
pub(crate) fn sigmoid<I: IsaProfile>(x: f32) -> f32 {
    let e = exp::<I>(-x.abs());
    let positive = 1.0 / (1.0 + e);
    // e / (1 + e), but without the rounding of 1 + e where e is small.
    let negative = e - e * (e * positive);
    if x < 0.0 { negative } else { positive }
}

/// erf x
#[inline(always)]
pub(crate) fn erf<I: IsaProfile>(x: f32) -> f32 {
    let z = x * x;
    // erf(x) / x - 1 on ±1: the rounding of a small correction to x is all that shows.
    let c = [
        0.128_379_17,
        -0.376_126_26,
        0.112_835_85,
        -0.026_853_813,
        0.005_188_328,
        -0.000_801_019_8,
        7.853_878e-5,
    ];
    let small = polynomial::<I, f32, 7>(z, c).mul_add_fast::<I>(x, x);
    // -ln erfc(x) on 1..4; beyond 4 the result rounds to 1.
    let magnitude = clamp(x.abs(), 0.0, 4.0);
    let c = [
        0.000_341_576_2,
        1.127_089,
        0.638_145_2,
        0.103_106_424,
        -0.021_837_903,
        0.002_947_617_5,
        -0.000_186_374_95,
    ];
    let large = 1.0 - exp_normal::<I>(-polynomial::<I, f32, 7>(magnitude, c));
    let y = if magnitude < 1.0 { small } else { large };
    y.copysign(x)
}

/// log₂ of a positive finite f32, to about 2^-45.
#[inline(always)]
fn log2_wide<I: IsaProfile>(x: f32) -> f64 {
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = (x as f64).to_bits();
    // The exponent by way of the low 32 bits: vector units convert those.
    let e = ((bits.wrapping_sub(SQRT_HALF) >> 32) as i32) >> 20;
    let m = f64::from_bits(bits.wrapping_sub((e as u64) << 52));
    let s = (m - 1.0) / (m + 1.0);
    // log₂((1 + s) / (1 - s)) / s, in s²
    let c = [
        2.885_390_081_777_849_6,
        0.961_796_694_114_254_7,
        0.577_077_942_075_095_9,
        0.412_209_283_871_400_3,
        0.319_904_322_098_293_6,
        0.282_920_905_947_365_4,
    ];
    polynomial::<I, f64, 6>(s * s, c).mul_add_fast::<I>(s, e as f64)
}

/// 2^x to about 2^-40, for magnitudes below 1000.
#[inline(always)]
fn exp2_wide<I: IsaProfile>(x: f64) -> f64 {
    let shifted = x + ROUND_64;
    let r = x - (shifted - ROUND_64);
    let c = [
        0.999_999_999_999_757_8,
        0.693_147_180_546_297_9,
        0.240_226_506_989_267_57,
        0.055_504_109_402_204_873,
        0.009_618_128_536_237_697,
        0.001_333_345_121_066_192_2,
        0.000_154_038_542_371_873_05,
        1.530_996_589_236_218_7e-5,
        1.317_571_447_408_518e-6,
    ];
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    polynomial::<I, f64, 9>(r, c) * power
}

/// x^y
#[inline(always)]
pub(crate) fn pow<I: IsaProfile>(x: f32, y: f32) -> f32 {
    let magnitude = x.abs();
    let log = log2_wide::<I>(magnitude);
    let log = if magnitude == 0.0 { f64::NEG_INFINITY } else { log };
    let log = if magnitude < f32::INFINITY { log } else { magnitude as f64 };
    let exponent = y as f64 * log;
    let exponent = if exponent > 200.0 { 200.0 } else { exponent };
    let exponent = if exponent < -200.0 { -200.0 } else { exponent };
    let result = exp2_wide::<I>(exponent) as f32;
    // A float of 2^24 or more is an even integer.
    let even = |y: f32| (y * 0.5).trunc() * 2.0 == y;
    let integer = y.trunc() == y;
    let odd = integer & !even(y);
    let negative = x.is_sign_negative();
    let result = if odd & negative { -result } else { result };
    let result =
        if negative & !integer & (magnitude > 0.0) & (magnitude < f32::INFINITY) { f32::NAN } else { result };
    let one = (y == 0.0) | (x == 1.0) | ((magnitude == 1.0) & (y.abs() == f32::INFINITY));
    if one { 1.0 } else { result }
}

/// The angle of the point (x, y).
#[inline(always)]
pub(crate) fn atan2<I: IsaProfile>(y: f32, x: f32) -> f32 {
    use std::f64::consts::{FRAC_PI_2, PI};
    let (ay, ax) = (y.abs() as f64, x.abs() as f64);
    let steep = ay > ax;
    let (low, high) = if steep { (ax, ay) } else { (ay, ax) };
    // On the axes and between infinities the quotient is NaN or worse.
    let q = if low == high { 1.0 } else { low / high };
    let q = if high == 0.0 { 0.0 } else { q };
    // atan(q) / q on 0..1, in q²
    let c = [
        0.999_999_997_631_244_3,
        -0.333_332_836_494_177_2,
        0.199_982_661_905_350_66,
        -0.142_619_342_986_346_6,
        0.109_420_355_040_131_35,
        -0.083_773_264_096_589_74,
        0.057_552_246_280_865_14,
        -0.030_804_706_105_812_67,
        0.010_726_987_472_914_907,
        -0.001_753_937_110_514_13,
    ];
    let angle = q * polynomial::<I, f64, 10>(q * q, c);
    let angle = if steep { FRAC_PI_2 - angle } else { angle };
    let angle = if x.is_sign_negative() { PI - angle } else { angle };
    let angle = if x.is_nan() | y.is_nan() { f64::NAN } else { angle };
    (angle as f32).copysign(y)
}
