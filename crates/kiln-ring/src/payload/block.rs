//! What the host has of an array.

use super::allocation::{Allocation, look_up};
use crate::layout::Hold;
use crate::runtime::{Result, Shared};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An array, as the host refers to it. When the last reference there is gone, the memory is given
/// back, or, where actors have some, once theirs are gone too.
pub(crate) struct Block {
    shared: Arc<Shared>,
    memory: Arc<Allocation>,
}

/// The array that a reference stands for, if it is still there.
pub(crate) fn find(reference: [u32; 3]) -> Option<Arc<Block>> {
    let (shared, memory) = look_up(reference)?;
    let mut holders = memory.holders();
    if let Some(block) = holders.block.upgrade() {
        return Some(block);
    }
    if holders.gone {
        return None;
    }
    // Nobody on the host has it any more, but an actor.
    let block = Arc::new(Block { shared: shared.upgrade()?, memory: Arc::clone(&memory) });
    holders.block = Arc::downgrade(&block);
    holders.found += 1;
    Some(block)
}

impl Block {
    /// Zeroed memory for `len` words.
    pub fn new(shared: &Arc<Shared>, len: usize) -> Result<Arc<Block>> {
        let memory = shared.allocate(len)?;
        let block = Arc::new(Block { shared: Arc::clone(shared), memory: Arc::clone(&memory) });
        memory.holders().block = Arc::downgrade(&block);
        Ok(block)
    }

    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// What stands for the array in messages.
    pub fn reference(&self) -> [u32; 3] {
        self.memory.reference()
    }

    /// Whether it lies in this runtime's arena.
    fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Has the host let go of the arrays of messages that are answered.
    pub fn let_go(&self) {
        self.shared.let_go_answered();
    }

    /// How many references have come back from actors.
    pub fn taken(&self) -> u32 {
        self.memory.taken.load(Ordering::Acquire)
    }

    /// Whether actors have references to it, beside the messages that the host sent and the `taken`
    /// ones that came back.
    pub fn is_lent(&self, taken: u32) -> Result<bool> {
        self.shared.is_lent(&self.memory, taken)
    }

    /// The host memory of [`len`](Self::len) words, initialized and aligned to 256 bytes, once
    /// nothing is copied from it any more. It lives as long as this value.
    pub fn staging(&self) -> Result<NonNull<u32>> {
        self.memory.staging(&self.shared)
    }

    /// Begins a copy of the staging memory to the device.
    pub fn flush(&self) -> Result<()> {
        self.memory.flush(&self.shared)
    }

    /// Reads all words back.
    pub fn read(&self, words: &mut [u32]) -> Result<()> {
        self.memory.wait(&self.shared)?;
        self.shared.read_arena(self.memory.piece, words)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.shared.let_go_of(&self.memory);
    }
}

impl Hold {
    /// Waits until a device that is told of the array finds it filled. Whether it is an array of
    /// this runtime.
    pub(crate) fn settle(&self, shared: &Arc<Shared>) -> Result<bool> {
        self.0.memory.wait(&self.0.shared)?;
        Ok(self.0.is_of(shared))
    }
}
