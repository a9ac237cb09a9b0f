//! Where tiles lie in a worker's scratch memory. Places are given out while code is generated, in
//! the order of execution.

/// A piece of scratch memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    /// Bytes from the start of the scratch memory, a multiple of 64.
    pub(super) offset: usize,
    /// Its length in bytes, a multiple of 64.
    pub(super) bytes: usize,
}

/// The cache line: slots begin on one, and wide vector accesses never straddle two.
const LINE: usize = 64;

/// First-fit allocation with a high-water mark.
#[derive(Default)]
pub(super) struct Arena {
    /// Free pieces below `top`, sorted, never adjacent.
    free: Vec<Slot>,
    top: usize,
    high: usize,
}

impl Arena {
    /// A slot of at least `bytes`.
    pub(super) fn take(&mut self, bytes: usize) -> Slot {
        let bytes = bytes.max(1).next_multiple_of(LINE);
        if let Some(at) = self.free.iter().position(|s| s.bytes >= bytes) {
            let slot = Slot { offset: self.free[at].offset, bytes };
            self.free[at].offset += bytes;
            self.free[at].bytes -= bytes;
            if self.free[at].bytes == 0 {
                self.free.remove(at);
            }
            return slot;
        }
        let slot = Slot { offset: self.top, bytes };
        self.top += bytes;
        self.high = self.high.max(self.top);
        slot
    }

    /// Gives a slot back; every slot once.
    pub(super) fn give(&mut self, slot: Slot) {
        let at = self.free.partition_point(|s| s.offset < slot.offset);
        self.free.insert(at, slot);
        if self.free.get(at + 1).is_some_and(|next| slot.offset + slot.bytes == next.offset) {
            self.free[at].bytes += self.free.remove(at + 1).bytes;
        }
        if at > 0 && self.free[at - 1].offset + self.free[at - 1].bytes == slot.offset {
            self.free[at - 1].bytes += self.free.remove(at).bytes;
        }
        if let Some(last) = self.free.last().copied().filter(|s| s.offset + s.bytes == self.top) {
            self.top = last.offset;
            self.free.pop();
        }
    }

    /// The bytes of scratch memory that all slots together need.
    pub(super) fn bytes(&self) -> usize {
        self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_neighbors_merge_and_are_found_first() {
        let mut arena = Arena::default();
        let slots: Vec<Slot> = [1, 64, 65, 10].iter().map(|&b| arena.take(b)).collect();
        assert_eq!(slots.iter().map(|s| s.offset).collect::<Vec<_>>(), [0, 64, 128, 256]);
        arena.give(slots[0]);
        arena.give(slots[2]);
        arena.give(slots[1]);
        assert_eq!(arena.take(256), Slot { offset: 0, bytes: 256 });
        assert_eq!(arena.bytes(), 320);
    }

    #[test]
    fn the_top_shrinks_when_the_last_slot_goes() {
        let mut arena = Arena::default();
        let a = arena.take(64);
        let b = arena.take(64);
        arena.give(a);
        arena.give(b);
        assert_eq!(arena.take(1000).offset, 0);
        assert_eq!(arena.bytes(), 1024);
    }
}
