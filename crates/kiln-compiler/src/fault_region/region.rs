//! A list of operations of a fault region, and what becomes of the rest of it after a fault.

use super::Lowering;
use kiln_ir::{BinaryOp, Block, CompareOp, ControlFlow, Literal, Op, OpKind, Scalar, Type, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// So many operations of a list that can fault nest in each other at most; beyond that, the values
/// that are still needed leave the nest.
const NESTED: usize = 24;

/// What a part of a region gives, whether it came to its end or not.
pub(super) struct Outcome {
    /// 0, or the site of the fault.
    pub site: Value,
    /// How many steps are left, if they are counted.
    pub left: Option<Value>,
    /// Of what the region hands on; meaningless after a fault, except in the body of a fault region
    /// or a loop.
    pub values: Vec<Value>,
}

impl Outcome {
    pub fn to_vec(&self) -> Vec<Value> {
        [self.site].into_iter().chain(self.left).chain(self.values.iter().copied()).collect()
    }

    /// As `to_vec` gave it.
    pub fn of(all: &[Value], counted: bool) -> Outcome {
        let (head, values) = all.split_at(1 + counted as usize);
        Outcome { site: head[0], left: head.get(1).copied(), values: values.to_vec() }
    }
}

/// What stands at the end of a list of operations.
pub(super) trait End {
    /// The outcome where the end is reached with these values.
    fn done(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, values: &[Value]) -> Outcome;
    /// The outcome where a fault ended it.
    fn failed(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, site: Value) -> Outcome;
}

/// The site of a fault.
#[derive(Clone, Copy)]
pub(super) enum Site {
    Number(u32),
    Value(Value),
    /// The number of an operation that is checked here.
    Check {
        number: u32,
        check: Check,
    },
}

/// A check of an operation.
#[derive(Clone, Copy)]
pub(super) struct Check {
    pub op: Op,
    /// Whether this thread's own check holds, where a fault of any thread ends all of them.
    pub own: Option<Value>,
}

impl Lowering<'_> {
    /// Appends operations to a block; the outcome's values exist there.
    pub(super) fn region(&mut self, ops: &[Op], at: Block, left: Option<Value>, end: &dyn End) -> Outcome {
        if self.nest(ops, left.is_some()).is_none() {
            return self.straight(ops, at, left, end);
        }
        // Views cannot leave the nest.
        let (allocations, ops): (Vec<Op>, Vec<Op>) =
            ops.iter().partition(|&&op| matches!(self.kernel.op(op).kind, OpKind::Alloc { .. }));
        allocations.into_iter().for_each(|op| self.push(at, op));
        let cut = self.nest(&ops, left.is_some()).unwrap_or(ops.len());
        let (first, rest) = ops.split_at(cut);
        let needed = self.needed(first, rest);
        let outcome = self.straight(first, at, left, &Handing(needed.clone()));
        let handed: FxHashMap<Value, Value> =
            needed.into_iter().zip(outcome.values.iter().copied()).collect();
        rest.iter().for_each(|&op| self.replace(op, &handed));
        let fine = self.is_fine(at, outcome.site);
        self.split(at, fine, Site::Value(outcome.site), None, rest, outcome.left, end)
    }

    /// Where a list is to be cut, if more of its operations than may nest can fault.
    fn nest(&self, ops: &[Op], counted: bool) -> Option<usize> {
        let sources = ops.iter().enumerate().filter(|&(_, &op)| self.can_fault(op, counted));
        sources.map(|(i, _)| i).nth(NESTED)
    }

    fn straight(&mut self, ops: &[Op], at: Block, left: Option<Value>, end: &dyn End) -> Outcome {
        let mut left = left;
        for (i, &op) in ops.iter().enumerate() {
            let rest = &ops[i + 1..];
            let (kind, loc) = (self.kernel.op(op).kind.clone(), self.kernel.op(op).loc);
            self.loc = loc;
            if kind.is_terminator() {
                let values = self.kernel.op(op).operands.to_vec();
                return end.done(self, at, left, &values);
            }
            if self.site(op) != 0 {
                if let Some((fine, own)) = self.does_not_fault(op, at) {
                    let site = Site::Check { number: self.site(op), check: Check { op, own } };
                    let op = self.without_check(op);
                    return self.split(at, fine, site, op, rest, left, end);
                }
                if let Some(op) = self.without_check(op) {
                    self.push(at, op);
                }
                continue;
            }
            if kind == OpKind::FaultRegion {
                let (outer, fine) = self.fault_region(op, at, left);
                left = outer;
                if let Some(fine) = fine {
                    let site = Site::Number(kiln_ir::BUDGET_EXCEEDED);
                    return self.split(at, fine, site, None, rest, left, end);
                }
                continue;
            }
            if !self.can_fault(op, left.is_some()) {
                for region in self.kernel.op(op).regions.clone() {
                    self.lower_block(region);
                }
                self.push(at, op);
                continue;
            }
            let steps = left.filter(|_| self.takes_steps(op));
            let outcome = match kind.control_flow() {
                Some(ControlFlow::If) => self.branch(op, at, steps),
                Some(ControlFlow::For) => self.counted_loop(op, at, steps),
                // A fault region was dealt with above, tasks hold none, and what holds nothing is a
                // check.
                Some(ControlFlow::While | ControlFlow::FaultRegion | ControlFlow::Tasks) | None => {
                    self.while_loop(op, at, steps)
                }
            };
            left = outcome.left.or(left);
            let site = self.agreed_site(op, at, outcome.site);
            let fine = self.is_fine(at, site);
            return self.split(at, fine, Site::Value(site), None, rest, left, end);
        }
        end.done(self, at, left, &[])
    }

    /// Appends an `if` on `fine`, with `op` and the rest of a list in the arm where it holds.
    #[allow(clippy::too_many_arguments)]
    fn split(
        &mut self,
        at: Block,
        fine: Value,
        site: Site,
        op: Option<Op>,
        rest: &[Op],
        left: Option<Value>,
        end: &dyn End,
    ) -> Outcome {
        let loc = self.loc;
        let arms = [self.kernel.add_block(), self.kernel.add_block()];
        op.into_iter().for_each(|op| self.push(arms[0], op));
        let done = self.region(rest, arms[0], left, end);
        self.loc = loc;
        let site = match site {
            Site::Number(number) => self.site_constant(arms[1], number),
            Site::Value(site) => site,
            Site::Check { number, check } => {
                self.record_fault(arms[1], number, check);
                self.site_constant(arms[1], number)
            }
        };
        let failed = end.failed(self, arms[1], left, site);
        self.join(at, fine, arms, [done, failed])
    }

    /// Appends an `if` whose arms have these outcomes.
    pub(super) fn join(
        &mut self,
        at: Block,
        cond: Value,
        arms: [Block; 2],
        outcomes: [Outcome; 2],
    ) -> Outcome {
        for (&arm, outcome) in arms.iter().zip(&outcomes) {
            self.at(arm).yield_(&outcome.to_vec());
        }
        let types: Vec<Type> = outcomes[0].to_vec().into_iter().map(|v| self.kernel.ty(v).clone()).collect();
        let op = self.kernel.append(at, OpKind::If, &[cond], &types, &arms, self.loc);
        Outcome::of(&self.kernel.op(op).results, outcomes[0].left.is_some())
    }

    /// Whether a site says that there was no fault.
    pub(super) fn is_fine(&mut self, at: Block, site: Value) -> Value {
        let zero = self.site_constant(at, 0);
        self.at(at).compare(CompareOp::Eq, site, zero)
    }

    /// Whether an operation may end the innermost fault region around it.
    pub(super) fn can_fault(&self, op: Op, counted: bool) -> bool {
        let data = self.kernel.op(op);
        let inside = || data.regions.iter().flat_map(|&r| &self.kernel.block(r).ops);
        match data.kind.control_flow() {
            Some(ControlFlow::For | ControlFlow::While) if counted => true,
            Some(ControlFlow::FaultRegion) => counted && inside().any(|&op| self.takes_steps(op)),
            Some(ControlFlow::If | ControlFlow::For | ControlFlow::While | ControlFlow::Tasks) | None => {
                self.site(op) != 0 || inside().any(|&op| self.can_fault(op, counted))
            }
        }
    }

    /// Whether an operation is or holds a loop.
    pub(super) fn takes_steps(&self, op: Op) -> bool {
        let data = self.kernel.op(op);
        let inside = || data.regions.iter().flat_map(|&r| &self.kernel.block(r).ops);
        matches!(data.kind, OpKind::For | OpKind::While) || inside().any(|&op| self.takes_steps(op))
    }

    /// Results of some operations that later ones use.
    fn needed(&self, first: &[Op], rest: &[Op]) -> Vec<Value> {
        let mut used = FxHashSet::default();
        rest.iter().for_each(|&op| self.uses(op, &mut |v| used.extend([v])));
        let results = first.iter().flat_map(|&op| self.kernel.op(op).results.iter().copied());
        results.filter(|v| used.contains(v)).collect()
    }

    fn uses(&self, op: Op, visit: &mut dyn FnMut(Value)) {
        let data = self.kernel.op(op);
        data.operands.iter().for_each(|&v| visit(v));
        data.regions.iter().flat_map(|&r| &self.kernel.block(r).ops).for_each(|&op| self.uses(op, visit));
    }

    /// Renames values in an operation and all it holds, now.
    fn replace(&mut self, op: Op, by: &FxHashMap<Value, Value>) {
        for operand in &mut self.kernel.op_mut(op).operands {
            *operand = by.get(operand).copied().unwrap_or(*operand);
        }
        for region in self.kernel.op(op).regions.clone() {
            for op in self.kernel.block(region).ops.clone() {
                self.replace(op, by);
            }
        }
    }

    /// Zeros of these types: values that nothing sees.
    pub(super) fn zeros(&mut self, at: Block, types: &[Type]) -> Vec<Value> {
        let zero = |ty: &Type| {
            let kind = OpKind::Const(Literal::zero(ty.elem()));
            let op = self.kernel.append(at, kind, &[], std::slice::from_ref(ty), &[], self.loc);
            self.kernel.result(op)
        };
        types.iter().map(zero).collect()
    }

    /// Takes a step at the end of a round: whether there was one left, how many there are then, and
    /// the site if not.
    pub(super) fn take_step(&mut self, op: Op, at: Block, left: Value) -> (Value, Value, Value) {
        let agree = self.steps_vary && self.fault_regions.rounds_concern_block(op);
        let mut b = self.at(at);
        let one = b.constant(Literal::one(Scalar::I64));
        let left = b.binary(BinaryOp::Sub, left, one);
        let mut fine = self.has_steps(at, left);
        if agree {
            fine = self.all_of_block(at, fine);
        }
        (fine, left, self.exceeded_unless(at, fine))
    }

    /// Whether no more steps were taken than there were.
    pub(super) fn has_steps(&mut self, at: Block, left: Value) -> Value {
        let mut b = self.at(at);
        let zero = b.constant(Literal::zero(Scalar::I64));
        b.compare(CompareOp::Ge, left, zero)
    }

    /// The site that says so.
    pub(super) fn exceeded_unless(&mut self, at: Block, fine: Value) -> Value {
        let none = self.site_constant(at, 0);
        let exceeded = self.site_constant(at, kiln_ir::BUDGET_EXCEEDED);
        self.at(at).select(fine, none, exceeded)
    }
}

/// The end of a list that was cut: these of its values are still needed.
struct Handing(Vec<Value>);

impl End for Handing {
    fn done(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, _: &[Value]) -> Outcome {
        Outcome { site: l.site_constant(at, 0), left, values: self.0.clone() }
    }

    fn failed(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, site: Value) -> Outcome {
        let types: Vec<Type> = self.0.iter().map(|&v| l.kernel.ty(v).clone()).collect();
        Outcome { site, left, values: l.zeros(at, &types) }
    }
}
