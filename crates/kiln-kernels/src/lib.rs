//! Kiln's kernel library: kernels written in the kernel language, with functions that check shapes
//! and choose sizes.
//!
//! Each module has its kernels under `kernels`, to read, to copy, or to launch with other sizes.
//!
//! | file | holds |
//! |---|---|
//! | `attention/` | [`Attention`], for every device and at the explicit level |
//! | `create.rs` | [`Create`]: tensors of one number, of numbers in order, identities; [`Fill`] |
//! | `elementwise.rs` | `add`, `copy` |
//! | `reduce.rs` | `sum` |
//! | `rows.rs`, `long_rows.rs` | `softmax`, `layer_norm`; of rows that no program holds |
//! | `matmul/` | `matmul`, for every device and at the explicit level |
//! | `numeric.rs` | from element types at run time to those of Rust |
//! | `sort/` | [`Sort`], `sort`: rows of any length |
//! | `sizes.rs` | how much a program takes on |
//! | `tuning/` | [`Tuning`]: choosing by measurement how a kernel divides its work |
//!
//! # Products
//!
//! [`Matmul`] is a product, a precision and an *epilogue*: a value that is a parameter of the
//! kernel (`KernelParam`), and code that gets tiles of sums in registers. One kernel at the
//! explicit level (`matmul/hopper/`) serves all element types, stacks and divided inner extents
//! by its `Plan`, which an estimate chooses from the shape (`matmul/estimate.rs`). One at the tile
//! level (`matmul/plain.rs`) serves everything else.
//!
//! Where whole rounds of tiles would leave most programs idle, the steps of the last ones are
//! divided evenly among all programs (stream-K, `matmul/stream.rs`): a program leaves its partial
//! sums of a tile in memory and signals; the program with the tile's last steps adds them, always
//! in the same order.
//!
//! # Tuning
//!
//! Tuning is off unless a call has a budget. With one, the estimate's best plans are timed on the
//! call's arguments, into memory of their own, and compared with the estimate's result. The fastest
//! is kept under a key, which is a text (work, types, layout, class of shapes), by
//! `Device::keep_choice`, in files beside the programs that name the device, its driver and
//! compiler and Kiln's version. Without a budget nothing is read either: what runs never depends on
//! what happens to be on a disk.

pub mod attention;
pub mod create;
pub mod elementwise;
mod long_rows;
pub mod matmul;
mod numeric;
pub mod reduce;
pub mod rows;
mod sizes;
pub mod sort;
mod tuning;

pub use attention::{Attention, attention, attention_with_sums};
pub use create::{Create, Fill};
pub use elementwise::{add, copy};
pub use matmul::{Matmul, matmul};
pub use reduce::sum;
pub use rows::{layer_norm, softmax};
pub use sort::{Sort, sort};
pub use tuning::Tuning;
