//! Mapped memory: a copy at the host, and one on the device, which dispatches bring up to date.
//!
//! No adapter has memory that host and kernels see at the same time. So the host has a copy of its
//! own, and the device knows what both had last. Before a dispatch, what the host has changed since
//! goes to the device; after it, what the device has changed goes to the host:
//!
//! ```text
//!   host's copy ──▶ quads that differ from what was known ──▶ device's copy
//!   host's copy ◀── quads that differ from what was known ◀── device's copy
//! ```
//!
//! The host may write meanwhile, whole quads or words in order. So each quad is read with its last
//! word first, and written with it last; quads are read in their order and written against it. Who
//! finds the last word of a quad, or of the first quad of several, finds what was written with it.

use super::allocations::AllocationOffset;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Words of a quad.
const QUAD: usize = 4;

/// Words that are compared at once.
const BLOCK: usize = 64;

/// Bytes of a word.
const WORD: usize = 4;

/// What the host's copy is aligned to, in bytes.
const ALIGN: usize = 256;

/// The mapped memory of a device, by allocation.
#[derive(Default)]
pub(crate) struct MappedRegions(pub(super) HashMap<usize, Arc<Mutex<MappedRegion>>>);

/// An allocation of mapped memory.
pub(crate) struct MappedRegion {
    host: HostCopy,
    /// What the host's copy and the device's were when they were last the same, or would be once
    /// the dispatches under way are over.
    known: Vec<u32>,
    /// Words that went to the device for a dispatch, by its number. What an earlier one finds in
    /// them is out of date.
    sent: Vec<(u64, Range<usize>)>,
}

/// A region of which a dispatch sees a part.
pub(crate) struct MappedPart {
    pub(crate) region: Arc<Mutex<MappedRegion>>,
    /// Where it lies.
    pub(crate) place: AllocationOffset,
    pub(crate) words: Range<usize>,
}

/// The host's copy, zeroed at first.
struct HostCopy {
    at: NonNull<u32>,
    layout: Layout,
}

// SAFETY: the memory is this value's, and is accessed by atomics alone.
unsafe impl Send for HostCopy {}

impl HostCopy {
    /// `None` where there is no memory.
    fn new(words: usize) -> Option<HostCopy> {
        let layout = Layout::from_size_align(words * WORD, ALIGN).ok()?;
        // SAFETY: a layout of at least a quad.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(HostCopy { at: at.cast(), layout })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at * WORD < self.layout.size());
        // SAFETY: a word of the memory, which lives as long as `self`. The host's side of whoever
        // mapped it accesses it by atomics, and by stores and loads of 16 bytes that happen whole.
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().add(at)) }
    }

    fn load_quad(&self, at: usize) -> [u32; QUAD] {
        let last = self.word(at + QUAD - 1).load(Ordering::Acquire);
        let [a, b, c] = [0, 1, 2].map(|word| self.word(at + word).load(Ordering::Relaxed));
        [a, b, c, last]
    }

    fn store_quad(&self, at: usize, quad: [u32; QUAD]) {
        let [a, b, c, last] = quad;
        for (word, value) in [a, b, c].into_iter().enumerate() {
            self.word(at + word).store(value, Ordering::Relaxed);
        }
        self.word(at + QUAD - 1).store(last, Ordering::Release);
    }
}

impl Drop for HostCopy {
    fn drop(&mut self) {
        // SAFETY: allocated by this layout, and given back once.
        unsafe { dealloc(self.at.as_ptr().cast(), self.layout) }
    }
}

impl MappedRegion {
    /// Zeroed memory of at least so many bytes; `None` where there is none.
    pub(super) fn new(bytes: usize) -> Option<MappedRegion> {
        let words = bytes.max(1).div_ceil(QUAD * WORD) * QUAD;
        Some(MappedRegion { host: HostCopy::new(words)?, known: vec![0; words], sent: Vec::new() })
    }

    /// Where the host's copy is.
    pub(super) fn host(&self) -> NonNull<u8> {
        self.host.at.cast()
    }

    /// How many bytes there are.
    pub(super) fn size(&self) -> u64 {
        (self.known.len() * WORD) as u64
    }

    /// Takes what the host has changed among some whole quads, as ranges of words, for the dispatch
    /// of a number, while those from `oldest` on are under way.
    pub(super) fn take_changes(
        &mut self,
        words: Range<usize>,
        dispatch: u64,
        oldest: u64,
    ) -> Vec<Range<usize>> {
        self.sent.retain(|(later, _)| *later > oldest);
        let mut changes: Vec<Range<usize>> = Vec::new();
        for at in words.step_by(QUAD) {
            let quad = self.host.load_quad(at);
            if self.known[at..at + QUAD] == quad {
                continue;
            }
            self.known[at..at + QUAD].copy_from_slice(&quad);
            match changes.last_mut() {
                Some(last) if last.end == at => last.end = at + QUAD,
                _ => changes.push(at..at + QUAD),
            }
        }
        self.sent.extend(changes.iter().map(|words| (dispatch, words.clone())));
        changes
    }

    /// Hands the host what a dispatch has changed among the quads from a word on. All dispatches
    /// before it have been dealt with.
    pub(crate) fn publish(&mut self, first: usize, bytes: &[u8], dispatch: u64) {
        self.sent.retain(|(later, _)| *later > dispatch);
        for (i, block) in bytes.chunks(BLOCK * WORD).enumerate().rev() {
            self.publish_block(first + i * BLOCK, block);
        }
    }

    /// Publishes some quads. Mostly nothing has changed, which is seen for all of them at once.
    fn publish_block(&mut self, first: usize, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<WORD>();
        let known = &self.known[first..first + words.len()];
        let changed =
            known.iter().zip(words).fold(0, |bits, (&known, &word)| bits | known ^ u32::from_le_bytes(word));
        if changed == 0 {
            return;
        }
        for (i, quad) in bytes.chunks_exact(QUAD * WORD).enumerate().rev() {
            let at = first + i * QUAD;
            let quad: [u32; QUAD] = std::array::from_fn(|word| {
                let bytes = &quad[word * WORD..];
                u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
            });
            let newer = || self.sent.iter().any(|(_, words)| words.contains(&at));
            if self.known[at..at + QUAD] != quad && !newer() {
                self.known[at..at + QUAD].copy_from_slice(&quad);
                self.host.store_quad(at, quad);
            }
        }
    }

    /// The bytes of some words, as they go to the device.
    pub(super) fn bytes(&self, words: &Range<usize>) -> Vec<u8> {
        self.known[words.clone()].iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl MappedRegions {
    /// The part of a region that some bytes from a place on are in, rounded to whole quads, if they
    /// are in one.
    pub(super) fn part(&self, place: AllocationOffset, bytes: u64) -> Option<MappedPart> {
        let region = self.0.get(&place.allocation)?;
        let all = locked(region).known.len();
        let first = place.offset as usize / (QUAD * WORD) * QUAD;
        let end = ((place.offset + bytes) as usize).div_ceil(QUAD * WORD) * QUAD;
        Some(MappedPart { region: Arc::clone(region), place, words: first.min(all)..end.min(all) })
    }
}

impl MappedPart {
    /// Where a word of the region lies on the device.
    pub(super) fn place_of(&self, word: usize) -> AllocationOffset {
        AllocationOffset { offset: (word * WORD) as u64, ..self.place }
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> u64 {
        (self.words.len() * WORD) as u64
    }
}

/// A region, whose every change is complete before anything can panic.
pub(crate) fn locked(region: &Mutex<MappedRegion>) -> MutexGuard<'_, MappedRegion> {
    region.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of the changes, and those behind them.
    fn changes(
        region: &mut MappedRegion,
        words: Range<usize>,
        dispatch: u64,
        oldest: u64,
    ) -> Vec<(usize, usize)> {
        let changes = region.take_changes(words, dispatch, oldest);
        changes.into_iter().map(|words| (words.start, words.end)).collect()
    }

    fn bytes(quads: &[[u32; QUAD]]) -> Vec<u8> {
        quads.concat().iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn what_the_host_changed_goes_to_the_device_once() {
        let mut region = MappedRegion::new(128).unwrap();
        assert!(region.take_changes(0..32, 1, 1).is_empty());
        region.host.store_quad(4, [1, 2, 3, 4]);
        region.host.store_quad(8, [0, 0, 0, 1]);
        region.host.store_quad(20, [5, 0, 0, 0]);
        assert_eq!(changes(&mut region, 0..16, 2, 2), [(4, 12)]);
        assert_eq!(region.bytes(&(4..12)), bytes(&[[1, 2, 3, 4], [0, 0, 0, 1]]));
        assert_eq!(changes(&mut region, 0..32, 3, 3), [(20, 24)]);
        assert!(region.take_changes(0..32, 4, 4).is_empty());
    }

    #[test]
    fn what_the_device_changed_goes_to_the_host_and_not_back() {
        let mut region = MappedRegion::new(64).unwrap();
        region.host.store_quad(0, [9, 9, 9, 9]);
        assert_eq!(changes(&mut region, 0..16, 1, 1), [(0, 4)]);
        // The host goes on while the dispatch runs.
        region.host.store_quad(4, [7, 7, 7, 7]);
        region.publish(0, &bytes(&[[9, 9, 9, 9], [0; 4], [1, 2, 3, 4], [0; 4]]), 1);
        let quads = [0, 4, 8, 12].map(|at| region.host.load_quad(at));
        assert_eq!(quads, [[9, 9, 9, 9], [7, 7, 7, 7], [1, 2, 3, 4], [0; 4]]);
        assert_eq!(changes(&mut region, 0..16, 2, 2), [(4, 8)]);
    }

    /// Two dispatches are under way: what the first one leaves in words that the host has changed
    /// for the second is out of date.
    #[test]
    fn an_earlier_dispatch_undoes_no_later_change() {
        let mut region = MappedRegion::new(32).unwrap();
        region.publish(0, &bytes(&[[1; 4], [2; 4]]), 1);
        region.host.store_quad(0, [0; 4]);
        assert_eq!(changes(&mut region, 0..8, 3, 2), [(0, 4)]);
        region.publish(0, &bytes(&[[1; 4], [4; 4]]), 2);
        assert_eq!([0, 4].map(|at| region.host.load_quad(at)), [[0; 4], [4; 4]]);
        region.publish(0, &bytes(&[[5; 4], [4; 4]]), 3);
        assert_eq!(region.host.load_quad(0), [5; 4]);
    }
}
