//! Compiling on several threads what a closure would launch.
//!
//! The thread that runs the closure records the kernels; others take them from a queue, as long as
//! there are any, and the first one helps when it is through. Each job goes through the device's
//! cache of programs: what is compiled is there for the launches, and a launch in another thread
//! that wants the same program waits for it.

use crate::activity::{Activity, CallSite};
use crate::cache::Specialization;
use crate::capture::state::{Capturing, Mode};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::loaded::{LoadedKernel, compiled};
use crate::log::Log;
use kiln_ir::Kernel;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::Location;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use web_time::Instant;

/// The most threads that compile at once: the assembler of an NVIDIA driver takes some hundred
/// megabytes for a large kernel.
const MOST_THREADS: usize = 16;

/// As much stack as a program's first thread has: compiling recurses over nested loops.
const STACK: usize = 8 << 20;

thread_local! {
    /// The queue of the closure that this thread runs.
    static QUEUE: RefCell<Option<Arc<Queue>>> = const { RefCell::new(None) };
}

/// A kernel that is to be compiled.
pub(crate) struct Job {
    pub(crate) device: Device,
    pub(crate) key: Specialization,
    pub(crate) name: String,
    pub(crate) kernel: Kernel,
    /// How long it took to record it.
    pub(crate) tracing: Duration,
    /// The launch.
    pub(crate) site: CallSite,
}

/// Hands on a kernel that the closure which this thread runs would launch.
pub(crate) fn add(job: Job) {
    QUEUE.with_borrow(|queue| {
        if let Some(queue) = queue {
            Queue::add(queue, job);
        }
    });
}

impl Device {
    /// Compiles the kernels that a closure launches on this device, on this thread, on as many
    /// threads as there are processors, and runs nothing. Later launches of the same kind find
    /// their programs. It returns when all are compiled.
    ///
    /// Launches, writes, copies and fills do nothing else, and what reads a tensor or waits is
    /// refused, as in the capture of a [`Graph`](crate::Graph). Tensors that the closure makes have
    /// no memory, and cannot be used after it.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor};
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn scale(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, by: usize) {
    ///     let at = program_id(0) * 4;
    ///     y.tile(at, 4).store(x.tile(at, 4).load(0.0) * by as f32);
    /// }
    ///
    /// let device = Device::open("cpu")?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0], [3])?;
    /// device.precompile(|| {
    ///     let mut y = device.uninit([3])?;
    ///     // Host values are part of the code: four kernels.
    ///     (1..5).try_for_each(|by| scale(&x, &mut y, by).launch(&device))
    /// })?;
    /// assert_eq!(device.programs().builds().iter().filter(|build| &*build.kernel == "scale").count(), 4);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `launches`; [`Error::Precompile`] inside of another one or of the capture of a
    /// graph. A kernel that cannot be compiled is no error here, but of the launch that needs it.
    #[track_caller]
    pub fn precompile(&self, launches: impl FnOnce() -> Result<()>) -> Result<()> {
        let site = Location::caller();
        self.check_not_printing()?;
        let closure = Closure::begin(self, site)?;
        let outcome = launches();
        let queue = closure.queue.clone();
        drop(closure);
        let log = &mut Log::at(site);
        for activity in queue.finish() {
            log.add(self, activity);
        }
        outcome
    }
}

/// As long as this is there, this thread compiles what it would launch.
struct Closure {
    queue: Arc<Queue>,
    _capturing: Capturing,
}

impl Closure {
    fn begin(device: &Device, location: CallSite) -> Result<Closure> {
        let nested = || {
            let what = "kernels cannot be compiled ahead in another `precompile` or the capture of a graph";
            Error::Precompile { what: what.to_owned(), device: device.id().to_owned(), location }
        };
        let capturing = Capturing::begin(device.identity(), Mode::Precompile).ok_or_else(nested)?;
        // Whether observers ask is seen here: they are called on this thread.
        let queue = Arc::new(Queue { is_observed: Log::at(location).is_on(), ..Queue::default() });
        QUEUE.set(Some(queue.clone()));
        Ok(Closure { queue, _capturing: capturing })
    }
}

impl Drop for Closure {
    fn drop(&mut self) {
        self.queue.close();
        let own = QUEUE.try_with(RefCell::take);
        drop(own);
    }
}

/// Jobs, and the threads that do them.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    /// Signaled when there is a job, or when no more will come.
    changed: Condvar,
    is_observed: bool,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    is_closed: bool,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait for a job.
    idle: usize,
    done: Vec<Activity>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A thread that panics holds no lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job, and a thread if all are busy and there may be more.
    fn add(queue: &Arc<Queue>, job: Job) {
        let mut state = queue.lock();
        state.jobs.push_back(job);
        // One processor is for this thread, which helps in the end. It does all of the work where
        // there are no threads.
        let most = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS) - 1;
        if state.jobs.len() > state.idle && state.threads.len() < most {
            let own = queue.clone();
            let builder = thread::Builder::new().name("kiln compile".to_owned()).stack_size(STACK);
            if let Ok(thread) = builder.spawn(move || own.work()) {
                state.threads.push(thread);
            }
        }
        queue.changed.notify_one();
    }

    /// No more jobs will come.
    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Does jobs until there are none and no more will come.
    fn work(&self) {
        while let Some(job) = self.next() {
            if let Some(activity) = job.compile(self.is_observed) {
                self.lock().done.push(activity);
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Does what is left, waits for the threads, and gives what was done.
    fn finish(&self) -> Vec<Activity> {
        self.work();
        let threads = std::mem::take(&mut self.lock().threads);
        for thread in threads {
            // The launch that needs what a thread panicked over compiles it again, and panics in
            // the user's thread.
            let _ = thread.join();
        }
        std::mem::take(&mut self.lock().done)
    }
}

impl Job {
    /// Compiles the kernel, unless a launch has done it meanwhile.
    fn compile(self, is_observed: bool) -> Option<Activity> {
        let Job { device, key, name, kernel, tracing, site } = self;
        let now = Instant::now();
        let start = now.checked_sub(tracing).unwrap_or(now);
        let mut is_built = false;
        let loaded = device.programs().get(&key, || {
            is_built = true;
            Ok(Arc::new(LoadedKernel::new(&name, kernel, device.sources(), start)?))
        });
        // An error is the launch's, which finds it in the cache or compiles again.
        let loaded = loaded.ok().filter(|_| is_built && is_observed)?;
        Some(compiled(device.shared_id(), &loaded, site, start))
    }
}
