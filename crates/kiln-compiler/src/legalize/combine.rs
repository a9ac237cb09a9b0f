//! Reductions, scans and products of matrices: parts are combined on their own, and their results
//! with each other.

use super::Legalizer;
use super::grid::{Cell, Grid};
use crate::lower::combine::binary;
use kiln_ir::{
    BinaryOp, CompareOp, Literal, OpData, OpKind, Precision, ReduceOp, Scalar, Shape, UnaryOp, Value,
};

impl Legalizer<'_> {
    pub(super) fn reduce(&mut self, data: &OpData, op: ReduceOp, axis: usize) {
        let (operand, result) = (data.input(), data.results[0]);
        let grid = self.grid(operand);
        for cell in self.grid(result).cells() {
            let along = cells_along(&grid, &cell, axis);
            let part = match op.gives_index() {
                true => self.first_best(operand, &grid, &along, (op, axis)),
                false => self.reduced(operand, &grid, &along, (op, axis)),
            };
            self.values[result.index()].push(part);
        }
    }

    /// The combination of parts along an axis, rounded once.
    fn reduced(&mut self, tile: Value, grid: &Grid, along: &[Cell], (op, axis): (ReduceOp, usize)) -> Value {
        let elem = self.src.ty(tile).elem();
        let mut sum: Option<Value> = None;
        for cell in along {
            let part = self.part(tile, grid, cell);
            let part = self.widened(part);
            let part = self.b.reduce(op, axis as u32, part);
            sum = Some(sum.map_or(part, |sum| self.b.binary(binary(op), sum, part)));
        }
        match sum {
            Some(sum) => self.b.cast(sum, elem),
            // An axis has a span.
            None => self.b.constant(Literal::zero(elem)),
        }
    }

    /// The index of the first best element of parts along an axis, each of which says its own
    /// first best and how good that is.
    fn first_best(
        &mut self,
        tile: Value,
        grid: &Grid,
        along: &[Cell],
        (op, axis): (ReduceOp, usize),
    ) -> Value {
        let (extremum, better) = match op == ReduceOp::ArgMax {
            true => (ReduceOp::Max, CompareOp::Gt),
            false => (ReduceOp::Min, CompareOp::Lt),
        };
        let float = self.src.ty(tile).elem().is_float();
        let mut best: Option<(Value, Value)> = None;
        for cell in along {
            let part = self.part(tile, grid, cell);
            let part = self.widened(part);
            let (value, at) =
                (self.b.reduce(extremum, axis as u32, part), self.b.reduce(op, axis as u32, part));
            let shape = self.b.kernel.shape(at);
            let begin = Literal::index(grid.begin(cell)[axis].into());
            let begin = self.b.splat(begin, shape);
            let at = self.b.binary(BinaryOp::Add, at, begin);
            best = Some(match best {
                None => (value, at),
                Some((so_far, at_so_far)) => {
                    let mut wins = self.b.compare(better, value, so_far);
                    if float {
                        wins = self.or_beats_nan(wins, value, so_far);
                    }
                    let at = self.b.select(wins, at, at_so_far);
                    (self.b.select(wins, value, so_far), at)
                }
            });
        }
        best.map_or_else(|| self.b.index(0), |(_, at)| at)
    }

    /// Whether something holds, or a value is a number where the other is not.
    fn or_beats_nan(&mut self, holds: Value, value: Value, other: Value) -> Value {
        let (nan, other_nan) = (self.b.unary(UnaryOp::IsNan, value), self.b.unary(UnaryOp::IsNan, other));
        let number = self.b.unary(UnaryOp::Not, nan);
        let beats = self.b.binary(BinaryOp::And, number, other_nan);
        self.b.binary(BinaryOp::Or, holds, beats)
    }

    /// Each part is scanned on its own, and what all parts before it come to is added.
    pub(super) fn scan(&mut self, data: &OpData) {
        let OpKind::Scan { op, axis, reverse, exclusive } = data.kind else { return };
        let (operand, result) = (data.input(), data.results[0]);
        let elem = self.src.ty(operand).elem();
        let along = axis as usize;
        let grid = self.grid(operand);
        let mut made = vec![None; grid.len()];
        for line in Grid::of(&self.src.shape(operand).without(along)).cells() {
            let mut cells = cells_along(&grid, &line, along);
            if reverse {
                cells.reverse();
            }
            let mut before: Option<Value> = None;
            for (i, cell) in cells.iter().enumerate() {
                let part = self.part(operand, &grid, cell);
                let part = self.widened(part);
                let mut scanned = self.b.scan(op, axis, reverse, exclusive, part);
                if let Some(before) = before {
                    let all = self.stretched(before, &grid.shape(cell), along);
                    scanned = self.b.binary(binary(op), all, scanned);
                }
                made[grid.index(cell)] = Some(self.b.cast(scanned, elem));
                if i + 1 < cells.len() {
                    let own = self.b.reduce(op, axis, part);
                    before = Some(before.map_or(own, |before| self.b.binary(binary(op), before, own)));
                }
            }
        }
        self.values[result.index()] = made.into_iter().flatten().collect();
    }

    /// A tile without an axis, the same all along it.
    fn stretched(&mut self, tile: Value, shape: &Shape, axis: usize) -> Value {
        let mut flat = shape.extents().to_vec();
        flat[axis] = 1;
        if flat.len() > 1 {
            let tile = self.b.reshape(tile, Shape::new(&flat));
            return self.b.broadcast(tile, shape.clone());
        }
        self.b.broadcast(tile, shape.clone())
    }

    /// 16-bit floats are combined in f32, as by reductions and scans themselves, and rounded when
    /// all is combined.
    fn widened(&mut self, part: Value) -> Value {
        match self.b.kernel.ty(part).elem() {
            Scalar::F16 | Scalar::BF16 => self.b.cast(part, Scalar::F32),
            _ => part,
        }
    }

    /// Each part of the result is a chain of products along the depth.
    pub(super) fn dot(&mut self, data: &OpData, precision: Precision) {
        let [a, b, acc] = [data.left(), data.right(), data.addend()];
        let (left, right, sums) = (self.grid(a), self.grid(b), self.grid(acc));
        for cell in sums.cells() {
            let mut sum = self.part(acc, &sums, &cell);
            for step in 0..left.spans(1) {
                let a = self.part(a, &left, &[cell[0], step]);
                let b = self.part(b, &right, &[step, cell[1]]);
                sum = self.b.dot_with(a, b, sum, precision);
            }
            self.values[data.results[0].index()].push(sum);
        }
    }
}

/// The cells of a grid whose places are those of a cell without an axis, in the order of the axis.
fn cells_along(grid: &Grid, without: &[usize], axis: usize) -> Vec<Cell> {
    let one = |i| {
        let mut cell = Cell::from_slice(without);
        cell.insert(axis, i);
        cell
    };
    (0..grid.spans(axis)).map(one).collect()
}
