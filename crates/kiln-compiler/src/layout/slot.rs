//! Matrices of 16-bit elements in shared memory, swizzled so that neither writing rows nor reading fragments meets conflicts of banks.

use super::distributed::{AxisBits, Layout};
use kiln_ir::{Panels, Shape};

/// Bytes of an element.
const BYTES: u32 = 2;
/// Bytes of a chunk, which stays whole.
const CHUNK: u32 = 16;
/// The longest line of a panel, in bytes: all banks once.
const PANEL: u32 = 128;

/// A matrix in shared memory: [`Panels`] of lines along one of its axes.
///
/// The offset of an element is linear over GF(2) in the bits of its index: a thread's part and a register's are combined by exclusive or.
///
/// ```
/// use kiln_compiler::layout::Slot;
/// use kiln_ir::{Panels, Shape};
/// let slot = Slot::new(&Shape::new(&[16, 64]), 1);
/// assert_eq!((slot.offset(0), slot.offset(8), slot.offset(64), slot.offset(64 + 8)), (0, 16, 128 + 16, 128));
/// assert_eq!(slot.bytes(), 2048);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    rows: u32,
    columns: u32,
    /// The axis along which elements are adjacent.
    along: u32,
}

impl Slot {
    /// The slot of a matrix, the last two axes of a shape, whose elements are adjacent along one of these (0 or 1). Extents are powers of two, that along the axis 8 or more.
    pub fn new(shape: &Shape, along: u32) -> Slot {
        let rank = shape.rank();
        Slot { rows: shape[rank - 2], columns: shape[rank - 1], along }
    }

    /// The axis along which elements are adjacent.
    pub fn along(&self) -> u32 {
        self.along
    }

    /// The rows and columns of the matrix.
    pub fn extents(&self) -> [u32; 2] {
        [self.rows, self.columns]
    }

    /// The size in bytes.
    pub fn bytes(&self) -> u32 {
        self.rows * self.columns * BYTES
    }

    /// The offset of the element with this row-major index.
    pub fn offset(&self, flat: u32) -> u32 {
        self.at(flat / self.columns, flat % self.columns)
    }

    /// The offset of an element, in bytes.
    pub fn at(&self, row: u32, column: u32) -> u32 {
        let (line, place) = if self.along == 0 { (column, row) } else { (row, column) };
        self.panels().offset(line, place * BYTES)
    }

    /// The lines of the matrix.
    pub fn panels(&self) -> Panels {
        let (lines, length) =
            if self.along == 0 { (self.columns, self.rows) } else { (self.rows, self.columns) };
        Panels { lines, bytes: length * BYTES }
    }

    /// The part of an offset that depends on a thread's and a register's part together. What is above it is a sum of theirs.
    pub fn swizzled(offset: u32) -> u32 {
        offset & (PANEL - CHUNK)
    }

    /// The registers of a layout that hold elements adjacent in a chunk: which bits of the register's number step through them, lowest first.
    pub fn adjacent(&self, layout: &Layout) -> Vec<usize> {
        let shape = Shape::new(&[self.rows, self.columns]);
        let shift = AxisBits::of(&shape, self.along as usize).shift;
        (0..(CHUNK / BYTES).trailing_zeros())
            .map_while(|bit| layout.register().iter().position(|b| *b == 1 << (shift + bit)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> impl Iterator<Item = Slot> {
        let shapes = [[16, 16], [64, 64], [128, 32], [8, 128], [16, 256], [32, 8]];
        shapes.into_iter().flat_map(|s| [0, 1].map(|along| Slot::new(&Shape::new(&s), along)))
    }

    #[test]
    fn elements_have_places_of_their_own_and_chunks_stay_whole() {
        for slot in slots() {
            let mut taken = vec![false; slot.bytes() as usize / 2];
            for row in 0..slot.rows {
                for column in 0..slot.columns {
                    let at = slot.at(row, column);
                    assert!(!std::mem::replace(&mut taken[at as usize / 2], true), "{slot:?} {row} {column}");
                    let place = if slot.along == 0 { row } else { column };
                    assert_eq!(at % CHUNK, place % 8 * 2);
                }
            }
        }
    }

    #[test]
    fn offsets_are_linear_and_only_chunks_move() {
        for slot in slots() {
            let len = slot.rows * slot.columns;
            for a in 0..len {
                let b = (len - 1) & !a;
                assert_eq!(slot.offset(a) ^ slot.offset(b), slot.offset(a | b), "{slot:?} {a}");
                let above = |x: u32| x & !(PANEL - 1);
                assert_eq!(above(slot.offset(a)) + above(slot.offset(b)), above(slot.offset(a | b)));
            }
        }
    }

    #[test]
    fn eight_lines_of_a_fragment_lie_in_different_banks() {
        for slot in slots().filter(|s| [s.rows, s.columns][1 - s.along as usize] >= 8) {
            let length = [slot.rows, slot.columns][slot.along as usize];
            for chunk in 0..length / 8 {
                let mut banks: Vec<u32> =
                    (0..8)
                        .map(|line| {
                            if slot.along == 0 { slot.at(chunk * 8, line) } else { slot.at(line, chunk * 8) }
                        })
                        .map(|at| at % PANEL / CHUNK)
                        .collect();
                banks.sort_unstable();
                banks.dedup();
                assert_eq!(banks.len(), 8, "{slot:?}");
            }
        }
    }
}
