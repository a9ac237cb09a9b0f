//! Products on matrix units whose fragments nobody else can read: Vulkan's cooperative matrices and
//! Metal's matrices of SIMD groups. The lowering makes them, never a front end.
//!
//! Sums are an allocation of shared memory, by rows, that these operations alone reach. So a device
//! may keep them elsewhere: in registers of its units, of which only the units know which thread
//! holds what. All threads of the block reach such an operation together.

use smallvec::SmallVec;

/// Rows, columns and depth of a fragment.
pub const MATRIX: u32 = 16;

/// How the warps of a block divide a product: as a grid of so many rows and columns. Warp `w` has
/// the part in row `w / columns % rows` and column `w % columns`, which lies in fragments of
/// [`MATRIX`] rows and columns, by rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MatrixGrid {
    /// Parts one above the other.
    pub rows: u32,
    /// Parts side by side.
    pub columns: u32,
}

impl MatrixGrid {
    /// Fragments one above the other and side by side in the part of a warp of sums `[m, n]`.
    ///
    /// ```
    /// let grid = kiln_ir::MatrixGrid { rows: 2, columns: 4 };
    /// assert_eq!(grid.fragments([128, 64]), [4, 1]);
    /// ```
    pub fn fragments(self, [m, n]: [u32; 2]) -> [u32; 2] {
        [m / self.rows / MATRIX, n / self.columns / MATRIX]
    }

    /// The first row and column of a fragment of a warp.
    ///
    /// ```
    /// let grid = kiln_ir::MatrixGrid { rows: 2, columns: 4 };
    /// // The second fragment of warp 5, which has the second part of the second row.
    /// assert_eq!(grid.place([128, 64], 5, 1), [64 + 16, 16]);
    /// ```
    pub fn place(self, [m, n]: [u32; 2], warp: u32, fragment: u32) -> [u32; 2] {
        let [_, wide] = self.fragments([m, n]);
        let (row, column) = (warp / self.columns % self.rows, warp % self.columns);
        let below = fragment / wide.max(1) * MATRIX;
        [row * (m / self.rows) + below, column * (n / self.columns) + fragment % wide.max(1) * MATRIX]
    }
}

/// An operation of a block on sums in fragments.
///
/// ```
/// use kiln_ir::{MatrixGrid, MatrixOp};
/// let grid = MatrixGrid { rows: 2, columns: 4 };
/// let product = MatrixOp::Multiply { grid, depth: 32, transposed: [false, true] };
/// assert_eq!((product.grid(), MatrixOp::Zero(grid).grid()), (grid, grid));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MatrixOp {
    /// `(view sums)`: makes them zeros.
    Zero(MatrixGrid),
    /// `(view left, view right, view sums, i64 left line, i64 right line)`: adds the product of two
    /// matrices of f16 in shared memory, which begin at these lines of their views. Products are
    /// exact; how sums are rounded is the device's.
    Multiply {
        /// How warps divide the sums.
        grid: MatrixGrid,
        /// What is summed over, a multiple of [`MATRIX`].
        depth: u32,
        /// Whether the transposes of the factors lie in memory.
        transposed: [bool; 2],
    },
    /// `(view sums, view staged)`: every warp `w` writes a fragment of its part to line `w` of
    /// other shared memory, by rows, behind so many others.
    Store {
        /// How warps divide the sums.
        grid: MatrixGrid,
        /// The number of the fragment.
        fragment: u32,
        /// How many fragments of the line lie before it.
        slot: u32,
    },
    /// `(view sums, view staged) -> tile`: the sums. It becomes stores of fragments, by way of
    /// other shared memory with a line of whole fragments for each warp.
    Load(MatrixGrid),
}

impl MatrixOp {
    /// How warps divide the sums.
    pub fn grid(&self) -> MatrixGrid {
        match *self {
            MatrixOp::Zero(grid)
            | MatrixOp::Multiply { grid, .. }
            | MatrixOp::Store { grid, .. }
            | MatrixOp::Load(grid) => grid,
        }
    }

    /// Its numbers, in the order of the text format.
    pub(crate) fn attributes(&self) -> SmallVec<[(&'static str, u32); 6]> {
        let grid = self.grid();
        let mut all = SmallVec::from_slice(&[("rows", grid.rows), ("columns", grid.columns)]);
        match *self {
            MatrixOp::Zero(_) | MatrixOp::Load(_) => {}
            MatrixOp::Multiply { depth, transposed: [left, right], .. } => {
                all.extend([("depth", depth), ("left", left.into()), ("right", right.into())]);
            }
            MatrixOp::Store { fragment, slot, .. } => all.extend([("fragment", fragment), ("slot", slot)]),
        }
        all
    }

    /// The operation with this word in the text format, whose numbers `number` reads.
    pub(crate) fn read<E>(
        name: &str,
        mut number: impl FnMut(&'static str) -> Result<u32, E>,
    ) -> Result<Option<MatrixOp>, E> {
        if !["matrix_zero", "matrix_multiply", "matrix_store", "matrix_load"].contains(&name) {
            return Ok(None);
        }
        let grid = MatrixGrid { rows: number("rows")?, columns: number("columns")? };
        Ok(Some(match name {
            "matrix_zero" => MatrixOp::Zero(grid),
            "matrix_multiply" => MatrixOp::Multiply {
                grid,
                depth: number("depth")?,
                transposed: [number("left")? != 0, number("right")? != 0],
            },
            "matrix_store" => MatrixOp::Store { grid, fragment: number("fragment")?, slot: number("slot")? },
            _ => MatrixOp::Load(grid),
        }))
    }
}
