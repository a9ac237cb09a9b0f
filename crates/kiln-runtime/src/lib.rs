//! Kiln's runtime: devices, tensors, streams, program caches and launches.
//!
//! | file | holds |
//! |---|---|
//! | `device.rs`, `backends.rs` | finding and opening devices; the backends that a build has |
//! | `attached.rs` | what libraries keep with a device |
//! | `tensor/` | tensors and views, typed and dynamic |
//! | `buffer.rs`, `residency.rs` | memory behind them |
//! | `mapped.rs` | memory that the host and running kernels share |
//! | `stream.rs` | streams and events |
//! | `awaited.rs` | waiting without blocking |
//! | `launch.rs`, `request.rs` | a launch: specialization, checks, order |
//! | `loaded.rs` | a compiled kernel: its program, grid and limits |
//! | `compiled.rs` | what compiling without a launch gives |
//! | `precompile.rs` | compiling the kernels of launches on several threads, before these |
//! | `args.rs`, `tensor_params.rs` | its arguments |
//! | `params.rs`, `facts.rs` | what is known of them, and what a program relies on |
//! | `graph.rs`, `graph_update.rs`, `capture/` | graphs: recorded, replayed, changed |
//! | `commands/` | command lists: recorded without memory, and run on any of the same kinds |
//! | `dyn_kernel.rs` | kernels from IR, launched on arguments of any type |
//! | `tune/` | choosing among configurations of kernels by measurement |
//! | `package/`, `packaged.rs` | files of compiled kernels, and devices that load them |
//! | `archive.rs`, `digest.rs` | files of records with a digest; digests of kernels |
//! | `cache/` | compiled programs, and choices that were measured, in memory and on disk |
//! | `observe.rs`, `activity.rs`, `log.rs` | observers, and the activities that they receive |
//! | [`isolate`] | devices in processes of their own |
//! | `debug.rs` | programs under `kiln debug` |
//! | `sanitize.rs` | programs under `kiln sanitize` |
//! | `error.rs` | what can go wrong |
//!
//! # Specialization and caches
//!
//! A launch looks up a key of words: the kernel's identity, the type and rank of every argument,
//! what is known of them (alignment, divisibility of extents and strides up to 16, unit strides,
//! whether offsets fit 32 bits), the host constants and the block. A miss traces, verifies,
//! optimizes and compiles, once even if many threads ask. On disk a program is named by the SHA-256
//! of its IR text and everything else it depends on. A file is written aside and renamed, and
//! carries a digest of its name and contents, so parallel writers, crashes, damage and renamed
//! files are harmless. In memory a device keeps 4096 specializations (`ProgramCache::set_limit`);
//! the least recently launched goes first. Each launch compares the kinds, types and facts of its
//! arguments with what the program was compiled for (`params.rs`): so a wrong `KernelParam`
//! of the user's is an error, and code runs only on arguments that it was compiled for.
//!
//! # Packages
//!
//! A [`Package`] has programs by target and by the digest of their kernels' IR without places; the
//! places are kept beside each. A launch that finds its kernel there has the backend load the code
//! under the places of today ([`kiln_backend::Places`]). The disk cache's key has the places,
//! so that its programs are made anew when lines move.
//!
//! # Tensors and order
//!
//! A tensor's buffer records which of its host and device copies is current, and copies only when
//! the other is read. It also records the streams of its last write and of the reads since. A
//! launch in another stream waits for them by an event; within one stream no event is needed.
//! Freeing is ordered the same way, so nothing that a kernel still uses can go. A launch locks the
//! buffers of its arguments, in the order of their addresses, from the first check until the work
//! is enqueued: threads with views of one buffer cannot slip between, and a refused launch has
//! changed nothing. A stream is destroyed after the last buffer with work in it.
//!
//! # Graphs
//!
//! While a thread captures, launches (at the end of all checks but those of contents), writes,
//! copies and fills are pushed to a list of its own, and what reads or waits is refused
//! (`Device::check_not_capturing`). A [`Graph`] is that list with a plan: the buffers in the order
//! of their addresses, and the nodes that each node runs after, which follow from streams and
//! shared buffers. A replay locks and orders the buffers as a launch does. Then the device enqueues
//! its own graph, where the backend has `Graphs`, or the runtime enqueues node by node.
//!
//! # Compiling ahead, command lists
//!
//! In two other modes of a capture (`capture/state.rs`) tensors that are made are hollow: they have
//! bytes and no memory, and whatever uses their contents is refused. `Device::precompile` hands the
//! kernels of launches to threads that compile. A [`CommandList`] keeps the launches with slots in
//! the place of buffers: those of its inputs, and those that each run makes. A run compares its
//! inputs with the recorded ones (type, layout, the facts that programs rely on), locks and orders
//! them, writes addresses and numbers into the commands, and enqueues these, or one of a few graphs
//! of the device, whose nodes have such addresses already or get them (`commands/enqueue.rs`). It
//! holds no memory between runs.
//!
//! # Dynamic tensors, kernels from IR, observers
//!
//! A [`DynTensor`] is a buffer, an element type and a layout (offset, extents, strides). It has all
//! of the views, copies and checks; [`Tensor`] is the same struct under static types. A
//! [`DynKernel`] is launched by the same function as a traced kernel: both are a `Request` (name,
//! key, specialized IR, packed arguments).
//!
//! Each public call that may allocate, copy, compile or launch has a `Log` (`log.rs`) with the
//! user's call site. While an observer is registered it collects activities; without one it costs a
//! relaxed load. The log is dropped, and delivers, after all locks are released, so an observer may
//! launch. One that panics is removed.
//!
//! # Tuning
//!
//! A [`Tune`] records each candidate's launches as a graph: that compiles it and checks its limits,
//! names the kernels for the choice's key, and the buffers that it writes, which are copied before
//! the first trial and set back before each. `tune/measure.rs` times graphs, and whatever else the
//! kernel library chooses among.
//!
//! # Devices in processes of their own
//!
//! A device named `isolated:cuda:0` or `isolated:cpu` is one in a child process: a backend that
//! sends every call over a socket ([`isolate`]), with mapped memory that both processes share, so
//! that messages cost no call. A trap ends the child; the runtime goes on in the next.

mod activity;
mod archive;
mod args;
mod attached;
mod awaited;
mod backends;
mod buffer;
mod cache;
mod capture;
mod commands;
mod compiled;
#[cfg(feature = "interp")]
mod debug;
mod device;
mod digest;
mod dyn_kernel;
mod error;
mod extent;
mod facts;
mod graph;
mod graph_update;
mod host_memory;
pub mod isolate;
mod launch;
mod loaded;
mod log;
mod mapped;
mod observe;
mod package;
mod packaged;
mod params;
mod precompile;
mod request;
mod residency;
mod sanitize;
mod stream;
mod tensor;
mod tensor_params;
mod told;
pub mod tune;

pub use activity::{
    Activity, AllocateActivity, CallSite, CompileActivity, CopyActivity, CopyKind, FreeActivity,
    LaunchActivity, LaunchTimer, ReplayActivity,
};
pub use cache::{DiskCache, DiskStats, Exchanged, Measuring, ProgramCache, parse_cache_size};
pub use commands::CommandList;
pub use compiled::CompiledKernel;
pub use device::Device;
pub use dyn_kernel::{DynArg, DynKernel, DynLaunch};
pub use error::{Error, Result};
pub use extent::Extent;
pub use graph::{Capture, Graph, GraphLaunch, GraphNode};
pub use kiln_backend::{
    Capabilities, Clock, CopyTaskLimits, CostModel, Execution, Fault, FaultKind, Latencies, MatrixFormat,
    MatrixUnits, MemoryCosts, Occupancy, OccupancyLimit, PackageTarget, ProductCosts, Properties, Rates,
    Report, Stages, StreamPriority, StreamingSizes, SumSizes,
};
pub use launch::Launch;
pub use loaded::{Build, ProgramSource};
pub use mapped::Mapped;
pub use observe::{Observation, Observer, observe};
pub use package::{Package, PackageBuilder, PackageStats};
pub use residency::Residency;
pub use sanitize::{COMMANDS_VARIABLE, DEBUG_VARIABLE, REPORTS_VARIABLE, SANITIZE_VARIABLE};
pub use stream::{Event, Stream};
pub use tensor::{DynTensor, PinnedTensor, Records, Tensor};
pub use tune::Tune;

/// What `#[kernel]` names. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::launch::Launch;
    pub use kiln_lang::__private::*;
}
