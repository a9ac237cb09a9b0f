//! Broadcast, transpose and indices: each part is made from the one part that its elements are
//! in.

use super::Legalizer;
use super::grid::Cell;
use kiln_ir::{BinaryOp, Literal, OpData, Shape, Type};

impl Legalizer<'_> {
    pub(super) fn iota(&mut self, data: &OpData) {
        let Type::Tile(ty) = self.src.ty(data.results[0]) else { return };
        let grid = self.grid(data.results[0]);
        for cell in grid.cells() {
            let (begin, shape) = (grid.begin(&cell)[0], grid.shape(&cell));
            let mut part = self.b.iota(ty.elem, shape[0]);
            if begin > 0 {
                let by = self.b.splat(Literal::wrapping(ty.elem, begin.into()), shape);
                part = self.b.binary(BinaryOp::Add, part, by);
            }
            self.values[data.results[0].index()].push(part);
        }
    }

    /// Where an axis stretches, its one element is in the first span.
    pub(super) fn broadcast(&mut self, data: &OpData) {
        let (operand, result) = (data.input(), data.results[0]);
        let (from, to) = (self.grid(operand), self.grid(result));
        let (narrow, wide) = (self.src.shape(operand), self.src.shape(result));
        for cell in to.cells() {
            let place = |axis: usize| if narrow[axis] == wide[axis] { cell[axis] } else { 0 };
            let source: Cell = (0..narrow.rank()).map(place).collect();
            let source = self.part(operand, &from, &source);
            let part = self.b.broadcast(source, to.shape(&cell));
            self.values[result.index()].push(part);
        }
    }

    pub(super) fn transpose(&mut self, data: &OpData, perm: &Shape) {
        let (operand, result) = (data.input(), data.results[0]);
        let (from, to) = (self.grid(operand), self.grid(result));
        for cell in to.cells() {
            let mut source = cell.clone();
            for (&axis, &place) in perm.extents().iter().zip(&cell) {
                source[axis as usize] = place;
            }
            let source = self.part(operand, &from, &source);
            let part = self.b.transpose(source, perm.extents());
            self.values[result.index()].push(part);
        }
    }
}
