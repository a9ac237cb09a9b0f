//! Matrix products `c += a · b` of strided matrices.
//!
//! A register tile of `MR` × `NR` accumulators runs over the depth of a sliver of `a` (`MR` rows) and a panel of `b` (`NR` columns). The tile
//! is shaped so that accumulators, a row of the panel and a broadcast element fill the level's vector registers. Slivers and panels
//! are packed, a block of `DEPTH` at a time, where that is needed: to widen 16-bit floats, for elements that are not adjacent, for columns
//! that do not fill a panel, and for panels that so many slivers read that their rows had better be adjacent.

use super::element::Number;
use super::level::{Isa, Level};
use super::reduce::Accumulate;
use super::signature::{DotFn, DotLoop, DotShape};
use half::{bf16, f16};
use kiln_ir::Scalar;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Columns of `a` and rows of `b` that are packed at a time.
const DEPTH: usize = 128;
/// Bytes of packed panels of `b`: a share of the L1 or L2 cache, and what the stack must hold.
const PANEL_BYTES: usize = 32 * 1024;

struct ProductLoop<T>(PhantomData<T>);

impl<T: Accumulate<Acc: Number>> DotLoop for ProductLoop<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(c: *mut u8, a: *const u8, b: *const u8, shape: *const DotShape) {
        let (c, a, b) = (c.cast::<T::Acc>(), a.cast::<T>(), b.cast::<T>());
        // SAFETY: the caller's. The register tile depends on the level and the size alone, so that one arm is left of each instance.
        unsafe {
            let shape = &*shape;
            match (I::LANES_32, size_of::<T::Acc>()) {
                (16, 4) => product::<I, T, 12, 32>(c, a, b, shape),
                (16, _) => product::<I, T, 12, 16>(c, a, b, shape),
                (8, 4) => product::<I, T, 6, 16>(c, a, b, shape),
                (8, _) => product::<I, T, 6, 8>(c, a, b, shape),
                (_, 4) => product::<I, T, 6, 8>(c, a, b, shape),
                (_, _) => product::<I, T, 6, 4>(c, a, b, shape),
            }
        }
    }
}

/// An operand of up to this size is taken for a tile in cache, a larger one for a matrix in memory.
const CACHED_BYTES: usize = 128 * 1024;
/// Slivers that make it worth packing a panel which could be read where it is.
const PACKED_SLIVERS: usize = 8;

/// # Safety
/// As for [`DotFn`].
#[inline(always)]
unsafe fn product<I: Isa, T: Accumulate<Acc: Number>, const MR: usize, const NR: usize>(
    c: *mut T::Acc,
    a: *const T,
    b: *const T,
    shape: &DotShape,
) {
    let &DotShape { m, n, k, .. } = shape;
    // Room for the panels with f32; elements of 8 bytes use all of it for half of the columns.
    let mut panels = MaybeUninit::<PanelBuffer>::uninit();
    let panels = panels.as_mut_ptr().cast::<T::Acc>();
    let group = PANEL_BYTES / size_of::<T::Acc>() / DEPTH / NR * NR;
    let in_place = is_accumulator::<T>()
        && shape.b_column == 1
        && m < PACKED_SLIVERS * MR
        && fits_cache::<T>(k, shape.b_row);
    for k0 in (0..k).step_by(DEPTH) {
        let depth = DEPTH.min(k - k0);
        for j0 in (0..n).step_by(group) {
            let columns = group.min(n - j0);
            // SAFETY: all offsets are inside the matrices, whose extents the caller vouches for; `columns` fit the panels. A matrix
            // is read where it is only if its elements are accumulators.
            unsafe {
                let a = a.offset(k0 as isize * shape.a_column);
                let b = b.offset(k0 as isize * shape.b_row + j0 as isize * shape.b_column);
                let whole = if in_place { columns / NR * NR } else { 0 };
                pack_panels::<I, T, NR>(panels, b, shape, depth, whole..columns);
                let panel = |j: usize| {
                    if j < whole {
                        (b.add(j).cast::<T::Acc>(), shape.b_row)
                    } else {
                        (panels.add(j * depth).cast_const(), NR as isize)
                    }
                };
                multiply_block::<I, T, MR, NR>(c.add(j0), a, shape, depth, columns, panel);
            }
        }
    }
}

/// Whether elements of `T` are combined as they are.
const fn is_accumulator<T: Accumulate>() -> bool {
    T::STAGE == usize::MAX
}

/// Whether rows this far apart stay in the L2 cache while they are read again and again.
#[inline(always)]
fn fits_cache<T>(rows: usize, stride: isize) -> bool {
    rows.saturating_mul(stride.unsigned_abs()).saturating_mul(size_of::<T>()) <= CACHED_BYTES
}

/// Multiplies `depth` columns of all rows of `a` by the panels of `columns` columns of `b`. `panel` gives, for the first column of one, its
/// first element and the distance of its rows.
///
/// # Safety
/// `a`, the panels and `c` are valid for these elements.
#[inline(always)]
unsafe fn multiply_block<I: Isa, T: Accumulate<Acc: Number>, const MR: usize, const NR: usize>(
    c: *mut T::Acc,
    a: *const T,
    shape: &DotShape,
    depth: usize,
    columns: usize,
    panel: impl Fn(usize) -> (*const T::Acc, isize),
) {
    let mut packed = MaybeUninit::<[[T::Acc; DEPTH]; MR]>::uninit();
    let in_place = is_accumulator::<T>() && shape.a_column == 1 && fits_cache::<T>(shape.m, shape.a_row);
    for i0 in (0..shape.m).step_by(MR) {
        let rows = MR.min(shape.m - i0);
        // SAFETY: rows from `i0` and `depth` columns are within the matrix; the tile's rows and columns are within `c`.
        unsafe {
            let a = a.offset(i0 as isize * shape.a_row);
            let sliver: [*const T::Acc; MR] = std::array::from_fn(|i| {
                // A missing row repeats the last one; its results are dropped.
                let i = i.min(rows - 1);
                let row = a.offset(i as isize * shape.a_row);
                if in_place {
                    row.cast::<T::Acc>()
                } else {
                    let to = packed.as_mut_ptr().cast::<T::Acc>().add(i * DEPTH);
                    pack_row::<I, T>(to, row, shape.a_column, depth);
                    to
                }
            });
            for j in (0..columns).step_by(NR) {
                let (panel, stride) = panel(j);
                let tile = multiply::<I, T::Acc, MR, NR>(&sliver, panel, stride, depth);
                let c = c.offset(i0 as isize * shape.c_row + j as isize);
                accumulate(c, shape.c_row, &tile, rows, NR.min(columns - j));
            }
        }
    }
}

/// 64-byte aligned memory for packed panels.
#[repr(align(64))]
struct PanelBuffer(#[allow(dead_code)] [u8; PANEL_BYTES]);

/// Packs `depth` rows of some columns of `b` as panels of `NR` columns, each of which is contiguous and padded with zeros.
///
/// # Safety
/// `b` is valid for these elements, `panels` for the padded ones.
#[inline(always)]
unsafe fn pack_panels<I: Isa, T: Accumulate<Acc: Number>, const NR: usize>(
    panels: *mut T::Acc,
    b: *const T,
    shape: &DotShape,
    depth: usize,
    columns: Range<usize>,
) {
    for j in columns.clone().step_by(NR) {
        let width = NR.min(columns.end - j);
        // SAFETY: the panel is `depth` rows of `NR` elements, all of which are set; reads stay within `width` columns.
        unsafe {
            let panel = panels.add(j * depth);
            let b = b.offset(j as isize * shape.b_column);
            if shape.b_column == 1 && width == NR {
                for p in 0..depth {
                    pack_row::<I, T>(panel.add(p * NR), b.offset(p as isize * shape.b_row), 1, NR);
                }
                continue;
            }
            for column in 0..NR {
                for p in 0..depth {
                    let x = if column < width {
                        b.offset(p as isize * shape.b_row + column as isize * shape.b_column)
                            .read()
                            .widen_to_acc()
                    } else {
                        T::Acc::ZERO
                    };
                    panel.add(p * NR + column).write(x);
                }
            }
        }
    }
}

/// Packs `len` elements that are `stride` apart.
///
/// # Safety
/// `from` is valid for these elements, `to` for `len` adjacent ones.
#[inline(always)]
unsafe fn pack_row<I: Isa, T: Accumulate>(to: *mut T::Acc, from: *const T, stride: isize, len: usize) {
    // SAFETY: the caller's. Every bit pattern is a valid element, so that stale memory may be borrowed.
    unsafe {
        if stride == 1 {
            let from = std::slice::from_raw_parts(from, len);
            let to = std::slice::from_raw_parts_mut(to, len);
            if is_accumulator::<T>() {
                to.copy_from_slice(T::widened::<I>(from, &mut []));
            } else {
                T::widened::<I>(from, to);
            }
        } else {
            for i in 0..len {
                to.add(i).write(from.offset(i as isize * stride).read().widen_to_acc());
            }
        }
    }
}

/// The product of a sliver and a panel, in registers.
///
/// # Safety
/// Each row of the sliver is valid for `depth` elements, `panel` for `depth` rows of `NR` elements that are `stride` apart.
#[inline(always)]
unsafe fn multiply<I: Isa, A: Number, const MR: usize, const NR: usize>(
    sliver: &[*const A; MR],
    panel: *const A,
    stride: isize,
    depth: usize,
) -> [[A; NR]; MR] {
    let mut tile = [[A::ZERO; NR]; MR];
    for p in 0..depth {
        // SAFETY: `p < depth`.
        unsafe {
            let row = &*panel.offset(p as isize * stride).cast::<[A; NR]>();
            for i in 0..MR {
                let x = sliver[i].add(p).read();
                for j in 0..NR {
                    tile[i][j] = x.mul_add_fast::<I>(row[j], tile[i][j]);
                }
            }
        }
    }
    tile
}

/// Adds the first `rows` rows and `columns` columns of a tile to `c`.
///
/// # Safety
/// `c` is valid for these elements.
#[inline(always)]
unsafe fn accumulate<A: Number, const MR: usize, const NR: usize>(
    c: *mut A,
    stride: isize,
    tile: &[[A; NR]; MR],
    rows: usize,
    columns: usize,
) {
    for (i, row) in tile.iter().enumerate().take(rows) {
        // SAFETY: row `i` of `c` has `columns` elements; a full one is `NR` wide.
        unsafe {
            let c = c.offset(i as isize * stride);
            if columns == NR {
                let c = &mut *c.cast::<[A; NR]>();
                for j in 0..NR {
                    c[j] = c[j].add(row[j]);
                }
            } else {
                for (j, x) in row.iter().enumerate().take(columns) {
                    *c.add(j) = (*c.add(j)).add(*x);
                }
            }
        }
    }
}

/// The primitive for a matrix product, for numbers.
pub(crate) fn lookup(level: Level, scalar: Scalar) -> Option<DotFn> {
    Some(match scalar {
        Scalar::Bool => return None,
        Scalar::I32 | Scalar::U32 => ProductLoop::<u32>::at(level),
        Scalar::I64 | Scalar::U64 => ProductLoop::<u64>::at(level),
        Scalar::F16 => ProductLoop::<f16>::at(level),
        Scalar::BF16 => ProductLoop::<bf16>::at(level),
        Scalar::F32 => ProductLoop::<f32>::at(level),
        Scalar::F64 => ProductLoop::<f64>::at(level),
    })
}
