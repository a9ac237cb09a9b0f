//! Attention on a Hopper GPU, at the explicit level (Shah et al., "FlashAttention-3", 2024).
//!
//! Programs are persistent and go through tiles of queries. In each, one task copies queries, keys
//! and values into shared memory; the others, copies of one, take 64 queries each: they multiply
//! queries with the next keys and the last weights with their values at once, and while one
//! computes weights, another one's products run. Weights go from registers to the tensor cores.
//!
//! ```
//! use half::bf16;
//! use kiln_kernels::attention::hopper::{AttentionPlan, ROWS, attention};
//! use kiln_kernels::attention::schedule::{Lengths, Work, order};
//!
//! // What an H200 is given for heads of width 128: two tasks of 64 queries, 128 keys at a time.
//! let plan = AttentionPlan::of(128, 1);
//! assert_eq!(plan, AttentionPlan::divided(128, 1, AttentionPlan::divisions(128)[0]));
//! assert_eq!((plan.rows(), plan.keys), (2 * ROWS, 128));
//!
//! // The interpreter runs the kernel, too: 1 head of 64 queries, whose scores are all 0.
//! let device = kiln_runtime::Device::open("interp")?;
//! let plan = AttentionPlan::divided(64, 1, (1, 16, 2));
//! let (q, v) = (device.zeros::<bf16, 4>([1, 1, 64, 64])?, device.tensor(&[bf16::ONE; 4096], [1, 1, 64, 64])?);
//! let (mut o, mut sums) = (device.uninit([1, 1, 64, 64])?, device.uninit([1, 1, 64])?);
//! let lengths = Lengths::All { batch: 1, lengths: [64, 64] };
//! let (table, extents) = order(&Work { plan, window: [0, 0], heads: 1, lengths }, 1);
//! let (table, none) = (device.tensor(&table, extents)?, device.zeros([1, 4])?);
//! attention(&q, &q, &v, &mut o, &mut sums, &table, &none, 1.0, 1.0, 0, 0, plan).grid([1]).launch(&device)?;
//! assert_eq!(o.to_vec()?, [bf16::ONE; 4096]);
//! assert!(sums.to_vec()?.iter().all(|sum| (sum - 64.0f32.ln()).abs() < 1e-4));
//! # Ok::<(), kiln_runtime::Error>(())
//! ```

use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;
use std::f32::consts::{LN_2, LOG2_E};

/// Queries of a task, and of the products of a warpgroup.
pub const ROWS: usize = 64;
/// Warps of a task.
const WARPS: usize = 4;
/// Stands for the greatest of no scores: finite, so that differences are numbers.
const LEAST: f32 = -1e30;

/// Lengths and places. Those of 64 bits would take registers that the tasks have not.
pub(super) type Index = Val<i32>;

/// How the work is divided, and what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
pub struct AttentionPlan {
    /// Tasks that multiply, [`ROWS`] queries each.
    pub tasks: usize,
    /// Keys of a turn: a multiple of 16 up to 256.
    pub keys: usize,
    /// The width of a head: 64, 128 or 256.
    pub width: usize,
    /// Stages of keys, and of values: a power of two.
    pub stages: usize,
    /// Heads that share one head of keys and values.
    pub shared: usize,
    /// Registers of the threads that multiply, and of those that copy.
    pub registers: [usize; 2],
    /// Whether there is a limit to the keys that a query sees before its place, and after it; the
    /// last query has the place of the last key.
    pub bounded: [bool; 2],
    /// Whether scores are capped.
    pub capped: bool,
    /// Whether sequences of any lengths follow each other in the tensors.
    pub packed: bool,
}

impl AttentionPlan {
    /// Queries of a program at once.
    pub fn rows(&self) -> usize {
        self.tasks * ROWS
    }

    /// Whether results leave through the tiles of the queries, since shared memory has no room for
    /// both.
    fn in_place(&self) -> bool {
        self.width > 128
    }
}

/// Numbers of the host, the same for all queries.
#[derive(Clone, Copy)]
struct Numbers {
    /// What scores are multiplied by, or, where they are capped, their negative halves in units of
    /// the cap.
    scale: Val<f32>,
    /// By what products are multiplied to give the powers of two that the hyperbolic tangent is
    /// made of.
    inner: Val<f32>,
    /// Keys that a query sees before its place, and after it.
    window: [Index; 2],
}

/// Where a tile of queries is.
#[derive(Clone, Copy)]
struct QueryTile {
    batch: Index,
    head: Index,
    /// Where the sequence's queries and keys begin in their tensors.
    queries: Index,
    keys: Index,
    /// How many queries and keys it has.
    asked: Index,
    known: Index,
    /// The first query.
    first: Index,
    /// Parts of keys up to the last one that a query of the tile sees, and turns over them.
    top: Index,
    turns: Index,
}

/// Bits of an entry of the order for the number of a tile in its head, and for the head.
pub(super) const TILE_BITS: u32 = 23;
pub(super) const HEAD_BITS: u32 = 20;

/// The numbers that an entry of the order has: of a batch or sequence, of its head, and of a tile
/// in that.
#[device(crate = kiln_runtime)]
pub(super) fn parts(entry: Idx) -> [Index; 3] {
    let part =
        |shift: u32, bits: u32| ((entry >> i64::from(shift)) & i64::from((1u32 << bits) - 1)).cast::<i32>();
    let (head, batch) = (part(TILE_BITS, HEAD_BITS), part(TILE_BITS + HEAD_BITS, HEAD_BITS));
    [batch, head, part(0, TILE_BITS)]
}

/// The place of an entry of the order.
#[device(crate = kiln_runtime)]
fn place(
    entry: Idx,
    lengths: [Index; 2],
    sequences: View<i32, 2>,
    window: [Index; 2],
    plan: AttentionPlan,
) -> QueryTile {
    let [batch, head, number] = parts(entry);
    let first = number * plan.rows();
    let of = |column: usize| sequences.get_or((batch, column), 0);
    let [queries, asked, keys, known] =
        if plan.packed { [of(0), of(1), of(2), of(3)] } else { [val(0), lengths[0], val(0), lengths[1]] };
    let at = first + known - asked;
    let end = if plan.bounded[1] { known.minimum(at + window[1] + plan.rows()) } else { known };
    let top = ((end + (plan.keys - 1)) / plan.keys).maximum(1);
    let turns = if plan.bounded[0] { top - (at - window[0]).maximum(0) / plan.keys } else { top };
    let batch = if plan.packed { val(0) } else { batch };
    QueryTile { batch, head, queries, keys, asked, known, first, top, turns }
}

/// Shared tiles by stage, and who may touch them: a stage is full when its bytes have come, empty
/// when every task that reads it has.
pub(super) struct Ring<T> {
    pub(super) tiles: SharedTiles<T>,
    full: Mbarriers,
    empty: Mbarriers,
}

impl<T> Clone for Ring<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ring<T> {}

impl<T: Float> Ring<T> {
    pub(super) fn new(stages: usize, rows: usize, width: usize, readers: usize) -> Ring<T> {
        let tiles = shared_tiles::<T>(stages, rows, width);
        Ring { tiles, full: mbarriers(stages, 1), empty: mbarriers(stages, readers) }
    }

    /// Loads the rows of a head from `row` on as soon as the stage is empty.
    pub(super) fn load(&self, at: Stage, view: View<T, 4>, [batch, head, row]: [Index; 3], bytes: usize) {
        let full = self.full.at(at.index);
        self.empty.at(at.index).wait(at.phase - 1);
        full.expect(bytes);
        self.tiles.at(at.index).load(view, (batch, head, row, 0), full);
    }

    pub(super) fn wait(&self, at: Stage) -> SharedTile<T> {
        self.full.at(at.index).wait(at.phase);
        self.tiles.at(at.index)
    }

    pub(super) fn release(&self, at: Stage) {
        self.empty.at(at.index).arrive();
    }
}

/// A stage of a ring, and how often it was used before.
#[derive(Clone, Copy)]
pub(super) struct Stage {
    pub(super) index: Index,
    pub(super) phase: Index,
}

/// The stage with a number, counted from the beginning of the program.
#[device(crate = kiln_runtime)]
pub(super) fn stage(number: Index, stages: usize) -> Stage {
    Stage { index: number & (stages as i32 - 1), phase: number >> stages.trailing_zeros() as i32 }
}

/// What a task keeps for a tile's queries before it has processed all keys.
#[derive(Clone, Copy)]
struct Seen {
    /// What the weights of each query are relative to, as a power of two.
    reference: Val<f32>,
    /// The sums of the weights, in parts.
    sum: Val<f32>,
    /// The sums of weighted values.
    result: Val<f32>,
}

/// o = softmax(scale q kᵀ) v for each head, and `sums`, the logarithms of the sums of e^(scale q
/// kᵀ). q and o are batch × heads × queries × width, k and v batch × heads / `plan.shared` × keys ×
/// width, of f16 or bf16, with fewer than 2²⁹ keys and queries, and limits of at most as many; sums
/// are batch × heads × queries. A query that sees no key gives zeros. The scale is above 0.
///
/// With a limit, a query at place p sees the keys from p - `left`, or up to p + `right`. Capped
/// scores are `cap` · tanh(score / `cap`). For packed tensors, of batch 1, `sequences` has a row
/// for each sequence: its first query, how many, its first key, how many; values of one sequence
/// that are no finite numbers may reach the one before it.
///
/// `order` says which tiles of queries a program takes, in its column: how many, then each as a
/// number of its batch (or sequence), of its head and in the head. See
/// [`order`](super::schedule::order); launch it with as many programs on axis 0 as it has columns.
#[kernel(crate = kiln_runtime, contract)]
pub fn attention<T: Float>(
    q: &Tensor<T, 4>,
    k: &Tensor<T, 4>,
    v: &Tensor<T, 4>,
    o: &mut Tensor<T, 4>,
    sums: &mut Tensor<f32, 3>,
    order: &Tensor<i64, 2>,
    sequences: &Tensor<i32, 2>,
    scale: Val<f32>,
    cap: Val<f32>,
    left: Val<i32>,
    right: Val<i32>,
    plan: AttentionPlan,
) {
    let AttentionPlan { tasks: copies, keys: columns, width, stages, .. } = plan;
    let queries = Ring::<T>::new(copies, ROWS, width, 1);
    let keys = Ring::<T>::new(stages, columns, width, copies);
    let values = Ring::<T>::new(stages, columns, width, copies);
    let out = if plan.in_place() { queries.tiles } else { shared_tiles::<T>(copies, ROWS, width) };
    let (lengths, window) = ([q.extent(2), k.extent(2)].map(|n| n.cast::<i32>()), [left, right]);
    let (program, tiles) = (program_id(0), order.get_or((0, program_id(0)), 0).cast::<i32>());
    let bytes = |rows: usize| size_of::<T>() * rows * width;

    tasks()
        .task(WARPS, plan.registers[1], || {
            let mut before = val::<i32>(0);
            for round in range(0, tiles) {
                let tile = place(order.get_or((round + 1, program), 0), lengths, sequences, window, plan);
                let shared = tile.head / plan.shared;
                for i in 0..copies {
                    let at = Stage { index: val(i as i32), phase: round };
                    let row = tile.queries + tile.first + i * ROWS;
                    queries.load(at, q, [tile.batch, tile.head, row], bytes(ROWS));
                }
                for step in range(0, tile.turns) {
                    let (at, row) =
                        (stage(before + step, stages), tile.keys + (tile.top - 1 - step) * columns);
                    keys.load(at, k, [tile.batch, shared, row], bytes(columns));
                    values.load(at, v, [tile.batch, shared, row], bytes(columns));
                }
                before += tile.turns;
            }
        })
        .copies(copies, WARPS, plan.registers[0], || {
            let own = task_rank().cast::<i32>();
            let numbers = if plan.capped {
                Numbers { scale: cap * (2.0 * LOG2_E), inner: scale * (2.0 * LOG2_E) / cap, window }
            } else {
                Numbers { scale: scale * LOG2_E, inner: scale, window }
            };
            let (mut before, mut upcoming) = (val::<i32>(0), order.get_or((1, program), 0));
            for round in range(0, tiles) {
                let tile = place(upcoming, lengths, sequences, window, plan);
                upcoming = order.get_or((round + 2, program), 0);
                let row = tile.first + own * ROWS;
                let asking = Stage { index: own, phase: round };
                let asks = queries.wait(asking);
                if row.lt(tile.asked) {
                    let seen = attend(asks, keys, values, before, tile, row, numbers, plan);
                    if !plan.in_place() {
                        queries.release(asking);
                    }
                    let sum = seen.sum.sum_axis(1);
                    let some = sum.gt(0.0);
                    let factor = select(some, sum.fast_recip(), 0.0);
                    let result = (seen.result * factor.expand(1)).cast::<T>();
                    let total = seen.reference + sum.log2();
                    let total = if plan.capped { total + cap * LOG2_E } else { total };
                    let logarithm = select(some, total * LN_2, f32::NEG_INFINITY);
                    if plan.packed {
                        let rows = iota::<i32>(ROWS) + row;
                        let (inside, at) = (rows.lt(tile.asked), rows + tile.queries);
                        // SAFETY: every query belongs to one sequence and one tile of it, which has
                        // one number; one program takes it.
                        unsafe { sums.row(0).row(tile.head).scatter_where(at, inside, logarithm) };
                        if (row + ROWS).le(tile.asked) {
                            leave(result, out, own, o, [tile.batch, tile.head, row + tile.queries]);
                        } else {
                            let index = (at.expand(1), iota::<i32>(width).expand(0));
                            // SAFETY: as above.
                            unsafe { o.row(0).row(tile.head).scatter_where(index, inside.expand(1), result) };
                        }
                    } else {
                        leave(result, out, own, o, [tile.batch, tile.head, row]);
                        let to = sums.row(tile.batch).row(tile.head).tile(row, ROWS);
                        // SAFETY: every tile of queries has one number, and one program takes it.
                        unsafe { to.store_overlapping(logarithm) };
                    }
                    if plan.in_place() {
                        store_wait(0);
                        queries.release(asking);
                    }
                } else {
                    queries.release(asking);
                    pass(keys, values, before, tile.turns, plan.stages);
                }
                before += tile.turns;
            }
            store_wait(0);
        })
        .run();
}

/// Begins to store a task's results.
#[device(crate = kiln_runtime)]
fn leave<T: Float>(
    result: Val<T>,
    out: SharedTiles<T>,
    own: Index,
    o: ViewMut<T, 4>,
    [batch, head, row]: [Index; 3],
) {
    store_wait(0);
    out.at(own).put(result, 0);
    proxy_fence();
    task_barrier();
    // SAFETY: every tile of queries has one number, and one program takes it.
    unsafe { out.at(own).store(o, (batch, head, row, 0)) };
}

/// Which turns need a mask: not those in which all queries see all keys.
#[derive(Clone, Copy)]
struct Edges {
    /// The place of the first query among the keys.
    place: Index,
    /// The turns before this one need a mask, and those from that one on.
    first: Index,
    last: Index,
}

#[device(crate = kiln_runtime)]
fn edges(tile: QueryTile, row: Index, window: [Index; 2], plan: AttentionPlan) -> Edges {
    let (place, known) = (row + tile.known - tile.asked, tile.known);
    let by_all = if plan.bounded[1] { known.minimum(place + window[1] + 1).maximum(0) } else { known };
    let from_all = if plan.bounded[0] { (place - window[0] + (ROWS - 1)).maximum(0) } else { val(0) };
    let first = tile.top - by_all / plan.keys;
    Edges { place, first, last: tile.top - (from_all + (plan.keys - 1)) / plan.keys }
}

/// Sees all keys, the last ones first. `row` is the first query, `before` the number of the first
/// stage.
#[device(crate = kiln_runtime)]
fn attend<T: Float>(
    queries: SharedTile<T>,
    keys: Ring<T>,
    values: Ring<T>,
    before: Index,
    tile: QueryTile,
    row: Index,
    numbers: Numbers,
    plan: AttentionPlan,
) -> Seen {
    let edges = edges(tile, row, numbers.window, plan);
    let (none, scale) = (zeros::<f32>((ROWS, plan.keys)), numbers.scale);

    let scores =
        wgmma_wait(wgmma(queries, keys.wait(stage(before, plan.stages)).transposed(), none, false), 0);
    keys.release(stage(before, plan.stages));
    let scores = mask(
        capped(scores, numbers, plan),
        (tile.top - 1) * plan.keys,
        Some(tile.known),
        edges.place,
        numbers.window,
        plan,
    );
    let mut greatest = scores.max_axis(1).maximum(LEAST) * scale;
    let mut reference = greatest;
    let weights = exp2_flushed(scores * scale - reference.expand(1));
    let mut sum = partial_sums(weights);
    let mut packed = pack_pairs::<T>(weights);
    let mut result = zeros::<f32>((ROWS, plan.width));
    for step in range(1, tile.turns) {
        let (now, last) = (stage(before + step, plan.stages), stage(before + (step - 1), plan.stages));
        let scores = wgmma(queries, keys.wait(now).transposed(), none, false);
        let product = wgmma_registers(packed, values.wait(last), result, true);
        // The product of the last weights and values goes on while these scores become weights.
        let scores = wgmma_wait(scores, 1);
        keys.release(now);
        let mut scores = capped(scores, numbers, plan);
        let masked = match plan.bounded {
            [false, false] => None,
            [false, true] => Some(step.lt(edges.first)),
            _ => Some(step.lt(edges.first) | step.ge(edges.last)),
        };
        if let Some(masked) = masked {
            if masked {
                let at = (tile.top - 1 - step) * plan.keys;
                scores = mask(scores, at, None, edges.place, numbers.window, plan);
            }
        }
        let own = scores.max_axis(1) * scale;
        greatest = greatest.maximum(own);
        let next = nearest_reference(reference, own, greatest - own);
        let shrink = exp2_flushed(reference - next);
        let weights = exp2_flushed(scores * scale - next.expand(1));
        sum = sum * shrink.expand(1) + partial_sums(weights);
        reference = next;
        result = wgmma_wait(product, 0) * shrink.expand(1);
        values.release(last);
        packed = pack_pairs::<T>(weights);
    }
    let last = stage(before + (tile.turns - 1), plan.stages);
    let product = wgmma_wait(wgmma_registers(packed, values.wait(last), result, true), 0);
    values.release(last);
    Seen { reference, sum, result: product }
}

/// What the weights of a turn are relative to, given its greatest score and how far that is below
/// the greatest of all so far: a whole number above the one, within a half of the other. So the
/// turn's greatest weight is a power of two, which rounding to 16 bits leaves as it is: a good part
/// of what rounding does to a result is done to the greatest weights.
#[device(crate = kiln_runtime)]
fn nearest_reference(reference: Val<f32>, own: Val<f32>, below: Val<f32>) -> Val<f32> {
    // Sums above 2²³ have no fractions.
    let whole = (below + 12_582_912.0) - 12_582_912.0;
    // Far below, or where nothing is seen, weights are nothing.
    select(below.lt(64.0), own + whole, reference)
}

/// With c the cap, the score s becomes c tanh(s / c) = c - 2c / (1 + e^(2s / c)), of which a
/// softmax needs no c: -1 / (1 + e^(2s / c)), in units of 2c.
#[device(crate = kiln_runtime)]
fn capped(scores: Val<f32>, numbers: Numbers, plan: AttentionPlan) -> Val<f32> {
    if plan.capped { (-1.0 - exp2_flushed(scores * numbers.inner)).fast_recip() } else { scores }
}

/// Lets the keys and values of some turns pass, of which the task needs none: its queries do not
/// exist, or see none of them.
#[device(crate = kiln_runtime)]
pub(super) fn pass<T: Float>(keys: Ring<T>, values: Ring<T>, before: Index, turns: Index, stages: usize) {
    for step in range(0, turns) {
        let at = stage(before + step, stages);
        keys.wait(at);
        keys.release(at);
        values.wait(at);
        values.release(at);
    }
}

/// The scores of the keys from `at` on, without those that a query does not see, and those from
/// `known` on.
///
/// What differs between threads is in the limits, of which each has two, so that columns are
/// constants.
#[device(crate = kiln_runtime)]
fn mask(
    scores: Val<f32>,
    at: Index,
    known: Option<Index>,
    place: Index,
    window: [Index; 2],
    plan: AttentionPlan,
) -> Val<f32> {
    let columns = plan.keys;
    let column =
        iota::<i32>(columns / 8).reshape((1, columns / 8, 1, 1)) * 8 + iota::<i32>(2).reshape((1, 1, 1, 2));
    let own = iota::<i32>(4).reshape((1, 1, 4, 1)) * 2;
    let row = iota::<i32>(ROWS).reshape((ROWS, 1, 1, 1)) - own;
    let mut scores = scores.reshape((ROWS, columns / 8, 4, 2));
    if let Some(known) = known {
        scores = select(column.lt(known - at - own), scores, f32::NEG_INFINITY);
    }
    if plan.bounded[1] {
        scores = select(column.le(row + (place + window[1] - at)), scores, f32::NEG_INFINITY);
    }
    if plan.bounded[0] {
        scores = select(column.ge(row + (place - window[0] - at)), scores, f32::NEG_INFINITY);
    }
    scores.reshape((ROWS, columns))
}

/// The sums of each row over columns that are 8 apart, and their neighbors: of those that a thread
/// holds, so that threads exchange nothing.
#[device(crate = kiln_runtime)]
fn partial_sums(weights: Val<f32>) -> Val<f32> {
    let shape = weights.shape();
    weights.reshape((shape[0], shape[1] / 8, 4, 2)).sum_axis(1).sum_axis(2)
}
