//! Products of a matrix and one vector: every row is read once, by whole cache lines, and memory
//! bounds the time.

use super::factor::Factor;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Result, Tensor};

/// Kernels, for launches of one's own.
///
/// ```
/// use kiln_kernels::matmul::rows::kernels::dot_rows;
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1, 3, 2])?;
/// let (v, mut y) = (device.tensor(&[10.0f32, 1.0], [2])?, device.uninit::<f32, 1>([3])?);
/// // 2 rows a program, 4 elements of each at a time.
/// dot_rows(&x, &v, &mut y, 2, 4).launch(&device)?;
/// assert_eq!(y.to_vec()?, [12.0, 34.0, 56.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub mod kernels {
    use super::*;

    /// y\[i\] = the sum of x\[0, i, k\] v\[k\]: `rows` rows a program, `depth` elements of each at
    /// a time.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn dot_rows<T: Factor, U: Factor, O: Numeric>(
        x: &Tensor<T, 3>,
        v: &Tensor<U, 1>,
        y: &mut Tensor<O, 1>,
        rows: usize,
        depth: usize,
    ) {
        let row = program_id(0) * rows;
        let mut sums = zeros::<T::Sum>((rows, depth));
        let x = x.row(0);
        for at in range_step(0, x.extent(1), depth) {
            let each = v.tile(at, depth).load(0).cast::<T::Sum>().expand(0).broadcast_to((rows, depth));
            sums += x.tile((row, at), (rows, depth)).load(0).cast::<T::Sum>() * each;
        }
        y.tile(row, rows).store(sums.sum_axis(1).cast::<O>());
    }
}

/// y = x v.
pub(super) fn multiply<T: Factor, U: Factor, O: Numeric>(
    x: &Tensor<T, 3>,
    v: &Tensor<U, 1>,
    y: &mut Tensor<O, 1>,
    device: &Device,
) -> Result<()> {
    // 16 bytes of 8 places in flight a thread, to saturate memory; but no more sums than registers.
    let depth = if v.len() > 1024 { 4096 / size_of::<T>().max(2) } else { 1024 };
    kernels::dot_rows(x, v, y, 4, depth).warps(4).launch(device)
}
