//! Elements of memory that the host may touch while a kernel runs: each is read and written whole,
//! reads acquire and writes release.

use kiln_ir::numeric::Element;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Reads an element.
///
/// # Safety
/// `at` points to an initialized element, is a multiple of its size, and everybody else accesses it
/// atomically.
pub unsafe fn read<T: Element>(at: *const u8) -> T {
    let at = at.cast_mut();
    // SAFETY: the caller's promise, for the size in question.
    let bits = unsafe {
        match size_of::<T>() {
            1 => AtomicU8::from_ptr(at).load(Ordering::Acquire).into(),
            2 => AtomicU16::from_ptr(at.cast()).load(Ordering::Acquire).into(),
            4 => AtomicU32::from_ptr(at.cast()).load(Ordering::Acquire).into(),
            _ => AtomicU64::from_ptr(at.cast()).load(Ordering::Acquire),
        }
    };
    T::of_bits(bits)
}

/// Writes an element.
///
/// # Safety
/// As for [`read`].
pub unsafe fn write<T: Element>(value: T, at: *mut u8) {
    let bits = value.bits();
    // SAFETY: the caller's promise, for the size in question.
    unsafe {
        match size_of::<T>() {
            1 => AtomicU8::from_ptr(at).store(bits as u8, Ordering::Release),
            2 => AtomicU16::from_ptr(at.cast()).store(bits as u16, Ordering::Release),
            4 => AtomicU32::from_ptr(at.cast()).store(bits as u32, Ordering::Release),
            _ => AtomicU64::from_ptr(at.cast()).store(bits, Ordering::Release),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survives<T: Element + PartialEq + std::fmt::Debug>(value: T) {
        let mut memory = [u64::MAX; 2];
        let at = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: inside the array, aligned, and accessed by nothing else.
        let back: T = unsafe {
            write(value, at);
            read(at)
        };
        assert_eq!(back, value);
        let beyond = &bytes_of(memory)[size_of::<T>()..];
        assert!(beyond.iter().all(|&byte| byte == 0xff), "{value:?} spills over");
    }

    fn bytes_of(memory: [u64; 2]) -> Vec<u8> {
        memory.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn every_size_survives() {
        survives(true);
        survives(-7i32);
        survives(half::f16::from_f32(1.5));
        survives(-1.25f32);
        survives(0xdead_beefu32);
        survives(f64::MIN_POSITIVE);
        survives(i64::MIN);
    }
}
