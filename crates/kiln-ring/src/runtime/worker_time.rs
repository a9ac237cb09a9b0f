//! How long a worker was waited for, without the time in which other threads had its processor.
//!
//! A worker on a CPU is a thread among others. On a loaded machine it may make no progress for
//! seconds because it has no processor, and is as well as ever.

use kiln_backend::BlockTime;
use std::time::{Duration, Instant};

/// The most that one reading adds for a worker that sleeps or is blocked. It was asleep at the
/// moment of the reading, which says little of a long time before.
const MOST_ASLEEP: Duration = Duration::from_millis(20);

/// The time that a worker could have used since the first reading.
#[derive(Clone, Debug)]
pub(super) struct WorkerTime {
    looked: Instant,
    found: Option<BlockTime>,
    spent: Duration,
}

impl WorkerTime {
    /// Begins to count at a reading that found this. Where the device does not say, the time since
    /// the worker's last sign of life was first seen counts too.
    pub fn begin(since: Instant, now: Instant, found: Option<BlockTime>) -> WorkerTime {
        let spent = match found {
            Some(_) => Duration::ZERO,
            None => now.saturating_duration_since(since),
        };
        WorkerTime { looked: now, found, spent }
    }

    /// Returns when the last reading was.
    pub fn looked(&self) -> Instant {
        self.looked
    }

    /// Adds what has passed since the last reading, and returns the sum: the processor time that
    /// the worker had, or would have had if it had not slept. Where the device does not say, all
    /// time.
    pub fn look(&mut self, now: Instant, found: Option<BlockTime>) -> Duration {
        let passed = now.saturating_duration_since(self.looked);
        self.spent += match (self.found, found) {
            (Some(before), Some(found)) if found.runnable => found.ran.saturating_sub(before.ran),
            (Some(_), Some(_)) => passed.min(MOST_ASLEEP),
            _ => passed,
        };
        (self.looked, self.found) = (now, found);
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn found(ran: u32, runnable: bool) -> Option<BlockTime> {
        Some(BlockTime { ran: ran * MS, runnable })
    }

    #[test]
    fn a_worker_without_a_processor_spends_no_time() {
        let begun = Instant::now();
        let mut time = WorkerTime::begin(begun - 70 * MS, begun, found(40, true));
        assert_eq!(time.look(begun + 60_000 * MS, found(40, true)), Duration::ZERO);
        assert_eq!(time.look(begun + 61_000 * MS, found(70, true)), 30 * MS);
        // Asleep: at most so much for a reading.
        assert_eq!(time.look(begun + 61_015 * MS, found(70, false)), 45 * MS);
        assert_eq!(time.look(begun + 90_000 * MS, found(70, false)), 65 * MS);
        assert_eq!(time.looked(), begun + 90_000 * MS);
    }

    #[test]
    fn where_the_device_does_not_say_all_time_counts() {
        let begun = Instant::now();
        let mut time = WorkerTime::begin(begun, begun + 100 * MS, None);
        assert_eq!(time.look(begun + 100 * MS, None), 100 * MS);
        assert_eq!(time.look(begun + 500 * MS, None), 500 * MS);
        assert_eq!(time.look(begun + 900 * MS, found(1, true)), 900 * MS);
        assert_eq!(time.look(begun + 1000 * MS, found(3, true)), 902 * MS);
    }
}
