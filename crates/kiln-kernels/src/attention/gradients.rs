//! The gradients of attention: how they are asked for, and kernels at the tile level, for every
//! device.
//!
//! Nothing of the forward pass is kept but the logarithms of its sums: weights are computed again,
//! a tile at a time (Dao, "FlashAttention-2", 2023). One kernel goes through the keys that its
//! queries see, one through the queries that see its keys, so that every sum has one program and
//! the same inputs give the same bits.

use super::options::Attention;
use super::{check, gradient_schedule};
use crate::matmul::plain::has_warpgroups;
use crate::sizes::{grids, row_tile};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Execution, Result, Tensor};
use std::f32::consts::LOG2_E;

/// Kernels, for launches of one's own.
///
/// ```
/// use kiln_kernels::attention::gradients::kernels::{GradientForm, of_keys, of_queries};
/// let device = kiln_runtime::Device::open("interp")?;
/// // One key, whose weight is 1 whatever its score: only its value has a gradient.
/// let one = |x: f32| device.tensor(&[x], [1, 1, 1, 1]);
/// let (q, k, v, g) = (one(2.0)?, one(2.0)?, one(5.0)?, one(3.0)?);
/// let (sums, means) = (device.tensor(&[2.0f32 * 2.0], [1, 1, 1])?, device.tensor(&[5.0f32 * 3.0], [1, 1, 1])?);
/// let (mut of_q, mut of_kv) = (device.uninit([1, 1, 1, 1])?, device.uninit([2, 1, 1, 1, 1])?);
/// let form = GradientForm { rows: 16, columns: 16, width: 16, causal: true };
/// of_queries(&q, &k, &v, &g, &sums, &means, &mut of_q, 1.0, form).grid([1, 1, 1]).launch(&device)?;
/// of_keys(&q, &k, &v, &g, &sums, &means, &mut of_kv, 1.0, form).grid([1, 1, 1]).launch(&device)?;
/// assert_eq!((of_q.to_vec()?, of_kv.to_vec()?), (vec![0.0], vec![0.0, 3.0]));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub mod kernels {
    use super::*;

    /// What a kernel is made for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelConst)]
    #[kiln(crate = kiln_runtime)]
    pub struct GradientForm {
        /// Queries of a tile.
        pub rows: usize,
        /// Keys of a tile.
        pub columns: usize,
        /// Covers the width of a head.
        pub width: usize,
        /// Whether a query sees no key after its place.
        pub causal: bool,
    }

    /// The gradient of the queries, a tile of them a program. `sums` are the logarithms of the sums
    /// of e^(scale q kᵀ), `means` those of the results times their gradient `g`.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn of_queries<T: Float + Accumulate<Acc = f32>>(
        q: &Tensor<T, 4>,
        k: &Tensor<T, 4>,
        v: &Tensor<T, 4>,
        g: &Tensor<T, 4>,
        sums: &Tensor<f32, 3>,
        means: &Tensor<f32, 3>,
        of_q: &mut Tensor<T, 4>,
        scale: Val<f32>,
        form: GradientForm,
    ) {
        let GradientForm { rows, columns, width, causal } = form;
        let (batch, head, first) = (program_id(2), program_id(1), program_id(0) * rows);
        let length = q.extent(2);
        let (keys, values) = (k.row(batch).row(head), v.row(batch).row(head));
        let queries = q.row(batch).row(head).tile((first, 0), (rows, width)).load(0);
        let slopes = g.row(batch).row(head).tile((first, 0), (rows, width)).load(0);
        let sums = sums.row(batch).row(head).tile(first, rows).load(0) * LOG2_E;
        let means = means.row(batch).row(head).tile(first, rows).load(0);
        // Keys that all queries of the tile see, and the end of those that some of them see.
        let by_all = if causal { first / columns as i64 * columns as i64 } else { length };
        let by_some = if causal { (first + rows as i64).minimum(length) } else { length };
        let mut sum = zeros::<f32>((rows, width));
        for edge in [false, true] {
            if edge && !causal {
                continue;
            }
            let (from, to) = if edge { (by_all, by_some) } else { (val(0), by_all) };
            for key in range_step(from, to, columns) {
                let at = keys.tile((key, 0), (columns, width)).load(0);
                let scores = dot(queries, at.transpose()) * (scale * LOG2_E) - sums.expand(1);
                let weights = scores.exp2();
                let weights = if edge {
                    let place = iota::<i32>(columns).expand(0) + (key - first).cast::<i32>();
                    select(place.le(iota::<i32>(rows).expand(1)), weights, 0.0)
                } else {
                    weights
                };
                let of_weights = dot(slopes, values.tile((key, 0), (columns, width)).load(0).transpose());
                let of_scores = weights * (of_weights - means.expand(1));
                sum = dot_acc(of_scores.cast::<T>(), at, sum);
            }
        }
        let of_q = of_q.row(batch).row(head);
        of_q.tile((first, 0), (rows, width)).store((sum * scale).cast::<T>());
    }

    /// The gradients of the keys and values, a tile of them a program. Scores lie by keys here, so
    /// that they are the left factors of products.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn of_keys<T: Float + Accumulate<Acc = f32>>(
        q: &Tensor<T, 4>,
        k: &Tensor<T, 4>,
        v: &Tensor<T, 4>,
        g: &Tensor<T, 4>,
        sums: &Tensor<f32, 3>,
        means: &Tensor<f32, 3>,
        of_kv: &mut Tensor<T, 5>,
        scale: Val<f32>,
        form: GradientForm,
    ) {
        let GradientForm { rows, columns, width, causal } = form;
        let (batch, head, first) = (program_id(2), program_id(1), program_id(0) * columns);
        let length = q.extent(2);
        let (queries, slopes) = (q.row(batch).row(head), g.row(batch).row(head));
        let (sums, means) = (sums.row(batch).row(head), means.row(batch).row(head));
        let keys = k.row(batch).row(head).tile((first, 0), (columns, width)).load(0);
        let values = v.row(batch).row(head).tile((first, 0), (columns, width)).load(0);
        // The first queries that see a key of the tile, and the first that see all of them.
        let begin = if causal { first / rows as i64 * rows as i64 } else { val(0) };
        let by_all =
            if causal { (first + (columns + rows - 1) as i64) / rows as i64 * rows as i64 } else { val(0) };
        let (mut sum_k, mut sum_v) = (zeros::<f32>((columns, width)), zeros::<f32>((columns, width)));
        for edge in [true, false] {
            if edge && !causal {
                continue;
            }
            let (from, to) = if edge { (begin, by_all.minimum(length)) } else { (by_all, length) };
            // A turn ahead, so that nothing waits for them.
            let mut next_sum = sums.tile(from, rows).load(0);
            let mut next_mean = means.tile(from, rows).load(0);
            for query in range_step(from, to, rows) {
                let at = queries.tile((query, 0), (rows, width)).load(0);
                let slope = slopes.tile((query, 0), (rows, width)).load(0);
                let (sum, mean) = (next_sum * LOG2_E, next_mean);
                next_sum = sums.tile(query + rows, rows).load(0);
                next_mean = means.tile(query + rows, rows).load(0);
                let scores = dot(keys, at.transpose()) * (scale * LOG2_E) - sum.expand(0);
                let weights = scores.exp2();
                let weights = if edge {
                    let place = iota::<i32>(rows).expand(0) + (query - first).cast::<i32>();
                    select(place.ge(iota::<i32>(columns).expand(1)), weights, 0.0)
                } else {
                    weights
                };
                sum_v = dot_acc(weights.cast::<T>(), slope, sum_v);
                let of_weights = dot(values, slope.transpose());
                let of_scores = weights * (of_weights - mean.expand(0));
                sum_k = dot_acc(of_scores.cast::<T>(), at, sum_k);
            }
        }
        let (of_k, of_v) = (of_kv.row(0).row(batch).row(head), of_kv.row(1).row(batch).row(head));
        of_k.tile((first, 0), (columns, width)).store((sum_k * scale).cast::<T>());
        of_v.tile((first, 0), (columns, width)).store(sum_v.cast::<T>());
    }
}

/// What gradients of attention are computed of.
///
/// ```
/// use kiln_kernels::Attention;
/// use kiln_kernels::attention::Given;
/// let device = kiln_runtime::Device::open("interp")?;
/// // Two queries of 0 by two keys: their weights are 1/2, and the results the mean of the values.
/// let qkv = device.tensor(&[0.0f32, 1.0, 4.0, 0.0, 2.0, 8.0], [1, 2, 3, 1, 1])?;
/// let g = device.tensor(&[1.0f32, 3.0], [1, 2, 1, 1])?;
/// let [q, k, v] = [0, 1, 2].map(|part| qkv.select::<4>(2, part));
/// let (mut o, mut sums) = (device.uninit([1, 2, 1, 1])?, device.uninit([1, 1, 2])?);
/// let options = Attention::new().scale(1.0);
/// options.run_with_sums(&q?, &k?, &v?, &mut o, &mut sums)?;
/// assert_eq!(o.to_vec()?, [6.0, 6.0]);
///
/// let means = device.tensor(&[6.0f32 * 1.0, 6.0 * 3.0], [1, 1, 2])?;
/// let mut of = device.uninit([1, 2, 3, 1, 1])?;
/// options.gradients(&Given { qkv: &qkv, g: &g, sums: &sums, means: &means }, &mut of)?;
/// // Of query, key and value: queries prefer the second key, whose value is greater.
/// let expected = [1.0, 0.0, 2.0, 3.0, 0.0, 2.0f32];
/// assert!(of.to_vec()?.iter().zip(expected).all(|(x, expected)| (x - expected).abs() < 1e-5));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Given<'a, T: Elem> {
    /// Queries, keys and values of one length: batch × length × 3 × heads × width.
    pub qkv: &'a Tensor<T, 5>,
    /// The gradient of the results: batch × length × heads × width.
    pub g: &'a Tensor<T, 4>,
    /// What [`Attention::run_with_sums`] has given: batch × heads × length.
    pub sums: &'a Tensor<f32, 3>,
    /// For each query the sum of its results times their gradients: batch × heads × length.
    pub means: &'a Tensor<f32, 3>,
}

impl Attention {
    /// Writes the gradient of queries, keys and values, in their shape. There may be
    /// [`causal`](Self::causal) and [`scale`](Self::scale), but no other window and no soft cap.
    /// The same inputs give the same bits.
    ///
    /// On a Hopper GPU, f16 and bf16 of widths up to 128 that are multiples of 8, at addresses and
    /// strides of multiples of 16 bytes, go to the tensor cores by
    /// [`hopper_gradients`](super::hopper_gradients).
    ///
    /// ```
    /// use kiln_kernels::Attention;
    /// use kiln_kernels::attention::Given;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// // One head of one query, whose weight is 1: the gradient of the value is that of the result.
    /// let (qkv, g) = (device.tensor(&[2.0f32; 3], [1, 1, 3, 1, 1])?, device.tensor(&[3.0f32], [1, 1, 1, 1])?);
    /// let x = qkv.select::<4>(2, 0)?;
    /// let (mut o, mut sums) = (device.uninit([1, 1, 1, 1])?, device.uninit([1, 1, 1])?);
    /// Attention::new().run_with_sums(&x, &x, &x, &mut o, &mut sums)?;
    /// let means = device.tensor(&[6.0f32], [1, 1, 1])?;
    /// let mut of = device.uninit([1, 1, 3, 1, 1])?;
    /// let given = Given { qkv: &qkv, g: &g, sums: &sums, means: &means };
    /// Attention::new().gradients(&given, &mut of)?;
    /// assert_eq!(of.to_vec()?, [0.0, 0.0, 3.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shape`] for tensors of other shapes; [`Error::Value`] for other options; those of a
    /// launch.
    pub fn gradients<T: Float + Accumulate<Acc = f32>>(
        &self,
        given: &Given<'_, T>,
        to: &mut Tensor<T, 5>,
    ) -> Result<()> {
        let causal = match (self.left, self.right, self.soft_cap) {
            (None, None, None) => false,
            (None, Some(0), None) => true,
            _ => {
                let (what, given) = ("attention, gradients".into(), "a window or a soft cap".into());
                return Err(Error::Value {
                    what,
                    expected: "no option but `causal` and `scale`".into(),
                    given,
                });
            }
        };
        let Given { qkv, g, sums, means } = given;
        let [batch, length, _, heads, width] = qkv.shape();
        let expected = [batch, length, 3, heads, width];
        check("attention, gradients, qkv", &expected, &qkv.shape())?;
        check("attention, gradients, result", &expected, &to.shape())?;
        check("attention, gradients, g", &[batch, length, heads, width], &g.shape())?;
        check("attention, gradients, sums", &[batch, heads, length], &sums.shape())?;
        check("attention, gradients, means", &[batch, heads, length], &means.shape())?;
        let g = g.permute([0, 2, 1, 3])?;
        let part = |x: &Tensor<T, 5>, part: usize| x.select::<4>(2, part)?.permute([0, 2, 1, 3]);
        let (q, k, v, of_q) = (part(qkv, 0)?, part(qkv, 1)?, part(qkv, 2)?, part(to, 0)?);
        let of_kv = to.slice(2, 1..3)?.permute([2, 0, 3, 1, 4])?;
        let scale = self.scale.unwrap_or(1.0 / (width as f32).sqrt());
        let problem = gradient_schedule::Problem { q, k, v, g, sums, means, of_q, of_kv, scale, causal };
        if gradient_schedule::suits(&problem) {
            return gradient_schedule::run(problem);
        }
        let gradient_schedule::Problem { q, k, v, g, of_q, of_kv, .. } = problem;
        let (rows, columns) = tile::<T>(q.device(), width);
        let form = kernels::GradientForm { rows, columns, width: row_tile(width), causal };
        let device = q.device().clone();
        for [heads, batch] in grids(&device, [heads, batch], [1; 2]) {
            let grid =
                |tile: usize| [length.div_ceil(tile), heads.len(), batch.len()].map(|extent| extent as u32);
            let part = |t: &Tensor<T, 4>| t.slice(0, batch.clone())?.slice(1, heads.clone());
            let of = |t: &Tensor<f32, 3>| t.slice(0, batch.clone())?.slice(1, heads.clone());
            let (q, k, v, g, mut of_q) = (part(&q)?, part(&k)?, part(&v)?, part(&g)?, part(&of_q)?);
            let (sums, means) = (of(sums)?, of(means)?);
            let mut of_kv = of_kv.slice(1, batch.clone())?.slice(2, heads.clone())?;
            let of_queries = kernels::of_queries(&q, &k, &v, &g, &sums, &means, &mut of_q, scale, form);
            of_queries.grid(grid(rows)).launch(&device)?;
            let of_keys = kernels::of_keys(&q, &k, &v, &g, &sums, &means, &mut of_kv, scale, form);
            of_keys.grid(grid(columns)).launch(&device)?;
        }
        Ok(())
    }
}

/// Queries and keys of a tile.
fn tile<T: Elem>(device: &Device, width: usize) -> (usize, usize) {
    let narrow = row_tile(width) <= 64;
    match device.capabilities().execution {
        Execution::Simd => (64, 64),
        Execution::Simt if size_of::<T>() == 2 && (narrow || has_warpgroups(device)) => (64, 64),
        Execution::Simt if narrow => (32, 32),
        Execution::Simt => (16, 32),
        Execution::Interpreted => (16, 16),
    }
}
