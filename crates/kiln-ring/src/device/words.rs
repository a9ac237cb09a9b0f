//! The words of a message, a reply or a state, of which some stand in memory: those of its inline
//! arrays.

use crate::payload::ArrayMemory;
use crate::wire::quads::{filled_quads, plain_quads};
use kiln_lang::prelude::*;
use std::ops::Range;

/// Words. Of an array, the first says where it begins and the second one in what, as
/// `payload/memory.rs` has it.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    pub words: &'a [Val<u32>],
    /// The arrays' words, in order.
    pub inlines: &'a [Range<usize>],
    pub memory: &'a ArrayMemory,
}

impl<'a> Words<'a> {
    /// The words that belong to no array.
    pub fn plain(&self) -> impl Iterator<Item = usize> {
        (0..self.words.len()).filter(|w| !self.inlines.iter().any(|array| array.contains(w)))
    }

    /// Quads that do not belong to one array as a whole.
    pub fn plain_quads(&self) -> Vec<usize> {
        plain_quads(self.words.len(), self.inlines)
    }

    /// For each array, the quads that it fills.
    pub fn filled(&self) -> impl Iterator<Item = (&'a Range<usize>, Range<usize>)> {
        self.inlines.iter().map(|array| (array, filled_quads(array)))
    }

    /// A word by its number; 0 behind the last.
    pub fn word(&self, number: usize) -> Val<u32> {
        match self.inlines.iter().find(|array| array.contains(&number)) {
            Some(array) => self.of_array(array, val((number - array.start) as u32)),
            None => self.words.get(number).copied().unwrap_or_else(|| val(0)),
        }
    }

    /// An element of an array.
    pub fn of_array(&self, array: &Range<usize>, index: Val<u32>) -> Val<u32> {
        self.memory.word(self.words[array.start + 1], self.words[array.start] + index)
    }
}
