//! Whether and when a failed actor is restarted.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What happens when an actor's handler fails.
///
/// A restart begins with the state that the actor was launched with, unless
/// [`RingConfig::resume`](crate::RingConfig::resume) has it keep the one that it has. The message
/// on which the handler failed is a dead letter; those behind it are handled after the restart.
///
/// ```
/// use kiln_ring::{Backoff, Restart, RingConfig};
/// use std::time::Duration;
///
/// let often = Restart::OnFailure { at_most: 5, within: Duration::from_secs(60), backoff: Backoff::default() };
/// let config = RingConfig::default().state(0u32).restart(often);
/// # let _ = config;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// It remains failed, and holds its messages, until it is [restarted](crate::Actor::restart) by
    /// hand or terminated. The default.
    #[default]
    Never,
    /// It is restarted after every failure, however many there are.
    Always(Backoff),
    /// It is restarted, but not more than `at_most` times within any span of `within`. One failure
    /// more, and it is given up: it takes no more messages, those that it held become dead letters,
    /// and the actors that it is [linked](crate::Actor::link) to fail with it.
    OnFailure {
        /// How many restarts there may be.
        at_most: u32,
        /// Within which time.
        within: Duration,
        /// How long to wait before each.
        backoff: Backoff,
    },
}

/// How long to wait before a restart: `first`, then twice as long each time, never longer than
/// `most`. The waits begin anew after the actor has been up for `calm`.
///
/// ```
/// # use kiln_lang::prelude::*;
/// # use kiln_ring::{Backoff, Restart, RingConfig, RingCtx, RingRuntime, ring_kernel};
/// # use std::time::Duration;
/// #[ring_kernel(crate = kiln_ring)]
/// fn hundred_by(_ctx: &RingCtx, x: u32) -> u32 {
///     100 / x
/// }
///
/// let backoff = Backoff { first: Duration::from_millis(2), ..Backoff::default() };
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(hundred_by, RingConfig::default().restart(Restart::Always(backoff)))?;
/// actor.activate()?;
/// assert!(actor.ask(0).is_err());
/// while actor.restarts() == 0 {
///     std::thread::yield_now();
/// }
/// assert_eq!(actor.ask(20)?, Some(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Before the first restart.
    pub first: Duration,
    /// Before any restart, at most.
    pub most: Duration,
    /// How long an actor is up before its earlier failures no longer count for the wait.
    pub calm: Duration,
}

/// 1 ms, doubled up to 1 s; calm after 10 s.
impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            first: Duration::from_millis(1),
            most: Duration::from_secs(1),
            calm: Duration::from_secs(10),
        }
    }
}

impl Backoff {
    /// Restarts at once.
    pub const NONE: Backoff = Backoff { first: Duration::ZERO, most: Duration::ZERO, calm: Duration::ZERO };

    fn before(&self, earlier: u32) -> Duration {
        let factor = 1u32.checked_shl(earlier).unwrap_or(u32::MAX);
        self.first.checked_mul(factor).unwrap_or(self.most).min(self.most)
    }
}

/// What a policy says to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing is done by itself.
    Leave,
    /// Restart at this time.
    At(Instant),
    /// There were too many.
    GiveUp,
}

/// The restarts of one actor that still count.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// When it was restarted, oldest first.
    restarts: VecDeque<Instant>,
    /// How many restarts there were with no calm between them.
    series: u32,
    /// All of them.
    pub total: u64,
}

impl History {
    /// What to do about a failure at `now`.
    pub fn decide(&mut self, policy: &Restart, now: Instant) -> Decision {
        let (backoff, limit) = match policy {
            Restart::Never => return Decision::Leave,
            Restart::Always(backoff) => (backoff, None),
            Restart::OnFailure { at_most, within, backoff } => (backoff, Some((*at_most, *within))),
        };
        let last = self.restarts.back().copied();
        if last.is_none_or(|last| now.saturating_duration_since(last) > backoff.calm) {
            self.series = 0;
        }
        if let Some((at_most, within)) = limit {
            self.restarts.retain(|at| now.saturating_duration_since(*at) < within);
            if self.restarts.len() as u64 >= u64::from(at_most) {
                return Decision::GiveUp;
            }
        }
        // A wait beyond all clocks is for ever.
        now.checked_add(backoff.before(self.series)).map_or(Decision::Leave, Decision::At)
    }

    /// Records a restart.
    pub fn restarted(&mut self, policy: &Restart, now: Instant) {
        if !matches!(policy, Restart::OnFailure { .. }) {
            self.restarts.clear();
        }
        self.restarts.push_back(now);
        self.series = self.series.saturating_add(1);
        self.total += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew_after_a_calm() {
        let backoff = Backoff { first: 2 * MS, most: 9 * MS, calm: 100 * MS };
        let policy = Restart::Always(backoff);
        let (mut history, mut now) = (History::default(), Instant::now());
        for want in [2, 4, 8, 9, 9] {
            assert_eq!(history.decide(&policy, now), Decision::At(now + want * MS));
            now += want * MS;
            history.restarted(&policy, now);
            now += 50 * MS;
        }
        now += 51 * MS;
        assert_eq!(history.decide(&policy, now), Decision::At(now + 2 * MS));
        assert_eq!(history.total, 5);
        // A wait that no shift can hold is the longest.
        assert_eq!(backoff.before(40), 9 * MS);
        let never = Restart::Always(Backoff { first: Duration::MAX, most: Duration::MAX, calm: MS });
        assert_eq!(History::default().decide(&never, now), Decision::Leave);
    }

    #[test]
    fn a_window_holds_at_most_so_many_restarts() {
        let policy = Restart::OnFailure { at_most: 2, within: 10 * MS, backoff: Backoff::NONE };
        let (mut history, begun) = (History::default(), Instant::now());
        for at in [0, 5] {
            assert_eq!(history.decide(&policy, begun + at * MS), Decision::At(begun + at * MS));
            history.restarted(&policy, begun + at * MS);
        }
        assert_eq!(history.decide(&policy, begun + 9 * MS), Decision::GiveUp);
        // The first one has left the window.
        assert_eq!(history.decide(&policy, begun + 11 * MS), Decision::At(begun + 11 * MS));
        let never = Restart::OnFailure { at_most: 0, within: MS, backoff: Backoff::NONE };
        assert_eq!(History::default().decide(&never, begun), Decision::GiveUp);
        assert_eq!(History::default().decide(&Restart::Never, begun), Decision::Leave);
    }
}
