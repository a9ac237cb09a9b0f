//! The memory that a runtime shares with its device.

use super::config::RuntimeConfig;
use super::region::{FreeList, WordRange};
use crate::channel::{QueueMemory, RingMemory};
use crate::error::{Result, RingError};
use crate::wire::record::{LINE, section_words};
use crate::wire::slot::{PAYLOAD, QUAD};
use kiln_backend::{BufferBinding, DevicePtr, EventId, Mapped, MappedPlace, StreamId};
use kiln_runtime::Device;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Records and references name words by numbers of 32 bits.
const MOST_WORDS: usize = u32::MAX as usize & !63;

/// Inbox, outbox and arena of one runtime.
pub(crate) struct SharedMemory {
    device: Device,
    stream: StreamId,
    inbox: Option<Mapped>,
    outbox: Option<Mapped>,
    arena: DevicePtr,
    arena_words: usize,
    /// All of the inbox and of the outbox, as the host reaches them.
    pub inbox_words: RingMemory,
    pub outbox_words: RingMemory,
    /// Words of the inbox and of the outbox up to the last that was allocated.
    used: [AtomicUsize; 2],
}

/// The free ranges of the regions.
pub(crate) struct FreeRanges {
    pub inbox: FreeList,
    pub outbox: FreeList,
    pub arena: FreeList,
    /// Of each worker's own memory, where workers stand in clusters.
    pub near: Vec<FreeList>,
}

impl SharedMemory {
    /// Zeroed memory for this many workers, with requests in this place.
    pub fn new(
        device: &Device,
        config: &RuntimeConfig,
        workers: usize,
        place: MappedPlace,
    ) -> Result<(SharedMemory, FreeRanges)> {
        let backend = device.backend();
        let lines = workers * LINE;
        let copies = config.clusters().map_or(0, |cluster| cluster.words);
        let sections = workers * (section_words(config.endpoints_per_worker) + copies);
        let inbox_words = words("inbox", config.inbox_bytes, lines)?;
        let outbox_words = words("outbox", config.outbox_bytes, lines)?;
        let arena_words = words("arena", config.arena_bytes, sections)?;
        let stream = backend.create_stream()?;
        let inbox = backend.need_mapped_memory()?.map(inbox_words * 4, place)?;
        let outbox = match backend
            .need_mapped_memory()
            .and_then(|memory| memory.map(outbox_words * 4, MappedPlace::Host))
        {
            Ok(outbox) => outbox,
            Err(error) => {
                // SAFETY: no other code has it yet.
                unsafe { backend.unmap(inbox) };
                return Err(error.into());
            }
        };
        // SAFETY: the mappings are as long as said, aligned to 256 bytes, zeroed, and live as long
        // as this value, which hands out ranges only.
        let (inbox_ring, outbox_ring) = unsafe {
            (
                RingMemory::new(inbox.host.cast(), inbox_words, inbox.write_combined, Arc::new(())),
                RingMemory::new(outbox.host.cast(), outbox_words, outbox.write_combined, Arc::new(())),
            )
        };
        let mut memory = SharedMemory {
            device: device.clone(),
            stream,
            inbox: Some(inbox),
            outbox: Some(outbox),
            arena: DevicePtr(0),
            arena_words,
            inbox_words: inbox_ring,
            outbox_words: outbox_ring,
            used: [AtomicUsize::new(lines), AtomicUsize::new(lines)],
        };
        memory.arena = backend.allocate(arena_words * 4, stream)?;
        // SAFETY: the allocation just made.
        unsafe { backend.fill(memory.arena, 0, arena_words * 4, stream)? };
        backend.synchronize(stream)?;
        let free = FreeRanges {
            inbox: FreeList::new("inbox", inbox_words, lines),
            outbox: FreeList::new("outbox", outbox_words, lines),
            arena: FreeList::new("arena", arena_words, sections),
            near: FreeRanges::of_workers(config, workers),
        };
        Ok((memory, free))
    }

    /// The stream of copies to and from the arena.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Where a launch's three views are: the inbox, which the device only reads, the outbox and the
    /// arena.
    pub fn views(&self) -> [BufferBinding; 3] {
        let start = |mapped: &Option<Mapped>| mapped.as_ref().map_or(DevicePtr(0), |m| m.device);
        [
            BufferBinding::read(start(&self.inbox)),
            BufferBinding::write(start(&self.outbox)),
            BufferBinding::write(self.arena),
        ]
    }

    /// The extent and the stride of each of these views. Of inbox and outbox they have all words,
    /// or those that are `used`: where each side has a copy, the launch brings no others up to
    /// date.
    pub fn extents(&self, used: bool) -> [u64; 6] {
        let [inbox, outbox] = match used {
            true => [0, 1].map(|region| self.used[region].load(Ordering::Acquire)),
            false => [self.inbox_words.words(), self.outbox_words.words()],
        };
        [inbox as u64, 1, outbox as u64, 1, self.arena_words as u64, 1]
    }

    /// The host's access to a range of the inbox.
    pub fn inbox_range(&self, range: WordRange) -> RingMemory {
        self.inbox_part(range.at, range.words)
    }

    /// The host's access to words of the inbox, from a multiple of 16 on.
    pub fn inbox_part(&self, at: usize, words: usize) -> RingMemory {
        self.used[0].fetch_max(at + words, Ordering::AcqRel);
        // SAFETY: what callers name lies inside; the mapping lives as long as the runtime, which
        // every holder of a part keeps alive.
        unsafe { self.inbox_words.part(at, words) }
    }

    /// The host's access to words of the outbox, from a multiple of 16 on.
    pub fn outbox_part(&self, at: usize, words: usize) -> RingMemory {
        self.used[1].fetch_max(at + words, Ordering::AcqRel);
        // SAFETY: as above.
        unsafe { self.outbox_words.part(at, words) }
    }

    /// The host's access to a range of the outbox.
    pub fn outbox_range(&self, range: WordRange) -> RingMemory {
        self.outbox_part(range.at, range.words)
    }

    /// Clears a range of the host's memory, so that no stamp of an earlier use is taken for a new
    /// one.
    pub fn clear(memory: &RingMemory) {
        (0..memory.words() / QUAD).for_each(|q| memory.store_quad(q * QUAD, [0; QUAD]));
        memory.flush();
    }

    /// Writes words of the arena, and waits until they are there.
    pub fn write_arena(&self, at: usize, words: &[u32]) -> Result<()> {
        let backend = self.device.backend();
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: ranges and sections lie inside the arena.
        unsafe { backend.upload(DevicePtr(self.arena.0 + 4 * at as u64), &bytes, self.stream)? };
        Ok(backend.synchronize(self.stream)?)
    }

    /// Reads words of the arena.
    pub fn read_arena(&self, at: usize, words: &mut [u32]) -> Result<()> {
        self.download(DevicePtr(self.arena.0 + 4 * at as u64), words)
    }

    fn download(&self, from: DevicePtr, words: &mut [u32]) -> Result<()> {
        let mut bytes = vec![0u8; words.len() * 4];
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: ranges and sections lie inside the arena and the inbox.
        unsafe { self.device.backend().download(&mut bytes, from, self.stream)? };
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Ok(())
    }

    /// Fills a range of the arena with zeros, and waits until it is.
    pub fn clear_arena(&self, range: WordRange) -> Result<()> {
        let backend = self.device.backend();
        // SAFETY: a range lies inside the arena.
        unsafe { backend.fill(self.arena_at(range), 0, range.words * 4, self.stream)? };
        Ok(backend.synchronize(self.stream)?)
    }

    /// Begins to copy the first `bytes` of host memory to a range; gives what is recorded after it.
    pub fn fill_arena(&self, range: WordRange, from: &Mapped, bytes: usize) -> Result<EventId> {
        let backend = self.device.backend();
        if bytes > 0 {
            // SAFETY: the caller's bytes fit the range, which lies inside the arena, and the host
            // memory, which it leaves alone until the event has passed.
            unsafe { backend.copy(self.arena_at(range), from.device, bytes, self.stream)? };
        }
        Ok(backend.record(self.stream, false)?)
    }

    /// Where the arena lies for the device.
    pub fn arena_address(&self) -> u64 {
        self.arena.0
    }

    fn arena_at(&self, range: WordRange) -> DevicePtr {
        DevicePtr(self.arena.0 + 4 * range.at as u64)
    }

    /// Reads words of the inbox, four at a time: as the host where it may, else through the device.
    pub fn read_inbox(&self, at: usize, words: &mut [u32]) -> Result<()> {
        let Some(inbox) = self.inbox.as_ref().filter(|inbox| inbox.write_combined) else {
            for (q, quad) in words.chunks_exact_mut(QUAD).enumerate() {
                // The stamp first, for the transport by which quads may not arrive whole.
                self.inbox_words.load_acquire(at + q * QUAD + PAYLOAD);
                quad.copy_from_slice(&self.inbox_words.load_quad(at + q * QUAD));
            }
            return Ok(());
        };
        self.download(DevicePtr(inbox.device.0 + 4 * at as u64), words)
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// No kernel uses it any more, and no range of it is used from now on.
    pub unsafe fn release(&mut self) {
        let backend = self.device.backend();
        // SAFETY: as the caller promises; each is freed once.
        unsafe {
            self.inbox.take().into_iter().for_each(|m| backend.unmap(m));
            self.outbox.take().into_iter().for_each(|m| backend.unmap(m));
            backend.free(self.arena, self.arena_words * 4, self.stream);
        }
        backend.destroy_stream(self.stream);
    }
}

/// Words of a region of `bytes`, behind `used` words: as many as a worker can number.
fn words(region: &'static str, bytes: usize, used: usize) -> Result<usize> {
    let words = used.saturating_add(bytes / 4).checked_next_multiple_of(64).unwrap_or(usize::MAX);
    let most = MOST_WORDS.saturating_sub(used.checked_next_multiple_of(64).unwrap_or(usize::MAX));
    if words > MOST_WORDS {
        Err(RingError::RegionTooLarge { region, bytes, most: 4 * most })
    } else {
        Ok(words)
    }
}
