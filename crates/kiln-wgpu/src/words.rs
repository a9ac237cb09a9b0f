//! Elements as bits of words of 32 bits.

use crate::body::Expr;
use crate::writer::Writer;
use kiln_ir::Scalar as Elem;
use naga::{BinaryOperator, Literal, MathFunction, Scalar, ScalarKind, TypeInner};

impl Writer<'_> {
    /// The value of an element of up to 32 bits from the low bits of a word; what is above them
    /// does not count.
    pub(crate) fn unpack(&mut self, word: Expr, elem: Elem) -> Expr {
        let code = self.features.is_code(elem);
        let b = &mut self.body;
        match elem {
            Elem::Bool | Elem::U8 => {
                let mask = b.u32(0xff);
                let byte = b.binary(BinaryOperator::And, word, mask);
                let zero = b.u32(0);
                if elem == Elem::U8 { byte } else { b.binary(BinaryOperator::NotEqual, byte, zero) }
            }
            Elem::I8 | Elem::I16 => {
                let by = b.u32(32 - 8 * elem.bytes());
                let up = b.binary(BinaryOperator::ShiftLeft, word, by);
                let signed = b.bitcast(up, ScalarKind::Sint);
                b.binary(BinaryOperator::ShiftRight, signed, by)
            }
            Elem::BF16 => {
                let by = b.u32(16);
                let up = b.binary(BinaryOperator::ShiftLeft, word, by);
                b.bitcast(up, ScalarKind::Float)
            }
            Elem::E4M3 | Elem::E5M2 => {
                let mask = b.u32(0xff);
                b.binary(BinaryOperator::And, word, mask)
            }
            Elem::U16 => {
                let mask = b.u32(0xffff);
                b.binary(BinaryOperator::And, word, mask)
            }
            Elem::F16 if code => {
                let mask = b.u32(0xffff);
                b.binary(BinaryOperator::And, word, mask)
            }
            Elem::F16 => {
                let pair = b.math(MathFunction::Unpack2x16float, &[word]);
                let low = b.member(pair, 0);
                b.convert(low, Scalar::F16)
            }
            Elem::I32 => b.bitcast(word, ScalarKind::Sint),
            Elem::F32 => b.bitcast(word, ScalarKind::Float),
            // 64-bit elements are two words.
            Elem::U32 | Elem::I64 | Elem::U64 | Elem::F64 => word,
        }
    }

    /// A value of an element type of up to 32 bits as the low bits of a word, zeros above them.
    pub(crate) fn pack(&mut self, value: Expr, elem: Elem) -> Expr {
        if self.features.is_code(elem) {
            return value;
        }
        let b = &mut self.body;
        match elem {
            Elem::Bool => {
                let (one, zero) = (b.u32(1), b.u32(0));
                b.select(value, one, zero)
            }
            Elem::I8 | Elem::U8 | Elem::I16 | Elem::U16 => {
                let bits = if elem.is_signed() { b.bitcast(value, ScalarKind::Uint) } else { value };
                let mask = b.u32(u32::MAX >> (32 - 8 * elem.bytes()));
                b.binary(BinaryOperator::And, bits, mask)
            }
            Elem::BF16 => {
                let (bits, by) = (b.bitcast(value, ScalarKind::Uint), b.u32(16));
                b.binary(BinaryOperator::ShiftRight, bits, by)
            }
            Elem::F16 => {
                let wide = b.convert(value, Scalar::F32);
                self.packed_half(wide)
            }
            Elem::I32 | Elem::F32 => b.bitcast(value, ScalarKind::Uint),
            Elem::U32 | Elem::I64 | Elem::U64 | Elem::F64 | Elem::E4M3 | Elem::E5M2 => value,
        }
    }

    /// An f32 rounded to f16 as the low bits of a word, zeros above them.
    pub(crate) fn packed_half(&mut self, wide: Expr) -> Expr {
        let zero = self.body.literal(Literal::F32(0.0));
        let ty = self.type_of(TypeInner::Vector { size: naga::VectorSize::Bi, scalar: Scalar::F32 });
        let pair = self.body.add(naga::Expression::Compose { ty, components: vec![wide, zero] });
        self.body.math(MathFunction::Pack2x16float, &[pair])
    }

    /// The value of an element of 64 bits from two words, the low one first.
    pub(crate) fn unpack_pair(&mut self, words: [Expr; 2], elem: Elem) -> Expr {
        if !self.features.int64 {
            return self.pair(words);
        }
        let b = &mut self.body;
        let [low, high] = words.map(|word| b.convert(word, Scalar::U64));
        let by = b.u32(32);
        let high = b.binary(BinaryOperator::ShiftLeft, high, by);
        let bits = b.binary(BinaryOperator::InclusiveOr, low, high);
        match elem {
            Elem::I64 => b.reinterpret(bits, Scalar::I64),
            Elem::F64 => b.bitcast(bits, ScalarKind::Float),
            _ => bits,
        }
    }

    /// A value of 64 bits as two words, the low one first.
    pub(crate) fn pack_pair(&mut self, value: Expr, elem: Elem) -> [Expr; 2] {
        if !self.features.int64 {
            return self.words(value);
        }
        let b = &mut self.body;
        let bits = match elem {
            Elem::I64 => b.reinterpret(value, Scalar::U64),
            Elem::F64 => b.bitcast(value, ScalarKind::Uint),
            _ => value,
        };
        let by = b.u32(32);
        let high = b.binary(BinaryOperator::ShiftRight, bits, by);
        [bits, high].map(|half| b.convert(half, Scalar::U32))
    }
}
