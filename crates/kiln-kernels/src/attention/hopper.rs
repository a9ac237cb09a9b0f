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

/// How the work is divided, and what is asked for.
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
    /// Whether there is a limit to the keys that a query sees before its place, and after it; the last query has the place of the last key.
    pub bounded: [bool; 2],
    /// Whether scores are capped.
    pub capped: bool,
    /// Whether sequences of any lengths follow each other in the tensors.
    pub packed: bool,
}

impl Plan {
    /// Queries of a program at once.
    pub fn rows(&self) -> usize {
        self.tasks * ROWS
    }

    /// Whether results leave through the tiles of the queries, since shared memory has no room for both.
    fn in_place(&self) -> bool {
        self.width > 128
    }
}

/// Numbers of the host, the same for all queries.
#[derive(Clone, Copy)]
struct Numbers {
    /// What scores are multiplied by, or, where they are capped, their negative halves in units of the cap.
    scale: Val<f32>,
    /// By what products are multiplied to give the powers of two that the hyperbolic tangent is made of.
    inner: Val<f32>,
    /// Keys that a query sees before its place, and after it.
    window: [Idx; 2],
}

/// Where a tile of queries is.
#[derive(Clone, Copy)]
struct Place {
    batch: Idx,
    head: Idx,
    /// Where the sequence's queries and keys begin in their tensors.
    queries: Idx,
    keys: Idx,
    /// How many queries and keys it has.
    asked: Idx,
    known: Idx,
    /// The first query.
    first: Idx,
    /// Parts of keys up to the last one that a query of the tile sees, and turns over them.
    top: Idx,
    turns: Idx,
}

/// Bits of an entry of the order for the number of a tile in its head, and for the head.
pub(super) const TILE_BITS: u32 = 23;
pub(super) const HEAD_BITS: u32 = 20;

/// The place of an entry of the order.
#[device(crate = kiln_runtime)]
fn place(entry: Idx, lengths: [Idx; 2], sequences: View<i32, 2>, window: [Idx; 2], plan: Plan) -> Place {
    let first = (entry & i64::from((1u32 << TILE_BITS) - 1)) * plan.rows();
    let head = (entry >> i64::from(TILE_BITS)) & i64::from((1u32 << HEAD_BITS) - 1);
    let batch = entry >> i64::from(TILE_BITS + HEAD_BITS);
    let of = |column: usize| sequences.get_or((batch, column), 0).cast::<i64>();
    let [queries, asked, keys, known] =
        if plan.packed { [of(0), of(1), of(2), of(3)] } else { [val(0), lengths[0], val(0), lengths[1]] };
    let at = first + known - asked;
    let end = if plan.bounded[1] { known.minimum(at + window[1] + plan.rows()) } else { known };
    let top = ((end + (plan.keys - 1)) / plan.keys).maximum(1);
    let turns = if plan.bounded[0] { top - (at - window[0]).maximum(0) / plan.keys } else { top };
    let batch = if plan.packed { val(0) } else { batch };
    Place { batch, head, queries, keys, asked, known, first, top, turns }
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
    fn load(&self, at: Stage, view: View<T, 4>, [batch, head, row]: [Idx; 3], bytes: usize) {
        let full = self.full.at(at.index);
        self.empty.at(at.index).wait(at.phase - 1);
        full.expect(bytes);
        self.tiles.at(at.index).load(view, (batch, head, row, 0), full);
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

/// o = softmax(scale q kᵀ) v for each head, and `sums`, the logarithms of the sums of e^(scale q kᵀ). q and o are batch × heads × queries × width, k and v
/// batch × heads / `plan.shared` × keys × width, of f16 or bf16, with fewer than 2²⁹ keys and queries, and limits of at most as many; sums are batch × heads × queries. A query that sees no
/// key gives zeros. The scale is above 0.
///
/// With a limit, a query at place p sees the keys from p - `left`, or up to p + `right`. Capped scores are `cap` · tanh(score / `cap`). For packed tensors,
/// of batch 1, `sequences` has a row for each sequence: its first query, how many, its first key, how many; values of one sequence that are no
/// finite numbers may reach the one before it.
///
/// `order` says which tiles of queries a program takes, in its column: how many, then each as a number of its batch (or sequence), of its head and in the head. See
/// [`order`](super::schedule::order); launch it with as many programs on axis 0 as it has columns.
#[kernel(crate = kiln_runtime)]
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
    left: Val<i64>,
    right: Val<i64>,
    plan: Plan,
) {
    let Plan { tasks: copies, keys: columns, width, stages, .. } = plan;
    let queries = Ring::<T>::new(copies, ROWS, width, 1);
    let keys = Ring::<T>::new(stages, columns, width, copies);
    let values = Ring::<T>::new(stages, columns, width, copies);
    let out = if plan.in_place() { queries.tiles } else { shared_tiles::<T>(copies, ROWS, width) };
    let (lengths, window) = ([q.extent(2), k.extent(2)], [left, right]);
    let (program, tiles) = (program_id(0), order.get_or((0, program_id(0)), 0));
    let bytes = |rows: usize| size_of::<T>() * rows * width;

    tasks()
        .task(WARPS, plan.registers[1], || {
            let mut before = val::<i64>(0);
            for round in range(0, tiles) {
                let tile = place(order.get_or((round + 1, program), 0), lengths, sequences, window, plan);
                let shared = tile.head / plan.shared;
                for i in 0..copies {
                    let at = Stage { index: val(i as i64), phase: round };
                    let row = tile.queries + tile.first + i * ROWS;
                    queries.load(at, q, [tile.batch, tile.head, row], bytes(ROWS));
                }
                for step in range(0, tile.turns) {
                    let (at, row) = (stage(before + step, plan), tile.keys + (tile.top - 1 - step) * columns);
                    keys.load(at, k, [tile.batch, shared, row], bytes(columns));
                    values.load(at, v, [tile.batch, shared, row], bytes(columns));
                }
                before += tile.turns;
            }
        })
        .copies(copies, WARPS, plan.registers[0], || {
            let own = task_rank();
            let numbers = if plan.capped {
                Numbers { scale: cap * (2.0 * LOG2_E), inner: scale * (2.0 * LOG2_E) / cap, window }
            } else {
                Numbers { scale: scale * LOG2_E, inner: scale, window }
            };
            let (mut before, mut upcoming) = (val::<i64>(0), order.get_or((1, program), 0));
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
                    let factor = select(some, sum.recip(), 0.0);
                    let result = (seen.result * factor.expand(1)).cast::<T>();
                    let greatest = seen.greatest * numbers.scale;
                    let greatest = if plan.capped { greatest + cap * LOG2_E } else { greatest };
                    let logarithm = select(some, (greatest + sum.log2()) * LN_2, f32::NEG_INFINITY);
                    if plan.packed {
                        let rows = iota::<i64>(ROWS) + row;
                        let (inside, at) = (rows.lt(tile.asked), rows + tile.queries);
                        // SAFETY: every query belongs to one sequence and one tile of it, which has one number; one program takes it.
                        unsafe { sums.row(0).row(tile.head).scatter_where(at, inside, logarithm) };
                        if (row + ROWS).le(tile.asked) {
                            leave(result, out, own, o, [tile.batch, tile.head, row + tile.queries]);
                        } else {
                            let index = (at.expand(1), iota::<i64>(width).expand(0));
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
                    pass(keys, values, before, tile.turns, plan);
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
    own: Idx,
    o: ViewMut<T, 4>,
    [batch, head, row]: [Idx; 3],
) {
    store_wait(0);
    out.at(own).put(result, 0);
    proxy_fence();
    task_barrier();
    // SAFETY: every tile of queries has one number, and one program takes it.
    unsafe { out.at(own).store(o, (batch, head, row, 0)) };
}

/// Which turns need a mask, and whose keys: not those in which all queries see all keys.
#[derive(Clone, Copy)]
struct Edges {
    /// By query: the first key that it sees, and the first behind that it does not.
    begin: Val<i32>,
    end: Val<i32>,
    /// The turns before this one need a mask, and those from that one on.
    first: Idx,
    last: Idx,
}

#[device(crate = kiln_runtime)]
fn edges(tile: Place, row: Idx, window: [Idx; 2], plan: Plan) -> Edges {
    let (at, known) = (row + tile.known - tile.asked, tile.known);
    let bound = |limit: Idx| iota::<i32>(ROWS) + (at + limit).cast::<i32>();
    let all = known.cast::<i32>();
    let (end, by_all) = if plan.bounded[1] {
        (bound(window[1] + 1).minimum(all), known.minimum(at + window[1] + 1).maximum(0))
    } else {
        (full::<i32>(ROWS, all), known)
    };
    let (begin, from_all) = if plan.bounded[0] {
        (bound(-window[0]), (at - window[0] + (ROWS - 1)).maximum(0))
    } else {
        (zeros::<i32>(ROWS), val(0))
    };
    let first = tile.top - by_all / plan.keys;
    Edges { begin, end, first, last: tile.top - (from_all + (plan.keys - 1)) / plan.keys }
}

/// Sees all keys, the last ones first. `row` is the first query, `before` the number of the first stage.
#[device(crate = kiln_runtime)]
fn attend<T: Float>(
    queries: SharedTile<T>,
    keys: Ring<T>,
    values: Ring<T>,
    before: Idx,
    tile: Place,
    row: Idx,
    numbers: Numbers,
    plan: Plan,
) -> Seen {
    let edges = edges(tile, row, numbers.window, plan);
    let (none, scale) = (zeros::<f32>((ROWS, plan.keys)), numbers.scale);

    let scores = wgmma_wait(wgmma(queries, keys.wait(stage(before, plan)).transposed(), none, false), 0);
    keys.release(stage(before, plan));
    let scores = mask(capped(scores, numbers, plan), edges, (tile.top - 1) * plan.keys, plan);
    let mut greatest = scores.max_axis(1).maximum(LEAST);
    let weights = exp2_flushed(scores * scale - (greatest * scale).expand(1));
    let mut sum = partial_sums(weights);
    let mut packed = pack_pairs::<T>(weights);
    let mut result = zeros::<f32>((ROWS, plan.width));
    for step in range(1, tile.turns) {
        let (now, last) = (stage(before + step, plan), stage(before + (step - 1), plan));
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
                scores = mask(scores, edges, (tile.top - 1 - step) * plan.keys, plan);
            }
        }
        let next = greatest.maximum(scores.max_axis(1));
        let shrink = exp2_flushed((greatest - next) * scale);
        let weights = exp2_flushed(scores * scale - (next * scale).expand(1));
        sum = sum * shrink.expand(1) + partial_sums(weights);
        greatest = next;
        result = wgmma_wait(product, 0) * shrink.expand(1);
        values.release(last);
        packed = pack_pairs::<T>(weights);
    }
    let last = stage(before + (tile.turns - 1), plan);
    let product = wgmma_wait(wgmma_registers(packed, values.wait(last), result, true), 0);
    values.release(last);
    Seen { greatest, sum, result: product }
}

/// With c the cap, the score s becomes c tanh(s / c) = c - 2c / (1 + e^(2s / c)), of which a softmax needs no c: -1 / (1 + e^(2s / c)), in units of 2c.
#[device(crate = kiln_runtime)]
fn capped(scores: Val<f32>, numbers: Numbers, plan: Plan) -> Val<f32> {
    if plan.capped { (-1.0 - exp2_flushed(scores * numbers.inner)).recip() } else { scores }
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

/// The scores of the keys from `at` on, without those that a query does not see.
#[device(crate = kiln_runtime)]
fn mask(scores: Val<f32>, edges: Edges, at: Idx, plan: Plan) -> Val<f32> {
    let (at, key) = (at.cast::<i32>(), iota::<i32>(plan.keys).expand(0));
    let mut seen = key.lt((edges.end - at).expand(1));
    if plan.bounded[0] {
        seen = seen & key.ge((edges.begin - at).expand(1));
    }
    select(seen, scores, f32::NEG_INFINITY)
}

/// The sums of each row over columns that are 8 apart, and their neighbours: of those that a thread holds, so that threads exchange nothing.
#[device(crate = kiln_runtime)]
fn partial_sums(weights: Val<f32>) -> Val<f32> {
    let shape = weights.shape();
    weights.reshape((shape[0], shape[1] / 8, 4, 2)).sum_axis(1).sum_axis(2)
}
