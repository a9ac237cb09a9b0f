//! Attention on a Hopper GPU, at the explicit level (Shah et al., "FlashAttention-3", 2024).
//!
//! Programs stay and go through tiles of queries. In each, one task copies queries, keys and values into shared memory; the others, copies of one,
//! take 64 queries each: they multiply queries with the next keys and the last weights with their values at once, and while one computes weights, another
//! one's products run. Weights go from registers to the tensor cores.

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

/// How the work is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
pub struct Plan {
    /// Tasks that multiply, [`ROWS`] queries each.
    pub tasks: usize,
    /// Keys of a turn: a power of two from 16 to 256.
    pub keys: usize,
    /// The width of a head: 64, 128 or 256.
    pub width: usize,
    /// Stages of keys, and of values: a power of two.
    pub stages: usize,
    /// Heads that share one head of keys and values.
    pub shared: usize,
    /// Registers of the threads that multiply, and of those that copy.
    pub registers: [usize; 2],
    /// Whether a query sees only the keys up to its own place, where the last query has the place of the last key.
    pub causal: bool,
}

impl Plan {
    /// Queries of a program at once.
    pub fn rows(&self) -> usize {
        self.tasks * ROWS
    }
}

/// Where a tile of queries is.
#[derive(Clone, Copy)]
struct Place {
    head: Idx,
    /// The first query.
    first: Idx,
    /// Turns over the keys.
    turns: Idx,
}

/// The place of an entry of the order.
#[device(crate = kiln_runtime)]
fn place(entry: Idx, queries: Idx, keys: Idx, plan: Plan) -> Place {
    let first = (entry & i64::from(u32::MAX)) * plan.rows();
    let seen = if plan.causal { keys.minimum(first + plan.rows() + keys - queries) } else { keys };
    Place { head: entry >> 32, first, turns: ((seen + (plan.keys - 1)) / plan.keys).maximum(1) }
}

/// Shared tiles by stage, and who may touch them: a stage is full when its bytes have come, empty when every task that reads it has.
struct Ring<T> {
    tiles: SharedTiles<T>,
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
    fn new(stages: usize, rows: usize, width: usize, readers: usize) -> Ring<T> {
        let tiles = shared_tiles::<T>(stages, rows, width);
        Ring { tiles, full: mbarriers(stages, 1), empty: mbarriers(stages, readers) }
    }

    /// Loads the rows of a head from `row` on as soon as the stage is empty.
    fn load(&self, at: Stage, view: View<T, 3>, head: Idx, row: Idx, bytes: usize) {
        let full = self.full.at(at.index);
        self.empty.at(at.index).wait(at.phase - 1);
        full.expect(bytes);
        self.tiles.at(at.index).load(view, (head, row, 0), full);
    }

    fn wait(&self, at: Stage) -> SharedTile<T> {
        self.full.at(at.index).wait(at.phase);
        self.tiles.at(at.index)
    }

    fn release(&self, at: Stage) {
        self.empty.at(at.index).arrive();
    }
}

/// A stage of a ring, and how often it was used before.
#[derive(Clone, Copy)]
struct Stage {
    index: Idx,
    phase: Idx,
}

/// The stage with a number, counted from the beginning of the program.
#[device(crate = kiln_runtime)]
fn stage(number: Idx, plan: Plan) -> Stage {
    let stages = plan.stages as i64;
    Stage { index: number & (stages - 1), phase: number >> i64::from(plan.stages.trailing_zeros()) }
}

/// What a task knows of a tile's queries before it has seen all keys.
#[derive(Clone, Copy)]
struct Seen {
    /// The greatest score of each query so far.
    greatest: Val<f32>,
    /// The sums of the weights relative to it, in parts.
    sum: Val<f32>,
    /// The sums of weighted values.
    result: Val<f32>,
}

/// o = softmax(scale q kᵀ) v for each head, and `sums`, the logarithms of the sums of e^(scale q kᵀ). q and o are heads × queries × width, k and v
/// heads / `plan.shared` × keys × width, of f16 or bf16, with at least one key and fewer than 2³⁰ keys and queries. A query that sees no key gives zeros. The scale is not negative.
///
/// `order` says which tiles of queries a program takes, in its column: how many, then each as 2³² times its head plus its number in the head. See
/// [`order`](super::schedule::order); launch it with as many programs on axis 0 as it has columns.
#[kernel(crate = kiln_runtime)]
pub fn attention<T: Float>(
    q: &Tensor<T, 3>,
    k: &Tensor<T, 3>,
    v: &Tensor<T, 3>,
    o: &mut Tensor<T, 3>,
    sums: &mut Tensor<f32, 2>,
    order: &Tensor<i64, 2>,
    scale: Val<f32>,
    plan: Plan,
) {
    let Plan { tasks: copies, keys: columns, width, stages, .. } = plan;
    let queries = Ring::<T>::new(copies, ROWS, width, 1);
    let keys = Ring::<T>::new(stages, columns, width, copies);
    let values = Ring::<T>::new(stages, columns, width, copies);
    let out = shared_tiles::<T>(copies, ROWS, width);
    let (asked, known) = (q.extent(1), k.extent(1));
    let (program, tiles) = (program_id(0), order.get_or((0, program_id(0)), 0));
    let bytes = |rows: usize| size_of::<T>() * rows * width;

    tasks()
        .task(WARPS, plan.registers[1], || {
            let mut before = val::<i64>(0);
            for round in range(0, tiles) {
                let Place { head, first, turns } =
                    place(order.get_or((round + 1, program), 0), asked, known, plan);
                for i in 0..copies {
                    let at = Stage { index: val(i as i64), phase: round };
                    queries.load(at, q, head, first + i * ROWS, bytes(ROWS));
                }
                for step in range(0, turns) {
                    let (at, row) = (stage(before + step, plan), (turns - 1 - step) * columns);
                    keys.load(at, k, head / plan.shared, row, bytes(columns));
                    values.load(at, v, head / plan.shared, row, bytes(columns));
                }
                before += turns;
            }
        })
        .copies(copies, WARPS, plan.registers[0], || {
            let own = task_rank();
            let scale = scale * LOG2_E;
            let (mut before, mut upcoming) = (val::<i64>(0), order.get_or((1, program), 0));
            for round in range(0, tiles) {
                let tile = place(upcoming, asked, known, plan);
                upcoming = order.get_or((round + 2, program), 0);
                let row = tile.first + own * ROWS;
                let asks = queries.wait(Stage { index: own, phase: round });
                if row.lt(asked) {
                    let seen = attend(
                        asks,
                        keys,
                        values,
                        before,
                        tile.turns,
                        row + known - asked,
                        known,
                        scale,
                        plan,
                    );
                    queries.release(Stage { index: own, phase: round });
                    let sum = seen.sum.sum_axis(1);
                    let some = sum.gt(0.0);
                    let factor = select(some, sum.recip(), 0.0);
                    let logarithm =
                        select(some, (seen.greatest * scale + sum.log2()) * LN_2, f32::NEG_INFINITY);
                    store_wait(0);
                    out.at(own).put((seen.result * factor.expand(1)).cast::<T>(), 0);
                    proxy_fence();
                    task_barrier();
                    // SAFETY: every tile of queries has one number, and one program takes it.
                    unsafe { out.at(own).store(o, (tile.head, row, 0)) };
                    // SAFETY: as above.
                    unsafe { sums.row(tile.head).tile(row, ROWS).store_overlapping(logarithm) };
                } else {
                    queries.release(Stage { index: own, phase: round });
                    pass(keys, values, before, tile.turns, plan);
                }
                before += tile.turns;
            }
            store_wait(0);
        })
        .run();
}

/// Sees all keys, the last ones first. `place` is the place of the first query among the `known` keys, `before` the number of the first stage.
#[device(crate = kiln_runtime)]
fn attend<T: Float>(
    queries: SharedTile<T>,
    keys: Ring<T>,
    values: Ring<T>,
    before: Idx,
    turns: Idx,
    place: Idx,
    known: Idx,
    scale: Val<f32>,
    plan: Plan,
) -> Seen {
    // The first key that a query does not see.
    let end = iota::<i32>(ROWS) + (place + 1).cast::<i32>();
    let end =
        if plan.causal { end.minimum(known.cast::<i32>()) } else { full::<i32>(ROWS, known.cast::<i32>()) };
    // How many turns need a mask: in the others all queries see all keys.
    let by_all = if plan.causal { known.minimum(place + 1).maximum(0) } else { known };
    let masked = if plan.causal { (turns - by_all / plan.keys).maximum(1) } else { val(1) };
    let none = zeros::<f32>((ROWS, plan.keys));

    let scores = wgmma_wait(wgmma(queries, keys.wait(stage(before, plan)).transposed(), none, false), 0);
    keys.release(stage(before, plan));
    let scores = mask(scores, end, (turns - 1) * plan.keys);
    let mut greatest = scores.max_axis(1).maximum(LEAST);
    let weights = exp2_flushed(scores * scale - (greatest * scale).expand(1));
    let mut sum = partial_sums(weights);
    let mut packed = pack_pairs::<T>(weights);
    let mut result = zeros::<f32>((ROWS, plan.width));
    for edge in [true, false] {
        if edge && !plan.causal {
            continue;
        }
        let (from, to) = if edge { (val(1), masked) } else { (masked, turns) };
        for step in range(from, to) {
            let (now, last) = (stage(before + step, plan), stage(before + (step - 1), plan));
            let scores = wgmma(queries, keys.wait(now).transposed(), none, false);
            let product = wgmma_registers(packed, values.wait(last), result, true);
            // The product of the last weights and values goes on while these scores become weights.
            let scores = wgmma_wait(scores, 1);
            keys.release(now);
            let scores = if edge { mask(scores, end, (turns - 1 - step) * plan.keys) } else { scores };
            let next = greatest.maximum(scores.max_axis(1));
            let shrink = exp2_flushed((greatest - next) * scale);
            let weights = exp2_flushed(scores * scale - (next * scale).expand(1));
            sum = sum * shrink.expand(1) + partial_sums(weights);
            greatest = next;
            result = wgmma_wait(product, 0) * shrink.expand(1);
            values.release(last);
            packed = pack_pairs::<T>(weights);
        }
    }
    let last = stage(before + (turns - 1), plan);
    let product = wgmma_wait(wgmma_registers(packed, values.wait(last), result, true), 0);
    values.release(last);
    Seen { greatest, sum, result: product }
}

/// Lets the keys and values of a tile pass: none of the task's queries exists.
#[device(crate = kiln_runtime)]
fn pass<T: Float>(keys: Ring<T>, values: Ring<T>, before: Idx, turns: Idx, plan: Plan) {
    for step in range(0, turns) {
        let at = stage(before + step, plan);
        keys.wait(at);
        keys.release(at);
        values.wait(at);
        values.release(at);
    }
}

/// The scores of the keys from `at` on, without those from each query's end on.
#[device(crate = kiln_runtime)]
fn mask(scores: Val<f32>, end: Val<i32>, at: Idx) -> Val<f32> {
    let columns = scores.shape()[1];
    let end = end - at.cast::<i32>();
    select(iota::<i32>(columns).expand(0).lt(end.expand(1)), scores, f32::NEG_INFINITY)
}

/// The sums of each row over columns that are 8 apart, and their neighbours: of those that a thread holds, so that threads exchange nothing.
#[device(crate = kiln_runtime)]
fn partial_sums(weights: Val<f32>) -> Val<f32> {
    let shape = weights.shape();
    weights.reshape((shape[0], shape[1] / 8, 4, 2)).sum_axis(1).sum_axis(2)
}
