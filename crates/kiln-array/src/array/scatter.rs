//! Elements put, or added, at indices: what [`take`](Array::take) and
//! [`take_along`](Array::take_along) read is written.
//!
//! All of it is deterministic: an element is the sum of what is added to it in the order of the
//! indices, or the last one that is put there.

use super::arithmetic::{Operand, checked_class};
use crate::dtype::{Kind, is_narrow, kind, of_library};
use crate::error::{Error, Result, Site};
use crate::grad::custom_vjp;
use crate::node::{Array, Made, common_device};
use crate::op::Op;
use crate::shape::{Extents, broadcast, count};
use kiln_ir::{Class, Literal, ReduceOp, Scalar};
use kiln_runtime::Device;
use smallvec::smallvec;
use std::panic::Location;

impl Array {
    /// The array with the parts of an axis at these indices replaced by `values`, of the shape that
    /// [`take`](Self::take) gives for them, to which they broadcast. Of several values for one
    /// place the last one stays. JAX writes `x.at[indices].set(values)`.
    ///
    /// Negative indices count from the end; an index outside of the axis is an error when the array
    /// is computed. Values are cast to the array's element type.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0], &[4]);
    /// let at = Array::new(&device, &[0, -1], &[2]);
    /// assert_eq!(x.scatter(&at, 9.0, 0).to_vec::<f32>()?, [9.0, 2.0, 3.0, 9.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there is no such axis, if indices are no integers, if values do
    /// not broadcast, or if they hold more than the array can: floats for integers.
    #[doc(alias = "put")]
    #[track_caller]
    pub fn scatter(&self, indices: &Array, values: impl Operand, axis: isize) -> Array {
        let site = Location::caller();
        let put = Given::of_parts("scatter", self, indices, &values.beside(self, site), axis, site);
        put.map_or_else(|error| Array::failed(error, site), |given| given.put())
    }

    /// The array with `values` added to the parts of an axis at these indices; several for one
    /// place are all added, in the order of the indices. NumPy writes `np.add.at`, JAX
    /// `x.at[indices].add(values)`. Otherwise as [`scatter`](Self::scatter).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let words = Array::new(&device, &[2, 0, 2, 2], &[4]);
    /// let counts = Array::zeros(&device, kiln_ir::Scalar::F32, &[3]).scatter_add(&words, 1.0, 0);
    /// assert_eq!(counts.to_vec::<f32>()?, [1.0, 0.0, 3.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`scatter`](Self::scatter), and of an array of bool.
    #[doc(alias = "index_add")]
    #[doc(alias = "add_at")]
    #[track_caller]
    pub fn scatter_add(&self, indices: &Array, values: impl Operand, axis: isize) -> Array {
        let site = Location::caller();
        let added = Given::of_parts("scatter_add", self, indices, &values.beside(self, site), axis, site);
        added.and_then(Given::add).unwrap_or_else(|error| Array::failed(error, site))
    }

    /// The array with the element at each index of an axis, and at the index's own place on the
    /// other axes, replaced by a value: what [`take_along`](Self::take_along) reads. NumPy calls it
    /// `put_along_axis`. Values broadcast to the indices, and otherwise it is as
    /// [`scatter`](Self::scatter).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, 9.0, 8.0, 2.0], &[2, 2]);
    /// let best = x.argmax(1).unsqueeze(1);
    /// assert_eq!(x.put_along(&best, 0.0, 1).to_vec::<f32>()?, [1.0, 0.0, 0.0, 2.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`scatter`](Self::scatter), and if indices have other axes, or another extent than 1
    /// or the array's on one beside `axis`.
    #[doc(alias = "put_along_axis")]
    #[track_caller]
    pub fn put_along(&self, indices: &Array, values: impl Operand, axis: isize) -> Array {
        let site = Location::caller();
        let put = Given::of_elements("put_along", self, indices, &values.beside(self, site), axis, site);
        put.map_or_else(|error| Array::failed(error, site), |given| given.put())
    }

    /// The array with a value added to the element at each index of an axis: as
    /// [`put_along`](Self::put_along), but several values for one place are all added.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1, 2, 3, 4], &[2, 2]);
    /// let at = Array::new(&device, &[0, 0, 1, 0], &[2, 2]);
    /// assert_eq!(x.add_along(&at, 10, 1).to_vec::<i32>()?, [21, 2, 13, 14]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`put_along`](Self::put_along), and of an array of bool.
    #[track_caller]
    pub fn add_along(&self, indices: &Array, values: impl Operand, axis: isize) -> Array {
        let site = Location::caller();
        let added = Given::of_elements("add_along", self, indices, &values.beside(self, site), axis, site);
        added.and_then(Given::add).unwrap_or_else(|error| Array::failed(error, site))
    }
}

/// Where values go.
enum Places {
    /// Parts of the axis, at these indices of one axis.
    Parts(Array),
    /// Elements, at indices of the values' shape.
    Elements(Array),
}

/// What is put or added.
pub(super) struct Given<'a> {
    name: &'static str,
    x: &'a Array,
    /// In the shape of `x`, but for the axis.
    values: Array,
    places: Places,
    axis: usize,
    site: Site,
}

impl<'a> Given<'a> {
    pub(super) fn of_parts(
        name: &'static str,
        x: &'a Array,
        indices: &Array,
        values: &Array,
        axis: isize,
        site: Site,
    ) -> Result<Given<'a>> {
        let at = x.axis_at(name, axis, site)?;
        x.check_indices(name, indices, at, site)?;
        let (before, after) = (&x.shape()[..at], &x.shape()[at + 1..]);
        let to: Extents = before.iter().chain(indices.shape()).chain(after).copied().collect();
        let mut flat = Extents::from_slice(x.shape());
        flat[at] = indices.len();
        let values = fitting(name, x, values, &to, site)?.reshaped(&flat, site);
        let places =
            Places::Parts(checked(&indices.reshaped(&[indices.len()], site), x.shape()[at], (name, site)));
        Ok(Given { name, x, values, places, axis: at, site })
    }

    fn of_elements(
        name: &'static str,
        x: &'a Array,
        indices: &Array,
        values: &Array,
        axis: isize,
        site: Site,
    ) -> Result<Given<'a>> {
        let at = x.axis_at(name, axis, site)?;
        x.check_indices(name, indices, at, site)?;
        let mut to = Extents::from_slice(x.shape());
        let fits = indices.rank() == x.rank() && {
            to[at] = indices.shape()[at];
            indices.shape().iter().zip(&to).all(|(own, to)| own == to || *own == 1)
        };
        if !fits {
            let (shape, of) = (indices.shape(), x.shape());
            let problem =
                format!("indices of shape {shape:?} for shape {of:?}: all axes but {at} must be equal, or 1");
            return Err(Error::Shape { op: name, problem, location: site });
        }
        let values = fitting(name, x, values, &to, site)?;
        let places = Places::Elements(checked(indices, x.shape()[at], (name, site)).stretched(&to, site));
        Ok(Given { name, x, values, places, axis: at, site })
    }

    fn is_nothing(&self) -> bool {
        self.values.is_empty() || self.x.is_empty()
    }

    /// Each place has the last one of its values, if there are some.
    fn put(self) -> Array {
        let Given { x, ref values, axis, site, .. } = self;
        let Some(device) = x.device().filter(|_| !self.is_nothing()) else { return x.clone() };
        let extent = x.shape()[axis];
        let (last, values) = match &self.places {
            Places::Parts(places) => {
                let last = last_at(places, device, 0, extent, site);
                let mut along = Extents::from_elem(1, x.rank());
                along[axis] = extent;
                let values = values.take(&last.maximum(0i64), axis as isize);
                (last.reshaped(&along, site), values)
            }
            Places::Elements(places) => {
                let last = last_at(places, device, axis, extent, site);
                let values = values.take_along(&last.maximum(0i64), axis as isize);
                (last, values)
            }
        };
        values.where_(&last.greater_equal(0i64), x)
    }

    pub(super) fn add(self) -> Result<Array> {
        let Given { name, x, ref values, axis, site, .. } = self;
        checked_class(name, Class::Number, x.dtype(), site)?;
        if self.is_nothing() {
            return Ok(x.clone());
        }
        let extent = x.shape()[axis];
        let sums = match &self.places {
            Places::Parts(places) => sums_of_parts(values, places, axis, extent, site),
            Places::Elements(places) => sums_of_elements(values, places, axis, extent, site),
        };
        Ok(x + sums)
    }
}

/// The most pairs of a value and a place that are compared; of more, places are sorted first.
const MOST_COMPARED: usize = 1 << 20;

/// For each index of an axis where the last of its places is, or -1.
fn last_at(places: &Array, device: &Device, axis: usize, extent: usize, site: Site) -> Array {
    if places.len().saturating_mul(extent) <= MOST_COMPARED {
        let (apart, whole) = divided(places.shape(), axis, extent);
        let order = Array::iota(device, &whole, axis, site);
        let order = order.where_(&is_at(&places.reshaped(&apart, site), &whole, axis, site), -1i64);
        return super::reduce::reduce(ReduceOp::Max, &order, &[axis], site);
    }
    let along = axis as isize;
    let order = places.argsort(along);
    let mut one = Extents::from_elem(1, places.rank());
    one[axis] = extent;
    let mut whole = Extents::from_slice(places.shape());
    whole[axis] = extent;
    let index = Array::iota(device, &one, axis, site).stretched(&whole, site);
    // By bisection, how many places are at an index or before.
    let count = places.shape()[axis];
    let mut before = index.filled_like(Literal::index(0), site);
    let place_of = |number: &Array| places.take_along(&order.take_along(number, along), along);
    for step in (0..=count.ilog2()).rev().map(|bit| 1i64 << bit) {
        let next = &before + step;
        let fits = next.less_equal(count as i64);
        let last = place_of(&(&next - 1i64).minimum(count as i64 - 1));
        before = next.where_(&(fits & last.less_equal(&index)), &before);
    }
    let number = (&before - 1i64).maximum(0i64);
    let is_there = before.greater(0i64) & place_of(&number).equal(&index);
    order.take_along(&number, along).where_(&is_there, -1i64)
}

/// Values in the element type of an array and in a shape, if that loses nothing of their kind.
fn fitting(name: &'static str, x: &Array, values: &Array, to: &[usize], site: Site) -> Result<Array> {
    if let Some(error) = values.error() {
        return Err(error);
    }
    common_device(&[x, values], name, site)?;
    if kind(values.dtype()) > kind(x.dtype()) {
        let problem = format!("values of {} for an array of {}: cast them first", values.dtype(), x.dtype());
        return Err(Error::Shape { op: name, problem, location: site });
    }
    if broadcast(values.shape(), to).as_deref() != Some(to) {
        let problem = format!("values of shape {:?} do not stretch to {to:?}", values.shape());
        return Err(Error::Shape { op: name, problem, location: site });
    }
    Ok(values.cast_at(x.dtype(), site).stretched(to, site))
}

/// Indices counted from 0. One outside of the axis is an error when they are computed.
fn checked(indices: &Array, extent: usize, (name, site): (&'static str, Site)) -> Array {
    let Some(device) = indices.device().filter(|_| !indices.is_empty()) else { return indices.clone() };
    // An axis that has its own indices as elements, of which some are taken.
    let axis = Array::iota(device, &[extent], 0, site);
    let places = axis.gathered(&indices.reshaped(&[indices.len()], site), 0, site).called(name);
    places.reshaped(indices.shape(), site)
}

/// Shapes for places beside all indices of an axis: the places' own with an axis more, and the
/// whole.
fn divided(places: &[usize], axis: usize, extent: usize) -> (Extents, Extents) {
    let mut apart = Extents::from_slice(places);
    apart.insert(axis + 1, 1);
    let mut whole = apart.clone();
    whole[axis + 1] = extent;
    (apart, whole)
}

/// Whether a place is the index on the axis after its own.
fn is_at(places: &Array, whole: &[usize], axis: usize, site: Site) -> Array {
    let Some(device) = places.device() else { return places.clone() };
    places.equal(Array::iota(device, whole, axis + 1, site))
}

/// For each index of an axis the sum of the parts of `values` that have it as their place, in f32
/// or wider.
pub(crate) fn sums_of_parts(values: &Array, places: &Array, axis: usize, extent: usize, site: Site) -> Array {
    if is_narrow(values.dtype()) {
        let wide = values.cast_at(of_library(values.dtype()), site);
        return sums_of_parts(&wide, places, axis, extent, site).cast_at(values.dtype(), site);
    }
    let (before, after) = (&values.shape()[..axis], &values.shape()[axis + 1..]);
    let [outer, inner] = [before, after].map(count);
    let mut shape = Extents::from_slice(values.shape());
    shape[axis] = extent;
    if places.len().saturating_mul(extent) <= MOST_COMPARED && kind(values.dtype()) != Kind::Float
        || places.len() == 1
    {
        // It joins the kernels of what it adds, and of what comes after.
        let mut along = Extents::from_elem(1, values.rank());
        along[axis] = places.len();
        let places = places.reshaped(&along, site).stretched(values.shape(), site);
        return sums_of_elements(values, &places, axis, extent, site);
    }
    let values = values.reshaped(&[outer, places.len(), inner], site);
    let sums = Array::record(&[&values, places], site, || {
        Ok(Made { op: Op::AddParts, dtype: values.dtype(), shape: smallvec![outer, extent, inner] })
    });
    sums.reshaped(&shape, site)
}

/// For each index of an axis the sum of the elements of `values` that have it as their place, in
/// f32 or wider. Few are compared with all indices, which stores nothing between, and so is one
/// along the axis, which is no more work than the result has; of many each has a place of its own
/// in one row of all sums.
pub(crate) fn sums_of_elements(
    values: &Array,
    places: &Array,
    axis: usize,
    extent: usize,
    site: Site,
) -> Array {
    if values.shape()[axis] > 1 && values.len().saturating_mul(extent) > MOST_COMPARED {
        return sums_in_one_row(values, places, axis, extent, site);
    }
    let sums = |values: &Array| {
        let (apart, whole) = divided(values.shape(), axis, extent);
        let hit = is_at(&places.reshaped(&apart, site), &whole, axis, site);
        let all = values.reshaped(&apart, site).stretched(&whole, site);
        let zero = all.filled_like(Literal::zero(all.dtype()), site);
        super::reduce::wide_sum(&all.where_(&hit, zero), &[axis], site)
    };
    // The gradient of a value is that of its place.
    custom_vjp(
        &[values, places],
        |of| sums(&of[0]),
        move |of, _, g| {
            let none = of[1].filled_like(Literal::zero(Scalar::I64), site);
            vec![g.gathered(&of[1], axis, site), none]
        },
    )
}

/// [`sums_of_elements`] of many: those of the parts of a row that has all sums one after another.
fn sums_in_one_row(values: &Array, places: &Array, axis: usize, extent: usize, site: Site) -> Array {
    let Some(device) = values.device() else { return values.clone() };
    let [outer, inner] = [&values.shape()[..axis], &values.shape()[axis + 1..]].map(count);
    let (number, mut shape) = (values.shape()[axis], Extents::from_slice(values.shape()));
    shape[axis] = extent;
    let apart = [outer, number, inner];
    let before = Array::iota(device, &[outer, 1, 1], 0, site) * extent as i64;
    let after = Array::iota(device, &[1, 1, inner], 2, site);
    let own = (places.reshaped(&apart, site) + before) * inner as i64 + after;
    let all = values.len();
    let sums = sums_of_parts(
        &values.reshaped(&[all], site),
        &own.reshaped(&[all], site),
        0,
        outer * extent * inner,
        site,
    );
    sums.reshaped(&shape, site)
}
