//! Conversions between element types, which saturate, wrap and round as Rust's `as`.

use crate::body::Expr;
use crate::long::is_long;
use crate::types::{integer, zero};
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{OpData, Scalar as Elem};
use naga::{BinaryOperator as B, Literal, MathFunction as M, Scalar, ScalarKind};

impl Writer<'_> {
    pub(crate) fn cast(&mut self, op: &OpData) -> Result<()> {
        let [result] = op.results[..] else { return Ok(()) };
        let (mut x, mut from_elem, to_elem) =
            (self.get(op.input())?, self.elem(op.input()), self.elem(result));
        let (mut from, to) = (self.scalar(op, op.input())?, self.scalar(op, result)?);
        if from_elem != to_elem && self.features.is_code(from_elem) {
            x = self.widened(x, from_elem);
            (from_elem, from) = (Elem::F32, Scalar::F32);
        }
        let converted = match (from.kind, to.kind) {
            _ if from_elem == to_elem => self.resized(x, from, to),
            _ if self.features.is_code(to_elem) => {
                // Integers that f32 does not hold are beyond the largest number.
                let wide = self.as_single(x, from);
                self.narrowed_to(wide, to_elem)
            }
            (ScalarKind::Bool, _) => {
                let (one, none) = (self.number(to, 1), self.number(to, 0));
                self.body.select(x, one, none)
            }
            (_, ScalarKind::Bool) if from == Scalar::F32 => {
                // By its bits, since some drivers take subnormal numbers for zero.
                let (bits, mask) = (self.body.bitcast(x, ScalarKind::Uint), self.body.u32(u32::MAX >> 1));
                let (size, none) = (self.body.binary(B::And, bits, mask), self.body.u32(0));
                self.body.binary(B::NotEqual, size, none)
            }
            (_, ScalarKind::Bool) => {
                let none = self.number(from, 0);
                let is_zero = self.on_integers(B::Equal, from, x, none);
                self.body.not(is_zero)
            }
            (ScalarKind::Float, ScalarKind::Float) => {
                if to_elem == Elem::BF16 {
                    let wide = self.as_single(x, from);
                    self.rounded_to_bf16(wide)
                } else if from == to {
                    x
                } else if (from, to) == (Scalar::F32, Scalar::F16) {
                    self.half(x)
                } else if to == Scalar::F16 {
                    let rounded = self.body.convert(x, to);
                    self.kept_half(rounded)
                } else {
                    self.body.convert(x, to)
                }
            }
            (ScalarKind::Float, _) => self.saturated(x, from, to_elem, to),
            (_, ScalarKind::Float) => match to_elem {
                Elem::BF16 => {
                    let long = is_long(from);
                    let wide = if self.is_pair(from) {
                        self.pair_as_single(x, from, true)
                    } else if long {
                        self.long_to_odd(x, from)
                    } else {
                        self.word_to_odd(x, from)
                    };
                    self.rounded_to_bf16(wide)
                }
                _ if self.is_pair(from) => {
                    // An integer of which f32 does not hold all is beyond the largest f16.
                    let single = self.pair_as_single(x, from, false);
                    if to == Scalar::F32 { single } else { self.body.convert(single, to) }
                }
                _ => self.body.convert(x, to),
            },
            _ => {
                let wide = self.resized(x, from, to);
                self.wrapped(wide, to_elem)
            }
        };
        self.set(op, converted);
        Ok(())
    }

    /// An integer as one of another width or sign: the low bits, extended by the sign it had.
    pub(crate) fn resized(&mut self, x: Expr, from: Scalar, to: Scalar) -> Expr {
        if from == to {
            return x;
        }
        if self.is_pair(from) {
            let [low, _] = self.words(x);
            return match to.kind {
                _ if is_long(to) => x,
                ScalarKind::Sint => self.body.bitcast(low, to.kind),
                _ => low,
            };
        }
        if self.is_pair(to) && from == Scalar::U32 {
            let high = self.body.u32(0);
            return self.pair([x, high]);
        }
        if from == Scalar::I32 && to.width == 8 {
            let words = self.extended(x);
            return self.unpack_pair(words, if to == Scalar::I64 { Elem::I64 } else { Elem::U64 });
        }
        let resized = Scalar { kind: from.kind, width: to.width };
        let x = if resized == from { x } else { self.body.convert(x, resized) };
        if resized.kind == to.kind { x } else { self.body.reinterpret(x, to) }
    }

    /// A signed word as two, the low one first. GPUs keep 64 bits in two registers, so that this
    /// costs them what a conversion does; and Mesa 22.3 makes wrong code of comparisons of
    /// converted words with constants.
    pub(crate) fn extended(&mut self, x: Expr) -> [Expr; 2] {
        let by = self.body.u32(31);
        let sign = self.body.binary(B::ShiftRight, x, by);
        [x, sign].map(|word| self.body.bitcast(word, ScalarKind::Uint))
    }

    /// The low bits of a 32-bit integer as an element of 8 or 16 bits; others as they are.
    fn wrapped(&mut self, x: Expr, elem: Elem) -> Expr {
        match elem {
            Elem::I8 | Elem::I16 => {
                let word = self.body.bitcast(x, ScalarKind::Uint);
                self.unpack(word, elem)
            }
            Elem::U8 | Elem::U16 => self.unpack(x, elem),
            _ => x,
        }
    }

    /// A number as f32, from which a second rounding to fewer bits is right.
    fn as_single(&mut self, x: Expr, from: Scalar) -> Expr {
        match (from.kind, from.width) {
            (ScalarKind::Float, 8) => self.double_to_odd(x),
            (ScalarKind::Float, 4) => x,
            (ScalarKind::Bool, _) => {
                let [one, none] = [1, 0].map(|number| self.body.literal(integer(Scalar::F32, number)));
                self.body.select(x, one, none)
            }
            _ if self.is_pair(from) => self.pair_as_single(x, from, false),
            _ => self.body.convert(x, Scalar::F32),
        }
    }

    /// A float as an integer: truncated, saturating, and 0 for NaN.
    fn saturated(&mut self, x: Expr, from: Scalar, to_elem: Elem, to: Scalar) -> Expr {
        let (x, from) = match from {
            Scalar::F16 => (self.body.convert(x, Scalar::F32), Scalar::F32),
            _ => (x, from),
        };
        if to_elem.is_small_int() {
            let wide = self.saturated(x, from, Elem::I32, Scalar::I32);
            let (low, high) = match to_elem {
                Elem::I8 => (-128, 127),
                Elem::U8 => (0, 255),
                Elem::I16 => (-32_768, 32_767),
                _ => (0, 65_535),
            };
            let [low, high] = [low, high].map(|limit| self.body.literal(Literal::I32(limit)));
            let inside = self.body.math(M::Clamp, &[wide, low, high]);
            return self.resized(inside, Scalar::I32, to);
        }
        if self.is_pair(to) {
            return self.single_as_pair(x, to);
        }
        // The first float above the range, and the first below which it ends.
        let signed = to.kind == ScalarKind::Sint;
        let bits = i32::from(to.width) * 8 - i32::from(signed);
        let above = 2f64.powi(bits);
        let below = if signed { -above } else { 0.0 };
        let (least, greatest) = limits(to);
        let is_nan = self.is_nan(x, from);
        let b = &mut self.body;
        let [above, below] = [above, below].map(|limit| {
            b.literal(if from == Scalar::F64 { Literal::F64(limit) } else { Literal::F32(limit as f32) })
        });
        let (is_above, is_below) = (b.binary(B::GreaterEqual, x, above), b.binary(B::Less, x, below));
        let is_out = b.binary(B::LogicalOr, is_above, is_below);
        let is_out = b.binary(B::LogicalOr, is_out, is_nan);
        // What is converted is always in range.
        let inner = b.select(is_out, below, x);
        let number = b.convert(inner, to);
        let (least, greatest) = (b.literal(least), b.literal(greatest));
        let number = b.select(is_above, greatest, number);
        let number = b.select(is_below, least, number);
        let none = b.literal(zero(to));
        b.select(is_nan, none, number)
    }

    pub(crate) fn bitcast(&mut self, op: &OpData) -> Result<()> {
        let [result] = op.results[..] else { return Ok(()) };
        let (from_elem, to_elem) = (self.elem(op.input()), self.elem(result));
        let from = self.require(Some(op), from_elem)?;
        let (x, to) = (self.get_as(op.input(), from)?, self.scalar(op, result)?);
        let cast = match from_elem.bytes() {
            _ if from_elem == to_elem || self.is_pair(from) => x,
            4 | 8 if from_elem.is_int() && to_elem.is_int() => self.body.reinterpret(x, to),
            4 | 8 => self.body.bitcast(x, to.kind),
            _ => {
                let word = self.pack(x, from_elem);
                self.unpack(word, to_elem)
            }
        };
        self.set(op, cast);
        Ok(())
    }
}

/// The least and the greatest integer of a type.
fn limits(scalar: Scalar) -> (Literal, Literal) {
    match (scalar.kind, scalar.width) {
        (ScalarKind::Sint, 8) => (Literal::I64(i64::MIN), Literal::I64(i64::MAX)),
        (ScalarKind::Sint, _) => (Literal::I32(i32::MIN), Literal::I32(i32::MAX)),
        (_, 8) => (Literal::U64(0), Literal::U64(u64::MAX)),
        _ => (Literal::U32(0), Literal::U32(u32::MAX)),
    }
}
