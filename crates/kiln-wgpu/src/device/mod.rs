//! [`Wgpu`]: an adapter as a Kiln device.
//!
//! | file | holds |
//! |---|---|
//! | `adapter.rs`, `memory.rs` | the adapters of the machine: names, features, sizes |
//! | `vulkan.rs` | how a driver of Vulkan computes with floats |
//! | `masked.rs` | features that the user leaves out |
//! | `gpu.rs`, `status.rs`, `late.rs` | wgpu's device and queue, with errors as values |
//! | `passes.rs`, `program.rs` | from a kernel to a pipeline |
//! | `interface.rs`, `code.rs` | what launches must know of a kernel; its code |
//! | `open.rs`, `probe.rs`, `probe_extrema.rs` | opening it; how the driver treats floats |
//! | `artifacts.rs` | compiled kernels as bytes, for the next process |
//! | `packaged.rs`, `kept.rs`, `kept_ranges.rs` | those of packages, which load without compiling |
//! | `allocations.rs`, `offset.rs` | buffers, the pool; pointers |
//! | `recorder.rs`, `submitter.rs` | work that was recorded and not submitted yet; submitting it |
//! | `launch.rs`, `groups.rs`, `repeats.rs` | what a launch binds |
//! | `transfers.rs`, `bytes.rs` | to the device, on it, and back |
//! | `mapped.rs`, `mapping.rs` | memory that dispatches and the host have a copy of each |
//! | `dispatches.rs`, `residents.rs` | dispatches for ring kernels; behind their traits |
//! | `streams.rs`, `timestamps.rs` | streams and events |
//! | `reports.rs` | faults and prints |
//! | `awaited.rs`, `waiting.rs` | waiting without a thread, and with one |
//! | `state.rs`, `backend.rs` | all of it under one lock, behind the trait |
//!
//! # Memory
//!
//! An allocation is a buffer of wgpu's, of a size class, and goes to a pool when it is freed. There
//! are no addresses: a pointer is the number of an allocation above a byte offset. A launch binds
//! whole allocations; the kernel gets where each view begins. A buffer is bound in one way at a
//! time, so that a program has a second pipeline, with all views writable, for launches that read
//! one part of an allocation and write another.
//!
//! # Order
//!
//! wgpu has one queue, which is in order: streams are names, and waiting for an event of another
//! stream is nothing to do. Launches and copies are recorded and submitted together, when somebody
//! waits or the recording is long. What wgpu writes from the host comes before all that is
//! recorded: an upload to memory that the recording uses submits it first.
//!
//! # In a browser
//!
//! A page may not wait. What wgpu reports only later is awaited: `awaited.rs` reads that way, on
//! every system, and calls that would wait are [`CannotWait`](kiln_backend::Error::CannotWait). A
//! shader that the browser refuses, or a buffer that it has no memory for, is an error of the next
//! call that is awaited. There modules go as WGSL.
//!
//! # Ring kernels
//!
//! No kernel stays on an adapter: nothing promises that it goes on while others run, that the host
//! sees what it stores, or that the driver's watchdog lets it. So a resident launch is a dispatch,
//! which the kernel ends by itself, and mapped memory is two copies. What the host has changed of
//! its own goes to the device before a dispatch; what comes back is read in staging buffers that
//! are kept. Both sides compare with what was known, so that neither undoes what the other one
//! wrote.
//!
//! # What is checked
//!
//! Modules keep naga's checks of bounds, divisors and loops. SPIR-V that Kiln finishes itself is
//! without those that Kiln's code makes superfluous (`spirv/mod.rs`). The driver's robust access
//! stays on. No
//! limit is set to how long a launch may run: a driver's own watchdog ends it with the device lost.

mod adapter;
mod allocations;
mod artifacts;
mod awaited;
mod backend;
mod bytes;
mod code;
mod dispatches;
mod gpu;
mod groups;
mod interface;
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod kept;
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod kept_ranges;
mod late;
mod launch;
mod mapped;
mod mapping;
mod masked;
mod memory;
mod offset;
mod open;
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod packaged;
mod passes;
mod probe;
mod probe_extrema;
mod program;
mod recorder;
mod repeats;
mod reports;
mod residents;
mod state;
mod status;
mod streams;
mod submitter;
mod timestamps;
mod transfers;
mod vulkan;
mod waiting;

pub use adapter::{Adapter, adapters, canonical_name, is_name, optional_features};
pub use backend::{Wgpu, capabilities};
pub use passes::{ShaderTarget, lowered, shader};
