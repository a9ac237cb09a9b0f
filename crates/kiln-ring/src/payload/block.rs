//! The memory of payloads.

use crate::layout::Hold;
use crate::runtime::{Piece, Result, Shared};
use kiln_backend::{EventId, Mapped, MappedPlace};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// An array's memory: a piece of a runtime's arena, given back when nobody refers to it any more.
pub(crate) struct Block {
    shared: Arc<Shared>,
    piece: Piece,
    /// Elements of one word.
    len: usize,
    /// Which of this process's arrays it is.
    number: u32,
    /// Host memory from which it is filled.
    staging: OnceLock<Mapped>,
    /// After the last copy to the device.
    copied: Mutex<Option<EventId>>,
}

/// The arrays of this process, by their numbers: a reference that comes back from a device is three words.
static BLOCKS: Mutex<Option<HashMap<u32, Weak<Block>>>> = Mutex::new(None);
static NEXT: AtomicU32 = AtomicU32::new(1);

fn blocks() -> MutexGuard<'static, Option<HashMap<u32, Weak<Block>>>> {
    // Every change of the map is one insertion or removal.
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The array that a reference stands for, if it is still there.
pub(crate) fn find([at, len, number]: [u32; 3]) -> Option<Arc<Block>> {
    let block = blocks().as_ref()?.get(&number)?.upgrade()?;
    (block.reference() == [at, len, number]).then_some(block)
}

impl Block {
    /// Zeroed memory for `len` words.
    pub fn new(shared: &Arc<Shared>, len: usize) -> Result<Arc<Block>> {
        let piece = shared.take_arena(len)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(shared);
        let block = Block { shared, piece, len, number, staging: OnceLock::new(), copied: Mutex::new(None) };
        // A block that fails here gives its piece back.
        block.shared.clear_arena(piece)?;
        let block = Arc::new(block);
        blocks().get_or_insert_default().insert(number, Arc::downgrade(&block));
        Ok(block)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// What stands for the array in messages.
    pub fn reference(&self) -> [u32; 3] {
        [self.piece.at as u32, self.len as u32, self.number]
    }

    /// Whether it lies in this runtime's arena.
    fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// The host memory of [`len`](Self::len) words, initialised and aligned to 256 bytes, once nothing is copied from it any more. It lives as long as this value.
    pub fn staging(&self) -> Result<NonNull<u32>> {
        self.wait()?;
        if let Some(staging) = self.staging.get() {
            return Ok(staging.host.cast());
        }
        let mapped = self.shared.backend().map(self.len.max(1) * 4, MappedPlace::Host)?;
        let host = mapped.host.cast();
        if let Err(second) = self.staging.set(mapped) {
            // SAFETY: another thread was first, and nobody knows this one.
            unsafe { self.shared.backend().unmap(second) };
            return self.staging();
        }
        Ok(host)
    }

    /// Begins a copy of the staging memory to the device.
    pub fn flush(&self) -> Result<()> {
        self.wait()?;
        let Some(staging) = self.staging.get() else { return Ok(()) };
        let event = self.shared.fill_arena(self.piece, staging, self.len * 4)?;
        *self.copied.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
        Ok(())
    }

    /// Waits until the last flush is over.
    fn wait(&self) -> Result<()> {
        let mut copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(event) = *copied else { return Ok(()) };
        let backend = self.shared.backend();
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

    /// Reads all words back.
    pub fn read(&self, words: &mut [u32]) -> Result<()> {
        self.wait()?;
        self.shared.read_arena(self.piece, words)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // A copy that failed uses the memory no more either.
        let _ = self.wait();
        if let Some(blocks) = blocks().as_mut() {
            blocks.remove(&self.number);
        }
        if let Some(staging) = self.staging.take() {
            // SAFETY: copies from it are over, and nobody else knows it.
            unsafe { self.shared.backend().unmap(staging) };
        }
        self.shared.give_arena(self.piece);
    }
}

impl Hold {
    /// Waits until a device that is told of the array finds it filled. Whether it is an array of this runtime.
    pub(crate) fn settle(&self, shared: &Arc<Shared>) -> Result<bool> {
        self.0.wait()?;
        Ok(self.0.is_of(shared))
    }
}
