//! Passes over Kiln IR: canonicalisation, analyses, layouts and the lowering from tiles to threads.

mod error;
pub mod expand;
pub mod layout;
mod lower;
mod target;

pub use error::CompileError;
pub use lower::lower_to_threads;
pub use target::{Target, TargetKind};
