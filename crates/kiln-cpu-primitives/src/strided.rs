//! Copies between strided arrays: broadcasts, transpositions, tiles of tensors.

use super::element::Element;
use super::signature::{CopyAxis, StridedCopyFn};
use kiln_ir::Scalar;

/// Rows and columns of a transposition that are moved together: both sides stay within a few cache
/// lines, and a block in registers.
pub(crate) const BLOCK: usize = 8;

/// The primitive that copies between strided arrays.
pub(crate) fn lookup(scalar: Scalar) -> StridedCopyFn {
    match scalar.bytes() {
        1 => copy::<u8>,
        2 => copy::<u16>,
        4 => copy::<u32>,
        _ => copy::<u64>,
    }
}

/// # Safety
/// As for [`StridedCopyFn`].
unsafe extern "C" fn copy<T: Element>(to: *mut u8, from: *const u8, axes: *const CopyAxis, rank: usize) {
    // SAFETY: the caller passed `rank` readable axes; without any, the pointer may be null.
    let axes = if rank == 0 { &[] } else { unsafe { std::slice::from_raw_parts(axes, rank) } };
    // SAFETY: both arrays are valid for what the axes address.
    unsafe { copy_axes(to.cast::<T>(), from.cast::<T>(), axes) }
}

/// Copies the elements that `axes`, outermost first, address.
///
/// # Safety
/// Both arrays are valid for these elements and do not overlap.
pub(crate) unsafe fn copy_axes<T: Element>(to: *mut T, from: *const T, axes: &[CopyAxis]) {
    // SAFETY: every offset is that of an element which the axes address.
    unsafe {
        match axes {
            [] => to.write(from.read()),
            [row] => copy_row(to, from, row),
            [rows, row]
                if rows.from_stride.abs() < row.from_stride.abs()
                    && rows.to_stride.abs() > row.to_stride.abs() =>
            {
                copy_transposed(to, from, rows, row)
            }
            [first, rest @ ..] => {
                for i in 0..first.extent {
                    copy_axes(
                        to.offset((i * first.to_stride) as isize),
                        from.offset((i * first.from_stride) as isize),
                        rest,
                    );
                }
            }
        }
    }
}

/// # Safety
/// As for [`copy_axes`].
#[inline]
unsafe fn copy_row<T: Element>(to: *mut T, from: *const T, row: &CopyAxis) {
    // SAFETY: every offset is that of an element which the axis addresses.
    unsafe {
        match (row.to_stride, row.from_stride) {
            (1, 1) => to.copy_from_nonoverlapping(from, row.extent.max(0) as usize),
            (1, 0) => {
                if row.extent > 0 {
                    std::slice::from_raw_parts_mut(to, row.extent as usize).fill(from.read());
                }
            }
            (to_stride, from_stride) => {
                for i in 0..row.extent {
                    to.offset((i * to_stride) as isize).write(from.offset((i * from_stride) as isize).read());
                }
            }
        }
    }
}

/// Copies a matrix whose rows are far apart on one side and near on the other, in blocks.
///
/// # Safety
/// As for [`copy_axes`].
unsafe fn copy_transposed<T: Element>(to: *mut T, from: *const T, rows: &CopyAxis, row: &CopyAxis) {
    let adjacent = rows.from_stride == 1 && row.to_stride == 1;
    for top in (0..rows.extent).step_by(BLOCK) {
        for left in (0..row.extent).step_by(BLOCK) {
            let (height, width) =
                ((rows.extent - top).min(BLOCK as i64), (row.extent - left).min(BLOCK as i64));
            // SAFETY: the block's rows and columns are within the axes.
            unsafe {
                let to = to.offset((top * rows.to_stride + left * row.to_stride) as isize);
                let from = from.offset((top * rows.from_stride + left * row.from_stride) as isize);
                if adjacent && height == BLOCK as i64 && width == BLOCK as i64 {
                    transpose_block(to, rows.to_stride as isize, from, row.from_stride as isize);
                    continue;
                }
                let row = CopyAxis { extent: width, ..*row };
                for i in 0..height {
                    copy_row(
                        to.offset((i * rows.to_stride) as isize),
                        from.offset((i * rows.from_stride) as isize),
                        &row,
                    );
                }
            }
        }
    }
}

/// Transposes one block between rows of adjacent elements, in registers.
///
/// # Safety
/// Both arrays are valid for `BLOCK` rows of `BLOCK` elements that begin the given strides apart.
#[inline(always)]
pub(crate) unsafe fn transpose_block<T: Element>(
    to: *mut T,
    to_stride: isize,
    from: *const T,
    from_stride: isize,
) {
    // SAFETY: row `i` is one of `BLOCK`; an array has its element's alignment.
    unsafe {
        let block: [[T; BLOCK]; BLOCK] =
            std::array::from_fn(|i| from.offset(i as isize * from_stride).cast::<[T; BLOCK]>().read());
        let transposed: [[T; BLOCK]; BLOCK] = std::array::from_fn(|i| std::array::from_fn(|j| block[j][i]));
        for (i, row) in transposed.into_iter().enumerate() {
            to.offset(i as isize * to_stride).cast::<[T; BLOCK]>().write(row);
        }
    }
}
