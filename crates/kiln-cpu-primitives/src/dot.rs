//! Matrix products `c += a · b` of strided matrices.
//!
//! A register tile of `MR` × `NR` accumulators runs over the depth of a sliver of `a` (`MR` rows)
//! and a panel of `b` (`NR` columns). The tile is shaped so that accumulators, a row of the panel
//! and a broadcast element fill the instruction set's vector registers. Slivers are packed, a block
//! of `DEPTH` at a time, so that one address and constants reach all rows. Panels are packed where
//! that is needed: to widen 16-bit floats, for elements that are not adjacent, for columns that do
//! not fill a panel, and for panels that so many slivers read that their rows had better be
//! adjacent. They stay in the L2 cache while all slivers pass over them (Goto and van de Geijn,
//! "Anatomy of high-performance matrix multiplication", 2008).

use super::element::Number;
use super::isa::{Isa, IsaProfile};
use super::reduce::Accumulate;
use super::signature::{DotFn, DotLoop, DotShape, RegisterTileLoop};
use super::strided::{BLOCK, transpose_block};
use half::{bf16, f16};
use kiln_ir::Scalar;
use std::any::TypeId;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Columns of `a` and rows of `b` that are packed at a time.
const DEPTH: usize = 256;
/// Bytes of packed panels of `b`: a share of the L2 cache.
const PANEL_BYTES: usize = 256 * 1024;
/// Columns of the widest panel.
const WIDEST_PANEL: usize = 32;
/// Rows that are left over are multiplied by a register tile of this height if they fit, not by the
/// full one.
const FEW_ROWS: usize = 4;

impl DotShape {
    /// The bytes of scratch memory that a product of this many columns and this depth needs, for
    /// accumulators of so many bytes.
    ///
    /// ```
    /// use kiln_cpu_primitives::DotShape;
    /// assert!(DotShape::scratch_bytes(1, 1, 4) == 128 && DotShape::scratch_bytes(9999, 9999, 8) <= 256 * 1024);
    /// ```
    pub const fn scratch_bytes(n: usize, k: usize, accumulator: usize) -> usize {
        let depth = if k < DEPTH { k } else { DEPTH };
        let bytes = n.next_multiple_of(WIDEST_PANEL) * depth * accumulator;
        if bytes < PANEL_BYTES { bytes } else { PANEL_BYTES }
    }
}

struct ProductLoop<T>(PhantomData<T>);

impl<T: Accumulate<Acc: Number>> DotLoop for ProductLoop<T> {
    #[inline(always)]
    unsafe fn run<I: IsaProfile>(c: *mut u8, a: *const u8, b: *const u8, shape: *const DotShape) {
        let (c, a, b) = (c.cast::<T::Acc>(), a.cast::<T>(), b.cast::<T>());
        // SAFETY: the caller's. The register tile depends on the instruction set and the size
        // alone, so that one arm is left of each instance.
        unsafe {
            let shape = &*shape;
            match (I::LANES_32, size_of::<T::Acc>()) {
                (16, 4) => product::<I, T, 12, 32, 128>(c, a, b, shape),
                (16, _) => product::<I, T, 12, 16, 64>(c, a, b, shape),
                (8, 4) => product::<I, T, 6, 16, 64>(c, a, b, shape),
                (8, _) => product::<I, T, 6, 8, 32>(c, a, b, shape),
                (_, 4) => product::<I, T, 6, 8, 32>(c, a, b, shape),
                (_, _) => product::<I, T, 6, 4, 16>(c, a, b, shape),
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
unsafe fn product<
    I: IsaProfile,
    T: Accumulate<Acc: Number>,
    const MR: usize,
    const NR: usize,
    const WIDE: usize,
>(
    c: *mut T::Acc,
    a: *const T,
    b: *const T,
    shape: &DotShape,
) {
    let &DotShape { m, n, k, .. } = shape;
    let panels = shape.scratch.cast::<T::Acc>();
    let group = PANEL_BYTES / size_of::<T::Acc>() / DEPTH / NR * NR;
    let in_place = is_accumulator::<T>()
        && !I::COMPACT
        && shape.b_column == 1
        && m < PACKED_SLIVERS * MR
        && fits_cache::<T>(k, shape.b_row);
    for k0 in (0..k).step_by(DEPTH) {
        let depth = DEPTH.min(k - k0);
        for j0 in (0..n).step_by(group) {
            let columns = group.min(n - j0);
            // SAFETY: all offsets are inside the matrices, whose extents the caller vouches for;
            // `columns` fit the panels. A matrix is read where it is only if its elements are
            // accumulators.
            unsafe {
                let a = a.offset(k0 as isize * shape.a_column);
                let b = b.offset(k0 as isize * shape.b_row + j0 as isize * shape.b_column);
                let whole = if in_place { columns / NR * NR } else { 0 };
                // A single row is done as far as its tiles go, which are wider than panels.
                let done = if m == 1 && has_row_tiles::<T>() { whole / WIDE * WIDE } else { 0 };
                if done > 0 {
                    multiply_row::<I, T, WIDE>(c.add(j0), a, b, shape, depth, done);
                }
                let (c, b) = (c.add(j0 + done), b.offset(done as isize * shape.b_column));
                let (columns, whole) = (columns - done, whole - done);
                pack_panels::<I, T, NR>(panels, b, shape, depth, whole..columns);
                let panel = |j: usize| {
                    if j < whole {
                        (b.add(j).cast::<T::Acc>(), shape.b_row)
                    } else {
                        (panels.add(j * depth).cast_const(), NR as isize)
                    }
                };
                multiply_block::<I, T, MR, NR>(c, a, shape, depth, columns, panel);
            }
        }
    }
}

/// Multiplies a single row by columns that are read where they are, `WIDE` at a time: the sums of
/// one panel alone would wait for each other, and other rows of the tile be thrown away.
///
/// # Safety
/// As for [`multiply_block`]; the elements of `b` are accumulators and adjacent, and `columns` is a
/// multiple of `WIDE`.
#[inline(always)]
unsafe fn multiply_row<I: IsaProfile, T: Accumulate<Acc: Number>, const WIDE: usize>(
    c: *mut T::Acc,
    a: *const T,
    b: *const T,
    shape: &DotShape,
    depth: usize,
    columns: usize,
) {
    let mut packed = MaybeUninit::<[T::Acc; DEPTH]>::uninit();
    let sliver = packed.as_mut_ptr().cast::<T::Acc>();
    // SAFETY: `depth` columns are within the row; the tiles are within `c`.
    unsafe {
        pack_row::<I, T>(sliver, a, shape.a_column, depth);
        let multiply = RegisterTile::<T::Acc, 1, WIDE>::at(I::ISA);
        for j in (0..columns).step_by(WIDE) {
            multiply(c.add(j).cast(), shape.c_row, sliver.cast(), b.add(j).cast(), shape.b_row, depth);
        }
    }
}

/// Whether single rows have register tiles of their own. For f32 alone, with which vectors are
/// multiplied: those of all types are 20 KB of code.
fn has_row_tiles<T: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<f32>()
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

/// Multiplies `depth` columns of all rows of `a` by the panels of `columns` columns of `b`. `panel`
/// gives, for the first column of one, its first element and the distance of its rows.
///
/// # Safety
/// `a`, the panels and `c` are valid for these elements.
#[inline(always)]
unsafe fn multiply_block<I: IsaProfile, T: Accumulate<Acc: Number>, const MR: usize, const NR: usize>(
    c: *mut T::Acc,
    a: *const T,
    shape: &DotShape,
    depth: usize,
    columns: usize,
    panel: impl Fn(usize) -> (*const T::Acc, isize),
) {
    let mut i0 = 0;
    while i0 < shape.m {
        let rows = MR.min(shape.m - i0);
        // SAFETY: rows from `i0` are within the matrices, and so are those of the next sliver.
        unsafe {
            if shape.a_column == 1 && !I::COMPACT {
                for next in i0 + rows..shape.m.min(i0 + rows + MR) {
                    prefetch(a.offset(next as isize * shape.a_row), depth);
                }
            }
            let (c, a) = (c.offset(i0 as isize * shape.c_row), a.offset(i0 as isize * shape.a_row));
            if rows <= FEW_ROWS && !I::COMPACT {
                multiply_rows::<I, T, FEW_ROWS, NR>(c, a, shape, rows, depth, columns, &panel);
            } else {
                multiply_rows::<I, T, MR, NR>(c, a, shape, rows, depth, columns, &panel);
            }
        }
        i0 += rows;
    }
}

/// Multiplies the first `rows` rows, as one sliver.
///
/// # Safety
/// As for [`multiply_block`]; `rows` is from 1 to `MR`.
#[inline(always)]
unsafe fn multiply_rows<I: IsaProfile, T: Accumulate<Acc: Number>, const MR: usize, const NR: usize>(
    c: *mut T::Acc,
    a: *const T,
    shape: &DotShape,
    rows: usize,
    depth: usize,
    columns: usize,
    panel: &impl Fn(usize) -> (*const T::Acc, isize),
) {
    let mut packed = MaybeUninit::<[[T::Acc; DEPTH]; MR]>::uninit();
    let sliver = packed.as_mut_ptr().cast::<T::Acc>();
    // SAFETY: `depth` columns are within the matrix; the tile's rows and columns are within `c`.
    unsafe {
        for i in 0..MR {
            // A missing row repeats the last one; its results are dropped.
            let row = a.offset(i.min(rows - 1) as isize * shape.a_row);
            pack_row::<I, T>(sliver.add(i * DEPTH), row, shape.a_column, depth);
        }
        let multiply = RegisterTile::<T::Acc, MR, NR>::at(I::ISA);
        for j in (0..columns).step_by(NR) {
            let (panel, stride) = panel(j);
            let width = NR.min(columns - j);
            if rows == MR && width == NR {
                multiply(c.add(j).cast(), shape.c_row, sliver.cast(), panel.cast(), stride, depth);
                continue;
            }
            // What is beyond the matrix goes into a tile of its own.
            let mut tile = [[T::Acc::ZERO; NR]; MR];
            multiply(tile.as_mut_ptr().cast(), NR as isize, sliver.cast(), panel.cast(), stride, depth);
            for (i, row) in tile.iter().enumerate().take(rows) {
                let c = std::slice::from_raw_parts_mut(c.offset(i as isize * shape.c_row).add(j), width);
                for (c, x) in c.iter_mut().zip(row) {
                    *c = c.add(*x);
                }
            }
        }
    }
}

/// Packs `depth` rows of some columns of `b` as panels of `NR` columns, each of which is contiguous
/// and padded with zeros.
///
/// # Safety
/// `b` is valid for these elements, `panels` for the padded ones.
#[inline(always)]
unsafe fn pack_panels<I: IsaProfile, T: Accumulate<Acc: Number>, const NR: usize>(
    panels: *mut T::Acc,
    b: *const T,
    shape: &DotShape,
    depth: usize,
    columns: Range<usize>,
) {
    // Rows of adjacent elements are read from end to end; what does not fill a panel or is not
    // adjacent, panel by panel.
    let adjacent = if shape.b_column == 1 && !I::COMPACT { columns.len() / NR * NR } else { 0 };
    let by_panel = columns.start + adjacent..columns.end;
    if adjacent > 0 {
        for p in 0..depth {
            // SAFETY: row `p` has these columns and each panel a row `p` of `NR` elements.
            unsafe {
                let row = b.offset(p as isize * shape.b_row);
                if p + ROWS_AHEAD < depth {
                    prefetch(row.offset(ROWS_AHEAD as isize * shape.b_row).add(columns.start), adjacent);
                }
                for j in (columns.start..by_panel.start).step_by(NR) {
                    pack_row::<I, T>(panels.add(j * depth + p * NR), row.add(j), 1, NR);
                }
            }
        }
    }
    for j in by_panel.clone().step_by(NR) {
        let width = NR.min(by_panel.end - j);
        // SAFETY: the panel is `depth` rows of `NR` elements, all of which are set; reads stay
        // within `width` columns.
        unsafe {
            let panel = panels.add(j * depth);
            let b = b.offset(j as isize * shape.b_column);
            // Blocks of a transposed matrix are transposed in registers; the rest goes one by one.
            let fits = !I::COMPACT && NR.is_multiple_of(BLOCK) && is_accumulator::<T>();
            let turns = fits && shape.b_row == 1 && width == NR;
            let blocks = if turns { depth / BLOCK * BLOCK } else { 0 };
            for p in (0..blocks).step_by(BLOCK) {
                for column in (0..NR).step_by(BLOCK) {
                    let from = b.offset(p as isize + column as isize * shape.b_column).cast::<T::Acc>();
                    transpose_block(panel.add(p * NR + column), NR as isize, from, shape.b_column);
                }
            }
            for column in 0..NR {
                for p in blocks..depth {
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

/// How many rows ahead a row of `b` is asked for.
const ROWS_AHEAD: usize = 8;

/// Asks for `len` adjacent elements, which will be packed soon.
#[inline(always)]
fn prefetch<T>(from: *const T, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..len * size_of::<T>()).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast::<i8>().wrapping_add(line)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, len);
}

/// Packs `len` elements that are `stride` apart.
///
/// # Safety
/// `from` is valid for these elements, `to` for `len` adjacent ones.
#[inline(always)]
unsafe fn pack_row<I: IsaProfile, T: Accumulate>(to: *mut T::Acc, from: *const T, stride: isize, len: usize) {
    // SAFETY: the caller's. Every bit pattern is a valid element, so that stale memory may be
    // borrowed.
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

/// A register tile of `MR` × `NR` accumulators. It is a function of its own, whose loops over the
/// tile all have constant bounds: inlined where some have not, or with iterators in their place,
/// LLVM keeps the tile in memory, at a third to a fifteenth of the speed.
struct RegisterTile<A, const MR: usize, const NR: usize>(PhantomData<A>);

impl<A: Number, const MR: usize, const NR: usize> RegisterTileLoop for RegisterTile<A, MR, NR> {
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn run<I: IsaProfile>(
        c: *mut u8,
        c_row: isize,
        sliver: *const u8,
        panel: *const u8,
        stride: isize,
        depth: usize,
    ) {
        let (c, sliver, panel) = (c.cast::<A>(), sliver.cast::<A>(), panel.cast::<A>());
        let mut tile = [[A::ZERO; NR]; MR];
        for p in 0..depth {
            // SAFETY: `p < depth`.
            unsafe {
                let row = &*panel.offset(p as isize * stride).cast::<[A; NR]>();
                for i in 0..MR {
                    let x = sliver.add(i * DEPTH + p).read();
                    for j in 0..NR {
                        tile[i][j] = x.mul_add_fast::<I>(row[j], tile[i][j]);
                    }
                }
            }
        }
        for i in 0..MR {
            // SAFETY: the caller passed row `i` of `c`.
            let c = unsafe { &mut *c.offset(i as isize * c_row).cast::<[A; NR]>() };
            for j in 0..NR {
                c[j] = c[j].add(tile[i][j]);
            }
        }
    }
}

/// The primitive for a matrix product, for numbers.
pub(crate) fn lookup(isa: Isa, scalar: Scalar) -> Option<DotFn> {
    Some(match scalar {
        Scalar::Bool | Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => {
            return None;
        }
        Scalar::I32 | Scalar::U32 => ProductLoop::<u32>::at(isa),
        Scalar::I64 | Scalar::U64 => ProductLoop::<u64>::at(isa),
        Scalar::F16 => ProductLoop::<f16>::at(isa),
        Scalar::BF16 => ProductLoop::<bf16>::at(isa),
        Scalar::F32 => ProductLoop::<f32>::at(isa),
        Scalar::F64 => ProductLoop::<f64>::at(isa),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// c + a b of f32, of elements that are not adjacent for some strides, against f64.
    fn compare(isa: Isa, [m, n, k]: [usize; 3], b_row: usize) {
        let of = |len: usize, seed: usize| -> Vec<f32> {
            (0..len).map(|i| ((i * 31 + seed * 17) % 97) as f32 / 48.0 - 1.0).collect()
        };
        let (a, b, before) = (of(m * k, 1), of(k * b_row, 2), of(m * n, 3));
        let mut c = before.clone();
        let mut scratch = vec![0f32; DotShape::scratch_bytes(n, k, 4) / 4];
        let shape = DotShape {
            m,
            n,
            k,
            c_row: n as isize,
            a_row: k as isize,
            a_column: 1,
            b_row: b_row as isize,
            b_column: 1,
            scratch: scratch.as_mut_ptr().cast(),
        };
        let Some(dot) = lookup(isa, Scalar::F32) else { panic!("there are products of f32") };
        // SAFETY: the matrices have these extents, and the scratch memory is as large as asked for.
        unsafe { dot(c.as_mut_ptr().cast(), a.as_ptr().cast(), b.as_ptr().cast(), &shape) };
        for (i, (&given, &before)) in c.iter().zip(&before).enumerate() {
            let (row, column) = (i / n, i % n);
            let terms = (0..k).map(|p| f64::from(a[row * k + p]) * f64::from(b[p * b_row + column]));
            let expected = f64::from(before) + terms.sum::<f64>();
            let bound = 1e-5 * (1.0 + k as f64).sqrt();
            assert!(
                (f64::from(given) - expected).abs() <= bound,
                "{isa:?}, {m}x{n}x{k}, element {i}: {given}, expected {expected}"
            );
        }
    }

    #[test]
    fn rows_one_by_one_and_several() {
        for isa in Isa::available() {
            for m in [1, 2, 7] {
                for n in [1, 15, 16, 63, 64, 65, 130, 200, 300] {
                    for k in [0, 1, 31, 256, 300] {
                        compare(isa, [m, n, k], n);
                        compare(isa, [m, n, k], n + 5);
                    }
                }
            }
        }
    }
}
