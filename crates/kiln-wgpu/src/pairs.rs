//! 64-bit integers as pairs of words, for adapters without `SHADER_INT64`.
//!
//! A value is a vector of two 32-bit words, the low one first. The types of naga that stand for it
//! in the writer are those of 64 bits all the same ([`Writer::is_pair`] tells them apart), so that
//! memory and conversions have one rule for both. What takes more than a few instructions is a
//! function of the module, which code calls.

use crate::bits::BitFn;
use crate::body::Expr;
use crate::long::{PairFunction, is_long};
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{BinaryOp, CompareOp, OpData, Scalar as Elem, UnaryOp, Value};
use naga::{
    BinaryOperator as B, Expression, Handle, Literal, MathFunction as M, Scalar, ScalarKind, Type, TypeInner,
    UnaryOperator as U, VectorSize,
};

impl Writer<'_> {
    /// Whether values of a type are pairs here.
    pub(crate) fn is_pair(&self, scalar: Scalar) -> bool {
        !self.features.int64 && is_long(scalar)
    }

    /// The type of pairs.
    pub(crate) fn pair_type(&mut self) -> Handle<Type> {
        self.type_of(TypeInner::Vector { size: VectorSize::Bi, scalar: Scalar::U32 })
    }

    /// A pair of words, the low one first.
    pub(crate) fn pair(&mut self, words: [Expr; 2]) -> Expr {
        let ty = self.pair_type();
        self.body.add(Expression::Compose { ty, components: words.to_vec() })
    }

    /// The words of a pair, the low one first.
    pub(crate) fn words(&mut self, pair: Expr) -> [Expr; 2] {
        if let Expression::Compose { components, .. } = &self.body.function.expressions[pair]
            && let &[low, high] = &components[..]
        {
            return [low, high];
        }
        [self.body.member(pair, 0), self.body.member(pair, 1)]
    }

    /// A number as a pair.
    pub(crate) fn pair_of(&mut self, value: u64) -> Expr {
        let words = [value as u32, (value >> 32) as u32].map(|word| self.body.u32(word));
        self.pair(words)
    }

    /// A small number of a type, or of a bool whether it is not zero.
    pub(crate) fn number(&mut self, scalar: Scalar, value: u32) -> Expr {
        match self.is_pair(scalar) {
            true => self.pair_of(value.into()),
            false => self.body.literal(crate::types::integer(scalar, value)),
        }
    }

    /// A value of the kernel where one of a type is expected: an index that is held in 32 bits is
    /// extended to a pair.
    pub(crate) fn get_as(&mut self, value: Value, to: Scalar) -> Result<Expr> {
        let x = self.get(value)?;
        if !self.is_pair(to) || !self.is_narrow(value) {
            return Ok(x);
        }
        // Unsigned numbers are held in 32 bits only where they are the bits of such signed ones.
        let signed = match self.elem(value) {
            Elem::U64 => self.body.bitcast(x, ScalarKind::Sint),
            _ => x,
        };
        let words = self.extended(signed);
        Ok(self.pair(words))
    }

    /// Defines an operation's result as an index, which may have to be a pair.
    pub(crate) fn set_index(&mut self, op: &OpData, index: Expr) -> Result<()> {
        let [result] = op.results[..] else { return Ok(()) };
        let (from, to) = (self.index_scalar(), self.scalar(op, result)?);
        let value = self.resized(index, from, to);
        self.set(op, value);
        Ok(())
    }

    /// An operator on integers of any width.
    pub(crate) fn on_integers(&mut self, operator: B, scalar: Scalar, a: Expr, b: Expr) -> Expr {
        if !self.is_pair(scalar) {
            return self.body.binary(operator, a, b);
        }
        let signed = scalar.kind == ScalarKind::Sint;
        match operator {
            B::Add => self.pair_sum(a, b),
            B::Subtract => self.pair_difference(a, b),
            B::Multiply => self.pair_product(a, b),
            B::Divide => self.pair_quotient(signed, a, b),
            B::Modulo => self.pair_remainder(signed, a, b),
            B::Equal => self.pair_equal(a, b),
            B::NotEqual => {
                let equal = self.pair_equal(a, b);
                self.body.not(equal)
            }
            B::Less => self.pair_less(signed, a, b),
            B::Greater => self.pair_less(signed, b, a),
            B::LessEqual | B::GreaterEqual => {
                let [a, b] = if operator == B::LessEqual { [b, a] } else { [a, b] };
                let less = self.pair_less(signed, a, b);
                self.body.not(less)
            }
            B::ShiftLeft | B::ShiftRight => {
                let [amount, _] = self.words(b);
                self.pair_shift(operator == B::ShiftLeft, signed, a, amount)
            }
            // Bit by bit, which vectors have; of bools there are no pairs.
            B::And | B::ExclusiveOr | B::InclusiveOr | B::LogicalAnd | B::LogicalOr => {
                self.body.binary(operator, a, b)
            }
        }
    }

    pub(crate) fn pair_arithmetic(&mut self, op: BinaryOp, scalar: Scalar, a: Expr, b: Expr) -> Option<Expr> {
        use BinaryOp::*;
        let operator = match op {
            Add => B::Add,
            Sub => B::Subtract,
            Mul => B::Multiply,
            Div => B::Divide,
            Rem => B::Modulo,
            And => B::And,
            Or => B::InclusiveOr,
            Xor => B::ExclusiveOr,
            Shl => B::ShiftLeft,
            Shr => B::ShiftRight,
            Min | Max => {
                let less = self.on_integers(B::Less, scalar, a, b);
                let [accept, reject] = if op == Min { [a, b] } else { [b, a] };
                return Some(self.body.select(less, accept, reject));
            }
            FastDiv | Pow | Atan2 => return None,
        };
        Some(self.on_integers(operator, scalar, a, b))
    }

    /// A unary operation; `None` if integers have no such operation.
    pub(crate) fn pair_unary(&mut self, op: UnaryOp, scalar: Scalar, x: Expr) -> Option<Expr> {
        use UnaryOp::*;
        Some(match op {
            Neg => self.pair_opposite(x),
            Abs if scalar == Scalar::U64 => x,
            Abs => self.pair_size(x),
            Not => self.body.unary(U::BitwiseNot, x),
            Popcount => self.pair_bits(BitFn::Ones, x),
            Clz => self.pair_bits(BitFn::LeadingZeros, x),
            BitReverse => self.pair_bits(BitFn::Reverse, x),
            Exp2 | Rsqrt | Sqrt | Recip | Floor | Ceil | Round | Trunc | IsNan | Math(_) => return None,
        })
    }

    pub(crate) fn pair_compare(&mut self, op: CompareOp, scalar: Scalar, a: Expr, b: Expr) -> Expr {
        let operator = match op {
            CompareOp::Eq => B::Equal,
            CompareOp::Ne => B::NotEqual,
            CompareOp::Lt => B::Less,
            CompareOp::Le => B::LessEqual,
            CompareOp::Gt => B::Greater,
            CompareOp::Ge => B::GreaterEqual,
        };
        self.on_integers(operator, scalar, a, b)
    }

    fn pair_sum(&mut self, a: Expr, b: Expr) -> Expr {
        let ([a, a_high], [b, b_high]) = (self.words(a), self.words(b));
        let w = &mut self.body;
        let low = w.binary(B::Add, a, b);
        let carries = w.binary(B::Less, low, a);
        let (one, none) = (w.u32(1), w.u32(0));
        let carry = w.select(carries, one, none);
        let high = w.binary(B::Add, a_high, b_high);
        let high = w.binary(B::Add, high, carry);
        self.pair([low, high])
    }

    fn pair_difference(&mut self, a: Expr, b: Expr) -> Expr {
        let ([a, a_high], [b, b_high]) = (self.words(a), self.words(b));
        let w = &mut self.body;
        let low = w.binary(B::Subtract, a, b);
        let borrows = w.binary(B::Less, a, b);
        let (one, none) = (w.u32(1), w.u32(0));
        let borrow = w.select(borrows, one, none);
        let high = w.binary(B::Subtract, a_high, b_high);
        let high = w.binary(B::Subtract, high, borrow);
        self.pair([low, high])
    }

    pub(crate) fn pair_product(&mut self, a: Expr, b: Expr) -> Expr {
        let ([a, a_high], [b, b_high]) = (self.words(a), self.words(b));
        let product = self.call_pair(PairFunction::Product, vec![a, b]);
        let [low, mut high] = self.words(product);
        // Words that were extended by zeros have no more than this.
        for (x, y) in [(a, b_high), (b, a_high)] {
            if !self.is_zero_word(y) {
                let more = self.body.binary(B::Multiply, x, y);
                high = self.body.binary(B::Add, high, more);
            }
        }
        self.pair([low, high])
    }

    fn is_zero_word(&self, x: Expr) -> bool {
        matches!(self.body.function.expressions[x], Expression::Literal(Literal::U32(0)))
    }

    fn pair_equal(&mut self, a: Expr, b: Expr) -> Expr {
        let (a, b) = (self.words(a), self.words(b));
        let [low, high] = [0, 1].map(|i| self.body.binary(B::Equal, a[i], b[i]));
        self.body.binary(B::LogicalAnd, low, high)
    }

    pub(crate) fn pair_less(&mut self, signed: bool, a: Expr, b: Expr) -> Expr {
        let ([a, a_high], [b, b_high]) = (self.words(a), self.words(b));
        let w = &mut self.body;
        let [first, second] =
            [a_high, b_high].map(|x| if signed { w.bitcast(x, ScalarKind::Sint) } else { x });
        let (less, equal) = (w.binary(B::Less, first, second), w.binary(B::Equal, a_high, b_high));
        let low = w.binary(B::Less, a, b);
        let low = w.binary(B::LogicalAnd, equal, low);
        w.binary(B::LogicalOr, less, low)
    }

    /// Whether the first bit is set.
    pub(crate) fn pair_is_negative(&mut self, x: Expr) -> Expr {
        let [_, high] = self.words(x);
        let (high, none) =
            (self.body.bitcast(high, ScalarKind::Sint), self.body.literal(naga::Literal::I32(0)));
        self.body.binary(B::Less, high, none)
    }

    pub(crate) fn pair_opposite(&mut self, x: Expr) -> Expr {
        let none = self.pair_of(0);
        self.pair_difference(none, x)
    }

    /// The absolute value, which of the least i64 has the same bits.
    pub(crate) fn pair_size(&mut self, x: Expr) -> Expr {
        let (is_negative, opposite) = (self.pair_is_negative(x), self.pair_opposite(x));
        self.body.select(is_negative, opposite, x)
    }

    /// A shift by an amount that counts modulo 64.
    pub(crate) fn pair_shift(&mut self, left: bool, signed: bool, x: Expr, amount: Expr) -> Expr {
        let function = match (left, signed) {
            (true, _) => PairFunction::ShiftLeft,
            (false, false) => PairFunction::ShiftRight,
            (false, true) => PairFunction::ShiftRightSigned,
        };
        // Half of all shifts are by 32: they take the words apart.
        if let Expression::Literal(Literal::U32(by)) = self.body.function.expressions[amount]
            && by % 64 == 32
        {
            let [low, high] = self.words(x);
            let none = self.body.u32(0);
            return match function {
                PairFunction::ShiftLeft => self.pair([none, low]),
                PairFunction::ShiftRightSigned => {
                    let word = self.body.bitcast(high, ScalarKind::Sint);
                    let words = self.extended(word);
                    self.pair(words)
                }
                _ => self.pair([high, none]),
            };
        }
        self.call_pair(function, vec![x, amount])
    }

    fn pair_quotient(&mut self, signed: bool, a: Expr, b: Expr) -> Expr {
        if !signed {
            return self.call_pair(PairFunction::Quotient, vec![a, b]);
        }
        let [is_below, other_below] = [a, b].map(|x| self.pair_is_negative(x));
        let [a, b] = [a, b].map(|x| self.pair_size(x));
        let quotient = self.call_pair(PairFunction::Quotient, vec![a, b]);
        let differ = self.body.binary(B::NotEqual, is_below, other_below);
        let opposite = self.pair_opposite(quotient);
        self.body.select(differ, opposite, quotient)
    }

    fn pair_remainder(&mut self, signed: bool, a: Expr, b: Expr) -> Expr {
        let quotient = self.pair_quotient(signed, a, b);
        let product = self.pair_product(quotient, b);
        self.pair_difference(a, product)
    }

    fn pair_bits(&mut self, function: BitFn, x: Expr) -> Expr {
        let [low, high] = self.words(x);
        let b = &mut self.body;
        let none = b.u32(0);
        match function {
            BitFn::Ones => {
                let [low, high] = [low, high].map(|word| b.math(M::CountOneBits, &[word]));
                let sum = b.binary(B::Add, low, high);
                self.pair([sum, none])
            }
            BitFn::LeadingZeros => {
                let count = self.pair_leading_zeros([low, high]);
                self.pair([count, none])
            }
            BitFn::Reverse => {
                let [low, high] = [low, high].map(|word| b.math(M::ReverseBits, &[word]));
                self.pair([high, low])
            }
        }
    }

    /// The number of leading zeros, as a word.
    pub(crate) fn pair_leading_zeros(&mut self, [low, high]: [Expr; 2]) -> Expr {
        let b = &mut self.body;
        let (none, width) = (b.u32(0), b.u32(32));
        let [of_low, of_high] = [low, high].map(|word| b.math(M::CountLeadingZeros, &[word]));
        let more = b.binary(B::Add, of_low, width);
        let is_zero = b.binary(B::Equal, high, none);
        b.select(is_zero, more, of_high)
    }

    /// A pair as the nearest f32, or with the last bit set where one is lost.
    pub(crate) fn pair_as_single(&mut self, x: Expr, from: Scalar, to_odd: bool) -> Expr {
        let function = if to_odd { PairFunction::SingleToOdd } else { PairFunction::Single };
        if from == Scalar::U64 {
            return self.call_pair(function, vec![x]);
        }
        let (is_negative, size) = (self.pair_is_negative(x), self.pair_size(x));
        let number = self.call_pair(function, vec![size]);
        let opposite = self.body.unary(U::Negate, number);
        self.body.select(is_negative, opposite, number)
    }

    /// An f32 as a pair: truncated, saturating, and 0 for NaN.
    pub(crate) fn single_as_pair(&mut self, x: Expr, to: Scalar) -> Expr {
        let size = self.call_pair(PairFunction::Truncated, vec![x]);
        let bits = self.body.bitcast(x, ScalarKind::Sint);
        let none = self.body.literal(Literal::I32(0));
        let is_negative = self.body.binary(B::Less, bits, none);
        if to == Scalar::U64 {
            let none = self.pair_of(0);
            return self.body.select(is_negative, none, size);
        }
        let [least, greatest] = [1 << 63, (1u64 << 63) - 1].map(|end| self.pair_of(end));
        let is_beyond = self.pair_is_negative(size);
        let number = self.body.select(is_beyond, greatest, size);
        let opposite = self.pair_opposite(size);
        let opposite = self.body.select(is_beyond, least, opposite);
        self.body.select(is_negative, opposite, number)
    }
}
