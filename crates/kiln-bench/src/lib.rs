//! The loops of `kiln bench` whose own speed is part of what they measure: messages to resident
//! actors, the host's side of a launch, and plain Rust beside kernels over threads.
//!
//! A crate of its own, since what a program calls of Kiln is compiled with the program: these loops
//! are optimized as a user's are, while the command around them is compiled for size.
//!
//! | file | holds |
//! |---|---|
//! | `ring.rs`, `ring/` | messages to resident actors |
//! | `launch_cost.rs` | host time of a launch, Kiln's and the driver's |
//! | `threads.rs` | kernels over threads on a CPU, and plain Rust |
//! | `failure.rs` | why a measurement failed |

mod failure;
pub mod launch_cost;
pub mod ring;
pub mod threads;

pub use failure::Failure;
