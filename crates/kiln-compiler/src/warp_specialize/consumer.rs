//! The task that multiplies what has arrived, and does everything else that the program does.

use super::eligibility::{EligibleLoop, Left, Product, Source, Stored};
use super::memory::{Ring, SharedMemory};
use super::{RingPosition, Specializer, effect, index, like};
use kiln_ir::{Block, Builder, ExplicitOp, Kernel, Literal, Op, OpKind, Scalar, Shape, Type, Value};
use rustc_hash::FxHashMap;

impl Specializer<'_> {
    /// The task of these operations of the body.
    pub(super) fn consumer(&mut self, memory: &SharedMemory, ops: Vec<Op>) -> Block {
        let eligible = self.eligible;
        let block = self.kernel.add_block();
        let first =
            RingPosition::first(&mut Builder { kernel: &mut self.kernel, block, loc: Default::default() });
        let mut places = vec![first; memory.rings.len()];
        let mut begun = false;
        for op in ops {
            if eligible.kept_ops.contains(&op) {
                continue;
            }
            if let Some(number) = eligible.loops.iter().position(|l| l.op == op) {
                if !std::mem::replace(&mut begun, true) {
                    self.await_kept(block, memory);
                }
                let ring = memory.by_loop[number];
                places[ring] = self.rounds(block, memory, (number, ring), places[ring]);
            } else if let Some((leaving, out)) = memory.out.iter().find(|(l, _)| l.copied.op == op) {
                self.leave(block, leaving, *out);
            } else {
                rename(&mut self.kernel, &self.renames, op);
                self.kernel.block_mut(block).ops.push(op);
            }
        }
        let mut b = Builder { kernel: &mut self.kernel, block, loc: Default::default() };
        if !memory.out.is_empty() {
            effect(&mut b, ExplicitOp::TmaStoreWait { pending: 0 }, &[]);
        }
        b.yield_(&[]);
        block
    }

    /// Waits for the factors that are kept.
    fn await_kept(&mut self, block: Block, memory: &SharedMemory) {
        let mut b = Builder { kernel: &mut self.kernel, block, loc: Default::default() };
        let Some(arrived) = memory.arrived else { return };
        let zero = b.index(0);
        for (i, copied) in self.eligible.kept.iter().enumerate() {
            b.loc = b.kernel.op(copied.op).loc;
            let number = b.index(i as i64);
            effect(&mut b, ExplicitOp::MbarrierWait, &[arrived, number, zero]);
        }
    }

    /// Makes the rounds of a loop its own; gives the place after the last.
    fn rounds(
        &mut self,
        block: Block,
        memory: &SharedMemory,
        (number, ring): (usize, usize),
        first: RingPosition,
    ) -> RingPosition {
        let looped = &self.eligible.loops[number];
        let ring = &memory.rings[ring];
        rename(&mut self.kernel, &self.renames, looped.op);
        let data = self.kernel.op(looped.op).clone();
        let body = looped.body;
        let mut b = Builder { kernel: &mut self.kernel, block, loc: data.loc };
        // Before the first round there is no stage to release; the arrival goes to an mbarrier that
        // no task waits for.
        let nobody = b.index(memory.stages.into());
        let mut operands = data.operands.to_vec();
        let more = [first.stage, first.phase, nobody];
        operands.extend(more);
        let types: Vec<Type> = data.inits().iter().chain(&more).map(|&v| b.kernel.ty(v).clone()).collect();
        let [stage, phase, before] = [(); 3].map(|()| b.kernel.add_arg(body, index()));
        let round = Round { looped, ring, memory, place: RingPosition { stage, phase }, before };
        let ops = std::mem::take(&mut b.kernel.block_mut(body).ops);
        b.block = body;
        round.write(&mut b, &mut self.renames, ops);

        let made = b.kernel.append(block, OpKind::For, &operands, &types, &[body], data.loc);
        let results = b.kernel.op(made).results.clone();
        let carried = data.results.len();
        b.block = block;
        b.loc = data.loc;
        for (i, &old) in data.results.iter().enumerate() {
            let waits = looped.in_flight && round_sums(b.kernel, looped).contains(&i);
            let done = match waits {
                true => like(&mut b, ExplicitOp::WgmmaWait { pending: 0 }, &[results[i]], results[i]),
                false => results[i],
            };
            self.renames.insert(old, done);
        }
        if looped.in_flight {
            for &empty in &ring.empty {
                effect(&mut b, ExplicitOp::MbarrierArrive, &[empty, results[carried + 2]]);
            }
        }
        RingPosition { stage: results[carried], phase: results[carried + 1] }
    }
}

/// Which carried values of a loop are sums of its products.
fn round_sums(kernel: &Kernel, looped: &EligibleLoop) -> Vec<usize> {
    let args = &kernel.block(looped.body).args;
    let place = |product: &Product| args.iter().position(|&a| a == kernel.op(product.op).addend());
    looped.products.iter().filter_map(place).map(|at| at - 1).collect()
}

/// Renames the operands of an operation, and in its regions.
fn rename(kernel: &mut Kernel, renames: &FxHashMap<Value, Value>, op: Op) {
    for operand in &mut kernel.op_mut(op).operands {
        *operand = renames.get(operand).copied().unwrap_or(*operand);
    }
    for region in kernel.op(op).regions.clone() {
        for op in kernel.block(region).ops.clone() {
            rename(kernel, renames, op);
        }
    }
}

/// A round of a loop.
struct Round<'a> {
    looped: &'a EligibleLoop,
    ring: &'a Ring,
    memory: &'a SharedMemory,
    place: RingPosition,
    /// The stage of the round before, whose products may still be under way.
    before: Value,
}

impl Round<'_> {
    fn write(&self, b: &mut Builder<'_>, renames: &mut FxHashMap<Value, Value>, ops: Vec<Op>) {
        for op in ops {
            b.loc = b.kernel.op(op).loc;
            if let Some(number) = self.looped.products.iter().position(|p| p.op == op) {
                self.multiply(b, renames, number);
            } else if b.kernel.op(op).kind == OpKind::Yield {
                self.end(b, renames, op);
            } else if !self.looped.dropped.contains(&op) {
                rename(b.kernel, renames, op);
                b.kernel.block_mut(b.block).ops.push(op);
            }
        }
    }

    /// The groups that products from one to another (without it) read.
    fn groups(&self, products: std::ops::Range<usize>) -> Vec<usize> {
        let stages = self.looped.products[products].iter().flat_map(Product::stages);
        stages.map(|i| self.ring.groups[i]).collect()
    }

    fn multiply(&self, b: &mut Builder<'_>, renames: &mut FxHashMap<Value, Value>, number: usize) {
        let product = &self.looped.products[number];
        let (read, before) = (self.groups(number..number + 1), self.groups(0..number));
        let last = self.looped.products.len();
        let after = self.groups(number + 1..last);
        let fresh = |groups: &[usize], seen: &[usize]| {
            let mut all: Vec<usize> = groups.iter().copied().filter(|g| !seen.contains(g)).collect();
            all.dedup();
            all
        };
        for group in fresh(&read, &before) {
            let full = self.ring.full[group];
            effect(b, ExplicitOp::MbarrierWait, &[full, self.place.stage, self.place.phase]);
        }
        let sum = self.begin(b, renames, product);
        let result = b.kernel.result(product.op);
        if self.looped.in_flight {
            renames.insert(result, sum);
            return;
        }
        let done = like(b, ExplicitOp::WgmmaWait { pending: 0 }, &[sum], sum);
        renames.insert(result, done);
        for group in fresh(&read, &after) {
            effect(b, ExplicitOp::MbarrierArrive, &[self.ring.empty[group], self.place.stage]);
        }
    }

    /// Begins a product.
    fn begin(&self, b: &mut Builder<'_>, renames: &FxHashMap<Value, Value>, product: &Product) -> Value {
        let renamed = |v: Value| renames.get(&v).copied().unwrap_or(v);
        let accumulator = b.kernel.op(product.op).addend();
        let zero = b.kernel.as_const(accumulator).is_some_and(|l| !l.is_true());
        let keep = b.constant(Literal::bool(self.looped.in_flight || !zero));
        let accumulator = renamed(accumulator);
        let (right, right_stage, right_transposed) = self.factor(b, product.right);
        // `[n, k]` is how the right factor is not transposed.
        let transposed_b = !right_transposed;
        match product.left {
            Left::Stored(stored) => {
                let (left, left_stage, transposed_a) = self.factor(b, stored);
                let op = ExplicitOp::Wgmma { transposed_a, transposed_b };
                like(b, op, &[left, left_stage, right, right_stage, keep, accumulator], accumulator)
            }
            Left::Computed(tile) => {
                let words = packed(b, renamed(tile));
                let op = ExplicitOp::WgmmaRegisters { transposed_b };
                like(b, op, &[right, right_stage, keep, words, accumulator], accumulator)
            }
        }
    }

    /// The shared tile of a factor, its stage, and whether the factor is that transposed.
    fn factor(&self, b: &mut Builder<'_>, stored: Stored) -> (Value, Value, bool) {
        match stored.source {
            Source::Stage(i) => {
                let transposed = self.looped.copies[i].transposed;
                (self.ring.tiles[i], self.place.stage, stored.transposed != transposed)
            }
            Source::Kept(i) => {
                let zero = b.index(0);
                (self.memory.kept[i], zero, stored.transposed != self.memory.kept_transposed[i])
            }
        }
    }

    /// Hands the sums on, and gives the stage back whose products are done.
    fn end(&self, b: &mut Builder<'_>, renames: &mut FxHashMap<Value, Value>, end: Op) {
        if self.looped.in_flight {
            let pending = self.looped.products.len() as u32;
            if let Some(last) = self.looped.products.last() {
                let result = b.kernel.result(last.op);
                let sum = renames[&result];
                let waited = like(b, ExplicitOp::WgmmaWait { pending }, &[sum], sum);
                renames.insert(result, waited);
            }
            for &empty in &self.ring.empty {
                effect(b, ExplicitOp::MbarrierArrive, &[empty, self.before]);
            }
        }
        let next = self.place.next(b, self.memory.stages);
        rename(b.kernel, renames, end);
        b.kernel.op_mut(end).operands.extend([next.stage, next.phase, self.place.stage]);
        b.kernel.block_mut(b.block).ops.push(end);
    }
}

/// A tile of 16-bit floats as pairs.
fn packed(b: &mut Builder<'_>, tile: Value) -> Value {
    let elem = b.kernel.ty(tile).elem();
    let made = b.kernel.defining_op(tile);
    // What was rounded from f32 is rounded as it is packed; else that changes nothing.
    let wide = made.filter(|d| d.kind == OpKind::Cast && b.kernel.ty(d.input()).elem() == Scalar::F32);
    let wide = wide.map(|data| data.input());
    let wide = wide.unwrap_or_else(|| b.cast(tile, Scalar::F32));
    let shape = b.kernel.shape(tile);
    let words = Type::tile(Scalar::U32, Shape::new(&[shape[0], shape[1] / 2]));
    let op = ExplicitOp::PackPairs { bf16: elem == Scalar::BF16 };
    let made = b.op(OpKind::Explicit(op), &[wide], &[words]);
    b.kernel.result(made)
}
