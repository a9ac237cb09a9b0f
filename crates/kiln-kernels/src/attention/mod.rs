//! Scaled dot-product attention.
//!
//! | file | holds |
//! |---|---|
//! | `options.rs` | [`Attention`]: what can be asked for, of tensors of one length |
//! | `packed.rs` | [`Packed`]: the same for sequences of any lengths that follow each other |
//! | `cache.rs`, `decoding.rs` | [`Cache`]: keys and values of tokens so far; one query to them |
//! | `heads.rs` | the tensors, as the kernels see them |
//! | `gradients.rs` | the gradients of queries, keys and values |
//! | `hopper_gradients.rs` | the kernels for that of GPUs of compute capability 9.0 |
//! | `gradient_schedule.rs` | how those are divided |
//! | `plain.rs` | the kernel for every device, at the tile level |
//! | `hopper.rs` | the kernel for GPUs of compute capability 9.0, at the explicit level |
//! | `schedule.rs` | how that is divided, and in which order |
//! | `ways.rs` | which of the two, with which tiles |

mod cache;
pub mod decoding;
mod gradient_schedule;
pub mod gradients;
mod heads;
pub mod hopper;
pub mod hopper_gradients;
mod options;
mod packed;
pub mod plain;
pub mod schedule;
mod ways;

pub use cache::Cache;
pub use gradients::Given;
pub use heads::Heads;
pub use options::Attention;
pub use packed::{Packed, Start};

use self::options::Mask;
use self::ways::Way;
use crate::Tuning;
use kiln_lang::prelude::*;
use kiln_runtime::{Error, Result, Tensor};

/// o = softmax(q kᵀ / √d) v for each head, of tensors heads × length × d: [`Attention`] with no
/// options, or with [`causal`](Attention::causal).
///
/// # Errors
/// Those of [`Attention::run`].
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
    shorthand(causal).run(q, k, v, o)
}

/// [`attention`], and for each head and query the logarithm of the sum of e^(q kᵀ / √d), as
/// [`Attention::run_with_sums`] gives it.
///
/// # Errors
/// Those of [`Attention::run_with_sums`].
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
    shorthand(causal).run_with_sums(q, k, v, o, sums)
}

fn shorthand(causal: bool) -> Attention {
    if causal { Attention::new().causal() } else { Attention::new() }
}

/// What is asked of a kernel; tensors are batch × heads × length × width.
struct Problem<'a, T: Elem> {
    q: Tensor<T, 4>,
    k: Tensor<T, 4>,
    v: Tensor<T, 4>,
    o: Tensor<T, 4>,
    /// Batch × heads × queries.
    sums: Tensor<f32, 3>,
    packed: Option<&'a Packed>,
    mask: Mask,
    scale: f32,
    soft_cap: Option<f32>,
    tuning: Tuning,
}

/// Runs the kernel that suits device and tensors.
fn dispatch<T: Float + Accumulate<Acc = f32>>(problem: Problem<'_, T>) -> Result<()> {
    let way = ways::choose(&problem)?;
    problem.run(way)
}

impl<T: Float + Accumulate<Acc = f32>> Problem<'_, T> {
    fn run(self, way: Way) -> Result<()> {
        match way {
            Way::Explicit { tasks, keys, stages } => schedule::run(self, (tasks, keys, stages)),
            Way::Plain { queries, keys } => plain::run(self, (queries, keys)),
        }
    }
}

fn check(what: &str, expected: &[usize], given: &[usize]) -> Result<()> {
    if expected == given {
        return Ok(());
    }
    Err(Error::Shape { what: what.into(), expected: expected.to_vec(), given: given.to_vec() })
}
