//! Convolutions along one axis, and transposed ones.

use super::windows::{convolved, windows_added};
use crate::error::{Error, Result, Site};
use crate::node::Array;
use crate::shape::Extents;
use std::panic::Location;

impl Array {
    /// The cross-correlation of signals `[count, channels, length]` with a weight
    /// `[outputs, channels, width]`, at every `step`th place and with so many zeros on each side:
    /// `[count, outputs, …]`.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let signal = Array::new(&device, &[1.0f32, 2.0, 4.0, 8.0], &[1, 1, 4]);
    /// let difference = Array::new(&device, &[-1.0f32, 1.0], &[1, 1, 2]);
    /// assert_eq!(signal.conv1d(&difference, 1, 0).to_vec::<f32>()?, [1.0, 2.0, 4.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there are not three axes each, if the channels differ, if the
    /// step is 0, or if the weight is longer than a signal with its zeros.
    #[track_caller]
    pub fn conv1d(&self, weight: &Array, step: usize, padding: usize) -> Array {
        let site = Location::caller();
        let of =
            |planes: &[Array; 2]| convolved(&planes[0], &planes[1], [1, step], [0, padding], "conv1d", site);
        as_planes([self, weight], "conv1d", site)
            .and_then(|planes| of(&planes))
            .map_or_else(|error| Array::failed(error, site), |y| y.squeeze(2))
    }

    /// The transposed convolution of signals `[count, channels, length]` with a weight
    /// `[channels, outputs, width]`: `[count, outputs, (length - 1) · step + width - 2 · padding]`.
    /// See [`conv_transpose2d`](Self::conv_transpose2d).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let signal = Array::new(&device, &[1.0f32, 2.0], &[1, 1, 2]);
    /// let weight = Array::new(&device, &[1.0f32, 10.0, 100.0], &[1, 1, 3]);
    /// assert_eq!(signal.conv_transpose1d(&weight, 2, 0).to_vec::<f32>()?, [1.0, 10.0, 102.0, 20.0, 200.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`conv_transpose2d`](Self::conv_transpose2d), of three axes.
    #[track_caller]
    pub fn conv_transpose1d(&self, weight: &Array, step: usize, padding: usize) -> Array {
        let site = Location::caller();
        let name = "conv_transpose1d";
        let of = |[x, weight]: [Array; 2]| transposed([&x, &weight], [1, step], [0, padding], name, site);
        as_planes([self, weight], name, site)
            .and_then(of)
            .map_or_else(|error| Array::failed(error, site), |y| y.squeeze(2))
    }

    /// The transposed convolution of images `[images, channels, height, width]` with a weight
    /// `[channels, outputs, rows, columns]`: what the gradient of [`conv2d`](Self::conv2d) with
    /// this weight, step and padding does to the gradient of its result. Each element puts its
    /// multiple of the weight's window into the result, one every `step` places, and `padding`
    /// places of the sum are cut off on each side: `[images, outputs, (height - 1) · step + rows -
    /// 2 · padding, …]`. PyTorch calls it `conv_transpose2d`.
    ///
    /// It is a product, whose sums of 16-bit floats are in f32, and a sum of as many parts as a
    /// window has rows and columns.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let image = Array::new(&device, &[1.0f32, 2.0], &[1, 1, 1, 2]);
    /// let weight = Array::full(&device, 1.0f32, &[1, 1, 2, 2]);
    /// let y = image.conv_transpose2d(&weight, [1, 1], [0, 0]);
    /// assert_eq!((y.shape(), y.to_vec::<f32>()?), (&[1, 1, 2, 3][..], vec![1.0, 3.0, 2.0, 1.0, 3.0, 2.0]));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there are not four axes each, if the channels differ, if a step
    /// is 0, if images or the weight have no rows or columns, or if padding leaves nothing.
    #[track_caller]
    pub fn conv_transpose2d(&self, weight: &Array, step: [usize; 2], padding: [usize; 2]) -> Array {
        let site = Location::caller();
        transposed([self, weight], step, padding, "conv_transpose2d", site)
            .unwrap_or_else(|error| Array::failed(error, site))
    }
}

/// Signals and a weight as images of one row.
fn as_planes(both: [&Array; 2], op: &'static str, location: Site) -> Result<[Array; 2]> {
    if let Some(error) = both.into_iter().find_map(Array::error) {
        return Err(error);
    }
    if both.iter().any(|array| array.rank() != 3) {
        let problem = format!(
            "signals of shape {:?} and a weight of shape {:?} do not have three axes each",
            both[0].shape(),
            both[1].shape()
        );
        return Err(Error::Shape { op, problem, location });
    }
    Ok(both.map(|array| array.unsqueeze(2)))
}

fn transposed(
    [images, weight]: [&Array; 2],
    step: [usize; 2],
    padding: [usize; 2],
    op: &'static str,
    site: Site,
) -> Result<Array> {
    if let Some(error) = [images, weight].into_iter().find_map(Array::error) {
        return Err(error);
    }
    let refused = |problem: &str| {
        let (images, weight) = (images.shape(), weight.shape());
        let problem = format!("images of shape {images:?} and a weight of shape {weight:?}: {problem}");
        Error::Shape { op, problem, location: site }
    };
    let (&[count, channels, height, width], &[of, outputs, rows, columns]) = (images.shape(), weight.shape())
    else {
        return Err(refused(
            "they are [images, channels, height, width] and [channels, outputs, rows, columns]",
        ));
    };
    if channels != of {
        return Err(refused("the channels differ"));
    }
    let whole = |places: usize, step: usize, window: usize| {
        (places - 1).checked_mul(step)?.checked_add(window).filter(|_| step > 0)
    };
    if [height, width, rows, columns].contains(&0) {
        return Err(refused("they have no rows or columns"));
    }
    let (Some(tall), Some(wide)) = (whole(height, step[0], rows), whole(width, step[1], columns)) else {
        return Err(refused(&format!("steps {step:?}")));
    };
    let kept = |whole: usize, cut: usize| whole.checked_sub(cut.checked_mul(2)?).filter(|&left| left > 0);
    let (Some(left_rows), Some(left_columns)) = (kept(tall, padding[0]), kept(wide, padding[1])) else {
        return Err(refused(&format!(
            "padding {padding:?} leaves nothing of {tall} rows and {wide} columns"
        )));
    };
    let by_place = images.ordered(Extents::from_slice(&[0, 2, 3, 1]), site);
    let by_place = by_place.reshaped(&[count * height * width, channels], site);
    let product = by_place.matmul(&weight.reshaped(&[channels, outputs * rows * columns], site));
    let windows = product.reshaped(&[count, height, width, outputs, rows, columns], site);
    let windows = windows.ordered(Extents::from_slice(&[0, 3, 1, 4, 2, 5]), site);
    let added = windows_added(&windows, 4, step[1], wide, site);
    let added = windows_added(&added, 2, step[0], tall, site);
    let cut = added.part(2, padding[0], left_rows, 1, site);
    Ok(cut.part(3, padding[1], left_columns, 1, site))
}
