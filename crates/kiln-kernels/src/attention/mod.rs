//! Scaled dot-product attention.
//!
//! | file | holds |
//! |---|---|
//! | `hopper.rs` | the kernel for GPUs of compute capability 9.0, at the explicit level |
//! | `schedule.rs` | how that is divided, and in which order |
//! | `plain.rs` | for every device, at the tile level |

pub mod hopper;
pub mod plain;
pub mod schedule;

use kiln_lang::prelude::*;
use kiln_runtime::{Error, Result, Tensor};

/// o = softmax(q kᵀ / √d) v for each head, of tensors heads × length × d; scores and sums in f32.
///
/// k and v may have fewer heads than q, of which as many neighbours share one as the numbers say ("grouped-query attention").
/// With `causal`, query i sees the keys up to i + (keys - queries): the last query sees them all. A query that sees no key gives zeros.
///
/// On a Hopper GPU, f16 and bf16 with d up to 128 and a multiple of 8, in rows that follow each other, go to the tensor cores. The same inputs give the same bits.
///
/// # Errors
/// [`Error::Shape`] unless k and v have the width of q, one length and a number of heads that divides that of q, and o the shape of q.
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
    let [heads, queries, _] = q.shape();
    let mut sums = q.device().uninit([heads, queries])?;
    attention_with_sums(q, k, v, o, &mut sums, causal)
}

/// [`attention`], and for each head and query the logarithm of the sum of e^(q kᵀ / √d): what joins results over parts of the keys, and what a
/// backward pass wants. It is -∞ for a query that sees no key.
///
/// # Errors
/// Those of [`attention`], and [`Error::Shape`] unless `sums` is heads × queries.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let (q, k) = (device.tensor(&[0.0f32], [1, 1, 1])?, device.tensor(&[1.0f32, 2.0], [1, 2, 1])?);
/// let (mut o, mut sums) = (device.uninit([1, 1, 1])?, device.uninit([1, 1])?);
/// kiln_kernels::attention_with_sums(&q, &k, &k, &mut o, &mut sums, false)?;
/// assert!((sums.to_vec()?[0] - 2.0f32.ln()).abs() < 1e-6);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn attention_with_sums<T: Float + Accumulate<Acc = f32>>(
    q: &Tensor<T, 3>,
    k: &Tensor<T, 3>,
    v: &Tensor<T, 3>,
    o: &mut Tensor<T, 3>,
    sums: &mut Tensor<f32, 2>,
    causal: bool,
) -> Result<()> {
    let ([heads, queries, width], [key_heads, count, _]) = (q.shape(), k.shape());
    // As many as there are, if they can be shared, else as many as q has.
    let key_heads = if key_heads > 0 && heads.is_multiple_of(key_heads) { key_heads } else { heads };
    let keys = [key_heads, count, width];
    check("attention, k", &keys, &k.shape())?;
    check("attention, v", &keys, &v.shape())?;
    check("attention, o", &q.shape(), &o.shape())?;
    check("attention, sums", &[heads, queries], &sums.shape())?;
    if heads > 0 && queries > 0 && schedule::suits(q.device(), &[q, k, v, o]) {
        schedule::run([q, k, v], o, sums, causal)
    } else {
        plain::run([q, k, v], o, sums, causal)
    }
}

fn check(what: &str, expected: &[usize], given: &[usize]) -> Result<()> {
    if expected == given {
        return Ok(());
    }
    Err(Error::Shape { what: what.into(), expected: expected.to_vec(), given: given.to_vec() })
}
