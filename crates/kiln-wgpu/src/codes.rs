//! Floats of 8 and 16 bits as codes in words, for adapters that have no such type: e4m3 and e5m2
//! everywhere, f16 without `SHADER_F16`.
//!
//! Such values are moved as they are. Their arithmetic is in f32, and these are the conversions:
//! exact to f32, and rounded once from it, ties to even. All of it is on integers but for products
//! with powers of two and a rounding to integers, which are exact, so that no driver's fast
//! arithmetic changes a result.

use crate::body::Expr;
use crate::writer::Writer;
use kiln_ir::Scalar as Elem;
use naga::{BinaryOperator as B, Expression, Literal, MathFunction as M, Scalar, ScalarKind};

/// The exponent's bias in f32.
const BIAS: u32 = 127;
/// The stored bits of its significand.
const SIGNIFICAND: u32 = 23;
/// The bits of infinity, above which there are only NaNs.
const INFINITY: u32 = 0x7f80_0000;
/// The bits of a NaN.
const NAN: u32 = 0x7fc0_0000;

/// A format of floats.
#[derive(Clone, Copy)]
struct Format {
    /// Bits of a code.
    width: u32,
    /// Bits of the significand that are stored.
    significand: u32,
    /// What is added to exponents that are stored.
    bias: u32,
    /// The code of the largest number.
    greatest: u32,
    /// Whether the code above that is infinity.
    infinity: bool,
    /// Whether larger numbers become the largest, and not infinity.
    saturates: bool,
    /// The code of NaN.
    nan: u32,
}

impl Format {
    /// The format of an 8-bit float or of f16.
    fn of(elem: Elem) -> Format {
        let float8 = Format {
            width: 8,
            significand: 3,
            bias: 7,
            greatest: 0x7e,
            infinity: false,
            saturates: true,
            nan: 0x7f,
        };
        match elem {
            Elem::E4M3 => float8,
            Elem::E5M2 => Format { significand: 2, bias: 15, greatest: 0x7b, infinity: true, ..float8 },
            _ => Format {
                width: 16,
                significand: 10,
                bias: 15,
                greatest: 0x7bff,
                infinity: true,
                saturates: false,
                nan: 0x7e00,
            },
        }
    }

    /// How far its significand stands below that of f32.
    fn shift(self) -> u32 {
        SIGNIFICAND - self.significand
    }

    /// The difference of the biases.
    fn rebias(self) -> u32 {
        BIAS - self.bias
    }

    /// The size of the least number, which subnormal ones are multiples of.
    fn least(self) -> f32 {
        2f32.powi(1 - self.bias as i32 - self.significand as i32)
    }
}

impl Writer<'_> {
    /// The value of a code, as f32.
    pub(crate) fn widened(&mut self, code: Expr, elem: Elem) -> Expr {
        if let Expression::Literal(Literal::U32(bits)) = self.body.function.expressions[code] {
            let value = kiln_ir::Literal::from_bits(elem, bits.into());
            return self.literal(value, Scalar::F32);
        }
        let format = Format::of(elem);
        let b = &mut self.body;
        let sign_bit = 1 << (format.width - 1);
        let (mask, first_normal) = (b.u32(sign_bit - 1), b.u32(1 << format.significand));
        let size = b.binary(B::And, code, mask);
        let units = b.convert(size, Scalar::F32);
        let least = b.literal(Literal::F32(format.least()));
        let subnormal = b.binary(B::Multiply, units, least);
        let subnormal = b.bitcast(subnormal, ScalarKind::Uint);
        let (shift, rebias) = (b.u32(format.shift()), b.u32(format.rebias() << SIGNIFICAND));
        let normal = b.binary(B::ShiftLeft, size, shift);
        let normal = b.binary(B::Add, normal, rebias);
        let is_subnormal = b.binary(B::Less, size, first_normal);
        let mut bits = b.select(is_subnormal, subnormal, normal);
        let (greatest, nan) = (b.u32(format.greatest), b.u32(NAN));
        let is_special = b.binary(B::Greater, size, greatest);
        let mut special = nan;
        if format.infinity {
            let (above, infinity) = (b.u32(format.greatest + 1), b.u32(INFINITY));
            let is_infinite = b.binary(B::Equal, size, above);
            special = b.select(is_infinite, infinity, nan);
        }
        bits = b.select(is_special, special, bits);
        let sign_mask = b.u32(sign_bit);
        let sign = b.binary(B::And, code, sign_mask);
        let up = b.u32(32 - format.width);
        let sign = b.binary(B::ShiftLeft, sign, up);
        let bits = b.binary(B::InclusiveOr, bits, sign);
        b.bitcast(bits, ScalarKind::Float)
    }

    /// The code of the nearest number to an f32, ties to even.
    pub(crate) fn narrowed_to(&mut self, x: Expr, elem: Elem) -> Expr {
        let format = Format::of(elem);
        let b = &mut self.body;
        let bits = b.bitcast(x, ScalarKind::Uint);
        let (magnitude, shift) = (b.u32(u32::MAX >> 1), b.u32(format.shift()));
        let size = b.binary(B::And, bits, magnitude);
        // Half a unit of the last place, less one where that place is even.
        let (one, half) = (b.u32(1), b.u32((1 << (format.shift() - 1)) - 1));
        let place = b.binary(B::ShiftRight, size, shift);
        let odd = b.binary(B::And, place, one);
        let more = b.binary(B::Add, half, odd);
        let sum = b.binary(B::Add, size, more);
        let up = b.binary(B::ShiftRight, sum, shift);
        let rebias = b.u32(format.rebias() << format.significand);
        let normal = b.binary(B::Subtract, up, rebias);
        let number = b.bitcast(size, ScalarKind::Float);
        let per_unit = b.literal(Literal::F32(1.0 / format.least()));
        let units = b.binary(B::Multiply, number, per_unit);
        let units = b.math(M::Round, &[units]);
        let first_normal = b.u32((format.rebias() + 1) << SIGNIFICAND);
        let is_subnormal = b.binary(B::Less, size, first_normal);
        // What is converted is always in range.
        let zero = b.literal(Literal::F32(0.0));
        let units = b.select(is_subnormal, units, zero);
        let subnormal = b.convert(units, Scalar::U32);
        let code = b.select(is_subnormal, subnormal, normal);
        let limit = b.u32(format.greatest + u32::from(!format.saturates));
        let code = b.math(M::Min, &[code, limit]);
        let (infinity, nan) = (b.u32(INFINITY), b.u32(format.nan));
        let is_nan = b.binary(B::Greater, size, infinity);
        let down = b.u32(32 - format.width);
        let sign = b.binary(B::ShiftRight, bits, down);
        let sign_mask = b.u32(1 << (format.width - 1));
        let sign = b.binary(B::And, sign, sign_mask);
        let signed = b.binary(B::InclusiveOr, code, sign);
        b.select(is_nan, nan, signed)
    }

    /// A float as the nearest bf16, ties to even, in an f32.
    pub(crate) fn rounded_to_bf16(&mut self, x: Expr) -> Expr {
        let is_nan = self.is_nan(x, Scalar::F32);
        let b = &mut self.body;
        let bits = b.bitcast(x, ScalarKind::Uint);
        let (by, one, half) = (b.u32(16), b.u32(1), b.u32(0x7fff));
        let up = b.binary(B::ShiftRight, bits, by);
        let odd = b.binary(B::And, up, one);
        let more = b.binary(B::Add, half, odd);
        let sum = b.binary(B::Add, bits, more);
        let mask = b.u32(0xffff_0000);
        let rounded = b.binary(B::And, sum, mask);
        let nan = b.u32(NAN);
        let bits = b.select(is_nan, nan, rounded);
        b.bitcast(bits, ScalarKind::Float)
    }

    /// An f64 as f32, rounding an inexact result to an odd significand, so that a second rounding
    /// to fewer bits is right (Boldo and Melquiond, "When double rounding is odd", 2005).
    pub(crate) fn double_to_odd(&mut self, x: Expr) -> Expr {
        let b = &mut self.body;
        let near = b.convert(x, Scalar::F32);
        let back = b.convert(near, Scalar::F64);
        let [size, whole] = [x, back].map(|x| b.math(M::Abs, &[x]));
        let (above, below) = (b.binary(B::Greater, whole, size), b.binary(B::Less, whole, size));
        self.made_odd(near, Scalar::F32, above, below)
    }

    /// An integer of 32 bits as f32, rounding an inexact result to an odd significand.
    pub(crate) fn word_to_odd(&mut self, x: Expr, from: Scalar) -> Expr {
        let near = self.body.convert(x, Scalar::F32);
        let signed = from.kind == ScalarKind::Sint;
        // Of the least i32 the absolute value has the same bits.
        let size = if signed { self.body.math(M::Abs, &[x]) } else { x };
        let size = if signed { self.body.bitcast(size, ScalarKind::Uint) } else { size };
        let whole = self.body.math(M::Abs, &[near]);
        let b = &mut self.body;
        let end = b.literal(Literal::F32(2f32.powi(32)));
        let is_beyond = b.binary(B::GreaterEqual, whole, end);
        let zero = b.literal(Literal::F32(0.0));
        let whole = b.select(is_beyond, zero, whole);
        let back = b.convert(whole, Scalar::U32);
        let (greater, less) = (b.binary(B::Greater, back, size), b.binary(B::Less, back, size));
        let above = b.binary(B::LogicalOr, is_beyond, greater);
        let within = b.not(is_beyond);
        let below = b.binary(B::LogicalAnd, within, less);
        self.made_odd(near, Scalar::F32, above, below)
    }

    /// An integer of 64 bits as f32, rounding an inexact result to an odd significand.
    pub(crate) fn long_to_odd(&mut self, x: Expr, from: Scalar) -> Expr {
        let signed = from.kind == ScalarKind::Sint;
        // Of the least i64 the absolute value has the same bits.
        let size = if signed { self.body.math(M::Abs, &[x]) } else { x };
        let size = if signed { self.body.reinterpret(size, Scalar::U64) } else { size };
        let [_, high] = self.pack_pair(size, Elem::U64);
        let b = &mut self.body;
        // The first 32 bits from the leading one on, of which the last stands for all below it.
        let (width, one, none) = (b.u32(32), b.u32(1), b.u32(0));
        let zeros = b.math(M::CountLeadingZeros, &[high]);
        let down = b.binary(B::Subtract, width, zeros);
        let top = b.binary(B::ShiftRight, size, down);
        let kept = b.binary(B::ShiftLeft, top, down);
        let lost = b.binary(B::NotEqual, kept, size);
        let last = b.select(lost, one, none);
        let top = b.convert(top, Scalar::U32);
        let top = b.binary(B::InclusiveOr, top, last);
        let number = self.word_to_odd(top, Scalar::U32);
        let b = &mut self.body;
        let (bias, place) = (b.u32(BIAS), b.u32(SIGNIFICAND));
        let exponent = b.binary(B::Add, bias, down);
        let power = b.binary(B::ShiftLeft, exponent, place);
        let power = b.bitcast(power, ScalarKind::Float);
        let number = b.binary(B::Multiply, number, power);
        if !signed {
            return number;
        }
        let zero = b.literal(Literal::I64(0));
        let is_negative = b.binary(B::Less, x, zero);
        let opposite = b.unary(naga::UnaryOperator::Negate, number);
        b.select(is_negative, opposite, number)
    }
}
