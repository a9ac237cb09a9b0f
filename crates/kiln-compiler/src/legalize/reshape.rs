//! The same elements under another shape.
//!
//! Axes of both shapes fall into groups of equally many elements. Where no axis of a group but the
//! first is split, in both shapes, the parts of the group are the same runs of elements on both
//! sides (48 = 32 + 16 and 3 × 16 = 2 × 16 + 1 × 16), so that each part is one of the other shape.
//! Elsewhere (3 × 5 and 15) the elements go through shared memory.

use super::Legalizer;
use super::grid::{Cell, Grid};
use crate::error::CompileError;
use kiln_ir::{BinaryOp, Bounds, ExplicitOp, Literal, OpData, OpKind, Scalar, Shape, Space, Value};
use std::ops::Range;

/// Axes of one shape and of another, with equally many elements.
type Group = [Range<usize>; 2];

impl Legalizer<'_> {
    pub(super) fn reshape(&mut self, data: &OpData) -> Result<(), CompileError> {
        let (operand, result) = (data.input(), data.results[0]);
        let (from, to) = (self.src.shape(operand), self.src.shape(result));
        let groups = groups(&from, &to);
        if !groups
            .iter()
            .all(|[a, b]| in_runs(&from.extents()[a.clone()]) && in_runs(&to.extents()[b.clone()]))
        {
            return self.through_memory(data);
        }
        let (source, grid) = (self.grid(operand), self.grid(result));
        for cell in grid.cells() {
            let mut place: Cell = (0..from.rank()).map(|_| 0).collect();
            for [a, b] in &groups {
                // All other axes have one span.
                let run: usize = cell[b.clone()].iter().sum();
                if let Some(axis) = a.clone().find(|&axis| source.spans(axis) > 1) {
                    place[axis] = run;
                }
            }
            let part = self.part(operand, &source, &place);
            let part = self.b.reshape(part, grid.shape(&cell));
            self.values[result.index()].push(part);
        }
        Ok(())
    }

    /// Writes all parts to where their elements are in row-major order, and reads those of the
    /// other shape.
    fn through_memory(&mut self, data: &OpData) -> Result<(), CompileError> {
        let (operand, result) = (data.input(), data.results[0]);
        let (from, to) = (self.src.shape(operand), self.src.shape(result));
        let mut tasks = false;
        self.src.walk(|_, data| tasks |= matches!(data.kind, OpKind::Explicit(ExplicitOp::Tasks(_))));
        if tasks {
            return Err(CompileError::Unsupported {
                location: self.src.describe(data.loc),
                what: format!("a tile {from} as {to} in a kernel with tasks"),
                hint: "use extents that are powers of two".into(),
            });
        }
        let elem = self.src.ty(operand).elem();
        let memory = self.b.alloc(Space::Shared, elem, Shape::new(&[from.len() as u32]));
        let grid = Grid::of(&from);
        for (cell, part) in grid.cells().iter().zip(self.values[operand.index()].clone()) {
            let index = self.row_major(&from, &grid, cell);
            self.b.scatter(memory, &[index], None, part, Bounds::Trust);
        }
        let nothing = self.b.constant(Literal::zero(elem));
        let grid = Grid::of(&to);
        for cell in grid.cells() {
            let index = self.row_major(&to, &grid, &cell);
            let part = self.b.gather(memory, &[index], None, nothing, Bounds::Trust);
            self.values[result.index()].push(part);
        }
        Ok(())
    }

    /// The numbers of a part's elements in the row-major order of the whole tile.
    fn row_major(&mut self, shape: &Shape, grid: &Grid, cell: &[usize]) -> Value {
        let (part, begin) = (grid.shape(cell), grid.begin(cell));
        let strides: Vec<u32> = (0..shape.rank()).map(|axis| shape.around(axis).2 as u32).collect();
        let first: u32 = begin.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
        let mut sum = self.b.splat(Literal::wrapping(Scalar::I32, first.into()), part.clone());
        for (axis, &stride) in strides.iter().enumerate().filter(|(axis, _)| part[*axis] > 1) {
            let len = part[axis];
            let along = self.b.iota(Scalar::I32, len);
            let by = self.b.splat(Literal::wrapping(Scalar::I32, stride.into()), Shape::new(&[len]));
            let along = self.b.binary(BinaryOp::Mul, along, by);
            let flat: Vec<u32> = (0..shape.rank()).map(|a| if a == axis { len } else { 1 }).collect();
            let along = self.b.reshape(along, Shape::new(&flat));
            let along = self.b.broadcast(along, part.clone());
            sum = self.b.binary(BinaryOp::Add, sum, along);
        }
        sum
    }
}

/// The finest groups of the axes of two shapes of equally many elements.
fn groups(from: &Shape, to: &Shape) -> Vec<Group> {
    let (from, to) = (from.extents(), to.extents());
    let (mut groups, mut ends) = (Vec::new(), [0, 0]);
    while ends[0] < from.len() || ends[1] < to.len() {
        let begins = ends;
        let (mut left, mut right) = (1u64, 1u64);
        // An axis of one element is a group of its own, or joins the next.
        loop {
            if left <= right && ends[0] < from.len() {
                left *= u64::from(from[ends[0]]);
                ends[0] += 1;
            } else if ends[1] < to.len() {
                right *= u64::from(to[ends[1]]);
                ends[1] += 1;
            } else {
                break;
            }
            if left == right {
                break;
            }
        }
        groups.push([begins[0]..ends[0], begins[1]..ends[1]]);
    }
    groups
}

/// Whether the parts of these axes are runs of elements in row-major order: only the first of more
/// than one element is split.
fn in_runs(extents: &[u32]) -> bool {
    extents.iter().filter(|e| **e > 1).skip(1).all(|e| e.is_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_equally_many_elements() {
        let shapes: [(&[u32], &[u32]); 7] = [
            (&[48], &[3, 16]),
            (&[1, 5, 1, 7], &[5, 7]),
            (&[6, 4, 5], &[3, 8, 5, 1]),
            (&[3, 5], &[15]),
            (&[2, 3], &[3, 2]),
            (&[1], &[1, 1, 1]),
            (&[1, 1, 12], &[12]),
        ];
        for (a, b) in shapes {
            let found = groups(&Shape::new(a), &Shape::new(b));
            let (mut next_a, mut next_b) = (0, 0);
            for [of_a, of_b] in found {
                assert_eq!((of_a.start, of_b.start), (next_a, next_b), "{a:?} {b:?}");
                assert_eq!(
                    a[of_a.clone()].iter().product::<u32>(),
                    b[of_b.clone()].iter().product(),
                    "{a:?} {b:?}"
                );
                (next_a, next_b) = (of_a.end, of_b.end);
            }
            assert_eq!((next_a, next_b), (a.len(), b.len()));
        }
        assert_eq!(groups(&Shape::new(&[6, 4, 5]), &Shape::new(&[3, 8, 5])), [[0..2, 0..2], [2..3, 2..3]]);
    }

    #[test]
    fn runs_are_of_the_first_axis() {
        assert!(in_runs(&[48]) && in_runs(&[1, 3, 16]) && in_runs(&[4, 8]));
        assert!(!in_runs(&[3, 5]) && !in_runs(&[4, 3]));
    }
}
