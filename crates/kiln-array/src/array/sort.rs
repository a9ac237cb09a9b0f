//! Elements in order, and the greatest ones.

use crate::dtype::{Kind, kind};
use crate::error::{Error, Result, Site};
use crate::library::LONGEST_SORTED;
use crate::node::{Array, Made};
use crate::op::Op;
use crate::shape::{Extents, count};
use kiln_ir::Scalar;
use std::panic::Location;

impl Array {
    /// The elements along an axis from the least to the greatest; NaN come last.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[3.0f32, 1.0, 2.0], &[3]);
    /// assert_eq!(x.sort(0).to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`argsort`](Self::argsort).
    #[track_caller]
    pub fn sort(&self, axis: isize) -> Array {
        let site = Location::caller();
        let sorted = self.order("sort", axis, false, site).map(|order| self.take_along(&order, axis));
        sorted.unwrap_or_else(|error| Array::failed(error, site))
    }

    /// The i64 indices along an axis that put it in order; equal elements keep theirs.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[3, 1, 3, 2], &[4]);
    /// assert_eq!(x.argsort(0).to_vec::<i64>()?, [1, 3, 0, 2]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The array has an error if the axis has more than 2048 elements.
    #[track_caller]
    pub fn argsort(&self, axis: isize) -> Array {
        let site = Location::caller();
        self.order("argsort", axis, false, site).unwrap_or_else(|error| Array::failed(error, site))
    }

    /// The `k` greatest elements along an axis, from the greatest on, and their i64 indices; of
    /// equal ones the first. NaN count as greater than all numbers.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let (best, at) = Array::new(&device, &[3.0f32, 1.0, 4.0, 4.0], &[4]).top_k(3, 0);
    /// assert_eq!((best.to_vec::<f32>()?, at.to_vec::<i64>()?), (vec![4.0, 4.0, 3.0], vec![2, 3, 0]));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`argsort`](Self::argsort), and if there are fewer than `k`.
    #[track_caller]
    pub fn top_k(&self, k: usize, axis: isize) -> (Array, Array) {
        let site = Location::caller();
        let at = self.order("top_k", axis, true, site).map(|order| order.slice(axis, ..k));
        let at = at.unwrap_or_else(|error| Array::failed(error, site));
        (self.take_along(&at, axis), at)
    }

    /// The indices that put an axis in order.
    fn order(&self, name: &'static str, axis: isize, descending: bool, site: Site) -> Result<Array> {
        let at = self.axis_at(name, axis, site)?;
        let extent = self.shape()[at];
        if extent > LONGEST_SORTED {
            let problem = format!(
                "axis {at} of shape {:?} has more than {LONGEST_SORTED} elements, which no tile sorts",
                self.shape()
            );
            return Err(Error::Shape { op: name, problem, location: site });
        }
        if self.is_empty() {
            return Ok(self.filled_like(kiln_ir::Literal::index(0), site));
        }
        let numbers =
            if kind(self.dtype()) == Kind::Bool { self.cast_at(Scalar::I32, site) } else { self.clone() };
        let mut order: Extents = (0..self.rank()).collect();
        order.swap(at, self.rank() - 1);
        let last = numbers.ordered(order.clone(), site);
        let rows = [count(last.shape()) / extent, extent];
        let flat = last.reshaped(&rows, site);
        let indices = Array::record(&[&flat], site, || {
            let shape = Extents::from_slice(&rows);
            Ok(Made { op: Op::ArgSort { descending }, dtype: Scalar::I64, shape })
        });
        Ok(indices.reshaped(last.shape(), site).ordered(order, site))
    }
}
