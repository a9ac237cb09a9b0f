//! Least squares, and numbers of matrices: determinants by their logarithms, and norms.

use super::matrices::{long_matrices, reflections, square, transposed};
use super::spectral::{epsilon, svd_of};
use crate::dtype::{accumulator, mean_of, promote};
use crate::error::{Error, Result, Site};
use crate::grad::custom_vjp;
use crate::node::{Array, common_device};
use std::panic::Location;

/// A norm of matrices.
///
/// ```
/// use kiln_array::{Array, MatrixNorm};
/// let device = kiln_runtime::Device::open("interp")?;
/// let a = Array::new(&device, &[3.0f64, 0.0, 0.0, -4.0], &[2, 2]);
/// assert_eq!(a.matrix_norm(MatrixNorm::Frobenius).item::<f64>()?, 5.0);
/// assert!((a.matrix_norm(MatrixNorm::Spectral).item::<f64>()? - 4.0).abs() < 1e-12);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatrixNorm {
    /// The root of the sum of all squares; NumPy's `"fro"`.
    Frobenius,
    /// The sum of the singular values; `"nuc"`.
    Nuclear,
    /// The greatest singular value; `2`.
    Spectral,
    /// The greatest sum of a column's absolute values; `1`.
    One,
    /// The greatest sum of a row's absolute values; `inf`.
    Infinity,
}

impl Array {
    /// The pseudo-inverse of matrices `[.., m, n]` (Moore and Penrose), `[.., n, m]`, as NumPy's
    /// `linalg.pinv`: by singular values, of which those below the greatest times the greater of m
    /// and n and the distance of 1 to the next number count as zero.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[1.0f64, 2.0, 2.0, 4.0], &[2, 2]); // of rank 1
    /// assert!((a.pinv() * 25.0 - &a).abs().max().item::<f64>()? < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`svd`](Self::svd). Its gradient (Golub and Pereyra, 1973) is that of matrices whose
    /// rank does not change.
    #[doc(alias = "pseudo_inverse")]
    #[track_caller]
    pub fn pinv(&self) -> Array {
        let site = Location::caller();
        let inverse = long_matrices("pinv", self, site).map(|a| pinv(&a, site));
        inverse.map_or_else(|error| Array::failed(error, site), |x| x.cast_at(mean_of(self.dtype()), site))
    }

    /// The X with the least squares of A X - B, and of these the one of the least squares, as
    /// NumPy's `linalg.lstsq`: B is a vector if it has one axis, else matrices, and the axes before
    /// those broadcast. It is the [`pinv`](Self::pinv) of A times B.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[1.0f64, 0.0, 1.0, 1.0, 1.0, 2.0], &[3, 2]);
    /// let line = a.lstsq(&Array::new(&device, &[1.0f64, 3.0, 5.0], &[3])).to_vec::<f64>()?;
    /// assert!((line[0] - 1.0).abs() < 1e-12 && (line[1] - 2.0).abs() < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`svd`](Self::svd), and if B has not as many rows as A.
    #[doc(alias = "least_squares")]
    #[track_caller]
    pub fn lstsq(&self, b: &Array) -> Array {
        let site = Location::caller();
        let solved = || -> Result<Array> {
            if let Some(error) = b.error() {
                return Err(error);
            }
            common_device(&[self, b], "lstsq", site)?;
            let dtype = mean_of(promote(self.dtype(), b.dtype()));
            let wide = accumulator(dtype);
            let a = long_matrices("lstsq", self, site)?.cast_at(wide, site);
            let rows_of_b = b.shape().len().checked_sub(2).map_or(b.shape().first(), |at| b.shape().get(at));
            if rows_of_b != Some(&a.shape()[a.rank() - 2]) {
                let problem = format!("matrices of shape {:?} and right sides of {:?}", a.shape(), b.shape());
                return Err(Error::Shape { op: "lstsq", problem, location: site });
            }
            Ok(pinv(&a, site).matmul(&b.cast_at(wide, site)).cast_at(dtype, site))
        };
        solved().unwrap_or_else(|error| Array::failed(error, site))
    }

    /// The signs of determinants, and the logarithms of their absolute values, as NumPy's
    /// `linalg.slogdet`: where a determinant itself would be too large or too small. Of a singular
    /// matrix they are 0 and -∞.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[0.0f64, 2.0, 3.0, 0.0], &[2, 2]);
    /// let (sign, logarithm) = a.slogdet();
    /// assert_eq!(sign.item::<f64>()?, -1.0);
    /// assert!((logarithm.item::<f64>()? - 6f64.ln()).abs() < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// Both have an error if the last two axes are not equal, or longer than 128.
    #[track_caller]
    pub fn slogdet(&self) -> (Array, Array) {
        let site = Location::caller();
        match square("slogdet", self, site) {
            Ok(a) => {
                let (sign, logarithm) = slogdet(&a, site);
                let dtype = mean_of(self.dtype());
                (sign.cast_at(dtype, site), logarithm.cast_at(dtype, site))
            }
            Err(error) => (Array::failed(error.clone(), site), Array::failed(error, site)),
        }
    }

    /// A norm of matrices, as the array API's `matrix_norm`. Those of singular values take matrices
    /// as of [`svd`](Self::svd).
    ///
    /// ```
    /// # use kiln_array::{Array, MatrixNorm};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[3.0f64, 0.0, 0.0, -4.0], &[2, 2]);
    /// assert_eq!(a.matrix_norm(MatrixNorm::Frobenius).item::<f64>()?, 5.0);
    /// assert_eq!(a.matrix_norm(MatrixNorm::Infinity).item::<f64>()?, 4.0);
    /// assert!((a.matrix_norm(MatrixNorm::Nuclear).item::<f64>()? - 7.0).abs() < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there are fewer than two axes; that of a maximum of no elements.
    #[doc(alias = "norm")]
    #[track_caller]
    pub fn matrix_norm(&self, norm: MatrixNorm) -> Array {
        let site = Location::caller();
        if self.error().is_none() && self.rank() < 2 {
            let problem = format!("shape {:?} has no rows and columns", self.shape());
            return Array::failed(Error::Shape { op: "matrix_norm", problem, location: site }, site);
        }
        if norm == MatrixNorm::Spectral && self.shape().iter().rev().take(2).any(|&extent| extent == 0) {
            let problem = format!("matrices of shape {:?} have no greatest singular value", self.shape());
            return Array::failed(Error::Shape { op: "matrix_norm", problem, location: site }, site);
        }
        let dtype = mean_of(self.dtype());
        let x = || self.cast_at(accumulator(dtype), site);
        let of = match norm {
            MatrixNorm::Frobenius => Ok(x().square().sum_axes(&[-2, -1]).sqrt()),
            MatrixNorm::One => Ok(x().abs().sum_axes(&[-2]).max_axes(&[-1])),
            MatrixNorm::Infinity => Ok(x().abs().sum_axes(&[-1]).max_axes(&[-1])),
            MatrixNorm::Nuclear | MatrixNorm::Spectral => long_matrices("matrix_norm", self, site).map(|a| {
                let (_, values, _) = svd_of(&a, site);
                if norm == MatrixNorm::Nuclear { values.sum_axes(&[-1]) } else { values.max_axes(&[-1]) }
            }),
        };
        of.map_or_else(|error| Array::failed(error, site), |x| x.cast_at(dtype, site))
    }
}

/// The pseudo-inverse P of A, with a rule for its gradient g:
/// -Pᵀ g Pᵀ + (I - A P) gᵀ P Pᵀ + Pᵀ P gᵀ (I - P A).
fn pinv(a: &Array, site: Site) -> Array {
    custom_vjp(
        &[a],
        move |of| {
            let a = &of[0];
            let (u, s, v) = svd_of(a, site);
            let longest = a.shape().iter().rev().take(2).max().copied().unwrap_or(0);
            // Of no values there is no greatest.
            let inverse = match s.is_empty() {
                true => s,
                false => {
                    let least = s.max_keep(&[-1]) * (epsilon(a.dtype()) * longest as f64);
                    let is_some = s.greater(&least);
                    let inverse: Array = 1.0 / s.where_(&is_some, 1.0);
                    inverse.where_(&is_some, 0.0)
                }
            };
            (v * inverse.unsqueeze(-2)).matmul(&transposed(&u))
        },
        |of, p, g| {
            let (a, of_p, pt) = (&of[0], transposed(g), transposed(p));
            let rows = product_of_three(&of_p, p, &pt);
            let columns = product_of_three(&pt, p, &of_p);
            let outside_rows = &rows - product_of_three(a, p, &rows);
            let outside_columns = &columns - product_of_three(&columns, p, a);
            vec![outside_rows + outside_columns - product_of_three(&pt, g, &pt)]
        },
    )
}

/// A B C, of A and C `[.., m, n]` and B `[.., n, m]`, by the product that is the smaller matrix: of
/// many rows and few columns the other would have the square of the rows.
fn product_of_three(a: &Array, b: &Array, c: &Array) -> Array {
    match a.shape() {
        [.., m, n] if m < n => a.matmul(b).matmul(c),
        _ => a.matmul(&b.matmul(c)),
    }
}

/// Of a triangle by reflections, of which each changes the sign.
fn slogdet(a: &Array, site: Site) -> (Array, Array) {
    let n = a.shape()[a.rank() - 1];
    if a.is_empty() {
        // The determinant of no rows is 1.
        let zero = a.sum_axes(&[-2, -1]);
        return (&zero + 1.0, zero);
    }
    let triangle = |a: &Array| reflections(a.clone(), n, n);
    let (r, sign) = triangle(&a.stop_gradient());
    let diagonal = r.diagonal();
    let signs = diagonal.sign().prod_axes(&[-1]);
    let sign = &signs * sign.reshaped(signs.shape(), site);
    let logarithm = custom_vjp(
        &[a],
        move |of| triangle(&of[0]).0.diagonal().abs().log().sum_axes(&[-1]),
        |of, _, g| vec![transposed(&of[0].inverse()) * g.unsqueeze(-1).unsqueeze(-1)],
    );
    (sign, logarithm)
}
