//! Compiled programs, kept in memory and on disk.

mod disk;
mod memory;

pub use disk::{DiskCache, DiskStats};
pub(crate) use memory::Specialisation;
pub use memory::{Build, ProgramCache};
