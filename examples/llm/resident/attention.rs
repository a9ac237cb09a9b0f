//! Attention over the keys and values of all places so far, in parts that blocks share out.

use super::place::{Factor, Place, sum_of_lanes};
use super::sizes::{KEYS, NOWHERE, PARTS, STATE, Sizes};
use kiln::prelude::*;

/// What the warps of a block have attended to, for each group of lanes, until they join it.
#[derive(Clone, Copy)]
pub struct Parts {
    /// The greatest score and the sum of weights, by group and head.
    pub scores: Shared<f32, 1>,
    sums: Shared<f32, 1>,
    /// Values times weights, by group, head and number of the head.
    values: Shared<f32, 1>,
    /// The token of each warp's greatest logit, which is in `scores`.
    pub tokens: Shared<i32, 1>,
}

impl Parts {
    pub fn new(sizes: Sizes) -> Parts {
        let each = sizes.slots() * sizes.shared();
        Parts {
            scores: shared::<f32, 1>([each.max(sizes.warps)]),
            sums: shared::<f32, 1>([each]),
            values: shared::<f32, 1>([each * sizes.head]),
            tokens: shared::<i32, 1>([sizes.warps]),
        }
    }
}

/// How many parts attention has at a place.
fn parts_at(sizes: Sizes, now: Idx) -> Idx {
    let keys = sizes.keys() as i64;
    ((now + keys) / keys).min(sizes.most_parts() as i64)
}

/// A head's numbers for a lane, rotated by the angles of its place.
fn rotated(place: Place, passed: View<f32, 1>, first: Idx, turns: &[[Val<f32>; 2]]) -> Vec<[Val<f32>; 2]> {
    let lanes = place.sizes.lanes() as i64;
    let pairs = turns.iter().enumerate().map(|(i, [cosine, sine])| {
        let at = first + (place.lane % lanes + i as i64 * lanes) * 2;
        let (even, odd) = (passed.get_or(at, 0.0), passed.get_or(at + 1, 0.0));
        [even * *cosine - odd * *sine, even * *sine + odd * *cosine]
    });
    pairs.collect()
}

/// Attends to a part of the keys, of a head of keys for all heads of queries that share it, and
/// appends the place's own key and value to the cache.
#[device]
pub fn attend(
    place: Place,
    parts: Parts,
    (passed, angles): (ViewMut<f32, 1>, View<f32, 3>),
    (keys, values): (ViewMut<f32, 1>, ViewMut<f32, 1>),
    (layer, now): (Idx, Idx),
) {
    let sizes = place.sizes;
    let Sizes { heads, key_heads, head, context, .. } = sizes;
    let [at_qkv, at_values, at_sums, ..] = sizes.passed();
    let (lanes, pairs, shared, slots) = (sizes.lanes(), sizes.pairs(), sizes.shared(), sizes.slots());
    let each = 2 + 2 * pairs;
    let (group, part) = (place.block % key_heads as i64, place.block / key_heads as i64);
    let all_parts = parts_at(sizes, now);
    if part < all_parts {
        let own = place.lane % lanes as i64;
        let slot = place.thread / lanes as i64;
        let turns: Vec<[Val<f32>; 2]> = (0..pairs)
            .map(|i| [0, 1].map(|which| angles.get_or((which, now, own + (i * lanes) as i64), 0.0)))
            .collect();
        let scale = 1.0 / (head as f32).sqrt();
        let first = group * (shared * head) as i64 + at_qkv as i64;
        let queries: Vec<Vec<[Val<f32>; 2]>> = (0..shared)
            .map(|i| rotated(place, *passed, first + (i * head) as i64, &turns))
            .map(|query| query.into_iter().map(|pair| pair.map(|x| x * scale)).collect())
            .collect();
        let first = (group + heads as i64) * head as i64 + at_qkv as i64;
        let new_key = rotated(place, *passed, first, &turns);
        let first = (group + (heads + key_heads) as i64) * head as i64 + at_qkv as i64;
        let new_value: Vec<[Val<f32>; 2]> = (0..pairs)
            .map(|i| [0, 1].map(|odd| passed.get_or(first + (own + (i * lanes) as i64) * 2 + odd, 0.0)))
            .collect();
        let cache = (layer * key_heads as i64 + group) * context as i64;
        let appends = part.eq(0) & slot.eq(0);
        for i in 0..pairs {
            for odd in 0..2 {
                let at = (cache + now) * head as i64 + (own + (i * lanes) as i64) * 2 + odd as i64;
                let at = select(appends, at, NOWHERE);
                // SAFETY: one group of lanes of the launch writes them, and nobody reads them
                // before the next place.
                unsafe {
                    keys.scatter(at, new_key[i][odd]);
                    values.scatter(at, new_value[i][odd]);
                }
            }
        }
        // Of each head the greatest score, the sum of weights, and values times weights.
        let mut state = [val(0.0f32); STATE];
        for i in 0..shared {
            state[i * each] = val(f32::MIN);
        }
        let block_keys = sizes.keys() as i64;
        for begin in range_step(part * block_keys, now + 1, all_parts * block_keys) {
            let old = state;
            let number = |k: usize| begin + slot + (k * slots) as i64;
            let there: Vec<Val<bool>> = (0..KEYS).map(|k| place.works & number(k).le(now)).collect();
            let load = |from: View<f32, 1>, new: &[[Val<f32>; 2]], k: usize| -> Vec<[Val<f32>; 2]> {
                let is_new = number(k).eq(now);
                let pair = |i: usize| {
                    let at = (cache + number(k)) * head as i64 + (own + (i * lanes) as i64) * 2;
                    let old = there[k] & !is_new;
                    [0usize, 1].map(|odd| {
                        let x = from.get_or(select(old, at + odd as i64, NOWHERE), 0.0);
                        select(is_new, new[i][odd], x)
                    })
                };
                (0..pairs).map(pair).collect()
            };
            let all_keys: Vec<_> = (0..KEYS).map(|k| load(*keys, &new_key, k)).collect();
            let all_values: Vec<_> = (0..KEYS).map(|k| load(*values, &new_value, k)).collect();
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
                    select(there[k], sum_of_lanes(sum, lanes), f32::NEG_INFINITY)
                };
                let scores: Vec<Val<f32>> = (0..KEYS).map(score).collect();
                let greatest = scores.iter().fold(old[at], |most, score| most.max(*score));
                let correction = (old[at] - greatest).exp();
                fresh[at] = greatest;
                for i in 1..each {
                    fresh[at + i] = old[at + i] * correction;
                }
                for k in 0..KEYS {
                    let weight = (scores[k] - greatest).exp();
                    fresh[at + 1] = fresh[at + 1] + weight;
                    for i in 0..2 * pairs {
                        fresh[at + 2 + i] = weight.fma(all_values[k][i / 2][i % 2], fresh[at + 2 + i]);
                    }
                }
            }
            state = fresh;
        }
        for h in 0..shared {
            let at = slot * shared as i64 + h as i64;
            let writes = place.works & own.eq(0);
            // SAFETY: each group of lanes has places of its own, before the barrier.
            unsafe {
                parts.scores.scatter(select(writes, at, NOWHERE), state[h * each]);
                parts.sums.scatter(select(writes, at, NOWHERE), state[h * each + 1]);
            }
            for i in 0..2 * pairs {
                let number = (own + (i / 2 * lanes) as i64) * 2 + (i % 2) as i64;
                let at = select(place.works, at * head as i64 + number, NOWHERE);
                // SAFETY: as above.
                unsafe { parts.values.scatter(at, state[h * each + 2 + i]) };
            }
        }
        barrier();
        for e in place.own(shared * head) {
            let (h, inside) = (e.max(0) / head as i64, e.ge(0));
            let at = |slot: usize| h + (slot * shared) as i64;
            let scores: Vec<Val<f32>> =
                (0..slots).map(|slot| parts.scores.get_or(at(slot), f32::MIN)).collect();
            let greatest = scores.iter().skip(1).fold(scores[0], |most, score| most.max(*score));
            let (mut sum, mut value) = (val(0.0f32), val(0.0f32));
            for slot in 0..slots {
                let weight = (scores[slot] - greatest).exp();
                sum = weight.fma(parts.sums.get_or(at(slot), 0.0), sum);
                let number = at(slot) * head as i64 + e.max(0) % head as i64;
                value = weight.fma(parts.values.get_or(number, 0.0), value);
            }
            let to = part * heads as i64 + group * shared as i64 + h;
            let number = e.max(0) % head as i64;
            let leads = inside & number.eq(0);
            // SAFETY: each thread has places of its own, and nobody reads them before the next
            // barrier of the grid.
            unsafe {
                passed.scatter(select(inside, to * head as i64 + number + at_values as i64, NOWHERE), value);
                passed.scatter(select(leads, to * 2 + at_sums as i64, NOWHERE), greatest);
                passed.scatter(select(leads, to * 2 + 1 + at_sums as i64, NOWHERE), sum);
            }
        }
    }
}

/// Joins what blocks have attended to.
#[device]
pub fn join(place: Place, attended: Factor, passed: ViewMut<f32, 1>, now: Idx) {
    let sizes = place.sizes;
    let Sizes { heads, head, .. } = sizes;
    let [_, at_values, at_sums, ..] = sizes.passed();
    let all_parts = parts_at(sizes, now);
    for e in place.own(heads * head) {
        let mut greatest = val(f32::MIN);
        let mut sum = val(0.0f32);
        let mut value = val(0.0f32);
        for first in range_step(0, all_parts, PARTS as i64) {
            let part = |i: usize| first + i as i64;
            let at = |i: usize| part(i) * heads as i64 + e.max(0) / head as i64;
            let there = |i: usize| part(i).lt(all_parts) & e.ge(0);
            let read = |i: usize, at: Idx, other: f32| passed.get_or(select(there(i), at, NOWHERE), other);
            let scores: Vec<Val<f32>> =
                (0..PARTS).map(|i| read(i, at(i) * 2 + at_sums as i64, f32::NEG_INFINITY)).collect();
            let sums: Vec<Val<f32>> =
                (0..PARTS).map(|i| read(i, at(i) * 2 + 1 + at_sums as i64, 0.0)).collect();
            let values: Vec<Val<f32>> = (0..PARTS)
                .map(|i| read(i, at(i) * head as i64 + e.max(0) % head as i64 + at_values as i64, 0.0))
                .collect();
            let most = scores.iter().fold(greatest, |most, score| most.max(*score));
            let correction = (greatest - most).exp();
            let (mut new_sum, mut new_value) = (sum * correction, value * correction);
            for i in 0..PARTS {
                let weight = (scores[i] - most).exp();
                new_sum = weight.fma(sums[i], new_sum);
                new_value = weight.fma(values[i], new_value);
            }
            (greatest, sum, value) = (most, new_sum, new_value);
        }
        attended.put(e, value / sum);
    }
}
