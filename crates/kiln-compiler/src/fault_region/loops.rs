//! Loops in a fault region: they end with a fault inside, or where no step is left.

use super::Lowering;
use super::region::{End, Outcome};
use kiln_ir::{BinaryOp, Block, CompareOp, Kernel, Literal, Op, OpData, OpKind, Scalar, Type, Value};

impl Lowering<'_> {
    /// Appends a `for` that may be ended: a `while` that carries whether there is another round,
    /// and the loop variable.
    pub(super) fn counted_loop(&mut self, op: Op, at: Block, left: Option<Value>) -> Outcome {
        let data = self.kernel.op(op).clone();
        if let (Some(left), true) = (left, self.only_counts(op)) {
            return self.bounded_loop(&data, at, left);
        }
        let [lo, hi, step] = data.for_bounds();
        let mut b = self.at(at);
        let mut more = b.compare(CompareOp::Lt, lo, hi);
        let known = b.kernel.as_const(step).map(|s| s.as_i128() > 0);
        if known != Some(true) {
            let zero = b.constant(Literal::zero(b.kernel.ty(step).elem()));
            let forward = b.compare(CompareOp::Gt, step, zero);
            more = b.binary(BinaryOp::And, more, forward);
        }
        let site = self.site_constant(at, 0);
        let values = [more, lo].into_iter().chain(data.inits().iter().copied()).collect();
        let inits = Outcome { site, left, values }.to_vec();
        let [test, body] = [self.round(&inits), self.round(&inits)];
        let args = self.kernel.block(body).args.to_vec();
        let round = Outcome::of(&args, left.is_some());

        let more = Outcome::of(&self.kernel.block(test).args, left.is_some()).values[0];
        self.at(test).op(OpKind::Condition, &[more], &[]);
        self.hand_on(&self.kernel.block(data.regions[0]).args.clone(), &round.values[1..]);
        let ops = std::mem::take(&mut self.kernel.block_mut(data.regions[0]).ops);
        let end = Round { op, iv: round.values[1], hi, step, carried: round.values[2..].to_vec() };
        let outcome = self.region(&ops, body, round.left, &end);
        self.loc = data.loc;
        self.at(body).yield_(&outcome.to_vec());
        let outcome = self.append_while(at, &inits, [test, body], left.is_some());
        self.hand_on(&data.results, &outcome.values[2..]);
        outcome
    }

    /// Whether a `for` by 1 does nothing but take a step in each round, so that it is known before
    /// how many there are.
    fn only_counts(&self, op: Op) -> bool {
        let data = self.kernel.op(op);
        let one = self.kernel.as_const(data.for_bounds()[2]).is_some_and(|s| s.as_i128() == 1);
        one && self.only_steps(op, data.regions[0])
    }

    /// Appends a `for` by 1 that takes its steps beforehand: if there are too few, it ends after
    /// one round more than there are.
    fn bounded_loop(&mut self, data: &OpData, at: Block, left: Value) -> Outcome {
        for region in &data.regions {
            self.lower_block(*region);
        }
        let [lo, hi, _] = data.for_bounds();
        let mut b = self.at(at);
        let elem = b.kernel.ty(lo).elem();
        let none = b.constant(Literal::zero(Scalar::U64));
        let some = b.compare(CompareOp::Lt, lo, hi);
        let distance = b.binary(BinaryOp::Sub, hi, lo);
        let distance = if elem == Scalar::I32 { b.cast(distance, Scalar::U32) } else { distance };
        let distance = b.cast(distance, Scalar::U64);
        let rounds = b.select(some, distance, none);
        let steps = b.cast(left, Scalar::U64);
        let fine = b.compare(CompareOp::Le, rounds, steps);

        let one = b.constant(Literal::one(Scalar::I64));
        let reach = b.binary(BinaryOp::Add, left, one);
        let reach = b.cast(reach, elem);
        let end = b.binary(BinaryOp::Add, lo, reach);
        let hi = b.select(fine, hi, end);
        let taken = b.cast(rounds, Scalar::I64);
        let left = b.binary(BinaryOp::Sub, left, taken);
        let below = b.constant(Literal::index(-1));
        let left = b.select(fine, left, below);

        let operands = [&[lo, hi, data.for_bounds()[2]], data.inits()].concat();
        let types = types(self.kernel, &data.results);
        let op = self.kernel.append(at, OpKind::For, &operands, &types, &data.regions, data.loc);
        let values = self.kernel.op(op).results.to_vec();
        self.hand_on(&data.results, &values);
        Outcome { site: self.exceeded_unless(at, fine), left: Some(left), values }
    }

    /// Appends a `while` that may be ended.
    pub(super) fn while_loop(&mut self, op: Op, at: Block, left: Option<Value>) -> Outcome {
        let data = self.kernel.op(op).clone();
        let test_ops = &self.kernel.block(data.regions[0]).ops;
        let plain = |&op: &Op| self.kernel.is_pure(op) || self.kernel.op(op).kind.is_terminator();
        let paced = left.filter(|_| self.only_steps(op, data.regions[1]));
        if !test_ops.iter().all(plain) {
            self.loop_with_test(op, &data, at, left)
        } else if let Some(left) = paced {
            self.paced_loop(&data, at, left)
        } else {
            self.tested_loop(op, &data, at, left)
        }
    }

    /// Whether nothing but the steps of the loop itself can end the fault region around in its
    /// body, and each thread by itself.
    fn only_steps(&self, op: Op, body: Block) -> bool {
        let ends = |&op: &Op| self.can_fault(op, true) || self.takes_steps(op);
        let plain = !self.kernel.block(body).ops.iter().any(ends);
        plain && !(self.steps_vary && self.fault_regions.rounds_concern_block(op))
    }

    /// A `while` that only its steps can end: it goes on as long as there are any.
    fn paced_loop(&mut self, data: &OpData, at: Block, left: Value) -> Outcome {
        let inits: Vec<Value> = [left].into_iter().chain(data.operands.iter().copied()).collect();
        let regions = [self.round(&inits), self.round(&inits)];
        let [before, round] = regions.map(|block| self.kernel.block(block).args.to_vec());
        for (&region, args) in data.regions.iter().zip([&before, &round]) {
            self.lower_block(region);
            self.hand_on(&self.kernel.block(region).args.clone(), &args[1..]);
        }
        let [mut test, mut body] =
            [0, 1].map(|i| std::mem::take(&mut self.kernel.block_mut(data.regions[i]).ops));
        let [condition, next] =
            [&mut test, &mut body].map(|ops| ops.pop().map(|op| self.kernel.op(op).operands.to_vec()));
        for (ops, &block) in [test, body].into_iter().zip(&regions) {
            ops.into_iter().for_each(|op| self.push(block, op));
        }
        let fine = self.has_steps(regions[0], before[0]);
        let holds = condition.and_then(|c| c.first().copied()).unwrap_or(fine);
        let mut b = self.at(regions[0]);
        let holds = b.binary(BinaryOp::And, holds, fine);
        b.op(OpKind::Condition, &[holds], &[]);
        let mut b = self.at(regions[1]);
        let one = b.constant(Literal::one(Scalar::I64));
        let fewer = b.binary(BinaryOp::Sub, round[0], one);
        let next: Vec<Value> = [fewer].into_iter().chain(next.unwrap_or_default()).collect();
        b.yield_(&next);

        let types = types(self.kernel, &inits);
        let op = self.kernel.append(at, OpKind::While, &inits, &types, &regions, self.loc);
        let (left, values) = (self.kernel.op(op).results[0], self.kernel.op(op).results[1..].to_vec());
        self.hand_on(&data.results, &values);
        let fine = self.has_steps(at, left);
        let site = self.exceeded_unless(at, fine);
        Outcome { site, left: Some(left), values }
    }

    /// A `while` whose condition does no harm where it is not needed.
    fn tested_loop(&mut self, op: Op, data: &OpData, at: Block, left: Option<Value>) -> Outcome {
        let site = self.site_constant(at, 0);
        let inits = Outcome { site, left, values: data.operands.to_vec() }.to_vec();
        let [test, body] = [self.round(&inits), self.round(&inits)];
        let [before, round] =
            [test, body].map(|block| Outcome::of(&self.kernel.block(block).args, left.is_some()));

        self.hand_on(&self.kernel.block(data.regions[0]).args.clone(), &before.values);
        let mut ops = std::mem::take(&mut self.kernel.block_mut(data.regions[0]).ops);
        let condition = ops.pop();
        ops.into_iter().for_each(|op| self.push(test, op));
        let fine = self.is_fine(test, before.site);
        let holds = condition.and_then(|c| self.kernel.op(c).operands.first().copied()).unwrap_or(fine);
        let mut b = self.at(test);
        let holds = b.binary(BinaryOp::And, holds, fine);
        b.op(OpKind::Condition, &[holds], &[]);

        self.hand_on(&self.kernel.block(data.regions[1]).args.clone(), &round.values);
        let ops = std::mem::take(&mut self.kernel.block_mut(data.regions[1]).ops);
        let outcome = self.region(&ops, body, round.left, &Turn { op, carried: round.values });
        self.loc = data.loc;
        self.at(body).yield_(&outcome.to_vec());
        let outcome = self.append_while(at, &inits, [test, body], left.is_some());
        self.hand_on(&data.results, &outcome.values);
        outcome
    }

    /// A `while` whose condition moves into the body: the loop carries whether it goes on.
    fn loop_with_test(&mut self, op: Op, data: &OpData, at: Block, left: Option<Value>) -> Outcome {
        let site = self.site_constant(at, 0);
        let more = self.at(at).constant(Literal::bool(true));
        let values = [more].into_iter().chain(data.operands.iter().copied()).collect();
        let inits = Outcome { site, left, values }.to_vec();
        let [test, body] = [self.round(&inits), self.round(&inits)];
        let [before, round] =
            [test, body].map(|block| Outcome::of(&self.kernel.block(block).args, left.is_some()));
        self.at(test).op(OpKind::Condition, &before.values[..1], &[]);

        let carried = round.values[1..].to_vec();
        for &region in &data.regions {
            self.hand_on(&self.kernel.block(region).args.clone(), &carried);
        }
        let [ops, then] = [0, 1].map(|i| std::mem::take(&mut self.kernel.block_mut(data.regions[i]).ops));
        let outcome = self.region(&ops, body, round.left, &Test { then, turn: Turn { op, carried } });
        self.loc = data.loc;
        self.at(body).yield_(&outcome.to_vec());
        let outcome = self.append_while(at, &inits, [test, body], left.is_some());
        self.hand_on(&data.results, &outcome.values[1..]);
        outcome
    }

    /// A block whose arguments have the types of these values.
    fn round(&mut self, like: &[Value]) -> Block {
        let block = self.kernel.add_block();
        for ty in types(self.kernel, like) {
            self.kernel.add_arg(block, ty);
        }
        block
    }

    fn append_while(&mut self, at: Block, inits: &[Value], regions: [Block; 2], counted: bool) -> Outcome {
        let types = types(self.kernel, inits);
        let op = self.kernel.append(at, OpKind::While, inits, &types, &regions, self.loc);
        Outcome::of(&self.kernel.op(op).results, counted)
    }

    /// The end of a round that has come to its end: the outcome without values, and whether the
    /// loop may go on.
    fn after_round(&mut self, op: Op, at: Block, left: Option<Value>) -> (Outcome, Option<Value>) {
        match left {
            None => (Outcome { site: self.site_constant(at, 0), left, values: Vec::new() }, None),
            Some(left) => {
                let (fine, left, site) = self.take_step(op, at, left);
                (Outcome { site, left: Some(left), values: Vec::new() }, Some(fine))
            }
        }
    }

    fn bool(&mut self, at: Block, value: bool) -> Value {
        self.at(at).constant(Literal::bool(value))
    }
}

fn types(kernel: &Kernel, values: &[Value]) -> Vec<Type> {
    values.iter().map(|&v| kernel.ty(v).clone()).collect()
}

/// The end of a round of a `for`. Values: whether there is another, the next loop variable, what is
/// carried.
struct Round {
    op: Op,
    iv: Value,
    hi: Value,
    step: Value,
    carried: Vec<Value>,
}

impl End for Round {
    fn done(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, values: &[Value]) -> Outcome {
        let mut b = l.at(at);
        let next = b.binary(BinaryOp::Add, self.iv, self.step);
        // Another round begins if the step is less than what is left to go, which does not overflow
        // without sign.
        let rest = b.binary(BinaryOp::Sub, self.hi, self.iv);
        let unsigned = match b.kernel.ty(rest).elem() {
            Scalar::I32 => Scalar::U32,
            Scalar::I64 => Scalar::U64,
            other => other,
        };
        let (step, rest) = (b.cast(self.step, unsigned), b.cast(rest, unsigned));
        let mut more = b.compare(CompareOp::Lt, step, rest);
        let (mut outcome, fine) = l.after_round(self.op, at, left);
        if let Some(fine) = fine {
            more = l.at(at).binary(BinaryOp::And, more, fine);
        }
        outcome.values = [more, next].into_iter().chain(values.iter().copied()).collect();
        outcome
    }

    fn failed(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, site: Value) -> Outcome {
        let over = l.bool(at, false);
        let values = [over, self.iv].into_iter().chain(self.carried.iter().copied()).collect();
        Outcome { site, left, values }
    }
}

/// The end of a round of a `while`. Values: what is carried.
struct Turn {
    op: Op,
    carried: Vec<Value>,
}

impl End for Turn {
    fn done(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, values: &[Value]) -> Outcome {
        let (outcome, _) = l.after_round(self.op, at, left);
        Outcome { values: values.to_vec(), ..outcome }
    }

    fn failed(&self, _: &mut Lowering<'_>, _: Block, left: Option<Value>, site: Value) -> Outcome {
        Outcome { site, left, values: self.carried.clone() }
    }
}

/// The end of a condition that stands in the body: if it holds, the operations of the body follow.
/// Values: whether the loop goes on, what is carried.
struct Test {
    then: Vec<Op>,
    turn: Turn,
}

impl End for Test {
    fn done(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, values: &[Value]) -> Outcome {
        let arms = [l.kernel.add_block(), l.kernel.add_block()];
        let loc = l.loc;
        let mut again = l.region(&self.then, arms[0], left, &self.turn);
        l.loc = loc;
        let fine = l.is_fine(arms[0], again.site);
        again.values.insert(0, fine);
        let none = l.site_constant(arms[1], 0);
        let last = self.failed(l, arms[1], left, none);
        l.join(at, values[0], arms, [again, last])
    }

    fn failed(&self, l: &mut Lowering<'_>, at: Block, left: Option<Value>, site: Value) -> Outcome {
        let over = l.bool(at, false);
        let values = [over].into_iter().chain(self.turn.carried.iter().copied()).collect();
        Outcome { site, left, values }
    }
}
