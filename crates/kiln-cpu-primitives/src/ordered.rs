//! Ordered accesses of several lanes, each of which has a place of its own: elements of 4 and 8
//! bytes, and quads.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Loads `memory[index[i]]` for `n` elements in order; 0 where the mask is 0.
///
/// # Safety
/// `out`, `index` and `mask` are valid for `n` elements; `memory` at each index whose mask is not
/// 0, where it is aligned.
pub type LoadFn =
    unsafe extern "C" fn(out: *mut u8, memory: *const u8, index: *const i64, mask: *const u8, n: usize);

/// Stores `value[i]` to `memory[index[i]]` where the mask is not 0, for `n` elements in order.
///
/// # Safety
/// As for [`LoadFn`], with `memory` writable.
pub type StoreFn =
    unsafe extern "C" fn(memory: *mut u8, value: *const u8, index: *const i64, mask: *const u8, n: usize);

/// The load of elements of 4 bytes, or else of 8.
pub fn load(bytes: u32, acquire: bool) -> LoadFn {
    match (bytes, acquire) {
        (4, true) => load_words::<true>,
        (4, false) => load_words::<false>,
        (_, true) => load_longs::<true>,
        (_, false) => load_longs::<false>,
    }
}

/// The store of elements of 4 bytes, or else of 8.
pub fn store(bytes: u32, release: bool) -> StoreFn {
    match (bytes, release) {
        (4, true) => store_words::<true>,
        (4, false) => store_words::<false>,
        (_, true) => store_longs::<true>,
        (_, false) => store_longs::<false>,
    }
}

const fn loading(acquire: bool) -> Ordering {
    if acquire { Acquire } else { Relaxed }
}

const fn storing(release: bool) -> Ordering {
    if release { Release } else { Relaxed }
}

macro_rules! accesses {
    ($t:ty, $atomic:ty, $load:ident, $store:ident) => {
        unsafe extern "C" fn $load<const ORDERED: bool>(
            out: *mut u8,
            memory: *const u8,
            index: *const i64,
            mask: *const u8,
            n: usize,
        ) {
            let (out, memory) = (out.cast::<$t>(), memory.cast::<$t>());
            for i in 0..n {
                // SAFETY: the caller passes arrays of `n` elements, and memory that is valid and
                // aligned where the mask is not 0.
                unsafe {
                    let mut value = 0;
                    if *mask.add(i) != 0 {
                        let place = memory.wrapping_offset(*index.add(i) as isize).cast_mut();
                        value = <$atomic>::from_ptr(place).load(loading(ORDERED));
                    }
                    *out.add(i) = value;
                }
            }
        }

        unsafe extern "C" fn $store<const ORDERED: bool>(
            memory: *mut u8,
            value: *const u8,
            index: *const i64,
            mask: *const u8,
            n: usize,
        ) {
            let (memory, value) = (memory.cast::<$t>(), value.cast::<$t>());
            for i in 0..n {
                // SAFETY: as for the load.
                unsafe {
                    if *mask.add(i) != 0 {
                        let place = memory.wrapping_offset(*index.add(i) as isize);
                        <$atomic>::from_ptr(place).store(*value.add(i), storing(ORDERED));
                    }
                }
            }
        }
    };
}
accesses!(u32, AtomicU32, load_words, store_words);
accesses!(u64, AtomicU64, load_longs, store_longs);

/// Four words that move as one, aligned to 16 bytes.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Quad([u32; 4]);

/// The quads of some lanes.
#[repr(C)]
pub struct Quads {
    /// The view's memory.
    pub memory: *mut u32,
    /// How many words it has; the largest number there is where indices are trusted, 0 where the
    /// words are not adjacent.
    pub extent: i64,
    /// The first word of each lane's quad.
    pub index: *const i64,
    /// Which lanes take part.
    pub mask: *const u8,
    /// The lanes' words: of all lanes the first, then of all lanes the second, and so on.
    pub words: [*mut u32; 4],
}

impl Quads {
    /// Where lane `i` has its quad, if it takes part and the quad is inside and aligned.
    ///
    /// # Safety
    /// The index and the mask are readable at `i`.
    unsafe fn place(&self, i: usize) -> Option<*mut Quad> {
        // SAFETY: the caller's promise.
        let (index, wanted) = unsafe { (*self.index.add(i), *self.mask.add(i) != 0) };
        let inside = index >= 0 && index <= self.extent - 4;
        let place = self.memory.wrapping_offset(index as isize).cast::<Quad>();
        (wanted && inside && place.is_aligned()).then_some(place)
    }
}

/// Loads each lane's quad; zeros for lanes without one.
///
/// # Safety
/// `quads` is readable; its index and mask are valid for `n` lanes, its words writable for them,
/// and its memory at every quad that is inside and selected, which is aligned to 16 bytes.
pub unsafe extern "C" fn load_quads(quads: *const Quads, n: usize) {
    // SAFETY: the caller's promise.
    let quads = unsafe { &*quads };
    for i in 0..n {
        // SAFETY: the caller's promise. The access is volatile and of one aligned vector, which
        // arrives whole on every x86-64 with AVX (Intel and AMD say so) and on AArch64 with LSE2;
        // another thread writes there meanwhile in the same way.
        unsafe {
            let quad = quads.place(i).map_or(Quad([0; 4]), |place| vector::load(place));
            for (word, value) in quads.words.iter().zip(quad.0) {
                *word.add(i) = value;
            }
        }
    }
}

/// Stores each lane's quad.
///
/// # Safety
/// As for [`load_quads`], with the words readable and the memory writable.
pub unsafe extern "C" fn store_quads(quads: *const Quads, n: usize) {
    // SAFETY: the caller's promise.
    let quads = unsafe { &*quads };
    for i in 0..n {
        // SAFETY: as for the load.
        unsafe {
            if let Some(place) = quads.place(i) {
                vector::store(place, Quad(quads.words.map(|word| *word.add(i))));
            }
        }
    }
}

/// One access of 16 bytes, which the compiler neither splits nor leaves out.
#[cfg(target_arch = "x86_64")]
mod vector {
    use super::Quad;
    use std::arch::asm;
    use std::arch::x86_64::__m128i;

    #[inline(always)]
    pub(super) unsafe fn load(place: *const Quad) -> Quad {
        let vector: __m128i;
        // SAFETY: the caller vouches for the place; the instruction reads 16 bytes there and
        // touches nothing else.
        unsafe {
            asm!("movdqa {v}, [{p}]", v = out(xmm_reg) vector, p = in(reg) place,
                options(nostack, preserves_flags));
            std::mem::transmute(vector)
        }
    }

    #[inline(always)]
    pub(super) unsafe fn store(place: *mut Quad, quad: Quad) {
        // SAFETY: the caller vouches for the place; the instruction writes 16 bytes there and
        // touches nothing else.
        unsafe {
            let vector: __m128i = std::mem::transmute(quad);
            asm!("movdqa [{p}], {v}", v = in(xmm_reg) vector, p = in(reg) place,
                options(nostack, preserves_flags));
        }
    }
}

/// One access of 16 bytes, which the compiler neither splits nor leaves out.
#[cfg(target_arch = "aarch64")]
mod vector {
    use super::Quad;
    use std::arch::aarch64::uint32x4_t;
    use std::arch::asm;

    #[inline(always)]
    pub(super) unsafe fn load(place: *const Quad) -> Quad {
        let vector: uint32x4_t;
        // SAFETY: the caller vouches for the place; the instruction reads 16 bytes there and
        // touches nothing else.
        unsafe {
            asm!("ldr {v:q}, [{p}]", v = out(vreg) vector, p = in(reg) place,
                options(nostack, preserves_flags));
            std::mem::transmute(vector)
        }
    }

    #[inline(always)]
    pub(super) unsafe fn store(place: *mut Quad, quad: Quad) {
        // SAFETY: the caller vouches for the place; the instruction writes 16 bytes there and
        // touches nothing else.
        unsafe {
            let vector: uint32x4_t = std::mem::transmute(quad);
            asm!("str {v:q}, [{p}]", v = in(vreg) vector, p = in(reg) place,
                options(nostack, preserves_flags));
        }
    }
}

/// What other processors get, for whom no quad is ever compiled (see `codegen/ordered.rs`).
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod vector {
    use super::Quad;

    pub(super) unsafe fn load(place: *const Quad) -> Quad {
        // SAFETY: the caller vouches for the place.
        unsafe { place.read_volatile() }
    }

    pub(super) unsafe fn store(place: *mut Quad, quad: Quad) {
        // SAFETY: the caller vouches for the place.
        unsafe { place.write_volatile(quad) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_under_a_mask() {
        let mut memory: Vec<u64> = (0..6).map(|i| i * (u64::MAX / 7)).collect();
        let (index, mask) = ([5i64, 0, 99, 2], [1u8, 1, 0, 1]);
        let mut out = [7u64; 4];
        let from = memory.as_ptr().cast();
        // SAFETY: four lanes, whose indices are inside where the mask is not 0.
        unsafe { load(8, true)(out.as_mut_ptr().cast(), from, index.as_ptr(), mask.as_ptr(), 4) };
        assert_eq!(out, [memory[5], 0, 0, memory[2]]);
        let value = [u64::MAX, 1, 2, 3];
        let mut expected = memory.clone();
        (expected[5], expected[0], expected[2]) = (u64::MAX, 1, 3);
        let to = memory.as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe { store(8, false)(to, value.as_ptr().cast(), index.as_ptr(), mask.as_ptr(), 4) };
        assert_eq!(memory, expected);
    }

    #[test]
    fn quads_inside_and_outside() {
        let mut memory = vec![Quad([0; 4]); 4];
        (0..4).for_each(|q| memory[q] = Quad([0, 1, 2, 3].map(|w| 10 * q as u32 + w)));
        let (index, mask) = ([12i64, 4, 8, -4, 13], [1u8, 1, 0, 1, 1]);
        let mut out = [[9u32; 5]; 4];
        let words = out.each_mut().map(|w| w.as_mut_ptr());
        let at = memory.as_mut_ptr().cast();
        let quads = Quads { memory: at, extent: 16, index: index.as_ptr(), mask: mask.as_ptr(), words };
        // SAFETY: five lanes; only quads 3 and 1 are selected and inside.
        unsafe { load_quads(&quads, 5) };
        assert_eq!(out.map(|w| w[0]), [30, 31, 32, 33]);
        assert_eq!(out.map(|w| w[1]), [10, 11, 12, 13]);
        assert!(out.iter().all(|w| w[2..] == [0, 0, 0]), "{out:?}");

        let mut new: [[u32; 5]; 4] = std::array::from_fn(|w| std::array::from_fn(|l| (100 * l + w) as u32));
        let quads = Quads { words: new.each_mut().map(|w| w.as_mut_ptr()), ..quads };
        // SAFETY: as above.
        unsafe { store_quads(&quads, 5) };
        let got: Vec<[u32; 4]> = memory.iter().map(|q| q.0).collect();
        assert_eq!(got, [[0, 1, 2, 3], [100, 101, 102, 103], [20, 21, 22, 23], [0, 1, 2, 3]]);
    }

    /// Two threads write quads of one repeated word as fast as they can; every quad that is read is
    /// of one word.
    #[test]
    fn quads_arrive_whole() {
        use std::sync::atomic::AtomicBool;
        struct SharedQuad(*mut Quad);
        // SAFETY: only the functions under test touch the place, whole and volatile.
        unsafe impl Sync for SharedQuad {}
        let mut quad = Box::new(Quad([0; 4]));
        let (place, done) = (SharedQuad(&mut *quad), AtomicBool::new(false));
        let access = |words: &mut [u32; 4], f: unsafe extern "C" fn(*const Quads, usize)| {
            let place = &place;
            let mut at = words.as_mut_ptr();
            let words = [(); 4].map(|()| {
                let word = at;
                at = at.wrapping_add(1);
                word
            });
            let quads = Quads { memory: place.0.cast(), extent: 4, index: &0, mask: &1, words };
            // SAFETY: one lane, whose quad is inside.
            unsafe { f(&quads, 1) };
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..200_000u32 {
                    access(&mut [turn; 4], store_quads);
                }
                done.store(true, Release);
            });
            while !done.load(Acquire) {
                let mut seen = [0; 4];
                access(&mut seen, load_quads);
                assert_eq!(seen, [seen[0]; 4]);
            }
        });
    }
}
