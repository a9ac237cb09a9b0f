//! Passes over Kiln IR: canonicalisation, analyses, layouts and the lowering from tiles to threads.
//!
//! A kernel goes through [`optimize`], [`expand::expand`] and, for GPUs, [`specialise`] and [`lower_to_threads`]; each takes and gives a kernel that
//! [`kiln_ir::verify`] accepts. No pass changes what a kernel means: the interpreter runs what any of them gives, which is how they
//! are tested.
//!
//! | module | holds |
//! |---|---|
//! | [`opt`] | canonicalisation, folding, common subexpressions, dead code, loop invariants |
//! | [`analysis`] | what the launch must know: which part of a tensor a program writes |
//! | `guard` | faults as values, in terms of `if` and loops |
//! | [`expand`] | elementary functions in terms of arithmetic |
//! | `pieces` | tiles of any extents in terms of tiles whose extents are powers of two |
//! | [`layout`] | which thread and register holds which element of a tile, and ways from one layout to another |
//! | `specialise` | loops of products with a task that copies |
//! | `lower` | from tiles to threads |
//! | `widen` | products of 8-bit numbers where no matrix unit multiplies them |
//! | `target`, `error` | what is known of a device; why a kernel cannot be compiled |

pub mod analysis;
mod error;
pub mod expand;
mod guard;
pub mod layout;
mod lower;
pub mod opt;
mod pieces;
mod specialise;
mod target;
mod widen;

pub use analysis::{GridRule, Partition, Unproven, partition};
pub use error::CompileError;
pub use lower::{explain_layouts, lower_to_threads};
pub use opt::optimize;
pub use pieces::divide_tiles;
pub use specialise::{Unspecialised, specialise};
pub use target::{Target, TargetKind};
pub use widen::widen_products;
