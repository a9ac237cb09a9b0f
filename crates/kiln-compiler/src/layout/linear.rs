//! Linear maps over GF(2): the algebra beneath layouts.
//!
//! A map takes a word of input bits to a word of output bits and is determined by its *bases*, the
//! images of the single input bits: the image of a word is the exclusive or of the bases of its set
//! bits. Composition, inversion and division by an identity are then elimination on a handful of
//! machine words.

use smallvec::SmallVec;
use std::fmt;

/// Images of input bits, lowest bit first.
pub type Bases = SmallVec<[u32; 8]>;

/// A linear map over GF(2) from words of [`inputs`](Self::inputs) bits to words of up to 32 bits.
///
/// ```
/// use kiln_compiler::layout::Linear;
/// let reverse = Linear::new(&[4, 2, 1]); // reverses three bits
/// assert_eq!(reverse.apply(0b001), 0b100);
/// assert_eq!(reverse.compose(&reverse), Linear::identity(3));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Linear {
    bases: Bases,
}

impl Linear {
    /// The map with these images of the single input bits, lowest bit first.
    pub fn new(bases: &[u32]) -> Linear {
        Linear { bases: Bases::from_slice(bases) }
    }

    /// The map that keeps words of so many bits as they are.
    pub fn identity(bits: u32) -> Linear {
        Linear { bases: (0..bits).map(|i| 1 << i).collect() }
    }

    /// The images of the single input bits.
    pub fn bases(&self) -> &[u32] {
        &self.bases
    }

    /// How many input bits there are.
    pub fn inputs(&self) -> usize {
        self.bases.len()
    }

    /// The image of a word. Bits above [`inputs`](Self::inputs) are ignored.
    pub fn apply(&self, word: u32) -> u32 {
        self.bases.iter().enumerate().filter(|(i, _)| word >> i & 1 == 1).fold(0, |sum, (_, b)| sum ^ b)
    }

    /// The map that applies `inner` first and then this one.
    pub fn compose(&self, inner: &Linear) -> Linear {
        Linear { bases: inner.bases.iter().map(|&b| self.apply(b)).collect() }
    }

    /// The dimension of the image.
    pub fn rank(&self) -> usize {
        Elimination::of(&self.bases).rows.len()
    }

    /// A map `g` with `self ∘ g = identity` on words of `outputs` bits, if every such word is an
    /// image. Where several inputs have one image, `g` uses the lowest input bits and leaves the
    /// others zero.
    pub fn right_inverse(&self, outputs: u32) -> Option<Linear> {
        let elimination = Elimination::of(&self.bases);
        (0..outputs).map(|i| elimination.solve(1 << i)).collect::<Option<_>>().map(|bases| Linear { bases })
    }
}

impl fmt::Display for Linear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.bases).finish()
    }
}

/// Reduced rows: `(image, inputs)` pairs with distinct leading bits, where `inputs` is the word
/// whose image it is.
struct Elimination {
    rows: SmallVec<[(u32, u32); 8]>,
}

impl Elimination {
    fn of(bases: &[u32]) -> Elimination {
        let mut elimination = Elimination { rows: SmallVec::new() };
        for (i, &base) in bases.iter().enumerate() {
            let (image, inputs) = elimination.reduce(base, 1 << i);
            if image != 0 {
                elimination.rows.push((image, inputs));
            }
        }
        elimination
    }

    fn reduce(&self, mut image: u32, mut inputs: u32) -> (u32, u32) {
        // Rows are in the order in which they were reduced, so each row's leading bit is absent
        // from all later rows.
        for &(row, row_inputs) in &self.rows {
            if image & leading(row) != 0 {
                image ^= row;
                inputs ^= row_inputs;
            }
        }
        (image, inputs)
    }

    fn solve(&self, image: u32) -> Option<u32> {
        let (rest, inputs) = self.reduce(image, 0);
        (rest == 0).then_some(inputs)
    }
}

fn leading(word: u32) -> u32 {
    1 << (31 - word.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every map of a small pseudo-random family, as a reference for the algebra by enumeration of
    /// all words.
    fn family() -> Vec<Linear> {
        let mut state = 7u32;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16 & 0x3f
        };
        (0..200).map(|i| Linear::new(&(0..1 + i % 7).map(|_| next()).collect::<Vec<_>>())).collect()
    }

    #[test]
    fn apply_is_additive() {
        for map in family() {
            let n = 1 << map.inputs();
            for a in 0..n {
                for b in 0..n {
                    assert_eq!(map.apply(a ^ b), map.apply(a) ^ map.apply(b));
                }
            }
        }
    }

    #[test]
    fn composition_is_function_composition() {
        for pair in family().windows(2) {
            let both = pair[0].compose(&pair[1]);
            for word in 0..1 << pair[1].inputs() {
                assert_eq!(both.apply(word), pair[0].apply(pair[1].apply(word)));
            }
        }
    }

    #[test]
    fn rank_counts_images() {
        for map in family() {
            let images: std::collections::BTreeSet<u32> =
                (0..1 << map.inputs()).map(|w| map.apply(w)).collect();
            assert_eq!(images.len(), 1 << map.rank(), "{map}");
        }
    }

    #[test]
    fn right_inverse_exists_exactly_for_surjective_maps() {
        let mut found = 0;
        for map in family() {
            match map.right_inverse(6) {
                Some(inverse) => {
                    found += 1;
                    assert_eq!(map.compose(&inverse), Linear::identity(6));
                }
                None => assert!(map.rank() < 6),
            }
        }
        assert!(found > 0);
    }

    #[test]
    fn right_inverse_prefers_low_inputs() {
        // Input bits 1 and 2 have one image: the inverse names bit 1.
        let map = Linear::new(&[2, 1, 1]);
        assert_eq!(map.right_inverse(2), Some(Linear::new(&[2, 1])));
    }

    #[test]
    fn prints_its_bases() {
        assert_eq!(Linear::new(&[1, 2, 16, 4, 8]).to_string(), "[1, 2, 16, 4, 8]");
    }
}
