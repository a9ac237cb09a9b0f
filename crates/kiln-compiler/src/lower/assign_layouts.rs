//! Decides which layout each tile has, and in which layouts each is used.
//!
//! Values that are combined element by element or carried through control flow form classes with
//! one layout. A class takes it from what hardware dictates (a product of matrices), from a
//! reduction it holds the result of, from the memory access that moves most bytes, or from the tile
//! it is a transpose of, in this order. A walk from the last operation to the first then collects
//! the layouts in which each value is used.

use super::facts::IntFacts;
use super::in_flight;
use super::layout_classes::{Classes, access, registers_of_factor};
use super::layouts::{LayoutId, Layouts};
use super::pipeline::{self, Pipelines, Stages};
use super::plan::{LayoutPlan, Room};
use super::products::{self, Products};
use super::roles::{self, Role};
use crate::layout::{Conversion, Layout, Threads};
use crate::target::Target;
use kiln_ir::{Block, ExplicitOp, Kernel, Op, OpData, OpKind, Value};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// Plans a kernel for so many warps.
pub(crate) fn assign_layouts<'k>(
    kernel: &'k Kernel,
    facts: &mut IntFacts<'k>,
    warps: u32,
    target: &Target,
    room: Room,
) -> LayoutPlan {
    let values = kernel.counts().0;
    let threads = Threads { width: target.warp, warps };
    let mut plan = LayoutPlan {
        layouts: Layouts::new(threads),
        warps,
        threads,
        roles: roles::assign(kernel),
        home: vec![None; values],
        wanted: vec![SmallVec::new(); values],
        inputs: FxHashMap::default(),
        products: Products::default(),
        pipelines: Pipelines::default(),
        cost: target.cost,
    };
    let mut classes = Classes::new(kernel, &plan.roles, room.exchanges);
    let roles = plan.roles.clone();
    let class = |v: Value| classes.find(v);
    plan.products = products::find(kernel, target, &roles, warps, class, |layout| plan.intern(layout));
    let stages =
        Stages { most: target.cost.memory.most_stages, bytes: room.stages, asked: kernel.hints.stages };
    plan.pipelines = pipeline::find(kernel, stages, facts, &plan.products, &mut plan.roles, warps);
    classes.gather(kernel, facts, &mut plan);
    for index in 0..values {
        if plan.roles[index] == Role::Materialized && plan.home[index].is_none() {
            plan.home[index] = Some(classes.resolve(kernel, &mut plan, Value::from_index(index)));
        }
    }
    Demand { kernel, facts, classes, plan: &mut plan, exchange: room.exchanges }.collect();
    in_flight::find(kernel, &mut plan);
    plan
}

/// Collects in which layouts values are used, from the last operation to the first.
struct Demand<'a, 'k> {
    kernel: &'k Kernel,
    facts: &'a mut IntFacts<'k>,
    classes: Classes,
    plan: &'a mut LayoutPlan,
    /// Whether threads may exchange tiles.
    exchange: bool,
}

impl Demand<'_, '_> {
    fn collect(mut self) {
        let mut order = Vec::new();
        self.kernel.walk(|op, _| order.push(op));
        // Loads first: where one keeps a layout of its own, its users see that.
        for &op in &order {
            self.settle_load(op);
        }
        self.block(self.kernel.body, &[]);
    }

    /// A load whose class has an uncoalesced layout is made in a coalesced one and converted.
    fn settle_load(&mut self, op: Op) {
        let data = self.kernel.op(op);
        let held = |v: &Value| self.plan.roles[v.index()] == Role::Materialized;
        if !matches!(data.kind, OpKind::Load(_)) || !data.results.first().is_some_and(held) {
            return;
        }
        let home = self.plan.home(data.results[0]);
        let chosen = self.cheapest(data, data.results[0], home, true);
        self.plan.home[data.results[0].index()] = Some(chosen);
    }

    /// The layout in which a tile is stored.
    fn stored(&mut self, data: &OpData, tile: Value) -> LayoutId {
        if self.plan.roles[tile.index()] == Role::Rematerializable {
            let own =
                access(self.kernel, self.facts, data).layout(&self.kernel.shape(tile), self.plan.threads);
            return self.plan.intern(own);
        }
        let natural = self.natural(tile);
        self.cheapest(data, tile, natural, false)
    }

    /// Whether to move a box in the layout at hand or in memory's own with a conversion.
    fn cheapest(&mut self, data: &OpData, tile: Value, at_hand: LayoutId, load: bool) -> LayoutId {
        let contiguity = access(self.kernel, self.facts, data);
        let shape = self.kernel.shape(tile);
        let bytes = self.kernel.ty(tile).elem().bytes();
        let own = contiguity.layout(&shape, self.plan.threads);
        let here = self.plan.layout(at_hand);
        let sector = self.plan.cost.memory.sector;
        let cost = |layout: &Layout| contiguity.cost(layout, &shape, bytes, load, sector);
        let (direct, best) = (cost(here), cost(&own));
        if direct <= best || !self.exchange {
            return at_hand;
        }
        let (from, to) = if load { (&own, here) } else { (here, &own) };
        let convert = Conversion::between(from, to, bytes, &self.plan.cost).cost;
        if direct <= best + convert { at_hand } else { self.plan.intern(own) }
    }

    /// `results`: the layouts in which the region's parent carries what the region yields.
    fn block(&mut self, block: Block, results: &[Value]) {
        let kernel = self.kernel;
        for &op in kernel.block(block).ops.iter().rev() {
            let data = kernel.op(op);
            for &region in data.regions.iter().rev() {
                self.block(region, &data.results);
            }
            self.operands(op, data, results);
        }
    }

    fn use_in(&mut self, value: Value, layout: LayoutId) {
        let wanted = &mut self.plan.wanted[value.index()];
        if !wanted.contains(&layout) {
            wanted.push(layout);
        }
    }

    fn use_all_in(&mut self, values: &[Value], layout: LayoutId) {
        for &value in values.iter().filter(|v| roles::is_tile(self.kernel, **v)) {
            self.use_in(value, layout);
        }
    }

    /// Uses each value in the layout of its counterpart.
    fn use_like(&mut self, values: &[Value], like: &[Value]) {
        for (&value, &like) in values.iter().zip(like) {
            self.use_all_in(&[value], self.plan.home(like));
        }
    }

    /// The layouts in which a result is made.
    fn made(&self, result: Value) -> SmallVec<[LayoutId; 2]> {
        match self.plan.roles[result.index()] {
            Role::Rematerializable | Role::View => self.plan.wanted(result),
            _ => smallvec![self.plan.home(result)],
        }
    }

    fn natural(&mut self, value: Value) -> LayoutId {
        self.classes.natural(self.kernel, self.plan, value)
    }

    fn bytes(&self, value: Value) -> u32 {
        self.kernel.ty(value).elem().bytes()
    }

    /// A tile that all its users want in one other layout is made in that one, if this only moves
    /// the conversion to the one tile it comes from, or if it is loaded: conversions sink to where
    /// tiles are smallest, or vanish.
    fn follow_demand(&mut self, data: &OpData) {
        let Some(&result) = data.results.first() else { return };
        let (&[wanted], home) = (&self.plan.wanted(result)[..], self.plan.home(result)) else { return };
        if self.plan.roles[result.index()] != Role::Materialized || wanted == home {
            return;
        }
        let kind = &data.kind;
        let moves = if let OpKind::Load(_) = kind {
            self.cheapest(data, result, wanted, true) == wanted
        } else if *kind == OpKind::Cast && self.bytes(data.input()) > self.bytes(result) {
            // A conversion is cheaper behind what makes elements smaller.
            false
        } else if kind.is_elementwise() || *kind == OpKind::Reshape {
            let moved = |v: &&Value| matches!(self.plan.roles[v.index()], Role::Materialized | Role::View);
            let mut sources = data.operands.iter().filter(moved);
            let first = sources.next();
            sources.all(|v| Some(v) == first)
        } else {
            false
        };
        if moves {
            self.plan.home[result.index()] = Some(wanted);
        }
    }

    fn operands(&mut self, op: Op, data: &OpData, results: &[Value]) {
        let kernel = self.kernel;
        if data.results.first().is_some_and(|v| self.plan.roles[v.index()] == Role::SharedStaged) {
            return;
        }
        self.follow_demand(data);
        match &data.kind {
            OpKind::Dot(_) if self.plan.products.by_op.contains_key(&op) => self.product(op, data),
            OpKind::Broadcast | OpKind::Transpose(_) | OpKind::Reshape => {
                for layout in self.made(data.results[0]) {
                    let before = self.plan.before(kernel, data, layout);
                    self.use_all_in(&data.operands, before);
                }
            }
            OpKind::Reduce { .. } => {
                let layout = self.natural(data.input());
                self.input(op, data, layout);
            }
            OpKind::Scan { axis, .. } => {
                let home = self.plan.home(data.results[0]);
                let shape = kernel.shape(data.results[0]);
                let ordered = super::scan::is_ordered(self.plan.layout(home), &shape, *axis as usize);
                let layout = match ordered {
                    true => home,
                    false => {
                        let own = Layout::scanning(&shape, *axis as usize, self.plan.threads);
                        self.plan.intern(own)
                    }
                };
                self.input(op, data, layout);
            }
            OpKind::Dot(_) => {
                let layouts: SmallVec<[LayoutId; 2]> =
                    [data.left(), data.right()].iter().map(|&v| self.natural(v)).collect();
                self.use_in(data.left(), layouts[0]);
                self.use_in(data.right(), layouts[1]);
                self.plan.inputs.insert(op, layouts);
                self.use_like(&[data.addend()], &data.results);
            }
            OpKind::Explicit(
                ExplicitOp::Wgmma { .. } | ExplicitOp::WgmmaRegisters { .. } | ExplicitOp::WgmmaWait { .. },
            ) => {
                self.use_like(data.sums(), &data.results);
                let mut inputs = SmallVec::new();
                for &factor in registers_of_factor(data) {
                    let pairs = Layout::wgmma_pairs(&kernel.shape(factor), self.plan.warps);
                    let pairs = self.plan.intern(pairs);
                    self.use_in(factor, pairs);
                    inputs.push(pairs);
                }
                self.plan.inputs.insert(op, inputs);
            }
            OpKind::Explicit(ExplicitOp::PackPairs { .. }) => {
                let layout = self.plan.home(data.results[0]);
                let tile = self.plan.layout(layout).before_pairs();
                let tile = self.plan.intern(tile);
                self.input(op, data, tile);
            }
            OpKind::Explicit(ExplicitOp::SharedStore { .. }) => {
                let layout = self.natural(data.stored_value());
                self.input(op, data, layout);
            }
            OpKind::Store { .. } => {
                let tile = data.stored_value();
                if roles::is_tile(kernel, tile) {
                    let layout = self.stored(data, tile);
                    self.input(op, data, layout);
                }
            }
            OpKind::Scatter { .. } | OpKind::Assert(_) => {
                let held = |v: &&Value| self.plan.roles[v.index()] == Role::Materialized;
                let tile = data.operands.iter().rev().find(held).or(data.operands.last());
                if let Some(&tile) = tile.filter(|v| roles::is_tile(kernel, **v)) {
                    let layout = self.natural(tile);
                    self.input(op, data, layout);
                } else if let Some(&tile) = data.operands.iter().find(|v| roles::is_tile(kernel, **v)) {
                    let layout = self.natural(tile);
                    self.input(op, data, layout);
                }
            }
            OpKind::For => self.use_like(data.inits(), &data.results),
            OpKind::While => self.use_like(&data.operands, &data.results),
            OpKind::Yield => self.use_like(&data.operands, results),
            // Element by element: an element of the result needs those of the operands at its own
            // place.
            OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Fma
            | OpKind::Cast
            | OpKind::Bitcast
            | OpKind::Gather { .. }
            | OpKind::Atomic { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::Explicit(ExplicitOp::Exp2Flushed) => {
                let Some(&result) = data.results.first() else { return };
                for layout in self.made(result) {
                    self.use_all_in(&data.operands, layout);
                }
            }
            // No operand is a tile. Fault regions have become branches, and addresses are not there
            // yet.
            OpKind::Const(_)
            | OpKind::Iota
            | OpKind::ProgramId(_)
            | OpKind::NumPrograms(_)
            | OpKind::ThreadId(_)
            | OpKind::BlockDim(_)
            | OpKind::Extent(_)
            | OpKind::Stride(_)
            | OpKind::Alloc { .. }
            | OpKind::Load(_)
            | OpKind::Fence(_)
            | OpKind::OrderedLoad { .. }
            | OpKind::OrderedStore { .. }
            | OpKind::LoadQuad(_)
            | OpKind::StoreQuad(_)
            | OpKind::Atomic128 { .. }
            | OpKind::Barrier
            | OpKind::WarpBarrier
            | OpKind::GridBarrier
            | OpKind::Shuffle(_)
            | OpKind::Vote(_)
            | OpKind::BlockUniform
            | OpKind::Cluster(_)
            | OpKind::AsyncCopy(_)
            | OpKind::Clock(_)
            | OpKind::InlinePtx(_)
            | OpKind::Sleep
            | OpKind::If
            | OpKind::Condition
            | OpKind::FaultRegion
            | OpKind::Print(_)
            | OpKind::Fragment(_)
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
            | OpKind::BlockCheck(_)
            | OpKind::DeferFault { .. }
            | OpKind::Faulted
            | OpKind::Explicit(
                ExplicitOp::SharedTile { .. }
                | ExplicitOp::Mbarrier { .. }
                | ExplicitOp::MbarrierExpect { .. }
                | ExplicitOp::MbarrierArrive
                | ExplicitOp::MbarrierWait
                | ExplicitOp::TmaLoad { .. }
                | ExplicitOp::TmaStore
                | ExplicitOp::TmaReduce(_)
                | ExplicitOp::TmaPrefetch { .. }
                | ExplicitOp::TmaStoreWait { .. }
                | ExplicitOp::ProxyFence
                | ExplicitOp::TaskBarrier
                | ExplicitOp::Signal
                | ExplicitOp::SignalWait
                | ExplicitOp::SharedLoad
                | ExplicitOp::Tasks(_)
                | ExplicitOp::TaskRank
                | ExplicitOp::ClusterRank,
            ) => {}
        }
    }

    /// A factor that is made in the layout of fragments, or kept from before a loop, is used in it;
    /// others are read from shared memory, where they are from the layout at hand.
    fn product(&mut self, op: Op, data: &OpData) {
        let Some(product) = self.plan.products.by_op.get(&op).copied() else { return };
        let mut inputs: SmallVec<[LayoutId; 2]> = SmallVec::new();
        for (i, &factor) in [data.left(), data.right()].iter().enumerate() {
            let in_slot = self.plan.products.slots.contains_key(&factor);
            let staged = self.plan.roles[factor.index()] == Role::SharedStaged || in_slot;
            let layout = match product.fragments[i] {
                Some(layout) if product.kept[i] && !staged => layout,
                _ => self.natural(factor),
            };
            if !staged {
                self.use_in(factor, layout);
            }
            inputs.push(layout);
        }
        self.plan.inputs.insert(op, inputs);
        self.use_in(data.addend(), product.sums);
    }

    fn input(&mut self, op: Op, data: &OpData, layout: LayoutId) {
        self.plan.inputs.insert(op, smallvec![layout]);
        self.use_all_in(&data.operands, layout);
    }
}
