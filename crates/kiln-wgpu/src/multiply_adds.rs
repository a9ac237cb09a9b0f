//! Multiply-adds of f32 and f64 that round once, where a driver may do otherwise and there is no
//! wider type.
//!
//! The product and its rounding error are two numbers, and so are the sums that they become part of
//! (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008). None of them may
//! overflow or lose bits below the least number, so significands are multiplied and added, and the
//! result is scaled in the end. One that will be subnormal is rounded before, to as many bits as it
//! will have.

use crate::body::Expr;
use crate::exact::Sum;
use crate::writer::Writer;
use kiln_ir::Scalar as Elem;
use naga::{BinaryOperator as B, Literal, MathFunction as M, Scalar, ScalarKind};

/// A format of floats.
#[derive(Clone, Copy)]
struct Format {
    scalar: Scalar,
    /// The exponent's bias.
    bias: i32,
    /// The bits below the exponent in the word that has it, which is the high one of two.
    below: u32,
    /// An addend that is so many powers of two away from the product lies beyond all of its bits,
    /// or has all of them below its own: it matters that it is there, but not where.
    far: i32,
    /// By how many powers of two subnormal numbers are lifted.
    lift: i32,
    /// A product with it has half the bits of a significand in its upper ones.
    splitter: f64,
}

const SINGLE: Format =
    Format { scalar: Scalar::F32, bias: 127, below: 23, far: 60, lift: 26, splitter: 4097.0 };
const DOUBLE: Format =
    Format { scalar: Scalar::F64, bias: 1023, below: 20, far: 120, lift: 54, splitter: 134_217_729.0 };

impl Format {
    /// The exponent's bits in its word.
    fn exponent(self) -> u32 {
        (2 * self.bias as u32 + 1) << self.below
    }
}

/// A number as a product of a significand and a power of two.
struct Parts {
    /// The low word of the significand, if it has two.
    low: Option<Expr>,
    /// The word with the sign. The significand's size is from 1 to below 2.
    high: Expr,
    /// An i32.
    exponent: Expr,
    /// Whether the number is neither zero nor infinite nor NaN.
    is_ordinary: Expr,
}

impl Writer<'_> {
    /// Of f32, or of f64 where there are 64-bit integers. An inexact result is rounded to the
    /// nearest number, or to an odd significand.
    pub(crate) fn multiply_add_of_parts(&mut self, scalar: Scalar, factors: [Expr; 3], to_odd: bool) -> Expr {
        let format = if scalar == Scalar::F64 { DOUBLE } else { SINGLE };
        let [a, b, c] = factors;
        // What is not ordinary needs no more than this.
        let rounded_product = self.exactly(B::Multiply, scalar, a, b);
        let plain = self.exactly(B::Add, scalar, rounded_product, c);
        let zero = self.float(format, 0.0);
        let adds_nothing = self.body.binary(B::Equal, c, zero);
        let [a, b, c] = [a, b, c].map(|x| self.parts_of(format, x));
        let of_product = self.body.binary(B::Add, a.exponent, b.exponent);
        let far = self.i32(format.far);
        let least = self.body.binary(B::Subtract, c.exponent, far);
        let scale = self.body.math(M::Max, &[of_product, least]);
        let of_addend = self.body.binary(B::Subtract, c.exponent, scale);
        let least = self.i32(-format.far);
        let of_addend = self.body.math(M::Max, &[of_addend, least]);
        let none = self.i32(0);
        let [left, right] = [&a, &b].map(|x| self.join_parts(format, [x.low, Some(x.high)], none));
        let addend = self.join_parts(format, [c.low, Some(c.high)], of_addend);
        let (product, product_error) = self.product(format, left, right);
        let (low, low_error) = self.sum(scalar, addend, product_error);
        let (high, high_error) = self.sum(scalar, product, low);
        let rest = self.sum_to_odd(scalar, low_error, high_error);
        let sum = match to_odd {
            true => self.sum_to_odd(scalar, high, rest),
            false => self.rounded_for(format, (high, rest), scale),
        };
        let result = self.scaled(format, sum, scale);
        let factors = self.body.binary(B::LogicalAnd, a.is_ordinary, b.is_ordinary);
        // A product that is too small for any number is a zero with its own sign.
        let alone = self.body.binary(B::LogicalAnd, factors, adds_nothing);
        let plain = self.body.select(alone, rounded_product, plain);
        let all = self.body.binary(B::LogicalAnd, factors, c.is_ordinary);
        self.body.select(all, result, plain)
    }

    /// A sum, rounded so that its product with a power of two is rounded no more.
    ///
    /// Where that will be subnormal, the last bit of the sum must be the one that becomes the last
    /// of all. Beside the power of two that becomes the least normal number, a sum has that last
    /// bit.
    fn rounded_for(&mut self, format: Format, (high, rest): Sum, exponent: Expr) -> Expr {
        let scalar = format.scalar;
        let sum = self.exactly(B::Add, scalar, high, rest);
        let (_, word) = self.words_of_float(format, sum);
        let of_sum = self.exponent_of(format, word);
        let (lowest, highest) = (self.i32(1 - format.bias), self.i32(format.bias - 2));
        let least = self.body.binary(B::Subtract, lowest, exponent);
        let least = self.body.math(M::Max, &[least, lowest]);
        let least = self.body.math(M::Min, &[least, highest]);
        let mask = self.body.u32(1 << 31);
        let sign = self.body.binary(B::And, word, mask);
        let beside = self.join_parts(format, [None, Some(sign)], least);
        let (far, error) = self.sum(scalar, beside, high);
        let rest = self.sum_to_odd(scalar, error, rest);
        let far = self.exactly(B::Add, scalar, far, rest);
        let rounded = self.exactly(B::Subtract, scalar, far, beside);
        // A zero has the sign of what it was rounded from.
        let (low, word) = self.words_of_float(format, rounded);
        let mask = self.body.u32(!(1 << 31));
        let size = self.body.binary(B::And, word, mask);
        let word = self.body.binary(B::InclusiveOr, size, sign);
        let rounded = self.float_of_words(format, low, word);
        let is_small = self.body.binary(B::Less, of_sum, least);
        self.body.select(is_small, rounded, sum)
    }

    /// The exponent in a float's word that has it, an i32.
    fn exponent_of(&mut self, format: Format, word: Expr) -> Expr {
        let (mask, by, bias) =
            (self.body.u32(format.exponent()), self.body.u32(format.below), self.i32(format.bias));
        let found = self.body.binary(B::And, word, mask);
        let number = self.body.binary(B::ShiftRight, found, by);
        let number = self.body.bitcast(number, ScalarKind::Sint);
        self.body.binary(B::Subtract, number, bias)
    }

    fn i32(&mut self, value: i32) -> Expr {
        self.body.literal(Literal::I32(value))
    }

    fn float(&mut self, format: Format, value: f64) -> Expr {
        let is_double = format.scalar == Scalar::F64;
        self.body.literal(if is_double { Literal::F64(value) } else { Literal::F32(value as f32) })
    }

    /// The low word, if there are two, and the one with the exponent.
    fn words_of_float(&mut self, format: Format, x: Expr) -> (Option<Expr>, Expr) {
        if format.scalar == Scalar::F32 {
            return (None, self.body.bitcast(x, ScalarKind::Uint));
        }
        let [low, high] = self.pack_pair(x, Elem::F64);
        (Some(low), high)
    }

    /// The significand of an f32, with the number's sign, and the exponent; whether it is neither
    /// zero nor infinite nor NaN.
    pub(crate) fn significand(&mut self, x: Expr) -> (Expr, Expr, Expr) {
        let parts = self.parts_of(SINGLE, x);
        let none = self.i32(0);
        let significand = self.join_parts(SINGLE, [None, Some(parts.high)], none);
        (significand, parts.exponent, parts.is_ordinary)
    }

    /// An f32 times a power of two. One that is below the normal numbers may be rounded twice.
    pub(crate) fn times_power(&mut self, x: Expr, exponent: Expr) -> Expr {
        let most = self.i32(2 * SINGLE.bias);
        let exponent = self.body.math(M::Min, &[exponent, most]);
        self.scaled(SINGLE, x, exponent)
    }

    fn parts_of(&mut self, format: Format, x: Expr) -> Parts {
        let field = |w: &mut Self, x: Expr| {
            let words = w.words_of_float(format, x);
            let mask = w.body.u32(format.exponent());
            (words, w.body.binary(B::And, words.1, mask))
        };
        let (_, found) = field(self, x);
        let zero = self.body.u32(0);
        let is_small = self.body.binary(B::Equal, found, zero);
        let up = self.float(format, 2f64.powi(format.lift));
        let lifted = self.exactly(B::Multiply, format.scalar, x, up);
        let x = self.body.select(is_small, lifted, x);
        let ((low, high), found) = field(self, x);
        let by = self.body.u32(format.below);
        let number = self.body.binary(B::ShiftRight, found, by);
        let number = self.body.bitcast(number, ScalarKind::Sint);
        let (bias, of_lifted) = (self.i32(format.bias), self.i32(format.bias + format.lift));
        let less = self.body.select(is_small, of_lifted, bias);
        let exponent = self.body.binary(B::Subtract, number, less);
        let highest = self.body.u32(format.exponent());
        let [is_number, is_finite] = [zero, highest].map(|end| self.body.binary(B::NotEqual, found, end));
        let is_ordinary = self.body.binary(B::LogicalAnd, is_number, is_finite);
        Parts { low, high, exponent, is_ordinary }
    }

    /// A significand, of which words that are not there are zero, times a power of two of the range
    /// of normal numbers.
    fn join_parts(&mut self, format: Format, [low, high]: [Option<Expr>; 2], exponent: Expr) -> Expr {
        let (bias, by) = (self.i32(format.bias), self.body.u32(format.below));
        let number = self.body.binary(B::Add, exponent, bias);
        let number = self.body.bitcast(number, ScalarKind::Uint);
        let mut word = self.body.binary(B::ShiftLeft, number, by);
        if let Some(high) = high {
            let mask = self.body.u32(!format.exponent());
            let kept = self.body.binary(B::And, high, mask);
            word = self.body.binary(B::InclusiveOr, kept, word);
        }
        self.float_of_words(format, low, word)
    }

    /// A float of its low word, zero if it is not there, and the one with the sign.
    fn float_of_words(&mut self, format: Format, low: Option<Expr>, high: Expr) -> Expr {
        if format.scalar == Scalar::F32 {
            return self.body.bitcast(high, ScalarKind::Float);
        }
        let low = low.unwrap_or_else(|| self.body.u32(0));
        self.unpack_pair([low, high], Elem::F64)
    }

    /// A number times a power of two, in two steps, since that may be beyond the range.
    fn scaled(&mut self, format: Format, x: Expr, exponent: Expr) -> Expr {
        let (least, one) = (self.i32(2 - 2 * format.bias), self.body.u32(1));
        let exponent = self.body.math(M::Max, &[exponent, least]);
        let first = self.body.binary(B::ShiftRight, exponent, one);
        let second = self.body.binary(B::Subtract, exponent, first);
        [first, second].into_iter().fold(x, |x, exponent| {
            let power = self.join_parts(format, [None; 2], exponent);
            self.exactly(B::Multiply, format.scalar, x, power)
        })
    }

    /// A product, and its rounding error.
    fn product(&mut self, format: Format, a: Expr, b: Expr) -> Sum {
        let scalar = format.scalar;
        let product = self.exactly(B::Multiply, scalar, a, b);
        let [(a, a_low), (b, b_low)] = [a, b].map(|x| self.halves(format, x));
        let parts = [(a, b_low), (a_low, b), (a_low, b_low)];
        let high = self.exactly(B::Multiply, scalar, a, b);
        let mut error = self.exactly(B::Subtract, scalar, high, product);
        for (a, b) in parts {
            let part = self.exactly(B::Multiply, scalar, a, b);
            error = self.exactly(B::Add, scalar, error, part);
        }
        (product, error)
    }

    /// A number as two of half the bits.
    fn halves(&mut self, format: Format, x: Expr) -> Sum {
        let scalar = format.scalar;
        let factor = self.float(format, format.splitter);
        let scaled = self.exactly(B::Multiply, scalar, x, factor);
        let rest = self.exactly(B::Subtract, scalar, scaled, x);
        let high = self.exactly(B::Subtract, scalar, scaled, rest);
        (high, self.exactly(B::Subtract, scalar, x, high))
    }
}
