//! The kernel: attention that never writes its scores down.
//!
//! Each of `n` queries asks every key how well they match, makes weights of the scores, and sums
//! the values by weight:
//!
//! ```text
//!     scores = q kᵀ / √d          n × n numbers
//!     weights = softmax(scores)   n × n numbers
//!     o = weights v               n × d
//! ```
//!
//! Written like this, the two squares travel through memory four times. They need not exist: a
//! softmax can be corrected after the fact. Suppose the keys come in parts, and of the parts so far
//! we keep for each query
//!
//! ```text
//!     m = the greatest score,   s = Σ e^(score - m),   a = Σ e^(score - m) · value
//! ```
//!
//! When the next part brings a greater score m', all that was summed has the wrong reference, and
//! all of it by the same factor: multiplied by e^(m - m'), s and a are what they would be had we
//! known m' from the start. At the end o = a / s, exactly. So a program holds some queries with
//! their m, s and a in registers, and keys and values pass by (Milakov and Gimelshein, "Online
//! normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).

use kiln::prelude::*;

/// Queries of a program, and keys that pass by at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, KernelConst)]
pub struct Tile {
    pub queries: usize,
    pub keys: usize,
    /// The width of a head, a power of two.
    pub width: usize,
}

/// o = softmax(q kᵀ / √d) v for each head, of tensors heads × length × width.
#[kernel]
pub fn flash(q: &Tensor<f32, 3>, k: &Tensor<f32, 3>, v: &Tensor<f32, 3>, o: &mut Tensor<f32, 3>, tile: Tile) {
    // A program for each head and each tile of its queries, which it reads once.
    let (head, first) = (program_id(1), program_id(0) * tile.queries);
    let scale = 1.0 / (tile.width as f32).sqrt();
    let queries = q.row(head).tile((first, 0), (tile.queries, tile.width)).load(0.0) * scale;

    let mut greatest = full::<f32>(tile.queries, f32::MIN);
    let mut sum = zeros::<f32>(tile.queries);
    let mut out = zeros::<f32>((tile.queries, tile.width));
    for at in range_step(0, k.extent(1), tile.keys) {
        let keys = k.row(head).tile((at, 0), (tile.keys, tile.width)).load(0.0);
        let values = v.row(head).tile((at, 0), (tile.keys, tile.width)).load(0.0);
        // Keys beyond the last were loaded as zeros: they match no query.
        let known = (iota::<i64>(tile.keys) + at).lt(k.extent(1));
        let scores = select(known.expand(0), dot(queries, keys.transpose()), f32::NEG_INFINITY);

        let now = greatest.maximum(scores.max_axis(1));
        let weights = (scores - now.expand(1)).exp();
        let correction = (greatest - now).exp();
        sum = sum * correction + weights.sum_axis(1);
        out = dot_acc(weights, values, out * correction.expand(1));
        greatest = now;
    }
    o.row(head).tile((first, 0), (tile.queries, tile.width)).store(out / sum.expand(1));
}
