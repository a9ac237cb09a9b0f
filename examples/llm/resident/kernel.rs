//! All of a token, and of the next ones, in one kernel: every block of the launch runs at the same
//! time, and they wait for each other at barriers of the grid.
//!
//! ```text
//!            ┌── each layer ─────────────────────────────────────────────────────────────┐
//!  embed x ─▶│ norm · Wqkv │ attend, in parts │ join · Wo │ x += ; norm · Wgate,up │ gate │─▶ norm · W │ choose ─▶
//!            │             │                  │           │                        │ · Wd │
//!            └────────────────────────────────────────────────────────────────────────────┘
//!                          ┊ a barrier of the grid at each bar ┊
//! ```
//!
//! The rows of a matrix are shared out over all warps of the launch. Every block has a copy of the
//! vector `x` of its own and adds to it what the others left in `passed`, so that nobody waits for
//! who has added it. A warp begins to load its weights of the next product before the barrier, for
//! they do not depend on what it waits for. One more warp in each block has no rows: its first
//! thread is the one that waits for the other blocks, with no loads of its own under way.

use super::attention::{Parts, attend, join};
use super::place::{Factor, Place, Quad, Rows, best_of_lanes, better, product, sum_of_lanes};
use super::sizes::{KEPT, NOWHERE, ROWS, Sizes, WARP};
use kiln::prelude::*;

/// What a block keeps in its memory.
#[derive(Clone, Copy)]
struct Kept {
    /// The vector that stands for the token.
    x: Shared<f32, 1>,
    /// A sum of squares for each warp.
    squares: Shared<f32, 1>,
    /// What products read.
    normalized: Factor,
    attended: Factor,
    gated: Factor,
}

/// Divides `x` by its mean length, but for the factor that is given back, for the next product.
fn normalize(place: Place, kept: Kept, gains: View<f32, 2>, which: Idx, epsilon: Val<f32>) -> Val<f32> {
    let sizes = place.sizes;
    let mut squares = val(0.0f32);
    for e in place.own(sizes.width) {
        let x = kept.x.get_or(e, 0.0);
        squares = x.fma(x, squares);
        kept.normalized.put(e, x * gains.get_or((which, e), 0.0));
    }
    let squares = sum_of_lanes(squares, WARP);
    // SAFETY: one thread of each warp writes the warp's own, before the barrier.
    unsafe { kept.squares.scatter(select(place.lane.eq(0), place.warp, NOWHERE), squares) };
    barrier();
    let mut total = val(0.0f32);
    for warp in 0..sizes.warps {
        total += kept.squares.get_or(warp as i64, 0.0);
    }
    (total / sizes.width as f32 + epsilon).rsqrt()
}

/// Adds parts that blocks have left to the thread's own elements of `x`.
fn add(place: Place, kept: Kept, passed: ViewMut<f32, 1>, first: usize, parts: usize) {
    let width = place.sizes.width;
    for e in place.own(width) {
        let mut x = kept.x.get_or(e, 0.0);
        for part in 0..parts {
            x += passed.get_or(select(e.ge(0), e + (first + part * width) as i64, NOWHERE), 0.0);
        }
        // SAFETY: the thread's own element.
        unsafe { kept.x.scatter(e, x) };
    }
}

/// A number that one lane leaves for the other blocks.
fn pass(place: Place, passed: ViewMut<f32, 1>, first: usize, row: Idx, value: Val<f32>) {
    let own = row.ge(0) & place.lane.eq(0);
    // SAFETY: one lane of one warp has the row, and nobody reads it before the next barrier.
    unsafe { passed.scatter(select(own, row + first as i64, NOWHERE), value) };
}

/// Reads the tokens from a place on and chooses those that are not known yet, so many steps.
/// `gains` are two of each layer and one of the logits. `tokens` ends up with what was chosen.
#[kernel(contract)]
pub fn decode(
    weights: &Tensor<u32, 1>,
    gains: &Tensor<f32, 2>,
    angles: &Tensor<f32, 3>,
    keys: &mut Tensor<f32, 1>,
    values: &mut Tensor<f32, 1>,
    passed: &mut Tensor<f32, 1>,
    best: &mut Tensor<i32, 1>,
    tokens: &mut Tensor<i32, 1>,
    first: Val<i64>,
    known: Val<i64>,
    steps: Val<i64>,
    epsilon: Val<f32>,
    temperature: Val<f32>,
    seed: Val<u64>,
    sizes: Sizes,
) {
    let Sizes { width, inner, layers, heads, .. } = sizes;
    let place = Place::new(sizes);
    let [at_qkv, _, _, at_output, at_gates, at_down, at_logits, _] = sizes.passed();
    let (width_quads, inner_quads) = (width / sizes.quad(), inner / sizes.quad());
    let row_parts = sizes.row_parts();
    let part_quads = inner_quads.div_ceil(row_parts);
    let [of_qkv, of_output, of_gates, of_down, of_embedding, of_logits, _] = sizes.weights();
    let rows = |first: usize, columns: usize| Rows { weights, first, columns };
    let (qkv, output) = (rows(of_qkv, width), rows(of_output, heads * sizes.head));
    let (gate_up, down) = (rows(of_gates, width), rows(of_down, inner));
    let embedding = rows(of_embedding, width);
    let logits = if sizes.own_logits { rows(of_logits, width) } else { embedding };
    let kept = Kept {
        x: shared::<f32, 1>([width]),
        squares: shared::<f32, 1>([sizes.warps + 1]),
        normalized: Factor::new(sizes, width),
        attended: Factor::new(sizes, heads * sizes.head),
        gated: Factor::new(sizes, inner),
    };
    let parts = Parts::new(sizes);
    let zero = val(0i64);
    let load_qkv = |layer: Idx| -> [Quad; KEPT] {
        let row = place.row(0, sizes.qkv());
        let row = select(row.ge(0), row + layer * sizes.qkv() as i64, NOWHERE);
        let some = place.load(qkv, row, zero, width_quads.min(KEPT * WARP));
        std::array::from_fn(|i| some.get(i).copied().unwrap_or([val(0u32); 4]))
    };
    let mut ahead = load_qkv(zero);
    let mut token = tokens.get_or(first, 0);
    for step in range(0, steps) {
        let now = first + step;
        embed(place, kept, embedding, token);
        for layer in range(0, layers) {
            // Queries, keys and values.
            let factor = normalize(place, kept, gains, layer * 2, epsilon);
            let x = kept.normalized.quads(place, zero, width_quads);
            for round in 0..place.rounds(sizes.qkv()) {
                let own = place.row(round as i64, sizes.qkv());
                let row = select(own.ge(0), own + layer * sizes.qkv() as i64, NOWHERE);
                let mut quads = Vec::new();
                if round == 0 {
                    quads.extend(ahead.iter().take(width_quads.div_ceil(WARP)).copied());
                }
                let done = quads.len() * WARP;
                if done < width_quads {
                    let rest = width_quads - done;
                    quads.extend(place.load(qkv, row, zero + done as i64, rest));
                }
                pass(place, passed, at_qkv, own, product(sizes, &quads, &x) * factor);
            }
            let ahead_output = load_rows(place, output, layer, width);
            grid_barrier();
            attend(place, parts, (passed, angles), (keys, values), (layer, now));
            grid_barrier();
            // The attention's product.
            let ahead_gates = load_rows(place, gate_up, layer, 2 * inner);
            join(place, kept.attended, passed, now);
            barrier();
            let x = kept.attended.quads(place, zero, heads * sizes.head / sizes.quad());
            for (round, quads) in ahead_output.iter().enumerate() {
                pass(place, passed, at_output, place.row(round as i64, width), product(sizes, quads, &x));
            }
            grid_barrier();
            // Gates, and what they multiply.
            add(place, kept, passed, at_output, 1);
            let factor = normalize(place, kept, gains, layer * 2 + 1, epsilon);
            let x = kept.normalized.quads(place, zero, width_quads);
            for (round, quads) in ahead_gates.iter().enumerate() {
                let value = product(sizes, quads, &x) * factor;
                pass(place, passed, at_gates, place.row(round as i64, 2 * inner), value);
            }
            let mut ahead_down = Vec::new();
            for round in 0..place.rounds(width * row_parts) {
                let unit = place.row(round as i64, width * row_parts);
                let row = select(unit.ge(0), unit / row_parts as i64 + layer * width as i64, NOWHERE);
                let begin = (unit % row_parts as i64) * part_quads as i64;
                ahead_down.push(place.load(down, row, begin, part_quads));
            }
            grid_barrier();
            // The last product.
            for e in place.own(inner) {
                let at = |first: usize| select(e.ge(0), e + first as i64, NOWHERE);
                let gate = passed.get_or(at(at_gates), 0.0);
                let other = passed.get_or(at(at_gates + inner), 0.0);
                kept.gated.put(e, gate * gate.sigmoid() * other);
            }
            barrier();
            for (round, quads) in ahead_down.iter().enumerate() {
                let unit = place.row(round as i64, width * row_parts);
                let part = unit % row_parts as i64;
                let x = kept.gated.quads(place, part.max(0) * part_quads as i64, part_quads);
                let own = select(unit.ge(0), part * width as i64 + unit / row_parts as i64, NOWHERE);
                pass(place, passed, at_down, own, product(sizes, quads, &x));
            }
            ahead = load_qkv((layer + 1) % layers as i64);
            grid_barrier();
            add(place, kept, passed, at_down, row_parts);
        }
        let next = now + 1;
        if next < known {
            token = tokens.get_or(next, 0);
        } else {
            let noise = Noise { temperature, seed, place: now };
            let factor = normalize(place, kept, gains, zero + 2 * layers as i64, epsilon);
            let mine = likeliest(place, kept, logits, factor, noise);
            pass_best(place, parts, mine, (passed, at_logits), best);
            grid_barrier();
            token = chosen(place, passed, at_logits, best);
            // SAFETY: one thread of the launch writes, and nobody reads it before the next launch.
            unsafe { tokens.scatter(select(place.block.eq(0) & place.thread.eq(0), next, NOWHERE), token) };
        }
        // What the block keeps is written anew.
        barrier();
    }
}

/// Begins to load the warp's rows of a matrix, of so many rows in each layer.
fn load_rows(place: Place, matrix: Rows, layer: Idx, rows: usize) -> Vec<Vec<Quad>> {
    let quads = matrix.columns / place.sizes.quad();
    let zero = val(0i64);
    let rounds = (0..place.rounds(rows)).map(|round| {
        let own = place.row(round as i64, rows);
        let row = select(own.ge(0), own + layer * rows as i64, NOWHERE);
        place.load(matrix, row, zero, quads)
    });
    rounds.collect()
}

/// x = the row of a token.
fn embed(place: Place, kept: Kept, embedding: Rows, token: Val<i32>) {
    let Sizes { width, half, .. } = place.sizes;
    let first = token.cast::<i64>() * width as i64;
    for e in place.own(width) {
        let at = first + e.max(0);
        let x = if half {
            let word = embedding.weights.get_or(at / 2 + embedding.first as i64, 0);
            select((at % 2).eq(0), word << 16, word & 0xffff_0000u32).bitcast::<f32>()
        } else {
            embedding.weights.get_or(at + embedding.first as i64, 0).bitcast::<f32>()
        };
        // SAFETY: the thread's own element.
        unsafe { kept.x.scatter(e, x) };
    }
}

/// What chance adds to logits.
#[derive(Clone, Copy)]
struct Noise {
    temperature: Val<f32>,
    seed: Val<u64>,
    place: Idx,
}

/// The lane's likeliest token and its score, of the warp's rows of the logits.
#[device]
fn likeliest(place: Place, kept: Kept, matrix: Rows, factor: Val<f32>, noise: Noise) -> (Val<f32>, Val<i32>) {
    let sizes = place.sizes;
    let quads = sizes.width / sizes.quad();
    let zero = val(0i64);
    let x = kept.normalized.quads(place, zero, quads);
    let mut best = (val(f32::NEG_INFINITY), val(i32::MAX));
    for round in range_step(0, place.rounds(sizes.tokens), ROWS as i64) {
        let rows: Vec<Idx> = (0..ROWS).map(|i| place.row(round + i as i64, sizes.tokens)).collect();
        let weights: Vec<Vec<Quad>> = rows.iter().map(|&row| place.load(matrix, row, zero, quads)).collect();
        let logits: Vec<Val<f32>> =
            weights.iter().map(|weights| product(sizes, weights, &x) * factor).collect();
        // Each lane goes on with one of the rows.
        let (mut logit, mut row) = (logits[0], rows[0]);
        for i in 1..ROWS {
            let mine = (place.lane % ROWS as i64).eq(i as i64);
            logit = select(mine, logits[i], logit);
            row = select(mine, rows[i], row);
        }
        let mut score = logit;
        if sizes.sampled {
            let offset = row + noise.place * sizes.tokens as i64;
            // Neither 0 nor 1, of which no noise is finite.
            let uniform = rand(noise.seed, offset).clamp(2.98e-8, 0.99999994);
            score = logit - (-uniform.log()).log() * noise.temperature;
        }
        let score = select(row.ge(0), score, f32::NEG_INFINITY);
        let token = select(row.ge(0), row.cast::<i32>(), i32::MAX);
        best = better(best, (score, token));
    }
    best
}

/// Leaves the block's likeliest token.
fn pass_best(
    place: Place,
    parts: Parts,
    mine: (Val<f32>, Val<i32>),
    (passed, at_logits): (ViewMut<f32, 1>, usize),
    best: ViewMut<i32, 1>,
) {
    let (score, token) = best_of_lanes(mine);
    let own = select(place.works & place.lane.eq(0), place.warp, NOWHERE);
    // SAFETY: each warp has a place of its own, before the barrier.
    unsafe {
        parts.scores.scatter(own, score);
        parts.tokens.scatter(own, token);
    }
    barrier();
    let of = |warp: usize| (parts.scores.get_or(warp as i64, 0.0), parts.tokens.get_or(warp as i64, 0));
    let (score, token) = (1..place.sizes.warps).map(of).fold(of(0), better);
    let own = place.thread.eq(0);
    // SAFETY: each block has a place of its own, before the barrier of the grid.
    unsafe {
        passed.scatter(select(own, place.block + at_logits as i64, NOWHERE), score);
        best.scatter(select(own, place.block, NOWHERE), token);
    }
}

/// The likeliest token of all blocks, in every thread.
fn chosen(place: Place, passed: ViewMut<f32, 1>, at_logits: usize, best: ViewMut<i32, 1>) -> Val<i32> {
    let blocks = place.sizes.blocks;
    let mut mine = (val(f32::NEG_INFINITY), val(i32::MAX));
    for i in 0..blocks.div_ceil(WARP) {
        let block = place.lane + (i * WARP) as i64;
        let at = |first: usize| select(block.lt(blocks), block + first as i64, NOWHERE);
        let score = passed.get_or(at(at_logits), f32::NEG_INFINITY);
        mine = better(mine, (score, best.get_or(at(0), i32::MAX)));
    }
    best_of_lanes(mine).1
}
