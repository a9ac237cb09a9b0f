//! Other places in memory for each slice.
//!
//! How long a message through the host's memory takes depends on the place in it, by up to a fifth
//! (`bench/notes.md`, "Where a message lies"). What a process has allocated once stays where it is,
//! so that it would measure one place, and a process of another build another one. Rows with new
//! memory for each slice measure many.

use crate::failure::Failure;
use kiln_backend::{Backend, Mapped, MappedPlace};

/// Bytes that are held for each slice. A mapping takes a page at least.
const HELD: usize = 768;

/// Memory that is held, so that what is mapped next lies elsewhere.
pub struct Places<'a> {
    backend: &'a dyn Backend,
    place: MappedPlace,
    held: Vec<Mapped>,
}

impl Places<'_> {
    /// Of the memory through which messages go there and back.
    pub fn new(backend: &dyn Backend, place: MappedPlace) -> Places<'_> {
        Places { backend, place, held: Vec::new() }
    }

    /// What is mapped from now on lies elsewhere, on a device that has such memory.
    ///
    /// # Errors
    /// Those of `map`.
    pub fn change(&mut self) -> Result<(), Failure> {
        if let Some(memory) = self.backend.mapped_memory() {
            self.held.push(memory.map(HELD, self.place)?);
        }
        Ok(())
    }
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        if let Some(memory) = self.backend.mapped_memory() {
            // SAFETY: mapped in `change`, and nobody has used it.
            self.held.drain(..).for_each(|mapped| unsafe { memory.unmap(mapped) });
        }
    }
}
