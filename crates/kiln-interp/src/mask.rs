//! Which threads of a block execute an operation.

/// A set of the threads of a block, by linear index (x fastest).
#[derive(Debug, Clone, PartialEq)]
pub struct Mask {
    bits: Vec<bool>,
    count: usize,
}

impl Mask {
    /// Every thread of a block.
    pub fn full(lanes: usize) -> Mask {
        Mask { bits: vec![true; lanes], count: lanes }
    }

    /// The threads of this set for which `keep` holds.
    pub fn filter(&self, keep: impl Fn(usize) -> bool) -> Mask {
        let bits: Vec<bool> = self.bits.iter().enumerate().map(|(i, &on)| on && keep(i)).collect();
        let count = bits.iter().filter(|&&on| on).count();
        Mask { bits, count }
    }

    /// Whether every thread of the block is in the set.
    pub fn is_full(&self) -> bool {
        self.count == self.bits.len()
    }

    /// Whether no thread is.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of threads in the set.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of threads of the block.
    pub fn width(&self) -> usize {
        self.bits.len()
    }

    /// Whether a thread is in the set.
    pub fn has(&self, lane: usize) -> bool {
        self.bits[lane]
    }

    /// The threads in the set, in increasing order.
    pub fn lanes(&self) -> impl Iterator<Item = usize> + '_ {
        self.bits.iter().enumerate().filter_map(|(i, &on)| on.then_some(i))
    }

    /// The first thread in the set.
    pub fn first(&self) -> Option<usize> {
        self.bits.iter().position(|&on| on)
    }
}
