//! Room for streams.
//!
//! The driver has room for some streams of a new context. For one beyond them it waits until every
//! kernel of the context has ended, and then there is room for more of any priority, which streams
//! that are destroyed leave to others. So the streams are counted: who must not wait asks for a
//! place first. (`examples/resident_check streams` shows which stream waits. Streams that other
//! libraries make in the context are not counted.)

use super::context::Context;
use super::error::Result;
use super::stream::Stream;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Two numbers, each changed at once, so a panic elsewhere leaves them usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place for a stream of a context, which is free again when this drops.
pub struct StreamPlace {
    context: Context,
    /// Whether the driver has no room for it yet.
    is_new: bool,
}

impl Context {
    /// A place for a stream that is made without waiting for kernels; `None` if the driver would
    /// wait.
    pub fn stream_place(&self) -> Option<StreamPlace> {
        let mut counts = self.stream_room().counts();
        if counts.taken >= counts.room {
            return None;
        }
        counts.taken += 1;
        Some(StreamPlace { context: self.clone(), is_new: false })
    }

    /// Makes room for so many streams more than there are. May wait for all kernels of the context.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn make_stream_room(&self, streams: usize) -> Result<()> {
        (0..streams).map(|_| Stream::new(self)).collect::<Result<Vec<Stream>>>().map(drop)
    }
}

impl StreamPlace {
    /// A place that the driver may have to make room for.
    pub(crate) fn any(context: &Context) -> StreamPlace {
        context.stream_place().unwrap_or_else(|| {
            context.stream_room().counts().taken += 1;
            StreamPlace { context: context.clone(), is_new: true }
        })
    }

    /// Says that its stream was made.
    pub(super) fn is_used(&mut self) {
        if std::mem::take(&mut self.is_new) {
            self.context.stream_room().counts().room += 1;
        }
    }

    /// The context.
    #[inline]
    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.context.stream_room().counts().taken -= 1;
    }
}
