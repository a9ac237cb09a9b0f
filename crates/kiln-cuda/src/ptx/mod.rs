//! From a kernel lowered to threads to PTX text.
//!
//! Every value becomes one virtual register; structured control flow becomes labels and branches;
//! `ptxas`, inside the driver, does the rest. The text uses the lowest PTX ISA version that has
//! what the kernel needs, and no library: elementary functions were expanded before.
//!
//! | file | holds |
//! |---|---|
//! | `writer.rs` | the text under construction: registers, labels, instructions |
//! | `entry.rs` | the module's head, parameters, shared and local memory |
//! | `arith.rs`, `cast.rs`, `bytes.rs` | element-wise operations; conversions of types of one byte |
//! | `memory.rs` | loads, stores, atomics |
//! | `ordered.rs` | loads and stores that order others |
//! | `cluster.rs` | barriers of a cluster, stores to its blocks' shared memory |
//! | `threads.rs` | indices, barriers, shuffles, votes, clocks |
//! | `fragment.rs` | products of fragments, copies in flight |
//! | `explicit.rs` | tasks, their warps, mbarriers, shared tiles |
//! | `copies.rs`, `products.rs` | bulk copies and their maps, warpgroup products |
//! | `in_place.rs` | the registers that products in flight share |
//! | `control.rs` | `if`, `for`, `while` |
//! | `diagnostics.rs` | faults, asserts and prints: what the device writes and how the host reads it |
//!
//! Reference: NVIDIA, "Parallel Thread Execution ISA", version 8.0 and later.

mod arith;
mod bytes;
mod cast;
mod cluster;
mod control;
mod copies;
pub mod diagnostics;
mod entry;
mod explicit;
mod fragment;
mod in_place;
mod memory;
mod ordered;
mod products;
mod threads;
mod writer;

pub use copies::{TensorMap, Way};
pub(crate) use entry::MIXED_VERSION;
pub use entry::{Module, STATIC_SHARED, Target, emit};
