//! Loads and stores of elements of a region, whatever its cells are.

use crate::body::Expr;
use crate::regions::Region;
use crate::writer::Writer;
use kiln_ir::Scalar as Elem;
use naga::{AtomicFunction, BinaryOperator as B, Expression, Scalar, Statement, TypeInner, VectorSize};

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

    /// The scalar of a number in a region's array, as a pointer.
    fn scalar_at(&mut self, region: Region, number: Expr) -> Expr {
        let Some(size) = region.cell.vector() else { return self.body.element(region.array, number) };
        let vector = self.vector_at(region, size, number);
        let mask = self.body.u32(u32::from(size as u8) - 1);
        let component = self.body.binary(B::And, number, mask);
        self.body.element(vector, component)
    }

    /// The vector that has the scalar of a number, as a pointer.
    fn vector_at(&mut self, region: Region, size: VectorSize, number: Expr) -> Expr {
        let by = self.body.u32(u32::from(size as u8).ilog2());
        let index = self.body.binary(B::ShiftRight, number, by);
        self.body.element(region.array, index)
    }

    /// Adjacent scalars of a region's array. As many as a vector has, or several times as many, are
    /// whole vectors: accesses lie at multiples of their length.
    fn load_scalars(&mut self, region: Region, first: Expr, count: u32) -> Vec<Expr> {
        let mut scalars = Vec::new();
        match region.cell.vector() {
            Some(size) if count.is_multiple_of(u32::from(size as u8)) => {
                let lanes = u32::from(size as u8);
                for i in (0..count).step_by(lanes as usize) {
                    let number = self.after(first, i);
                    let pointer = self.vector_at(region, size, number);
                    let vector = self.body.load(pointer);
                    scalars.extend((0..lanes).map(|lane| self.body.member(vector, lane)));
                }
            }
            _ => {
                for i in 0..count {
                    let number = self.after(first, i);
                    let pointer = self.scalar_at(region, number);
                    scalars.push(self.body.load(pointer));
                }
            }
        }
        scalars
    }

    /// Stores adjacent scalars, as [`load_scalars`](Writer::load_scalars) loads them.
    fn store_scalars(&mut self, region: Region, first: Expr, scalars: &[Expr]) {
        match region.cell.vector() {
            Some(size) if scalars.len().is_multiple_of(usize::from(size as u8)) => {
                let ty = self.type_of(TypeInner::Vector { size, scalar: region.cell.element().0 });
                let lanes = usize::from(size as u8);
                for (i, components) in scalars.chunks(lanes).enumerate() {
                    let number = self.after(first, (i * lanes) as u32);
                    let pointer = self.vector_at(region, size, number);
                    let components = components.to_vec();
                    let vector = self.body.add(Expression::Compose { ty, components });
                    self.body.store(pointer, vector);
                }
            }
            _ => {
                for (i, &scalar) in scalars.iter().enumerate() {
                    let number = self.after(first, i as u32);
                    let pointer = self.scalar_at(region, number);
                    self.body.store(pointer, scalar);
                }
            }
        }
    }

    /// A load of adjacent elements, the first of which has the number `at` in the region's array.
    pub(crate) fn load_elements(&mut self, region: Region, at: Expr, elem: Elem, count: u32) -> Vec<Expr> {
        if !region.cell.is_words() {
            let scalars = self.load_scalars(region, at, count);
            // Bools of allocations are words.
            let is_word = elem == Elem::Bool;
            return scalars.into_iter().map(|x| if is_word { self.unpack(x, elem) } else { x }).collect();
        }
        if !(count * elem.bytes()).is_multiple_of(4) {
            return (0..count)
                .map(|i| {
                    let at = self.after(at, i);
                    self.load_part(region, at, elem)
                })
                .collect();
        }
        let words = self.load_words(region, at, elem, count);
        if elem.bytes() == 8 {
            return words.chunks_exact(2).map(|pair| self.unpack_pair([pair[0], pair[1]], elem)).collect();
        }
        self.unpacked(&words, elem)
    }

    /// The words of adjacent elements that fill them.
    pub(crate) fn load_words(&mut self, region: Region, at: Expr, elem: Elem, count: u32) -> Vec<Expr> {
        let first = self.first_word(at, elem);
        self.load_scalars(region, first, count * elem.bytes() / 4)
    }

    /// Elements of up to 32 bits from words.
    pub(crate) fn unpacked(&mut self, words: &[Expr], elem: Elem) -> Vec<Expr> {
        let mut values = Vec::new();
        for &word in words {
            for shift in (0..32).step_by(8 * elem.bytes() as usize) {
                let by = self.body.u32(shift);
                let bits = if shift == 0 { word } else { self.body.binary(B::ShiftRight, word, by) };
                let value = self.unpack(bits, elem);
                if elem.bytes() == 2 {
                    self.halves.insert(value, (word, shift == 0));
                }
                values.push(value);
            }
        }
        values
    }

    /// The word that two values were unpacked from, if they are its halves in order.
    fn word_of(&self, values: &[Expr]) -> Option<Expr> {
        let [low, high] = values else { return None };
        match (self.halves.get(low)?, self.halves.get(high)?) {
            (&(word, true), &(other, false)) if word == other => Some(word),
            _ => None,
        }
    }

    /// A load of an element of fewer than 32 bits from the word that it is in.
    fn load_part(&mut self, region: Region, at: Expr, elem: Elem) -> Expr {
        let part = self.part(region, at, elem);
        let word = self.body.load(part.word);
        let bits = self.body.binary(B::ShiftRight, word, part.shift);
        self.unpack(bits, elem)
    }

    /// The number of the word with which an element begins, in an access of whole words.
    fn first_word(&mut self, at: Expr, elem: Elem) -> Expr {
        let (factor, operator) = match elem.bytes() {
            8 => (1, B::ShiftLeft),
            bytes => ((4 / bytes).ilog2(), B::ShiftRight),
        };
        if factor == 0 {
            return at;
        }
        let by = self.body.u32(factor);
        self.body.binary(operator, at, by)
    }

    /// A store of adjacent elements, the first of which has the number `at`.
    pub(crate) fn store_elements(&mut self, region: Region, at: Expr, elem: Elem, values: &[Expr]) {
        if !region.cell.is_words() {
            let is_word = elem == Elem::Bool;
            let scalars = values.iter().map(|&x| if is_word { self.pack(x, elem) } else { x });
            let scalars: Vec<Expr> = scalars.collect();
            return self.store_scalars(region, at, &scalars);
        }
        if elem.bytes() == 8 {
            let words: Vec<Expr> = values.iter().flat_map(|&value| self.pack_pair(value, elem)).collect();
            let first = self.first_word(at, elem);
            return self.store_scalars(region, first, &words);
        }
        let per_word = (4 / elem.bytes()) as usize;
        let words: Vec<Expr> = values.chunks(per_word).map(|values| self.packed(elem, values)).collect();
        if values.len().is_multiple_of(per_word) {
            let first = self.first_word(at, elem);
            return self.store_scalars(region, first, &words);
        }
        // Elements that fill words replace them; fewer replace their bits alone.
        for (i, (&word, values)) in words.iter().zip(values.chunks(per_word)).enumerate() {
            let at = self.after(at, (i * per_word) as u32);
            let part = self.part(region, at, elem);
            if values.len() == per_word {
                self.body.store(part.word, word);
            } else {
                let mask = u32::MAX >> (32 - 8 * elem.bytes() * values.len() as u32);
                self.replace_bits(part, mask, word);
            }
        }
    }

    /// Elements of up to 32 bits as a word, the first one lowest.
    fn packed(&mut self, elem: Elem, values: &[Expr]) -> Expr {
        // Elements that are moved alone stay words.
        if let Some(word) = self.word_of(values) {
            return word;
        }
        let mut packed = None;
        for (i, &value) in values.iter().enumerate() {
            let word = self.pack(value, elem);
            let by = self.body.u32(8 * elem.bytes() * i as u32);
            let part = if i == 0 { word } else { self.body.binary(B::ShiftLeft, word, by) };
            packed = Some(match packed {
                None => part,
                Some(others) => self.body.binary(B::InclusiveOr, others, part),
            });
        }
        packed.unwrap_or_else(|| self.body.u32(0))
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
        let word = self.scalar_at(region, index);
        let b = &mut self.body;
        let number = b.binary(B::And, at, mask);
        let bits = b.u32(8 * elem.bytes());
        Part { word, shift: b.binary(B::Multiply, number, bits) }
    }
}
