//! Other shapes, parts, other orders of axes: indices of what reads them, and no work of their own.

use super::create::checked_size;
use super::extent::Extent;
use super::slice_range::SliceRange;
use crate::error::{Error, Site};
use crate::node::{Array, Made};
use crate::op::Op;
use crate::shape::{self, Extents, count};
use smallvec::SmallVec;
use std::ops::Range;
use std::panic::Location;

impl Array {
    pub(super) fn view(
        &self,
        site: Site,
        make: impl FnOnce() -> Result<(Op, Extents), String>,
        name: &'static str,
    ) -> Array {
        Array::record(&[self], site, || match make() {
            Ok((op, shape)) => Ok(Made { op, dtype: self.dtype(), shape }),
            Err(problem) => Err(Error::Shape { op: name, problem, location: site }),
        })
    }

    /// Stretches to a shape that is known to fit.
    pub(crate) fn stretched(&self, to: &[usize], site: Site) -> Array {
        if self.shape() == to {
            return self.clone();
        }
        let mut own = Extents::from_elem(1, to.len() - self.rank().min(to.len()));
        own.extend_from_slice(self.shape());
        let aligned = self.reshaped(&own, site);
        aligned.view(site, || Ok((Op::Broadcast, Extents::from_slice(to))), "broadcast_to")
    }

    /// Another shape that is known to have as many elements.
    pub(crate) fn reshaped(&self, to: &[usize], site: Site) -> Array {
        if self.shape() == to {
            return self.clone();
        }
        self.view(site, || Ok((Op::Reshape, Extents::from_slice(to))), "reshape")
    }

    /// Stretches axes of extent 1, and adds axes in front, to this shape.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1, 2], &[2, 1]).broadcast_to(&[2, 3]);
    /// assert_eq!(x.to_vec::<i32>()?, [1, 1, 1, 2, 2, 2]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if an extent is neither 1 nor that of the shape, or if the shape has
    /// fewer axes.
    #[track_caller]
    pub fn broadcast_to(&self, shape: &[usize]) -> Array {
        let site = Location::caller();
        if self.error().is_some() {
            return self.clone();
        }
        let stretches = shape::broadcast(self.shape(), shape).as_deref() == Some(shape);
        let sized = checked_size("broadcast_to", shape, self.dtype(), site);
        match (stretches, sized) {
            (true, Ok(())) => self.stretched(shape, site),
            (true, Err(error)) => Array::failed(error, site),
            (false, _) => {
                let problem = format!("shape {:?} does not stretch to {shape:?}", self.shape());
                Array::failed(Error::Shape { op: "broadcast_to", problem, location: site }, site)
            }
        }
    }

    /// The same elements in row-major order under another shape. One extent may be -1: it is what
    /// the others leave. An empty shape has to say its type: `&[0usize; 0]`.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 6).reshape(&[2, -1]);
    /// assert_eq!(x.shape(), [2, 3]);
    /// assert_eq!(x.flatten().reshape(x.shape()).shape(), [2, 3]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the shape has another number of elements, or leaves more than one
    /// extent open.
    #[track_caller]
    pub fn reshape<E: Extent>(&self, shape: &[E]) -> Array {
        let shape: SmallVec<[isize; 4]> = shape.iter().map(|extent| extent.signed()).collect();
        self.filled(&shape, Location::caller())
    }

    /// The same under a shape of which one extent may be -1.
    fn filled(&self, shape: &[isize], site: Site) -> Array {
        if self.error().is_some() {
            return self.clone();
        }
        let known: usize = shape.iter().filter_map(|&extent| usize::try_from(extent).ok()).product();
        let open = shape.iter().filter(|&&extent| extent == -1).count();
        let rest = if open == 1 && known > 0 { self.len() / known } else { 0 };
        let extent = |&extent: &isize| if extent == -1 { Some(rest) } else { usize::try_from(extent).ok() };
        let extents: Option<Extents> = shape.iter().map(extent).collect();
        let problem = match extents {
            _ if open > 1 => format!("shape {shape:?} leaves {open} extents open: only one may be -1"),
            _ if open == 1 && known == 0 => {
                format!("any extent would do for the -1 of shape {shape:?}: write it out")
            }
            Some(extents) if count(&extents) == self.len() => return self.reshaped(&extents, site),
            _ => format!("{} elements do not fill shape {shape:?}", self.len()),
        };
        Array::failed(Error::Shape { op: "reshape", problem, location: site }, site)
    }

    /// All elements on one axis.
    #[track_caller]
    pub fn flatten(&self) -> Array {
        self.reshaped(&[self.len()], Location::caller())
    }

    /// The axes in reverse order.
    #[track_caller]
    pub fn transpose(&self) -> Array {
        let order = (0..self.rank()).rev().collect();
        self.ordered(order, Location::caller())
    }

    /// The axes in another order: axis `i` of the result is axis `order[i]` of this one.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 6).reshape(&[1, 2, 3]).permute(&[2, 0, 1]);
    /// assert_eq!((x.shape(), x.to_vec::<i64>()?), (&[3, 1, 2][..], vec![0, 3, 1, 4, 2, 5]));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if `order` does not name each axis once.
    #[track_caller]
    pub fn permute(&self, order: &[isize]) -> Array {
        let site = Location::caller();
        if self.error().is_some() {
            return self.clone();
        }
        let rank = self.rank();
        let axes: Option<Extents> = order.iter().map(|&axis| shape::axis(axis, rank)).collect();
        match axes.filter(|axes| axes.len() == rank && (0..rank).all(|axis| axes.contains(&axis))) {
            Some(axes) => self.ordered(axes, site),
            None => {
                let problem = format!("{order:?} does not name each axis of shape {:?} once", self.shape());
                Array::failed(Error::Shape { op: "permute", problem, location: site }, site)
            }
        }
    }

    /// Two axes exchanged.
    ///
    /// # Errors
    /// The result has an error if there is no such axis.
    #[track_caller]
    pub fn swap_axes(&self, one: isize, other: isize) -> Array {
        let site = Location::caller();
        match [one, other].map(|axis| self.axis_at("swap_axes", axis, site)) {
            [Ok(one), Ok(other)] => {
                let mut order: Extents = (0..self.rank()).collect();
                order.swap(one, other);
                self.ordered(order, site)
            }
            [Err(error), _] | [_, Err(error)] => Array::failed(error, site),
        }
    }

    /// The axes in an order that is known to name each once.
    pub(crate) fn ordered(&self, order: Extents, site: Site) -> Array {
        // An array with an error has no axes.
        let has_axes = self.rank() == order.len();
        if !has_axes || order.iter().enumerate().all(|(axis, &from)| axis == from) {
            return self.clone();
        }
        let shape = order.iter().map(|&axis| self.shape()[axis]).collect();
        self.view(site, || Ok((Op::Permute(order), shape)), "permute")
    }

    /// The elements of an axis in a range; an end that is left out is the axis's, and one below 0
    /// counts from the axis's end.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 6).reshape(&[2, 3]);
    /// assert_eq!(x.slice(1, 1..).to_vec::<i64>()?, [1, 2, 4, 5]);
    /// assert_eq!(x.slice(1, ..-1).to_vec::<i64>()?, [0, 1, 3, 4]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there is no such axis, or if the range goes beyond it.
    #[track_caller]
    pub fn slice(&self, axis: isize, range: impl SliceRange) -> Array {
        self.sliced("slice", axis, range, 1, Location::caller())
    }

    /// Every `step`th element of an axis in a range, from its first one; with a negative step from
    /// its last one back.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 7);
    /// assert_eq!(x.slice_step(0, 1.., 3).to_vec::<i64>()?, [1, 4]);
    /// assert_eq!(x.slice_step(0, .., -2).to_vec::<i64>()?, [6, 4, 2, 0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`slice`](Self::slice), and if the step is 0.
    #[track_caller]
    pub fn slice_step(&self, axis: isize, range: impl SliceRange, step: isize) -> Array {
        self.sliced("slice_step", axis, range, step, Location::caller())
    }

    fn sliced(
        &self,
        op: &'static str,
        axis: isize,
        range: impl SliceRange,
        step: isize,
        site: Site,
    ) -> Array {
        let axis = match self.axis_at(op, axis, site) {
            Ok(axis) => axis,
            Err(error) => return Array::failed(error, site),
        };
        let within = range.bounds().within(self.shape()[axis]).filter(|_| step != 0);
        let Some(Range { start: from, end: to }) = within else {
            let (range, shape) = (range.written(), self.shape());
            let problem = format!("{range} in steps of {step} is no part of axis {axis} of shape {shape:?}");
            return Array::failed(Error::Shape { op, problem, location: site }, site);
        };
        let part = self.part(axis, from, to - from, 1, site);
        let forward = if step < 0 { part.flipped(Extents::from_slice(&[axis]), site) } else { part };
        forward.part(axis, 0, (to - from).div_ceil(step.unsigned_abs()), step.unsigned_abs(), site)
    }

    /// `count` elements of an axis from `from` on, in steps, which are known to be there.
    pub(crate) fn part(&self, axis: usize, from: usize, count: usize, step: usize, site: Site) -> Array {
        if count == self.shape()[axis] && step == 1 {
            return self.clone();
        }
        let (mut start, mut steps) = (Extents::from_elem(0, self.rank()), Extents::from_elem(1, self.rank()));
        let mut shape = Extents::from_slice(self.shape());
        (start[axis], steps[axis], shape[axis]) = (from, step, count);
        self.view(site, || Ok((Op::Slice { start, step: steps }, shape)), "slice")
    }

    /// The part at an index of an axis, which goes.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 6).reshape(&[2, 3]);
    /// assert_eq!(x.select(1, -1).to_vec::<i64>()?, [2, 5]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there is no such axis, or if it has no such index.
    #[track_caller]
    pub fn select(&self, axis: isize, index: isize) -> Array {
        let site = Location::caller();
        let at = match self.axis_at("select", axis, site) {
            Ok(at) => at,
            Err(error) => return Array::failed(error, site),
        };
        match shape::axis(index, self.shape()[at]) {
            Some(index) => {
                self.part(at, index, 1, 1, site).reshaped(&shape::without(self.shape(), &[at]), site)
            }
            None => {
                let shape = self.shape();
                let problem = format!("index {index} lies outside of axis {axis} of shape {shape:?}");
                Array::failed(Error::Shape { op: "select", problem, location: site }, site)
            }
        }
    }

    /// The axes from their end to their start; all of them if none is named.
    ///
    /// # Errors
    /// The result has an error if there is no such axis, or if one is named twice.
    #[track_caller]
    pub fn flip(&self, axes: &[isize]) -> Array {
        let site = Location::caller();
        match self.axes_at("flip", axes, site) {
            Ok(axes) => self.flipped(axes, site),
            Err(error) => Array::failed(error, site),
        }
    }

    pub(crate) fn flipped(&self, axes: Extents, site: Site) -> Array {
        self.view(site, || Ok((Op::Flip(axes), Extents::from_slice(self.shape()))), "flip")
    }

    /// The elements in the places that a slice of an array of this shape takes, and zero elsewhere.
    pub(crate) fn spread(&self, shape: &[usize], start: &Extents, step: &Extents, site: Site) -> Array {
        let mut g = self.clone();
        for axis in 0..shape.len() {
            if step[axis] == 1 || g.shape()[axis] == 0 {
                continue;
            }
            let count = g.shape()[axis];
            let mut divided = Extents::from_slice(g.shape());
            divided.insert(axis + 1, 1);
            let mut widths = vec![(0, 0); divided.len()];
            widths[axis + 1].1 = step[axis] - 1;
            let mut joined = Extents::from_slice(g.shape());
            joined[axis] = count * step[axis];
            let apart = g.reshaped(&divided, site).pad(&widths).reshaped(&joined, site);
            g = apart.part(axis, 0, (count - 1) * step[axis] + 1, 1, site);
        }
        let after = |axis: usize| {
            shape[axis] - start[axis].min(shape[axis]) - g.shape()[axis].min(shape[axis] - start[axis])
        };
        let widths: Vec<(usize, usize)> = (0..shape.len()).map(|axis| (start[axis], after(axis))).collect();
        g.pad(&widths)
    }

    /// An axis more, of extent 1, which is this one of the result: -1 appends it.
    ///
    /// # Errors
    /// The result has an error if there is no such place among the axes.
    #[track_caller]
    pub fn unsqueeze(&self, axis: isize) -> Array {
        let site = Location::caller();
        match shape::axis(axis, self.rank() + 1) {
            _ if self.error().is_some() => self.clone(),
            Some(axis) => {
                let mut shape = Extents::from_slice(self.shape());
                shape.insert(axis, 1);
                self.reshaped(&shape, site)
            }
            None => Array::failed(self.no_axis("unsqueeze", axis, site), site),
        }
    }

    /// Without this axis, whose extent is 1.
    ///
    /// # Errors
    /// The result has an error if there is no such axis, or if its extent is not 1.
    #[track_caller]
    pub fn squeeze(&self, axis: isize) -> Array {
        let site = Location::caller();
        match self.axis_at("squeeze", axis, site) {
            Ok(at) if self.shape()[at] == 1 => self.reshaped(&shape::without(self.shape(), &[at]), site),
            Ok(_) => {
                let problem = format!("axis {axis} of shape {:?} does not have extent 1", self.shape());
                Array::failed(Error::Shape { op: "squeeze", problem, location: site }, site)
            }
            Err(error) => Array::failed(error, site),
        }
    }

    fn no_axis(&self, op: &'static str, axis: isize, location: Site) -> Error {
        Error::Shape { op, problem: format!("shape {:?} has no axis {axis}", self.shape()), location }
    }

    /// The axis counted from 0.
    pub(crate) fn axis_at(&self, op: &'static str, axis: isize, site: Site) -> Result<usize, Error> {
        match self.error() {
            Some(error) => Err(error),
            None => shape::axis(axis, self.rank()).ok_or_else(|| self.no_axis(op, axis, site)),
        }
    }

    /// The axes counted from 0, in order; all of them if none is named.
    pub(crate) fn axes_at(&self, op: &'static str, axes: &[isize], location: Site) -> Result<Extents, Error> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        if axes.is_empty() {
            return Ok((0..self.rank()).collect());
        }
        shape::axes(axes, self.rank()).ok_or_else(|| {
            let missing = axes.iter().find(|&&axis| shape::axis(axis, self.rank()).is_none());
            match missing {
                Some(&axis) => self.no_axis(op, axis, location),
                None => {
                    let problem = format!("{axes:?} name an axis of shape {:?} twice", self.shape());
                    Error::Shape { op, problem, location }
                }
            }
        })
    }
}
