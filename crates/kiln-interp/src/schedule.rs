//! How the operations of a kernel run under a seeded schedule of the threads of a block, and the
//! random choices of one. `strands.rs` runs it.

use crate::mask::Mask;
use crate::order::mixed;
use crate::program::Loaded;
use kiln_ir::{Block, ClusterOp, FaultRegions, FragmentOp, Kernel, LinearOp, Op, OpData, OpKind, Space};
use std::sync::Arc;

/// Which threads execute an operation together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Convergence {
    /// Each thread by itself.
    Thread,
    /// The threads of a warp.
    Warp,
    /// All threads of the block.
    Block,
}

/// How an operation runs under a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The threads that execute it together, apart from what its regions hold.
    pub convergence: Convergence,
    /// Whether another strand may run while one is in a region of it.
    pub stepwise: bool,
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
    /// Threads of a warp.
    warp: usize,
}

impl Schedule {
    /// The schedule of a launch.
    pub fn new(loaded: &Loaded, seed: u64) -> Schedule {
        let kernel = &loaded.kernel;
        let fine = mixed(seed).is_multiple_of(FINE);
        let none = Rule { convergence: Convergence::Thread, stepwise: false };
        let mut rules = vec![none; kernel.counts().1];
        let context = Context { kernel, fault_regions: loaded.fault_regions.as_ref(), fine };
        context.find(kernel.body, false, &mut rules);
        Schedule { rules: rules.into(), seed, random: seed, fine, warp: loaded.warp }
    }

    /// Begins the block with this linear index.
    pub fn begin_block(&mut self, block: u32) {
        self.random = self.seed ^ mixed(block.into());
    }

    /// How an operation runs.
    pub fn rule(&self, op: Op) -> Rule {
        self.rules[op.index()]
    }

    /// After how many operations another strand runs.
    pub fn turns(&mut self) -> u64 {
        if self.fine { 1 + self.below(TURNS[0]) } else { TURNS[1] }
    }

    /// A random number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(1);
        mixed(self.random) % bound.max(1)
    }

    /// Divides threads at random: warps first, then the threads of each part. No part is empty.
    pub fn divide(&mut self, mask: &Mask) -> Vec<Mask> {
        let parts = self.divide_units(mask, self.warp, PARTS[0]);
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

/// What decides how operations run.
struct Context<'a> {
    kernel: &'a Kernel,
    fault_regions: Option<&'a FaultRegions>,
    fine: bool,
}

impl Context<'_> {
    /// Fills in how the operations of a block of the kernel run; gives the most threads that any of
    /// them needs together, and whether any runs in steps.
    fn find(&self, block: Block, in_fault_region: bool, rules: &mut [Rule]) -> (Convergence, bool) {
        let kernel = self.kernel;
        let (mut most, mut any_stepwise) = (Convergence::Thread, false);
        for &op in &kernel.block(block).ops {
            let data = kernel.op(op);
            let mut own = convergence_of(kernel, data);
            // A fault in one thread is one of all, so that they must be at one place.
            if in_fault_region && self.fault_regions.is_some_and(|r| r.concerns_block(op)) {
                own = Convergence::Block;
            }
            let is_fault_region = data.kind == OpKind::FaultRegion;
            let (mut inside, mut stepwise) = (Convergence::Thread, false);
            for &region in &data.regions {
                let found = self.find(region, in_fault_region || is_fault_region, rules);
                (inside, stepwise) = (inside.max(found.0), stepwise | found.1);
            }
            let structured = matches!(data.kind, OpKind::If | OpKind::For | OpKind::While);
            let waits = data.kind == OpKind::While && may_wait(kernel, data);
            stepwise |= self.fine || waits || inside > Convergence::Thread;
            // Fault regions, and regions that give tiles, run in lockstep.
            stepwise &= structured && !in_fault_region && own == Convergence::Thread;
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
                | OpKind::Atomic128 { .. }
                | OpKind::PtrAtomic128 { .. }
                | OpKind::Sleep
                | OpKind::Clock(_)
                | OpKind::InlinePtx(_)
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
        | OpKind::GridBarrier
        | OpKind::Cluster(ClusterOp::Barrier) => Convergence::Block,
        // The memory of the block begins anew for all threads at once.
        OpKind::Alloc { space: Space::Shared | Space::Global, .. } | OpKind::Explicit(_) => {
            Convergence::Block
        }
        OpKind::Alloc { space: Space::Local, .. } => Convergence::Thread,
        OpKind::Shuffle(_) | OpKind::Vote(_) | OpKind::WarpBarrier => Convergence::Warp,
        OpKind::Fragment(op) => match op {
            FragmentOp::Mma(_) | FragmentOp::LdMatrix { .. } | FragmentOp::StMatrix { .. } => {
                Convergence::Warp
            }
            FragmentOp::WarpgroupMma(_) | FragmentOp::WarpgroupWait { .. } | FragmentOp::Matrix(_) => {
                Convergence::Block
            }
            FragmentOp::Pack(_) | FragmentOp::AsyncProxyFence => Convergence::Thread,
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
        | OpKind::Atomic128 { .. }
        | OpKind::Cluster(ClusterOp::StoreQuad | ClusterOp::PtrStoreQuad)
        | OpKind::AsyncCopy(_)
        | OpKind::Clock(_)
        | OpKind::InlinePtx(_)
        | OpKind::Sleep
        | OpKind::If
        | OpKind::For
        | OpKind::While
        | OpKind::Yield
        | OpKind::Condition
        | OpKind::FaultRegion
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
        | OpKind::PtrAtomic128 { .. }
        | OpKind::CheckBounds
        | OpKind::CheckDivisor
        | OpKind::DeferFault { .. }
        | OpKind::Faulted => Convergence::Thread,
    }
}
