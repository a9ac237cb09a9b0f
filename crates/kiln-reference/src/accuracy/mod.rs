//! How accurate the mathematical functions of the language are: which there are, what they should
//! give, by how much a device may be off, and how far off a result is.
//!
//! | file | holds |
//! |---|---|
//! | `functions.rs` | [`FUNCTIONS`]: the functions, their references and bounds |
//! | `element.rs` | [`Measured`]: distances in units in the last place |
//! | `arguments.rs` | [`arguments`] and [`pairs`] to try |
//! | `tally.rs` | [`Tally`]: what is known after some results |
//!
//! # The reference
//!
//! The exact value of a function is taken from `pxfm`, a library in Rust whose functions of f64 are
//! within half a unit in the last place of f64. That is 2^-30 of a unit of f32: a result of f32
//! differs from the correctly rounded one unless the exact value is so close to the middle between
//! two numbers that f64 does not tell on which side it is. Those results are counted as undecided.
//! The reference shares no code with any device: the interpreter computes by the crate `libm`. A
//! test compares the two libraries; where `pxfm` is wrong (the sign of zeros, a few powers),
//! `functions.rs` says so and does better.

mod arguments;
mod element;
mod functions;
mod tally;

pub use arguments::{all_f32, arguments, pairs};
pub use element::{InEachType, Measured, Operands};
pub use functions::{FUNCTIONS, Family, Function};
pub use tally::{Extreme, Tally};
