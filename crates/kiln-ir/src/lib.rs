//! Kiln's intermediate representation.
//!
//! A [`Kernel`] is structured SSA: one set of operations ([`OpKind`]) over tiles, where a scalar is a tile of rank 0; regions for `if`,
//! `for` and `while`, no jumps; views of memory as (base, extents, strides). The same IR is used at two levels: as a front end makes it, and
//! after the lowering to threads, where every value is a scalar and memory is reached by address.
//!
//! | file | holds |
//! |---|---|
//! | `types.rs` | element types, shapes, views |
//! | `float8.rs` | the 8-bit floats |
//! | `literal.rs` | constants |
//! | `op/` | the operations: `mod.rs` says what they mean, `table.rs` what every stage reads of them, `unary.rs` and `binary.rs` the same of element-wise ones |
//! | `explicit.rs` | those of the explicit level: asynchronous copies and products, barriers, tasks |
//! | `cluster.rs` | those among the blocks of a cluster |
//! | `fragment.rs` | those of a warp on fragments of matrices, and of copies in flight, which only the lowering makes |
//! | `warpgroup.rs` | products of warpgroups, and how matrices lie in shared memory for them |
//! | `operands.rs` | operands by name |
//! | `kernel.rs` | the arenas, parameters, facts, source locations |
//! | `eval.rs` | what element-wise operations compute, for folding and the interpreter |
//! | `numeric/` | the arithmetic of elements as Rust types; `rounding.rs` rounds to 16-bit floats |
//! | `builder.rs` | appending operations |
//! | `guard.rs` | which operations a guard catches, how they are numbered, and whom a fault concerns |
//! | `verify/` | the rules a well-formed kernel keeps |
//! | `uniformity.rs` | which values are the same in every thread of a block |
//! | `print.rs`, `parse/` | the text format, written and read |

mod builder;
mod cluster;
pub mod eval;
mod explicit;
mod float8;
mod fragment;
mod guard;
mod kernel;
mod literal;
pub mod numeric;
mod op;
mod operands;
mod parse;
mod print;
mod rounding;
mod types;
mod uniformity;
mod verify;
mod warpgroup;

pub use builder::Builder;
pub use cluster::ClusterOp;
pub use explicit::{Attribute, ExplicitOp, Task};
pub use float8::{E4M3, E5M2};
pub use fragment::{Factor, Factors, FragmentOp};
pub use guard::{BUDGET_EXCEEDED, GuardFault, GuardSite, Guards, recorded};
pub use kernel::{Block, BlockData, Def, Facts, IntFact, Kernel, Level, Loc, Op, OpData, Param, Value};
pub use literal::Literal;
pub use op::*;
pub use parse::{ParseError, parse};
pub use types::{MAX_VIEW_RANK, Scalar, Shape, Space, TileType, Type, ViewType};
pub use uniformity::Uniformity;
pub use verify::{MAX_DEPTH, VerifyError, verify};
pub use warpgroup::{GroupProduct, Lines, Panels};
