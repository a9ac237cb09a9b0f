//! Streams: queues of work on a GPU, each in order.

use super::context::Context;
use super::error::{CudaError, Result};
use super::ffi::{self, Status, StreamHandle};
use super::stream_place::StreamPlace;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A function of the host.
type HostCall = Box<dyn FnOnce() + Send>;

/// A queue of work. Clones share it; the last one to drop destroys it, after which the driver still
/// finishes the work in it.
///
/// It is independent of the legacy default stream: nothing is ordered with it implicitly.
#[derive(Clone)]
pub struct Stream(Arc<StreamState>);

struct StreamState {
    handle: StreamHandle,
    /// Free again when the stream is destroyed.
    place: StreamPlace,
}

impl Stream {
    /// A new stream. If there never were as many in the context, the driver may wait for all its
    /// kernels: beside a resident one use [`in_place`](Self::in_place).
    ///
    /// # Errors
    /// Those of the calls.
    pub fn new(context: &Context) -> Result<Stream> {
        Stream::with_priority(context, 0)
    }

    /// A new stream whose waiting blocks go before those of streams of a greater number: 0 is the
    /// lowest priority, -1 and less are higher. Numbers outside the device's range are brought into
    /// it. It may wait as [`new`](Self::new) does.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn with_priority(context: &Context, priority: i32) -> Result<Stream> {
        Stream::in_place(StreamPlace::any(context), priority)
    }

    /// A new stream in a place that there is room for, of a priority as for
    /// [`with_priority`](Self::with_priority). It waits for nothing.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn in_place(mut place: StreamPlace, priority: i32) -> Result<Stream> {
        let context = place.context();
        context.bind()?;
        let mut handle = StreamHandle::NULL;
        // SAFETY: `handle` is writable.
        unsafe { context.api().cuStreamCreateWithPriority(&mut handle, ffi::STREAM_NON_BLOCKING, priority) }?;
        place.is_used();
        Ok(Stream(Arc::new(StreamState { handle, place })))
    }

    /// The context it belongs to.
    #[inline]
    pub fn context(&self) -> &Context {
        self.0.place.context()
    }

    /// The driver's own handle, for other libraries in the process. It lives as long as the stream.
    #[inline]
    pub fn handle(&self) -> StreamHandle {
        self.0.handle
    }

    /// Waits for the work in it.
    ///
    /// # Errors
    /// Those of the calls, and of the work:
    /// [`CudaError::ContextLost`](super::CudaError::ContextLost) if a kernel crashed.
    pub fn synchronize(&self) -> Result<()> {
        self.context().bind()?;
        // SAFETY: the stream is live.
        unsafe { self.context().api().cuStreamSynchronize(self.handle()) }
    }

    /// Whether all its work is done.
    ///
    /// # Errors
    /// Those of the calls, and of the work.
    pub fn is_idle(&self) -> Result<bool> {
        self.context().bind()?;
        let api = self.context().api();
        // SAFETY: the stream is live.
        match unsafe { (api.cuStreamQuery)(self.handle()) } {
            Status::NOT_READY => Ok(false),
            status => api.check("cuStreamQuery", status).map(|()| true),
        }
    }

    /// Calls a function in a thread of the driver's after the work that is in the stream, whose
    /// later work waits until it has returned. The function must not call the driver. A panic of it
    /// ends there.
    ///
    /// # Errors
    /// Those of the calls, after which the function was not called;
    /// [`CudaError::Recording`] while the stream is recorded.
    pub fn call_host(&self, call: Box<dyn FnOnce() + Send>) -> Result<()> {
        unsafe extern "C" fn run(data: *mut c_void) {
            // SAFETY: made below by `into_raw`, and handed to this one call.
            let call = unsafe { Box::from_raw(data.cast::<HostCall>()) };
            // The panic was reported by its hook; there is nobody here to take it.
            let _ = catch_unwind(AssertUnwindSafe(call));
        }
        self.refuse_recording("a call of the host")?;
        let data = Box::into_raw(Box::new(call)).cast::<c_void>();
        // SAFETY: the stream is live, and `run` takes what `data` points to.
        let launched = unsafe { self.context().api().cuLaunchHostFunc(self.handle(), run, data) };
        if launched.is_err() {
            // SAFETY: a call that fails has not taken it.
            drop(unsafe { Box::from_raw(data.cast::<HostCall>()) });
        }
        launched
    }

    /// Whether it is being captured into a graph.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn is_capturing(&self) -> Result<bool> {
        self.context().bind()?;
        let mut status: c_int = 0;
        // SAFETY: the stream is live, `status` is writable.
        unsafe { self.context().api().cuStreamIsCapturing(self.handle(), &mut status) }?;
        Ok(status == ffi::CAPTURE_ACTIVE)
    }
}

impl Stream {
    /// Refuses `what` while the stream is recorded. The driver would take it into the graph, where
    /// it means something else: memory that belongs to the graph, or a copy that reads the host's
    /// memory again at every launch.
    pub(super) fn refuse_recording(&self, what: &'static str) -> Result<()> {
        if self.is_capturing()? { Err(CudaError::Recording { what }) } else { Ok(()) }
    }
}

impl Context {
    /// Makes room for so many streams more than there are. May wait for all kernels of the context.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn make_stream_room(&self, streams: usize) -> Result<()> {
        (0..streams).map(|_| Stream::new(self)).collect::<Result<Vec<Stream>>>().map(drop)
    }
}

impl Drop for StreamState {
    fn drop(&mut self) {
        let context = self.place.context();
        if context.bind().is_ok() {
            // SAFETY: made by `in_place`, destroyed here alone. A failure cannot be reported.
            let _ = unsafe { context.api().cuStreamDestroy_v2(self.handle) };
        }
    }
}
