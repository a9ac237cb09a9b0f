//! Room for streams.
//!
//! The driver has room for some streams of a new context. For one beyond them it waits until every
//! kernel of the context has ended, and then there is room for more of any priority, which streams
//! that are destroyed leave to others. So the streams are counted: who must not wait asks for a
//! [place](super::StreamPlace) first. (`examples/resident_check streams` shows which stream waits.
//! Streams that other libraries make in the context are not counted.)

use std::sync::{Mutex, PoisonError};

/// The streams of a context.
#[derive(Default)]
pub(super) struct StreamRoom(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Places that are taken.
    taken: usize,
    /// Places that the driver has made room for.
    room: usize,
}

impl StreamRoom {
    /// Takes a place that there is room for; whether there was one.
    pub(super) fn take(&self) -> bool {
        self.change(|counts| {
            let free = counts.taken < counts.room;
            counts.taken += usize::from(free);
            free
        })
    }

    /// Takes a place that the driver has yet to make room for.
    pub(super) fn take_new(&self) {
        self.change(|counts| counts.taken += 1);
    }

    /// Says that the driver has made room for one more.
    pub(super) fn grow(&self) {
        self.change(|counts| counts.room += 1);
    }

    /// Leaves a place to others.
    pub(super) fn leave(&self) {
        self.change(|counts| counts.taken -= 1);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        // Two numbers, each changed at once, so a panic elsewhere leaves them usable.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
