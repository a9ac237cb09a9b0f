//! Numbers that are affine functions of a lane's place in its block: thread indices, and what sums
//! and products with uniform numbers make of them.

use super::asm::Asm;
use crate::spmd::LaneSpace;
use cranelift_codegen::ir::{self, InstBuilder};
use kiln_ir::Axis;

/// The largest step of a number from one lane to the next: sums of 1024 of them do not overflow.
pub(super) const LONGEST_STEP: i64 = 1 << 31;

/// A 64-bit number that all lanes share, which wraps: a value of the code, if any, and a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Uniform {
    pub(super) value: Option<ir::Value>,
    pub(super) constant: i64,
}

/// `base + steps[0] * x + steps[1] * y + steps[2] * z` in the lane at x, y and z, modulo 2^64.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Affine {
    pub(super) base: Uniform,
    pub(super) steps: [Uniform; 3],
}

impl Uniform {
    pub(super) const ZERO: Uniform = Uniform::constant(0);

    pub(super) const fn constant(constant: i64) -> Uniform {
        Uniform { value: None, constant }
    }

    /// The number, if it is known now.
    pub(super) fn known(self) -> Option<i64> {
        self.value.is_none().then_some(self.constant)
    }
}

impl Affine {
    /// A number that is the same in all lanes.
    pub(super) fn uniform(base: Uniform) -> Affine {
        Affine { base, steps: [Uniform::ZERO; 3] }
    }

    /// The index of a thread on an axis.
    pub(super) fn index(space: LaneSpace, axis: Axis) -> Affine {
        let mut index = Affine::uniform(Uniform::ZERO);
        index.steps[space.axis(axis)] = Uniform::constant(1);
        index
    }

    /// The number of a lane.
    pub(super) fn lane(space: LaneSpace) -> Affine {
        let [width, height, _] = space.extents.map(i64::from);
        Affine { base: Uniform::ZERO, steps: [1, width, width * height].map(Uniform::constant) }
    }

    pub(super) fn is_uniform(&self) -> bool {
        self.steps.iter().all(|s| s.known() == Some(0))
    }

    /// Whether the steps that are known are no longer than allowed.
    pub(super) fn has_short_steps(&self) -> bool {
        self.steps.iter().all(|s| s.known().is_none_or(|s| s.unsigned_abs() < LONGEST_STEP as u64))
    }
}

impl Asm<'_> {
    /// A number, as a constant if it is one.
    pub(super) fn uniform(&mut self, value: ir::Value) -> Uniform {
        let dfg = &self.fb.func.dfg;
        let constant = dfg.value_def(value).inst().and_then(|inst| match dfg.insts[inst] {
            ir::InstructionData::UnaryImm { opcode: ir::Opcode::Iconst, imm } => Some(imm.bits()),
            _ => None,
        });
        match constant {
            Some(constant) => Uniform::constant(constant),
            None => Uniform { value: Some(value), constant: 0 },
        }
    }

    pub(super) fn uniform_value(&mut self, number: Uniform) -> ir::Value {
        match number.value {
            Some(value) => self.add_const(value, number.constant),
            None => self.int(number.constant),
        }
    }

    pub(super) fn uniform_add(&mut self, a: Uniform, b: Uniform) -> Uniform {
        let value = match (a.value, b.value) {
            (Some(a), Some(b)) => Some(self.add(a, b)),
            (a, b) => a.or(b),
        };
        Uniform { value, constant: a.constant.wrapping_add(b.constant) }
    }

    pub(super) fn uniform_sub(&mut self, a: Uniform, b: Uniform) -> Uniform {
        let minus = self.uniform_mul(b, Uniform::constant(-1));
        match (a.value, b.value) {
            (Some(x), Some(y)) => {
                let value = Some(self.fb.ins().isub(x, y));
                Uniform { value, constant: a.constant.wrapping_sub(b.constant) }
            }
            _ => self.uniform_add(a, minus),
        }
    }

    pub(super) fn uniform_mul(&mut self, a: Uniform, b: Uniform) -> Uniform {
        match (a.known(), b.known()) {
            (Some(a), Some(b)) => Uniform::constant(a.wrapping_mul(b)),
            (Some(factor), None) => self.scaled(b, factor),
            (None, Some(factor)) => self.scaled(a, factor),
            (None, None) => {
                let (a, b) = (self.uniform_value(a), self.uniform_value(b));
                Uniform { value: Some(self.mul(a, b)), constant: 0 }
            }
        }
    }

    fn scaled(&mut self, number: Uniform, factor: i64) -> Uniform {
        let value = match (number.value, factor) {
            (_, 0) | (None, _) => None,
            (Some(value), -1) => Some(self.fb.ins().ineg(value)),
            (Some(value), _) => Some(self.mul_const(value, factor)),
        };
        Uniform { value, constant: number.constant.wrapping_mul(factor) }
    }

    pub(super) fn affine_add(&mut self, a: Affine, b: Affine) -> Affine {
        let steps = [0, 1, 2].map(|axis| self.uniform_add(a.steps[axis], b.steps[axis]));
        Affine { base: self.uniform_add(a.base, b.base), steps }
    }

    pub(super) fn affine_sub(&mut self, a: Affine, b: Affine) -> Affine {
        let steps = [0, 1, 2].map(|axis| self.uniform_sub(a.steps[axis], b.steps[axis]));
        Affine { base: self.uniform_sub(a.base, b.base), steps }
    }

    pub(super) fn affine_scaled(&mut self, a: Affine, factor: Uniform) -> Affine {
        let steps = a.steps.map(|step| self.uniform_mul(step, factor));
        Affine { base: self.uniform_mul(a.base, factor), steps }
    }

    /// A number at one place on two of the axes: what remains varies along x.
    pub(super) fn affine_row(&mut self, number: Affine, y: ir::Value, z: ir::Value) -> Uniform {
        let mut base = number.base;
        for (step, at) in [(number.steps[1], y), (number.steps[2], z)] {
            let at = self.uniform(at);
            let along = self.uniform_mul(step, at);
            base = self.uniform_add(base, along);
        }
        base
    }
}
