//! Layouts of the matrices of a product whose warps multiply fragments (PTX ISA, "Matrix Fragments
//! for mma.m16n8k8", "k16", "k32").

use super::distributed::{AxisBits, Layout, Threads};
use super::linear::Bases;
use crate::target::WARP;
use kiln_ir::{MATRIX, MatrixGrid, Shape};

/// The rows and columns of the product that a warp computes with one instruction. Its depth is 32
/// bytes, of f64 64.
pub const MMA: [u32; 2] = [16, 8];

/// Bits of the index of a lane that holds fragments: NVIDIA's matrix units are those of its warps.
pub const LANE_BITS: usize = WARP.trailing_zeros() as usize;

/// How warps divide a product `[m, n]`: as a grid of so many rows and columns, each a power of two.
/// Where the product is too small for all warps, those left over compute the same as others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WarpGrid {
    /// Warps one above the other.
    pub rows: u32,
    /// Warps side by side.
    pub columns: u32,
}

impl WarpGrid {
    /// The grid whose warps have parts closest to squares, for which they read least.
    ///
    /// ```
    /// use kiln_compiler::layout::WarpGrid;
    /// assert_eq!(WarpGrid::square(128, 256, 8), WarpGrid { rows: 2, columns: 4 });
    /// assert_eq!(WarpGrid::square(16, 8, 4), WarpGrid { rows: 1, columns: 1 });
    /// ```
    pub fn square(m: u32, n: u32, warps: u32) -> WarpGrid {
        let mut grid = WarpGrid { rows: 1, columns: 1 };
        while grid.rows * grid.columns < warps {
            let (high, wide) = (m / grid.rows, n / grid.columns);
            if high >= 2 * MMA[0] && (high >= wide || wide < 2 * MMA[1]) {
                grid.rows *= 2;
            } else if wide >= 2 * MMA[1] {
                grid.columns *= 2;
            } else {
                break;
            }
        }
        grid
    }

    /// The grid whose warps have whole rows, so that what is computed along them is within a warp.
    pub fn by_rows(m: u32, warps: u32) -> WarpGrid {
        WarpGrid { rows: warps.min(m / MMA[0]), columns: 1 }
    }
}

/// The bits of two axes of a matrix, from which layouts are dealt.
struct Axes {
    row: AxisBits,
    column: AxisBits,
}

impl Axes {
    fn of(shape: &Shape) -> Axes {
        Axes { row: AxisBits::of(shape, 0), column: AxisBits::of(shape, 1) }
    }

    fn row(&self, bits: std::ops::Range<u32>) -> impl Iterator<Item = u32> {
        bits.map(|i| 1 << (self.row.shift + i))
    }

    fn column(&self, bits: std::ops::Range<u32>) -> impl Iterator<Item = u32> {
        bits.map(|i| 1 << (self.column.shift + i))
    }
}

fn warp_bits(rows: Bases, columns: Bases, warps: u32) -> Bases {
    let mut warp: Bases = rows.into_iter().chain(columns).collect();
    warp.resize(warps.trailing_zeros() as usize, 0);
    warp
}

impl Layout {
    /// The layout in which warps accumulate a product `[m, n]`: a thread has pairs of adjacent
    /// columns in two rows that are 8 apart, then the same 8 columns further, then 16 rows further.
    /// Each warp has the rows and columns of one part.
    ///
    /// ```
    /// use kiln_compiler::layout::{Layout, WarpGrid};
    /// use kiln_ir::Shape;
    /// let layout = Layout::mma(&Shape::new(&[32, 16]), WarpGrid { rows: 2, columns: 1 }, 2);
    /// assert_eq!(layout.to_string(), "registers [1, 128, 8] lanes [2, 4, 16, 32, 64] warps [256]");
    /// ```
    pub fn mma(shape: &Shape, grid: WarpGrid, warps: u32) -> Layout {
        let axes = Axes::of(shape);
        let (rows, columns) = (axes.row.count, axes.column.count);
        let (high, wide) = (rows - grid.rows.trailing_zeros(), columns - grid.columns.trailing_zeros());
        let register = axes
            .column(0..1)
            .chain(axes.row(3..4))
            .chain(axes.column(3..wide))
            .chain(axes.row(4..high))
            .collect();
        let lane: Bases = axes.column(1..3).chain(axes.row(0..3)).collect();
        debug_assert_eq!(lane.len(), LANE_BITS);
        let warp = warp_bits(axes.row(high..rows).collect(), axes.column(wide..columns).collect(), warps);
        Layout::of_bases(register, lane, warp)
    }

    /// The layout in which a product takes its left factor `[m, k]` from registers, of elements of
    /// so many bytes. For a grid of one column and 16 bits it is that of a product of the same
    /// shape.
    pub fn mma_left(shape: &Shape, grid: WarpGrid, warps: u32, bytes: u32) -> Layout {
        let word = word_bits(bytes);
        let axes = Axes::of(shape);
        let (rows, depth) = (axes.row.count, axes.column.count);
        let high = rows - grid.rows.trailing_zeros();
        let register = axes
            .column(0..word)
            .chain(axes.row(3..4))
            .chain(axes.column(word + 2..depth))
            .chain(axes.row(4..high))
            .collect();
        let lane = axes.column(word..word + 2).chain(axes.row(0..3)).collect();
        let warp = warp_bits(axes.row(high..rows).collect(), zeros(grid.columns), warps);
        Layout::of_bases(register, lane, warp)
    }

    /// The layout in which a product takes its right factor `[k, n]` from registers, of elements of
    /// so many bytes.
    pub fn mma_right(shape: &Shape, grid: WarpGrid, warps: u32, bytes: u32) -> Layout {
        let word = word_bits(bytes);
        let axes = Axes::of(shape);
        let (depth, columns) = (axes.row.count, axes.column.count);
        let wide = columns - grid.columns.trailing_zeros();
        let register =
            axes.row(0..word).chain(axes.row(word + 2..depth)).chain(axes.column(3..wide)).collect();
        let lane = axes.row(word..word + 2).chain(axes.column(0..3)).collect();
        let warp = warp_bits(zeros(grid.rows), axes.column(wide..columns).collect(), warps);
        Layout::of_bases(register, lane, warp)
    }

    /// The layout in which threads read sums `[m, n]` back that lie in fragments of 16 rows and
    /// columns: a lane has four adjacent columns, of as many rows of each fragment as there are
    /// lanes too few, then the same of the next fragment of its warp.
    ///
    /// ```
    /// use kiln_compiler::layout::{Layout, Threads};
    /// use kiln_ir::{MatrixGrid, Shape};
    /// let (grid, threads) = (MatrixGrid { rows: 1, columns: 2 }, Threads { width: 32, warps: 2 });
    /// let layout = Layout::of_matrix(&Shape::new(&[16, 64]), grid, threads);
    /// assert_eq!(layout.to_string(), "registers [1, 2, 512, 16] lanes [4, 8, 64, 128, 256] warps [32]");
    /// ```
    pub fn of_matrix(shape: &Shape, grid: MatrixGrid, threads: Threads) -> Layout {
        let (axes, side) = (Axes::of(shape), MATRIX.trailing_zeros());
        let (rows, columns) = (axes.row.count, axes.column.count);
        let (high, wide) = (rows - grid.rows.trailing_zeros(), columns - grid.columns.trailing_zeros());
        let lanes = threads.width.trailing_zeros();
        let vector = (2 * side).saturating_sub(lanes).min(2) as usize;
        let of_fragment: Bases = axes.column(0..side).chain(axes.row(0..side)).collect();
        let (adjacent, rest) = of_fragment.split_at(vector);
        let (lane, below) = rest.split_at(rest.len().min(lanes as usize));
        let others = axes.column(side..wide).chain(axes.row(side..high));
        let register = adjacent.iter().chain(below).copied().chain(others).collect();
        let parts = (axes.column(wide..columns).collect(), axes.row(high..rows).collect());
        Layout::of_bases(register, lane.iter().copied().collect(), warp_bits(parts.0, parts.1, threads.warps))
    }
}

/// Bits of an element's number that say which of those it is that a lane holds side by side: of a
/// word of 32 bits, or one f64.
fn word_bits(bytes: u32) -> u32 {
    (4 / bytes).max(1).trailing_zeros()
}

/// Bits of warps that hold the same.
fn zeros(warps: u32) -> Bases {
    (0..warps.trailing_zeros()).map(|_| 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the PTX ISA says lane `lane` holds as element `i` of the fragments of a (row, column),
    /// b (row, column) and c, for factors of 64, 32, 16 and 8 bits.
    fn documented(bytes: u32, lane: u32, i: u32) -> [(u32, u32); 3] {
        let (group, member) = (lane / 4, lane % 4);
        let [a, b] = match bytes {
            8 | 4 => {
                let lower = if i == 1 || i == 3 { 8 } else { 0 };
                [
                    (group + lower, member + if i >= 2 { 4 } else { 0 }),
                    (member + if i == 1 { 4 } else { 0 }, group),
                ]
            }
            2 => {
                let lower = if i / 2 % 2 == 1 { 8 } else { 0 };
                let right = if i >= 4 { 8 } else { 0 };
                [
                    (group + lower, member * 2 + i % 2 + right),
                    (member * 2 + i % 2 + if i >= 2 { 8 } else { 0 }, group),
                ]
            }
            _ => {
                let lower = if i / 4 % 2 == 1 { 8 } else { 0 };
                let right = if i >= 8 { 16 } else { 0 };
                [
                    (group + lower, member * 4 + i % 4 + right),
                    (member * 4 + i % 4 + if i >= 4 { 16 } else { 0 }, group),
                ]
            }
        };
        [a, b, (group + if i >= 2 { 8 } else { 0 }, member * 2 + i % 2)]
    }

    #[test]
    fn layouts_are_those_of_the_isa() {
        let grid = WarpGrid { rows: 1, columns: 1 };
        for bytes in [1, 2, 4, 8] {
            let (depth, each) = ((32 / bytes).max(8), (4 / bytes as usize).max(1));
            let layouts = [
                (Layout::mma_left(&Shape::new(&[16, depth]), grid, 1, bytes), depth, 4 * each),
                (Layout::mma_right(&Shape::new(&[depth, 8]), grid, 1, bytes), 8, 2 * each),
                (Layout::mma(&Shape::new(&[16, 8]), grid, 1), 8, 4),
            ];
            for (which, (layout, columns, registers)) in layouts.iter().enumerate() {
                assert_eq!(layout.registers(), *registers);
                for lane in 0..32 {
                    for i in 0..*registers as u32 {
                        let flat = layout.index(i as usize, lane, 0);
                        assert_eq!(
                            (flat / columns, flat % columns),
                            documented(bytes, lane, i)[which],
                            "{bytes} {which} {lane} {i}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn every_element_is_held_by_one_warp_of_a_full_grid() {
        for (m, n, warps) in [(128, 256, 8), (64, 64, 4), (16, 8, 1), (256, 16, 8), (32, 128, 16)] {
            let grid = WarpGrid::square(m, n, warps);
            let layout = Layout::mma(&Shape::new(&[m, n]), grid, warps);
            assert_eq!(layout.linear().rank() as u32, (m * n).trailing_zeros());
            assert_eq!(layout.registers() as u32 * 32 * warps, m * n);
        }
    }

    #[test]
    fn the_result_of_a_product_by_rows_is_a_left_factor() {
        let (shape, grid) = (Shape::new(&[128, 64]), WarpGrid::by_rows(128, 4));
        assert_eq!(Layout::mma(&shape, grid, 4), Layout::mma_left(&shape, grid, 4, 2));
    }
}
