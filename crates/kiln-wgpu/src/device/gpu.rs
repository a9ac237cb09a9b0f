//! wgpu's device and queue, with errors as values.

use super::adapter;
use super::late::{LateErrors, Refusal};
use super::status::Status;
use super::vulkan;
use crate::features::Features;
use kiln_backend::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
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
    /// Whether a pass can go on where such a time is taken.
    pub(crate) has_timestamps_in_passes: bool,
    /// Bytes of device memory.
    pub(crate) memory: u64,
    pub(crate) status: Arc<Status>,
    /// What is known of errors only when it is awaited.
    pub(crate) late: LateErrors,
}

impl Gpu {
    /// Opens the adapter that a name asks for, with all its limits.
    pub(crate) async fn open(name: &str) -> Result<Gpu> {
        let (number, adapter) = adapter::find(name).await?;
        let (id, info, limits) = (adapter::id(number), adapter.get_info(), adapter.limits());
        let float_modes = vulkan::float_modes(&adapter);
        let mut has = adapter::wanted(number, &adapter)?;
        has.set(
            wgpu::Features::PASSTHROUGH_SHADERS,
            has.contains(wgpu::Features::PASSTHROUGH_SHADERS) && float_modes.is_some(),
        );
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("kiln"),
            required_features: has,
            required_limits: limits.clone(),
            experimental_features: experimental(has),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = adapter.request_device(&descriptor).await;
        let (device, queue) = opened.map_err(|error| Error::Unavailable {
            device: id.clone(),
            reason: format!("{} does not open: {error}", info.name),
            hint: "Update the GPU's driver, or choose another device: `kiln doctor` lists them.".to_owned(),
        })?;
        let status = Arc::new(Status::default());
        watch(&device, &status);
        Ok(Gpu {
            features: adapter::code_features(has, &adapter, &limits, float_modes),
            has_timestamps: has.contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS),
            has_timestamps_in_passes: has.contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES),
            memory: super::memory::device_memory(&adapter).unwrap_or(limits.max_buffer_size),
            id,
            info,
            device,
            queue,
            limits,
            status,
            late: LateErrors::default(),
        })
    }

    /// Whether what the driver makes of kernels can be kept.
    pub(crate) fn has_pipeline_caches(&self) -> bool {
        self.device.features().contains(wgpu::Features::PIPELINE_CACHE)
    }

    /// An error where the device was lost, or where an earlier call failed later on.
    pub(crate) fn check(&self) -> Result<()> {
        self.status.check(&self.id)
    }

    /// Makes something of wgpu's. `explain` makes an error of why it failed, which a browser says
    /// later: [`LateErrors`] has it then.
    pub(crate) fn scoped<T>(
        &self,
        make: impl FnOnce() -> T,
        explain: impl FnOnce(Refusal) -> Error + Send + 'static,
    ) -> Result<T> {
        let [memory, validation, internal] =
            [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::Internal]
                .map(|filter| self.device.push_error_scope(filter));
        let made = make();
        self.late.found([internal, validation, memory].map(wgpu::ErrorScopeGuard::pop), explain)?;
        Ok(made)
    }

    /// Refuses a call that would wait for the device where nothing may wait.
    pub(crate) fn may_wait(&self, call: &'static str, instead: &'static str) -> Result<()> {
        match cfg!(target_family = "wasm") {
            true => Err(Error::CannotWait { device: self.id.clone(), call, instead }),
            false => Ok(()),
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

    /// Waits for the outcome of a mapping whose submission is done. What calls back is a poll, and
    /// that of another thread may have taken the call with it and not have made it yet.
    pub(crate) fn arrived(
        &self,
        outcome: &Receiver<std::result::Result<(), wgpu::BufferAsyncError>>,
    ) -> Result<()> {
        loop {
            match outcome.try_recv() {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => return Err(refused("map_async", error.to_string())),
                Err(TryRecvError::Disconnected) => {
                    return Err(refused("map_async", "it was given up".to_owned()));
                }
                Err(TryRecvError::Empty) => {
                    self.may_wait("a read", "an asynchronous one")?;
                    self.poll()?;
                    std::thread::yield_now();
                }
            }
        }
    }

    fn poll_for(&self, what: wgpu::PollType) -> Result<()> {
        self.check()?;
        poll(&self.device, &self.status, what)?;
        self.check()
    }

    /// Has a submission and all before it called back when they are done. A browser does so by
    /// itself; elsewhere a thread waits for it.
    pub(crate) fn call_back(&self, submission: Option<wgpu::SubmissionIndex>) -> Result<()> {
        if cfg!(target_family = "wasm") {
            return Ok(());
        }
        let (device, status) = (self.device.clone(), self.status.clone());
        let what = wgpu::PollType::Wait { submission_index: submission, timeout: None::<Duration> };
        let wait = move || {
            if let Err(error) = poll(&device, &status, what) {
                status.keep(error);
            }
        };
        let started = std::thread::Builder::new().name("kiln-wgpu".to_owned()).spawn(wait);
        started.map(drop).map_err(|error| refused("starting a thread that waits", error.to_string()))
    }
}

/// wgpu's permission for matrices, which it calls experimental.
fn experimental(has: wgpu::Features) -> wgpu::ExperimentalFeatures {
    match has.intersects(wgpu::Features::all_experimental_mask()) {
        // SAFETY: the only such feature that is asked for is that of matrices. It adds types and
        // operations to shaders, of which wgpu sees none: Kiln writes them, and gives the driver
        // what the specification of its extension allows.
        true => unsafe { wgpu::ExperimentalFeatures::enabled() },
        false => wgpu::ExperimentalFeatures::disabled(),
    }
}

/// Polls a device. Where it is lost, the status says so.
fn poll(device: &wgpu::Device, status: &Status, what: wgpu::PollType) -> Result<()> {
    // wgpu 30 panics where the device is lost while it waits. It holds no lock of ours.
    match catch_unwind(AssertUnwindSafe(|| device.poll(what))) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(refused("poll", error.to_string())),
        Err(_) => {
            status.lose("the driver failed while work was waited for".to_owned());
            Ok(())
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
