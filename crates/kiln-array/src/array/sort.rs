//! Elements in order, and the greatest ones.

use super::join::concatenate;
use crate::dtype::{Kind, kind, of_library};
use crate::error::{Error, Result, Site};
use crate::node::{Array, Made};
use crate::op::Op;
use crate::shape::{Extents, count};
use kiln_ir::Scalar;
use std::panic::Location;

/// Elements of a part of an axis of which the greatest are found.
const PART: usize = 2048;

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
        match self.order("sort", axis, false, site) {
            Ok(order) => self.take_along(&order, axis),
            Err(error) => Array::failed(error, site),
        }
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
    /// The array has an error if there is no such axis.
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
        match self.greatest(k, axis, site) {
            Ok(at) => (self.take_along(&at, axis), at),
            Err(error) => {
                let failed = Array::failed(error, site);
                (failed.clone(), failed)
            }
        }
    }

    /// The indices of the `k` greatest elements along an axis.
    fn greatest(&self, k: usize, axis: isize, site: Site) -> Result<Array> {
        let at = self.axis_at("top_k", axis, site)?;
        let extent = self.shape()[at];
        if k > extent {
            let problem = format!("axis {axis} of shape {:?} has no {k} greatest elements", self.shape());
            return Err(Error::Shape { op: "top_k", problem, location: site });
        }
        let device = match self.device() {
            Some(device) if !self.is_empty() && extent > 2 * PART && k <= PART / 4 => device,
            _ => return Ok(self.order("top_k", axis, true, site)?.part(at, 0, k, 1, site)),
        };
        // The greatest ones of each part, and of these the greatest ones.
        let mut order: Extents = (0..self.rank()).collect();
        order.swap(at, self.rank() - 1);
        let last = self.ordered(order.clone(), site);
        let (rows, whole) = (last.len() / extent, extent / PART * PART);
        let rows_of = last.reshaped(&[rows, extent], site);
        let parts = rows_of.part(1, 0, whole, 1, site).reshaped(&[rows, whole / PART, PART], site);
        let first = Array::iota(device, &[1, whole / PART, 1], 1, site) * PART as i64;
        let best = (parts.order("top_k", 2, true, site)?.part(2, 0, k, 1, site) + first)
            .reshaped(&[rows, whole / PART * k], site);
        // What no whole part holds takes part itself.
        let left = Array::iota(device, &[1, extent - whole], 1, site) + whole as i64;
        let left = left.stretched(&[rows, extent - whole], site);
        let some = concatenate(&[&best, &left], 1);
        let chosen = rows_of.take_along(&some, 1).greatest(k, 1, site)?;
        let found = some.take_along(&chosen, 1);
        let mut shape = Extents::from_slice(last.shape());
        shape[self.rank() - 1] = k;
        Ok(found.reshaped(&shape, site).ordered(order, site))
    }

    /// The indices that put an axis in order.
    pub(super) fn order(
        &self,
        name: &'static str,
        axis: isize,
        descending: bool,
        site: Site,
    ) -> Result<Array> {
        let at = self.axis_at(name, axis, site)?;
        let extent = self.shape()[at];
        if self.is_empty() {
            return Ok(self.filled_like(kiln_ir::Literal::index(0), site));
        }
        let is_bool = kind(self.dtype()) == Kind::Bool;
        let numbers = self.cast_at(if is_bool { Scalar::I32 } else { of_library(self.dtype()) }, site);
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
