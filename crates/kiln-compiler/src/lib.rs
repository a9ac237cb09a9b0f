//! Passes over Kiln IR: canonicalisation, analyses, layouts and the lowering from tiles to threads.

pub mod analysis;
mod error;
pub mod expand;
pub mod layout;
mod lower;
pub mod opt;
mod target;

pub use analysis::{GridRule, Partition, Unproven, partition};
pub use error::CompileError;
pub use lower::{explain_layouts, lower_to_threads};
pub use opt::optimize;
pub use target::{Target, TargetKind};
