//! Reductions of whole tensors.

use crate::sizes::{elements_per_program, resident_programs, row_tile};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Execution, Result, Tensor};

/// Kernels, for launches of one's own.
///
/// ```
/// use kiln_kernels::reduce::kernels::{partial_sums, total_sum};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = device.tensor(&[0.5f32; 100], [100])?;
/// let (mut partial, mut y) = (device.uninit([2])?, device.uninit([1])?);
/// // 2 programs take the tiles of 16 elements by turns: the first has 4 of the 7, and the last's 4.
/// partial_sums(&x, &mut partial, 16, false).launch(&device)?;
/// assert_eq!(partial.to_vec()?, [(3 * 16 + 4) as f32 * 0.5, (3 * 16) as f32 * 0.5]);
/// total_sum(&partial, &mut y, 16).launch(&device)?;
/// assert_eq!(y.item()?, 50.0);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub mod kernels {
    use super::*;

    /// Each program sums tiles of `block` elements, a grid apart, into its own element of
    /// `partial`.
    ///
    /// With `each`, every tile is summed by itself: best where one core holds a program, since
    /// nothing but the input passes through its caches. Else tiles are added up element by element
    /// and summed at the end: best where threads hold the elements, since they meet only once.
    #[kernel(crate = kiln_runtime)]
    pub fn partial_sums(x: &Tensor<f32, 1>, partial: &mut Tensor<f32, 1>, block: usize, each: bool) {
        let (first, step) = (program_id(0) * block, num_programs(0) * block);
        let mut total = zeros::<f32>(if each { 1 } else { block });
        for at in range_step(first, x.extent(0), step) {
            let tile = x.tile(at, block).streaming().load(0.0);
            total += if each { tile.sum().reshape(1) } else { tile };
        }
        partial.tile(program_id(0), 1).store(total.sum().reshape(1));
    }

    /// One program sums everything, in tiles of `block` elements.
    #[kernel(crate = kiln_runtime)]
    pub fn total_sum(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, block: usize) {
        let mut total = zeros::<f32>(block);
        for at in range_step(0, x.extent(0), block) {
            total += x.tile(at, block).load(0.0);
        }
        y.tile(program_id(0), 1).store(total.sum().reshape(1));
    }
}

/// y\[0\] = the sum of x. The order of additions depends on the device and the length only: equal
/// inputs give equal sums.
///
/// # Errors
/// [`Error::Shape`] if y has no element; out of memory for the partial sums.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = device.tensor(&[1.5f32; 1000], [1000])?;
/// let mut y = device.uninit([1])?;
/// kiln_kernels::sum(&x, &mut y)?;
/// assert_eq!(y.item()?, 1500.0);
/// assert!(kiln_kernels::sum(&x, &mut device.uninit([0])?).is_err());
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn sum(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) -> Result<()> {
    if y.is_empty() {
        return Err(Error::Shape { what: "sum, y".into(), expected: vec![1], given: vec![0] });
    }
    let device = x.device().clone();
    let each = device.capabilities().execution == Execution::Simd;
    let (block, most, warps) = sizes(&device);
    let programs = x.len().div_ceil(block).clamp(1, most);
    let mut partial = device.uninit([programs])?;
    let parts = kernels::partial_sums(x, &mut partial, block, each);
    match warps {
        Some(warps) => parts.warps(warps).launch(&device)?,
        None => parts.launch(&device)?,
    }
    kernels::total_sum(&partial, y, row_tile(programs).min(1024)).launch(&device)
}

/// Elements of a tile of partial sums, the most programs, and their warps.
fn sizes(device: &Device) -> (usize, usize, Option<u32>) {
    if device.capabilities().execution != Execution::Simt {
        return (2 * elements_per_program(device, 4), resident_programs(device), None);
    }
    let model = device.cost_model();
    let sum = model.streaming.sum;
    (sum.tile_bytes / 4, sum.programs * model.units, sum.warps)
}
