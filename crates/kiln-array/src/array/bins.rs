//! Places in sorted elements, and counting.

use super::arithmetic::Operand;
use super::create::constant;
use super::scatter::Given;
use crate::dtype::{Kind, kind, sum_of};
use crate::error::{Error, Result, Site};
use crate::node::{Array, common_device};
use crate::shape::broadcast;
use kiln_ir::{Literal, Scalar};
use std::panic::Location;

/// Where [`searchsorted`](Array::searchsorted) puts a value beside elements that are equal to it.
///
/// ```
/// use kiln_array::{Array, Side};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1, 2, 2, 5], &[4]);
/// let places = [Side::Left, Side::Right].map(|side| x.searchsorted(2, side));
/// assert_eq!((places[0].item::<i64>()?, places[1].item::<i64>()?), (1, 3));
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before them: the number of elements that are less.
    Left,
    /// After them: the number of elements that are not greater.
    Right,
}

impl Array {
    /// For each value the i64 index at which it would go into this array, of one axis and in order,
    /// so that the order stays. The result has the values' shape; [`vmap`](crate::vmap) makes it
    /// that of several rows. NaN come last, as [`sort`](Self::sort) puts them. It is found by
    /// bisection; of an array that is not in order it is some index.
    ///
    /// ```
    /// use kiln_array::{Array, Side};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let limits = Array::new(&device, &[0.0f32, 10.0, 20.0], &[3]);
    /// let x = Array::new(&device, &[-1.0f32, 5.0, 10.0, 30.0], &[2, 2]);
    /// assert_eq!(limits.searchsorted(&x, Side::Right).to_vec::<i64>()?, [0, 1, 2, 3]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if this array has not one axis.
    #[doc(alias = "digitize")]
    #[doc(alias = "search_sorted")]
    #[track_caller]
    pub fn searchsorted(&self, values: impl Operand, side: Side) -> Array {
        let site = Location::caller();
        let values = values.beside(self, site);
        self.places_of(&values, side, site).unwrap_or_else(|error| Array::failed(error, site))
    }

    fn places_of(&self, values: &Array, side: Side, site: Site) -> Result<Array> {
        let op = "searchsorted";
        if let Some(error) = self.error().or_else(|| values.error()) {
            return Err(error);
        }
        common_device(&[self, values], op, site)?;
        if self.rank() != 1 {
            let problem = format!("sorted elements of shape {:?} instead of one axis", self.shape());
            return Err(Error::Shape { op, problem, location: site });
        }
        let count = self.len();
        if count == 0 || values.is_empty() {
            return Ok(values.filled_like(Literal::index(0), site));
        }
        let flat = values.reshaped(&[values.len()], site);
        let is_before = |element: &Array| {
            let by_order = match side {
                Side::Left => element.less(&flat),
                Side::Right => element.less_equal(&flat),
            };
            match (kind(flat.dtype()), side) {
                (Kind::Bool | Kind::Integer, _) => by_order,
                (Kind::Float, Side::Left) => by_order | (flat.is_nan() & !element.is_nan()),
                (Kind::Float, Side::Right) => by_order | flat.is_nan(),
            }
        };
        // By bisection, how many elements are before a value.
        let mut before = flat.filled_like(Literal::index(0), site);
        for step in (0..=count.ilog2()).rev().map(|bit| 1i64 << bit) {
            let next = &before + step;
            let last = self.gathered(&(&next - 1i64).minimum(count as i64 - 1), 0, site);
            let fits = next.less_equal(count as i64);
            before = next.where_(&(fits & is_before(&last)), &before);
        }
        Ok(before.reshaped(values.shape(), site))
    }

    /// How often each of the numbers 0, 1, …, `len - 1` is among the elements: i64 numbers, as
    /// NumPy's `bincount`, whose length depends on the elements. The array may have any axes.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[2, 0, 2, 2], &[2, 2]);
    /// assert_eq!(x.bincount(4).to_vec::<i64>()?, [1, 0, 3, 0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if elements are no integers. One that is negative, or not less than
    /// `len`, is an error when the counts are computed.
    #[track_caller]
    pub fn bincount(&self, len: usize) -> Array {
        let site = Location::caller();
        let ones = self.filled_like(Literal::index(1), site);
        self.binned("bincount", &ones, len, site).unwrap_or_else(|error| Array::failed(error, site))
    }

    /// For each of the numbers 0, 1, …, `len - 1` the sum of the weights of the elements that are
    /// equal to it, in the types of [`sum`](Self::sum): as [`bincount`](Self::bincount) otherwise.
    /// Weights broadcast to the elements, and have gradients.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1, 0, 1], &[3]);
    /// let weights = Array::new(&device, &[0.5f32, 2.0, 0.25], &[3]);
    /// assert_eq!(x.bincount_weighted(&weights, 3).to_vec::<f32>()?, [2.0, 0.75, 0.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`bincount`](Self::bincount), and if weights do not broadcast.
    #[track_caller]
    pub fn bincount_weighted(&self, weights: &Array, len: usize) -> Array {
        let site = Location::caller();
        let sums = self.binned("bincount_weighted", weights, len, site);
        sums.unwrap_or_else(|error| Array::failed(error, site))
    }

    fn binned(&self, op: &'static str, weights: &Array, len: usize, site: Site) -> Result<Array> {
        if let Some(error) = self.error().or_else(|| weights.error()) {
            return Err(error);
        }
        let Some(device) = common_device(&[self, weights], op, site)? else { return Ok(self.clone()) };
        if kind(self.dtype()) != Kind::Integer {
            let hint = "what is counted are integers";
            return Err(Error::Type { op, dtype: self.dtype(), hint, location: site });
        }
        if broadcast(weights.shape(), self.shape()).as_deref() != Some(self.shape()) {
            let problem =
                format!("weights of shape {:?} do not stretch to {:?}", weights.shape(), self.shape());
            return Err(Error::Shape { op, problem, location: site });
        }
        let dtype = sum_of(weights.dtype());
        let none = constant(&device, op, Literal::zero(dtype), &[len], site);
        if let Some(error) = none.error() {
            return Err(error);
        }
        let flat = [self.len()];
        let index = self.cast_at(Scalar::I64, site).reshaped(&flat, site);
        // Negative ones count from no end here.
        let index = index.where_(&index.greater_equal(0), len as i64);
        let weights = weights.cast_at(dtype, site).stretched(self.shape(), site).reshaped(&flat, site);
        Given::of_parts(op, &none, &index, &weights, 0, site)?.add()
    }
}
