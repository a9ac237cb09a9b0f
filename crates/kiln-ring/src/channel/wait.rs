//! How a thread waits for a device, which cannot wake it.

use std::time::{Duration, Instant};

/// A thread that spins reads the clock once in so many looks.
pub const LOOKS_PER_CLOCK: u32 = 32;

/// How to wait: first spinning, then giving way to other threads, then sleeping between polls.
///
/// A device cannot wake a thread of the host, so all waiting is polling. Spinning finds an answer
/// soonest and takes a whole core; sleeping takes next to nothing and adds up to the time slept.
///
/// ```
/// use kiln_ring::WaitPolicy;
/// use std::time::Duration;
///
/// let gentle = WaitPolicy { spins: 0, yields: 0, sleep: Some(Duration::from_millis(1)) };
/// assert!(WaitPolicy::default().spins > gentle.spins);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    /// Polls with a pause instruction between them.
    pub spins: u32,
    /// After those, polls with a yield to other threads between them.
    pub yields: u32,
    /// After those, how long to sleep between polls; without it, it yields for ever.
    pub sleep: Option<Duration>,
}

impl WaitPolicy {
    /// Spins for ever: the shortest latency, for a core of its own.
    pub const SPIN: WaitPolicy = WaitPolicy { spins: u32::MAX, yields: 0, sleep: None };
}

/// Spins for some ten microseconds, as long as a device that is not behind takes to answer; then
/// yields, then sleeps 50 us at a time.
impl Default for WaitPolicy {
    fn default() -> Self {
        WaitPolicy { spins: 1000, yields: 100, sleep: Some(Duration::from_micros(50)) }
    }
}

/// The time limit of one call: when the call began and when it must return.
///
/// Both stand together because an error says how long the call waited: measured from anywhere else,
/// that could be less than the time the caller allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    began: Instant,
    end: Instant,
}

impl Deadline {
    /// Returns a deadline `timeout` from now; for a time beyond all clocks, the last that there is.
    pub fn after(timeout: Duration) -> Deadline {
        /// A century: clocks go at least so far.
        const LONG: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        let began = Instant::now();
        let end = began.checked_add(timeout).or_else(|| began.checked_add(LONG)).unwrap_or(began);
        Deadline { began, end }
    }

    /// Returns the moment at which the call must return.
    pub fn end(self) -> Instant {
        self.end
    }

    /// Returns how long the call has waited. Zero for a call without a deadline, which never times
    /// out.
    pub fn waited(deadline: Option<Deadline>) -> Duration {
        deadline.map_or(Duration::ZERO, |d| d.began.elapsed())
    }
}

/// One wait under way.
#[derive(Debug)]
pub struct Wait {
    policy: WaitPolicy,
    looks: u32,
    until: Option<Instant>,
}

impl Wait {
    /// A wait that ends at a time, or never.
    pub fn new(policy: WaitPolicy, until: Option<Instant>) -> Wait {
        Wait { policy, looks: 0, until }
    }

    /// Whether the next step is a pause of the processor, and no more.
    pub fn is_spinning(&self) -> bool {
        self.looks < self.policy.spins || self.policy.spins == u32::MAX
    }

    /// Waits a little; `false` once the time is over.
    pub fn step(&mut self) -> bool {
        let look = self.looks;
        let spinning = self.is_spinning();
        // At its end the count no longer grows; it is beyond whatever is finite in the policy.
        self.looks = look.saturating_add(1);
        // Reading the clock costs more than a pause: while spinning, it is read now and then.
        let reads_clock = !spinning || look % LOOKS_PER_CLOCK == LOOKS_PER_CLOCK - 1;
        if reads_clock && self.is_over() {
            return false;
        }
        if spinning {
            std::hint::spin_loop();
        } else if look - self.policy.spins < self.policy.yields {
            std::thread::yield_now();
        } else {
            self.rest();
        }
        true
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Waits a little, unless the device went on meanwhile; whether the time is over.
    pub fn is_over_after(&mut self, pumped: bool) -> bool {
        if pumped { self.is_over() } else { !self.step() }
    }

    fn rest(&self) {
        let Some(sleep) = self.policy.sleep else { return std::thread::yield_now() };
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.map_or(sleep, |left| left.min(sleep)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_its_time() {
        let policies = [
            WaitPolicy::SPIN,
            WaitPolicy::default(),
            WaitPolicy { spins: 0, yields: u32::MAX, sleep: None },
            WaitPolicy { spins: 3, yields: 0, sleep: Some(Duration::from_secs(7200)) },
            WaitPolicy { spins: 0, yields: 0, sleep: None },
        ];
        for policy in policies {
            let begun = Instant::now();
            let mut wait = Wait::new(policy, Some(begun + Duration::from_millis(5)));
            while wait.step() {}
            let waited = begun.elapsed();
            assert!(
                waited >= Duration::from_millis(5) && waited < Duration::from_secs(3600),
                "{policy:?}: {waited:?}"
            );
        }
    }

    #[test]
    fn a_wait_whose_time_is_over_looks_a_few_times_at_most() {
        let mut wait = Wait::new(WaitPolicy::default(), Some(Instant::now()));
        assert!((0..64).any(|_| !wait.step()));
    }
}
