//! A conversation with a model that stays on the device: one launch of a kernel chooses many
//! tokens.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | weights, the conversation |
//! | `sizes.rs` | how a launch divides the work |
//! | `place.rs` | where a thread stands, and products of rows and vectors |
//! | `line.rs` | what blocks hand on to each other |
//! | `attention.rs` | attention in parts |
//! | `kernel.rs` | the kernel |

mod attention;
mod kernel;
mod line;
mod place;
mod sizes;

use crate::model::{Config, Sampling, Source, refuse_tokens};
use kiln::prelude::*;
use sizes::Sizes;
use std::collections::VecDeque;
use std::error::Error;

/// Tokens that a launch chooses at most, so that they come a few at a time.
const AT_ONCE: usize = 16;
/// Warps of a block that multiply: on 132 multiprocessors two rows each of the largest product of
/// SmolLM2-135M.
const WARPS: usize = 12;

/// How a model is kept on a device.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Whether weights are rounded to bf16; else they are f32.
    pub half: bool,
    /// Tokens that a launch chooses at most.
    pub at_once: usize,
    /// Blocks of a launch; as many as the device has multiprocessors without it.
    pub blocks: Option<usize>,
    /// Warps of a block that multiply.
    pub warps: Option<usize>,
}

impl Default for Form {
    fn default() -> Form {
        Form { half: true, at_once: AT_ONCE, blocks: None, warps: None }
    }
}

/// A conversation with a model that stays on the device.
pub struct Resident {
    device: Device,
    config: Config,
    sizes: Sizes,
    sampling: Sampling,
    at_once: usize,
    weights: Tensor<u32, 1>,
    gains: Tensor<f32, 1>,
    angles: Tensor<f32, 1>,
    keys: Tensor<f32, 1>,
    values: Tensor<f32, 1>,
    passed: Tensor<u32, 1>,
    tokens: Tensor<i32, 1>,
    /// The tokens that are known, and how many of them were read.
    known: Vec<i32>,
    position: usize,
    /// Tokens that were chosen and not handed out yet: the last ones of `known`.
    waiting: VecDeque<u32>,
}

impl Resident {
    /// Loads a model for conversations of at most `context` tokens.
    ///
    /// # Errors
    /// If the device has no barriers of the grid, or the kernel no room for the model; those of a
    /// [`Conversation`](crate::model::Conversation).
    pub fn new(
        device: &Device,
        source: Source<'_>,
        context: usize,
        sampling: Sampling,
        form: Form,
    ) -> Result<Resident, Box<dyn Error>> {
        if !device.capabilities().grid_barriers {
            return Err(format!("{} has no grid barriers, which a resident model needs", device.id()).into());
        }
        let mut config = source.config()?;
        config.context = config.context.min(context).max(1);
        let Config { width, inner, layers, heads, key_heads, context, tokens, .. } = config;
        let blocks = form.blocks.unwrap_or((device.properties().units as usize).min(width).min(inner)).max(1);
        let warps = form.warps.unwrap_or(WARPS).max(1);
        let sizes = Sizes {
            width,
            inner,
            layers,
            heads,
            key_heads,
            head: width / heads,
            tokens,
            context,
            half: form.half,
            own_logits: source.has("output.weight"),
            sampled: sampling.temperature > 0.0,
            blocks,
            warps,
        };
        if let Some(why) = sizes.refusal() {
            return Err(format!("this model cannot stay on {}: {why}", device.id()).into());
        }
        let keys = key_heads * sizes.head;
        let mut words = Vec::with_capacity(sizes.weights()[6]);
        let mut append = |name: &str, shape: [usize; 2]| -> Result<(), Box<dyn Error>> {
            pack(&source.rows(name, shape)?, form.half, &mut words);
            Ok(())
        };
        let kinds: [&[(&str, [usize; 2])]; 4] = [
            &[("attn_q", [width, width]), ("attn_k", [keys, width]), ("attn_v", [keys, width])],
            &[("attn_output", [width, width])],
            &[("ffn_gate", [inner, width]), ("ffn_up", [inner, width])],
            &[("ffn_down", [width, inner])],
        ];
        for (parts, layer) in kinds.into_iter().flat_map(|parts| (0..layers).map(move |l| (parts, l))) {
            for &(part, shape) in parts {
                append(&format!("blk.{layer}.{part}.weight"), shape)?;
            }
        }
        append("token_embd.weight", [tokens, width])?;
        if sizes.own_logits {
            append("output.weight", [tokens, width])?;
        }
        let mut gains = Vec::new();
        for layer in 0..layers {
            gains.extend(source.vector(&format!("blk.{layer}.attn_norm.weight"), width)?);
            gains.extend(source.vector(&format!("blk.{layer}.ffn_norm.weight"), width)?);
        }
        gains.extend(source.vector("output_norm.weight", width)?);
        let (angles, cache) = (config.angles(), layers * keys * context);
        Ok(Resident {
            weights: device.tensor(&words, [words.len()])?,
            gains: device.tensor(&gains, [gains.len()])?,
            angles: device.tensor(&angles, [angles.len()])?,
            keys: device.zeros([cache])?,
            values: device.zeros([cache])?,
            passed: device.zeros([sizes.passed()[7]])?,
            tokens: device.zeros([context + 1])?,
            known: Vec::new(),
            position: 0,
            waiting: VecDeque::new(),
            device: device.clone(),
            at_once: form.at_once.max(1),
            config,
            sizes,
            sampling,
        })
    }

    /// Bytes of weights that are read for a token.
    pub fn bytes(&self) -> usize {
        let [.., embedding, logits, end] = self.sizes.weights();
        4 * if self.sizes.own_logits { embedding + end - logits } else { end }
    }

    /// How many more tokens there is room for.
    pub fn room(&self) -> usize {
        self.config.context - (self.known.len() - self.waiting.len())
    }

    /// Appends tokens to those that were handed out. They are read with the next one.
    ///
    /// # Errors
    /// If there is no room for them, or a token is none of the model's.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<(), Box<dyn Error>> {
        refuse_tokens(tokens, &self.config, self.room())?;
        // What nobody has seen was not said.
        self.known.truncate(self.known.len() - self.waiting.len());
        self.waiting.clear();
        self.position = self.position.min(self.known.len().saturating_sub(1));
        self.known.extend(tokens.iter().map(|&token| token as i32));
        let mut all = self.known.clone();
        all.resize(self.config.context + 1, 0);
        Ok(self.tokens.write(&all)?)
    }

    /// The next token, of those that a launch has chosen; none if there is no room, or nothing to
    /// continue.
    ///
    /// # Errors
    /// What the device reports.
    pub fn next(&mut self) -> kiln::Result<Option<u32>> {
        if self.waiting.is_empty() {
            let known = self.known.len();
            let count = self.at_once.min(self.config.context - known);
            if known == 0 || count == 0 {
                return Ok(None);
            }
            self.launch(known - 1 - self.position + count)?;
            let chosen = self.tokens.slice(0, known..known + count)?.to_vec()?;
            self.waiting.extend(chosen.iter().map(|&token| token as u32));
            self.known.extend(chosen);
            self.position = self.known.len() - 1;
        }
        Ok(self.waiting.pop_front())
    }

    /// Reads so many tokens, and chooses those behind that are not known.
    fn launch(&mut self, steps: usize) -> kiln::Result<()> {
        let (sizes, Sampling { temperature, seed }) = (self.sizes, self.sampling);
        kernel::decode(
            &self.weights,
            &self.gains,
            &self.angles,
            &mut self.keys,
            &mut self.values,
            &mut self.passed,
            &mut self.tokens,
            self.position as i32,
            self.known.len() as i32,
            steps as i32,
            self.config.epsilon,
            temperature,
            seed,
            sizes,
        )
        .grid([sizes.blocks as u32])
        .block([sizes.threads() as u32])
        .launch(&self.device)
    }
}

/// Appends numbers as words, of which each has two that are rounded to bf16, or one.
fn pack(numbers: &[f32], half: bool, words: &mut Vec<u32>) {
    if half {
        let bits = |x: &f32| u32::from(bf16::from_f32(*x).to_bits());
        let pairs = numbers.chunks(2).map(|pair| bits(&pair[0]) | pair.get(1).map_or(0, bits) << 16);
        words.extend(pairs);
    } else {
        words.extend(numbers.iter().map(|x| x.to_bits()));
    }
}
