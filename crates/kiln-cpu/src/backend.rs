//! The CPU as a device.

use crate::codegen::Blocking;
use crate::launch;
use crate::limit::Watch;
use crate::machine;
use crate::memory::{HostAllocator, last_level_cache, total_memory};
use crate::pool::Pool;
use crate::program::{CpuProgram, MAX_THREADS, SHARED_MEMORY, clif_of};
use crate::resident::Residents;
use kiln_backend::{
    Artifacts, Backend, BlockTime, Capabilities, Compiled, DevicePtr, Diagnostics, DumpStage, Error, EventId,
    Execution, Fault, HostCall, Launch, Mapped, MappedMemory, MappedPlace, MappedPlaces, PackageTarget,
    Places, PrintSink, Prints, Program, Properties, RawMemory, Residency, ResidentId, Result, StreamControls,
    StreamId, StreamPriority, Tenant, dump,
};
use kiln_cpu_primitives::Isa;
use kiln_ir::Kernel;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The most blocks on an axis of a grid.
const MAX_GRID: u32 = i32::MAX as u32;

/// The host's processor as a device: kernels are compiled to machine code and run on a pool of
/// threads.
///
/// A launch is over when the call returns, so streams hold nothing but faults that have not been
/// reported yet, and events are the times at which they were recorded.
///
/// ```
/// use kiln_backend::Backend;
/// use kiln_cpu::CpuBackend;
/// let cpu = CpuBackend::new();
/// assert_eq!(cpu.properties().id, "cpu");
/// assert!(cpu.properties().unified);
/// ```
pub struct CpuBackend {
    properties: Properties,
    blocking: Blocking,
    memory: HostAllocator,
    pool: Pool,
    residents: Residents,
    watch: Watch,
    prints: Arc<Prints>,
    /// The first fault of each stream since the last report.
    faults: Mutex<HashMap<StreamId, Fault>>,
    events: Mutex<HashMap<EventId, Instant>>,
    next_id: AtomicU64,
}

impl Default for CpuBackend {
    fn default() -> CpuBackend {
        CpuBackend::new()
    }
}

impl CpuBackend {
    /// A device with a thread for each core that this process may use.
    pub fn new() -> CpuBackend {
        CpuBackend::with_threads(std::thread::available_parallelism().map_or(1, |n| n.get()))
    }

    /// A device with this many threads, the launching one among them. Results do not depend on the
    /// number.
    pub fn with_threads(threads: usize) -> CpuBackend {
        CpuBackend {
            properties: properties(threads),
            blocking: Blocking::default(),
            memory: HostAllocator::default(),
            pool: Pool::new(threads),
            residents: Residents::default(),
            watch: Watch::default(),
            prints: Arc::default(),
            faults: Mutex::default(),
            events: Mutex::default(),
            next_id: AtomicU64::new(1),
        }
    }

    /// Sets how tiles pass through the caches: element-wise code works on `chunk` elements of a
    /// tile at a time, and a streamed store to a view of more than `cached` bytes goes past the
    /// caches. Results do not depend on either. Without this, both follow from the processor's
    /// caches; tests set small numbers, so that small tiles go the way of large ones.
    ///
    /// ```
    /// let cpu = kiln_cpu::CpuBackend::with_threads(1).with_blocking(4, 0);
    /// # let _ = cpu;
    /// ```
    pub fn with_blocking(self, chunk: usize, cached: u64) -> CpuBackend {
        CpuBackend { blocking: Blocking { chunk: chunk.max(1), cached }, ..self }
    }

    fn report(&self, stream: StreamId) -> Result<()> {
        match locked(&self.faults).remove(&stream) {
            Some(fault) => Err(fault.into()),
            None => self.prints.outcome(&self.properties.id),
        }
    }

    fn prints(&self) -> Arc<Prints> {
        self.prints.clone()
    }

    fn event(&self, event: EventId) -> Result<Instant> {
        locked(&self.events).get(&event).copied().ok_or_else(|| Error::Driver {
            call: "event".into(),
            code: "unknown".into(),
            message: format!("event {} was never recorded, or has been destroyed", event.0),
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn properties(threads: usize) -> Properties {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':').map(|(_, n)| n.trim()));
    Properties {
        id: "cpu".into(),
        name: name.unwrap_or(std::env::consts::ARCH).to_owned(),
        units: threads as u32,
        warp: 32,
        max_threads: MAX_THREADS,
        max_grid: [MAX_GRID; 3],
        shared_memory: SHARED_MEMORY,
        memory: total_memory(),
        cache: last_level_cache().unwrap_or(0),
        compute_capability: None,
        uuid: None,
        driver: format!("{:?}", Isa::best()).to_lowercase(),
        ptx: None,
        unified: true,
        residency: Residency::Beside,
        capabilities: Capabilities {
            on_host: true,
            atomic_128: kiln_cpu_primitives::atomic_128::is_there(),
            launch_limit: true,
            ..Capabilities::new(Execution::Simd)
        },
    }
}

fn check_launch(program: &CpuProgram, launch: &Launch<'_>) -> Result<()> {
    check_grid(program, launch.grid)?;
    program.arguments.check("kiln-cpu", &program.name, launch.buffers, launch.numbers)
}

fn check_grid(program: &CpuProgram, grid: [u32; 3]) -> Result<()> {
    let over = |what: &str, given: u64, limit: u64| Error::LaunchLimit {
        kernel: program.name.clone(),
        what: what.into(),
        given,
        limit,
    };
    for (axis, extent) in ["x", "y", "z"].into_iter().zip(grid) {
        if extent > MAX_GRID {
            return Err(over(&format!("grid extent {axis}"), extent.into(), MAX_GRID.into()));
        }
    }
    let programs: u128 = grid.iter().map(|&g| u128::from(g)).product();
    if programs > i64::MAX as u128 {
        return Err(over("number of blocks", programs.try_into().unwrap_or(u64::MAX), i64::MAX as u64));
    }
    Ok(())
}

impl Backend for CpuBackend {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn free_memory(&self) -> Result<u64> {
        Ok(self.memory.free())
    }

    fn allocate(&self, bytes: usize, _: StreamId) -> Result<DevicePtr> {
        self.memory.allocate(bytes)
    }

    unsafe fn free(&self, ptr: DevicePtr, bytes: usize, _: StreamId) {
        // SAFETY: the caller's promise; nothing is in flight.
        unsafe { self.memory.release(ptr, bytes) }
    }

    unsafe fn upload(&self, dst: DevicePtr, src: &[u8], _: StreamId) -> Result<()> {
        // SAFETY: the caller promises room for `src`, which is not in device memory it could
        // overlap.
        unsafe { std::ptr::copy(src.as_ptr(), dst.0 as *mut u8, src.len()) };
        Ok(())
    }

    unsafe fn download(&self, dst: &mut [u8], src: DevicePtr, stream: StreamId) -> Result<()> {
        self.report(stream)?;
        // SAFETY: the caller promises `dst.len()` readable bytes.
        unsafe { std::ptr::copy(src.0 as *const u8, dst.as_mut_ptr(), dst.len()) };
        Ok(())
    }

    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, _: StreamId) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy(src.0 as *const u8, dst.0 as *mut u8, bytes) };
        Ok(())
    }

    unsafe fn fill(&self, dst: DevicePtr, byte: u8, bytes: usize, _: StreamId) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::write_bytes(dst.0 as *mut u8, byte, bytes) };
        Ok(())
    }

    fn compile(&self, kernel: &Kernel) -> Result<Compiled> {
        let (program, artifact, stages) = CpuProgram::new(kernel, self.blocking)?;
        dump(DumpStage::Clif, (kernel, "cpu"), || {
            clif_of(kernel, self.blocking).map(String::into_bytes).map_err(|error| error.to_string())
        });
        Ok(Compiled { program: Arc::new(program), artifact: Some(artifact), stages })
    }

    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()> {
        let program = CpuProgram::of(program)?;
        check_launch(program, &launch)?;
        // SAFETY: buffers and numbers are as many as the kernel takes; the caller vouches for what
        // they say.
        let fault = unsafe { launch::run(program, launch, &self.pool, self.prints(), &self.watch)? };
        if let Some(fault) = fault {
            locked(&self.faults).entry(launch.stream).or_insert(fault);
        }
        Ok(())
    }

    fn create_stream(&self) -> Result<StreamId> {
        Ok(StreamId(self.next_id.fetch_add(1, Ordering::Relaxed)))
    }

    fn destroy_stream(&self, stream: StreamId) {
        locked(&self.faults).remove(&stream);
    }

    fn record(&self, _: StreamId, _: bool) -> Result<EventId> {
        let event = EventId(self.next_id.fetch_add(1, Ordering::Relaxed));
        locked(&self.events).insert(event, Instant::now());
        Ok(event)
    }

    fn wait(&self, _: StreamId, event: EventId) -> Result<()> {
        self.event(event).map(drop)
    }

    fn query(&self, event: EventId) -> Result<bool> {
        self.event(event).map(|_| true)
    }

    fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32> {
        let (start, end) = (self.event(start)?, self.event(end)?);
        let seconds = match end.checked_duration_since(start) {
            Some(after) => after.as_secs_f64(),
            None => -start.duration_since(end).as_secs_f64(),
        };
        Ok((seconds * 1e3) as f32)
    }

    fn destroy_event(&self, event: EventId) {
        locked(&self.events).remove(&event);
    }

    fn synchronize(&self, stream: StreamId) -> Result<()> {
        self.report(stream)
    }

    fn set_print_sink(&self, sink: PrintSink) {
        self.prints.set(sink);
    }

    fn artifacts(&self) -> Option<&dyn Artifacts> {
        Some(self)
    }

    fn mapped_memory(&self) -> Option<&dyn MappedMemory> {
        Some(self)
    }

    fn residents(&self) -> Option<&dyn kiln_backend::Residents> {
        Some(self)
    }

    fn stream_controls(&self) -> Option<&dyn StreamControls> {
        Some(self)
    }

    fn raw_memory(&self) -> Option<&dyn RawMemory> {
        Some(self)
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        Some(self)
    }
}

/// Device memory is the process's own.
impl RawMemory for CpuBackend {}

impl Artifacts for CpuBackend {
    fn artifact_key(&self) -> String {
        format!("{}, {}, {:?}", machine::maker(), machine::needs(), self.blocking)
    }

    fn load(&self, artifact: &[u8]) -> Result<Arc<dyn Program>> {
        self.load_packaged(artifact, &Places::default())
    }

    fn package_target(&self) -> Option<PackageTarget> {
        let (needs, maker) = (machine::needs().to_owned(), machine::maker());
        Some(PackageTarget { name: "cpu".to_owned(), needs, maker })
    }

    fn load_packaged(&self, artifact: &[u8], places: &Places) -> Result<Arc<dyn Program>> {
        // SAFETY: an artifact is one of `compile`, as the trait says; a checksum tells damaged
        // ones. Who reads one from a file vouches for the file.
        Ok(Arc::new(unsafe { CpuProgram::load(artifact, places)? }))
    }
}

/// All work is done when the call that enqueues it returns.
impl StreamControls for CpuBackend {
    fn create_stream_of(&self, _: StreamPriority) -> Result<StreamId> {
        self.create_stream()
    }

    fn call_host(&self, _: StreamId, call: HostCall) -> Result<()> {
        call();
        Ok(())
    }
}

impl MappedMemory for CpuBackend {
    fn map(&self, bytes: usize, place: MappedPlace) -> Result<Mapped> {
        let bytes = bytes.max(1);
        let device = self.memory.allocate(bytes)?;
        let host = NonNull::new(device.0 as *mut u8);
        let nowhere = || Error::Internal { place: "kiln-cpu", message: "memory at address 0".into() };
        let host = host.ok_or_else(nowhere)?;
        // SAFETY: just allocated, of this length.
        unsafe { host.write_bytes(0, bytes) };
        Ok(Mapped { host, device, bytes, place, write_combined: false })
    }

    unsafe fn unmap(&self, mapped: Mapped) {
        // SAFETY: the caller's promise.
        unsafe { self.memory.release(mapped.device, mapped.bytes) }
    }

    unsafe fn adopt(&self, host: NonNull<u8>, bytes: usize) -> Result<Mapped> {
        let device = DevicePtr(host.as_ptr() as u64);
        Ok(Mapped { host, device, bytes, place: MappedPlace::Host, write_combined: false })
    }

    fn mapped_places(&self) -> MappedPlaces {
        let words = || Ok("the processor's own memory".to_owned());
        MappedPlaces { host: words(), device: words() }
    }
}

impl kiln_backend::Residents for CpuBackend {
    unsafe fn launch_resident(&self, program: &Arc<dyn Program>, launch: Launch<'_>) -> Result<ResidentId> {
        check_launch(CpuProgram::of(&**program)?, &launch)?;
        // SAFETY: buffers and numbers are as many as the kernel takes; the caller vouches for what
        // they say, and for the memory until the launch is over.
        unsafe { self.residents.begin(program.clone(), launch, self.prints()) }
    }

    fn resident_done(&self, id: ResidentId) -> Result<bool> {
        self.residents.wait(id, Duration::ZERO)
    }

    fn resident_wait(&self, id: ResidentId, timeout: Duration) -> Result<bool> {
        self.residents.wait(id, timeout)
    }

    fn block_time(&self, id: ResidentId, block: u64) -> Option<BlockTime> {
        self.residents.block_time(id, block)
    }

    /// Nothing waits for a resident launch here.
    fn add_tenant(&self, _tenant: Weak<dyn Tenant>) {}
}

impl Diagnostics for CpuBackend {
    fn set_launch_limit(&self, limit: Option<Duration>) -> bool {
        self.watch.set_limit(limit);
        true
    }
}
