//! Faults, asserts and prints.

use super::asm::scalar_type;
use super::emitter::Emitter;
use super::repr::Repr;
use crate::frame::Frame;
use crate::site::SiteKind;
use crate::symbol::Function;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, condcodes::IntCC, types};
use kiln_backend::Result;
use kiln_cpu_primitives::{Form, PrimitiveKey};
use kiln_ir::{BinaryOp, Message, OpData, ReduceOp, Scalar, Value};
use std::mem::offset_of;

impl Emitter<'_> {
    /// Where the condition is not 0: reports the site, lane and values that `report` gives, and
    /// ends the program.
    pub(super) fn fault_if(
        &mut self,
        condition: ir::Value,
        report: impl FnOnce(&mut Self) -> (ir::Value, ir::Value, ir::Value),
    ) {
        let (fault, _) = self.asm.block(&[]);
        let (rest, _) = self.asm.block(&[]);
        self.asm.fb.set_cold_block(fault);
        self.asm.branch(condition, fault, rest);
        self.asm.enter(fault);
        let (site, lane, values) = report(self);
        self.report(site, lane, values);
        self.asm.jump(self.exit, &[]);
        self.asm.enter(rest);
    }

    /// At the end of a loop's round: ends the program if the launch is to stop.
    pub(super) fn check_time(&mut self) {
        let at = self.asm.load(types::I64, self.frame, offset_of!(Frame, stop) as i32);
        // An atomic load: a plain one might be taken for one that was made before.
        let stop = self.asm.fb.ins().atomic_load(types::I8, MemFlagsData::trusted(), at);
        let site = self.site(SiteKind::Stopped);
        self.fault_if(stop, |e| {
            let none = e.asm.int(0);
            (site, none, none)
        });
    }

    fn report(&mut self, site: ir::Value, lane: ir::Value, values: ir::Value) {
        self.asm.call_own(Function::Report, &[self.frame, site, lane, values], None);
    }

    /// Ends the program if an integer division found a zero divisor.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn check_divisor(
        &mut self,
        op: BinaryOp,
        elem: Scalar,
        flag: Option<ir::Value>,
        args: [ir::Value; 2],
        form: Form,
        start: Option<ir::Value>,
        count: ir::Value,
    ) -> Result<()> {
        let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem) && !elem.is_float();
        let (true, Some(flag)) = (divides, flag) else { return Ok(()) };
        let site = self.site(SiteKind::Divisor);
        self.fault_if(flag, |e| {
            let none = e.asm.int(0);
            let mut lane = none;
            if form != Form::ScalarRight {
                let bytes = e.asm.int(elem.bytes().into());
                let args = [args[1], bytes, count];
                lane = e.asm.call_own(Function::FirstZero, &args, Some(types::I64)).unwrap_or(none);
            }
            if let Some(start) = start {
                lane = e.asm.add(lane, start);
            }
            (site, lane, none)
        });
        Ok(())
    }

    /// `Assert`. Values are scalars or, in a kernel for threads, tiles with an element for each
    /// lane.
    pub(super) fn assert(&mut self, data: &OpData, message: Message) -> Result<()> {
        let (condition, values) = (data.condition(), data.shown());
        let len = self.len(condition);
        let at = self.array(condition, len)?;
        let count = self.asm.int(len as i64);
        let holds = self.all(condition, len)?;
        let elems = values.iter().map(|&v| self.kernel.ty(v).elem()).collect();
        let site = self.site(SiteKind::Assert(message, elems));
        let fails = self.asm.fb.ins().icmp_imm_s(IntCC::Equal, holds, 0);
        let mut outcome = Ok(());
        self.fault_if(fails, |e| {
            let none = e.asm.int(0);
            let lane = e.asm.call_own(Function::FirstFalse, &[at, count], Some(types::I64));
            let lane = lane.unwrap_or(none);
            let buffer = e.values_of_lane(values, lane);
            let values = buffer.unwrap_or_else(|error| {
                outcome = Err(error);
                none
            });
            (site, lane, values)
        });
        outcome
    }

    /// Whether all elements of a mask hold, as a scalar.
    pub(super) fn all(&mut self, mask: Value, len: usize) -> Result<ir::Value> {
        if let Repr::Scalar(scalar) = *self.repr(mask)? {
            return Ok(scalar);
        }
        let (at, count) = (self.array(mask, len)?, self.asm.int(len as i64));
        let (all, one) = (self.asm.stack(8), self.asm.int(1));
        self.call(PrimitiveKey::Reduce(ReduceOp::And, Scalar::Bool), &[all, at, one, count, one])?;
        Ok(self.asm.load(types::I8, all, 0))
    }

    /// `Print`: once for scalars. After the lockstep rewrite the first operand is a mask with an
    /// element for each lane, and every lane prints where it is not 0.
    pub(super) fn print(&mut self, data: &OpData, message: Message) -> Result<()> {
        let mask = data.shown().first().filter(|&&v| self.lockstep.is_some() && self.is_lane_mask(v));
        let values = &data.shown()[mask.is_some() as usize..];
        let elems = values.iter().map(|&v| self.kernel.ty(v).elem()).collect();
        let site = self.site(SiteKind::Print(message, elems));
        let zero = self.asm.int(0);
        let Some(&mask) = mask else {
            let buffer = self.values_of_lane(values, zero)?;
            self.report(site, zero, buffer);
            return Ok(());
        };
        let len = self.len(mask);
        let mask = self.array(mask, len)?;
        let (turn, params) = self.asm.block(&[types::I64]);
        let [prints, next, rest] = [(); 3].map(|()| self.asm.block(&[]).0);
        self.asm.jump(turn, &[zero]);
        self.asm.enter(turn);
        let lane = params[0];
        let at = self.asm.add(mask, lane);
        let active = self.asm.load(types::I8, at, 0);
        self.asm.branch(active, prints, next);
        self.asm.enter(prints);
        let buffer = self.values_of_lane(values, lane)?;
        self.report(site, lane, buffer);
        self.asm.jump(next, &[]);
        self.asm.enter(next);
        let following = self.asm.add_const(lane, 1);
        let more = self.asm.fb.ins().icmp_imm_s(IntCC::UnsignedLessThan, following, len as i64);
        self.asm.fb.ins().brif(more, turn, &[following.into()], rest, &[]);
        self.asm.enter(rest);
        Ok(())
    }

    fn is_lane_mask(&self, value: Value) -> bool {
        let ty = self.kernel.ty(value);
        ty.elem() == Scalar::Bool && !ty.is_scalar()
    }

    /// The address of the values' bits, 8 bytes each; of a tile, the element of the lane.
    fn values_of_lane(&mut self, values: &[Value], lane: ir::Value) -> Result<ir::Value> {
        let buffer = self.asm.stack(8 * values.len().max(1));
        for (index, &value) in values.iter().enumerate() {
            let elem = self.kernel.ty(value).elem();
            let scalar = match *self.repr(value)? {
                Repr::Scalar(scalar) => scalar,
                Repr::Tile(tile) => {
                    let offset = self.asm.mul_const(lane, elem.bytes().into());
                    let at = self.asm.add(tile.at, offset);
                    self.asm.load(scalar_type(elem), at, 0)
                }
                Repr::Affine(_) | Repr::Condition(_) => {
                    let tile = self.array(value, self.len(value))?;
                    let offset = self.asm.mul_const(lane, elem.bytes().into());
                    let at = self.asm.add(tile, offset);
                    self.asm.load(scalar_type(elem), at, 0)
                }
                Repr::View(_) | Repr::Matrix(_) => return Err(self.internal("no tile as a reported value")),
            };
            let bits = self.asm.bits(scalar);
            self.asm.store(bits, buffer, 8 * index as i32);
        }
        Ok(buffer)
    }
}
