//! How long a program of a kernel takes, measured by its last launch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a program of a kernel took in the launch before, in nanoseconds of one thread; 0 before the
/// first.
#[derive(Default)]
pub(crate) struct Cost(AtomicU64);

impl Cost {
    /// What so many programs would take on one thread.
    pub(crate) fn expected(&self, programs: u64) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed).saturating_mul(programs))
    }

    /// Remembers what a launch of so many programs took on all threads together.
    pub(crate) fn record(&self, programs: u64, taken: Duration) {
        let nanos = taken.as_nanos().min(u64::MAX.into()) as u64;
        self.0.store(nanos / programs.max(1), Ordering::Relaxed);
    }
}
