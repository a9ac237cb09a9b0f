//! Sums at indices whose old values nothing reads, which histograms are made of: one call for all
//! elements.
//!
//! A view of a launch to which a kernel does nothing else may be a copy while a worker runs
//! several programs (`copies.rs`). The frame says whether it is: then nobody else reaches it.

use super::elements::Indexed;
use super::emitter::Emitter;
use super::lane_box::Requirements;
use super::repr::Repr;
use crate::frame::Frame;
use crate::spmd::ENOUGH_LANES;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use kiln_backend::Result;
use kiln_cpu_primitives::{AddMode, PrimitiveKey, lookup};
use kiln_ir::{AtomicOp, Bounds, OpData, OpKind, Scalar, Value};
use std::mem::offset_of;

/// The sums of an operation.
struct Sums<'s> {
    key: PrimitiveKey,
    access: &'s Indexed,
    bounds: Bounds,
    /// The address of the indices, or the first of neighbors; and how far it is to the next.
    index: ir::Value,
    index_step: u32,
    /// The address of the values, or the one value.
    value: ir::Value,
    value_step: u32,
    mode: ir::Value,
}

impl Emitter<'_> {
    /// Whether an atomic of lanes is rather done for all of them in one call.
    pub(super) fn adds_in_one_call(&mut self, data: &OpData) -> bool {
        let enough = self.space.is_some_and(|space| space.lanes() >= ENOUGH_LANES as usize);
        let affine = data.coordinates().iter().all(|&index| self.affine(index).is_some());
        enough && self.sum_key(data).is_some() && !(affine && self.is_private(data))
    }

    /// The primitive of an atomic that adds integers along one axis.
    fn sum_key(&self, data: &OpData) -> Option<PrimitiveKey> {
        let (OpKind::Atomic { op: AtomicOp::Add, .. }, &[index]) = (&data.kind, data.coordinates()) else {
            return None;
        };
        let index = match self.kernel.ty(index).elem() {
            Scalar::U64 => Scalar::I64,
            elem => elem,
        };
        let key = PrimitiveKey::AddEach(index, self.kernel.ty(data.view()).elem());
        let fits = !self.live.is_used(data.results[0]) && !self.kernel.ty(data.results[0]).is_scalar();
        (fits && lookup(key).is_some()).then_some(key)
    }

    /// Adds at all indices; whether this is an atomic that does.
    pub(super) fn add_each(&mut self, data: &OpData, access: &Indexed, bounds: Bounds) -> Result<bool> {
        let Some(key) = self.sum_key(data) else { return Ok(false) };
        let mut mode = if bounds == Bounds::Check { AddMode::CHECKED.0 } else { 0 };
        let (index, value) = (access.indices[0], access.values[0]);
        let (index, index_step) = match self.first_of_neighbors(index) {
            Some(first) => {
                mode |= AddMode::NEIGHBORS.0;
                (first, 1)
            }
            None => (self.array(index, access.len)?, self.kernel.ty(index).elem().bytes()),
        };
        let (value, value_step) = match *self.repr(value)? {
            Repr::Scalar(scalar) => (self.asm.bits(scalar), 0),
            _ => {
                mode |= AddMode::VALUES.0;
                (self.array(value, access.len)?, access.view.elem.bytes())
            }
        };
        let mode = self.sum_mode(data, mode);
        let sums = Sums { key, access, bounds, index, index_step, value, value_step, mode };
        let count = self.asm.int(access.len as i64);
        let Some(mask) = access.mask else {
            let all = self.asm.int(0);
            self.sum(&sums, None, count, all)?;
            return Ok(true);
        };
        let mut valid = Requirements::default();
        let row = self.space.is_some_and(|space| space.extents[1..] == [1, 1]) && self.has_lanes(mask);
        let condition = self.lane_condition(mask).filter(|_| row);
        let Some(lanes) = condition.and_then(|holds| self.box_of_lanes(&holds, &mut valid)) else {
            let mask = self.array(mask, access.len)?;
            self.sum(&sums, None, count, mask)?;
            return Ok(true);
        };
        let in_box = |e: &mut Self| {
            let (from, to) = (e.asm.uniform_value(lanes.from[0]), e.asm.uniform_value(lanes.to[0]));
            let (some, all) = (e.asm.fb.ins().isub(to, from), e.asm.int(0));
            let some = e.asm.fb.ins().smax(some, all);
            e.sum(&sums, Some(from), some, all)
        };
        match valid.flag() {
            None => in_box(self)?,
            Some(flag) => self.either_way(flag, in_box, |e| {
                let mask = e.array(mask, access.len)?;
                e.sum(&sums, None, count, mask)
            })?,
        }
        Ok(true)
    }

    /// Adds `count` values from an element on.
    fn sum(
        &mut self,
        sums: &Sums<'_>,
        from: Option<ir::Value>,
        count: ir::Value,
        mask: ir::Value,
    ) -> Result<()> {
        let [index, value] =
            [(sums.index, sums.index_step), (sums.value, sums.value_step)].map(|(at, step)| {
                let Some(from) = from.filter(|_| step > 0) else { return at };
                let ahead = self.asm.mul_const(from, step.into());
                self.asm.add(at, ahead)
            });
        let view = &sums.access.view;
        let args = [view.base, view.extents[0], view.strides[0], index, mask, value, count, sums.mode];
        let outside = self.call(sums.key, &args)?.ok_or_else(|| self.internal("no flag"))?;
        if sums.bounds != Bounds::Check {
            return Ok(());
        }
        let inside = self.asm.fb.ins().icmp_imm_s(IntCC::Equal, outside, 0);
        // The first one outside is looked for where there is one.
        self.either_way(inside, |_| Ok(()), |e| e.elements(sums.access, sums.bounds).map(drop))
    }

    /// The first of indices each of which is 1 more than the one before.
    fn first_of_neighbors(&mut self, index: Value) -> Option<ir::Value> {
        let whole = self.kernel.defining_op(index).is_some_and(|op| op.kind == OpKind::Iota);
        if whole && self.kernel.ty(index).elem() == Scalar::I64 {
            return Some(self.asm.int(0));
        }
        let (number, space) = (self.affine(index)?, self.space?);
        let row = space.extents[1..] == [1, 1] && number.steps[0].known() == Some(1);
        row.then(|| self.asm.uniform_value(number.base))
    }

    /// How a sum is added: atomically, if others reach the memory.
    fn sum_mode(&mut self, data: &OpData, mode: u64) -> ir::Value {
        if self.is_private(data) {
            return self.asm.int(mode as i64);
        }
        let shared = (mode | AddMode::SHARED.0) as i64;
        let Some(bit) = self.added.iter().position(|&(view, _)| view == data.view()) else {
            return self.asm.int(shared);
        };
        let copies = self.asm.load(types::I64, self.frame, offset_of!(Frame, copies) as i32);
        let copy = self.asm.fb.ins().band_imm_u(copies, 1 << bit);
        let (alone, shared) = (self.asm.int(mode as i64), self.asm.int(shared));
        self.asm.fb.ins().select(copy, alone, shared)
    }
}
