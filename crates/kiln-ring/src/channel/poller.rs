//! The thread that polls channels for futures.
//!
//! A device cannot wake a task on the host, so the host has to poll. One thread does so for all
//! channels of the process, and only while a future waits: it starts with the first and sleeps
//! while there is none. It polls without a pause for a while, then every 50 us. So a future's
//! wake-up takes longer than [`recv`](super::Channel::recv) on a thread of its own.

use super::wait::{Wait, WaitPolicy};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// What the thread polls.
pub trait Watched: Send + Sync {
    /// Wakes those whose wait is over; whether there were any.
    fn attend(&self) -> bool;

    /// Returns whether polling can stop. After that, it must be registered again.
    fn is_done(&self) -> bool;
}

struct Poller {
    state: Mutex<PollerState>,
    /// Something is to be watched.
    arrived: Condvar,
}

struct PollerState {
    watched: Vec<Weak<dyn Watched>>,
    arrivals: u64,
    runs: bool,
}

static POLLER: Poller = Poller {
    state: Mutex::new(PollerState { watched: Vec::new(), arrivals: 0, runs: false }),
    arrived: Condvar::new(),
};

/// Polls something from now on. Returns the error if the thread cannot be started.
pub fn watch(watched: Weak<dyn Watched>) -> std::io::Result<()> {
    let mut state = POLLER.state();
    if !state.runs {
        std::thread::Builder::new().name("kiln-ring-poller".to_owned()).spawn(|| POLLER.run())?;
        state.runs = true;
    }
    state.watched.push(watched);
    state.arrivals += 1;
    POLLER.arrived.notify_one();
    Ok(())
}

impl Poller {
    fn state(&self) -> MutexGuard<'_, PollerState> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let (mut watched, mut arrivals) = (Vec::new(), 0);
        let mut wait = Wait::new(WaitPolicy::default(), None);
        loop {
            let (all, arrived) = self.next(watched, arrivals);
            let news = arrived != arrivals;
            (watched, arrivals) = (all, arrived);
            let mut woken = false;
            watched.retain(|weak: &Weak<dyn Watched>| {
                let Some(strong) = weak.upgrade() else { return false };
                woken |= strong.attend();
                !strong.is_done()
            });
            if news || woken {
                wait = Wait::new(WaitPolicy::default(), None);
            }
            wait.step();
        }
    }

    /// Adds what arrived; waits for something if there is nothing to watch.
    fn next(&self, mut watched: Vec<Weak<dyn Watched>>, seen: u64) -> (Vec<Weak<dyn Watched>>, u64) {
        let mut state = self.state();
        while watched.is_empty() && state.watched.is_empty() && state.arrivals == seen {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        watched.append(&mut state.watched);
        (watched, state.arrivals)
    }
}

impl<P: super::platform::Platform> Watched for super::mailbox::Mailbox<P> {
    fn attend(&self) -> bool {
        self.attend()
    }

    fn is_done(&self) -> bool {
        self.wakers.is_unwatched()
    }
}

/// Has a mailbox polled while its list of wakers is not empty.
pub fn see_to<P: super::platform::Platform>(
    mailbox: &Arc<super::mailbox::Mailbox<P>>,
) -> std::io::Result<()> {
    if mailbox.wakers.begin_watching() {
        let weak: Weak<dyn Watched> = Arc::downgrade(mailbox) as Weak<dyn Watched>;
        return watch(weak).inspect_err(|_| mailbox.wakers.stop_watching());
    }
    Ok(())
}
