//! The device memory that arrays stand in.

use crate::error::Result;
use kiln_backend::{Backend, EventId, Mapped};

/// A range of words of a region of memory that host and device share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordRange {
    pub at: usize,
    pub words: usize,
}

impl WordRange {
    /// The first word behind it.
    pub fn end(&self) -> usize {
        self.at + self.words
    }
}

/// What an array requires of the memory that it stands in: a runtime's arena.
pub(crate) trait Arena: Send + Sync {
    /// The device that has it.
    fn backend(&self) -> &dyn Backend;

    /// Reads the first words of a range.
    fn read(&self, range: WordRange, words: &mut [u32]) -> Result<()>;

    /// Begins to copy `bytes` from host memory to a range; gives what is recorded after it.
    fn fill(&self, range: WordRange, from: &Mapped, bytes: usize) -> Result<EventId>;

    /// Whether actors have references to an array with a line of the reference-count table, beside
    /// the messages that the host sent and the `taken` ones that came back, which were counted
    /// before.
    fn is_referenced(&self, line: Option<usize>, taken: u32) -> Result<bool>;

    /// The host has no reference to this array any more, unless one was found meanwhile.
    fn release(&self, number: u32);

    /// Has the host give up the references of messages that are answered.
    fn release_answered(&self);
}
