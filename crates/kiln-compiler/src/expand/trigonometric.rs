//! `sin`, `cos`, `atan2`.

use super::math::Math;
use kiln_ir::{BinaryOp, CompareOp, Scalar, UnaryOp, Value};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

impl Math<'_, '_> {
    pub(super) fn sin(&mut self, x: Value) -> Value {
        let sin = self.sin_or_cos(x, 0);
        // The reduction and the polynomial lose the sign of a zero.
        let zero = self.eq(x, 0.0);
        self.select(zero, x, sin)
    }

    pub(super) fn cos(&mut self, x: Value) -> Value {
        self.sin_or_cos(x, 1)
    }

    /// Reduces to r in [-pi/4, pi/4] and a quadrant, which picks a polynomial and a sign. `quarter`
    /// is 1 for the cosine, a quadrant ahead.
    fn sin_or_cos(&mut self, x: Value, quarter: i64) -> Value {
        let elem = self.elem;
        let wide = self.cast(x, Scalar::F64);
        let double = self.is_double();
        let (r, quadrant) = self.double().reduce(wide, quarter, double);
        let r = self.cast(r, elem);
        let (sin, cos) = (self.sin_near(r), self.cos_near(r));
        let mut d = self.double();
        let (zero, one, two) = (d.ci(0), d.ci(1), d.ci(2));
        let odd = d.b.binary(BinaryOp::And, quadrant, one);
        let is_odd = d.b.compare(CompareOp::Ne, odd, zero);
        let upper = d.b.binary(BinaryOp::And, quadrant, two);
        let is_upper = d.b.compare(CompareOp::Ne, upper, zero);
        let value = self.select(is_odd, cos, sin);
        let minus = self.neg(value);
        self.select(is_upper, minus, value)
    }

    /// x - n pi/2, with n the nearest whole number, and n + quarter; f64, pi/2 in two parts. A
    /// third shows in f64 alone, where x is so close to a multiple that the two cancel it.
    fn reduce(&mut self, x: Value, quarter: i64, third_part: bool) -> (Value, Value) {
        let scale = self.c(FRAC_2_PI);
        let product = self.mul(x, scale);
        let n = self.b.unary(UnaryOp::Round, product);
        let (high, low) = (self.c(-FRAC_PI_2), self.c(-6.123_233_995_736_766e-17));
        let r = self.fma(n, high, x);
        let mut r = self.fma(n, low, r);
        if third_part {
            let third = self.c(1.497_384_904_859_169_8e-33);
            r = self.fma(n, third, r);
        }
        let whole = self.cast(n, Scalar::I64);
        let ahead = self.ci(quarter);
        (r, self.b.binary(BinaryOp::Add, whole, ahead))
    }

    /// msun k_sin.c, Cephes sinf.
    fn sin_near(&mut self, r: Value) -> Value {
        let z = self.mul(r, r);
        let p = match self.is_double() {
            true => self.poly(
                z,
                &[
                    1.589_690_995_211_55e-10,
                    -2.505_076_025_340_686_3e-8,
                    2.755_731_370_707_006_8e-6,
                    -1.984_126_982_985_795e-4,
                    8.333_333_333_322_49e-3,
                    -1.666_666_666_666_663_2e-1,
                ],
            ),
            false => self.poly(z, &[-1.951_529_589_1e-4, 8.332_160_873_6e-3, -1.666_665_461_1e-1]),
        };
        let cube = self.mul(z, r);
        self.fma(p, cube, r)
    }

    /// msun k_cos.c, Cephes cosf.
    fn cos_near(&mut self, r: Value) -> Value {
        let z = self.mul(r, r);
        let p = match self.is_double() {
            true => self.poly(
                z,
                &[
                    -1.135_964_755_778_819_5e-11,
                    2.087_572_321_298_175e-9,
                    -2.755_731_435_139_066_3e-7,
                    2.480_158_728_947_673e-5,
                    -1.388_888_888_887_411e-3,
                    4.166_666_666_666_66e-2,
                ],
            ),
            false => {
                self.poly(z, &[2.443_315_711_809_948e-5, -1.388_731_625_493_765e-3, 4.166_664_568_298_827e-2])
            }
        };
        let square = self.mul(z, z);
        let (minus_half, one) = (self.c(-0.5), self.c(1.0));
        let head = self.fma(z, minus_half, one);
        self.fma(p, square, head)
    }

    /// The angle of (x, y): atan of the smaller over the larger magnitude, then unfolded by octant.
    pub(super) fn atan2(&mut self, y: Value, x: Value) -> Value {
        let (ax, ay) = (self.abs(x), self.abs(y));
        let swapped = self.b.compare(CompareOp::Gt, ay, ax);
        let (small, large) = (self.select(swapped, ax, ay), self.select(swapped, ay, ax));
        let quotient = self.div(small, large);
        // 0/0 and inf/inf: the angle of the axis and of the diagonal.
        let (zero, one) = (self.c(0.0), self.c(1.0));
        let is_zero = self.eq(large, 0.0);
        let quotient = self.select(is_zero, zero, quotient);
        let both_infinite = self.eq(small, f64::INFINITY);
        let quotient = self.select(both_infinite, one, quotient);

        let angle = self.atan_unit(quotient);
        let (half_pi, pi) = (self.c(FRAC_PI_2), self.c(PI));
        let complement = self.sub(half_pi, angle);
        let angle = self.select(swapped, complement, angle);
        let (int, zero_bits) = (self.int(), self.ci(0));
        let sign = self.b.bitcast(x, int);
        let left = self.b.compare(CompareOp::Lt, sign, zero_bits);
        let supplement = self.sub(pi, angle);
        let angle = self.select(left, supplement, angle);
        let angle = self.copy_sign(angle, y);
        // NaN in either operand: the selections above may have lost it.
        let sum = self.add(x, y);
        let x_nan = self.b.unary(UnaryOp::IsNan, x);
        let y_nan = self.b.unary(UnaryOp::IsNan, y);
        let any = self.b.binary(BinaryOp::Or, x_nan, y_nan);
        self.select(any, sum, angle)
    }

    /// atan of t in [0, 1] (Cephes atan, atanf): above tan(pi/8), pi/4 + atan((t - 1) / (t + 1)).
    fn atan_unit(&mut self, t: Value) -> Value {
        let (one, quarter, zero) = (self.c(1.0), self.c(FRAC_PI_4), self.c(0.0));
        let upper = self.gt(t, 0.414_213_562_373_095);
        let (minus, plus) = (self.sub(t, one), self.add(t, one));
        let folded = self.div(minus, plus);
        let t = self.select(upper, folded, t);
        let base = self.select(upper, quarter, zero);
        let z = self.mul(t, t);
        let p = match self.is_double() {
            true => {
                let p = self.poly(
                    z,
                    &[
                        -8.750_608_600_031_904e-1,
                        -1.615_753_718_733_365e1,
                        -7.500_855_792_314_705e1,
                        -1.228_866_684_490_136_1e2,
                        -6.485_021_904_942_025e1,
                    ],
                );
                let q = self.poly(
                    z,
                    &[
                        1.0,
                        2.485_846_490_142_306_3e1,
                        1.650_270_098_316_988_5e2,
                        4.328_810_604_912_903e2,
                        4.853_903_996_359_137e2,
                        1.945_506_571_482_614e2,
                    ],
                );
                self.div(p, q)
            }
            false => self.poly(
                z,
                &[8.053_744_495_38e-2, -1.387_768_560_32e-1, 1.997_771_064_78e-1, -3.333_294_915_39e-1],
            ),
        };
        let cube = self.mul(z, t);
        let angle = self.fma(p, cube, t);
        self.add(base, angle)
    }
}
