//! Those who wait for a channel without a thread of their own: wakers of futures.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What a future waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Room for a message.
    Room,
    /// A reply to receive.
    Reply {
        /// Also one to a message that is yet to be sent, or that the actor holds.
        sent_later: bool,
    },
    /// The answer to the request in this position.
    Answer(u64),
}

/// The wakers of a channel.
#[derive(Debug, Default)]
pub struct Wakers {
    /// The length of the list: mostly zero, and then the lock is not taken.
    count: AtomicUsize,
    list: Mutex<Vec<Entry>>,
    tickets: AtomicU64,
    /// Whether the poller polls the channel.
    watched: AtomicBool,
}

#[derive(Debug)]
struct Entry {
    ticket: u64,
    awaited: Awaited,
    waker: Waker,
}

impl Wakers {
    fn list(&self) -> MutexGuard<'_, Vec<Entry>> {
        // Every change is complete before anything can panic.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no task waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    /// Adds a waker, or replaces the one that was added with this ticket; returns its ticket. The
    /// waiting task polls once more after this.
    pub fn add(&self, ticket: Option<u64>, awaited: Awaited, waker: &Waker) -> u64 {
        let mut list = self.list();
        let found = ticket.and_then(|ticket| list.iter_mut().find(|e| e.ticket == ticket));
        if let Some(entry) = found {
            entry.awaited = awaited;
            entry.waker.clone_from(waker);
            return entry.ticket;
        }
        let ticket = self.tickets.fetch_add(1, Relaxed);
        list.push(Entry { ticket, awaited, waker: waker.clone() });
        self.count.store(list.len(), SeqCst);
        ticket
    }

    /// Takes a waker back.
    pub fn remove(&self, ticket: u64) {
        let mut list = self.list();
        list.retain(|e| e.ticket != ticket);
        self.count.store(list.len(), SeqCst);
    }

    /// Wakes, and removes, those whose wait is over; whether there were any.
    pub fn wake(&self, is_over: impl Fn(Awaited) -> bool) -> bool {
        let mut list = self.list();
        let over: Vec<Entry> = list.extract_if(.., |e| is_over(e.awaited)).collect();
        self.count.store(list.len(), SeqCst);
        // A waker may run the future at once, which takes the lock.
        drop(list);
        let any = !over.is_empty();
        over.into_iter().for_each(|e| e.waker.wake());
        any
    }

    // ---- the poller

    /// Whether the channel must be registered with the poller: the caller does so.
    pub fn begin_watching(&self) -> bool {
        !self.watched.swap(true, SeqCst)
    }

    /// The channel is no longer polled.
    pub fn stop_watching(&self) {
        self.watched.store(false, SeqCst);
    }

    /// Stops polling if no task waits.
    pub fn is_unwatched(&self) -> bool {
        if !self.is_empty() {
            return false;
        }
        self.stop_watching();
        // Another task may have come since; then one of the two continues to watch.
        self.is_empty() || !self.begin_watching()
    }
}
