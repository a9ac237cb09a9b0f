//! Kiln's runtime: devices, tensors, streams, program caches and launches.
//!
//! | file | holds |
//! |---|---|
//! | `device.rs` | finding and opening devices |
//! | `tensor.rs`, `axes.rs`, `layout.rs`, `buffer.rs` | tensors, their views and strides, and the memory behind them on device and host |
//! | `stream.rs` | streams and events |
//! | `launch.rs`, `request.rs`, `args.rs`, `params.rs`, `facts.rs` | a launch: specialisation, checks, grid, words |
//! | `cache/` | compiled programs, and choices that were measured, in memory and on disk |
//! | [`isolate`] | devices in processes of their own |
//! | `error.rs` | what can go wrong |

mod args;
mod axes;
mod buffer;
mod cache;
mod device;
mod error;
mod facts;
pub mod isolate;
mod launch;
mod layout;
mod params;
mod request;
mod stream;
mod tensor;

pub use buffer::Residency;
pub use cache::{Build, DiskCache, DiskStats, ProgramCache};
pub use device::Device;
pub use error::{Error, Result};
pub use kiln_backend::{BackendKind, Fault, FaultKind, Properties, Report, Stages};
pub use launch::Launch;
pub use stream::{Event, Stream};
pub use tensor::Tensor;

/// What `#[kernel]` names. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::launch::Launch;
    pub use kiln_lang::__private::*;
}
