//! Credits: how many messages may be under way in all queues of an actor together.

use super::platform::{Atomic, Platform};
use crossbeam_utils::CachePadded;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// How many more messages may be under way in all priorities of an actor.
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
            // Acquire: the thread that takes a credit sees the head of the queue that released it,
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
