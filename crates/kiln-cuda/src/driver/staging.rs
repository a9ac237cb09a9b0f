//! Reusable pinned memory through which large pageable copies go.
//!
//! A copy from pageable memory makes the driver stage it in pieces of its own; done here, the
//! pieces are large and the next one is filled while the copy engine moves the last. A chunk that
//! is in flight carries an event. A copy takes only chunks whose event has passed, makes new ones
//! up to a limit, and goes without staging beyond it: it never waits for another stream, which may
//! be held up by a resident kernel for ever.

use super::error::Result;
use super::ffi::{self, Address, Api, EventHandle, Status, StreamHandle};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a chunk: large enough to hide the cost of a copy's start, small enough that filling one
/// takes well under a millisecond.
const CHUNK_BYTES: usize = 4 << 20;

/// The most chunks of one context.
const MAX_CHUNKS: usize = 16;

/// How many chunks one copy alternates between.
const CHUNKS_PER_COPY: usize = 2;

/// Up to this size the driver puts the source into the command stream during the call, which is as
/// fast as staging and leaves the source free.
const INLINE_BYTES: usize = 64 << 10;

/// The chunks of a context.
#[derive(Default)]
pub(super) struct Staging {
    state: Mutex<StagingState>,
}

#[derive(Default)]
struct StagingState {
    /// Chunks that no call holds. Their last copy may still be in flight.
    resting: Vec<Chunk>,
    /// How many exist, held ones included.
    made: usize,
}

/// Pinned memory and the event that follows its last copy.
struct Chunk {
    memory: *mut u8,
    event: EventHandle,
}

// SAFETY: a chunk is owned by the holder of the value; pinned memory and events may be used from
// any thread.
unsafe impl Send for Chunk {}

impl Staging {
    /// Copies `source` to the device in stream order. `source` may be reused on return.
    ///
    /// # Safety
    /// The stream's context is current, and `destination` has room for the bytes.
    pub(super) unsafe fn upload(
        &self,
        api: &Api,
        stream: StreamHandle,
        destination: Address,
        source: &[u8],
    ) -> Result<()> {
        let inline = source.len() <= INLINE_BYTES;
        let chunks = if inline { Vec::new() } else { self.take(api) };
        if chunks.is_empty() {
            // SAFETY: as the caller promises. A source that is not inlined may be read after the
            // call where the GPU can read pageable memory itself, hence the wait.
            return unsafe {
                api.cuMemcpyHtoDAsync_v2(destination, source.as_ptr().cast(), source.len(), stream)?;
                if inline { Ok(()) } else { api.cuStreamSynchronize(stream) }
            };
        }
        for (index, piece) in source.chunks(CHUNK_BYTES).enumerate() {
            let chunk = &chunks[index % chunks.len()];
            chunk.wait(api)?;
            // SAFETY: the chunk is held by this call alone, its last copy is done, and a piece is
            // at most a chunk long. `destination` is the caller's promise.
            unsafe {
                chunk.memory.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
                let to = destination + (index * CHUNK_BYTES) as u64;
                api.cuMemcpyHtoDAsync_v2(to, chunk.memory.cast(), piece.len(), stream)?;
            }
            chunk.record(api, stream)?;
        }
        self.lock().resting.extend(chunks);
        Ok(())
    }

    /// Waits for the stream and copies from the device.
    ///
    /// # Safety
    /// The stream's context is current, and `source` has the bytes.
    pub(super) unsafe fn download(
        &self,
        api: &Api,
        stream: StreamHandle,
        destination: &mut [u8],
        source: Address,
    ) -> Result<()> {
        let chunks = if destination.len() <= INLINE_BYTES { Vec::new() } else { self.take(api) };
        if chunks.is_empty() {
            // SAFETY: as the caller promises; `destination` outlives the copy because of the wait.
            return unsafe {
                api.cuMemcpyDtoHAsync_v2(destination.as_mut_ptr().cast(), source, destination.len(), stream)?;
                api.cuStreamSynchronize(stream)
            };
        }
        let pieces = destination.len().div_ceil(CHUNK_BYTES);
        let fetch = |index: usize, length: usize| {
            let chunk = &chunks[index % chunks.len()];
            // SAFETY: the chunk is held by this call alone and is not in flight: it is either fresh
            // or was emptied by the loop below.
            unsafe {
                api.cuMemcpyDtoHAsync_v2(
                    chunk.memory.cast(),
                    source + (index * CHUNK_BYTES) as u64,
                    length,
                    stream,
                )?
            };
            chunk.record(api, stream)
        };
        let total = destination.len();
        let length = |index: usize| CHUNK_BYTES.min(total - index * CHUNK_BYTES);
        for index in 0..pieces.min(chunks.len()) {
            fetch(index, length(index))?;
        }
        for (index, piece) in destination.chunks_mut(CHUNK_BYTES).enumerate() {
            let chunk = &chunks[index % chunks.len()];
            chunk.wait(api)?;
            // SAFETY: the copy into the chunk is done, and it was `piece.len()` bytes long.
            unsafe { piece.as_mut_ptr().copy_from_nonoverlapping(chunk.memory, piece.len()) };
            let next = index + chunks.len();
            if next < pieces {
                fetch(next, length(next))?;
            }
        }
        self.lock().resting.extend(chunks);
        Ok(())
    }

    /// Takes the chunks for one copy: none where all are in flight and no more may be made.
    fn take(&self, api: &Api) -> Vec<Chunk> {
        let mut state = self.lock();
        let mut taken = Vec::with_capacity(CHUNKS_PER_COPY);
        while taken.len() < CHUNKS_PER_COPY {
            if let Some(at) = state.resting.iter().position(|chunk| chunk.is_idle(api)) {
                taken.push(state.resting.swap_remove(at));
            } else if state.made < MAX_CHUNKS {
                // Where pinned memory has run out, copies still work without it.
                let Ok(chunk) = Chunk::new(api) else { break };
                state.made += 1;
                taken.push(chunk);
            } else {
                break;
            }
        }
        taken
    }

    /// Frees all chunks. The context is current and no copy is under way.
    pub(super) fn release(&mut self, api: &Api) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.resting.drain(..).for_each(|chunk| chunk.free(api));
    }

    fn lock(&self) -> MutexGuard<'_, StagingState> {
        // Every change of the state is one push or one removal, so a panic in between leaves
        // nothing half-done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chunk {
    fn new(api: &Api) -> Result<Chunk> {
        let mut memory = null_mut::<c_void>();
        // SAFETY: `memory` is writable.
        unsafe { api.cuMemHostAlloc(&mut memory, CHUNK_BYTES, ffi::HOST_PORTABLE) }?;
        let mut chunk = Chunk { memory: memory.cast(), event: EventHandle::NULL };
        // SAFETY: `event` is writable.
        match unsafe { api.cuEventCreate(&mut chunk.event, ffi::EVENT_DISABLE_TIMING) } {
            Ok(()) => Ok(chunk),
            Err(error) => {
                // SAFETY: allocated above. Its own failure would hide the first one.
                let _ = unsafe { api.cuMemFreeHost(memory) };
                Err(error)
            }
        }
    }

    fn is_idle(&self, api: &Api) -> bool {
        // SAFETY: the event is live. One that was never recorded counts as passed.
        unsafe { (api.cuEventQuery)(self.event) == Status::SUCCESS }
    }

    fn wait(&self, api: &Api) -> Result<()> {
        // SAFETY: as above.
        unsafe { api.cuEventSynchronize(self.event) }
    }

    fn record(&self, api: &Api, stream: StreamHandle) -> Result<()> {
        // SAFETY: event and stream are live and of one context.
        unsafe { api.cuEventRecord(self.event, stream) }
    }

    fn free(self, api: &Api) {
        // SAFETY: both were made in `new` and are used by nothing else. A copy in flight holds the
        // memory until it is done: freeing pinned memory waits for it. Failures cannot be reported.
        unsafe {
            let _ = api.cuEventDestroy_v2(self.event);
            let _ = api.cuMemFreeHost(self.memory.cast());
        }
    }
}
