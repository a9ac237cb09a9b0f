//! What a queue is made of: atomics, fences and ring memory. The queue is written against these traits, so that loom's model checker runs
//! the same code as programs do.

use super::wait::Wait;
use crate::slot::QUAD;
use std::sync::atomic::{self, Ordering};

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

/// Memory that rings lie in, which the device accesses at the same time. Offsets are words; quads are aligned to four.
pub trait Memory: Send + Sync {
    /// Stores a quad that arrives whole. Unordered.
    fn store_quad(&self, at: usize, quad: [u32; QUAD]);
    /// Whether [`store_line`](Self::store_line) does better than a store for each quad.
    fn prefers_lines(&self) -> bool {
        false
    }
    /// Stores a cache line. Each of its quads arrives whole. Unordered.
    fn store_line(&self, at: usize, line: [[u32; QUAD]; 4]) {
        for (q, quad) in line.into_iter().enumerate() {
            self.store_quad(at + q * QUAD, quad);
        }
    }
    /// Stores a quad whose last word is seen after everything that was stored before, the rest of the quad included.
    fn store_quad_release(&self, at: usize, quad: [u32; QUAD]);
    /// Loads a quad whole. Unordered.
    fn load_quad(&self, at: usize) -> [u32; QUAD];
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
    type Memory: Memory;

    /// A fence.
    fn fence(order: Ordering);
    /// Waits a little; `false` once the time is over.
    fn step(wait: &mut Wait) -> bool;
}

macro_rules! atomic {
    ($($atomic:ident $t:ty;)*) => {$(
        impl Atomic<$t> for atomic::$atomic {
            #[inline]
            fn new(value: $t) -> Self {
                Self::new(value)
            }

            #[inline]
            fn load(&self, order: Ordering) -> $t {
                self.load(order)
            }

            #[inline]
            fn store(&self, value: $t, order: Ordering) {
                self.store(value, order);
            }

            #[inline]
            fn swap(&self, value: $t, order: Ordering) -> $t {
                self.swap(value, order)
            }

            #[inline]
            fn compare_exchange_weak(&self, current: $t, new: $t, success: Ordering, failure: Ordering) -> Result<$t, $t> {
                self.compare_exchange_weak(current, new, success, failure)
            }

            #[inline]
            fn compare_exchange(&self, current: $t, new: $t, success: Ordering, failure: Ordering) -> Result<$t, $t> {
                self.compare_exchange(current, new, success, failure)
            }
        }
    )*};
}
atomic! { AtomicU64 u64; AtomicU8 u8; }

/// The machine itself.
#[derive(Debug)]
pub struct Native;

impl Platform for Native {
    type U64 = atomic::AtomicU64;
    type U8 = atomic::AtomicU8;
    type Memory = super::memory::RingMemory;

    #[inline]
    fn fence(order: Ordering) {
        atomic::fence(order);
    }

    fn step(wait: &mut Wait) -> bool {
        wait.step()
    }
}
