//! Elements by indices.

use super::create::checked_type;
use crate::dtype::{Kind, kind};
use crate::error::{Error, Result, Site};
use crate::node::{Array, Made, common_device};
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::Scalar;
use std::panic::Location;

impl Array {
    /// The parts of an axis at these indices: the axis becomes the axes of `indices`. Negative
    /// indices count from the end.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let table = Array::arange(&device, 6).reshape(&[3, 2]);
    /// let rows = table.take(&Array::new(&device, &[2, 0, -1], &[3]), 0);
    /// assert_eq!(rows.to_vec::<i64>()?, [4, 5, 0, 1, 4, 5]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there is no such axis, or if indices are no integers. An index
    /// outside of the axis is an error when the array is computed.
    #[track_caller]
    pub fn take(&self, indices: &Array, axis: isize) -> Array {
        let site = Location::caller();
        let taken = || -> Result<Array> {
            let at = self.axis_at("take", axis, site)?;
            self.check_indices("take", indices, at, site)?;
            let (before, after) = (&self.shape()[..at], &self.shape()[at + 1..]);
            let mut flat = Extents::from_elem(1, self.rank());
            flat[at] = indices.len();
            let mut whole = Extents::from_slice(self.shape());
            whole[at] = indices.len();
            let indices_of_axis = indices.cast_at(Scalar::I64, site);
            let places = indices_of_axis.reshaped(&flat, site).stretched(&whole, site);
            let shape: Extents = before.iter().chain(indices.shape()).chain(after).copied().collect();
            Ok(self.gathered(&places, at, site).reshaped(&shape, site))
        };
        taken().unwrap_or_else(|error| Array::failed(error, site))
    }

    /// For each element of `indices`, the element of this array at that index of an axis, and at
    /// the element's own indices on the other axes, which broadcast.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, 9.0, 8.0, 2.0], &[2, 2]);
    /// let best = x.argmax(1).unsqueeze(1);
    /// assert_eq!(x.take_along(&best, 1).to_vec::<f32>()?, [9.0, 8.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`take`](Self::take), and if there are not as many axes of indices as of the array, or
    /// if two that do not broadcast.
    #[track_caller]
    pub fn take_along(&self, indices: &Array, axis: isize) -> Array {
        self.taken_along(indices, axis, ("take_along", Location::caller()))
    }

    /// [`take_along`](Self::take_along) for an operation that a line of the user's calls.
    pub(crate) fn taken_along(
        &self,
        indices: &Array,
        axis: isize,
        (op, site): (&'static str, Site),
    ) -> Array {
        let taken = || -> Result<Array> {
            let at = self.axis_at(op, axis, site)?;
            self.check_indices(op, indices, at, site)?;
            let (mut own, mut others) =
                (Extents::from_slice(self.shape()), Extents::from_slice(indices.shape()));
            let fits = own.len() == others.len();
            if fits {
                (own[at], others[at]) = (1, 1);
            }
            let common = crate::shape::broadcast(&own, &others).filter(|_| fits).ok_or_else(|| {
                let (shape, of) = (indices.shape(), self.shape());
                let problem = format!(
                    "indices of shape {shape:?} for shape {of:?}: all axes but {at} must be equal, or 1"
                );
                Error::Shape { op, problem, location: site }
            })?;
            let (mut from, mut to) = (common.clone(), common);
            (from[at], to[at]) = (self.shape()[at], indices.shape()[at]);
            Ok(self.stretched(&from, site).gathered(&indices.stretched(&to, site), at, site).called(op))
        };
        taken().unwrap_or_else(|error| Array::failed(error, site))
    }

    pub(super) fn check_indices(
        &self,
        op: &'static str,
        indices: &Array,
        at: usize,
        location: Site,
    ) -> Result<()> {
        if let Some(error) = indices.error() {
            return Err(error);
        }
        common_device(&[self, indices], op, location)?;
        if kind(indices.dtype()) != Kind::Integer {
            let hint = "indices are integers";
            return Err(Error::Type { op, dtype: indices.dtype(), hint, location });
        }
        if self.shape()[at] == 0 && !indices.is_empty() {
            let problem = format!("axis {at} of shape {:?} has no elements", self.shape());
            return Err(Error::Shape { op, problem, location });
        }
        Ok(())
    }

    /// The elements at indices whose shape is this one's but on the axis.
    pub(crate) fn gathered(&self, indices: &Array, axis: usize, site: Site) -> Array {
        let indices = indices.cast_at(Scalar::I64, site);
        Array::record(&[self, &indices], site, || {
            let shape = Extents::from_slice(indices.shape());
            Ok(Made { op: Op::Take { axis }, dtype: self.dtype(), shape })
        })
    }

    /// A new last axis of `classes` elements: one where its index is the element, and zero
    /// elsewhere; all zeros for an element that is no index of it.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let classes = Array::new(&device, &[2, 0], &[2]);
    /// let hot = classes.one_hot(3, kiln_ir::Scalar::F32);
    /// assert_eq!(hot.to_vec::<f32>()?, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if arrays do not compute in `dtype`.
    #[track_caller]
    pub fn one_hot(&self, classes: usize, dtype: Scalar) -> Array {
        let site = Location::caller();
        let Some(device) = self.device() else { return self.clone() };
        if let Err(error) = checked_type("one_hot", dtype, site) {
            return Array::failed(error, site);
        }
        let class = Array::iota(device, &[classes], 0, site);
        self.unsqueeze(-1).equal(&class).cast(dtype)
    }
}
