//! `if` in a fault region, and fault regions themselves.

use super::Lowering;
use super::region::{End, Outcome};
use kiln_ir::{BinaryOp, Block, CompareOp, Literal, Op, Scalar, Type, Value};

impl Lowering<'_> {
    /// Appends an `if` that holds what can fault.
    pub(super) fn branch(&mut self, op: Op, at: Block, left: Option<Value>) -> Outcome {
        let data = self.kernel.op(op).clone();
        let end = Arm(data.results.iter().map(|&v| self.kernel.ty(v).clone()).collect());
        let arms = [self.kernel.add_block(), self.kernel.add_block()];
        let outcomes = [0, 1].map(|i| {
            let ops = std::mem::take(&mut self.kernel.block_mut(data.regions[i]).ops);
            self.region(&ops, arms[i], left, &end)
        });
        self.loc = data.loc;
        let outcome = self.join(at, data.condition(), arms, outcomes);
        self.hand_on(&data.results, &outcome.values);
        outcome
    }

    /// From here on, these values are those.
    pub(super) fn hand_on(&mut self, from: &[Value], to: &[Value]) {
        from.iter().zip(to).for_each(|(&from, &to)| self.renames.add(from, to));
    }

    /// Appends the body of a fault region; `outer` steps are left to the one around it. Returns
    /// what is left to that one afterwards, and whether that is enough, if it may not be.
    pub(super) fn fault_region(
        &mut self,
        op: Op,
        at: Block,
        outer: Option<Value>,
    ) -> (Option<Value>, Option<Value>) {
        let data = self.kernel.op(op).clone();
        let ops = std::mem::take(&mut self.kernel.block_mut(data.regions[0]).ops);
        let loops = ops.iter().any(|&op| self.takes_steps(op));
        self.loc = data.loc;
        let limit = if loops { self.limit(at, data.budget()) } else { None };
        let start = match (outer.filter(|_| loops), limit) {
            (Some(outer), Some(limit)) => Some(self.at(at).binary(BinaryOp::Min, outer, limit)),
            (outer, limit) => outer.or(limit),
        };
        let record = std::mem::replace(&mut self.record, self.kernel.fault_record(&data));
        let whole = Whole(self.kernel.fault_fallbacks(&data).to_vec());
        let outcome = self.region(&ops, at, start, &whole);
        self.record = record;
        self.loc = data.loc;
        self.hand_on(&data.results[..1], &[outcome.site]);
        self.hand_on(&data.results[1..], &outcome.values);
        let (Some(outer), Some(start), Some(left)) = (outer, start, outcome.left) else {
            return (outer, None);
        };
        let mut b = self.at(at);
        let taken = b.binary(BinaryOp::Sub, start, left);
        let left = b.binary(BinaryOp::Sub, outer, taken);
        let mut fine = self.has_steps(at, left);
        if self.steps_vary && self.fault_regions.concerns_block(op) {
            fine = self.all_of_block(at, fine);
        }
        (Some(left), Some(fine))
    }

    /// The steps that a budget allows; `None` if it surely has no limit.
    fn limit(&mut self, at: Block, budget: Value) -> Option<Value> {
        if let Some(budget) = self.kernel.as_const(budget) {
            let steps = Literal::wrapping(Scalar::I64, budget.as_i128());
            return budget.is_true().then(|| self.at(at).constant(steps));
        }
        let mut b = self.at(at);
        let none = b.constant(Literal::zero(Scalar::U32));
        let endless = b.constant(Literal::index(i64::MAX));
        let unlimited = b.compare(CompareOp::Eq, budget, none);
        let steps = b.cast(budget, Scalar::I64);
        Some(b.select(unlimited, endless, steps))
    }
}

/// The end of an arm of an `if`, whose values have these types.
struct Arm(Vec<Type>);

impl End for Arm {
    fn done(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, values: &[Value]) -> Outcome {
        Outcome { site: l.site_constant(at, 0), left, values: values.to_vec() }
    }

    fn failed(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, site: Value) -> Outcome {
        Outcome { site, left, values: l.zeros(at, &self.0) }
    }
}

/// The end of a fault region with these fallbacks.
struct Whole(Vec<Value>);

impl End for Whole {
    fn done(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, values: &[Value]) -> Outcome {
        Outcome { site: l.site_constant(at, 0), left, values: values.to_vec() }
    }

    fn failed(&self, _: &mut Lowering<'_>, _: Block, left: Option<Value>, site: Value) -> Outcome {
        Outcome { site, left, values: self.0.clone() }
    }
}
