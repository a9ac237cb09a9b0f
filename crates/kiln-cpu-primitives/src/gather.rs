//! Element-by-element access through an index array.

use super::element::Element;
use super::signature::{GatherFn, ScatterFn};
use kiln_ir::Scalar;

/// The primitive that loads from indices.
pub(crate) fn gather(scalar: Scalar) -> GatherFn {
    match scalar.bytes() {
        1 => gather_elements::<u8>,
        2 => gather_elements::<u16>,
        4 => gather_elements::<u32>,
        _ => gather_elements::<u64>,
    }
}

/// The primitive that stores to indices.
pub(crate) fn scatter(scalar: Scalar) -> ScatterFn {
    match scalar.bytes() {
        1 => scatter_elements::<u8>,
        2 => scatter_elements::<u16>,
        4 => scatter_elements::<u32>,
        _ => scatter_elements::<u64>,
    }
}

/// Calls `access(i, index)` for each element whose mask is not 0, and `masked(i)` for the others.
///
/// # Safety
/// `index` and a mask that is not null are valid for `n` elements.
#[inline(always)]
pub(crate) unsafe fn for_each_index(
    index: *const i64,
    mask: *const u8,
    n: usize,
    mut access: impl FnMut(usize, isize),
    mut masked: impl FnMut(usize),
) {
    for i in 0..n {
        // SAFETY: `i < n`.
        let (index, active) = unsafe { (index.add(i).read(), mask.is_null() || mask.add(i).read() != 0) };
        if active { access(i, index as isize) } else { masked(i) }
    }
}

/// # Safety
/// As for [`GatherFn`].
unsafe extern "C" fn gather_elements<T: Element>(
    tile: *mut u8,
    memory: *const u8,
    index: *const i64,
    mask: *const u8,
    padding: u64,
    n: usize,
) {
    let (tile, memory, padding) = (tile.cast::<T>(), memory.cast::<T>(), T::from_bits(padding));
    // SAFETY: `i < n`, and memory is valid at the index of an element whose mask is not 0.
    unsafe {
        for_each_index(
            index,
            mask,
            n,
            |i, at| tile.add(i).write(memory.offset(at).read()),
            |i| tile.add(i).write(padding),
        );
    }
}

/// # Safety
/// As for [`ScatterFn`].
unsafe extern "C" fn scatter_elements<T: Element>(
    memory: *mut u8,
    tile: *const u8,
    index: *const i64,
    mask: *const u8,
    n: usize,
) {
    let (memory, tile) = (memory.cast::<T>(), tile.cast::<T>());
    // SAFETY: `i < n`, and memory is valid at the index of an element whose mask is not 0.
    unsafe { for_each_index(index, mask, n, |i, at| memory.offset(at).write(tile.add(i).read()), |_| ()) }
}
