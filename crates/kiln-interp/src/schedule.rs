//! Seeded schedules of the threads of a block.
//!
//! A GPU promises nothing about the order of threads between two barriers: one thread may reach the
//! second barrier before another has left the first. Without a schedule, the interpreter executes
//! each operation in all threads before the next one, which hides a missing barrier. With one, it
//! divides the threads into *strands*, at random. Each strand has its own place in the kernel. A
//! random one runs next, until it comes to an operation that needs threads of other strands:
//!
//! ```text
//! strand 0   a  b  barrier            c ...
//! strand 1                  a
//! strand 2                     a  b
//! strand 1                           b barrier       (the last one to come: now all go on)
//! ```
//!
//! So both orders of any two accesses by different threads that no barrier separates occur, under
//! some seed. Where warps have to come together, as for a shuffle, the strands that hold threads of
//! a warp wait for each other. Registers have an element for each thread, so that strands share
//! them. Within a strand threads run in lockstep.

use crate::machine::Machine;
use crate::mask::Mask;
use crate::order::mixed;
use crate::program::Loaded;
use crate::threads::WARP;
use crate::value::{Data, Trap};
use kiln_backend::Error;
use kiln_ir::{Block, ClusterOp, FragmentOp, Guards, Kernel, LinearOp, Op, OpData, OpKind, Space, Value};
use std::sync::Arc;

/// Which threads execute an operation together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Convergence {
    /// Each thread by itself.
    Thread,
    /// The threads of a warp.
    Warp,
    /// All threads of the block.
    Block,
}

/// How an operation runs under a schedule.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// The threads that execute it together, apart from what its regions hold.
    convergence: Convergence,
    /// Whether another strand may run while one is in a region of it.
    stepwise: bool,
}

/// Of so many launches one has strands that are interrupted anywhere, also inside of every loop.
const FINE: u64 = 2;

/// The greatest numbers of parts that warps, and the threads of warps, are divided into. Few are
/// enough to give any two threads both orders under some seed; more only cost time.
const PARTS: [u64; 2] = [3, 2];

/// After at most so many operations another strand runs: where strands are interrupted anywhere,
/// and elsewhere. There it is so long that only a strand which waits in a loop is interrupted.
const TURNS: [u64; 2] = [24, 10_000];

/// A schedule of the threads of a block.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// By operation.
    rules: Arc<[Rule]>,
    seed: u64,
    /// The state of the generator of random numbers.
    random: u64,
    /// Whether strands are interrupted anywhere.
    fine: bool,
}

impl Schedule {
    /// The schedule of a launch.
    pub fn new(loaded: &Loaded, seed: u64) -> Schedule {
        let kernel = &loaded.kernel;
        let fine = mixed(seed).is_multiple_of(FINE);
        let none = Rule { convergence: Convergence::Thread, stepwise: false };
        let mut rules = vec![none; kernel.counts().1];
        let context = Context { kernel, guards: loaded.guards.as_ref(), fine };
        context.find(kernel.body, false, &mut rules);
        Schedule { rules: rules.into(), seed, random: seed, fine }
    }

    /// Begins the block with this linear index.
    pub fn begin_block(&mut self, block: u32) {
        self.random = self.seed ^ mixed(block.into());
    }

    /// A random number below a bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(1);
        mixed(self.random) % bound.max(1)
    }

    /// Divides threads at random: warps first, then the threads of each part. No part is empty.
    fn divide(&mut self, mask: &Mask) -> Vec<Mask> {
        let parts = self.divide_units(mask, WARP, PARTS[0]);
        parts.iter().flat_map(|part| self.divide_units(part, 1, PARTS[1])).collect()
    }

    /// Divides threads at random into up to `most` parts, without dividing `unit` consecutive ones.
    fn divide_units(&mut self, mask: &Mask, unit: usize, most: u64) -> Vec<Mask> {
        let parts = 1 + self.below(most);
        let chosen: Vec<u64> = (0..mask.width().div_ceil(unit)).map(|_| self.below(parts)).collect();
        let part = |number| mask.filter(|lane| chosen[lane / unit] == number);
        (0..parts).map(part).filter(|mask| !mask.is_empty()).collect()
    }
}

/// Threads that run in lockstep, and where they are.
struct Strand {
    /// The regions that they are in, the innermost last. None when they have ended.
    frames: Vec<Frame>,
    /// The operation that they have come to, where it needs other strands.
    waits: Option<Op>,
}

/// A region that a strand is in.
struct Frame {
    block: Block,
    /// The number of the operation in the block that comes next.
    next: usize,
    /// The threads that take part.
    mask: Mask,
    region: Region,
}

/// What a region is of.
enum Region {
    Body,
    /// An arm of an `If`, and the threads that take the other arm afterwards.
    Arm(Op, Option<Mask>),
    /// A round of a `For`: its number, the number of rounds of each thread, and the threads that
    /// came to the loop.
    Round(Op, u64, Vec<u64>, Mask),
    /// The condition of a `While`, and the threads that came to the loop.
    Test(Op, Mask),
    /// The body of one.
    Do(Op, Mask),
}

impl Machine<'_> {
    /// Runs the body of the kernel for the block with this linear index.
    pub fn run_body(&mut self, block: u32, everyone: &Mask) -> Result<(), Error> {
        let body = self.kernel.body;
        let Some(schedule) = &mut self.schedule else { return self.run_block(body, everyone) };
        schedule.begin_block(block);
        let strand = |mask| Strand {
            frames: vec![Frame { block: body, next: 0, mask, region: Region::Body }],
            waits: None,
        };
        let strands: Vec<Strand> = schedule.divide(everyone).into_iter().map(strand).collect();
        self.run_strands(strands)
    }

    fn run_strands(&mut self, mut strands: Vec<Strand>) -> Result<(), Error> {
        loop {
            let ready: Vec<usize> = (0..strands.len())
                .filter(|&i| strands[i].waits.is_none() && !strands[i].frames.is_empty())
                .collect();
            let Some(schedule) = &mut self.schedule else { return Ok(()) };
            if ready.is_empty() {
                let Some(op) = strands.iter().find_map(|strand| strand.waits) else { return Ok(()) };
                // Some threads will never come, which the operation finds.
                self.meet(op, &mut strands)?;
                continue;
            }
            let chosen = ready[schedule.below(ready.len() as u64) as usize];
            let turns = if schedule.fine { 1 + schedule.below(TURNS[0]) } else { TURNS[1] };
            let strand = &mut strands[chosen];
            for _ in 0..turns {
                if strand.waits.is_some() || !self.advance(strand)? {
                    break;
                }
            }
            if let Some(op) = strands[chosen].waits.filter(|&op| self.all_are_there(op, &strands)) {
                self.meet(op, &mut strands)?;
            }
        }
    }

    fn rule(&self, op: Op) -> Option<Rule> {
        self.schedule.as_ref().map(|schedule| schedule.rules[op.index()])
    }

    /// Whether the threads that an operation needs have come to it.
    fn all_are_there(&self, op: Op, strands: &[Strand]) -> bool {
        let mut there = waiting(op, strands);
        if let Some(here) = self.here() {
            there.iter_mut().enumerate().for_each(|(lane, there)| *there |= !here.has(lane));
        }
        let width = there.len();
        let unit = match self.rule(op).map(|rule| rule.convergence) {
            Some(Convergence::Block) => width,
            _ => WARP,
        };
        there.chunks(unit.max(1)).all(|warp| warp.iter().all(|&on| on) || !warp.contains(&true))
    }

    /// Executes an operation in all threads that have come to it.
    fn meet(&mut self, op: Op, strands: &mut [Strand]) -> Result<(), Error> {
        let there = waiting(op, strands);
        let mask = Mask::full(there.len()).filter(|lane| there[lane]);
        for strand in strands.iter_mut().filter(|strand| strand.waits == Some(op)) {
            strand.waits = None;
        }
        self.run_ops(&[op], &mask)
    }

    /// Takes a strand one operation on, or to the end of a region; false if it has ended.
    fn advance(&mut self, strand: &mut Strand) -> Result<bool, Error> {
        let kernel = self.kernel;
        let Some(frame) = strand.frames.last_mut() else { return Ok(false) };
        let Some(&op) = kernel.block(frame.block).ops.get(frame.next) else {
            return self.end_region(strand).map(|()| true);
        };
        frame.next += 1;
        match self.rule(op) {
            Some(Rule { stepwise: true, .. }) => {
                let mask = frame.mask.clone();
                strand.frames.extend(self.begin_region(op, kernel.op(op), mask)?);
            }
            Some(Rule { convergence: Convergence::Warp | Convergence::Block, .. }) => strand.waits = Some(op),
            _ => self.run_ops(&[op], &frame.mask)?,
        }
        Ok(true)
    }

    /// The first region of an operation that some threads of the mask run.
    fn begin_region(&mut self, op: Op, data: &OpData, mask: Mask) -> Result<Option<Frame>, Error> {
        let frame = |block, mask, region| Some(Frame { block, next: 0, mask, region });
        match data.kind {
            OpKind::If => {
                let condition = self.predicate(data.operands[0], data)?;
                let [then, otherwise] = [true, false].map(|arm| mask.filter(|lane| condition[lane] == arm));
                Ok(match (then.is_empty(), otherwise.is_empty()) {
                    (true, _) => frame(data.regions[1], otherwise, Region::Arm(op, None)),
                    (false, true) => frame(data.regions[0], then, Region::Arm(op, None)),
                    (false, false) => frame(data.regions[0], then, Region::Arm(op, Some(otherwise))),
                })
            }
            OpKind::For => {
                let (bounds, inits) = data.operands.split_at(3);
                let trips = self.trip_counts(bounds).map_err(|trap| self.error(trap, data.loc))?;
                self.assign(&self.kernel.block(data.regions[0]).args[1..], inits, &mask, data)?;
                self.round(op, 0, trips, mask)
            }
            _ => {
                self.assign(&self.kernel.block(data.regions[0]).args, &data.operands, &mask, data)?;
                Ok(frame(data.regions[0], mask.clone(), Region::Test(op, mask)))
            }
        }
    }

    /// A round of a `For`, unless the loop is over for all threads.
    fn round(&mut self, op: Op, trip: u64, trips: Vec<u64>, all: Mask) -> Result<Option<Frame>, Error> {
        let data = self.kernel.op(op);
        let body = data.regions[0];
        let args = &self.kernel.block(body).args;
        let mask = self.unfaulted(&all).filter(|lane| trip < trips[lane]);
        if mask.is_empty() {
            self.assign(&data.results, &args[1..], &all, data)?;
            return Ok(None);
        }
        let kept = self.kept(&args[..1], &mask);
        let set = self.set_induction(args[0], &data.operands[..3], trip);
        let set = set.and_then(|()| self.restore(kept, &args[..1], &mask));
        set.map_err(|trap| self.error(trap, data.loc))?;
        Ok(Some(Frame { block: body, next: 0, mask, region: Region::Round(op, trip, trips, all) }))
    }

    /// The end of the innermost region of a strand.
    fn end_region(&mut self, strand: &mut Strand) -> Result<(), Error> {
        let Some(Frame { block, mask, region, .. }) = strand.frames.pop() else { return Ok(()) };
        let kernel = self.kernel;
        let next = match region {
            Region::Body => None,
            Region::Arm(op, otherwise) => {
                let data = kernel.op(op);
                self.assign(&data.results, self.yields(block), &mask, data)?;
                let other =
                    |mask| Frame { block: data.regions[1], next: 0, mask, region: Region::Arm(op, None) };
                otherwise.map(other)
            }
            Region::Round(op, trip, trips, all) => {
                let data = kernel.op(op);
                self.assign(&kernel.block(block).args[1..], self.yields(block), &mask, data)?;
                self.check_time(data)?;
                self.round(op, trip + 1, trips, all)?
            }
            Region::Test(op, all) => {
                let data = kernel.op(op);
                let carried = &kernel.block(block).args;
                let holds = match self.yields(block).first() {
                    Some(&condition) => self.predicate(condition, data)?,
                    None => return Err(self.bug("a loop without a condition", data)),
                };
                let mask = self.unfaulted(&mask).filter(|lane| holds[lane]);
                if mask.is_empty() {
                    self.assign(&data.results, carried, &all, data)?;
                    None
                } else {
                    let body = data.regions[1];
                    self.assign(&kernel.block(body).args, carried, &mask, data)?;
                    Some(Frame { block: body, next: 0, mask, region: Region::Do(op, all) })
                }
            }
            Region::Do(op, all) => {
                let data = kernel.op(op);
                let test = data.regions[0];
                self.assign(&kernel.block(test).args, self.yields(block), &mask, data)?;
                self.check_time(data)?;
                Some(Frame { block: test, next: 0, mask, region: Region::Test(op, all) })
            }
        };
        strand.frames.extend(next);
        Ok(())
    }

    /// What scalars hold, if other threads than those of `mask` must keep it: their strands may use
    /// it still.
    pub fn kept(&self, values: &[Value], mask: &Mask) -> Vec<Data> {
        if self.schedule.is_none() || mask.is_full() {
            return Vec::new();
        }
        values.iter().map(|value| self.data(*value).clone()).collect()
    }

    /// Gives threads outside of `mask` back what they had.
    pub fn restore(&mut self, kept: Vec<Data>, values: &[Value], mask: &Mask) -> Result<(), Trap> {
        for (mut kept, &value) in kept.into_iter().zip(values) {
            if kept.len() == mask.width() && !self.is_tile(value) {
                let register = &mut self.registers[value.index()];
                kept.copy_lanes(register, mask)?;
                *register = kept;
            }
        }
        Ok(())
    }
}

/// For each thread, whether it waits at an operation.
fn waiting(op: Op, strands: &[Strand]) -> Vec<bool> {
    let mut there = Vec::new();
    for strand in strands.iter().filter(|strand| strand.waits == Some(op)) {
        if let Some(Frame { mask, .. }) = strand.frames.last() {
            there.resize(mask.width(), false);
            mask.lanes().for_each(|lane| there[lane] = true);
        }
    }
    there
}

/// What decides how operations run.
struct Context<'a> {
    kernel: &'a Kernel,
    guards: Option<&'a Guards>,
    fine: bool,
}

impl Context<'_> {
    /// Fills in how the operations of a block of the kernel run; gives the most threads that any of
    /// them needs together, and whether any runs in steps.
    fn find(&self, block: Block, guarded: bool, rules: &mut [Rule]) -> (Convergence, bool) {
        let kernel = self.kernel;
        let (mut most, mut any_stepwise) = (Convergence::Thread, false);
        for &op in &kernel.block(block).ops {
            let data = kernel.op(op);
            let mut own = convergence_of(kernel, data);
            // A fault in one thread is one of all, so that they must be at one place.
            if guarded && self.guards.is_some_and(|g| g.concerns_block(op)) {
                own = Convergence::Block;
            }
            let is_guard = data.kind == OpKind::Guard;
            let (mut inside, mut stepwise) = (Convergence::Thread, false);
            for &region in &data.regions {
                let found = self.find(region, guarded || is_guard, rules);
                (inside, stepwise) = (inside.max(found.0), stepwise | found.1);
            }
            let structured = matches!(data.kind, OpKind::If | OpKind::For | OpKind::While);
            let waits = data.kind == OpKind::While && may_wait(kernel, data);
            stepwise |= self.fine || waits || inside > Convergence::Thread;
            // Guards, and regions that give tiles, run in lockstep.
            stepwise &= structured && !guarded && own == Convergence::Thread;
            let convergence = if stepwise { own } else { own.max(inside) };
            rules[op.index()] = Rule { convergence, stepwise };
            (most, any_stepwise) = (most.max(own).max(inside), any_stepwise | stepwise);
        }
        (most, any_stepwise)
    }
}

/// Whether a loop may wait for what another thread of the block stores, so that it would never end
/// if it ran alone.
fn may_wait(kernel: &Kernel, data: &OpData) -> bool {
    data.regions.iter().flat_map(|&region| &kernel.block(region).ops).any(|&op| {
        let data = kernel.op(op);
        let looks = matches!(
            data.kind,
            OpKind::OrderedLoad { .. }
                | OpKind::PtrOrderedLoad { .. }
                | OpKind::Linear {
                    op: LinearOp::OrderedLoad { .. } | LinearOp::Atomic { .. } | LinearOp::AtomicCas { .. },
                    ..
                }
                | OpKind::LoadQuad(_)
                | OpKind::Atomic { .. }
                | OpKind::AtomicCas { .. }
                | OpKind::PtrAtomic { .. }
                | OpKind::PtrAtomicCas { .. }
                | OpKind::Sleep
                | OpKind::Clock(_)
        );
        looks || may_wait(kernel, data)
    })
}

/// Which threads execute an operation together, apart from what its regions hold.
fn convergence_of(kernel: &Kernel, data: &OpData) -> Convergence {
    let is_tile = |v| kernel.ty(v).as_tile().is_some_and(|t| t.shape.rank() > 0);
    if !data.kind.is_terminator() && data.operands.iter().chain(&data.results).any(|&v| is_tile(v)) {
        return Convergence::Block;
    }
    match &data.kind {
        OpKind::Barrier
        | OpKind::BlockUniform
        | OpKind::BlockCheck(_)
        | OpKind::Cluster(ClusterOp::Barrier) => Convergence::Block,
        // The memory of the block begins anew for all threads at once.
        OpKind::Alloc { space: Space::Shared | Space::Global, .. } | OpKind::Explicit(_) => {
            Convergence::Block
        }
        OpKind::Alloc { space: Space::Local, .. } => Convergence::Thread,
        OpKind::Shuffle(_) | OpKind::Vote(_) => Convergence::Warp,
        OpKind::Fragment(op) => match op {
            FragmentOp::Mma(_) | FragmentOp::LdMatrix { .. } | FragmentOp::StMatrix { .. } => {
                Convergence::Warp
            }
            FragmentOp::WarpgroupMma(_) | FragmentOp::WarpgroupWait { .. } => Convergence::Block,
            FragmentOp::CpAsync
            | FragmentOp::CpAsyncCommit
            | FragmentOp::CpAsyncWait { .. }
            | FragmentOp::Pack(_)
            | FragmentOp::AsyncProxyFence => Convergence::Thread,
        },
        OpKind::Const(_)
        | OpKind::Iota
        | OpKind::ProgramId(_)
        | OpKind::NumPrograms(_)
        | OpKind::ThreadId(_)
        | OpKind::BlockDim(_)
        | OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare(_)
        | OpKind::Select
        | OpKind::Fma
        | OpKind::Cast
        | OpKind::Bitcast
        | OpKind::Broadcast
        | OpKind::Reshape
        | OpKind::Transpose(_)
        | OpKind::Reduce { .. }
        | OpKind::Scan { .. }
        | OpKind::Dot(_)
        | OpKind::Extent(_)
        | OpKind::Stride(_)
        | OpKind::Load(_)
        | OpKind::Store { .. }
        | OpKind::Gather { .. }
        | OpKind::Scatter { .. }
        | OpKind::Atomic { .. }
        | OpKind::AtomicCas { .. }
        | OpKind::Fence(_)
        | OpKind::OrderedLoad { .. }
        | OpKind::OrderedStore { .. }
        | OpKind::LoadQuad(_)
        | OpKind::StoreQuad(_)
        | OpKind::Cluster(ClusterOp::StoreQuad | ClusterOp::PtrStoreQuad)
        | OpKind::Clock(_)
        | OpKind::Sleep
        | OpKind::If
        | OpKind::For
        | OpKind::While
        | OpKind::Yield
        | OpKind::Condition
        | OpKind::Guard
        | OpKind::Assert(_)
        | OpKind::Print(_)
        | OpKind::Address
        | OpKind::Scratch { .. }
        | OpKind::Linear { .. }
        | OpKind::PtrLoad { .. }
        | OpKind::PtrStore { .. }
        | OpKind::PtrAtomic { .. }
        | OpKind::PtrAtomicCas { .. }
        | OpKind::PtrOrderedLoad { .. }
        | OpKind::PtrOrderedStore { .. }
        | OpKind::CheckBounds
        | OpKind::CheckDivisor
        | OpKind::DeferFault { .. }
        | OpKind::Faulted => Convergence::Thread,
    }
}
