//! Kiln: write a GPU kernel once, in Rust, and run it on NVIDIA GPUs, on the CPU and in the
//! interpreter.
//!
//! A kernel is a Rust function over device values. Launching it compiles it, once, for the device
//! that is there; stable Rust is enough, and for a GPU its driver.
//!
//! ```
//! use kiln::prelude::*;
//!
//! #[kernel]
//! fn softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, block: usize) {
//!     let row = program_id(0);
//!     let v = x.row(row).load(block, f32::NEG_INFINITY); // masked by the view's extent
//!     let e = (v - v.reduce_max()).exp();
//!     y.row(row).store(e / e.sum());
//! }
//!
//! fn main() -> kiln::Result<()> {
//!     let device = Device::default()?; // the best device here; KILN_DEVICE=cuda:0, cpu or interp chooses
//!     let x = device.tensor(&[1.0, 2.0, 3.0, 1.0, 1.0, 1.0], [2, 3])?;
//!     let mut y = device.zeros([2, 3])?;
//!     softmax(&x, &mut y, 4).launch(&device)?;
//!     let y = y.to_vec()?;
//!     assert!((y[2] - 0.66524).abs() < 1e-5 && (y[3] - 1.0 / 3.0).abs() < 1e-6);
//!     Ok(())
//! }
//! ```
//!
//! | where | what |
//! |---|---|
//! | [`prelude`] | what programs with kernels import |
//! | [`lang`] | the kernel language: values, views, operations |
//! | [`kernels`] | kernels to call: softmax, layer norm, sums, … |
//! | `ring` | ring kernels: actors that live on a device |
//! | `array` | lazy arrays: fused into few kernels, with gradients |
//! | [`Device`], [`Tensor`], [`Stream`], [`Event`] | where kernels run, on what, in which order |
//! | [`DynTensor`], [`DynKernel`], [`ir`] | tensors with run-time types, kernels from IR |
//! | [`Tune`] | choosing host constants of a kernel by measurement |
//! | [`Observer`] | who is told of compiles, launches, copies and allocations |
//! | [`Error`], [`Fault`] | what can go wrong, in a call and in a kernel |
//!
//! # Features
//!
//! All but `wgpu`, `files` and `array` are on by default; a program that needs less sets
//! `default-features = false` and names those that it uses.
//!
//! | feature | what it adds |
//! |---|---|
//! | `cuda` | NVIDIA GPUs, through their driver |
//! | `wgpu` | GPUs through Vulkan, Metal and DX12, and in browsers; not on by default |
//! | `cpu` | the host's processor |
//! | `interp` | the interpreter with its sanitizer |
//! | `ring` | ring kernels: the module `ring` |
//! | `files` | tensors in `.npy`, safetensors and GGUF files: `files`; not on by default |
//! | `array` | lazy arrays with gradients: the module `array`; not on by default |
//!
//! Opening a device whose backend is not in the build is [`Error::MissingBackend`], which names the
//! feature.

#[cfg(feature = "array")]
pub use kiln_array as array;
#[cfg(feature = "files")]
pub use kiln_files as files;
pub use kiln_ir as ir;
pub use kiln_kernels as kernels;
pub use kiln_lang as lang;
pub use kiln_lang::{DeviceValue, E4M3, E5M2, KernelConst, Record, bf16, device, f16, kernel};
#[cfg(feature = "ring")]
pub use kiln_ring as ring;
pub use kiln_runtime::isolate;
pub use kiln_runtime::{
    Activity, AllocateActivity, CallSite, Capabilities, Capture, Clock, CommandList, CompileActivity,
    CompiledKernel, CopyActivity, CopyKind, Device, DiskCache, DiskStats, DynArg, DynKernel, DynLaunch,
    DynTensor, Error, Event, Execution, Extent, Fault, FaultKind, FreeActivity, Graph, GraphLaunch,
    GraphNode, Launch, LaunchActivity, LaunchTimer, Mapped, MatrixFormat, MatrixUnits, Observation, Observer,
    Occupancy, OccupancyLimit, Package, PackageBuilder, PackageStats, PinnedTensor, Properties, Records,
    ReplayActivity, Report, Residency, Result, Stream, StreamPriority, Tensor, Tune, observe, tune,
};

/// What programs with kernels import: the language, and devices and tensors.
pub mod prelude {
    pub use crate::{Device, Event, Mapped, Records, Stream, Tensor};
    pub use kiln_kernels::{Create, Fill};
    pub use kiln_lang::prelude::*;
}

/// What `#[kernel]` names. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    #[cfg(feature = "ring")]
    pub use kiln_ring::__private::*;
    pub use kiln_runtime::__private::*;
}

/// The README and the book's chapters, whose programs are tests.
#[cfg(all(doctest, feature = "ring"))]
mod book {
    /// An item for each page, whose programs `rustdoc` then finds.
    macro_rules! pages {
        ($($name:ident $file:literal)*) => {$(
            #[doc = include_str!(concat!("../../../", $file))]
            struct $name;
        )*};
    }
    // These show arrays.
    #[cfg(feature = "array")]
    pages! {
        Readme "README.md"
        Arrays "book/src/arrays.md"
        Derivatives "book/src/derivatives.md"
        Debugging "book/src/debugging.md"
    }
    // This one keeps parameters in files.
    #[cfg(all(feature = "array", feature = "files"))]
    pages! {
        Training "book/src/training.md"
    }
    pages! {
        Install "book/src/install.md"
        FirstKernel "book/src/first-kernel.md"
        MentalModel "book/src/mental-model.md"
        Tiles "book/src/tiles.md"
        Threads "book/src/threads.md"
        Types "book/src/types.md"
        Operations "book/src/operations.md"
        Memory "book/src/memory.md"
        Streams "book/src/streams.md"
        Launches "book/src/launches.md"
        Graphs "book/src/graphs.md"
        Errors "book/src/errors.md"
        Sanitizer "book/src/sanitizer.md"
        Performance "book/src/performance.md"
        Library "book/src/library.md"
        LanguageModel "book/src/language-model.md"
        RingKernels "book/src/ring-kernels.md"
        RingTimeouts "book/src/ring-timeouts.md"
        RingDelivery "book/src/ring-delivery.md"
        RingLinks "book/src/ring-links.md"
        RingSupervision "book/src/ring-supervision.md"
        RingLatency "book/src/ring-latency.md"
        RingOperations "book/src/ring-operations.md"
        ExplicitLevel "book/src/explicit-level.md"
        Dynamic "book/src/dynamic.md"
        Devices "book/src/devices.md"
        Browser "book/src/browser.md"
        FromCuda "book/src/from-cuda.md"
        FromTriton "book/src/from-triton.md"
        FromJax "book/src/from-jax.md"
        FromTokio "book/src/from-tokio.md"
        CommandLine "book/src/command-line.md"
    }
}
