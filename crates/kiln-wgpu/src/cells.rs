//! Loads and stores of elements of a region, whatever its cells are.

use crate::body::Expr;
use crate::regions::{Cell, Region};
use crate::writer::Writer;
use kiln_ir::Scalar as Elem;
use naga::{AtomicFunction, BinaryOperator as B, Expression, Scalar, Statement};

/// A part of a word of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// The word, as a pointer.
    pub(crate) word: Expr,
    /// By how many bits the part is shifted up, as a u32.
    pub(crate) shift: Expr,
}

impl Writer<'_> {
    /// The element `more` places after another.
    fn after(&mut self, at: Expr, more: u32) -> Expr {
        if more == 0 {
            return at;
        }
        let more = self.body.u32(more);
        self.body.binary(B::Add, at, more)
    }

    /// A load of one element, which has the number `at` in the region's array.
    pub(crate) fn load_element(&mut self, region: Region, at: Expr, elem: Elem) -> Expr {
        let word = |w: &mut Self, at| {
            let pointer = w.body.element(region.array, at);
            w.body.load(pointer)
        };
        match (region.cell, elem.bytes()) {
            // Bools of allocations are words.
            (Cell::Plain(_), _) if elem == Elem::Bool => {
                let word = word(self, at);
                self.unpack(word, elem)
            }
            (Cell::Plain(_) | Cell::Atomic(_), _) => word(self, at),
            (Cell::Words(_), 8) => {
                let first = self.doubled(at);
                let second = self.after(first, 1);
                let words = [word(self, first), word(self, second)];
                self.unpack_pair(words, elem)
            }
            (Cell::Words(_), 4) => {
                let word = word(self, at);
                self.unpack(word, elem)
            }
            (Cell::Words(_), _) => {
                let part = self.part(region, at, elem);
                let word = self.body.load(part.word);
                let bits = self.body.binary(B::ShiftRight, word, part.shift);
                self.unpack(bits, elem)
            }
        }
    }

    /// A store of adjacent elements, the first of which has the number `at`.
    pub(crate) fn store_elements(&mut self, region: Region, at: Expr, elem: Elem, values: &[Expr]) {
        if matches!(region.cell, Cell::Words(_)) && elem.bytes() < 4 {
            return self.store_packed(region, at, elem, values);
        }
        for (i, &value) in values.iter().enumerate() {
            let at = self.after(at, i as u32);
            match (region.cell, elem.bytes()) {
                (Cell::Words(_), 8) => {
                    let first = self.doubled(at);
                    for (j, word) in self.pack_pair(value, elem).into_iter().enumerate() {
                        let at = self.after(first, j as u32);
                        let pointer = self.body.element(region.array, at);
                        self.body.store(pointer, word);
                    }
                }
                (cell, _) => {
                    let pointer = self.body.element(region.array, at);
                    let words = matches!(cell, Cell::Words(_)) || elem == Elem::Bool;
                    let value = if words { self.pack(value, elem) } else { value };
                    self.body.store(pointer, value);
                }
            }
        }
    }

    /// Elements that fill words replace them; fewer replace their bits alone.
    fn store_packed(&mut self, region: Region, at: Expr, elem: Elem, values: &[Expr]) {
        let (bits, per_word) = (8 * elem.bytes(), 4 / elem.bytes());
        for (i, values) in values.chunks(per_word as usize).enumerate() {
            let at = self.after(at, i as u32 * per_word);
            let mut packed = None;
            for (j, &value) in values.iter().enumerate() {
                let word = self.pack(value, elem);
                let by = self.body.u32(bits * j as u32);
                let part = if j == 0 { word } else { self.body.binary(B::ShiftLeft, word, by) };
                packed = Some(match packed {
                    None => part,
                    Some(others) => self.body.binary(B::InclusiveOr, others, part),
                });
            }
            let Some(packed) = packed else { continue };
            let part = self.part(region, at, elem);
            if values.len() == per_word as usize {
                self.body.store(part.word, packed);
            } else {
                let mask = u32::MAX >> (32 - bits * values.len() as u32);
                self.replace_bits(part, mask, packed);
            }
        }
    }

    /// Other threads may store other bits of the word meanwhile, and these are not read.
    fn replace_bits(&mut self, part: Part, mask: u32, bits: Expr) {
        let kept = self.kept(part, mask);
        self.atomic_word(part.word, AtomicFunction::And, kept);
        let bits = self.body.binary(B::ShiftLeft, bits, part.shift);
        self.atomic_word(part.word, AtomicFunction::InclusiveOr, bits);
    }

    /// The bits of a word that are not those of a part, as a mask.
    pub(crate) fn kept(&mut self, part: Part, mask: u32) -> Expr {
        let mask = self.body.u32(mask);
        let mask = self.body.binary(B::ShiftLeft, mask, part.shift);
        self.body.unary(naga::UnaryOperator::BitwiseNot, mask)
    }

    /// An atomic operation on a word, which gives the old one.
    pub(crate) fn atomic_word(&mut self, pointer: Expr, fun: AtomicFunction, value: Expr) -> Expr {
        self.atomic_cell(pointer, fun, value, Scalar::U32)
    }

    pub(crate) fn atomic_cell(
        &mut self,
        pointer: Expr,
        fun: AtomicFunction,
        value: Expr,
        cell: Scalar,
    ) -> Expr {
        let ty = self.scalar_type(cell);
        let result = self.body.result(Expression::AtomicResult { ty, comparison: false });
        self.body.push(Statement::Atomic { pointer, fun, value, result: Some(result) });
        result
    }

    /// Where an element of 8 or 16 bits lies in an array of words.
    pub(crate) fn part(&mut self, region: Region, at: Expr, elem: Elem) -> Part {
        let per_word = 4 / elem.bytes();
        let b = &mut self.body;
        let (by, mask) = (b.u32(per_word.ilog2()), b.u32(per_word - 1));
        let index = b.binary(B::ShiftRight, at, by);
        let word = b.element(region.array, index);
        let number = b.binary(B::And, at, mask);
        let bits = b.u32(8 * elem.bytes());
        Part { word, shift: b.binary(B::Multiply, number, bits) }
    }

    fn doubled(&mut self, at: Expr) -> Expr {
        let two = self.body.u32(2);
        self.body.binary(B::Multiply, at, two)
    }
}
