//! Classes of tiles that share a layout, and which layout each class has.
//!
//! Values that are combined element by element or carried through control flow are in one class.

use super::coalesce::Contiguity;
use super::facts::IntFacts;
use super::layouts::LayoutId;
use super::plan::LayoutPlan;
use super::roles::{self, Role};
use crate::layout::Layout;
use kiln_ir::{ExplicitOp, FragmentOp, Kernel, MatrixOp, Op, OpData, OpKind, Shape, Value};
use rustc_hash::FxHashMap;

/// The layout of a tile that nothing else decides about.
fn default_layout(plan: &mut LayoutPlan, shape: &Shape, bytes: u32) -> LayoutId {
    let last = shape.rank().saturating_sub(1);
    plan.intern(Layout::coalesced(shape, last, 16 / bytes, plan.threads))
}

/// Materialized values that share a layout, as a union-find forest, with what each class has to go
/// by.
pub(super) struct Classes {
    parent: Vec<u32>,
    hints: FxHashMap<u32, Hints>,
    /// Whether threads may exchange tiles.
    exchange: bool,
}

#[derive(Default)]
struct Hints {
    product: Option<LayoutId>,
    /// Operations whose result, a slice of their operand, is in the class.
    reductions: Vec<Op>,
    /// Bytes moved and the layout in which that is fastest.
    memory: Option<(usize, LayoutId)>,
    /// Transposes that are combined with the class.
    seen: Vec<Value>,
    settled: Settled,
}

#[derive(Default, Clone, Copy)]
enum Settled {
    #[default]
    No,
    /// On the way: a recursive query must do without.
    Begun,
    Yes(LayoutId),
}

impl Classes {
    pub(super) fn new(kernel: &Kernel, roles: &[Role], exchange: bool) -> Classes {
        let parent = (0..roles.len() as u32).collect();
        let mut classes = Classes { parent, hints: FxHashMap::default(), exchange };
        let mut seen = Vec::new();
        roles::joined(kernel, |a, b| match (roles[a.index()], roles[b.index()]) {
            (Role::Materialized, Role::Materialized) => {
                let (a, b) = (classes.find(a), classes.find(b));
                // The earlier value stands for the class, so that the default layout is that of its
                // shape.
                classes.parent[a.max(b) as usize] = a.min(b);
            }
            (Role::Materialized, Role::View) => seen.push((a, b)),
            _ => {}
        });
        for (value, transpose) in seen {
            classes.hints(value).seen.push(transpose);
        }
        classes
    }

    /// The layout in which a value is at hand without a conversion.
    pub(super) fn natural(&mut self, kernel: &Kernel, plan: &mut LayoutPlan, value: Value) -> LayoutId {
        let shape = kernel.shape(value);
        match plan.roles[value.index()] {
            Role::Uniform | Role::SharedStaged => LayoutId::SCALAR,
            Role::Materialized => match plan.home[value.index()] {
                Some(home) => home,
                None => self.resolve(kernel, plan, value),
            },
            Role::Rematerializable => default_layout(plan, &shape, kernel.ty(value).elem().bytes()),
            Role::View => {
                let made = kernel.defining_op(value);
                if let Some(data @ OpData { kind: OpKind::Transpose(perm), .. }) = made {
                    let under = self.natural(kernel, plan, data.input());
                    let after = plan.layout(under).after_transpose(&kernel.shape(data.input()), perm);
                    plan.intern(after)
                } else {
                    default_layout(plan, &shape, kernel.ty(value).elem().bytes())
                }
            }
        }
    }

    pub(super) fn find(&mut self, value: Value) -> u32 {
        let mut at = value.index() as u32;
        while self.parent[at as usize] != at {
            let above = self.parent[self.parent[at as usize] as usize];
            self.parent[at as usize] = above;
            at = above;
        }
        at
    }

    fn hints(&mut self, value: Value) -> &mut Hints {
        let class = self.find(value);
        self.hints.entry(class).or_default()
    }

    /// Collects what operations say about their classes.
    pub(super) fn gather(&mut self, kernel: &Kernel, facts: &mut IntFacts, plan: &mut LayoutPlan) {
        kernel.walk(|op, data| {
            let (value, layout) = match &data.kind {
                OpKind::Dot(_) => {
                    let sums = plan.products.by_op.get(&op).map(|p| p.sums).unwrap_or_else(|| {
                        let layout = Layout::product(&kernel.shape(data.results[0]), plan.threads);
                        plan.intern(layout)
                    });
                    self.hints(data.results[0]).product = Some(sums);
                    return;
                }
                OpKind::Explicit(ExplicitOp::Wgmma { .. } | ExplicitOp::WgmmaRegisters { .. }) => {
                    for &result in &data.results {
                        let layout = Layout::wgmma(&kernel.shape(result), plan.warps);
                        self.hints(result).product = Some(plan.intern(layout));
                    }
                    for &factor in registers_of_factor(data) {
                        let packed = Layout::wgmma_pairs(&kernel.shape(factor), plan.warps);
                        self.hints(factor).product = Some(plan.intern(packed));
                    }
                    return;
                }
                OpKind::Explicit(ExplicitOp::PackPairs { .. } | ExplicitOp::SharedLoad) => {
                    // As what products become, and take.
                    let shape = kernel.shape(data.results[0]);
                    if plan.warps.is_multiple_of(4) && shape[0] >= 16 * plan.warps {
                        let packed = plan.intern(Layout::wgmma_pairs(&shape, plan.warps));
                        self.hints(data.results[0]).product.get_or_insert(packed);
                    }
                    return;
                }
                OpKind::Fragment(FragmentOp::Matrix(MatrixOp::Load(grid))) => {
                    let result = data.results[0];
                    let sums = Layout::of_matrix(&kernel.shape(result), *grid, plan.threads);
                    self.hints(result).product = Some(plan.intern(sums));
                    return;
                }
                OpKind::Reduce { .. } if roles::is_tile(kernel, data.results[0]) => {
                    self.hints(data.results[0]).reductions.push(op);
                    return;
                }
                OpKind::Load(_)
                | OpKind::Gather { .. }
                | OpKind::Atomic { .. }
                | OpKind::AtomicCas { .. } => (data.results[0], access(kernel, facts, data)),
                OpKind::Store { .. } | OpKind::Scatter { .. } => {
                    (data.stored_value(), access(kernel, facts, data))
                }
                OpKind::Reduce { .. }
                | OpKind::Const(_)
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
                | OpKind::Scan { .. }
                | OpKind::Extent(_)
                | OpKind::Stride(_)
                | OpKind::Alloc { .. }
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
                | OpKind::For
                | OpKind::While
                | OpKind::Yield
                | OpKind::Condition
                | OpKind::FaultRegion
                | OpKind::Assert(_)
                | OpKind::Print(_)
                | OpKind::Explicit(_)
                | OpKind::Fragment(_)
                | OpKind::Linear { .. }
                | OpKind::Address
                | OpKind::Scratch { .. }
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
                | OpKind::Faulted => return,
            };
            if plan.roles[value.index()] != Role::Materialized {
                return;
            }
            let shape = kernel.shape(value);
            let bytes = shape.len() * kernel.ty(value).elem().bytes() as usize;
            let id = plan.intern(layout.layout(&shape, plan.threads));
            let hint = &mut self.hints(value).memory;
            if hint.is_none_or(|(most, _)| bytes > most) {
                *hint = Some((bytes, id));
            }
        });
    }

    /// The layout of a materialized value's class.
    pub(super) fn resolve(&mut self, kernel: &Kernel, plan: &mut LayoutPlan, value: Value) -> LayoutId {
        let class = self.find(value);
        let first = Value::from_index(class as usize);
        let default = |plan: &mut LayoutPlan| {
            default_layout(plan, &kernel.shape(first), kernel.ty(first).elem().bytes())
        };
        let hints = self.hints.entry(class).or_default();
        match hints.settled {
            Settled::Yes(layout) => return layout,
            Settled::Begun => return default(plan),
            Settled::No => hints.settled = Settled::Begun,
        }
        let memory = hints.memory.map(|(_, layout)| layout);
        let (product, reductions, seen) =
            (hints.product, std::mem::take(&mut hints.reductions), std::mem::take(&mut hints.seen));
        // Where nothing can be exchanged, what comes from a transpose is as that is.
        let bound = seen.first().filter(|_| !self.exchange);
        let layout = product
            .or_else(|| reductions.first().map(|&op| self.slice(kernel, plan, op)))
            .or_else(|| bound.map(|&v| self.natural(kernel, plan, v)))
            .or(memory)
            .or_else(|| seen.first().map(|&v| self.natural(kernel, plan, v)))
            .unwrap_or_else(|| default(plan));
        self.hints(value).settled = Settled::Yes(layout);
        layout
    }

    /// The layout that a reduction leaves its result in.
    fn slice(&mut self, kernel: &Kernel, plan: &mut LayoutPlan, op: Op) -> LayoutId {
        let data = kernel.op(op);
        let OpKind::Reduce { axis, .. } = data.kind else { return LayoutId::SCALAR };
        let from = self.natural(kernel, plan, data.input());
        let slice = plan.layout(from).without(&kernel.shape(data.input()), axis as usize);
        plan.intern(slice)
    }
}

/// The tiles that an explicit product takes its left factor from, if that is in registers.
pub(super) fn registers_of_factor(data: &OpData) -> &[Value] {
    let OpKind::Explicit(ExplicitOp::WgmmaRegisters { .. }) = data.kind else { return &[] };
    &data.registers()[..data.registers().len() - data.results.len()]
}

/// The best layout for memory of the tile of an access.
pub(super) fn access(kernel: &Kernel, facts: &mut IntFacts, data: &OpData) -> Contiguity {
    match data.kind {
        OpKind::Load(_) => {
            let shape = kernel.shape(data.results[0]);
            Contiguity::of(facts, kernel, data.view(), data.coordinates(), &shape)
        }
        OpKind::Store { .. } => {
            let shape = kernel.shape(data.stored_value());
            Contiguity::of(facts, kernel, data.view(), data.coordinates(), &shape)
        }
        // Where indices point is not known: neighboring lanes take neighboring elements. Only these
        // four have indices.
        _ => {
            debug_assert!(data.kind.bounds().is_some(), "{:?} is no access of elements", data.kind);
            let last = data.access_values().last();
            let rank = last.map_or(0, |&v| kernel.shape(v).rank());
            Contiguity::none(rank.saturating_sub(1))
        }
    }
}
