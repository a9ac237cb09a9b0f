//! [`Cuda`]: an NVIDIA GPU as a Kiln device.
//!
//! | file | holds |
//! |---|---|
//! | `pipeline.rs` | from a kernel to PTX |
//! | `maps.rs` | tensor maps of launches |
//! | `program.rs` | a loaded kernel and its launch |
//! | `occupancy.rs` | how many blocks of a kernel a multiprocessor runs |
//! | `artifact.rs` | a compiled kernel as bytes |
//! | `offline.rs` | kernels compiled for packages |
//! | `graphs.rs` | launches that are enqueued in one call |
//! | `residents.rs`, `tenants.rs` | resident kernels and their owners |
//! | `tenancy.rs` | both of a context, for all its backends |
//! | `crowd.rs` | whether a launch has room beside resident ones |
//! | `mappings.rs` | memory that the host and running kernels share |
//! | `raw.rs` | memory of other libraries |
//! | `capabilities.rs` | what GPUs of a compute capability can do |
//! | `device.rs` | what everything on one GPU shares |
//! | `streams.rs` | streams and events by number |
//! | `reports.rs` | where faults and prints of a stream arrive |
//! | `sites.rs` | what they mean |
//! | `sass.rs` | machine code as text |

mod artifact;
mod capabilities;
mod crowd;
mod device;
mod graphs;
mod mappings;
mod maps;
mod occupancy;
mod offline;
mod pipeline;
mod program;
mod raw;
mod reports;
mod residents;
mod sass;
mod sites;
mod streams;
mod tenancy;
mod tenants;

pub use capabilities::capabilities;
pub use mappings::mapped_places;
pub use offline::{compile_for_package, package_target_of};
pub use pipeline::{compile_to_ptx, compile_to_tasks, compile_to_threads, threads_to_ptx};

use crate::driver::{
    Context, Cubin, CudaError, Diagnostic, DiagnosticKind, Driver, Event, GraphBuilder, JitLog, JitOptions,
    Module, Severity, compile_to_cubin,
};
use crate::ptx;
use artifact::{Artifact, Code};
use crowd::Crowd;
use device::Device;
use kiln_backend::{
    Artifacts, Backend, Compiled, DevicePtr, Diagnostics, DumpStage, Error, EventId, Graphs, HostCall,
    Launch, Mapped, MappedMemory, MappedPlace, MappedPlaces, Multiprocessors, Occupancy, PackageTarget,
    Peers, Places, PrintSink, Program, Properties, RawMemory, ResidentId, Result, Stages, StreamControls,
    StreamId, StreamPriority, Tenant, dump,
};
use kiln_compiler::Target;
use kiln_ir::{Kernel, Level};
use mappings::Mappings;
use program::CudaProgram;
use sites::SiteTable;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use streams::Queue;
use tenancy::Tenancy;

/// A digest of the compiler's and the emitter's sources (`build.rs`), so that code of an older
/// compiler is never taken from a cache.
const GENERATOR: &str = env!("KILN_SOURCE_DIGEST");

/// Refuses code for which the compiler gave performance up where the kernel asked for it: that is a
/// bug of the emitter, and no slower kernel than the user wrote.
fn accept(kernel: &Kernel, log: &JitLog) -> Result<()> {
    use DiagnosticKind::{SetMaxRegistersIgnored, TooFewRegisters, WgmmaSerialized};
    let slow = |d: &&Diagnostic| matches!(d.kind, SetMaxRegistersIgnored | TooFewRegisters | WgmmaSerialized);
    match log.diagnostics.iter().find(slow) {
        None => Ok(()),
        Some(found) => Err(Error::Compile {
            kernel: kernel.name.clone(),
            location: "generated PTX".to_owned(),
            message: format!("the assembler gave performance up: {}", found.message),
        }),
    }
}

/// What a package's code is made for, for GPUs of a compute capability.
fn package_target(target: ptx::Target) -> PackageTarget {
    PackageTarget {
        name: format!("sm_{}", target.capability()),
        needs: String::new(),
        maker: format!("kiln-cuda {} {GENERATOR}", env!("CARGO_PKG_VERSION")),
    }
}

/// What is kept of a kernel of which the assembler said this; `code` makes what the driver loads
/// from the text, or from what it has.
fn artifact(
    kernel: &Kernel,
    module: ptx::Module,
    code: impl FnOnce(String) -> Code,
    log: &JitLog,
) -> Artifact {
    let usage = log.functions.iter().find(|usage| usage.name == module.entry);
    Artifact {
        table: SiteTable {
            kernel: kernel.name.clone(),
            per_thread: matches!(kernel.level, Level::Thread { .. }),
            sites: module.sites,
        },
        entry: module.entry,
        block: module.block,
        shared: module.shared,
        words: module.words,
        addresses: module.addresses,
        spills: usage.map_or(0, |usage| usage.spill_stores.max(usage.spill_loads)),
        maps: module.maps,
        cluster: module.cluster,
        grid_barrier: module.grid_barrier,
        code: code(module.text),
    }
}

/// Time since the last look.
struct Clock(Instant);

impl Clock {
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}

/// Whether products of warpgroups wait for each other.
fn gives_up_products(log: &JitLog) -> bool {
    use DiagnosticKind::{TooFewRegisters, WgmmaSerialized};
    log.diagnostics.iter().any(|d| matches!(d.kind, TooFewRegisters | WgmmaSerialized))
}

/// How many GPUs this process sees: none where there is no driver.
///
/// # Errors
/// [`Error::Unavailable`] where a driver is there and fails, with what to do about it. The answer
/// is found once a process.
///
/// ```
/// match kiln_cuda::device_count() {
///     Ok(count) => println!("{count} GPUs"),
///     Err(error) => println!("{error}"),
/// }
/// ```
pub fn device_count() -> Result<usize> {
    match Driver::get() {
        Ok(driver) => Ok(driver.device_count()),
        Err(error) if error.is_absence() => Ok(0),
        Err(error) => Err(error.into_backend("cuda")),
    }
}

/// An NVIDIA GPU as a Kiln device.
///
/// ```no_run
/// use kiln_backend::{Backend, StreamId};
/// # fn main() -> kiln_backend::Result<()> {
/// let gpu = kiln_cuda::Cuda::open(0)?;
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
pub struct Cuda {
    device: Arc<Device>,
    mappings: Mappings,
    tenancy: Arc<Tenancy>,
}

impl Cuda {
    /// Opens GPU `index`, from 0.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a driver or such a GPU, with what to do about it;
    /// [`Error::Driver`] where the GPU does not start.
    pub fn open(index: usize) -> Result<Cuda> {
        Cuda::in_context(index, Context::new)
    }

    /// Opens GPU `index` in a new context of Kiln's own, which shares nothing with the one before:
    /// beside a kernel that does not end.
    ///
    /// # Errors
    /// As of [`open`](Self::open); [`Error::Lost`] after a trap, when the driver gives this process
    /// no new context.
    pub fn open_anew(index: usize) -> Result<Cuda> {
        Cuda::in_context(index, Context::anew)
    }

    fn in_context(index: usize, context: fn(usize) -> crate::driver::Result<Context>) -> Result<Cuda> {
        let id = format!("cuda:{index}");
        let context = context(index).map_err(|error| error.into_backend(&id))?;
        let tenancy = Tenancy::of(&context);
        let places = [tenancy.stream_place(&id)?, tenancy.stream_place(&id)?];
        let device = Arc::new(Device::open(id, context, places)?);
        tenancy.know(&device);
        Ok(Cuda { device, mappings: Mappings::default(), tenancy })
    }

    /// Does `work`, which waits for all kernels of the GPU, while no resident launch runs.
    fn with_room<T>(&self, what: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.tenancy.with_room(what, &self.device.properties.id, work)
    }

    /// A new stream.
    fn new_stream(&self, priority: StreamPriority) -> Result<StreamId> {
        let place = self.tenancy.stream_place(&self.device.properties.id)?;
        self.check(self.device.streams.create(place, priority))
    }

    /// Loads an artifact.
    fn load_program(&self, artifact: &Artifact) -> Result<CudaProgram> {
        self.with_room("a program", || CudaProgram::load(&self.device, artifact))
    }

    /// Launches a kernel that may find no room beside resident launches.
    ///
    /// # Safety
    /// That of [`Backend::launch`].
    unsafe fn launch_with_room(
        &self,
        program: &CudaProgram,
        queue: &Arc<Queue>,
        launch: Launch<'_>,
    ) -> Result<()> {
        let (gpu, claim) = (self.device.context.properties(), program.claim(launch.grid));
        let fits = |crowd: &Crowd| crowd.has_room(gpu, &claim);
        // SAFETY: as the caller promises.
        self.tenancy.enqueue((&self.device, queue), fits, || unsafe { program.launch(queue, launch) })
    }

    fn check<T>(&self, result: crate::driver::Result<T>) -> Result<T> {
        result.map_err(|error| self.device.explain(error))
    }

    fn event(&self, id: EventId) -> Result<Arc<Event>> {
        self.device.events.get(id).ok_or_else(|| Error::Internal {
            place: "kiln-cuda",
            message: format!("event {} does not exist", id.0),
        })
    }

    /// A program as one of this device's.
    #[inline]
    fn own<'a>(&self, program: &'a dyn Program) -> Result<&'a CudaProgram> {
        let program = program.as_any().downcast_ref::<CudaProgram>();
        program.filter(|program| program.is_on(&self.device)).ok_or_else(|| {
            let message = "the program was compiled for another device".into();
            Error::Internal { place: "kiln-cuda", message }
        })
    }

    /// What PTX may be written for: the GPU, in the language of the driver.
    fn target(&self) -> ptx::Target {
        let Properties { compute_capability, ptx, .. } = &self.device.properties;
        ptx::Target { compute: compute_capability.unwrap_or((8, 0)), ptx: ptx.unwrap_or((8, 0)) }
    }

    /// Compiles a kernel and loads it.
    fn build(&self, kernel: &Kernel) -> Result<(Artifact, CudaProgram, Stages)> {
        let (target, shared) = (self.target(), self.device.properties.shared_memory);
        let mut clock = Clock(Instant::now());
        let lowered = pipeline::lower(kernel, &pipeline::lowering_target(target, shared), target)?;
        let passes = clock.lap();
        let module = pipeline::emit(&lowered, target, shared)?;
        self.dump(kernel, &lowered, &module);
        let emission = clock.lap();
        let (context, options) = (&self.device.context, JitOptions::default());
        let refused = |text: &str, error| self.refused(kernel, text, error);
        if !module.whole_program {
            let (module, cubin) = self.assemble(kernel, module)?;
            dump(DumpStage::Sass, self.dumped(kernel), || sass::disassemble(&cubin.bytes));
            let assembly = clock.lap();
            let artifact = artifact(kernel, module, |_| Code::Cubin(cubin.bytes), &cubin.log);
            let program = self.load_program(&artifact)?;
            let loading = clock.lap();
            return Ok((artifact, program, Stages { passes, emission, assembly, loading }));
        }
        dump(DumpStage::Sass, self.dumped(kernel), || {
            Err("the driver assembles a kernel with register budgets as it loads it, and keeps the code"
                .into())
        });
        // The driver compiles this only as it loads it, so what it loaded is the program: from the
        // text it would be compiled once more, unless the driver has a cache of its own. The
        // residents are away meanwhile.
        let (artifact, program) = self.with_room("a program", || {
            let (loaded, log) = Module::from_ptx(context, &module.entry, &module.text, &options)
                .map_err(|error| refused(&module.text, error))?;
            accept(kernel, &log)?;
            let artifact = artifact(kernel, module, Code::Ptx, &log);
            let program = CudaProgram::of(&self.device, &artifact, &loaded)?;
            Ok((artifact, program))
        })?;
        Ok((artifact, program, Stages { passes, emission, assembly: clock.lap(), ..Stages::default() }))
    }

    /// Machine code, and the text that it is of.
    fn assemble(&self, kernel: &Kernel, module: ptx::Module) -> Result<(ptx::Module, Cubin)> {
        let (context, options) = (&self.device.context, JitOptions::default());
        let assembled = |module: &ptx::Module| {
            let cubin = compile_to_cubin(context, &module.entry, &module.text, &options);
            cubin.map_err(|error| self.refused(kernel, &module.text, error))
        };
        let cubin = assembled(&module)?;
        if !gives_up_products(&cubin.log) {
            return Ok((module, cubin));
        }
        // Who multiplies tiles did not ask for warpgroups: where theirs would wait for each other,
        // in tasks or without, warps multiply.
        let (target, shared) = (self.target(), self.device.properties.shared_memory);
        let whole = Target { tasks: false, ..pipeline::lowering_target(target, shared) };
        let (mut module, mut cubin) = (module, cubin);
        for threads in [whole.clone(), Target { warpgroups: false, ..whole }] {
            let lowered = pipeline::lower(kernel, &threads, target)?;
            let others = pipeline::emit(&lowered, target, shared)?;
            if others.text == module.text {
                continue;
            }
            self.dump(kernel, &lowered, &others);
            cubin = assembled(&others)?;
            module = others;
            if !gives_up_products(&cubin.log) {
                break;
            }
        }
        Ok((module, cubin))
    }

    /// What the files of a dump are named by.
    fn dumped<'a>(&'a self, kernel: &'a Kernel) -> (&'a Kernel, &'a str) {
        (kernel, &self.device.properties.id)
    }

    /// Writes the stages up to PTX as files, if the environment asks for them.
    fn dump(&self, kernel: &Kernel, lowered: &Kernel, module: &ptx::Module) {
        dump(DumpStage::Tir, self.dumped(kernel), || Ok(format!("{lowered:#}").into_bytes()));
        dump(DumpStage::Ptx, self.dumped(kernel), || Ok(module.text.clone().into_bytes()));
    }

    /// The error for a text that the driver's compiler refused, with the user's line where the text
    /// is the user's.
    fn refused(&self, kernel: &Kernel, text: &str, error: CudaError) -> Error {
        let CudaError::Jit(failure) = error else { return self.device.explain(error) };
        let lines = failure.log.diagnostics.iter().filter(|found| found.severity >= Severity::Error);
        let place = lines.filter_map(|found| ptx::place_of(text, found.line?)).next();
        let location = place.unwrap_or("generated PTX").to_owned();
        let message = format!("{failure}\n{}", failure.log.text);
        Error::Compile { kernel: kernel.name.clone(), location, message }
    }
}

impl Backend for Cuda {
    fn properties(&self) -> &Properties {
        &self.device.properties
    }

    fn free_memory(&self) -> Result<u64> {
        let memory = self.check(self.device.context.memory())?;
        let pooled = memory.pool_reserved.saturating_sub(memory.pool_used);
        Ok((memory.free + pooled) as u64)
    }

    fn allocate(&self, bytes: usize, stream: StreamId) -> Result<DevicePtr> {
        self.check(self.device.streams.get(stream).stream.allocate(bytes.max(1)))
    }

    unsafe fn free(&self, ptr: DevicePtr, _bytes: usize, stream: StreamId) {
        // A failure cannot be reported: see the trait.
        // SAFETY: as the caller promises.
        let _ = unsafe { self.device.streams.get(stream).stream.free(ptr) };
    }

    unsafe fn upload(&self, dst: DevicePtr, src: &[u8], stream: StreamId) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check(unsafe { self.device.streams.get(stream).stream.upload(dst, src) })
    }

    unsafe fn download(&self, dst: &mut [u8], src: DevicePtr, stream: StreamId) -> Result<()> {
        let queue = self.device.streams.get(stream);
        // SAFETY: as the caller promises.
        self.check(unsafe { queue.stream.download(dst, src) })?;
        self.device.report_all(&queue)
    }

    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, stream: StreamId) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check(unsafe { self.device.streams.get(stream).stream.copy(dst, src, bytes) })
    }

    unsafe fn fill(&self, dst: DevicePtr, byte: u8, bytes: usize, stream: StreamId) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check(unsafe { self.device.streams.get(stream).stream.fill_bytes(dst, byte, bytes) })
    }

    fn compile(&self, kernel: &Kernel) -> Result<Compiled> {
        self.device.sweep();
        let (artifact, program, stages) = self.build(kernel)?;
        Ok(Compiled { program: Arc::new(program), artifact: Some(artifact.encode()), stages })
    }

    #[inline]
    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()> {
        let (program, queue) = (self.own(program)?, self.device.streams.get(launch.stream));
        if program.fills() || self.tenancy.is_crowded() {
            // SAFETY: as the caller promises.
            return unsafe { self.launch_with_room(program, &queue, launch) };
        }
        // SAFETY: as the caller promises.
        unsafe { program.launch(&queue, launch) }
    }

    fn create_stream(&self) -> Result<StreamId> {
        self.new_stream(StreamPriority::Normal)
    }

    fn destroy_stream(&self, stream: StreamId) {
        // A failure leaves the stream as it is, which is no worse than not destroying it.
        let _ = self.device.streams.destroy(stream);
    }

    fn record(&self, stream: StreamId, timing: bool) -> Result<EventId> {
        self.check(self.device.events.record(&self.device.streams.get(stream).stream, timing))
    }

    fn wait(&self, stream: StreamId, event: EventId) -> Result<()> {
        self.check(self.device.streams.get(stream).stream.wait(&*self.event(event)?))
    }

    fn query(&self, event: EventId) -> Result<bool> {
        self.check(self.event(event)?.has_passed())
    }

    fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32> {
        let (start, end) = (self.event(start)?, self.event(end)?);
        self.check(end.since(&start)).map(|time| time.as_secs_f32() * 1e3)
    }

    fn destroy_event(&self, event: EventId) {
        self.device.events.destroy(event);
    }

    fn synchronize(&self, stream: StreamId) -> Result<()> {
        let queue = self.device.streams.get(stream);
        self.check(queue.stream.synchronize())?;
        self.device.report_all(&queue)
    }

    fn set_print_sink(&self, sink: PrintSink) {
        self.device.set_print_sink(sink);
    }

    fn artifacts(&self) -> Option<&dyn Artifacts> {
        Some(self)
    }

    fn graphs(&self) -> Option<&dyn Graphs> {
        GraphBuilder::is_available(&self.device.context).then_some(self)
    }

    fn mapped_memory(&self) -> Option<&dyn MappedMemory> {
        Some(self)
    }

    fn residents(&self) -> Option<&dyn kiln_backend::Residents> {
        Some(self)
    }

    fn peers(&self) -> Option<&dyn Peers> {
        Some(self)
    }

    fn stream_controls(&self) -> Option<&dyn StreamControls> {
        Some(self)
    }

    fn raw_memory(&self) -> Option<&dyn RawMemory> {
        Some(self)
    }

    fn multiprocessors(&self) -> Option<&dyn Multiprocessors> {
        Some(self)
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        Some(self)
    }
}

impl Multiprocessors for Cuda {
    fn occupancy(&self, program: &dyn Program) -> Result<Occupancy> {
        self.own(program)?.occupancy()
    }
}

impl StreamControls for Cuda {
    fn create_stream_of(&self, priority: StreamPriority) -> Result<StreamId> {
        self.new_stream(priority)
    }

    fn call_host(&self, stream: StreamId, call: HostCall) -> Result<()> {
        self.check(self.device.streams.get(stream).stream.call_host(call))
    }
}

impl Artifacts for Cuda {
    fn artifact_key(&self) -> String {
        let Properties { driver, .. } = &self.device.properties;
        let version = env!("CARGO_PKG_VERSION");
        format!("kiln-cuda {version} {GENERATOR}, sm_{}, driver {driver}", self.target().capability())
    }

    fn load(&self, artifact: &[u8]) -> Result<Arc<dyn Program>> {
        self.load_packaged(artifact, &Places::default())
    }

    fn package_target(&self) -> Option<PackageTarget> {
        Some(package_target(self.target()))
    }

    fn load_packaged(&self, artifact: &[u8], places: &Places) -> Result<Arc<dyn Program>> {
        let mut artifact = Artifact::decode(artifact).map_err(|reason| Error::Driver {
            call: format!("{}: loading a compiled kernel", self.device.properties.id),
            code: "damaged bytes".into(),
            message: format!("{reason}; compile the kernel again"),
        })?;
        if !places.are_same() {
            for site in &mut artifact.table.sites {
                site.location = places.now(&site.location).to_owned();
            }
        }
        Ok(Arc::new(self.load_program(&artifact)?))
    }
}

impl MappedMemory for Cuda {
    fn map(&self, bytes: usize, place: MappedPlace) -> Result<Mapped> {
        self.mappings.map(&self.device, bytes.max(1), place)
    }

    unsafe fn unmap(&self, mapped: Mapped) {
        self.mappings.unmap(&self.device, mapped);
    }

    unsafe fn adopt(&self, host: NonNull<u8>, bytes: usize) -> Result<Mapped> {
        // SAFETY: as the caller promises.
        unsafe { self.mappings.adopt(&self.device, host, bytes) }
    }

    unsafe fn disown(&self, mapped: Mapped) {
        self.mappings.disown(mapped);
    }

    fn mapped_places(&self) -> MappedPlaces {
        self.mappings.places(&self.device)
    }
}

impl kiln_backend::Residents for Cuda {
    unsafe fn launch_resident(&self, program: &Arc<dyn Program>, launch: Launch<'_>) -> Result<ResidentId> {
        let program = self.own(&**program)?;
        // SAFETY: as the caller promises.
        unsafe { self.tenancy.begin(&self.device, program, launch) }
    }

    fn resident_done(&self, id: ResidentId) -> Result<bool> {
        self.tenancy.residents.is_over(&self.device, id)
    }

    fn resident_wait(&self, id: ResidentId, timeout: Duration) -> Result<bool> {
        self.tenancy.residents.wait(&self.device, id, timeout)
    }

    fn add_tenant(&self, tenant: Weak<dyn Tenant>) {
        self.tenancy.add(&self.device.properties.id, tenant);
    }
}

impl Peers for Cuda {
    fn enable_peer_access(&self, owner: &Properties) -> Result<()> {
        let Some(other) = owner.id.strip_prefix("cuda:").and_then(|index| index.parse().ok()) else {
            return Err(Error::Unavailable {
                device: format!("peer access of {} to {}", self.device.properties.id, owner.id),
                reason: "it is not an NVIDIA GPU".into(),
                hint: "Use mapped memory, or copy.".into(),
            });
        };
        // The other device is alive, so this is its context, and its pool.
        let other = self.check(Context::new(other))?;
        self.check(self.device.context.enable_peer_access(&other))
    }
}

impl Diagnostics for Cuda {
    fn pool_reserved(&self) -> Option<u64> {
        Some(self.device.context.memory().ok()?.pool_reserved as u64)
    }
}
