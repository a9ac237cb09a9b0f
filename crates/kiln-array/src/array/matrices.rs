//! Linear algebra of small matrices: decompositions, and systems of equations.
//!
//! Matrices are the last two axes; all axes before them count matrices. What is made of products is
//! recursive: a matrix is divided into blocks, down to a few rows that are written out as numbers.
//! Derivatives are rules of their own, which are made of the same functions, so that they have
//! derivatives too.

use super::join::concatenate;
use crate::dtype::{Kind, accumulator, kind, mean_of};
use crate::error::{Error, Result, Site};
use crate::grad::custom_vjp;
use crate::node::{Array, common_device};
use crate::shape::{self, Extents};
use kiln_ir::Literal;
use std::fmt;
use std::panic::Location;

/// The most rows and columns of a matrix: each is a step of the plan.
pub(super) const MOST_ROWS: usize = 128;

/// Rows of a block that is written out.
const WRITTEN_OUT: usize = 4;

impl Array {
    /// The lower triangular matrix L with positive diagonal and L Lᵀ = A, of symmetric positive
    /// definite matrices A, as NumPy's `linalg.cholesky`.
    ///
    /// A is taken as the mean of itself and its transpose, so that gradients are symmetric. Of a
    /// matrix that is not positive definite, elements are NaN. 16-bit floats are computed in f32.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[4.0f32, 2.0, 2.0, 10.0], &[2, 2]);
    /// assert_eq!(a.cholesky().to_vec::<f32>()?, [2.0, 0.0, 1.0, 3.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the last two axes are not equal, or longer than 128.
    #[track_caller]
    pub fn cholesky(&self) -> Array {
        let site = Location::caller();
        let of = |a: Array| {
            let symmetric = (&a + a.swap_axes(-1, -2)) * 0.5;
            custom_vjp(&[&symmetric], |of| cholesky(&of[0]), |_, l, g| vec![cholesky_gradient(l, g)])
        };
        match square("cholesky", self, site) {
            Ok(a) if a.is_empty() => a.cast_at(mean_of(self.dtype()), site),
            Ok(a) => of(a).cast_at(mean_of(self.dtype()), site),
            Err(error) => Array::failed(error, site),
        }
    }

    /// The X with A X = B, as NumPy's `linalg.solve`: B is a vector if it has one axis, else
    /// matrices, and the axes before those broadcast.
    ///
    /// It is computed by reflections (Householder's QR), which is as stable as elimination with
    /// pivots. Of a singular matrix elements are infinite or NaN. 16-bit floats are computed in
    /// f32.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[2.0f64, 1.0, 1.0, 3.0], &[2, 2]);
    /// let x = a.solve(&Array::new(&device, &[3.0f64, 5.0], &[2])).to_vec::<f64>()?;
    /// assert!((x[0] - 0.8).abs() < 1e-12 && (x[1] - 1.4).abs() < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the last two axes of A are not equal or longer than 128, or if B
    /// has not as many rows.
    #[track_caller]
    pub fn solve(&self, b: &Array) -> Array {
        let site = Location::caller();
        System::of("solve", self, b, site).map_or_else(|error| Array::failed(error, site), System::solved)
    }

    /// The X with T X = B, of triangular matrices T: lower ones, or upper ones. The other half of T
    /// is not read. Otherwise as [`solve`](Self::solve).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let t = Array::new(&device, &[2.0f32, 0.0, 1.0, 4.0], &[2, 2]);
    /// let x = t.solve_triangular(&Array::new(&device, &[2.0f32, 9.0], &[2]), true);
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_triangular(&self, b: &Array, lower: bool) -> Array {
        let site = Location::caller();
        let system = System::of("solve_triangular", self, b, site);
        system.map_or_else(|error| Array::failed(error, site), |system| system.solved_triangular(lower))
    }

    /// The inverse of matrices, as NumPy's `linalg.inv`. To multiply by it, [`solve`](Self::solve)
    /// is faster and more exact.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[2.0f64, 0.0, 1.0, 4.0], &[2, 2]);
    /// assert_eq!(x.inverse().to_vec::<f64>()?, [0.5, 0.0, -0.125, 0.25]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`solve`](Self::solve).
    #[track_caller]
    pub fn inverse(&self) -> Array {
        let site = Location::caller();
        let unit = || {
            let a = square("inverse", self, site)?;
            let len = a.shape()[a.rank() - 1];
            Ok(a.device().map_or_else(|| a.clone(), |device| Array::eye(device, a.dtype(), len)))
        };
        let inverse = unit().and_then(|unit| System::of("inverse", self, &unit, site)).map(System::solved);
        inverse.map_or_else(|error| Array::failed(error, site), |x| x.cast_at(mean_of(self.dtype()), site))
    }

    /// The determinant of matrices, as NumPy's `linalg.det`.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[1.0f64, 2.0, 3.0, 4.0], &[2, 2]);
    /// assert!((a.determinant().item::<f64>()? + 2.0).abs() < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the last two axes are not equal, or longer than 128. Its gradient
    /// is not there where a matrix is singular: it is infinite or NaN.
    #[track_caller]
    pub fn determinant(&self) -> Array {
        let site = Location::caller();
        let of = |a: Array| match a.shape() {
            [.., 0] => a.sum_axes(&[-2, -1]) + 1.0,
            _ if a.is_empty() => a.sum_axes(&[-2, -1]),
            _ => determinant(&a),
        };
        let result = square("determinant", self, site).map(of);
        result.map_or_else(|error| Array::failed(error, site), |x| x.cast_at(mean_of(self.dtype()), site))
    }

    /// The matrices Q with orthonormal columns and R, upper triangular, with Q R = A: of A `[.., m,
    /// n]` and the lesser k of m and n they are `[.., m, k]` and `[.., k, n]`, as NumPy's
    /// `linalg.qr`, whose signs they have.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[3.0f64, 1.0, 4.0, 2.0], &[2, 2]);
    /// let (q, r) = a.qr();
    /// assert!((r.to_vec::<f64>()?[0] + 5.0).abs() < 1e-12);
    /// assert!((q.matmul(&r) - &a).abs().max().item::<f64>()? < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// Both have an error if A has fewer than two axes, or more than 128 rows or columns.
    #[track_caller]
    pub fn qr(&self) -> (Array, Array) {
        let site = Location::caller();
        let both = matrices("qr", self, site).map(|a| {
            let dtype = mean_of(self.dtype());
            let (q, r) = qr(&a, site);
            (q.cast_at(dtype, site), r.cast_at(dtype, site))
        });
        both.unwrap_or_else(|error| (Array::failed(error.clone(), site), Array::failed(error, site)))
    }
}

/// Matrices in the floats that they are computed in, of a limited number of rows and columns.
pub(super) fn matrices(op: &'static str, a: &Array, location: Site) -> Result<Array> {
    let limit = format_args!("at most {MOST_ROWS} rows and columns");
    matrices_within(op, a, |rows, columns| rows.max(columns) <= MOST_ROWS, limit, location)
}

/// The same, of a limited number of rows or columns.
pub(super) fn long_matrices(op: &'static str, a: &Array, location: Site) -> Result<Array> {
    let limit = format_args!("at most {MOST_ROWS} rows or at most {MOST_ROWS} columns");
    matrices_within(op, a, |rows, columns| rows.min(columns) <= MOST_ROWS, limit, location)
}

fn matrices_within(
    op: &'static str,
    a: &Array,
    fits: impl Fn(usize, usize) -> bool,
    limit: fmt::Arguments<'_>,
    location: Site,
) -> Result<Array> {
    if let Some(error) = a.error() {
        return Err(error);
    }
    let refused = |problem: String| Err(Error::Shape { op, problem, location });
    let &[.., rows, columns] = a.shape() else {
        return refused(format!("shape {:?} has no rows and columns", a.shape()));
    };
    if !fits(rows, columns) {
        return refused(format!("matrices of {rows} by {columns}: {limit}"));
    }
    if kind(a.dtype()) == Kind::Bool {
        let hint = "it is for numbers; cast first";
        return Err(Error::Type { op, dtype: a.dtype(), hint, location });
    }
    Ok(a.cast_at(accumulator(mean_of(a.dtype())), location))
}

pub(super) fn square(op: &'static str, a: &Array, location: Site) -> Result<Array> {
    let a = matrices(op, a, location)?;
    match a.shape() {
        [.., rows, columns] if rows != columns => {
            let problem = format!("matrices of {rows} by {columns} are not square");
            Err(Error::Shape { op, problem, location })
        }
        _ => Ok(a),
    }
}

/// The other triangle, or both.
pub(super) fn transposed(x: &Array) -> Array {
    x.swap_axes(-1, -2)
}

/// The elements on and below the diagonal, or on and above it; zero elsewhere.
pub(super) fn triangle(x: &Array, lower: bool) -> Array {
    let Some((rows, columns)) = positions(x) else { return x.clone() };
    let kept = if lower { rows.greater_equal(&columns) } else { rows.less_equal(&columns) };
    x.where_(&kept, 0.0)
}

/// The row and the column of each element.
fn positions(x: &Array) -> Option<(Array, Array)> {
    let &[.., m, n] = x.shape() else { return None };
    let device = x.device()?;
    Some((Array::arange(device, m).unsqueeze(1), Array::arange(device, n).unsqueeze(0)))
}

/// Rows and columns from `from` on, as many as given.
fn block(x: &Array, rows: [usize; 2], columns: [usize; 2]) -> Array {
    x.slice(-2, rows[0]..rows[1]).slice(-1, columns[0]..columns[1])
}

fn cholesky(a: &Array) -> Array {
    let n = a.shape()[a.rank() - 1];
    if n <= WRITTEN_OUT {
        return written_out(a, n);
    }
    let half = n / 2;
    let first = cholesky(&block(a, [0, half], [0, half]));
    // L₂₁ L₁₁ᵀ = A₂₁.
    let below = transposed(&triangular(&first, &transposed(&block(a, [half, n], [0, half])), true));
    let rest = block(a, [half, n], [half, n]) - below.matmul(&transposed(&below));
    let second = cholesky(&rest);
    let mut widths = vec![(0, 0); a.rank()];
    widths[a.rank() - 1] = (0, n - half);
    concatenate(&[&first.pad(&widths), &concatenate(&[&below, &second], -1)], -2)
}

/// The decomposition of a few rows, number by number.
fn written_out(a: &Array, n: usize) -> Array {
    let element = |i: usize, j: usize| block(a, [i, i + 1], [j, j + 1]);
    let mut l: Vec<Vec<Array>> = Vec::new();
    for i in 0..n {
        let mut row: Vec<Array> = Vec::new();
        let rest = |row: &[Array], above: &[Array]| {
            let known = row.iter().zip(above);
            known.fold(element(i, row.len()), |rest, (a, b)| rest - a * b)
        };
        for above in &l {
            // A row ends with its element on the diagonal.
            let Some(diagonal) = above.last() else { continue };
            row.push(rest(&row, above) / diagonal);
        }
        row.push(rest(&row, &row).sqrt());
        l.push(row);
    }
    let zero = element(0, 0) * 0.0;
    let rows: Vec<Array> = l
        .iter()
        .map(|row| {
            let whole: Vec<&Array> = row.iter().chain(std::iter::repeat_n(&zero, n - row.len())).collect();
            concatenate(&whole, -1)
        })
        .collect();
    triangle(&concatenate(&rows.iter().collect::<Vec<_>>(), -2), true)
}

/// The gradient of A, of that of L: L⁻ᵀ P L⁻¹, made symmetric, where P is the lower triangle of
/// Lᵀ g with half of its diagonal (Murray, "Differentiation of the Cholesky decomposition", 2016).
fn cholesky_gradient(l: &Array, g: &Array) -> Array {
    let product = transposed(l).matmul(&triangle(g, true));
    let Some((rows, columns)) = positions(&product) else { return g.clone() };
    let p = (&product * 0.5).where_(&rows.equal(&columns), triangle(&product, true));
    let upper = transposed(l);
    let left = triangular(&upper, &p, false);
    let both = transposed(&triangular(&upper, &transposed(&left), false));
    (&both + transposed(&both)) * 0.5
}

/// A system of equations.
struct System {
    a: Array,
    /// Matrices, with as many before as `a`.
    b: Array,
    /// The shape of the solution, and its element type.
    shape: Extents,
    dtype: kiln_ir::Scalar,
    site: Site,
}

impl System {
    fn of(op: &'static str, a: &Array, b: &Array, location: Site) -> Result<System> {
        if let Some(error) = b.error() {
            return Err(error);
        }
        common_device(&[a, b], op, location)?;
        let dtype = mean_of(crate::dtype::promote(a.dtype(), b.dtype()));
        let a = square(op, a, location)?;
        let wide = accumulator(dtype);
        let (a, b) = (a.cast_at(wide, location), b.cast_at(wide, location));
        let refused = || {
            let problem = format!("matrices of shape {:?} and right sides of {:?}", a.shape(), b.shape());
            Error::Shape { op, problem, location }
        };
        let n = a.shape()[a.rank() - 1];
        let is_vector = b.rank() == 1;
        let columns = if is_vector { b.unsqueeze(1) } else { b.clone() };
        let &[ref before @ .., rows, count] = columns.shape() else { return Err(refused()) };
        let stack = shape::broadcast(&a.shape()[..a.rank() - 2], before);
        let stack = stack.filter(|_| rows == n).ok_or_else(refused)?;
        let with = |matrix: &[usize]| -> Extents { stack.iter().chain(matrix).copied().collect() };
        let shape = if is_vector { with(&[n]) } else { with(&[n, count]) };
        let (a, b) = (a.stretched(&with(&[n, n]), location), columns.stretched(&with(&[n, count]), location));
        Ok(System { a, b, shape, dtype, site: location })
    }

    fn done(&self, x: &Array) -> Array {
        x.reshaped(&self.shape, self.site).cast_at(self.dtype, self.site)
    }

    fn solved(self) -> Array {
        if self.b.is_empty() {
            return self.done(&self.b);
        }
        self.done(&solve(&self.a, &self.b))
    }

    fn solved_triangular(self, lower: bool) -> Array {
        if self.b.is_empty() {
            return self.done(&self.b);
        }
        self.done(&triangular(&self.a, &self.b, lower))
    }
}

/// The solution of A X = B, with a rule for its gradient: Aᵀ h = g, and -h Xᵀ.
fn solve(a: &Array, b: &Array) -> Array {
    custom_vjp(
        &[a, b],
        |of| {
            let (upper, b) = reflected(&of[0], &of[1]);
            triangular(&upper, &b, false)
        },
        |of, x, g| {
            let of_b = solve(&transposed(&of[0]), g);
            vec![-of_b.matmul(&transposed(x)), of_b]
        },
    )
}

/// The solution of T X = B, of a triangular T, with a rule for its gradient.
fn triangular(t: &Array, b: &Array, lower: bool) -> Array {
    custom_vjp(
        &[t, b],
        |of| match lower {
            true => forwards(&of[0], &of[1]),
            false => {
                // From the last row to the first, it is a lower one.
                forwards(&of[0].flip(&[-2, -1]), &of[1].flip(&[-2])).flip(&[-2])
            }
        },
        move |of, x, g| {
            let of_b = triangular(&transposed(&of[0]), g, !lower);
            vec![triangle(&-of_b.matmul(&transposed(x)), lower), of_b]
        },
    )
}

/// The solution of T X = B, of a lower triangular T: of half of the rows, and then of the others
/// without what is known.
fn forwards(t: &Array, b: &Array) -> Array {
    let n = t.shape()[t.rank() - 1];
    if n <= WRITTEN_OUT {
        let mut rows: Vec<Array> = Vec::new();
        for i in 0..n {
            let element = |j: usize| block(t, [i, i + 1], [j, j + 1]);
            let known = rows.iter().enumerate();
            let rest = known.fold(b.slice(-2, i..i + 1), |rest, (j, x)| rest - element(j) * x);
            rows.push(rest / element(i));
        }
        return concatenate(&rows.iter().collect::<Vec<_>>(), -2);
    }
    let half = n / 2;
    let first = forwards(&block(t, [0, half], [0, half]), &b.slice(-2, ..half));
    let rest = b.slice(-2, half..) - block(t, [half, n], [0, half]).matmul(&first);
    let second = forwards(&block(t, [half, n], [half, n]), &rest);
    concatenate(&[&first, &second], -2)
}

/// A with zeros below its diagonal, and B, after the same reflections of rows (Golub and Van Loan,
/// "Matrix Computations", 5.1): Qᵀ A and Qᵀ B.
fn reflected(a: &Array, b: &Array) -> (Array, Array) {
    let &[.., m, n] = a.shape() else { return (a.clone(), b.clone()) };
    let (all, _) = reflections(concatenate(&[a, b], -1), m, n);
    (triangle(&all.slice(-1, ..n), false), all.slice(-1, n..))
}

/// The rows of matrices after a reflection for each of `n` columns, and the determinant of all of
/// them, 1 or -1.
pub(super) fn reflections(mut all: Array, m: usize, n: usize) -> (Array, Array) {
    let mut sign = all.slice(-1, ..1).slice(-2, ..1);
    sign = sign.filled_like(Literal::one(sign.dtype()), all.site());
    for k in 0..n.min(m.saturating_sub(1)) {
        let is_done;
        (all, is_done) = reflection(&all, k, m);
        sign = sign.where_(&is_done, &-&sign);
    }
    (all, sign)
}

/// The rows from the `k`th on, reflected so that the `k`th column has zeros below the diagonal. The
/// reflection is LAPACK's: a column that has them is left as it is, else the new element on the
/// diagonal has the other sign. Also whether it was left as it is.
fn reflection(all: &Array, k: usize, m: usize) -> (Array, Array) {
    let Some(device) = all.device() else { return (all.clone(), all.clone()) };
    let row = Array::arange(device, m).unsqueeze(1);
    let column = all.slice(-1, k..k + 1);
    let below = column.where_(&row.greater(k as i64), 0.0);
    // Of numbers near 1, whose squares are no overflow.
    let scale = column.where_(&row.greater_equal(k as i64), 0.0).abs().max_keep(&[-2]).stop_gradient();
    let scale = scale.where_(&scale.greater(0.0), 1.0);
    let below = below / &scale;
    let first = all.slice(-2, k..k + 1).slice(-1, k..k + 1) / &scale;
    let rest = below.square().sum_keep(&[-2]);
    let is_done = rest.equal(0.0);
    let some = rest.where_(&!&is_done, 1.0);
    let norm = (first.square() + &some).sqrt();
    // first + sign(first) norm, which is no difference of equal numbers.
    let sum = (&first + &norm).where_(&first.greater_equal(0.0), &(&first - &norm));
    let v = sum.where_(&row.equal(k as i64), &below);
    // 2 / vᵀ v.
    let factor: Array = 2.0 / (sum.square() + &some);
    let factor = factor.where_(&!&is_done, 0.0);
    let along = (&v * all).sum_keep(&[-2]);
    (all - v * (factor * along), is_done)
}

/// The product of R's diagonal, of which each reflection changes the sign; with a rule for its
/// gradient: itself times the inverse's transpose.
fn determinant(a: &Array) -> Array {
    custom_vjp(
        &[a],
        |of| {
            let n = of[0].shape()[of[0].rank() - 1];
            let (r, sign) = reflections(of[0].clone(), n, n);
            let product = r.diagonal().prod_axes(&[-1]);
            &product * sign.reshape(product.shape())
        },
        |of, y, g| {
            let scaled = (g * y).unsqueeze(-1).unsqueeze(-1);
            vec![transposed(&of[0].inverse()) * scaled]
        },
    )
}

fn qr(a: &Array, site: Site) -> (Array, Array) {
    let &[ref before @ .., m, n] = a.shape() else { return (a.clone(), a.clone()) };
    let k = m.min(n);
    let nothing = |rows: usize, columns: usize| {
        let shape: Vec<usize> = before.iter().chain(&[rows, columns]).copied().collect();
        a.device().map_or_else(|| a.clone(), |device| Array::zeros(device, a.dtype(), &shape))
    };
    if a.is_empty() {
        return (nothing(m, k), nothing(k, n));
    }
    let decomposed = |a: &Array| {
        let Some(device) = a.device() else { return a.clone() };
        let shape: Extents = before.iter().chain(&[m, m]).copied().collect();
        let unit = Array::eye(device, a.dtype(), m).stretched(&shape, site);
        let (r, q) = reflected(a, &unit);
        // Q and R in one array: a rule has one result.
        concatenate(&[&transposed(&q.slice(-2, ..k)), &transposed(&r.slice(-2, ..k))], -2)
    };
    // Of wide matrices the derivatives of the steps are used.
    let both = match m >= n {
        true => custom_vjp(&[a], |of| decomposed(&of[0]), move |_, y, g| vec![qr_gradient(y, g, m)]),
        false => decomposed(a),
    };
    (both.slice(-2, ..m), transposed(&both.slice(-2, m..)))
}

/// The gradient of A, of those of Q and Rᵀ, one below the other: (gQ + Q S) R⁻ᵀ, where S is the
/// symmetric matrix with the lower triangle of R gRᵀ - gQᵀ Q (Walter and Lehmann, "Algorithmic
/// differentiation of linear algebra functions", 2018).
fn qr_gradient(y: &Array, g: &Array, m: usize) -> Array {
    let (q, r) = (y.slice(-2, ..m), transposed(&y.slice(-2, m..)));
    let (of_q, of_r) = (g.slice(-2, ..m), triangle(&transposed(&g.slice(-2, m..)), false));
    let inner = r.matmul(&transposed(&of_r)) - transposed(&of_q).matmul(&q);
    let Some((rows, columns)) = positions(&inner) else { return g.clone() };
    let symmetric = inner.where_(&rows.greater_equal(&columns), transposed(&inner));
    let sum = of_q + q.matmul(&symmetric);
    // X Rᵀ = sum.
    transposed(&triangular(&r, &transposed(&sum), false))
}
