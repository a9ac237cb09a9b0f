//! A model of the Llama architecture: what its file must say, and its weights.

use crate::kernels::{Heads, Input};
use crate::weights::Matrix;
use kiln::prelude::*;
use kiln_files::Gguf;
use kiln_files::gguf::Weights;
use std::error::Error;

/// Keys of a turn of attention.
const KEYS: usize = 64;

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The length of the vector that stands for a token.
    pub width: usize,
    /// The length of the vector inside of a feed-forward layer.
    pub inner: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub key_heads: usize,
    /// The most tokens of a conversation.
    pub context: usize,
    /// Tokens that there are.
    pub tokens: usize,
    /// Added to mean squares.
    pub epsilon: f32,
    /// The base of the angles by which pairs are rotated.
    pub base: f64,
}

impl Config {
    /// The sizes of SmolLM2-135M.
    #[allow(dead_code)] // Only the program measures them.
    pub const SMOLLM2_135M: Config = Config {
        width: 576,
        inner: 1536,
        layers: 30,
        heads: 9,
        key_heads: 3,
        context: 8192,
        tokens: 49152,
        epsilon: 1e-5,
        base: 100_000.0,
    };

    /// The sizes of SmolLM2-1.7B.
    #[allow(dead_code)] // As above.
    pub const SMOLLM2_1_7B: Config = Config {
        width: 2048,
        inner: 8192,
        layers: 24,
        heads: 32,
        key_heads: 32,
        context: 8192,
        tokens: 49152,
        epsilon: 1e-5,
        base: 130_000.0,
    };

    /// The sizes of Llama-3.2-1B.
    #[allow(dead_code)] // As above.
    pub const LLAMA_3_2_1B: Config =
        Config { layers: 16, key_heads: 8, tokens: 128_256, base: 500_000.0, ..Config::SMOLLM2_1_7B };

    /// What a file says.
    ///
    /// # Errors
    /// If the model is of another architecture or has what this program does not know, by name.
    pub fn of(file: &Gguf) -> Result<Config, Box<dyn Error>> {
        let path = file.path().display();
        let architecture = file.text("general.architecture")?;
        if architecture != "llama" {
            return Err(format!(
                "{path} is a model of the architecture `{architecture}`; this program runs `llama`"
            )
            .into());
        }
        let scaling =
            file.value("llama.rope.scaling.type").and_then(|value| value.as_str()).unwrap_or("none");
        if scaling != "none" || file.names().any(|name| name == "rope_freqs.weight") {
            return Err(format!("{path} scales the angles of its places, which this program does not").into());
        }
        let size = |key: &str| -> Result<usize, Box<dyn Error>> {
            Ok(usize::try_from(file.unsigned(&format!("llama.{key}"))?)?)
        };
        let config = Config {
            width: size("embedding_length")?,
            inner: size("feed_forward_length")?,
            layers: size("block_count")?,
            heads: size("attention.head_count")?,
            key_heads: size("attention.head_count_kv")?,
            context: size("context_length")?,
            tokens: file.texts("tokenizer.ggml.tokens")?.len(),
            epsilon: file.float("llama.attention.layer_norm_rms_epsilon")? as f32,
            base: file.float("llama.rope.freq_base")?,
        };
        let Config { width, inner, heads, key_heads, .. } = config;
        let divides = |whole: usize, part: usize| part > 0 && whole.is_multiple_of(part);
        if !divides(width, heads) || !divides(width / heads, 2) || !divides(heads, key_heads) || inner == 0 {
            return Err(format!(
                "{path} has impossible sizes: width {width}, {heads} heads, {key_heads} of keys, {inner} inside"
            )
            .into());
        }
        Ok(config)
    }

    /// The width of a head.
    pub fn head_width(&self) -> usize {
        self.width / self.heads
    }

    /// Cosines, then sines, of the angles by which pairs are rotated: place by pair.
    pub fn angles(&self) -> Vec<f32> {
        let pairs = self.head_width() / 2;
        let angle = |i: usize| (i / pairs) as f64 * self.base.powf(-((i % pairs) as f64) / pairs as f64);
        let all = || 0..self.context * pairs;
        all().map(|i| angle(i).cos() as f32).chain(all().map(|i| angle(i).sin() as f32)).collect()
    }
}

/// The weights of a layer.
struct Layer {
    attention_gain: Tensor<f32, 1>,
    /// Queries, keys and values, one after the other.
    qkv: Matrix,
    output: Matrix,
    feed_forward_gain: Tensor<f32, 1>,
    /// Gates, then what they are multiplied with.
    gate_up: Matrix,
    down: Matrix,
}

/// The weights outside of the layers.
struct Ends {
    embedding: Matrix,
    /// If the logits have weights of their own.
    head: Option<Matrix>,
    gain: Tensor<f32, 1>,
    /// Cosines and sines: place by pair.
    angles: Tensor<f32, 3>,
}

/// Vectors between kernels, one a token.
pub struct Scratch {
    x: Tensor<f32, 2>,
    qkv: Tensor<f32, 2>,
    attended: Tensor<f32, 2>,
    gate_up: Tensor<f32, 2>,
}

impl Scratch {
    /// Memory for so many tokens.
    ///
    /// # Errors
    /// If the device has none.
    pub fn new(device: &Device, config: &Config, rows: usize) -> kiln::Result<Scratch> {
        Ok(Scratch {
            x: device.uninit([rows, config.width])?,
            qkv: device.uninit([rows, (config.heads + 2 * config.key_heads) * config.head_width()])?,
            attended: device.uninit([rows, config.width])?,
            gate_up: device.uninit([rows, 2 * config.inner])?,
        })
    }
}

/// The weights of a model on a device.
pub struct Model {
    /// Its sizes, and the most tokens of a conversation.
    pub config: Config,
    layers: Vec<Layer>,
    ends: Ends,
}

impl Model {
    /// Loads a model for conversations of at most `context` tokens.
    ///
    /// # Errors
    /// If the file is of another architecture, damaged, or too large for the device.
    pub fn load(device: &Device, source: Source<'_>, context: usize) -> Result<Model, Box<dyn Error>> {
        let mut config = source.config()?;
        config.context = config.context.min(context).max(1);
        let load = Load { device, source, config };
        let layers = (0..config.layers).map(|i| load.layer(i)).collect::<Result<Vec<_>, _>>()?;
        Ok(Model { config, layers, ends: load.ends()? })
    }

    /// Bytes of weights that are read for a token.
    pub fn bytes(&self) -> usize {
        self.head().bytes() + self.layers.iter().map(Layer::bytes).sum::<usize>()
    }

    /// Cosines and sines: place by pair.
    pub fn angles(&self) -> &Tensor<f32, 3> {
        &self.ends.angles
    }

    fn head(&self) -> &Matrix {
        self.ends.head.as_ref().unwrap_or(&self.ends.embedding)
    }

    /// What the kernels of attention are made for.
    pub fn heads(&self, device: &Device, rows: usize) -> Heads {
        let config = &self.config;
        Heads {
            rows,
            count: config.heads,
            shared: config.heads / config.key_heads,
            width: config.head_width(),
            keys: KEYS,
            by_dot: !device.capabilities().is_simt(),
        }
    }

    /// Enqueues the layers for the tokens from a place on. `attend` is the attention of a layer:
    /// it has the layer's number, and queries, keys and values.
    ///
    /// # Errors
    /// What the device reports.
    pub fn read(
        &self,
        tokens: &Tensor<i32, 1>,
        place: &Tensor<i32, 1>,
        scratch: &mut Scratch,
        mut attend: impl FnMut(usize, &Tensor<f32, 2>, &mut Tensor<f32, 2>) -> kiln::Result<()>,
    ) -> kiln::Result<()> {
        let Scratch { x, qkv, attended, gate_up } = scratch;
        self.ends.embedding.embed(tokens, place, x)?;
        let plain = (Input::Plain, None, 0.0);
        for (i, layer) in self.layers.iter().enumerate() {
            layer.qkv.product(x, self.normalized(&layer.attention_gain), qkv, false)?;
            attend(i, qkv, attended)?;
            layer.output.product(attended, plain, x, true)?;
            layer.gate_up.product(x, self.normalized(&layer.feed_forward_gain), gate_up, false)?;
            layer.down.product(gate_up, (Input::Gated, None, 0.0), x, true)?;
        }
        Ok(())
    }

    /// Enqueues the logits of the tokens that were read.
    ///
    /// # Errors
    /// What the device reports.
    pub fn predict(&self, scratch: &Scratch, logits: &mut Tensor<f32, 2>) -> kiln::Result<()> {
        self.head().product(&scratch.x, self.normalized(&self.ends.gain), logits, false)
    }

    fn normalized<'a>(&self, gain: &'a Tensor<f32, 1>) -> (Input, Option<&'a Tensor<f32, 1>>, f32) {
        (Input::Normalized, Some(gain), self.config.epsilon)
    }
}

impl Layer {
    fn bytes(&self) -> usize {
        [&self.qkv, &self.output, &self.gate_up, &self.down].into_iter().map(Matrix::bytes).sum()
    }
}

/// Where the weights of a model come from.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A file, in its encodings.
    File(&'a Gguf),
    /// A generator of random numbers with a seed, in bf16: a model that says nothing, to measure
    /// the speed of one of these sizes.
    Random(Config, u64),
}

impl Source<'_> {
    /// The sizes of the model.
    ///
    /// # Errors
    /// As of [`Config::of`].
    pub fn config(self) -> Result<Config, Box<dyn Error>> {
        match self {
            Source::File(file) => Config::of(file),
            Source::Random(config, _) => Ok(config),
        }
    }

    /// Whether there is a tensor of this name, of those that a model may lack.
    pub fn has(self, name: &str) -> bool {
        match self {
            Source::File(file) => file.names().any(|there| there == name),
            Source::Random(..) => false,
        }
    }

    /// The rows of a matrix.
    ///
    /// # Errors
    /// If a file has no such matrix.
    pub fn rows(self, name: &str, [rows, columns]: [usize; 2]) -> Result<Vec<f32>, Box<dyn Error>> {
        match self {
            Source::File(file) => Ok(weights(file, name, &[rows, columns])?.dequantize()),
            Source::Random(_, seed) => Ok(random(seed, name, [rows, columns]).collect()),
        }
    }

    /// The factors of a norm.
    ///
    /// # Errors
    /// If a file has no such vector.
    pub fn vector(self, name: &str, width: usize) -> Result<Vec<f32>, Box<dyn Error>> {
        match self {
            Source::File(file) => Ok(weights(file, name, &[width])?.dequantize()),
            Source::Random(..) => Ok(vec![1.0; width]),
        }
    }
}

/// What is being loaded, and where to.
struct Load<'a> {
    device: &'a Device,
    source: Source<'a>,
    config: Config,
}

impl Load<'_> {
    fn layer(&self, i: usize) -> Result<Layer, Box<dyn Error>> {
        let Config { width, inner, key_heads, .. } = self.config;
        let keys = key_heads * self.config.head_width();
        let name = |part: &str| format!("blk.{i}.{part}.weight");
        let matrices = |parts: &[(&str, usize)], columns: usize| {
            let parts: Vec<_> = parts.iter().map(|(part, rows)| (name(part), *rows)).collect();
            self.matrix(&parts, columns)
        };
        Ok(Layer {
            attention_gain: self.vector(&name("attn_norm"))?,
            qkv: matrices(&[("attn_q", width), ("attn_k", keys), ("attn_v", keys)], width)?,
            output: matrices(&[("attn_output", width)], width)?,
            feed_forward_gain: self.vector(&name("ffn_norm"))?,
            gate_up: matrices(&[("ffn_gate", inner), ("ffn_up", inner)], width)?,
            down: matrices(&[("ffn_down", width)], inner)?,
        })
    }

    fn ends(&self) -> Result<Ends, Box<dyn Error>> {
        let Config { width, tokens, context, .. } = self.config;
        let table = |name: &str| self.matrix(&[(name.to_owned(), tokens)], width);
        let pairs = self.config.head_width() / 2;
        Ok(Ends {
            embedding: table("token_embd.weight")?,
            head: if self.source.has("output.weight") { Some(table("output.weight")?) } else { None },
            gain: self.vector("output_norm.weight")?,
            angles: self.device.tensor(&self.config.angles(), [2, context, pairs])?,
        })
    }

    /// A matrix of the rows of some others, each with its name and its number of rows.
    fn matrix(&self, parts: &[(String, usize)], columns: usize) -> Result<Matrix, Box<dyn Error>> {
        match self.source {
            Source::File(file) => {
                let read = parts.iter().map(|(name, rows)| weights(file, name, &[*rows, columns]));
                Ok(Matrix::of(self.device, &read.collect::<Result<Vec<_>, _>>()?)?)
            }
            Source::Random(_, seed) => {
                let rows: Vec<f32> =
                    parts.iter().flat_map(|(name, rows)| random(seed, name, [*rows, columns])).collect();
                Ok(Matrix::of_bf16(self.device, &rows, columns)?)
            }
        }
    }

    fn vector(&self, name: &str) -> Result<Tensor<f32, 1>, Box<dyn Error>> {
        let width = self.config.width;
        Ok(self.device.tensor(&self.source.vector(name, width)?, [width])?)
    }
}

/// A tensor of a file, if it has the shape that follows from the sizes.
fn weights(file: &Gguf, name: &str, shape: &[usize]) -> Result<Weights, Box<dyn Error>> {
    let weights = file.read(name)?;
    if weights.shape() != shape {
        let path = file.path().display();
        return Err(format!("{path}: `{name}` has shape {:?}, expected {shape:?}", weights.shape()).into());
    }
    Ok(weights)
}

/// Refuses tokens that a conversation has no room for, or that are none of the model's.
///
/// # Errors
/// That.
pub fn refuse_tokens(tokens: &[u32], config: &Config, room: usize) -> Result<(), Box<dyn Error>> {
    if tokens.len() > room {
        let (given, context) = (tokens.len(), config.context);
        return Err(format!("the text has {given} tokens, and of {context} there is room for {room}").into());
    }
    match tokens.iter().find(|&&token| token as usize >= config.tokens) {
        Some(token) => {
            Err(format!("the model has {} tokens, and none of number {token}", config.tokens).into())
        }
        None => Ok(()),
    }
}

/// Random weights that keep the length of what they are multiplied with, in whatever order the
/// tensors of a model are made.
fn random(seed: u64, name: &str, [rows, columns]: [usize; 2]) -> impl Iterator<Item = f32> {
    // FNV-1a: the tensors of a model differ.
    let mixed = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut random = fastrand::Rng::with_seed(name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, mixed));
    // The mean square of what is uniform between -1 and 1 is 1/3.
    let most = (3.0 / columns as f32).sqrt();
    (0..rows * columns).map(move |_| (random.f32() * 2.0 - 1.0) * most)
}
