//! Compiled programs, kept in memory and on disk.

mod disk;
mod memory;

pub use disk::{DiskCache, DiskStats};
pub use memory::ProgramCache;
pub(crate) use memory::Specialisation;
