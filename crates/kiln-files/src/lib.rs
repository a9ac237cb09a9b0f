//! Tensors in files: NumPy's `.npy` ([`read_npy`], [`write_npy`]); safetensors ([`Safetensors`],
//! [`write_safetensors`]), the format of weights on model hubs; and GGUF ([`Gguf`]), that of
//! language models with quantized weights, which is read only.
//!
//! ```
//! use kiln_files::{Safetensors, read_npy, write_npy, write_safetensors};
//! use kiln_runtime::{Device, Tensor};
//!
//! let folder = tempfile::tempdir()?;
//! let device = Device::open("interp")?;
//! let weights = device.tensor(&[0.5f32, 1.0, 2.0, 4.0], [2, 2])?;
//!
//! write_npy(folder.path().join("weights.npy"), &weights)?;
//! let again = read_npy(&device, folder.path().join("weights.npy"))?;
//! assert_eq!(again.to_vec::<f32>()?, [0.5, 1.0, 2.0, 4.0]);
//!
//! let path = folder.path().join("model.safetensors");
//! write_safetensors(&path, &[("layer.0.weight", weights.as_dyn())], &[("format", "pt")])?;
//! let file = Safetensors::open(&path)?;
//! assert_eq!(file.names().collect::<Vec<_>>(), ["layer.0.weight"]);
//! let loaded: Tensor<f32, 2> = file.tensor(&device, "layer.0.weight")?.downcast()?;
//! assert_eq!(loaded.shape(), [2, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Files are little-endian, as the devices are. A tensor is read into host memory and moves to the
//! device when a kernel needs it. What a file says of itself is checked before memory is taken for
//! it: a damaged file is an [`Error`], whatever is in it.
//!
//! | file | holds |
//! |---|---|
//! | `npy.rs` | a file of one tensor |
//! | `npy_header.rs` | its header, which is a Python dictionary |
//! | `safetensors.rs` | a file of named tensors |
//! | `gguf/` | a file of a quantized language model |
//! | `replace.rs` | a file in place of another |
//! | `error.rs` | what can be wrong |

mod error;
pub mod gguf;
mod npy;
mod npy_header;
mod replace;
mod safetensors;

pub use crate::error::{Error, Result};
pub use crate::gguf::Gguf;
pub use crate::npy::{read_npy, write_npy};
pub use crate::safetensors::{Safetensors, write_safetensors};

#[cfg(not(target_endian = "little"))]
compile_error!("the bytes of tensors are written to files as they are, which must be little-endian");
