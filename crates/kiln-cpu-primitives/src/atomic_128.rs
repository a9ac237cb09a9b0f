//! Atomics of 128 bits: two adjacent elements of 8 bytes, of several lanes one after the other.
//!
//! They are instructions of the processor and no locks: `cmpxchg16b` of x86-64, which all but the
//! first such processors have, and `ldaxp` with `stlxp` of AArch64. So they are atomic with respect
//! to all accesses of the two elements, those of other devices and of the host among them.

/// The pairs of elements of some lanes.
#[repr(C)]
pub struct Pairs {
    /// The view's memory.
    pub memory: *mut u64,
    /// How many elements it has; 0 where they are not adjacent.
    pub extent: i64,
    /// The first element of each lane's pair.
    pub index: *const i64,
    /// Which lanes take part.
    pub mask: *const u8,
    /// The pair that each lane expects, of all lanes the first element, then the second; no
    /// pointers if it stores in any case.
    pub expected: [*const u64; 2],
    /// The pair that each lane stores.
    pub desired: [*const u64; 2],
    /// The old pair of each lane; zeros without one.
    pub old: [*mut u64; 2],
    /// Whether each lane has a pair: inside the view, and aligned.
    pub found: *mut u8,
}

/// Two elements that change as one.
#[repr(C, align(16))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pair([u64; 2]);

impl Pairs {
    /// Where lane `i` has its pair, if it takes part and the pair is inside and aligned.
    ///
    /// # Safety
    /// The index and the mask are readable at `i`.
    unsafe fn place(&self, i: usize) -> Option<*mut Pair> {
        // SAFETY: the caller's promise.
        let (index, wanted) = unsafe { (*self.index.add(i), *self.mask.add(i) != 0) };
        let inside = index >= 0 && index <= self.extent - 2;
        let place = self.memory.wrapping_offset(index as isize).cast::<Pair>();
        (wanted && inside && place.is_aligned()).then_some(place)
    }
}

/// Exchanges each lane's pair, or compares and exchanges it.
///
/// # Safety
/// `pairs` is readable; its index, mask and pairs are valid for `n` lanes, and its memory at every
/// pair that is inside, aligned and selected. The processor has the instruction ([`is_there`]).
pub unsafe extern "C" fn exchange_pairs(pairs: *const Pairs, n: usize) {
    // SAFETY: the caller's promise.
    let pairs = unsafe { &*pairs };
    for i in 0..n {
        // SAFETY: the lane is one of `n`, for which the caller vouches; its pair is inside, aligned
        // and selected.
        unsafe {
            let read = |of: [*const u64; 2]| Pair(of.map(|word| *word.add(i)));
            let place = pairs.place(i);
            let old = match place {
                None => Pair([0; 2]),
                Some(place) if pairs.expected[0].is_null() => exchange(place, read(pairs.desired)),
                Some(place) => native::compare_exchange(place, read(pairs.expected), read(pairs.desired)),
            };
            for (word, value) in pairs.old.iter().zip(old.0) {
                *word.add(i) = value;
            }
            *pairs.found.add(i) = place.is_some().into();
        }
    }
}

/// Stores a pair, and gives the old one.
///
/// # Safety
/// The place is valid, and the processor has the instruction.
unsafe fn exchange(place: *mut Pair, desired: Pair) -> Pair {
    // What is expected first is a guess: most pairs that are exchanged hold something.
    let mut expected = Pair([0; 2]);
    loop {
        // SAFETY: the caller's promise.
        let old = unsafe { native::compare_exchange(place, expected, desired) };
        if old == expected {
            return old;
        }
        expected = old;
    }
}

/// Whether the processor has such instructions.
pub fn is_there() -> bool {
    native::is_there()
}

#[cfg(target_arch = "x86_64")]
mod native {
    use super::Pair;
    use std::arch::asm;

    pub(super) fn is_there() -> bool {
        is_x86_feature_detected!("cmpxchg16b")
    }

    /// # Safety
    /// The place is valid, and the instruction is there.
    pub(super) unsafe fn compare_exchange(place: *mut Pair, expected: Pair, desired: Pair) -> Pair {
        let (first, second): (u64, u64);
        // SAFETY: the caller's promise; a pair is aligned to 16 bytes. The instruction takes the
        // lower half of what is stored in `rbx`, which the compiler keeps for itself: it is put
        // back.
        unsafe {
            asm!(
                "xchg {kept}, rbx",
                "lock cmpxchg16b [{place}]",
                "mov rbx, {kept}",
                kept = inout(reg) desired.0[0] => _,
                place = in(reg) place,
                in("rcx") desired.0[1],
                inout("rax") expected.0[0] => first,
                inout("rdx") expected.0[1] => second,
                options(nostack),
            );
        }
        Pair([first, second])
    }
}

#[cfg(target_arch = "aarch64")]
mod native {
    use super::Pair;
    use std::arch::asm;

    pub(super) fn is_there() -> bool {
        true
    }

    /// # Safety
    /// The place is valid.
    pub(super) unsafe fn compare_exchange(place: *mut Pair, expected: Pair, desired: Pair) -> Pair {
        let (first, second): (u64, u64);
        // SAFETY: the caller's promise; a pair is aligned to 16 bytes. What was loaded is one pair
        // only if a store to it succeeds, so another pair than the expected one is stored again.
        unsafe {
            asm!(
                "2:",
                "ldaxp {first}, {second}, [{place}]",
                "cmp {first}, {expected_first}",
                "ccmp {second}, {expected_second}, #0, eq",
                "csel {new_first}, {desired_first}, {first}, eq",
                "csel {new_second}, {desired_second}, {second}, eq",
                "stlxp {failed:w}, {new_first}, {new_second}, [{place}]",
                "cbnz {failed:w}, 2b",
                place = in(reg) place,
                expected_first = in(reg) expected.0[0],
                expected_second = in(reg) expected.0[1],
                desired_first = in(reg) desired.0[0],
                desired_second = in(reg) desired.0[1],
                first = out(reg) first,
                second = out(reg) second,
                new_first = out(reg) _,
                new_second = out(reg) _,
                failed = out(reg) _,
                options(nostack),
            );
        }
        Pair([first, second])
    }
}

/// Other processors, for which no such operation is ever compiled.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod native {
    use super::Pair;

    pub(super) fn is_there() -> bool {
        false
    }

    /// # Safety
    /// The place is valid, and nobody else accesses it.
    pub(super) unsafe fn compare_exchange(place: *mut Pair, expected: Pair, desired: Pair) -> Pair {
        // SAFETY: the caller's promise.
        unsafe {
            let old = *place;
            if old == expected {
                *place = desired;
            }
            old
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four lanes: two with a pair, one beyond the end, one at an odd element.
    #[test]
    fn lanes_with_and_without_a_pair() {
        let mut memory = [Pair([1, 2]), Pair([3, 4]), Pair([5, 6])];
        let (index, mask) = ([4i64, 0, 6, 1, 2], [1u8, 1, 1, 1, 0]);
        let desired = [[50u64, 10, 7, 7, 7], [60u64, 20, 7, 7, 7]];
        let (mut old, mut found) = ([[9u64; 5]; 2], [9u8; 5]);
        let pairs = Pairs {
            memory: memory.as_mut_ptr().cast(),
            extent: 6,
            index: index.as_ptr(),
            mask: mask.as_ptr(),
            expected: [std::ptr::null(); 2],
            desired: desired.each_ref().map(|words| words.as_ptr()),
            old: old.each_mut().map(|words| words.as_mut_ptr()),
            found: found.as_mut_ptr(),
        };
        // SAFETY: five lanes, of which those with a pair are inside.
        unsafe { exchange_pairs(&pairs, 5) };
        let expected = [[0u64, 10, 0, 0, 0], [0u64, 21, 0, 0, 0]];
        let expected = expected.each_ref().map(|words| words.as_ptr());
        let kept = (old, found);
        // SAFETY: as above. The first lane expects what is not there, the second half of it.
        unsafe { exchange_pairs(&Pairs { expected, ..pairs }, 5) };
        assert_eq!(kept, ([[5, 1, 0, 0, 0], [6, 2, 0, 0, 0]], [1, 1, 0, 0, 0]));
        assert_eq!(old, [[50, 10, 0, 0, 0], [60, 20, 0, 0, 0]]);
        assert_eq!(memory, [Pair([10, 20]), Pair([3, 4]), Pair([50, 60])]);
    }

    /// Threads add to both elements by comparing and exchanging: nothing is lost, and the two never
    /// part.
    #[test]
    fn pairs_change_as_one() {
        struct Shared(*mut Pair);
        // SAFETY: only the function under test touches the place.
        unsafe impl Sync for Shared {}
        let mut pair = Box::new(Pair([0, u64::MAX]));
        let shared = Shared(&mut *pair);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let place = &shared;
                    let mut seen = Pair([0, u64::MAX]);
                    let mut rounds = 0;
                    while rounds < 20_000 {
                        assert_eq!(seen.0[0], !seen.0[1], "the two elements part");
                        let next = Pair([seen.0[0] + 1, !(seen.0[0] + 1)]);
                        // SAFETY: the place is valid, and the instruction there on test machines.
                        let old = unsafe { native::compare_exchange(place.0, seen, next) };
                        rounds += u32::from(old == seen);
                        seen = if old == seen { next } else { old };
                    }
                });
            }
        });
        assert_eq!(*pair, Pair([80_000, !80_000]));
    }
}
