//! Elements by masks, and where a mask is true. Shapes of results depend on elements here, so that
//! masks are computed and read at the call.

use crate::dtype::{Kind, kind};
use crate::error::{Error, Result, Site};
use crate::node::Array;
use crate::shape::{Extents, count};
use kiln_ir::{Literal, Scalar};
use kiln_runtime::DynTensor;
use std::panic::Location;

impl Array {
    /// The parts of the array where a mask is true, in row-major order, as NumPy's `x[mask]`. The
    /// mask has the array's first axes, or all of them: of an array of shape `[a, b, c]` and a mask
    /// of shape `[a, b]` the result has shape `[n, c]`, where n is how often the mask is true.
    ///
    /// The mask is computed and read at the call, for the shape depends on it: it is copied to the
    /// host, a byte for each element, and the places where it is true are copied back, eight bytes
    /// each. So the call waits for the device. The elements are not computed, and gradients go
    /// through them. Where that is too slow, keep the shape: [`where_`](Self::where_) puts zeros in
    /// the other places.
    ///
    /// What NumPy writes as `x[mask] = values` is [`values.where_(&mask, &x)`](Self::where_), which
    /// reads nothing; a mask of the first axes is given the others by
    /// [`unsqueeze`](Self::unsqueeze).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, -2.0, 3.0, -4.0], &[2, 2]);
    /// assert_eq!(x.mask_select(&x.greater(0.0)).to_vec::<f32>()?, [1.0, 3.0]);
    /// let second = Array::new(&device, &[false, true], &[2]);
    /// assert_eq!(x.mask_select(&second).shape(), [1, 2]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the mask is of another type than bool, if its axes are not the
    /// array's first ones, or if it cannot be computed, as inside of a function that
    /// [`vmap`](crate::vmap) applies to the elements of a mask.
    #[doc(alias = "masked_select")]
    #[doc(alias = "boolean_mask")]
    #[doc(alias = "extract")]
    #[track_caller]
    pub fn mask_select(&self, mask: &Array) -> Array {
        let site = Location::caller();
        let selected = || -> Result<Array> {
            let op = "mask_select";
            checked_mask(op, [self, mask], site)?;
            let own = self.shape().get(..mask.rank());
            let (Some(_), Some(rest)) =
                (own.filter(|&own| own == mask.shape()), self.shape().get(mask.rank()..))
            else {
                let (shape, of) = (mask.shape(), self.shape());
                let problem = format!("a mask of shape {shape:?} for shape {of:?}, whose first axes differ");
                return Err(Error::Shape { op, problem, location: site });
            };
            let places = places(mask, site)?;
            let whole: Extents = [mask.len()].iter().chain(rest).copied().collect();
            self.taken_at(&places, &self.reshaped(&whole, site), 0, site)
        };
        selected().unwrap_or_else(|error| Array::failed(error, site))
    }

    /// The parts of an axis for which a condition is true, as NumPy's `compress`: the condition has
    /// one axis, and says nothing about parts that it is too short for, which are left out. It is
    /// copied to the host at the call, as by [`mask_select`](Self::mask_select).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 6).reshape(&[2, 3]);
    /// let odd = Array::new(&device, &[false, true], &[2]);
    /// assert_eq!(x.compress(&odd, 1).to_vec::<i64>()?, [1, 4]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there is no such axis, if the condition is of another type than
    /// bool, has not one axis, or is true behind the end of the array's.
    #[track_caller]
    pub fn compress(&self, condition: &Array, axis: isize) -> Array {
        let site = Location::caller();
        let compressed = || -> Result<Array> {
            let op = "compress";
            checked_mask(op, [self, condition], site)?;
            let at = self.axis_at(op, axis, site)?;
            let refused = |problem: String| Err(Error::Shape { op, problem, location: site });
            if condition.rank() != 1 {
                return refused(format!("a condition of shape {:?} instead of one axis", condition.shape()));
            }
            let (places, extent) = (places(condition, site)?, self.shape()[at]);
            match places.last() {
                Some(&last) if last >= extent as i64 => refused(format!(
                    "the condition is true at {last}, and axis {at} of shape {:?} has {extent} elements",
                    self.shape()
                )),
                _ => self.taken_at(&places, self, at, site),
            }
        };
        compressed().unwrap_or_else(|error| Array::failed(error, site))
    }

    /// Where elements are true, or not zero: their i64 indices on each axis, in row-major order, as
    /// NumPy's `nonzero`. NaN is not zero. The array is computed at the call, and a byte for each
    /// element is copied to the host, as by [`mask_select`](Self::mask_select).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let at = Array::new(&device, &[0, 5, 7, 0], &[2, 2]).nonzero();
    /// assert_eq!(at[0].to_vec::<i64>()?, [0, 1]);
    /// assert_eq!(at[1].to_vec::<i64>()?, [1, 0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of an array without axes, or one that cannot be computed, there is one array that has the
    /// error.
    #[track_caller]
    pub fn nonzero(&self) -> Vec<Array> {
        let site = Location::caller();
        let found = || -> Result<Vec<Array>> {
            if let Some(error) = self.error() {
                return Err(error);
            }
            if self.rank() == 0 {
                let problem = "an array without axes has no indices; `reshape` it to [1]".to_owned();
                return Err(Error::Shape { op: "nonzero", problem, location: site });
            }
            let is_bool = kind(self.dtype()) == Kind::Bool;
            let places = places(
                &if is_bool {
                    self.clone()
                } else {
                    self.not_equal(self.filled_like(Literal::zero(self.dtype()), site))
                },
                site,
            )?;
            let Some(device) = self.device() else { return Ok(Vec::new()) };
            let index = |axis: usize| {
                let (extent, after) = (self.shape()[axis] as i64, count(&self.shape()[axis + 1..]) as i64);
                let indices: Vec<i64> = places.iter().map(|place| place / after % extent).collect();
                Array::of_elements(device, &indices, &[indices.len()], site)
            };
            Ok((0..self.rank()).map(index).collect())
        };
        found().unwrap_or_else(|error| vec![Array::failed(error, site)])
    }

    /// The parts of an axis of `x` at places that are known to be inside.
    fn taken_at(&self, places: &[i64], x: &Array, axis: usize, site: Site) -> Result<Array> {
        let Some(device) = self.device() else { return Ok(self.clone()) };
        let mut shape = Extents::from_slice(x.shape());
        shape[axis] = places.len();
        if shape.contains(&0) {
            return Ok(Array::zeros(device, self.dtype(), &shape));
        }
        let mut flat = Extents::from_elem(1, shape.len());
        flat[axis] = places.len();
        let indices = Array::of_elements(device, places, &flat, site).stretched(&shape, site);
        Ok(x.gathered(&indices, axis, site))
    }
}

/// Refuses arrays with errors, and masks that are none.
fn checked_mask(op: &'static str, [x, mask]: [&Array; 2], location: Site) -> Result<()> {
    if let Some(error) = x.error().or_else(|| mask.error()) {
        return Err(error);
    }
    if mask.dtype() != Scalar::Bool {
        let hint = "a mask is an array of bool, such as `x.greater(0)`; indices are for `take`";
        return Err(Error::Type { op, dtype: mask.dtype(), hint, location });
    }
    Ok(())
}

/// Where a mask is true, in row-major order.
fn places(mask: &Array, site: Site) -> Result<Vec<i64>> {
    let flags = mask.read(site, DynTensor::to_vec::<bool>)?;
    Ok((0i64..).zip(flags).filter_map(|(place, flag)| flag.then_some(place)).collect())
}
