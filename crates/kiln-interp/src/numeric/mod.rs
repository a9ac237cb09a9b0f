//! What every element-wise operation computes, for one element: the semantics of `kiln_ir::{UnaryOp, BinaryOp, …}` in Rust types.
//!
//! | file | holds |
//! |---|---|
//! | `element.rs` | memory and register form, casts, order: all types |
//! | `number.rs` | arithmetic (integers and floats), bits (bool and integers), integer division |
//! | `float.rs` | functions of f64, rounded to the float types |
//! | `rounding.rs` | single rounding to the 16-bit floats |

mod element;
mod float;
mod number;
mod rounding;

pub use element::Element;
pub use float::Float;
pub use number::{Bits, Int, Number};
