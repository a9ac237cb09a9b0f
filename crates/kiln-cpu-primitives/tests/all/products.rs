//! Matrix products of every type and instruction set, with strides, against triple loops.

use super::{Random, Tile, primitive, reference, values};
use kiln_cpu_primitives::{DotShape, Isa, PrimitiveKey};
use kiln_ir::Scalar;

/// Sizes around the register tiles, panels and depth, and degenerate ones.
fn sizes() -> Vec<(usize, usize, usize)> {
    let mut sizes = vec![
        (0, 3, 2),
        (3, 0, 2),
        (3, 2, 0),
        (1, 1, 1),
        (1, 300, 1),
        (300, 1, 2),
        (6, 16, 128),
        (12, 32, 129),
    ];
    sizes.extend([(17, 33, 5), (64, 64, 64), (13, 70, 257), (7, 9, 300), (5, 129, 40), (2, 2, 1000)]);
    sizes.extend((1..20).map(|n| (n, 20 - n, n)));
    sizes
}

/// A shape whose operands are row-major or transposed, with gaps between rows.
fn shape((m, n, k): (usize, usize, usize), a_transposed: bool, b_transposed: bool, gap: usize) -> DotShape {
    let strides = |rows: usize, columns: usize, transposed: bool| {
        if transposed { (1, (rows + gap) as isize) } else { ((columns + gap) as isize, 1) }
    };
    let ((a_row, a_column), (b_row, b_column)) = (strides(m, k, a_transposed), strides(k, n, b_transposed));
    DotShape {
        m,
        n,
        k,
        a_row,
        a_column,
        b_row,
        b_column,
        c_row: (n + gap).max(1) as isize,
        scratch: std::ptr::null_mut(),
    }
}

/// Operands: small numbers for floats, any bits for integers.
fn operand(scalar: Scalar, n: usize, seed: u64) -> Tile {
    if scalar.is_int() {
        return Tile::new(scalar, &values(scalar, n, seed));
    }
    let mut random = Random(seed);
    Tile::of(scalar, &(0..n).map(|_| random.below(2001) as f64 / 1000.0 - 1.0).collect::<Vec<_>>())
}

fn check(isa: Isa, scalar: Scalar, mut shape: DotShape) {
    let DotShape { m, n, k, a_row, a_column, b_row, b_column, c_row, .. } = shape;
    let f = primitive!(isa, Dot, PrimitiveKey::Dot(scalar));
    let room = |rows: usize, columns: usize, row: isize, column: isize| {
        rows.saturating_sub(1) * row as usize + columns.saturating_sub(1) * column as usize + 1
    };
    let (a, b) =
        (operand(scalar, room(m, k, a_row, a_column), 1), operand(scalar, room(k, n, b_row, b_column), 2));
    let acc = scalar.accumulator();
    let mut c = operand(acc, room(m, n, c_row, 1), 3);
    let before = c.elements();
    let words = DotShape::scratch_bytes(n, k, acc.bytes() as usize) / 8;
    let mut scratch = vec![u64::MAX; words + 1];
    shape.scratch = scratch.as_mut_ptr().cast();
    // SAFETY: the tiles have room for the strided matrices, and the scratch memory is as large as
    // the shape asks.
    unsafe { f(c.mut_ptr(), a.ptr(), b.ptr(), &shape) };
    assert_eq!(scratch[words], u64::MAX, "{isa:?} {scalar} {shape:?}: beyond the scratch memory");

    let (a_bits, b_bits, c_bits) = (a.elements(), b.elements(), c.elements());
    let (a, b, before_numbers, c) =
        (a.numbers(), b.numbers(), Tile::new(acc, &before).numbers(), c.numbers());
    let epsilon = if acc == Scalar::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    for place in 0..c.len() {
        let (i, j) = (place / c_row as usize, place % c_row as usize);
        if i >= m || j >= n {
            assert_eq!(c_bits[place], before[place], "{isa:?} {scalar} {shape:?}: the gap at {i}, {j}");
            continue;
        }
        let at = |p: usize| {
            (
                (i as isize * a_row + p as isize * a_column) as usize,
                (p as isize * b_row + j as isize * b_column) as usize,
            )
        };
        if scalar.is_int() {
            let product = |p: usize| a_bits[at(p).0].wrapping_mul(b_bits[at(p).1]);
            let sum = (0..k).fold(before[place], |sum, p| sum.wrapping_add(product(p)));
            assert_eq!(
                c_bits[place],
                reference::truncate(scalar, sum),
                "{isa:?} {scalar} {shape:?} at {i}, {j}"
            );
        } else {
            let product = |p: usize| a[at(p).0] * b[at(p).1];
            let sum = (0..k).fold(before_numbers[place], |sum, p| sum + product(p));
            let size = (0..k).fold(before_numbers[place].abs(), |sum, p| sum + product(p).abs());
            let error = (c[place] - sum).abs();
            assert!(
                error <= 2.0 * (k + 2) as f64 * epsilon * size,
                "{isa:?} {scalar} {shape:?} at {i}, {j}: {} and {sum}",
                c[place]
            );
        }
    }
}

#[test]
fn products() {
    for isa in Isa::available() {
        for scalar in Scalar::COMPUTED.into_iter().filter(|&s| s != Scalar::Bool) {
            for (which, size) in sizes().into_iter().enumerate() {
                check(isa, scalar, shape(size, which % 2 == 1, which % 4 >= 2, which % 3));
                check(isa, scalar, shape(size, false, false, 0));
            }
        }
    }
}

/// Enough rows that panels are packed, more columns than are packed at a time, more than one block
/// of depth.
#[test]
fn products_of_many_panels() {
    for isa in Isa::available() {
        for scalar in [Scalar::F32, Scalar::BF16, Scalar::F64] {
            for (a_transposed, b_transposed) in [(false, false), (true, false), (false, true), (true, true)] {
                check(isa, scalar, shape((100, 165, 263), a_transposed, b_transposed, 1));
            }
        }
    }
}

#[test]
fn non_finite_elements_stay_in_their_row_and_column() {
    // Padding multiplies zeros: none of its NaN may reach a result.
    for isa in Isa::available() {
        let f = primitive!(isa, Dot, PrimitiveKey::Dot(Scalar::F32));
        let (m, n, k) = (5, 7, 3);
        let mut a = vec![1.0f32; m * k];
        let mut b = vec![1.0f32; k * n];
        (a[k], b[2]) = (f32::INFINITY, f32::NAN);
        let mut c = vec![0.0f32; m * n];
        let mut scratch = [0u64; DotShape::scratch_bytes(7, 3, 4) / 8];
        let shape = DotShape { scratch: scratch.as_mut_ptr().cast(), ..shape((m, n, k), false, false, 0) };
        // SAFETY: the matrices are contiguous and of these extents.
        unsafe { f(c.as_mut_ptr().cast(), a.as_ptr().cast(), b.as_ptr().cast(), &shape) };
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let x = c[i * n + j];
            let expected = if j == 2 {
                f32::NAN
            } else if i == 1 {
                f32::INFINITY
            } else {
                3.0
            };
            assert!(x == expected || (x.is_nan() && expected.is_nan()), "{isa:?} at {i}, {j}: {x}");
        }
    }
}
