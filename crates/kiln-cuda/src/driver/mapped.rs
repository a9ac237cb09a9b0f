//! Memory that a kernel writes and the host reads while the kernel may still run: fault records,
//! print records, mailboxes.

use super::context::Context;
use super::error::Result;
use super::pinned::PinnedBuffer;
use kiln_backend::DevicePtr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Pinned 32-bit words that host and kernels share, zero at first.
///
/// The host sees them as atomics, so that reading while a kernel writes is defined: a word is never
/// torn, and an acquire load of a word that the kernel stored with `st.release.sys` orders the
/// words written before it. After a synchronization with the kernel, relaxed loads are enough.
///
/// The words must outlive the kernels that use them; a drop waits for the device where the driver's
/// `cuMemFreeHost` does.
pub struct MappedWords {
    memory: PinnedBuffer,
}

impl MappedWords {
    /// Allocates `words` zeros.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](super::CudaError::OutOfMemory) where the system cannot pin that
    /// much.
    pub fn new(context: &Context, words: usize) -> Result<MappedWords> {
        Ok(MappedWords { memory: PinnedBuffer::new(context, words.saturating_mul(4))? })
    }

    /// The address under which kernels see the first word.
    pub fn device_pointer(&self) -> DevicePtr {
        self.memory.device_pointer()
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: the memory is initialized, aligned to a page, as long as said, and only ever
        // accessed through atomics by the host; the device accesses aligned words, which the bus
        // transfers whole. The pointer is the allocation's own, not one derived from a shared
        // slice.
        unsafe {
            std::slice::from_raw_parts(self.memory.host_pointer().as_ptr().cast(), self.memory.len() / 4)
        }
    }

    /// A copy of the words as they are now.
    pub fn snapshot(&self) -> Vec<u32> {
        self.words().iter().map(|word| word.load(Ordering::Acquire)).collect()
    }

    /// Sets all words to zero, the first one last: where it counts the records, a reader never sees
    /// a count without its records.
    pub fn clear(&self) {
        let (first, rest) = match self.words() {
            [first, rest @ ..] => (first, rest),
            [] => return,
        };
        rest.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        first.store(0, Ordering::Release);
    }
}
