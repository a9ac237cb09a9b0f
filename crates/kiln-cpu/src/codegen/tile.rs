//! Operations that move or combine the elements of whole tiles.

use super::emitter::Emitter;
use super::liveness::inner_len;
use super::repr::{Matrix, Repr, Tile};
use crate::symbol::Symbol;
use cranelift_codegen::ir;
use kiln_backend::Result;
use kiln_cpu_primitives::{CopyAxis, DotShape, PrimitiveKey};
use kiln_ir::{OpData, Shape, Value};
use std::mem::{offset_of, size_of};

impl Emitter<'_> {
    /// A reduction or scan.
    pub(super) fn along_axis(&mut self, data: &OpData, key: PrimitiveKey, axis: u32) -> Result<()> {
        let (from, to) = (data.input(), data.results[0]);
        let shape = self.kernel.shape(from);
        let (outer, len, inner) = shape.around(axis as usize);
        let at = self.array(from, shape.len())?;
        self.produce(to, |e, out| {
            let [outer, len, inner] = [outer, len, inner].map(|n| e.asm.int(n as i64));
            e.call(key, &[out, at, outer, len, inner]).map(drop)
        })
    }

    /// `Broadcast`: a scalar becomes a splat; extents of 1 stretch by a stride of 0.
    pub(super) fn broadcast(&mut self, data: &OpData) -> Result<()> {
        let (from, to) = (data.input(), data.results[0]);
        if let Repr::Scalar(scalar) = *self.repr(from)? {
            self.set(to, Repr::Scalar(scalar));
            return Ok(());
        }
        let (narrow, wide) = (self.kernel.shape(from), self.kernel.shape(to));
        let strides = (0..wide.rank()).map(|axis| match narrow[axis] {
            1 => 0,
            _ => inner_len(&narrow, axis) as i64,
        });
        self.strided_copy(data, &wide, &strides.collect::<Vec<_>>())
    }

    pub(super) fn transpose(&mut self, data: &OpData, perm: &Shape) -> Result<()> {
        let repr = match *self.repr(data.input())? {
            Repr::Scalar(scalar) => Some(Repr::Scalar(scalar)),
            Repr::Matrix(Matrix { tile, row, column }) => {
                let tile = Tile { slot: None, ..tile };
                Some(Repr::Matrix(Matrix { tile, row: column, column: row }))
            }
            _ => None,
        };
        if let Some(repr) = repr {
            self.set(data.results[0], repr);
            return Ok(());
        }
        let from = self.kernel.shape(data.input());
        let strides: Vec<i64> =
            perm.extents().iter().map(|&axis| inner_len(&from, axis as usize) as i64).collect();
        let shape = self.kernel.shape(data.results[0]);
        self.strided_copy(data, &shape, &strides)
    }

    fn strided_copy(&mut self, data: &OpData, shape: &Shape, strides: &[i64]) -> Result<()> {
        let (from, to) = (data.input(), data.results[0]);
        let from = self.array(from, self.len(from))?;
        let axes = shape.extents().iter().zip(strides).enumerate().map(|(axis, (&extent, &from_stride))| {
            CopyAxis { extent: extent.into(), to_stride: inner_len(shape, axis) as i64, from_stride }
        });
        let words = axes.flat_map(|a| [a.extent, a.to_stride, a.from_stride]).collect();
        let axes = self.constant_words(words);
        let elem = self.kernel.ty(to).elem();
        let out = self.output(to).at;
        let rank = self.asm.int(shape.rank() as i64);
        self.call(PrimitiveKey::StridedCopy(elem), &[out, from, axes, rank]).map(drop)
    }

    /// `Dot`: the accumulator is copied to the result, unless it is there already, and the product
    /// is added to it.
    pub(super) fn dot(&mut self, data: &OpData) -> Result<()> {
        let [a, b, acc] = [data.left(), data.right(), data.addend()];
        let result = data.results[0];
        let (left, right) = (self.kernel.shape(a), self.kernel.shape(b));
        let elem = self.kernel.ty(a).elem();
        let (from_a, from_b) = (self.factor(a, &left)?, self.factor(b, &right)?);
        let out = self.accumulator(acc, result)?;
        let accumulator = self.kernel.ty(acc).elem().bytes() as usize;
        let scratch = DotShape::scratch_bytes(right[1] as usize, left[1] as usize, accumulator);
        let scratch = self.temporary(scratch);
        let [m, k, n] = [left[0], left[1], right[1]].map(|e| self.asm.int(e.into()));
        let shape = self.asm.stack(size_of::<DotShape>());
        for (value, field) in [
            (m, offset_of!(DotShape, m)),
            (n, offset_of!(DotShape, n)),
            (k, offset_of!(DotShape, k)),
            (from_a.row, offset_of!(DotShape, a_row)),
            (from_a.column, offset_of!(DotShape, a_column)),
            (from_b.row, offset_of!(DotShape, b_row)),
            (from_b.column, offset_of!(DotShape, b_column)),
            (n, offset_of!(DotShape, c_row)),
            (scratch, offset_of!(DotShape, scratch)),
        ] {
            self.asm.store(value, shape, field as i32);
        }
        self.call(PrimitiveKey::Dot(elem), &[out, from_a.tile.at, from_b.tile.at, shape]).map(drop)
    }

    /// A factor of a product.
    fn factor(&mut self, value: Value, shape: &Shape) -> Result<Matrix> {
        if let Repr::Matrix(matrix) = *self.repr(value)? {
            return Ok(matrix);
        }
        let at = self.array(value, shape.len())?;
        let (row, column) = (self.asm.int(shape[1].into()), self.asm.int(1));
        Ok(Matrix { tile: Tile { at, slot: None, windowed: false }, row, column })
    }

    /// The memory of `result`, with the value of `acc` in it.
    fn accumulator(&mut self, acc: Value, result: Value) -> Result<ir::Value> {
        let (len, elem) = (self.len(acc), self.kernel.ty(acc).elem());
        let before = self.repr(acc)?.clone();
        let out = self.output(result).at;
        match before {
            Repr::Tile(tile) if tile.at == out => {}
            Repr::Tile(tile) => self.copy(out, tile.at, elem, len)?,
            Repr::Scalar(scalar) => self.splat(out, scalar, elem, len)?,
            Repr::Affine(_) | Repr::Condition(_) | Repr::View(_) | Repr::Matrix(_) => {
                return Err(self.internal("no tile as an accumulator"));
            }
        }
        Ok(out)
    }

    /// The address of words that live as long as the code.
    pub(super) fn constant_words(&mut self, words: Vec<i64>) -> ir::Value {
        self.constants.push(words.into_boxed_slice());
        self.asm.address(Symbol::Words(self.constants.len() as u32 - 1))
    }
}
