//! Attention at the tile level, for every device.

use crate::sizes::row_tile;
use kiln_lang::prelude::*;
use kiln_runtime::{BackendKind, Device, Error, Result, Tensor};

/// Kernels, for launches of one's own.
pub mod kernels {
    use super::*;

    /// o = softmax(scale q kᵀ) v for each head, `rows` queries a program, `columns` keys at a time, of which no score outlives its turn: each turn
    /// rescales what the turns before have summed (Dao, "FlashAttention-2", 2023). `width` covers the width of a head.
    ///
    /// With `causal`, a query sees the keys up to its own place, where the last query has the place of the last key. A query that sees no key gives zeros.
    #[kernel(crate = kiln_runtime)]
    pub fn attention<T: Float + Accumulate<Acc = f32>>(
        q: &Tensor<T, 3>,
        k: &Tensor<T, 3>,
        v: &Tensor<T, 3>,
        o: &mut Tensor<T, 3>,
        scale: Val<f32>,
        causal: bool,
        rows: usize,
        columns: usize,
        width: usize,
    ) {
        let (head, first) = (program_id(1), program_id(0) * rows);
        let queries = q.row(head).tile((first, 0), (rows, width)).load(0);
        let (keys, values, count) = (k.row(head), v.row(head), k.extent(1));
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
        let result = select(sum.gt(0.0).expand(1), out / sum.expand(1), 0.0);
        o.row(head).tile((first, 0), (rows, width)).store(result.cast::<T>());
    }
}

/// o = softmax(q kᵀ / √d) v for each head, of tensors heads × length × d; scores and sums in f32.
///
/// With `causal`, query i sees the keys up to i + (keys - queries): the last query sees them all. A query that sees no key gives zeros.
///
/// # Errors
/// [`Error::Shape`] unless k and v have the heads and the width of q, one length, and o the shape of q.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let (q, k) = (device.tensor(&[0.0f32, 0.0], [1, 2, 1])?, device.tensor(&[1.0f32, 2.0], [1, 2, 1])?);
/// let v = device.tensor(&[1.0f32, 3.0], [1, 2, 1])?;
/// let mut o = device.uninit([1, 2, 1])?;
/// kiln_kernels::attention(&q, &k, &v, &mut o, true)?;
/// assert_eq!(o.to_vec()?, [1.0, 2.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn attention<T: Float + Accumulate<Acc = f32>>(
    q: &Tensor<T, 3>,
    k: &Tensor<T, 3>,
    v: &Tensor<T, 3>,
    o: &mut Tensor<T, 3>,
    causal: bool,
) -> Result<()> {
    let ([heads, _, width], [_, count, _]) = (q.shape(), k.shape());
    let keys = [heads, count, width];
    for (what, expected, given) in [
        ("attention, k", keys, k.shape()),
        ("attention, v", keys, v.shape()),
        ("attention, o", q.shape(), o.shape()),
    ] {
        if expected != given {
            return Err(Error::Shape {
                what: what.into(),
                expected: expected.to_vec(),
                given: given.to_vec(),
            });
        }
    }
    let device = q.device().clone();
    let (rows, columns) = tile(&device);
    let scale = 1.0 / (width as f32).sqrt();
    kernels::attention(q, k, v, o, scale, causal, rows, columns, row_tile(width)).launch(&device)
}

/// The queries of a program, and the keys of a turn.
fn tile(device: &Device) -> (usize, usize) {
    match device.properties().kind {
        BackendKind::Cpu => (128, 128),
        BackendKind::Cuda => (32, 32),
        BackendKind::Interp => (16, 16),
    }
}
