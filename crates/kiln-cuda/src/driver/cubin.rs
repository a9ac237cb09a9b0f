//! A check that bytes are a whole cubin before the driver sees them.
//!
//! The driver takes a cubin without its length and follows the offsets in it: a file cut short
//! would make it read beyond the end. So everything that the ELF headers point to is checked to be
//! inside the bytes. What the sections contain is the driver's to judge.

use super::error::{CudaError, Result};
use std::borrow::Cow;

/// ELF's number for NVIDIA GPUs.
const MACHINE_CUDA: u64 = 190;
/// A section without bytes in the file.
const SECTION_NO_BITS: u64 = 8;

/// Checks the headers, and returns the bytes at an address the driver can read them from.
pub(super) fn checked(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    check(bytes).map_err(|reason| CudaError::BadImage { reason: reason.to_owned() })?;
    // The driver reads the headers as 64-bit words. A vector's allocation is aligned enough; a
    // slice of a larger file may not be.
    let aligned = bytes.as_ptr().align_offset(8) == 0;
    Ok(if aligned { Cow::Borrowed(bytes) } else { Cow::Owned(bytes.to_vec()) })
}

fn check(bytes: &[u8]) -> std::result::Result<(), &'static str> {
    // Magic, 64 bits, little-endian.
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err("it is not a 64-bit ELF file");
    }
    let header = |at, width| number(bytes, at, width).ok_or("its header is cut off");
    if header(18, 2)? != MACHINE_CUDA {
        return Err("it is not for an NVIDIA GPU");
    }
    let (segments, sections) = (header(32, 8)?, header(40, 8)?);
    let (segment_size, segment_count) = (header(54, 2)?, header(56, 2)?);
    let (section_size, section_count) = (header(58, 2)?, header(60, 2)?);
    if section_count == 0 {
        return Err("it has no sections");
    }
    for entry in entries(segments, segment_size, segment_count) {
        inside(bytes, entry, 8, 32).ok_or("a segment is cut off")?;
    }
    for entry in entries(sections, section_size, section_count) {
        let kind = entry
            .and_then(|at| number(bytes, at.checked_add(4)?, 4))
            .ok_or("its section table is cut off")?;
        if kind != SECTION_NO_BITS {
            inside(bytes, entry, 24, 32).ok_or("a section is cut off")?;
        }
    }
    Ok(())
}

/// Where the entries of a table start; `None` for one beyond any address.
fn entries(start: u64, size: u64, count: u64) -> impl Iterator<Item = Option<u64>> {
    (0..count).map(move |index| start.checked_add(index * size))
}

/// Whether what the table entry at `entry` describes by an offset and a length is in the bytes.
fn inside(bytes: &[u8], entry: Option<u64>, offset_at: u64, length_at: u64) -> Option<()> {
    let entry = entry?;
    let offset = number(bytes, entry.checked_add(offset_at)?, 8)?;
    let length = number(bytes, entry.checked_add(length_at)?, 8)?;
    (offset.checked_add(length)? <= bytes.len() as u64).then_some(())
}

/// A little-endian number of `width` bytes.
fn number(bytes: &[u8], at: u64, width: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with one segment, an ordinary section of 16 bytes at its end, and a section
    /// without bytes that claims to be huge.
    fn image() -> Vec<u8> {
        const HEADER: usize = 64;
        const SEGMENT: usize = 56;
        const SECTION: usize = 64;
        let data = HEADER + SEGMENT + 2 * SECTION;
        let mut image = vec![0; data + 16];
        let mut put = |at: usize, width: usize, value: u64| {
            image[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        };
        put(0, 6, u64::from_le_bytes(*b"\x7fELF\x02\x01\0\0"));
        put(18, 2, MACHINE_CUDA);
        put(32, 8, HEADER as u64);
        put(40, 8, (HEADER + SEGMENT) as u64);
        for (at, value) in [(54, SEGMENT), (56, 1), (58, SECTION), (60, 2)] {
            put(at, 2, value as u64);
        }
        put(HEADER + 8, 8, data as u64);
        put(HEADER + 32, 8, 16);
        let sections = HEADER + SEGMENT;
        put(sections + 4, 4, 1);
        put(sections + 24, 8, data as u64);
        put(sections + 32, 8, 16);
        put(sections + SECTION + 4, 4, SECTION_NO_BITS);
        put(sections + SECTION + 32, 8, 1 << 60);
        image
    }

    #[test]
    fn a_whole_image_passes() {
        let image = image();
        assert!(matches!(checked(&image), Ok(Cow::Borrowed(bytes)) if bytes == image));
    }

    #[test]
    fn a_misaligned_image_is_moved() {
        let mut file = vec![0xee; 3];
        file.extend(image());
        let offset = if file[1..].as_ptr().align_offset(8) == 0 { 2 } else { 1 };
        file.drain(..3 - offset);
        let moved = checked(&file[offset..]).unwrap();
        assert_eq!(moved.as_ptr().align_offset(8), 0);
        assert_eq!(*moved, image());
    }

    #[test]
    fn every_shorter_image_is_refused() {
        let image = image();
        for length in 0..image.len() {
            assert!(matches!(checked(&image[..length]), Err(CudaError::BadImage { .. })), "{length}");
        }
    }

    #[test]
    fn wrong_headers_are_refused() {
        for at in [0, 4, 5, 18, 60] {
            let mut image = image();
            image[at] ^= 0x55;
            assert!(checked(&image).is_err(), "byte {at}");
        }
        // Offsets that overflow when their length is added.
        let mut image = image();
        image[40..48].fill(0xff);
        assert!(checked(&image).is_err());
    }
}
