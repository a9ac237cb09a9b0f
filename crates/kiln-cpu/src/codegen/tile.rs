//! Operations that move or combine the elements of whole tiles.

use super::emitter::{Emitter, Repr};
use super::liveness::inner_len;
use crate::primitives::{CopyAxis, DotShape, PrimitiveKey};
use cranelift_codegen::ir;
use kiln_backend::Result;
use kiln_ir::{OpData, Shape};

impl Emitter<'_> {
    /// A reduction or scan.
    pub(super) fn along_axis(&mut self, data: &OpData, key: PrimitiveKey, axis: u32) -> Result<()> {
        let (from, to) = (data.operands[0], data.results[0]);
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
        let (from, to) = (data.operands[0], data.results[0]);
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
        if let Repr::Scalar(scalar) = *self.repr(data.operands[0])? {
            self.set(data.results[0], Repr::Scalar(scalar));
            return Ok(());
        }
        let from = self.kernel.shape(data.operands[0]);
        let strides: Vec<i64> =
            perm.extents().iter().map(|&axis| inner_len(&from, axis as usize) as i64).collect();
        let shape = self.kernel.shape(data.results[0]);
        self.strided_copy(data, &shape, &strides)
    }

    fn strided_copy(&mut self, data: &OpData, shape: &Shape, strides: &[i64]) -> Result<()> {
        let (from, to) = (data.operands[0], data.results[0]);
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

    /// `Dot`: the accumulator is copied to the result, unless it is there already, and the product is added to it.
    pub(super) fn dot(&mut self, data: &OpData) -> Result<()> {
        let [a, b, acc] = data.operands[..] else { return Err(self.internal("a dot without operands")) };
        let result = data.results[0];
        let (left, right) = (self.kernel.shape(a), self.kernel.shape(b));
        let [m, k, n] = [left[0], left[1], right[1]].map(|e| e as isize);
        let elem = self.kernel.ty(a).elem();
        let (from_a, from_b) = (self.array(a, left.len())?, self.array(b, right.len())?);
        let out = self.accumulator(acc, result)?;
        let shape = DotShape {
            m: m as usize,
            n: n as usize,
            k: k as usize,
            a_row: k,
            a_column: 1,
            b_row: n,
            b_column: 1,
            c_row: n,
        };
        let words = [m, n, k, shape.a_row, shape.a_column, shape.b_row, shape.b_column, shape.c_row];
        let shape = self.constant_words(words.iter().map(|&w| w as i64).collect());
        self.call(PrimitiveKey::Dot(elem), &[out, from_a, from_b, shape]).map(drop)
    }

    /// The memory of `result`, with the value of `acc` in it.
    fn accumulator(&mut self, acc: kiln_ir::Value, result: kiln_ir::Value) -> Result<ir::Value> {
        let (len, elem) = (self.len(acc), self.kernel.ty(acc).elem());
        let before = self.repr(acc)?.clone();
        let out = self.output(result).at;
        match before {
            Repr::Tile(tile) if tile.at == out => {}
            Repr::Tile(tile) => self.copy(out, tile.at, elem, len)?,
            Repr::Scalar(scalar) => self.splat(out, scalar, elem, len)?,
            Repr::View(_) => return Err(self.internal("a view as an accumulator")),
        }
        Ok(out)
    }

    /// The address of words that live as long as the code.
    fn constant_words(&mut self, words: Vec<i64>) -> ir::Value {
        let words = words.into_boxed_slice();
        let address = self.asm.address(words.as_ptr());
        self.constants.push(words);
        address
    }
}
