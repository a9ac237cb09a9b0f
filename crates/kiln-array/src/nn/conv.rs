//! Convolutions of images.

use super::layers::Linear;
use super::module::implement_module;
use super::random::Key;
use crate::error::Error;
use crate::node::Array;
use kiln_runtime::Device;
use std::panic::Location;

/// A convolution of images `[batch, height, width, channels]` with square windows.
///
/// It is a product of the windows' pixels and the weights: a `Linear` layer on each window. The
/// channels come last, other than in [`Array::conv2d`].
///
/// ```
/// use kiln_array::nn::{Conv2d, Key, Linear};
/// use kiln_array::{Array, Scalar};
/// let device = kiln_runtime::Device::open("interp")?;
/// let mut layer = Conv2d::new(&device, Key::new(1), 3, 1, 1);
/// layer.windows.weight = Array::ones(&device, Scalar::F32, &[1, 9]);
/// let y = layer.forward(&Array::ones(&device, Scalar::F32, &[1, 3, 3, 1]));
/// // Outside of the image is zero: corners see four pixels, edges six.
/// assert_eq!(y.to_vec::<f32>()?, [4.0, 6.0, 4.0, 6.0, 9.0, 6.0, 4.0, 6.0, 4.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// The weights of a window's rows, columns and channels: `[outputs, size · size · channels]`.
    pub windows: Linear,
    /// The rows and columns of a window.
    pub size: usize,
    /// The distance of windows.
    pub stride: usize,
    /// The rows and columns of zeros on each side of an image.
    pub padding: usize,
}
implement_module!(Conv2d { windows } size stride padding);

impl Conv2d {
    /// Makes one of f32 with the weights of [`Linear::new`], a stride of 1, and the padding with
    /// which results of windows of odd size are as large as images.
    ///
    /// # Errors
    /// The weight has an error if windows have more elements than random numbers can be made for.
    #[track_caller]
    pub fn new(device: &Device, key: Key, size: usize, channels: usize, outputs: usize) -> Conv2d {
        let mut windows = Linear::new(device, key, elements(size, channels).unwrap_or(0), outputs);
        if elements(size, channels).is_none() {
            let (location, problem) = (
                Location::caller(),
                format!("windows of {size} x {size} of {channels} channels have too many elements"),
            );
            windows.weight = Array::failed(Error::Shape { op: "conv2d", problem, location }, location);
        }
        Conv2d { windows, size, stride: 1, padding: size / 2 }
    }

    /// Sets the distance of windows.
    ///
    /// ```
    /// # use kiln_array::nn::{Conv2d, Key};
    /// # use kiln_array::{Array, Scalar};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let layer = Conv2d::new(&device, Key::new(1), 3, 1, 8).stride(2).padding(0);
    /// let images = Array::ones(&device, Scalar::F32, &[5, 9, 7, 1]);
    /// assert_eq!(layer.forward(&images).shape(), [5, 4, 3, 8]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    pub fn stride(self, stride: usize) -> Conv2d {
        Conv2d { stride, ..self }
    }

    /// Sets the rows and columns of zeros on each side of an image.
    ///
    /// ```
    /// # use kiln_array::nn::{Conv2d, Key};
    /// # use kiln_array::{Array, Scalar};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let images = Array::ones(&device, Scalar::F32, &[1, 5, 5, 1]);
    /// let rows = |padding: usize| {
    ///     Conv2d::new(&device, Key::new(1), 3, 1, 1).padding(padding).forward(&images).shape()[1]
    /// };
    /// assert_eq!([0, 1, 2].map(rows), [3, 5, 7]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    pub fn padding(self, padding: usize) -> Conv2d {
        Conv2d { padding, ..self }
    }

    /// The convolution of images `[batch, height, width, channels]`: `[batch, rows, columns,
    /// outputs]`, with `(height + 2 · padding - size) / stride + 1` rows.
    ///
    /// # Errors
    /// The result has an error if x has other axes, or an image is smaller than a window.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let location = Location::caller();
        if let Some(error) = x.error().or_else(|| self.windows.weight.error()) {
            return Array::failed(error, location);
        }
        let refused =
            |problem: String| Array::failed(Error::Shape { op: "conv2d", problem, location }, location);
        let &[batch, height, width, channels] = x.shape() else {
            return refused(format!(
                "x has shape {:?} instead of [batch, height, width, channels]",
                x.shape()
            ));
        };
        let elements = elements(self.size, channels);
        if let &[_, of] = self.windows.weight.shape()
            && elements.is_some_and(|elements| elements != of)
        {
            let (size, shape) = (self.size, x.shape());
            return refused(format!(
                "x has shape {shape:?}, and {channels} channels in windows of {size} x {size} are not the {of} \
                 elements that each of the layer's windows has"
            ));
        }
        let extents = [height, width].map(|extent| extent.saturating_add(self.padding.saturating_mul(2)));
        let fits =
            |extent: &usize| (self.size..usize::MAX).contains(extent) && self.size > 0 && self.stride > 0;
        let places = |extent: usize| (extent - self.size) / self.stride + 1;
        let of_all = || {
            // Of a window, of all windows, and of all images with their zeros.
            let elements = elements?;
            let multiply = |all: usize, by: usize| all.checked_mul(by.max(1));
            let windows = extents.iter().try_fold(elements, |all, &extent| multiply(all, places(extent)));
            multiply(windows?, batch)?;
            extents.iter().try_fold(multiply(channels, batch)?, |all, &extent| multiply(all, extent))?;
            Some(elements)
        };
        let Some(elements) = extents.iter().all(fits).then(of_all).flatten() else {
            return refused(format!(
                "windows of {size} x {size} at a distance of {} for images of {height} x {width} with {} \
                 rows and columns of zeros on each side",
                self.stride,
                self.padding,
                size = self.size
            ));
        };
        let around = (self.padding, self.padding);
        let padded = if self.padding == 0 { x.clone() } else { x.pad(&[(0, 0), around, around, (0, 0)]) };
        let [rows, columns] = extents.map(places);
        let windows = padded.windows(1, self.size, self.stride).windows(3, self.size, self.stride);
        let windows = windows.permute(&[0, 1, 3, 2, 4, 5]);
        self.windows.forward(&windows.reshape(&[batch, rows, columns, elements]))
    }
}

/// The elements of a window, if they can be counted.
fn elements(size: usize, channels: usize) -> Option<usize> {
    size.checked_mul(size)?.checked_mul(channels)
}
