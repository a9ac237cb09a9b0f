//! What a queue is made of: atomics, fences and ring memory. The queue is written against these
//! traits, so that loom's model checker runs the same code as programs do.

use super::lines::Slots;
use super::wait::Wait;
use crate::wire::slot::{PAYLOAD, QUAD};
use std::sync::atomic::Ordering;

/// An atomic variable.
pub trait Atomic<T>: Send + Sync {
    /// A variable with a value.
    fn new(value: T) -> Self;
    /// Reads it.
    fn load(&self, order: Ordering) -> T;
    /// Writes it.
    fn store(&self, value: T, order: Ordering);
    /// Writes it and gives what it was.
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Writes it if it is `current`; else gives what it is. It may fail for no reason.
    fn compare_exchange_weak(&self, current: T, new: T, success: Ordering, failure: Ordering)
    -> Result<T, T>;
    /// Writes it if it is `current`; else gives what it is.
    fn compare_exchange(&self, current: T, new: T, success: Ordering, failure: Ordering) -> Result<T, T>;
}

/// Memory that rings lie in, which the device accesses at the same time. Offsets are words; quads
/// are aligned to four.
pub trait QueueMemory: Send + Sync {
    /// Stores a quad that arrives whole. Unordered.
    fn store_quad(&self, at: usize, quad: [u32; QUAD]);
    /// Stores quads one after the other, each of three of the words and the stamp. Each arrives
    /// whole. Unordered.
    #[inline]
    fn store_quads(&self, at: usize, words: &[u32], stamp: u32) {
        self.store_each(at, words, stamp);
    }
    /// As [`store_quads`](Self::store_quads), by a store for each.
    #[inline]
    fn store_each(&self, at: usize, words: &[u32], stamp: u32) {
        for (q, words) in words.chunks_exact(PAYLOAD).enumerate() {
            self.store_quad(at + q * QUAD, [words[0], words[1], words[2], stamp]);
        }
    }
    /// Stores a quad whose last word is seen after everything that was stored before, the rest of
    /// the quad included.
    fn store_quad_release(&self, at: usize, quad: [u32; QUAD]);
    /// Loads a quad whole. Unordered.
    fn load_quad(&self, at: usize) -> [u32; QUAD];
    /// Loads the payload of slots, three words for each of their quads, as long as these bear the
    /// stamp; gives how many slots did. Unordered. Besides all slots, the words have room for
    /// [`SLACK`](super::lines::SLACK) more.
    #[inline]
    fn load_slots(&self, slots: &Slots, words: &mut [u32]) -> usize {
        self.load_each(slots, words)
    }
    /// As [`load_slots`](Self::load_slots), by a load for each quad.
    #[inline]
    fn load_each(&self, slots: &Slots, words: &mut [u32]) -> usize {
        let count = slots.that_fit(words.len()).count;
        for (i, words) in words.chunks_exact_mut(slots.quads * PAYLOAD).take(count).enumerate() {
            for (q, words) in words.chunks_exact_mut(PAYLOAD).enumerate() {
                let quad = self.load_quad(slots.at + i * slots.stride + q * QUAD);
                if quad[PAYLOAD] != slots.stamp {
                    return i;
                }
                words.copy_from_slice(&quad[..PAYLOAD]);
            }
        }
        count
    }
    /// Loads a word, before everything that is loaded later.
    fn load_acquire(&self, at: usize) -> u32;
    /// Sends what was stored on its way.
    fn flush(&self);
}

/// The atomics, fences and memory that a queue runs on.
pub trait Platform: 'static {
    /// A word for positions.
    type U64: Atomic<u64>;
    /// A word for flags.
    type U8: Atomic<u8>;
    /// Ring memory.
    type Memory: QueueMemory;

    /// A fence.
    fn fence(order: Ordering);
    /// How often a thread checks whether another one is done with something short.
    const LOOKS: usize;
    /// Between two such checks.
    fn pause();
    /// Waits a little; `false` once the time is over.
    fn step(wait: &mut Wait) -> bool;
}
