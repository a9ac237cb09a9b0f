//! `pow`.

use super::math::Math;
use kiln_ir::{BinaryOp, CompareOp, Scalar, UnaryOp, Value};

impl Math<'_, '_> {
    /// 2^(y log2 |x|), in f64, with the signs and special cases of IEEE 754's `pow`.
    pub(super) fn pow(&mut self, x: Value, y: Value) -> Value {
        let elem = self.elem;
        let (x, y) = (self.cast(x, Scalar::F64), self.cast(y, Scalar::F64));
        let result = self.double().pow_double(x, y);
        if elem == Scalar::F64 { result } else { self.cast(result, elem) }
    }

    fn pow_double(&mut self, x: Value, y: Value) -> Value {
        let (one, nan) = (self.c(1.0), self.c(f64::NAN));
        let a = self.abs(x);
        let log = self.log2(a);
        let exponent = self.mul(y, log);
        let magnitude = self.exp2_double(exponent);
        // |x| = 1 and y = 0 give 1 whatever the other is.
        let unit = self.eq(a, 1.0);
        let magnitude = self.select(unit, one, magnitude);

        let whole = self.b.unary(UnaryOp::Trunc, y);
        let is_whole = self.b.compare(CompareOp::Eq, whole, y);
        let half = self.c(0.5);
        let halved = self.mul(y, half);
        let half_whole = self.b.unary(UnaryOp::Trunc, halved);
        let half_fraction = self.b.compare(CompareOp::Ne, half_whole, halved);
        let is_odd = self.b.binary(BinaryOp::And, is_whole, half_fraction);
        let with_sign = self.copy_sign(magnitude, x);
        let result = self.select(is_odd, with_sign, magnitude);

        // A negative finite base with a fraction has no real power.
        let negative = self.lt(x, 0.0);
        let finite = self.lt(a, f64::INFINITY);
        let not_whole = self.b.unary(UnaryOp::Not, is_whole);
        let bad = self.b.binary(BinaryOp::And, negative, finite);
        let bad = self.b.binary(BinaryOp::And, bad, not_whole);
        let result = self.select(bad, nan, result);
        // NaN, except for the two cases that ignore it.
        let (x_nan, y_nan) = (self.b.unary(UnaryOp::IsNan, x), self.b.unary(UnaryOp::IsNan, y));
        let any = self.b.binary(BinaryOp::Or, x_nan, y_nan);
        let result = self.select(any, nan, result);
        let plus_one = self.eq(x, 1.0);
        let zero_power = self.eq(y, 0.0);
        let is_one = self.b.binary(BinaryOp::Or, plus_one, zero_power);
        self.select(is_one, one, result)
    }
}
