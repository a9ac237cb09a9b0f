//! The contract between Kiln's runtime and a device.
//!
//! [`Backend`] is what `kiln-interp`, `kiln-cpu` and `kiln-cuda` implement and `kiln-runtime`
//! drives: memory, streams, compiling a verified [`Kernel`], launching it with 64-bit parameter
//! words. It is object-safe. Failures are [`Error`] values; a kernel's own failure is a [`Fault`]
//! that surfaces at the next synchronization and leaves the device usable.

mod capabilities;
mod device;
mod error;
mod limit;
mod mapped;
mod message;
mod prints;
mod resident;
mod variables;

pub use capabilities::{Capabilities, Clock, Execution, MatrixFormat, MatrixUnits};
pub use device::{BackendKind, DevicePtr, EventId, Properties, StreamId};
pub use error::{Error, Fault, FaultKind, Finding, Result};

pub use limit::{LAUNCH_LIMIT, launch_limit_of_environment, parse_launch_limit};
pub use mapped::{MapObstacle, Mapped, MappedPlace, MappedPlaces};
pub use message::fill_message;
pub use prints::{PrintSink, Prints, is_printing};
pub use resident::{BlockTime, Residency, ResidentId, Tenant};
pub use variables::LAUNCH_LIMIT_VARIABLE;

use kiln_ir::Kernel;
use std::any::Any;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A kernel that is compiled and loaded on a device.
pub trait Program: Send + Sync + Any {
    /// For a backend to find its own type again.
    fn as_any(&self) -> &dyn Any;

    /// What the compiler made of it.
    fn report(&self) -> Report;
}

/// What became of a kernel. Zero where a backend has no such thing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Shared memory of a block, in bytes.
    pub shared: u32,
    /// Memory each thread spills to, in bytes.
    pub spills: u32,
}

/// The outcome of compiling: the loaded program, and bytes from which [`Backend::load`] makes it
/// again in another process.
pub struct Compiled {
    /// The program, ready to launch.
    pub program: Arc<dyn Program>,
    /// The bytes, if the backend's programs can be kept on disk.
    pub artifact: Option<Vec<u8>>,
    /// What took how long.
    pub stages: Stages,
}

/// Host time that compiling a kernel took, by stage. Zero where a backend has no such stage, or
/// does not take its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages {
    /// From the kernel as the front end made it to the one that code is written from: verifying,
    /// optimizing, lowering.
    pub passes: Duration,
    /// Writing the code: PTX, or machine code where there is no assembler beneath.
    pub emission: Duration,
    /// The driver's assembler. It loads some programs as it compiles them: then that is in here.
    pub assembly: Duration,
    /// Loading what it made.
    pub loading: Duration,
}

/// One launch.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Blocks (programs) on x, y and z. A zero extent launches nothing.
    pub grid: [u32; 3],
    /// The parameters' words, in the order and number that [`kiln_ir::Param`] says.
    pub words: &'a [u64],
    /// The stream.
    pub stream: StreamId,
}

/// A device.
///
/// Work on one stream happens in order; the caller orders streams by events. All methods may be
/// called from any thread.
pub trait Backend: Send + Sync {
    /// What the device is and can do.
    fn properties(&self) -> &Properties;

    /// Bytes of device memory that are free now.
    fn free_memory(&self) -> Result<u64>;

    /// Bytes that the device's pool of memory holds, in use or not; `None` where there is no pool.
    /// An allocation that leaves it as it was came from the pool.
    fn pool_reserved(&self) -> Option<u64> {
        None
    }

    /// Allocates `bytes` (at least 1) of uninitialized memory, aligned to 256 bytes, usable by work
    /// later in `stream`.
    fn allocate(&self, bytes: usize, stream: StreamId) -> Result<DevicePtr>;

    /// Frees an allocation once work already in `stream` is done. Failures are ignored.
    ///
    /// # Safety
    /// `ptr` and `bytes` are those of one allocation of this device, which no later work uses.
    unsafe fn free(&self, ptr: DevicePtr, bytes: usize, stream: StreamId);

    /// Copies host to device, in stream order. `src` may be reused on return.
    ///
    /// # Safety
    /// `dst` points to at least `src.len()` bytes of this device's memory.
    unsafe fn upload(&self, dst: DevicePtr, src: &[u8], stream: StreamId) -> Result<()>;

    /// Waits for the stream, then copies device to host. Reports the stream's faults.
    ///
    /// # Safety
    /// `src` points to at least `dst.len()` bytes of this device's memory.
    unsafe fn download(&self, dst: &mut [u8], src: DevicePtr, stream: StreamId) -> Result<()>;

    /// Copies device to device, in stream order.
    ///
    /// # Safety
    /// Both point to at least `bytes` bytes of this device's memory and do not overlap.
    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, stream: StreamId) -> Result<()>;

    /// Fills with a byte, in stream order.
    ///
    /// # Safety
    /// `dst` points to at least `bytes` bytes of this device's memory.
    unsafe fn fill(&self, dst: DevicePtr, byte: u8, bytes: usize, stream: StreamId) -> Result<()>;

    /// Identifies everything but the kernel that an artifact depends on: code generator version,
    /// device, driver. `None` if programs cannot be kept on disk.
    fn artifact_key(&self) -> Option<String>;

    /// Compiles a kernel that [`kiln_ir::verify`] accepts, as the front end made it.
    fn compile(&self, kernel: &Kernel) -> Result<Compiled>;

    /// Loads an artifact of [`compile`](Self::compile) that was made under the same
    /// [`artifact_key`](Self::artifact_key). Damaged bytes are an error.
    fn load(&self, artifact: &[u8]) -> Result<Arc<dyn Program>>;

    /// Enqueues a launch. Limits of the grid are checked here.
    ///
    /// # Safety
    /// The words are right for the kernel: views point to memory of this device that covers their
    /// extents and strides, and that lives until the launch is over.
    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()>;

    /// Allocates `bytes` (at least 1) of zeroed memory that the host and running kernels share,
    /// aligned to 256 bytes. It is there, and zero for both sides, when the call returns, and until
    /// [`unmap`](Self::unmap). What orders the accesses of the two sides is the caller's affair:
    /// aligned words and aligned 16-byte pieces arrive whole, and releasing stores at system scope
    /// are seen in order.
    ///
    /// Neither this nor `unmap` waits for a resident launch.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where there is no such memory ([`mapped_places`](Self::mapped_places)
    /// says so beforehand); [`Error::OutOfMemory`].
    fn map(&self, bytes: usize, place: MappedPlace) -> Result<Mapped>;

    /// Frees mapped memory. Failures are ignored.
    ///
    /// # Safety
    /// `mapped` came from [`map`](Self::map) of this device and was not freed; nothing in flight
    /// uses its device address, and nobody uses its host address from now on.
    unsafe fn unmap(&self, mapped: Mapped);

    /// Takes in host memory as [mapped memory](MappedPlace::Host): memory that another process maps
    /// too. It is not zeroed.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where a device cannot; those of the driver.
    ///
    /// # Safety
    /// `host` is a multiple of 4096 and points to that many bytes, which live until
    /// [`disown`](Self::disown), and beyond as long as the device does if resident launches are
    /// there then.
    unsafe fn adopt(&self, host: NonNull<u8>, bytes: usize) -> Result<Mapped> {
        let _ = (host, bytes);
        Err(Error::Unavailable {
            device: format!("memory of two processes on {}", self.properties().id),
            reason: "the device does not take it in".to_owned(),
            hint: "Take `cpu` or `cuda:N`.".to_owned(),
        })
    }

    /// Ends what [`adopt`](Self::adopt) began. Failures are ignored.
    ///
    /// # Safety
    /// `mapped` came from `adopt` of this device, once; nothing in flight uses it.
    unsafe fn disown(&self, mapped: Mapped) {
        let _ = mapped;
    }

    /// Which mapped memory there is, and why not where there is none. The first call may take a
    /// while: it looks for other libraries.
    fn mapped_places(&self) -> MappedPlaces;

    /// Launches a kernel that may run for ever: apart from every stream, with all its blocks at
    /// once, from after the work that is now in `launch.stream`. [`synchronize`](Self::synchronize)
    /// waits for none of it. [`Properties::residency`] says whether it runs beside the host at all.
    /// The device holds on to the program until the launch is over; a process that ends does not
    /// wait for it.
    ///
    /// # Errors
    /// Those of [`launch`](Self::launch), and [`Error::LaunchLimit`] for more blocks than can run
    /// at once.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch): what the words point to lives until
    /// [`resident_done`](Self::resident_done) or [`resident_wait`](Self::resident_wait) has said
    /// that the launch is over.
    unsafe fn launch_resident(&self, program: &Arc<dyn Program>, launch: Launch<'_>) -> Result<ResidentId>;

    /// Whether a resident launch is over. Once it is, its first fault is reported, by the first
    /// call that finds out; later calls say `true`.
    fn resident_done(&self, id: ResidentId) -> Result<bool>;

    /// Waits for a resident launch at most this long, and says whether it is over, as
    /// [`resident_done`](Self::resident_done) does.
    fn resident_wait(&self, id: ResidentId, timeout: Duration) -> Result<bool>;

    /// Returns how much processor time a block of a resident launch has had, where blocks share
    /// processors with other threads of the system. `None` where they do not, and where the system
    /// does not say.
    fn block_time(&self, id: ResidentId, block: u64) -> Option<BlockTime> {
        let _ = (id, block);
        None
    }

    /// Makes known who can end resident launches for a moment. A device that cannot load a program
    /// beside them asks every tenant to leave first; without one, [`compile`](Self::compile) and
    /// [`load`](Self::load) fail there while a resident launch runs.
    fn add_tenant(&self, tenant: Weak<dyn Tenant>);

    /// Lets kernels of this device access all memory of device `owner`, also what it allocates
    /// later (not its mapped memory). Asking again changes nothing.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the two devices cannot, with the reason.
    fn enable_peer_access(&self, owner: &Properties) -> Result<()>;

    /// A new stream.
    fn create_stream(&self) -> Result<StreamId>;

    /// Releases a stream after its work. From then on its number means the default stream, which is
    /// ordered after that work: a tensor may still name the stream that wrote it last.
    fn destroy_stream(&self, stream: StreamId);

    /// A point after all work now in the stream. `timing` makes it usable for
    /// [`elapsed_ms`](Self::elapsed_ms).
    fn record(&self, stream: StreamId, timing: bool) -> Result<EventId>;

    /// Makes later work of the stream wait for the event.
    fn wait(&self, stream: StreamId, event: EventId) -> Result<()>;

    /// Whether the event's point has been reached.
    fn query(&self, event: EventId) -> Result<bool>;

    /// Milliseconds between two timing events that have been reached.
    fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32>;

    /// Releases an event.
    fn destroy_event(&self, event: EventId);

    /// Waits for all work of a stream; reports its first fault since the last report, which is then
    /// forgotten.
    fn synchronize(&self, stream: StreamId) -> Result<()>;

    /// Where device prints go from now on; standard output at first. [`PrintSink`] says what a sink
    /// may do.
    fn set_print_sink(&self, sink: PrintSink);

    /// The ranges of these bytes that neither a kernel nor the host has written since they were
    /// allocated, in order; with `filled`, those too that [`fill`](Self::fill) alone has. `None` on
    /// a device that does not keep track: the interpreter with its sanitizer does.
    fn unwritten(&self, ptr: DevicePtr, bytes: usize, filled: bool) -> Option<Vec<Range<usize>>> {
        let _ = (ptr, bytes, filled);
        None
    }

    /// Sets how long each launch from now on may run; `None` for as long as it takes. A launch that
    /// runs longer ends with [`FaultKind::LaunchLimit`] in the loop that it is in. Resident
    /// launches have no limit.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a device that cannot end a kernel.
    fn set_launch_limit(&self, limit: Option<Duration>) -> Result<()> {
        let _ = limit;
        Err(Error::Unsupported {
            kernel: "every launch".into(),
            what: "a limit of its time".into(),
            device: self.properties().id.clone(),
            location: "unknown location".into(),
            hint: "Look for loops that do not end on the device `cpu` or `interp`.".into(),
        })
    }
}
