//! Operations on registers that touch no memory: every function reads operand registers and writes
//! a result register of the right length.
//!
//! | file | holds |
//! |---|---|
//! | `elementwise.rs` | unary, binary, compare, select, fma, casts |
//! | `shape.rs` | broadcast, transpose, iota |
//! | `reduce.rs` | reductions and scans along an axis |
//! | `dot.rs` | the matrix product |

mod dot;
mod elementwise;
mod reduce;
mod shape;

pub use dot::dot;
pub use elementwise::{binary, bitcast, cast, combine, compare, fma, select, unary};
pub use reduce::{Order, reduce, scan};
pub use shape::{advance, broadcast, iota, transpose};
