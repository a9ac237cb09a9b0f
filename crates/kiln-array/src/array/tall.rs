//! Matrices of many rows and few columns.

use super::join::concatenate;
use super::matrices::{transposed, triangle};
use crate::custom_kernel::kernel_of_parts;
use crate::error::Site;
use crate::jacobi;
use crate::node::Array;

/// The most rows of a part: a row of its transpose, and of the unit matrix beside it, is a tile.
const MOST_PART_ROWS: usize = 256;

/// Q `[matrices, m, n]` with orthonormal columns and R `[matrices, n, n]`, upper triangular, with Q
/// R = A, of matrices `[matrices, m, n]` of at most 128 columns, however many rows there are.
///
/// Reflections make triangles of parts of the rows, side by side, and what is left are matrices of
/// these triangles one below the other, of fewer rows (TSQR: Demmel, Grigori, Hoemmen and Langou,
/// "Communication-optimal parallel and sequential QR and LU factorizations", 2012). Elements are
/// near 1 or less, so that squares are no overflow.
pub(super) fn tall_qr(a: &Array, site: Site) -> (Array, Array) {
    let [matrices, m, n] = [0, 1, 2].map(|axis| a.shape()[axis]);
    // A quarter of the rows is left, or a half.
    let rows = (n * 4).next_power_of_two().min(MOST_PART_ROWS);
    let parts = m.div_ceil(rows);
    let padded = a.pad(&[(0, 0), (0, parts * rows - m), (0, 0)]);
    let (q, r) = part_qr(&padded.reshaped(&[matrices * parts, rows, n], site), site);
    let whole = |q: Array| q.reshaped(&[matrices, parts * rows, n], site).part(1, 0, m, 1, site);
    if parts == 1 {
        return (whole(q), r);
    }
    let (of_parts, r) = tall_qr(&r.reshaped(&[matrices, parts * n, n], site), site);
    let of_parts = of_parts.reshaped(&[matrices * parts, n, n], site);
    (whole(q.matmul(&of_parts)), r)
}

/// The same of matrices of at least as many rows as columns, each at once.
fn part_qr(a: &Array, site: Site) -> (Array, Array) {
    let (m, n) = (a.shape()[1], a.shape()[2]);
    let all = reflected_columns(&transposed(a), site);
    let corner = |from: usize, count: usize| all.part(1, from, count, 1, site).part(2, 0, n, 1, site);
    (corner(n, m), triangle(&transposed(&corner(0, n)), false))
}

/// The reflections that make a triangle of columns, applied to them and to the rows of I, which
/// become those of Q: of `[matrices, n, m]`, a row for each column, `[matrices, n + m, m]`.
pub(super) fn reflected_columns(columns: &Array, site: Site) -> Array {
    let [matrices, n, m] = [0, 1, 2].map(|axis| columns.shape()[axis]);
    let Some(device) = columns.device() else { return columns.clone() };
    let unit = Array::eye(device, columns.dtype(), m).stretched(&[matrices, m, m], site);
    let of = (columns.dtype(), &[matrices, n + m, m][..]);
    kernel_of_parts(&[&concatenate(&[columns, &unit], 1)], of, n, site, |&steps, inputs, result| {
        jacobi::reflect(steps, &inputs[0], result)
    })
}
