//! Resident launches: each block has an operating-system thread of its own, apart from the pool,
//! whose threads must be free for launches that end.

use crate::launch::Launch;
use crate::program::CpuProgram;
use crate::report::Reporter;
use crate::thread_time::ThreadTime;
use kiln_backend::{BlockTime, BufferBinding, Error, Prints, Program, ResidentId, Result};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most blocks of a resident launch: threads that a system is sure to give.
pub(crate) const MAX_BLOCKS: u64 = 1024;

/// The resident launches of a device that are not known to be over.
#[derive(Default)]
pub(crate) struct Residents(Mutex<Table>);

#[derive(Default)]
struct Table {
    begun: u64,
    live: HashMap<ResidentId, Arc<Resident>>,
}

/// A launch, shared by its threads: everything that generated code reaches by itself.
struct Resident {
    program: Arc<dyn Program>,
    grid: [u32; 3],
    buffers: Vec<BufferBinding>,
    numbers: Vec<u64>,
    reporter: Reporter,
    progress: Mutex<Progress>,
    /// A thread has left, or all may begin.
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// Whether the blocks may begin: not before there is a thread for each.
    start: Start,
    /// Threads that have not left.
    running: u64,
    panicked: bool,
    /// Why a thread did not begin.
    failed: Option<Error>,
    /// The threads of the blocks.
    threads: Vec<BlockThread>,
}

/// The thread of a block, as far as its processor time goes.
enum BlockThread {
    /// It has not run yet.
    Starts,
    Runs(Option<ThreadTime>),
    Ended,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Start {
    #[default]
    Wait,
    Go,
    Cancel,
}

impl Residents {
    /// Starts the blocks of a launch.
    ///
    /// # Safety
    /// As for [`kiln_backend::Backend::launch_resident`].
    pub(crate) unsafe fn begin(
        &self,
        program: Arc<dyn Program>,
        launch: kiln_backend::Launch<'_>,
        prints: Arc<Prints>,
    ) -> Result<ResidentId> {
        let compiled = CpuProgram::of(&*program)?;
        let kiln_backend::Launch { grid, buffers, numbers, .. } = launch;
        let blocks: u64 = grid.iter().map(|&extent| u64::from(extent)).product();
        if blocks > MAX_BLOCKS {
            return Err(Error::LaunchLimit {
                kernel: compiled.name.clone(),
                what: "blocks of a resident launch".into(),
                given: blocks,
                limit: MAX_BLOCKS,
            });
        }
        let reporter = Reporter::new(compiled.sites.clone(), prints, None);
        let threads = (0..blocks).map(|_| BlockThread::Starts).collect();
        let progress = Mutex::new(Progress { running: blocks, threads, ..Progress::default() });
        let (buffers, numbers, changed) = (buffers.to_vec(), numbers.to_vec(), Condvar::new());
        let resident = Resident { program, grid, buffers, numbers, reporter, progress, changed };
        let resident = Arc::new(resident);
        for block in 0..blocks {
            let shared = resident.clone();
            let name = format!("kiln-resident-{block}");
            // SAFETY: the caller's promise.
            let body = move || unsafe { shared.run(block) };
            if let Err(error) = std::thread::Builder::new().name(name).spawn(body) {
                resident.start(Start::Cancel);
                return Err(Error::Driver {
                    call: format!("starting thread {block} of {blocks} for a resident launch"),
                    code: error.kind().to_string(),
                    message: error.to_string(),
                });
            }
        }
        resident.start(Start::Go);
        let mut table = self.table();
        let id = ResidentId(table.begun);
        table.begun += 1;
        table.live.insert(id, resident);
        Ok(id)
    }

    /// Waits for a launch at most this long; whether it is over. Reports its fault the first time.
    pub(crate) fn wait(&self, id: ResidentId, timeout: Duration) -> Result<bool> {
        let resident = {
            let table = self.table();
            match table.live.get(&id) {
                Some(resident) => resident.clone(),
                None if id.0 < table.begun => return Ok(true),
                None => {
                    let message = format!("there is no resident launch {}", id.0);
                    return Err(Error::Internal { place: "kiln-cpu", message });
                }
            }
        };
        if !resident.is_over_within(timeout) {
            return Ok(false);
        }
        // Of several threads that ask, one reports.
        if self.table().live.remove(&id).is_none() {
            return Ok(true);
        }
        if let Some(error) = resident.progress().failed.take() {
            return Err(error);
        }
        if resident.progress().panicked {
            let message = "a thread of a resident launch panicked".into();
            return Err(Error::Internal { place: "kiln-cpu", message });
        }
        resident.reporter.take_fault().map_or(Ok(true), |fault| Err(fault.into()))
    }

    /// Returns the processor time that a block has had.
    pub(crate) fn block_time(&self, id: ResidentId, block: u64) -> Option<BlockTime> {
        let resident = self.table().live.get(&id)?.clone();
        // Held while the file is read: a thread ends, and gives up its number, after this lock.
        let progress = resident.progress();
        match progress.threads.get(usize::try_from(block).ok()?)? {
            BlockThread::Starts => Some(BlockTime { ran: Duration::ZERO, runnable: true }),
            BlockThread::Runs(thread) => thread.as_ref()?.read(),
            BlockThread::Ended => Some(BlockTime { ran: Duration::ZERO, runnable: false }),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is one insertion or removal, so a panic in between leaves nothing half-done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resident {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, start: Start) {
        self.progress().start = start;
        self.changed.notify_all();
    }

    /// Runs a block on this thread, once all have theirs.
    ///
    /// # Safety
    /// As for [`kiln_backend::Backend::launch_resident`].
    unsafe fn run(&self, block: u64) {
        let thread = ThreadTime::of_this_thread();
        self.progress().threads[block as usize] = BlockThread::Runs(thread);
        let waits = |progress: &mut Progress| progress.start == Start::Wait;
        let begun = self.changed.wait_while(self.progress(), waits);
        let go = begun.unwrap_or_else(PoisonError::into_inner).start == Start::Go;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if !go {
                return Ok(());
            }
            let program = CpuProgram::of(&*self.program)?;
            let (grid, reporter) = (self.grid, &self.reporter);
            let launch = Launch { program, grid, buffers: &self.buffers, numbers: &self.numbers, reporter };
            // SAFETY: the caller's promise.
            unsafe { launch.programs(block, block + 1) }
        }));
        let mut progress = self.progress();
        progress.running -= 1;
        progress.threads[block as usize] = BlockThread::Ended;
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) => progress.failed = Some(error),
            Err(_) => progress.panicked = true,
        }
        drop(progress);
        self.changed.notify_all();
    }

    fn is_over_within(&self, timeout: Duration) -> bool {
        let runs = |progress: &mut Progress| progress.running > 0;
        let waited = self.changed.wait_timeout_while(self.progress(), timeout, runs);
        waited.unwrap_or_else(PoisonError::into_inner).0.running == 0
    }
}
