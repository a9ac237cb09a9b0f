//! Matrices in shared memory, swizzled so that neither writing rows nor reading fragments meets
//! conflicts of banks.

use super::distributed::{AxisBits, Layout};
use kiln_ir::{Panels, Shape};

/// Bytes of a chunk, which is not divided.
const CHUNK: u32 = 16;
/// Those of f64, of which a fragment has four lines of as many bytes a half of a warp.
const CHUNK_OF_F64: u32 = 32;
/// The longest line of a panel, in bytes: all banks once.
const PANEL: u32 = 128;

/// A matrix in shared memory: [`Panels`] of lines along one of its axes.
///
/// The offset of an element is linear over GF(2) in the bits of its index: a thread's part and a
/// register's are combined by exclusive or.
///
/// ```
/// use kiln_compiler::layout::Slot;
/// use kiln_ir::{Panels, Shape};
/// let slot = Slot::new(&Shape::new(&[16, 64]), 1, 2);
/// assert_eq!((slot.offset(0), slot.offset(8), slot.offset(64), slot.offset(64 + 8)), (0, 16, 128 + 16, 128));
/// assert_eq!(slot.bytes(), 2048);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    rows: u32,
    columns: u32,
    /// The axis along which elements are adjacent.
    along: u32,
    /// Bytes of an element.
    elem: u32,
}

impl Slot {
    /// The slot of a matrix, the last two axes of a shape, of elements of 1, 2, 4 or 8 bytes that
    /// are adjacent along one of the axes (0 or 1). Extents are powers of two, that along the axis
    /// 16 bytes or more, of elements of 8 bytes 32.
    pub fn new(shape: &Shape, along: u32, elem: u32) -> Slot {
        let rank = shape.rank();
        Slot { rows: shape[rank - 2], columns: shape[rank - 1], along, elem }
    }

    /// Bytes of an element.
    pub fn elem(&self) -> u32 {
        self.elem
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
        self.rows * self.columns * self.elem
    }

    /// The offset of the element with this row-major index.
    pub fn offset(&self, flat: u32) -> u32 {
        self.at(flat / self.columns, flat % self.columns)
    }

    /// The offset of an element, in bytes.
    pub fn at(&self, row: u32, column: u32) -> u32 {
        let (line, place) = if self.along == 0 { (column, row) } else { (row, column) };
        self.panels().offset_of_chunks(line, place * self.elem, self.chunk())
    }

    /// Bytes of what the swizzle moves as a whole.
    fn chunk(&self) -> u32 {
        if self.elem == 8 { CHUNK_OF_F64 } else { CHUNK }
    }

    /// The lines of the matrix.
    pub fn panels(&self) -> Panels {
        let (lines, length) =
            if self.along == 0 { (self.columns, self.rows) } else { (self.rows, self.columns) };
        Panels { lines, bytes: length * self.elem }
    }

    /// The part of an offset that depends on a thread's and a register's part together. What is
    /// above it is a sum of theirs.
    pub fn swizzled(offset: u32) -> u32 {
        offset & (PANEL - CHUNK)
    }

    /// The registers of a layout that hold elements adjacent in a chunk: which bits of the
    /// register's number step through them, lowest first.
    pub fn adjacent(&self, layout: &Layout) -> Vec<usize> {
        let shape = Shape::new(&[self.rows, self.columns]);
        let shift = AxisBits::of(&shape, self.along as usize).shift;
        (0..(CHUNK / self.elem).trailing_zeros())
            .map_while(|bit| layout.register().iter().position(|b| *b == 1 << (shift + bit)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> impl Iterator<Item = Slot> {
        let shapes = [[16, 16], [64, 64], [128, 32], [8, 128], [16, 256], [32, 8]];
        let kinds = [1, 2, 4, 8].into_iter().flat_map(|elem| [0, 1].map(|along| (along, elem)));
        let of = move |s: [u32; 2]| {
            kinds.clone().map(move |(along, elem)| Slot::new(&Shape::new(&s), along, elem))
        };
        shapes.into_iter().flat_map(of).filter(|slot| slot.panels().bytes >= slot.chunk())
    }

    #[test]
    fn elements_have_places_of_their_own_and_chunks_stay_whole() {
        for slot in slots() {
            let elem = slot.elem();
            let mut taken = vec![false; (slot.rows * slot.columns) as usize];
            for row in 0..slot.rows {
                for column in 0..slot.columns {
                    let at = slot.at(row, column);
                    let own = &mut taken[(at / elem) as usize];
                    assert!(!std::mem::replace(own, true), "{slot:?} {row} {column}");
                    let place = if slot.along == 0 { row } else { column };
                    assert_eq!(at % CHUNK, place * elem % CHUNK);
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
        let lines = |s: &Slot| [s.rows, s.columns][1 - s.along as usize];
        for slot in slots().filter(|s| s.elem() < 8 && lines(s) >= 8) {
            let length = [slot.rows, slot.columns][slot.along as usize];
            let each = CHUNK / slot.elem();
            for chunk in 0..length / each {
                let mut banks: Vec<u32> = (0..8)
                    .map(|line| {
                        if slot.along == 0 {
                            slot.at(chunk * each, line)
                        } else {
                            slot.at(line, chunk * each)
                        }
                    })
                    .map(|at| at % PANEL / CHUNK)
                    .collect();
                banks.sort_unstable();
                banks.dedup();
                assert_eq!(banks.len(), 8, "{slot:?}");
            }
        }
    }
    #[test]
    fn half_a_warp_reads_f64_of_a_fragment_from_different_banks() {
        for slot in slots().filter(|s| s.elem() == 8 && s.rows >= 8 && s.columns >= 8) {
            for (lines, first) in [(0..4, 0), (4..8, 0), (0..4, 4), (4..8, 4)] {
                let element = |line, i| if slot.along == 0 { slot.at(i, line) } else { slot.at(line, i) };
                let of = |line: u32| (first..first + 4).map(move |i| element(line, i) % PANEL);
                let mut banks: Vec<u32> = lines.flat_map(of).collect();
                banks.sort_unstable();
                banks.dedup();
                assert_eq!(banks.len(), 16, "{slot:?}");
            }
        }
    }
}
