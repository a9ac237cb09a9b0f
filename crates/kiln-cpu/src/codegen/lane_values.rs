//! Values of lanes that are nowhere written: affine numbers, and conditions on them.
//!
//! Such a number is not computed where the kernel computes it. It is kept as a [`Repr::Affine`],
//! and likewise a comparison of two as a [`Repr::Condition`]. An access at affine indices is then
//! known to walk along a row of memory, and a condition on them to hold in a box of lanes. Where an
//! operation needs the elements, they are written out ([`Emitter::write_lanes`]).

use super::affine::{Affine, Uniform};
use super::asm::scalar_type;
use super::condition::{Condition, Term};
use super::emitter::Emitter;
use super::lane_box::Requirements;
use super::repr::Repr;
use crate::symbol::Function;
use cranelift_codegen::ir::{self, InstBuilder};
use kiln_backend::Result;
use kiln_cpu_primitives::lane_numbers::{self, LaneNumbers};
use kiln_cpu_primitives::{Form, PrimitiveKey};
use kiln_ir::{BinaryOp, OpData, OpKind, ReduceOp, Scalar, UnaryOp, Value};
use std::mem::{offset_of, size_of};

impl Emitter<'_> {
    /// Whether a value has an element for each lane.
    pub(super) fn has_lanes(&self, value: Value) -> bool {
        let ty = self.kernel.ty(value);
        self.space.is_some_and(|space| {
            ty.as_tile().is_some_and(|t| t.shape.rank() == 1 && t.shape.len() == space.lanes())
        })
    }

    /// Keeps the result of an operation as an affine number or a condition on such, if it is one.
    pub(super) fn stays_affine(&mut self, data: &OpData) -> Result<bool> {
        let [result] = data.results[..] else { return Ok(false) };
        if !self.has_lanes(result) || self.live.is_splat(result) {
            return Ok(false);
        }
        let repr = match self.kernel.ty(result).elem() {
            Scalar::I64 => self.affine_result(data)?.map(Repr::Affine),
            Scalar::Bool => self.condition_result(data)?.map(Repr::Condition),
            _ => None,
        };
        let stays = repr.is_some();
        if let Some(repr) = repr {
            self.set(result, repr);
        }
        Ok(stays)
    }

    /// A condition that an operation makes, if it is one.
    fn condition_result(&mut self, data: &OpData) -> Result<Option<Condition>> {
        if let OpKind::Compare(op) = data.kind {
            let Some(operands) = self.affine_operands(data)? else { return Ok(None) };
            let Ok([left, right]) = <[Affine; 2]>::try_from(operands) else { return Ok(None) };
            return Ok(Some(Condition::of_term(Term { op, left, right })));
        }
        if data.kind == OpKind::Unary(UnaryOp::Not) {
            return Ok(self.lane_condition(data.input()).map(Condition::not));
        }
        let both = data.kind == OpKind::Binary(BinaryOp::And);
        if !both && data.kind != OpKind::Binary(BinaryOp::Or) {
            return Ok(None);
        }
        let (left, right) = (self.lane_condition(data.left()), self.lane_condition(data.right()));
        let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
        Ok(match both {
            true => left.and(&right),
            false => left.not().and(&right.not()).map(Condition::not),
        })
    }

    /// A bool of lanes as a condition, if it is known to be one.
    pub(super) fn lane_condition(&self, value: Value) -> Option<Condition> {
        match self.repr(value).ok()? {
            Repr::Condition(condition) => Some(condition.clone()),
            Repr::Scalar(scalar) if self.kernel.ty(value).elem() == Scalar::Bool => {
                Some(Condition::of_gate(*scalar))
            }
            Repr::Scalar(_) | Repr::Affine(_) | Repr::Tile(_) | Repr::Matrix(_) | Repr::View(_) => None,
        }
    }

    fn affine_result(&mut self, data: &OpData) -> Result<Option<Affine>> {
        let Some(space) = self.space else { return Ok(None) };
        if let OpKind::ThreadId(axis) = data.kind {
            return Ok(Some(Affine::index(space, axis)));
        }
        if data.kind == OpKind::Iota {
            return Ok(Some(Affine::lane(space)));
        }
        let Some(numbers) = self.affine_operands(data)? else { return Ok(None) };
        let negates = data.kind == OpKind::Unary(UnaryOp::Neg);
        let affine = if let ([a], true) = (&numbers[..], negates) {
            Some(self.asm.affine_scaled(*a, Uniform::constant(-1)))
        } else if let (OpKind::Binary(op), [a, b]) = (&data.kind, &numbers[..]) {
            self.affine_binary(*op, *a, *b)
        } else if let (OpKind::Fma, [a, b, c]) = (&data.kind, &numbers[..]) {
            self.affine_binary(BinaryOp::Mul, *a, *b).map(|product| self.asm.affine_add(product, *c))
        } else {
            None
        };
        Ok(affine.filter(Affine::has_short_steps))
    }

    fn affine_binary(&mut self, op: BinaryOp, a: Affine, b: Affine) -> Option<Affine> {
        Some(match op {
            BinaryOp::Add => self.asm.affine_add(a, b),
            BinaryOp::Sub => self.asm.affine_sub(a, b),
            BinaryOp::Mul if b.is_uniform() => self.asm.affine_scaled(a, b.base),
            BinaryOp::Mul if a.is_uniform() => self.asm.affine_scaled(b, a.base),
            BinaryOp::Shl if b.is_uniform() => {
                let amount = b.base.known()? & 63;
                self.asm.affine_scaled(a, Uniform::constant(1i64 << amount))
            }
            BinaryOp::Mul
            | BinaryOp::Shl
            | BinaryOp::Div
            | BinaryOp::FastDiv
            | BinaryOp::Rem
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Shr
            | BinaryOp::Pow
            | BinaryOp::Atan2 => return None,
        })
    }

    /// The operands of an operation on i64 as affine numbers, if they are and one varies.
    pub(super) fn affine_operands(&mut self, data: &OpData) -> Result<Option<Vec<Affine>>> {
        let (mut operands, mut varies) = (Vec::new(), false);
        for &value in &data.operands {
            if self.kernel.ty(value).elem() != Scalar::I64 {
                return Ok(None);
            }
            match self.affine(value) {
                Some(affine) => operands.push(affine),
                None => return Ok(None),
            }
            varies |= matches!(self.repr(value)?, Repr::Affine(_));
        }
        Ok(varies.then_some(operands))
    }

    /// A number of type i64 as an affine one, if it is known to be.
    pub(super) fn affine(&mut self, value: Value) -> Option<Affine> {
        match self.repr(value).ok()? {
            Repr::Affine(affine) => Some(*affine),
            &Repr::Scalar(scalar) => Some(Affine::uniform(self.asm.uniform(scalar))),
            Repr::Tile(_) | Repr::Condition(_) | Repr::Matrix(_) | Repr::View(_) => None,
        }
    }

    pub(super) fn is_condition(&self, value: Value) -> bool {
        matches!(self.repr(value), Ok(Repr::Condition(_)))
    }

    /// The least of an affine number in all lanes, if that is the first lane's and known.
    pub(super) fn least_lane(&self, value: Value) -> Option<i64> {
        let Ok(Repr::Affine(number)) = self.repr(value) else { return None };
        let (mut last, least) = (number.base.known()?, number.base.known()?);
        for (step, extent) in number.steps.iter().zip(self.space?.extents) {
            let step = step.known().filter(|&step| step >= 0)?;
            last = last.checked_add(step.checked_mul(i64::from(extent) - 1)?)?;
        }
        Some(least)
    }

    /// Whether a condition holds in any lane: whether its box is one with lanes.
    pub(super) fn any_lane(&mut self, data: &OpData) -> Result<()> {
        let (value, result) = (data.input(), data.results[0]);
        let condition = self.lane_condition(value);
        let mut requirements = Requirements::default();
        let Some(lanes) = condition.and_then(|c| self.box_of_lanes(&c, &mut requirements)) else {
            return Err(self.internal("no condition of lanes"));
        };
        let empty = self.is_empty(&lanes);
        let any = self.asm.fb.ins().bxor_imm_u(empty, 1);
        let Some(flag) = requirements.flag() else {
            self.set(result, Repr::Scalar(any));
            return Ok(());
        };
        let (out, len) = (self.asm.stack(8), self.len(value));
        let by_box = |e: &mut Self| {
            e.asm.store(any, out, 0);
            Ok(())
        };
        let by_lanes = |e: &mut Self| {
            let at = e.array(value, len)?;
            let (count, one) = (e.asm.int(len as i64), e.asm.int(1));
            let key = PrimitiveKey::Reduce(ReduceOp::Or, Scalar::Bool);
            e.call(key, &[out, at, one, count, one]).map(drop)
        };
        self.either_way(flag, by_box, by_lanes)?;
        let any = self.asm.load(scalar_type(Scalar::Bool), out, 0);
        self.set(result, Repr::Scalar(any));
        Ok(())
    }

    // ---- elements

    /// Writes the elements of an affine number or a condition.
    pub(super) fn write_lanes(&mut self, to: ir::Value, value: Value) -> Result<()> {
        match self.repr(value)?.clone() {
            Repr::Affine(number) => {
                let numbers = self.lane_numbers(number);
                self.asm.call_own(Function::LaneNumbers, &[to, numbers], None);
                Ok(())
            }
            Repr::Condition(condition) => self.write_condition(to, &condition),
            Repr::Scalar(_) | Repr::Tile(_) | Repr::Matrix(_) | Repr::View(_) => {
                Err(self.internal("no number or condition of lanes"))
            }
        }
    }

    fn write_condition(&mut self, to: ir::Value, condition: &Condition) -> Result<()> {
        let len = self.space.map_or(0, |space| space.lanes());
        let count = self.asm.int(len as i64);
        let yes = self.asm.int(1);
        self.call(PrimitiveKey::Splat(Scalar::Bool), &[to, yes, count])?;
        for term in &condition.terms {
            let (left, right) = (self.lane_numbers(term.left), self.lane_numbers(term.right));
            let outcomes = self.asm.int(lane_numbers::outcomes(term.op) as i64);
            self.asm.call_own(Function::LaneComparison, &[to, left, right, outcomes], None);
        }
        for &gate in &condition.gates {
            let gate = self.asm.bits(gate);
            let key = PrimitiveKey::Binary(BinaryOp::And, Form::ScalarRight, Scalar::Bool);
            self.call(key, &[to, to, gate, count])?;
        }
        if condition.inverted {
            self.call(PrimitiveKey::Unary(UnaryOp::Not, Scalar::Bool), &[to, to, count])?;
        }
        Ok(())
    }

    /// The address of a description of an affine number.
    fn lane_numbers(&mut self, number: Affine) -> ir::Value {
        let at = self.asm.stack(size_of::<LaneNumbers>());
        let extents = self.space.map_or([1; 3], |space| space.extents);
        let base = self.asm.uniform_value(number.base);
        self.asm.store(base, at, offset_of!(LaneNumbers, base) as i32);
        for (axis, (step, extent)) in number.steps.into_iter().zip(extents).enumerate() {
            let step = self.asm.uniform_value(step);
            let extent = self.asm.int(extent.into());
            self.asm.store(step, at, (offset_of!(LaneNumbers, steps) + 8 * axis) as i32);
            self.asm.store(extent, at, (offset_of!(LaneNumbers, extents) + 8 * axis) as i32);
        }
        at
    }
}
