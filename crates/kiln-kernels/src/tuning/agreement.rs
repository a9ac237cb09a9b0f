//! Whether two ways come to the same result, found out on the device.

use crate::numeric::for_numeric;
use crate::sizes::grids;
use kiln_lang::prelude::*;
use kiln_runtime::{DynTensor, Result, Tensor};
use std::ops::Range;

/// Rows and columns of a program's tile.
const TILE: usize = 64;

/// Fills a result with a number that it would not have everywhere, before a way computes it:
/// elements that it leaves out keep that number.
pub(super) fn poison(to: &mut DynTensor) -> Result<()> {
    let device = to.device().clone();
    for [down, stack] in parts(to) {
        let mut part = part(to, &down, &stack, TILE)?;
        for_numeric!(to.dtype(), O => kernels::fill::<O>(part.downcast_mut()?, TILE).launch(&device))?;
    }
    Ok(())
}

/// The rows of tiles and the matrices of each launch over a result.
fn parts(of: &DynTensor) -> impl Iterator<Item = [Range<usize>; 2]> + use<> {
    let &[matrices, rows, _] = of.shape() else { return None.into_iter().flatten() };
    Some(grids(of.device(), [rows.div_ceil(TILE), matrices], [1; 2])).into_iter().flatten()
}

/// Those of a tensor that has so many rows for each row of tiles.
fn part(of: &DynTensor, down: &Range<usize>, stack: &Range<usize>, each: usize) -> Result<DynTensor> {
    let [from, to] = [down.start, down.end].map(|tile| (tile * each).min(of.shape()[1]));
    of.slice(0, stack.clone())?.slice(1, from..to)
}

/// Whether every element of two results differs by no more than what roundings and the order of
/// additions explain, in proportion to the largest of all: nothing for integers.
pub(super) fn agree(expected: &DynTensor, found: &DynTensor) -> Result<bool> {
    let (&[matrices, rows, columns], device) = (expected.shape(), expected.device()) else {
        return Ok(false);
    };
    let shape = [matrices, rows.div_ceil(TILE), columns.div_ceil(TILE) * 2];
    let of_tiles = DynTensor::uninit(device, kiln_ir::Scalar::F64, &shape)?;
    for [down, stack] in parts(expected) {
        let [expected, found] = [expected, found].map(|of| part(of, &down, &stack, TILE));
        let (expected, found, mut to) = (expected?, found?, part(&of_tiles, &down, &stack, 1)?);
        for_numeric!(expected.dtype(), O => {
            let (expected, found) = (expected.downcast_ref()?, found.downcast_ref()?);
            kernels::differences::<O>(expected, found, to.downcast_mut()?, TILE).launch(device)
        })?;
    }
    let of_tiles = of_tiles.downcast_ref::<f64, 3>()?.to_vec()?;
    let largest =
        |of: usize| of_tiles.iter().skip(of).step_by(2).fold(0.0, |most: f64, &part| most.max(part));
    Ok(largest(0) <= tolerance(expected.dtype()) * largest(1))
}

/// Twice the distance of neighboring numbers, and at least what sums of thousands of terms in f32
/// may differ by.
fn tolerance(elem: kiln_ir::Scalar) -> f64 {
    use kiln_ir::Scalar::*;
    match elem {
        F32 | F64 => 1.0 / 1024.0,
        F16 => 1.0 / 512.0,
        BF16 => 1.0 / 64.0,
        E4M3 => 1.0 / 4.0,
        E5M2 => 1.0 / 2.0,
        Bool | I8 | U8 | I16 | U16 | I32 | U32 | I64 | U64 => 0.0,
    }
}

/// Kernels.
mod kernels {
    use super::*;

    /// x = 77, of which every type has something near.
    #[kernel(crate = kiln_runtime)]
    pub fn fill<O: Numeric>(x: &mut Tensor<O, 3>, size: usize) {
        let at = (program_id(1) * size, program_id(0) * size);
        x.row(program_id(2)).tile(at, (size, size)).store(full::<f32>((size, size), 77.0).cast::<O>());
    }

    /// Of each tile the largest difference, which is infinite where one of two is no number, and
    /// the largest finite element of x.
    #[kernel(crate = kiln_runtime)]
    pub fn differences<O: Numeric>(
        x: &Tensor<O, 3>,
        y: &Tensor<O, 3>,
        parts: &mut Tensor<f64, 3>,
        size: usize,
    ) {
        let (matrix, row, column) = (program_id(2), program_id(1), program_id(0));
        let of = |t: View<O, 3>| {
            t.row(matrix).tile((row * size, column * size), (size, size)).load(0).cast::<f64>()
        };
        let (x, y) = (of(x), of(y));
        let unlike = |x: Val<f64>| x.ne(x);
        let apart = (x - y).abs();
        let apart =
            select(x.eq(y) | (unlike(x) & unlike(y)), 0.0, select(unlike(apart), f64::INFINITY, apart));
        let size_of_x = select(x.abs().lt(f64::INFINITY), x.abs(), 0.0);
        let pair =
            select(iota::<i32>(2).eq(0), apart.reduce_max().reshape(1), size_of_x.reduce_max().reshape(1));
        parts.row(matrix).tile((row, column * 2), (1, 2)).store(pair.reshape((1, 2)));
    }
}
