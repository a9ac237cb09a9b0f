//! Streams and events: order between launches.

use crate::device::Device;
use crate::error::Result;
use kiln_backend::{EventId, StreamId};

/// A queue of work on a device. Work in one stream happens in order; tensors order the streams that share them by themselves.
///
/// ```
/// use kiln_runtime::Device;
/// let device = Device::open("interp")?;
/// let stream = device.stream()?;
/// stream.synchronize()?;
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Stream {
    device: Device,
    id: StreamId,
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Stream> {
        Ok(Stream { device: device.clone(), id: device.backend().create_stream()? })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The backend's name of the stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Waits for all work of the stream and reports the first fault in it.
    pub fn synchronize(&self) -> Result<()> {
        Ok(self.device.backend().synchronize(self.id)?)
    }

    /// A point after all work now in the stream, which can be timed.
    pub fn record(&self) -> Result<Event> {
        Event::record(&self.device, self.id)
    }

    /// Makes later work of this stream wait for the event.
    pub fn wait(&self, event: &Event) -> Result<()> {
        Ok(self.device.backend().wait(self.id, event.id)?)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.device.backend().destroy_stream(self.id);
    }
}

/// A point in a stream.
///
/// ```
/// use kiln_runtime::{Device, Event};
/// let device = Device::open("interp")?;
/// let start = Event::now(&device)?;
/// let end = Event::now(&device)?;
/// device.synchronize()?;
/// assert!(end.is_reached()? && end.milliseconds_since(&start)? >= 0.0);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Event {
    device: Device,
    id: EventId,
}

impl Event {
    /// A point in the device's default stream.
    pub fn now(device: &Device) -> Result<Event> {
        Event::record(device, StreamId::default())
    }

    fn record(device: &Device, stream: StreamId) -> Result<Event> {
        Ok(Event { device: device.clone(), id: device.backend().record(stream, true)? })
    }

    /// Whether the work before it is done.
    pub fn is_reached(&self) -> Result<bool> {
        Ok(self.device.backend().query(self.id)?)
    }

    /// The device's time between two events that have been reached.
    pub fn milliseconds_since(&self, earlier: &Event) -> Result<f32> {
        Ok(self.device.backend().elapsed_ms(earlier.id, self.id)?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.device.backend().destroy_event(self.id);
    }
}
