//! Where the tensors that a run makes for itself lie in one allocation: those that are not used at
//! the same time may lie in the same place.

use super::command::Command;

/// The bytes of which every allocation's address is a multiple, as kernels may rely on.
const ALIGNMENT: usize = 256;

/// A slot with its place.
pub(super) struct Placed {
    pub(super) slot: usize,
    pub(super) bytes: usize,
    pub(super) offset: usize,
    /// The first and the last command that uses it.
    first: usize,
    last: usize,
}

pub(super) struct Packed {
    pub(super) all: Vec<Placed>,
    /// Of the allocation.
    pub(super) bytes: usize,
}

/// Places slots of so many bytes, the largest first, each as far in front as it can be.
pub(super) fn pack(slots: Vec<(usize, usize)>, commands: &[Command]) -> Packed {
    let mut all: Vec<Placed> = Vec::with_capacity(slots.len());
    let mut uses: Vec<Option<(usize, usize)>> = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        for &slot in &command.slots {
            if uses.len() <= slot {
                uses.resize(slot + 1, None);
            }
            uses[slot] = Some((uses[slot].map_or(at, |(first, _)| first), at));
        }
    }
    for (slot, bytes) in slots {
        let (first, last) = uses.get(slot).copied().flatten().unwrap_or((0, 0));
        all.push(Placed { slot, bytes, offset: 0, first, last });
    }
    all.sort_unstable_by_key(|own| (std::cmp::Reverse(own.bytes), own.first, own.slot));
    let mut bytes = 0;
    for at in 0..all.len() {
        let (placed, rest) = all.split_at_mut(at);
        let own = &mut rest[0];
        let mut beside: Vec<&Placed> = placed.iter().filter(|other| other.lives_with(own)).collect();
        beside.sort_by_key(|other| other.offset);
        for other in beside {
            if own.offset + own.bytes <= other.offset {
                break;
            }
            own.offset = own.offset.max((other.offset + other.bytes).next_multiple_of(ALIGNMENT));
        }
        bytes = bytes.max(own.offset + own.bytes);
    }
    Packed { all, bytes }
}

impl Placed {
    fn lives_with(&self, other: &Placed) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::Work;
    use super::*;
    use kiln_backend::DevicePtr;

    impl Placed {
        fn overlaps(&self, other: &Placed) -> bool {
            let (start, end) =
                (self.offset.max(other.offset), (self.offset + self.bytes).min(other.offset + other.bytes));
            start < end
        }
    }

    /// Fills of slots, in order.
    fn fills(slots: &[usize]) -> Vec<Command> {
        let fill = |&slot: &usize| Command {
            work: Work::Fill { to: DevicePtr(0), offset: 0, byte: 0, bytes: 1 },
            slots: [slot].into_iter().collect(),
            numbers: Default::default(),
        };
        slots.iter().map(fill).collect()
    }

    #[test]
    fn what_is_used_one_after_the_other_lies_in_one_place() {
        let packed = pack(vec![(0, 1000), (1, 1000), (2, 1000)], &fills(&[0, 1, 0, 2, 1]));
        // 0 and 2 are never there together; 1 is there beside both.
        assert_eq!(packed.bytes, 1024 + 1000);
        let at = |slot: usize| packed.all.iter().find(|own| own.slot == slot).map(|own| own.offset);
        assert!(at(0) == at(2) && at(0) != at(1));
    }

    #[test]
    fn random_slots_never_lie_in_the_place_of_one_that_is_in_use() {
        let mut state = 7u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut saved = 0;
        for _ in 0..50 {
            let count = 1 + random(30);
            let slots: Vec<(usize, usize)> = (0..count).map(|slot| (slot, random(3000))).collect();
            let mut uses: Vec<usize> = (0..count).collect();
            (0..random(40)).for_each(|_| uses.insert(random(uses.len()), random(count)));
            let packed = pack(slots.clone(), &fills(&uses));
            assert_eq!(packed.all.len(), count);
            for (at, a) in packed.all.iter().enumerate() {
                assert!(a.offset.is_multiple_of(ALIGNMENT) && a.offset + a.bytes <= packed.bytes);
                for b in &packed.all[at + 1..] {
                    assert!(!(a.overlaps(b) && a.lives_with(b)), "{uses:?}");
                }
            }
            let sum: usize = slots.iter().map(|(_, bytes)| bytes.next_multiple_of(ALIGNMENT)).sum();
            assert!(packed.bytes <= sum);
            saved += usize::from(2 * packed.bytes < sum);
        }
        assert!(saved > 5, "{saved}");
    }
}
