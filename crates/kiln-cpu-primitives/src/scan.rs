//! Running combinations along the middle axis of an `outer` × `len` × `inner` tile.
//!
//! One element waits for the one before it, whatever the vector width, so that there is one loop
//! for all instruction sets.

use super::binary::unsigned;
use super::element::{Bits, Number, Ordered};
use super::reduce::{Accumulate, All, Any, COLUMNS, Combine, Greatest, Least, Parity, Prod, Sum};
use super::signature::AxisFn;
use half::{bf16, f16};
use kiln_ir::{ReduceOp, Scalar};

/// A scan in one of the directions, with or without the element itself.
///
/// # Safety
/// As for [`AxisFn`].
unsafe extern "C" fn scan_axis<
    K: Combine<T::Acc>,
    T: Accumulate,
    const REVERSE: bool,
    const EXCLUSIVE: bool,
>(
    out: *mut u8,
    a: *const u8,
    outer: usize,
    len: usize,
    inner: usize,
) {
    // SAFETY: the caller's.
    unsafe { scan_strips::<K, T>(out.cast(), a.cast(), [outer, len, inner], REVERSE, EXCLUSIVE) }
}

/// Scans every strip of columns of an `outer` × `len` × `inner` tile. The 16-bit floats accumulate
/// in f32 and every result is rounded.
///
/// # Safety
/// As for [`AxisFn`].
#[inline(never)]
unsafe fn scan_strips<K: Combine<T::Acc>, T: Accumulate>(
    out: *mut T,
    a: *const T,
    [outer, len, inner]: [usize; 3],
    reverse: bool,
    exclusive: bool,
) {
    // From one row to the next, and where the first row is.
    let row = inner as isize;
    let (first_row, step) = if reverse { (row * (len as isize - 1), -row) } else { (0, row) };
    for o in 0..outer {
        for column in (0..inner).step_by(COLUMNS) {
            let width = COLUMNS.min(inner - column);
            let start = ((o * len * inner + column) as isize).wrapping_add(first_row);
            let (out, a) = (out.wrapping_offset(start), a.wrapping_offset(start));
            // SAFETY: the caller passed `outer * len * inner` elements; this is a strip of `width`
            // columns of one of the `outer` parts.
            unsafe {
                if width == 1 {
                    scan_column::<K, T>(out, a, len, step, exclusive);
                } else {
                    scan_strip::<K, T>(out, a, len, step, width, exclusive);
                }
            }
        }
    }
}

/// [`scan_strip`] of one column, with the accumulator in a register.
///
/// # Safety
/// As for [`scan_strip`].
unsafe fn scan_column<K: Combine<T::Acc>, T: Accumulate>(
    out: *mut T,
    a: *const T,
    len: usize,
    step: isize,
    exclusive: bool,
) {
    // The first of an exclusive scan gets the identity, which takes no part in the next: the
    // combination of NaN alone is NaN.
    let (mut acc, mut before) = (K::START, K::IDENTITY);
    for row in 0..len as isize {
        // SAFETY: this row is within the column.
        unsafe {
            let next = K::combine(acc, a.offset(row * step).read().widen_to_acc());
            out.offset(row * step).write(T::narrow_acc(if exclusive { before } else { next }));
            (acc, before) = (next, next);
        }
    }
}

/// Scans `width` adjacent columns of `len` rows that are `step` elements apart. Each input is read
/// before its place is written.
///
/// # Safety
/// Both arrays are valid for those elements and are the same or disjoint; `width` is at most
/// `COLUMNS`.
unsafe fn scan_strip<K: Combine<T::Acc>, T: Accumulate>(
    out: *mut T,
    a: *const T,
    len: usize,
    step: isize,
    width: usize,
    exclusive: bool,
) {
    let (mut acc, mut before) = ([K::START; COLUMNS], [K::IDENTITY; COLUMNS]);
    for row in 0..len as isize {
        let (out, a) = (out.wrapping_offset(row * step), a.wrapping_offset(row * step));
        let states = acc[..width].iter_mut().zip(&mut before[..width]);
        for (column, (acc, before)) in states.enumerate() {
            // SAFETY: this row and column are within the strip.
            unsafe {
                let next = K::combine(*acc, a.add(column).read().widen_to_acc());
                out.add(column).write(T::narrow_acc(if exclusive { *before } else { next }));
                (*acc, *before) = (next, next);
            }
        }
    }
}

/// The primitive for a scan, if the operation is defined on the type.
pub(crate) fn lookup(op: ReduceOp, scalar: Scalar, reverse: bool, exclusive: bool) -> Option<AxisFn> {
    match (reverse, exclusive) {
        (false, false) => scan::<false, false>(op, scalar),
        (false, true) => scan::<false, true>(op, scalar),
        (true, false) => scan::<true, false>(op, scalar),
        (true, true) => scan::<true, true>(op, scalar),
    }
}

fn scan<const R: bool, const E: bool>(op: ReduceOp, scalar: Scalar) -> Option<AxisFn> {
    let signed = matches!(op, ReduceOp::Min | ReduceOp::Max);
    match if signed { scalar } else { unsigned(scalar) } {
        Scalar::Bool => bits::<u8, R, E>(op).or_else(|| ordered::<u8, R, E>(op)),
        Scalar::I32 => ordered::<i32, R, E>(op),
        Scalar::I64 => ordered::<i64, R, E>(op),
        Scalar::U32 => bits::<u32, R, E>(op).or_else(|| number::<u32, R, E>(op)),
        Scalar::U64 => bits::<u64, R, E>(op).or_else(|| number::<u64, R, E>(op)),
        Scalar::F16 => number::<f16, R, E>(op),
        Scalar::BF16 => number::<bf16, R, E>(op),
        Scalar::F32 => number::<f32, R, E>(op),
        Scalar::F64 => number::<f64, R, E>(op),
        Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => None,
    }
}

fn ordered<T: Accumulate<Acc: Ordered>, const R: bool, const E: bool>(op: ReduceOp) -> Option<AxisFn> {
    Some(match op {
        ReduceOp::Min => scan_axis::<Least, T, R, E>,
        ReduceOp::Max => scan_axis::<Greatest, T, R, E>,
        _ => return None,
    })
}

fn number<T: Accumulate<Acc: Number>, const R: bool, const E: bool>(op: ReduceOp) -> Option<AxisFn> {
    Some(match op {
        ReduceOp::Sum => scan_axis::<Sum, T, R, E>,
        ReduceOp::Prod => scan_axis::<Prod, T, R, E>,
        _ => return ordered::<T, R, E>(op),
    })
}

fn bits<T: Accumulate<Acc: Bits>, const R: bool, const E: bool>(op: ReduceOp) -> Option<AxisFn> {
    Some(match op {
        ReduceOp::And => scan_axis::<All, T, R, E>,
        ReduceOp::Or => scan_axis::<Any, T, R, E>,
        ReduceOp::Xor => scan_axis::<Parity, T, R, E>,
        _ => return None,
    })
}
