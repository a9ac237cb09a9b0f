//! Broadcast, transpose and indices: each piece is made from the one piece that its elements are
//! in.

use super::Division;
use super::grid::Cell;
use kiln_ir::{BinaryOp, Literal, OpData, Shape, Type};

impl Division<'_> {
    pub(super) fn iota(&mut self, data: &OpData) {
        let Type::Tile(ty) = self.src.ty(data.results[0]) else { return };
        let grid = self.grid(data.results[0]);
        for cell in grid.cells() {
            let (begin, shape) = (grid.begin(&cell)[0], grid.shape(&cell));
            let mut piece = self.b.iota(ty.elem, shape[0]);
            if begin > 0 {
                let by = self.b.splat(Literal::wrapping(ty.elem, begin.into()), shape);
                piece = self.b.binary(BinaryOp::Add, piece, by);
            }
            self.values[data.results[0].index()].push(piece);
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
            let source = self.piece(operand, &from, &source);
            let piece = self.b.broadcast(source, to.shape(&cell));
            self.values[result.index()].push(piece);
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
            let source = self.piece(operand, &from, &source);
            let piece = self.b.transpose(source, perm.extents());
            self.values[result.index()].push(piece);
        }
    }
}
