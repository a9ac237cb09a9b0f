//! Events: points in a stream that the host and other streams can wait for and take the time of.

use super::context::Context;
use super::error::Result;
use super::ffi::{self, EventHandle, Status};
use super::stream::Stream;
use std::time::Duration;

/// A point in a stream. One that was never recorded has passed.
pub struct Event {
    context: Context,
    handle: EventHandle,
}

impl Event {
    /// An event for ordering. It takes no time, which makes it cheaper to record.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn new(context: &Context) -> Result<Event> {
        Event::with_flags(context, ffi::EVENT_DISABLE_TIMING)
    }

    /// An event that takes the device's time, for [`Event::since`].
    ///
    /// # Errors
    /// Those of the calls.
    pub fn timing(context: &Context) -> Result<Event> {
        Event::with_flags(context, 0)
    }

    /// An event for ordering for whose passing a host thread sleeps and does not spin: later to
    /// wake, and free for other threads meanwhile.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn sleeping(context: &Context) -> Result<Event> {
        Event::with_flags(context, ffi::EVENT_DISABLE_TIMING | ffi::EVENT_BLOCKING_SYNC)
    }

    fn with_flags(context: &Context, flags: u32) -> Result<Event> {
        context.bind()?;
        let mut handle = EventHandle::NULL;
        // SAFETY: `handle` is writable.
        unsafe { context.api().cuEventCreate(&mut handle, flags) }?;
        Ok(Event { context: context.clone(), handle })
    }

    /// The driver's own handle.
    pub fn handle(&self) -> EventHandle {
        self.handle
    }

    /// Moves the event behind all work now in the stream.
    ///
    /// # Errors
    /// Those of the calls, among them a stream of another context.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.context.bind()?;
        // SAFETY: event and stream are live.
        unsafe { self.context.api().cuEventRecord(self.handle, stream.handle()) }
    }

    /// Whether the point has been reached.
    ///
    /// # Errors
    /// Those of the calls, and of the work before it.
    pub fn has_passed(&self) -> Result<bool> {
        self.context.bind()?;
        let api = self.context.api();
        // SAFETY: the event is live.
        match unsafe { (api.cuEventQuery)(self.handle) } {
            Status::NOT_READY => Ok(false),
            status => api.check("cuEventQuery", status).map(|()| true),
        }
    }

    /// Waits until the point has been reached.
    ///
    /// # Errors
    /// Those of the calls, and of the work before it.
    pub fn synchronize(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the event is live.
        unsafe { self.context.api().cuEventSynchronize(self.handle) }
    }

    /// The device's time between two timing events that have passed, to about half a microsecond.
    ///
    /// # Errors
    /// Those of the calls: an event that takes no time, was not recorded, or has not passed.
    pub fn since(&self, start: &Event) -> Result<Duration> {
        self.context.bind()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are live, `milliseconds` is writable.
        unsafe { self.context.api().cuEventElapsedTime(&mut milliseconds, start.handle, self.handle) }?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) * 1e-3).unwrap_or_default())
    }
}

impl Stream {
    /// Makes later work in this stream wait until `event` has passed. The host does not wait.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.context().bind()?;
        // SAFETY: stream and event are live.
        unsafe { self.context().api().cuStreamWaitEvent(self.handle(), event.handle(), 0) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: made by `with_flags`, destroyed here alone. A failure cannot be reported.
            let _ = unsafe { self.context.api().cuEventDestroy_v2(self.handle) };
        }
    }
}
