//! Running sums, products and extremes.

use super::join::concatenate;
use crate::dtype::{accumulator, sum_of};
use crate::error::Site;
use crate::node::{Array, Made};
use crate::op::Op;
use crate::plan::sizes::fits_tile;
use crate::shape::Extents;
use std::panic::Location;

/// Elements of a part of an axis that is too long for a tile.
const PART: usize = 1024;

impl Array {
    /// The running sum along an axis, in the types of [`sum`](Self::sum).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, 2.0, 3.0], &[3]);
    /// assert_eq!(x.cumsum(0).to_vec::<f32>()?, [1.0, 3.0, 6.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self, axis: isize) -> Array {
        let site = Location::caller();
        match self.axis_at("cumsum", axis, site) {
            Ok(axis) => {
                let wide = self.cast_at(accumulator(self.dtype()), site);
                cumsum(&wide, axis, false, site).cast_at(sum_of(self.dtype()), site).called("cumsum")
            }
            Err(error) => Array::failed(error, site),
        }
    }
}

impl Array {
    /// The running product along an axis, in the types of [`prod`](Self::prod).
    ///
    /// It takes as many steps as the extent has binary digits, and so do the ones below.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[2.0f32, 3.0, 4.0], &[3]);
    /// assert_eq!(x.cumprod(0).to_vec::<f32>()?, [2.0, 6.0, 24.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn cumprod(&self, axis: isize) -> Array {
        let site = Location::caller();
        match self.axis_at("cumprod", axis, site) {
            Ok(axis) => {
                let wide = self.cast_at(accumulator(self.dtype()), site);
                let products = running(|before, x| before * x, &wide, axis, site);
                products.cast_at(sum_of(self.dtype()), site).called("cumprod")
            }
            Err(error) => Array::failed(error, site),
        }
    }

    /// The greatest element up to each along an axis; NaN from the first one on. NumPy's
    /// `maximum.accumulate`.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[2, 5, 3], &[3]);
    /// assert_eq!(x.cummax(0).to_vec::<i32>()?, [2, 5, 5]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn cummax(&self, axis: isize) -> Array {
        let site = Location::caller();
        match self.axis_at("cummax", axis, site) {
            Ok(axis) => running(|before, x| before.maximum(x), self, axis, site),
            Err(error) => Array::failed(error, site),
        }
    }

    /// The least element up to each along an axis; NaN from the first one on. NumPy's
    /// `minimum.accumulate`.
    #[track_caller]
    pub fn cummin(&self, axis: isize) -> Array {
        let site = Location::caller();
        match self.axis_at("cummin", axis, site) {
            Ok(axis) => running(|before, x| before.minimum(x), self, axis, site),
            Err(error) => Array::failed(error, site),
        }
    }
}

/// What elements up to each one combine to, of those before and the element: of twice as many in
/// each step (Hillis and Steele, "Data parallel algorithms", 1986).
pub(crate) fn running(combined: fn(Array, Array) -> Array, x: &Array, axis: usize, site: Site) -> Array {
    let mut all = x.clone();
    let extent = x.shape()[axis];
    let mut reach = 1;
    while reach < extent {
        let first = all.part(axis, 0, reach, 1, site);
        let (before, here) =
            (all.part(axis, 0, extent - reach, 1, site), all.part(axis, reach, extent - reach, 1, site));
        all = concatenate(&[&first, &combined(before, here)], axis as isize);
        reach *= 2;
    }
    all
}

/// The running sum from the start of an axis, or from its end.
pub(crate) fn cumsum(x: &Array, axis: usize, reverse: bool, site: Site) -> Array {
    let extent = x.shape()[axis];
    if extent <= 1 {
        return x.clone();
    }
    let last = x.rank() - 1;
    if axis != last {
        // Results lie as the kernel's dimensions do if the row comes last.
        let mut order: Extents = (0..x.rank()).collect();
        order.swap(axis, last);
        return cumsum(&x.ordered(order.clone(), site), last, reverse, site).ordered(order, site);
    }
    if fits_tile(extent) {
        let shape = Extents::from_slice(x.shape());
        return Array::record(&[x], site, || {
            Ok(Made { op: Op::CumSum { axis, reverse }, dtype: x.dtype(), shape })
        });
    }
    // Sums of parts, and of the parts before each.
    let parts = extent.div_ceil(PART);
    let mut widths = vec![(0, 0); x.rank()];
    widths[axis].1 = parts * PART - extent;
    let mut divided = Extents::from_slice(x.shape());
    divided[axis] = parts;
    divided.insert(axis + 1, PART);
    let padded = x.pad(&widths);
    let whole = Extents::from_slice(padded.shape());
    let inner = cumsum(&padded.reshaped(&divided, site), axis + 1, reverse, site);
    let last = if reverse { 0 } else { PART - 1 };
    let totals = inner.part(axis + 1, last, 1, 1, site);
    let others = cumsum(&totals, axis, reverse, site) - &totals;
    (inner + others).reshaped(&whole, site).part(axis, 0, extent, 1, site)
}
