//! Pieces of a region of words: which are free.

use crate::error::{Result, RingError};
pub(crate) use crate::payload::Piece;

/// Pieces begin at multiples of this many words: 256 bytes.
const ALIGN: usize = 64;

/// A region of words of which pieces are taken and given back: first fit, neighbors merged.
#[derive(Debug)]
pub(crate) struct Pieces {
    name: &'static str,
    words: usize,
    /// Free pieces, by their first word: not empty, and no two adjacent.
    free: Vec<Piece>,
}

impl Pieces {
    /// A region of `words` words, of which the first `used` are not to be given away.
    pub fn new(name: &'static str, words: usize, used: usize) -> Pieces {
        let at = used.next_multiple_of(ALIGN);
        let free = if at < words { vec![Piece { at, words: words - at }] } else { Vec::new() };
        Pieces { name, words, free }
    }

    /// Takes a piece of at least `words` words.
    pub fn take(&mut self, words: usize) -> Result<Piece> {
        // As many words as no region has fit into none.
        let words = words.max(1).checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX);
        let Some(place) = self.free.iter().position(|piece| piece.words >= words) else {
            return Err(RingError::OutOfRegion {
                region: self.name,
                needed: words.saturating_mul(4),
                size: self.words * 4,
            });
        };
        let piece = Piece { at: self.free[place].at, words };
        self.free[place] = Piece { at: piece.end(), words: self.free[place].words - words };
        if self.free[place].words == 0 {
            self.free.remove(place);
        }
        Ok(piece)
    }

    /// Gives a piece back.
    pub fn give(&mut self, piece: Piece) {
        let place = self.free.partition_point(|free| free.at < piece.at);
        self.free.insert(place, piece);
        for left in [place, place.saturating_sub(1)] {
            if let [a, b, ..] = self.free[left..]
                && a.end() == b.at
            {
                self.free[left].words += b.words;
                self.free.remove(left + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is taken and given back in whatever order, pieces never overlap, and in the end the
    /// region is whole.
    #[test]
    fn pieces_never_overlap_and_merge_again() {
        let mut seed = 7u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        let mut pieces = Pieces::new("region", 64 * 100, 10);
        let mut taken: Vec<Piece> = Vec::new();
        for _ in 0..5000 {
            if random(2) == 0 {
                if let Ok(piece) = pieces.take(1 + random(300)) {
                    assert!(piece.at >= 64 && piece.end() <= 6400 && piece.at % 64 == 0);
                    assert!(taken.iter().all(|t| t.end() <= piece.at || piece.end() <= t.at));
                    taken.push(piece);
                }
            } else if !taken.is_empty() {
                pieces.give(taken.swap_remove(random(taken.len())));
            }
        }
        taken.drain(..).for_each(|piece| pieces.give(piece));
        assert_eq!(pieces.free, [Piece { at: 64, words: 6336 }]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_numbers() {
        let mut pieces = Pieces::new("inbox", 128, 0);
        pieces.take(100).unwrap();
        let error = pieces.take(1).unwrap_err().to_string();
        assert!(error.contains("inbox has no 256 bytes") && error.contains("512 in all"), "{error}");
        assert!(Pieces::new("inbox", 0, 0).take(1).is_err());
        for words in [usize::MAX, usize::MAX / 4 + 1, usize::MAX - 63] {
            assert!(pieces.take(words).is_err());
        }
    }
}
