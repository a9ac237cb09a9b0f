//! The end of launches that run for too long: a thread watches the clock and sets a flag, which
//! loops poll.

use kiln_backend::{Error, LAUNCH_LIMIT, Result};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether a launch is to stop: generated code reads the byte.
#[derive(Debug, Default, Clone)]
pub(crate) struct Stop(Arc<AtomicU8>);

impl Stop {
    /// Where the byte lies, for as long as this lives.
    pub(crate) fn address(&self) -> *const u8 {
        self.0.as_ptr()
    }

    fn set(&self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

/// The limit of a device's launches. The thread that watches is started with the first launch that
/// it is for.
pub(crate) struct Watch {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<LimitState>,
    /// There is an earlier time to wake up at, or the device is gone.
    changed: Condvar,
}

struct LimitState {
    limit: Option<Duration>,
    running: Vec<Entry>,
    begun: u64,
    /// Whether there is a thread, and until when it sleeps: without a time until it is woken.
    thread: Option<Option<Instant>>,
    over: bool,
}

struct Entry {
    number: u64,
    until: Instant,
    stop: Stop,
}

/// A launch that is watched, as long as this lives.
pub(crate) struct Watched {
    shared: Arc<Shared>,
    number: u64,
    /// The flag that its loops poll.
    pub(crate) stop: Stop,
    /// How long it may run.
    pub(crate) limit: Duration,
}

impl Default for Watch {
    fn default() -> Watch {
        let state = LimitState {
            limit: Some(LAUNCH_LIMIT),
            running: Vec::new(),
            begun: 0,
            thread: None,
            over: false,
        };
        Watch { shared: Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }) }
    }
}

impl Watch {
    /// Sets the limit of launches from now on.
    pub(crate) fn set_limit(&self, limit: Option<Duration>) {
        self.shared.state().limit = limit;
    }

    /// Watches a launch that begins now; nothing if there is no limit.
    pub(crate) fn begin(&self) -> Result<Option<Watched>> {
        let mut state = self.shared.state();
        let until = state.limit.and_then(|limit| Instant::now().checked_add(limit));
        let (Some(limit), Some(until)) = (state.limit, until) else { return Ok(None) };
        state.begun += 1;
        let (number, stop) = (state.begun, Stop::default());
        state.running.push(Entry { number, until, stop: stop.clone() });
        let watched = Watched { shared: self.shared.clone(), number, stop, limit };
        match state.thread {
            Some(Some(wakes)) if wakes <= until => {}
            Some(_) => self.shared.changed.notify_one(),
            None => {
                let shared = self.shared.clone();
                let body = move || shared.watch();
                if let Err(error) = std::thread::Builder::new().name("kiln-watch".into()).spawn(body) {
                    // `watched` takes the launch off the list, and needs the lock for it.
                    drop(state);
                    drop(watched);
                    return Err(Error::Driver {
                        call: "starting the thread that ends launches at their limit".into(),
                        code: error.kind().to_string(),
                        message: error.to_string(),
                    });
                }
                state.thread = Some(None);
            }
        }
        Ok(Some(watched))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.shared.state().running.retain(|entry| entry.number != self.number);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, LimitState> {
        // Every change is one assignment, insertion or removal: a panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops each launch whose time is over, until the device is gone.
    fn watch(&self) {
        let mut state = self.state();
        while !state.over {
            let now = Instant::now();
            state.running.iter().filter(|entry| entry.until <= now).for_each(|entry| entry.stop.set());
            let next = state.running.iter().map(|entry| entry.until).filter(|&until| until > now).min();
            state.thread = Some(next);
            state = match next {
                Some(until) => {
                    let woken = self.changed.wait_timeout(state, until - now);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
