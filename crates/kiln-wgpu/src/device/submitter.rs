//! Submissions of recordings, and the thread that makes those of full ones.
//!
//! wgpu encodes what a pass has recorded as the encoder is finished, which costs as much as all
//! that Kiln does for a launch. A recording that is full is submitted because it is long, and
//! nobody waits for it. So a thread finishes and submits it while the host records the next one.
//! Whoever needs the queue in order waits until the thread has none left: [`Submitter::settled`].

use super::gpu::Gpu;
use super::status::Status;
#[cfg(not(target_family = "wasm"))]
use handed::Handed;
use std::sync::Arc;

/// A recording that is complete.
pub(super) struct Recording {
    pub(super) encoder: Option<wgpu::CommandEncoder>,
    /// The parameter blocks of its launches: whole words.
    pub(super) parameters: Vec<u8>,
    pub(super) number: u64,
}

/// Submits the recordings of a device, in their order.
pub(super) struct Submitter {
    parameter_buffer: wgpu::Buffer,
    submitted: Option<wgpu::SubmissionIndex>,
    #[cfg(not(target_family = "wasm"))]
    handed: Option<Handed>,
}

impl Submitter {
    pub(super) fn new(parameter_buffer: wgpu::Buffer) -> Submitter {
        Submitter {
            parameter_buffer,
            submitted: None,
            #[cfg(not(target_family = "wasm"))]
            handed: None,
        }
    }

    pub(super) fn parameter_buffer(&self) -> &wgpu::Buffer {
        &self.parameter_buffer
    }

    /// The last submission, of a submitter that is [settled](Self::settled).
    pub(super) fn submitted(&self) -> Option<wgpu::SubmissionIndex> {
        self.submitted.clone()
    }

    /// Submits a recording, after all that were handed over. It is encoded while the thread is
    /// still busy with those.
    pub(super) fn submit(&mut self, gpu: &Gpu, recording: Recording) {
        let encoded = recording.encoded();
        self.settled();
        self.submitted = Some(encoded.submit(&gpu.queue, &self.parameter_buffer, &gpu.status));
    }

    /// Hands a recording to the thread, which is started for the first one. Where there is no
    /// thread, it is submitted at once.
    #[cfg(not(target_family = "wasm"))]
    pub(super) fn hand_over(&mut self, gpu: &Gpu, recording: Recording) {
        if self.handed.is_none() {
            self.handed = Handed::start(gpu, &self.parameter_buffer);
        }
        match &self.handed {
            Some(handed) => handed.push(recording),
            None => self.submit(gpu, recording),
        }
    }

    /// Submits a recording: a page has one thread.
    #[cfg(target_family = "wasm")]
    pub(super) fn hand_over(&mut self, gpu: &Gpu, recording: Recording) {
        self.submit(gpu, recording);
    }

    /// Waits until all that was handed over is submitted.
    #[cfg(not(target_family = "wasm"))]
    pub(super) fn settled(&mut self) {
        if let Some(last) = self.handed.as_ref().and_then(Handed::settled) {
            self.submitted = Some(last);
        }
    }

    /// Nothing is ever handed over.
    #[cfg(target_family = "wasm")]
    pub(super) fn settled(&mut self) {}
}

/// A recording whose commands are encoded.
struct Encoded {
    commands: Option<wgpu::CommandBuffer>,
    parameters: Vec<u8>,
    number: u64,
}

impl Recording {
    fn encoded(self) -> Encoded {
        let Recording { encoder, parameters, number } = self;
        Encoded { commands: encoder.map(wgpu::CommandEncoder::finish), parameters, number }
    }
}

impl Encoded {
    fn submit(
        self,
        queue: &wgpu::Queue,
        parameter_buffer: &wgpu::Buffer,
        status: &Arc<Status>,
    ) -> wgpu::SubmissionIndex {
        if !self.parameters.is_empty() {
            queue.write_buffer(parameter_buffer, 0, &self.parameters);
        }
        let submission = queue.submit(self.commands);
        let (status, number) = (status.clone(), self.number);
        queue.on_submitted_work_done(move || status.finish(number));
        submission
    }
}

#[cfg(not(target_family = "wasm"))]
mod handed {
    use super::{Gpu, Recording};
    use crate::device::status::Status;
    use std::collections::VecDeque;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
    use std::thread::JoinHandle;

    /// Recordings that the thread may have before it: a host that is faster waits for it.
    const WAITING: usize = 4;

    /// What was handed to the thread.
    pub(super) struct Handed {
        shared: Arc<Shared>,
        thread: Option<JoinHandle<()>>,
    }

    struct Shared {
        state: Mutex<State>,
        /// Something was handed over, or it ends.
        work: Condvar,
        /// A recording was submitted.
        progress: Condvar,
        /// Recordings that are not submitted yet.
        pending: AtomicUsize,
    }

    #[derive(Default)]
    struct State {
        recordings: VecDeque<Recording>,
        /// The last submission that nobody has asked for yet.
        submitted: Option<wgpu::SubmissionIndex>,
        ends: bool,
    }

    impl Handed {
        /// Starts the thread; `None` where the system has none.
        pub(super) fn start(gpu: &Gpu, parameter_buffer: &wgpu::Buffer) -> Option<Handed> {
            let shared = Arc::new(Shared {
                state: Mutex::default(),
                work: Condvar::new(),
                progress: Condvar::new(),
                pending: AtomicUsize::new(0),
            });
            let (theirs, queue, status) = (shared.clone(), gpu.queue.clone(), gpu.status.clone());
            let buffer = parameter_buffer.clone();
            let run = move || theirs.run(&queue, &buffer, &status);
            let thread = std::thread::Builder::new().name("kiln-wgpu-submit".to_owned()).spawn(run).ok()?;
            Some(Handed { shared, thread: Some(thread) })
        }

        pub(super) fn push(&self, recording: Recording) {
            let mut state = self.shared.lock();
            while state.recordings.len() >= WAITING {
                state = self.shared.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            self.shared.pending.fetch_add(1, Ordering::Relaxed);
            state.recordings.push_back(recording);
            drop(state);
            self.shared.work.notify_one();
        }

        /// Waits until all is submitted. Gives the last submission, if there was one since.
        pub(super) fn settled(&self) -> Option<wgpu::SubmissionIndex> {
            let mut state = self.shared.lock();
            while self.shared.pending.load(Ordering::Acquire) > 0 {
                state = self.shared.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.submitted.take()
        }
    }

    impl Shared {
        /// The state, of which every change is complete before anything can panic.
        fn lock(&self) -> MutexGuard<'_, State> {
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn run(&self, queue: &wgpu::Queue, parameter_buffer: &wgpu::Buffer, status: &Arc<Status>) {
            loop {
                let mut state = self.lock();
                let recording = loop {
                    match state.recordings.pop_front() {
                        Some(recording) => break recording,
                        None if state.ends => return,
                        None => state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                    }
                };
                drop(state);
                let make = || recording.encoded().submit(queue, parameter_buffer, status);
                // wgpu 30 panics where a device is lost meanwhile. It holds no lock of ours.
                let submitted = catch_unwind(AssertUnwindSafe(make)).ok();
                if submitted.is_none() {
                    status.lose("the driver failed while work was submitted".to_owned());
                }
                let mut state = self.lock();
                state.submitted = submitted.or(state.submitted.take());
                self.pending.fetch_sub(1, Ordering::Release);
                drop(state);
                self.progress.notify_all();
            }
        }
    }

    impl Drop for Handed {
        fn drop(&mut self) {
            self.shared.lock().ends = true;
            self.shared.work.notify_one();
            if let Some(thread) = self.thread.take() {
                // It catches what panics.
                let _ = thread.join();
            }
        }
    }
}
