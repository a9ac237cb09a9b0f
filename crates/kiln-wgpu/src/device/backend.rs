//! [`Wgpu`]: an adapter as a Kiln device.

use super::adapter;
use super::bytes::ByteKernels;
use super::dispatches::{self, Dispatches, finish, in_order, is_over};
use super::gpu::{Gpu, refused};
use super::program::WgpuProgram;
use super::reports::{ReportTables, collect, deliver};
use super::state::DeviceState;
use super::streams::{Event, EventTime};
use super::transfers::{download, locked, read};
use kiln_backend::{
    Artifacts, Asynchronous, Backend, Capabilities, Clock, Compiled, DevicePtr, Diagnostics, Error, EventId,
    Execution, Launch, Mapped, MappedMemory, MatrixFormat, MatrixUnits, PrintSink, Prints, Program,
    Properties, Residency, ResidentId, Residents, Result, StreamId, is_printing,
};
use kiln_ir::Kernel;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use web_time::Instant;

/// An adapter of wgpu's as a Kiln device: a GPU through Vulkan, Metal or DX12.
///
/// ```no_run
/// use kiln_backend::{Backend, StreamId};
/// # fn main() -> kiln_backend::Result<()> {
/// let gpu = kiln_wgpu::Wgpu::open("wgpu")?;
/// println!("{}: {}", gpu.properties().id, gpu.properties().name);
/// let stream = StreamId::default();
/// let memory = gpu.allocate(4096, stream)?;
/// // SAFETY: the fill is as long as the allocation, which nothing uses after it.
/// unsafe {
///     gpu.fill(memory, 0, 4096, stream)?;
///     gpu.free(memory, 4096, stream);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Wgpu {
    /// Before what it makes, so that it is dropped last.
    pub(crate) state: Mutex<DeviceState>,
    kernels: ByteKernels,
    pub(crate) tables: ReportTables,
    pub(crate) prints: Prints,
    dispatches: Mutex<Dispatches>,
    /// Held while what dispatches left is handed to the host, in their order.
    finishing: Mutex<()>,
    /// What was dropped inside the print sink.
    dropped: Mutex<Vec<Dropped>>,
    /// Whether there is any such thing, so that calls need not lock where there is none.
    has_dropped: AtomicBool,
    pub(crate) properties: Properties,
    pub(crate) gpu: Gpu,
}

/// Something that is no longer used.
enum Dropped {
    Memory(DevicePtr),
    Mapped(DevicePtr),
    Stream(StreamId),
    Event(EventId),
}

/// The most blocks on each axis of a grid. What an adapter does not dispatch at once is folded.
const MAX_GRID: [u32; 3] = [i32::MAX as u32; 3];

/// What is taken for the number of multiprocessors, which wgpu does not say: about that of the
/// largest cards. With fewer programs than multiprocessors, some of them would be idle; with more,
/// they run in turns.
const UNITS_OF_CARD: u32 = 128;
/// The same of a GPU that is a part of a processor.
const UNITS: u32 = 32;

impl Wgpu {
    /// The device of an opened adapter.
    pub(crate) fn of(gpu: Gpu) -> Wgpu {
        Wgpu {
            state: Mutex::new(DeviceState::new(&gpu)),
            kernels: ByteKernels::default(),
            tables: ReportTables::default(),
            prints: Prints::default(),
            dispatches: Mutex::default(),
            finishing: Mutex::default(),
            dropped: Mutex::default(),
            has_dropped: AtomicBool::new(false),
            properties: properties(&gpu),
            gpu,
        }
    }

    /// Gives the adapter's memory back at once. From then on every call is [`Error::Lost`].
    pub fn destroy(&self) {
        self.gpu.device.destroy();
        self.gpu.status.lose("it was destroyed".to_owned());
    }

    /// The state, for a call from outside the print sink on a device that is there.
    fn state(&self) -> Result<MutexGuard<'_, DeviceState>> {
        self.check_not_printing()?;
        self.gpu.check()?;
        let mut state = locked(&self.state);
        if self.has_dropped.load(Ordering::Relaxed) && self.has_dropped.swap(false, Ordering::Acquire) {
            let dropped = std::mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner));
            dropped.into_iter().for_each(|gone| release(&mut state, gone));
        }
        Ok(state)
    }

    /// The state, for a call on behalf of a stream.
    pub(crate) fn state_for(&self, stream: StreamId, call: &str) -> Result<MutexGuard<'_, DeviceState>> {
        let state = self.state()?;
        state.streams.live(stream, call)?;
        Ok(state)
    }

    fn check_not_printing(&self) -> Result<()> {
        match is_printing() {
            true => Err(Error::InsidePrintSink { device: self.properties.id.clone() }),
            false => Ok(()),
        }
    }

    /// Releases something, at once or after the call whose print sink drops it.
    fn release(&self, gone: Dropped) {
        match self.state() {
            Ok(mut state) => release(&mut state, gone),
            Err(_) => {
                self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(gone);
                self.has_dropped.store(true, Ordering::Release);
            }
        }
    }

    /// Waits for all work.
    fn settle(&self, stream: StreamId) -> Result<()> {
        self.gpu.may_wait("synchronize", "synchronize_async")?;
        let submission = {
            let mut state = self.state_for(stream, "synchronize")?;
            state.recorder.submit(&self.gpu)?;
            state.recorder.submitted()
        };
        if let Some(submission) = submission {
            self.gpu.wait(submission)?;
        }
        Ok(())
    }

    /// Maps memory.
    pub(super) fn map_memory(&self, bytes: usize) -> Result<Mapped> {
        self.state()?.map(&self.gpu, bytes)
    }

    /// Frees mapped memory.
    pub(super) fn unmap_memory(&self, mapped: &Mapped) {
        self.release(Dropped::Mapped(mapped.device));
    }

    /// Begins a dispatch.
    pub(super) fn dispatch(&self, program: &WgpuProgram, launch: Launch<'_>) -> Result<ResidentId> {
        let mut state = self.state_for(launch.stream, "launch_resident")?;
        dispatches::begin(&self.gpu, &mut state, &self.dispatches, program, launch)
    }

    /// Whether a dispatch is over. Then the host has what it left, and what it reports is reported.
    pub(super) fn dispatch_is_over(&self, id: ResidentId, wait: bool) -> Result<bool> {
        drop(self.state()?);
        let reports = {
            let _in_order = self.finishing.lock().unwrap_or_else(PoisonError::into_inner);
            if !wait && !is_over(&self.gpu, &self.dispatches, id)? {
                return Ok(false);
            }
            finish(&self.gpu, &self.state, &self.dispatches, id)?
        };
        let mut fault = None;
        for report in reports {
            fault = fault.or(deliver(&self.tables, &self.prints, &report)?);
        }
        match fault {
            Some(fault) => Err(fault.into()),
            None => self.prints.outcome(&self.properties.id).map(|()| true),
        }
    }

    fn collect(&self, stream: StreamId) -> Result<()> {
        let reported = collect(&self.gpu, &self.state, &self.tables, &self.prints, stream);
        reported.and_then(|()| self.prints.outcome(&self.properties.id))
    }
}

/// The program of a launch, which has the arguments that it takes and a grid that is not too large.
pub(super) fn checked<'p>(program: &'p dyn Program, launch: &Launch<'_>) -> Result<&'p WgpuProgram> {
    let program = own(program)?;
    program.arguments.check("kiln-wgpu", &program.interface.kernel, launch.buffers, launch.numbers)?;
    for ((axis, given), limit) in ["x", "y", "z"].iter().zip(launch.grid).zip(MAX_GRID) {
        if given > limit {
            return Err(Error::LaunchLimit {
                kernel: program.interface.kernel.clone(),
                what: format!("grid extent {axis}"),
                given: given.into(),
                limit: limit.into(),
            });
        }
    }
    Ok(program)
}

/// A program that an adapter's device compiled.
fn own(program: &dyn Program) -> Result<&WgpuProgram> {
    program.as_any().downcast_ref::<WgpuProgram>().ok_or_else(|| Error::Internal {
        place: "kiln-wgpu",
        message: "the program was compiled for another device".into(),
    })
}

fn release(state: &mut DeviceState, gone: Dropped) {
    match gone {
        Dropped::Memory(ptr) => state.allocations.free(ptr),
        Dropped::Mapped(ptr) => state.unmap(ptr),
        Dropped::Stream(stream) => state.destroy_stream(stream),
        Dropped::Event(event) => {
            if let Some(Event { time: EventTime::Query(query), .. }) = state.streams.remove_event(event) {
                state.timestamps.release(query);
            }
        }
    }
}

fn properties(gpu: &Gpu) -> Properties {
    let is_software = adapter::is_software(&gpu.info);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    Properties {
        id: gpu.id.clone(),
        name: gpu.info.name.clone(),
        uuid: None,
        units: match gpu.info.device_type {
            _ if is_software => threads,
            wgpu::DeviceType::DiscreteGpu | wgpu::DeviceType::VirtualGpu => UNITS_OF_CARD,
            wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::Other | wgpu::DeviceType::Cpu => UNITS,
        },
        warp: 32,
        max_threads: gpu.limits.max_compute_invocations_per_workgroup.min(1024),
        max_grid: MAX_GRID,
        shared_memory: gpu.limits.max_compute_workgroup_storage_size,
        memory: gpu.memory,
        cache: 0,
        compute_capability: None,
        driver: adapter::driver(&gpu.info),
        ptx: None,
        unified: false,
        residency: Residency::Dispatched,
        capabilities: Capabilities {
            software: is_software,
            matrix_units: matrix_units(gpu.features.multiplies()),
            ..capabilities(gpu.has_timestamps, true)
        },
    }
}

/// What adapters can do, with or without timestamps of their own, where the driver counts subnormal
/// numbers in full and where it takes them for zeros.
///
/// ```
/// assert!(kiln_wgpu::capabilities(true, false).is_simt());
/// ```
pub fn capabilities(has_timestamps: bool, subnormals: bool) -> Capabilities {
    Capabilities {
        subnormals,
        clock: if has_timestamps { Clock::Device } else { Clock::Host },
        ..Capabilities::new(Execution::Simt)
    }
}

/// What matrix units multiply.
fn matrix_units(halves: bool) -> MatrixUnits {
    if halves { MatrixUnits::NONE.with(MatrixFormat::Float16) } else { MatrixUnits::NONE }
}

impl Backend for Wgpu {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    /// What this process has not taken: no API says what others have.
    fn free_memory(&self) -> Result<u64> {
        Ok(self.state()?.allocations.free_bytes(&self.gpu))
    }

    fn allocate(&self, bytes: usize, stream: StreamId) -> Result<DevicePtr> {
        self.state_for(stream, "allocate")?.allocate(&self.gpu, bytes as u64)
    }

    unsafe fn free(&self, ptr: DevicePtr, _bytes: usize, _stream: StreamId) {
        self.release(Dropped::Memory(ptr));
    }

    unsafe fn upload(&self, dst: DevicePtr, src: &[u8], stream: StreamId) -> Result<()> {
        self.state_for(stream, "upload")?.upload(&self.gpu, &self.kernels, dst, src)
    }

    unsafe fn download(&self, dst: &mut [u8], src: DevicePtr, stream: StreamId) -> Result<()> {
        drop(self.state_for(stream, "download")?);
        self.gpu.may_wait("to_vec", "to_vec_async")?;
        self.collect(stream)?;
        download(&self.gpu, &self.state, src, dst)
    }

    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, stream: StreamId) -> Result<()> {
        let mut state = self.state_for(stream, "copy")?;
        if let Some(part) = state.mapped_part(src, bytes as u64) {
            let numbers = in_order(&self.dispatches).numbers();
            state.send_changes(&self.gpu, &part, numbers)?;
        }
        state.copy(&self.gpu, &self.kernels, [dst, src], bytes as u64)
    }

    unsafe fn fill(&self, dst: DevicePtr, byte: u8, bytes: usize, stream: StreamId) -> Result<()> {
        self.state_for(stream, "fill")?.fill(&self.gpu, &self.kernels, dst, byte, bytes as u64)
    }

    fn compile(&self, kernel: &Kernel) -> Result<Compiled> {
        self.check_not_printing()?;
        self.gpu.check()?;
        self.build(kernel, None)
    }

    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()> {
        let known = own(program)?;
        let mut state = self.state_for(launch.stream, "launch")?;
        if state.repeat(&self.gpu, known, &launch)? {
            return Ok(());
        }
        state.launch(&self.gpu, checked(program, &launch)?, launch)
    }

    fn create_stream(&self) -> Result<StreamId> {
        Ok(self.state()?.streams.create())
    }

    fn destroy_stream(&self, stream: StreamId) {
        self.release(Dropped::Stream(stream));
    }

    /// On an adapter without timestamps, a timing event waits for the work before it, and has the
    /// host's time then.
    fn record(&self, stream: StreamId, timing: bool) -> Result<EventId> {
        if timing && !self.gpu.has_timestamps {
            self.settle(stream)?;
        }
        let mut state = self.state_for(stream, "record")?;
        let DeviceState { recorder, timestamps, streams, .. } = &mut *state;
        let time = match (timing, self.gpu.has_timestamps) {
            (false, _) => EventTime::None,
            (true, false) => EventTime::Host(Instant::now()),
            (true, true) => EventTime::Query(timestamps.record(&self.gpu, recorder)?),
        };
        let recording = recorder.number() - u64::from(recorder.is_empty());
        Ok(streams.add_event(Event { recording, time }))
    }

    /// All streams are one queue, which is in order.
    fn wait(&self, stream: StreamId, event: EventId) -> Result<()> {
        self.state_for(stream, "wait")?.streams.event(event, "wait").map(|_| ())
    }

    fn query(&self, event: EventId) -> Result<bool> {
        let recording = {
            let mut state = self.state()?;
            let recording = state.streams.event(event, "query")?.recording;
            if recording >= state.recorder.number() {
                state.recorder.submit(&self.gpu)?;
            }
            recording
        };
        self.gpu.poll()?;
        Ok(self.gpu.status.done() >= recording)
    }

    fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32> {
        let mut state = self.state()?;
        let times = [start, end].map(|event| state.streams.event(event, "elapsed_ms").map(|e| e.time));
        let [start, end] = times;
        match (start?, end?) {
            (EventTime::Query(start), EventTime::Query(end)) => {
                let DeviceState { recorder, timestamps, .. } = &mut *state;
                let times = timestamps.resolve(&self.gpu, recorder, [start, end])?;
                let staged = state.stage_buffer(&self.gpu, &times, 0..16)?;
                drop(state);
                let mut ticks = [0u64; 2];
                read(&self.gpu, &self.state, staged, |bytes| {
                    for (tick, bytes) in ticks.iter_mut().zip(bytes.chunks_exact(8)) {
                        *tick = bytes.iter().rev().fold(0, |tick, &byte| tick << 8 | u64::from(byte));
                    }
                })?;
                let nanoseconds = ticks[1].wrapping_sub(ticks[0]) as i64 as f64
                    * f64::from(self.gpu.queue.get_timestamp_period());
                Ok((nanoseconds / 1e6) as f32)
            }
            (EventTime::Host(start), EventTime::Host(end)) => {
                let forward = end.saturating_duration_since(start).as_secs_f64();
                let backward = start.saturating_duration_since(end).as_secs_f64();
                Ok(((forward - backward) * 1e3) as f32)
            }
            _ => Err(refused("elapsed_ms", "an event was recorded without timing".to_owned())),
        }
    }

    fn destroy_event(&self, event: EventId) {
        self.release(Dropped::Event(event));
    }

    fn synchronize(&self, stream: StreamId) -> Result<()> {
        self.settle(stream)?;
        self.collect(stream)
    }

    fn set_print_sink(&self, sink: PrintSink) {
        self.prints.set(sink);
    }

    fn artifacts(&self) -> Option<&dyn Artifacts> {
        self.gpu.has_pipeline_caches().then_some(self as &dyn Artifacts)
    }

    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        Some(self)
    }

    fn mapped_memory(&self) -> Option<&dyn MappedMemory> {
        Some(self)
    }

    fn residents(&self) -> Option<&dyn Residents> {
        Some(self)
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        Some(self)
    }
}

impl Diagnostics for Wgpu {
    fn pool_reserved(&self) -> Option<u64> {
        Some(locked(&self.state).allocations.reserved())
    }
}
