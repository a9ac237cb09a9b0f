//! Kiln's kernel library: kernels written in the kernel language, with functions that check shapes and choose sizes.
//!
//! Each module has its kernels under `kernels`, to read, to copy, or to launch with other sizes.
//!
//! | file | holds |
//! |---|---|
//! | `attention/` | [`Attention`] and its shorthands, for every device and on tensor cores, at the explicit level |
//! | `elementwise.rs` | `add`, `chain`, `copy` |
//! | `reduce.rs` | `sum` |
//! | `rows.rs` | `softmax`, `layer_norm` |
//! | `matmul/` | `matmul`, for every device and at the explicit level |
//! | `sizes.rs` | how much a program takes on |
//! | `tuning/` | [`Tuning`]: choosing by measurement how a kernel divides its work |

pub mod attention;
pub mod elementwise;
pub mod matmul;
pub mod reduce;
pub mod rows;
mod sizes;
mod tuning;

pub use attention::{Attention, attention, attention_with_sums};
pub use elementwise::{add, chain, copy};
pub use matmul::{Matmul, matmul};
pub use reduce::sum;
pub use rows::{layer_norm, softmax};
pub use tuning::Tuning;
