//! Views of a tensor: parts of it, its axes in other orders, its elements under other shapes.

use super::dynamic::DynTensor;
use super::layout::{Dims, Layout};
use super::typed::Tensor;
use crate::error::{Error, Result};
use kiln_ir::MAX_VIEW_RANK;
use kiln_lang::Elem;
use smallvec::SmallVec;
use std::ops::Range;
use std::panic::Location;

/// Views share the memory of the tensor that they come from; a launch refuses arguments that share
/// memory if it writes one.
impl DynTensor {
    /// The part of an axis in `range`, as a view.
    ///
    /// # Errors
    /// [`Error::Range`] if the axis or the range does not exist.
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<DynTensor> {
        let layout = self.layout();
        if axis >= layout.rank() || range.start > range.end || range.end > layout.shape[axis] {
            return Err(self.out_of_range(format!("{range:?} on axis {axis}")));
        }
        let mut layout = layout.clone();
        layout.offset += range.start * layout.strides[axis];
        layout.shape[axis] = range.len();
        if layout.len() == 0 {
            // Parts of empty parts must not wander beyond the end.
            layout.offset = 0;
        }
        Ok(self.view(layout))
    }

    /// Every `step`th element along an axis, from the first on, as a view.
    ///
    /// ```
    /// # use kiln_runtime::{Device, DynTensor};
    /// let x = DynTensor::new(&Device::open("interp")?, &[0, 1, 2, 3, 4, 5, 6], &[7])?;
    /// assert_eq!(x.step_by(0, 3)?.to_vec::<i32>()?, [0, 3, 6]);
    /// assert_eq!(x.slice(0, 1..7)?.step_by(0, 2)?.to_vec::<i32>()?, [1, 3, 5]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] if the axis does not exist or the step is 0.
    pub fn step_by(&self, axis: usize, step: usize) -> Result<DynTensor> {
        let mut layout = self.layout().clone();
        if axis >= layout.rank() || step == 0 {
            return Err(match step {
                0 => self.no_view(format!("a step of 0 on axis {axis} goes nowhere: steps are at least 1")),
                _ => self.out_of_range(format!("axis {axis}")),
            });
        }
        layout.shape[axis] = layout.shape[axis].div_ceil(step);
        // Of at most one element no step is ever taken, and a long one could overflow.
        if layout.shape[axis] > 1 {
            layout.strides[axis] *= step;
        }
        Ok(self.view(layout))
    }

    /// The axes in reverse order, as a view.
    pub fn transpose(&self) -> DynTensor {
        let mut layout = self.layout().clone();
        layout.shape.reverse();
        layout.strides.reverse();
        self.view(layout)
    }

    /// Two axes exchanged, as a view.
    ///
    /// # Errors
    /// [`Error::Range`] if one of the axes does not exist.
    pub fn swap_axes(&self, one: usize, other: usize) -> Result<DynTensor> {
        if one.max(other) >= self.rank() {
            return Err(self.out_of_range(format!("axes {one} and {other}")));
        }
        let mut layout = self.layout().clone();
        layout.shape.swap(one, other);
        layout.strides.swap(one, other);
        Ok(self.view(layout))
    }

    /// The axes in another order, as a view: axis `i` of the result is axis `order[i]` of this one.
    ///
    /// ```
    /// # use kiln_runtime::{Device, DynTensor};
    /// let x = DynTensor::new(&Device::open("interp")?, &[1, 2, 3, 4, 5, 6], &[1, 2, 3])?;
    /// let y = x.permute(&[2, 0, 1])?;
    /// assert_eq!((y.shape(), y.to_vec::<i32>()?), (&[3, 1, 2][..], vec![1, 4, 2, 5, 3, 6]));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] unless `order` names every axis once.
    pub fn permute(&self, order: &[usize]) -> Result<DynTensor> {
        let Layout { offset, shape, strides } = self.layout();
        if order.len() != self.rank() || (0..self.rank()).any(|axis| !order.contains(&axis)) {
            return Err(self.no_view(format!("the order {order:?} does not name each axis once")));
        }
        let of = |dims: &Dims| order.iter().map(|&axis| dims[axis]).collect();
        Ok(self.view(Layout { offset: *offset, shape: of(shape), strides: of(strides) }))
    }

    /// The part at an index of an axis, as a view with one axis fewer.
    ///
    /// ```
    /// # use kiln_runtime::{Device, DynTensor};
    /// let x = DynTensor::new(&Device::open("interp")?, &[1, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.select(1, 2)?.to_vec::<i32>()?, [3, 6]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] if the axis or the index does not exist.
    pub fn select(&self, axis: usize, index: usize) -> Result<DynTensor> {
        let mut layout = self.layout().clone();
        if axis >= layout.rank() || index >= layout.shape[axis] {
            return Err(self.out_of_range(format!("index {index} of axis {axis}")));
        }
        // Parts of empty tensors must not wander beyond the end.
        layout.offset = if self.is_empty() { 0 } else { layout.offset + index * layout.strides[axis] };
        layout.shape.remove(axis);
        layout.strides.remove(axis);
        Ok(self.view(layout))
    }

    /// The elements from `offset` on at these extents and strides, all in elements, as a view: what
    /// several slices, reshapes and orders of axes give together. The offset counts from this
    /// tensor's first element.
    ///
    /// ```
    /// # use kiln_runtime::{Device, DynTensor};
    /// let x = DynTensor::new(&Device::open("interp")?, &[0, 1, 2, 3, 4, 5, 6, 7], &[8])?;
    /// let y = x.strided(1, &[2, 3], &[1, 2])?;
    /// assert_eq!(y.to_vec::<i32>()?, [1, 3, 5, 2, 4, 6]);
    /// assert!(x.strided(1, &[2, 4], &[1, 2]).is_err()); // one element too many
    /// assert!(x.strided(0, &[2, 3], &[1, 1]).is_err()); // element 1 is there twice
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] if an element lies outside of this tensor, if this is a view with gaps, if
    /// there are not as many strides as extents, or if two indices name one element.
    pub fn strided(&self, offset: usize, extents: &[usize], strides: &[usize]) -> Result<DynTensor> {
        let start = self.dense_range()?.start;
        let inside = || {
            let mut axes = extents.iter().zip(strides);
            let last = axes.try_fold(offset, |sum, (extent, stride)| {
                sum.checked_add((extent.max(&1) - 1).checked_mul(*stride)?)
            });
            last.is_some_and(|last| last < self.len()) || extents.contains(&0)
        };
        if extents.len() != strides.len() || !inside() || has_overlap(extents, strides) {
            let what = format!("offset {offset}, extents {extents:?} and strides {strides:?}");
            return Err(self.out_of_range(what));
        }
        let start = if extents.contains(&0) { 0 } else { start + offset };
        Ok(self.view(Layout {
            offset: start,
            shape: Dims::from_slice(extents),
            strides: Dims::from_slice(strides),
        }))
    }

    /// A view with one more axis, of extent 1, before this axis.
    ///
    /// ```
    /// # use kiln_runtime::{Device, DynTensor};
    /// let x = DynTensor::new(&Device::open("interp")?, &[1, 2, 3], &[3])?;
    /// assert_eq!(x.unsqueeze(0)?.shape(), [1, 3]);
    /// assert_eq!(x.unsqueeze(1)?.squeeze(1)?.shape(), [3]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] if `axis` is above the rank.
    pub fn unsqueeze(&self, axis: usize) -> Result<DynTensor> {
        let mut layout = self.layout().clone();
        if axis > layout.rank() {
            return Err(self.out_of_range(format!("a new axis {axis}")));
        }
        // Never taken; as for a dense tensor, so that those remain dense.
        let step = match axis < layout.rank() {
            true => layout.shape[axis].max(1) * layout.strides[axis],
            false => 1,
        };
        layout.shape.insert(axis, 1);
        layout.strides.insert(axis, step);
        Ok(self.view(layout))
    }

    /// A view without this axis, whose extent is 1.
    ///
    /// # Errors
    /// [`Error::Range`] if the axis does not exist, or has another extent.
    pub fn squeeze(&self, axis: usize) -> Result<DynTensor> {
        match self.shape().get(axis) {
            Some(1) => self.select(axis, 0),
            _ => Err(self.no_view(format!("there is no axis {axis} of extent 1"))),
        }
    }

    /// The same elements, as a view.
    pub fn alias(&self) -> DynTensor {
        self.view(self.layout().clone())
    }

    /// The same elements in row-major order under another shape, as a view.
    ///
    /// ```
    /// # use kiln_runtime::{Device, DynTensor};
    /// let x = DynTensor::new(&Device::open("interp")?, &[1, 2, 3, 4, 5, 6], &[6])?;
    /// assert_eq!(x.reshape(&[2, 3])?.slice(0, 1..2)?.to_vec::<i32>()?, [4, 5, 6]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] if the number of elements differs, [`Error::Range`] if this is a view with
    /// gaps (`copy` it first).
    pub fn reshape(&self, shape: &[usize]) -> Result<DynTensor> {
        let start = self.dense_range()?.start;
        let mut layout = Layout::row_major(shape, self.dtype())?;
        if layout.len() != self.len() {
            let (given, expected) = (self.len(), layout.len());
            return Err(Error::Length { given, expected, shape: shape.to_vec() });
        }
        layout.offset = start;
        Ok(self.view(layout))
    }

    /// The same tensor under a static element type and rank.
    ///
    /// # Errors
    /// [`Error::DataType`] if its elements are of another type, or it has another number of axes.
    #[track_caller]
    pub fn downcast<T: Elem, const R: usize>(self) -> Result<Tensor<T, R>> {
        Tensor::of(self, Location::caller())
    }

    /// The same tensor under a static element type and rank, borrowed: for calling kernels and
    /// functions with types.
    ///
    /// ```
    /// # use kiln_runtime::{Device, DynTensor, Tensor};
    /// fn total(x: &Tensor<f32, 1>) -> kiln_runtime::Result<f32> {
    ///     Ok(x.to_vec()?.iter().sum())
    /// }
    /// let x = DynTensor::new(&Device::open("interp")?, &[1.0f32, 2.0], &[2])?;
    /// assert_eq!(total(x.downcast_ref()?)?, 3.0);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`downcast`](Self::downcast).
    #[track_caller]
    pub fn downcast_ref<T: Elem, const R: usize>(&self) -> Result<&Tensor<T, R>> {
        Tensor::of_ref(self, Location::caller())
    }

    /// The same tensor under a static element type and rank, to be written.
    ///
    /// # Errors
    /// As of [`downcast`](Self::downcast).
    #[track_caller]
    pub fn downcast_mut<T: Elem, const R: usize>(&mut self) -> Result<&mut Tensor<T, R>> {
        Tensor::of_mut(self, Location::caller())
    }

    fn out_of_range(&self, what: String) -> Error {
        self.no_view(format!("{what} is out of range"))
    }

    fn no_view(&self, what: String) -> Error {
        Error::Range { what, shape: self.shape().to_vec() }
    }
}

/// Whether two indices may name one element: not if each stride is beyond all that the axes of
/// smaller strides reach.
fn has_overlap(extents: &[usize], strides: &[usize]) -> bool {
    if extents.contains(&0) {
        return false;
    }
    let axes = strides.iter().copied().zip(extents.iter().copied());
    let mut axes: SmallVec<[(usize, usize); MAX_VIEW_RANK]> =
        axes.filter(|&(_, extent)| extent > 1).collect();
    axes.sort_unstable();
    let mut reach = 0;
    axes.into_iter().any(|(stride, extent)| {
        let overlaps = stride <= reach;
        reach += (extent - 1) * stride;
        overlaps
    })
}
