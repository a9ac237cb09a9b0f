//! Operations on each element by itself, and changes of shape, which only rename registers.

use super::layouts::LayoutId;
use super::roles::Role;
use super::{Lowering, Registers};
use crate::error::CompileError;
use kiln_ir::{Op, OpData, OpKind, Scalar, Shape, Value};
use smallvec::{SmallVec, smallvec};

impl Lowering<'_> {
    /// The layouts in which to make a result.
    fn made(&self, result: Value) -> SmallVec<[LayoutId; 2]> {
        match self.plan.roles[result.index()] {
            Role::Rematerializable | Role::View => self.plan.wanted(result),
            _ => smallvec![self.plan.home(result)],
        }
    }

    /// One value in every register.
    pub(super) fn splat(&mut self, result: Value, value: Value) {
        for layout in self.made(result) {
            let count = self.plan.layout(layout).registers();
            self.tiles[result.index()].push((layout, vec![value; count].into()));
        }
    }

    pub(super) fn iota(&mut self, data: &OpData) {
        let elem = self.src.ty(data.results[0]).elem();
        for id in self.made(data.results[0]) {
            let layout = self.layout(id);
            let thread = self.em.linear(&layout.thread());
            let thread = self.em.hoisted(|e| e.cast(thread, elem));
            let registers: Vec<Value> = (0..layout.registers())
                .map(|r| {
                    let step = self.em.int(elem, layout.register_index(r).into());
                    self.em.add(thread, step)
                })
                .collect();
            self.tiles[data.results[0].index()].push((id, registers.into()));
        }
    }

    pub(super) fn elementwise(&mut self, data: &OpData) -> Result<(), CompileError> {
        for layout in self.made(data.results[0]) {
            let operands: SmallVec<[Registers; 3]> =
                data.operands.iter().map(|&v| self.operand(v, layout)).collect::<Result<_, _>>()?;
            let checked = self.check_divisors(data, &operands);
            let count = self.plan.layout(layout).registers();
            let mut made: Vec<Value> = Vec::with_capacity(count);
            for r in 0..count {
                let value = match twin(&operands, r) {
                    Some(earlier) => made[earlier],
                    None => {
                        let inputs: SmallVec<[Value; 3]> = operands.iter().map(|o| o[r]).collect();
                        self.element(data, &inputs, checked)
                    }
                };
                made.push(value);
            }
            self.defer_found(data.results[0]);
            if self.plan.roles[data.results[0].index()] == Role::Materialized {
                self.define(data.results[0], layout, made)?;
            } else {
                self.tiles[data.results[0].index()].push((layout, made.into()));
            }
        }
        Ok(())
    }

    /// The operation on one element, whose divisor may have been `checked`.
    fn element(&mut self, data: &OpData, inputs: &[Value], checked: bool) -> Value {
        let elem = self.src.ty(data.results[0]).elem();
        if let OpKind::Binary(op) = data.kind {
            let mut divisor = inputs[1];
            if data.kind.divides() && elem.is_int() && !checked && self.facts.of(data.right()).min <= 0 {
                divisor = self.check_divisor(divisor, elem);
            }
            self.em.binary(op, inputs[0], divisor)
        } else if data.kind == OpKind::Cast {
            self.em.cast(inputs[0], elem)
        } else {
            self.em.one(data.kind.clone(), inputs, elem)
        }
    }

    /// The fault of a division by zero, unless the divisor is a constant; gives what to divide by.
    fn check_divisor(&mut self, divisor: Value, elem: Scalar) -> Value {
        let Some(fine) = self.is_divisor(divisor, elem) else { return divisor };
        if let Some(harmless) = self.harmless_divisor(divisor, fine) {
            return harmless;
        }
        self.em.op(OpKind::CheckDivisor, &[fine], &[]);
        divisor
    }

    /// Broadcast, reshape and transpose: each result register is the operand register with the same
    /// element.
    pub(super) fn reshape(&mut self, data: &OpData) -> Result<(), CompileError> {
        let (operand, result) = (data.input(), data.results[0]);
        let (from, to) = (self.src.shape(operand), self.src.shape(result));
        for id in self.made(result) {
            let before = self.plan.before(self.src, data, id);
            let source = self.operand(operand, before)?;
            let (layout, under) = (self.layout(id), self.layout(before));
            let registers = (0..layout.registers())
                .map(|r| {
                    let flat = layout.register_index(r);
                    source[under.find_register(source_index(&data.kind, flat, &from, &to))]
                })
                .collect();
            if self.plan.roles[result.index()] == Role::Materialized {
                self.define(result, id, registers)?;
            } else {
                self.tiles[result.index()].push((id, registers.into()));
            }
        }
        Ok(())
    }

    /// A tile's assertion holds where it holds for all elements of a thread.
    pub(super) fn assert(&mut self, op: Op, data: &OpData) -> Result<(), CompileError> {
        let OpKind::Assert(message) = data.kind else { return Ok(()) };
        let layout = self.plan.input(op, 0);
        let conditions = self.operand(data.condition(), layout)?;
        let mut all = conditions[0];
        for (r, &condition) in conditions.iter().enumerate().skip(1) {
            if !conditions[..r].contains(&condition) {
                all = self.em.and(all, condition);
            }
        }
        let mut operands = self.scalars(data.shown())?;
        operands.insert(0, all);
        self.check_assert(data, message, &operands);
        Ok(())
    }

    /// A program prints once: thread 0 does.
    pub(super) fn print(&mut self, data: &OpData) -> Result<(), CompileError> {
        let OpKind::Print(message) = data.kind else { return Ok(()) };
        let operands = self.scalars(&data.operands)?;
        let copies = self.plan.layout(LayoutId::SCALAR).copies();
        let first = if self.per_thread { None } else { self.em.thread_is_first(copies) };
        match first {
            None => {
                self.em.op(OpKind::Print(message), &operands, &[]);
            }
            Some(first) => {
                let print = |lowering: &mut Self| {
                    lowering.em.op(OpKind::Print(message), &operands, &[]);
                    Ok(Vec::new())
                };
                self.branch(first, &[], print, |_| Ok(Vec::new()))?;
            }
        }
        Ok(())
    }
}

/// An earlier register with the same operands: where a tile is broadcast, elements that differ only
/// along the stretched axis are computed once.
fn twin(operands: &[Registers], r: usize) -> Option<usize> {
    (0..usize::BITS - r.leading_zeros())
        .map(|bit| r & !(1 << bit))
        .find(|&earlier| earlier != r && operands.iter().all(|o| o[earlier] == o[r]))
}

/// The flat index in the operand of an element of the result.
fn source_index(kind: &OpKind, flat: u32, from: &Shape, to: &Shape) -> u32 {
    use crate::layout::AxisBits;
    let moved = |axes: &mut dyn Iterator<Item = (usize, usize)>| {
        axes.map(|(a, b)| AxisBits::of(to, a).coordinate(flat) << AxisBits::of(from, b).shift).sum()
    };
    if let OpKind::Transpose(perm) = kind {
        moved(&mut (0..to.rank()).map(|a| (a, perm[a] as usize)))
    } else if *kind == OpKind::Broadcast {
        let stays = |a: &usize| from.rank() > 0 && from[*a] == to[*a];
        moved(&mut (0..to.rank()).filter(stays).map(|a| (a, a)))
    } else {
        flat
    }
}
