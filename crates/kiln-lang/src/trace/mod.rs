//! Recording a kernel: what an operator on a handle leaves behind, and how that becomes IR.
//!
//! A trace is a tree of [`Item`]s: IR operations, reads and writes of *variables* (which the IR
//! does not have), and structured control flow. When the kernel has run to its end, `promote` turns
//! variables into region arguments and results and writes a [`kiln_ir::Kernel`].
//!
//! | file | holds |
//! |---|---|
//! | `item.rs` | the tree |
//! | `recorder.rs` | the open regions, types, errors; appending operations |
//! | `refine.rs` | what an assumption says of values |
//! | `exits.rs` | `break`, `continue` and `return` as flags: the IR has no jumps |
//! | `scope.rs`, `site.rs` | what an exit may leave; places in the source |
//! | `loops.rs` | closing loops that may be left |
//! | `liveness.rs`, `var_set.rs` | which variables are still read after an `if` or a loop |
//! | `promote.rs`, `unroll.rs` | variables to SSA; loops that are unrolled |
//! | `panics.rs` | where a panic of the kernel's happened |
//! | `naming.rs` | whether names of the user's are recorded, for a debugger |
//! | `error.rs` | what a kernel can do wrong while it is traced |

mod error;
mod exits;
mod item;
mod liveness;
mod loops;
mod naming;
mod panics;
mod promote;
mod recorder;
mod refine;
mod run;
mod scope;
mod site;
mod unroll;
mod var_set;

pub use error::{TraceError, TraceErrors};
pub(crate) use exits::ExitKind;
pub use item::Raw;
pub(crate) use item::{Id, Item, MadeId, MadeView, NameItem, NamedAs, Region, Var};
pub(crate) use liveness::writes_outer;
pub(crate) use loops::Bounds;
pub use naming::record_names;
pub(crate) use naming::records_names;
pub(crate) use recorder::{Depth, Recorder, RegionKind, error, with};
pub use run::traced_now;
pub(crate) use run::{NEVER_RETURNS, abort, trace_at, unless_aborted};
pub(crate) use scope::ScopeKind;
pub(crate) use site::{Site, SourceLocation};
