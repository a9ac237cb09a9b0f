//! Streams and events: order between launches.

use crate::activity::DeviceTime;
use crate::device::Device;
use crate::error::{Error, Result};
use kiln_backend::{EventId, StreamId, StreamPriority};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// A queue of work on a device. Work in one stream happens in order; tensors order the streams that
/// share them by themselves.
///
/// Dropping a stream waits for nothing: the backend's stream goes when the last tensor that was
/// used in it is done with it.
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
    queue: Queue,
}

impl Device {
    /// A new stream on this device.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let (uploads, work) = (device.stream()?, device.stream()?);
    /// assert_ne!(uploads.id(), work.id());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn stream(&self) -> Result<Stream> {
        let id = self.backend().create_stream()?;
        let queue = Queue(Some(Arc::new(OwnedStream { device: self.clone(), id })));
        Ok(Stream { device: self.clone(), queue })
    }
}

impl Device {
    /// A new stream with a priority: where work of several streams waits, that of a high priority
    /// begins first. On devices that do their work within the calls, there is nothing to put first.
    ///
    /// ```
    /// use kiln_runtime::{Device, StreamPriority};
    /// let device = Device::open("interp")?;
    /// let urgent = device.stream_with_priority(StreamPriority::High)?;
    /// urgent.synchronize()?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`kiln_backend::Error::Unavailable`] on a device without priorities, as through `wgpu`.
    pub fn stream_with_priority(&self, priority: StreamPriority) -> Result<Stream> {
        let id = self.backend().need_stream_controls()?.create_stream_of(priority)?;
        let queue = Queue(Some(Arc::new(OwnedStream { device: self.clone(), id })));
        Ok(Stream { device: self.clone(), queue })
    }
}

impl Stream {
    /// Calls a function of the host after all work now in the stream; its later work begins after
    /// the function has returned. The host does not wait for it here.
    ///
    /// The function may run in a thread of the driver's: it must be short, and must not use the
    /// device, which includes dropping the last handle of a tensor. Send to a channel, set a flag,
    /// wake a task. If it panics, the panic ends there.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let stream = Device::open("interp")?.stream()?;
    /// let (done, is_done) = std::sync::mpsc::channel();
    /// // … launches with `.on(&stream)` …
    /// stream.call(move || _ = done.send("the launches are over"))?;
    /// assert_eq!(is_done.recv(), Ok("the launches are over"));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`kiln_backend::Error::Unavailable`] on a device that calls nothing, as through `wgpu`.
    #[track_caller]
    pub fn call(&self, f: impl FnOnce() + Send + 'static) -> Result<()> {
        self.device.check_not_capturing("a function of the host was called", Location::caller())?;
        // On every device alike.
        let contained = move || _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        Ok(self.device.backend().need_stream_controls()?.call_host(self.id(), Box::new(contained))?)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The backend's name of the stream.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let (one, other) = (device.stream()?, device.stream()?);
    /// assert_ne!(one.id(), other.id());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn id(&self) -> StreamId {
        self.queue.id()
    }

    /// What the driver knows the stream by, for work of other libraries in it: a `CUstream`, which
    /// is a `cudaStream_t` too, on an NVIDIA GPU; `None` on a device without a driver.
    /// [`Tensor::as_device_mut_ptr_on`](crate::Tensor::as_device_mut_ptr_on) orders such work with
    /// Kiln's. The handle is valid for as long as the stream.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// assert_eq!(Device::open("cpu")?.stream()?.raw_handle()?, None);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`kiln_backend::Error::Unavailable`] on a device whose streams this process does not have:
    /// through `wgpu`, or `isolated:`.
    pub fn raw_handle(&self) -> Result<Option<u64>> {
        Ok(self.device.backend().need_raw_memory()?.stream_handle(self.id()))
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Waits for all work of the stream and reports the first fault in it.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let stream = Device::open("interp")?.stream()?;
    /// // … launches with `.on(&stream)` …
    /// stream.synchronize()?; // they are over; those of other streams may not be
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.device.check_not_capturing("a stream was waited for", Location::caller())?;
        self.device.waited(self.device.backend().synchronize(self.id()))
    }

    /// A point after all work now in the stream, which can be timed.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let stream = Device::open("interp")?.stream()?;
    /// let done = stream.record()?;
    /// stream.synchronize()?;
    /// assert!(done.is_reached()?);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    #[track_caller]
    pub fn record(&self) -> Result<Event> {
        self.device.check_not_capturing("an event was recorded", Location::caller())?;
        Event::record(&self.device, self.id())
    }

    /// Makes later work of this stream wait for the event.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let device = Device::open("interp")?;
    /// let (first, second) = (device.stream()?, device.stream()?);
    /// let ready = first.record()?;
    /// second.wait(&ready)?; // what `second` is given from now on runs after that
    /// second.synchronize()?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongDevice`] if the event is of another device.
    #[track_caller]
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device.check_not_capturing("a stream was to wait for an event", Location::caller())?;
        same_device("the event", &event.device, &self.device)?;
        Ok(self.device.backend().wait(self.id(), event.id)?)
    }
}

pub(crate) fn same_device(what: &str, found: &Device, expected: &Device) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (found.id().to_owned(), expected.id().to_owned());
    Err(Error::WrongDevice { what: what.to_owned(), found, expected })
}

/// A stream of the backend, alive as long as a [`Stream`] or a buffer whose work is in it refers to
/// it. `None` is the device's default stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue(Option<Arc<OwnedStream>>);

#[derive(Debug)]
struct OwnedStream {
    device: Device,
    id: StreamId,
}

impl Queue {
    pub(crate) fn id(&self) -> StreamId {
        self.0.as_ref().map_or(StreamId::default(), |owned| owned.id)
    }

    /// Waits for all work now in the stream of a device, without reporting its faults.
    pub(crate) fn wait(&self, device: &Device) -> Result<()> {
        Event::record(device, self.id())?.wait()
    }

    /// The device; `None` for the default stream, which every device has.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.0.as_ref().map(|owned| &owned.device)
    }
}

impl Drop for OwnedStream {
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
    ///
    /// ```
    /// use kiln_runtime::{Device, Event};
    /// let device = Device::open("interp")?;
    /// let event = Event::now(&device)?;
    /// device.synchronize()?;
    /// assert!(event.is_reached()?);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    #[track_caller]
    pub fn now(device: &Device) -> Result<Event> {
        device.check_not_capturing("an event was recorded", Location::caller())?;
        Event::record(device, StreamId::default())
    }

    /// Waits until it is reached, without reporting faults.
    pub(crate) fn wait(&self) -> Result<()> {
        while !self.is_reached()? {
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    pub(crate) fn record(device: &Device, stream: StreamId) -> Result<Event> {
        Ok(Event { device: device.clone(), id: device.backend().record(stream, true)? })
    }

    /// Whether the work before it is done.
    ///
    /// ```
    /// use kiln_runtime::{Device, Event};
    /// let device = Device::open("interp")?;
    /// let event = Event::now(&device)?;
    /// while !event.is_reached()? {
    ///     std::thread::yield_now(); // or do something else meanwhile
    /// }
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn is_reached(&self) -> Result<bool> {
        Ok(self.device.backend().query(self.id)?)
    }

    /// The device's time between two events that have been reached.
    ///
    /// ```
    /// use kiln_runtime::{Device, Event};
    /// let device = Device::open("interp")?;
    /// let before = Event::now(&device)?;
    /// // … launches …
    /// let after = Event::now(&device)?;
    /// device.synchronize()?;
    /// assert!(after.milliseconds_since(&before)? >= 0.0);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongDevice`] if they are of two devices.
    pub fn milliseconds_since(&self, earlier: &Event) -> Result<f32> {
        same_device("the earlier event", &earlier.device, &self.device)?;
        Ok(self.device.backend().elapsed_ms(earlier.id, self.id)?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.device.backend().destroy_event(self.id);
    }
}

/// Events before and after a launch.
impl DeviceTime for (Event, Event) {
    fn elapsed(&self) -> Result<Option<Duration>> {
        let (before, after) = self;
        if !after.is_reached()? {
            return Ok(None);
        }
        let milliseconds = f64::from(after.milliseconds_since(before)?);
        Ok(Some(Duration::from_secs_f64(milliseconds.max(0.0) / 1000.0)))
    }
}
