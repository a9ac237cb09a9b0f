//! The CUDA driver: loading it, and its objects as Rust values.
//!
//! Nothing of the toolkit is needed: no headers, no runtime library, no nvrtc. `libcuda` is opened
//! when the first object is asked for, and on a machine without it that is an error value that says
//! what to install. [`Context`] stands for a GPU, [`Stream`], [`Event`], [`DeviceBuffer`],
//! [`PinnedBuffer`], [`MappedWords`], [`BarBuffer`], [`Module`], [`Function`] and [`Graph`] are
//! made in it, keep it alive, and free themselves on drop.
//!
//! # Why an own table of entry points
//!
//! See [`ffi`]: some seventy functions, looked up once, each failure a value. The common binding
//! crates panic on a missing library or symbol and generate 17,000 lines.
//!
//! # Threads
//!
//! Every object may be used from every thread. The driver's interface is made for it; what it asks
//! for is that the right context is current on the calling thread, and every method sees to that
//! first ([`Context::bind`]). Handles are never dereferenced by the host, and each is destroyed by
//! the one owner that made it, so concurrent use can put work in an order the caller did not want,
//! but cannot break memory on the host.
//!
//! # Memory
//!
//! Methods that take raw device addresses are unsafe: the driver checks nothing, and the device
//! does not know Rust's borrows. Host memory is never handed to the device beyond a call except by
//! the unsafe `*_pinned` copies and by launches.
//!
//! # Resident kernels
//!
//! Some calls wait for the end of every kernel of the context: loading a program, unloading it,
//! unpinning memory, freeing memory that is not of the pool, making more streams than there ever
//! were. [`Context::begin_resident`] puts off what is made by drops; callers that load programs
//! must ensure that no kernel is resident meanwhile, and callers that make streams ask
//! [`Context::stream_place`]. [`Module::function`] loads the kernel at once and not, as the driver
//! does by default, before its first launch. That does not depend on `CUDA_MODULE_LOADING`, which
//! would have to be set in the environment of a process that may already have threads, and makes no
//! difference to what waits.
//!
//! # Errors
//!
//! [`CudaError`] says which call failed and why. A kernel that crashes costs the context
//! ([`CudaError::ContextLost`]), which is why the code that Kiln generates checks and reports
//! instead of crashing.
//!
//! ```no_run
//! use kiln_cuda::driver::{Context, DeviceBuffer, JitOptions, LaunchShape, Module, Stream};
//! # fn main() -> Result<(), kiln_cuda::driver::CudaError> {
//! # let ptx = "";
//! let context = Context::new(0)?;
//! let stream = Stream::new(&context)?;
//! let (module, log) = Module::from_ptx(&context, "add", ptx, &JitOptions::default())?;
//! for loss in log.performance_losses() {
//!     println!("{loss}");
//! }
//! let add = module.function("add")?;
//! let buffer = DeviceBuffer::new(&stream, 4096)?;
//! // SAFETY: `add` takes one pointer to 4096 bytes.
//! unsafe { add.launch(&stream, &LaunchShape::new([4, 1, 1], [256, 1, 1]), &[buffer.pointer().0]) }?;
//! let mut result = vec![0; 4096];
//! buffer.read(0, &mut result)?;
//! # Ok(())
//! # }
//! ```

mod bar;
mod context;
mod cubin;
mod device;
mod error;
mod event;
pub mod ffi;
mod function;
mod garbage;
mod graph;
mod jit;
mod jit_log;
mod launch;
mod library;
mod mapped;
mod memory;
mod module;
mod pinned;
mod range;
mod resident;
mod shape;
mod staging;
mod status;
mod stream;
mod stream_place;
mod stream_room;
mod tensor_map;
mod timer;
mod version;

pub use bar::{Bar, BarBuffer};
pub use context::{Context, MemoryUse};
pub use device::{ComputeCapability, Device, DeviceProperties};
pub use error::{CudaError, JitFailure, Result};
pub use event::Event;
pub use function::{Function, FunctionAttributes};
pub use graph::{Graph, GraphBuilder, GraphNode, KernelNode};
pub use jit::{Cubin, JitOptions, compile_to_cubin};
pub use jit_log::{Diagnostic, DiagnosticKind, FunctionUsage, JitLog, Severity};
pub use library::Driver;
pub use mapped::MappedWords;
pub use memory::DeviceBuffer;
pub use module::Module;
pub use pinned::PinnedBuffer;
pub use resident::ResidentGuard;
pub use shape::LaunchShape;
pub use stream::Stream;
pub use stream_place::StreamPlace;
pub use tensor_map::{MapElement, MapShape, TensorMap};
pub use timer::Timer;
pub use version::{CudaVersion, PtxVersion};
