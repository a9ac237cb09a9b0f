//! Tasks, among which a program divides its warps, and clusters of programs.

use super::{number, over_tiles};
use crate::trace::{Item, Region, RegionKind, Site, error, with, writes_outer};
use crate::val::{Idx, Val};
use kiln_ir::{ExplicitOp, OpKind, Scalar, Task, Type};
use std::panic::Location;

/// Tasks that run side by side, each on warps of its own: see [`tasks`].
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::explicit::*;
/// let work: Tasks = tasks()
///     .task(4, 0, || device_assert!(task_rank().eq(0)))
///     .copies(2, 4, 0, || device_assert!(task_rank().lt(2)));
/// work.run();
/// # });
/// ```
#[must_use = "tasks run with `.run()`"]
pub struct Tasks {
    list: Vec<(Task, Region)>,
    site: Site,
}

/// Divides the program's warps among tasks. Add them with [`Tasks::task`], then [`Tasks::run`]: the
/// program goes on when all are done.
///
/// A task may use scalars and views of the program around it, but no tiles, and changes none of its
/// variables.
///
/// A check that fails in a task (an assertion, an index outside its view, an integer divided by
/// zero) is the fault of the launch, but does not end the task while others wait for it: what lies
/// outside a view is masked, a divisor of zero is one, unchecked accesses take place no more,
/// `while` loops end and `for` loops do not begin, except those that wait or that what waits
/// depends on. So tasks that wait for each other must count their rounds alike. A check inside a
/// `while` loop that waits is refused on a GPU: count the rounds by a `for`.
#[track_caller]
pub fn tasks() -> Tasks {
    let site = Location::caller();
    over_tiles("tasks", site);
    Tasks { list: Vec::new(), site }
}

fn begin_task() {
    with(|r| {
        r.open(RegionKind::Device);
        r.tasks += 1;
    });
}

impl Tasks {
    /// Adds a task of so many warps, a power of two, whose threads have so many registers (a
    /// multiple of 8 from 24 to 240; needs a multiple of 4 warps), or as many as they get with 0.
    #[track_caller]
    pub fn task(self, warps: usize, registers: usize, body: impl FnOnce()) -> Tasks {
        let site = Location::caller();
        begin_task();
        body();
        self.end_task([1, warps, registers], site)
    }

    /// Adds so many tasks that do the same, each as [`Tasks::task`] would. [`task_rank`] tells them
    /// apart.
    #[track_caller]
    pub fn copies(self, copies: usize, warps: usize, registers: usize, body: impl FnOnce()) -> Tasks {
        let site = Location::caller();
        begin_task();
        body();
        self.end_task([copies, warps, registers], site)
    }

    fn end_task(mut self, [copies, warps, registers]: [usize; 3], site: Site) -> Tasks {
        let task = Task {
            copies: number("the number of copies", copies, site),
            warps: number("the number of warps", warps, site),
            registers: number("the number of registers", registers, site),
        };
        let closed = with(|r| {
            r.tasks = r.tasks.saturating_sub(1);
            r.close()
        });
        let region = closed.unwrap_or_default();
        if writes_outer(&region) {
            error(site, "a task changes a variable of the program around it", "declare it inside the task");
        }
        self.list.push((task, region));
        self
    }

    /// Runs them.
    pub fn run(self) {
        with(|r| r.push(Item::Tasks { tasks: self.list, site: self.site }));
    }
}

/// The number of this task among its copies, from 0; 0 in a task that has none, and outside of
/// tasks.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::explicit::*;
/// tasks()
///     .copies(2, 4, 0, || {
///         let half = task_rank() * 32; // of a copy that is the first or the second one
///         // SAFETY: each copy writes a half of its own.
///         unsafe { memory.tile(half, 32).store_overlapping(full(32, half.cast::<u32>())) };
///     })
///     .run();
/// device_assert!(memory.tile(32, 32).load(0).eq(32).all());
/// # });
/// ```
#[track_caller]
pub fn task_rank() -> Idx {
    let site = Location::caller();
    let op = OpKind::Explicit(ExplicitOp::TaskRank);
    Val::from_id(with(|r| r.op(op, &[], Type::scalar(Scalar::I64), site)))
}

/// Launches the kernel in clusters of so many programs along axis 0, a power of two up to 8. They
/// run at once, and the grid must be a multiple of it.
///
/// ```
/// use kiln_lang::{explicit::*, prelude::*};
/// let kernel = trace("k", Level::Tile { warps: None }, |_| {
///     cluster(2);
///     device_print!("block {} of 2", cluster_rank());
/// })?;
/// assert_eq!(kernel.cluster, 2);
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn cluster(blocks: usize) {
    let site = Location::caller();
    let blocks = number("the number of blocks", blocks, site);
    with(|r| r.cluster = blocks);
}

/// This program's number in its cluster.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::explicit::cluster_rank;
/// device_assert!(cluster_rank().eq(0)); // a program without others is the first of its cluster
/// # });
/// ```
#[track_caller]
pub fn cluster_rank() -> Idx {
    let site = Location::caller();
    let op = OpKind::Explicit(ExplicitOp::ClusterRank);
    Val::from_id(with(|r| r.op(op, &[], Type::scalar(Scalar::I64), site)))
}
