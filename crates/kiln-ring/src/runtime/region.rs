//! The free list of a region of words.

use crate::error::{Result, RingError};
pub(crate) use crate::payload::WordRange;

/// The alignment of ranges, in words: 256 bytes.
const ALIGN: usize = 64;

/// Allocates ranges of a region of words: first fit; adjacent free ranges are merged.
#[derive(Debug)]
pub(crate) struct FreeList {
    name: &'static str,
    words: usize,
    /// Free ranges, ordered by their first word: not empty, and no two adjacent.
    free: Vec<WordRange>,
}

impl FreeList {
    /// A region of `words` words, of which the first `used` are never allocated.
    pub fn new(name: &'static str, words: usize, used: usize) -> FreeList {
        let at = used.next_multiple_of(ALIGN);
        let free = if at < words { vec![WordRange { at, words: words - at }] } else { Vec::new() };
        FreeList { name, words, free }
    }

    /// Allocates a range of at least `words` words.
    pub fn allocate(&mut self, words: usize) -> Result<WordRange> {
        // A size that overflows fits no region.
        let words = words.max(1).checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX);
        let Some(place) = self.free.iter().position(|range| range.words >= words) else {
            return Err(RingError::OutOfRegion {
                region: self.name,
                needed: words.saturating_mul(4),
                size: self.words * 4,
            });
        };
        let range = WordRange { at: self.free[place].at, words };
        self.free[place] = WordRange { at: range.end(), words: self.free[place].words - words };
        if self.free[place].words == 0 {
            self.free.remove(place);
        }
        Ok(range)
    }

    /// Releases a range.
    pub fn release(&mut self, range: WordRange) {
        let place = self.free.partition_point(|free| free.at < range.at);
        self.free.insert(place, range);
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

    /// Whatever is allocated and released in whatever order, ranges never overlap, and in the end
    /// the region is one free range.
    #[test]
    fn ranges_never_overlap_and_merge_again() {
        let mut seed = 7u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        let mut list = FreeList::new("region", 64 * 100, 10);
        let mut allocated: Vec<WordRange> = Vec::new();
        for _ in 0..5000 {
            if random(2) == 0 {
                if let Ok(range) = list.allocate(1 + random(300)) {
                    assert!(range.at >= 64 && range.end() <= 6400 && range.at % 64 == 0);
                    assert!(allocated.iter().all(|t| t.end() <= range.at || range.end() <= t.at));
                    allocated.push(range);
                }
            } else if !allocated.is_empty() {
                list.release(allocated.swap_remove(random(allocated.len())));
            }
        }
        allocated.drain(..).for_each(|range| list.release(range));
        assert_eq!(list.free, [WordRange { at: 64, words: 6336 }]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_numbers() {
        let mut list = FreeList::new("inbox", 128, 0);
        list.allocate(100).unwrap();
        let error = list.allocate(1).unwrap_err().to_string();
        assert!(
            error.contains("inbox has no 256 contiguous bytes") && error.contains("512 in all"),
            "{error}"
        );
        assert!(error.ends_with("or raise `RuntimeConfig::inbox_bytes`"), "{error}");
        assert!(FreeList::new("inbox", 0, 0).allocate(1).is_err());
        for words in [usize::MAX, usize::MAX / 4 + 1, usize::MAX - 63] {
            assert!(list.allocate(words).is_err());
        }
    }
}
