//! Windows over axes, and what is made of them: convolutions and pooling.

use super::arithmetic::checked_class;
use crate::dtype::promote;
use crate::error::{Error, Result, Site};
use crate::node::{Array, Made, common_device};
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::Class;
use std::panic::Location;

impl Array {
    /// The windows of `width` neighbors along an axis, one every `step` elements: the axis becomes
    /// two, the number of windows and `width`. Elements that fill no window are left out.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 5);
    /// assert_eq!(x.windows(0, 3, 2).to_vec::<i64>()?, [0, 1, 2, 2, 3, 4]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there is no such axis, if `width` or `step` is 0, or if the axis
    /// has fewer elements than a window.
    #[track_caller]
    pub fn windows(&self, axis: isize, width: usize, step: usize) -> Array {
        let site = Location::caller();
        match self.axis_at("windows", axis, site) {
            Ok(at) => self.windowed(at, width, step, "windows", site),
            Err(error) => Array::failed(error, site),
        }
    }

    fn windowed(&self, axis: usize, width: usize, step: usize, name: &'static str, site: Site) -> Array {
        let extent = self.shape()[axis];
        if width == 0 || step == 0 || width > extent {
            let problem = format!(
                "windows of {width} elements every {step} on axis {axis} of shape {:?}",
                self.shape()
            );
            return Array::failed(Error::Shape { op: name, problem, location: site }, site);
        }
        let count = (extent - width) / step + 1;
        let mut shape = Extents::from_slice(self.shape());
        shape[axis] = count;
        shape.insert(axis + 1, width);
        if step == width {
            return self.part(axis, 0, count * width, 1, site).reshaped(&shape, site);
        }
        Array::record(&[self], site, || {
            Ok(Made { op: Op::Windows { axis, step }, dtype: self.dtype(), shape })
        })
    }

    /// The cross-correlation of images `[images, channels, height, width]` with a weight
    /// `[outputs, channels, rows, columns]`, at every `step`th place of each axis and with so many
    /// rows and columns of zeros on each side: `[images, outputs, …, …]`.
    ///
    /// It is a product of the windows and the weight; sums of 16-bit floats are in f32.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let image = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2]);
    /// let weight = Array::full(&device, 1.0f32, &[1, 1, 2, 2]);
    /// let y = image.conv2d(&weight, [1, 1], [0, 1]);
    /// assert_eq!((y.shape(), y.to_vec::<f32>()?), (&[1, 1, 1, 3][..], vec![4.0, 10.0, 6.0]));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there are not four axes each, if the channels differ, if a step
    /// is 0, or if the weight is larger than the image with its zeros.
    #[track_caller]
    pub fn conv2d(&self, weight: &Array, step: [usize; 2], padding: [usize; 2]) -> Array {
        let site = Location::caller();
        convolved([self, weight], step, padding, [self.shape(), weight.shape()], "conv2d", site)
            .unwrap_or_else(|error| Array::failed(error, site))
    }

    /// The greatest element of each window of the last two of four axes.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let image = Array::arange(&device, 16).reshape(&[1, 1, 4, 4]);
    /// assert_eq!(image.max_pool2d([2, 2], [2, 2]).to_vec::<i64>()?, [5, 7, 13, 15]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`conv2d`](Self::conv2d).
    #[track_caller]
    pub fn max_pool2d(&self, window: [usize; 2], step: [usize; 2]) -> Array {
        let site = Location::caller();
        let windows = self.planes(window, step, [0, 0], self.shape(), "max_pool2d", site);
        windows.map_or_else(|error| Array::failed(error, site), |of| of.max_axes(&[3, 5]))
    }

    /// The mean of each window of the last two of four axes.
    ///
    /// ```
    /// # use kiln_array::{Array, Scalar};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let image = Array::arange(&device, 16).cast(Scalar::F32).reshape(&[1, 1, 4, 4]);
    /// assert_eq!(image.avg_pool2d([2, 2], [2, 2]).to_vec::<f32>()?, [2.5, 4.5, 10.5, 12.5]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`conv2d`](Self::conv2d).
    #[track_caller]
    pub fn avg_pool2d(&self, window: [usize; 2], step: [usize; 2]) -> Array {
        let site = Location::caller();
        let windows = self.planes(window, step, [0, 0], self.shape(), "avg_pool2d", site);
        windows.map_or_else(|error| Array::failed(error, site), |of| of.mean_axes(&[3, 5]))
    }

    /// The windows on both axes of planes: `[_, _, places, rows, places, columns]`. Errors name the
    /// axes of the shape that was given, of which the last is the last of the planes.
    pub(super) fn planes(
        &self,
        window: [usize; 2],
        step: [usize; 2],
        padding: [usize; 2],
        given: &[usize],
        name: &'static str,
        site: Site,
    ) -> Result<Array> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        if self.rank() != 4 {
            let problem = format!("shape {:?} does not have four axes", self.shape());
            return Err(Error::Shape { op: name, problem, location: site });
        }
        let planes = self.shape()[0].max(1).checked_mul(self.shape()[1].max(1));
        // Of all images with their zeros, and of all windows.
        let mut elements = [planes; 2];
        for at in 0..2 {
            let (axis, width, step, zeros) = (2 + at, window[at], step[at], padding[at]);
            let extent = zeros.checked_mul(2).and_then(|zeros| zeros.checked_add(self.shape()[axis]));
            let fitting = extent.filter(|&extent| width > 0 && step > 0 && width <= extent);
            let count = fitting.and_then(|extent| ((extent - width) / step + 1).checked_mul(width));
            let multiply = |all: Option<usize>, by: Option<usize>| all?.checked_mul(by?);
            elements = [multiply(elements[0], fitting), multiply(elements[1], count)];
            if elements.contains(&None) {
                let axis = (axis + given.len()).saturating_sub(4);
                let mut problem =
                    format!("windows of {width} elements every {step} on axis {axis} of shape {given:?}");
                if zeros > 0 {
                    problem += &format!(", with {zeros} zeros on each side");
                }
                return Err(Error::Shape { op: name, problem, location: site });
            }
        }
        let [above, before] = padding;
        let padded = match padding {
            [0, 0] => self.clone(),
            _ => self.pad(&[(0, 0), (0, 0), (above, above), (before, before)]),
        };
        let windows = padded.windowed(2, window[0], step[0], name, site);
        if let Some(error) = windows.error() {
            return Err(error);
        }
        let windows = windows.windowed(4, window[1], step[1], name, site);
        windows.error().map_or(Ok(windows), Err)
    }
}

/// The cross-correlation of images with a weight, as a product of the windows and the weight.
/// Errors name the shapes that were given, and their axes as those of [`Array::planes`].
pub(super) fn convolved(
    [images, weight]: [&Array; 2],
    step: [usize; 2],
    padding: [usize; 2],
    given: [&[usize]; 2],
    name: &'static str,
    site: Site,
) -> Result<Array> {
    if let Some(error) = [images, weight].into_iter().find_map(Array::error) {
        return Err(error);
    }
    common_device(&[images, weight], name, site)?;
    checked_class(name, Class::Number, promote(images.dtype(), weight.dtype()), site)?;
    let (&[count, channels, _, _], &[outputs, of, rows, columns]) = (images.shape(), weight.shape()) else {
        return Err(unfit(name, given, site));
    };
    if channels != of {
        return Err(unfit(name, given, site));
    }
    let windows = images.planes([rows, columns], step, padding, given[0], name, site)?;
    let (height, width) = (windows.shape()[2], windows.shape()[4]);
    let (places, elements) = (count * height * width, channels * rows * columns);
    let patches = windows.ordered(Extents::from_slice(&[0, 2, 4, 1, 3, 5]), site);
    let patches = patches.reshaped(&[places, elements], site);
    let weight = weight.reshaped(&[outputs, elements], site);
    let product = patches.matmul(&weight.ordered(Extents::from_slice(&[1, 0]), site));
    let product = product.reshaped(&[count, height, width, outputs], site);
    Ok(product.ordered(Extents::from_slice(&[0, 3, 1, 2]), site))
}

/// The sum over the windows that each element of an axis is in: what windows every `step` elements
/// make of an axis of this extent, transposed.
pub(crate) fn windows_added(x: &Array, axis: usize, step: usize, extent: usize, site: Site) -> Array {
    let mut of_place = Extents::from_slice(x.shape());
    let width = of_place.remove(axis + 1);
    let mut shape = of_place.clone();
    shape[axis] = extent;
    let (mut start, mut steps) = (Extents::from_elem(0, shape.len()), Extents::from_elem(1, shape.len()));
    steps[axis] = step;
    let mut place = |at: usize| {
        start[axis] = at;
        let part = x.part(axis + 1, at, 1, 1, site).reshaped(&of_place, site);
        part.spread(&shape, &start, &steps, site)
    };
    let first = place(0);
    (1..width).fold(first, |sum, at| sum + place(at))
}

fn unfit(op: &'static str, [given, weight]: [&[usize]; 2], location: Site) -> Error {
    let problem = match given.len() {
        3 => format!(
            "signals of shape {given:?} and a weight of shape {weight:?}: they are [count, channels, length] \
             and [outputs, channels, width]"
        ),
        _ => format!(
            "images of shape {given:?} and a weight of shape {weight:?}: they are [images, channels, height, \
             width] and [outputs, channels, rows, columns]"
        ),
    };
    Error::Shape { op, problem, location }
}
