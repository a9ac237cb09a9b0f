//! Shapes of values: scalars, and tiles of which an axis may be 1.

use super::Emitter;
use super::element::combination;
use kiln_ir::{BinaryOp, ReduceOp, Scalar, Shape, UnaryOp, Value};

impl Emitter<'_, '_> {
    /// The extents of a value's tile, `[1, 1]` of a scalar.
    fn extents(&self, value: Value) -> [u32; 2] {
        match *self.b.kernel.shape(value).extents() {
            [rows, columns] => [rows, columns],
            _ => [1, 1],
        }
    }

    /// The rows of a value's tile.
    pub(super) fn rows(&self, value: Value) -> u32 {
        self.extents(value)[0]
    }

    /// The value in a tile of these extents.
    pub(super) fn stretched(&mut self, value: Value, to: [u32; 2]) -> Value {
        self.b.broadcast(value, Shape::new(&to))
    }

    /// The value as a tile, if it is a scalar.
    pub(super) fn tiled(&mut self, value: Value) -> Value {
        if self.is_scalar(value) { self.stretched(value, [1, 1]) } else { value }
    }

    /// A scalar in the shape of another value.
    pub(super) fn like(&mut self, scalar: Value, other: Value) -> Value {
        let shape = self.b.kernel.shape(other);
        if shape.rank() == 0 { scalar } else { self.b.broadcast(scalar, shape) }
    }

    /// The values in the smallest shape that all stretch to.
    pub(super) fn alike<const N: usize>(&mut self, values: [Value; N]) -> [Value; N] {
        if values.iter().all(|&value| self.is_scalar(value)) {
            return values;
        }
        let mut to = [1, 1];
        for &value in &values {
            let of = self.extents(value);
            to = [to[0].max(of[0]), to[1].max(of[1])];
        }
        values.map(|value| self.stretched(value, to))
    }

    /// The first index and those after it, along the rows (axis 0) or the columns of a tile.
    pub(super) fn counted(&mut self, first: Option<Value>, extent: u32, axis: usize) -> Value {
        let iota = self.b.iota(Scalar::I64, extent);
        let shape = if axis == 0 { [extent, 1] } else { [1, extent] };
        let iota = self.b.reshape(iota, Shape::new(&shape));
        match first {
            None => iota,
            Some(first) => {
                let [first, iota] = self.alike([first, iota]);
                self.b.binary(BinaryOp::Add, first, iota)
            }
        }
    }

    /// An operation on two values. Of two numbers of which one is NaN the smaller and the larger
    /// are NaN, as in NumPy.
    pub(super) fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let [a, b] = self.alike([a, b]);
        let combined = self.b.binary(op, a, b);
        let is_float = self.b.kernel.ty(a).elem().is_float();
        if !(is_float && matches!(op, BinaryOp::Min | BinaryOp::Max)) {
            return combined;
        }
        let nans = [a, b].map(|x| self.b.unary(UnaryOp::IsNan, x));
        let any = self.b.binary(BinaryOp::Or, nans[0], nans[1]);
        let sum = self.b.binary(BinaryOp::Add, a, b);
        self.b.select(any, sum, combined)
    }

    /// Combines tiles of partial results, as a reduction does.
    pub(super) fn combined(&mut self, op: ReduceOp, a: Value, b: Value) -> Value {
        let [a, b] = self.alike([a, b]);
        match combination(op) {
            Some(op) => self.b.binary(op, a, b),
            None => b,
        }
    }
}
