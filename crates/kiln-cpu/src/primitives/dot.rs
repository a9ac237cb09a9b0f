//! Matrix products `c += a · b` of strided matrices.
//!
//! Blocks of both operands are packed, which also widens 16-bit floats and makes strides and odd extents vanish: `a` in slivers of `MR` rows,
//! `b` in panels of `NR` columns, both as deep as `DEPTH` and padded with zeros. A register tile of `MR` × `NR` accumulators then runs
//! over the depth of a sliver and a panel. The tile is shaped so that accumulators, a row of the panel and a broadcast element fill
//! the level's vector registers.

use super::element::Number;
use super::level::{Isa, Level};
use super::reduce::Accumulate;
use super::signature::{DotFn, DotLoop, DotShape};
use half::{bf16, f16};
use kiln_ir::Scalar;
use std::marker::PhantomData;

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
    let mut panels = AlignedBuffer([0; PANEL_BYTES / 8]);
    let panels = panels.0.as_mut_ptr().cast::<T::Acc>();
    let group = PANEL_BYTES / size_of::<T::Acc>() / DEPTH / NR * NR;
    let mut sliver = [[T::Acc::ZERO; DEPTH]; MR];
    for k0 in (0..k).step_by(DEPTH) {
        let depth = DEPTH.min(k - k0);
        for j0 in (0..n).step_by(group) {
            let columns = group.min(n - j0);
            // SAFETY: all offsets are inside the matrices, whose extents the caller vouches for; `columns` fit the panels.
            unsafe {
                let b = b.offset(k0 as isize * shape.b_row + j0 as isize * shape.b_column);
                pack_panels::<I, T, NR>(panels, b, shape, depth, columns);
                for i0 in (0..m).step_by(MR) {
                    let rows = MR.min(m - i0);
                    let a = a.offset(i0 as isize * shape.a_row + k0 as isize * shape.a_column);
                    pack_sliver::<I, T, MR>(&mut sliver, a, shape, depth, rows);
                    for j in (0..columns).step_by(NR) {
                        let tile = multiply::<I, T::Acc, MR, NR>(&sliver, panels.add(j * depth), depth);
                        let c = c.offset(i0 as isize * shape.c_row + (j0 + j) as isize);
                        accumulate(c, shape.c_row, &tile, rows, NR.min(columns - j));
                    }
                }
            }
        }
    }
}

/// 64-byte aligned memory for packed panels.
#[repr(align(64))]
struct AlignedBuffer([u64; PANEL_BYTES / 8]);

/// Packs `depth` rows of `columns` columns of `b` as panels of `NR` columns, each of which is contiguous.
///
/// # Safety
/// `b` is valid for these elements, `panels` for the padded ones.
#[inline(always)]
unsafe fn pack_panels<I: Isa, T: Accumulate<Acc: Number>, const NR: usize>(
    panels: *mut T::Acc,
    b: *const T,
    shape: &DotShape,
    depth: usize,
    columns: usize,
) {
    for j in (0..columns).step_by(NR) {
        let width = NR.min(columns - j);
        // SAFETY: the panel is `depth` rows of `NR` elements, all of which are set; reads stay within `width` columns.
        unsafe {
            let panel = std::slice::from_raw_parts_mut(panels.add(j * depth).cast::<[T::Acc; NR]>(), depth);
            let b = b.offset(j as isize * shape.b_column);
            if shape.b_column == 1 && width == NR {
                for (p, row) in panel.iter_mut().enumerate() {
                    let b = b.offset(p as isize * shape.b_row);
                    T::widen_slice::<I>(row, std::slice::from_raw_parts(b, NR));
                }
                continue;
            }
            for column in 0..NR {
                let b = b.wrapping_offset(column as isize * shape.b_column);
                for (p, row) in panel.iter_mut().enumerate() {
                    let inside = column < width;
                    row[column] = if inside {
                        b.offset(p as isize * shape.b_row).read().widen_to_acc()
                    } else {
                        T::Acc::ZERO
                    };
                }
            }
        }
    }
}

/// Packs `rows` rows of `depth` columns of `a`.
///
/// # Safety
/// `a` is valid for these elements.
#[inline(always)]
unsafe fn pack_sliver<I: Isa, T: Accumulate<Acc: Number>, const MR: usize>(
    sliver: &mut [[T::Acc; DEPTH]; MR],
    a: *const T,
    shape: &DotShape,
    depth: usize,
    rows: usize,
) {
    for (i, row) in sliver.iter_mut().enumerate() {
        let row = &mut row[..depth];
        if i >= rows {
            row.fill(T::Acc::ZERO);
            continue;
        }
        // SAFETY: row `i` and `depth` columns are within the matrix.
        unsafe {
            let a = a.offset(i as isize * shape.a_row);
            if shape.a_column == 1 {
                T::widen_slice::<I>(row, std::slice::from_raw_parts(a, depth));
            } else {
                for (p, x) in row.iter_mut().enumerate() {
                    *x = a.offset(p as isize * shape.a_column).read().widen_to_acc();
                }
            }
        }
    }
}

/// The product of a sliver and a panel, in registers.
///
/// # Safety
/// `panel` is valid for `depth` rows of `NR` elements; `depth` is at most `DEPTH`.
#[inline(always)]
unsafe fn multiply<I: Isa, A: Number, const MR: usize, const NR: usize>(
    sliver: &[[A; DEPTH]; MR],
    panel: *const A,
    depth: usize,
) -> [[A; NR]; MR] {
    let mut tile = [[A::ZERO; NR]; MR];
    for p in 0..depth {
        // SAFETY: `p < depth`.
        let row = unsafe { &*panel.add(p * NR).cast::<[A; NR]>() };
        for i in 0..MR {
            // SAFETY: `p < depth <= DEPTH`.
            let x = unsafe { *sliver[i].get_unchecked(p) };
            for j in 0..NR {
                tile[i][j] = x.mul_add_fast::<I>(row[j], tile[i][j]);
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
