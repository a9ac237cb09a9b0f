//! The table of operations: of each its name in the text format, its operands by name, what passes
//! may do with it, where it may stand, and its regions. [`OpKind`] says what it means.
//!
//! Element-wise operations have a table of their own besides (`unary.rs`, `binary.rs`). A new
//! operation does not compile without a row.

use super::*;
use Availability::{Anywhere, Lowered, Threads};
use Effect::{Observes, Pure, Stays};
use Operand::*;

/// What passes may do with an operation.
///
/// ```
/// use kiln_ir::{Effect, OpKind, Reuse};
/// let effects = [OpKind::Select, OpKind::Load(Reuse::Normal), OpKind::Barrier].map(|kind| kind.info().effect);
/// assert_eq!(effects, [Effect::Pure, Effect::Observes, Effect::Stays]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// It depends on its operands alone: it can be removed, merged and moved.
    Pure,
    /// It depends on its place: it can be removed where its results are unused, but not be merged
    /// or moved.
    Observes,
    /// It must stay.
    Stays,
}

/// The kernels that may have an operation.
///
/// ```
/// use kiln_ir::{Availability, OpKind};
/// let places = [OpKind::Select, OpKind::Barrier, OpKind::Address].map(|kind| kind.info().availability);
/// assert_eq!(places, [Availability::Anywhere, Availability::Threads, Availability::Lowered]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Availability {
    /// All.
    Anywhere,
    /// Those over threads.
    Threads,
    /// Those that were lowered to threads.
    Lowered,
}

/// What an operation does with the regions that it holds.
///
/// ```
/// use kiln_ir::{ControlFlow, OpKind};
/// assert_eq!(OpKind::For.info().control, Some(ControlFlow::For));
/// assert_eq!((OpKind::If.info().regions, OpKind::For.info().regions), (2, 1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ControlFlow {
    /// It runs one of two.
    If,
    /// It runs its region once for each number of a range.
    For,
    /// It runs its second region as long as the first one says so.
    While,
    /// It runs its region up to a fault.
    FaultRegion,
    /// It runs its regions side by side.
    Tasks,
}

/// The names of operands.
///
/// ```
/// use kiln_ir::{OpKind, Operand};
/// assert_eq!(OpKind::Select.info().operands.first, [Operand::Condition, Operand::IfTrue, Operand::IfFalse]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// What an operation computes with, where there is one such operand.
    Input,
    /// The first of two operands, or the left factor.
    Left,
    /// The second of two operands, or the right factor.
    Right,
    /// What products are added to.
    Addend,
    /// A bool that decides.
    Condition,
    /// The value where the condition holds.
    IfTrue,
    /// The value where it does not.
    IfFalse,
    /// A view of memory.
    View,
    /// Where a box begins on an axis of the view.
    Offset,
    /// The index on an axis of the view, or the only one.
    Index,
    /// Which elements are accessed.
    Mask,
    /// What stands in the place of elements that are not read.
    Padding,
    /// What is stored or sent.
    Stored,
    /// What a compare and exchange looks for.
    Expected,
    /// What it leaves there.
    Desired,
    /// An address.
    Address,
    /// The address that is copied from.
    Source,
    /// How many bytes.
    Bytes,
    /// The number of a block in its cluster.
    Rank,
    /// The lane of a shuffle.
    Lane,
    /// A bit for each lane of a warp that takes part.
    Lanes,
    /// How long to rest, in nanoseconds.
    Duration,
    /// The first value of a loop's variable.
    Low,
    /// The exclusive upper bound.
    High,
    /// What is added to it.
    Step,
    /// What a loop begins with.
    Init,
    /// What a region ends with.
    Yielded,
    /// How many rounds of loops a fault region allows.
    Budget,
    /// What a fault region gives where something failed; the record of faults stands before, if
    /// there is one.
    Fallback,
    /// What fills the gaps of a message.
    Shown,
    /// The index of a checked access.
    Checked,
    /// The extent of a checked access.
    Extent,
    /// A shared tile, or that of the left factor.
    Tile,
    /// A stage of a shared tile, or that of the left factor.
    Stage,
    /// The shared tile of the right factor.
    RightTile,
    /// The stage of the right factor.
    RightStage,
    /// The row of a stage.
    Row,
    /// Barriers in shared memory.
    Mbarriers,
    /// Which of them.
    Mbarrier,
    /// The number of a phase.
    Phase,
    /// Whether a product is added to what is there.
    Keep,
    /// Registers of matrices.
    Registers,
}

/// The names of an operation's operands: some first ones, a list of any length, some last ones.
///
/// ```
/// use kiln_ir::{OpKind, Operand, Operands, Reuse};
/// let load: Operands = OpKind::Load(Reuse::Normal).info().operands;
/// assert_eq!((load.first, load.list, load.last), (&[Operand::View][..], Some(Operand::Offset), &[Operand::Padding][..]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operands {
    /// Before the list.
    pub first: &'static [Operand],
    /// What the list holds.
    pub list: Option<Operand>,
    /// After the list.
    pub last: &'static [Operand],
}

/// A row of the table.
///
/// ```
/// use kiln_ir::{Effect, OpInfo, OpKind, Operand};
/// let info: OpInfo = OpKind::Fma.info();
/// assert_eq!((info.name, info.effect), ("fma", Effect::Pure));
/// assert_eq!(info.operands.first, [Operand::Left, Operand::Right, Operand::Addend]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// The first word in the text format, without its modifiers.
    pub name: &'static str,
    /// What passes may do with it. Regions are judged by what they hold.
    pub effect: Effect,
    /// The kernels that may have it.
    pub availability: Availability,
    /// The names of its operands.
    pub operands: Operands,
    /// What it does with its regions, if it has some.
    pub control: Option<ControlFlow>,
    /// How many regions it has.
    pub regions: usize,
}

impl OpInfo {
    const fn holds(self, control: ControlFlow, regions: usize) -> OpInfo {
        OpInfo { control: Some(control), regions, ..self }
    }
}

/// Operands without a list.
const fn fixed(first: &'static [Operand]) -> Operands {
    Operands { first, list: None, last: &[] }
}

const NONE: Operands = fixed(&[]);

/// Operands with a list.
const fn list(first: &'static [Operand], list: Operand, last: &'static [Operand]) -> Operands {
    Operands { first, list: Some(list), last }
}

/// An access of elements of a view: the mask, if it is there, stands before the last ones.
const fn elements(masked: bool, last: [&'static [Operand]; 2]) -> Operands {
    list(&[View], Index, last[masked as usize])
}

/// An access by address.
const fn address(predicated: bool, values: Operand) -> Operands {
    list(if predicated { &[Address, Mask] } else { &[Address] }, values, &[])
}

const fn row(name: &'static str, effect: Effect, availability: Availability, operands: Operands) -> OpInfo {
    OpInfo { name, effect, availability, operands, control: None, regions: 0 }
}

const fn pure(name: &'static str, operands: Operands) -> OpInfo {
    row(name, Pure, Anywhere, operands)
}

const UNARY: Operands = fixed(&[Input]);
const BINARY: Operands = fixed(&[Left, Right]);
const PADDING: [&[Operand]; 2] = [&[Padding], &[Mask, Padding]];
const STORED: [&[Operand]; 2] = [&[Stored], &[Mask, Stored]];

impl OpKind {
    /// The row of the operation.
    ///
    /// ```
    /// use kiln_ir::{Axis, BinaryOp, Bounds, Computed, OpKind, Order, Scope};
    /// let (sum, quotient) = (OpKind::Binary(BinaryOp::Add), OpKind::Binary(BinaryOp::Div));
    /// assert_eq!((sum.info().name, sum.mnemonic()), ("add", "add"));
    /// assert!(sum.is_elementwise() && sum.is_pure() && !sum.divides() && quotient.divides());
    /// assert!(OpKind::Barrier.has_effect() && OpKind::Yield.is_terminator());
    /// assert!(OpKind::CheckDivisor.is_check() && OpKind::CheckDivisor.is_below_tiles());
    /// assert_eq!(OpKind::ThreadId(Axis::Y).computed(), Some(Computed::ThreadId(Axis::Y)));
    ///
    /// let ordered = OpKind::OrderedLoad { order: Order::Acquire, scope: Scope::Device, bounds: Bounds::Check };
    /// assert!(ordered.is_ordered_load() && ordered.bounds() == Some(Bounds::Check));
    /// let mut gather = OpKind::Gather { bounds: Bounds::Check, masked: true };
    /// *gather.bounds_mut().unwrap() = Bounds::Trust;
    /// *gather.masked_mut().unwrap() = false;
    /// assert_eq!(gather, OpKind::Gather { bounds: Bounds::Trust, masked: false });
    /// ```
    pub fn info(&self) -> OpInfo {
        match self {
            OpKind::Const(_) => pure("const", NONE),
            OpKind::Iota => pure("iota", NONE),
            OpKind::ProgramId(_) => pure("program_id", NONE),
            OpKind::NumPrograms(_) => pure("num_programs", NONE),
            OpKind::ThreadId(_) => row("thread_id", Pure, Threads, NONE),
            OpKind::BlockDim(_) => row("block_dim", Pure, Threads, NONE),

            OpKind::Unary(op) => pure(op.name(), UNARY),
            OpKind::Binary(op) => {
                // Of integers, unless the divisor is known: see `Kernel::is_pure`.
                let effect = if op.info().divides { Observes } else { Pure };
                row(op.name(), effect, Anywhere, BINARY)
            }
            OpKind::Compare(op) => pure(op.name(), BINARY),
            OpKind::Select => pure("select", fixed(&[Condition, IfTrue, IfFalse])),
            OpKind::Fma => pure("fma", fixed(&[Left, Right, Addend])),
            OpKind::Cast => pure("cast", UNARY),
            OpKind::Bitcast => pure("bitcast", UNARY),

            OpKind::Broadcast => pure("broadcast", UNARY),
            OpKind::Reshape => pure("reshape", UNARY),
            OpKind::Transpose(_) => pure("transpose", UNARY),
            OpKind::Reduce { .. } => pure("reduce", UNARY),
            OpKind::Scan { .. } => pure("scan", UNARY),
            OpKind::Dot(_) => pure("dot", fixed(&[Left, Right, Addend])),

            OpKind::Extent(_) => pure("extent", fixed(&[View])),
            OpKind::Stride(_) => pure("stride", fixed(&[View])),
            OpKind::Alloc { space, .. } => {
                let availability = if matches!(space, Space::Local) { Threads } else { Anywhere };
                row("alloc", Observes, availability, NONE)
            }
            OpKind::Load(_) => row("load", Observes, Anywhere, list(&[View], Offset, &[Padding])),
            OpKind::Store { .. } => row("store", Stays, Anywhere, list(&[View], Offset, &[Stored])),
            OpKind::Gather { bounds, masked } => {
                let effect = if *bounds == Bounds::Check { Stays } else { Observes };
                row("gather", effect, Anywhere, elements(*masked, PADDING))
            }
            OpKind::Scatter { masked, .. } => row("scatter", Stays, Anywhere, elements(*masked, STORED)),
            OpKind::Atomic { masked, .. } => row("atomic", Stays, Anywhere, elements(*masked, STORED)),
            OpKind::AtomicCas { .. } => {
                row("atomic_cas", Stays, Anywhere, list(&[View], Index, &[Expected, Desired]))
            }
            OpKind::Fence(_) => row("fence", Stays, Anywhere, NONE),

            OpKind::OrderedLoad { .. } => row("ordered_load", Stays, Threads, list(&[View], Index, &[])),
            OpKind::OrderedStore { .. } => {
                row("ordered_store", Stays, Threads, list(&[View], Index, &[Stored]))
            }
            OpKind::LoadQuad(_) => row("load_quad", Stays, Threads, list(&[View], Index, &[])),
            OpKind::StoreQuad(_) => row("store_quad", Stays, Threads, list(&[View], Index, &[Stored; 4])),
            OpKind::Atomic128 { op, .. } => match op {
                Atomic128Op::Exchange => {
                    row("atomic_exchange_128", Stays, Threads, list(&[View], Index, &[Stored; 2]))
                }
                Atomic128Op::CompareExchange => {
                    let values = &[Expected, Expected, Desired, Desired];
                    row("atomic_cas_128", Stays, Threads, list(&[View], Index, values))
                }
            },

            OpKind::Barrier => row("barrier", Stays, Threads, NONE),
            OpKind::WarpBarrier => row("warp_barrier", Stays, Threads, fixed(&[Lanes])),
            OpKind::Shuffle(_) => row("shuffle", Observes, Threads, fixed(&[Input, Lane])),
            OpKind::Vote(_) => row("vote", Observes, Threads, fixed(&[Condition])),
            OpKind::BlockUniform => row("block_uniform", Observes, Threads, UNARY),
            OpKind::GridBarrier => row("grid_barrier", Stays, Threads, NONE),
            OpKind::Cluster(op) => op.info(),
            OpKind::AsyncCopy(op) => op.info(),
            OpKind::Clock(_) => row("clock", Observes, Threads, NONE),
            OpKind::InlinePtx(_) => row("inline_ptx", Stays, Threads, list(&[], Input, &[])),
            OpKind::Sleep => row("sleep", Stays, Threads, fixed(&[Duration])),

            OpKind::If => row("if", Observes, Anywhere, fixed(&[Condition])).holds(ControlFlow::If, 2),
            OpKind::For => {
                row("for", Observes, Anywhere, list(&[Low, High, Step], Init, &[])).holds(ControlFlow::For, 1)
            }
            OpKind::While => {
                row("while", Observes, Anywhere, list(&[], Init, &[])).holds(ControlFlow::While, 2)
            }
            OpKind::Yield => row("yield", Stays, Anywhere, list(&[], Yielded, &[])),
            OpKind::Condition => row("condition", Stays, Anywhere, fixed(&[Condition])),
            OpKind::FaultRegion => row("fault_region", Observes, Anywhere, list(&[Budget], Fallback, &[]))
                .holds(ControlFlow::FaultRegion, 1),
            OpKind::Assert(_) => row("assert", Stays, Anywhere, list(&[Condition], Shown, &[])),
            OpKind::Print(_) => row("print", Stays, Anywhere, list(&[], Shown, &[])),

            OpKind::Explicit(op) => op.info(),
            OpKind::Fragment(op) => op.info(),
            OpKind::Linear { op, predicated } => op.info(*predicated),
            OpKind::Address => row("address", Pure, Lowered, fixed(&[View])),
            OpKind::Scratch { .. } => row("scratch", Pure, Lowered, NONE),
            OpKind::PtrLoad { predicated, .. } => {
                let first: &[Operand] = if *predicated { &[Address, Mask] } else { &[Address] };
                row("ptr_load", Observes, Lowered, fixed(first))
            }
            OpKind::PtrStore { predicated, .. } => {
                row("ptr_store", Stays, Lowered, address(*predicated, Stored))
            }
            OpKind::PtrAtomic { predicated, .. } => {
                row("ptr_atomic", Stays, Lowered, address(*predicated, Stored))
            }
            OpKind::PtrAtomicCas { predicated, .. } => {
                let first: &[Operand] = match predicated {
                    true => &[Address, Mask, Expected, Desired],
                    false => &[Address, Expected, Desired],
                };
                row("ptr_atomic_cas", Stays, Lowered, fixed(first))
            }
            OpKind::PtrOrderedLoad { predicated, .. } => {
                let first: &[Operand] = if *predicated { &[Address, Mask] } else { &[Address] };
                row("ptr_ordered_load", Stays, Lowered, fixed(first))
            }
            OpKind::PtrOrderedStore { predicated, .. } => {
                row("ptr_ordered_store", Stays, Lowered, address(*predicated, Stored))
            }
            OpKind::PtrAtomic128 { op, .. } => match op {
                Atomic128Op::Exchange => {
                    row("ptr_atomic_exchange_128", Stays, Lowered, fixed(&[Address, Mask, Stored, Stored]))
                }
                Atomic128Op::CompareExchange => {
                    let operands = &[Address, Mask, Expected, Expected, Desired, Desired];
                    row("ptr_atomic_cas_128", Stays, Lowered, fixed(operands))
                }
            },
            OpKind::CheckBounds => row("check_bounds", Stays, Lowered, fixed(&[Condition, Checked, Extent])),
            OpKind::CheckDivisor => row("check_divisor", Stays, Lowered, fixed(&[Condition])),
            OpKind::BlockCheck(check) => {
                let (name, operands) = match check {
                    Check::Assert(_) => ("block_assert", list(&[Condition], Shown, &[])),
                    Check::Bounds => ("block_check_bounds", fixed(&[Condition, Checked, Extent])),
                    Check::Divisor => ("block_check_divisor", fixed(&[Condition])),
                };
                row(name, Stays, Lowered, operands)
            }
            OpKind::DeferFault { check, .. } => {
                let (name, operands) = match check {
                    Check::Assert(_) => ("defer_assert", list(&[Condition], Shown, &[])),
                    Check::Bounds => ("defer_bounds", fixed(&[Condition, Checked, Extent])),
                    Check::Divisor => ("defer_divisor", fixed(&[Condition])),
                };
                row(name, Stays, Lowered, operands)
            }
            OpKind::Faulted => row("faulted", Observes, Lowered, NONE),
        }
    }

    /// The first word of the operation in the text format, without its modifiers.
    pub fn mnemonic(&self) -> &'static str {
        self.info().name
    }

    /// What the operation does with the regions that it holds; `None` if it has none.
    ///
    /// ```
    /// use kiln_ir::{ControlFlow, OpKind};
    /// assert_eq!((OpKind::While.control_flow(), OpKind::Yield.control_flow()), (Some(ControlFlow::While), None));
    /// ```
    pub fn control_flow(&self) -> Option<ControlFlow> {
        self.info().control
    }

    /// Whether the operation does nothing but end the thread, or report, where its first operand is
    /// false.
    pub fn is_check(&self) -> bool {
        let info = self.info();
        info.effect == Stays && info.operands.first.first() == Some(&Condition) && !self.is_terminator()
    }

    /// Whether the operation ends a region.
    pub fn is_terminator(&self) -> bool {
        matches!(self, OpKind::Yield | OpKind::Condition)
    }

    /// Whether the operation is one that only the lowering to threads makes.
    pub fn is_below_tiles(&self) -> bool {
        self.info().availability == Lowered
    }

    /// Whether the operation loads what others may store meanwhile, so that no load through its
    /// view reads constant memory.
    pub fn is_ordered_load(&self) -> bool {
        matches!(self, OpKind::OrderedLoad { .. } | OpKind::LoadQuad(_))
    }

    /// Whether an integer divisor of zero is a fault.
    pub fn divides(&self) -> bool {
        if let OpKind::Binary(op) = self { op.info().divides } else { false }
    }

    /// What an access that names its elements one by one does outside the view.
    pub fn bounds(&self) -> Option<Bounds> {
        if let OpKind::Gather { bounds, .. }
        | OpKind::Scatter { bounds, .. }
        | OpKind::Atomic { bounds, .. }
        | OpKind::AtomicCas { bounds, .. }
        | OpKind::OrderedLoad { bounds, .. }
        | OpKind::OrderedStore { bounds, .. } = *self
        {
            Some(bounds)
        } else {
            None
        }
    }

    /// The same, to change.
    pub fn bounds_mut(&mut self) -> Option<&mut Bounds> {
        if let OpKind::Gather { bounds, .. }
        | OpKind::Scatter { bounds, .. }
        | OpKind::Atomic { bounds, .. }
        | OpKind::AtomicCas { bounds, .. }
        | OpKind::OrderedLoad { bounds, .. }
        | OpKind::OrderedStore { bounds, .. } = self
        {
            Some(bounds)
        } else {
            None
        }
    }

    /// Whether an access of elements has a mask, to change.
    pub fn masked_mut(&mut self) -> Option<&mut bool> {
        if let OpKind::Gather { masked, .. }
        | OpKind::Scatter { masked, .. }
        | OpKind::Atomic { masked, .. } = self
        {
            Some(masked)
        } else {
            None
        }
    }

    /// Whether the operation neither writes, communicates, faults nor prints, and depends on its
    /// operands alone: it can be removed, merged and moved. Loads are not pure (memory may change);
    /// regions are judged by what they hold. Integer `Div` and `Rem` may fault and are pure only if
    /// the divisor is known; see [`Kernel::is_pure`](crate::Kernel::is_pure).
    pub fn is_pure(&self) -> bool {
        self.info().effect == Pure
    }

    /// Whether the operation may change memory, fault, print, or order threads, so that it must be
    /// kept although its results are unused. Integer `Div` and `Rem` count as operations without
    /// such an effect here: their divisors depend on the kernel.
    pub fn has_effect(&self) -> bool {
        self.info().effect == Stays
    }

    /// Whether it works on each element of its operands by itself.
    pub fn is_elementwise(&self) -> bool {
        matches!(
            self,
            OpKind::Unary(_)
                | OpKind::Binary(_)
                | OpKind::Compare(_)
                | OpKind::Select
                | OpKind::Fma
                | OpKind::Cast
                | OpKind::Bitcast
                | OpKind::Explicit(ExplicitOp::Exp2Flushed)
        )
    }
}

impl ClusterOp {
    /// The row of the operation.
    fn info(self) -> OpInfo {
        match self {
            ClusterOp::Barrier => row("cluster_barrier", Stays, Threads, NONE),
            ClusterOp::StoreQuad => {
                row("cluster_store_quad", Stays, Threads, list(&[View, Index, Rank], Stored, &[]))
            }
            ClusterOp::PtrStoreQuad => {
                row("ptr_cluster_store_quad", Stays, Lowered, list(&[Address, Rank], Stored, &[]))
            }
        }
    }

    /// The word of the operation in the text format.
    pub fn name(self) -> &'static str {
        self.info().name
    }
}

impl AsyncCopyOp {
    /// The row of the operation.
    fn info(self) -> OpInfo {
        match self {
            AsyncCopyOp::Copy { .. } => row("cp_async", Stays, Lowered, fixed(&[Address, Source, Bytes])),
            AsyncCopyOp::Commit => row("cp_async_commit", Stays, Threads, NONE),
            AsyncCopyOp::Wait { .. } => row("cp_async_wait", Stays, Threads, NONE),
        }
    }

    /// The word of the operation in the text format.
    pub fn name(self) -> &'static str {
        self.info().name
    }
}

impl LinearOp {
    /// The row of the operation.
    fn info(self, predicated: bool) -> OpInfo {
        let first: &[Operand] = if predicated { &[View, Index, Mask] } else { &[View, Index] };
        let access = |name, effect| row(name, effect, Lowered, fixed(first));
        let store = |name| row(name, Stays, Lowered, list(first, Stored, &[]));
        match self {
            LinearOp::Load { .. } => access("view_load", Observes),
            LinearOp::Store { .. } => store("view_store"),
            LinearOp::Atomic { .. } => store("view_atomic"),
            LinearOp::AtomicCas { .. } => {
                let operands: &[Operand] = match predicated {
                    true => &[View, Index, Mask, Expected, Desired],
                    false => &[View, Index, Expected, Desired],
                };
                row("view_atomic_cas", Stays, Lowered, fixed(operands))
            }
            LinearOp::OrderedLoad { .. } => access("view_ordered_load", Stays),
            LinearOp::OrderedStore { .. } => store("view_ordered_store"),
            LinearOp::Address => access("view_address", Pure),
        }
    }
}

impl ExplicitOp {
    /// The row of the operation.
    fn info(&self) -> OpInfo {
        use ExplicitOp as E;
        let observes = |name, operands| row(name, Observes, Anywhere, operands);
        let stays = |name, operands| row(name, Stays, Anywhere, operands);
        match self {
            E::SharedTile { .. } => observes("shared_tile", NONE),
            E::Mbarrier { .. } => observes("mbarrier", NONE),
            E::MbarrierExpect { .. } => stays("mbarrier_expect", fixed(&[Mbarriers, Mbarrier])),
            E::MbarrierArrive => stays("mbarrier_arrive", list(&[Mbarriers, Mbarrier], Rank, &[])),
            E::MbarrierWait => stays("mbarrier_wait", fixed(&[Mbarriers, Mbarrier, Phase])),
            E::TmaLoad { .. } => {
                stays("tma_load", list(&[View], Offset, &[Tile, Stage, Row, Mbarriers, Mbarrier]))
            }
            E::TmaStore => stays("tma_store", list(&[Tile, Stage, View], Offset, &[])),
            E::TmaReduce(op) => {
                let name = match op {
                    BulkReduce::Add => "tma_reduce_add",
                    BulkReduce::Min => "tma_reduce_min",
                    BulkReduce::Max => "tma_reduce_max",
                    BulkReduce::And => "tma_reduce_and",
                    BulkReduce::Or => "tma_reduce_or",
                    BulkReduce::Xor => "tma_reduce_xor",
                };
                stays(name, list(&[Tile, Stage, View], Offset, &[]))
            }
            E::TmaPrefetch { .. } => stays("tma_prefetch", list(&[View], Offset, &[])),
            E::TmaStoreWait { .. } => stays("tma_store_wait", NONE),
            E::ProxyFence => stays("proxy_fence", NONE),
            E::TaskBarrier => stays("task_barrier", NONE),
            E::Signal => stays("signal", fixed(&[View, Index, Stored])),
            E::SignalWait => stays("signal_wait", fixed(&[View, Index, Expected])),
            E::SharedStore { .. } => stays("shared_store", fixed(&[Stored, Tile, Stage])),
            E::SharedLoad => stays("shared_load", fixed(&[Tile, Stage])),
            E::Wgmma { .. } => {
                stays("wgmma", list(&[Tile, Stage, RightTile, RightStage, Keep], Registers, &[]))
            }
            E::WgmmaRegisters { .. } => {
                stays("wgmma_registers", list(&[RightTile, RightStage, Keep], Registers, &[]))
            }
            E::PackPairs { .. } => observes("pack_pairs", list(&[], Registers, &[])),
            E::Exp2Flushed => observes("exp2_flushed", UNARY),
            E::WgmmaWait { .. } => stays("wgmma_wait", list(&[], Registers, &[])),
            E::Tasks(tasks) => stays("tasks", NONE).holds(ControlFlow::Tasks, tasks.len()),
            E::TaskRank => observes("task_rank", NONE),
            E::ClusterRank => observes("cluster_rank", NONE),
        }
    }

    /// The word of the operation in the text format.
    pub fn name(&self) -> &'static str {
        self.info().name
    }
}

impl FragmentOp {
    /// The row of the operation.
    fn info(&self) -> OpInfo {
        use FragmentOp as F;
        let registers = list(&[], Registers, &[]);
        let (pure, stays) = (
            |name, operands| row(name, Pure, Lowered, operands),
            |name, operands| row(name, Stays, Lowered, operands),
        );
        match self {
            F::Mma(factors) => pure(factors.names().0, registers),
            F::LdMatrix { .. } => row("ldmatrix", Observes, Lowered, fixed(&[Address])),
            F::StMatrix { .. } => stays("stmatrix", list(&[Address], Registers, &[])),
            F::Pack(Factor::F16) => pure("pack_f16", BINARY),
            F::Pack(_) => pure("pack_bf16", BINARY),
            F::WarpgroupMma(product) => {
                let first: &[Operand] = if product.left.is_some() { &[Left, Right] } else { &[Right] };
                stays(product.factors.names().1, list(first, Registers, &[]))
            }
            F::WarpgroupWait { .. } => stays("warpgroup_wait", registers),
            F::AsyncProxyFence => stays("async_proxy_fence", NONE),
            F::Matrix(op) => op.info(),
        }
    }

    /// The word of the operation in the text format.
    pub fn name(&self) -> &'static str {
        self.info().name
    }
}

impl MatrixOp {
    /// The row of the operation.
    fn info(&self) -> OpInfo {
        match self {
            MatrixOp::Zero(_) => row("matrix_zero", Stays, Anywhere, fixed(&[View])),
            MatrixOp::Multiply { .. } => {
                row("matrix_multiply", Stays, Anywhere, fixed(&[Left, Right, View, Index, Index]))
            }
            MatrixOp::Store { .. } => row("matrix_store", Stays, Lowered, fixed(&[View, Tile])),
            MatrixOp::Load(_) => row("matrix_load", Stays, Anywhere, fixed(&[View, Tile])),
        }
    }
}
