//! What the lanes of warps exchange: functions that generated code calls on lanes in memory.

use kiln_ir::{ShuffleMode, VoteMode, WARP};

const LANES: usize = WARP as usize;

/// The lane of its warp that a lane reads in a shuffle by an operand that all lanes share. Lanes
/// with none to read keep their own value.
pub fn source(mode: ShuffleMode, lane: usize, by: i64) -> usize {
    let by = (by & (LANES as i64 - 1)) as usize;
    match mode {
        ShuffleMode::Index => by,
        ShuffleMode::Up => lane.checked_sub(by).unwrap_or(lane),
        ShuffleMode::Down if lane + by < LANES => lane + by,
        ShuffleMode::Down => lane,
        ShuffleMode::Xor => lane ^ by,
    }
}

/// Writes what each of `lanes` lanes gets in a shuffle of elements of `BYTES` bytes.
pub type ShuffleFn = unsafe extern "C" fn(to: *mut u8, from: *const u8, mode: u64, by: i64, lanes: usize);

/// The function of shuffles of elements of so many bytes.
pub fn shuffle(bytes: u32) -> ShuffleFn {
    match bytes {
        1 => shuffled::<1>,
        2 => shuffled::<2>,
        4 => shuffled::<4>,
        _ => shuffled::<8>,
    }
}

/// The number of a mode, for [`shuffle`].
pub fn shuffle_number(mode: ShuffleMode) -> i64 {
    match mode {
        ShuffleMode::Index => 0,
        ShuffleMode::Up => 1,
        ShuffleMode::Down => 2,
        ShuffleMode::Xor => 3,
    }
}

/// # Safety
/// `from` is readable and `to` writable for `lanes` elements, and they do not overlap.
unsafe extern "C" fn shuffled<const BYTES: usize>(
    to: *mut u8,
    from: *const u8,
    mode: u64,
    by: i64,
    lanes: usize,
) {
    let mode = [ShuffleMode::Index, ShuffleMode::Up, ShuffleMode::Down, ShuffleMode::Xor][mode as usize & 3];
    let sources: [usize; LANES] = std::array::from_fn(|lane| source(mode, lane, by));
    let (to, from) = (to.cast::<[u8; BYTES]>(), from.cast::<[u8; BYTES]>());
    for first in (0..lanes).step_by(LANES) {
        let here = LANES.min(lanes - first);
        for (lane, &there) in sources[..here].iter().enumerate() {
            let there = if there < here { there } else { lane };
            // SAFETY: both are lanes of a warp that the block has.
            unsafe { to.add(first + lane).write(from.add(first + there).read()) };
        }
    }
}

/// Writes the outcome of a vote to each of `lanes` lanes.
pub type VoteFn = unsafe extern "C" fn(to: *mut u8, predicate: *const u8, lanes: usize);

/// The function of votes: of ballots it writes numbers of 32 bits, else bools.
pub fn vote(mode: VoteMode) -> VoteFn {
    match mode {
        VoteMode::All => all,
        VoteMode::Any => any,
        VoteMode::Ballot => ballot,
    }
}

/// # Safety
/// `predicate` is readable and `to` writable for `lanes` elements.
unsafe extern "C" fn all(to: *mut u8, predicate: *const u8, lanes: usize) {
    // SAFETY: the caller's promise.
    unsafe { voted(to, predicate, lanes, |bits, here| (bits == u32::MAX >> (LANES - here)) as u8) };
}

/// # Safety
/// As for [`all`].
unsafe extern "C" fn any(to: *mut u8, predicate: *const u8, lanes: usize) {
    // SAFETY: the caller's promise.
    unsafe { voted(to, predicate, lanes, |bits, _| (bits != 0) as u8) };
}

/// # Safety
/// As for [`all`].
unsafe extern "C" fn ballot(to: *mut u8, predicate: *const u8, lanes: usize) {
    // SAFETY: the caller's promise.
    unsafe { voted(to.cast::<u32>(), predicate, lanes, |bits, _| bits) };
}

/// Gives each lane what `outcome` makes of the bits of its warp and the number of its lanes.
///
/// # Safety
/// As for [`all`].
#[inline(always)]
unsafe fn voted<T: Copy>(to: *mut T, predicate: *const u8, lanes: usize, outcome: impl Fn(u32, usize) -> T) {
    for first in (0..lanes).step_by(LANES) {
        let here = LANES.min(lanes - first);
        let mut bits = 0u32;
        for lane in 0..here {
            // SAFETY: a lane that the block has.
            bits |= u32::from(unsafe { predicate.add(first + lane).read() } != 0) << lane;
        }
        let outcome = outcome(bits, here);
        for lane in 0..here {
            // SAFETY: as above.
            unsafe { to.add(first + lane).write(outcome) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_a_last_warp_that_is_not_full_keep_their_own_value() {
        let from: Vec<u32> = (0..41).collect();
        for (mode, by, want) in [
            (ShuffleMode::Down, 3, [3, 31, 35, 40]),
            (ShuffleMode::Up, 3, [0, 28, 32, 37]),
            (ShuffleMode::Xor, 8, [8, 23, 40, 32]),
            (ShuffleMode::Index, 33, [1, 1, 33, 33]),
        ] {
            let mut to = [u32::MAX; 41];
            // SAFETY: both have 41 elements.
            unsafe {
                shuffle(4)(to.as_mut_ptr().cast(), from.as_ptr().cast(), shuffle_number(mode) as u64, by, 41);
            }
            assert_eq!([to[0], to[31], to[32], to[40]], want, "{mode:?}");
        }
    }

    #[test]
    fn votes_are_over_the_lanes_that_are_there() {
        let mut holds = [1u8; 41];
        holds[5] = 0;
        let (mut all, mut any, mut bits) = ([9u8; 41], [9u8; 41], [9u32; 41]);
        // SAFETY: all have 41 elements.
        unsafe {
            vote(VoteMode::All)(all.as_mut_ptr(), holds.as_ptr(), 41);
            vote(VoteMode::Any)(any.as_mut_ptr(), holds.as_ptr(), 41);
            vote(VoteMode::Ballot)(bits.as_mut_ptr().cast(), holds.as_ptr(), 41);
        }
        assert_eq!([all[0], all[31], all[32], all[40], any[7], any[40]], [0, 0, 1, 1, 1, 1]);
        assert_eq!([bits[3], bits[40]], [u32::MAX - 32, 511]);
    }
}
