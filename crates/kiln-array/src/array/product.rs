//! Products of matrices.

use super::arithmetic::checked_class;
use super::create::{checked_size, constant};
use crate::dtype::{is_narrow, of_library, promote};
use crate::error::{Error, Result, Site};
use crate::node::{Array, Made};
use crate::op::Op;
use crate::shape::{Extents, broadcast, count};
use kiln_ir::{Class, Literal};
use smallvec::smallvec;
use std::panic::Location;

impl Array {
    /// The product of matrices, as NumPy's `matmul`: the last two axes are the matrices', those
    /// before them broadcast. A vector on the left is a row, one on the right a column, and its
    /// axis goes.
    ///
    /// Sums of 16-bit floats are added up in f32; those of integers wrap.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let a = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]);
    /// let x = Array::new(&device, &[1.0f32, -1.0], &[2]);
    /// assert_eq!(a.matmul(&x).to_vec::<f32>()?, [-1.0, -1.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if one has no axes, if the left one's columns are not as many
    /// as the right one's rows, if the axes before those do not broadcast, or if both are of bool.
    #[track_caller]
    pub fn matmul(&self, right: &Array) -> Array {
        let site = Location::caller();
        if let Some(error) = [self, right].into_iter().find_map(Array::error) {
            return Array::failed(error, site);
        }
        match Factors::of(self, right, site) {
            Ok(factors) => factors.product(site),
            Err(error) => Array::failed(error, site),
        }
    }
}

/// Two stacks of matrices, `[.., m, k]` and `[.., k, n]`.
struct Factors {
    a: Array,
    b: Array,
    /// The extents before the matrices' axes of the result.
    stack: Extents,
    /// The shape of the result.
    shape: Extents,
}

impl Factors {
    fn of(a: &Array, b: &Array, location: Site) -> Result<Factors> {
        let refused = |problem: &str| {
            let problem = format!("shapes {:?} and {:?}: {problem}", a.shape(), b.shape());
            Error::Shape { op: "matmul", problem, location }
        };
        if a.rank() == 0 || b.rank() == 0 {
            return Err(refused("a number is no matrix; multiply by `*`"));
        }
        let dtype = promote(a.dtype(), b.dtype());
        checked_class("matmul", Class::Number, dtype, location)?;
        let (is_row, is_column) = (a.rank() == 1, b.rank() == 1);
        let left = if is_row { a.reshaped(&[1, a.len()], location) } else { a.clone() };
        let right = if is_column { b.reshaped(&[b.len(), 1], location) } else { b.clone() };
        let (before_a, [m, k]) = split(left.shape());
        let (before_b, [inner, n]) = split(right.shape());
        if k != inner {
            return Err(refused(&format!("the left one has {k} columns and the right one {inner} rows")));
        }
        let stack = broadcast(before_a, before_b)
            .ok_or_else(|| refused("the axes before the matrices' do not broadcast"))?;
        let mut shape = stack.clone();
        if !is_row {
            shape.push(m);
        }
        if !is_column {
            shape.push(n);
        }
        checked_size("matmul", &shape, dtype, location)?;
        Ok(Factors { a: left.cast_at(dtype, location), b: right.cast_at(dtype, location), stack, shape })
    }

    fn product(&self, site: Site) -> Array {
        let ((before_a, [m, k]), (before_b, [_, n])) = (split(self.a.shape()), split(self.b.shape()));
        let products = count(&self.stack);
        if let (Some(device), true) = (self.a.device(), k == 0 || count(&self.shape) == 0) {
            return constant(device, "matmul", Literal::zero(self.a.dtype()), &self.shape, site);
        }
        let stacked = if count(before_b) == 1 {
            // One right factor for all: the left ones lie below each other.
            product(&self.a.reshaped(&[1, products * m, k], site), &self.b.reshaped(&[1, k, n], site), site)
        } else {
            let one = count(before_a) == 1;
            let a = if one { self.a.clone() } else { self.whole(&self.a, [m, k], site) };
            let b = self.whole(&self.b, [k, n], site);
            let height = if one { 1 } else { products };
            product(&a.reshaped(&[height, m, k], site), &b.reshaped(&[products, k, n], site), site)
        };
        stacked.reshaped(&self.shape, site)
    }

    /// A factor for each product.
    fn whole(&self, factor: &Array, matrix: [usize; 2], site: Site) -> Array {
        let mut shape = self.stack.clone();
        shape.extend(matrix);
        factor.stretched(&shape, site)
    }
}

/// The extents before the last two, and these.
fn split(shape: &[usize]) -> (&[usize], [usize; 2]) {
    match shape {
        [before @ .., rows, columns] => (before, [*rows, *columns]),
        _ => (&[], [1, 1]),
    }
}

/// The products of `[n, m, k]` and `[n, k, l]`, which are known to fit. An n of 1 serves for all.
pub(crate) fn product(a: &Array, b: &Array, site: Site) -> Array {
    if is_narrow(a.dtype()) {
        let [wide_a, wide_b] = [a, b].map(|x| x.cast_at(of_library(x.dtype()), site));
        return product(&wide_a, &wide_b, site).cast_at(a.dtype(), site);
    }
    Array::record(&[a, b], site, || {
        let shape = smallvec![a.shape()[0].max(b.shape()[0]), a.shape()[1], b.shape()[2]];
        Ok(Made { op: Op::Product, dtype: a.dtype(), shape })
    })
}

/// Whether matrices are views of their transposes, through casts and reshapes that leave these as
/// they are.
pub(crate) fn is_transpose(x: &Array) -> bool {
    let mut of = x.clone();
    while let Some(recipe) = of.recipe() {
        let [rows, columns] = [x.rank() - 2, x.rank() - 1].map(|axis| x.shape()[axis]);
        let rank = of.rank();
        let same = rank >= 2 && of.shape()[rank - 2..] == [rows, columns];
        match (&recipe.op, recipe.inputs.first()) {
            (Op::Permute(order), _) if same => return order[rank - 2..] == [rank - 1, rank - 2],
            (Op::Reshape | Op::Cast | Op::Variable | Op::Broadcast, Some(input)) if same => {
                of = input.clone()
            }
            _ => return false,
        }
    }
    false
}
