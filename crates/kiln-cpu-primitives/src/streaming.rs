//! Copies past the caches: stores that do not read their lines first, nor displace others.

use super::element::Element;
use super::isa::Isa;
use super::signature::UnaryFn;
use kiln_ir::Scalar;

/// The bytes of a line of the caches. Only whole lines are stored past them.
pub const LINE: usize = 64;
/// Whether there are stores past the caches here; where not, copies are usual ones.
pub const STREAMS: bool = cfg!(target_arch = "x86_64");

/// The primitive that copies contiguous elements past the caches.
pub(crate) fn copy_streaming(scalar: Scalar) -> UnaryFn {
    match scalar.bytes() {
        1 => stream_elements::<u8>,
        2 => stream_elements::<u16>,
        4 => stream_elements::<u32>,
        _ => stream_elements::<u64>,
    }
}

/// # Safety
/// As for [`UnaryFn`].
unsafe extern "C" fn stream_elements<T: Element>(out: *mut u8, a: *const u8, n: usize) {
    // SAFETY: the caller passed `n` elements of each.
    unsafe { stream(out, a, n * size_of::<T>()) }
    end_streaming();
}

/// Copies rows of whole lines past the caches. [`end_streaming`] must follow the last call: other
/// threads may see later stores of this one earlier.
///
/// # Safety
/// Both sides are valid for `rows` rows of `bytes` bytes, which begin so many bytes apart as their
/// step says, and do not overlap. Each row on the side `to` begins at a line, and is whole lines.
pub type StreamRowsFn = unsafe extern "C" fn(
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    rows: usize,
    to_step: isize,
    from_step: isize,
);

/// The function that copies rows past the caches on this processor.
pub fn stream_rows() -> StreamRowsFn {
    match Isa::best() {
        Isa::Portable => rows_portable,
        #[cfg(target_arch = "x86_64")]
        _ => rows_avx,
    }
}

/// # Safety
/// As for [`StreamRowsFn`].
unsafe extern "C" fn rows_portable(
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    rows: usize,
    to_step: isize,
    from_step: isize,
) {
    for row in 0..rows as isize {
        // SAFETY: the row is one of those that the caller vouches for.
        unsafe { stream(to.offset(row * to_step), from.offset(row * from_step), bytes) }
    }
}

/// Copies by whole lines, without the calls that copy what is left at the ends of a row of any
/// length: rows are short.
///
/// # Safety
/// As for [`StreamRowsFn`], on a processor with AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe extern "C" fn rows_avx(
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    rows: usize,
    to_step: isize,
    from_step: isize,
) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    for row in 0..rows as isize {
        for line in 0..bytes / LINE {
            // SAFETY: the line is one of the rows that the caller vouches for, and aligned there.
            unsafe {
                let to = to.offset(row * to_step).add(line * LINE).cast::<__m256i>();
                let from = from.offset(row * from_step).add(line * LINE).cast::<__m256i>();
                _mm256_stream_si256(to, _mm256_loadu_si256(from));
                _mm256_stream_si256(to.add(1), _mm256_loadu_si256(from.add(1)));
            }
        }
    }
}

/// Copies bytes with stores that do not bring their lines into the caches. [`end_streaming`] must
/// follow the last one.
///
/// # Safety
/// Both are valid for `bytes` bytes and do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn stream(out: *mut u8, a: *const u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    // Only whole lines are written past the caches: what is left at the ends is copied as usual.
    let head = out.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE;
    let tail = head + lines * LINE;
    // SAFETY: the three parts cover `bytes` bytes; `out + head` is aligned to a line if there is a
    // line.
    unsafe {
        out.copy_from_nonoverlapping(a, head);
        for line in 0..lines {
            let at = head + line * LINE;
            for part in 0..4 {
                let value = _mm_loadu_si128(a.add(at).cast::<__m128i>().add(part));
                _mm_stream_si128(out.add(at).cast::<__m128i>().add(part), value);
            }
        }
        out.add(tail).copy_from_nonoverlapping(a.add(tail), bytes - tail);
    }
}

/// Orders the streamed stores of this thread before every later one.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn end_streaming() {
    // SAFETY: SSE is part of x86-64.
    unsafe { std::arch::x86_64::_mm_sfence() }
}

/// Copies bytes.
///
/// # Safety
/// Both are valid for `bytes` bytes and do not overlap.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) unsafe fn stream(out: *mut u8, a: *const u8, bytes: usize) {
    // SAFETY: the caller's.
    unsafe { out.copy_from_nonoverlapping(a, bytes) }
}

/// Nothing: stores are not streamed here.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn end_streaming() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Lines([u8; 24 * LINE]);

    #[test]
    fn rows_of_lines_at_all_steps() {
        let from: Vec<u8> = (0..1200).map(|i| (i % 251) as u8).collect();
        for (bytes, rows, to_step, from_step) in [
            (128, 3, 192, 128),
            (64, 4, -64, 65),
            (192, 2, 320, 7),
            (64, 3, 0, 64),
            (0, 3, 64, 7),
            (64, 0, 64, 9),
        ] {
            let (mut to, begin) = (Lines([255; 24 * LINE]), 6 * LINE);
            let mut want = to.0;
            for row in 0..rows {
                let place = (begin as isize + row * to_step) as usize;
                let source = (row * from_step) as usize;
                want[place..place + bytes].copy_from_slice(&from[source..source + bytes]);
            }
            for function in [rows_portable, stream_rows()] {
                to.0.fill(255);
                // SAFETY: the rows lie in both arrays, and are whole lines of one.
                unsafe {
                    let to = to.0.as_mut_ptr().add(begin);
                    function(to, from.as_ptr(), bytes, rows as usize, to_step, from_step);
                }
                end_streaming();
                assert_eq!(to.0, want, "{bytes} {rows} {to_step} {from_step}");
            }
        }
    }
}
