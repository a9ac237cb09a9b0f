//! Control flow, each shape run twice: on the device, through the interpreter, and on the host, as
//! the same Rust source over `i32`.
//!
//! `both!` compiles one body as a `#[device]` function over `Val<i32>` and as an ordinary function;
//! the two must agree on every input.

mod assume;
mod branches;
mod exits;
mod fault_regions;
mod harness;
mod loops;
mod mutation;
mod unroll;
mod values;
