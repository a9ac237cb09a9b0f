//! The supervisor: one thread of a runtime that polls its actors for failures.
//!
//! A device cannot notify the host that a handler failed, other than by the answer of the message
//! on which it did. A caller that reads that answer has the supervisor poll at once. Others may
//! never read theirs, so the supervisor polls the newest answers: every millisecond where a policy
//! or a link waits for that, else every 20 ms. Where a poll of all actors takes longer, it polls
//! less often, so that it takes no more than a twentieth of a core, as long as that is often enough
//! to detect a lost device in time. A poll in which an actor was restarted waited for its worker:
//! its time says nothing of the cost of polling.

use super::Shared;
use super::body::Body;
use super::dispatch::Sent;
use super::park::Rest;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Between two polls where a caller waits for failures to be detected.
const KEEN: Duration = Duration::from_millis(1);
/// Between two polls where no caller does.
const CALM: Duration = Duration::from_millis(20);
/// Polling takes at most one part in so many of the time.
const SHARE: u32 = 20;
/// The cost of a poll is the smallest time of so many. A longer one was held up by something else:
/// by a worker that did not answer at once, or by other processes.
const RECENT: usize = 8;

/// What the supervisor shares with its runtime.
#[derive(Default)]
pub(crate) struct Supervisor {
    state: Mutex<SupervisorState>,
    changed: Condvar,
    /// Held during a poll.
    looking: Mutex<()>,
}

#[derive(Default)]
struct SupervisorState {
    wards: Vec<Weak<Body>>,
    runs: bool,
    /// The next poll is due now.
    nudged: bool,
    ended: bool,
}

/// The last part of every handle on a runtime or its actors: when it is dropped, it waits until the
/// supervisor's poll that is under way is over.
///
/// That poll may hold what the other parts held. Without this, the supervisor's thread would be the
/// one to end the runtime, at a time of its own: while the process exits, at worst.
#[derive(Clone)]
pub(super) struct ShutdownGuard(Arc<Supervisor>);

impl ShutdownGuard {
    pub fn of(shared: &Shared) -> ShutdownGuard {
        ShutdownGuard(Arc::clone(&shared.supervisor))
    }
}

impl Drop for ShutdownGuard {
    fn drop(&mut self) {
        self.0.look_over();
    }
}

/// How long the supervisor sleeps between two polls.
struct Pace {
    /// The times of the last polls.
    recent: [Duration; RECENT],
    looks: usize,
}

impl Pace {
    fn new() -> Pace {
        Pace { recent: [Duration::MAX; RECENT], looks: 0 }
    }

    /// The pause after a poll that took `time`: at least `least`, and no more than `longest` where
    /// that is longer. `restarted` says that the poll was spent on a restart.
    fn pause(&mut self, time: Duration, restarted: bool, least: Duration, longest: Duration) -> Duration {
        if restarted {
            return least;
        }
        self.recent[self.looks % RECENT] = time;
        self.looks += 1;
        // The first poll may have waited for the grid's launch.
        if self.looks < RECENT {
            return least;
        }
        let cost = self.recent.iter().min().map_or(time, |cost| *cost);
        cost.saturating_mul(SHARE).min(longest).max(least)
    }
}

impl Supervisor {
    /// Supervises an actor from now on.
    ///
    /// # Errors
    /// Where the thread cannot be started.
    pub fn watch(self: &Arc<Supervisor>, shared: &Arc<Shared>, ward: &Arc<Body>) -> std::io::Result<()> {
        let mut state = self.state();
        if !state.runs {
            let (supervisor, shared) = (Arc::clone(self), Arc::downgrade(shared));
            std::thread::Builder::new()
                .name("kiln-ring-supervisor".to_owned())
                .spawn(move || supervisor.run(&shared))?;
            state.runs = true;
        }
        state.wards.push(Arc::downgrade(ward));
        Ok(())
    }

    /// Polls at once: a handler failed, or something may have to be detected earlier from now on.
    pub fn nudge(&self) {
        self.state().nudged = true;
        self.changed.notify_all();
    }

    /// Ends the thread.
    pub fn end(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }

    /// Waits until the poll of the actors that is under way is over: it may be what still holds
    /// those that are gone, and their places.
    pub fn look_over(&self) {
        drop(self.looking.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn state(&self) -> MutexGuard<'_, SupervisorState> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The supervised actors.
    pub fn wards(&self) -> Vec<Weak<Body>> {
        self.state().wards.clone()
    }

    fn run(&self, shared: &Weak<Shared>) {
        let (mut calm, mut longest) = (CALM, CALM);
        let (mut rest, mut sent) = (Rest::default(), Sent::default());
        let mut pace = Pace::new();
        loop {
            let wards = {
                let mut state = self.state();
                if state.ended {
                    return;
                }
                state.wards.retain(|ward| ward.strong_count() > 0);
                state.wards.clone()
            };
            let looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
            let begun = Instant::now();
            if let Some(shared) = shared.upgrade() {
                calm = CALM.min(shared.config.lost_within / 2);
                calm = shared.config.checkpoint_every.map_or(calm, |every| calm.min(every));
                longest = shared.config.lost_within;
            }
            let (mut keen, mut restarted, mut more) = (false, false, false);
            for ward in &wards {
                // Held no longer than for the poll: the last one that holds an actor may end its
                // runtime.
                if let Some(ward) = ward.upgrade() {
                    restarted |= ward.attend();
                    keen |= ward.is_supervised();
                }
            }
            if let Some(shared) = shared.upgrade() {
                // After the actors, whose restarts callers wait for: it calls the driver.
                shared.inspect();
                shared.sweep_abroad();
                let wards: Vec<Arc<Body>> = wards.iter().filter_map(Weak::upgrade).collect();
                shared.consider_parking(&wards, &mut rest);
                more = shared.go_on(&wards, &mut sent);
            }
            drop(looking);
            let pause = match more {
                true => Duration::ZERO,
                false => pace.pause(begun.elapsed(), restarted, if keen { KEEN } else { calm }, longest),
            };
            let waits = |state: &mut SupervisorState| !state.ended && !state.nudged;
            let waited = self.changed.wait_timeout_while(self.state(), pause, waits);
            waited.unwrap_or_else(PoisonError::into_inner).0.nudged = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A restart waits some milliseconds for its worker. Twenty times that is no pause: the next
    /// failure would not be seen for so long.
    #[test]
    fn a_restart_is_followed_by_a_look_at_once() {
        let mut pace = Pace::new();
        assert_eq!(pace.pause(3 * MS, true, KEEN, 100 * MS), KEEN);
        assert_eq!(pace.pause(MS / 100, false, KEEN, 100 * MS), KEEN);
    }

    /// One poll that took long, because other processes had the core, says nothing of the next.
    #[test]
    fn what_looks_cost_is_what_the_shortest_of_them_took() {
        let mut pace = Pace::new();
        // One that waited for a launch, and is the first, says nothing either.
        assert_eq!(pace.pause(400 * MS, false, KEEN, 100 * MS), KEEN);
        assert_eq!(pace.pause(MS / 100, false, KEEN, 100 * MS), KEEN);
        assert_eq!(pace.pause(30 * MS, false, KEEN, 100 * MS), KEEN);
        // Where all of them take long, there are many actors: they are polled less often.
        let last = (0..RECENT).map(|_| pace.pause(2 * MS, false, KEEN, 100 * MS)).last();
        assert_eq!(last, Some(40 * MS));
        let last = (0..RECENT).map(|_| pace.pause(20 * MS, false, KEEN, 100 * MS)).last();
        assert_eq!(last, Some(100 * MS));
    }
}
