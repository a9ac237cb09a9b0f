//! The indices of gathers, scatters and atomics: from one index tile per axis to offsets and a
//! mask.

use crate::Isa;

/// One axis of an indexed access, over `n` elements.
#[repr(C)]
pub struct IndexAxis {
    /// The indices on this axis.
    pub index: *const i64,
    /// The view's extent.
    pub extent: i64,
    /// The view's stride, in elements.
    pub stride: i64,
}

/// Writes `sum(index * stride)` over the axes to `linear`, and to `inside` whether all indices lie
/// in their extents and the mask (null is all ones) is not 0. Gives 1 if an index lies outside
/// where the mask is not 0.
///
/// # Safety
/// `axes` is readable for `rank` axes, their indices and a mask that is not null for `n` elements;
/// the outputs are writable for `n` elements and overlap nothing else.
pub type LinearizeFn = unsafe extern "C" fn(
    linear: *mut i64,
    inside: *mut u8,
    mask: *const u8,
    axes: *const IndexAxis,
    rank: usize,
    n: usize,
) -> u32;

/// The function for this processor.
pub fn linearize() -> LinearizeFn {
    match Isa::best() {
        Isa::Portable => portable,
        #[cfg(target_arch = "x86_64")]
        _ => avx2,
    }
}

unsafe extern "C" fn portable(
    linear: *mut i64,
    inside: *mut u8,
    mask: *const u8,
    axes: *const IndexAxis,
    rank: usize,
    n: usize,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { loops(linear, inside, mask, axes, rank, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe extern "C" fn avx2(
    linear: *mut i64,
    inside: *mut u8,
    mask: *const u8,
    axes: *const IndexAxis,
    rank: usize,
    n: usize,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { loops(linear, inside, mask, axes, rank, n) }
}

#[inline(always)]
unsafe fn loops(
    linear: *mut i64,
    inside: *mut u8,
    mask: *const u8,
    axes: *const IndexAxis,
    rank: usize,
    n: usize,
) -> u32 {
    // SAFETY: the caller passes `n` writable elements each, `rank` axes, and a mask that is null or
    // has `n` elements.
    let (linear, inside, axes) = unsafe {
        (
            std::slice::from_raw_parts_mut(linear, n),
            std::slice::from_raw_parts_mut(inside, n),
            std::slice::from_raw_parts(axes, rank),
        )
    };
    linear.fill(0);
    inside.fill(1);
    for axis in axes {
        // SAFETY: the caller passes `n` indices on each axis.
        let index = unsafe { std::slice::from_raw_parts(axis.index, n) };
        for ((l, ok), &i) in linear.iter_mut().zip(inside.iter_mut()).zip(index) {
            *l = l.wrapping_add(i.wrapping_mul(axis.stride));
            *ok &= ((i as u64) < axis.extent.max(0) as u64) as u8;
        }
    }
    if mask.is_null() {
        return inside.contains(&0) as u32;
    }
    // SAFETY: a mask that is not null has `n` elements.
    let mask = unsafe { std::slice::from_raw_parts(mask, n) };
    let mut outside = 0;
    for (ok, &m) in inside.iter_mut().zip(mask) {
        outside |= m & !*ok & 1;
        *ok &= m;
    }
    outside as u32
}

/// Finds the first element (lowest position, then outermost axis) whose index lies outside although
/// the mask is not 0: writes the index and the extent to `found` and gives the position; `n` if
/// there is none.
///
/// # Safety
/// As for [`LinearizeFn`]; `found` is writable for two elements.
pub unsafe extern "C" fn first_outside(
    mask: *const u8,
    axes: *const IndexAxis,
    rank: usize,
    n: usize,
    found: *mut i64,
) -> u64 {
    // SAFETY: the caller's promise.
    let axes = unsafe { std::slice::from_raw_parts(axes, rank) };
    for at in 0..n {
        // SAFETY: as above; `at` is below `n`.
        if !mask.is_null() && unsafe { *mask.add(at) } == 0 {
            continue;
        }
        for axis in axes {
            // SAFETY: as above.
            let index = unsafe { *axis.index.add(at) };
            if index < 0 || index >= axis.extent {
                // SAFETY: the caller passes two writable elements.
                unsafe { (*found, *found.add(1)) = (index, axis.extent) };
                return at as u64;
            }
        }
    }
    n as u64
}

/// The position of the first zero among `n` integers of `bytes` bytes, or `n`.
///
/// # Safety
/// `values` is readable for `n * bytes` bytes.
pub unsafe extern "C" fn first_zero(values: *const u8, bytes: usize, n: usize) -> u64 {
    // SAFETY: the caller's promise.
    let values = unsafe { std::slice::from_raw_parts(values, bytes * n) };
    values.chunks(bytes.max(1)).position(|v| v.iter().all(|&b| b == 0)).unwrap_or(n) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_masks_and_the_first_index_outside() {
        let (rows, columns) = ([0i64, 1, 2, -1, 1], [3i64, 2, 0, 0, 9]);
        let axes = [
            IndexAxis { index: rows.as_ptr(), extent: 2, stride: 10 },
            IndexAxis { index: columns.as_ptr(), extent: 4, stride: 1 },
        ];
        let mask = [1u8, 1, 0, 1, 1];
        let (mut linear, mut inside, mut found) = ([0i64; 5], [9u8; 5], [0i64; 2]);
        for function in [portable, linearize()] {
            // SAFETY: every array has five elements.
            let outside = unsafe {
                function(linear.as_mut_ptr(), inside.as_mut_ptr(), mask.as_ptr(), axes.as_ptr(), 2, 5)
            };
            assert_eq!((linear, inside, outside), ([3, 12, 20, -10, 19], [1, 1, 0, 0, 0], 1));
        }
        // SAFETY: as above.
        let first = unsafe { first_outside(mask.as_ptr(), axes.as_ptr(), 2, 5, found.as_mut_ptr()) };
        assert_eq!((first, found), (3, [-1, 2]));
    }

    #[test]
    fn zeros_are_found() {
        let values = [256u32, 1, 0, 0];
        // SAFETY: four integers of four bytes.
        unsafe {
            assert_eq!(first_zero(values.as_ptr().cast(), 4, 4), 2);
            assert_eq!(first_zero(values.as_ptr().cast(), 4, 2), 2);
        }
    }
}
