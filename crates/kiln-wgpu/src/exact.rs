//! Float operations that round once, where a driver may do otherwise.
//!
//! naga says to no driver that a result must be as written. So Mesa makes `x` of `(1 + x) - 1`, and
//! a product and a sum of a multiply-add. Where a driver does such things
//! ([`Features::exact_floats`](crate::Features::exact_floats)), results are hidden from it: their
//! bits go through an exclusive or with a word that is zero in every launch, but not known to be.
//! Where it does no more than [contract](crate::Features::contracts), products alone are.
//! A multiply-add is then computed from sums and products, whose rounding errors are floats
//! themselves (Knuth, The Art of Computer Programming, volume 2, section 4.2.2; Dekker, "A
//! floating-point technique for extending the available precision", 1971).

use crate::body::Expr;
use crate::parameters::Parameter;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::Scalar as Elem;
use naga::{BinaryOperator as B, Expression, Literal, MathFunction as M, Scalar, ScalarKind, UnaryOperator};

/// A number and what it lacks to the exact result.
pub(crate) type Sum = (Expr, Expr);

impl Writer<'_> {
    /// Finds the word that is zero: no grid has 2^31 blocks on an axis.
    pub(crate) fn find_zero(&mut self) -> Result<()> {
        let f = self.features;
        if !f.exact_floats || f.contracts || f.contracts_halves || f.loses_nan || f.loses_signs {
            let extent = self.word(Parameter::Grid(0))?;
            let by = self.body.u32(31);
            self.zero = Some(self.body.binary(B::ShiftRight, extent, by));
        }
        Ok(())
    }

    /// A result that the driver does not look behind, where it would do so anywhere.
    fn hidden(&mut self, x: Expr, scalar: Scalar) -> Expr {
        if self.features.exact_floats { x } else { self.behind_zero(x, scalar) }
    }

    /// A number that the driver does not look behind.
    fn behind_zero(&mut self, x: Expr, scalar: Scalar) -> Expr {
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

    /// An operand of a comparison that the driver does not look behind, in its own type.
    pub(crate) fn hidden_operand(&mut self, x: Expr, scalar: Scalar) -> Expr {
        if self.features.exact_floats && !self.features.loses_nan {
            return x;
        }
        if scalar == Scalar::F16 {
            let wide = self.half_as_single(x);
            let wide = self.behind_zero(wide, Scalar::F32);
            return self.body.convert(wide, scalar);
        }
        self.behind_zero(x, scalar)
    }

    /// The operands of a comparison, the first of which a driver that loses NaN does not look
    /// behind.
    pub(crate) fn compared(&mut self, [a, b]: [Expr; 2], scalar: Scalar) -> [Expr; 2] {
        if !self.features.loses_nan || scalar.kind != ScalarKind::Float {
            return [a, b];
        }
        if scalar == Scalar::F16 {
            let [a, b] = [a, b].map(|x| self.half_as_single(x));
            return [self.behind_zero(a, Scalar::F32), b];
        }
        [self.behind_zero(a, scalar), b]
    }

    /// The result of an operator. One of floats is rounded by itself.
    pub(crate) fn exactly(&mut self, operator: B, scalar: Scalar, a: Expr, b: Expr) -> Expr {
        // A driver may compute the sum that a product goes into together with it.
        let halves = scalar == Scalar::F16 && self.features.contracts_halves;
        let contracts = (self.features.contracts || halves) && operator == B::Multiply;
        if scalar == Scalar::F16 && (!self.features.exact_floats || contracts) {
            // In f32 there is room for a second rounding.
            let [a, b] = [a, b].map(|x| self.half_as_single(x));
            let wide = self.exactly(operator, Scalar::F32, a, b);
            return self.half(wide);
        }
        // A driver may take x for x + 0, and 0 for x - x and x * 0.
        let cancels = matches!(operator, B::Subtract | B::Divide);
        let a = if self.is_zero(a) { self.hidden(a, scalar) } else { a };
        let b = if cancels || self.is_zero(b) { self.hidden(b, scalar) } else { b };
        let result = self.body.binary(operator, a, b);
        if contracts { self.behind_zero(result, scalar) } else { self.hidden(result, scalar) }
    }

    /// An f16 as f32; a literal stays one.
    fn half_as_single(&mut self, x: Expr) -> Expr {
        match self.body.function.expressions[x] {
            Expression::Literal(Literal::F16(number)) => self.body.literal(Literal::F32(number.to_f32())),
            _ => self.body.convert(x, Scalar::F32),
        }
    }

    /// An f32 rounded to f16, also where a driver would compute on with what was not rounded yet.
    pub(crate) fn half(&mut self, wide: Expr) -> Expr {
        let Some(zero) = self.zero.filter(|_| self.features.contracts_halves) else {
            return self.body.convert(wide, Scalar::F16);
        };
        let rounded = self.packed_half(wide);
        let bits = self.body.binary(B::ExclusiveOr, rounded, zero);
        self.unpack(bits, Elem::F16)
    }

    /// An f16 behind which a driver does not look that would compute on with what was not rounded.
    pub(crate) fn kept_half(&mut self, x: Expr) -> Expr {
        if !self.features.contracts_halves {
            return x;
        }
        let wide = self.body.convert(x, Scalar::F32);
        self.half(wide)
    }

    /// Whether an expression is the literal zero, or that of another type converted.
    fn is_zero(&self, x: Expr) -> bool {
        match self.body.function.expressions[x] {
            Expression::Literal(Literal::F16(number)) => number.to_f32() == 0.0,
            Expression::Literal(Literal::F32(number)) => number == 0.0,
            Expression::Literal(Literal::F64(number)) => number == 0.0,
            Expression::As { expr, convert: Some(_), .. } => self.is_zero(expr),
            _ => false,
        }
    }

    /// The opposite of a number, to which that may be added.
    pub(crate) fn opposite(&mut self, x: Expr, scalar: Scalar) -> Expr {
        if let Some(zero) = self.zero.filter(|_| self.features.loses_signs && scalar == Scalar::I32) {
            let zero = self.body.bitcast(zero, ScalarKind::Sint);
            return self.body.binary(B::Subtract, zero, x);
        }
        let opposite = self.body.unary(UnaryOperator::Negate, x);
        self.hidden(opposite, scalar)
    }

    /// A sum, and its rounding error.
    pub(crate) fn sum(&mut self, scalar: Scalar, a: Expr, b: Expr) -> Sum {
        let sum = self.exactly(B::Add, scalar, a, b);
        let of_b = self.exactly(B::Subtract, scalar, sum, a);
        let of_a = self.exactly(B::Subtract, scalar, sum, of_b);
        let lost_of_a = self.exactly(B::Subtract, scalar, a, of_a);
        let lost_of_b = self.exactly(B::Subtract, scalar, b, of_b);
        (sum, self.exactly(B::Add, scalar, lost_of_a, lost_of_b))
    }

    /// A sum, rounding an inexact result to an odd significand.
    pub(crate) fn sum_to_odd(&mut self, scalar: Scalar, a: Expr, b: Expr) -> Expr {
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
            // That of f16 may be a product and a sum where these become one.
            Scalar::F32 if self.features.exact_multiply_adds => self.body.math(M::Fma, &[a, b, c]),
            Scalar::F64 if self.features.exact_doubles => self.body.math(M::Fma, &[a, b, c]),
            Scalar::F16 if self.features.exact_multiply_adds && !self.features.contracts => {
                self.body.math(M::Fma, &[a, b, c])
            }
            Scalar::F16 => {
                let [a, b, c] = [a, b, c].map(|x| self.body.convert(x, Scalar::F32));
                let sum = self.multiply_add_to_odd(Scalar::F32, a, b, c);
                self.body.convert(sum, scalar)
            }
            Scalar::F32 if self.has_doubles() => {
                let sum = self.multiply_add_in_doubles(a, b, c);
                self.body.convert(sum, scalar)
            }
            _ => self.multiply_add_of_parts(scalar, [a, b, c], false),
        }
    }

    /// A multiply-add of bf16, which are held as f32.
    pub(crate) fn multiply_add_of_bf16(&mut self, a: Expr, b: Expr, c: Expr) -> Expr {
        let single = if self.has_doubles() {
            let sum = self.multiply_add_in_doubles(a, b, c);
            self.double_to_odd(sum)
        } else {
            self.multiply_add_of_parts(Scalar::F32, [a, b, c], true)
        };
        self.rounded(single, Elem::BF16)
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
}
