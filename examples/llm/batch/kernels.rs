//! What differs where rows are tokens of several conversations: each row has a conversation and a
//! place of its own.

use crate::kernels::{Heads, attention, likeliest_of, rotated};
use kiln::prelude::*;

/// Appends the keys and the values of a head (a program each) to the caches of the rows'
/// conversations. `table` has the conversations of the rows, then their places.
#[kernel]
pub fn remember(
    qkv: &Tensor<f32, 2>,
    angles: &Tensor<f32, 3>,
    table: &Tensor<i32, 2>,
    keys: &mut Tensor<f32, 4>,
    values: &mut Tensor<f32, 4>,
    heads: Heads,
) {
    let Heads { rows, count, shared, width, .. } = heads;
    let (head, one) = (program_id(0), Heads { rows: 1, ..heads });
    let first = (head + (count + count / shared) as i64) * width;
    for row in range(0, rows) {
        let [conversation, place] = [0, 1].map(|which| table.get((which, row)).cast::<i64>());
        let key = rotated(qkv, (row, head + count as i64), angles, place, one);
        let value = qkv.tile((row, first), (1, width)).load(0.0);
        keys.row(conversation).row(head).tile((0, place), (width, 1)).store(key.transpose());
        values.row(conversation).row(head).tile((place, 0), (1, width)).store(value);
    }
}

/// The attention of a head and a row (a program each) to all that came before in the row's
/// conversation.
#[kernel(contract)]
pub fn attend(
    qkv: &Tensor<f32, 2>,
    angles: &Tensor<f32, 3>,
    table: &Tensor<i32, 2>,
    keys: &Tensor<f32, 4>,
    values: &Tensor<f32, 4>,
    out: &mut Tensor<f32, 2>,
    heads: Heads,
) {
    let Heads { shared, width, .. } = heads;
    let (head, row, one) = (program_id(0), program_id(1), Heads { rows: 1, ..heads });
    let [conversation, place] = [0, 1].map(|which| table.get((which, row)).cast::<i64>());
    let query = rotated(qkv, (row, head), angles, place, one) * (1.0 / (width as f32).sqrt());
    let (keys, values) = (keys.row(conversation), values.row(conversation));
    let shared = head / shared as i64;
    let (result, sum) = attention(query, keys.row(shared), values.row(shared), place, one);
    out.tile((row, head * width), (1, width)).store(result / sum);
}

/// The likeliest token of each part of a row's logits, a program each.
#[kernel]
pub fn likeliest(
    logits: &Tensor<f32, 2>,
    places: &Tensor<i32, 1>,
    best: &mut Tensor<f32, 2>,
    token: &mut Tensor<i32, 2>,
    temperature: Val<f32>,
    seed: Val<u64>,
    part: usize,
) {
    let row = program_id(1);
    let (greatest, at, first) = likeliest_of(logits, places, row, temperature, seed, part);
    let part = program_id(0);
    best.tile((row, part), (1, 1)).store(greatest.reshape((1, 1)));
    token.tile((row, part), (1, 1)).store((at + first).cast::<i32>().reshape((1, 1)));
}

/// The likeliest token of all parts, of a row (a program each).
#[kernel]
pub fn choose(best: &Tensor<f32, 2>, token: &Tensor<i32, 2>, chosen: &mut Tensor<i32, 1>, parts: usize) {
    let row = program_id(0);
    let at = best.row(row).load(parts, f32::NEG_INFINITY).argmax();
    chosen.tile(row, 1).store(token.row(row).get(at).reshape(1));
}
