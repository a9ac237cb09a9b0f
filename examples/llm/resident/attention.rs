//! Attention over the keys and values of all places so far, in parts that blocks share out.

use super::line::{Line, numbers, pass};
use super::place::{Factor, Int, Place, at, greatest_of_lanes, put, sum_of_lanes};
use super::sizes::{EARLIER, KEYS, PARTS, STATE, Sizes, WARP};
use kiln::prelude::*;

/// The most numbers of parts that a thread loads before it knows their weights.
const JOINED_EARLY: usize = 10;

/// What the block keeps while it attends and joins.
#[derive(Clone, Copy)]
pub struct Parts {
    /// The greatest score and the sum of weights, by group of lanes and head; then the group's
    /// weight. A score for each warp where tokens are chosen.
    pub scores: Shared<f32, 1>,
    sums: Shared<f32, 1>,
    /// Values times weights, by group, head and number of the head.
    values: Shared<f32, 1>,
    /// The token of each warp's greatest logit.
    pub tokens: Shared<i32, 1>,
    /// The queries of heads that share keys, then the key and the value, of the present place.
    fresh: Shared<f32, 1>,
    /// The weight of each group of lanes among those of the block, by head.
    shares: Shared<f32, 1>,
    /// The weight of each part, by head.
    weights: Shared<f32, 1>,
}

impl Parts {
    pub fn new(sizes: Sizes) -> Parts {
        let each = sizes.slots() * sizes.shared();
        Parts {
            scores: shared::<f32, 1>([each.max(sizes.warps)]),
            sums: shared::<f32, 1>([each]),
            values: shared::<f32, 1>([each * sizes.head]),
            tokens: shared::<i32, 1>([sizes.warps]),
            fresh: shared::<f32, 1>([(sizes.shared() + 2) * sizes.head]),
            shares: shared::<f32, 1>([each]),
            weights: shared::<f32, 1>([sizes.heads * sizes.most_parts().next_multiple_of(PARTS)]),
        }
    }
}

/// How many parts attention has at a place.
fn parts_at(sizes: Sizes, now: Int) -> Int {
    let keys = sizes.keys() as i32;
    ((now + keys) / keys).min(sizes.most_parts() as i32)
}

/// A lane's pairs of numbers of one of the block's heads.
fn pairs_of(place: Place, fresh: Shared<f32, 1>, which: usize) -> Vec<[Val<f32>; 2]> {
    let Sizes { head, .. } = place.sizes;
    let (lanes, pairs) = (place.sizes.lanes(), place.sizes.pairs());
    let first = |i: usize| (place.lane % lanes as i32 + (i * lanes) as i32) * 2 + (which * head) as i32;
    (0..pairs).map(|i| [0, 1].map(|odd| at(**fresh, first(i) + odd))).collect()
}

/// Pairs of numbers, rotated by the angles of their place.
fn rotated(pairs: Vec<[Val<f32>; 2]>, turns: &[[Val<f32>; 2]]) -> Vec<[Val<f32>; 2]> {
    let rotate = |([even, odd], [cosine, sine]): ([Val<f32>; 2], &[Val<f32>; 2])| {
        [even * *cosine - odd * *sine, even * *sine + odd * *cosine]
    };
    pairs.into_iter().zip(turns).map(rotate).collect()
}

/// Attends to a part of the keys, of a head of keys for all heads of queries that share it, and
/// appends the place's own key and value to the cache. `layer` counts those of all conversations.
#[device]
pub fn attend(
    place: Place,
    parts: Parts,
    line: Line,
    angles: View<f32, 1>,
    (keys, values): (ViewMut<f32, 1>, ViewMut<f32, 1>),
    (layer, now): (Int, Int),
) {
    let sizes = place.sizes;
    let Sizes { heads, key_heads, head, context, .. } = sizes;
    let [at_qkv, at_values, at_sums, ..] = sizes.passed();
    let (lanes, pairs, shared, slots) = (sizes.lanes(), sizes.pairs(), sizes.shared(), sizes.slots());
    let each = 2 + 2 * pairs;
    let (group, part) = (place.block % key_heads as i32, place.block / key_heads as i32);
    let all_parts = parts_at(sizes, now);
    if part < all_parts {
        let own = place.lane % lanes as i32;
        let slot = place.thread / lanes as i32;
        let turn = |i: usize, sine: i32| {
            at(angles, (now + sine * context as i32) * (head / 2) as i32 + own + (i * lanes) as i32)
        };
        let turns: Vec<[Val<f32>; 2]> = (0..pairs).map(|i| [turn(i, 0), turn(i, 1)]).collect();
        let cache = (layer * key_heads as i32 + group) * context as i32;
        let block_keys = sizes.keys() as i32;
        // Keys and values of earlier places depend on nothing that is waited for.
        let load = |begin: Int| -> [Val<f32>; EARLIER] {
            std::array::from_fn(|i| {
                let (k, rest) = (i / (4 * pairs), i % (4 * pairs));
                if k >= KEYS {
                    return val(0.0f32);
                }
                let number = begin + slot + (k * slots) as i32;
                let first = (cache + number.min(now - 1).max(0)) * head as i32 + own * 2;
                let (of_values, pair, odd) = (rest / (2 * pairs), rest / 2 % pairs, rest % 2);
                let from: View<f32, 1> = if of_values == 1 { *values } else { *keys };
                at(from, first + (pair * lanes * 2 + odd) as i32)
            })
        };
        let mut earlier = load(part * block_keys);
        // What others have left of the block's heads: queries, key and value.
        let fresh = place.own((shared + 2) * head);
        let row = |element: Int| {
            let (which, number) = (element / head as i32, element % head as i32);
            let queries = group * shared as i32 + which;
            let others = group + (which - shared as i32) * key_heads as i32 + heads as i32;
            select(which.lt(shared as i32), queries, others) * head as i32 + number
        };
        let places: Vec<Int> = fresh.iter().map(|element| row(element.number)).collect();
        for (element, x) in fresh.iter().zip(numbers(line, at_qkv, &places)) {
            put(parts.fresh, element.is, element.number, x);
        }
        barrier();
        // Scores are powers of two.
        let scale = std::f32::consts::LOG2_E / (head as f32).sqrt();
        let queries: Vec<Vec<[Val<f32>; 2]>> = (0..shared)
            .map(|i| rotated(pairs_of(place, parts.fresh, i), &turns))
            .map(|query| query.into_iter().map(|pair| pair.map(|x| x * scale)).collect())
            .collect();
        let new_key = rotated(pairs_of(place, parts.fresh, shared), &turns);
        let new_value = pairs_of(place, parts.fresh, shared + 1);
        // Of each head the greatest score, the sum of weights, and values times weights.
        let mut state = [val(0.0f32); STATE];
        for i in 0..shared {
            state[i * each] = val(f32::MIN);
        }
        for begin in range_step(part * block_keys, now + 1, all_parts * block_keys) {
            let old = state;
            let number = |k: usize| begin + slot + (k * slots) as i32;
            let of = |k: usize, of_values: usize, new: &[[Val<f32>; 2]]| -> Vec<[Val<f32>; 2]> {
                let is_new = number(k).ge(now);
                let one = |i: usize, odd: usize| {
                    let x = earlier[4 * pairs * k + 2 * pairs * of_values + 2 * i + odd];
                    select(is_new, new[i][odd], x)
                };
                (0..pairs).map(|i| [one(i, 0), one(i, 1)]).collect()
            };
            let all_keys: Vec<_> = (0..KEYS).map(|k| of(k, 0, &new_key)).collect();
            let all_values: Vec<_> = (0..KEYS).map(|k| of(k, 1, &new_value)).collect();
            let mut fresh = old;
            for h in 0..shared {
                let at = h * each;
                let score = |k: usize| {
                    let mut sum = val(0.0f32);
                    for i in 0..pairs {
                        for odd in 0..2 {
                            sum = queries[h][i][odd].fma(all_keys[k][i][odd], sum);
                        }
                    }
                    select(number(k).le(now), sum_of_lanes(sum, lanes), f32::NEG_INFINITY)
                };
                let scores: Vec<Val<f32>> = (0..KEYS).map(score).collect();
                let greatest = scores.iter().fold(old[at], |most, score| most.max(*score));
                let correction = (old[at] - greatest).exp2();
                fresh[at] = greatest;
                for i in 1..each {
                    fresh[at + i] = old[at + i] * correction;
                }
                for k in 0..KEYS {
                    let weight = (scores[k] - greatest).exp2();
                    fresh[at + 1] = fresh[at + 1] + weight;
                    for i in 0..2 * pairs {
                        fresh[at + 2 + i] = weight.fma(all_values[k][i / 2][i % 2], fresh[at + 2 + i]);
                    }
                }
            }
            state = fresh;
            let next = begin + all_parts * block_keys;
            if next <= now {
                earlier = load(next);
            }
        }
        for h in 0..shared {
            let which = slot * shared as i32 + h as i32;
            put(parts.scores, place.works & own.eq(0), which, state[h * each]);
            put(parts.sums, place.works & own.eq(0), which, state[h * each + 1]);
            for i in 0..2 * pairs {
                let number = (own + (i / 2 * lanes) as i32) * 2 + (i % 2) as i32;
                put(parts.values, place.works, which * head as i32 + number, state[h * each + 2 + i]);
            }
        }
        barrier();
        if part.eq(0) & slot.eq(0) {
            for i in 0..pairs {
                let first = (cache + now) * head as i32 + (own + (i * lanes) as i32) * 2;
                // SAFETY: one group of lanes of the launch writes them, and nobody reads them
                // before the next place.
                unsafe {
                    keys.scatter_unchecked(first, new_key[i][0]);
                    keys.scatter_unchecked(first + 1, new_key[i][1]);
                    values.scatter_unchecked(first, new_value[i][0]);
                    values.scatter_unchecked(first + 1, new_value[i][1]);
                }
            }
        }
        // The weight of each group of lanes among those of the block, and what the block hands on
        // of a head as a whole.
        for element in place.own(slots * shared) {
            let h = element.number % shared as i32;
            let score = |slot: usize| at(**parts.scores, h + (slot * shared) as i32);
            let greatest = (1..slots).fold(score(0), |most, slot| most.max(score(slot)));
            let sums = (0..slots)
                .map(|slot| (score(slot) - greatest).exp2() * at(**parts.sums, h + (slot * shared) as i32));
            let sum = sums.reduce(|a, b| a + b).unwrap_or(val(0.0f32));
            let weight = (at(**parts.scores, element.number) - greatest).exp2();
            let to = (part * heads as i32 + group * shared as i32 + h) * 2 + at_sums as i32;
            let leads = element.is & element.number.lt(shared as i32);
            pass(line, leads, to, greatest.bitcast());
            pass(line, leads, to + 1, sum.bitcast());
            put(parts.shares, element.is, element.number, weight);
        }
        barrier();
        for element in place.own(shared * head) {
            let (h, number) = (element.number / head as i32, element.number % head as i32);
            let weighted = (0..slots).map(|slot| {
                let which = h + (slot * shared) as i32;
                at(**parts.shares, which) * at(**parts.values, which * head as i32 + number)
            });
            let value = weighted.reduce(|a, b| a + b).unwrap_or(val(0.0f32));
            let to = (part * heads as i32 + group * shared as i32 + h) * head as i32 + number;
            pass(line, element.is, to + at_values as i32, value.bitcast());
        }
    }
}

/// Joins what blocks have attended to.
#[device]
pub fn join(place: Place, parts: Parts, attended: Factor, line: Line, now: Int) {
    let sizes = place.sizes;
    let Sizes { heads, head, warps, .. } = sizes;
    let [_, at_values, at_sums, ..] = sizes.passed();
    let room = sizes.most_parts().next_multiple_of(PARTS) as i32;
    let all_parts = parts_at(sizes, now);
    let own = place.own(heads * head);
    let of_part = |part: Int, element: Int| part.min(all_parts - 1) * (heads * head) as i32 + element;
    // A warp has a head, and each of its lanes a part. What is added up later is read at once.
    let mut first_values: Vec<Vec<Val<f32>>> = Vec::new();
    for round in 0..heads.div_ceil(warps) {
        let h = place.warp + (round * warps) as i32;
        let scores = (place.lane.min(all_parts - 1) * heads as i32 + h.min(heads as i32 - 1)) * 2;
        let got = numbers(line, at_sums, &[scores, scores + 1]);
        let (score, sum) = (got[0], got[1]);
        if round == 0 && own.len() * PARTS <= JOINED_EARLY {
            let parts = |number: Int| (0..PARTS).map(|i| of_part(val(i as i32), number)).collect::<Vec<_>>();
            first_values.extend(own.iter().map(|element| numbers(line, at_values, &parts(element.number))));
        }
        let score = select(place.lane.lt(all_parts), score, f32::NEG_INFINITY);
        let weight = (score - greatest_of_lanes(score)).exp2();
        let sum = sum_of_lanes(weight * sum, WARP);
        let has = place.works & h.lt(heads as i32) & place.lane.lt(room);
        put(parts.weights, has, h * room + place.lane, weight / sum);
    }
    barrier();
    for (e, element) in own.iter().enumerate() {
        let h = element.number / head as i32;
        let weight = |part: Int| at(**parts.weights, h * room + part);
        let mut value = val(0.0f32);
        let mut begin = val(0i32);
        if let Some(values) = first_values.get(e) {
            for (i, x) in values.iter().enumerate() {
                value = weight(val(i as i32)).fma(*x, value);
            }
            begin = val(PARTS as i32);
        }
        for first in range_step(begin, all_parts, PARTS as i32) {
            let places: Vec<Int> = (0..PARTS).map(|i| of_part(first + i as i32, element.number)).collect();
            let values = numbers(line, at_values, &places);
            let before = value;
            value = (0..PARTS).fold(before, |sum, i| weight(first + i as i32).fma(values[i], sum));
        }
        attended.put(*element, value);
    }
}
