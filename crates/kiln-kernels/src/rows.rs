//! Row-wise normalizations: softmax and layer norm.

use crate::long_rows;
use crate::sizes::{row_tile, row_warps, same_shape};
use kiln_lang::prelude::*;
use kiln_runtime::{Error, Result, Tensor};

/// Kernels, for launches of one's own.
///
/// ```
/// use kiln_kernels::rows::kernels::{layer_norm, softmax};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = device.tensor(&[1.0f32, 1.0, 1.0, 0.0, 3.0, 0.0], [2, 3])?;
/// let mut y = device.uninit([2, 3])?;
/// softmax(&x.slice(0, 0..1)?, &mut y.slice(0, 0..1)?, 4).launch(&device)?;
/// let (weight, bias) = (device.tensor(&[1.0f32; 3], [3])?, device.tensor(&[10.0f32; 3], [3])?);
/// let second = x.slice(0, 1..2)?;
/// layer_norm(&second, &weight, &bias, &mut y.slice(0, 1..2)?, 0.0, 1, 4).launch(&device)?;
/// // The second row has mean 1 and variance 2.
/// let (below, above) = (10.0 - 0.5f32.sqrt(), 10.0 + 2.0f32.sqrt());
/// let expected = [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, below, above, below];
/// assert!(y.to_vec()?.iter().zip(expected).all(|(y, expected)| (y - expected).abs() < 1e-5));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub mod kernels {
    use super::*;

    /// A row a program; `block` covers the row.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, block: usize) {
        let row = program_id(0);
        let v = x.row(row).tile(0, block).streaming().load(f32::NEG_INFINITY);
        let e = (v - v.reduce_max()).exp();
        y.row(row).tile(0, block).streaming().store(e * e.sum().fast_recip());
    }

    /// y = (x - mean) / sqrt(variance + epsilon) · weight + bias over each row, computed in f32;
    /// `rows` rows a program, which load the weight and the bias once; `block` covers a row.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn layer_norm<T: Float>(
        x: &Tensor<T, 2>,
        weight: &Tensor<T, 1>,
        bias: &Tensor<T, 1>,
        y: &mut Tensor<T, 2>,
        epsilon: Val<f32>,
        rows: usize,
        block: usize,
    ) {
        let (at, shape) = ((program_id(0) * rows, 0), (rows, block));
        let columns = x.extent(1);
        let count = columns.cast::<f32>();
        let v = x.tile(at, shape).streaming().load(0).cast::<f32>();
        let mean = v.sum_axis(1).fast_div(count).expand(1);
        // Padding must not count towards the variance.
        let inside = iota::<i64>(block).lt(columns).expand(0);
        let centered = select(inside, v - mean, 0.0);
        let variance = (centered * centered).sum_axis(1).fast_div(count);
        let scale = (variance + epsilon).rsqrt().expand(1);
        let (w, b) = (weight.load(block, 0).cast::<f32>(), bias.load(block, 0).cast::<f32>());
        let result = centered * scale * w.expand(0) + b.expand(0);
        y.tile(at, shape).streaming().store(result.cast::<T>());
    }
}

/// y = softmax of each row of x. Rows of any length; one of more than 65,536 elements, on a GPU
/// mostly of more than 32,768, is divided among several programs and read twice.
///
/// # Errors
/// [`Error::Shape`] if the shapes differ; out of memory for what is found of the parts.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = device.tensor(&[0.0f32, 0.0, 0.0, 1000.0], [2, 2])?;
/// let mut y = device.uninit([2, 2])?;
/// kiln_kernels::softmax(&x, &mut y)?;
/// assert_eq!(y.to_vec()?, [0.5, 0.5, 0.0, 1.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) -> Result<()> {
    same_shape("softmax", x, y)?;
    let device = x.device().clone();
    if long_rows::are_divided(&device, x.shape()[1], size_of::<f32>()) {
        return long_rows::softmax(x, y);
    }
    let block = row_tile(x.shape()[1]);
    let each = device.cost_model().streaming.softmax_thread_bytes;
    let warps = row_warps(&device, block * size_of::<f32>(), each);
    kernels::softmax(x, y, block).warps(warps).launch(&device)
}

/// y = layer norm of each row of x (Ba, Kiros and Hinton, "Layer Normalization", 2016).
/// Rows are divided as those of [`softmax`] are.
///
/// # Errors
/// [`Error::Shape`] if the shapes differ, or weight and bias are not as long as a row; out of
/// memory for what is found of the parts.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = device.tensor(&[1.0f32, 3.0], [1, 2])?;
/// let (w, b) = (device.tensor(&[1.0f32, 1.0], [2])?, device.zeros([2])?);
/// let mut y = device.uninit([1, 2])?;
/// kiln_kernels::layer_norm(&x, &w, &b, &mut y, 0.0)?;
/// assert_eq!(y.to_vec()?, [-1.0, 1.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn layer_norm<T: Float>(
    x: &Tensor<T, 2>,
    weight: &Tensor<T, 1>,
    bias: &Tensor<T, 1>,
    y: &mut Tensor<T, 2>,
    epsilon: f32,
) -> Result<()> {
    same_shape("layer_norm", x, y)?;
    let columns = x.shape()[1];
    for (what, vector) in [("layer_norm, weight", weight), ("layer_norm, bias", bias)] {
        if vector.len() != columns {
            return Err(Error::Shape {
                what: what.into(),
                expected: vec![columns],
                given: vec![vector.len()],
            });
        }
    }
    let device = x.device().clone();
    if long_rows::are_divided(&device, columns, size_of::<T>()) {
        return long_rows::layer_norm(x, weight, bias, y, epsilon);
    }
    let block = row_tile(columns);
    let each = device.cost_model().streaming.layer_norm_thread_bytes;
    let warps = row_warps(&device, block * size_of::<T>(), each);
    // Several rows a program, which could share the weight and the bias, are no faster on an H200
    // (bench/notes.md).
    kernels::layer_norm(x, weight, bias, y, epsilon, 1, block).warps(warps).launch(&device)
}
