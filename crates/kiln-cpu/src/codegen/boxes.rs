//! Loads and stores of boxes: in place where the box is inside the view and contiguous, by a copy
//! where it is not.

use super::emitter::Emitter;
use super::liveness::inner_len;
use super::repr::{Matrix, Repr, Tile, View};
use cranelift_codegen::ir::{self, InstBuilder, condcodes::IntCC, types};
use kiln_backend::Result;
use kiln_cpu_primitives::{BoxAxis, PrimitiveKey};
use kiln_ir::{OpData, OpKind, Reuse, Scalar, Shape, Value};
use std::mem::{offset_of, size_of};

/// Where a box of a view lies.
#[derive(Clone, Copy)]
pub(super) struct BoxLocation {
    /// Not 0 if every element of the box is inside the view and (but for a strided place) they are
    /// adjacent, in order.
    pub(super) inside: ir::Value,
    /// The address of the box's first element, if it is inside.
    pub(super) address: ir::Value,
}

impl Emitter<'_> {
    /// The place of the box of a load or store.
    pub(super) fn place(&mut self, data: &OpData) -> Result<BoxLocation> {
        let mut place = self.strided_place(data)?;
        let (view, _, shape) = self.box_of(data)?;
        for axis in (0..shape.rank()).filter(|&axis| shape[axis] > 1) {
            let adjacent = self.asm.int(inner_len(&shape, axis) as i64);
            let adjacent = self.asm.compare(IntCC::Equal, view.strides[axis], adjacent);
            place.inside = self.asm.and(place.inside, adjacent);
        }
        Ok(place)
    }

    /// The place of the box of a load or store, whatever the view's strides.
    fn strided_place(&mut self, data: &OpData) -> Result<BoxLocation> {
        let (view, offsets, shape) = self.box_of(data)?;
        let mut inside = self.asm.fb.ins().iconst(types::I8, 1);
        let mut linear = self.asm.int(0);
        for (axis, &offset) in offsets.iter().enumerate() {
            let last = self.asm.add_const(view.extents[axis], -i64::from(shape[axis]));
            let zero = self.asm.int(0);
            let begins = self.asm.compare(IntCC::SignedGreaterThanOrEqual, offset, zero);
            let ends = self.asm.compare(IntCC::SignedLessThanOrEqual, offset, last);
            inside = self.asm.and(inside, begins);
            inside = self.asm.and(inside, ends);
            let step = self.asm.mul(offset, view.strides[axis]);
            linear = self.asm.add(linear, step);
        }
        let bytes = self.asm.mul_const(linear, view.elem.bytes().into());
        let address = self.asm.add(view.base, bytes);
        Ok(BoxLocation { inside, address })
    }

    /// The view, the offsets and the shape of the box of a load or store.
    fn box_of(&mut self, data: &OpData) -> Result<(View, Vec<ir::Value>, Shape)> {
        let tile = data.results.first().copied().unwrap_or_else(|| data.stored_value());
        let offsets = data.coordinates().iter().map(|&o| self.scalar(o)).collect::<Result<_>>()?;
        Ok((self.view(data.view())?.clone(), offsets, self.kernel.shape(tile)))
    }

    pub(super) fn load(&mut self, data: &OpData) -> Result<()> {
        let result = data.results[0];
        let elem = self.kernel.ty(result).elem();
        if self.kernel.ty(result).is_scalar() {
            let base = self.view(data.view())?.base;
            let scalar = self.asm.load(super::asm::scalar_type(elem), base, 0);
            self.set(result, Repr::Scalar(scalar));
            return Ok(());
        }
        if self.live.is_matrix(self.kernel, result) {
            return self.load_matrix(data);
        }
        if !self.live.is_in_place(result) {
            let out = self.output(result).at;
            return self.load_box(data, out, elem);
        }
        let place = self.place(data)?;
        let fallback = self.output(result);
        let at = self.asm.fb.ins().select(place.inside, place.address, fallback.at);
        self.set(result, Repr::Tile(Tile { at, ..fallback }));
        let mut outcome = Ok(());
        self.unless(place.inside, |e| outcome = e.load_box(data, fallback.at, elem));
        outcome
    }

    /// A load of what is only multiplied: in place with the view's strides, if the box is inside.
    fn load_matrix(&mut self, data: &OpData) -> Result<()> {
        let result = data.results[0];
        let (view, _, shape) = self.box_of(data)?;
        let fallback = self.output(result);
        let [rows, columns] = [shape.rank() - 2, shape.rank() - 1];
        let strides = [self.asm.int(shape[columns].into()), self.asm.int(1)];
        if !self.live.is_in_place(result) {
            self.load_box(data, fallback.at, view.elem)?;
            self.set(result, Repr::Matrix(Matrix { tile: fallback, row: strides[0], column: strides[1] }));
            return Ok(());
        }
        let place = self.strided_place(data)?;
        let mut pick = |inside, outside| self.asm.fb.ins().select(place.inside, inside, outside);
        let at = pick(place.address, fallback.at);
        let (row, column) = (pick(view.strides[rows], strides[0]), pick(view.strides[columns], strides[1]));
        self.set(result, Repr::Matrix(Matrix { tile: Tile { at, ..fallback }, row, column }));
        let mut outcome = Ok(());
        self.unless(place.inside, |e| outcome = e.load_box(data, fallback.at, view.elem));
        outcome
    }

    fn load_box(&mut self, data: &OpData, tile: ir::Value, elem: Scalar) -> Result<()> {
        let padding = self.scalar(data.padding())?;
        let padding = self.asm.bits(padding);
        self.box_call(data, PrimitiveKey::LoadBox(elem), tile, padding)
    }

    pub(super) fn store(&mut self, data: &OpData, reuse: Reuse) -> Result<()> {
        let value = data.stored_value();
        let ty = self.kernel.ty(value);
        if ty.is_scalar() {
            let (base, scalar) = (self.view(data.view())?.base, self.scalar(value)?);
            self.asm.store(scalar, base, 0);
            return Ok(());
        }
        if let (&Repr::Scalar(scalar), 1) = (self.repr(value)?, self.len(value)) {
            return self.store_element(data, scalar);
        }
        let tile = self.array(value, self.len(value))?;
        self.store_box(data, tile, reuse)
    }

    /// A store of a box that is one element: where it is inside the view.
    fn store_element(&mut self, data: &OpData, scalar: ir::Value) -> Result<()> {
        let place = self.strided_place(data)?;
        let (inside, _) = self.asm.block(&[]);
        let (rest, _) = self.asm.block(&[]);
        self.asm.branch(place.inside, inside, rest);
        self.asm.enter(inside);
        self.asm.store(scalar, place.address, 0);
        self.asm.jump(rest, &[]);
        self.asm.enter(rest);
        Ok(())
    }

    /// The end of a store whose value was made in place, if it was.
    pub(super) fn finish_store(&mut self, data: &OpData, direct: Option<BoxLocation>) -> Result<()> {
        let OpKind::Store { reuse, .. } = data.kind else { return Err(self.internal("not a store")) };
        let Some(place) = direct else { return self.store(data, reuse) };
        let mut outcome = Ok(());
        self.unless(place.inside, |e| outcome = e.store(data, reuse));
        outcome
    }

    fn store_box(&mut self, data: &OpData, tile: ir::Value, reuse: Reuse) -> Result<()> {
        let elem = self.kernel.ty(data.view()).elem();
        let padding = self.asm.int(0);
        let args = self.box_args(data, tile, padding)?;
        if reuse == Reuse::Normal {
            return self.call(PrimitiveKey::StoreBox(elem), &args).map(drop);
        }
        let streams = self.outgrows_caches(data)?;
        let keys = [PrimitiveKey::StoreBoxStreaming(elem), PrimitiveKey::StoreBox(elem)];
        match self.asm.either_primitive(streams, keys, &args) {
            true => Ok(()),
            false => Err(self.unsupported(format!("{keys:?}"))),
        }
    }

    /// Whether the view of a load or store holds more than the caches keep while it is passed over:
    /// only then do stores past the caches pay.
    pub(super) fn outgrows_caches(&mut self, data: &OpData) -> Result<ir::Value> {
        let view = self.view(data.view())?.clone();
        let mut bytes = self.asm.int(view.elem.bytes().into());
        for extent in view.extents {
            bytes = self.asm.mul(bytes, extent);
        }
        let kept = self.asm.int(self.blocking.cached.min(1 << 40) as i64);
        Ok(self.asm.compare(IntCC::SignedGreaterThan, bytes, kept))
    }

    fn box_call(
        &mut self,
        data: &OpData,
        key: PrimitiveKey,
        tile: ir::Value,
        padding: ir::Value,
    ) -> Result<()> {
        let args = self.box_args(data, tile, padding)?;
        self.call(key, &args).map(drop)
    }

    /// What a primitive that moves a box is called with.
    fn box_args(&mut self, data: &OpData, tile: ir::Value, padding: ir::Value) -> Result<[ir::Value; 5]> {
        let (view, offsets, shape) = self.box_of(data)?;
        let axes = self.asm.stack(size_of::<BoxAxis>() * shape.rank());
        for (axis, &offset) in offsets.iter().enumerate() {
            let at = (axis * size_of::<BoxAxis>()) as i32;
            let tile = self.asm.int(shape[axis].into());
            self.asm.store(tile, axes, at + offset_of!(BoxAxis, tile) as i32);
            self.asm.store(offset, axes, at + offset_of!(BoxAxis, offset) as i32);
            self.asm.store(view.extents[axis], axes, at + offset_of!(BoxAxis, extent) as i32);
            self.asm.store(view.strides[axis], axes, at + offset_of!(BoxAxis, stride) as i32);
        }
        let rank = self.asm.int(shape.rank() as i64);
        Ok([tile, view.base, axes, rank, padding])
    }

    /// Runs `cold` only where the condition is 0.
    pub(super) fn unless(&mut self, condition: ir::Value, cold: impl FnOnce(&mut Self)) {
        let (slow, _) = self.asm.block(&[]);
        let (rest, _) = self.asm.block(&[]);
        self.asm.fb.set_cold_block(slow);
        self.asm.branch(condition, rest, slow);
        self.asm.enter(slow);
        cold(self);
        self.asm.jump(rest, &[]);
        self.asm.enter(rest);
    }

    /// The shape of a tile value.
    pub(super) fn len(&self, value: Value) -> usize {
        self.kernel.shape(value).len()
    }
}
