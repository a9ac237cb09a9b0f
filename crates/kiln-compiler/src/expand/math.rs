//! A builder for element-wise float mathematics on values of one shape.

use kiln_ir::{BinaryOp, Builder, CompareOp, Literal, Scalar, Shape, UnaryOp, Value};

/// Short names for building expressions of one float type and shape.
pub(super) struct Math<'b, 'k> {
    pub(super) b: &'b mut Builder<'k>,
    pub(super) elem: Scalar,
    shape: Shape,
}

impl<'b, 'k> Math<'b, 'k> {
    /// For values of the type and shape of `x`.
    pub(super) fn new(b: &'b mut Builder<'k>, x: Value) -> Math<'b, 'k> {
        let (elem, shape) = (b.kernel.ty(x).elem(), b.kernel.shape(x));
        Math { b, elem, shape }
    }

    /// The same shape in f64, for steps that need it.
    pub(super) fn double(&mut self) -> Math<'_, 'k> {
        Math { shape: self.shape.clone(), elem: Scalar::F64, b: self.b }
    }

    pub(super) fn is_double(&self) -> bool {
        self.elem == Scalar::F64
    }

    /// The integer type of the same width.
    pub(super) fn int(&self) -> Scalar {
        if self.is_double() { Scalar::I64 } else { Scalar::I32 }
    }

    pub(super) fn c(&mut self, value: f64) -> Value {
        self.b.splat(Literal::from_f64(self.elem, value), self.shape.clone())
    }

    pub(super) fn ci(&mut self, value: i64) -> Value {
        let literal = Literal::wrapping(self.int(), i128::from(value));
        self.b.splat(literal, self.shape.clone())
    }

    pub(super) fn add(&mut self, x: Value, y: Value) -> Value {
        self.b.binary(BinaryOp::Add, x, y)
    }

    pub(super) fn sub(&mut self, x: Value, y: Value) -> Value {
        self.b.binary(BinaryOp::Sub, x, y)
    }

    pub(super) fn mul(&mut self, x: Value, y: Value) -> Value {
        self.b.binary(BinaryOp::Mul, x, y)
    }

    /// A quotient within 2 ulp.
    pub(super) fn div(&mut self, x: Value, y: Value) -> Value {
        self.b.binary(BinaryOp::FastDiv, x, y)
    }

    pub(super) fn fma(&mut self, x: Value, y: Value, z: Value) -> Value {
        self.b.fma(x, y, z)
    }

    pub(super) fn neg(&mut self, x: Value) -> Value {
        self.b.unary(UnaryOp::Neg, x)
    }

    pub(super) fn abs(&mut self, x: Value) -> Value {
        self.b.unary(UnaryOp::Abs, x)
    }

    pub(super) fn lt(&mut self, x: Value, y: f64) -> Value {
        let y = self.c(y);
        self.b.compare(CompareOp::Lt, x, y)
    }

    pub(super) fn gt(&mut self, x: Value, y: f64) -> Value {
        let y = self.c(y);
        self.b.compare(CompareOp::Gt, x, y)
    }

    pub(super) fn eq(&mut self, x: Value, y: f64) -> Value {
        let y = self.c(y);
        self.b.compare(CompareOp::Eq, x, y)
    }

    pub(super) fn select(&mut self, cond: Value, x: Value, y: Value) -> Value {
        self.b.select(cond, x, y)
    }

    pub(super) fn cast(&mut self, x: Value, elem: Scalar) -> Value {
        self.b.cast(x, elem)
    }

    /// Limits to a range; NaN remains NaN, which `min` and `max` would not do.
    pub(super) fn clamp(&mut self, x: Value, low: f64, high: f64) -> Value {
        let (lo, hi) = (self.c(low), self.c(high));
        let below = self.lt(x, low);
        let x = self.select(below, lo, x);
        let above = self.gt(x, high);
        self.select(above, hi, x)
    }

    /// The polynomial with these coefficients, highest power first, by Horner's rule.
    pub(super) fn poly(&mut self, x: Value, coefficients: &[f64]) -> Value {
        let mut sum = self.c(coefficients[0]);
        for &next in &coefficients[1..] {
            let next = self.c(next);
            sum = self.fma(sum, x, next);
        }
        sum
    }

    /// `magnitude` with the sign of `sign`.
    pub(super) fn copy_sign(&mut self, magnitude: Value, sign: Value) -> Value {
        let int = self.int();
        let bits = self.elem.bytes() * 8 - 1;
        let mask = self.ci(if self.is_double() { i64::MIN } else { i64::from(i32::MIN) });
        debug_assert!(bits == 63 || bits == 31);
        let (m, s) = (self.b.bitcast(magnitude, int), self.b.bitcast(sign, int));
        let s = self.b.binary(BinaryOp::And, s, mask);
        let joined = self.b.binary(BinaryOp::Or, m, s);
        self.b.bitcast(joined, self.elem)
    }
}
