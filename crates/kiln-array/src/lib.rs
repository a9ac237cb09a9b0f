//! Arrays: lazy, fused into few kernels, differentiable.
//!
//! What MLX, JAX and CuPy are to Python: NumPy's core on every device, where operations record and
//! whatever reads an element computes.
//!
//! ```
//! use kiln_array::{Array, value_and_grad};
//!
//! let device = kiln_runtime::Device::open("cpu")?;
//! let x = Array::linspace(&device, -1.0, 1.0, 64).reshape(&[64, 1]);
//! let y = &x * 3.0 - 0.5;
//! let mut weights = [Array::full(&device, 0.0f64, &[1, 1]), Array::scalar(&device, 0.0f64)];
//! for _ in 0..200 {
//!     let (_, slopes) = value_and_grad(|[a, b]| (x.matmul(a) + b - &y).square().mean(), &weights);
//!     weights = [&weights[0] - &slopes[0] * 0.3, &weights[1] - &slopes[1] * 0.3];
//!     kiln_array::eval(&[&weights[0], &weights[1]])?;
//! }
//! assert!((weights[0].item::<f64>()? - 3.0).abs() < 1e-3);
//! assert!((weights[1].item::<f64>()? + 0.5).abs() < 1e-3);
//! # Ok::<(), kiln_array::Error>(())
//! ```
//!
//! - Arrays, their functions and operators: [`Array`]; of several arrays: [`concatenate`],
//!   [`stack`], [`meshgrid`], [`einsum`].
//! - Derivatives: [`grad`], [`value_and_grad`], [`jvp`], [`vjp`], [`jacobian`], [`hessian`],
//!   [`hvp`]; rules of your own: [`custom_vjp`], [`custom_jvp`]; less memory: [`remat`].
//! - Functions of many: [`vmap`], [`scan`], [`cond`].
//! - Networks and their training: [`nn`], [`optimizer`].
//! - When and how something is computed: [`eval`], [`explain`], [`peak_memory`], [`custom_kernel`].
//! - Where NaN and infinities come from: [`first_non_finite`], [`detect_non_finite`].
//!
//! An [`Array`] is a handle to a node: an operation with its inputs, an element type, a shape, a
//! device, the line that recorded it; or, once it is computed, a tensor. Types and shapes are
//! checked while the program records. A wrong operation makes an array that holds an error with its
//! line, and the next `eval`, `item` or `to_vec` returns that.
//!
//! # From a graph to kernels
//!
//! ```text
//!   x ── sub ── exp ─┬── div ── y         record   node.rs, op.rs, array/
//!   └─ max ─┘        └ sum ┘
//!        │ eval
//!        ▼
//!   the graph in words: a schedule that is there   plan/structure.rs, schedule.rs
//!        │ or a new one
//!        ▼
//!   inputs first; what may have to be in memory:   plan/graph.rs, plan/partition.rs
//!   what is asked for, reductions, products, what several read
//!        │ each joins a group that counts over the same axes
//!        ▼
//!   group  {max, sum, div}   kept axes [rows], row axes [columns]
//!        │ from each member down to what is read, through views: indices are sums of
//!        │ multiples of the group's dimensions        plan/body.rs, plan/affine.rs
//!        ▼
//!   body   values over dimensions; equal ones are one
//!        │ dimensions that lie in memory as one become one; tiles, loops, grid
//!        ▼                                            plan/lower.rs, plan/sizes.rs
//!   program (the key of the cache) + arguments        plan/program.rs
//!        │ once for each program
//!        ▼
//!   tile IR → DynKernel → the device                  emit/, run.rs
//! ```
//!
//! **Views are indices.** A broadcast, a reshape, a permutation, a slice or a flip computes
//! nothing: where a kernel reads through them, they change the index. A reshape may divide a
//! dimension of the kernel in two for that. What no sum of multiples reaches is stored first.
//!
//! **A group is a kernel.** It counts over *kept* axes, which its results have, and *row* axes,
//! along which reductions combine. Softmax, as one writes it, is one group: both reductions are
//! over the same row, and the division reads both for each element of that row. While a tile holds
//! the row, the input is read once. Of longer rows a program reads all parts once for each
//! reduction that needs the one before, and once for the result.
//!
//! **Products have epilogues.** A group that reads an element of a product in its own place and
//! nothing else of it, such as a bias with an activation, is done to the sums where they are made,
//! in the library's kernel.
//!
//! **A program is a structure.** Extents, strides and most numbers are arguments of the kernel. So
//! another batch size, another learning rate, another step of a loop is a launch of a kernel that
//! is there. Whole plans are remembered too, by all that they depend on: the next evaluation of an
//! equal graph finds its schedule, and binds buffers.
//!
//! **Gradients are arrays.** [`grad`] walks the recorded graph backwards and records the gradient
//! of each operation in operations; those of element-wise ones are the expressions that `kiln_ir`
//! has beside the operations. Nothing is computed meanwhile, so that they fuse, and have gradients.
//! [`jvp`] walks the same graph forwards, by the same derivatives, and [`vmap`] records each
//! operation again with an axis more.
//!
//! | file | holds |
//! |---|---|
//! | `node.rs`, `op.rs` | arrays, how one is recorded, the operations |
//! | `array/` | what a user calls, a file a subject |
//! | `dtype.rs`, `shape.rs` | promotion and broadcasting, as NumPy's |
//! | `plan/` | from a graph to launches |
//! | `emit/` | from a program to IR |
//! | `schedule.rs`, `run.rs` | plans that are remembered, and running them |
//! | `runs.rs` | what a device remembers of their runs |
//! | `faults.rs` | arrays whose kernel had a fault |
//! | `spare.rs` | memory that is used again |
//! | `custom_kernel.rs`, `program_kernel.rs` | kernels of a program's own as operations |
//! | `jacobi.rs` | kernels of eigenvalues and singular values |
//! | `fp8.rs` | kernels that narrow factors to 8-bit floats, and their products |
//! | `weight_products.rs` | how layers multiply by their weights, by the policy in force |
//! | `library.rs`, `epilogue.rs` | products by `kiln-kernels`, their epilogues; kernels by hand |
//! | `grad/` | gradients, in reverse and in forward mode |
//! | `batch/` | functions of an array as functions of many |
//! | `control.rs` | loops and choices, with derivatives |
//! | `nn/`, `optimizer/` | networks and their training |
//! | `explain.rs` | what a plan does, in words |
//! | `non_finite.rs` | which operation made the first NaN or infinity |

mod array;
mod batch;
mod control;
mod custom_kernel;
mod dtype;
mod emit;
mod epilogue;
mod error;
mod explain;
mod faults;
mod fp8;
mod grad;
mod jacobi;
mod library;
pub mod nn;
mod node;
mod non_finite;
mod op;
pub mod optimizer;
mod plan;
mod program_kernel;
mod run;
mod runs;
mod schedule;
mod shape;
mod spare;
mod weight_products;

pub use array::{
    Convolution, Extent, MatrixNorm, Operand, Padding, Pairs, Side, SliceRange, concatenate, einsum, eval,
    meshgrid, stack,
};
pub use batch::{vmap, vmap_axes};
pub use control::{cond, scan};
pub use custom_kernel::custom_kernel;
pub use error::{Error, NonFinite, Result, Site};
pub use explain::{explain, peak_memory};
pub use grad::{
    Gradients, Parameters, custom_jvp, custom_vjp, grad, hessian, hvp, jacobian, jvp, remat, value_and_grad,
    vjp,
};
pub use kiln_ir::Scalar;
pub use kiln_macros::Module;
pub use nn::{Module, Visitor};
pub use node::Array;
pub use non_finite::{detect_non_finite, first_non_finite};

/// The example in the documentation of a macro, whose crate knows nothing of this one.
#[cfg(doctest)]
#[doc = include_str!("../../kiln-macros/src/examples/module.md")]
struct DeriveModule;
