//! Ring memory as the host reaches it: pointers, and the instructions that move 16 bytes at a time.

#[cfg(target_arch = "x86_64")]
use super::lines;
use super::lines::{LINE_PAYLOAD, Slots, Width};
use super::platform::QueueMemory;
use crate::wire::slot::{PAYLOAD, QUAD};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How stores reach the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stores {
    /// Ordinary stores, in order.
    Plain,
    /// Write-combined memory: streaming stores, pushed out by a store fence.
    Stream,
}

/// Ring memory that host and device share.
///
/// The host reaches it through a pointer; what it may do there depends on the memory. Memory of a
/// GPU that is mapped into the host is write-combined: the host writes it with streaming stores and
/// never reads it, for a read takes microseconds.
///
/// ```
/// use kiln_ring::RingMemory;
/// use std::ptr::NonNull;
/// use std::sync::Arc;
/// use std::sync::atomic::AtomicU32;
///
/// /// A cache line, which rings are aligned to.
/// #[repr(align(64))]
/// #[derive(Default)]
/// struct Line([AtomicU32; 16]);
///
/// let lines: Arc<[Line]> = [Line::default(), Line::default()].into();
/// let base = NonNull::from(&*lines).cast();
/// // SAFETY: 32 words, aligned and zeroed, which live as long as `lines`, and which the host
/// // accesses by this value alone.
/// let memory = unsafe { RingMemory::new(base, 32, false, Arc::new(Arc::clone(&lines))) };
/// assert_eq!((memory.words(), memory.is_write_combined()), (32, false));
/// ```
pub struct RingMemory {
    base: NonNull<u32>,
    words: usize,
    stores: Stores,
    width: Width,
    _owner: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for RingMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingMemory")
            .field("words", &self.words)
            .field("stores", &self.stores)
            .field("width", &self.width)
            .finish_non_exhaustive()
    }
}

// SAFETY: the memory is shared by design: every access is atomic or of a whole quad, and the
// queue's protocol says who accesses what when.
unsafe impl Send for RingMemory {}
// SAFETY: as above.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    /// `words` words of shared memory, which `owner` keeps alive. `write_combined` says that stores
    /// are collected and leave out of order until a store fence.
    ///
    /// # Safety
    ///
    /// `base` points to that many words, aligned to 64 bytes and zeroed, which live as long as
    /// `owner`. Until then, the host accesses them through this value alone.
    pub unsafe fn new(
        base: NonNull<u32>,
        words: usize,
        write_combined: bool,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> RingMemory {
        let stores = if write_combined { Stores::Stream } else { Stores::Plain };
        RingMemory { base, words, stores, width: Width::detect(), _owner: owner }
    }

    /// Whether stores leave out of order until a fence.
    pub fn is_write_combined(&self) -> bool {
        self.stores != Stores::Plain
    }

    /// The same memory, reached by vectors of another width, which the processor has.
    #[cfg(test)]
    pub(super) fn with_width(&self, width: Width) -> RingMemory {
        RingMemory {
            base: self.base,
            words: self.words,
            stores: self.stores,
            width,
            _owner: Arc::clone(&self._owner),
        }
    }

    /// Whether it is aligned as rings need it.
    pub(super) fn is_aligned(&self) -> bool {
        self.base.addr().get().is_multiple_of(64)
    }

    /// Some of the words, from the word `at` on.
    ///
    /// # Safety
    ///
    /// They lie inside, `at` is a multiple of 16, and they live as long as the part.
    pub(crate) unsafe fn part(&self, at: usize, words: usize) -> RingMemory {
        debug_assert!(at + words <= self.words && at.is_multiple_of(16));
        // SAFETY: inside, as the caller promises.
        let base = unsafe { self.base.add(at) };
        RingMemory { base, words, stores: self.stores, width: self.width, _owner: Arc::clone(&self._owner) }
    }

    /// How many words of 32 bits there are.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Stores quads, those of whole lines at once.
    #[cfg(target_arch = "x86_64")]
    fn store_lines(&self, at: usize, words: &[u32], stamp: u32) {
        let before = at.next_multiple_of(4 * QUAD) - at;
        let (first, words) = words.split_at((before / QUAD * PAYLOAD).min(words.len()));
        self.store_each(at, first, stamp);
        let (lines, last) = words.split_at(words.len() - words.len() % LINE_PAYLOAD);
        let end = at + before + lines.len() / PAYLOAD * QUAD;
        if !lines.is_empty() {
            let to = self.at(at + before, end - at - before);
            // SAFETY: the lines lie inside the memory, which is aligned as lines are; the width was
            // detected, and is no quad's.
            unsafe { lines::store(self.width, self.stores == Stores::Stream, to, lines, stamp) };
        }
        self.store_each(end, last, stamp);
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn store_lines(&self, at: usize, words: &[u32], stamp: u32) {
        self.store_each(at, words, stamp);
    }

    /// Loads slots line by line.
    #[cfg(target_arch = "x86_64")]
    fn load_lines(&self, slots: &Slots, words: &mut [u32]) -> usize {
        let slots = slots.that_fit(words.len());
        if slots.count == 0 {
            return 0;
        }
        let from = self.at(slots.at, (slots.count - 1) * slots.stride + 4 * QUAD);
        // SAFETY: the slots lie inside the memory, aligned as lines are; the words have room for as
        // many, and the slack; the width was detected.
        unsafe { lines::load(self.width, from, &slots, words.as_mut_ptr()) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn load_lines(&self, slots: &Slots, words: &mut [u32]) -> usize {
        self.load_each(slots, words)
    }

    /// The address of `count` words.
    #[inline]
    fn at(&self, at: usize, count: usize) -> *mut u32 {
        // The queue computes offsets from the layouts that the memory was checked against.
        debug_assert!(at + count <= self.words, "{at} + {count} of {} words", self.words);
        // SAFETY: the words lie inside the memory, as `Channel::new` checked for the largest
        // offset.
        unsafe { self.base.as_ptr().add(at) }
    }
}

impl QueueMemory for RingMemory {
    #[inline]
    fn store_quad(&self, at: usize, quad: [u32; QUAD]) {
        let to = self.at(at, QUAD);
        match self.stores {
            // SAFETY: four words inside the memory, aligned because quads are.
            Stores::Plain => unsafe { whole::store(to, quad) },
            // SAFETY: as above.
            Stores::Stream => unsafe { whole::stream(to, quad) },
        }
    }

    #[inline]
    fn store_quads(&self, at: usize, words: &[u32], stamp: u32) {
        // Ordinary stores of one message come straight out of registers.
        let short = words.len() <= LINE_PAYLOAD && self.stores == Stores::Plain;
        if short || self.width == Width::Quad {
            self.store_each(at, words, stamp)
        } else {
            self.store_lines(at, words, stamp)
        }
    }

    #[inline]
    fn load_slots(&self, slots: &Slots, words: &mut [u32]) -> usize {
        // Slots of a line and more are whole lines.
        let lines = (1..=4).contains(&slots.quads) && slots.stride.is_multiple_of(16);
        if lines && self.width != Width::Quad {
            self.load_lines(slots, words)
        } else {
            self.load_each(slots, words)
        }
    }

    #[inline]
    fn store_quad_release(&self, at: usize, quad: [u32; QUAD]) {
        let to = self.at(at, QUAD);
        for (i, word) in quad.into_iter().enumerate() {
            let order = if i + 1 == QUAD { Ordering::Release } else { Ordering::Relaxed };
            // SAFETY: a word inside the memory, aligned; all accesses of it are atomic.
            unsafe { AtomicU32::from_ptr(to.add(i)) }.store(word, order);
        }
    }

    #[inline]
    fn load_quad(&self, at: usize) -> [u32; QUAD] {
        // SAFETY: four words inside the memory, aligned because quads are.
        unsafe { whole::load(self.at(at, QUAD)) }
    }

    #[inline]
    fn load_acquire(&self, at: usize) -> u32 {
        // SAFETY: a word inside the memory, aligned; all accesses of it are atomic.
        unsafe { AtomicU32::from_ptr(self.at(at, 1)) }.load(Ordering::Acquire)
    }

    #[inline]
    fn flush(&self) {
        if self.stores != Stores::Plain {
            whole::store_fence();
        }
    }
}

/// Accesses of 16 bytes that happen whole. Processors with AVX do so for every aligned access of 16
/// bytes (Intel's and AMD's manuals both promise it); `volatile` keeps the compiler from dividing,
/// repeating or leaving out one.
#[cfg(target_arch = "x86_64")]
mod whole {
    use crate::wire::slot::QUAD;
    use std::arch::x86_64::*;
    use std::mem::transmute;

    /// A quad in a register. Put together there: four stores of a word each are not forwarded to a
    /// load of 16 bytes.
    #[inline]
    pub fn vector(quad: [u32; QUAD]) -> __m128i {
        let [a, b, c, d] = quad.map(|word| word as i32);
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { _mm_set_epi32(d, c, b, a) }
    }

    /// # Safety
    /// `to` is valid for a quad and aligned to 16 bytes.
    #[inline]
    pub unsafe fn store(to: *mut u32, quad: [u32; QUAD]) {
        // SAFETY: the caller's promise; any bits are valid.
        unsafe { to.cast::<__m128i>().write_volatile(vector(quad)) }
    }

    /// # Safety
    /// `from` is valid for a quad and aligned to 16 bytes.
    #[inline]
    pub unsafe fn load(from: *const u32) -> [u32; QUAD] {
        // SAFETY: the caller's promise; the types have one size and any bits are valid.
        unsafe { transmute::<__m128i, [u32; QUAD]>(from.cast::<__m128i>().read_volatile()) }
    }

    /// # Safety
    /// `to` is valid for a quad and aligned to 16 bytes.
    #[inline]
    pub unsafe fn stream(to: *mut u32, quad: [u32; QUAD]) {
        // SAFETY: the caller's promise; a streaming store is not reordered with the fence that
        // `flush` issues.
        unsafe { _mm_stream_si128(to.cast(), vector(quad)) }
    }

    #[inline]
    pub fn store_fence() {
        // SAFETY: every x86-64 processor has SSE.
        unsafe { _mm_sfence() }
    }
}

/// Accesses of 16 bytes in one instruction, which happen whole on AArch64 with LSE2. The start-up
/// test of a transport finds processors where they do not.
#[cfg(target_arch = "aarch64")]
mod whole {
    use crate::wire::slot::QUAD;
    use std::arch::aarch64::{uint32x4_t, vld1q_u32, vst1q_u32};
    use std::sync::atomic::{Ordering, fence};

    /// # Safety
    /// `to` is valid for a quad and aligned to 16 bytes.
    #[inline]
    pub unsafe fn store(to: *mut u32, quad: [u32; QUAD]) {
        // SAFETY: the caller's promise; the vector is read from an array of its size.
        unsafe { to.cast::<uint32x4_t>().write_volatile(vld1q_u32(quad.as_ptr())) }
    }

    /// # Safety
    /// `from` is valid for a quad and aligned to 16 bytes.
    #[inline]
    pub unsafe fn load(from: *const u32) -> [u32; QUAD] {
        let mut quad = [0; QUAD];
        // SAFETY: the caller's promise; the vector is written to an array of its size.
        unsafe { vst1q_u32(quad.as_mut_ptr(), from.cast::<uint32x4_t>().read_volatile()) };
        quad
    }

    /// # Safety
    /// `to` is valid for a quad and aligned to 16 bytes.
    #[inline]
    pub unsafe fn stream(to: *mut u32, quad: [u32; QUAD]) {
        // SAFETY: the caller's promise.
        unsafe { store(to, quad) }
    }

    #[inline]
    pub fn store_fence() {
        fence(Ordering::SeqCst);
    }
}

/// Words one by one: of use with ordered transports alone, which do not need whole quads.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod whole {
    use crate::wire::slot::QUAD;
    use std::sync::atomic::{AtomicU32, Ordering, fence};

    /// # Safety
    /// `to` is valid for a quad and aligned.
    #[inline]
    pub unsafe fn store(to: *mut u32, quad: [u32; QUAD]) {
        for (i, word) in quad.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { AtomicU32::from_ptr(to.add(i)) }.store(word, Ordering::Relaxed);
        }
    }

    /// # Safety
    /// `from` is valid for a quad and aligned.
    #[inline]
    pub unsafe fn load(from: *const u32) -> [u32; QUAD] {
        // SAFETY: the caller's promise.
        std::array::from_fn(|i| {
            unsafe { AtomicU32::from_ptr(from.cast_mut().add(i)) }.load(Ordering::Relaxed)
        })
    }

    /// # Safety
    /// `to` is valid for a quad and aligned.
    #[inline]
    pub unsafe fn stream(to: *mut u32, quad: [u32; QUAD]) {
        // SAFETY: the caller's promise.
        unsafe { store(to, quad) }
    }

    #[inline]
    pub fn store_fence() {
        fence(Ordering::SeqCst);
    }
}
