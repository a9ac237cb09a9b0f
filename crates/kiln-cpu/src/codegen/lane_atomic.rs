//! Atomics of lanes in groups: where their indices are known to be inside, one after the other in
//! the order of the lanes.
//!
//! A block runs on one thread of the host, so that its own memory needs no locked instructions.

use super::asm::scalar_type;
use super::atomic::instruction;
use super::emitter::Emitter;
use super::lane_box::Requirements;
use super::lane_plan::{LaneAtomic, LanePlan, Turn};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData};
use kiln_backend::Result;
use kiln_ir::{AtomicOp, BinaryOp, Bounds, Op, OpData, OpKind, Scalar, Space, Type, Value};

impl Emitter<'_> {
    /// Whether an atomic can be one of a group: an instruction, at indices of which one varies and
    /// each is affine or known to lie in a range.
    pub(super) fn is_lane_atomic(&mut self, data: &OpData) -> bool {
        let OpKind::Atomic { op, bounds, .. } = data.kind else { return false };
        let (elem, value) = (self.kernel.ty(data.view()).elem(), data.access_values()[0]);
        let native = instruction(op, elem).is_some() && elem.is_int();
        let adds = op == AtomicOp::Add && matches!(elem, Scalar::F32 | Scalar::F64);
        if self.adds_in_one_call(data) {
            return false;
        }
        let result_under_mask = data.mask().is_some() && self.live.is_used(data.results[0]);
        if !(native || adds && self.is_private(data)) || !self.has_lanes(value) || result_under_mask {
            return false;
        }
        let mut varies = false;
        for &index in data.coordinates() {
            let affine = self.affine(index);
            varies |= affine.is_none_or(|index| !index.is_uniform());
            let wide = self.kernel.ty(index).elem() == Scalar::I64;
            if !wide || (affine.is_none() && bounds != Bounds::Trust && self.range(index).is_none()) {
                return false;
            }
        }
        varies
    }

    pub(super) fn is_private(&self, data: &OpData) -> bool {
        matches!(self.kernel.ty(data.view()), Type::View(view) if view.space != Space::Global)
    }

    /// The least and the greatest that a number of a lane can be, if the operations that make it
    /// say so.
    fn range(&mut self, value: Value) -> Option<[i64; 2]> {
        if let Some(lanes) = self.known_lanes(value) {
            let numbers = || lanes.iter().map(|literal| literal.as_i128() as i64);
            return Some([numbers().min()?, numbers().max()?]);
        }
        let data = self.kernel.defining_op(value)?;
        let to = self.kernel.ty(value).elem();
        if data.kind == OpKind::Cast {
            return self.range_of_cast(data.input(), to);
        }
        let OpKind::Binary(op) = data.kind else { return None };
        if op == BinaryOp::And {
            let masks = [data.left(), data.right()].map(|side| self.constant_splat(side));
            let most = masks.into_iter().flatten().next()?.as_i128() as i64;
            return (most >= 0).then_some([0, most]);
        }
        let combine: fn(i64, i64) -> Option<i64> = match op {
            BinaryOp::Add => i64::checked_add,
            BinaryOp::Mul => i64::checked_mul,
            BinaryOp::Sub
            | BinaryOp::Div
            | BinaryOp::FastDiv
            | BinaryOp::Rem
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::Pow
            | BinaryOp::Atan2 => return None,
        };
        let (a, b) = (self.range(data.left())?, self.range(data.right())?);
        let ends = [combine(a[0], b[0])?, combine(a[1], b[1])?];
        (to == Scalar::I64 && a[0] >= 0 && b[0] >= 0).then_some(ends)
    }

    fn range_of_cast(&mut self, value: Value, to: Scalar) -> Option<[i64; 2]> {
        let from = self.kernel.ty(value).elem();
        let bytes = match from {
            Scalar::Bool => Some([0, 1]),
            Scalar::U8 => Some([0, 255]),
            Scalar::I8 => Some([-128, 127]),
            Scalar::U16 => Some([0, 65_535]),
            Scalar::I16 => Some([-32_768, 32_767]),
            _ => None,
        };
        let widens = from.is_int() && from.bytes() <= to.bytes();
        let of_value = || self.range(value).filter(|range| widens && range[0] >= 0);
        // Negative numbers are others as unsigned ones.
        let same = |range: &[i64; 2]| to.is_int() && to.bytes() >= 4 && (range[0] >= 0 || to.is_signed());
        bytes.filter(same).or_else(of_value)
    }

    /// What an atomic needs, with the requirement that its indices are inside.
    pub(super) fn plan_atomic(
        &mut self,
        op: Op,
        plan: &mut LanePlan,
        empty: ir::Value,
    ) -> Option<LaneAtomic> {
        let data = self.kernel.op(op);
        let OpKind::Atomic { op: update, bounds, .. } = data.kind else { return None };
        let view = self.view(data.view()).ok()?.clone();
        let mask = self.own_mask(data, plan);
        if bounds != Bounds::Trust {
            for (&index, &extent) in data.coordinates().iter().zip(&view.extents) {
                let ends = match self.affine(index) {
                    Some(number) => self.limits(&number, &plan.lanes, &mut plan.requirements),
                    None => self.range(index)?.map(|end| self.asm.int(end)),
                };
                for end in ends {
                    self.require_inside(end, extent, empty, &mut plan.requirements);
                }
            }
        }
        Some(LaneAtomic { op, update, view, private: self.is_private(data), mask })
    }

    /// Requires that an index is inside of an extent, or that there are no lanes.
    pub(super) fn require_inside(
        &mut self,
        index: ir::Value,
        extent: ir::Value,
        empty: ir::Value,
        requirements: &mut Requirements,
    ) {
        let inside = self.asm.compare(IntCC::UnsignedLessThan, index, extent);
        let inside = self.asm.fb.ins().bor(inside, empty);
        requirements.add(self, inside);
    }

    /// The atomic of a turn's lanes.
    pub(super) fn lane_atomic(
        &mut self,
        atomic: &LaneAtomic,
        plan: &LanePlan,
        turn: &mut Turn<'_>,
    ) -> Result<()> {
        let data = self.kernel.op(atomic.op);
        let (elem, width) = (atomic.view.elem, turn.width);
        let mut addresses = vec![atomic.view.base; width];
        for (axis, &index) in data.coordinates().iter().enumerate() {
            let stride = self.asm.mul_const(atomic.view.strides[axis], elem.bytes().into());
            let pack = self.pack(index, plan, turn)?;
            for (address, index) in addresses.iter_mut().zip(self.pack_scalars(&pack, Scalar::I64, width)) {
                let along = self.asm.mul(index, stride);
                *address = self.asm.add(*address, along);
            }
        }
        let value = data.access_values()[0];
        let values = match self.scalar(value) {
            Ok(scalar) => vec![scalar; width],
            Err(_) => {
                let pack = self.pack(value, plan, turn)?;
                self.pack_scalars(&pack, elem, width)
            }
        };
        let goes = match atomic.mask {
            Some(mask) => {
                let mask = self.pack(mask, plan, turn)?;
                Some(self.pack_scalars(&mask, Scalar::Bool, width))
            }
            None => None,
        };
        let mut before = Vec::new();
        for lane in 0..width {
            let Some(goes) = &goes else {
                before.push(self.update(atomic, addresses[lane], values[lane])?);
                continue;
            };
            let [next, rest] = [(); 2].map(|()| self.asm.block(&[]).0);
            self.asm.branch(goes[lane], next, rest);
            self.asm.enter(next);
            self.update(atomic, addresses[lane], values[lane])?;
            self.asm.jump(rest, &[]);
            self.asm.enter(rest);
        }
        if self.live.is_used(data.results[0]) {
            let pack = self.pack_of_elements(&before, elem);
            turn.packs.insert(data.results[0], pack);
        }
        Ok(())
    }

    /// Updates one element, and gives what it was before.
    fn update(&mut self, atomic: &LaneAtomic, at: ir::Value, value: ir::Value) -> Result<ir::Value> {
        let elem = atomic.view.elem;
        if !atomic.private {
            let op = instruction(atomic.update, elem);
            let op = op.ok_or_else(|| self.internal("an atomic without an instruction"))?;
            return Ok(self.asm.fb.ins().atomic_rmw(
                scalar_type(elem),
                MemFlagsData::trusted(),
                op,
                at,
                value,
            ));
        }
        let old = self.asm.load(scalar_type(elem), at, 0);
        let combine = match atomic.update {
            AtomicOp::Add => Some(BinaryOp::Add),
            AtomicOp::Min => Some(BinaryOp::Min),
            AtomicOp::Max => Some(BinaryOp::Max),
            AtomicOp::And => Some(BinaryOp::And),
            AtomicOp::Or => Some(BinaryOp::Or),
            AtomicOp::Xor => Some(BinaryOp::Xor),
            AtomicOp::Exchange | AtomicOp::AddF16x2 | AtomicOp::AddBf16x2 => None,
        };
        let new = match combine {
            Some(op) => self.native_binary(op, elem, old, value),
            None => Some(value),
        };
        let new = new.ok_or_else(|| self.internal("an atomic without an instruction"))?;
        self.asm.store(new, at, 0);
        Ok(old)
    }
}
