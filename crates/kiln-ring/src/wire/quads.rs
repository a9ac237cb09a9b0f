//! Which quads of a slot hold arrays alone. Those remain in memory; the others go through
//! registers.

use super::slot::{PAYLOAD, quads_for};
use std::ops::Range;

/// Of as many words with such arrays: the quads that do not belong to one array as a whole.
pub(crate) fn plain_quads(words: usize, inlines: &[Range<usize>]) -> Vec<usize> {
    let filled = |q: &usize| inlines.iter().any(|array| filled_quads(array).contains(q));
    (0..quads_for(words)).filter(|q| !filled(q)).collect()
}

/// The quads of which all words belong to an array.
pub fn filled_quads(array: &Range<usize>) -> Range<usize> {
    let first = array.start.div_ceil(PAYLOAD);
    first..(array.end / PAYLOAD).max(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quads_of_arrays_are_whole() {
        let of_one = |words, array: Range<usize>| plain_quads(words, std::slice::from_ref(&array));
        assert_eq!(plain_quads(9, &[]), [0, 1, 2]);
        assert_eq!(of_one(9, 0..9), [0usize; 0]);
        assert_eq!(of_one(10, 1..10), [0, 3]);
        assert_eq!(of_one(13, 1..13), [0, 4]);
        assert_eq!(plain_quads(8, &[0..4, 4..8]), [1, 2]);
        assert_eq!(of_one(12, 1..3), [0, 1, 2, 3]);
    }
}
