//! Kiln's kernel library: kernels written in the kernel language, with functions that check shapes and choose sizes.
//!
//! Each module has its kernels under `kernels`, to read, to copy, or to launch with other sizes.
//!
//! | file | holds |
//! |---|---|
//! | `elementwise.rs` | `add`, `chain`, `copy` |
//! | `reduce.rs` | `sum` |
//! | `rows.rs` | `softmax`, `layer_norm` |
//! | `matmul/` | products of matrices, at the explicit level |
//! | `sizes.rs` | how much a program takes on |

pub mod elementwise;
pub mod matmul;
pub mod reduce;
pub mod rows;
mod sizes;

pub use elementwise::{add, chain, copy};
pub use reduce::sum;
pub use rows::{layer_norm, softmax};
