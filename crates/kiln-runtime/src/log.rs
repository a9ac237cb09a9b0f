//! The log of one call of the runtime: the activities that observers receive, and when.
//!
//! Activities are collected in a [`Log`] while a call of the runtime holds its locks, and delivered
//! when the call has let go of them: an observer may use devices and tensors itself. Nothing is
//! collected without observers.

use crate::activity::{Activity, AllocateActivity, CallSite, CopyActivity, CopyKind, FreeActivity};
use crate::device::Device;
use crate::error::Result;
use crate::observe::is_observed;
use kiln_backend::{DevicePtr, StreamId};
use std::cell::Cell;
use std::time::Duration;
use web_time::Instant;

thread_local! {
    /// Whether this thread is in an observer: what that does is not observed.
    static DELIVERING: Cell<bool> = const { Cell::new(false) };
}

/// The activities of one call of the runtime. It is declared before the call takes a lock, so that
/// it is dropped, which delivers them, after the locks are released.
pub(crate) struct Log {
    site: CallSite,
    collected: Vec<(Device, Activity)>,
}

impl Log {
    /// For a call at this place of the user's source.
    #[inline]
    pub(crate) fn at(site: CallSite) -> Log {
        Log { site, collected: Vec::new() }
    }

    pub(crate) fn site(&self) -> CallSite {
        self.site
    }

    /// Whether an observer receives this thread's activities.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        is_observed() && !DELIVERING.try_with(Cell::get).unwrap_or(true)
    }

    pub(crate) fn add(&mut self, device: &Device, activity: Activity) {
        self.collected.push((device.clone(), activity));
    }

    /// Runs a call of the device, and says when it began and how long it took if it is of interest.
    fn timed<R>(&self, call: impl FnOnce() -> Result<R>) -> Result<(R, Option<(Instant, Duration)>)> {
        let start = self.is_on().then(Instant::now);
        let result = call()?;
        Ok((result, start.map(|start| (start, start.elapsed()))))
    }

    /// Runs a copy and logs it.
    pub(crate) fn copy(
        &mut self,
        device: &Device,
        copy: (CopyKind, usize, StreamId),
        call: impl FnOnce() -> kiln_backend::Result<()>,
    ) -> Result<()> {
        let start = self.is_on().then(Instant::now);
        device.waited(call())?;
        if let Some(start) = start {
            self.copied(device, copy, start);
        }
        Ok(())
    }

    /// Logs a copy that is over.
    #[cold]
    pub(crate) fn copied(
        &mut self,
        device: &Device,
        (kind, bytes, stream): (CopyKind, usize, StreamId),
        start: Instant,
    ) {
        if self.is_on() {
            let (id, call_site, duration) = (device.shared_id(), self.site, start.elapsed());
            let copy = CopyActivity { device: id, kind, bytes, stream, call_site, start, duration };
            self.add(device, Activity::Copy(copy));
        }
    }

    /// Allocates and logs it.
    pub(crate) fn allocate(&mut self, device: &Device, bytes: usize, stream: StreamId) -> Result<DevicePtr> {
        let backend = device.backend();
        let reserved = || backend.diagnostics()?.pool_reserved();
        let pool = if self.is_on() { reserved() } else { None };
        let (ptr, time) = self.timed(|| Ok(backend.allocate(bytes, stream)?))?;
        if let Some((start, duration)) = time {
            let grown = pool.zip(reserved());
            let allocation = AllocateActivity {
                device: device.shared_id(),
                address: ptr.0,
                bytes,
                pool_hit: grown.map(|(before, after)| after <= before),
                call_site: self.site,
                start,
                duration,
            };
            self.add(device, Activity::Allocate(allocation));
        }
        Ok(ptr)
    }

    /// Frees and logs it.
    pub(crate) fn free(&mut self, device: &Device, (ptr, bytes): (DevicePtr, usize), call: impl FnOnce()) {
        let start = self.is_on().then(Instant::now);
        call();
        if let Some(start) = start {
            let (id, call_site, duration) = (device.shared_id(), self.site, start.elapsed());
            let free = FreeActivity { device: id, address: ptr.0, bytes, call_site, start, duration };
            self.add(device, Activity::Free(free));
        }
    }

    #[cold]
    fn deliver(&mut self) {
        for (device, activity) in std::mem::take(&mut self.collected) {
            // Set anew each time: what is dropped here may be a device, or a tensor.
            let before = DELIVERING.try_with(|delivering| delivering.replace(true));
            device.observers().deliver(&activity);
            if let Ok(before) = before {
                let _ = DELIVERING.try_with(|delivering| delivering.set(before));
            }
        }
    }
}

impl Drop for Log {
    #[inline]
    fn drop(&mut self) {
        if !self.collected.is_empty() {
            self.deliver();
        }
    }
}
