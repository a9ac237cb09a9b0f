//! The interpreter as a device.

use crate::debug::Session;
use crate::explicit::{self, has_grid_barrier};
use crate::launch;
use crate::memory::GlobalMemory;
use crate::order::Order;
use crate::program::Loaded;
use crate::residents::Residents;
use crate::shadow::Report;
use crate::streams::Streams;
use crate::threads::WARP;
use crate::time::Time;
use kiln_backend::{
    Backend, Capabilities, Clock, Compiled, DevicePtr, Diagnostics, Error, EventId, Execution, Fault,
    HostCall, LAUNCH_LIMIT, Launch, Mapped, MappedMemory, MappedPlace, MappedPlaces, PrintSink, Prints,
    Program, Properties, RawMemory, Residency, ResidentId, Result, Stages, StreamControls, StreamId,
    StreamPriority, Tenant, is_printing,
};
use kiln_ir::{Kernel, verify};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How an [`Interp`] is set up.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether the sanitizer is on: it finds reads of memory that nothing has written and races
    /// between threads and between blocks. Device memory is then not
    /// [`unified`](Properties::unified), because writes by the host would go unseen.
    pub sanitize: bool,
    /// How many bytes of device memory there are.
    pub memory: u64,
    /// The order in which the blocks of a launch run, and the threads of a block between two
    /// barriers, follows from this seed and the number of the launch: what depends on that order
    /// shows, and shows again. Without a seed, blocks run in increasing order and threads in
    /// lockstep. Blocks of a cluster, and of the explicit level, which wait for each other, always
    /// run in increasing order; the threads of a resident launch always run in lockstep.
    pub seed: Option<u64>,
    /// Threads of a warp, at least 1: 32, which is what shuffles and votes of kernels mean. Kernels
    /// that were lowered for a target with other warps need theirs.
    pub warp: u32,
}

impl Default for Options {
    /// With the sanitizer, in the increasing order.
    fn default() -> Options {
        Options { sanitize: true, memory: 8 << 30, seed: None, warp: WARP as u32 }
    }
}

impl Options {
    /// Without the sanitizer, in the increasing order.
    pub fn fast() -> Options {
        Options { sanitize: false, ..Options::default() }
    }

    /// The options that a device name stands for: `interp`, `interp:SEED`, `interp:fast`,
    /// `interp:fast:SEED`. `None` for any other name.
    ///
    /// ```
    /// use kiln_interp::Options;
    /// let seeded = Options::named("interp:fast:7").unwrap();
    /// assert_eq!((seeded.sanitize, seeded.seed), (false, Some(7)));
    /// assert!(Options::named("interp").unwrap().sanitize);
    /// assert!(Options::named("interp:slow").is_none());
    /// ```
    pub fn named(name: &str) -> Option<Options> {
        let rest = name.strip_prefix(DEVICE)?;
        let (options, rest) = match rest.strip_prefix(FAST) {
            Some(rest) => (Options::fast(), rest),
            None => (Options::default(), rest),
        };
        match rest.strip_prefix(':') {
            Some(seed) => Some(Options { seed: Some(seed.parse().ok()?), ..options }),
            None => rest.is_empty().then_some(options),
        }
    }

    /// The name that [`named`](Self::named) understands.
    fn name(&self) -> String {
        let fast = if self.sanitize { "" } else { FAST };
        let seed = self.seed.map_or_else(String::new, |seed| format!(":{seed}"));
        format!("{DEVICE}{fast}{seed}")
    }
}

/// The reference interpreter as a device. Everything is done when a call returns. The print sink is
/// called within a launch.
///
/// ```
/// use kiln_backend::{Backend, BufferBinding, LaunchArguments, StreamId};
/// use kiln_interp::{Interp, Options};
/// use kiln_ir::*;
/// # fn main() -> kiln_backend::Result<()> {
/// let mut kernel = Kernel::new("twice", Level::Tile { warps: None });
/// let ty = Type::view(Scalar::F32, 1, Space::Global);
/// let x = kernel.add_param(Param { name: "x".into(), ty, mutable: true, facts: Facts::default() });
/// let mut b = Builder::new(&mut kernel);
/// let (zero, padding) = (b.index(0), b.constant(Literal::f32(0.0)));
/// let tile = b.load(x, &[zero], padding, Shape::new(&[4]), Reuse::Normal);
/// let sum = b.binary(BinaryOp::Add, tile, tile);
/// b.store(x, &[zero], sum, Reuse::Normal, true);
///
/// let device = Interp::new(Options::default());
/// let stream = StreamId::default();
/// let program = device.compile(&kernel)?.program;
/// let memory = device.allocate(12, stream)?;
/// let bytes: Vec<u8> = [1f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
/// let mut result = [0; 12];
/// // SAFETY: the copies are as long as the allocation, and the view is all of it.
/// unsafe {
///     device.upload(memory, &bytes, stream)?;
///     let arguments = LaunchArguments::new().view(BufferBinding::write(memory), &[3]);
///     device.launch(&*program, arguments.launch([1, 1, 1], stream))?;
///     device.download(&mut result, memory, stream)?;
///     device.free(memory, 12, stream);
/// }
/// assert_eq!(result[8..], 6f32.to_le_bytes());
/// # Ok(())
/// # }
/// ```
pub struct Interp {
    properties: Properties,
    sanitize: bool,
    seed: Option<u64>,
    limit: Mutex<Option<Duration>>,
    state: Mutex<DeviceState>,
    prints: Prints,
    on_fault: Option<FaultSink>,
    session: Option<Arc<Session>>,
    /// What was dropped inside the print sink, while a launch had the state.
    dropped: Mutex<Vec<Dropped>>,
}

/// What is called with each fault.
type FaultSink = Box<dyn Fn(&Fault) + Send + Sync>;

/// An object that is no longer used.
enum Dropped {
    Memory(u64),
    /// Memory of another owner.
    Borrowed(u64),
    Stream(StreamId),
    Event(EventId),
}

struct DeviceState {
    memory: GlobalMemory,
    streams: Streams,
    residents: Residents,
    launches: u64,
}

/// The most blocks of a cluster, as GPUs have.
const MAX_CLUSTER: u32 = 8;

/// The most blocks of a launch whose blocks wait for each other: each has a thread of the host.
const MAX_AT_ONCE: u64 = 256;

/// The name of the device.
const DEVICE: &str = "interp";
/// What the name has after it without the sanitizer.
const FAST: &str = ":fast";

impl Interp {
    /// A device.
    pub fn new(options: Options) -> Interp {
        let properties = Properties {
            id: options.name(),
            name: "Kiln reference interpreter".into(),
            units: 1,
            warp: options.warp.max(1),
            max_threads: 1024,
            max_grid: [i32::MAX as u32, 65535, 65535],
            shared_memory: 227 << 10,
            memory: options.memory,
            cache: 0,
            compute_capability: None,
            uuid: None,
            driver: env!("CARGO_PKG_VERSION").into(),
            ptx: None,
            unified: !options.sanitize,
            residency: Residency::Within,
            capabilities: Capabilities {
                on_host: true,
                clusters: MAX_CLUSTER,
                explicit_level: true,
                grid_barriers: true,
                atomic_128: true,
                launch_limit: true,
                sanitizer: options.sanitize,
                clock: Clock::Operations,
                ..Capabilities::new(Execution::Interpreted)
            },
        };
        let memory = GlobalMemory::new(options.memory, options.sanitize);
        Interp {
            properties,
            sanitize: options.sanitize,
            seed: options.seed,
            limit: Mutex::new(Some(LAUNCH_LIMIT)),
            state: Mutex::new(DeviceState {
                memory,
                streams: Streams::new(),
                residents: Residents::default(),
                launches: 0,
            }),
            prints: Prints::default(),
            on_fault: None,
            session: None,
            dropped: Mutex::default(),
        }
    }

    /// Calls a function with each fault, when it happens: also with one that nobody asks for later.
    ///
    /// ```
    /// use kiln_interp::{Interp, Options};
    /// let device = Interp::new(Options::default()).on_fault(|fault| eprintln!("{fault}"));
    /// assert!(device.sanitizes());
    /// ```
    pub fn on_fault(mut self, sink: impl Fn(&Fault) + Send + Sync + 'static) -> Interp {
        self.on_fault = Some(Box::new(sink));
        self
    }

    /// Lets a debugger's session stop the device's launches, which have no time limit then.
    ///
    /// [`Session`] has an example.
    pub fn debugged(mut self, session: Arc<Session>) -> Interp {
        self.session = Some(session);
        self
    }

    /// Whether the sanitizer is on.
    pub fn sanitizes(&self) -> bool {
        self.sanitize
    }

    /// The state, unless a launch of this thread has it, whose print sink makes this call.
    fn state(&self) -> Result<MutexGuard<'_, DeviceState>> {
        if is_printing() {
            return Err(Error::InsidePrintSink { device: self.properties.id.clone() });
        }
        // It is whole between calls, so that a panic elsewhere while it was locked does not spoil
        // it.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = std::mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner));
        dropped.into_iter().for_each(|gone| state.release(gone));
        Ok(state)
    }

    /// Releases something, at once or when the launch is over whose print sink drops it.
    fn release(&self, gone: Dropped) {
        match self.state() {
            Ok(mut state) => state.release(gone),
            Err(_) => self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(gone),
        }
    }

    /// Runs a launch to its end, or for as long as it may, and gives the fault it ended with. Its
    /// threads run in lockstep without `order_threads`, or a seed.
    fn run(
        &self,
        state: &mut DeviceState,
        program: &dyn Program,
        launch: Launch<'_>,
        limit: Option<Duration>,
        order_threads: bool,
    ) -> Result<Option<Fault>> {
        let loaded = program.as_any().downcast_ref::<Loaded>().ok_or_else(|| Error::Internal {
            place: "kiln-interp",
            message: "the program was compiled for another device".into(),
        })?;
        for ((axis, given), limit) in ["x", "y", "z"].iter().zip(launch.grid).zip(self.properties.max_grid) {
            self.limit(&loaded.kernel, &format!("grid extent {axis}"), given.into(), limit.into())?;
        }
        let (blocks, whole) =
            (launch.grid[0], launch.grid[0] / loaded.kernel.cluster * loaded.kernel.cluster);
        let what =
            format!("grid extent x, of which clusters of {} leave a part over,", loaded.kernel.cluster);
        self.limit(&loaded.kernel, &what, blocks.into(), whole.into())?;
        state.streams.check(launch.stream, "launch")?;
        if launch.grid.contains(&0) {
            return Ok(None);
        }
        let blocks = launch.grid.iter().map(|&extent| u64::from(extent)).product();
        if has_grid_barrier(&loaded.kernel) {
            self.limit(&loaded.kernel, "blocks of a launch with a grid barrier", blocks, MAX_AT_ONCE)?;
        }
        let order = match self.seed {
            Some(seed) if order_threads => {
                let order = Order::seeded(blocks, seed, state.launches);
                if loaded.waits_for_blocks { order.with_blocks_increasing() } else { order }
            }
            // Resident blocks poll so often and end: none waits for another.
            Some(seed) => Order::seeded(blocks, seed, state.launches).with_threads_in_lockstep(),
            None => Order::increasing(blocks),
        };
        state.launches += 1;
        let session = self.session.as_deref();
        let (memory, time) = (&mut state.memory, Time::new(limit.filter(|_| session.is_none())));
        match launch::run(loaded, launch, order, memory, &self.prints, time, session) {
            Ok(()) => Ok(None),
            Err(Error::Fault(fault)) => {
                if let Some(sink) = &self.on_fault {
                    sink(&fault);
                }
                Ok(Some(*fault))
            }
            Err(other) => Err(other),
        }
    }

    fn limit(&self, kernel: &Kernel, what: &str, given: u64, limit: u64) -> Result<()> {
        if given <= limit {
            return Ok(());
        }
        Err(Error::LaunchLimit { kernel: kernel.name.clone(), what: what.into(), given, limit })
    }
}

impl DeviceState {
    fn release(&mut self, gone: Dropped) {
        match gone {
            Dropped::Memory(address) => self.memory.free(address),
            Dropped::Borrowed(address) => self.memory.give_back(address),
            Dropped::Stream(stream) => self.streams.destroy(stream),
            Dropped::Event(event) => self.streams.destroy_event(event),
        }
    }
}

/// A copy or fill outside the device's memory, which the caller promised not to ask for.
fn bad_range(call: &str, report: Report) -> Error {
    let (code, message) = match report {
        Report::Access(finding, detail) => (finding.to_string(), detail),
        // The host neither reads through the sanitizer nor races.
        report => ("internal".into(), format!("{report:?}")),
    };
    Error::Driver { call: format!("{DEVICE}: {call}"), code, message }
}

impl Backend for Interp {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn free_memory(&self) -> Result<u64> {
        Ok(self.state()?.memory.free_bytes())
    }

    fn allocate(&self, bytes: usize, stream: StreamId) -> Result<DevicePtr> {
        let mut state = self.state()?;
        state.streams.check(stream, "allocate")?;
        state.memory.allocate(bytes.max(1), DEVICE).map(DevicePtr)
    }

    unsafe fn free(&self, ptr: DevicePtr, _bytes: usize, _stream: StreamId) {
        self.release(Dropped::Memory(ptr.0));
    }

    unsafe fn upload(&self, dst: DevicePtr, src: &[u8], stream: StreamId) -> Result<()> {
        let mut state = self.state()?;
        state.streams.check(stream, "upload")?;
        state.memory.upload(dst.0, src).map_err(|r| bad_range("upload", r))
    }

    unsafe fn download(&self, dst: &mut [u8], src: DevicePtr, stream: StreamId) -> Result<()> {
        let mut state = self.state()?;
        state.streams.report(stream, "download")?;
        self.prints.outcome(DEVICE)?;
        state.memory.download(dst, src.0).map_err(|r| bad_range("download", r))
    }

    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, stream: StreamId) -> Result<()> {
        let mut state = self.state()?;
        state.streams.check(stream, "copy")?;
        state.memory.copy(dst.0, src.0, bytes).map_err(|r| bad_range("copy", r))
    }

    unsafe fn fill(&self, dst: DevicePtr, byte: u8, bytes: usize, stream: StreamId) -> Result<()> {
        let mut state = self.state()?;
        state.streams.check(stream, "fill")?;
        state.memory.fill(dst.0, byte, bytes).map_err(|r| bad_range("fill", r))
    }

    fn compile(&self, kernel: &Kernel) -> Result<Compiled> {
        if let Err(errors) = verify(kernel) {
            let location = errors.first().map_or_else(String::new, |e| e.location.clone());
            let message: Vec<String> =
                errors.iter().map(|e| format!("{}, in `{}`", e.message, e.op)).collect();
            return Err(Error::Compile {
                kernel: kernel.name.clone(),
                location,
                message: message.join("; "),
            });
        }
        explicit::check(kernel)?;
        let loaded = Loaded::new(kernel, self.properties.warp as usize);
        let threads: u64 = loaded.block.iter().map(|&e| u64::from(e)).product();
        self.limit(kernel, "threads per block", threads, self.properties.max_threads.into())?;
        let shared = loaded.shared_bytes as u64;
        self.limit(
            kernel,
            "shared memory of a block in bytes",
            shared,
            self.properties.shared_memory.into(),
        )?;
        Ok(Compiled { program: Arc::new(loaded), artifact: None, stages: Stages::default() })
    }

    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()> {
        let limit = *self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state()?;
        if let Some(fault) = self.run(&mut state, program, launch, limit, true)? {
            state.streams.fail(launch.stream, fault);
        }
        Ok(())
    }

    fn create_stream(&self) -> Result<StreamId> {
        Ok(self.state()?.streams.create())
    }

    fn destroy_stream(&self, stream: StreamId) {
        self.release(Dropped::Stream(stream));
    }

    fn record(&self, stream: StreamId, timing: bool) -> Result<EventId> {
        self.state()?.streams.record(stream, timing)
    }

    fn wait(&self, stream: StreamId, event: EventId) -> Result<()> {
        let state = self.state()?;
        state.streams.check(stream, "wait")?;
        state.streams.check_event(event, "wait")
    }

    fn query(&self, event: EventId) -> Result<bool> {
        self.state()?.streams.check_event(event, "query").map(|()| true)
    }

    fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32> {
        self.state()?.streams.elapsed_ms(start, end)
    }

    fn destroy_event(&self, event: EventId) {
        self.release(Dropped::Event(event));
    }

    fn synchronize(&self, stream: StreamId) -> Result<()> {
        self.state()?.streams.report(stream, "synchronize")?;
        self.prints.outcome(DEVICE)
    }

    fn set_print_sink(&self, sink: PrintSink) {
        self.prints.set(sink);
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

impl RawMemory for Interp {
    unsafe fn borrow_memory(&self, ptr: DevicePtr, bytes: usize) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.state()?.memory.borrow(ptr.0, bytes, &self.properties.id) }
    }

    unsafe fn give_back(&self, ptr: DevicePtr) {
        self.release(Dropped::Borrowed(ptr.0));
    }

    fn written_by_others(&self, ptr: DevicePtr, bytes: usize) {
        if let Ok(mut state) = self.state() {
            state.memory.set_written(ptr.0, bytes);
        }
    }
}

/// All work is done when the call that enqueues it returns.
impl StreamControls for Interp {
    fn create_stream_of(&self, _: StreamPriority) -> Result<StreamId> {
        self.create_stream()
    }

    fn call_host(&self, stream: StreamId, call: HostCall) -> Result<()> {
        self.state()?.streams.check(stream, "call_host")?;
        call();
        Ok(())
    }
}

impl MappedMemory for Interp {
    fn map(&self, bytes: usize, place: MappedPlace) -> Result<Mapped> {
        let bytes = bytes.max(1);
        let host = self.state()?.memory.allocate_mapped(bytes, DEVICE)?;
        let device = DevicePtr(host.as_ptr() as u64);
        Ok(Mapped { host, device, bytes, place, write_combined: false })
    }

    unsafe fn unmap(&self, mapped: Mapped) {
        self.release(Dropped::Memory(mapped.device.0));
    }

    unsafe fn adopt(&self, _host: NonNull<u8>, _bytes: usize) -> Result<Mapped> {
        Err(Error::Unavailable {
            device: format!("memory of two processes on {}", self.properties.id),
            reason: "the interpreter does not take it in".to_owned(),
            hint: "Take `cpu` or `cuda:N`.".to_owned(),
        })
    }

    fn mapped_places(&self) -> MappedPlaces {
        let words = || Ok("the interpreter's memory is the host's".to_owned());
        MappedPlaces { host: words(), device: words() }
    }
}

impl kiln_backend::Residents for Interp {
    unsafe fn launch_resident(&self, program: &Arc<dyn Program>, launch: Launch<'_>) -> Result<ResidentId> {
        let mut state = self.state()?;
        let fault = self.run(&mut state, &**program, launch, None, false)?;
        Ok(state.residents.over(fault))
    }

    fn resident_done(&self, id: ResidentId) -> Result<bool> {
        self.state()?.residents.report(id)
    }

    fn resident_wait(&self, id: ResidentId, _timeout: Duration) -> Result<bool> {
        self.resident_done(id)
    }

    /// A launch is never resident.
    fn add_tenant(&self, _tenant: Weak<dyn Tenant>) {}
}

impl Diagnostics for Interp {
    fn unwritten(&self, ptr: DevicePtr, bytes: usize, filled: bool) -> Option<Vec<Range<usize>>> {
        self.state().ok()?.memory.unwritten(ptr.0, bytes, filled)
    }

    fn set_launch_limit(&self, limit: Option<Duration>) -> bool {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = limit;
        true
    }
}
