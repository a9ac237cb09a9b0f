//! Attention at the tile level, for every device.

use crate::sizes::row_tile;
use kiln_lang::prelude::*;
use kiln_runtime::{BackendKind, Device, Result, Tensor};

/// Kernels, for launches of one's own.
pub mod kernels {
    use super::*;

    /// o = softmax(scale q kᵀ) v for each head, `rows` queries a program, `columns` keys at a time, of which no score outlives its turn: each turn
    /// rescales what the turns before have summed (Dao, "FlashAttention-2", 2023). `width` covers the width of a head.
    ///
    /// `sums` are the logarithms of the sums of e^(scale q kᵀ). So many heads of q in a row are `shared` by one of k and v.
    ///
    /// With `causal`, a query sees the keys up to its own place, where the last query has the place of the last key. A query that sees no key gives zeros.
    #[kernel(crate = kiln_runtime)]
    pub fn attention<T: Float + Accumulate<Acc = f32>>(
        q: &Tensor<T, 3>,
        k: &Tensor<T, 3>,
        v: &Tensor<T, 3>,
        o: &mut Tensor<T, 3>,
        sums: &mut Tensor<f32, 2>,
        scale: Val<f32>,
        causal: bool,
        shared: usize,
        rows: usize,
        columns: usize,
        width: usize,
    ) {
        let (head, first) = (program_id(1), program_id(0) * rows);
        let queries = q.row(head).tile((first, 0), (rows, width)).load(0);
        let (keys, values, count) = (k.row(head / shared), v.row(head / shared), k.extent(1));
        // The place of the program's first query among the keys, the keys that one of its queries sees, and those that all see.
        let place = first + count - q.extent(1);
        let seen = if causal { (place + rows as i64).minimum(count) } else { count };
        let by_all = if causal { (place + 1).minimum(count).maximum(0) } else { count };
        let whole = by_all / columns as i64 * columns as i64;

        let mut greatest = full::<f32>(rows, f32::MIN);
        let mut sum = zeros::<f32>(rows);
        let mut out = zeros::<f32>((rows, width));
        for edge in [false, true] {
            let (from, to) = if edge { (whole, seen) } else { (val(0), whole) };
            for at in range_step(from, to, columns) {
                let scores = dot(queries, keys.tile((at, 0), (columns, width)).load(0).transpose()) * scale;
                let scores = if edge {
                    let key = iota::<i64>(columns).expand(0) + at;
                    let known = key.lt(count);
                    let allowed =
                        if causal { known & key.le(iota::<i64>(rows).expand(1) + place) } else { known };
                    select(allowed, scores, f32::NEG_INFINITY)
                } else {
                    scores
                };
                let next = greatest.maximum(scores.max_axis(1));
                let weights = (scores - next.expand(1)).exp();
                let shrink = (greatest - next).exp();
                sum = sum * shrink + weights.sum_axis(1);
                out = dot_acc(
                    weights.cast::<T>(),
                    values.tile((at, 0), (columns, width)).load(0),
                    out * shrink.expand(1),
                );
                greatest = next;
            }
        }
        let logarithm = select(sum.gt(0.0), greatest + sum.log(), f32::NEG_INFINITY);
        sums.row(head).tile(first, rows).store(logarithm);
        let result = select(sum.gt(0.0).expand(1), out / sum.expand(1), 0.0);
        o.row(head).tile((first, 0), (rows, width)).store(result.cast::<T>());
    }
}

/// Runs the kernel with tiles that suit the device.
pub(super) fn run<T: Float + Accumulate<Acc = f32>>(
    [q, k, v]: [&Tensor<T, 3>; 3],
    o: &mut Tensor<T, 3>,
    sums: &mut Tensor<f32, 2>,
    causal: bool,
) -> Result<()> {
    let device = q.device().clone();
    let ([heads, _, width], [key_heads, ..]) = (q.shape(), k.shape());
    let (rows, columns) = tile(&device);
    let scale = 1.0 / (width as f32).sqrt();
    let shared = heads / key_heads.max(1);
    kernels::attention(q, k, v, o, sums, scale, causal, shared.max(1), rows, columns, row_tile(width))
        .launch(&device)
}

/// The queries of a program, and the keys of a turn.
fn tile(device: &Device) -> (usize, usize) {
    match device.properties().kind {
        BackendKind::Cpu => (128, 128),
        BackendKind::Cuda => (32, 32),
        BackendKind::Interp => (16, 16),
    }
}
