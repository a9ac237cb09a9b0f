//! The arrays of this process whose memory was not given back, by their numbers: a reference that
//! comes back from a device is three words.

use super::arena::Arena;
use super::block::{Allocation, Block};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An array's arena and its memory.
type Known = (Weak<dyn Arena>, Arc<Allocation>);

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

/// From now on references to this memory are found.
pub(crate) fn register(arena: Weak<dyn Arena>, memory: &Arc<Allocation>) {
    known().get_or_insert_default().insert(memory.number, (arena, Arc::clone(memory)));
}

/// The array can no longer be found.
pub(crate) fn forget(number: u32) {
    if let Some(known) = known().as_mut() {
        known.remove(&number);
    }
}

/// The memory of the array with this number, if it was not given back.
pub(crate) fn allocation(number: u32) -> Option<Arc<Allocation>> {
    known().as_ref()?.get(&number).map(|(_, memory)| Arc::clone(memory))
}

/// The memory that a reference stands for, if it is still there, and its arena.
fn look_up(reference: [u32; 3]) -> Option<Known> {
    let found = known().as_ref()?.get(&reference[2]).cloned()?;
    (found.1.reference() == reference).then_some(found)
}

/// The array that a reference stands for, if it is still there.
pub(super) fn find(reference: [u32; 3]) -> Option<Arc<Block>> {
    let (arena, memory) = look_up(reference)?;
    let mut holders = memory.holders();
    if let Some(block) = holders.block.upgrade() {
        return Some(block);
    }
    if holders.gone {
        return None;
    }
    Some(Block::found(arena.upgrade()?, &memory, &mut holders))
}

/// An output of an actor in which this reference stood was taken, or never will be.
pub(crate) fn received(reference: &[u32]) {
    if let Some((_, memory)) = look_up([reference[0], reference[1], reference[2]]) {
        // Release: a reader that sees it finds those that have the array on the host by then.
        memory.taken.fetch_add(1, Ordering::Release);
    }
}
