//! From a kernel lowered to threads to PTX text.
//!
//! Every value becomes one virtual register; structured control flow becomes labels and branches;
//! `ptxas`, inside the driver, does the rest. The text uses the lowest PTX ISA version that has
//! what the kernel needs, and no library: elementary functions were expanded before.
//!
//! | file | holds |
//! |---|---|
//! | `writer.rs`, `register.rs` | the text under construction: labels, instructions; registers |
//! | `target.rs` | the GPU and the version of PTX |
//! | `entry.rs` | the module's head, parameters, shared and local memory |
//! | `arith.rs`, `cast.rs`, `bytes.rs` | element-wise operations; conversions of one-byte types |
//! | `memory.rs` | loads, stores, atomics |
//! | `ordered.rs` | loads and stores that order others |
//! | `atomic_128.rs` | atomics of 128 bits |
//! | `cluster.rs` | barriers of a cluster, stores to its blocks' shared memory |
//! | `grid.rs`, `grid_state.rs` | barriers of all blocks of a launch |
//! | `threads.rs` | indices, barriers, shuffles, votes, clocks |
//! | `votes.rs` | which votes decide branches and nothing else |
//! | `fragment.rs` | products of fragments |
//! | `async_copy.rs` | copies in flight |
//! | `explicit.rs`, `explicit_state.rs`, `team.rs` | tasks, their warps, mbarriers, shared tiles |
//! | `copies.rs`, `tensor_map.rs`, `products.rs` | bulk copies and their maps, warpgroup products |
//! | `in_place.rs` | the registers that products in flight share |
//! | `inline.rs` | PTX that the user wrote |
//! | `control.rs` | `if`, `for`, `while` |
//! | `convergence.rs` | keeping the lanes of a warp together |
//! | `diagnostics.rs`, `records.rs` | faults, asserts and prints; what the host reads of them |
//!
//! Reference: NVIDIA, "Parallel Thread Execution ISA", version 8.0 and later.

mod arith;
mod async_copy;
mod atomic_128;
mod bytes;
mod cast;
mod cluster;
mod control;
mod convergence;
mod copies;
mod diagnostics;
mod entry;
mod explicit;
mod explicit_state;
mod fragment;
mod grid;
mod grid_state;
mod in_place;
mod inline;
mod memory;
mod ordered;
mod parameters;
mod products;
pub mod records;
mod register;
mod target;
mod team;
mod tensor_map;
mod threads;
mod votes;
mod writer;

pub use entry::{Module, STATIC_SHARED, emit};
pub(crate) use inline::place_of;
pub(crate) use target::MIXED_VERSION;
pub use target::{GENERATIONS, Generation, Target};
pub use tensor_map::{TensorMap, Way};
