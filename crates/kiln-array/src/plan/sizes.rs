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
    /// The extent of what is no part of tiles.
    pub(crate) outer: usize,
    /// The extent that rows of tiles divide.
    pub(crate) rows: usize,
    /// The extent that columns of tiles divide.
    pub(crate) columns_extent: usize,
    /// Whether elements that are neighbors in memory lie along the rows.
    pub(crate) crossed: bool,
    /// The bytes of an element of the largest array that is read.
    pub(crate) element_bytes: usize,
}

/// Columns of a tile of so many elements that divide an extent, where there are rows enough to fill
/// it and columns for accesses in order: what lies beyond an end costs as much as what does not.
/// Else as many as cover the extent.
fn dividing(extent: usize, rows: usize, most: usize) -> usize {
    const FEWEST: usize = 128;
    let divisor = (1 << extent.max(1).trailing_zeros()).min(most);
    let is_full = divisor >= FEWEST && divisor.saturating_mul(rows) >= most;
    if is_full { divisor } else { extent.max(1).next_power_of_two().min(most) }
}

/// Elements of a tile on a GPU, of so many: fewer where few programs would have a chain of
/// operations each, and most of the device nothing.
fn busy(elements: usize) -> usize {
    const PROGRAMS: usize = 256;
    (elements / PROGRAMS).next_power_of_two().clamp(128, 2048)
}

/// Warps of a program that keeps rows of so many bytes in registers: four accesses of 16 bytes a
/// thread, eight where that is more than 8 warps, which wait for each other at every reduction
/// (tried on an H200, `bench/notes.md`).
fn row_warps(bytes: usize) -> u32 {
    const THREAD: usize = 64;
    let warps = |each: usize| bytes / (32 * each);
    warps(THREAD).min(8).max(warps(2 * THREAD)).clamp(1, 16) as u32
}

/// The rows and columns of a tile, and the warps of a program that takes it.
pub(crate) fn tile(of: Sizes, device: &Device) -> ([u32; 2], Option<u32>) {
    let execution = device.capabilities().execution;
    let most = match execution {
        Execution::Simt if of.columns == Columns::Grid && !of.crossed => {
            busy(of.outer.saturating_mul(of.rows).saturating_mul(of.columns_extent))
        }
        Execution::Simt => 2048,
        Execution::Simd => 4096,
        Execution::Interpreted => 1024,
    };
    let covering = |extent: usize| extent.max(1).next_power_of_two();
    let columns = match of.columns {
        Columns::Whole => covering(of.columns_extent),
        Columns::Grid | Columns::Loop if of.crossed => covering(of.columns_extent).min(CROSSED),
        Columns::Grid if execution == Execution::Simt => dividing(of.columns_extent, of.rows, most),
        // Fewer programs at a time, whose rows stay in the L2 cache from one loop to the next.
        Columns::Loop if execution == Execution::Simt && of.columns_extent >= LONGEST_ROW => 4 * most,
        Columns::Grid | Columns::Loop => covering(of.columns_extent).min(most),
    };
    let rows = match (execution, of.columns) {
        // What is computed of a long row stays in caches until the row is done.
        (Execution::Simd, Columns::Whole) if columns >= LONG_ROW => 1,
        _ => covering(of.rows).min((most / columns).max(1)),
    };
    let elements = rows * columns;
    let warps = match execution {
        Execution::Simt if of.columns == Columns::Whole => Some(row_warps(elements * of.element_bytes)),
        // As many elements a thread as four accesses of 16 bytes have, of f32.
        Execution::Simt => Some((elements / (32 * 16)).clamp(1, 16) as u32),
        Execution::Simd | Execution::Interpreted => None,
    };
    ([rows as u32, columns as u32], warps)
}

#[cfg(test)]
mod tests {
    use super::{busy, dividing, row_warps};

    #[test]
    fn tiles_divide_rows_where_there_are_enough_of_them() {
        // Rows of 3 x 1024, one long row, few rows, and rows of an odd length.
        assert_eq!(dividing(3072, 16384, 2048), 1024);
        assert_eq!(dividing(3 << 20, 1, 2048), 2048);
        assert_eq!(dividing(3 << 7, 2, 2048), 512);
        assert_eq!([dividing(1000, 4096, 2048), dividing(0, 0, 2048)], [1024, 1]);
    }

    #[test]
    fn threads_take_64_bytes_of_short_rows_and_more_of_long_ones() {
        // Rows of 1024 bytes to 64 KiB.
        assert_eq!([10, 12, 13, 14, 15, 16].map(|log| row_warps(1 << log)), [1, 2, 4, 8, 8, 16]);
    }

    #[test]
    fn tiles_of_few_elements_are_small() {
        assert_eq!([0, 768, 100_000, 1 << 19, 1 << 30].map(busy), [128, 128, 512, 2048, 2048]);
    }
}
