//! Quotients and square roots of f32 that are the nearest numbers, where a driver's are not.
//!
//! Vulkan and WebGPU promise 2.5 units of the last place. What such a result lacks is found by
//! multiply-adds that round once, and added (Markstein, "Computation of elementary functions on the
//! IBM RISC System/6000 processor", 1990). That takes intermediate results that lose no bits below
//! the least number, so operands near the ends of the range are scaled before.

use crate::body::Expr;
use crate::writer::Writer;
use naga::{BinaryOperator as B, Literal, MathFunction as M, Scalar, ScalarKind, UnaryOperator};

const F32: Scalar = Scalar::F32;

/// The bits of a significand, without the first one.
const FRACTION: u32 = 23;
const EXPONENTS: u32 = 0xff;
const SIGN: u32 = 1 << 31;

/// The exponents, as they are in a float, of operands and quotients for which nothing is scaled:
/// the first and how many. What a dividend of 2^-99 lacks to a product is at least 2^-146.
const DIVIDENDS: (u32, u32) = (28, 226);
const DIVISORS: (u32, u32) = (3, 247);
const QUOTIENTS: (u32, u32) = (3, 247);

/// Below the first, radicands are multiplied by 2^64, and their roots by 2^-32.
const SMALL_RADICAND: f32 = f32::from_bits(28 << FRACTION);
const UP: f32 = f32::from_bits((127 + 64) << FRACTION);
const DOWN: f32 = f32::from_bits((127 - 32) << FRACTION);

impl Writer<'_> {
    /// A quotient of f32, which the driver computes if its quotients are exact.
    pub(crate) fn quotient(&mut self, a: Expr, b: Expr) -> Expr {
        if self.features.exact_quotients {
            return self.exactly(B::Divide, F32, a, b);
        }
        let [of_a, of_b] = [a, b].map(|x| self.exponent_bits(x));
        let bias = self.body.u32(127);
        let difference = self.body.binary(B::Subtract, of_a, of_b);
        let of_result = self.body.binary(B::Add, difference, bias);
        let inside = [(of_a, DIVIDENDS), (of_b, DIVISORS), (of_result, QUOTIENTS)];
        let [a_fits, b_fits, result_fits] = inside.map(|(bits, range)| self.is_in(bits, range));
        let fit = self.body.binary(B::LogicalAnd, a_fits, b_fits);
        let fit = self.body.binary(B::LogicalAnd, fit, result_fits);
        let ty = self.scalar_type(F32);
        let result = self.body.variable("quotient", ty, None);
        // Before the branch, so that a driver computes it once for all that is divided by b.
        let reciprocal = self.reciprocal_in_range(b);
        let outer = self.body.begin();
        let (quotient, _) = self.quotient_in_range(a, b, reciprocal);
        self.body.store(result, quotient);
        let accept = self.body.end(outer);
        let outer = self.body.begin();
        let quotient = self.scaled_quotient(a, b);
        self.body.store(result, quotient);
        let reject = self.body.end(outer);
        self.body.branch(fit, accept, reject);
        self.body.load(result)
    }

    /// The reciprocal of a divisor in range, close enough for a quotient.
    fn reciprocal_in_range(&mut self, b: Expr) -> Expr {
        let one = self.body.literal(Literal::F32(1.0));
        let minus_b = self.body.unary(UnaryOperator::Negate, b);
        let rough = self.exactly(B::Divide, F32, one, b);
        let error = self.multiply_add(F32, minus_b, rough, one);
        let reciprocal = self.multiply_add(F32, error, rough, rough);
        // The one divisor whose reciprocal may still be off: it is next to the middle of a power
        // of two and the number after that, which is the nearer one.
        let bits = self.body.bitcast(b, ScalarKind::Uint);
        let fraction = self.body.u32((1 << FRACTION) - 1);
        let bits = self.body.binary(B::And, bits, fraction);
        let is_last = self.body.binary(B::Equal, bits, fraction);
        let (unit, none) = (self.body.u32(1), self.body.u32(0));
        let unit = self.body.select(is_last, unit, none);
        let bits = self.body.bitcast(reciprocal, ScalarKind::Uint);
        let bits = self.body.binary(B::InclusiveOr, bits, unit);
        self.body.bitcast(bits, ScalarKind::Float)
    }

    /// A quotient whose intermediate results lose no bits, and what is left of the dividend.
    fn quotient_in_range(&mut self, a: Expr, b: Expr, reciprocal: Expr) -> (Expr, Expr) {
        let minus_b = self.body.unary(UnaryOperator::Negate, b);
        let mut quotient = self.exactly(B::Multiply, F32, a, reciprocal);
        for _ in 0..2 {
            let rest = self.multiply_add(F32, minus_b, quotient, a);
            quotient = self.multiply_add(F32, rest, reciprocal, quotient);
        }
        (quotient, self.multiply_add(F32, minus_b, quotient, a))
    }

    /// Any quotient: that of the significands, times a power of two.
    fn scaled_quotient(&mut self, a: Expr, b: Expr) -> Expr {
        // Right for zeros, infinities and NaN.
        let plain = self.exactly(B::Divide, F32, a, b);
        let [(a, of_a, a_counts), (b, of_b, b_counts)] = [a, b].map(|x| self.significand(x));
        let counts = self.body.binary(B::LogicalAnd, a_counts, b_counts);
        let power = self.body.binary(B::Subtract, of_a, of_b);
        let reciprocal = self.reciprocal_in_range(b);
        let (quotient, rest) = self.quotient_in_range(a, b, reciprocal);
        let large = self.times_power(quotient, power);
        let small = self.subnormal_quotient(a, quotient, rest, power);
        // The quotient of two significands is above 1/2.
        let least = self.body.literal(Literal::I32(-125));
        let is_small = self.body.binary(B::Less, power, least);
        let scaled = self.body.select(is_small, small, large);
        self.body.select(counts, scaled, plain)
    }

    /// A quotient times a power of two that may be subnormal, rounded to its fewer bits from what
    /// it is without having been rounded before. What is left of the dividend says on which side
    /// of it that lies.
    fn subnormal_quotient(&mut self, a: Expr, quotient: Expr, rest: Expr, power: Expr) -> Expr {
        let [left, bits, of_a] = [rest, quotient, a].map(|x| self.body.bitcast(x, ScalarKind::Uint));
        let w = &mut self.body;
        let (zero, one, two) = (w.u32(0), w.u32(1), w.u32(2));
        let sign = w.u32(SIGN);
        let (fraction, first) = (w.u32((1 << FRACTION) - 1), w.u32(1 << FRACTION));
        let below = w.u32(FRACTION);
        let digits = w.binary(B::And, bits, fraction);
        let digits = w.binary(B::InclusiveOr, digits, first);
        let digits = w.binary(B::ShiftLeft, digits, two);
        let magnitude = w.u32(!SIGN);
        let left_size = w.binary(B::And, left, magnitude);
        let nothing_left = w.binary(B::Equal, left_size, zero);
        let signs = w.binary(B::ExclusiveOr, left, of_a);
        let signs = w.binary(B::And, signs, sign);
        let is_more = w.binary(B::Equal, signs, zero);
        let (more, less) = (w.binary(B::Add, digits, one), w.binary(B::Subtract, digits, one));
        let inexact = w.select(is_more, more, less);
        let digits = w.select(nothing_left, digits, inexact);
        // How many bits are lost: of a quotient in 1/2 .. 1 one more than of one in 1 .. 2.
        let exponent = w.binary(B::ShiftRight, bits, below);
        let exponents = w.u32(EXPONENTS);
        let exponent = w.binary(B::And, exponent, exponents);
        let exponent = w.bitcast(exponent, ScalarKind::Sint);
        let [least, none, most] = [3, 2, 31].map(|count| w.literal(Literal::I32(count)));
        let total = w.binary(B::Add, exponent, power);
        let lost = w.binary(B::Subtract, least, total);
        let lost = w.math(M::Clamp, &[lost, none, most]);
        let lost = w.bitcast(lost, ScalarKind::Uint);
        // To the nearest, ties to even.
        let before = w.binary(B::Subtract, lost, one);
        let half = w.binary(B::ShiftLeft, one, before);
        let half = w.binary(B::Subtract, half, one);
        let last = w.binary(B::ShiftRight, digits, lost);
        let last = w.binary(B::And, last, one);
        let sum = w.binary(B::Add, digits, half);
        let sum = w.binary(B::Add, sum, last);
        let rounded = w.binary(B::ShiftRight, sum, lost);
        let sign = w.binary(B::And, bits, sign);
        let rounded = w.binary(B::InclusiveOr, rounded, sign);
        w.bitcast(rounded, ScalarKind::Float)
    }

    /// A square root of f32, which the driver computes if its roots are exact.
    pub(crate) fn root(&mut self, x: Expr) -> Expr {
        let plain = self.body.math(M::Sqrt, &[x]);
        if self.features.exact_roots {
            return plain;
        }
        let [zero, least, up, down, half] =
            [0.0, SMALL_RADICAND, UP, DOWN, 0.5].map(|x| self.body.literal(Literal::F32(x)));
        let is_small = self.body.binary(B::Less, x, least);
        let scaled = self.exactly(B::Multiply, F32, x, up);
        let radicand = self.body.select(is_small, scaled, x);
        let rough = self.body.math(M::InverseSqrt, &[radicand]);
        let root = self.exactly(B::Multiply, F32, radicand, rough);
        let half_inverse = self.exactly(B::Multiply, F32, half, rough);
        let minus_inverse = self.body.unary(UnaryOperator::Negate, half_inverse);
        let error = self.multiply_add(F32, minus_inverse, root, half);
        let half_inverse = self.multiply_add(F32, half_inverse, error, half_inverse);
        let mut root = self.multiply_add(F32, root, error, root);
        for _ in 0..2 {
            let minus_root = self.body.unary(UnaryOperator::Negate, root);
            let rest = self.multiply_add(F32, minus_root, root, radicand);
            root = self.multiply_add(F32, rest, half_inverse, root);
        }
        let scaled = self.exactly(B::Multiply, F32, root, down);
        let root = self.body.select(is_small, scaled, root);
        // Of zeros, infinity, NaN and negative numbers.
        let bits = self.body.bitcast(x, ScalarKind::Uint);
        let infinity = self.body.u32(EXPONENTS << FRACTION);
        let is_finite = self.body.binary(B::Less, bits, infinity);
        let is_positive = self.body.binary(B::Greater, x, zero);
        let counts = self.body.binary(B::LogicalAnd, is_positive, is_finite);
        self.body.select(counts, root, plain)
    }

    fn exponent_bits(&mut self, x: Expr) -> Expr {
        let bits = self.body.bitcast(x, ScalarKind::Uint);
        let (by, mask) = (self.body.u32(FRACTION), self.body.u32(EXPONENTS));
        let bits = self.body.binary(B::ShiftRight, bits, by);
        self.body.binary(B::And, bits, mask)
    }

    /// Whether an unsigned number is one of so many from the first on.
    fn is_in(&mut self, x: Expr, (first, count): (u32, u32)) -> Expr {
        let (first, count) = (self.body.u32(first), self.body.u32(count));
        let after = self.body.binary(B::Subtract, x, first);
        self.body.binary(B::Less, after, count)
    }
}

#[cfg(test)]
mod tests {
    /// The steps above for numbers in range, from a reciprocal that is off.
    fn quotient(a: f32, b: f32, off: i32) -> f32 {
        let rough = f32::from_bits(((1.0 / b).to_bits() as i32 + off) as u32);
        let reciprocal = (-b).mul_add(rough, 1.0).mul_add(rough, rough);
        let unit = u32::from(b.to_bits() & 0x7f_ffff == 0x7f_ffff);
        let reciprocal = f32::from_bits(reciprocal.to_bits() | unit);
        let first = a * reciprocal;
        (0..2).fold(first, |quotient, _| (-b).mul_add(quotient, a).mul_add(reciprocal, quotient))
    }

    fn root(x: f32, off: i32) -> f32 {
        let rough = f32::from_bits(((1.0 / f64::from(x).sqrt()) as f32).to_bits().wrapping_add_signed(off));
        let (root, half) = (x * rough, 0.5 * rough);
        let error = (-half).mul_add(root, 0.5);
        let (half, root) = (half.mul_add(error, half), root.mul_add(error, root));
        (0..2).fold(root, |root, _| (-root).mul_add(root, x).mul_add(half, root))
    }

    #[test]
    fn what_is_corrected_is_the_nearest_number() {
        let mut state = 1u32;
        let mut significand = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from_bits(127 << 23 | state >> 9)
        };
        for _ in 0..20_000 {
            let (a, b) = (significand(), significand());
            for off in -2..=2 {
                assert_eq!(quotient(a, b, off), a / b, "{a} / {b}");
                for x in [a, 2.0 * b] {
                    assert_eq!(root(x, off), x.sqrt(), "sqrt {x}");
                }
            }
        }
        // The significands next to powers of two, where quotients and roots lie next to the middle
        // of two numbers.
        let near = |i: u32| f32::from_bits(127 << 23 | i & 0x7f_ffff);
        for i in (0..512).chain((1 << 23) - 512..1 << 23) {
            for off in -2..=2 {
                for x in [near(i), 2.0 * near(i)] {
                    assert_eq!(root(x, off), x.sqrt(), "sqrt {x}");
                    for j in (0..16).chain((1 << 23) - 16..1 << 23) {
                        assert_eq!(quotient(x, near(j), off), x / near(j), "{x} / {}", near(j));
                    }
                }
            }
        }
    }
}
