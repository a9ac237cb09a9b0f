//! Bands: the queues of one actor, one for each priority.
//!
//! Each band is a ring of requests and a ring of answers of its own, so that a message of one never
//! waits in a row behind those of another. The number of messages under way is limited for all of
//! them together: a position is taken once there is a *credit* for it, and a credit comes back when
//! an answer was taken. Every band has as many slots as the actor has credits, and so none is full
//! before the credits are used up.

use super::failure::Noted;
use super::held::Held;
use super::platform::{Atomic, Platform};
use super::queue::Queue;
use crossbeam_utils::CachePadded;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The most bands that an actor can have.
pub const MAX_BANDS: usize = 8;

/// One band of a mailbox.
pub struct Band<P: Platform> {
    pub queue: Queue<P>,
    pub(super) noted: Noted,
    pub(super) held: Held,
}

impl<P: Platform> Band<P> {
    pub fn new(queue: Queue<P>) -> Band<P> {
        Band { queue, noted: Noted::default(), held: Held::default() }
    }
}

/// How many more messages may be under way in all bands of an actor.
pub struct Credits<P: Platform> {
    left: CachePadded<P::U64>,
}

impl<P: Platform> Credits<P> {
    pub fn new(capacity: usize) -> Credits<P> {
        Credits { left: CachePadded::new(P::U64::new(capacity as u64)) }
    }

    /// Takes up to `count`; gives how many.
    pub fn take(&self, count: u64) -> u64 {
        let mut left = self.left.load(Relaxed);
        loop {
            let count = count.min(left);
            if count == 0 {
                return 0;
            }
            // Acquire: whoever takes a credit knows the head of the queue from which it came back,
            // and so a free slot.
            match self.left.compare_exchange_weak(left, left - count, Acquire, Relaxed) {
                Ok(_) => return count,
                Err(now) => left = now,
            }
        }
    }

    /// Gives back some, after the head of their queue has moved.
    pub fn give(&self, count: u64) {
        let mut left = self.left.load(Relaxed);
        while let Err(now) = self.left.compare_exchange_weak(left, left + count, Release, Relaxed) {
            left = now;
        }
    }
}
