//! Measuring how long the device takes.

use super::context::Context;
use super::error::Result;
use super::event::Event;
use super::stream::Stream;
use std::time::Duration;

/// Takes the device's time of the work between two points of a stream.
///
/// ```no_run
/// use kiln_cuda::driver::{Context, Stream, Timer};
/// # fn main() -> Result<(), kiln_cuda::driver::CudaError> {
/// let context = Context::new(0)?;
/// let stream = Stream::new(&context)?;
/// let timer = Timer::start(&stream)?;
/// // launches
/// println!("{:?}", timer.stop(&stream)?);
/// # Ok(())
/// # }
/// ```
pub struct Timer {
    start: Event,
    end: Event,
}

impl Timer {
    /// Starts at the work that follows in the stream.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn start(stream: &Stream) -> Result<Timer> {
        let timer = Timer::idle(stream.context())?;
        timer.start.record(stream)?;
        Ok(timer)
    }

    /// A timer for many intervals: its events are made once.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn idle(context: &Context) -> Result<Timer> {
        Ok(Timer { start: Event::timing(context)?, end: Event::timing(context)? })
    }

    /// Starts again.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn restart(&self, stream: &Stream) -> Result<()> {
        self.start.record(stream)
    }

    /// Ends after the work now in the stream, waits for it, and returns the time.
    ///
    /// # Errors
    /// Those of the calls, and of the work.
    pub fn stop(&self, stream: &Stream) -> Result<Duration> {
        self.end.record(stream)?;
        self.end.synchronize()?;
        self.end.since(&self.start)
    }
}
