//! Where a program or a thread stands in the launch, and what the threads of a block do together.

use crate::elem::Elem;
use crate::trace::{Raw, Site, error, with};
use crate::val::{Idx, IntoIndex, IntoVal, Val};
use kiln_ir::{Axis, ClusterOp, Level, Literal, OpKind, Scalar, Scope, ShuffleMode, Type, VoteMode, WARP};
use std::panic::Location;

fn axis_of(axis: usize, site: Site) -> Option<Axis> {
    let found = [Axis::X, Axis::Y, Axis::Z].get(axis).copied();
    if found.is_none() {
        error(site, format!("a launch has no axis {axis}"), "axes are 0, 1 and 2");
    }
    found
}

fn query(kind: fn(Axis) -> OpKind, axis: usize, site: Site) -> Idx {
    let Some(axis) = axis_of(axis, site) else { return Idx::poison() };
    Val::from_id(with(|r| r.op(kind(axis), &[], Type::scalar(Scalar::I64), site)))
}

fn index(value: i64) -> Idx {
    Val::from_raw(Raw::Const(Literal::index(value)))
}

/// The extents of the block, of a kernel that is launched with threads.
pub(crate) fn block(what: &str, site: Site) -> Option<[u32; 3]> {
    match with(|r| r.level)? {
        Level::Thread { block } => Some(block),
        Level::Tile { .. } => {
            let message = format!("`{what}` needs a launch with threads");
            error(site, message, "give the launch a block, as in `.block([256])`");
            None
        }
    }
}

/// Which program (block) of the launch this is, on an axis: 0, 1 or 2.
#[track_caller]
pub fn program_id(axis: usize) -> Idx {
    query(OpKind::ProgramId, axis, Location::caller())
}

/// How many programs (blocks) the launch has on an axis.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// device_assert!(program_id(0).lt(num_programs(0)) & num_programs(1).eq(1));
/// # });
/// ```
#[track_caller]
pub fn num_programs(axis: usize) -> Idx {
    query(OpKind::NumPrograms, axis, Location::caller())
}

/// The thread's index in its block, on an axis. Needs a launch with threads.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(thread_id(0).lt(64) & thread_id(1).eq(0));
/// # });
/// ```
#[track_caller]
pub fn thread_id(axis: usize) -> Idx {
    let site = Location::caller();
    match block("thread_id", site) {
        // An axis of one thread has one index.
        Some(block) if block.get(axis) == Some(&1) => index(0),
        Some(_) => query(OpKind::ThreadId, axis, site),
        None => Idx::poison(),
    }
}

/// The block's extent on an axis: a constant of the specialization. Needs a launch with threads.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(block_dim(0).eq(64) & block_dim(2).eq(1));
/// # });
/// ```
#[track_caller]
pub fn block_dim(axis: usize) -> Idx {
    let site = Location::caller();
    match (block("block_dim", site), axis_of(axis, site)) {
        (Some(block), Some(axis)) => index(i64::from(block[axis as usize])),
        _ => Idx::poison(),
    }
}

/// The thread's number in its block, axis 0 fastest.
#[track_caller]
pub(crate) fn thread_in_block() -> Idx {
    thread_id(0) + block_dim(0) * (thread_id(1) + block_dim(1) * thread_id(2))
}

/// The thread's lane in its warp of 32.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(lane_id().eq(thread_id(0) % 32));
/// # });
/// ```
#[track_caller]
pub fn lane_id() -> Idx {
    thread_in_block() % i64::from(WARP)
}

/// The number of the thread's warp in its block.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(warp_id().eq(thread_id(0) / 32));
/// # });
/// ```
#[track_caller]
pub fn warp_id() -> Idx {
    thread_in_block() / i64::from(WARP)
}

/// Waits until every thread of the block is here; what they wrote to shared memory before is
/// visible after.
///
/// All threads of the block must reach the same barrier.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let s = shared::<i64, 1>([64]);
/// let i = thread_id(0);
/// // SAFETY: each thread writes its own element, and the barrier comes before any is read.
/// unsafe { s.put(i, i * i) };
/// barrier();
/// device_assert!(s.get(63 - i).eq((63 - i) * (63 - i)));
/// # });
/// ```
#[track_caller]
pub fn barrier() {
    let site = Location::caller();
    if block("barrier", site).is_some() {
        with(|r| r.effect(OpKind::Barrier, &[], site));
    }
}

/// Waits until every lane of the warp is here; what they wrote before, in shared or global memory,
/// is visible to them after. The other warps of the block do not wait.
///
/// All threads of a warp must reach the same one: the interpreter faults where only some do, and a
/// GPU waits for the others. [`sync_warp_mask`] is for some of the lanes.
///
/// ```
/// # use kiln_lang::{param::Facts, prelude::*};
/// /// Each lane passes a number on to the next one of its warp, through shared memory.
/// #[device(crate = kiln_lang)]
/// fn pass_on(x: View<f32, 1>, y: ViewMut<f32, 1>) {
///     let s = shared::<f32, 1>([64]);
///     let i = thread_id(0);
///     // SAFETY: each thread writes a place of its own, which lanes of its warp alone read, after
///     // the barrier.
///     unsafe { s.put(i, x.get(i)) };
///     sync_warp();
///     let next = i / 32 * 32 + (i + 1) % 32;
///     y.set(thread_index(), s.get(next));
/// }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
/// #     pass_on(p.view("x", Facts::default()), p.view_mut("y", Facts::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn sync_warp() {
    let all: Val<u32> = u32::MAX.into_val();
    warp_barrier(all.raw(), "sync_warp", Location::caller());
}

/// As [`sync_warp`], of the lanes alone that have a bit in `lanes`, lane 0 the lowest.
///
/// It may stand where only these lanes are. All of them must reach the same one, with the same
/// bits, and no other lane.
///
/// ```
/// # use kiln_lang::{param::Facts, prelude::*};
/// # #[device(crate = kiln_lang)]
/// # fn pairs(y: ViewMut<u32, 1>) {
/// let s = shared::<u32, 1>([32]);
/// let lane = lane_id();
/// if lane.lt(4) {
///     // SAFETY: each thread writes a place of its own, and reads another one after the barrier.
///     unsafe { s.put(lane, lane.cast()) };
///     sync_warp_mask(0b1111);
///     y.set(thread_index(), s.get(lane ^ 1));
/// }
/// # }
/// # trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
/// #     pairs(p.view_mut("y", Facts::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn sync_warp_mask(lanes: impl IntoVal<u32>) {
    warp_barrier(lanes.into_val().raw(), "sync_warp_mask", Location::caller());
}

fn warp_barrier(lanes: Raw, name: &str, site: Site) {
    if block(name, site).is_some() {
        with(|r| {
            let lanes = r.read_as(lanes, &kiln_ir::Shape::scalar(), site)?;
            r.effect(OpKind::WarpBarrier, &[lanes], site);
            Some(())
        });
    }
}

/// Waits until every thread of every block of the [cluster](crate::explicit::cluster) is here; what
/// they wrote before, in global memory and in shared memory of whichever block, is visible after.
///
/// All threads of the cluster must reach the same barrier, or have ended. A block's shared memory
/// is there from when the block begins until it ends: such a barrier comes before anybody's first
/// [store](crate::Shared::set_quad_of) to another block's, and one after the last.
///
/// ```
/// use kiln_lang::{explicit::cluster, prelude::*, cluster_barrier};
/// let kernel = trace("k", Level::Thread { block: [32, 1, 1] }, |_| {
///     cluster(2);
///     cluster_barrier(); // both blocks have begun
///     // Here each may store to the other's shared memory.
///     cluster_barrier(); // and neither has ended
/// })?;
/// assert_eq!((kernel.cluster, kernel.block(kernel.body).ops.len()), (2, 2));
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn cluster_barrier() {
    let site = Location::caller();
    if block("cluster_barrier", site).is_some() {
        with(|r| r.effect(OpKind::Cluster(ClusterOp::Barrier), &[], site));
    }
}

/// Waits until every thread of every block of the launch is here; what they stored before is
/// visible after.
///
/// All threads of the launch must reach the same barriers. A launch of more blocks than the device
/// has room for at once is an error that names the limit; so many blocks as the device has
/// multiprocessors (`Properties::units`) fit where one block fits. A fault of one block ends the
/// others at their next barrier. Devices whose blocks run one after the other refuse the kernel by
/// name: the capability `grid_barriers` says which have it.
///
/// ```
/// # use kiln_lang::{param::Facts, prelude::*};
/// /// The heat of a rod after some steps, in one launch: as many threads as places, two rows.
/// #[device(crate = kiln_lang)]
/// fn heat(rows: ViewMut<f32, 2>, steps: Val<i32>) {
///     let i = thread_id(0) + program_id(0) * block_dim(0);
///     for step in range(0, steps) {
///         let now = (step % 2).cast::<i64>();
///         let [left, mid, right] = [-1, 0, 1].map(|by| rows.get_or((now, i + by), 0.0));
///         // SAFETY: each thread has a place of its own, in the row that nobody reads in this step.
///         unsafe { rows.scatter((1 - now, i), mid * 0.5 + (left + right) * 0.25) };
///         grid_barrier();
///     }
/// }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
/// #     heat(p.view_mut("rows", Facts::default()), p.scalar("steps", Default::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn grid_barrier() {
    let site = Location::caller();
    if block("grid_barrier", site).is_some() {
        with(|r| r.effect(OpKind::GridBarrier, &[], site));
    }
}

/// Orders this thread's earlier accesses of memory before its later ones, as other threads of the
/// device see them. In a kernel over tiles they are those of the whole program.
///
/// ```
/// use kiln_lang::prelude::*;
/// let kernel = trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
///     let (data, flag) = (p.view_mut::<u32, 1>("data", Default::default()), p.view_mut::<u32, 1>("flag", Default::default()));
///     // SAFETY: all threads store the same, and who reads the data has seen the flag.
///     unsafe {
///         data.set_ordered(0, 7, Order::Relaxed, Scope::Device);
///         fence(); // whoever sees the flag sees the data
///         flag.set_ordered(0, 1, Order::Relaxed, Scope::Device);
///     }
/// })?;
/// assert!(kernel.to_string().contains("fence.device"));
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn fence() {
    let site = Location::caller();
    with(|r| r.effect(OpKind::Fence(Scope::Device), &[], site));
}

/// As [`fence`], as other threads of the block see the accesses.
///
/// ```
/// # use kiln_lang::{fence_block, prelude::*};
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |_| {
/// let s = shared::<u32, 1>([2]);
/// // SAFETY: all threads write the same, and who reads the 7 has seen the 1 before.
/// unsafe {
///     s.put(0, 7);
///     fence_block();
///     s.set_ordered(1, 1, Order::Relaxed, Scope::Block);
/// }
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn fence_block() {
    let site = Location::caller();
    with(|r| r.effect(OpKind::Fence(Scope::Block), &[], site));
}

/// As [`fence`], also as the host and other devices see the accesses.
///
/// ```
/// # use kiln_lang::{fence_system, trace, Level, Order, Scope};
/// # trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
/// # let results = p.view_mut::<u32, 1>("results", Default::default());
/// # let flag = p.view_mut::<u32, 1>("flag", Default::default());
/// // SAFETY: one thread writes, and the host reads the results once it has seen the flag.
/// unsafe {
///     results.write(0, 7);
///     fence_system();
///     flag.set_ordered(0, 1, Order::Relaxed, Scope::System);
/// }
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn fence_system() {
    let site = Location::caller();
    with(|r| r.effect(OpKind::Fence(Scope::System), &[], site));
}

fn shuffle<T: Elem>(mode: ShuffleMode, value: Val<T>, by: Idx, site: Site) -> Val<T> {
    Val::from_raw(shuffle_raw(mode, value.raw(), by.raw(), site))
}

/// Records a shuffle of a scalar of any type.
pub(crate) fn shuffle_raw(mode: ShuffleMode, value: Raw, by: Raw, site: Site) -> Raw {
    if block("shuffle", site).is_none() {
        return Raw::Poison;
    }
    let id = with(|r| {
        let scalar = kiln_ir::Shape::scalar();
        let elem = r.ty(value)?.elem();
        let operands = [r.read_as(value, &scalar, site)?, r.read_as(by, &scalar, site)?];
        Some(r.op(OpKind::Shuffle(mode), &operands, Type::scalar(elem), site))
    });
    Raw::of(id.flatten())
}

/// The value that lane `lane` of the warp has; `lane` counts modulo 32.
///
/// All threads of a warp must reach a shuffle or a vote together: the interpreter faults where only
/// some do, and a GPU waits for the others, so that the launch may not end. A lane that the block
/// does not have, in a last warp that is not full, gives nothing: who would read it keeps its own
/// value.
///
/// ```
/// # use kiln_lang::{param::Facts, prelude::*};
/// # #[device(crate = kiln_lang)]
/// # fn step(x: View<f32, 1>, y: ViewMut<f32, 1>) {
/// let t = thread_index();
/// let first = shuffle_idx(x.get(t), 0); // not inside the `if`
/// if lane_id().ne(0) {
///     y.set(t, first);
/// }
/// # }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
/// #     let x = p.view("x", Facts::default());
/// #     step(x, p.view_mut("y", Facts::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn shuffle_idx<T: Elem>(value: Val<T>, lane: impl IntoIndex) -> Val<T> {
    shuffle(ShuffleMode::Index, value, lane.into_index(), Location::caller())
}

/// The value that the lane `by` below has, modulo 32; the lowest lanes keep their own. As for
/// [`shuffle_idx`], all threads of a warp reach it together.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let lane = lane_id();
/// device_assert!(shuffle_up(lane, 1).eq((lane - 1).max(0))); // lane 0 keeps its own
/// # });
/// ```
#[track_caller]
pub fn shuffle_up<T: Elem>(value: Val<T>, by: impl IntoIndex) -> Val<T> {
    shuffle(ShuffleMode::Up, value, by.into_index(), Location::caller())
}

/// The value that the lane `by` above has, modulo 32; the highest lanes keep their own. As for
/// [`shuffle_idx`], all threads of a warp reach it together.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let lane = lane_id();
/// device_assert!(shuffle_down(lane, 1).eq((lane + 1).min(31))); // lane 31 keeps its own
/// # });
/// ```
#[track_caller]
pub fn shuffle_down<T: Elem>(value: Val<T>, by: impl IntoIndex) -> Val<T> {
    shuffle(ShuffleMode::Down, value, by.into_index(), Location::caller())
}

/// The value that the lane whose number differs by exclusive or with `mask` has, modulo 32. As for
/// [`shuffle_idx`], all threads of a warp reach it together.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// // The sum of a warp, by halves.
/// let mut sum = lane_id();
/// for mask in [16, 8, 4, 2, 1] {
///     sum += shuffle_xor(sum, mask);
/// }
/// device_assert!(sum.eq(31 * 32 / 2));
/// # });
/// ```
#[track_caller]
pub fn shuffle_xor<T: Elem>(value: Val<T>, mask: impl IntoIndex) -> Val<T> {
    shuffle(ShuffleMode::Xor, value, mask.into_index(), Location::caller())
}

fn vote<U: Elem>(mode: VoteMode, predicate: Val<bool>, site: Site) -> Val<U> {
    if block("vote", site).is_none() {
        return Val::poison();
    }
    let id = with(|r| {
        let predicate = r.read_as(predicate.raw(), &kiln_ir::Shape::scalar(), site)?;
        Some(r.op(OpKind::Vote(mode), &[predicate], Type::scalar(U::SCALAR), site))
    });
    Val::from_id(id.flatten())
}

/// Whether the predicate holds in every thread of the warp. As for [`shuffle_idx`], all of them
/// reach it together.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(vote_all(lane_id().lt(32)) & !vote_all(lane_id().lt(31)));
/// # });
/// ```
#[track_caller]
pub fn vote_all(predicate: impl IntoVal<bool>) -> Val<bool> {
    vote(VoteMode::All, predicate.into_val(), Location::caller())
}

/// Whether the predicate holds in some thread of the warp. As for [`shuffle_idx`], all of them
/// reach it together.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(vote_any(lane_id().eq(31)) & !vote_any(lane_id().eq(32)));
/// # });
/// ```
#[track_caller]
pub fn vote_any(predicate: impl IntoVal<bool>) -> Val<bool> {
    vote(VoteMode::Any, predicate.into_val(), Location::caller())
}

/// A bit for each lane of the warp in which the predicate holds. As for [`shuffle_idx`], all
/// threads of a warp reach it together.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(ballot(lane_id().lt(4)).eq(0b1111));
/// # });
/// ```
#[track_caller]
pub fn ballot(predicate: impl IntoVal<bool>) -> Val<u32> {
    vote(VoteMode::Ballot, predicate.into_val(), Location::caller())
}

/// The value that the first thread of the block has, in every thread: one that the compiler knows
/// to be the same for all, so that barriers and tile operations may stand under conditions made of
/// it.
///
/// All threads of the block must reach it together.
///
/// ```
/// # use kiln_lang::{param::Facts, prelude::*};
/// # #[device(crate = kiln_lang)]
/// # fn step(x: View<u32, 1>) {
/// let found = x.get_ordered(0, Order::Acquire, Scope::System); // may differ from thread to thread
/// if block_uniform(found) == 1 {
///     barrier();
/// }
/// # }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| step(p.view("x", Facts::default())))?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_uniform<T: Elem>(value: Val<T>) -> Val<T> {
    Val::from_raw(block_uniform_raw(value.raw(), Location::caller()))
}

/// Records what [`block_uniform`] does, of a scalar of any type.
pub(crate) fn block_uniform_raw(value: Raw, site: Site) -> Raw {
    if block("block_uniform", site).is_none() {
        return Raw::Poison;
    }
    let id = with(|r| {
        let elem = r.ty(value)?.elem();
        let value = r.read_as(value, &kiln_ir::Shape::scalar(), site)?;
        Some(r.op(OpKind::BlockUniform, &[value], Type::scalar(elem), site))
    });
    Raw::of(id.flatten())
}
