//! wgpu's device and queue, with errors as values.

use super::adapter;
use super::status::Status;
use crate::features::Features;
use kiln_backend::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// An opened adapter.
pub(crate) struct Gpu {
    /// The name of the device, such as `wgpu:0`.
    pub(crate) id: String,
    pub(crate) info: wgpu::AdapterInfo,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: wgpu::Limits,
    /// What code may use.
    pub(crate) features: Features,
    /// Whether events are times of the device.
    pub(crate) has_timestamps: bool,
    /// Bytes of device memory.
    pub(crate) memory: u64,
    pub(crate) status: Arc<Status>,
}

/// What a call of wgpu came to that an error scope was around.
pub(crate) enum Scoped<T> {
    Done(T),
    OutOfMemory,
    Refused(String),
}

impl Gpu {
    /// Opens the adapter that a name asks for, with all its limits.
    pub(crate) fn open(name: &str) -> Result<Gpu> {
        let (number, adapter) = adapter::find(name)?;
        let (id, info, limits) = (adapter::id(number), adapter.get_info(), adapter.limits());
        let has = adapter::wanted(&adapter);
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("kiln"),
            required_features: has,
            required_limits: limits.clone(),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = pollster::block_on(adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(|error| Error::Unavailable {
            device: id.clone(),
            reason: format!("{} does not open: {error}", info.name),
            hint: "Update the GPU's driver, or choose another device: `kiln doctor` lists them.".to_owned(),
        })?;
        let status = Arc::new(Status::default());
        watch(&device, &status);
        Ok(Gpu {
            features: adapter::code_features(has, &info),
            has_timestamps: has.contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS),
            memory: super::memory::device_memory(&adapter).unwrap_or(limits.max_buffer_size),
            id,
            info,
            device,
            queue,
            limits,
            status,
        })
    }

    /// An error where the device was lost, or where an earlier call failed later on.
    pub(crate) fn check(&self) -> Result<()> {
        self.status.check(&self.id)
    }

    /// Makes something of wgpu's, with the error it had.
    pub(crate) fn scoped<T>(&self, make: impl FnOnce() -> T) -> Scoped<T> {
        let [memory, validation, internal] =
            [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::Internal]
                .map(|filter| self.device.push_error_scope(filter));
        let made = make();
        let errors = [internal, validation, memory].map(|scope| pollster::block_on(scope.pop()));
        match errors.into_iter().flatten().next() {
            None => Scoped::Done(made),
            Some(wgpu::Error::OutOfMemory { .. }) => Scoped::OutOfMemory,
            Some(error) => Scoped::Refused(error.to_string()),
        }
    }

    /// Calls back what is done, without waiting.
    pub(crate) fn poll(&self) -> Result<()> {
        self.poll_for(wgpu::PollType::Poll)
    }

    /// Waits for a submission and all before it.
    pub(crate) fn wait(&self, submission: wgpu::SubmissionIndex) -> Result<()> {
        self.poll_for(wgpu::PollType::Wait { submission_index: Some(submission), timeout: None::<Duration> })
    }

    fn poll_for(&self, what: wgpu::PollType) -> Result<()> {
        self.check()?;
        // wgpu 30 panics where the device is lost while it waits. It holds no lock of ours, and
        // `check` finds the loss.
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(what)));
        match polled {
            Ok(Ok(_)) => self.check(),
            Ok(Err(error)) => Err(refused("poll", error.to_string())),
            Err(_) => {
                self.status.lose("the driver failed while work was waited for".to_owned());
                self.check()
            }
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Not a loss that anybody would hear of.
        self.device.set_device_lost_callback(|_, _| ());
    }
}

/// The error of a call that wgpu or the driver refused.
pub(crate) fn refused(call: &str, message: String) -> Error {
    Error::Driver { call: format!("wgpu: {call}"), code: "error".to_owned(), message }
}

/// Lets wgpu report to the status what it cannot report to a caller.
fn watch(device: &wgpu::Device, status: &Arc<Status>) {
    let (errors, losses) = (status.clone(), status.clone());
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        errors.keep(refused("recorded work", error.to_string()));
    }));
    device.set_device_lost_callback(move |reason, message| {
        let why = match reason {
            wgpu::DeviceLostReason::Destroyed => "it was destroyed",
            wgpu::DeviceLostReason::Unknown => "the driver gave it up",
        };
        losses.lose(if message.is_empty() { why.to_owned() } else { format!("{why} ({message})") });
    });
}
