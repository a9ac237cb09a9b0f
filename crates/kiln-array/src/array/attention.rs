//! Attention of sequences to themselves: by kernels of the library, which keep no weights, or
//! written down.

use super::join::stack;
use crate::dtype::accumulator;
use crate::error::Site;
use crate::grad::custom_vjp;
use crate::node::{Array, Made};
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::Scalar;
use smallvec::smallvec;

/// The element types that the kernels take.
const OF_KERNELS: [Scalar; 3] = [Scalar::F32, Scalar::F16, Scalar::BF16];

/// The attention of queries, keys and values `[batch, length, 3, heads, width]`:
/// `[batch, length, heads, width]`.
pub(crate) fn attention(qkv: &Array, causal: bool, site: Site) -> Array {
    if qkv.is_empty() {
        // There is nothing to compute, and nothing to take a maximum of.
        let qkv = qkv.ordered(Extents::from_slice(&[2, 0, 1, 3, 4]), site);
        return qkv.select(0, 0);
    }
    if !OF_KERNELS.contains(&qkv.dtype()) {
        return WrittenDown::of(qkv, causal, site).results();
    }
    custom_vjp(
        &[qkv],
        |of| {
            let mut shape = Extents::from_slice(of[0].shape());
            shape.remove(2);
            Array::record(&[&of[0]], site, || {
                Ok(Made { op: Op::Attention { causal }, dtype: of[0].dtype(), shape })
            })
        },
        move |of, o, g| vec![gradient(&of[0], o, g, causal, site)],
    )
}

/// The gradient of queries, keys and values, of that of the results. A gradient of it is that of
/// what is written down.
fn gradient(qkv: &Array, o: &Array, g: &Array, causal: bool, site: Site) -> Array {
    let sums = Array::record(&[qkv], site, || {
        let shape = smallvec![qkv.shape()[0], qkv.shape()[3], qkv.shape()[1]];
        Ok(Made { op: Op::AttentionSums { causal }, dtype: Scalar::F32, shape })
    });
    let means = (g.cast_at(Scalar::F32, site) * o.cast_at(Scalar::F32, site)).sum_axes(&[-1]);
    let by_kernels = Array::record(&[qkv, g, &sums, &means], site, || {
        let shape = Extents::from_slice(qkv.shape());
        Ok(Made { op: Op::AttentionGradient { causal }, dtype: qkv.dtype(), shape })
    });
    let written_down = WrittenDown::of(qkv, causal, site).gradient(g);
    custom_vjp(&[&written_down], |_| by_kernels, |_, _, g| vec![g.clone()])
}

/// Attention in products, a mask and a softmax, in f32 or wider.
struct WrittenDown {
    /// `[batch, heads, length, width]`.
    q: Array,
    k: Array,
    v: Array,
    /// `[batch, heads, queries, keys]`.
    weights: Array,
    /// What scores are multiplied by.
    scale: f64,
    dtype: Scalar,
    site: Site,
}

impl WrittenDown {
    fn of(qkv: &Array, causal: bool, site: Site) -> WrittenDown {
        let (length, width) = (qkv.shape()[1], qkv.shape()[4]);
        let wide = qkv.cast_at(accumulator(qkv.dtype()), site);
        let by_head = wide.ordered(Extents::from_slice(&[2, 0, 3, 1, 4]), site);
        let [q, k, v] = [0, 1, 2].map(|part| by_head.select(0, part));
        let scale = 1.0 / (width as f64).sqrt();
        let scores = q.matmul(&k.swap_axes(-1, -2)) * scale;
        let scores = match (causal, qkv.device()) {
            (true, Some(device)) => {
                let place = Array::arange(device, length);
                let seen = place.unsqueeze(1).greater_equal(&place);
                scores.where_(&seen, f64::NEG_INFINITY)
            }
            _ => scores,
        };
        WrittenDown { q, k, v, weights: scores.softmax(-1), scale, dtype: qkv.dtype(), site }
    }

    fn results(&self) -> Array {
        self.weights.matmul(&self.v).swap_axes(1, 2).cast_at(self.dtype, self.site)
    }

    fn gradient(&self, g: &Array) -> Array {
        let g = g.cast_at(self.weights.dtype(), self.site).swap_axes(1, 2);
        let of_v = self.weights.swap_axes(-1, -2).matmul(&g);
        let of_weights = g.matmul(&self.v.swap_axes(-1, -2));
        let mean = (&of_weights * &self.weights).sum_keep(&[-1]);
        let of_scores = (of_weights - mean) * &self.weights * self.scale;
        let (of_q, of_k) = (of_scores.matmul(&self.k), of_scores.swap_axes(-1, -2).matmul(&self.q));
        let all = stack(&[&of_q, &of_k, &of_v], 0);
        all.ordered(Extents::from_slice(&[1, 3, 0, 2, 4]), self.site).cast_at(self.dtype, self.site)
    }
}
