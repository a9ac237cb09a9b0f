//! The optimizer: passes that make a kernel smaller and leave its meaning alone.
//!
//! | file | pass |
//! |---|---|
//! | `simplify/` | folding, identities, canonical forms, control flow with known outcome |
//! | `invariant.rs` | what flows through loops and branches unchanged |
//! | `if_convert.rs` | small branches into selections |
//! | `range.rs` | comparisons, bounds and divisions that intervals of integers decide |
//! | `cse.rs` | common subexpressions |
//! | `licm.rs` | loop-invariant code |
//! | `dce.rs` | dead code, dead results and carried values |
//! | `rewrite.rs` | how passes walk and change a kernel |
//!
//! Every pass keeps a well-formed kernel well-formed, the results of every element-wise operation
//! to the bit, and the faults; debug builds verify after each that changed something. A new pass is
//! a function `run(&mut Kernel) -> bool` in a file of its own, a line in
//! [`PASSES`](crate::passes::PASSES) and a file test. Fault regions are gone before any of them
//! runs.

pub(crate) mod cse;
pub(crate) mod dce;
pub(crate) mod if_convert;
pub(crate) mod invariant;
pub(crate) mod licm;
pub(crate) mod range;
mod rewrite;
pub(crate) mod simplify;

pub(crate) use range::{prove_bounds, trusted};
pub(crate) use rewrite::Renames;
