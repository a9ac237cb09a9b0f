//! Attention of a sequence to itself.

use super::layers::Linear;
use super::module::implement_module;
use super::random::Key;
use crate::array::attention::attention;
use crate::error::Error;
use crate::node::Array;
use kiln_runtime::Device;
use std::panic::Location;

/// Attention of each place of a sequence to the places of the same sequence, by several heads
/// (Vaswani and others, "Attention Is All You Need", 2017).
///
/// Weights are kept neither for the result nor for its gradient: kernels compute them again, a tile
/// at a time (Dao, "FlashAttention-2", 2023). Gradients of gradients, and those in f64, need memory
/// for `batch · heads · length²` weights.
///
/// ```
/// use kiln_array::nn::{Attention, Key};
/// use kiln_array::{Array, Scalar};
/// let device = kiln_runtime::Device::open("cpu")?;
/// let layer = Attention::new(&device, Key::new(1), 8, 2).causal();
/// let x = Key::new(2).normal(&device, &[1, 5, 8]);
/// let y = layer.forward(&x);
/// assert_eq!(y.shape(), [1, 5, 8]);
/// // The first places know nothing of the last one.
/// let other = layer.forward(&(&x * (Array::arange(&device, 5).less(4).cast(Scalar::F32)).unsqueeze(1)));
/// let [y, other] = [y, other].map(|y| y.slice(1, ..4));
/// assert!((y - other).abs().max().item::<f32>()? < 1e-6);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Attention {
    /// Queries, keys and values of all heads: `[3 · width, width]`.
    pub qkv: Linear,
    /// What joins the heads: `[width, width]`.
    pub out: Linear,
    /// The number of heads, which divides the width.
    pub heads: usize,
    /// Whether a place sees only itself and those before.
    pub causal: bool,
}
implement_module!(Attention { qkv out } heads causal);

impl Attention {
    /// Makes one of f32 in which each place sees all, with normal weights of deviation 0.02.
    #[track_caller]
    pub fn new(device: &Device, key: Key, width: usize, heads: usize) -> Attention {
        let [qkv, out] = key.split();
        let qkv = Linear::normal(device, qkv, width, width.saturating_mul(3), 0.02);
        Attention { qkv, out: Linear::normal(device, out, width, width, 0.02), heads, causal: false }
    }

    /// Lets a place see only itself and those before.
    pub fn causal(self) -> Attention {
        Attention { causal: true, ..self }
    }

    /// The attention of an input `[batch, length, width]`, of the same shape. Weights are computed
    /// in f32 or wider.
    ///
    /// # Errors
    /// The result has an error if x has other axes, or the heads do not divide its width.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let location = Location::caller();
        if let Some(error) = x.error() {
            return Array::failed(error, location);
        }
        let &[batch, length, width] = x.shape() else {
            let problem = format!("x has shape {:?} instead of [batch, length, width]", x.shape());
            return Array::failed(Error::Shape { op: "attention", problem, location }, location);
        };
        if self.heads == 0 || !width.is_multiple_of(self.heads) {
            let problem = format!("{} heads do not divide a width of {width}", self.heads);
            return Array::failed(Error::Shape { op: "attention", problem, location }, location);
        }
        let qkv = self.qkv.forward(x).reshape(&[batch, length, 3, self.heads, width / self.heads]);
        // The layer may be of another width, or on another device.
        if let Some(error) = qkv.error() {
            return Array::failed(error, location);
        }
        let joined = attention(&qkv, self.causal, location).reshape(&[batch, length, width]);
        self.out.forward(&joined)
    }
}
