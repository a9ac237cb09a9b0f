//! The boxes of lanes in which conditions on affine numbers hold.

use super::affine::{Affine, LONGEST_STEP, Uniform};
use super::condition::{Condition, Term};
use super::emitter::Emitter;
use crate::spmd::LaneSpace;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use kiln_ir::CompareOp;

/// What numbers are below in magnitude wherever differences of them are taken.
const REGULAR: i64 = 1 << 61;
/// The lanes from `from` to below `to` on each axis; none if an axis has none.
#[derive(Clone, Copy)]
pub(super) struct LaneBox {
    pub(super) from: [Uniform; 3],
    pub(super) to: [Uniform; 3],
}

impl LaneBox {
    pub(super) fn whole(space: LaneSpace) -> LaneBox {
        let to = space.extents.map(|extent| Uniform::constant(extent.into()));
        LaneBox { from: [Uniform::ZERO; 3], to }
    }

    /// How many places it has on an axis, if that is known now.
    pub(super) fn count(&self, axis: usize) -> Option<i64> {
        Some(self.to[axis].known()?.checked_sub(self.from[axis].known()?)?.max(0))
    }

    /// Whether it is known now which lanes are in it.
    pub(super) fn is_known(&self) -> bool {
        self.from.iter().chain(&self.to).all(|bound| bound.known().is_some())
    }
}

impl Emitter<'_> {
    /// The box of lanes in which a condition holds. Notes in `valid` when it is no box.
    pub(super) fn box_of_lanes(
        &mut self,
        condition: &Condition,
        valid: &mut Requirements,
    ) -> Option<LaneBox> {
        let space = self.space?;
        let mut lanes = LaneBox::whole(space);
        for term in &condition.terms {
            self.keep(&mut lanes, term, space, valid);
        }
        for &gate in &condition.gates {
            self.close_unless(&mut lanes, gate);
        }
        if !condition.inverted {
            return Some(lanes);
        }
        // What is outside of a box is one if the box is everything or nothing.
        let (all, none) = (self.is_whole(&lanes, space), self.is_empty(&lanes));
        let either = self.asm.fb.ins().bor(all, none);
        valid.add(self, either);
        let mut outside = LaneBox::whole(space);
        self.close_unless(&mut outside, none);
        Some(outside)
    }

    /// Keeps the lanes of a box in which a term holds.
    fn keep(&mut self, lanes: &mut LaneBox, term: &Term, space: LaneSpace, valid: &mut Requirements) {
        for base in [term.left.base, term.right.base] {
            self.require_regular(base, valid);
        }
        let difference = self.asm.affine_sub(term.left, term.right);
        let moving = (0..3).filter(|&axis| space.extents[axis] > 1);
        let moving: Vec<usize> = moving.filter(|&a| difference.steps[a].known() != Some(0)).collect();
        let by_one = |axis: usize| difference.steps[axis].known().is_some_and(|s| s.abs() == 1);
        if let [axis] = moving[..]
            && by_one(axis)
            && term.op != CompareOp::Ne
        {
            self.cut(lanes, axis, term.op, &difference);
            return;
        }
        // Only if all lanes agree: then its truth is known at once.
        let [least, greatest] = self.limits(&difference, &LaneBox::whole(space), valid);
        let (always, never) = self.truths(term.op, least, greatest);
        let agree = self.asm.fb.ins().bor(always, never);
        valid.add(self, agree);
        self.close_unless(lanes, always);
    }

    /// Keeps the places on an axis where `base ± place` compares with 0.
    fn cut(&mut self, lanes: &mut LaneBox, axis: usize, op: CompareOp, difference: &Affine) {
        let falls = difference.steps[axis].known() == Some(-1);
        let (bound, op) = match falls {
            // `base - place < 0` is `place > base`.
            true => (difference.base, with_exchanged_operands(op)),
            false => (self.asm.uniform_mul(difference.base, Uniform::constant(-1)), op),
        };
        let after = self.asm.uniform_add(bound, Uniform::constant(1));
        let (from, to) = match op {
            CompareOp::Lt => (None, Some(bound)),
            CompareOp::Le => (None, Some(after)),
            CompareOp::Gt => (Some(after), None),
            CompareOp::Ge => (Some(bound), None),
            CompareOp::Eq | CompareOp::Ne => (Some(bound), Some(after)),
        };
        if let Some(from) = from {
            lanes.from[axis] = self.extreme(lanes.from[axis], from, true);
        }
        if let Some(to) = to {
            lanes.to[axis] = self.extreme(lanes.to[axis], to, false);
        }
    }

    fn extreme(&mut self, a: Uniform, b: Uniform, greater: bool) -> Uniform {
        if let (Some(a), Some(b)) = (a.known(), b.known()) {
            return Uniform::constant(if greater { a.max(b) } else { a.min(b) });
        }
        let (a, b) = (self.asm.uniform_value(a), self.asm.uniform_value(b));
        let ins = self.asm.fb.ins();
        let value = if greater { ins.smax(a, b) } else { ins.smin(a, b) };
        Uniform { value: Some(value), constant: 0 }
    }

    /// Empties a box unless a flag is set.
    fn close_unless(&mut self, lanes: &mut LaneBox, open: ir::Value) {
        let (from, to) = (self.asm.uniform_value(lanes.from[0]), self.asm.uniform_value(lanes.to[0]));
        let to = self.asm.fb.ins().select(open, to, from);
        lanes.to[0] = Uniform { value: Some(to), constant: 0 };
    }

    /// Whether a comparison of a number with 0 holds for all numbers between two, and for none.
    fn truths(&mut self, op: CompareOp, least: ir::Value, greatest: ir::Value) -> (ir::Value, ir::Value) {
        let mut compare = |cc, number| self.asm.fb.ins().icmp_imm_s(cc, number, 0);
        use IntCC::*;
        match op {
            CompareOp::Lt => (compare(SignedLessThan, greatest), compare(SignedGreaterThanOrEqual, least)),
            CompareOp::Ge => (compare(SignedGreaterThanOrEqual, least), compare(SignedLessThan, greatest)),
            CompareOp::Le => (compare(SignedLessThanOrEqual, greatest), compare(SignedGreaterThan, least)),
            CompareOp::Gt => (compare(SignedGreaterThan, least), compare(SignedLessThanOrEqual, greatest)),
            CompareOp::Eq | CompareOp::Ne => {
                let (low, high) = (compare(Equal, least), compare(Equal, greatest));
                let (above, below) = (compare(SignedGreaterThan, least), compare(SignedLessThan, greatest));
                let zero = self.asm.and(low, high);
                let other = self.asm.fb.ins().bor(above, below);
                if op == CompareOp::Eq { (zero, other) } else { (other, zero) }
            }
        }
    }

    /// The least and the greatest of an affine number in a box that is not empty. Notes in `valid`
    /// when the steps are not as short as that takes.
    pub(super) fn limits(
        &mut self,
        number: &Affine,
        lanes: &LaneBox,
        valid: &mut Requirements,
    ) -> [ir::Value; 2] {
        let [mut least, mut greatest] = [number.base; 2];
        for axis in 0..3 {
            let step = number.steps[axis];
            if step.known() == Some(0) {
                continue;
            }
            if step.known().is_none() {
                let step = self.asm.uniform_value(step);
                let short = self.asm.fb.ins().icmp_imm_u(IntCC::UnsignedLessThan, step, LONGEST_STEP);
                valid.add(self, short);
            }
            let last = self.asm.uniform_add(lanes.to[axis], Uniform::constant(-1));
            let ends = [lanes.from[axis], last].map(|end| self.asm.uniform_mul(step, end));
            let [low, high] = if step.known().is_some_and(|s| s < 0) { [ends[1], ends[0]] } else { ends };
            least = self.asm.uniform_add(least, low);
            greatest = self.asm.uniform_add(greatest, high);
        }
        [least, greatest].map(|end| self.asm.uniform_value(end))
    }

    /// Differences of the number with others that are regular do not overflow.
    fn require_regular(&mut self, base: Uniform, valid: &mut Requirements) {
        if base.known().is_some_and(|base| base.unsigned_abs() < REGULAR as u64) {
            return;
        }
        let base = self.asm.uniform_value(base);
        let shifted = self.asm.add_const(base, REGULAR);
        let regular = self.asm.fb.ins().icmp_imm_u(IntCC::UnsignedLessThan, shifted, 2 * REGULAR);
        valid.add(self, regular);
    }

    fn is_whole(&mut self, lanes: &LaneBox, space: LaneSpace) -> ir::Value {
        let mut whole = self.asm.fb.ins().iconst(types::I8, 1);
        for axis in 0..3 {
            let from = self.asm.uniform_value(lanes.from[axis]);
            let to = self.asm.uniform_value(lanes.to[axis]);
            let begins = self.asm.fb.ins().icmp_imm_s(IntCC::Equal, from, 0);
            let ends = self.asm.fb.ins().icmp_imm_s(IntCC::Equal, to, i64::from(space.extents[axis]));
            whole = self.asm.and(whole, begins);
            whole = self.asm.and(whole, ends);
        }
        whole
    }

    /// Whether there are no lanes in a box.
    pub(super) fn is_empty(&mut self, lanes: &LaneBox) -> ir::Value {
        let mut empty = self.asm.fb.ins().iconst(types::I8, 0);
        for axis in 0..3 {
            let (from, to) = (lanes.from[axis], lanes.to[axis]);
            if from.known().is_some() && to.known().is_some() && from.known() < to.known() {
                continue;
            }
            let (from, to) = (self.asm.uniform_value(from), self.asm.uniform_value(to));
            let none = self.asm.compare(IntCC::SignedGreaterThanOrEqual, from, to);
            empty = self.asm.fb.ins().bor(empty, none);
        }
        empty
    }
}

/// The comparison that says the same of its operands in the other order.
fn with_exchanged_operands(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq | CompareOp::Ne => op,
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Ge => CompareOp::Le,
    }
}

/// What must hold for code that assumes something: flags, of which all are set.
#[derive(Default)]
pub(super) struct Requirements {
    all: Option<ir::Value>,
}

impl Requirements {
    /// Adds a flag.
    pub(super) fn add(&mut self, emitter: &mut Emitter<'_>, flag: ir::Value) {
        self.all = Some(match self.all {
            Some(all) => emitter.asm.and(all, flag),
            None => flag,
        });
    }

    /// Whether all flags are set; nothing if there are none.
    pub(super) fn flag(&self) -> Option<ir::Value> {
        self.all
    }
}
