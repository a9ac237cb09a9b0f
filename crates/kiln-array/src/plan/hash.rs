//! A hash of words: plans are looked up at each evaluation, and arrays at each step of a walk, by
//! numbers that nobody outside chooses.

use std::hash::{BuildHasherDefault, Hasher};

/// Makes hashers for maps.
pub(crate) type OfWords = BuildHasherDefault<Words>;

/// Multiplies and rotates a word at a time.
#[derive(Default)]
pub(crate) struct Words(u64);

/// The fraction of the golden ratio in 64 bits, whose multiples are spread evenly (Knuth, "The Art
/// of Computer Programming", 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_ne_bytes(*word)));
        rest.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(GOLDEN);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        // The upper bits depend on all of the word, and tables take the lower ones.
        self.0 ^ (self.0 >> 32)
    }
}
