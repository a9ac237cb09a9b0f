//! The contract between Kiln's runtime and a device.
//!
//! [`Backend`] is what `kiln-interp`, `kiln-cpu` and `kiln-cuda` implement and `kiln-runtime`
//! drives: memory, streams, compiling a verified [`Kernel`], launching it with buffers and numbers.
//! It is object-safe. What only some devices can do is a trait of its own that a backend hands out:
//! [`Artifacts`], [`Asynchronous`], [`Graphs`], [`MappedMemory`], [`Residents`], [`Peers`],
//! [`Diagnostics`], [`StreamControls`], [`RawMemory`], [`Multiprocessors`]. Failures are [`Error`]
//! values; a kernel's own failure is a [`Fault`] that surfaces at the next synchronization and
//! leaves the device usable.

pub mod bytes;
mod capabilities;
mod cost_model;
mod device;
mod dump;
mod error;
mod graphs;
mod later;
mod launch;
mod limit;
mod mapped;
mod message;
mod occupancy;
mod optional;
mod places;
mod prints;
mod raw;
mod resident;
mod span;
mod variables;

pub use capabilities::{Capabilities, Clock, Execution, MatrixFormat, MatrixUnits};
pub use cost_model::{
    CopyTaskLimits, CostModel, Latencies, MemoryCosts, ProductCosts, Rates, StreamingSizes, SumSizes,
};
pub use device::{DevicePtr, EventId, Properties, Residency, StreamId};
pub use dump::{DUMP_FOLDER_VARIABLE, DUMP_VARIABLE, Dump, DumpStage, dump};
pub use error::{Error, Fault, FaultKind, Finding, Result};

pub use graphs::{DeviceGraph, GraphNode, GraphWork, Graphs};
pub use later::{Asynchronous, Later, Promise, Promised, on_thread, promise};
pub use launch::{ArgumentCount, BufferBinding, Launch, LaunchArguments};
pub use limit::{LAUNCH_LIMIT, launch_limit_of_environment, parse_launch_limit};
pub use mapped::{MapObstacle, Mapped, MappedMemory, MappedPlace, MappedPlaces};
pub use message::fill_message;
pub use occupancy::{Multiprocessors, Occupancy, OccupancyLimit};
pub use optional::{Artifacts, Diagnostics, HostCall, PackageTarget, Peers, StreamControls, StreamPriority};
pub use places::Places;
pub use prints::{PrintSink, Prints, is_printing};
pub use raw::RawMemory;
pub use resident::{BlockTime, ResidentId, Residents, Tenant};
pub use span::view_span;
pub use variables::LAUNCH_LIMIT_VARIABLE;

use kiln_ir::Kernel;
use std::any::Any;
use std::sync::Arc;
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

/// The outcome of compiling: the loaded program, and bytes from which [`Artifacts::load`] makes it
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

/// A device: what every backend has, and by `Option` what some have beside it.
///
/// Work on one stream happens in order; the caller orders streams by events. All methods may be
/// called from any thread.
pub trait Backend: Send + Sync {
    /// What the device is and can do.
    fn properties(&self) -> &Properties;

    /// The same device, opened anew beside this one, where that is work of the backend's own: it
    /// may have it ready. `None`: the device is to be opened by its name.
    fn reopen(&self) -> Option<Result<Box<dyn Backend>>> {
        None
    }

    /// Bytes of device memory that are free now.
    fn free_memory(&self) -> Result<u64>;

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

    /// Compiles a kernel that [`kiln_ir::verify`] accepts, as the front end made it.
    fn compile(&self, kernel: &Kernel) -> Result<Compiled>;

    /// Enqueues a launch. Limits of the grid are checked here.
    ///
    /// # Safety
    /// The arguments are right for the kernel. The buffer of each view is memory of this device
    /// that covers, from the byte offset on, the view's extents and strides, and that lives until
    /// the launch is over. What the kernel writes is said to be [written](BufferBinding::written).
    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()>;

    /// A new stream.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the device has no room for one more beside a resident launch
    /// that no [`Tenant`] ends; failures of the device.
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

    /// Programs that are kept on disk.
    fn artifacts(&self) -> Option<&dyn Artifacts> {
        None
    }

    /// Work that can be awaited. Without it, a thread of the runtime's waits.
    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        None
    }

    /// Work that is enqueued in one call. Without it, the runtime enqueues each part by itself.
    fn graphs(&self) -> Option<&dyn Graphs> {
        None
    }

    /// Memory that the host and running kernels share.
    fn mapped_memory(&self) -> Option<&dyn MappedMemory> {
        None
    }

    /// Launches that may run for ever.
    fn residents(&self) -> Option<&dyn Residents> {
        None
    }

    /// Streams with priorities, and calls of the host in their order.
    fn stream_controls(&self) -> Option<&dyn StreamControls> {
        None
    }

    /// Kernels that reach other devices' memory.
    fn peers(&self) -> Option<&dyn Peers> {
        None
    }

    /// Memory by address, which other libraries use too.
    fn raw_memory(&self) -> Option<&dyn RawMemory> {
        None
    }

    /// Multiprocessors that hold several blocks at once.
    fn multiprocessors(&self) -> Option<&dyn Multiprocessors> {
        None
    }

    /// What helps to find bugs: the launch limit, bytes that nothing has written, the pool's size.
    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        None
    }
}

/// An optional part of a device that a caller cannot do without, or its name in an error.
impl dyn Backend + '_ {
    /// [`artifacts`](Backend::artifacts).
    ///
    /// # Errors
    /// [`Error::Unavailable`] where programs cannot be kept.
    pub fn need_artifacts(&self) -> Result<&dyn Artifacts> {
        self.artifacts().ok_or_else(|| Error::lacking(self.properties(), "programs on disk"))
    }

    /// [`mapped_memory`](Backend::mapped_memory).
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the device has none.
    pub fn need_mapped_memory(&self) -> Result<&dyn MappedMemory> {
        self.mapped_memory().ok_or_else(|| Error::lacking(self.properties(), "mapped memory"))
    }

    /// [`residents`](Backend::residents).
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the device has none.
    pub fn need_residents(&self) -> Result<&dyn Residents> {
        self.residents().ok_or_else(|| Error::lacking(self.properties(), "resident launches"))
    }

    /// [`stream_controls`](Backend::stream_controls).
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the device has none.
    pub fn need_stream_controls(&self) -> Result<&dyn StreamControls> {
        let what = "stream priorities and calls of the host";
        self.stream_controls().ok_or_else(|| Error::lacking(self.properties(), what))
    }

    /// [`peers`](Backend::peers).
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the device has none.
    pub fn need_peers(&self) -> Result<&dyn Peers> {
        self.peers().ok_or_else(|| Error::lacking(self.properties(), "peer access"))
    }

    /// [`raw_memory`](Backend::raw_memory).
    ///
    /// # Errors
    /// [`Error::Unavailable`] where memory has no address in this process.
    pub fn need_raw_memory(&self) -> Result<&dyn RawMemory> {
        self.raw_memory().ok_or_else(|| Error::lacking(self.properties(), "memory by address"))
    }

    /// [`multiprocessors`](Backend::multiprocessors).
    ///
    /// # Errors
    /// [`Error::Unavailable`] where blocks do not share a multiprocessor.
    pub fn need_multiprocessors(&self) -> Result<&dyn Multiprocessors> {
        self.multiprocessors().ok_or_else(|| Error::lacking(self.properties(), "occupancy"))
    }

    /// Sets how long each launch may run, as [`Diagnostics::set_launch_limit`] says.
    ///
    /// # Errors
    /// [`Error::Unavailable`] on a device that cannot end a kernel.
    pub fn set_launch_limit(&self, limit: Option<Duration>) -> Result<()> {
        let set = self.diagnostics().is_some_and(|diagnostics| diagnostics.set_launch_limit(limit));
        if set { Ok(()) } else { Err(Error::lacking(self.properties(), "launch limit")) }
    }

    /// Frees mapped memory. Failures are ignored.
    ///
    /// # Safety
    /// As [`MappedMemory::unmap`].
    pub unsafe fn unmap(&self, mapped: Mapped) {
        if let Some(memory) = self.mapped_memory() {
            // SAFETY: as the caller promises.
            unsafe { memory.unmap(mapped) }
        }
    }

    /// What mapped memory there is: nowhere on a device without.
    pub fn mapped_places(&self) -> MappedPlaces {
        let none = || MapObstacle::Hardware { what: "the device has no mapped memory".to_owned() };
        self.mapped_memory().map_or_else(
            || MappedPlaces { host: Err(none()), device: Err(none()) },
            MappedMemory::mapped_places,
        )
    }
}
