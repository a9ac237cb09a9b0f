//! The machine itself as the platform of queues.

use super::memory::RingMemory;
use super::platform::{Atomic, Platform};
use super::wait::Wait;
use std::sync::atomic::{self, Ordering};

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
    type Memory = RingMemory;

    #[inline]
    fn fence(order: Ordering) {
        atomic::fence(order);
    }

    // Some ten microseconds.
    const LOOKS: usize = 500;

    fn pause() {
        std::hint::spin_loop();
    }

    fn step(wait: &mut Wait) -> bool {
        wait.step()
    }
}
