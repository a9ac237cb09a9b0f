//! One operation under test, with the questions that rules ask.

use crate::kernel::{Kernel, OpData};
use crate::op::Class;
use crate::types::{Scalar, TileType, Type};

/// What a rule says of an operation that breaks it.
pub(super) type Outcome = Result<(), String>;

/// One operation under test, with the questions that rules ask.
pub(super) struct Subject<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) data: &'k OpData,
}

impl<'k> Subject<'k> {
    pub(super) fn axis(&self, axis: u32, rank: usize) -> Outcome {
        require((axis as usize) < rank, || format!("axis {axis} of a value of rank {rank}"))
    }

    pub(super) fn class(&self, class: Class, elem: Scalar) -> Outcome {
        let what = class.noun();
        require(!elem.is_storage(), || {
            format!("works on {what}, and {elem} is for storage: convert it first")
        })?;
        require(class.has(elem), || format!("works on {what}, not {elem}"))
    }

    /// As `class`, of operations that have no integers of 8 and 16 bits.
    pub(super) fn class_of_words(&self, class: Class, elem: Scalar) -> Outcome {
        self.class(class, elem)?;
        require(!elem.is_small_int(), || format!("has no {elem}: convert it to 32 bits first"))
    }

    pub(super) fn counts(&self, operands: usize, results: usize) -> Result<&Self, String> {
        let have = self.data.operands.len();
        require(have == operands, || format!("has {have} operands, expected {operands}"))?;
        self.results_len(results)?;
        Ok(self)
    }

    pub(super) fn results_len(&self, expected: usize) -> Outcome {
        let have = self.data.results.len();
        require(have == expected, || format!("has {have} results, expected {expected}"))
    }

    /// The type of an operand that is there.
    pub(super) fn ty(&self, at: usize) -> &'k Type {
        self.kernel.ty(self.data.operands[at])
    }

    pub(super) fn result_ty(&self, at: usize) -> &'k Type {
        self.kernel.ty(self.data.results[at])
    }

    pub(super) fn tile(&self, at: usize) -> Result<&'k TileType, String> {
        let value = *self.data.operands.get(at).ok_or_else(|| format!("has no operand {at}"))?;
        let ty = self.kernel.ty(value);
        ty.as_tile().ok_or_else(|| format!("operand {at} is a {ty}, expected a tile"))
    }

    pub(super) fn scalar(&self, at: usize) -> Result<Scalar, String> {
        let tile = self.tile(at)?;
        require(tile.shape.rank() == 0, || format!("operand {at} is {}, expected a scalar", self.ty(at)))?;
        Ok(tile.elem)
    }

    pub(super) fn operand(&self, at: usize, expected: &Type) -> Result<&Self, String> {
        let value = *self.data.operands.get(at).ok_or_else(|| format!("has no operand {at}"))?;
        let have = self.kernel.ty(value);
        require(have == expected, || format!("operand {at} is {have}, expected {expected}"))?;
        Ok(self)
    }

    pub(super) fn all_operands_like(&self, first: usize) -> Result<&Self, String> {
        for at in first + 1..self.data.operands.len() {
            self.operand(at, self.ty(first))?;
        }
        Ok(self)
    }

    pub(super) fn result_tile(&self, at: usize) -> Result<&'k TileType, String> {
        let ty = self.result_ty(at);
        ty.as_tile().ok_or_else(|| format!("the result is a {ty}, expected a tile"))
    }

    pub(super) fn result_elem(&self, expected: Scalar) -> Outcome {
        let have = self.result_tile(0)?.elem;
        require(have == expected, || format!("the result has elements {have}, expected {expected}"))
    }

    pub(super) fn result(&self, at: usize, expected: &Type) -> Outcome {
        let have = self.result_ty(at);
        require(have == expected, || format!("result {at} is {have}, expected {expected}"))
    }
}

pub(super) fn require(holds: bool, message: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(message()) }
}
