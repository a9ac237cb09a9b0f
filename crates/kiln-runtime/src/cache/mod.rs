//! Compiled programs and choices that were measured, kept in memory and on disk.

mod choices;
mod disk;
mod entry;
mod evict;
mod exchange;
mod limit;
mod memory;
mod room;

pub(crate) use choices::Choices;
pub use choices::Measuring;
pub use disk::{DiskCache, DiskStats};
pub use exchange::Exchanged;
pub use limit::parse_cache_size;
pub use memory::ProgramCache;
pub(crate) use memory::Specialization;
