//! The memory of an array, and who knows it.

use super::Block;
use crate::runtime::{Piece, Result, Shared};
use kiln_backend::{EventId, Mapped, MappedPlace};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An array's memory: a piece of a runtime's arena.
pub(crate) struct Allocation {
    pub piece: Piece,
    /// Elements of one word.
    pub len: usize,
    /// Which of this process's arrays it is.
    pub number: u32,
    /// Its line in the runtime's reference-count table. Without one, no actor can hand it on.
    pub line: Option<usize>,
    /// What the device's count stands at when no actor has a reference: those that reached the host
    /// are not taken off there, but counted here.
    pub taken: AtomicU32,
    holders: Mutex<Holders>,
    /// Host memory from which it is filled.
    staging: Mutex<Option<Mapped>>,
    /// After the last copy to the device.
    copied: Mutex<Option<EventId>>,
}

/// Who has an array on the host.
pub(crate) struct Holders {
    /// What they share.
    pub block: Weak<Block>,
    /// How often somebody found it when nobody had it any more.
    pub found: u64,
    /// The memory was given back.
    pub gone: bool,
}

/// An array's runtime and its memory.
type Known = (Weak<Shared>, Arc<Allocation>);

/// The arrays of this process whose memory was not given back, by their numbers: a reference that
/// comes back from a device is three words.
static KNOWN: Mutex<Option<HashMap<u32, Known>>> = Mutex::new(None);
static NEXT: AtomicU32 = AtomicU32::new(1);

fn known() -> MutexGuard<'static, Option<HashMap<u32, Known>>> {
    // Every change of the map is one insertion or removal.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that no array of this process has. None is 0.
pub(crate) fn next_number() -> u32 {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if number != 0 && !known().as_ref().is_some_and(|known| known.contains_key(&number)) {
            return number;
        }
    }
}

/// The memory that a reference stands for, if it is still there, and its runtime.
pub(super) fn look_up(reference: [u32; 3]) -> Option<Known> {
    let found = known().as_ref()?.get(&reference[2]).cloned()?;
    (found.1.reference() == reference).then_some(found)
}

/// An output of an actor in which this reference stood was taken, or never will be.
pub(crate) fn received(reference: &[u32]) {
    if let Some((_, memory)) = look_up([reference[0], reference[1], reference[2]]) {
        // Release: whoever sees it finds those who have the array on the host by then.
        memory.taken.fetch_add(1, Ordering::Release);
    }
}

/// Nobody finds the array any more.
pub(crate) fn forget(number: u32) {
    if let Some(known) = known().as_mut() {
        known.remove(&number);
    }
}

impl Allocation {
    /// Memory of so many words that is known from now on, by a number and a line of the
    /// reference-count table, at which the device's count stands at `settled`.
    pub fn new(
        shared: &Arc<Shared>,
        (piece, len): (Piece, usize),
        (number, line): (u32, Option<usize>),
        settled: u32,
    ) -> Arc<Allocation> {
        let memory = Arc::new(Allocation {
            piece,
            len,
            number,
            line,
            taken: AtomicU32::new(settled),
            holders: Mutex::new(Holders { block: Weak::new(), found: 0, gone: false }),
            staging: Mutex::default(),
            copied: Mutex::default(),
        });
        known().get_or_insert_default().insert(number, (Arc::downgrade(shared), Arc::clone(&memory)));
        memory
    }

    /// What stands for the array in messages.
    pub fn reference(&self) -> [u32; 3] {
        [self.piece.at as u32, self.len as u32, self.number]
    }

    pub fn holders(&self) -> MutexGuard<'_, Holders> {
        // Changed by single assignments.
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mapped(&self) -> MutexGuard<'_, Option<Mapped>> {
        // As above.
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host memory of [`len`](Self::len) words, initialized and aligned to 256 bytes, once
    /// nothing is copied from it any more.
    pub fn staging(&self, shared: &Shared) -> Result<NonNull<u32>> {
        self.wait(shared)?;
        let mut staging = self.mapped();
        let mapped = match staging.take() {
            Some(mapped) => mapped,
            None => shared.backend().map(self.len.max(1) * 4, MappedPlace::Host)?,
        };
        Ok(staging.insert(mapped).host.cast())
    }

    /// Begins a copy of the staging memory to the device.
    pub fn flush(&self, shared: &Shared) -> Result<()> {
        self.wait(shared)?;
        let staging = self.mapped();
        let Some(staging) = staging.as_ref() else { return Ok(()) };
        let event = shared.fill_arena(self.piece, staging, self.len * 4)?;
        *self.copied.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
        Ok(())
    }

    /// Waits until the last flush is over.
    pub fn wait(&self, shared: &Shared) -> Result<()> {
        let mut copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(event) = *copied else { return Ok(()) };
        let backend = shared.backend();
        let outcome = loop {
            match backend.query(event) {
                Ok(false) => std::hint::spin_loop(),
                Ok(true) => break Ok(()),
                Err(error) => break Err(error.into()),
            }
        };
        backend.destroy_event(event);
        *copied = None;
        outcome
    }

    /// Gives the host memory back.
    ///
    /// # Safety
    /// Nobody has an address in it.
    pub unsafe fn give_staging(&self, shared: &Shared) {
        // A copy that failed uses the memory no more either.
        let _ = self.wait(shared);
        if let Some(staging) = self.mapped().take() {
            // SAFETY: copies from it are over, and as the caller promises.
            unsafe { shared.backend().unmap(staging) };
        }
    }
}
