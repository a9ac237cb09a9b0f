//! A persistent pool of threads that runs one job at a time, with the thread that submits it.

use crate::processor;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Work that each thread of the pool calls once; the call returns when nothing is left to do.
type Body<'a> = dyn Fn() + Sync + 'a;

/// How often a worker polls for a job before it sleeps: launches that follow each other closely
/// find it awake.
const SPINS: u32 = 4000;

thread_local! {
    /// Whether this thread is inside a job: a launch from there runs where it is.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The pool. Dropping it ends its threads.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held while a job runs.
    turn: Mutex<()>,
}

struct Shared {
    state: Mutex<PoolState>,
    /// A job has arrived, or the pool ends.
    arrived: Condvar,
    /// A worker has left a job.
    left: Condvar,
    /// Set while there is a job: what spinning workers poll.
    open: AtomicBool,
}

#[derive(Default)]
struct PoolState {
    job: Option<Job>,
    /// The number of the job, so that no worker enters one twice.
    number: u64,
    /// Workers inside the job.
    inside: usize,
    /// Workers that sleep until one arrives.
    asleep: usize,
    panicked: bool,
    ends: bool,
}

#[derive(Clone, Copy)]
struct Job {
    body: *const Body<'static>,
    /// The processor of the thread that asks.
    processor: Option<usize>,
}

// SAFETY: the body is `Sync`, and `Pool::run` does not return while a worker may use it.
unsafe impl Send for Job {}

impl Pool {
    /// A pool of `threads` in all: the asking thread is one of them.
    pub(crate) fn new(threads: usize) -> Pool {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            arrived: Condvar::new(),
            left: Condvar::new(),
            open: AtomicBool::new(false),
        });
        let spawn = |index: usize| {
            let shared = shared.clone();
            let name = format!("kiln-cpu-{index}");
            std::thread::Builder::new().name(name).spawn(move || shared.work())
        };
        // Fewer threads than asked for only make it slower.
        let workers = (1..threads.max(1)).filter_map(|index| spawn(index).ok()).collect();
        Pool { shared, workers, turn: Mutex::new(()) }
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `body` on this thread and on every worker that is free in time. Gives whether no call
    /// panicked.
    pub(crate) fn run(&self, body: &Body<'_>) -> bool {
        if self.workers.is_empty() || INSIDE.get() {
            return completes(body);
        }
        // Another launch has the workers: this one makes do with its own thread.
        let Ok(_turn) = self.turn.try_lock() else { return completes(body) };
        // SAFETY: only the lifetime changes; `close` below waits for the workers before the borrow
        // ends.
        let body_of_workers = unsafe { std::mem::transmute::<*const Body<'_>, *const Body<'static>>(body) };
        let job = Job { body: body_of_workers, processor: processor::current() };
        if self.shared.open(job) {
            // One that was put behind this thread runs now, and moves to another processor.
            std::thread::yield_now();
        }
        let fine = completes(body);
        self.shared.close() && fine
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.open.store(true, Ordering::Release);
        self.shared.arrived.notify_all();
        for worker in self.workers.drain(..) {
            // A worker's panics are caught inside.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets workers in. Gives whether some slept.
    fn open(&self, job: Job) -> bool {
        let mut state = self.lock();
        state.job = Some(job);
        state.number += 1;
        state.panicked = false;
        let sleepers = state.asleep > 0;
        self.open.store(true, Ordering::Release);
        drop(state);
        if sleepers {
            self.arrived.notify_all();
        }
        sleepers
    }

    /// Lets no more workers in and waits for those inside. Gives whether none of them panicked.
    fn close(&self) -> bool {
        let mut state = self.lock();
        state.job = None;
        self.open.store(false, Ordering::Release);
        while state.inside > 0 {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.panicked
    }

    fn work(&self) {
        let mut done = 0;
        while let Some((job, number)) = self.next(done) {
            done = number;
            // The scheduler may have put this thread behind the one that asks, though another
            // processor is idle: each would wait for the other to be done, for many jobs.
            if let Some(asking) = job.processor.filter(|_| processor::current() == job.processor) {
                processor::leave(asking);
            }
            // SAFETY: this worker is counted as inside, so `run` has not returned and the body
            // lives.
            let fine = completes(unsafe { &*job.body });
            let mut state = self.lock();
            state.inside -= 1;
            state.panicked |= !fine;
            drop(state);
            self.left.notify_all();
        }
    }

    /// Waits for a job after number `done` and enters it; nothing when the pool ends.
    fn next(&self, done: u64) -> Option<(Job, u64)> {
        for _ in 0..SPINS {
            if self.open.load(Ordering::Acquire) {
                break;
            }
            std::hint::spin_loop();
        }
        let mut state = self.lock();
        loop {
            if state.ends {
                return None;
            }
            match state.job {
                Some(job) if state.number != done => {
                    state.inside += 1;
                    return Some((job, state.number));
                }
                _ => {
                    state.asleep += 1;
                    state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.asleep -= 1;
                }
            }
        }
    }
}

/// Calls a body; false if it panicked.
fn completes(body: &Body<'_>) -> bool {
    let before = INSIDE.replace(true);
    let fine = catch_unwind(AssertUnwindSafe(body)).is_ok();
    INSIDE.set(before);
    fine
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn sum(pool: &Pool, n: u64) -> u64 {
        let (next, total) = (AtomicU64::new(0), AtomicU64::new(0));
        let fine = pool.run(&|| {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= n {
                    break;
                }
                total.fetch_add(i, Ordering::Relaxed);
            }
        });
        assert!(fine);
        total.into_inner()
    }

    #[test]
    fn every_piece_is_done_once_in_many_jobs() {
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads);
            assert_eq!(pool.threads(), threads);
            for n in 0..300 {
                assert_eq!(sum(&pool, n), n * n.saturating_sub(1) / 2);
            }
        }
    }

    #[test]
    fn jobs_inside_jobs_and_from_several_threads() {
        let pool = Pool::new(3);
        let total = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        total.fetch_add(sum(&pool, 100), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4 * 50 * 4950);
        assert!(pool.run(&|| assert_eq!(sum(&pool, 10), 45)));
    }

    #[test]
    fn a_panic_is_reported_and_the_pool_goes_on() {
        let pool = Pool::new(2);
        assert!(!pool.run(&|| std::panic::resume_unwind(Box::new(1))));
        assert_eq!(sum(&pool, 10), 45);
    }
}
