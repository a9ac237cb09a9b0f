//! How large tiles are.

use super::program::Columns;
use kiln_runtime::{Device, Execution};

/// The longest row that a tile holds, in elements. Of longer ones a program reads every part as
/// often as it needs them.
pub(crate) const LONGEST_ROW: usize = 16384;

/// The extent of tiles along which memory is not read in order, in elements: enough for the
/// widest accesses along the other one.
pub(crate) const CROSSED: usize = 64;

/// The row of which a program on a CPU takes one at a time, in elements.
const LONG_ROW: usize = 256;

/// Whether kernels take many tensors, by their addresses: elsewhere each is a binding, of which
/// there are few.
pub(crate) fn takes_many(device: &Device) -> bool {
    device.backend().graphs().is_some() || device.capabilities().on_host
}

/// Whether a tile holds a row.
pub(crate) fn fits_tile(row: usize) -> bool {
    row <= LONGEST_ROW
}

/// What decides about a tile.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) columns: Columns,
    /// The extent that rows of tiles divide.
    pub(crate) rows: usize,
    /// The extent that columns of tiles divide.
    pub(crate) columns_extent: usize,
    /// Whether elements that are neighbors in memory lie along the rows.
    pub(crate) crossed: bool,
}

/// The rows and columns of a tile, and the warps of a program that takes it.
pub(crate) fn tile(of: Sizes, device: &Device) -> ([u32; 2], Option<u32>) {
    let execution = device.capabilities().execution;
    let most = match execution {
        Execution::Simt => 2048,
        Execution::Simd => 4096,
        Execution::Interpreted => 1024,
    };
    let covering = |extent: usize| extent.max(1).next_power_of_two();
    let columns = match of.columns {
        Columns::Whole => covering(of.columns_extent),
        Columns::Grid | Columns::Loop if of.crossed => covering(of.columns_extent).min(CROSSED),
        Columns::Grid | Columns::Loop => covering(of.columns_extent).min(most),
    };
    let rows = match (execution, of.columns) {
        // What is computed of a long row stays in caches until the row is done.
        (Execution::Simd, Columns::Whole) if columns >= LONG_ROW => 1,
        _ => covering(of.rows).min((most / columns).max(1)),
    };
    let elements = rows * columns;
    let warps = match execution {
        // As many elements a thread as four accesses of 16 bytes have, of f32.
        Execution::Simt => Some((elements / (32 * 16)).clamp(1, 16) as u32),
        Execution::Simd | Execution::Interpreted => None,
    };
    ([rows as u32, columns as u32], warps)
}
