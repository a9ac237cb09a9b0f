//! Compiled programs and choices that were measured, kept in memory and on disk.

mod choices;
mod disk;
mod entry;
mod memory;

pub(crate) use choices::Choices;
pub use choices::Measuring;
pub use disk::{DiskCache, DiskStats};
pub use memory::ProgramCache;
pub(crate) use memory::Specialization;
