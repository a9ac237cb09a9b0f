//! Products of matrices at the tile level, on every device.

use super::epilogue::{Epilogue, TilePosition};
use super::extents;
use super::factor::{Factor, Unit, allows};
use super::finish::Finish;
pub use super::finish::Tile;
use crate::sizes::grids;
use crate::tuning::{self, Choosing, Tuning, Way, class};
use kiln_lang::Precision;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, DynTensor, Execution, Result, Tensor};

/// Kernels, for launches of one's own.
///
/// ```
/// use kiln_kernels::matmul::Precision;
/// use kiln_kernels::matmul::epilogue::Scale;
/// use kiln_kernels::matmul::plain::kernels::matmul;
/// let device = kiln_runtime::Device::open("interp")?;
/// let (a, b) = (device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [1, 2, 2])?, device.tensor(&[1.0f32, 1.0], [1, 2, 1])?);
/// let mut c = device.uninit::<f32, 3>([1, 2, 1])?;
/// let product = matmul::<_, _, _, Scale>;
/// product(&a, &b, &mut c, Scale(10.0), 0, 0, [true, true], Precision::Full, 16, 16, 16)
///     .grid([1])
///     .launch(&device)?;
/// assert_eq!(c.to_vec()?, [30.0, 70.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub mod kernels {
    use super::*;

    /// c = a b through the epilogue: a tile of `rows` × `columns` a program, `depth` columns of a
    /// and rows of b at a time. A factor that is `shared` is the same for all products of the
    /// stack.
    ///
    /// The grid has a program for each tile of a row, each row of tiles and each product; the
    /// latter two from the row `first_row` and the product `first_product` on, for a grid may not
    /// have as many as there are.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn matmul<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric, E: Epilogue<T::Sum>>(
        a: &Tensor<T, 3>,
        b: &Tensor<U, 3>,
        c: &mut Tensor<O, 3>,
        epilogue: E,
        first_row: i64,
        first_product: i64,
        shared: [bool; 2],
        precision: Precision,
        rows: usize,
        columns: usize,
        depth: usize,
    ) {
        let (batch, row) = (program_id(2) + first_product, (program_id(1) + first_row) * rows);
        let column = program_id(0) * columns;
        let of = |shared: bool| if shared { val(0) } else { batch };
        let (a, b) = (a.row(of(shared[0])), b.row(of(shared[1])));
        let mut sum = zeros::<T::Sum>((rows, columns));
        for at in range_step(0, a.extent(1), depth) {
            let (x, y) = (a.tile((row, at), (rows, depth)), b.tile((at, column), (depth, columns)));
            sum = dot_with(x.load(0), y.load(0), sum, precision);
        }
        let place = TilePosition { batch, row, column, shape: [rows, columns] };
        let result = E::apply(&epilogue, sum, &place).cast::<O>();
        c.row(batch).tile((row, column), (rows, columns)).store(result);
    }
}

/// Launches the kernel for matrices whose shapes fit.
pub(super) fn multiply(
    a: &DynTensor,
    b: &DynTensor,
    c: &mut DynTensor,
    finish: &dyn Finish,
    precision: Precision,
    tuning: Tuning,
) -> Result<()> {
    let ([products, m, n], [_, _, k]) = (extents(c), extents(a));
    let (device, types) = (a.device(), finish.types());
    let factors = Factors { unit: types.unit, bytes: types.factor_bytes() };
    let launch = |tile: Tile, to: &mut DynTensor| {
        let (rows, columns, _) = tile;
        for [down, stack] in grids(device, [m.div_ceil(rows), products], [1; 2]) {
            let first = [&down, &stack].map(|some| some.start as i64);
            let grid = [n.div_ceil(columns), down.len(), stack.len()].map(|blocks| blocks as u32);
            finish.tiles((a, b), to, precision, tile, first, grid)?;
        }
        Ok(())
    };
    let estimate = factors.tile(device, precision, [m, n, k]);
    if tuning.is_off() || c.is_empty() {
        return launch(estimate, c);
    }
    let name = |(rows, columns, depth): Tile| format!("{rows} x {columns} x {depth}");
    let tiles = || factors.tiles(device, precision, estimate, [m, n, k]);
    let ways = || tiles().into_iter().map(|way| Way { name: name(way), way }).collect();
    let named = |kept: &str| tiles().into_iter().find(|&way| name(way) == kept);
    let [count, high, wide, deep] = [products, m, n, k].map(class);
    let order = |adjacent| if adjacent == 1 { "rows" } else { "columns" };
    let through = if finish.is_identity() { "" } else { ", through an epilogue" };
    let (from, to) = (types.factors(), types.result);
    let (a_order, b_order) = (order(a.strides()[2]), order(b.strides()[2]));
    let by = match (precision, types.unit) {
        (Precision::Tf32, Unit::Tf32) => ", as tf32",
        (Precision::Tf32x3, Unit::Tf32) => ", as tf32 in two parts",
        (Precision::FastSums, Unit::Float8) => ", with fast sums",
        _ => "",
    };
    let question = format!(
        "matmul, {from} to {to}, {count} x {high} x {wide} x {deep}, a by {a_order}, b by {b_order}{by}{through}"
    );
    let result = || DynTensor::uninit(device, to, &[products, m, n]);
    let choosing = Choosing { device, tuning, question: &question };
    let chosen = choosing.choose(&named, &ways, &result, &launch)?;
    launch(chosen.unwrap_or(estimate), c)
}

/// Whether the compiler gives products to warpgroups.
pub(crate) fn has_warpgroups(device: &Device) -> bool {
    device.capabilities().warpgroup_products
}

/// The tiles of a GPU without matrix units for the type, from the fastest on, each with the number
/// of programs for which a multiprocessor must have shared memory. Tall ones want four. Where there
/// is less (48 KiB through Vulkan), wide ones of half the depth read as little (bench/notes.md).
const MULTIPLY_ADD_TILES: [(usize, Tile); 3] = [(4, (128, 64, 32)), (3, (128, 128, 16)), (3, (64, 64, 32))];

/// What a GPU's matrix units do of a product of tiles.
struct Units {
    /// Elements of 32 bytes, of f64 8.
    depth: usize,
    /// Whether warpgroups multiply them where there are any.
    of_warpgroups: bool,
    /// Whether sums have two levels, which take twice as many registers.
    two_level: bool,
}

/// What decides about tiles of the type of factors.
#[derive(Clone, Copy)]
struct Factors {
    unit: Unit,
    /// Of an element.
    bytes: usize,
}

impl Factors {
    /// `None` where there are none for the type.
    fn units(self, device: &Device, precision: Precision) -> Option<Units> {
        let units = device.capabilities().matrix_units;
        let there = self.unit.format().is_some_and(|format| units.multiply(format));
        let two_level = self.unit == Unit::Float8 && precision != Precision::FastSums;
        let depth = (32 / self.bytes).max(8);
        let by_warps = self.unit == Unit::Float64 || precision == Precision::Tf32x3;
        let of_warpgroups = has_warpgroups(device) && !by_warps;
        (there && allows(precision, self.unit)).then_some(Units { depth, of_warpgroups, two_level })
    }

    /// The estimate's tile, and the others that are worth trying: half and twice of each extent
    /// where the device gains from larger ones.
    fn tiles(
        self,
        device: &Device,
        precision: Precision,
        estimate: Tile,
        [m, n, k]: [usize; 3],
    ) -> Vec<Tile> {
        let within = |extent: usize, of: usize| of.min(extent.next_power_of_two().max(16));
        let units = self.units(device, precision);
        // Depths on matrix units are given in steps of 32 bytes.
        let step = units.as_ref().map_or(1, |units| units.depth);
        let all: &[Tile] = match device.capabilities().execution {
            Execution::Simd => &[
                (64, 256, 512),
                (128, 256, 512),
                (256, 256, 512),
                (128, 128, 512),
                (256, 512, 128),
                (256, 1024, 128),
            ],
            Execution::Simt if units.as_ref().is_some_and(|units| units.two_level) => {
                &[(128, 128, 4), (128, 64, 4), (64, 128, 4), (64, 64, 4), (128, 128, 2), (64, 128, 2)]
            }
            Execution::Simt if units.as_ref().is_some_and(|units| units.of_warpgroups) => {
                &[(256, 128, 4), (128, 256, 4), (128, 128, 4), (128, 128, 2), (64, 128, 4), (64, 64, 4)]
            }
            Execution::Simt if units.is_some() => {
                &[(128, 128, 2), (64, 64, 2), (64, 128, 2), (128, 64, 2), (64, 64, 4), (128, 128, 4)]
            }
            Execution::Simt => &[(32, 64, 32), (64, 64, 32), (128, 64, 32), (32, 32, 32), (64, 64, 16)],
            Execution::Interpreted => &[(16, 16, 16), (32, 16, 16), (16, 32, 16)],
        };
        let mut tiles = vec![estimate];
        for &(rows, columns, depth) in all {
            let tile = (within(m, rows), within(n, columns), within(k, depth * step).max(step));
            if !tiles.contains(&tile) && tiles.len() < tuning::MOST {
                tiles.push(tile);
            }
        }
        tiles
    }

    /// The tile by estimate: see [`tile`].
    fn tile(self, device: &Device, precision: Precision, [m, n, k]: [usize; 3]) -> Tile {
        let units = self.units(device, precision);
        let within = |extent: usize, most: usize| extent.next_power_of_two().clamp(16, most);
        match (device.capabilities().execution, units) {
            (Execution::Simd, _) => {
                // What a program packs serves all of its rows and columns, and what it holds
                // remains in the L2 cache (bench/notes.md); smaller tiles where large ones would
                // leave a core without work.
                let units = (device.properties().units as usize).max(1);
                let fills = |&(rows, columns, _): &Tile| {
                    let programs = m.div_ceil(rows) * n.div_ceil(columns);
                    10 * programs >= 9 * programs.next_multiple_of(units)
                };
                let all = [(256, 512, 128), (256, 256, 512)];
                let (rows, columns, depth) = all.into_iter().find(fills).unwrap_or((128, 256, 512));
                (within(m, rows), within(n, columns), within(k, depth))
            }
            // Products of warpgroups: as many sums as registers hold, or fewer where the device
            // would have too little to do.
            (Execution::Simt, Some(Units { depth, two_level, of_warpgroups: true })) => {
                let fills = |rows: usize, columns: usize| {
                    m.div_ceil(rows) * n.div_ceil(columns) >= device.properties().units as usize
                };
                // Where a warp copies, tall tiles are a little faster.
                let large = if self.bytes == 2 { (256, 128) } else { (128, 256) };
                let all = [large, (128, 128), (64, 128)].into_iter().skip(usize::from(two_level));
                let (rows, columns) = all.into_iter().find(|&(r, c)| fills(r, c)).unwrap_or((64, 64));
                (within(m, rows), within(n, columns), within(k, 4 * depth).max(depth))
            }
            // On tensor cores: 64 × 64 a warp, or fewer where the device would have too little to
            // do. Of f64 three small programs on a multiprocessor are faster than one.
            (Execution::Simt, Some(Units { depth, .. })) => {
                let most = device.cost_model().products.tile_of_warps;
                let fills = |&[rows, columns]: &[usize; 2]| {
                    m.div_ceil(rows) * n.div_ceil(columns) >= device.properties().units as usize
                };
                let all = match self.bytes {
                    2 => &[most, [128, 128]][..],
                    1 | 4 => &[[128, 128]],
                    _ => &[],
                };
                let [rows, columns] = all.iter().copied().find(fills).unwrap_or([64, 64]);
                (within(m, rows), within(n, columns), 2 * depth)
            }
            (Execution::Simt, None) => {
                let (units, room) = (device.properties().units as usize, device.properties().shared_memory);
                let suits = |&(programs, (rows, columns, depth)): &(usize, Tile)| {
                    let bytes = programs * (rows + columns) * depth * self.bytes;
                    self.bytes <= 4
                        && bytes as u64 <= u64::from(room)
                        && m.div_ceil(rows) * n.div_ceil(columns) >= units
                };
                let (rows, columns, depth) =
                    MULTIPLY_ADD_TILES.into_iter().find(suits).map_or((32, 64, 32), |(_, tile)| tile);
                (within(m, rows), within(n, columns), depth)
            }
            (Execution::Interpreted, _) => (16, 16, 16),
        }
    }
}

/// The rows, columns and depth of the tile that a device's programs take by estimate, for a product
/// `[m, k]` · `[k, n]`.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let tile = kiln_kernels::matmul::plain::tile::<f32>(&device, Default::default(), [100, 100, 100]);
/// assert_eq!(tile, (16, 16, 16));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn tile<T: Factor>(device: &Device, precision: Precision, shape: [usize; 3]) -> Tile {
    Factors { unit: T::UNIT, bytes: size_of::<T>() }.tile(device, precision, shape)
}
