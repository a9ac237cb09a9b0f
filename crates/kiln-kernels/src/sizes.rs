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
    (0..rows).step_by(MOST_ROWS).map(move |first| first..rows.min(first + MOST_ROWS))
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
}
