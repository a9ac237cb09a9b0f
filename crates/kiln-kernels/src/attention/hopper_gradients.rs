//! The gradients of attention on a Hopper GPU, at the explicit level.
//!
//! As at the tile level, one kernel goes through the keys that its queries see, one through the
//! queries that see its keys, so that every sum has one program and the same inputs give the same
//! bits. Each has programs like those of the forward kernel: one task copies, the others have 64
//! rows of a tile each. Weights and the gradients of scores go from registers to the tensor cores:
//! the second kernel computes them by keys, so that they are the left factors of its products.
//!
//! ```
//! use half::bf16;
//! use kiln_kernels::attention::hopper_gradients::{Division, GradientPlan, of_keys, of_queries};
//! use kiln_kernels::attention::schedule::order;
//!
//! // How the gradients of queries, and of keys and values, are divided for heads of width 128.
//! let [first, second] = GradientPlan::divisions(128).map(|all: &[Division]| all[0]);
//! assert_eq!((first, second), ((2, 64, 4), (2, 64, 4)));
//! let plan = GradientPlan::divided(128, true, first);
//! assert_eq!((plan.rows(), plan.turn, plan.stages), (128, 64, 4));
//! assert_eq!(plan.work(2, 8, 1000).tiles(), 2 * 8 * 8);
//!
//! // The interpreter runs the kernels, too: all scores are 0, and so are the queries' gradients.
//! let device = kiln_runtime::Device::open("interp")?;
//! let shape = [1, 1, 64, 64];
//! let (q, ones) = (device.zeros::<bf16, 4>(shape)?, device.tensor(&[bf16::ONE; 4096], shape)?);
//! let (sums, means) = (device.tensor(&[64.0f32.ln(); 64], [1, 1, 64])?, device.tensor(&[64.0f32; 64], [1, 1, 64])?);
//! let (mut of_q, mut of_kv) = (device.uninit(shape)?, device.uninit([2, 1, 1, 64, 64])?);
//! let plan = GradientPlan::divided(64, false, (1, 16, 2));
//! let (table, extents) = order(&plan.work(1, 1, 64), 1);
//! let table = device.tensor(&table, extents)?;
//! of_queries(&q, &q, &ones, &ones, &sums, &means, &mut of_q, &table, 1.0, plan).grid([1]).launch(&device)?;
//! of_keys(&q, &q, &ones, &ones, &sums, &means, &mut of_kv, &table, 1.0, plan).grid([1]).launch(&device)?;
//! assert_eq!(of_q.to_vec()?, [bf16::ZERO; 4096]);
//! assert!(of_kv.to_vec()?[4096..].iter().all(|x| (x.to_f32() - 1.0).abs() < 0.01));
//! # Ok::<(), kiln_runtime::Error>(())
//! ```

use super::hopper::{Index, ROWS, Ring, Stage, parts, pass, stage};
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// Warps of a task.
const WARPS: usize = 4;

/// How the work of a kernel is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
pub struct GradientPlan {
    /// Tasks that multiply, [`ROWS`] rows of gradients each.
    pub tasks: usize,
    /// Keys of a turn for the gradient of queries, queries of a turn for those of keys and values:
    /// a multiple of 16 up to 256.
    pub turn: usize,
    /// Covers the width of a head: 64 or 128.
    pub width: usize,
    /// Stages of what turns read: a power of two from 2.
    pub stages: usize,
    /// Registers of the threads that multiply, and of those that copy.
    pub registers: [usize; 2],
    /// Whether a query sees no key after its place.
    pub causal: bool,
}

/// Tasks, keys or queries of a turn, and stages.
pub type Division = (usize, usize, usize);

impl GradientPlan {
    /// Rows of gradients of a program at once.
    pub fn rows(&self) -> usize {
        self.tasks * ROWS
    }
}

/// Begins the product of a task's tile and one of a turn.
fn times<T: Float>(own: SharedTile<T>, of_turn: SharedTile<T>, columns: usize) -> Val<f32> {
    wgmma(own, of_turn, zeros::<f32>((ROWS, columns)), false)
}

/// The gradient of the queries of each head, given that of the results, `g`, for each query the
/// logarithm of the sum of e^(scale q kᵀ), `sums`, and the sum of its results times their
/// gradients, `means`. Tensors are batch × heads × length × width, of f16 or bf16, with lengths
/// below 2²⁹.
///
/// `order` says which tiles of queries a program takes, as for
/// [`attention`](super::hopper::attention).
#[kernel(crate = kiln_runtime, contract)]
pub fn of_queries<T: Float>(
    q: &Tensor<T, 4>,
    k: &Tensor<T, 4>,
    v: &Tensor<T, 4>,
    g: &Tensor<T, 4>,
    sums: &Tensor<f32, 3>,
    means: &Tensor<f32, 3>,
    of_q: &mut Tensor<T, 4>,
    order: &Tensor<i64, 2>,
    scale: Val<f32>,
    plan: GradientPlan,
) {
    let GradientPlan { tasks: copies, turn, width, stages, .. } = plan;
    let (queries, slopes) = (Ring::<T>::new(copies, ROWS, width, 1), Ring::<T>::new(copies, ROWS, width, 1));
    let keys = Ring::<T>::new(stages, turn, width, copies);
    let values = Ring::<T>::new(stages, turn, width, copies);
    let length = q.extent(2).cast::<i32>();
    let (program, tiles) = (program_id(0), order.get_or((0, program_id(0)), 0).cast::<i32>());
    let bytes = |rows: usize| size_of::<T>() * rows * width;
    // Turns up to the last key that a query before `end` sees.
    let turns_to = |end: Index| {
        let end = if plan.causal { end.minimum(length) } else { length };
        (end + (turn - 1)) / turn
    };

    tasks()
        .task(WARPS, plan.registers[1], || {
            let mut before = val::<i32>(0);
            for round in range(0, tiles) {
                let [batch, head, number] = parts(order.get_or((round + 1, program), 0));
                let first = number * plan.rows();
                for i in 0..copies {
                    let (at, row) = (Stage { index: val(i as i32), phase: round }, first + i * ROWS);
                    queries.load(at, q, [batch, head, row], bytes(ROWS));
                    slopes.load(at, g, [batch, head, row], bytes(ROWS));
                }
                let turns = turns_to(first + plan.rows());
                for step in range(0, turns) {
                    let (at, row) = (stage(before + step, stages), step * turn);
                    keys.load(at, k, [batch, head, row], bytes(turn));
                    values.load(at, v, [batch, head, row], bytes(turn));
                }
                before += turns;
            }
        })
        .copies(copies, WARPS, plan.registers[0], || {
            let own = task_rank().cast::<i32>();
            let mut before = val::<i32>(0);
            for round in range(0, tiles) {
                let [batch, head, number] = parts(order.get_or((round + 1, program), 0));
                let (first, asking) = (number * plan.rows(), Stage { index: own, phase: round });
                let (row, turns) = (first + own * ROWS, turns_to(first + plan.rows()));
                let sums = sums.row(batch).row(head).tile(row, ROWS).load(0) * LOG2_E;
                let means = means.row(batch).row(head).tile(row, ROWS).load(0);
                let factors = [queries.wait(asking), slopes.wait(asking)];
                if row.lt(length) {
                    let needed = turns_to(row + ROWS);
                    let numbers = Numbers { scale: scale * LOG2_E, sums, means, row, length };
                    let sum = through_keys(factors, keys, values, before, needed, numbers, plan);
                    pass(keys, values, before + needed, turns - needed, stages);
                    // Results leave through the tile of the queries.
                    queries.tiles.at(own).put((sum * scale).cast::<T>(), 0);
                    proxy_fence();
                    task_barrier();
                    // SAFETY: every tile of queries has one number, and one program takes it.
                    unsafe { queries.tiles.at(own).store(of_q, (batch, head, row, 0)) };
                    store_wait(0);
                } else {
                    pass(keys, values, before, turns, stages);
                }
                queries.release(asking);
                slopes.release(asking);
                before += turns;
            }
        })
        .run();
}

/// What a task knows beside its tiles: `S` are its queries' numbers, or all queries'.
#[derive(Clone, Copy)]
struct Numbers<S> {
    /// What scores are multiplied by, to be powers of two.
    scale: Val<f32>,
    /// The logarithms of sums, to the base of two for the task's own queries.
    sums: S,
    means: S,
    /// The first query, or key.
    row: Index,
    /// Keys, and queries.
    length: Index,
}

/// The sum over keys of the gradients of scores times keys. `before` is the number of the first
/// stage.
#[device(crate = kiln_runtime)]
fn through_keys<T: Float>(
    [queries, slopes]: [SharedTile<T>; 2],
    keys: Ring<T>,
    values: Ring<T>,
    before: Index,
    turns: Index,
    numbers: Numbers<Val<f32>>,
    plan: GradientPlan,
) -> Val<f32> {
    let Numbers { scale, sums, means, row, length } = numbers;
    let first = stage(before, plan.stages);
    // Turns before this one are seen by all queries.
    let by_all = if plan.causal { (row + 1).minimum(length) } else { length } / plan.turn;
    let scores = times(queries, keys.wait(first).transposed(), plan.turn);
    let of_weights = times(slopes, values.wait(first).transposed(), plan.turn);
    let mut scores = wgmma_wait(scores, 1);
    if by_all.lt(1) {
        scores = seen_of_keys(scores, val(0), row, length, plan);
    }
    let weights = exp2_flushed(scores * scale - sums.expand(1));
    let of_weights = wgmma_wait(of_weights, 0);
    values.release(first);
    let mut packed = pack_pairs::<T>(weights * (of_weights - means.expand(1)));
    let mut sum = zeros::<f32>((ROWS, plan.width));
    // In two loops, as a branch in a turn would make it wait for all of its products.
    for edge in [false, true] {
        let (from, to) = if edge { (by_all.maximum(1), turns) } else { (val(1), by_all) };
        for step in range(from, to) {
            let (now, last) = (stage(before + step, plan.stages), stage(before + (step - 1), plan.stages));
            let scores = times(queries, keys.wait(now).transposed(), plan.turn);
            let of_weights = times(slopes, values.wait(now).transposed(), plan.turn);
            // The product of the last turn goes on while these scores become weights.
            let product = wgmma_registers(packed, keys.tiles.at(last.index), sum, true);
            let scores = wgmma_wait(scores, 2);
            let scores = if edge { seen_of_keys(scores, step, row, length, plan) } else { scores };
            let weights = exp2_flushed(scores * scale - sums.expand(1));
            let of_weights = wgmma_wait(of_weights, 1);
            values.release(now);
            let of_scores = weights * (of_weights - means.expand(1));
            sum = wgmma_wait(product, 0);
            keys.release(last);
            packed = pack_pairs::<T>(of_scores);
        }
    }
    let last = stage(before + (turns - 1), plan.stages);
    let sum = wgmma_wait(wgmma_registers(packed, keys.tiles.at(last.index), sum, true), 0);
    keys.release(last);
    sum
}

/// The scores of the keys of a turn, without those that a query does not see, and those beyond the
/// last one: they would be zero, and their weights might be infinite.
#[device(crate = kiln_runtime)]
fn seen_of_keys(scores: Val<f32>, step: Index, row: Index, length: Index, plan: GradientPlan) -> Val<f32> {
    let at = step * plan.turn;
    let scores = from_columns(scores, |column, limit| column.lt(limit), [length - at, val(0)], plan.turn);
    if plan.causal {
        from_columns(scores, |column, limit| column.le(limit), [row - at, val(1)], plan.turn)
    } else {
        scores
    }
}

/// The scores in columns that compare so with `limit[0]` and `limit[1]` times the row, the others
/// minus infinity.
///
/// What differs between threads is in the limits, so that columns are constants.
fn from_columns(
    scores: Val<f32>,
    compare: impl Fn(Val<i32>, Val<i32>) -> Val<bool>,
    limit: [Index; 2],
    columns: usize,
) -> Val<f32> {
    let eights = iota::<i32>(columns / 8).reshape((1, columns / 8, 1, 1)) * 8;
    let column = eights + iota::<i32>(2).reshape((1, 1, 1, 2));
    let own = iota::<i32>(4).reshape((1, 1, 4, 1)) * 2;
    let row = iota::<i32>(ROWS).reshape((ROWS, 1, 1, 1)) * limit[1] - own;
    let scores = scores.reshape((ROWS, columns / 8, 4, 2));
    select(compare(column, row + limit[0]), scores, f32::NEG_INFINITY).reshape((ROWS, columns))
}

/// The gradients of keys and values, in two parts of one tensor; else as [`of_queries`], but that
/// tiles of `order` are of keys, counted from the last.
#[kernel(crate = kiln_runtime, contract)]
pub fn of_keys<T: Float>(
    q: &Tensor<T, 4>,
    k: &Tensor<T, 4>,
    v: &Tensor<T, 4>,
    g: &Tensor<T, 4>,
    sums: &Tensor<f32, 3>,
    means: &Tensor<f32, 3>,
    of_kv: &mut Tensor<T, 5>,
    order: &Tensor<i64, 2>,
    scale: Val<f32>,
    plan: GradientPlan,
) {
    let GradientPlan { tasks: copies, turn, width, stages, causal, .. } = plan;
    let (keys, values) = (Ring::<T>::new(copies, ROWS, width, 1), Ring::<T>::new(copies, ROWS, width, 1));
    let queries = Ring::<T>::new(stages, turn, width, copies);
    let slopes = Ring::<T>::new(stages, turn, width, copies);
    let length = q.extent(2).cast::<i32>();
    let (program, tiles) = (program_id(0), order.get_or((0, program_id(0)), 0).cast::<i32>());
    let bytes = |rows: usize| size_of::<T>() * rows * width;
    let (down, all) = ((length + (plan.rows() - 1)) / plan.rows(), (length + (turn - 1)) / turn);
    // The first turn with a query that sees the key.
    let first_turn = |key: Index| if causal { (key / turn).minimum(all) } else { val(0) };

    tasks()
        .task(WARPS, plan.registers[1], || {
            let mut before = val::<i32>(0);
            for round in range(0, tiles) {
                let [batch, head, number] = parts(order.get_or((round + 1, program), 0));
                let first = (down - 1 - number) * plan.rows();
                for i in 0..copies {
                    let (at, row) = (Stage { index: val(i as i32), phase: round }, first + i * ROWS);
                    keys.load(at, k, [batch, head, row], bytes(ROWS));
                    values.load(at, v, [batch, head, row], bytes(ROWS));
                }
                let begin = first_turn(first);
                for step in range(begin, all) {
                    let (at, row) = (stage(before + (step - begin), stages), step * turn);
                    queries.load(at, q, [batch, head, row], bytes(turn));
                    slopes.load(at, g, [batch, head, row], bytes(turn));
                }
                before += all - begin;
            }
        })
        .copies(copies, WARPS, plan.registers[0], || {
            let own = task_rank().cast::<i32>();
            let mut before = val::<i32>(0);
            for round in range(0, tiles) {
                let [batch, head, number] = parts(order.get_or((round + 1, program), 0));
                let first = (down - 1 - number) * plan.rows();
                let (row, asking) = (first + own * ROWS, Stage { index: own, phase: round });
                let (begin, needed) = (first_turn(first), first_turn(row));
                let [at_key, at_value] = [keys.wait(asking), values.wait(asking)];
                pass(queries, slopes, before, needed - begin, stages);
                if row.lt(length) {
                    let numbers = Numbers {
                        scale: scale * LOG2_E,
                        sums: sums.row(batch).row(head),
                        means: means.row(batch).row(head),
                        row,
                        length,
                    };
                    let [sum_k, sum_v] = through_queries(
                        [at_key, at_value],
                        queries,
                        slopes,
                        before - begin,
                        needed..all,
                        numbers,
                        plan,
                    );
                    // Results leave through the tiles of the keys and values.
                    keys.tiles.at(own).put((sum_k * scale).cast::<T>(), 0);
                    values.tiles.at(own).put(sum_v.cast::<T>(), 0);
                    proxy_fence();
                    task_barrier();
                    // SAFETY: every tile of keys has one number, and one program takes it.
                    unsafe {
                        keys.tiles.at(own).store(of_kv, (0, batch, head, row, 0));
                        values.tiles.at(own).store(of_kv, (1, batch, head, row, 0));
                    }
                    store_wait(0);
                } else {
                    pass(queries, slopes, before + (needed - begin), all - needed, stages);
                }
                keys.release(asking);
                values.release(asking);
                before += all - begin;
            }
        })
        .run();
}

/// The sums over queries of weights times slopes, and of the gradients of scores times queries.
/// `before` is the number of the stage of turn 0.
#[device(crate = kiln_runtime)]
fn through_queries<T: Float>(
    [key, value]: [SharedTile<T>; 2],
    queries: Ring<T>,
    slopes: Ring<T>,
    before: Index,
    turns: Range<Index>,
    numbers: Numbers<View<f32, 1>>,
    plan: GradientPlan,
) -> [Val<f32>; 2] {
    let Numbers { scale, sums, means, row, .. } = numbers;
    let (turn, stages) = (plan.turn, plan.stages);
    let mut sum_k = zeros::<f32>((ROWS, plan.width));
    let mut sum_v = zeros::<f32>((ROWS, plan.width));
    // The turns before this one have queries that do not see all of the task's keys. They have a
    // loop of their own, as a branch in a turn would make it wait for all of its products.
    let by_all = ((row + (ROWS - 1 + turn - 1)) / turn).minimum(turns.end);
    for edge in [true, false] {
        if edge && !plan.causal {
            continue;
        }
        let (from, to) = match (edge, plan.causal) {
            (true, _) => (turns.start, by_all),
            (false, true) => (by_all, turns.end),
            (false, false) => (turns.start, turns.end),
        };
        for step in range(from, to) {
            let (at, query) = (stage(before + step, stages), step * turn);
            let asks = queries.wait(at);
            let scores = times(key, asks.transposed(), turn);
            // Before a wait, as the assembler leaves loads on their side of one.
            let sum = sums.tile(query, turn).load(0) * LOG2_E;
            let mean = means.tile(query, turn).load(0);
            let slope = slopes.wait(at);
            let of_weights = times(value, slope.transposed(), turn);
            let scores = wgmma_wait(scores, 1);
            let scores = if edge { seen_by_queries(scores, query, row, plan) } else { scores };
            // Queries beyond the last one are zero, their slopes too: they give zeros.
            let weights = exp2_flushed(scores * scale - sum.expand(0));
            let of_v = wgmma_registers(pack_pairs::<T>(weights), slope, sum_v, true);
            let of_weights = wgmma_wait(of_weights, 1);
            let of_scores = weights * (of_weights - mean.expand(0));
            let of_k = wgmma_registers(pack_pairs::<T>(of_scores), asks, sum_k, true);
            sum_v = wgmma_wait(of_v, 1);
            slopes.release(at);
            sum_k = wgmma_wait(of_k, 0);
            queries.release(at);
        }
    }
    [sum_k, sum_v]
}

/// Scores by keys from `row` on of queries from `query` on, without those of keys after them.
#[device(crate = kiln_runtime)]
fn seen_by_queries(scores: Val<f32>, query: Index, row: Index, plan: GradientPlan) -> Val<f32> {
    from_columns(scores, |column, limit| column.ge(limit), [row - query, val(1)], plan.turn)
}
