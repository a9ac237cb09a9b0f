//! Running a launch: programs are claimed in increasing order, in batches, by the threads of the
//! pool.

use crate::copies::Copies;
use crate::frame::{Frame, SCRATCH_ALIGN};
use crate::limit::Watch;
use crate::pool::Pool;
use crate::program::CpuProgram;
use crate::report::Reporter;
use kiln_backend::{BufferBinding, Error, Fault, Prints, Result};
use kiln_cpu_primitives::streaming::end_streaming;
use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a launch may run on its own thread before others are woken: about the cost of waking
/// one.
const ALONE: Duration = Duration::from_micros(10);
/// Batches a thread should get in a launch, so that threads finish together.
const BATCHES: u64 = 16;
/// The most programs of a batch.
const LONGEST_BATCH: u64 = 64;

/// Runs every program of a launch, and gives the first fault in program order.
///
/// # Safety
/// As for [`kiln_backend::Backend::launch`].
pub(crate) unsafe fn run(
    program: &CpuProgram,
    launch: kiln_backend::Launch<'_>,
    pool: &Pool,
    prints: Arc<Prints>,
    watch: &Watch,
) -> Result<Option<Fault>> {
    let kiln_backend::Launch { grid, buffers, numbers, .. } = launch;
    let total: u64 = grid.iter().map(|&g| u64::from(g)).product();
    let watched = if program.code.checks_time { watch.begin()? } else { None };
    let reporter = Reporter::new(program.sites.clone(), prints, watched);
    let launch = Launch { program, grid, buffers, numbers, reporter: &reporter };
    let begun = Instant::now();
    let mut first = 0;
    let mut step = 1;
    // Programs that took long in the launch before are shared out from the first one on: it alone
    // may be a large part of the work.
    let alone = program.cost.expected(total) < ALONE;
    while alone && first < total && begun.elapsed() < ALONE {
        // SAFETY: the caller's promise.
        unsafe { launch.programs(first, total.min(first + step)) }?;
        first = total.min(first + step);
        step *= 2;
    }
    let (mut fine, starved) = (true, AtomicBool::new(false));
    let shared = first < total;
    if shared {
        let batch = ((total - first) / (pool.threads() as u64 * BATCHES)).clamp(1, LONGEST_BATCH);
        let next = AtomicU64::new(first);
        fine = pool.run(&|| {
            loop {
                let from = next.fetch_add(batch, Ordering::Relaxed);
                if from >= total || !launch.reporter.wants(from) || starved.load(Ordering::Relaxed) {
                    break;
                }
                // SAFETY: the caller's promise.
                let outcome = unsafe { launch.programs(from, total.min(from + batch)) };
                starved.fetch_or(outcome.is_err(), Ordering::Relaxed);
            }
        });
    }
    program.cost.record(total, begun.elapsed() * if shared { pool.threads() as u32 } else { 1 });
    if !fine {
        return Err(Error::Internal { place: "kiln-cpu", message: "a worker panicked".into() });
    }
    if starved.into_inner() {
        return Err(out_of_memory(program.code.scratch_bytes));
    }
    Ok(reporter.into_fault())
}

/// A launch as the threads that run its programs see it.
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a CpuProgram,
    pub(crate) grid: [u32; 3],
    pub(crate) buffers: &'a [BufferBinding],
    pub(crate) numbers: &'a [u64],
    pub(crate) reporter: &'a Reporter,
}

impl Launch<'_> {
    /// Runs programs `from..to` in order on this thread, until the reporter ends the launch.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where there is no scratch memory for them; none has run then.
    ///
    /// # Safety
    /// As for [`run`].
    pub(crate) unsafe fn programs(&self, from: u64, to: u64) -> Result<()> {
        let entry = self.program.code.entry();
        let [nx, ny, _] = self.grid.map(u64::from);
        let mut copies = Copies::of(&self.program.code.added, self.buffers, self.numbers, to - from);
        let own = self.program.code.scratch_bytes.next_multiple_of(SCRATCH_ALIGN);
        let bytes = own + copies.as_ref().map_or(0, Copies::bytes);
        with_scratch(bytes, |scratch| {
            // SAFETY: the memory behind that of the programs is as large as the copies.
            let made = copies.as_mut().map(|copies| unsafe { copies.make(scratch.add(own)) });
            let (buffers, bits) = made.unwrap_or((self.buffers, 0));
            let mut frame = Frame {
                program: [0; 3],
                grid: self.grid.map(i64::from),
                buffers: buffers.as_ptr(),
                numbers: self.numbers.as_ptr(),
                scratch,
                reporter: self.reporter,
                stop: self.reporter.stop(),
                copies: bits,
            };
            for linear in from..to {
                if !self.reporter.wants(linear) {
                    break;
                }
                frame.program = [linear % nx, linear / nx % ny, linear / nx / ny].map(|p| p as i64);
                // SAFETY: the frame is complete and the scratch memory large enough. Buffers and
                // numbers are as many as the kernel takes (`check_launch`), and the caller vouches
                // for what they say.
                unsafe { entry(&frame) };
            }
            // Programs stream without a fence of their own, which takes longer than they do.
            end_streaming();
            if let Some(copies) = &copies {
                // SAFETY: as above; the views are the launch's.
                unsafe { copies.add_up(scratch.add(own)) };
            }
        })
        .ok_or_else(|| out_of_memory(bytes))
    }
}

/// The alignment of scratch memory in bytes: that of pages. A store to two pages waits for streamed
/// stores before it, and a small array begins on one with the memory.
const PAGE: usize = 4096;

/// Memory that begins with a page.
struct Scratch {
    at: NonNull<u8>,
    layout: Layout,
}

impl Scratch {
    /// `bytes`, rounded up to whole pages so that it seldom grows; nothing where the system has no
    /// more.
    fn new(bytes: usize) -> Option<Scratch> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE)?;
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: the layout has a size.
        let at = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        Some(Scratch { at, layout })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { std::alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}

/// What a thread needs that there is not.
fn out_of_memory(bytes: usize) -> Error {
    let (free, total) = (crate::memory::available_memory().unwrap_or(0), crate::memory::total_memory());
    let device = "cpu, for the tiles and local arrays of a kernel,".to_owned();
    Error::OutOfMemory { device, requested: bytes as u64, free, total }
}

/// Calls `body` with at least `bytes` of this thread's scratch memory, which is kept for the next
/// call. Nothing where there is not so much.
fn with_scratch(bytes: usize, body: impl FnOnce(*mut u8)) -> Option<()> {
    thread_local! {
        static SCRATCH: RefCell<Option<Scratch>> = const { RefCell::new(None) };
    }
    // Taken out for the call: a launch from inside a print gets memory of its own.
    let kept = SCRATCH.with(|cell| cell.try_borrow_mut().ok().and_then(|mut s| s.take()));
    let scratch = kept.filter(|s| s.layout.size() >= bytes).or_else(|| Scratch::new(bytes))?;
    body(scratch.at.as_ptr());
    SCRATCH.with(|cell| {
        if let Ok(mut kept) = cell.try_borrow_mut() {
            *kept = Some(scratch);
        }
    });
    Some(())
}
