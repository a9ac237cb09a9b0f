//! Networks: modules, layers, losses, random numbers, mixed precision, files.
//!
//! A network is a struct of arrays and layers with `#[derive(Module)]`, a loss is a function of it,
//! and an [optimizer](crate::optimizer) changes its parameters by the loss's gradients:
//!
//! ```
//! use kiln_array::nn::{Key, Linear};
//! use kiln_array::optimizer::AdamW;
//! use kiln_array::{Array, Module, value_and_grad};
//!
//! #[derive(Module)]
//! # #[kiln(crate = kiln_array)]
//! struct Net {
//!     hidden: Linear,
//!     out: Linear,
//! }
//!
//! impl Net {
//!     fn forward(&self, x: &Array) -> Array {
//!         self.out.forward(&self.hidden.forward(x).tanh())
//!     }
//! }
//!
//! let device = kiln_runtime::Device::open("cpu")?;
//! let [one, two] = Key::new(7).split();
//! let mut net = Net { hidden: Linear::new(&device, one, 2, 8), out: Linear::new(&device, two, 8, 2) };
//! // Whether two bits differ.
//! let x = Array::new(&device, &[0.0f32, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], &[4, 2]);
//! let differ = Array::new(&device, &[0, 1, 1, 0], &[4]);
//! let mut optimizer = AdamW::new(0.05);
//! for _ in 0..200 {
//!     let (_loss, gradients) = value_and_grad(|net: &Net| net.forward(&x).cross_entropy(&differ), &net);
//!     optimizer.step(&mut net, gradients)?;
//! }
//! assert_eq!(net.forward(&x).argmax(-1).to_vec::<i64>()?, [0, 1, 1, 0]);
//! # Ok::<(), kiln_array::Error>(())
//! ```
//!
//! The functions of a network without parameters are methods of [`Array`]: `relu` and the other
//! activations, `softmax`, `cross_entropy`, `dropout`, `conv2d` and pooling.
//!
//! | file | holds |
//! |---|---|
//! | `module.rs` | what `#[derive(Module)]` implements |
//! | `layers.rs` | linear layers, embeddings, norms, gated layers |
//! | `attention.rs`, `conv.rs` | attention of a sequence to itself, convolutions of images |
//! | `data.rs` | batches in a random order, made ahead |
//! | `quantized.rs` | linear layers with weights of 4 and 8 bits |
//! | `loss.rs` | cross entropy |
//! | `random.rs` | keys, random numbers, dropout |
//! | `mixed.rs` | floats of 16 and 8 bits with masters of 32 bits |
//! | `file.rs`, `checkpoint.rs` | saving and loading parameters, and training that goes on |

mod attention;
#[cfg(feature = "files")]
mod checkpoint;
mod conv;
mod data;
#[cfg(feature = "files")]
mod file;
mod layers;
mod loss;
mod mixed;
mod module;
mod quantized;
mod random;

pub use crate::array::decoding::decode_attention;
#[cfg(feature = "files")]
pub use crate::error::FileError;
pub use attention::Attention;
#[cfg(feature = "files")]
pub use checkpoint::{load_checkpoint, save_checkpoint};
pub use conv::Conv2d;
pub use data::{Batches, Prefetched, prefetch};
#[cfg(feature = "files")]
pub use file::{load, save};
pub use layers::{Embedding, GroupNorm, LayerNorm, Linear, RmsNorm, SwiGlu};
pub use mixed::Mixed;
pub use module::{Module, Visitor};
pub use quantized::QuantizedLinear;
pub use random::Key;

use crate::dtype::{Kind, kind};
use crate::node::Array;
use kiln_ir::Scalar;

/// Floats in another element type; other elements as they are.
fn cast_float(array: &Array, dtype: Scalar) -> Array {
    if kind(array.dtype()) == Kind::Float { array.cast(dtype) } else { array.clone() }
}
