//! How much a program takes on: the defaults of this library's kernels.

use kiln_lang::Elem;
use kiln_runtime::{Device, Error, Execution, Result, Tensor};
use std::ops::Range;

/// The most rows of a launch: CUDA's limit of a grid's second axis.
const MOST_ROWS: usize = 65_535;

/// Elements of a streaming kernel's program. On a GPU enough for several 16-byte accesses a thread;
/// on a CPU about an L1 cache of each operand, so that the cost of starting a program and of each
/// tile operation is spread.
pub(crate) fn elements_per_program(device: &Device, elem_bytes: usize) -> usize {
    match device.capabilities().execution {
        Execution::Simt => device.cost_model().streaming.program_bytes / elem_bytes.max(2),
        Execution::Simd => 16384 / elem_bytes.max(1),
        Execution::Interpreted => 4096,
    }
}

/// Programs of a kernel that strides over its input: enough to fill the device, few enough that
/// combining their results costs nothing.
pub(crate) fn resident_programs(device: &Device) -> usize {
    let model = device.cost_model();
    match device.capabilities().execution {
        Execution::Simt | Execution::Simd => model.streaming.programs * model.units,
        Execution::Interpreted => 2,
    }
}

/// Warps of a program that takes a row of so many bytes, of which a thread takes `each`.
pub(crate) fn row_warps(device: &Device, bytes: usize, each: usize) -> u32 {
    let most = device.cost_model().streaming.row_warps;
    (bytes / (device.properties().warp.max(1) as usize * each)).clamp(1, most) as u32
}

/// The tile that covers a row.
pub(crate) fn row_tile(columns: usize) -> usize {
    columns.max(1).next_power_of_two()
}

/// Refuses tensors of different shapes.
pub(crate) fn same_shape<T: Elem, U: Elem, const R: usize>(
    what: &str,
    x: &Tensor<T, R>,
    y: &Tensor<U, R>,
) -> Result<()> {
    if x.shape() == y.shape() {
        return Ok(());
    }
    Err(Error::Shape { what: what.into(), expected: x.shape().to_vec(), given: y.shape().to_vec() })
}

/// Rows of one launch after the other: no grid has more on its second axis.
pub(crate) fn launches(rows: usize) -> impl Iterator<Item = Range<usize>> {
    in_parts(rows, MOST_ROWS)
}

/// What each launch takes of the second and the third axis of a grid that a device may not have at
/// once. Each of the numbers on them stands for so many blocks.
pub(crate) fn grids(
    device: &Device,
    [second, third]: [usize; 2],
    blocks: [usize; 2],
) -> impl Iterator<Item = [Range<usize>; 2]> + use<> {
    let [_, limits @ ..] = device.properties().max_grid;
    // One that stands for more than there may be is the device's to refuse.
    let most = |axis: usize| (limits[axis] as usize / blocks[axis].max(1)).max(1);
    let [most_second, most_third] = [most(0), most(1)];
    in_parts(third, most_third)
        .flat_map(move |third| in_parts(second, most_second).map(move |second| [second, third.clone()]))
}

/// The numbers below `all`, so many at a time.
fn in_parts(all: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    (0..all).step_by(most).map(move |first| first..all.min(first.saturating_add(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_one_launch() {
        for rows in [0, 1, 65_535, 65_536, 200_000] {
            assert!(launches(rows).flatten().eq(0..rows));
            assert!(launches(rows).all(|some| !some.is_empty() && some.len() <= MOST_ROWS));
        }
    }

    #[test]
    fn every_block_is_in_one_launch_that_the_device_has() {
        // Its limits are those of NVIDIA's GPUs.
        let device = Device::open("interp").expect("there is always an interpreter");
        let all = |axes| grids(&device, axes, [1; 2]).collect::<Vec<_>>();
        assert_eq!(all([3, 65_535]), [[0..3, 0..65_535]]);
        let parts = [[0..65_535, 0..65_535], [65_535..65_536, 0..65_535]];
        let rest = [[0..65_535, 65_535..65_537], [65_535..65_536, 65_535..65_537]];
        assert_eq!(all([65_536, 65_537]), [parts, rest].concat());
        assert!(all([0, 5]).is_empty() && all([5, 0]).is_empty());
        let fours: Vec<_> = grids(&device, [20_000, 1], [4, 1]).collect();
        assert_eq!(fours, [[0..16_383, 0..1], [16_383..20_000, 0..1]]);
        assert_eq!(grids(&device, [2, 1], [usize::MAX, 0]).count(), 2);
    }
}
