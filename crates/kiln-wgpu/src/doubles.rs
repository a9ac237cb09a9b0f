//! Multiply-adds of f64 that round once, where a driver may do otherwise.
//!
//! The product and its rounding error are two numbers, and so are the sums that they become part of
//! (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008). None of them may
//! overflow or lose bits below the least number, so significands are multiplied and added, and the
//! result is scaled in the end. Only one that is subnormal may be rounded twice.

use crate::body::Expr;
use crate::exact::Sum;
use crate::writer::Writer;
use kiln_ir::Scalar as Elem;
use naga::{BinaryOperator as B, Literal, MathFunction as M, Scalar, ScalarKind};

/// The exponent's bias in f64.
const BIAS: i32 = 1023;
/// The bits below the exponent in the high word.
const BELOW: u32 = 20;
/// The exponent's bits in the high word.
const EXPONENT: u32 = 0x7ff << BELOW;
/// An addend that is so many powers of two away from the product lies beyond all of its bits, or
/// has all of them below its own: it matters that it is there, but not where.
const FAR: i32 = 120;
/// By how many powers of two subnormal numbers are lifted.
const LIFT: i32 = 54;

/// A number as a product of a significand and a power of two.
struct Parts {
    /// The words of the significand, with its sign; its size is from 1 to below 2.
    words: [Expr; 2],
    /// An i32.
    exponent: Expr,
    /// Whether the number is neither zero nor infinite nor NaN.
    is_ordinary: Expr,
}

impl Writer<'_> {
    /// Needs 64-bit integers.
    pub(crate) fn multiply_add_of_doubles(&mut self, a: Expr, b: Expr, c: Expr) -> Expr {
        let f64 = Scalar::F64;
        // What is not ordinary needs no more than this.
        let rounded_product = self.exactly(B::Multiply, f64, a, b);
        let plain = self.exactly(B::Add, f64, rounded_product, c);
        let zero = self.body.literal(Literal::F64(0.0));
        let adds_nothing = self.body.binary(B::Equal, c, zero);
        let [a, b, c] = [a, b, c].map(|x| self.parts_of(x));
        let of_product = self.body.binary(B::Add, a.exponent, b.exponent);
        let far = self.i32(FAR);
        let least = self.body.binary(B::Subtract, c.exponent, far);
        let scale = self.body.math(M::Max, &[of_product, least]);
        let of_addend = self.body.binary(B::Subtract, c.exponent, scale);
        let least = self.i32(-FAR);
        let of_addend = self.body.math(M::Max, &[of_addend, least]);
        let none = self.i32(0);
        let [left, right] = [a.words, b.words].map(|words| self.join_parts(words, none));
        let addend = self.join_parts(c.words, of_addend);
        let (product, product_error) = self.product(left, right);
        let (low, low_error) = self.sum(f64, addend, product_error);
        let (high, high_error) = self.sum(f64, product, low);
        let rest = self.sum_to_odd(f64, low_error, high_error);
        let sum = self.exactly(B::Add, f64, high, rest);
        let result = self.scaled(sum, scale);
        let factors = self.body.binary(B::LogicalAnd, a.is_ordinary, b.is_ordinary);
        // A product that is too small for any number is a zero with its own sign.
        let alone = self.body.binary(B::LogicalAnd, factors, adds_nothing);
        let plain = self.body.select(alone, rounded_product, plain);
        let all = self.body.binary(B::LogicalAnd, factors, c.is_ordinary);
        self.body.select(all, result, plain)
    }

    fn i32(&mut self, value: i32) -> Expr {
        self.body.literal(Literal::I32(value))
    }

    fn parts_of(&mut self, x: Expr) -> Parts {
        let f64 = Scalar::F64;
        let field = |w: &mut Self, x: Expr| {
            let words = w.pack_pair(x, Elem::F64);
            let mask = w.body.u32(EXPONENT);
            (words, w.body.binary(B::And, words[1], mask))
        };
        let (_, found) = field(self, x);
        let zero = self.body.u32(0);
        let is_small = self.body.binary(B::Equal, found, zero);
        let up = self.body.literal(Literal::F64(2f64.powi(LIFT)));
        let lifted = self.exactly(B::Multiply, f64, x, up);
        let x = self.body.select(is_small, lifted, x);
        let (words, found) = field(self, x);
        let by = self.body.u32(BELOW);
        let number = self.body.binary(B::ShiftRight, found, by);
        let number = self.body.bitcast(number, ScalarKind::Sint);
        let (bias, of_lifted) = (self.i32(BIAS), self.i32(BIAS + LIFT));
        let less = self.body.select(is_small, of_lifted, bias);
        let exponent = self.body.binary(B::Subtract, number, less);
        let highest = self.body.u32(EXPONENT);
        let [is_number, is_finite] = [zero, highest].map(|end| self.body.binary(B::NotEqual, found, end));
        let is_ordinary = self.body.binary(B::LogicalAnd, is_number, is_finite);
        Parts { words, exponent, is_ordinary }
    }

    /// A significand times a power of two of the range of normal numbers.
    fn join_parts(&mut self, [low, high]: [Expr; 2], exponent: Expr) -> Expr {
        let (mask, bias, by) = (self.body.u32(!EXPONENT), self.i32(BIAS), self.body.u32(BELOW));
        let number = self.body.binary(B::Add, exponent, bias);
        let number = self.body.bitcast(number, ScalarKind::Uint);
        let field = self.body.binary(B::ShiftLeft, number, by);
        let kept = self.body.binary(B::And, high, mask);
        let high = self.body.binary(B::InclusiveOr, kept, field);
        self.unpack_pair([low, high], Elem::F64)
    }

    /// A number times a power of two, in two steps, since that may be beyond the range.
    fn scaled(&mut self, x: Expr, exponent: Expr) -> Expr {
        let (least, one, zero) = (self.i32(2 - 2 * BIAS), self.body.u32(1), self.body.u32(0));
        let exponent = self.body.math(M::Max, &[exponent, least]);
        let first = self.body.binary(B::ShiftRight, exponent, one);
        let second = self.body.binary(B::Subtract, exponent, first);
        [first, second].into_iter().fold(x, |x, exponent| {
            let power = self.join_parts([zero, zero], exponent);
            self.exactly(B::Multiply, Scalar::F64, x, power)
        })
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
}
