//! What intervals of integers decide: comparisons with one outcome, accesses that cannot leave
//! their view, quotients that need not be 64 bits wide.
//!
//! Besides the intervals themselves, an index is inside a view where it is a loop's variable and
//! the loop ends at the view's extent, or where an `if` around the access or an assertion before it
//! has found it to be less than the extent.

use super::rewrite::{Cursor, Fate, Pass, rewrite};
use crate::lower::facts::{IntFacts, Known};
use kiln_ir::{
    BinaryOp, Block, Bounds, CompareOp, ControlFlow, Def, Kernel, Literal, Op, OpKind, Operand, Scalar, Type,
    Value,
};
use rustc_hash::FxHashMap;

pub(crate) fn run(kernel: &mut Kernel) -> bool {
    let mut finder =
        Finder { kernel, facts: IntFacts::new(kernel), below: Vec::new(), found: FxHashMap::default() };
    finder.block(kernel.body);
    let found = finder.found;
    !found.is_empty() && rewrite(kernel, &mut Apply(found))
}

/// Frees accesses that are surely inside their views from checks; changes nothing else.
pub(crate) fn prove_bounds(kernel: &mut Kernel) {
    let mut finder =
        Finder { kernel, facts: IntFacts::new(kernel), below: Vec::new(), found: FxHashMap::default() };
    finder.block(kernel.body);
    let mut found = finder.found;
    found.retain(|_, decision| matches!(decision, Decision::Trust));
    rewrite(kernel, &mut Apply(found));
}

/// What becomes of an operation.
enum Decision {
    /// Every element of its result is this literal.
    Constant(Literal),
    /// Its result is this operand.
    Keep(Operand),
    /// It is this operation on its first operand and a constant.
    With(BinaryOp, Literal),
    /// It is done in 32 bits without sign.
    Narrow(BinaryOp),
    /// Its bounds need no check.
    Trust,
}

struct Finder<'k> {
    kernel: &'k Kernel,
    facts: IntFacts<'k>,
    /// Pairs of which the first is known to be less than the second where the walk stands.
    below: Vec<(Value, Value)>,
    found: FxHashMap<Op, Decision>,
}

impl Finder<'_> {
    fn block(&mut self, block: Block) {
        let kernel = self.kernel;
        for &op in &kernel.block(block).ops {
            if let Some(decision) = self.decide(op) {
                self.found.insert(op, decision);
            }
            let data = kernel.op(op);
            if matches!(data.kind, OpKind::Assert(_)) {
                // What follows runs only where it holds. In kernels whose threads go on after a
                // fault, accesses without a check take place no more (`lower/deferred_faults.rs`).
                self.assume(data.condition());
            }
            for (at, &region) in data.regions.iter().enumerate() {
                let known = self.below.len();
                match (data.kind.control_flow(), at) {
                    (Some(ControlFlow::If), 0) => self.assume(data.condition()),
                    (Some(ControlFlow::For), _) => {
                        self.below.push((kernel.block(region).args[0], data.for_bounds()[1]));
                    }
                    (Some(ControlFlow::While), 1) => self.assume_condition(data.regions[0], region),
                    (Some(ControlFlow::If | ControlFlow::While), _) => {}
                    (Some(ControlFlow::FaultRegion | ControlFlow::Tasks) | None, _) => {}
                }
                self.block(region);
                self.below.truncate(known);
            }
        }
    }

    /// Adds what follows from a condition.
    fn assume(&mut self, condition: Value) {
        let Some(data) = self.kernel.defining_op(condition) else { return };
        if data.kind == OpKind::Compare(CompareOp::Lt) {
            self.below.push((data.left(), data.right()));
        } else if data.kind == OpKind::Compare(CompareOp::Gt) {
            self.below.push((data.right(), data.left()));
        } else if data.kind == OpKind::Binary(BinaryOp::And) {
            data.operands.iter().for_each(|&v| self.assume(v));
        }
    }

    /// Adds what the condition of a `while` says of the values that the second region begins with.
    fn assume_condition(&mut self, first: Block, second: Block) {
        let kernel = self.kernel;
        let known = self.below.len();
        if let Some(&last) = kernel.block(first).ops.last() {
            self.assume(kernel.op(last).condition());
        }
        let there = |value: Value| match kernel.def(value) {
            Def::Arg(block, i) if block == first => kernel.block(second).args[i as usize],
            _ => value,
        };
        self.below[known..].iter_mut().for_each(|(a, b)| (*a, *b) = (there(*a), there(*b)));
    }

    fn decide(&mut self, op: Op) -> Option<Decision> {
        let data = self.kernel.op(op);
        let integers = data.operands.iter().all(|&v| self.kernel.ty(v).elem().is_int());
        if let OpKind::Compare(kind) = data.kind {
            let [a, b] = [data.left(), data.right()].map(|v| self.facts.of(v));
            let holds = integers.then(|| outcome(kind, a, b)).flatten()?;
            Some(Decision::Constant(Literal::bool(holds)))
        } else if let OpKind::Binary(kind) = data.kind {
            let [a, b] = [data.left(), data.right()].map(|v| self.facts.of(v));
            let elem = self.kernel.ty(data.left()).elem();
            let by = self.kernel.as_const(data.right());
            integers.then(|| arithmetic(kind, elem, a, b, by)).flatten()
        } else if data.kind.bounds().is_some_and(|bounds| bounds != Bounds::Trust) {
            let mut axes = data.coordinates().iter().enumerate();
            axes.all(|(axis, &index)| self.is_inside(data.view(), axis, index)).then_some(Decision::Trust)
        } else {
            None
        }
    }

    fn is_inside(&mut self, view: Value, axis: usize, index: Value) -> bool {
        let known = self.facts.of(index);
        if !known.non_negative() {
            return false;
        }
        known.max < self.facts.extent(view, axis).min
            || self.below.iter().any(|&(small, large)| small == index && self.is_extent(large, view, axis))
    }

    fn is_extent(&self, value: Value, view: Value, axis: usize) -> bool {
        let extent = self.kernel.defining_op(value);
        extent.is_some_and(|data| data.kind == OpKind::Extent(axis as u32) && data.view() == view)
    }
}

/// What a comparison of two intervals always gives.
fn outcome(kind: CompareOp, a: Known, b: Known) -> Option<bool> {
    let less = a.max < b.min;
    let less_or_equal = a.max <= b.min;
    let greater = a.min > b.max;
    let greater_or_equal = a.min >= b.max;
    let decided = |yes: bool, no: bool| if yes { Some(true) } else { no.then_some(false) };
    match kind {
        CompareOp::Lt => decided(less, greater_or_equal),
        CompareOp::Le => decided(less_or_equal, greater),
        CompareOp::Gt => decided(greater, less_or_equal),
        CompareOp::Ge => decided(greater_or_equal, less),
        CompareOp::Eq => decided(false, less || greater),
        CompareOp::Ne => decided(less || greater, false),
    }
}

fn arithmetic(kind: BinaryOp, elem: Scalar, a: Known, b: Known, by: Option<Literal>) -> Option<Decision> {
    let natural = a.non_negative() && b.min > 0;
    // Unsigned powers of two are done already.
    let power = by.filter(|l| natural && l.bits().is_power_of_two());
    let small = |k: Known| k.non_negative() && k.max <= u32::MAX.into();
    match kind {
        BinaryOp::Min if a.max <= b.min => Some(Decision::Keep(Operand::Left)),
        BinaryOp::Min if b.max <= a.min => Some(Decision::Keep(Operand::Right)),
        BinaryOp::Max if a.min >= b.max => Some(Decision::Keep(Operand::Left)),
        BinaryOp::Max if b.min >= a.max => Some(Decision::Keep(Operand::Right)),
        BinaryOp::Rem if natural && a.max < b.min => Some(Decision::Keep(Operand::Left)),
        BinaryOp::Div if natural && a.max < b.min => Some(Decision::Constant(Literal::zero(elem))),
        BinaryOp::Div if let Some(l) = power => {
            Some(Decision::With(BinaryOp::Shr, Literal::from_bits(elem, l.bits().trailing_zeros().into())))
        }
        BinaryOp::Rem if let Some(l) = power => {
            Some(Decision::With(BinaryOp::And, Literal::from_bits(elem, l.bits() - 1)))
        }
        BinaryOp::Div | BinaryOp::Rem if elem.bytes() == 8 && small(a) && small(b) => {
            Some(Decision::Narrow(kind))
        }
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
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
        | BinaryOp::Atan2 => None,
    }
}

struct Apply(FxHashMap<Op, Decision>);

impl Pass for Apply {
    fn leave(&mut self, cx: &mut Cursor<'_>, op: Op) -> Fate {
        let Some(decision) = self.0.remove(&op) else { return Fate::Keep };
        let data = cx.kernel.op(op);
        match decision {
            Decision::Constant(literal) => cx.become_(op, OpKind::Const(literal), &[]),
            Decision::Keep(name) => {
                let result = cx.kernel.result(op);
                let kept = data.operand(name);
                cx.rename(result, kept);
                return Fate::Drop;
            }
            Decision::With(kind, literal) => {
                let left = data.left();
                let constant = cx.constant_like(left, literal);
                cx.become_(op, OpKind::Binary(kind), &[left, constant]);
            }
            Decision::Narrow(kind) => {
                let operands = [data.left(), data.right()];
                let ty = Type::tile(Scalar::U32, cx.kernel.shape(data.left()));
                let [a, b] = operands.map(|v| cx.emit(OpKind::Cast, &[v], ty.clone()));
                let quotient = cx.emit(OpKind::Binary(kind), &[a, b], ty);
                cx.become_(op, OpKind::Cast, &[quotient]);
            }
            Decision::Trust => {
                let (kind, operands) = (trusted(&data.kind), data.operands.to_vec());
                cx.become_(op, kind, &operands);
            }
        }
        Fate::Keep
    }
}

/// The same access without a check; any other operation as it is.
pub(crate) fn trusted(kind: &OpKind) -> OpKind {
    let mut kind = kind.clone();
    if let Some(bounds) = kind.bounds_mut() {
        *bounds = Bounds::Trust;
    }
    kind
}
