//! All of a token, and of all others, in one kernel, which stays on the device until the host ends
//! it: every block of the launch runs at the same time, and they wait for each other.
//!
//! ```text
//!  embed ─▶ each layer:  norm · Wqkv │ attend, in parts │ join · Wo + x
//!                        │ norm · Wgate,up, gate │ · Wdown + x │
//!        ─▶ norm · W, likeliest of each block │ choose ─▶ the host, and the next turn
//! ```
//!
//! The rows of a matrix are shared out over all warps of the launch. Every block has a copy of the
//! vector `x` of its own and adds to it what the others hand on, so that nobody waits for who has
//! added it. At each bar blocks wait for each other at a barrier of the grid. A warp's loads of
//! weights run ahead of its products, past the next barriers, for they do not depend on what is
//! waited for. One more warp in each block has no rows: it waits with no loads of its own under
//! way.

use super::attention::{Parts, attend, join};
use super::line::{Line, numbers, pass, receive};
use super::place::{
    Factor, Int, Own, Place, Quad, Rows, at, best_of_lanes, better, product, put, sum_of_lanes,
};
use super::sizes::{OWN, Sizes, WARP};
use super::stream::{Matrix, Weights, either};
use super::turns::{
    AS_CHOSEN, AT, CHOOSES, Desk, NOBODY, SEED, TEMPERATURE, TOKEN, Turn, WHO, look_ahead, send, wait,
};
use kiln::prelude::*;

/// What a block keeps in its memory.
#[derive(Clone, Copy)]
struct Kept {
    /// The vector that stands for the token: the elements of each thread, which alone reads them.
    x: Shared<f32, 1>,
    /// A sum of squares for each warp.
    squares: Shared<f32, 1>,
    /// What products read.
    normalized: Factor,
    attended: Factor,
    gated: Factor,
}

/// Where the thread has one of its own elements of `x`.
fn of_thread(place: Place, which: usize) -> Int {
    place.thread + (which * place.sizes.threads()) as i32
}

/// Divides `x` by its mean length, but for the factor that is given back, for the next product.
fn normalize(place: Place, kept: Kept, gains: &[Val<f32>], epsilon: Val<f32>) -> Val<f32> {
    let sizes = place.sizes;
    let mut squares = val(0.0f32);
    for (i, (own, gain)) in place.own(sizes.width).into_iter().zip(gains).enumerate() {
        let x = select(own.is, at(**kept.x, of_thread(place, i)), 0.0);
        squares = x.fma(x, squares);
        kept.normalized.put(own, x * *gain);
    }
    let squares = sum_of_lanes(squares, WARP);
    put(kept.squares, place.works & place.lane.eq(0), place.warp, squares);
    barrier();
    let all = (0..sizes.warps).map(|warp| at(**kept.squares, val(warp as i32)));
    let total = all.reduce(|a, b| a + b).unwrap_or(val(0.0f32));
    (total * (1.0 / sizes.width as f32) + epsilon).rsqrt()
}

/// The thread's own factors of a norm.
fn own_gains(place: Place, gains: View<f32, 1>, which: Int) -> [Val<f32>; OWN] {
    let width = place.sizes.width;
    let own = place.own(width);
    let gain = |i: usize| own.get(i).map(|own| at(gains, which * width as i32 + own.number));
    std::array::from_fn(|i| gain(i).unwrap_or(val(0.0f32)))
}

/// Adds parts that blocks have left to the thread's own elements of `x`.
fn add(place: Place, kept: Kept, line: Line, first: usize, parts: usize) {
    let width = place.sizes.width;
    let own = place.own(width);
    let of = |part: usize| own.iter().map(move |own| own.number + (part * width) as i32);
    let places: Vec<Int> = (0..parts).flat_map(of).collect();
    let got = numbers(line, first, &places);
    for i in 0..own.len() {
        let at_x = of_thread(place, i);
        let x = (0..parts).fold(at(**kept.x, at_x), |x, part| x + got[part * own.len() + i]);
        put(kept.x, val(true), at_x, x);
    }
}

/// A number of a row that one lane of the warp leaves for the other blocks.
fn pass_row(place: Place, line: Line, first: usize, row: Own, value: Val<f32>) {
    pass(line, row.is & place.lane.eq(0), row.number + first as i32, value.bitcast());
}

/// Answers the requests of `inbox` until one ends it. `gains` are two of each layer and one of the
/// logits; `angles` are cosines, then sines. `keys` and `values` are those of all conversations.
/// `end` is the token that ends an answer.
#[kernel(contract)]
pub fn serve(
    weights: &Tensor<u32, 1>,
    gains: &Tensor<f32, 1>,
    angles: &Tensor<f32, 1>,
    keys: &mut Tensor<f32, 1>,
    values: &mut Tensor<f32, 1>,
    passed: &mut Tensor<u32, 1>,
    clerk: &mut Tensor<u32, 1>,
    inbox: &Mapped<u32>,
    outbox: &Mapped<u64>,
    end: Val<u32>,
    epsilon: Val<f32>,
    sizes: Sizes,
) {
    let Sizes { width, inner, layers, heads, .. } = sizes;
    let place = Place::new(sizes);
    let line: Line = passed;
    let [at_qkv, _, _, at_output, at_gates, at_down, at_logits, at_next, at_waited, _] = sizes.passed();
    let width_quads = width / sizes.quad();
    let (row_parts, part_quads) = (sizes.row_parts(), sizes.part_quads());
    let [.., of_embedding, of_logits, _] = sizes.weights();
    let rows = |first: usize, columns: usize| Rows { weights, first, columns };
    let embedding = rows(of_embedding, width);
    let logits = if sizes.own_logits { rows(of_logits, width) } else { embedding };
    let kept = Kept {
        x: shared::<f32, 1>([width.div_ceil(sizes.workers()) * sizes.threads()]),
        squares: shared::<f32, 1>([sizes.warps]),
        normalized: Factor::new(place, width, width_quads),
        attended: Factor::new(place, heads * sizes.head, heads * sizes.head / sizes.quad()),
        gated: Factor::new(place, inner, part_quads),
    };
    let parts = Parts::new(sizes);
    let zero = val(0i32);
    let stream = Weights { place, all: weights };
    let mut ahead = stream.load(stream.spot(Matrix::Qkv, zero, zero));
    let desk = Desk { sizes, line, kept: clerk, inbox, outbox, end, is: Desk::is_clerk(place) };
    wait(desk, val(0u32), at_waited);
    // All blocks run at the same time from here on.
    grid_barrier();
    let turn = Turn::new();
    turn.become_that_at(place, line, at_waited);
    let mut token = turn.word(TOKEN).cast::<i32>();
    while turn.word(WHO) < NOBODY {
        let now = turn.word(AT).cast::<i32>();
        let remembered = turn.word(WHO).cast::<i32>() * layers as i32;
        let mut ahead_gains = own_gains(place, gains, zero);
        embed(place, kept, embedding, token);
        for layer in range(val(0i32), layers as i32) {
            // Queries, keys and values.
            let factor = normalize(place, kept, &ahead_gains, epsilon);
            let rounds = stream.rounds(Matrix::Qkv) as i32;
            for round in range(zero, rounds) {
                let quads = ahead;
                let next = stream.spot(Matrix::Qkv, round + 1, layer);
                let last = stream.spot(Matrix::Output, zero, layer);
                ahead = stream.load(either(round.lt(rounds - 1), next, last));
                let x = kept.normalized.quads(place, zero, width_quads);
                let own = place.row(round, sizes.qkv());
                pass_row(place, line, at_qkv, own, product(sizes, &quads, &x) * factor);
            }
            grid_barrier();
            attend(place, parts, line, angles, (keys, values), (remembered + layer, now));
            grid_barrier();
            // The attention's product.
            let inner_gains = own_gains(place, gains, layer * 2 + 1);
            join(place, parts, kept.attended, line, now);
            barrier();
            let rounds = stream.rounds(Matrix::Output) as i32;
            for round in range(zero, rounds) {
                let quads = ahead;
                let next = stream.spot(Matrix::Output, round + 1, layer);
                let last = stream.spot(Matrix::Gate, zero, layer);
                ahead = stream.load(either(round.lt(rounds - 1), next, last));
                let x = kept.attended.quads(place, zero, heads * sizes.head / sizes.quad());
                pass_row(place, line, at_output, place.row(round, width), product(sizes, &quads, &x));
            }
            let mut ahead_up = stream.load(stream.spot(Matrix::Up, zero, layer));
            grid_barrier();
            // What gates let through. A warp has a gate and what it multiplies.
            add(place, kept, line, at_output, 1);
            let factor = normalize(place, kept, &inner_gains, epsilon);
            let rounds = stream.rounds(Matrix::Gate) as i32;
            for round in range(zero, rounds) {
                let (gates, ups) = (ahead, ahead_up);
                let next = stream.spot(Matrix::Gate, round + 1, layer);
                let last = stream.spot(Matrix::Down, zero, layer);
                ahead = stream.load(either(round.lt(rounds - 1), next, last));
                let x = kept.normalized.quads(place, zero, width_quads);
                let gate = product(sizes, &gates, &x) * factor;
                ahead_up = stream.load(stream.spot(Matrix::Up, round + 1, layer));
                let value = gate * gate.fast_sigmoid() * (product(sizes, &ups, &x) * factor);
                pass_row(place, line, at_gates, place.row(round, inner), value);
            }
            grid_barrier();
            // The last product.
            let own = place.own(inner);
            let places: Vec<Int> = own.iter().map(|own| own.number).collect();
            for (own, x) in own.iter().zip(numbers(line, at_gates, &places)) {
                kept.gated.put(*own, x);
            }
            barrier();
            let rounds = stream.rounds(Matrix::Down) as i32;
            for round in range(zero, rounds) {
                let quads = ahead;
                let next = stream.spot(Matrix::Down, round + 1, layer);
                let last = stream.spot(Matrix::Qkv, zero, (layer + 1) % layers as i32);
                ahead = stream.load(either(round.lt(rounds - 1), next, last));
                let unit = place.row(round, width * row_parts);
                let (row, part) = (unit.number / row_parts as i32, unit.number % row_parts as i32);
                let x = kept.gated.quads(place, part * part_quads as i32, part_quads);
                let own = Own { number: part * width as i32 + row, is: unit.is };
                pass_row(place, line, at_down, own, product(sizes, &quads, &x));
            }
            // Those of the next layer, or of the logits.
            ahead_gains = own_gains(place, gains, layer * 2 + 2);
            grid_barrier();
            add(place, kept, line, at_down, row_parts);
        }
        if turn.word(CHOOSES) == 1 {
            let seed = turn.word(SEED).cast::<u64>() | (turn.word(SEED + 1).cast::<u64>() << 32);
            let noise = Noise { temperature: turn.word(TEMPERATURE).bitcast(), seed, place: now };
            let factor = normalize(place, kept, &ahead_gains, epsilon);
            let mine = likeliest(place, kept, logits, factor, noise);
            pass_best(place, parts, mine, line, at_logits);
        }
        look_ahead(desk, turn, at_next);
        // Who reads this place's keys and values in a later step sees them too.
        grid_barrier();
        let latest = chosen(place, line, at_logits);
        send(desk, turn, latest);
        let before = turn.word(WHO);
        turn.become_that_at(place, line, at_next);
        if turn.word(WHO) == NOBODY {
            wait(desk, before, at_waited);
            grid_barrier();
            turn.become_that_at(place, line, at_waited);
        }
        let next = turn.word(TOKEN);
        token = select(next.eq(AS_CHOSEN), latest, next.cast::<i32>());
    }
}

/// x = the row of a token.
fn embed(place: Place, kept: Kept, embedding: Rows, token: Int) {
    let Sizes { width, half, .. } = place.sizes;
    for (i, own) in place.own(width).into_iter().enumerate() {
        let element = token * width as i32 + own.number;
        let x = if half {
            let word = at(embedding.weights, element / 2 + embedding.first as i32);
            select((element % 2).eq(0), word << 16, word & 0xffff_0000u32).bitcast::<f32>()
        } else {
            at(embedding.weights, element + embedding.first as i32).bitcast::<f32>()
        };
        put(kept.x, val(true), of_thread(place, i), x);
    }
}

/// What chance adds to logits.
#[derive(Clone, Copy)]
struct Noise {
    temperature: Val<f32>,
    seed: Val<u64>,
    place: Int,
}

/// The lane's likeliest token and its score, of the warp's rows of the logits.
#[device]
fn likeliest(place: Place, kept: Kept, matrix: Rows, factor: Val<f32>, noise: Noise) -> (Val<f32>, Int) {
    let sizes = place.sizes;
    let quads = sizes.width / sizes.quad();
    let x = kept.normalized.quads(place, val(0i32), quads);
    let together = sizes.rows();
    let mut best = (val(f32::NEG_INFINITY), val(i32::MAX));
    for round in range_step(val(0i32), place.rounds(sizes.tokens) as i32, together as i32) {
        let rows: Vec<Own> = (0..together).map(|i| place.row(round + i as i32, sizes.tokens)).collect();
        let weights: Vec<Vec<Quad>> =
            rows.iter().map(|row| place.load(matrix, row.number, val(0i32), quads)).collect();
        let logits: Vec<Val<f32>> =
            weights.iter().map(|weights| product(sizes, weights, &x) * factor).collect();
        // Each lane goes on with one of the rows.
        let (mut logit, mut row, mut is) = (logits[0], rows[0].number, rows[0].is);
        for i in 1..together {
            let mine = (place.lane % together as i32).eq(i as i32);
            logit = select(mine, logits[i], logit);
            row = select(mine, rows[i].number, row);
            is = select(mine, rows[i].is, is);
        }
        let mut score = logit;
        if noise.temperature > 0.0 {
            let offset = row.cast::<i64>() + noise.place.cast::<i64>() * sizes.tokens as i64;
            // Neither 0 nor 1, of which no noise is finite.
            let uniform = rand(noise.seed, offset).clamp(2.98e-8, 0.99999994);
            score = logit - (-uniform.log()).log() * noise.temperature;
        }
        best = better(best, (select(is, score, f32::NEG_INFINITY), select(is, row, i32::MAX)));
    }
    best
}

/// Leaves the block's likeliest token.
fn pass_best(place: Place, parts: Parts, mine: (Val<f32>, Int), line: Line, first: usize) {
    let (score, token) = best_of_lanes(mine);
    let leads = place.works & place.lane.eq(0);
    put(parts.scores, leads, place.warp, score);
    put(parts.tokens, leads, place.warp, token);
    barrier();
    let of = |warp: usize| {
        let warp = val(warp as i32);
        (at(**parts.scores, warp), at(**parts.tokens, warp))
    };
    let (score, token) = (1..place.sizes.warps).map(of).fold(of(0), better);
    let to = place.block * 2 + first as i32;
    pass(line, place.thread.eq(0), to, score.bitcast());
    pass(line, place.thread.eq(0), to + 1, token.bitcast());
}

/// The likeliest token of all blocks, in every thread.
fn chosen(place: Place, line: Line, first: usize) -> Int {
    let blocks = place.sizes.blocks;
    let mut mine = (val(f32::NEG_INFINITY), val(i32::MAX));
    for i in 0..blocks.div_ceil(WARP) {
        let block = (place.lane + (i * WARP) as i32).min(blocks as i32 - 1) * 2 + first as i32;
        let got = [0, 1].map(|i| receive(line, block + i));
        mine = better(mine, (got[0].bitcast::<f32>(), got[1].bitcast::<i32>()));
    }
    best_of_lanes(mine).1
}
