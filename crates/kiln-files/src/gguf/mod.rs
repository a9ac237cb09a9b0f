//! GGUF: a file of named tensors with quantized weights, and of all else that a language model is
//! made of, such as its tokens.
//!
//! ```text
//! "GGUF", version, counts | keys and values | names, extents, encodings, offsets | data, aligned
//! ```
//!
//! Versions 2 and 3 are read, in their little-endian form.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | the file, its tensors |
//! | `header.rs` | what comes before the data |
//! | `value.rs` | the values of its keys |
//! | `blocks.rs` | encodings of weights |
//! | `source.rs` | reading within the file's bounds |
//!
//! ```
//! use kiln_files::gguf::{Array, Block, Encoding, Gguf, Q8_0, Value, Weights};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.gguf");
//! # let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
//! # let key = |name: &str, code: u32, value: &[u8]| [&text(name)[..], &code.to_le_bytes(), value].concat();
//! # let mut bytes = b"GGUF\x03\0\0\0".to_vec();
//! # bytes.extend([1u64, 3].map(u64::to_le_bytes).concat());
//! # bytes.extend(key("llama.rope.freq_base", 6, &10_000f32.to_le_bytes()));
//! # bytes.extend(key("tokenizer.ggml.add_bos_token", 7, &[1]));
//! # let tokens = [&8u32.to_le_bytes()[..], &2u64.to_le_bytes(), &text("a"), &text("b")].concat();
//! # bytes.extend(key("tokenizer.ggml.tokens", 9, &tokens));
//! # bytes.extend(text("output.weight"));
//! # bytes.extend([&2u32.to_le_bytes()[..], &32u64.to_le_bytes(), &1u64.to_le_bytes()].concat());
//! # bytes.extend([&8u32.to_le_bytes()[..], &0u64.to_le_bytes()].concat());
//! # bytes.resize(bytes.len().next_multiple_of(32), 0);
//! # bytes.extend(half::f16::from_f32(0.5).to_le_bytes());
//! # bytes.extend(0..32);
//! # std::fs::write(&path, bytes)?;
//!
//! // A model of three keys and one tensor.
//! let file = Gguf::open(&path)?;
//! assert_eq!(file.metadata().count(), 3);
//! assert_eq!(file.float("llama.rope.freq_base")?, 10_000.0);
//! assert_eq!(file.value("tokenizer.ggml.add_bos_token").and_then(Value::as_bool), Some(true));
//! let Some(Value::Array(tokens)) = file.value("tokenizer.ggml.tokens") else { panic!() };
//! assert_eq!(*tokens, Array::String(vec!["a".into(), "b".into()]));
//! assert!(tokens.len() == 2 && !tokens.is_empty());
//!
//! // Its weights are a block of 32 with one scale.
//! let weights: Weights = file.read("output.weight")?;
//! assert_eq!((weights.encoding(), weights.shape()), (Encoding::Q8_0, &[1, 32][..]));
//! assert_eq!((Encoding::Q8_0.block_len(), Encoding::Q8_0.block_bytes()), (32, Some(34)));
//! assert_eq!(weights.bytes().len(), 34);
//! let blocks: &[Q8_0] = weights.blocks().ok_or("the blocks are of another encoding")?;
//! assert_eq!((blocks[0].scale.get().to_f32(), blocks[0].quants[31]), (0.5, 31));
//! assert_eq!(blocks[0].dequantize()[..], weights.dequantize());
//! assert_eq!(weights.dequantize()[31], 15.5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
mod header;
mod source;
mod value;

pub use self::blocks::{Block, Encoding, Half, Q4_0, Q4_1, Q6K, Q8_0};
pub use self::value::{Array, Value};

use self::header::{Header, TensorInfo};
use self::source::{Problem, Source};
use crate::error::{Error, Named, Result};
use kiln_runtime::{Device, DynTensor};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A GGUF file that is open. Its tensors are read one by one, as they are asked for.
///
/// Extents are in the order of Kiln's tensors, the last one along memory: the format's own order is
/// the reverse.
///
/// ```no_run
/// use kiln_files::Gguf;
/// use kiln_files::gguf::{Encoding, Q4_1};
///
/// let file = Gguf::open("SmolLM2-135M-Instruct.Q4_1.gguf")?;
/// assert_eq!(file.text("general.architecture")?, "llama");
/// let layers = file.unsigned("llama.block_count")?;
/// let tokens = file.texts("tokenizer.ggml.tokens")?;
/// println!("{layers} layers, {} tokens", tokens.len());
///
/// let queries = file.read("blk.0.attn_q.weight")?;
/// assert_eq!((queries.encoding(), queries.shape()), (Encoding::Q4_1, &[576, 576][..]));
/// if let Some(blocks) = queries.blocks::<Q4_1, 32>() {
///     println!("the first scale: {}", blocks[0].scale.get());
/// }
/// let weights: Vec<f32> = queries.dequantize();
/// assert_eq!(weights.len(), 576 * 576);
/// # Ok::<(), kiln_files::Error>(())
/// ```
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    file: Mutex<File>,
    header: Header,
}

impl Gguf {
    /// Opens a file and reads all that comes before the data of its tensors.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Format`], with the offset, if the file is damaged, of another format
    /// or of a version that is not read.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf> {
        let named = Named(path.as_ref());
        let file = File::open(named.0).map_err(|e| named.io(e))?;
        let size = file.metadata().map_err(|e| named.io(e))?.len();
        let mut source = Source::new(file, size);
        let header = Header::read(&mut source).map_err(|problem| match problem {
            Problem::Format { at, problem } => named.format(format!("at byte {at}: {problem}")),
            Problem::Io(error) => named.io(error),
        })?;
        Ok(Gguf { path: named.0.into(), file: Mutex::new(source.into_file()), header })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The keys and values, in alphabetical order of the keys.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.header.metadata.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of a key, if the file has the key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.header.metadata.get(key)
    }

    /// The text of a key.
    ///
    /// # Errors
    /// [`Error::Metadata`] if the file has no such key, or its value is of another kind.
    pub fn text(&self, key: &str) -> Result<&str> {
        self.expect(key, "a text", Value::as_str)
    }

    /// The integer of a key, of any width.
    ///
    /// # Errors
    /// As of [`text`](Self::text), also for a negative one.
    pub fn unsigned(&self, key: &str) -> Result<u64> {
        self.expect(key, "an integer that is not negative", Value::as_u64)
    }

    /// The float of a key, of either width.
    ///
    /// # Errors
    /// As of [`text`](Self::text).
    pub fn float(&self, key: &str) -> Result<f64> {
        self.expect(key, "a float", Value::as_f64)
    }

    /// The texts of a key.
    ///
    /// # Errors
    /// As of [`text`](Self::text).
    pub fn texts(&self, key: &str) -> Result<&[String]> {
        self.expect(key, "an array of texts", Value::as_strings)
    }

    fn expect<'a, T>(&'a self, key: &str, kind: &str, of: impl Fn(&'a Value) -> Option<T>) -> Result<T> {
        let value = self.value(key);
        value.and_then(of).ok_or_else(|| Error::Metadata {
            path: self.path.clone(),
            key: key.into(),
            problem: match value {
                None => "is missing".into(),
                Some(value) => format!("is {}, expected {kind}", value.kind()),
            },
        })
    }

    /// The names of the tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.header.tensors.keys().map(String::as_str)
    }

    /// The extents of a tensor, the last one along memory.
    ///
    /// # Errors
    /// [`Error::NoTensor`].
    pub fn shape(&self, name: &str) -> Result<&[usize]> {
        self.info(name).map(|info| info.shape.as_slice())
    }

    /// How the elements of a tensor are written.
    ///
    /// # Errors
    /// [`Error::NoTensor`].
    pub fn encoding(&self, name: &str) -> Result<Encoding> {
        self.info(name).map(|info| info.encoding)
    }

    /// Reads a tensor as it stands in the file.
    ///
    /// # Errors
    /// [`Error::NoTensor`]; [`Error::ElementType`] if its encoding is none that Kiln reads;
    /// [`Error::Io`].
    pub fn read(&self, name: &str) -> Result<Weights> {
        let (info, named) = (self.info(name)?, Named(&self.path));
        let Some(bytes) = info.bytes else {
            return Err(named.element_type(
                info.encoding.to_string(),
                format!("of `{name}` are not read; convert the model to Q4_0, Q4_1, Q8_0, Q6_K or F16"),
            ));
        };
        // The header was refused if the file ended before the tensor does.
        let mut data = vec![0; bytes];
        // A thread that panicked between seeking and reading left nothing behind: each seeks.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.header.begin + info.offset)).map_err(|e| named.io(e))?;
        file.read_exact(&mut data).map_err(|e| named.io(e))?;
        Ok(Weights { encoding: info.encoding, shape: info.shape.clone(), bytes: data })
    }

    /// Reads a tensor to a device: numbers as they are, weights in blocks as f32.
    ///
    /// # Errors
    /// As of [`read`](Self::read); [`Error::Tensor`] without memory for it.
    pub fn tensor(&self, device: &Device, name: &str) -> Result<DynTensor> {
        let weights = self.read(name)?;
        let tensor = match weights.encoding {
            Encoding::Plain(elem) => DynTensor::from_bytes(device, elem, &weights.shape, &weights.bytes),
            _ => DynTensor::new(device, &weights.dequantize(), &weights.shape),
        };
        tensor.map_err(|e| Named(&self.path).tensor(e))
    }

    fn info(&self, name: &str) -> Result<&TensorInfo> {
        self.header.tensors.get(name).ok_or_else(|| Error::NoTensor {
            path: self.path.clone(),
            name: name.into(),
            names: self.names().map(str::to_owned).collect(),
        })
    }
}

/// A tensor as a GGUF file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    encoding: Encoding,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Weights {
    /// How the elements are written.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The extents, the last one along memory. It is a multiple of the encoding's block.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// What stands in the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The blocks, row after row; none if the encoding is another one.
    pub fn blocks<B: Block<N>, const N: usize>(&self) -> Option<&[B]> {
        // Blocks are made of bytes, and so can be anywhere.
        (self.encoding == B::ENCODING).then(|| bytemuck::cast_slice(&self.bytes))
    }

    /// The elements as f32, each scale multiplied and each minimum added in f32. It is the
    /// reference for kernels that read blocks.
    pub fn dequantize(&self) -> Vec<f32> {
        let mut out = Vec::with_capacity(self.shape.iter().product());
        self.encoding.dequantize(&self.bytes, &mut out);
        out
    }
}
