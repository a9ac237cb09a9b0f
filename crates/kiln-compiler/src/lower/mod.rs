//! The lowering from tiles to threads.
//!
//! [`lower_to_threads`] makes of a kernel over tiles one in which every value is a scalar: each
//! tile becomes the registers that one thread holds of it under a [`Layout`], memory is reached by
//! address in vectors, and threads exchange elements by shuffles and through the block's scratch
//! memory. Control flow keeps its structure.
//!
//! | file | holds |
//! |---|---|
//! | `roles.rs` | what each value becomes: scalar, rematerialized, a view, materialized |
//! | `plan.rs`, `layouts.rs` | which layout each tile has and where it is wanted in another |
//! | `assign_layouts.rs`, `layout_classes.rs` | how that is decided; tiles that share a layout |
//! | `facts.rs` | divisors and intervals of integers |
//! | `narrow.rs` | index arithmetic in 32 bits |
//! | `coalesce.rs` | how a box of memory is best moved |
//! | `emit.rs` | writing the thread-level kernel |
//! | `elementwise.rs` | operations on each element by itself, and changes of shape |
//! | `flow.rs` | `if`, `for`, `while` |
//! | `memory.rs`, `box_access.rs`, `mask.rs` | boxes of views, and which of their elements exist |
//! | `indexed.rs` | gather, scatter and atomics |
//! | `ordered.rs` | ordered accesses, alone and by quads |
//! | `reduce.rs`, `scan.rs`, `combine.rs` | reductions and scans and what they combine with |
//! | `dot.rs` | products of matrices, without matrix units |
//! | `products.rs`, `mma.rs`, `warpgroups.rs` | products on matrix units: which, and how |
//! | `matrix.rs` | sums on matrix units whose fragments only they can read |
//! | `pipeline.rs`, `stages.rs` | loops that load to shared memory some iterations ahead |
//! | `in_flight.rs` | products that are under way from one round to the next |
//! | `cluster.rs` | stores to other blocks of a cluster |
//! | `explicit.rs` | tasks, products in flight |
//! | `copy_checks.rs` | where bulk copies may begin |
//! | `shared_store.rs` | copies between registers and shared tiles |
//! | `checks.rs` | asserts, indices and divisors that the threads of a block check together |
//! | `deferred_faults.rs` | faults where threads wait for each other |
//! | `signals.rs` | by which programs wait for each other |
//! | `convert.rs` | from one layout to another |
//! | `block_uniform.rs` | from the first thread to all |
//! | `portable.rs` | what a target has no addresses or lanes for |
//! | `scratch.rs` | where in scratch memory exchanges take place |
//! | `report.rs` | the layouts of a kernel in words |
//! | `barriers.rs` | barriers where threads read what others wrote |

mod assign_layouts;
mod barriers;
mod block_uniform;
mod box_access;
mod checks;
mod cluster;
mod coalesce;
pub(crate) mod combine;
mod convert;
mod copy_checks;
mod deferred_faults;
mod dot;
mod elementwise;
mod emit;
mod explicit;
pub(crate) mod facts;
mod flow;
mod in_flight;
mod indexed;
mod layout_classes;
mod layouts;
mod lowered;
mod mask;
mod matrix;
mod memory;
mod mma;
mod narrow;
mod ordered;
mod pipeline;
mod plan;
mod portable;
pub(crate) mod products;
mod reduce;
mod report;
mod roles;
mod scan;
mod scratch;
mod shared_store;
mod signals;
mod stages;
mod warpgroups;

use crate::error::CompileError;
use crate::fault_region;
use crate::layout::Layout;
use crate::legalize::legalize_tiles;
use crate::target::{Target, TargetKind, WARP};
use crate::widen::widen_products;
pub use report::explain_layouts;

use assign_layouts::assign_layouts;
use barriers::Accesses;
use checks::Found;
use deferred_faults::DeferredFaults;
use emit::{Emitter, OpKey};
use facts::IntFacts;
use kiln_ir::{
    AsyncCopyOp, Def, ExplicitOp, FragmentOp, Kernel, Level, Loc, Op, OpData, OpKind, Scalar, Scope, Type,
    Uniformity, Value,
};
use layouts::LayoutId;
use plan::{LayoutPlan, Room};
use products::Unit;
use roles::Role;
use scratch::ScratchMemory;
use smallvec::SmallVec;
use std::rc::Rc;

/// The registers of a tile in one layout, by register index.
type Registers = Rc<[Value]>;

/// Lowers a kernel to threads: in the result, of level [`Level::Thread`], every value has rank 0,
/// and scratch memory is laid out.
///
/// A kernel that is at thread level already keeps its block; its accesses become addresses and
/// predicates.
///
/// # Errors
/// A tile whose extents are sums of too many powers of two, blocks or scratch memory over the
/// target's limits, and operations that have no lowering. Each names the place in the user's
/// source. A kernel that was lowered already is given back as it is.
///
/// ```
/// use kiln_compiler::{Target, lower_to_threads};
/// use kiln_ir::*;
/// let mut kernel = Kernel::new("double", Level::Tile { warps: None });
/// let ty = Type::view(Scalar::F32, 1, Space::Global);
/// let facts = Facts::default();
/// let x = kernel.add_param(Param { name: "x".into(), ty, mutable: true, facts });
/// let mut b = Builder::new(&mut kernel);
/// let pid = b.program_id(Axis::X);
/// let block = b.index(1024);
/// let at = b.binary(BinaryOp::Mul, pid, block);
/// let zero = b.constant(Literal::f32(0.0));
/// let v = b.load(x, &[at], zero, Shape::new(&[1024]), Reuse::Normal);
/// let w = b.binary(BinaryOp::Add, v, v);
/// b.store(x, &[at], w, Reuse::Normal, true);
/// let threads = lower_to_threads(&kernel, &Target::cuda((9, 0), 227 << 10))?;
/// assert_eq!(threads.level, Level::Thread { block: [128, 1, 1] });
/// # Ok::<(), kiln_compiler::CompileError>(())
/// ```
pub fn lower_to_threads(kernel: &Kernel, target: &Target) -> Result<Kernel, CompileError> {
    if lowered::is_lowered(kernel)? {
        let mut lowered = kernel.clone();
        portable::finish(&mut lowered, 0, target)?;
        return Ok(lowered);
    }
    deferred_faults::refuse_fault_regions(kernel)?;
    let checked = copy_checks::checked(kernel);
    let kernel = checked.as_ref().unwrap_or(kernel);
    let lowered = fault_region::lowered(kernel);
    let whole = lowered.as_ref().unwrap_or(kernel);
    portable::refuse_shuffles(whole, target)?;
    let legalized = legalize_tiles(whole)?;
    let kernel = legalized.as_ref().unwrap_or(whole);
    let widened = widened(kernel, target);
    let kernel = widened.as_ref().unwrap_or(kernel);
    let block = choose_block(kernel, whole, target)?;
    let narrow = narrow::narrow(kernel, target.index);
    let kernel = narrow.as_ref().unwrap_or(kernel);
    // What exchanges take is only known in the end: if stages leave them too little shared memory,
    // they get less.
    let mut budget = target.shared_memory;
    loop {
        match attempt(kernel, target, block, budget) {
            (Err(CompileError::SharedMemory { .. }), true) => budget /= 2,
            (lowered, _) => return lowered,
        }
    }
}

/// The kernel with those products of 8-bit numbers converted that no matrix units of the target
/// multiply, if there are any.
fn widened(kernel: &Kernel, target: &Target) -> Option<Kernel> {
    widen_products(kernel, |kernel, data| products::factors(kernel, data, target).is_some())
}

/// Lowers a kernel with stages of pipelined loops in so many bytes of shared memory, and says
/// whether there are any.
fn attempt(
    kernel: &Kernel,
    target: &Target,
    block: [u32; 3],
    budget: u32,
) -> (Result<Kernel, CompileError>, bool) {
    let mut facts = IntFacts::new(kernel);
    let warps = (block.iter().product::<u32>() / target.warp).max(1);
    let room = Room { exchanges: true, stages: budget };
    let plan = assign_layouts(kernel, &mut facts, warps, target, room);
    let stages = !plan.pipelines.by_loop.is_empty();
    let alignment = plan.products.alignment().unwrap_or(scratch::ALIGN);
    let deferred = match DeferredFaults::of(kernel, &mut facts, &plan) {
        Ok(deferred) => deferred,
        Err(error) => return (Err(error), false),
    };
    let mut lowering = Lowering {
        src: kernel,
        deferred,
        found: Found::default(),
        splats: checks::splats(kernel),
        facts,
        plan,
        target,
        stages: Vec::new(),
        em: Emitter::new(&kernel.name, block),
        tiles: vec![SmallVec::new(); kernel.counts().0],
        scratch: ScratchMemory::aligned(alignment),
        accesses: Accesses::default(),
        warps,
        one_thread: false,
        per_thread: matches!(kernel.level, Level::Thread { .. }),
        uniformity: asks_for_uniform(kernel).then(|| Uniformity::of(kernel)),
    };
    if let Err(error) = lowering.run() {
        return (Err(error), stages);
    }
    let Lowering { em, scratch, accesses, .. } = lowering;
    let (mut lowered, prologue) = em.finish();
    crate::expand::remainders(&mut lowered);
    if let Err(error) = scratch.finish(&mut lowered, target) {
        return (Err(error), stages);
    }
    barriers::insert(&mut lowered, &accesses);
    let finished = portable::finish(&mut lowered, prologue, target);
    (finished.map(|()| lowered), stages)
}

fn asks_for_uniform(kernel: &Kernel) -> bool {
    let mut asks = false;
    kernel.walk(|_, data| asks |= matches!(data.kind, OpKind::BlockUniform));
    asks
}

/// The block's extents: as given, or as many warps as suit the largest tile of the kernel as it
/// was, `whole`, before its tiles were legalized.
fn choose_block(kernel: &Kernel, whole: &Kernel, target: &Target) -> Result<[u32; 3], CompileError> {
    let nvidia = matches!(target.kind, TargetKind::Cuda { .. });
    if !target.warp.is_power_of_two() || target.warp > target.max_threads || nvidia && target.warp != WARP {
        return Err(CompileError::Unsupported {
            location: kernel.describe(Loc::default()),
            what: format!("a target with warps of {} threads", target.warp),
            hint: format!("lower for warps of {WARP}"),
        });
    }
    let mut largest = 0;
    let mut product = false;
    let mut first: Option<Loc> = None;
    let mut tasks = None;
    whole.walk(|_, data| {
        if let OpKind::Explicit(ExplicitOp::Tasks(list)) = &data.kind {
            tasks = Some(list.iter().map(|t| t.copies * t.warps).sum::<u32>());
        }
        product |= matches!(
            data.kind,
            OpKind::Dot(_) | OpKind::Explicit(ExplicitOp::Wgmma { .. } | ExplicitOp::WgmmaRegisters { .. })
        );
        let args = data.regions.iter().flat_map(|&r| &whole.block(r).args);
        for &value in data.results.iter().chain(args).chain(&data.operands) {
            let shape = whole.shape(value);
            if shape.rank() > 0 {
                largest = largest.max(shape.len());
                first.get_or_insert(data.loc);
            }
        }
    });
    let block = match kernel.level {
        Level::Thread { block } => block,
        Level::Tile { warps } => {
            let threads = || WARP * default_warps(largest, product);
            let default = || (threads() / target.warp).clamp(1, target.max_threads / target.warp);
            let matrix_units = || products::warps(kernel, whole, target);
            [target.warp * tasks.or(warps).or_else(matrix_units).unwrap_or_else(default), 1, 1]
        }
    };
    let threads = block.iter().product::<u32>();
    if threads > target.max_threads {
        let limit = target.max_threads;
        return Err(CompileError::TooManyThreads { kernel: kernel.name.clone(), threads, limit });
    }
    match first {
        Some(loc) if tasks.is_none() && (!threads.is_power_of_two() || threads < target.warp) => {
            Err(CompileError::TilesNeedWarps { location: kernel.describe(loc), threads, warp: target.warp })
        }
        _ => Ok(block),
    }
}

/// Warps of [`WARP`] threads for a kernel whose largest tile has so many elements: 8 to 32 elements
/// a thread, so that a thread has several vectors in flight and a block leaves room for others; up
/// to 64 for products of matrices, which reuse what they load more the larger a thread's block is.
fn default_warps(elements: usize, product: bool) -> u32 {
    match elements {
        4096..=16384 if product => (elements / 2048).next_power_of_two().max(4) as u32,
        0..=128 => 1,
        129..=256 => 2,
        257..=2048 => 4,
        2049..=8192 => 8,
        _ => 16,
    }
}

/// A kernel being lowered.
struct Lowering<'k> {
    src: &'k Kernel,
    /// How faults are deferred, if they are.
    deferred: Option<DeferredFaults>,
    /// What the checks of the current operation have found.
    found: Found,
    /// Which values have the same in all elements, by index.
    splats: Vec<bool>,
    facts: IntFacts<'k>,
    plan: LayoutPlan,
    target: &'k Target,
    /// The pipelined loops that are being lowered, outer ones first, with the stage that this round
    /// reads.
    stages: Vec<(Op, Value)>,
    em: Emitter,
    /// What each value of the source has become, in each layout in which it is used.
    tiles: Vec<SmallVec<[(LayoutId, Registers); 1]>>,
    scratch: ScratchMemory,
    accesses: Accesses,
    /// The warps of the task that is being lowered, or of the block.
    warps: u32,
    /// The task that is being lowered has one thread.
    one_thread: bool,
    /// The source is over threads: its scalars differ from thread to thread.
    per_thread: bool,
    /// Which of its scalars do not, if it asks for such.
    uniformity: Option<Uniformity>,
}

impl<'k> Lowering<'k> {
    fn run(&mut self) -> Result<(), CompileError> {
        self.em.kernel.files = self.src.files.clone();
        self.em.kernel.messages = self.src.messages.clone();
        self.em.kernel.cluster = self.src.cluster;
        self.em.kernel.contract = self.src.contract;
        // Loops have their stages now.
        self.em.kernel.hints.registers = self.src.hints.registers;
        let body = self.src.body;
        for (param, &arg) in self.src.params.iter().zip(&self.src.block(body).args) {
            let value = self.em.kernel.add_param(param.clone());
            self.define_scalar(arg, value);
        }
        self.ops(body, &[])
    }

    /// Lowers the operations of a block into the current one. `results` are those of the operation
    /// whose region this is.
    fn ops(&mut self, block: kiln_ir::Block, results: &[Value]) -> Result<(), CompileError> {
        let src = self.src;
        for &op in &src.block(block).ops {
            let data = src.op(op);
            self.em.loc = data.loc;
            self.op(op, data, results)?;
        }
        Ok(())
    }

    fn op(&mut self, op: Op, data: &'k OpData, results: &[Value]) -> Result<(), CompileError> {
        use OpKind::*;
        if data.results.first().is_some_and(|v| self.plan.roles[v.index()] == Role::SharedStaged) {
            return Ok(()); // its copies were begun some rounds ago
        }
        match &data.kind {
            Const(literal) => {
                let value = self.em.constant(*literal);
                self.splat(data.results[0], value);
            }
            Iota => self.iota(data),
            ProgramId(_) | NumPrograms(_) | ThreadId(_) | BlockDim(_) => {
                let kind = data.kind.clone();
                let value = self.em.one(kind, &[], Scalar::I64);
                self.define_scalar(data.results[0], value);
            }
            Unary(_) | Binary(_) | Compare(_) | Select | Fma | Cast | Bitcast => self.elementwise(data)?,
            Broadcast | Reshape | Transpose(_) => self.reshape(data)?,
            Reduce { .. } => self.reduce(op, data)?,
            Scan { .. } => self.scan(op, data)?,
            Dot(_) => match self.plan.products.by_op.get(&op).copied() {
                Some(product) => match product.unit {
                    Unit::Warps(grid) => self.mma(op, data, product, grid)?,
                    Unit::Warpgroups => self.warpgroup_product(op, data, product)?,
                },
                None => self.dot(op, data)?,
            },
            Extent(axis) => {
                let value = self.extent(data.view(), *axis as usize)?;
                self.define_scalar(data.results[0], value);
            }
            Stride(axis) => {
                let value = self.stride(data.view(), *axis as usize)?;
                self.define_scalar(data.results[0], value);
            }
            Alloc { .. } => {
                let ty = self.src.ty(data.results[0]).clone();
                let alloc = self.em.hoisted(|e| {
                    let alloc = e.op(data.kind.clone(), &[], &[ty]);
                    e.kernel.result(alloc)
                });
                if let Alloc { space: kiln_ir::Space::Shared, elem, shape } = &data.kind
                    && !kiln_ir::lies_in_fragments(self.src, data.results[0])
                {
                    self.scratch.reserve(shape.len() as u32 * elem.bytes(), data.loc);
                }
                self.define_scalar(data.results[0], alloc);
            }
            Load(_) => self.load(data)?,
            Store { .. } => self.store(op, data)?,
            Gather { .. } => self.gather(data)?,
            Scatter { .. } => self.scatter(op, data)?,
            Atomic { .. } | AtomicCas { .. } => self.atomic(data)?,
            OrderedLoad { .. } | OrderedStore { .. } => self.ordered(data)?,
            LoadQuad(_) | StoreQuad(_) => self.quad(data)?,
            Atomic128 { op, scope } => self.atomic_128(data, *op, *scope)?,
            BlockUniform => self.block_uniform(data)?,
            Fence(_) => self.fence(data)?,
            // Elements that were stored at once need no wait.
            AsyncCopy(AsyncCopyOp::Commit | AsyncCopyOp::Wait { .. }) if !self.target.async_copies => {}
            AsyncCopy(_) => self.copy(data)?,
            Fragment(FragmentOp::Matrix(op)) => self.matrix(data, *op)?,
            Barrier
            | WarpBarrier
            | GridBarrier
            | Clock(_)
            | InlinePtx(_)
            | Sleep
            | Shuffle(_)
            | Vote(_)
            | Address
            | Scratch { .. }
            | CheckBounds
            | CheckDivisor
            | BlockCheck(_)
            | DeferFault { .. }
            | Faulted
            | Linear { .. }
            | PtrLoad { .. }
            | PtrStore { .. }
            | PtrAtomic { .. }
            | PtrAtomicCas { .. }
            | PtrOrderedLoad { .. }
            | PtrOrderedStore { .. }
            | PtrAtomic128 { .. }
            | Fragment(_)
            | Condition => self.copy(data)?,
            For if self.plan.pipelines.by_loop.contains_key(&op) => self.pipelined(op, data)?,
            If | For | While => self.flow(data)?,
            FaultRegion => return Err(self.internal("a fault region that is not lowered".into())),
            Yield => self.yield_(data, results)?,
            Assert(_) => self.assert(op, data)?,
            Print(_) => self.print(data)?,
            Cluster(kind) => self.cluster(data, *kind)?,
            Explicit(kind) => self.explicit(op, data, kind)?,
        }
        Ok(())
    }

    /// A fence. That of a program over tiles is behind what all of its threads have done: what it
    /// orders may be an atomic operation that one of them does for all. Tasks come together by
    /// themselves.
    fn fence(&mut self, data: &OpData) -> Result<(), CompileError> {
        let tiles = matches!(self.src.level, Level::Tile { .. });
        let meets = self.warps > 1 || data.kind == OpKind::Fence(Scope::Block);
        if tiles && meets && !products::is_explicit(self.src) {
            self.em.op(OpKind::Barrier, &[], &[]);
        }
        self.copy(data)
    }

    /// An operation over scalars that is copied unchanged.
    fn copy(&mut self, data: &OpData) -> Result<(), CompileError> {
        let operands = self.scalars(&data.operands)?;
        let types: SmallVec<[Type; 2]> = data.results.iter().map(|&r| self.src.ty(r).clone()).collect();
        let op = self.em.op(data.kind.clone(), &operands, &types);
        for (i, &result) in data.results.iter().enumerate() {
            let value = self.em.kernel.op(op).results[i];
            self.define_scalar(result, value);
        }
        Ok(())
    }

    /// What a value of rank 0, or a view, has become.
    fn scalar(&self, value: Value) -> Result<Value, CompileError> {
        self.tile(value, LayoutId::SCALAR).map(|registers| registers[0])
    }

    fn scalars(&self, values: &[Value]) -> Result<SmallVec<[Value; 4]>, CompileError> {
        values.iter().map(|&v| self.scalar(v)).collect()
    }

    /// The registers of a value in a layout in which it is used.
    fn tile(&self, value: Value, layout: LayoutId) -> Result<Registers, CompileError> {
        let found = self.tiles[value.index()].iter().find(|(l, _)| *l == layout);
        found.map(|(_, registers)| registers.clone()).ok_or_else(|| {
            self.internal(format!("{value} is not at hand in layout {}", self.plan.layout(layout)))
        })
    }

    /// The registers of an operand: of a tile in a layout, of a scalar its one value.
    fn operand(&self, value: Value, layout: LayoutId) -> Result<Registers, CompileError> {
        self.tile(value, if roles::is_tile(self.src, value) { layout } else { LayoutId::SCALAR })
    }

    fn define_scalar(&mut self, value: Value, lowered: Value) {
        self.tiles[value.index()].push((LayoutId::SCALAR, Rc::new([lowered])));
    }

    /// Defines a tile that has been made in a layout, and converts it to its home and the others in
    /// which it is used.
    fn define(&mut self, value: Value, made: LayoutId, registers: Vec<Value>) -> Result<(), CompileError> {
        let registers: Registers = registers.into();
        self.keep_factor(value, made, &registers);
        let mut layouts = self.plan.wanted(value);
        if self.plan.roles[value.index()] != Role::Rematerializable
            && !layouts.contains(&self.plan.home(value))
        {
            layouts.push(self.plan.home(value));
        }
        for layout in layouts {
            let converted = match layout == made {
                true => registers.clone(),
                false => self.convert(&registers, made, layout)?,
            };
            self.tiles[value.index()].push((layout, converted));
        }
        Ok(())
    }

    fn layout(&self, id: LayoutId) -> Layout {
        self.plan.layout(id).clone()
    }

    /// The extent of a view on an axis, as an i64.
    fn extent(&mut self, view: Value, axis: usize) -> Result<Value, CompileError> {
        let known = self.facts.extent(view, axis);
        self.view_word(view, OpKey::Extent(axis as u32), OpKind::Extent(axis as u32), known)
    }

    /// The stride of a view on an axis in elements, as an i64.
    fn stride(&mut self, view: Value, axis: usize) -> Result<Value, CompileError> {
        let known = self.facts.stride(view, axis);
        self.view_word(view, OpKey::Stride(axis as u32), OpKind::Stride(axis as u32), known)
    }

    fn view_word(
        &mut self,
        view: Value,
        key: OpKey,
        kind: OpKind,
        known: facts::Known,
    ) -> Result<Value, CompileError> {
        if known.min == known.max {
            return Ok(self.em.i64(known.min as i64));
        }
        let view = self.scalar(view)?;
        Ok(self.em.pooled(key, Some(view), |e| e.one(kind, &[view], Scalar::I64)))
    }

    /// The address of element 0 of a view.
    fn address(&mut self, view: Value) -> Result<Value, CompileError> {
        let view = self.scalar(view)?;
        Ok(self.em.pooled(OpKey::Address, Some(view), |e| e.one(OpKind::Address, &[view], Scalar::U64)))
    }

    /// Whether this thread is the one that acts for all that hold the same elements of a value in a
    /// layout; `None` if each acts. A tile of one element has the layout of a scalar, but is always
    /// the block's, where a scalar may be each thread's own.
    fn first_copy(&mut self, value: Value, layout: LayoutId) -> Option<Value> {
        if self.per_thread && !roles::is_tile(self.src, value) {
            return None;
        }
        let copies = self.plan.layout(layout).copies();
        self.em.thread_is_first(copies)
    }

    /// Whether a view is a parameter that the kernel may not write: reading it needs no order.
    fn is_read_only(&self, view: Value) -> bool {
        match self.src.def(view) {
            Def::Arg(_, i) => !self.src.params[i as usize].mutable,
            Def::Result(..) => false,
        }
    }

    fn internal(&self, message: String) -> CompileError {
        CompileError::Internal { location: self.src.describe(self.em.loc), message }
    }
}
