//! Eigenvalues of symmetric matrices, and singular values, by Jacobi's rotations.
//!
//! A rotation of two columns makes them orthogonal; sweeps over all pairs make all of them so, and
//! then they are the left singular vectors times the singular values, while the product of the
//! rotations has the right ones. Where a column has no direction, because the singular value is
//! zero, reflections complete the left ones.

use super::join::concatenate;
use super::matrices::{MOST_ROWS, long_matrices, square, transposed};
use super::tall::{reflected_columns, tall_qr};
use crate::custom_kernel::kernel_of_parts;
use crate::dtype::mean_of;
use crate::error::Site;
use crate::grad::custom_vjp;
use crate::jacobi::{self, Sweeps};
use crate::node::Array;
use crate::shape::count;
use kiln_ir::Scalar;
use std::panic::Location;

impl Array {
    /// The eigenvalues of symmetric matrices, from the least to the greatest, and as columns their
    /// eigenvectors, which are orthonormal, as NumPy's `linalg.eigh`.
    ///
    /// A is taken as the mean of itself and its transpose, so that gradients are symmetric. 16-bit
    /// floats are computed in f32. Errors of eigenvalues are a few units in the last place of the
    /// greatest. Which of its two directions an eigenvector has is not said.
    ///
    /// Gradients (Giles, "Collected matrix derivative results", 2008) of eigenvectors are there
    /// where eigenvalues differ. Vectors of equal ones may be any basis of their space; the part of
    /// a gradient that turns them among each other is left out.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[2.0f64, 1.0, 1.0, 2.0], &[2, 2]);
    /// let (values, vectors) = a.eigh();
    /// assert!((&values - Array::new(&device, &[1.0f64, 3.0], &[2])).abs().max().item::<f64>()? < 1e-12);
    /// let far = a.matmul(&vectors) - &vectors * values.unsqueeze(0);
    /// assert!(far.abs().max().item::<f64>()? < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// Both have an error if the last two axes are not equal, or longer than 128.
    #[doc(alias = "eigenvalues")]
    #[track_caller]
    pub fn eigh(&self) -> (Array, Array) {
        let site = Location::caller();
        match square("eigh", self, site) {
            Ok(a) => {
                let (both, dtype, last) = (eigh(&a, site), mean_of(self.dtype()), a.rank() - 1);
                let n = a.shape()[last];
                let values = both.part(last - 1, 0, 1, 1, site);
                let values = values.reshaped(&a.shape()[..last], site);
                (values.cast_at(dtype, site), both.part(last - 1, 1, n, 1, site).cast_at(dtype, site))
            }
            Err(error) => (Array::failed(error.clone(), site), Array::failed(error, site)),
        }
    }

    /// The singular value decomposition of matrices `[.., m, n]`: with k as the lesser of m and n,
    /// U `[.., m, k]` of orthonormal columns, the singular values `[.., k]` from the greatest to
    /// the least, and Vᵀ `[.., k, n]` of orthonormal rows. A is U times the values times Vᵀ, as in
    /// NumPy's `linalg.svd` without full matrices.
    ///
    /// 16-bit floats are computed in f32. Gradients (Townsend, "Differentiating the singular value
    /// decomposition", 2016) are those of [`eigh`](Self::eigh): vectors have them where singular
    /// values differ and are not zero.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[3.0f64, 0.0, 4.0, 5.0, 0.0, 0.0], &[3, 2]);
    /// let (u, s, vt) = a.svd();
    /// let product = (&u * s.unsqueeze(0)).matmul(&vt);
    /// assert!((product - &a).abs().max().item::<f64>()? < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// All have an error if there are fewer than two axes, or if rows and columns both are more
    /// than 128.
    #[track_caller]
    pub fn svd(&self) -> (Array, Array, Array) {
        let site = Location::caller();
        let (a, dtype) = match long_matrices("svd", self, site) {
            Ok(a) => (a, mean_of(self.dtype())),
            Err(error) => {
                let failed = || Array::failed(error.clone(), site);
                return (failed(), failed(), failed());
            }
        };
        let (u, s, v) = svd_of(&a, site);
        (u.cast_at(dtype, site), s.cast_at(dtype, site), transposed(&v).cast_at(dtype, site))
    }
}

/// U, the singular values and V of matrices of f32 or f64.
pub(super) fn svd_of(a: &Array, site: Site) -> (Array, Array, Array) {
    let (rank, last) = (a.rank(), a.rank() - 1);
    let (m, n) = (a.shape()[last - 1], a.shape()[last]);
    if m < n {
        let (v, s, u) = svd_of(&transposed(a), site);
        return (u, s, v);
    }
    let all = svd(a, site);
    let part = |from: usize, count: usize| all.part(rank - 2, from, count, 1, site);
    let mut of_values = a.shape()[..last].to_vec();
    of_values[last - 1] = n;
    (part(0, m), part(m, 1).reshaped(&of_values, site), part(m + 1, n))
}

/// The distance of 1 to the next number.
pub(super) fn epsilon(dtype: Scalar) -> f64 {
    if dtype == Scalar::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// Rows of matrices, of which the first `height` elements of each become orthogonal, by so many
/// sweeps.
fn orthogonal(rows: &Array, height: usize, sweeps: usize, site: Site) -> Array {
    let [matrices, count, width] = [0, 1, 2].map(|axis| rows.shape()[axis]);
    let odd = count % 2 == 1;
    let even = if odd { rows.pad(&[(0, 0), (1, 0), (0, 0)]) } else { rows.clone() };
    let of = (rows.dtype(), &[matrices, count + usize::from(odd), width][..]);
    let settings = Sweeps { count: sweeps, height, odd };
    let all = kernel_of_parts(&[&even], of, settings, site, |&sweeps, inputs, result| {
        jacobi::rotate(sweeps, &inputs[0], result)
    });
    all.part(1, usize::from(odd), count, 1, site)
}

/// Eigenvalues and below them the eigenvectors `[.., n + 1, n]`, with a rule for gradients: with g
/// those of the values and G those of the vectors, V (diag(g) + F ∘ Vᵀ G) Vᵀ, where F is the
/// inverse of the difference of two eigenvalues.
fn eigh(a: &Array, site: Site) -> Array {
    let n = a.shape()[a.rank() - 1];
    if a.is_empty() {
        return with_rows_more(a, 1, site);
    }
    let symmetric = (a + transposed(a)) * 0.5;
    custom_vjp(
        &[&symmetric],
        move |of| decomposed_symmetric(&of[0], site),
        move |_, y, g| {
            let axis = y.rank() - 2;
            let [(values, v), (of_values, of_v)] =
                [y, g].map(|both| (both.part(axis, 0, 1, 1, site), both.part(axis, 1, n, 1, site)));
            let apart = inverse_or_zero(&(&values - transposed(&values)));
            let inner = transposed(&v).matmul(&of_v) * apart;
            let Some(device) = y.device() else { return vec![y.clone()] };
            let inner = inner + Array::eye(device, y.dtype(), n) * of_values;
            let all = v.matmul(&inner).matmul(&transposed(&v));
            vec![(&all + transposed(&all)) * 0.5]
        },
    )
}

/// The sweeps that are enough for so many rows of a matrix. They converge quadratically in the end:
/// in a model of them in NumPy, random matrices of 128 rows needed 11.
fn sweeps(rows: usize) -> usize {
    7 + logarithm(rows)
}

/// Those of a matrix that is shifted. Where many eigenvalues are near zero, as Hilbert's and ones
/// with eigenvalues of all magnitudes have them, they are near each other then, and each sweep
/// brings about a digit: 128 rows needed 24 there in f64.
fn sweeps_of_shifted(rows: usize, dtype: Scalar) -> usize {
    let factor = if dtype == Scalar::F64 { 4 } else { 3 };
    (factor * logarithm(rows)).saturating_sub(2).max(8)
}

fn logarithm(rows: usize) -> usize {
    rows.next_power_of_two().ilog2() as usize
}

/// 1 / x, and zero for zero.
fn inverse_or_zero(x: &Array) -> Array {
    let is_zero = x.equal(0.0);
    let some = x.filled_like(kiln_ir::Literal::one(x.dtype()), x.site()).where_(&is_zero, x);
    let inverse: Array = 1.0 / some;
    inverse.where_(&!is_zero, 0.0)
}

/// Nothing, with so many rows more.
fn with_rows_more(a: &Array, rows: usize, site: Site) -> Array {
    let Some(device) = a.device() else { return a.clone() };
    let mut shape = a.shape().to_vec();
    shape[a.rank() - 2] += rows;
    let none = Array::zeros(device, a.dtype(), &shape);
    none.reshaped(&shape, site)
}

/// A shifted by a bound of its eigenvalues has no negative ones. Its singular vectors are A's
/// eigenvectors then.
fn decomposed_symmetric(a: &Array, site: Site) -> Array {
    let n = a.shape()[a.rank() - 1];
    let Some(device) = a.device() else { return a.clone() };
    let flat = a.reshaped(&[count(a.shape()) / (n * n), n, n], site);
    let bound = flat.abs().sum_keep(&[2]).max_keep(&[1]);
    let bound = bound.where_(&bound.greater(0.0), 1.0);
    let flat = flat / &bound;
    let eye = Array::eye(device, a.dtype(), n);
    let rows = concatenate(&[&(&flat + &eye), &eye.stretched(flat.shape(), site)], 2);
    let v = orthogonal(&rows, n, sweeps_of_shifted(n, a.dtype()), site).part(2, n, n, 1, site);
    let values = (v.matmul(&flat) * &v).sum_axes(&[2]) * bound.reshaped(&[flat.shape()[0], 1], site);
    let order = values.argsort(1);
    let values = values.take_along(&order, 1).unsqueeze(1);
    let v = v.take_along(&order.unsqueeze(2), 1);
    let mut shape = a.shape().to_vec();
    shape[a.rank() - 2] += 1;
    concatenate(&[&values, &transposed(&v)], 1).reshaped(&shape, site)
}

/// U, below it the singular values, and below those V, `[.., m + 1 + n, n]`, of matrices of at
/// least as many rows as columns, with a rule for gradients.
fn svd(a: &Array, site: Site) -> Array {
    let n = a.shape()[a.rank() - 1];
    if a.is_empty() {
        // Of no columns there is nothing; of no rows there are none either.
        return with_rows_more(a, n + 1, site);
    }
    custom_vjp(&[a], move |of| decomposed(&of[0], site), move |_, y, g| vec![svd_gradient(y, g, n, site)])
}

fn decomposed(a: &Array, site: Site) -> Array {
    let (rank, last) = (a.rank(), a.rank() - 1);
    let (m, n) = (a.shape()[last - 1], a.shape()[last]);
    let Some(device) = a.device() else { return a.clone() };
    let flat = a.reshaped(&[count(a.shape()) / (m * n), m, n], site);
    let matrices = flat.shape()[0];
    // Of numbers near 1, whose squares are no overflow.
    let scale = flat.abs().max_keep(&[1, 2]);
    let some = scale.where_(&scale.greater(0.0), 1.0);
    let mut shape = a.shape().to_vec();
    shape[rank - 2] += n + 1;
    if m > MOST_ROWS {
        // Q U, the values and V, of R's U, values and V.
        let (q, r) = tall_qr(&(&flat / some), site);
        let of_r = decomposed(&r, site);
        let u = q.matmul(&of_r.part(1, 0, n, 1, site));
        let values = of_r.part(1, n, 1, 1, site) * scale;
        return concatenate(&[&u, &values, &of_r.part(1, n + 1, n, 1, site)], 1).reshaped(&shape, site);
    }
    let unit = Array::eye(device, a.dtype(), n).stretched(&[matrices, n, n], site);
    let rows = concatenate(&[&transposed(&(&flat / some)), &unit], 2);
    let rows = orthogonal(&rows, m, sweeps(n), site);
    let values = rows.part(2, 0, m, 1, site).square().sum_axes(&[2]).sqrt();
    let order = (-&values).argsort(1);
    let values = values.take_along(&order, 1);
    let rows = rows.take_along(&order.unsqueeze(2), 1);
    let (w, v) = (rows.part(2, 0, m, 1, site), rows.part(2, m, n, 1, site));
    let least = values.part(1, 0, 1, 1, site) * (epsilon(a.dtype()) * m as f64);
    let is_column = values.greater(&least);
    let length = values.where_(&is_column, 1.0).unsqueeze(2);
    let w = (w / length).where_(&is_column.unsqueeze(2), 0.0);
    let all = reflected_columns(&w, site);
    let diagonal = all.part(1, 0, n, 1, site).diagonal().unsqueeze(1);
    let q = all.part(1, n, m, 1, site).part(2, 0, n, 1, site);
    let u = (-&q).where_(&diagonal.less(0.0), &q);
    let values = (values * scale.reshaped(&[matrices, 1], site)).unsqueeze(1);
    concatenate(&[&u, &values, &transposed(&v)], 1).reshaped(&shape, site)
}

/// The gradient of A, of those of U, the values and V: with F the inverse of the difference of two
/// squares of values,
///
/// ```text
/// U (F ∘ (Uᵀ gU - gUᵀ U) S + S F ∘ (Vᵀ gV - gVᵀ V) + gS) Vᵀ
///   + (I - U Uᵀ) gU S⁻¹ Vᵀ
/// ```
///
/// V is square here, so that nothing lies outside of its columns' space.
fn svd_gradient(y: &Array, g: &Array, n: usize, site: Site) -> Array {
    let (axis, m) = (y.rank() - 2, y.shape()[y.rank() - 2] - n - 1);
    let [(u, s, v), (of_u, of_s, of_v)] = [y, g].map(|all| {
        let part = |from: usize, count: usize| all.part(axis, from, count, 1, site);
        (part(0, m), part(m, 1), part(m + 1, n))
    });
    let Some(device) = y.device() else { return y.clone() };
    let squares = s.square();
    let f = inverse_or_zero(&(&squares - transposed(&squares)));
    let skew = |x: &Array, of_x: &Array| {
        let product = transposed(x).matmul(of_x);
        &product - transposed(&product)
    };
    let column = transposed(&s);
    let inner = (&f * skew(&u, &of_u)) * &s
        + column * (&f * skew(&v, &of_v))
        + Array::eye(device, y.dtype(), n) * of_s;
    let outside = &of_u - u.matmul(&transposed(&u).matmul(&of_u));
    (u.matmul(&inner) + outside * inverse_or_zero(&s)).matmul(&transposed(&v))
}
