//! Softmax and layer norm of rows that no program holds: each is divided into parts, of which one
//! program each finds what the whole row needs to know, and a second launch combines that for every
//! tile. The row is read twice, and few rows keep the whole device busy.
//!
//! Of softmax the parts' maxima and sums are combined (Milakov and Gimelshein, "Online normalizer
//! calculation for softmax", 2018), of layer norm their means and squared deviations (Chan, Golub
//! and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).

use crate::sizes::launches;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Execution, Result, Tensor};

/// The kernels.
pub mod kernels {
    use super::*;

    /// The greatest element of a part of a row, and the sum of powers of e relative to it, in
    /// `most` and `sums` (rows x parts). A part has `part` elements, a multiple of `tile`.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn softmax_parts(
        x: &Tensor<f32, 2>,
        most: &mut Tensor<f32, 2>,
        sums: &mut Tensor<f32, 2>,
        part: usize,
        tile: usize,
    ) {
        let (at, row) = (program_id(0), program_id(1));
        let first = at * part;
        let mut greatest = full::<f32>(tile, f32::NEG_INFINITY);
        let mut sum = zeros::<f32>(tile);
        for start in range_step(first, (first + part).min(x.extent(1)), tile) {
            let v = x.row(row).tile(start, tile).load(f32::NEG_INFINITY);
            let new = greatest.max(v);
            // Nothing but -inf so far: -inf less itself would be NaN.
            let shift = select(new.eq(f32::NEG_INFINITY), 0.0, new);
            sum = sum * (greatest - shift).exp() + (v - shift).exp();
            greatest = new;
        }
        let top = greatest.reduce_max();
        let shift = select(top.eq(f32::NEG_INFINITY), 0.0, top);
        let total = (sum * (greatest - shift).exp()).sum();
        most.row(row).tile(at, 1).store(top.reshape(1));
        sums.row(row).tile(at, 1).store(total.reshape(1));
    }

    /// A tile of a row's softmax from what [`softmax_parts`] found; `parts` covers the parts.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn softmax_of_parts(
        x: &Tensor<f32, 2>,
        most: &Tensor<f32, 2>,
        sums: &Tensor<f32, 2>,
        y: &mut Tensor<f32, 2>,
        parts: usize,
        tile: usize,
    ) {
        let (at, row) = (program_id(0) * tile, program_id(1));
        let tops = most.row(row).tile(0, parts).load(f32::NEG_INFINITY);
        let top = tops.reduce_max();
        let shift = select(top.eq(f32::NEG_INFINITY), 0.0, top);
        let total = (sums.row(row).tile(0, parts).load(0.0) * (tops - shift).exp()).sum();
        let v = x.row(row).tile(at, tile).load(f32::NEG_INFINITY);
        y.row(row).tile(at, tile).streaming().store((v - shift).exp() * total.recip());
    }

    /// The mean of a part of a row, and the sum of squared deviations from it, in `means` and
    /// `squares` (rows x parts). A part has `part` elements, a multiple of `tile`.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn layer_norm_parts<T: Float>(
        x: &Tensor<T, 2>,
        means: &mut Tensor<f32, 2>,
        squares: &mut Tensor<f32, 2>,
        part: usize,
        tile: usize,
    ) {
        let (at, row) = (program_id(0), program_id(1));
        let columns = x.extent(1);
        let first = at * part;
        let (mut count, mut mean, mut square) = (zeros::<f32>(tile), zeros::<f32>(tile), zeros::<f32>(tile));
        for start in range_step(first, (first + part).min(columns), tile) {
            let v = x.row(row).tile(start, tile).load(0).cast::<f32>();
            let inside = (iota::<i64>(tile) + start).lt(columns);
            count = count + select(inside, 1.0, 0.0);
            let from_old = v - mean;
            mean = select(inside, mean + from_old.fast_div(count), mean);
            square = select(inside, square + from_old * (v - mean), square);
        }
        let total = count.sum();
        let middle = (mean * count).sum().fast_div(total);
        let apart = mean - middle;
        means.row(row).tile(at, 1).store(middle.reshape(1));
        squares.row(row).tile(at, 1).store((square + count * apart * apart).sum().reshape(1));
    }

    /// A tile of a row's layer norm from what [`layer_norm_parts`] found; `parts` covers the parts.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn layer_norm_of_parts<T: Float>(
        x: &Tensor<T, 2>,
        weight: &Tensor<T, 1>,
        bias: &Tensor<T, 1>,
        means: &Tensor<f32, 2>,
        squares: &Tensor<f32, 2>,
        y: &mut Tensor<T, 2>,
        epsilon: Val<f32>,
        part: usize,
        parts: usize,
        tile: usize,
    ) {
        let (at, row) = (program_id(0) * tile, program_id(1));
        let columns = x.extent(1);
        let left = columns - iota::<i64>(parts) * part;
        let count = left.max(0).min(part).cast::<f32>();
        let mean = means.row(row).tile(0, parts).load(0.0);
        let total = columns.cast::<f32>();
        let middle = (mean * count).sum().fast_div(total);
        let apart = mean - middle;
        let square = (squares.row(row).tile(0, parts).load(0.0) + count * apart * apart).sum();
        let scale = (square.fast_div(total) + epsilon).rsqrt();
        let v = x.row(row).tile(at, tile).load(0).cast::<f32>();
        let (w, b) = (weight.tile(at, tile).load(0).cast::<f32>(), bias.tile(at, tile).load(0).cast::<f32>());
        y.row(row).tile(at, tile).streaming().store(((v - middle) * scale * w + b).cast::<T>());
    }
}

/// How rows are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    rows: usize,
    /// Parts of a row.
    parts: usize,
    /// Elements of a part.
    part: usize,
    /// Elements that a program has at a time.
    tile: usize,
    /// Tiles of a row.
    tiles: usize,
    warps: u32,
}

/// The longest row that one program holds.
const LONGEST: usize = 1 << 16;

/// The most parts of a row: every tile reads what was found of all of them.
const MOST_PARTS: usize = 512;

/// Whether rows are divided. On a GPU a row of more than half of [`LONGEST`] is held by one program
/// only if its rows begin at 16 bytes and it fills most of its tile; else the registers that hold
/// nothing cost more than reading it twice (bench/notes.md).
pub(crate) fn are_divided(device: &Device, columns: usize, bytes: usize) -> bool {
    let is_gpu = device.capabilities().execution == Execution::Simt;
    let is_full = columns.next_power_of_two() - columns <= columns / 8;
    let is_aligned = (columns * bytes).is_multiple_of(16);
    columns > LONGEST || is_gpu && columns > LONGEST / 2 && !(is_full && is_aligned)
}

impl Division {
    /// So that the programs of all rows fill the device.
    fn new(device: &Device, [rows, columns]: [usize; 2]) -> Division {
        let (tile, warps) = match device.capabilities().execution {
            // The longer the row, the more a program must do to be worth its start.
            Execution::Simt if columns >= 1 << 22 => (2048, 4),
            Execution::Simt => (1024, 4),
            Execution::Simd | Execution::Interpreted => (4096, 1),
        };
        let programs = crate::sizes::resident_programs(device).div_ceil(rows.max(1));
        let tiles = columns.div_ceil(tile);
        let per_part = tiles.div_ceil(programs.clamp(1, MOST_PARTS)).max(1);
        Division { rows, parts: tiles.div_ceil(per_part), part: per_part * tile, tile, tiles, warps }
    }

    fn grid_of_parts(&self) -> [u32; 2] {
        [self.parts as u32, self.rows as u32]
    }

    fn grid_of_tiles(&self) -> [u32; 2] {
        [self.tiles as u32, self.rows as u32]
    }

    /// The tile that covers the parts.
    fn all_parts(&self) -> usize {
        self.parts.max(1).next_power_of_two()
    }
}

/// Softmax of long rows.
pub(crate) fn softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) -> Result<()> {
    launches(x.shape()[0])
        .try_for_each(|rows| some_softmax(&x.slice(0, rows.clone())?, &mut y.slice(0, rows)?))
}

fn some_softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) -> Result<()> {
    let device = x.device().clone();
    let by = Division::new(&device, x.shape());
    let (mut most, mut sums) = (device.uninit([by.rows, by.parts])?, device.uninit([by.rows, by.parts])?);
    kernels::softmax_parts(x, &mut most, &mut sums, by.part, by.tile)
        .warps(by.warps)
        .grid(by.grid_of_parts())
        .launch(&device)?;
    kernels::softmax_of_parts(x, &most, &sums, y, by.all_parts(), by.tile)
        .warps(by.warps)
        .grid(by.grid_of_tiles())
        .launch(&device)
}

/// Layer norm of long rows.
pub(crate) fn layer_norm<T: Float>(
    x: &Tensor<T, 2>,
    weight: &Tensor<T, 1>,
    bias: &Tensor<T, 1>,
    y: &mut Tensor<T, 2>,
    epsilon: f32,
) -> Result<()> {
    launches(x.shape()[0]).try_for_each(|rows| {
        some_layer_norm(&x.slice(0, rows.clone())?, weight, bias, &mut y.slice(0, rows)?, epsilon)
    })
}

fn some_layer_norm<T: Float>(
    x: &Tensor<T, 2>,
    weight: &Tensor<T, 1>,
    bias: &Tensor<T, 1>,
    y: &mut Tensor<T, 2>,
    epsilon: f32,
) -> Result<()> {
    let device = x.device().clone();
    let by = Division::new(&device, x.shape());
    let (mut means, mut squares) = (device.uninit([by.rows, by.parts])?, device.uninit([by.rows, by.parts])?);
    kernels::layer_norm_parts(x, &mut means, &mut squares, by.part, by.tile)
        .warps(by.warps)
        .grid(by.grid_of_parts())
        .launch(&device)?;
    kernels::layer_norm_of_parts(
        x,
        weight,
        bias,
        &means,
        &squares,
        y,
        epsilon,
        by.part,
        by.all_parts(),
        by.tile,
    )
    .warps(by.warps)
    .grid(by.grid_of_tiles())
    .launch(&device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_row_and_no_part_is_empty() {
        let device = Device::open("interp").unwrap();
        for columns in [65_537, 100_000, 1 << 20, 5_000_011, 1 << 28] {
            for rows in [1, 3, 1000] {
                let by = Division::new(&device, [rows, columns]);
                assert!(by.part.is_multiple_of(by.tile) && by.parts <= MOST_PARTS, "{by:?}");
                assert!(by.part * by.parts >= columns && by.part * (by.parts - 1) < columns, "{by:?}");
                assert!(by.tile * by.tiles >= columns && by.tile * (by.tiles - 1) < columns, "{by:?}");
            }
        }
    }
}
