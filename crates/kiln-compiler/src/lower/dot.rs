//! Products of matrices without matrix units: operands go through scratch memory, every thread adds
//! up outer products in registers.

use super::Lowering;
use super::convert::Exchange;
use super::scratch::Area;
use crate::error::CompileError;
use crate::layout::{AxisBits, Layout, Staging};
use kiln_ir::{Block, Op, OpData, OpKind, Scalar, Type, Value};
use std::collections::BTreeMap;

/// A product while it is lowered.
struct Product {
    /// Elements along the axis that is summed over.
    depth: u32,
    /// How many of them one step of the loop takes.
    step: u32,
    columns: u32,
    operand: Scalar,
    accumulator: Scalar,
    left: Staging,
    right: Staging,
    /// This thread's first row and first column.
    places: (Exchange, Exchange),
    /// The row and column of each register, relative to the thread's.
    registers: Vec<(u32, u32)>,
}

impl Lowering<'_> {
    pub(super) fn dot(&mut self, op: Op, data: &OpData) -> Result<(), CompileError> {
        let (a, b, acc) = (data.left(), data.right(), data.addend());
        let result = data.results[0];
        let home = self.plan.home(result);
        let product = self.stage_operands(op, a, b, result)?;
        let start = self.operand(acc, home)?.to_vec();
        // Every thread reads what others wrote; the loop itself needs no order.
        self.em.op(OpKind::Barrier, &[], &[]);
        let sums = if product.step == product.depth {
            let none = self.em.i32(0);
            self.outer_products(&product, none, start)
        } else {
            self.loop_over_depth(&product, start)
        };
        self.define(result, home, sums)
    }

    fn stage_operands(&mut self, op: Op, a: Value, b: Value, result: Value) -> Result<Product, CompileError> {
        let (rows, depth) = (self.src.shape(a)[0], self.src.shape(a)[1]);
        let shape = self.src.shape(result);
        let columns = shape[1];
        let operand = self.src.ty(a).elem();
        let bytes = operand.bytes();
        // Rows that lanes read at once lie in different banks if each is followed by padding.
        let left = Staging::padded(rows * depth, bytes, depth.trailing_zeros(), 16);
        let right = Staging::packed(depth * columns, bytes);
        let first = left.size.next_multiple_of(16);
        let areas = self.scratch.area(first + right.size, self.em.loc).split(first);
        for (i, (value, area, staging)) in [(a, areas.0, left), (b, areas.1, right)].into_iter().enumerate() {
            let id = self.plan.input(op, i);
            let registers = self.operand(value, id)?;
            let layout = self.layout(id);
            self.stage(area, staging, &layout, &registers);
        }
        let layout = self.layout(self.plan.home(result));
        let (row, column) = (AxisBits::of(&shape, 0), AxisBits::of(&shape, 1));
        let pitch = left.index(depth);
        let places = (
            self.strided(areas.0, operand, &layout, row, pitch),
            self.strided(areas.1, operand, &layout, column, 1),
        );
        let registers = (0..layout.registers())
            .map(|r| layout.register_index(r))
            .map(|flat| (row.coordinate(flat), column.coordinate(flat)))
            .collect();
        let step = depth.min(16 / bytes);
        let accumulator = self.src.ty(result).elem();
        Ok(Product { depth, step, columns, operand, accumulator, left, right, places, registers })
    }

    /// The place of this thread's first coordinate on an axis of the result.
    fn strided(
        &mut self,
        area: Area,
        elem: Scalar,
        layout: &Layout,
        place: AxisBits,
        pitch: u32,
    ) -> Exchange {
        let bases: Vec<u32> = layout.thread().iter().map(|&b| place.coordinate(b)).collect();
        self.scratch_thread(area, elem, &bases, pitch)
    }

    fn loop_over_depth(&mut self, product: &Product, start: Vec<Value>) -> Vec<Value> {
        let bounds = [0, product.depth, product.step].map(|n| self.em.i32(n.into()));
        let body: Block = self.em.kernel.add_block();
        let outer = std::mem::replace(&mut self.em.block, body);
        let at = self.em.kernel.add_arg(body, Type::scalar(Scalar::I32));
        let ty = Type::scalar(product.accumulator);
        let carried = start.iter().map(|_| self.em.kernel.add_arg(body, ty.clone())).collect();
        let sums = self.outer_products(product, at, carried);
        self.em.op(OpKind::Yield, &sums, &[]);
        self.em.block = outer;
        let operands: Vec<Value> = bounds.into_iter().chain(start.iter().copied()).collect();
        let types = vec![ty; start.len()];
        let loc = self.em.loc;
        let op = self.em.kernel.append(outer, OpKind::For, &operands, &types, &[body], loc);
        self.em.kernel.op(op).results.to_vec()
    }

    /// One step: adds the products of `step` columns of the left and rows of the right operand,
    /// from `at` on.
    fn outer_products(&mut self, product: &Product, at: Value, mut sums: Vec<Value>) -> Vec<Value> {
        let left_place = self.advance(product.places.0, at, 1);
        let right_place = self.advance(product.places.1, at, product.columns);
        let mut left: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
        for &(row, _) in &product.registers {
            left.entry(row).or_insert_with(|| {
                let distance = product.left.index(row * product.depth);
                let loaded = self.scratch_load(left_place, distance, product.step as usize);
                self.widened(loaded, product.accumulator)
            });
        }
        let runs =
            adjacent(product.registers.iter().map(|&(_, column)| column), 16 / product.operand.bytes());
        for k in 0..product.step {
            let mut right: BTreeMap<u32, Value> = BTreeMap::new();
            for &(column, length) in &runs {
                let distance = product.right.index(k * product.columns + column);
                let loaded = self.scratch_load(right_place, distance, length as usize);
                let loaded = self.widened(loaded, product.accumulator);
                right.extend((column..).zip(loaded));
            }
            for (sum, (row, column)) in sums.iter_mut().zip(&product.registers) {
                let (a, b) = (left[row][k as usize], right[column]);
                *sum = self.multiply_add(a, b, *sum, product.accumulator);
            }
        }
        sums
    }

    /// A product and a sum, rounded once or twice, as `dot` leaves to the device.
    fn multiply_add(&mut self, a: Value, b: Value, sum: Value, elem: Scalar) -> Value {
        if self.target.multiply_adds {
            return self.em.one(OpKind::Fma, &[a, b, sum], elem);
        }
        let product = self.em.mul(a, b);
        self.em.add(product, sum)
    }

    fn advance(&mut self, place: Exchange, at: Value, pitch: u32) -> Exchange {
        let pitch = self.em.i32(pitch.into());
        let distance = self.em.mul(at, pitch);
        Exchange { index: self.em.add(place.index, distance), ..place }
    }

    fn widened(&mut self, values: Vec<Value>, elem: Scalar) -> Vec<Value> {
        values.into_iter().map(|v| self.em.cast(v, elem)).collect()
    }
}

/// Aligned runs of adjacent columns, `(first, length)`, whose lengths are powers of two up to
/// `most`.
fn adjacent(columns: impl Iterator<Item = u32>, most: u32) -> Vec<(u32, u32)> {
    let mut columns: Vec<u32> = columns.collect();
    columns.sort_unstable();
    columns.dedup();
    let mut runs = Vec::new();
    let mut rest = &columns[..];
    while let Some(&first) = rest.first() {
        let mut length = most;
        while length > 1
            && (first % length != 0
                || rest.len() < length as usize
                || rest[length as usize - 1] != first + length - 1)
        {
            length /= 2;
        }
        runs.push((first, length));
        rest = &rest[length as usize..];
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_aligned_and_cover() {
        assert_eq!(adjacent([3, 2, 1, 0, 8, 9, 11].into_iter(), 4), [(0, 4), (8, 2), (11, 1)]);
        assert_eq!(adjacent([0, 1, 2, 3].into_iter(), 2), [(0, 2), (2, 2)]);
    }
}
