//! Networks: modules, layers, losses, random numbers, mixed precision, files.
//!
//! | file | holds |
//! |---|---|
//! | `module.rs` | what `#[derive(Module)]` implements |
//! | `layers.rs` | linear layers, embeddings, norms |
//! | `attention.rs`, `conv.rs` | attention of a sequence to itself, convolutions of images |
//! | `data.rs` | batches in a random order, made ahead |
//! | `loss.rs` | cross entropy |
//! | `random.rs` | keys, random numbers, dropout |
//! | `mixed.rs` | 16-bit floats with masters of 32 bits |
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
mod random;

pub use crate::array::decoding::decode_attention;
pub use attention::Attention;
#[cfg(feature = "files")]
pub use checkpoint::{load_checkpoint, save_checkpoint};
pub use conv::Conv2d;
pub use data::{Batches, Prefetched, prefetch};
#[cfg(feature = "files")]
pub use file::{FileError, load, save};
pub use layers::{Embedding, LayerNorm, Linear, RmsNorm};
pub use mixed::Mixed;
pub use module::{Module, Visitor};
pub use random::Key;

use crate::dtype::{Kind, kind};
use crate::node::Array;
use kiln_ir::Scalar;

/// Floats in another element type; other elements as they are.
fn cast_float(array: &Array, dtype: Scalar) -> Array {
    if kind(array.dtype()) == Kind::Float { array.cast(dtype) } else { array.clone() }
}
