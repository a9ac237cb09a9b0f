//! The operations. This file *is* the language definition: each variant states its operands,
//! results and meaning, and the interpreter implements exactly that.
//!
//! Notation: `tile` is a value of any rank, `scalar` one of rank 0. Unless said otherwise, operands
//! of an element-wise operation have one common type: the front end inserts `Broadcast`, `Splat`
//! and `Cast`.
//!
//! *Uniform* values are the same in every thread of a block. Tile operations (rank of any operand
//! or result above 0) need uniform scalar operands and stand in uniform control flow; scalars that
//! depend on `ThreadId` are *varying*.
//!
//! # Faults
//!
//! An assert that does not hold, a checked index outside its view and an integer division by zero
//! end the launch with a *fault*. What is in memory then follows the order of the program. Every
//! store, atomic and print that comes before the operation that faults has happened. That operation
//! itself, and what comes after it, changes nothing. The threads of a block execute an operation
//! together before the next one, so that this holds for all of them, and the thread of the lowest
//! index that faults is reported. Of several programs that fault, the lowest is reported, and all
//! programs below it have run to their end. Programs above it run to their end, to a fault of their
//! own, or not at all.
//!
//! The interpreter and the CPU do exactly this. On a GPU a program over tiles does too: its threads
//! decide about a check together, before any of them goes on. Any of several elements that fail may
//! be the one that is reported, and programs above may have run. Exceptions are kernels whose
//! threads wait for each other (tasks, signals, products of warpgroups), which a fault does not end
//! at once. In a kernel over threads each thread runs by itself there. What comes before the
//! operation has happened for the thread that faults, and what comes after has not; other threads
//! of the block may have got further or less far, and any of several faults may be the one that is
//! reported.

mod attribute;
mod binary;
mod class;
mod computed;
mod derivative;
mod linear;
mod listed;
mod table;
mod unary;

pub use attribute::*;
pub use binary::{BinaryInfo, BinaryOp, BinaryRule, CompareOp};
pub use class::Class;
pub use computed::Computed;
pub use derivative::{Derivative, Expr};
pub use linear::LinearOp;
pub use table::{Availability, ControlFlow, Effect, OpInfo, Operand, Operands};
pub use unary::{Expansion, MathFn, UnaryInfo, UnaryOp, UnaryRule};

use crate::async_copy::AsyncCopyOp;
use crate::cluster::ClusterOp;
use crate::explicit::{BulkReduce, ExplicitOp};
use crate::factor::Factor;
use crate::fragment::FragmentOp;
use crate::literal::Literal;
use crate::matrix::MatrixOp;
use crate::types::{Scalar, Shape, Space};

/// An operation. Operands, results, regions and the source location stand beside it in
/// [`OpData`](crate::OpData).
#[derive(Clone, PartialEq, Debug)]
pub enum OpKind {
    // ---- constants and indices
    /// `() -> tile`: every element is the literal; the shape is the result type's.
    Const(Literal),
    /// `() -> integer tile of rank 1`: 0, 1, 2, …
    Iota,
    /// `() -> i64`: which program (block) of the launch this is, on an axis.
    ProgramId(Axis),
    /// `() -> i64`: how many programs (blocks) the launch has, on an axis.
    NumPrograms(Axis),
    /// `() -> i64`, varying: the thread's index in its block, on an axis. Thread-level kernels
    /// only.
    ThreadId(Axis),
    /// `() -> i64`: the block's extent, on an axis. Thread-level kernels only.
    BlockDim(Axis),

    // ---- element-wise
    /// `(tile) -> tile`.
    Unary(UnaryOp),
    /// `(tile, tile) -> tile`.
    Binary(BinaryOp),
    /// `(tile, tile) -> bool tile`.
    Compare(CompareOp),
    /// `(bool tile, tile a, tile b) -> tile`: a where true, b where false.
    Select,
    /// `(tile a, tile b, tile c) -> tile`: a * b + c, rounded once for floats, wrapping for
    /// integers.
    Fma,
    /// `(tile) -> tile` of another element type. As Rust's `as`: float to integer saturates and NaN
    /// gives 0, integers wrap, floats round to nearest even; to bool is `!= 0`.
    Cast,
    /// `(tile) -> tile`: the same bits as another element type of the same size.
    Bitcast,

    // ---- shape
    /// `(tile) -> tile`: extents of 1 stretch to the result's; the rank is unchanged, except that a
    /// scalar goes to any shape.
    Broadcast,
    /// `(tile) -> tile`: the same elements in row-major order under another shape.
    Reshape,
    /// `(tile) -> tile`: result axis `i` is operand axis `perm[i]`.
    Transpose(Shape),
    /// `(tile) -> tile` without the axis.
    Reduce {
        /// The combination.
        op: ReduceOp,
        /// The axis that goes.
        axis: u32,
    },
    /// `(tile) -> tile`: running combination along the axis.
    Scan {
        /// The combination.
        op: ReduceOp,
        /// The axis.
        axis: u32,
        /// From the last element to the first.
        reverse: bool,
        /// Without the element itself; the first result is the identity.
        exclusive: bool,
    },
    /// `(tile [m, k], tile [k, n], tile [m, n] acc) -> tile [m, n]`: acc + a·b. Both factors have
    /// one element type, or one is of each of the 8-bit floats or 8-bit integers. The accumulator's
    /// is f32 for floats of up to 32 bits, i32 for the integers of 8, which wraps, otherwise the
    /// operands'. Products of floats of 8 and 16 bits are exact; their sum is rounded in the
    /// device's order, to f32 or, on matrix units, truncated to its precision. Those of f32 are
    /// never rounded to less before. A [`Precision`] other than the full one allows less, of the
    /// types that it is about.
    Dot(Precision),

    // ---- memory
    /// `(view) -> i64`: the extent on an axis.
    Extent(u32),
    /// `(view) -> i64`: the stride on an axis, in elements.
    Stride(u32),
    /// `() -> view`: memory of a block or thread, uninitialized, row-major, with static extents.
    Alloc {
        /// `Shared` or `Local`.
        space: Space,
        /// The element type.
        elem: Scalar,
        /// The extents.
        shape: Shape,
    },
    /// `(view, i64 offset per axis, scalar padding) -> tile` of the view's rank: the box of the
    /// result's shape that begins at the offsets; elements outside the view's extents are the
    /// padding.
    Load(Reuse),
    /// `(view, i64 offset per axis, tile)`: elements outside the view's extents are dropped.
    Store {
        /// Cache use.
        reuse: Reuse,
        /// The programs' stores are known or must be proved to be disjoint (a safe store).
        disjoint: bool,
    },
    /// `(view, integer tile index per axis, [bool tile mask], tile-typed padding scalar) -> tile`:
    /// element by element. The indices have one shape, which is the result's. Masked-off elements
    /// read nothing and give the padding. Rank 0 is a thread's load.
    Gather {
        /// What an index outside the extents does.
        bounds: Bounds,
        /// Whether the mask operand is there.
        masked: bool,
    },
    /// `(view, integer tile index per axis, [bool tile mask], tile value)`: element by element. Two
    /// elements that name one place leave one of the values. Rank 0 is a thread's store.
    Scatter {
        /// What an index outside the extents does.
        bounds: Bounds,
        /// Whether the mask operand is there.
        masked: bool,
        /// The element, of rank 0 and in shared memory, is a copy that the thread begins here, and
        /// may arrive as late as in an [`AsyncCopyOp::Wait`]. Until then what is there is not
        /// defined.
        asynchronous: bool,
    },
    /// `(view, integer tile index per axis, [bool tile mask], tile value) -> tile`: atomically
    /// replaces each element by `op(old, value)` and gives the old one; masked-off or outside
    /// elements give zero. Relaxed order.
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// Among whom it is atomic.
        scope: Scope,
        /// What an index outside the extents does.
        bounds: Bounds,
        /// Whether the mask operand is there.
        masked: bool,
    },
    /// `(view, integer tile index per axis, tile expected, tile desired) -> tile`: atomic compare
    /// and exchange; gives the old value.
    AtomicCas {
        /// Among whom it is atomic.
        scope: Scope,
        /// What an index outside the extents does.
        bounds: Bounds,
    },
    /// `()`: every earlier access of this thread is visible in the scope before every later one.
    Fence(Scope),

    // ---- memory that others write meanwhile (thread level): never merged, moved, removed or
    // reordered with one another
    /// `(view, i64 scalar index per axis) -> scalar`, varying: a whole load of an element of 4 or 8
    /// bytes, of global or shared memory. Outside the extents `Mask` gives zero.
    OrderedLoad {
        /// `Relaxed` or `Acquire`.
        order: Order,
        /// Among whom it is ordered.
        scope: Scope,
        /// What an index outside the extents does.
        bounds: Bounds,
    },
    /// `(view, i64 scalar index per axis, scalar)`: a whole store of an element of 4 or 8 bytes.
    /// Outside the extents `Mask` drops it.
    OrderedStore {
        /// `Relaxed` or `Release`.
        order: Order,
        /// Among whom it is ordered.
        scope: Scope,
        /// What an index outside the extents does.
        bounds: Bounds,
    },
    /// `(global or shared view of u32 of rank 1, i64 scalar index) -> u32 × 4`, varying: the words
    /// from the index on, of which none is older than another, as a whole quad was stored. Relaxed,
    /// among all devices and the host. `Mask` gives zeros where not all four are inside the extent,
    /// where the first does not lie at a multiple of 16 bytes, and where the stride is not 1;
    /// `Trust` says that this cannot be.
    LoadQuad(
        /// `Mask` or `Trust`.
        Bounds,
    ),
    /// `(global or shared view of u32 of rank 1, i64 scalar index, u32 × 4)`: stores a quad that
    /// arrives whole, or nothing where `LoadQuad` would give zeros.
    StoreQuad(
        /// `Mask` or `Trust`.
        Bounds,
    ),

    /// `(global or shared view of u64 of rank 1, i64 scalar index, [u64 × 2 expected,] u64 × 2) ->
    /// u64 × 2, bool`, varying: atomically replaces two adjacent elements, the one at the index
    /// first, and gives the old ones. Relaxed. The last result is whether the two are whole: inside
    /// the extent, with the first at a multiple of 16 bytes and a stride of 1. Elsewhere nothing
    /// happens, and the old elements are zeros. It is atomic with respect to other operations of
    /// 128 bits alone.
    Atomic128 {
        /// The operation.
        op: Atomic128Op,
        /// Among whom it is atomic.
        scope: Scope,
    },

    // ---- threads of a block (thread level)
    /// `()`: all threads of the block arrive before any leaves; shared memory written before is
    /// visible after. Uniform control flow.
    Barrier,
    /// `(u32 scalar lanes)`: the lanes of the warp (32 consecutive threads) that have a bit arrive
    /// before any of them leaves; what they wrote before, in whichever memory, is visible to them
    /// after. Who reaches it is one of these lanes and has the same bits as the others; lanes that
    /// the block does not have, and threads that have ended, are not waited for. With all bits it
    /// is a barrier of the whole warp.
    ///
    /// Where lanes with a bit do not reach it, the interpreter faults, and a GPU waits for them, so
    /// that the launch may not end.
    WarpBarrier,
    /// `(scalar value, i64 scalar b) -> scalar`: the value of another lane of the warp (32
    /// consecutive threads). `b` counts modulo 32. A lane that the block does not have, in a last
    /// warp that is not full, gives nothing: who would read it gets its own value.
    ///
    /// All threads of a warp reach it together. Where only some do, the interpreter faults, a CPU
    /// gives a thread its own value in place of that of one that is missing, and a GPU waits for
    /// those that are missing, so that the launch may not end.
    Shuffle(ShuffleMode),
    /// `(bool scalar) -> scalar`. In a block of one warp the result is uniform where control flow
    /// is.
    ///
    /// All threads of a warp reach it together, as for `Shuffle`. Where only some do, a CPU asks
    /// those.
    Vote(VoteMode),
    /// `(scalar) -> scalar`, uniform: the value that the first thread of the block has, in every
    /// thread. Uniform control flow.
    BlockUniform,

    // ---- blocks of the launch (thread level)
    /// `()`: all threads of all blocks of the launch arrive before any leaves; what they stored
    /// before is visible after. Uniform control flow, the same in all blocks: they run at the same
    /// time, and all of them reach the same barriers. A launch of more blocks than the device has
    /// room for at once is refused. Not inside a fault region, and not in a kernel of clusters.
    ///
    /// A fault ends the launch at the next such barrier at the latest: no block goes past one that
    /// a block which faulted before has not reached.
    GridBarrier,

    // ---- blocks of a cluster (thread level)
    /// See [`ClusterOp`].
    Cluster(ClusterOp),

    // ---- copies in flight (thread level)
    /// See [`AsyncCopyOp`].
    AsyncCopy(AsyncCopyOp),

    // ---- time (thread level): never merged or moved
    /// `() -> u64`, varying. In the interpreter both units count the operations that the device has
    /// begun.
    Clock(ClockUnit),
    /// `(scalars…) -> [scalar]`, varying: instructions of PTX, whose text is the message; see
    /// [`check_ptx`](crate::check_ptx). NVIDIA GPUs alone have it.
    InlinePtx(Message),
    /// `(u32 scalar)`: the thread rests for about so many nanoseconds, at most a millisecond. A
    /// hint.
    Sleep,

    // ---- control flow; regions end in `Yield` or `Condition`
    /// `(bool scalar) -> …`, regions then, else: yields of the region that ran.
    If,
    /// `(integer lo, hi, step, inits…) -> …`, one region `(iv, carried…)`, which yields the next
    /// carried values. Runs ceil((hi - lo) / step) times, computed without overflow; not at all
    /// where `hi <= lo` or `step <= 0`.
    For,
    /// `(inits…) -> …`, region one `(carried…)` ends in `Condition`, region two `(carried…)` yields
    /// the next carried values. The results are the carried values when the condition is false.
    While,
    /// `(…)`: ends a region with its values.
    Yield,
    /// `(bool scalar)`: ends the first region of `While`.
    Condition,

    // ---- fault regions: faults as values
    /// `(u32 budget, [view<u64, 1, local> record], fallbacks…) -> (u32 site, values…)`, one region
    /// without arguments, which yields the values. Where an assert, a checked access outside its
    /// view or a zero integer divisor would end the program, the operation does nothing, the rest
    /// of the region is skipped, and the results are the number of the *site* (see
    /// [`Kernel::fault_sites`](crate::Kernel::fault_sites)) and the fallbacks. Else they are 0 and
    /// what the region yields. Effects before the fault stay.
    ///
    /// Every execution of a loop's body inside takes one step at its end. Where no more steps than
    /// the budget allow it, the rest of the region is skipped likewise, with the site
    /// [`BUDGET_EXCEEDED`](crate::BUDGET_EXCEEDED); a budget of 0 has no limit. A fault region
    /// inside another one ends what faults inside it; its steps are taken from both budgets, and
    /// what exceeds the outer one ends the outer one.
    ///
    /// In a kernel over threads, a fault concerns the thread that has it, unless an operation that
    /// all threads of the block must reach together (a barrier, tiles) may follow inside the
    /// region, or the fault region gives tiles: then it concerns all threads of the block, from the
    /// place on where they are together, and they get the largest site among them.
    ///
    /// With a record, a thread whose own check fails first stores the number of the site in element
    /// 0, and behind it the values of the check, as
    /// [`FaultSite::values`](crate::FaultSite::values) says; what has no room is left out, and the
    /// other elements stay as they are. Nothing is stored where nothing fails, where only another
    /// thread's check does, and where the budget is exceeded.
    FaultRegion,

    // ---- diagnostics
    /// `(bool tile, scalars…)`: where any element is false the program ends with a fault; the
    /// values fill `{}` in the message.
    Assert(Message),
    /// `(scalars…)`: prints; the values fill `{}` in the message. At thread level every active
    /// thread prints, at tile level the program once.
    Print(Message),

    // ---- the explicit level
    /// See [`ExplicitOp`].
    Explicit(ExplicitOp),

    // ---- below the tile level: made by the lowering to threads, never by a front end
    /// See [`FragmentOp`].
    Fragment(FragmentOp),
    /// An access of a view at a linear index: see [`LinearOp`].
    Linear {
        /// The access.
        op: LinearOp,
        /// Whether the predicate operand is there.
        predicated: bool,
    },
    /// `(view) -> u64`: the address of element 0, in the view's space.
    Address,
    /// `() -> shared view of rank 1`, whose element 0 begins at a byte of the block's scratch
    /// memory, which the lowering lays out, and which reaches to its end; or `() -> u64`: the
    /// address of that byte.
    Scratch {
        /// Offset from the start of the scratch memory, in bytes.
        offset: u32,
    },
    /// `(u64 address, [bool predicate]) -> elem × lanes`: a load of adjacent elements; zeros where
    /// the predicate is false.
    PtrLoad {
        /// The space of the address.
        space: Space,
        /// How many adjacent elements, 1 to 16; `lanes * size` is at most 16 bytes and the address
        /// is a multiple of it.
        lanes: u32,
        /// Cache use.
        reuse: Reuse,
        /// Whether the predicate operand is there.
        predicated: bool,
    },
    /// `(u64 address, [bool predicate], elem × lanes)`: a store of adjacent elements.
    PtrStore {
        /// The space of the address.
        space: Space,
        /// As for `PtrLoad`.
        lanes: u32,
        /// Cache use.
        reuse: Reuse,
        /// Whether the predicate operand is there.
        predicated: bool,
    },
    /// `(u64 address, [bool predicate], value) -> old value`: zero where the predicate is false.
    PtrAtomic {
        /// The space of the address.
        space: Space,
        /// The operation.
        op: AtomicOp,
        /// Among whom it is atomic.
        scope: Scope,
        /// Whether the predicate operand is there.
        predicated: bool,
    },
    /// `(u64 address, [bool predicate], expected, desired) -> old value`.
    PtrAtomicCas {
        /// The space of the address.
        space: Space,
        /// Among whom it is atomic.
        scope: Scope,
        /// Whether the predicate operand is there.
        predicated: bool,
    },
    /// `(u64 address, [bool predicate]) -> elem × lanes`: an ordered load; zeros where the
    /// predicate is false.
    PtrOrderedLoad {
        /// The space of the address.
        space: Space,
        /// 1; or 4 of 4 bytes, which arrive as one.
        lanes: u32,
        /// `Relaxed` or `Acquire`.
        order: Order,
        /// Among whom it is ordered.
        scope: Scope,
        /// Whether the predicate operand is there.
        predicated: bool,
    },
    /// `(u64 address, [bool predicate], elem × lanes)`: an ordered store.
    PtrOrderedStore {
        /// The space of the address.
        space: Space,
        /// As for `PtrOrderedLoad`.
        lanes: u32,
        /// `Relaxed` or `Release`.
        order: Order,
        /// Among whom it is ordered.
        scope: Scope,
        /// Whether the predicate operand is there.
        predicated: bool,
    },
    /// `(u64 address, bool predicate, [u64 × 2 expected,] u64 × 2) -> u64 × 2`: `Atomic128` at an
    /// address; zeros where the predicate is false.
    PtrAtomic128 {
        /// The operation.
        op: Atomic128Op,
        /// The space of the address.
        space: Space,
        /// Among whom it is atomic.
        scope: Scope,
    },
    /// `(bool scalar, i64 index, i64 extent)`: the `Bounds::Check` fault where the first is false.
    CheckBounds,
    /// `(bool scalar)`: the division-by-zero fault where it is false.
    CheckDivisor,
    /// The operands of the check, in all threads of the block together: where the first is false in
    /// any of them, all end before any goes on, with the check's fault in a thread where it is
    /// false. Uniform control flow.
    BlockCheck(Check),
    /// The operands of the check: its fault where the first is false, which the launch reports, but
    /// *the thread goes on*. For threads that others wait for: what would have been reached outside
    /// a view, or divided by, must be of no harm after it.
    DeferFault {
        /// What is checked.
        check: Check,
        /// All threads of the task have the same operands.
        together: bool,
    },
    /// `() -> bool`, uniform: whether a check whose fault is deferred has failed in a thread of
    /// this task. Never merged or moved.
    Faulted,
}
