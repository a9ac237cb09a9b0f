//! Pipelined loops: a round first waits for its own tiles, then begins the copies of the round
//! `stages - 1` later into the stage that the round before has read, then computes. One barrier a
//! round is enough: it says at once that the tiles of this round are there and that those of the
//! last are no longer read. Where products of a round are still under way in the next
//! (`in_flight.rs`), it says so of the tiles before the last, and copies begin `stages - 2` rounds
//! ahead.

use super::Lowering;
use super::box_access::BoxAccess;
use super::pipeline::{Pipeline, StagedLoad};
use super::products::Unit;
use crate::error::CompileError;
use kiln_ir::{
    AsyncCopyOp, BinaryOp, Block, CompareOp, FragmentOp, Literal, Op, OpData, OpKind, Scalar, Type, Value,
};

/// Bytes of an asynchronous copy.
const COPY: u32 = 16;

impl<'k> Lowering<'k> {
    pub(super) fn pipelined(&mut self, op: Op, data: &'k OpData) -> Result<(), CompileError> {
        let Some(pipeline) = self.plan.pipelines.by_loop.get(&op).cloned() else {
            return Err(self.internal("a loop without stages".into()));
        };
        let size = pipeline.stages * pipeline.stage;
        let address = self.em.op(OpKind::Scratch { offset: 0 }, &[], &[Type::scalar(Scalar::U64)]);
        self.scratch.begin_stages(size, address, data.loc);
        let base = self.em.kernel.result(address);
        // What was in this memory before is no longer read.
        self.em.op(OpKind::Barrier, &[], &[]);
        let bounds = self.scalars(&data.for_bounds())?;
        let (low, high) = (bounds[0], bounds[1]);
        let body = data.regions[0];
        for ahead in 0..pipeline.ahead() {
            let there = match ahead {
                0 => self.em.compare(CompareOp::Lt, low, high),
                _ => self.is_left(low, high, i128::from(ahead) * pipeline.step),
            };
            let distance = self.em.int(Scalar::U64, i64::from(ahead * pipeline.stage));
            let stage = self.em.add(base, distance);
            self.begin_copies(&pipeline, body, there, (low, ahead), stage)?;
        }
        let results = match pipeline.in_flight.is_empty() {
            true => self.rounds(op, data, &pipeline, base, (low, high))?,
            false => self.rounds_in_flight(op, data, &pipeline, base, (low, high))?,
        };
        // Nothing is under way or read any more: others may have the memory.
        self.em.op(OpKind::AsyncCopy(AsyncCopyOp::Wait { pending: 0 }), &[], &[]);
        self.em.op(OpKind::Barrier, &[], &[]);
        self.scratch.end_stages();
        let mut results = results.into_iter();
        data.results.iter().try_for_each(|&result| self.carry(result, &mut results))
    }

    /// Whether more than a distance is left from a number up to a bound that lies above it.
    fn is_left(&mut self, from: Value, to: Value, distance: i128) -> Value {
        let left = self.em.sub(to, from);
        let elem = self.em.elem(from);
        let distance = self.em.constant(Literal::wrapping(elem, distance));
        self.em.compare(CompareOp::Gt, left, distance)
    }

    /// What a loop begins with.
    fn initial(&mut self, data: &OpData) -> Result<Vec<Value>, CompileError> {
        let mut values = Vec::new();
        for (&init, &result) in data.inits().iter().zip(&data.results) {
            values.extend_from_slice(&self.operand(init, self.plan.home(result))?);
        }
        Ok(values)
    }

    /// The rounds of a loop, if there are any, and a wait for the products of the last. The loop is
    /// known not to be empty: around one that may be, the assembler takes what products fill for
    /// read before they are done.
    fn rounds_in_flight(
        &mut self,
        op: Op,
        data: &'k OpData,
        pipeline: &Pipeline,
        base: Value,
        (low, high): (Value, Value),
    ) -> Result<Vec<Value>, CompileError> {
        let unchanged = self.initial(data)?;
        let types: Vec<Type> = unchanged.iter().map(|&v| self.em.kernel.ty(v).clone()).collect();
        let some = self.em.compare(CompareOp::Lt, low, high);
        let run = |l: &mut Self| {
            let one = l.em.constant(Literal::wrapping(l.em.elem(low), 1));
            let next = l.em.add(low, one);
            let high = l.em.binary(BinaryOp::Max, high, next);
            let mut results = l.rounds(op, data, pipeline, base, (low, high))?;
            results.truncate(types.len());
            let mut at = 0;
            for &result in &data.results {
                let home = l.plan.home(result);
                let count = l.plan.layout(home).registers();
                if pipeline.in_flight.iter().any(|&p| l.hands_on(data, p, result)) {
                    let done = l.await_products(&results[at..at + count], 0);
                    results[at..at + count].copy_from_slice(&done);
                }
                at += count;
            }
            Ok(results)
        };
        self.branch(some, &types, run, |_| Ok(unchanged.clone()))
    }

    /// Whether a product in the body of a loop makes what this result of the loop is.
    fn hands_on(&self, data: &OpData, product: Op, result: Value) -> bool {
        let ends = self.src.block(data.regions[0]).ops.last().map(|&op| self.src.op(op).yielded());
        let place = data.results.iter().position(|&r| r == result);
        place.and_then(|i| ends?.get(i)) == Some(&self.src.result(product))
    }

    fn rounds(
        &mut self,
        op: Op,
        data: &'k OpData,
        pipeline: &Pipeline,
        base: Value,
        (low, high): (Value, Value),
    ) -> Result<Vec<Value>, CompileError> {
        let mut operands = vec![low, high, self.scalar(data.for_bounds()[2])?];
        let carried = self.initial(data)?;
        operands.extend_from_slice(&carried);
        let mut types: Vec<Type> = carried.iter().map(|&v| self.em.kernel.ty(v).clone()).collect();
        let last = self.em.int(Scalar::U64, i64::from((pipeline.stages - 1) * pipeline.stage));
        let last = self.em.add(base, last);
        let first = self.em.int(Scalar::U64, i64::from(pipeline.ahead() * pipeline.stage));
        let first = self.em.add(base, first);
        operands.extend([base, first]);
        types.extend([Type::scalar(Scalar::U64), Type::scalar(Scalar::U64)]);
        let block = self.round(op, data, pipeline, (base, last), high)?;
        self.em.loc = data.loc;
        let lowered =
            self.em.kernel.append(self.em.block, OpKind::For, &operands, &types, &[block], data.loc);
        Ok(self.em.kernel.op(lowered).results.to_vec())
    }

    fn round(
        &mut self,
        op: Op,
        data: &'k OpData,
        pipeline: &Pipeline,
        (base, last): (Value, Value),
        high: Value,
    ) -> Result<Block, CompileError> {
        let region = data.regions[0];
        let block = self.em.kernel.add_block();
        let outer = std::mem::replace(&mut self.em.block, block);
        self.arguments(region, block)?;
        let [read, write] = [(); 2].map(|()| self.em.kernel.add_arg(block, Type::scalar(Scalar::U64)));
        let ahead = pipeline.ahead();
        self.em.op(OpKind::AsyncCopy(AsyncCopyOp::Wait { pending: ahead - 1 }), &[], &[]);
        if self.feeds_warpgroups(region) {
            self.em.op(OpKind::Fragment(FragmentOp::AsyncProxyFence), &[], &[]);
        }
        self.em.op(OpKind::Barrier, &[], &[]);
        let round = self.scalar(self.src.block(region).args[0])?;
        let more = self.is_left(round, high, i128::from(ahead) * pipeline.step);
        self.begin_copies(pipeline, region, more, (round, ahead), write)?;
        self.stages.push((op, read));
        let src = self.src;
        for &inner in &src.block(region).ops {
            let inner_data = src.op(inner);
            self.em.loc = inner_data.loc;
            if inner_data.kind != OpKind::Yield {
                self.op(inner, inner_data, &data.results)?;
                continue;
            }
            if !pipeline.in_flight.is_empty() {
                // Those of the round before are done: behind the next barrier, their stage is free.
                self.await_products(&[], pipeline.in_flight.len() as u32);
            }
            let mut next = self.yielded(inner_data, &data.results)?;
            let step = self.em.int(Scalar::U64, pipeline.stage.into());
            for stage in [read, write] {
                let after = self.em.add(stage, step);
                let wraps = self.em.compare(CompareOp::Eq, stage, last);
                next.push(self.em.select(wraps, base, after));
            }
            self.em.op(OpKind::Yield, &next, &[]);
        }
        self.stages.pop();
        self.em.block = outer;
        Ok(block)
    }

    /// Whether products of warpgroups stand in the body of a loop.
    fn feeds_warpgroups(&self, body: Block) -> bool {
        let of = |op| self.plan.products.by_op.get(op);
        self.src.block(body).ops.iter().filter_map(of).any(|product| product.unit == Unit::Warpgroups)
    }

    /// Begins the copies of the round so many after one, if it is to be, as a group.
    fn begin_copies(
        &mut self,
        pipeline: &Pipeline,
        body: Block,
        there: Value,
        (round, ahead): (Value, u32),
        stage: Value,
    ) -> Result<(), CompileError> {
        let src = self.src;
        let index = src.block(body).args[0];
        let defined: Vec<Value> =
            pipeline.slice.iter().flat_map(|&op| src.op(op).results.iter().copied()).chain([index]).collect();
        // What the places of the loads depend on is computed anew for that round.
        let held: Vec<_> = defined.iter().map(|v| std::mem::take(&mut self.tiles[v.index()])).collect();
        let distance = Literal::wrapping(self.em.elem(round), i128::from(ahead) * pipeline.step);
        let distance = self.em.constant(distance);
        let later = self.em.add(round, distance);
        self.define_scalar(index, later);
        for &op in &pipeline.slice {
            self.op(op, src.op(op), &[])?;
        }
        for load in &pipeline.loads {
            if load.asynchronous {
                self.copy_asynchronously(load, stage, there)?;
            } else {
                let copy = |l: &mut Self| l.copy_by_threads(load, stage);
                self.branch(there, &[], copy, |_| Ok(Vec::new()))?;
            }
        }
        for (value, held) in defined.into_iter().zip(held) {
            self.tiles[value.index()] = held;
        }
        self.em.op(OpKind::AsyncCopy(AsyncCopyOp::Commit), &[], &[]);
        Ok(())
    }

    fn staged_box(&mut self, load: &StagedLoad) -> Result<BoxAccess<'k>, CompileError> {
        let data = self.src.op(load.op);
        let OpKind::Load(reuse) = data.kind else { return Err(self.internal("no load".into())) };
        let layout = self.plan.intern(load.layout.clone());
        self.box_access(data, data.results[0], layout, reuse)
    }

    /// Loads a tile and stores it to its slot of a stage.
    fn copy_by_threads(&mut self, load: &StagedLoad, stage: Value) -> Result<Vec<Value>, CompileError> {
        let data = self.src.op(load.op);
        let access = self.staged_box(load)?;
        let mask = self.mask(&access)?;
        let padding = self.scalar(data.padding())?;
        let registers = self.load_vectors(&access, Some(&mask), padding)?;
        let offset = self.em.int(Scalar::U64, load.offset.into());
        let slot = self.em.add(stage, offset);
        self.store_slot(slot, load.slot, &load.layout, &registers, access.first, None);
        Ok(Vec::new())
    }

    /// Begins to copy a tile to its slot of a stage, or zeros if the round is not to be. Without a
    /// branch, what is the same in all rounds can leave the loop.
    fn copy_asynchronously(
        &mut self,
        load: &StagedLoad,
        stage: Value,
        there: Value,
    ) -> Result<(), CompileError> {
        let access = self.staged_box(load)?;
        let first = access.first;
        let mask = self.mask(&access)?;
        let offset = self.em.int(Scalar::U64, load.offset.into());
        let slot = self.em.add(stage, offset);
        let vectors = self.vectors(&access, Some(&mask))?;
        let view = self.scalar(access.view)?;
        let thread: Vec<u32> = load.layout.thread().iter().map(|&flat| load.slot.offset(flat)).collect();
        let whole = self.em.constant(Literal::wrapping(Scalar::U32, COPY.into()));
        let nothing = self.em.constant(Literal::wrapping(Scalar::U32, 0));
        let copies = |l: &mut Self| {
            for (i, members) in vectors.registers.iter().enumerate() {
                let at = load.slot.offset(load.layout.register_index(members[0]));
                let to = l.slot_address(slot, &thread, at);
                let inside = vectors.predicates[i].map_or(there, |inside| l.em.and(inside, there));
                let bytes = l.em.select(inside, whole, nothing);
                let from = l.view_address((view, vectors.indices[i]));
                l.em.op(OpKind::AsyncCopy(AsyncCopyOp::Copy { width: COPY }), &[to, from, bytes], &[]);
            }
            Ok(Vec::new())
        };
        match first {
            Some(first) => self.branch(first, &[], copies, |_| Ok(Vec::new()))?,
            None => copies(self)?,
        };
        Ok(())
    }
}
