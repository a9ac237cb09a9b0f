//! The explicit level: operations under both others, which name what a GPU does beside computing
//! (copies in flight, barriers that count bytes, products in flight) and divide a block's warps
//! among tasks.
//!
//! They stand in kernels over tiles. The *task* that an operation belongs to is the region of
//! [`ExplicitOp::Tasks`] around it, or the whole program where there is none; every operation is
//! executed by a task once, however many threads it has. The names are those of PTX.
//!
//! **Copies and products are asynchronous.** They read and write shared tiles at some time after
//! the operation, in the *asynchronous proxy*: a [`TmaLoad`](ExplicitOp::TmaLoad) is done when the
//! phase of its mbarrier is, a [`Wgmma`](ExplicitOp::Wgmma) after a
//! [`WgmmaWait`](ExplicitOp::WgmmaWait), a [`TmaStore`](ExplicitOp::TmaStore) after a
//! [`TmaStoreWait`](ExplicitOp::TmaStoreWait). To touch what they touch before that is a race,
//! which the interpreter reports.
//!
//! **A copy moves a box** between a shared tile and a view of rank 1 to 5. It covers the last two
//! axes and one index of each of the others, `[1…, rows, columns]`. The box of a vector is
//! `rows · columns` adjacent elements, which are the tile's rows one after the other.

use crate::op::AtomicOp;
use crate::types::Scalar;
use smallvec::SmallVec;

/// An explicit operation. *Shared tile* and *mbarriers* are views that the operations of these
/// names made; *stage* and *index* are i64 scalars.
///
/// ```
/// use kiln_ir::ExplicitOp;
/// let tiles = ExplicitOp::SharedTile { stages: 4, rows: 64, columns: 128 };
/// assert_eq!(tiles.name(), "shared_tile");
/// assert_eq!(tiles.attributes()[..], [("stages", 4), ("rows", 64), ("columns", 128)]);
/// assert_eq!(ExplicitOp::ProxyFence.attributes().len(), 0);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExplicitOp {
    /// `() -> view<elem, 3, shared>`: memory for `stages` tiles `[rows, columns]`, uninitialized,
    /// which only explicit operations reach: how it is laid out is the compiler's choice. Rows are
    /// a multiple of 8.
    SharedTile {
        /// How many tiles.
        stages: u32,
        /// The first extent of each.
        rows: u32,
        /// The second.
        columns: u32,
    },
    /// `() -> view<u64, 1, shared>`: barriers in shared memory, each in phase 0. A phase is
    /// complete when so many arrivals have come and all bytes that were announced; the next one
    /// begins with it.
    Mbarrier {
        /// How many barriers.
        count: u32,
        /// Arrivals in a phase, each that of one task.
        arrivals: u32,
    },
    /// `(mbarriers, index)`: announces bytes that copies will bring in the current phase, and
    /// arrives.
    MbarrierExpect {
        /// How many bytes.
        bytes: u32,
    },
    /// `(mbarriers, index, [i64 rank])`: arrives when everything this task did so far is done, at
    /// the mbarrier of the block with that rank in the cluster, or its own.
    MbarrierArrive,
    /// `(mbarriers, index, i64 phase)`: waits until the phase with this number, counted from 0, is
    /// complete; negative ones are. What the arrivals and copies of the phase did is visible after.
    /// The hardware tests only the number's lowest bit, so a wait must not be two phases late.
    MbarrierWait,
    /// `(view, i64 offset per axis, shared tile, stage, i64 row, mbarriers, index)`: begins to load
    /// the box of `rows` rows at the offsets, with the columns of the shared tile, into the rows of
    /// the stage from `row` on (a multiple of 8). Elements outside the view are zero. The bytes
    /// count for the current phase of the mbarrier. Along the axis whose elements are adjacent the
    /// box begins at a multiple of 16 bytes
    /// ([`copied_together`](ExplicitOp::copied_together)): else it is a fault.
    TmaLoad {
        /// How many rows.
        rows: u32,
        /// A bit for each rank of the cluster whose block gets the box in its own shared tile, its
        /// mbarrier the bytes; 0 is this block alone.
        multicast: u32,
        /// The box is `[1…, columns, rows]` of a view whose elements are adjacent on the last axis
        /// but one, and arrives transposed. Not of a vector.
        transposed: bool,
    },
    /// `(shared tile, stage, view, i64 offset per axis)`: begins to store the stage to the box of
    /// the view at the offsets. Elements outside the view are dropped. No offset is negative, and
    /// along the last axis the box begins at a multiple of 16 bytes: a GPU does not check it.
    TmaStore,
    /// `(shared tile, stage, view, i64 offset per axis)`: begins to combine the box of the view at
    /// the offsets with the stage. Elements outside the view are dropped. Each element is changed
    /// atomically, relaxed in the scope of the device, in no order among them. The offsets are as
    /// those of a store.
    TmaReduce(BulkReduce),
    /// `(view, i64 offset per axis)`: begins to bring the box of the view at the offsets, which are
    /// as those of a load, to the L2 cache. It changes nothing that a program can see.
    TmaPrefetch {
        /// The rows of the box.
        rows: u32,
        /// Its columns.
        columns: u32,
    },
    /// `()`: waits until all but the last `pending` stores that this task began, those that combine
    /// among them, have read their shared tiles.
    TmaStoreWait {
        /// How many may still read.
        pending: u32,
    },
    /// `()`: what this task wrote to shared tiles by [`SharedStore`](ExplicitOp::SharedStore) is
    /// visible to copies and products that begin after the next barrier.
    ProxyFence,
    /// `()`: every thread of the task arrives before any leaves.
    TaskBarrier,
    /// `(view<u32, 1, global>, i64 index, u32 value)`: stores the value to the element, inside the
    /// view, when everything that this task did so far is done, but for copies under way.
    Signal,
    /// `(view<u32, 1, global>, i64 index, u32 value)`: waits until the element, inside the view,
    /// has this value. What the task that stored it by [`Signal`](ExplicitOp::Signal) had done to
    /// global memory is visible after.
    ///
    /// Programs begin in the order of their numbers (axis 0 fastest), and a device need not have
    /// room for all: what is waited for comes from a program of the same cluster or with a smaller
    /// number, which in turn waits for no greater one.
    SignalWait,
    /// `(tile [rows, n], shared tile, stage)`: writes the columns of the tile that begin at
    /// `column`, as many as the stage has. Into a shared tile of 16-bit elements it may be a u32
    /// tile `[rows, n / 2]` of pairs of them, as [`PackPairs`](ExplicitOp::PackPairs) makes it.
    SharedStore {
        /// The first column of the tile.
        column: u32,
    },
    /// `(shared tile, stage) -> u32 tile [rows, n]`: what the stage holds, four bytes a number, n
    /// of them in a row: what [`WgmmaRegisters`](ExplicitOp::WgmmaRegisters) takes. It reads as a
    /// copy or product does, but is done at once.
    SharedLoad,
    /// `(shared tile a, stage, shared tile b, stage, bool keep, tile [m, n] acc) -> tile [m, n]`:
    /// begins a · b, plus acc where `keep`. The factors are both f16, both bf16, both f32 (of which
    /// the last 13 bits do not count: tf32), 8-bit floats, or 8-bit integers; acc and the result
    /// are f32, or i32 for integers, which wraps. k is a multiple of 32 bytes. The stages of a are
    /// `[m, k]` and those of b `[n, k]`, unless they are stored transposed, which only those of
    /// 16-bit elements may be. The result may only go to another such product or to `WgmmaWait`;
    /// acc has no other use. In their place there may be several tiles side by side,
    /// `[m, n₁], [m, n₂], …`, whose columns are n in all. In a kernel lowered to threads the tile
    /// is the thread's registers of it, by blocks of 64 rows.
    Wgmma {
        /// The stages of a are `[k, m]`.
        transposed_a: bool,
        /// The stages of b are `[k, n]`.
        transposed_b: bool,
    },
    /// `(shared tile b, stage, bool keep, u32 tile [m, w] a, tile [m, n] acc) -> tile [m, n]`: as
    /// `Wgmma`, but a comes from registers: w numbers of four bytes are k elements of b's type,
    /// packed by [`PackPairs`](ExplicitOp::PackPairs) or read by
    /// [`SharedLoad`](ExplicitOp::SharedLoad); it too may be several tiles side by side. In a
    /// kernel lowered to threads both tiles are the thread's registers of them.
    WgmmaRegisters {
        /// The stages of b are `[k, n]`.
        transposed_b: bool,
    },
    /// `(f32 tile [m, n]) -> u32 tile [m, n / 2]`: each two neighbors of a row, rounded to 16 bits,
    /// the first in the lower half.
    PackPairs {
        /// To bf16, else to f16.
        bf16: bool,
    },
    /// `(f32 tile) -> f32 tile`: 2 to the power of each element, within 2 ulp; zero where that is
    /// not a normal number.
    Exp2Flushed,
    /// `(tile of sums…) -> tile…`: waits until all but the last `pending` products that this task
    /// began are done. The result is what was computed if that is this one: with 0, or where so
    /// many began after it in the same region. Else it is still in flight and may only go to
    /// another product or wait.
    WgmmaWait {
        /// How many may still be in flight.
        pending: u32,
    },
    /// `()`, a region for each task, which yields nothing: the tasks run side by side, each copy on
    /// warps of its own, and the program goes on when all are done. Tiles do not enter.
    Tasks(SmallVec<[Task; 4]>),
    /// `() -> i64`: the number of this copy of its task.
    TaskRank,
    /// `() -> i64`: this block's number in its cluster.
    ClusterRank,
}

/// How a bulk copy combines the elements of a shared tile with those in global memory.
///
/// ```
/// use kiln_ir::{AtomicOp, BulkReduce, Scalar};
/// assert_eq!(BulkReduce::ALL.map(BulkReduce::word), ["add", "min", "max", "and", "or", "xor"]);
/// assert_eq!(BulkReduce::Max.atomic(), AtomicOp::Max);
/// assert!(BulkReduce::Add.takes(Scalar::F32) && !BulkReduce::Max.takes(Scalar::F32));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum BulkReduce {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

impl BulkReduce {
    /// All of them, in the order of declaration.
    pub const ALL: [BulkReduce; 6] = {
        use BulkReduce::*;
        [Add, Min, Max, And, Or, Xor]
    };

    /// The word for it, which is that of PTX.
    pub const fn word(self) -> &'static str {
        match self {
            BulkReduce::Add => "add",
            BulkReduce::Min => "min",
            BulkReduce::Max => "max",
            BulkReduce::And => "and",
            BulkReduce::Or => "or",
            BulkReduce::Xor => "xor",
        }
    }

    /// The operation on an element of memory.
    pub const fn atomic(self) -> AtomicOp {
        match self {
            BulkReduce::Add => AtomicOp::Add,
            BulkReduce::Min => AtomicOp::Min,
            BulkReduce::Max => AtomicOp::Max,
            BulkReduce::And => AtomicOp::And,
            BulkReduce::Or => AtomicOp::Or,
            BulkReduce::Xor => AtomicOp::Xor,
        }
    }

    /// The elements that it combines: what the copy engine has (PTX ISA 8.0,
    /// "cp.reduce.async.bulk.tensor"). Sums of i64 are those of u64.
    ///
    /// ```
    /// use kiln_ir::{BulkReduce, Scalar};
    /// assert!(BulkReduce::Xor.elements().iter().all(|elem| elem.is_int()));
    /// assert!(BulkReduce::Add.elements().contains(&Scalar::F32));
    /// ```
    pub const fn elements(self) -> &'static [Scalar] {
        use Scalar::*;
        match self {
            BulkReduce::Add => &[I32, U32, I64, U64, F16, BF16, F32],
            BulkReduce::Min | BulkReduce::Max => &[I32, U32, I64, U64, F16, BF16],
            BulkReduce::And | BulkReduce::Or | BulkReduce::Xor => &[I32, U32, I64, U64],
        }
    }

    /// Whether it combines elements of a type.
    pub fn takes(self, elem: Scalar) -> bool {
        self.elements().contains(&elem)
    }
}

/// What a task gets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Task {
    /// How often it runs, side by side.
    pub copies: u32,
    /// Warps of 32 threads of each copy: a power of two.
    pub warps: u32,
    /// Registers of each thread, a multiple of 8 from 24 to 240; 0 leaves them as the block has
    /// them. Needs a multiple of 4 warps.
    pub registers: u32,
}

impl Task {
    /// The first warp of each task of a list: larger ones come first, so that each begins at a
    /// multiple of its size.
    ///
    /// ```
    /// use kiln_ir::Task;
    /// let tasks = [4, 8].map(|warps| Task { copies: 1, warps, registers: 0 });
    /// assert_eq!(Task::first_warps(&tasks), [8, 0]);
    /// ```
    pub fn first_warps(tasks: &[Task]) -> Vec<u32> {
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(tasks[i].warps));
        let mut first = vec![0; tasks.len()];
        let mut next = 0;
        for i in order {
            first[i] = next;
            next += tasks[i].warps * tasks[i].copies;
        }
        first
    }
}

/// A number that belongs to an operation, with the word before it in the text format.
///
/// ```
/// use kiln_ir::{Attribute, ExplicitOp};
/// let attributes: Vec<Attribute> = ExplicitOp::WgmmaWait { pending: 1 }.attributes().to_vec();
/// assert_eq!(attributes, [("pending", 1)]);
/// ```
pub type Attribute = (&'static str, u32);

impl ExplicitOp {
    /// How many adjacent elements bulk copies take together, 16 bytes: boxes begin at multiples of
    /// them.
    ///
    /// ```
    /// use kiln_ir::{ExplicitOp, Scalar};
    /// assert_eq!([Scalar::BF16, Scalar::F64].map(ExplicitOp::copied_together), [8, 2]);
    /// ```
    pub const fn copied_together(elem: Scalar) -> u32 {
        16 / elem.bytes()
    }

    /// What is wrong where a bulk copy begins at no such multiple: where it begins, and how many
    /// elements are taken together.
    ///
    /// ```
    /// assert_eq!(kiln_ir::ExplicitOp::BEGINS_BETWEEN.matches("{}").count(), 2);
    /// ```
    pub const BEGINS_BETWEEN: &str =
        "a bulk copy begins at element {} of a row, which is no multiple of {} elements, 16 bytes";

    /// Its numbers, in the order of the text format. Those of tasks come in groups.
    pub fn attributes(&self) -> SmallVec<[Attribute; 8]> {
        use ExplicitOp::*;
        match self {
            SharedTile { stages, rows, columns } => {
                SmallVec::from_slice(&[("stages", *stages), ("rows", *rows), ("columns", *columns)])
            }
            Mbarrier { count, arrivals } => {
                SmallVec::from_slice(&[("count", *count), ("arrivals", *arrivals)])
            }
            MbarrierExpect { bytes } => SmallVec::from_slice(&[("bytes", *bytes)]),
            TmaLoad { rows, multicast, transposed } => {
                let transposed = transposed.then_some(("transposed", 1));
                [("rows", *rows), ("multicast", *multicast)].into_iter().chain(transposed).collect()
            }
            TmaPrefetch { rows, columns } => SmallVec::from_slice(&[("rows", *rows), ("columns", *columns)]),
            TmaStoreWait { pending } | WgmmaWait { pending } => {
                SmallVec::from_slice(&[("pending", *pending)])
            }
            SharedStore { column } => SmallVec::from_slice(&[("column", *column)]),
            Wgmma { transposed_a, transposed_b } => SmallVec::from_slice(&[
                ("transposed_a", u32::from(*transposed_a)),
                ("transposed_b", u32::from(*transposed_b)),
            ]),
            WgmmaRegisters { transposed_b } => {
                SmallVec::from_slice(&[("transposed_b", u32::from(*transposed_b))])
            }
            PackPairs { bf16 } => SmallVec::from_slice(&[("bf16", u32::from(*bf16))]),
            Tasks(tasks) => {
                let copies = |t: &Task| (t.copies != 1).then_some(("copies", t.copies));
                let of =
                    |t: Task| [("warps", t.warps), ("registers", t.registers)].into_iter().chain(copies(&t));
                tasks.iter().copied().flat_map(of).collect()
            }
            MbarrierArrive | MbarrierWait | TmaStore | TmaReduce(_) | ProxyFence | TaskBarrier | Signal
            | SignalWait | SharedLoad | Exp2Flushed | TaskRank | ClusterRank => SmallVec::new(),
        }
    }

    /// The operation with this word in the text format, whose numbers `next` reads: it is asked for
    /// each by its word. For tasks it is asked for `warps` until it has none.
    ///
    /// # Errors
    /// Those of `next`, for a number that must be there. `Ok(None)` for a word that names no such
    /// operation.
    pub(crate) fn read<E>(
        name: &str,
        mut next: impl FnMut(&'static str, bool) -> Result<Option<u32>, E>,
    ) -> Result<Option<ExplicitOp>, E> {
        use ExplicitOp::*;
        let mut number = |word| next(word, true).map(Option::unwrap_or_default);
        Ok(Some(match name {
            "shared_tile" => {
                SharedTile { stages: number("stages")?, rows: number("rows")?, columns: number("columns")? }
            }
            "mbarrier" => Mbarrier { count: number("count")?, arrivals: number("arrivals")? },
            "mbarrier_expect" => MbarrierExpect { bytes: number("bytes")? },
            "mbarrier_arrive" => MbarrierArrive,
            "mbarrier_wait" => MbarrierWait,
            "tma_load" => {
                let (rows, multicast) = (number("rows")?, number("multicast")?);
                TmaLoad { rows, multicast, transposed: next("transposed", false)?.unwrap_or_default() != 0 }
            }
            "tma_store" => TmaStore,
            "tma_reduce_add" => TmaReduce(BulkReduce::Add),
            "tma_reduce_min" => TmaReduce(BulkReduce::Min),
            "tma_reduce_max" => TmaReduce(BulkReduce::Max),
            "tma_reduce_and" => TmaReduce(BulkReduce::And),
            "tma_reduce_or" => TmaReduce(BulkReduce::Or),
            "tma_reduce_xor" => TmaReduce(BulkReduce::Xor),
            "tma_prefetch" => TmaPrefetch { rows: number("rows")?, columns: number("columns")? },
            "tma_store_wait" => TmaStoreWait { pending: number("pending")? },
            "proxy_fence" => ProxyFence,
            "task_barrier" => TaskBarrier,
            "signal" => Signal,
            "signal_wait" => SignalWait,
            "shared_store" => SharedStore { column: number("column")? },
            "shared_load" => SharedLoad,
            "wgmma" => Wgmma {
                transposed_a: number("transposed_a")? != 0,
                transposed_b: number("transposed_b")? != 0,
            },
            "wgmma_registers" => WgmmaRegisters { transposed_b: number("transposed_b")? != 0 },
            "pack_pairs" => PackPairs { bf16: number("bf16")? != 0 },
            "exp2_flushed" => Exp2Flushed,
            "task_rank" => TaskRank,
            "wgmma_wait" => WgmmaWait { pending: number("pending")? },
            "tasks" => {
                let mut tasks = SmallVec::new();
                while let Some(warps) = next("warps", false)? {
                    let registers = next("registers", true)?.unwrap_or_default();
                    tasks.push(Task { copies: next("copies", false)?.unwrap_or(1), warps, registers });
                }
                Tasks(tasks)
            }
            "cluster_rank" => ClusterRank,
            _ => return Ok(None),
        }))
    }
}
