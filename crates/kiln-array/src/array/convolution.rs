//! Convolutions along one axis, with gaps and in groups, and transposed ones.

use super::arithmetic::checked_class;
use super::reduce::wide_sum;
use super::windows::{convolved, windows_added};
use crate::dtype::promote;
use crate::error::{Error, Result, Site};
use crate::node::{Array, common_device};
use crate::shape::Extents;
use kiln_ir::Class;
use std::panic::Location;

/// How windows of images are laid out, for [`Array::convolve2d`].
///
/// ```
/// use kiln_array::{Array, Convolution};
/// let device = kiln_runtime::Device::open("interp")?;
/// let image = Array::arange(&device, 25).cast(kiln_ir::Scalar::F32).reshape(&[1, 1, 5, 5]);
/// let corners = Array::full(&device, 1.0f32, &[1, 1, 2, 2]);
/// // Elements of a window that are four apart: the corners of the image.
/// let y = image.convolve2d(&corners, Convolution::new().dilation([4, 4]));
/// assert_eq!(y.to_vec::<f32>()?, [0.0 + 4.0 + 20.0 + 24.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// ```
/// use kiln_array::{Array, Convolution, Scalar};
/// let device = kiln_runtime::Device::open("interp")?;
/// let image = Array::ones(&device, Scalar::F32, &[1, 2, 4, 4]);
/// let weight = Array::ones(&device, Scalar::F32, &[2, 1, 3, 3]);
/// // Zeros around the image, every second window, and an output for each channel.
/// let how = Convolution::new().padding([1, 1]).step([2, 2]).groups(2);
/// let y = image.convolve2d(&weight, how);
/// assert_eq!(y.shape(), [1, 2, 2, 2]);
/// assert_eq!(y.to_vec::<f32>()?[..4], [4.0, 6.0, 6.0, 9.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Convolution {
    step: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
}

impl Default for Convolution {
    fn default() -> Convolution {
        Convolution::new()
    }
}

impl Convolution {
    /// Windows at every place, without zeros around the image, of neighbors, of all channels.
    pub fn new() -> Convolution {
        Convolution { step: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 }
    }

    /// Sets the distance of windows, in rows and columns.
    pub fn step(self, step: [usize; 2]) -> Convolution {
        Convolution { step, ..self }
    }

    /// Sets the rows and columns of zeros on each side of an image.
    pub fn padding(self, padding: [usize; 2]) -> Convolution {
        Convolution { padding, ..self }
    }

    /// Sets the distance of a window's elements, in rows and columns.
    pub fn dilation(self, dilation: [usize; 2]) -> Convolution {
        Convolution { dilation, ..self }
    }

    /// Sets the number of groups that channels and outputs are divided into: an output sees the
    /// channels of its group. With as many groups as channels it is a depthwise convolution.
    pub fn groups(self, groups: usize) -> Convolution {
        Convolution { groups, ..self }
    }
}

impl Array {
    /// The cross-correlation of images `[images, channels, height, width]` with a weight
    /// `[outputs, channels / groups, rows, columns]`: [`conv2d`](Self::conv2d) with all options.
    ///
    /// Groups of several outputs are products; those of one are sums, which store no windows.
    ///
    /// ```
    /// use kiln_array::{Array, Convolution, Scalar};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// // Two channels of 3 x 3, each with a window of its own: sums of neighbors, and their doubles.
    /// let image = Array::ones(&device, Scalar::F32, &[1, 2, 3, 3]);
    /// let weight = Array::new(&device, &[1.0f32, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0], &[2, 1, 2, 2]);
    /// let y = image.convolve2d(&weight, Convolution::new().groups(2).step([2, 2]).padding([1, 1]));
    /// assert_eq!(y.shape(), [1, 2, 2, 2]);
    /// // A window at the corner sees one pixel, at an edge two.
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 2.0, 4.0, 2.0, 4.0, 4.0, 8.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`conv2d`](Self::conv2d), and if a dilation is 0 or the groups do not divide the
    /// channels and the outputs.
    #[track_caller]
    pub fn convolve2d(&self, weight: &Array, options: Convolution) -> Array {
        let site = Location::caller();
        grouped(self, weight, options, site).unwrap_or_else(|error| Array::failed(error, site))
    }

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
        let given = [self.shape(), weight.shape()];
        let of = |[x, w]: [Array; 2]| convolved([&x, &w], [1, step], [0, padding], given, "conv1d", site);
        as_planes([self, weight], "conv1d", site)
            .and_then(of)
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
        let given = [self.shape(), weight.shape()];
        let of = |[x, w]: [Array; 2]| transposed([&x, &w], [1, step], [0, padding], given, name, site);
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
        let given = [self.shape(), weight.shape()];
        transposed([self, weight], step, padding, given, "conv_transpose2d", site)
            .unwrap_or_else(|error| Array::failed(error, site))
    }
}

fn grouped(images: &Array, weight: &Array, options: Convolution, site: Site) -> Result<Array> {
    if let Some(error) = [images, weight].into_iter().find_map(Array::error) {
        return Err(error);
    }
    let op = "convolve2d";
    common_device(&[images, weight], op, site)?;
    let dtype = promote(images.dtype(), weight.dtype());
    checked_class(op, Class::Number, dtype, site)?;
    let Convolution { step, padding, dilation, groups } = options;
    let refused = |problem: String| {
        let (images, weight) = (images.shape(), weight.shape());
        let problem = format!("images of shape {images:?} and a weight of shape {weight:?}: {problem}");
        Error::Shape { op, problem, location: site }
    };
    let (&[count, channels, _, _], &[outputs, of_group, rows, columns]) = (images.shape(), weight.shape())
    else {
        let axes =
            "they are [images, channels, height, width] and [outputs, channels / groups, rows, columns]";
        return Err(refused(axes.to_owned()));
    };
    let divides = |number: usize| groups > 0 && number.is_multiple_of(groups);
    if !(divides(channels) && divides(outputs)) {
        let problem = format!("{groups} groups do not divide {channels} channels and {outputs} outputs");
        return Err(refused(problem));
    }
    if channels / groups != of_group {
        let each = channels / groups;
        return Err(refused(format!("{groups} groups of {each} channels, and the weight is for {of_group}")));
    }
    if dilation.contains(&0) || rows == 0 || columns == 0 {
        return Err(refused(format!("windows of {rows} x {columns} elements at distances of {dilation:?}")));
    }
    let reach = |extent: usize, apart: usize| (extent - 1).checked_mul(apart).and_then(|n| n.checked_add(1));
    let window = [reach(rows, dilation[0]), reach(columns, dilation[1])];
    let [Some(tall), Some(wide)] = window else {
        return Err(refused(format!("windows of {rows} x {columns} elements at distances of {dilation:?}")));
    };
    let windows = images.planes([tall, wide], step, padding, images.shape(), op, site)?;
    let windows = windows.part(3, 0, rows, dilation[0], site).part(5, 0, columns, dilation[1], site);
    let (height, width) = (windows.shape()[2], windows.shape()[4]);
    // [count, groups, channels of a group, height, rows, width, columns]
    let apart = [count, groups, of_group, height, rows, width, columns];
    let windows = windows.reshaped(&apart, site);
    if outputs == groups {
        let weight = weight.reshaped(&[groups, of_group, 1, rows, 1, columns], site);
        // As of a product: in its type, and of 16-bit floats in f32.
        let [windows, weight] = [windows, weight].map(|of| of.cast_at(dtype.accumulator(), site));
        return Ok(wide_sum(&(windows * weight), &[2, 4, 6], site).cast_at(dtype, site));
    }
    let patches = windows.ordered(Extents::from_slice(&[1, 0, 3, 5, 2, 4, 6]), site);
    let elements = of_group * rows * columns;
    let patches = patches.reshaped(&[groups, count * height * width, elements], site);
    let weight = weight.reshaped(&[groups, outputs / groups, elements], site);
    let product = patches.matmul(&weight.ordered(Extents::from_slice(&[0, 2, 1]), site));
    let product = product.reshaped(&[groups, count, height, width, outputs / groups], site);
    let product = product.ordered(Extents::from_slice(&[1, 0, 4, 2, 3]), site);
    Ok(product.reshaped(&[count, outputs, height, width], site))
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

/// The transposed convolution. Errors name the shapes that were given.
fn transposed(
    [images, weight]: [&Array; 2],
    step: [usize; 2],
    padding: [usize; 2],
    given: [&[usize]; 2],
    op: &'static str,
    site: Site,
) -> Result<Array> {
    if let Some(error) = [images, weight].into_iter().find_map(Array::error) {
        return Err(error);
    }
    common_device(&[images, weight], op, site)?;
    checked_class(op, Class::Number, promote(images.dtype(), weight.dtype()), site)?;
    let refused = |problem: &str| {
        let ([shape, weight], what) = (given, if given[0].len() == 3 { "signals" } else { "images" });
        let problem = format!("{what} of shape {shape:?} and a weight of shape {weight:?}: {problem}");
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
