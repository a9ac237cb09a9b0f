//! Waiting for a device without blocking the thread.
//!
//! A backend whose work can be awaited does it itself ([`kiln_backend::Asynchronous`]); for the
//! others, a thread makes the call that blocks.

use crate::activity::CallSite;
use crate::device::Device;
use crate::error::Result;
use crate::stream::{Queue, Stream};
use kiln_backend::on_thread;
use std::future::{Future, ready};
use std::panic::Location;
use std::pin::Pin;

/// A result of the runtime's that comes later.
pub(crate) type Awaited<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What is known already.
pub(crate) fn at_once<'a, T: Send + 'a>(result: Result<T>) -> Awaited<'a, T> {
    Box::pin(ready(result))
}

/// What a call on another thread gives.
pub(crate) fn after<'a, T: Send + 'a>(
    call: impl Future<Output = kiln_backend::Result<Result<T>>> + Send + 'a,
) -> Awaited<'a, T> {
    Box::pin(async move { call.await? })
}

impl Device {
    /// Waits for all work that is on the default stream now, without blocking the thread that
    /// awaits it.
    ///
    /// A page in a browser waits in this way alone. On other systems any executor will do; a thread
    /// of Kiln's waits meanwhile.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// # pollster::block_on(async {
    /// let device = Device::open_async("interp").await?;
    /// device.synchronize_async().await
    /// # })?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`synchronize`](Self::synchronize). A fault goes with the future if that is dropped.
    #[track_caller]
    pub fn synchronize_async(&self) -> impl Future<Output = Result<()>> + Send {
        synchronize(self, &Queue::default(), Location::caller())
    }
}

impl Stream {
    /// [`synchronize`](Self::synchronize) without blocking the thread that awaits it, for what is
    /// in the stream now. [`Device::synchronize_async`] says more.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let stream = Device::open("interp")?.stream()?;
    /// # pollster::block_on(async {
    /// stream.synchronize_async().await
    /// # })?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`synchronize`](Self::synchronize).
    #[track_caller]
    pub fn synchronize_async(&self) -> impl Future<Output = Result<()>> + Send {
        synchronize(self.device(), self.queue(), Location::caller())
    }
}

fn synchronize<'a>(device: &'a Device, queue: &Queue, site: CallSite) -> Awaited<'a, ()> {
    let capturing = || device.check_not_capturing("the device was waited for", site);
    if let Err(error) = device.check_not_printing().and_then(|()| capturing()) {
        return at_once(Err(error));
    }
    if let Some(backend) = device.backend().asynchronous() {
        let later = backend.synchronize_later(queue.id());
        return Box::pin(async move { device.waited(later.await) });
    }
    let (device, queue) = (device.clone(), queue.clone());
    after(on_thread(move || device.waited(device.backend().synchronize(queue.id()))))
}
