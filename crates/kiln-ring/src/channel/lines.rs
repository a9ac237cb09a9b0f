//! Rows of quads by the widest vectors that the processor has: cache lines at once.
//!
//! Twelve words of payload and four stamps are a line. A vector of 64 bytes takes the twelve words,
//! and a permutation makes room for the stamps; one of 32 bytes does so with six words and two
//! stamps. Accesses are aligned, so that each quad of 16 bytes arrives whole: processors with such
//! vectors move at least 16 aligned bytes at once.

use crate::wire::slot::PAYLOAD;

/// Words of payload in a cache line.
pub const LINE_PAYLOAD: usize = 4 * PAYLOAD;

/// Words behind the last that [`load`] may write.
pub const SLACK: usize = 16;

/// Slots of which each begins with as many complete quads, or is not there yet.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// The word at which the first one begins.
    pub at: usize,
    /// Words from one to the next.
    pub stride: usize,
    /// The quads of each that must bear the stamp.
    pub quads: usize,
    /// How many slots there are.
    pub count: usize,
    /// The stamp.
    pub stamp: u32,
}

impl Slots {
    /// These slots, or as many of them as there is room for: the words of each, and the [`SLACK`]
    /// behind them.
    #[inline]
    pub fn that_fit(self, words: usize) -> Slots {
        let room = words.saturating_sub(SLACK) / (self.quads * PAYLOAD);
        Slots { count: self.count.min(room), ..self }
    }
}

/// How wide vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// A quad: 16 bytes, which everybody has.
    Quad,
    /// Half a line, by AVX2.
    Half,
    /// A line, by AVX-512.
    Line,
}

impl Width {
    /// That of the widest vectors of this processor.
    pub fn detect() -> Width {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return Width::Line;
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                return Width::Half;
            }
        }
        Width::Quad
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{load, store};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::channel::lines::{LINE_PAYLOAD, Slots, Width};
    use std::arch::x86_64::*;

    /// How many lines ahead of the current one are prefetched. What the device wrote is in no cache
    /// of this core.
    const AHEAD: usize = 8;

    /// Stores whole lines, each of twelve of the words and four stamps, past the caches if `stream`
    /// says so.
    ///
    /// # Safety
    /// `to` is valid for a line for each twelve words, and aligned to 64 bytes. The width is not
    /// [`Width::Quad`], and the processor has it.
    pub unsafe fn store(width: Width, stream: bool, to: *mut u32, words: &[u32], stamp: u32) {
        // SAFETY: the caller's promises.
        unsafe {
            match (width, stream) {
                (Width::Line, true) => store_512::<true>(to, words, stamp),
                (Width::Line, false) => store_512::<false>(to, words, stamp),
                (_, true) => store_256::<true>(to, words, stamp),
                (_, false) => store_256::<false>(to, words, stamp),
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn store_512<const STREAM: bool>(to: *mut u32, words: &[u32], stamp: u32) {
        let spread = _mm512_setr_epi32(0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 9, 10, 11, 0);
        let stamps = _mm512_set1_epi32(stamp as i32);
        for (i, words) in words.chunks_exact(LINE_PAYLOAD).enumerate() {
            // SAFETY: twelve words are there; the line is the caller's, aligned.
            unsafe {
                let words = _mm512_maskz_loadu_epi32(0x0fff, words.as_ptr().cast());
                let line = _mm512_mask_permutexvar_epi32(stamps, 0x7777, spread, words);
                let to = to.add(i * 16).cast::<__m512i>();
                if STREAM { _mm512_stream_si512(to.cast(), line) } else { to.write_volatile(line) }
            }
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn store_256<const STREAM: bool>(to: *mut u32, words: &[u32], stamp: u32) {
        let spread = _mm256_setr_epi32(0, 1, 2, 0, 3, 4, 5, 0);
        let six = _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0);
        let stamps = _mm256_set1_epi32(stamp as i32);
        for (i, words) in words.chunks_exact(LINE_PAYLOAD / 2).enumerate() {
            // SAFETY: six words are there; half the line is the caller's, aligned.
            unsafe {
                let words = _mm256_maskload_epi32(words.as_ptr().cast(), six);
                let spread = _mm256_permutevar8x32_epi32(words, spread);
                let half = _mm256_blend_epi32::<0b1000_1000>(spread, stamps);
                let to = to.add(i * 8).cast::<__m256i>();
                if STREAM { _mm256_stream_si256(to, half) } else { to.write_volatile(half) }
            }
        }
    }

    /// Loads the payload of slots of up to four quads, as long as they bear the stamp; gives how
    /// many did.
    ///
    /// # Safety
    /// `from` is valid for the slots, and aligned to 64 bytes, as is their stride; `to` is valid
    /// for three words for each quad, and [`SLACK`](super::SLACK) words more. There are one to four
    /// quads. The width is not [`Width::Quad`], and the processor has it.
    pub unsafe fn load(width: Width, from: *const u32, slots: &Slots, to: *mut u32) -> usize {
        // SAFETY: the caller's promises.
        unsafe {
            match width {
                Width::Line => load_512(from, slots, to),
                _ => load_256(from, slots, to),
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn load_512(from: *const u32, slots: &Slots, to: *mut u32) -> usize {
        let gather = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
        let stamps = _mm512_set1_epi32(slots.stamp as i32);
        let wanted = (0x8888_u32 & ((1 << (4 * slots.quads)) - 1)) as u16;
        for i in 0..slots.count {
            // SAFETY: the slot is the caller's, aligned; a prefetch may have any address; twelve
            // words from a slot's place on are the caller's too, those behind its own of the slack
            // or of a slot that is written later.
            unsafe {
                let slot = from.add(i * slots.stride);
                _mm_prefetch::<_MM_HINT_T0>(slot.wrapping_add(AHEAD * slots.stride).cast());
                let line = slot.cast::<__m512i>().read_volatile();
                if _mm512_mask_cmpeq_epi32_mask(wanted, line, stamps) != wanted {
                    return i;
                }
                let words = _mm512_permutexvar_epi32(gather, line);
                let to = to.add(i * slots.quads * 3);
                _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(words));
                _mm_storeu_si128(to.add(8).cast(), _mm512_extracti32x4_epi32::<2>(words));
            }
        }
        slots.count
    }

    #[target_feature(enable = "avx2")]
    unsafe fn load_256(from: *const u32, slots: &Slots, to: *mut u32) -> usize {
        let gather = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
        let stamps = _mm256_set1_epi32(slots.stamp as i32);
        let wanted = 0x8888_i32 & ((1 << (4 * slots.quads)) - 1);
        for i in 0..slots.count {
            // SAFETY: as for whole lines; fourteen words are written.
            unsafe {
                let slot = from.add(i * slots.stride);
                _mm_prefetch::<_MM_HINT_T0>(slot.wrapping_add(AHEAD * slots.stride).cast());
                let (low, high) = (slot.cast::<__m256i>(), slot.add(8).cast::<__m256i>());
                let (low, high) = (low.read_volatile(), high.read_volatile());
                let good = |half| _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(half, stamps)));
                if (good(low) | good(high) << 8) & wanted != wanted {
                    return i;
                }
                let to = to.add(i * slots.quads * 3);
                _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(low, gather));
                _mm256_storeu_si256(to.add(6).cast(), _mm256_permutevar8x32_epi32(high, gather));
            }
        }
        slots.count
    }
}
