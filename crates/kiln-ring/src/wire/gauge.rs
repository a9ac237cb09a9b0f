//! What a worker keeps of an actor's work, as words of the arena that lie behind the actor's state.
//!
//! ```text
//! word 0   messages done: low half, high half    4   the last failure: cause, number    8   one word a bucket of handling times
//!      2   of these, not answered by the handler 6   sum of handling times, ns: low, high
//! ```
//!
//! An actor with several priorities has a quad of messages done for each: the lowest priority's
//! is the one above, those of the others lie behind the buckets.
//!
//! Behind those stands the record of the last check that failed:
//!
//! ```text
//! word 0   the inbound link that the message came by; 0 for the host    4   the check's values, two words each
//!      1   the message's position: low half, high half
//!      3   the number of the check; 0 if the failure was none of a check
//! ```
//!
//! The worker stores them after the answer, off the path of the message, except for what is said of
//! a failure, which is there when its answer is. The host reads them by a copy, which does not
//! disturb the worker.

use super::slot::QUAD;

/// Messages done (a quad, which is stored whole).
pub const DONE: usize = 0;
/// The cause and the number of the last failure.
pub const FAILURE: usize = 4;
/// The sum of measured handling times, in nanoseconds.
pub const SUM: usize = 6;
/// The buckets of handling times.
pub const BUCKETS: usize = 8;
/// How many words there are of an actor with one priority: whole quads.
pub const WORDS: usize = BUCKETS + bucket::COUNT;

/// How many words there are of an actor with so many priorities.
pub const fn words(priorities: usize) -> usize {
    fault(priorities) + fault::WORDS
}

/// Where the record of the last check that failed begins, of an actor with so many priorities.
pub const fn fault(priorities: usize) -> usize {
    WORDS + (priorities - 1) * QUAD
}

/// The words of the record of a check that failed.
pub mod fault {
    /// The inbound link that the message came by; 0 for the host.
    pub const LINK: usize = 0;
    /// The position of the message: its low half, then its high half.
    pub const POSITION: usize = 1;
    /// The number of the check.
    pub const SITE: usize = 3;
    /// The values, two words each: the low half first.
    pub const VALUES: usize = 4;
    /// The most values of a check: as many as a launched kernel reports.
    pub const MOST: usize = 8;
    /// How many words there are.
    pub const WORDS: usize = VALUES + 2 * MOST;
}

/// Where the quad of messages done of a priority stands.
pub const fn done(priority: usize) -> usize {
    if priority == 0 { DONE } else { WORDS + (priority - 1) * QUAD }
}

/// Where they begin, from the beginning of a state of so many words.
pub const fn behind(state_words: usize) -> usize {
    state_words.next_multiple_of(QUAD)
}

/// Buckets of times: of one nanosecond below 8, then eight for each power of two. So a bucket's
/// bounds differ by at most an eighth.
pub mod bucket {
    /// Buckets for each power of two, and its logarithm.
    pub const EACH: u32 = 8;
    /// See [`EACH`].
    pub const LOG2_EACH: u32 = 3;
    /// How many there are, for times below 2^32 ns.
    pub const COUNT: usize = (EACH * (32 - LOG2_EACH + 1)) as usize;

    /// The bucket of a time; of longer ones, the last.
    pub const fn of(ns: u64) -> usize {
        let ns = if ns > u32::MAX as u64 { u32::MAX } else { ns as u32 };
        if ns < EACH {
            return ns as usize;
        }
        let exponent = ns.ilog2();
        ((exponent - LOG2_EACH + 1) * EACH + (ns >> (exponent - LOG2_EACH)) % EACH) as usize
    }

    /// The least time that is in no bucket up to this one.
    pub const fn end(bucket: usize) -> u64 {
        let bucket = bucket as u64 + 1;
        let each = EACH as u64;
        if bucket <= each { bucket } else { (each + bucket % each) << (bucket / each - 1) }
    }
}
