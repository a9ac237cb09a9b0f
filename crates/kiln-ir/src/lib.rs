//! Kiln's intermediate representation.
//!
//! A [`Kernel`] is structured SSA: one set of operations ([`OpKind`]) over tiles, where a scalar is
//! a tile of rank 0; regions for `if`, `for` and `while`, no jumps; views of memory as (base,
//! extents, strides). The same IR is used at two levels: as a front end makes it, and after the
//! lowering to threads, where every value is a scalar and memory is reached at linear indices of
//! views or, for a device that has them, by address.
//!
//! | file | holds |
//! |---|---|
//! | `types.rs` | element types, shapes, views |
//! | `float8.rs` | the 8-bit floats |
//! | `literal.rs` | constants |
//! | `op/mod.rs` | the operations and their semantics |
//! | `op/linear.rs` | accesses at a linear index |
//! | `op/`, the rest | tables of operations |
//! | `explicit.rs` | operations of the explicit level: asynchronous copies, barriers, tasks |
//! | `cluster.rs` | those among the blocks of a cluster |
//! | `fragment.rs` | warp-level matrix fragments and copies in flight; made by lowering only |
//! | `factor.rs` | the elements of the factors of products |
//! | `matrix.rs`, `sums.rs` | products on matrix units whose fragments only they can read |
//! | `warpgroup.rs` | products of warpgroups, and how matrices lie in shared memory for them |
//! | `operands.rs` | operands by name |
//! | `kernel.rs` | the arenas, parameters, facts, source locations, names for a debugger |
//! | `shown.rs` | arrays as text |
//! | `eval.rs` | what element-wise operations compute, for folding and the interpreter |
//! | `numeric/` | the arithmetic of elements as Rust types; `rounding.rs` rounds to 16-bit floats |
//! | `builder.rs` | appending operations |
//! | `fault.rs` | which operations can fault, and which all threads must reach together |
//! | `fault_region.rs` | the faults inside one: numbers, and which threads one concerns |
//! | `verify/` | the rules a well-formed kernel keeps |
//! | `uniformity.rs` | which values are the same in every thread of a block |
//! | `print.rs`, `parse/` | the text format, written and read |
//!
//! # The IR
//!
//! The front end and the lowering use the same operations. Control flow is structured. The language
//! turns `break`, `continue` and `return` under device conditions into flags, so no later stage has
//! to know them. Memory is reached through views; an access is masked by the view's extents,
//! checked against them, or proved to be inside. Every operation has a source location.
//!
//! Types of one byte besides bool (8-bit floats and 8-bit integers) are for storage. They are
//! loaded, stored, moved, converted and multiplied by matrix units, but have no arithmetic and no
//! order, so only conversions know them. The 8-bit floats are types of this crate (`float8.rs`),
//! because their rounding (once, saturating) is part of what the IR means.
//!
//! # What always holds
//!
//! The verifier checks:
//!
//! - Views come from parameters, `alloc` and `scratch` alone, and never flow through control flow.
//! - In a thread-level kernel, tile operations and barriers stand in uniform control flow and take
//!   uniform scalars.
//! - A `disjoint` store is proved to write a box that belongs to the program alone
//!   (`analysis/partition.rs` in `kiln-compiler`). The same proof gives the grid.
//! - What others write while a kernel runs is reached by ordered accesses and quads alone. No pass
//!   merges, moves or removes them.
//! - After lowering, every value is a scalar, and every access has a linear index or, after address
//!   legalization, an address.
//!
//! # Rounding
//!
//! Floats round as in Rust, once for each operation, on every device. PTX says `.rn`, which the
//! assembler does not fuse. A kernel with `contract` in its header (`#[kernel(contract)]`) lets
//! products and sums become multiply-adds. `fast_div` is the approximate division that a device has
//! besides the correct one. Expansions of elementary functions say `fma`. The conformance group
//! `exact` compares bits with Rust's.
//!
//! # Faults and fault regions
//!
//! A failed assert, a checked access outside its view and an integer division by zero are results,
//! not traps. The device records the first fault (where, which block and thread, the values), the
//! program ends, and the next synchronization returns it. The device remains usable.
//!
//! What a fault leaves in memory follows the order of the program: every store before the operation
//! that faults has happened; that operation and what comes after it change nothing. The interpreter
//! and the CPU do exactly this, and report the lowest program and in it the lowest thread. On a GPU
//! it holds for each program over tiles, whose threads reduce a check over the block and leave
//! together ([`OpKind::BlockCheck`]). In a kernel over threads it holds there for the thread that
//! faults; other threads may have got further.
//!
//! A *fault region* catches faults. It gives the number of the operation that failed, or says that
//! a budget of loop rounds was exceeded, and gives fallbacks instead of the region's values, so
//! that a kernel can go on. `Kernel::fault_sites` says what each number is. A fault region with a
//! *record*, an array in the thread's local memory, also stores the values of the check that
//! failed.

mod async_copy;
mod builder;
mod cluster;
pub mod eval;
mod explicit;
mod factor;
mod fault;
mod fault_region;
mod float8;
mod fragment;
mod inline_ptx;
mod kernel;
mod literal;
mod matrix;
pub mod numeric;
mod op;
mod operands;
mod parse;
mod print;
mod rounding;
mod shown;
mod sums;
mod types;
mod uniformity;
mod verify;
mod warpgroup;

pub use async_copy::AsyncCopyOp;
pub use builder::Builder;
pub use cluster::ClusterOp;
pub use explicit::{Attribute, BulkReduce, ExplicitOp, Task};
pub use factor::{Factor, Factors};
pub use fault::OpFault;
pub use fault_region::{BUDGET_EXCEEDED, FaultRegions, FaultSite, recorded};
pub use float8::{E4M3, E5M2};
pub use fragment::FragmentOp;
pub use inline_ptx::{PtxPart, check_ptx, ptx_parts};
pub use kernel::{
    Block, BlockData, Def, Facts, IntFact, Kernel, LaunchHints, Level, Loc, Named, Naming, Op, OpData, Param,
    UNKNOWN_LOCATION, Value, WARP,
};
pub use literal::Literal;
pub use matrix::{MATRIX, MatrixGrid, MatrixOp};
pub use op::*;
pub use parse::{ParseError, parse};
pub use shown::Shown;
pub use sums::lies_in_fragments;
pub use types::{MAX_VIEW_RANK, Scalar, Shape, Space, TileType, Type, ViewType};
pub use uniformity::Uniformity;
pub use verify::{MAX_DEPTH, VerifyError, verify};
pub use warpgroup::{GroupProduct, Lines, Panels};
