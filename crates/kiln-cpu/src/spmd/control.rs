//! Branches and loops: as they are where all threads agree, under masks where they do not.

use super::rewrite::Rewrite;
use kiln_backend::Result;
use kiln_ir::{BinaryOp, Block, CompareOp, Literal, OpData, OpKind, ReduceOp, Scalar, Type, Value};

/// The turns of a loop whose bounds vary, and which lanes are in each.
enum Turns {
    /// Each lane has as many as its trips.
    Counted { lo: Value, step: Value, trips: Value },
    /// All lanes go on to the same end by the same step. Where the first counters are affine, so
    /// are the others, and the lanes of a turn are a box.
    Until { lo: Value, hi: Value, step: Value },
}

impl Rewrite<'_> {
    pub(super) fn branch(&mut self, data: &OpData) -> Result<()> {
        let condition = data.condition();
        if self.is_lanes(condition)? {
            return self.masked_branch(data);
        }
        let condition = self.uniform(condition)?;
        let lanes = self.varying(&data.results);
        let mut regions = Vec::new();
        for &region in &data.regions {
            regions.push(self.region(|r| {
                let yields = r.body(region)?;
                r.yield_in_form(&yields, &lanes)
            })?);
        }
        let types = self.types(&data.results, &lanes);
        let results = self.control(OpKind::If, &[condition], &types, &regions);
        self.bind(&data.results, &results, &lanes);
        Ok(())
    }

    /// Both arms, one after the other, each under its mask; then a selection of results.
    fn masked_branch(&mut self, data: &OpData) -> Result<()> {
        let condition = self.lanes_of(data.condition())?;
        let opposite = self.not(condition);
        let outer = self.mask;
        let mut ends = Vec::new();
        for (&region, lanes) in data.regions.iter().zip([condition, opposite]) {
            self.mask = outer;
            self.mask = Some(self.narrowed(lanes));
            ends.push(self.arm(region, data)?);
        }
        self.mask = outer;
        for (i, &result) in data.results.iter().enumerate() {
            let value = self.b.select(condition, ends[0][i], ends[1][i]);
            self.set_lanes(result, value);
        }
        Ok(())
    }

    /// One arm of a masked branch, as lanes. An arm with a loop is skipped if no lane takes it: the
    /// loop may be long, or endless.
    fn arm(&mut self, region: Block, data: &OpData) -> Result<Vec<Value>> {
        if !self.holds_loop(region) {
            let yields = self.body(region)?;
            return self.all_lanes(&yields);
        }
        let wanted = self.any_active();
        let elems: Vec<Scalar> = data.results.iter().map(|&r| self.old.ty(r).elem()).collect();
        let taken = self.region(|r| {
            let yields = r.body(region)?;
            r.all_lanes(&yields)
        })?;
        let skipped =
            self.region(|r| Ok(elems.iter().map(|&e| r.b.splat(Literal::zero(e), r.shape())).collect()))?;
        let types: Vec<Type> = elems.iter().map(|&e| self.lanes_type(e)).collect();
        Ok(self.control(OpKind::If, &[wanted], &types, &[taken, skipped]))
    }

    fn holds_loop(&self, block: Block) -> bool {
        self.old.block(block).ops.iter().any(|&op| {
            let data = self.old.op(op);
            matches!(data.kind, OpKind::For | OpKind::While)
                || data.regions.iter().any(|&r| self.holds_loop(r))
        })
    }

    pub(super) fn for_loop(&mut self, data: &OpData) -> Result<()> {
        let bounds = data.for_bounds();
        for bound in bounds {
            if self.is_lanes(bound)? {
                return self.masked_for(data);
            }
        }
        let mut operands = bounds.iter().map(|&v| self.uniform(v)).collect::<Result<Vec<_>>>()?;
        let lanes = self.varying(&data.results);
        for (&init, &lanes) in data.inits().iter().zip(&lanes) {
            operands.push(self.in_form(init, lanes)?);
        }
        let types = self.types(&data.results, &lanes);
        let region = data.regions[0];
        let args = &self.old.block(region).args;
        let counter = self.old.ty(args[0]).clone();
        let body = self.region_with(&[&[counter], &types[..]].concat(), |r, new| {
            r.set_uniform(args[0], new[0]);
            r.bind(&args[1..], &new[1..], &lanes);
            let yields = r.body(region)?;
            r.yield_in_form(&yields, &lanes)
        })?;
        let results = self.control(OpKind::For, &operands, &types, &[body]);
        self.bind(&data.results, &results, &lanes);
        Ok(())
    }

    /// A loop whose bounds vary runs until its last lane is done; the others keep their carried
    /// values meanwhile.
    fn masked_for(&mut self, data: &OpData) -> Result<()> {
        let elem = self.old.ty(data.for_bounds()[0]).elem();
        let [lo, hi, step] = data.for_bounds();
        let shares_end = elem == Scalar::I64 && !self.is_lanes(hi)? && !self.is_lanes(step)?;
        let (most, turns) = if shares_end {
            let (hi, step) = (self.uniform(hi)?, self.uniform(step)?);
            let lo = self.lanes_of(lo)?;
            (self.most_trips(lo, hi, step), Turns::Until { lo, hi, step })
        } else {
            let (lo, step) = (self.lanes_of(lo)?, self.lanes_of(step)?);
            let trips = self.trips(data, elem)?;
            (self.b.reduce(ReduceOp::Max, 0, trips), Turns::Counted { lo, step, trips })
        };
        let zero = self.b.constant(Literal::zero(Scalar::U64));
        let one = self.b.constant(Literal::one(Scalar::U64));
        let inits = self.all_lanes(data.inits())?;
        let lanes = vec![true; inits.len()];
        let types = self.types(&data.results, &lanes);
        let region = data.regions[0];
        let args = &self.old.block(region).args;
        let outer = self.mask;
        let counter = Type::scalar(Scalar::U64);
        let body = self.region_with(&[&[counter], &types[..]].concat(), |r, new| {
            let (at, live) = r.turn(new[0], &turns, elem);
            r.mask = Some(live);
            r.set_lanes(args[0], at);
            r.bind(&args[1..], &new[1..], &lanes);
            let yields = r.body(region)?;
            let next = r.all_lanes(&yields)?;
            Ok(next.iter().zip(&new[1..]).map(|(&n, &before)| r.b.select(live, n, before)).collect())
        })?;
        self.mask = outer;
        let operands = [&[zero, most, one], &inits[..]].concat();
        let results = self.control(OpKind::For, &operands, &types, &[body]);
        self.bind(&data.results, &results, &lanes);
        Ok(())
    }

    /// The counter of each lane in a turn, and the lanes that are in it.
    fn turn(&mut self, turn: Value, turns: &Turns, elem: Scalar) -> (Value, Value) {
        match *turns {
            Turns::Counted { lo, step, trips } => {
                let lanes = self.b.broadcast(turn, self.shape());
                let live = self.b.compare(CompareOp::Lt, lanes, trips);
                let turn = self.b.cast(turn, elem);
                let turn = self.b.broadcast(turn, self.shape());
                let ahead = self.b.binary(BinaryOp::Mul, turn, step);
                (self.b.binary(BinaryOp::Add, lo, ahead), live)
            }
            Turns::Until { lo, hi, step } => {
                let turn = self.b.cast(turn, elem);
                let ahead = self.b.binary(BinaryOp::Mul, turn, step);
                let ahead = self.b.broadcast(ahead, self.shape());
                let at = self.b.binary(BinaryOp::Add, lo, ahead);
                // A counter that has wrapped is less than the first one.
                let (hi, above) = (self.b.broadcast(hi, self.shape()), self.b.compare(CompareOp::Ge, at, lo));
                let below = self.b.compare(CompareOp::Lt, at, hi);
                let live = self.b.binary(BinaryOp::And, above, below);
                (at, self.narrowed(live))
            }
        }
    }

    /// How often the lane that begins with the least counter runs a loop, as u64.
    fn most_trips(&mut self, lo: Value, hi: Value, step: Value) -> Value {
        let lo = match self.mask {
            Some(mask) => {
                let hi = self.b.broadcast(hi, self.shape());
                self.b.select(mask, lo, hi)
            }
            None => lo,
        };
        let least = self.b.reduce(ReduceOp::Min, 0, lo);
        let (zero, one) = (self.b.index(0), self.b.index(1));
        let begins = self.b.compare(CompareOp::Lt, least, hi);
        let forwards = self.b.compare(CompareOp::Lt, zero, step);
        let runs = self.b.binary(BinaryOp::And, begins, forwards);
        let distance = self.b.binary(BinaryOp::Sub, hi, least);
        let less = self.b.binary(BinaryOp::Sub, distance, one);
        let step = self.b.select(runs, step, one);
        let (less, step) = (self.bits_as(less, Scalar::U64), self.bits_as(step, Scalar::U64));
        let whole = self.b.binary(BinaryOp::Div, less, step);
        let one = self.b.constant(Literal::one(Scalar::U64));
        let trips = self.b.binary(BinaryOp::Add, whole, one);
        let none = self.b.constant(Literal::zero(Scalar::U64));
        self.b.select(runs, trips, none)
    }

    /// How often each lane runs a loop, as u64; not at all where it is not there.
    fn trips(&mut self, data: &OpData, elem: Scalar) -> Result<Value> {
        let unsigned = if elem.bytes() == 4 { Scalar::U32 } else { Scalar::U64 };
        let [lo, hi, step] = data.for_bounds();
        let by_one = self.old.as_const(step).is_some_and(|l| l.as_i128() == 1);
        let (lo, hi, step) = (self.lanes_of(lo)?, self.lanes_of(hi)?, self.lanes_of(step)?);
        let splat = |r: &mut Self, elem, value| {
            let literal = if value == 0 { Literal::zero(elem) } else { Literal::one(elem) };
            r.b.splat(literal, r.shape())
        };
        let zero = splat(self, elem, 0);
        let begins = self.b.compare(CompareOp::Lt, lo, hi);
        let forwards = self.b.compare(CompareOp::Lt, zero, step);
        let runs = self.b.binary(BinaryOp::And, begins, forwards);
        let runs = self.narrowed(runs);
        let distance = self.b.binary(BinaryOp::Sub, hi, lo);
        let distance = self.bits_as(distance, unsigned);
        let trips = if by_one {
            distance
        } else {
            let (one, step) = (splat(self, unsigned, 1), self.bits_as(step, unsigned));
            let step = self.b.select(runs, step, one);
            let less = self.b.binary(BinaryOp::Sub, distance, one);
            let whole = self.b.binary(BinaryOp::Div, less, step);
            self.b.binary(BinaryOp::Add, whole, one)
        };
        let none = splat(self, unsigned, 0);
        let trips = self.b.select(runs, trips, none);
        Ok(self.b.cast(trips, Scalar::U64))
    }

    fn bits_as(&mut self, value: Value, elem: Scalar) -> Value {
        if self.b.kernel.ty(value).elem() == elem { value } else { self.b.bitcast(value, elem) }
    }

    pub(super) fn while_loop(&mut self, data: &OpData) -> Result<()> {
        let [condition, body] = data.regions[..] else {
            return Err(self.internal("a while without regions"));
        };
        let holds = self.old.block(condition).ops.last().and_then(|&op| self.old.op(op).operands.first());
        if holds.is_some_and(|&v| self.uniformity.varies(v)) {
            return self.masked_while(data, condition, body);
        }
        let lanes = self.varying(&data.results);
        let mut inits = Vec::new();
        for (&init, &lanes) in data.operands.iter().zip(&lanes) {
            inits.push(self.in_form(init, lanes)?);
        }
        let types = self.types(&data.results, &lanes);
        let test = self.test_region(&types, |r, new| {
            r.bind(&r.old.block(condition).args, new, &lanes);
            let holds = r.body(condition)?;
            r.uniform(holds[0])
        })?;
        let turn = self.region_with(&types, |r, new| {
            r.bind(&r.old.block(body).args, new, &lanes);
            let yields = r.body(body)?;
            r.yield_in_form(&yields, &lanes)
        })?;
        let results = self.control(OpKind::While, &inits, &types, &[test, turn]);
        self.bind(&data.results, &results, &lanes);
        Ok(())
    }

    /// A loop whose condition varies runs while any lane is live. A turn tests the condition, and
    /// works for the lanes that go on.
    fn masked_while(&mut self, data: &OpData, condition: Block, body: Block) -> Result<()> {
        let lanes = vec![true; data.results.len()];
        let mut inits = self.all_lanes(&data.operands)?;
        inits.push(self.mask_or_all());
        let carried = self.types(&data.results, &lanes);
        let types = [&carried[..], &[self.lanes_type(Scalar::Bool)]].concat();
        let outer = self.mask;
        let test = self.test_region(&types, |r, new| Ok(r.b.reduce(ReduceOp::Or, 0, new[new.len() - 1])))?;
        let turn = self.region_with(&types, |r, new| {
            let (live, before) = (new[new.len() - 1], &new[..new.len() - 1]);
            r.mask = Some(live);
            r.bind(&r.old.block(condition).args, before, &lanes);
            let holds = r.body(condition)?;
            let holds = r.lanes_of(holds[0])?;
            let live = r.narrowed(holds);
            r.mask = Some(live);
            let wanted = r.any_active();
            let taken = r.region(|r| {
                r.bind(&r.old.block(body).args, before, &lanes);
                let yields = r.body(body)?;
                let next = r.all_lanes(&yields)?;
                Ok(next.iter().zip(before).map(|(&n, &before)| r.b.select(live, n, before)).collect())
            })?;
            let skipped = r.region(|_| Ok(before.to_vec()))?;
            let mut next = r.control(OpKind::If, &[wanted], &carried, &[taken, skipped]);
            next.push(live);
            Ok(next)
        })?;
        self.mask = outer;
        let results = self.control(OpKind::While, &inits, &types, &[test, turn]);
        self.bind(&data.results, &results, &lanes);
        Ok(())
    }

    /// Does something only where a condition that all lanes share does not hold.
    pub(super) fn unless(
        &mut self,
        condition: Value,
        otherwise: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let holds = self.region(|_| Ok(Vec::new()))?;
        let fails = self.region(|r| otherwise(r).map(|()| Vec::new()))?;
        self.control(OpKind::If, &[condition], &[], &[holds, fails]);
        Ok(())
    }

    // ---- regions

    fn control(&mut self, kind: OpKind, operands: &[Value], types: &[Type], regions: &[Block]) -> Vec<Value> {
        let (block, loc) = (self.b.block, self.b.loc);
        let op = self.b.kernel.append(block, kind, operands, types, regions, loc);
        self.b.kernel.op(op).results.to_vec()
    }

    /// A region without arguments that yields what `fill` gives.
    fn region(&mut self, fill: impl FnOnce(&mut Self) -> Result<Vec<Value>>) -> Result<Block> {
        self.region_with(&[], |r, _| fill(r))
    }

    /// A region with arguments of these types.
    fn region_with(
        &mut self,
        args: &[Type],
        fill: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Block> {
        self.filled(args, |r, args| {
            let yields = fill(r, args)?;
            r.b.yield_(&yields);
            Ok(())
        })
    }

    /// The first region of a `while`.
    fn test_region(
        &mut self,
        args: &[Type],
        fill: impl FnOnce(&mut Self, &[Value]) -> Result<Value>,
    ) -> Result<Block> {
        self.filled(args, |r, args| {
            let holds = fill(r, args)?;
            r.b.op(OpKind::Condition, &[holds], &[]);
            Ok(())
        })
    }

    fn filled(
        &mut self,
        args: &[Type],
        fill: impl FnOnce(&mut Self, &[Value]) -> Result<()>,
    ) -> Result<Block> {
        let block = self.b.kernel.add_block();
        let args: Vec<Value> = args.iter().map(|ty| self.b.kernel.add_arg(block, ty.clone())).collect();
        let (outer, mask, loc) = (std::mem::replace(&mut self.b.block, block), self.mask, self.b.loc);
        let outcome = fill(self, &args);
        (self.b.block, self.mask, self.b.loc) = (outer, mask, loc);
        outcome.map(|()| block)
    }

    /// Which of the values vary.
    fn varying(&self, values: &[Value]) -> Vec<bool> {
        values.iter().map(|&v| self.uniformity.varies(v)).collect()
    }

    fn types(&self, values: &[Value], lanes: &[bool]) -> Vec<Type> {
        values.iter().zip(lanes).map(|(&v, &lanes)| self.new_type(v, lanes)).collect()
    }

    fn bind(&mut self, old: &[Value], new: &[Value], lanes: &[bool]) {
        for ((&old, &new), &lanes) in old.iter().zip(new).zip(lanes) {
            self.set_in_form(old, new, lanes);
        }
    }

    fn yield_in_form(&mut self, yields: &[Value], lanes: &[bool]) -> Result<Vec<Value>> {
        yields.iter().zip(lanes).map(|(&v, &lanes)| self.in_form(v, lanes)).collect()
    }
}
