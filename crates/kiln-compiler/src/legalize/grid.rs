//! How a shape splits into parts whose extents are powers of two.

use kiln_ir::Shape;
use smallvec::SmallVec;

/// A part of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    begin: u32,
    /// A power of two.
    len: u32,
}

/// The place of a part: the number of its span on each axis.
pub(super) type Cell = SmallVec<[usize; 4]>;

/// The spans of each axis of a shape. Which they are follows from the shape, so that tiles of one
/// shape have the same parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Grid(SmallVec<[SmallVec<[Span; 2]>; 4]>);

impl Grid {
    /// The spans of an axis are the powers of two whose sum it is, the largest first: each begins
    /// at a multiple of its length.
    pub fn of(shape: &Shape) -> Grid {
        let spans = |&extent: &u32| {
            let lengths = (0..u32::BITS).rev().map(|bit| 1 << bit).filter(|len| extent & len != 0);
            // What is above a bit comes before its span.
            lengths.map(|len: u32| Span { begin: extent & !(2 * len - 1), len }).collect()
        };
        Grid(shape.extents().iter().map(spans).collect())
    }

    /// How many parts.
    pub fn len(&self) -> usize {
        self.0.iter().map(|spans| spans.len()).fold(1, usize::saturating_mul)
    }

    /// How many spans an axis has.
    pub fn spans(&self, axis: usize) -> usize {
        self.0[axis].len()
    }

    /// All places, the last axis fastest.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::new()];
        for spans in &self.0 {
            let longer =
                |cell: Cell| (0..spans.len()).map(move |i| cell.iter().copied().chain([i]).collect::<Cell>());
            cells = cells.into_iter().flat_map(longer).collect();
        }
        cells
    }

    /// The number of a place in their order.
    pub fn index(&self, cell: &[usize]) -> usize {
        self.0.iter().zip(cell).fold(0, |index, (spans, i)| index * spans.len() + i)
    }

    /// The shape of a part.
    pub fn shape(&self, cell: &[usize]) -> Shape {
        Shape::new(&self.0.iter().zip(cell).map(|(spans, &i)| spans[i].len).collect::<Vec<_>>())
    }

    /// The index of its first element.
    pub fn begin(&self, cell: &[usize]) -> SmallVec<[u32; 4]> {
        self.0.iter().zip(cell).map(|(spans, &i)| spans[i].begin).collect()
    }
}

/// The least shape around one whose extents are sums of two powers of two at most.
pub(super) fn of_fewer_parts(shape: &Shape) -> Shape {
    let fewer = |&extent: &u32| match extent.checked_ilog2().map(|log| 1 << log) {
        Some(first) if first < extent => first + (extent - first).next_power_of_two(),
        _ => extent,
    };
    Shape::new(&shape.extents().iter().map(fewer).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_powers_of_two_side_by_side() {
        for extent in 1..600u32 {
            let grid = Grid::of(&Shape::new(&[extent]));
            let mut next = 0;
            for cell in grid.cells() {
                let (begin, len) = (grid.begin(&cell)[0], grid.shape(&cell)[0]);
                assert!(len.is_power_of_two() && begin == next && begin.is_multiple_of(len), "{extent}");
                next = begin + len;
            }
            assert_eq!((next, grid.len()), (extent, extent.count_ones() as usize));
        }
    }

    #[test]
    fn cells_are_numbered_in_their_order() {
        let grid = Grid::of(&Shape::new(&[80, 1, 7]));
        let cells = grid.cells();
        assert_eq!((cells.len(), grid.len()), (6, 6));
        assert!(cells.iter().enumerate().all(|(i, cell)| grid.index(cell) == i));
        assert_eq!(grid.shape(&cells[4]), Shape::new(&[16, 1, 2]));
        assert_eq!(&grid.begin(&cells[4])[..], [64, 0, 4]);
        assert_eq!(Grid::of(&Shape::scalar()).cells().len(), 1);
    }

    #[test]
    fn a_shape_of_fewer_parts_is_no_smaller() {
        for extent in 1..600u32 {
            let fewer = of_fewer_parts(&Shape::new(&[extent]))[0];
            assert!(
                fewer >= extent && fewer.count_ones() <= 2 && fewer <= extent.next_power_of_two(),
                "{extent}"
            );
        }
    }
}
