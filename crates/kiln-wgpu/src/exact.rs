//! Float operations that round once, where a driver may do otherwise.
//!
//! naga says to no driver that a result must be as written. So Mesa makes `x` of `(1 + x) - 1`, and
//! a product and a sum of a multiply-add. Where a driver does such things
//! ([`Features::exact_floats`](crate::Features::exact_floats)), results are hidden from it: their
//! bits go through an exclusive or with a word that is zero in every launch, but not known to be.
//! A multiply-add is then computed from sums and products, whose rounding errors are floats
//! themselves (Knuth, The Art of Computer Programming, volume 2, section 4.2.2; Dekker, "A
//! floating-point technique for extending the available precision", 1971).

use crate::body::Expr;
use crate::parameters::Parameter;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::Scalar as Elem;
use naga::{BinaryOperator as B, Literal, MathFunction as M, Scalar, ScalarKind};

/// A number and what it lacks to the exact result.
type Sum = (Expr, Expr);

impl Writer<'_> {
    /// Finds the word that is zero: no grid has 2^31 blocks on an axis.
    pub(crate) fn find_zero(&mut self) -> Result<()> {
        if !self.features.exact_floats {
            let extent = self.word(Parameter::Grid(0))?;
            let by = self.body.u32(31);
            self.zero = Some(self.body.binary(B::ShiftRight, extent, by));
        }
        Ok(())
    }

    /// A result that the driver does not look behind.
    fn hidden(&mut self, x: Expr, scalar: Scalar) -> Expr {
        let Some(zero) = self.zero else { return x };
        match scalar {
            Scalar::F32 => {
                let bits = self.body.bitcast(x, ScalarKind::Uint);
                let bits = self.body.binary(B::ExclusiveOr, bits, zero);
                self.body.bitcast(bits, ScalarKind::Float)
            }
            Scalar::F64 if self.features.int64 => {
                let bits = self.body.bitcast(x, ScalarKind::Uint);
                let zero = self.body.convert(zero, Scalar::U64);
                let bits = self.body.binary(B::ExclusiveOr, bits, zero);
                self.body.bitcast(bits, ScalarKind::Float)
            }
            _ => x,
        }
    }

    /// The result of an operator. One of floats is rounded by itself.
    pub(crate) fn exactly(&mut self, operator: B, scalar: Scalar, a: Expr, b: Expr) -> Expr {
        let result = self.body.binary(operator, a, b);
        self.hidden(result, scalar)
    }

    /// A sum, and its rounding error.
    fn sum(&mut self, scalar: Scalar, a: Expr, b: Expr) -> Sum {
        let sum = self.exactly(B::Add, scalar, a, b);
        let of_b = self.exactly(B::Subtract, scalar, sum, a);
        let of_a = self.exactly(B::Subtract, scalar, sum, of_b);
        let lost_of_a = self.exactly(B::Subtract, scalar, a, of_a);
        let lost_of_b = self.exactly(B::Subtract, scalar, b, of_b);
        (sum, self.exactly(B::Add, scalar, lost_of_a, lost_of_b))
    }

    /// A product of f64, and its rounding error.
    fn product(&mut self, a: Expr, b: Expr) -> Sum {
        let f64 = Scalar::F64;
        let product = self.exactly(B::Multiply, f64, a, b);
        let [(a, a_low), (b, b_low)] = [a, b].map(|x| self.halves(x));
        let parts = [(a, b_low), (a_low, b), (a_low, b_low)];
        let high = self.exactly(B::Multiply, f64, a, b);
        let mut error = self.exactly(B::Subtract, f64, high, product);
        for (a, b) in parts {
            let part = self.exactly(B::Multiply, f64, a, b);
            error = self.exactly(B::Add, f64, error, part);
        }
        (product, error)
    }

    /// An f64 as two of 26 bits.
    fn halves(&mut self, x: Expr) -> Sum {
        let f64 = Scalar::F64;
        let factor = self.body.literal(Literal::F64(134_217_729.0));
        let scaled = self.exactly(B::Multiply, f64, x, factor);
        let rest = self.exactly(B::Subtract, f64, scaled, x);
        let high = self.exactly(B::Subtract, f64, scaled, rest);
        (high, self.exactly(B::Subtract, f64, x, high))
    }

    /// A sum, rounding an inexact result to an odd significand.
    fn sum_to_odd(&mut self, scalar: Scalar, a: Expr, b: Expr) -> Expr {
        let (sum, error) = self.sum(scalar, a, b);
        let zero = self.body.literal(crate::types::zero(scalar));
        // The error alone may be too small to be multiplied with the sum.
        let b = &mut self.body;
        let [sum_up, sum_down] = [B::Greater, B::Less].map(|compare| b.binary(compare, sum, zero));
        let [more, less] = [B::Greater, B::Less].map(|compare| b.binary(compare, error, zero));
        let pairs = [(sum_up, less), (sum_down, more), (sum_up, more), (sum_down, less)];
        let [a, b, c, d] = pairs.map(|(x, y)| self.body.binary(B::LogicalAnd, x, y));
        let above = self.body.binary(B::LogicalOr, a, b);
        let below = self.body.binary(B::LogicalOr, c, d);
        self.made_odd(sum, scalar, above, below)
    }

    /// The float next to zero of two around a number, of which `near` is one, above or below it in
    /// size, with its last bit set.
    pub(crate) fn made_odd(&mut self, near: Expr, scalar: Scalar, above: Expr, below: Expr) -> Expr {
        let b = &mut self.body;
        let bits = b.bitcast(near, ScalarKind::Uint);
        let one = b.literal(if scalar == Scalar::F64 { Literal::U64(1) } else { Literal::U32(1) });
        let before = b.binary(B::Subtract, bits, one);
        let truncated = b.select(above, before, bits);
        let odd = b.binary(B::InclusiveOr, truncated, one);
        let inexact = b.binary(B::LogicalOr, above, below);
        let bits = b.select(inexact, odd, bits);
        b.bitcast(bits, ScalarKind::Float)
    }

    /// Whether sums and products of f32 are exact in f64, and can be made odd there.
    pub(crate) fn has_doubles(&self) -> bool {
        self.features.float64 && self.features.int64
    }

    /// A product and a sum, rounded once.
    pub(crate) fn multiply_add(&mut self, scalar: Scalar, a: Expr, b: Expr, c: Expr) -> Expr {
        match scalar {
            _ if self.features.exact_floats => self.body.math(M::Fma, &[a, b, c]),
            Scalar::F16 => {
                let [a, b, c] = [a, b, c].map(|x| self.body.convert(x, Scalar::F32));
                let sum = self.multiply_add_to_odd(Scalar::F32, a, b, c);
                self.body.convert(sum, scalar)
            }
            Scalar::F32 if self.has_doubles() => {
                let sum = self.multiply_add_in_doubles(a, b, c);
                self.body.convert(sum, scalar)
            }
            Scalar::F64 if self.features.int64 => self.multiply_add_of_doubles(a, b, c),
            _ => self.body.math(M::Fma, &[a, b, c]),
        }
    }

    /// A multiply-add of bf16, which are held as f32, if it can be rounded once.
    pub(crate) fn multiply_add_of_bf16(&mut self, a: Expr, b: Expr, c: Expr) -> Option<Expr> {
        if !self.has_doubles() {
            return None;
        }
        let sum = self.multiply_add_in_doubles(a, b, c);
        let single = self.double_to_odd(sum);
        Some(self.rounded(single, Elem::BF16))
    }

    /// Of f32 in f64, whose products are exact there.
    fn multiply_add_in_doubles(&mut self, a: Expr, b: Expr, c: Expr) -> Expr {
        let [a, b, c] = [a, b, c].map(|x| self.body.convert(x, Scalar::F64));
        self.multiply_add_to_odd(Scalar::F64, a, b, c)
    }

    /// An exact product and a sum, rounding an inexact result to an odd significand.
    pub(crate) fn multiply_add_to_odd(&mut self, scalar: Scalar, a: Expr, b: Expr, c: Expr) -> Expr {
        let product = self.exactly(B::Multiply, scalar, a, b);
        self.sum_to_odd(scalar, product, c)
    }

    /// Of f64 (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008). Where a
    /// part overflows, the product and the sum are what there is.
    fn multiply_add_of_doubles(&mut self, a: Expr, b: Expr, c: Expr) -> Expr {
        let f64 = Scalar::F64;
        let (product, product_error) = self.product(a, b);
        let plain = self.exactly(B::Add, f64, product, c);
        let (low, low_error) = self.sum(f64, c, product_error);
        let (high, high_error) = self.sum(f64, product, low);
        let rest = self.sum_to_odd(f64, low_error, high_error);
        let result = self.exactly(B::Add, f64, high, rest);
        // Equal numbers differ in the sign of zero at most.
        let same = self.body.binary(B::Equal, result, plain);
        let is_nan = self.is_nan(result, f64);
        let keep = self.body.binary(B::LogicalOr, same, is_nan);
        self.body.select(keep, plain, result)
    }
}
