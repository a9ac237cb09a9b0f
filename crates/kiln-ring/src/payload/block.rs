//! Arrays as the host refers to them, and their memory.

use super::arena::{Arena, WordRange};
use crate::error::Result;
use kiln_backend::{EventId, Mapped, MappedPlace};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An array's memory: a range of a runtime's arena.
pub(crate) struct Allocation {
    pub range: WordRange,
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
    /// How often a reference was found when the host had none any more.
    pub found: u64,
    /// The memory was given back.
    pub gone: bool,
}

impl Allocation {
    /// Memory of so many words, with a number and a line of the reference-count table, at which the
    /// device's count stands at `settled`.
    pub fn new(
        (range, len): (WordRange, usize),
        (number, line): (u32, Option<usize>),
        settled: u32,
    ) -> Arc<Allocation> {
        Arc::new(Allocation {
            range,
            len,
            number,
            line,
            taken: AtomicU32::new(settled),
            holders: Mutex::new(Holders { block: Weak::new(), found: 0, gone: false }),
            staging: Mutex::default(),
            copied: Mutex::default(),
        })
    }

    /// What stands for the array in messages.
    pub fn reference(&self) -> [u32; 3] {
        [self.range.at as u32, self.len as u32, self.number]
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
    pub fn staging(&self, arena: &dyn Arena) -> Result<NonNull<u32>> {
        self.wait(arena)?;
        let mut staging = self.mapped();
        let mapped = match staging.take() {
            Some(mapped) => mapped,
            None => arena.backend().need_mapped_memory()?.map(self.len.max(1) * 4, MappedPlace::Host)?,
        };
        Ok(staging.insert(mapped).host.cast())
    }

    /// Begins a copy of the staging memory to the device.
    pub fn flush(&self, arena: &dyn Arena) -> Result<()> {
        self.wait(arena)?;
        let staging = self.mapped();
        let Some(staging) = staging.as_ref() else { return Ok(()) };
        let event = arena.fill(self.range, staging, self.len * 4)?;
        *self.copied.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
        Ok(())
    }

    /// Waits until the last flush is over.
    pub fn wait(&self, arena: &dyn Arena) -> Result<()> {
        let mut copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(event) = *copied else { return Ok(()) };
        let backend = arena.backend();
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
    /// The host has no address in it.
    pub unsafe fn give_staging(&self, arena: &dyn Arena) {
        // A copy that failed uses the memory no more either.
        let _ = self.wait(arena);
        if let Some(staging) = self.mapped().take() {
            // SAFETY: copies from it are over, and as the caller promises.
            unsafe { arena.backend().unmap(staging) };
        }
    }
}

/// An array, as the host refers to it. When the last reference there is gone, the memory is given
/// back, or, where actors have some, once theirs are gone too.
pub(crate) struct Block {
    arena: Arc<dyn Arena>,
    memory: Arc<Allocation>,
}

impl Block {
    /// An array in memory without references.
    pub fn new(arena: Arc<dyn Arena>, memory: Arc<Allocation>) -> Arc<Block> {
        let block = Arc::new(Block { arena, memory });
        block.memory.holders().block = Arc::downgrade(&block);
        block
    }

    /// The array whose memory this is, for the host again: the host had no reference any more, but
    /// an actor did. `holders` are the memory's.
    pub(super) fn found(
        arena: Arc<dyn Arena>,
        memory: &Arc<Allocation>,
        holders: &mut Holders,
    ) -> Arc<Block> {
        let block = Arc::new(Block { arena, memory: Arc::clone(memory) });
        holders.block = Arc::downgrade(&block);
        holders.found += 1;
        block
    }

    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// What stands for the array in messages.
    pub fn reference(&self) -> [u32; 3] {
        self.memory.reference()
    }

    /// Whether it lies in this runtime's arena.
    fn is_of(&self, arena: &dyn Arena) -> bool {
        std::ptr::addr_eq(&raw const *self.arena, &raw const *arena)
    }

    /// Has the host give up the references of messages that are answered.
    pub fn release_answered(&self) {
        self.arena.release_answered();
    }

    /// How many references have come back from actors.
    pub fn taken(&self) -> u32 {
        self.memory.taken.load(Ordering::Acquire)
    }

    /// Whether actors have references to it, beside the messages that the host sent and the `taken`
    /// ones that came back.
    pub fn is_referenced(&self, taken: u32) -> Result<bool> {
        self.arena.is_referenced(self.memory.line, taken)
    }

    /// The host memory of [`len`](Self::len) words, initialized and aligned to 256 bytes, once
    /// nothing is copied from it any more. It lives as long as this value.
    pub fn staging(&self) -> Result<NonNull<u32>> {
        self.memory.staging(&*self.arena)
    }

    /// Begins a copy of the staging memory to the device.
    pub fn flush(&self) -> Result<()> {
        self.memory.flush(&*self.arena)
    }

    /// Reads all words back.
    pub fn read(&self, words: &mut [u32]) -> Result<()> {
        self.memory.wait(&*self.arena)?;
        self.arena.read(self.memory.range, words)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.arena.release(self.memory.number);
    }
}

/// An array in device memory, which lives at least as long as this.
///
/// It is a [`Payload`](crate::Payload) without its type, as a queue keeps those of the messages
/// that are under way.
///
/// ```
/// use kiln_ring::{Hold, Layout, Message, RingRuntime};
///
/// /// The arrays of a message of any type.
/// fn arrays(message: &impl Message) -> Vec<Hold> {
///     let mut held = Vec::new();
///     message.hold(&mut held);
///     held
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let mut samples = runtime.payload_of(&[0.5f32, 1.0])?;
/// let held = arrays(&samples);
/// assert_eq!((held.len(), arrays(&7u32).len()), (1, 0));
/// assert!(samples.write(&[1.0, 2.0]).is_err()); // not while there is another reference
/// drop(held);
/// samples.write(&[1.0, 2.0])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Hold(pub(super) Arc<Block>);

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hold").field(&self.0.reference()).finish()
    }
}

impl Hold {
    /// Waits until the array is filled, before a device gets its address. Whether it is an array of
    /// this runtime.
    pub(crate) fn settle(&self, arena: &dyn Arena) -> Result<bool> {
        self.0.memory.wait(&*self.0.arena)?;
        Ok(self.0.is_of(arena))
    }
}
