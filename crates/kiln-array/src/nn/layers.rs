//! Linear layers, embeddings, norms, gated layers.

use super::module::implement_module;
use super::random::Key;
use crate::dtype::{Kind, kind};
use crate::error::Error;
use crate::node::Array;
use crate::weight_products::WeightProducts;
use kiln_ir::Scalar;
use kiln_runtime::Device;
use std::panic::Location;

/// x · weightᵀ + bias, along the last axis.
///
/// ```
/// use kiln_array::Array;
/// use kiln_array::nn::Linear;
/// let device = kiln_runtime::Device::open("interp")?;
/// let weight = Array::new(&device, &[1.0f32, 2.0, 3.0, 0.0, 1.0, 0.0], &[2, 3]);
/// let layer = Linear { weight, bias: Some(Array::new(&device, &[10.0f32, 20.0], &[2])) };
/// let x = Array::new(&device, &[1.0f32, 1.0, 1.0], &[1, 3]);
/// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [16.0, 21.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[outputs, inputs]`, as in files of PyTorch.
    pub weight: Array,
    /// `[outputs]`.
    pub bias: Option<Array>,
}
implement_module!(Linear { weight bias });

impl Linear {
    /// Makes a layer of f32 with uniform weights in ±√(6 / inputs) (He and others, "Delving Deep
    /// into Rectifiers") and a bias of zeros.
    #[track_caller]
    pub fn new(device: &Device, key: Key, inputs: usize, outputs: usize) -> Linear {
        let bound = (6.0 / inputs.max(1) as f64).sqrt();
        let weight = key.uniform(device, &[outputs, inputs]) * (2.0 * bound) - bound;
        Linear { weight, bias: Some(Array::zeros(device, Scalar::F32, &[outputs])) }
    }

    /// Makes a layer of f32 with normal weights of a deviation and a bias of zeros, as transformers
    /// begin with.
    ///
    /// ```
    /// # use kiln_array::nn::{Key, Linear};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let layer = Linear::normal(&device, Key::new(1), 100, 100, 0.02);
    /// let deviation = layer.weight.square().mean().sqrt().item::<f32>()?;
    /// assert!((deviation - 0.02).abs() < 0.001);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn normal(device: &Device, key: Key, inputs: usize, outputs: usize, deviation: f64) -> Linear {
        let weight = key.normal(device, &[outputs, inputs]) * deviation;
        Linear { weight, bias: Some(Array::zeros(device, Scalar::F32, &[outputs])) }
    }

    /// The layer of an input `[…, inputs]`: `[…, outputs]`. Under [`Mixed::fp8`](super::Mixed::fp8)
    /// the product is one of 8-bit floats.
    ///
    /// # Errors
    /// The result has an error if x has another last axis.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        if let (&[.., width], &[.., inputs]) = (x.shape(), self.weight.shape())
            && width != inputs
        {
            let location = Location::caller();
            let problem = format!("x has shape {:?}, and the layer {inputs} inputs", x.shape());
            return Array::failed(Error::Shape { op: "linear", problem, location }, location);
        }
        let transposed = self.weight.swap_axes(-1, -2);
        let of_floats = [x, &transposed].iter().all(|of| kind(of.dtype()) == Kind::Float);
        let product = match WeightProducts::current() {
            WeightProducts::Fp8 if of_floats && x.rank() > 0 && transposed.rank() == 2 => {
                x.matmul_fp8(&transposed)
            }
            WeightProducts::Fp8 | WeightProducts::AsGiven => x.matmul(&transposed),
        };
        match &self.bias {
            Some(bias) => product + bias,
            None => product,
        }
    }
}

/// A row of a table for each index.
///
/// ```
/// use kiln_array::Array;
/// use kiln_array::nn::Embedding;
/// let device = kiln_runtime::Device::open("interp")?;
/// let table = Embedding { weight: Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]) };
/// let rows = table.forward(&Array::new(&device, &[1i32, 1, 0], &[3]));
/// assert_eq!(rows.to_vec::<f32>()?, [3.0, 4.0, 3.0, 4.0, 1.0, 2.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[entries, width]`.
    pub weight: Array,
}
implement_module!(Embedding { weight });

impl Embedding {
    /// Makes a table of f32 with normal elements of deviation 0.02, as GPT-2's.
    #[track_caller]
    pub fn new(device: &Device, key: Key, entries: usize, width: usize) -> Embedding {
        Embedding { weight: key.normal(device, &[entries, width]) * 0.02 }
    }

    /// The rows of integer indices of any shape: `[…, width]`.
    #[track_caller]
    pub fn forward(&self, indices: &Array) -> Array {
        let flat = self.weight.take(&indices.flatten(), 0);
        match indices.error().or_else(|| flat.error()) {
            Some(error) => Array::failed(error, Location::caller()),
            None => {
                let shape: Vec<usize> = [indices.shape(), &flat.shape()[1..]].concat();
                flat.reshaped(&shape, Location::caller())
            }
        }
    }
}

/// The last axis with mean 0 and variance 1, times a weight, plus a bias.
///
/// ```
/// use kiln_array::Array;
/// use kiln_array::nn::LayerNorm;
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32, 3.0], &[1, 2]);
/// let y = LayerNorm::new(&device, 2).forward(&x).to_vec::<f32>()?;
/// assert!((y[0] + 1.0).abs() < 1e-4 && (y[1] - 1.0).abs() < 1e-4);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// `[width]`.
    pub weight: Array,
    /// `[width]`.
    pub bias: Array,
    /// Is added to the variance.
    pub epsilon: f64,
}
implement_module!(LayerNorm { weight bias } epsilon);

impl LayerNorm {
    /// Makes one of f32, with weights of 1, a bias of 0 and an epsilon of 1e-5.
    #[track_caller]
    pub fn new(device: &Device, width: usize) -> LayerNorm {
        let [weight, bias] = [Array::ones, Array::zeros].map(|fill| fill(device, Scalar::F32, &[width]));
        LayerNorm { weight, bias, epsilon: 1e-5 }
    }

    /// The norm of an input `[…, width]`. It is computed in f32 or wider, and has x's element type.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        x.layer_norm(&self.weight, &self.bias, self.epsilon)
    }
}

/// The last axis with mean square 1, times a weight.
///
/// ```
/// use kiln_array::Array;
/// use kiln_array::nn::RmsNorm;
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[2.0f32, -2.0], &[1, 2]);
/// let y = RmsNorm::new(&device, 2).forward(&x).to_vec::<f32>()?;
/// assert!((y[0] - 1.0).abs() < 1e-4 && (y[1] + 1.0).abs() < 1e-4);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// `[width]`.
    pub weight: Array,
    /// Is added to the mean square.
    pub epsilon: f64,
}
implement_module!(RmsNorm { weight } epsilon);

impl RmsNorm {
    /// Makes one of f32, with weights of 1 and an epsilon of 1e-5.
    #[track_caller]
    pub fn new(device: &Device, width: usize) -> RmsNorm {
        RmsNorm { weight: Array::ones(device, Scalar::F32, &[width]), epsilon: 1e-5 }
    }

    /// The norm of an input `[…, width]`. It is computed in f32 or wider, and has x's element type.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        x.rms_norm(&self.weight, self.epsilon)
    }
}

/// Groups of channels with mean 0 and variance 1 over all axes but the first, times a weight, plus
/// a bias.
///
/// ```
/// use kiln_array::nn::{GroupNorm, Key};
/// let device = kiln_runtime::Device::open("interp")?;
/// let images = Key::new(1).normal(&device, &[2, 5, 4, 6]) * 3.0 + 7.0;
/// let y = GroupNorm::new(&device, 3, 6).forward(&images);
/// let means = y.reshape(&[2, 20, 3, 2]).mean_axes(&[1, 3]);
/// assert!(means.abs().max().item::<f32>()? < 1e-5);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// `[channels]`.
    pub weight: Array,
    /// `[channels]`.
    pub bias: Array,
    /// How many groups the channels are divided into.
    pub groups: usize,
    /// Is added to the variance.
    pub epsilon: f64,
}
implement_module!(GroupNorm { weight bias } groups epsilon);

impl GroupNorm {
    /// Makes one of f32, with weights of 1, a bias of 0 and an epsilon of 1e-5.
    #[track_caller]
    pub fn new(device: &Device, groups: usize, channels: usize) -> GroupNorm {
        let [weight, bias] = [Array::ones, Array::zeros].map(|fill| fill(device, Scalar::F32, &[channels]));
        GroupNorm { weight, bias, groups, epsilon: 1e-5 }
    }

    /// The norm of an input `[batch, …, channels]`. It is computed in f32 or wider, and has x's
    /// element type.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        x.group_norm(self.groups, &self.weight, &self.bias, self.epsilon)
    }
}

/// down(silu(gate(x)) · up(x)): the feed-forward layer of Llama and its kin (Shazeer, "GLU Variants
/// Improve Transformer", 2020).
///
/// ```
/// use kiln_array::nn::{Key, SwiGlu};
/// let device = kiln_runtime::Device::open("interp")?;
/// let layer = SwiGlu::new(&device, Key::new(1), 4, 10);
/// let x = Key::new(2).normal(&device, &[3, 4]);
/// let gate = x.matmul(&layer.gate.weight.transpose());
/// let up = x.matmul(&layer.up.weight.transpose());
/// let y = (gate.silu() * up).matmul(&layer.down.weight.transpose());
/// assert!(layer.forward(&x).all_close(&y, 1e-5, 1e-6).item::<bool>()?);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SwiGlu {
    /// `[hidden, width]`, without a bias.
    pub gate: Linear,
    /// `[hidden, width]`, without a bias.
    pub up: Linear,
    /// `[width, hidden]`, without a bias.
    pub down: Linear,
}
implement_module!(SwiGlu { gate up down });

impl SwiGlu {
    /// Makes a layer of f32 with normal weights of deviation 0.02 and no biases.
    #[track_caller]
    pub fn new(device: &Device, key: Key, width: usize, hidden: usize) -> SwiGlu {
        let [gate, up, down] = key.split();
        let [gate, up] = [gate, up].map(|key| Linear::normal(device, key, width, hidden, 0.02));
        let down = Linear::normal(device, down, hidden, width, 0.02);
        let [gate, up, down] = [gate, up, down].map(|layer| Linear { bias: None, ..layer });
        SwiGlu { gate, up, down }
    }

    /// The layer of an input `[…, width]`, of the same shape.
    ///
    /// # Errors
    /// The result has an error if x has another last axis.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.down.forward(&(self.gate.forward(x).silu() * self.up.forward(x)))
    }
}
