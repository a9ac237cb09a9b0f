//! Atomic operations: those that cells have, and loops of compare-and-exchange for the others.
//!
//! They hold for the whole device, whatever their scope: the host and other devices see memory
//! between launches alone.

use crate::body::Expr;
use crate::cells::Part;
use crate::memory::ElementAccess;
use crate::regions::{Cell, is_native};
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{AtomicOp, BinaryOp, OpData, Scalar as Elem};
use naga::{AtomicFunction, BinaryOperator as B, Expression, PredeclaredType, Scalar, Statement};

impl Writer<'_> {
    pub(crate) fn atomic(&mut self, op: &OpData, place: ElementAccess, function: AtomicOp) -> Result<()> {
        self.one_word(op, place)?;
        let operand = self.get(op.stored_value())?;
        let held = self.held(place.elem);
        let zeros = self.zeros(held, 1);
        let values = self.predicated(place.predicate, &zeros, |w| {
            let old = match is_native(function, place.region.cell, place.elem) {
                true => w.native(place, function, operand)?,
                false => w.update(op, place, |w, old| {
                    if let Some(half) = function.pair_of() {
                        return w.add_pair(half, old, operand);
                    }
                    let Some(combination) = combination(function) else { return Some(operand) };
                    w.combine(combination, place.elem, held, old, operand)
                })?,
            };
            Ok(vec![old])
        })?;
        values.into_iter().for_each(|value| self.set(op, value));
        Ok(())
    }

    /// An operation that the cell has.
    fn native(&mut self, place: ElementAccess, function: AtomicOp, operand: Expr) -> Result<Expr> {
        let fun = match function {
            AtomicOp::Add => AtomicFunction::Add,
            AtomicOp::Min => AtomicFunction::Min,
            AtomicOp::Max => AtomicFunction::Max,
            AtomicOp::And => AtomicFunction::And,
            AtomicOp::Or => AtomicFunction::InclusiveOr,
            AtomicOp::Xor => AtomicFunction::ExclusiveOr,
            AtomicOp::Exchange => AtomicFunction::Exchange { compare: None },
            AtomicOp::AddF16x2 | AtomicOp::AddBf16x2 => {
                return Err(self.internal("no cell adds two elements of a word".into()));
            }
        };
        let pointer = self.body.element(place.region.array, place.at);
        Ok(match place.region.cell {
            Cell::Atomic(scalar) => self.atomic_cell(pointer, fun, operand, scalar),
            Cell::Plain(_) | Cell::Words(_) | Cell::Vectors(..) | Cell::WordVectors(_) => {
                let word = self.pack(operand, place.elem);
                let old = self.atomic_word(pointer, fun, word);
                self.unpack(old, place.elem)
            }
        })
    }

    /// The sums of the two elements that words are made of.
    fn add_pair(&mut self, half: Elem, old: Expr, operand: Expr) -> Option<Expr> {
        let (held, by) = (self.held(half), self.body.u32(16));
        let mut sums = Vec::new();
        for words in [[old, operand], [old, operand].map(|word| self.body.binary(B::ShiftRight, word, by))] {
            let [a, b] = words.map(|word| self.unpack(word, half));
            let sum = self.combine(BinaryOp::Add, half, held, a, b)?;
            sums.push(self.pack(sum, half));
        }
        let high = self.body.binary(B::ShiftLeft, sums[1], by);
        Some(self.body.binary(B::InclusiveOr, sums[0], high))
    }

    /// Replaces an element in a word by what `next` makes of it, as often as others come between;
    /// gives the old element.
    fn update(
        &mut self,
        op: &OpData,
        place: ElementAccess,
        next: impl FnOnce(&mut Self, Expr) -> Option<Expr>,
    ) -> Result<Expr> {
        let part = self.part_of(place);
        let ty = self.scalar_type(Scalar::U32);
        let seen = self.body.variable("seen", ty, None);
        let first = self.body.load(part.word);
        self.body.store(seen, first);
        let ended = self.has_ended();
        let outer = self.body.begin();
        let expected = self.body.load(seen);
        let old = self.extract(expected, part, place.elem);
        let new = next(self, old)
            .ok_or_else(|| self.unsupported(op, format!("`{}` of {}", op.kind.mnemonic(), place.elem), ""))?;
        let desired = self.insert(expected, part, place.elem, new);
        let (found, exchanged) = self.exchange_if(part.word, expected, desired, Scalar::U32);
        self.end_loop_if(exchanged, ended);
        self.body.store(seen, found);
        let body = self.body.end(outer);
        self.body.push(Statement::Loop { body, continuing: naga::Block::new(), break_if: None });
        self.check_ended(op, ended)?;
        // The last word seen is the one that was replaced.
        let word = self.body.load(seen);
        Ok(self.extract(word, part, place.elem))
    }

    pub(crate) fn compare_exchange(&mut self, op: &OpData, place: ElementAccess) -> Result<()> {
        self.one_word(op, place)?;
        let (expected, desired) = (self.get(op.expected())?, self.get(op.desired())?);
        let zeros = self.zeros(self.held(place.elem), 1);
        let values = self.predicated(place.predicate, &zeros, |w| match place.region.cell {
            Cell::Atomic(scalar) => {
                let pointer = w.body.element(place.region.array, place.at);
                Ok(vec![w.exchange_strongly(op, pointer, [expected, desired], scalar)?])
            }
            // Elements are the same if their bits are.
            Cell::Plain(_) | Cell::Words(_) | Cell::Vectors(..) | Cell::WordVectors(_) => {
                let wanted = w.pack(expected, place.elem);
                let old = w.update(op, place, |w, old| {
                    let bits = w.pack(old, place.elem);
                    let same = w.body.binary(B::Equal, bits, wanted);
                    Some(w.body.select(same, desired, old))
                })?;
                Ok(vec![old])
            }
        })?;
        values.into_iter().for_each(|value| self.set(op, value));
        Ok(())
    }

    /// A compare-and-exchange that fails only where another value is there.
    fn exchange_strongly(
        &mut self,
        op: &OpData,
        pointer: Expr,
        [expected, desired]: [Expr; 2],
        cell: Scalar,
    ) -> Result<Expr> {
        let ended = self.has_ended();
        let ty = self.scalar_type(cell);
        let seen = self.body.variable("seen", ty, None);
        let outer = self.body.begin();
        let (found, exchanged) = self.exchange_if(pointer, expected, desired, cell);
        self.body.store(seen, found);
        let other = self.body.binary(B::NotEqual, found, expected);
        let done = self.body.binary(B::LogicalOr, exchanged, other);
        self.end_loop_if(done, ended);
        let body = self.body.end(outer);
        self.body.push(Statement::Loop { body, continuing: naga::Block::new(), break_if: None });
        self.check_ended(op, ended)?;
        Ok(self.body.load(seen))
    }

    /// One attempt: the cell as it was found, and whether it was exchanged.
    fn exchange_if(&mut self, pointer: Expr, expected: Expr, desired: Expr, cell: Scalar) -> (Expr, Expr) {
        let ty =
            self.module.generate_predeclared_type(PredeclaredType::AtomicCompareExchangeWeakResult(cell));
        let result = self.body.result(Expression::AtomicResult { ty, comparison: true });
        let fun = AtomicFunction::Exchange { compare: Some(expected) };
        self.body.push(Statement::Atomic { pointer, fun, value: desired, result: Some(result) });
        (self.body.member(result, 0), self.body.member(result, 1))
    }

    /// The word, or the part of one, that an element is.
    fn part_of(&mut self, place: ElementAccess) -> Part {
        match place.elem.bytes() {
            4 => {
                let word = self.body.element(place.region.array, place.at);
                Part { word, shift: self.body.u32(0) }
            }
            _ => self.part(place.region, place.at, place.elem),
        }
    }

    fn extract(&mut self, word: Expr, part: Part, elem: Elem) -> Expr {
        let bits = if elem.bytes() == 4 { word } else { self.body.binary(B::ShiftRight, word, part.shift) };
        self.unpack(bits, elem)
    }

    fn insert(&mut self, word: Expr, part: Part, elem: Elem, value: Expr) -> Expr {
        let bits = self.pack(value, elem);
        if elem.bytes() == 4 {
            return bits;
        }
        let kept = self.kept(part, u32::MAX >> (32 - 8 * elem.bytes()));
        let others = self.body.binary(B::And, word, kept);
        let bits = self.body.binary(B::ShiftLeft, bits, part.shift);
        self.body.binary(B::InclusiveOr, others, bits)
    }
}

/// The operation that an atomic one applies; `None` for an exchange.
fn combination(op: AtomicOp) -> Option<BinaryOp> {
    Some(match op {
        AtomicOp::Add => BinaryOp::Add,
        AtomicOp::Min => BinaryOp::Min,
        AtomicOp::Max => BinaryOp::Max,
        AtomicOp::And => BinaryOp::And,
        AtomicOp::Or => BinaryOp::Or,
        AtomicOp::Xor => BinaryOp::Xor,
        AtomicOp::Exchange | AtomicOp::AddF16x2 | AtomicOp::AddBf16x2 => return None,
    })
}
