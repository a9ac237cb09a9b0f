//! Random kernels, and what devices do with them.
//!
//! `kiln fuzz` makes random kernels, runs each on the interpreter and on another device, and
//! compares what they leave behind. A kernel that differs is made smaller until a person can read
//! it.
//!
//! | file | holds |
//! |---|---|
//! | `case.rs` | a kernel with its grid and arguments, as text too |
//! | `generate/` | random well-formed cases |
//! | `run.rs` | launching a case on a device, and comparing two outcomes |
//! | `compare.rs` | comparing two ways of running random kernels |
//! | `mode.rs` | kinds of kernels |
//! | `trial.rs` | one kernel on the interpreter and on the device under test |
//! | `gpu_code.rs` | the code for NVIDIA GPUs as a device |
//! | `reduce.rs` | making a kernel that differs smaller |
//! | `harmless.rs` | a kernel whose checks end nothing, which shows what others do after a fault |

mod case;
pub mod compare;
mod flushed;
pub mod generate;
mod gpu_code;
mod harmless;
mod mode;
pub mod reduce;
pub mod run;
mod trial;

pub use case::{Argument, Case};
pub use gpu_code::{Check, GpuCode};
pub use mode::Mode;
pub use trial::{Assemble, Finding, Tested, Trial, Verdict};
