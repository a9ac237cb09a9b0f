//! Which kernels are eligible: those with loops of the body whose loads feed products of
//! warpgroups, and without anything that tasks cannot do.

use super::NotEligible;
use super::copies::Copied;
use crate::lower::facts::IntFacts;
use crate::lower::products;
use crate::target::Target;
use kiln_backend::CopyTaskLimits;
use kiln_ir::{
    Block, Def, ExplicitOp, Kernel, Level, Literal, Loc, Op, OpData, OpKind, Scalar, Shape, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Warps of a warpgroup.
const WARPGROUP: u32 = 4;
/// Rows of a product for each warp.
const ROWS: u32 = 16;

/// Where a factor in shared memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The copy of the loop with this number.
    Stage(usize),
    /// The copy from before all loops with this number.
    Kept(usize),
}

/// A factor in shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub source: Source,
    /// The factor is the loaded tile transposed.
    pub transposed: bool,
}

/// The left factor of a product.
#[derive(Clone, Copy, Debug)]
pub(super) enum Left {
    Stored(Stored),
    /// A tile of 16-bit elements that the round computes.
    Computed(Value),
}

/// A product of a loop.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub op: Op,
    pub left: Left,
    pub right: Stored,
}

impl Product {
    /// The copies of the loop that it reads.
    pub fn stages(&self) -> impl Iterator<Item = usize> + '_ {
        let left = if let Left::Stored(stored) = self.left { Some(stored) } else { None };
        left.into_iter().chain([self.right]).filter_map(|stored| match stored.source {
            Source::Stage(number) => Some(number),
            Source::Kept(_) => None,
        })
    }
}

/// A loop whose loads are copied.
#[derive(Debug)]
pub(super) struct EligibleLoop {
    pub op: Op,
    pub body: Block,
    pub copies: Vec<Copied>,
    pub products: Vec<Product>,
    /// Loads, and what only turns their tiles round.
    pub dropped: FxHashSet<Op>,
    /// What the places of the copies are computed from in a round, in order.
    pub slice: Vec<Op>,
    /// Which carried values they depend on.
    pub carried: Vec<usize>,
    /// The products only add to what the loop carries: those of a round may be under way while the
    /// next begins.
    pub in_flight: bool,
}

impl EligibleLoop {
    /// By copy: its group. A group arrives, and is released, as a whole: it is what one product
    /// needs and none before it did.
    pub fn groups(&self) -> Vec<usize> {
        let mut groups = vec![None; self.copies.len()];
        let mut next = 0;
        for product in &self.products {
            let fresh: Vec<usize> = product.stages().filter(|&i| groups[i].is_none()).collect();
            fresh.iter().for_each(|&i| groups[i] = Some(next));
            next += usize::from(!fresh.is_empty() && !self.in_flight);
        }
        groups.into_iter().map(Option::unwrap_or_default).collect()
    }
}

fn is_product(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Dot(_))
}

/// How a kernel is taken apart.
#[derive(Debug)]
pub(super) struct EligibleKernel {
    pub loops: Vec<EligibleLoop>,
    /// Factors that are loaded before the loops and kept for all of them.
    pub kept: Vec<Copied>,
    /// Loads of these, and what turns them round.
    pub kept_ops: FxHashSet<Op>,
    /// Scalars of the body that are computed for all tasks.
    pub outside: FxHashSet<Op>,
    /// Warps that multiply.
    pub warps: u32,
}

impl EligibleKernel {
    pub fn of(kernel: &Kernel, target: &Target) -> Result<EligibleKernel, NotEligible> {
        let warps = suits(kernel, target)?;
        let mut finder = Finder::new(kernel, warps, target);
        let mut loops = Vec::new();
        for &op in &kernel.block(kernel.body).ops {
            let data = kernel.op(op);
            let multiplies =
                |&region: &Block| kernel.block(region).ops.iter().any(|&op| is_product(&kernel.op(op).kind));
            if data.kind == OpKind::For && data.regions.iter().any(multiplies) {
                loops.push(finder.looped(op, data)?);
            }
        }
        let found: usize = loops.iter().map(|l| l.products.len()).sum();
        let (mut all, mut loc) = (0, Loc::default());
        kernel.walk(|_, data| {
            if is_product(&data.kind) {
                all += 1;
                loc = data.loc;
            }
        });
        if found != all {
            return NotEligible::new(loc, "a product stands in no loop of the kernel's body");
        }
        let Finder { outside, kept, kept_ops, .. } = finder;
        Ok(EligibleKernel { loops, kept, kept_ops, outside, warps })
    }
}

/// Whether a kernel is one of tiles with products that no task of its own is in the way of; gives
/// its warps.
fn suits(kernel: &Kernel, target: &Target) -> Result<u32, NotEligible> {
    let mut products = false;
    let mut wrong = None;
    kernel.walk(|op, data| {
        products |= is_product(&data.kind);
        if !has_its_place(kernel, op, data) {
            wrong.get_or_insert((data.loc, data.kind.mnemonic()));
        }
    });
    let Level::Tile { warps } = kernel.level else {
        return NotEligible::new(Loc::default(), "it is over threads");
    };
    if !products {
        return NotEligible::new(Loc::default(), "it has no products of matrices");
    }
    if !target.tasks {
        return NotEligible::new(Loc::default(), "the target has no bulk tensor copies");
    }
    if let Some((loc, what)) = wrong {
        return NotEligible::new(loc, format!("`{what}` is for whole blocks or others than memory"));
    }
    if kernel.hints.registers.is_some() {
        return NotEligible::new(
            Loc::default(),
            "the launch limits the registers, of which tasks have budgets",
        );
    }
    let warps = warps.or_else(|| products::warps(kernel, kernel, target)).unwrap_or(0);
    if warps == 0 || !warps.is_multiple_of(WARPGROUP) || warps > 4 * WARPGROUP || kernel.cluster != 1 {
        return NotEligible::new(Loc::default(), format!("{warps} warps are no warpgroups of one block"));
    }
    Ok(warps)
}

/// Whether an operation may stand in the task that multiplies: it communicates through memory
/// alone. Its fault is deferred there.
fn has_its_place(kernel: &Kernel, op: Op, data: &OpData) -> bool {
    use OpKind::*;
    match &data.kind {
        Gather { .. } | Scatter { .. } | Atomic { .. } | Assert(_) | Binary(_) => true,
        Load(_) | Store { .. } | For | If | While | Yield | Condition => true,
        Explicit(ExplicitOp::Exp2Flushed) => true,
        Fragment(_) | Explicit(_) => false,
        Const(_)
        | Iota
        | ProgramId(_)
        | NumPrograms(_)
        | ThreadId(_)
        | BlockDim(_)
        | Unary(_)
        | Compare(_)
        | Select
        | Fma
        | Cast
        | Bitcast
        | Broadcast
        | Reshape
        | Transpose(_)
        | Reduce { .. }
        | Scan { .. }
        | Dot(_)
        | Extent(_)
        | Stride(_)
        | Alloc { .. }
        | AtomicCas { .. }
        | Fence(_)
        | OrderedLoad { .. }
        | OrderedStore { .. }
        | LoadQuad(_)
        | StoreQuad(_)
        | Atomic128 { .. }
        | Barrier
        | WarpBarrier
        | GridBarrier
        | Shuffle(_)
        | Vote(_)
        | BlockUniform
        | Cluster(_)
        | AsyncCopy(_)
        | Clock(_)
        | InlinePtx(_)
        | Sleep
        | FaultRegion
        | Print(_)
        | Address
        | Scratch { .. }
        | Linear { .. }
        | PtrLoad { .. }
        | PtrStore { .. }
        | PtrAtomic { .. }
        | PtrAtomicCas { .. }
        | PtrOrderedLoad { .. }
        | PtrOrderedStore { .. }
        | PtrAtomic128 { .. }
        | CheckBounds
        | CheckDivisor
        | BlockCheck(_)
        | DeferFault { .. }
        | Faulted => kernel.is_pure(op),
    }
}

struct Finder<'k> {
    kernel: &'k Kernel,
    facts: IntFacts<'k>,
    warps: u32,
    target: &'k Target,
    users: FxHashMap<Value, Vec<Op>>,
    outside: FxHashSet<Op>,
    kept: Vec<Copied>,
    kept_ops: FxHashSet<Op>,
}

impl<'k> Finder<'k> {
    fn new(kernel: &'k Kernel, warps: u32, target: &'k Target) -> Finder<'k> {
        let mut users: FxHashMap<Value, Vec<Op>> = FxHashMap::default();
        kernel.walk(|op, data| data.operands.iter().for_each(|&v| users.entry(v).or_default().push(op)));
        let mut finder = Finder {
            kernel,
            facts: IntFacts::new(kernel),
            warps,
            target,
            users,
            outside: FxHashSet::default(),
            kept: Vec::new(),
            kept_ops: FxHashSet::default(),
        };
        for &op in &kernel.block(kernel.body).ops {
            let data = kernel.op(op);
            let scalars = data.results.iter().all(|&v| kernel.ty(v).is_scalar());
            let known = data.operands.iter().all(|&v| finder.is_outside(v));
            if scalars && known && data.regions.is_empty() && finder.is_repeatable(op, data) {
                finder.outside.insert(op);
            }
        }
        finder
    }

    /// Whether a scalar operation has no effect and reads nothing that the kernel writes.
    fn is_repeatable(&self, op: Op, data: &OpData) -> bool {
        let reads = matches!(data.kind, OpKind::Load(_) | OpKind::Gather { .. });
        !data.results.is_empty() && (self.kernel.is_pure(op) || reads && self.is_read_only(data.view()))
    }

    fn is_outside(&self, value: Value) -> bool {
        match self.kernel.def(value) {
            Def::Arg(block, _) => block == self.kernel.body,
            Def::Result(op, _) => self.outside.contains(&op),
        }
    }

    fn is_read_only(&self, view: Value) -> bool {
        match self.kernel.def(view) {
            Def::Arg(_, i) => self.kernel.params.get(i as usize).is_some_and(|p| !p.mutable),
            Def::Result(..) => false,
        }
    }

    fn looped(&mut self, op: Op, data: &'k OpData) -> Result<EligibleLoop, NotEligible> {
        let body = data.regions[0];
        if !data.for_bounds().iter().all(|&v| self.is_outside(v)) {
            return NotEligible::new(
                data.loc,
                "the loop bounds depend on a value that only one task computes",
            );
        }
        let mut found = EligibleLoop {
            op,
            body,
            copies: Vec::new(),
            products: Vec::new(),
            dropped: FxHashSet::default(),
            slice: Vec::new(),
            carried: Vec::new(),
            in_flight: false,
        };
        for &at in &self.kernel.block(body).ops {
            let data = self.kernel.op(at);
            if is_product(&data.kind) {
                let product = self.product(at, data, &mut found)?;
                found.products.push(product);
            }
        }
        let mut needs = Needs { finder: self, op, body, slice: FxHashSet::default(), carried: Vec::new() };
        for copy in &found.copies {
            let loc = self.kernel.op(copy.op).loc;
            if !copy.offsets.iter().all(|&offset| needs.add(offset)) {
                return NotEligible::new(loc, "its address depends on a value that only one task computes");
            }
        }
        let Needs { slice, carried, .. } = needs;
        found.carried = carried;
        found.slice = self.kernel.block(body).ops.iter().copied().filter(|op| slice.contains(op)).collect();
        found.in_flight = found.products.iter().all(|product| self.flows(&found, product));
        self.pays(&found, data.loc)?;
        Ok(found)
    }

    /// Whether a task that copies makes the loop faster, by the target's cost model.
    fn pays(&self, found: &EligibleLoop, loc: Loc) -> Result<(), NotEligible> {
        let sums = |product: &Product| self.kernel.shape(self.kernel.result(product.op)).len() as u32;
        let CopyTaskLimits { most_sums, most_sums_seen, fewest_sums } = self.target.cost.copy_task;
        let each = found.products.iter().map(sums).sum::<u32>() / (self.target.warp * self.warps);
        let most = if found.in_flight { most_sums } else { most_sums_seen };
        if each > most {
            return NotEligible::new(
                loc,
                format!("{each} sums a thread leave too few registers beside a warp that copies"),
            );
        }
        let least = found.products.iter().map(sums).min().unwrap_or(0);
        if found.in_flight && least < fewest_sums {
            return NotEligible::new(loc, format!("products of {least} sums are too small to gain"));
        }
        Ok(())
    }

    fn product(&mut self, op: Op, data: &OpData, found: &mut EligibleLoop) -> Result<Product, NotEligible> {
        let kernel = self.kernel;
        let [m, n, k] = products::extents(kernel, data);
        let elem = kernel.ty(data.left()).elem();
        let fits = matches!(elem, Scalar::F16 | Scalar::BF16)
            && kernel.ty(data.right()).elem() == elem
            && kernel.ty(data.results[0]).elem() == Scalar::F32
            && m.is_multiple_of(64)
            && m >= ROWS * self.warps
            && (16..=256).contains(&n)
            && [m, n, k].iter().all(|e| e.is_power_of_two() && *e >= 16);
        if !fits {
            return NotEligible::new(
                data.loc,
                format!("a product {m} × {n} × {k} of {elem} by {} warps is none of warpgroups", self.warps),
            );
        }
        let right = self.stored(data.right(), data.loc, found)?;
        let left = match self.stored(data.left(), data.loc, found) {
            Ok(stored) => Left::Stored(stored),
            Err(not_eligible) => match self.computed(data.left(), found.body) {
                true => Left::Computed(data.left()),
                false => return Err(not_eligible),
            },
        };
        Ok(Product { op, left, right })
    }

    /// Whether a tile is made in the body, by other than a load.
    fn computed(&self, value: Value, body: Block) -> bool {
        match self.kernel.def(value) {
            Def::Result(op, _) => {
                let kind = &self.kernel.op(op).kind;
                self.kernel.block(body).ops.contains(&op)
                    && !matches!(kind, OpKind::Load(_) | OpKind::Transpose(_))
            }
            Def::Arg(..) => false,
        }
    }

    /// The copy that a factor is.
    fn stored(&mut self, value: Value, loc: Loc, found: &mut EligibleLoop) -> Result<Stored, NotEligible> {
        let kernel = self.kernel;
        let (mut at, mut transposed, mut chain) = (value, false, Vec::new());
        let load = loop {
            let Def::Result(op, _) = kernel.def(at) else {
                return NotEligible::new(loc, "a factor is carried from round to round");
            };
            let data = kernel.op(op);
            chain.push(op);
            if let OpKind::Load(_) = data.kind {
                break op;
            }
            let transposes = matches!(data.kind, OpKind::Transpose(_)) && kernel.shape(at).rank() == 2;
            let squeezes = || {
                data.kind == OpKind::Reshape && is_squeezed(&kernel.shape(data.input()), &kernel.shape(at))
            };
            if !transposes && !squeezes() {
                return NotEligible::new(data.loc, "a factor is computed before it is multiplied");
            }
            transposed ^= transposes;
            at = data.input();
        };
        let data = kernel.op(load);
        let (view, shape) = (data.view(), kernel.shape(data.results[0]));
        let within = kernel.block(found.body).ops.contains(&load);
        let source = if within {
            found.copies.iter().position(|c| c.op == load).map(Source::Stage)
        } else {
            self.kept.iter().position(|c| c.op == load).map(Source::Kept)
        };
        if let Some(source) = source {
            let dropped = if within { &mut found.dropped } else { &mut self.kept_ops };
            dropped.extend(chain);
            return Ok(Stored { source, transposed });
        }
        let zero = Literal::zero(kernel.ty(view).elem());
        if !self.is_read_only(view) || kernel.as_const(data.padding()) != Some(zero) {
            return NotEligible::new(
                data.loc,
                "the kernel writes what it loads, or pads it with other than zeros",
            );
        }
        if !self.only_multiplied(data.results[0]) {
            return NotEligible::new(data.loc, "what is loaded is not only multiplied");
        }
        let offsets = data.coordinates();
        let copied = Copied::of(kernel, &mut self.facts, (load, view), offsets, &shape)?;
        if within {
            found.dropped.extend(chain);
            found.copies.push(copied);
            return Ok(Stored { source: Source::Stage(found.copies.len() - 1), transposed });
        }
        if !kernel.block(kernel.body).ops.contains(&load) || !offsets.iter().all(|&v| self.is_outside(v)) {
            return NotEligible::new(data.loc, "a factor is loaded neither in the loop nor before all");
        }
        self.kept_ops.extend(chain);
        self.kept.push(copied);
        Ok(Stored { source: Source::Kept(self.kept.len() - 1), transposed })
    }

    /// Whether a tile only goes to products as a factor, maybe transposed first.
    fn only_multiplied(&self, value: Value) -> bool {
        let users = self.users.get(&value).map_or(&[][..], Vec::as_slice);
        users.iter().all(|&user| {
            let data = self.kernel.op(user);
            let moves = matches!(data.kind, OpKind::Reshape | OpKind::Transpose(_));
            let multiplies = matches!(data.kind, OpKind::Dot(_)) && data.addend() != value;
            multiplies || moves && self.only_multiplied(data.results[0])
        })
    }

    /// Whether nothing else in the loop reads a product's sums.
    fn flows(&self, found: &EligibleLoop, product: &Product) -> bool {
        let (data, block) = (self.kernel.op(product.op), self.kernel.block(found.body));
        let (before, after) = (data.addend(), data.results[0]);
        let place = block.args.iter().position(|&arg| arg == before).and_then(|i| i.checked_sub(1));
        let once = |v: Value| self.users.get(&v).is_some_and(|users| users.len() == 1);
        let handed_on = block.ops.last().map(|&end| self.kernel.op(end));
        matches!(product.left, Left::Stored(_))
            && place.is_some_and(|i| handed_on.is_some_and(|end| end.operands.get(i) == Some(&after)))
            && once(before)
            && once(after)
    }
}

/// Whether a shape is a matrix with extents of 1 before it, and the other the matrix.
fn is_squeezed(from: &Shape, to: &Shape) -> bool {
    let (rank, to) = (from.rank(), to.extents());
    rank >= 2 && from.extents()[rank - 2..] == *to && from.extents()[..rank - 2].iter().all(|e| *e == 1)
}

/// What the places of copies depend on in a round.
struct Needs<'a, 'k> {
    finder: &'a Finder<'k>,
    op: Op,
    body: Block,
    slice: FxHashSet<Op>,
    carried: Vec<usize>,
}

impl Needs<'_, '_> {
    /// Adds what a scalar is computed from; false if the task that copies cannot know it.
    fn add(&mut self, value: Value) -> bool {
        let kernel = self.finder.kernel;
        match kernel.def(value) {
            Def::Arg(block, 0) if block == self.body => true,
            Def::Arg(block, i) if block == self.body => {
                let place = i as usize - 1;
                if self.carried.contains(&place) {
                    return true;
                }
                self.carried.push(place);
                let end = kernel.block(self.body).ops.last().map(|&op| kernel.op(op));
                let next = end.and_then(|end| end.operands.get(place).copied());
                let first = kernel.op(self.op).inits()[place];
                kernel.ty(value).is_scalar()
                    && self.finder.is_outside(first)
                    && next.is_some_and(|next| self.add(next))
            }
            Def::Result(op, _) if kernel.block(self.body).ops.contains(&op) => {
                if !self.slice.insert(op) {
                    return true;
                }
                let data = kernel.op(op);
                data.results.iter().all(|&v| kernel.ty(v).is_scalar())
                    && data
                        .operands
                        .iter()
                        .all(|&v| kernel.ty(v).as_view().is_some() || kernel.ty(v).is_scalar())
                    && data.regions.is_empty()
                    && self.finder.is_repeatable(op, data)
                    && data.operands.iter().all(|&v| self.add(v))
            }
            _ => self.finder.is_outside(value),
        }
    }
}
