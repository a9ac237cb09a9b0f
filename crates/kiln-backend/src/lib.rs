//! The contract between Kiln's runtime and a device.
//!
//! [`Backend`] is what `kiln-interp`, `kiln-cpu` and `kiln-cuda` implement and `kiln-runtime` drives: memory, streams, compiling a verified
//! [`Kernel`], launching it with 64-bit parameter words. It is object-safe. Failures are [`Error`] values; a kernel's own failure is a [`Fault`]
//! that surfaces at the next synchronisation and leaves the device usable.

mod device;
mod error;
mod message;

pub use device::{BackendKind, DevicePtr, EventId, Properties, StreamId};
pub use error::{Error, Fault, FaultKind, Finding, Result};

pub use message::fill_message;

use kiln_ir::Kernel;
use std::any::Any;
use std::sync::Arc;

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

/// The outcome of compiling: the loaded program, and bytes from which [`Backend::load`] makes it again in another process.
pub struct Compiled {
    /// The program, ready to launch.
    pub program: Arc<dyn Program>,
    /// The bytes, if the backend's programs can be kept on disk.
    pub artifact: Option<Vec<u8>>,
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

/// Where the output of device prints goes, a line at a time.
pub type PrintSink = Arc<dyn Fn(&str) + Send + Sync>;

/// A device.
///
/// Work on one stream happens in order; the caller orders streams by events. All methods may be called from any thread.
pub trait Backend: Send + Sync {
    /// What the device is and can do.
    fn properties(&self) -> &Properties;

    /// Bytes of device memory that are free now.
    fn free_memory(&self) -> Result<u64>;

    /// Allocates `bytes` (at least 1) of uninitialised memory, aligned to 256 bytes, usable by work later in `stream`.
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

    /// Identifies everything but the kernel that an artifact depends on: code generator version, device, driver. `None` if programs
    /// cannot be kept on disk.
    fn artifact_key(&self) -> Option<String>;

    /// Compiles a kernel that [`kiln_ir::verify`] accepts, as the front end made it.
    fn compile(&self, kernel: &Kernel) -> Result<Compiled>;

    /// Loads an artifact of [`compile`](Self::compile) that was made under the same [`artifact_key`](Self::artifact_key). Damaged bytes are an error.
    fn load(&self, artifact: &[u8]) -> Result<Arc<dyn Program>>;

    /// Enqueues a launch. Limits of the grid are checked here.
    ///
    /// # Safety
    /// The words are right for the kernel: views point to memory of this device that covers their extents and strides, and that lives until
    /// the launch is over.
    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()>;

    /// A new stream.
    fn create_stream(&self) -> Result<StreamId>;

    /// Releases a stream after its work. From then on its number means the default stream, which is ordered after that work: a tensor may still name the
    /// stream that wrote it last.
    fn destroy_stream(&self, stream: StreamId);

    /// A point after all work now in the stream. `timing` makes it usable for [`elapsed_ms`](Self::elapsed_ms).
    fn record(&self, stream: StreamId, timing: bool) -> Result<EventId>;

    /// Makes later work of the stream wait for the event.
    fn wait(&self, stream: StreamId, event: EventId) -> Result<()>;

    /// Whether the event's point has been reached.
    fn query(&self, event: EventId) -> Result<bool>;

    /// Milliseconds between two timing events that have been reached.
    fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32>;

    /// Releases an event.
    fn destroy_event(&self, event: EventId);

    /// Waits for all work of a stream; reports its first fault since the last report, which is then forgotten.
    fn synchronize(&self, stream: StreamId) -> Result<()>;

    /// Where device prints go from now on; standard output at first.
    fn set_print_sink(&self, sink: PrintSink);
}
