//! Until when a call may wait.

use crate::channel::{Wait, WaitPolicy};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// The moment by which a call returns. None is for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(Option<Instant>);

impl Limit {
    /// As long as it takes.
    pub const NONE: Limit = Limit(None);

    /// So long from now on.
    pub fn after(timeout: Duration) -> Limit {
        Limit(Instant::now().checked_add(timeout))
    }

    /// A wait that ends then.
    pub fn wait(self) -> Wait {
        Wait::new(WaitPolicy::default(), self.0)
    }

    /// A lock, if it is free in time. What it protects is whole wherever a thread that held it
    /// panicked.
    pub fn lock<T>(self, mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        let mut wait = self.wait();
        loop {
            match mutex.try_lock() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if wait.step() => {}
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_time_beyond_all_clocks_is_no_limit() {
        let begun = Instant::now();
        assert!(Limit::after(MS).0.is_some_and(|end| end >= begun + MS));
        assert!(Limit::after(Duration::MAX).0.is_none());
    }

    #[test]
    fn a_lock_that_is_held_is_waited_for_no_longer() {
        let mutex = Mutex::new(7);
        let held = mutex.lock().unwrap();
        let begun = Instant::now();
        assert!(Limit::after(5 * MS).lock(&mutex).is_none());
        assert!(begun.elapsed() >= 5 * MS);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| Limit::NONE.lock(&mutex).map(|guard| *guard));
            std::thread::sleep(2 * MS);
            drop(held);
            assert_eq!(other.join().unwrap(), Some(7));
        });
    }
}
