//! Attention of one query for each sequence to the keys and values of the tokens so far.

use crate::dtype::accumulator;
use crate::error::{Error, Site};
use crate::grad::{custom_vjp, vjp};
use crate::node::{Array, Made};
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::Scalar;
use std::panic::Location;

/// The element types that the kernels take.
const OF_KERNELS: [Scalar; 3] = [Scalar::F32, Scalar::F16, Scalar::BF16];

/// Attention of one query for each sequence, which has the place of its last key, to all keys of
/// that sequence: what a language model does for each token that it adds. `q` is
/// `[sequences, heads, width]`, `k` and `v` are `[sequences, room, key heads, width]`, and
/// `lengths` integers that say how many keys each sequence has. Neighboring heads of queries share
/// one of keys where there are fewer of these.
///
/// It is [`decode`](kiln_kernels::Attention::decode) of the kernel library: keys are read once for
/// all heads that share them, in parts that many programs share out. What lies behind a sequence's
/// keys is not looked at, and a sequence without keys gives zeros.
///
/// ```
/// use kiln_array::nn::decode_attention;
/// use kiln_array::{Array, Scalar};
/// let device = kiln_runtime::Device::open("interp")?;
/// // 2 sequences, of which the second has 1 key; room for 3.
/// let zeros = |shape: &[usize]| Array::zeros(&device, Scalar::F32, shape);
/// let (q, k) = (zeros(&[2, 1, 1]), zeros(&[2, 3, 1, 1]));
/// let v = Array::new(&device, &[1.0f32, 3.0, 5.0, 7.0, 8.0, 9.0], &[2, 3, 1, 1]);
/// let o = decode_attention(&q, &k, &v, &Array::new(&device, &[3, 1], &[2]));
/// assert_eq!(o.to_vec::<f32>()?, [3.0, 7.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The result has an error unless the shapes are these, the key heads divide the heads, q, k and v
/// are floats of one type, and lengths are integers.
#[track_caller]
pub fn decode_attention(q: &Array, k: &Array, v: &Array, lengths: &Array) -> Array {
    let site = Location::caller();
    if let Some(error) = [q, k, v, lengths].into_iter().find_map(Array::error) {
        return Array::failed(error, site);
    }
    if let Some(problem) = problem(q, k, v, lengths) {
        return Array::failed(Error::Shape { op: "decode_attention", problem, location: site }, site);
    }
    let lengths = lengths.cast_at(Scalar::I32, site);
    if !OF_KERNELS.contains(&q.dtype()) || q.is_empty() || k.is_empty() {
        return written_down(q, k, v, &lengths, site);
    }
    let of_lengths = lengths.clone();
    custom_vjp(
        &[q, k, v],
        |of| {
            Array::record(&[&of[0], &of[1], &of[2], &of_lengths], site, || {
                let (dtype, shape) = (of[0].dtype(), Extents::from_slice(of[0].shape()));
                Ok(Made { op: Op::Decode, dtype, shape })
            })
        },
        move |of, _, g| {
            let at = (of[0].clone(), of[1].clone(), of[2].clone());
            let of = |(q, k, v): &(Array, Array, Array)| written_down(q, k, v, &lengths, site);
            let (_, pull_back) = vjp(of, &at);
            let (q, k, v) = pull_back(g);
            vec![q, k, v]
        },
    )
}

/// What is wrong with shapes and types.
fn problem(q: &Array, k: &Array, v: &Array, lengths: &Array) -> Option<String> {
    let (&[sequences, heads, width], &[of_k, _, key_heads, width_of_k]) = (q.shape(), k.shape()) else {
        return Some(format!(
            "q of shape {:?} and k of shape {:?} instead of [sequences, heads, width] and \
             [sequences, room, key heads, width]",
            q.shape(),
            k.shape()
        ));
    };
    if (sequences, width) != (of_k, width_of_k) || k.shape() != v.shape() {
        return Some(format!(
            "q of shape {:?}, k of shape {:?} and v of shape {:?}",
            q.shape(),
            k.shape(),
            v.shape()
        ));
    }
    if key_heads == 0 || !heads.is_multiple_of(key_heads) {
        return Some(format!("{key_heads} heads of keys do not divide {heads} heads"));
    }
    if lengths.shape() != [sequences] || !lengths.dtype().is_int() {
        let (shape, dtype) = (lengths.shape(), lengths.dtype());
        return Some(format!("lengths {shape:?} of {dtype} instead of one integer for each sequence"));
    }
    let is_float = q.dtype().is_float();
    if !is_float || q.dtype() != k.dtype() || q.dtype() != v.dtype() {
        return Some(format!("q, k and v of {}, {} and {}", q.dtype(), k.dtype(), v.dtype()));
    }
    None
}

/// The same in products, a mask and a softmax, in f32 or wider.
fn written_down(q: &Array, k: &Array, v: &Array, lengths: &Array, site: Site) -> Array {
    let (dtype, wide) = (q.dtype(), accumulator(q.dtype()));
    let [sequences, room, key_heads, width] = [0, 1, 2, 3].map(|axis| k.shape()[axis]);
    let shared = q.shape()[1] / key_heads.max(1);
    let queries = q.cast_at(wide, site).reshape(&[sequences, key_heads, shared, width]);
    let [keys, values] = [k, v].map(|x| x.cast_at(wide, site).swap_axes(1, 2));
    let scores = queries.matmul(&keys.swap_axes(-1, -2)) * (1.0 / (width as f64).sqrt());
    let Some(device) = q.device() else { return q.clone() };
    let seen = Array::arange(device, room).less(lengths.reshape(&[-1, 1]).cast_at(Scalar::I64, site));
    let mask = seen.reshape(&[sequences, 1, 1, room]);
    let scores = scores.where_(&mask, -1e30);
    let weights = if room == 0 { scores } else { scores.softmax(-1) };
    // Those of a sequence without keys are equal, and no number behind the keys may count.
    let weights = weights.where_(&mask, 0.0);
    let values = values.where_(&seen.reshape(&[sequences, 1, room, 1]), 0.0);
    weights.matmul(&values).reshape(q.shape()).cast_at(dtype, site)
}
