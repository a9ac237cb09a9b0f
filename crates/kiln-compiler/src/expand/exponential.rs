//! `exp`, `exp2`, `log`, `log2`, `tanh`, `sigmoid`.

use super::math::Math;
use kiln_ir::{BinaryOp, CompareOp, Scalar, UnaryOp, Value};
use std::f64::consts::{LN_2, LOG2_E};

/// 1/n! from n = 13 down to 2: e^r - 1 - r on |r| <= ln 2 / 2 to 4e-18.
const EXP_TAIL: [f64; 12] = [
    1.605_904_383_682_161_5e-10,
    2.087_675_698_786_81e-9,
    2.505_210_838_544_172e-8,
    2.755_731_922_398_589e-7,
    2.755_731_922_398_589e-6,
    2.480_158_730_158_73e-5,
    1.984_126_984_126_984e-4,
    1.388_888_888_888_889e-3,
    8.333_333_333_333_333e-3,
    4.166_666_666_666_666_4e-2,
    1.666_666_666_666_666_6e-1,
    0.5,
];

impl Math<'_, '_> {
    pub(super) fn exp(&mut self, x: Value) -> Value {
        if self.is_double() {
            return self.exp_double(x);
        }
        // x log2(e) = t + f with t whole, f in [0, 1] to well below an ulp; both powers are exact
        // to the hardware's two ulp. Rounding t down keeps it at 127 for the largest finite
        // results.
        let x = self.clamp(x, -105.0, 89.0);
        let high = self.c(f64::from(LOG2_E as f32));
        let low = self.c(LOG2_E - f64::from(LOG2_E as f32));
        let product = self.mul(x, high);
        let t = self.b.unary(UnaryOp::Floor, product);
        let minus_t = self.neg(t);
        let f = self.fma(x, high, minus_t);
        let f = self.fma(x, low, f);
        let (a, b) = (self.b.unary(UnaryOp::Exp2, f), self.b.unary(UnaryOp::Exp2, t));
        self.mul(a, b)
    }

    fn exp_double(&mut self, x: Value) -> Value {
        let x = self.clamp(x, -746.0, 710.0);
        let scale = self.c(LOG2_E);
        let product = self.mul(x, scale);
        let k = self.b.unary(UnaryOp::Round, product);
        // ln 2 in two parts, the first with trailing zeros (msun e_exp.c).
        let (high, low) = (self.c(-6.931_471_803_691_238e-1), self.c(-1.908_214_929_270_587_7e-10));
        let r = self.fma(k, high, x);
        let r = self.fma(k, low, r);
        self.scaled_exp(r, k)
    }

    pub(super) fn exp2_double(&mut self, x: Value) -> Value {
        let x = self.clamp(x, -1080.0, 1025.0);
        let k = self.b.unary(UnaryOp::Round, x);
        let (f, ln2) = (self.sub(x, k), self.c(LN_2));
        let r = self.mul(f, ln2);
        self.scaled_exp(r, k)
    }

    /// `e^r * 2^k` for a small r, f64.
    fn scaled_exp(&mut self, r: Value, k: Value) -> Value {
        let (minus_one, one) = (self.expm1_small(r), self.c(1.0));
        let p = self.add(minus_one, one);
        // 2^k in two factors, so that neither overflows where the product does not.
        let k = self.cast(k, Scalar::I64);
        let first = self.ci(1);
        let half = self.b.binary(BinaryOp::Shr, k, first);
        let rest = self.b.binary(BinaryOp::Sub, k, half);
        let (a, b) = (self.power_of_two(half), self.power_of_two(rest));
        let scaled = self.mul(p, a);
        self.mul(scaled, b)
    }

    /// `e^r - 1` for |r| <= ln 2 / 2, f64.
    fn expm1_small(&mut self, r: Value) -> Value {
        let tail = self.poly(r, &EXP_TAIL);
        let square = self.mul(r, r);
        self.fma(square, tail, r)
    }

    /// 2^k as f64, for a whole i64 k of a normal number.
    fn power_of_two(&mut self, k: Value) -> Value {
        let (bias, shift) = (self.ci(1023), self.ci(52));
        let biased = self.b.binary(BinaryOp::Add, k, bias);
        let bits = self.b.binary(BinaryOp::Shl, biased, shift);
        self.b.bitcast(bits, Scalar::F64)
    }

    pub(super) fn log(&mut self, x: Value) -> Value {
        let (k, f) = self.split(x);
        let log_m = self.log1p_small(f);
        let (high, low) = match self.is_double() {
            true => (6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10),
            false => (6.931_381_225_6e-1, 9.058_000_614_5e-6),
        };
        let (high, low) = (self.c(high), self.c(low));
        let small = self.fma(k, low, log_m);
        let result = self.fma(k, high, small);
        self.log_special(x, result)
    }

    pub(super) fn log2(&mut self, x: Value) -> Value {
        let (k, f) = self.split(x);
        let (log_m, scale) = (self.log1p_small(f), self.c(LOG2_E));
        let result = self.fma(log_m, scale, k);
        self.log_special(x, result)
    }

    /// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), k as a float. For positive finite x.
    fn split(&mut self, x: Value) -> (Value, Value) {
        let (mantissa, bias, root_half, tiny, lift) = match self.is_double() {
            true => (52, 1023, 0x3fe6_a09e_667f_3bcd_i64, f64::MIN_POSITIVE, 54.0),
            false => (23, 127, 0x3f35_04f3, f64::from(f32::MIN_POSITIVE), 25.0),
        };
        let int = self.int();
        // Subnormal numbers are lifted into the normal range.
        let is_tiny = self.lt(x, tiny);
        let factor = self.c(f64::powi(2.0, lift as i32));
        let lifted = self.mul(x, factor);
        let x = self.select(is_tiny, lifted, x);
        let (zero, correction) = (self.c(0.0), self.c(-lift));
        let correction = self.select(is_tiny, correction, zero);

        let bits = self.b.bitcast(x, int);
        let one = self.ci(bias << mantissa);
        let offset = self.ci((bias << mantissa) - root_half);
        let moved = self.b.binary(BinaryOp::Add, bits, offset);
        let shift = self.ci(mantissa);
        let exponent = self.b.binary(BinaryOp::Shr, moved, shift);
        let whole = self.b.binary(BinaryOp::Shl, exponent, shift);
        let significand = self.b.binary(BinaryOp::Sub, bits, whole);
        let significand = self.b.binary(BinaryOp::Add, significand, one);
        let m = self.b.bitcast(significand, self.elem);
        let minus_one = self.c(-1.0);
        let f = self.add(m, minus_one);
        let bias = self.ci(bias);
        let exponent = self.b.binary(BinaryOp::Sub, exponent, bias);
        let k = self.cast(exponent, self.elem);
        (self.add(k, correction), f)
    }

    /// log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)): with s = f / (2 + f), f - f²/2 + s (f²/2 +
    /// R(s²)) (msun e_log.c, e_logf.c).
    fn log1p_small(&mut self, f: Value) -> Value {
        let two = self.c(2.0);
        let denominator = self.add(f, two);
        let s = self.div(f, denominator);
        let z = self.mul(s, s);
        let tail = match self.is_double() {
            true => self.poly(
                z,
                &[
                    1.479_819_860_511_658_6e-1,
                    1.531_383_769_920_937_3e-1,
                    1.818_357_216_161_805e-1,
                    2.222_219_843_214_978_4e-1,
                    2.857_142_874_366_239e-1,
                    3.999_999_999_940_942e-1,
                    6.666_666_666_666_735e-1,
                ],
            ),
            false => self.poly(z, &[0.242_790_788_41, 0.284_987_866_88, 0.400_009_721_52, 0.666_666_626_93]),
        };
        let half = self.c(0.5);
        let square = self.mul(f, f);
        let half_square = self.mul(square, half);
        let inner = self.fma(z, tail, half_square);
        let minus = self.neg(half_square);
        let low = self.fma(s, inner, minus);
        self.add(low, f)
    }

    /// The logarithms of 0, negative numbers, infinity and NaN.
    fn log_special(&mut self, x: Value, result: Value) -> Value {
        let (infinity, minus_infinity, nan) =
            (self.c(f64::INFINITY), self.c(f64::NEG_INFINITY), self.c(f64::NAN));
        // Infinity and NaN are their own logarithms.
        let finite = self.b.compare(CompareOp::Lt, x, infinity);
        let result = self.select(finite, result, x);
        let is_zero = self.eq(x, 0.0);
        let result = self.select(is_zero, minus_infinity, result);
        let negative = self.lt(x, 0.0);
        self.select(negative, nan, result)
    }

    /// The exponential is of a negative number, so that it does not overflow where the result is
    /// small but not zero.
    pub(super) fn sigmoid(&mut self, x: Value) -> Value {
        let a = self.abs(x);
        let minus = self.neg(a);
        let (e, one) = (self.exp(minus), self.c(1.0));
        let negative = self.lt(x, 0.0);
        let numerator = self.select(negative, e, one);
        let sum = self.add(e, one);
        self.div(numerator, sum)
    }

    pub(super) fn tanh(&mut self, x: Value) -> Value {
        let a = self.abs(x);
        let (near, far, limit) = match self.is_double() {
            true => (self.tanh_near_double(x), self.tanh_far_double(a), 0.34),
            false => (self.tanh_near(x), self.tanh_far(a), 0.625),
        };
        let is_near = self.lt(a, limit);
        let magnitude = self.select(is_near, near, far);
        // Also that of a zero, which the polynomial loses.
        self.copy_sign(magnitude, x)
    }

    /// Cephes tanhf.
    fn tanh_near(&mut self, x: Value) -> Value {
        let z = self.mul(x, x);
        let p = self.poly(
            z,
            &[
                -5.704_988_727_45e-3,
                2.063_908_879_54e-2,
                -5.373_971_555_31e-2,
                1.333_144_220_36e-1,
                -3.333_328_194_22e-1,
            ],
        );
        let cube = self.mul(z, x);
        self.fma(p, cube, x)
    }

    /// 1 - 2 / (e^2a + 1): the error of a plain 2^(2a log2 e) is damped by the quotient.
    fn tanh_far(&mut self, a: Value) -> Value {
        let scale = self.c(2.0 * LOG2_E);
        let exponent = self.mul(a, scale);
        let (e, one, minus_two) = (self.b.unary(UnaryOp::Exp2, exponent), self.c(1.0), self.c(-2.0));
        let sum = self.add(e, one);
        let reciprocal = self.div(one, sum);
        self.fma(reciprocal, minus_two, one)
    }

    /// With t = tanh(x/2) = (e^x - 1) / (e^x + 1), tanh x = 2t / (1 + t²).
    fn tanh_near_double(&mut self, x: Value) -> Value {
        let (minus_one, one, two) = (self.expm1_small(x), self.c(1.0), self.c(2.0));
        let sum = self.add(minus_one, two);
        let t = self.div(minus_one, sum);
        let denominator = self.fma(t, t, one);
        let twice = self.add(t, t);
        self.div(twice, denominator)
    }

    fn tanh_far_double(&mut self, a: Value) -> Value {
        let twice = self.add(a, a);
        let (e, one, two) = (self.exp_double(twice), self.c(1.0), self.c(2.0));
        let sum = self.add(e, one);
        let quotient = self.div(two, sum);
        self.sub(one, quotient)
    }
}
