//! A conversation with a model, by launches for each token.

use crate::kernels;
use crate::model::{Config, Model, Scratch, Source, refuse_tokens};
use kiln::Graph;
use kiln::prelude::*;
use std::error::Error;

/// Logits that one program looks through.
pub const PART: usize = 1024;
/// Tokens that are read at once: as many as unpacked weights are multiplied with in passing.
pub const ROWS: usize = 12;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// 0 for the likeliest; 1 for each with its probability.
    pub temperature: f32,
    /// What decides between tokens.
    pub seed: u64,
}

/// A conversation with a model: its tokens so far, on the device, and what is computed for each of
/// them as two graphs.
pub struct Conversation {
    model: Model,
    tokens: Tensor<i32, 1>,
    /// The present place, and the number of tokens that are known.
    place: Tensor<i32, 1>,
    #[allow(dead_code)]
    logits: Tensor<f32, 2>,
    /// Read so many tokens from the present place on; the most first.
    reads: Vec<(usize, Graph)>,
    /// Reads the token at the present place and chooses the next.
    decode: Graph,
    /// The tokens that are known, and how many of them were read.
    known: Vec<i32>,
    position: usize,
}

/// What a layer remembers of conversations.
pub struct Cache {
    /// Head by element by place, the heads of all conversations one after the other.
    pub keys: Tensor<f32, 3>,
    /// Head by place by element.
    pub values: Tensor<f32, 3>,
}

impl Cache {
    /// Memory for so many conversations in every layer.
    ///
    /// # Errors
    /// If the device has none.
    pub fn of_layers(device: &Device, config: &Config, conversations: usize) -> kiln::Result<Vec<Cache>> {
        let (heads, width, context) = (conversations * config.key_heads, config.head_width(), config.context);
        let cache = |_| {
            let keys = device.zeros([heads, width, context])?;
            Ok(Cache { keys, values: device.zeros([heads, context, width])? })
        };
        (0..config.layers).map(cache).collect()
    }

    /// Keys and values by conversation, as views.
    ///
    /// # Errors
    /// None: the extents are those that the memory was made for.
    pub fn of_conversations(&self, config: &Config) -> kiln::Result<[Tensor<f32, 4>; 2]> {
        let Config { key_heads: heads, context, .. } = *config;
        let (width, count) = (config.head_width(), self.keys.shape()[0] / heads.max(1));
        let keys = self.keys.reshape([count, heads, width, context])?;
        Ok([keys, self.values.reshape([count, heads, context, width])?])
    }
}

impl Conversation {
    /// Loads a model for conversations of at most `context` tokens.
    ///
    /// # Errors
    /// If the file is of another architecture, damaged, or too large for the device.
    pub fn new(
        device: &Device,
        source: Source<'_>,
        context: usize,
        sampling: Sampling,
    ) -> Result<Conversation, Box<dyn Error>> {
        let model = Model::load(device, source, context)?;
        let config = model.config;
        let mut caches = Cache::of_layers(device, &config, 1)?;
        let mut tokens = device.zeros([config.context + 1])?;
        let mut place = device.tensor(&[0, 0], [2])?;
        let mut record =
            |rows: usize, place: &Tensor<i32, 1>, tokens: &Tensor<i32, 1>, scratch: &mut Scratch| {
                let heads = model.heads(device, rows);
                model.read(tokens, place, scratch, |layer, qkv, attended| {
                    let Cache { keys, values } = &mut caches[layer];
                    let angles = model.angles();
                    kernels::remember(qkv, angles, place, keys, values, heads).launch(device)?;
                    kernels::attend(qkv, angles, place, keys, values, attended, heads).launch(device)
                })
            };
        let mut reads = Vec::new();
        // Where weights are multiplied by one vector at a time, several are no faster.
        let rows: &[usize] = if device.capabilities().is_simt() { &[1] } else { &[ROWS, 1] };
        for &rows in rows {
            let mut scratch = Scratch::new(device, &config, rows)?;
            let (read, ()) = device.graph(|_| {
                record(rows, &place, &tokens, &mut scratch)?;
                kernels::advance(&mut place, rows as i32).grid([1]).launch(device)
            })?;
            reads.push((rows, read));
        }
        let mut scratch = Scratch::new(device, &config, 1)?;
        let mut logits = device.uninit([1, config.tokens])?;
        let parts = config.tokens.div_ceil(PART);
        let (mut best, mut token) = (device.uninit([parts])?, device.uninit([parts])?);
        let (decode, ()) = device.graph(|_| {
            record(1, &place, &tokens, &mut scratch)?;
            model.predict(&scratch, &mut logits)?;
            let Sampling { temperature, seed } = sampling;
            kernels::likeliest(&logits, &place, &mut best, &mut token, temperature, seed, PART)
                .launch(device)?;
            kernels::choose(&best, &token, &mut tokens, &mut place, parts).grid([1]).launch(device)
        })?;
        Ok(Conversation { model, tokens, place, logits, reads, decode, known: Vec::new(), position: 0 })
    }

    /// Bytes of weights that are read for a token.
    pub fn bytes(&self) -> usize {
        self.model.bytes()
    }

    /// How many more tokens there is room for.
    pub fn room(&self) -> usize {
        self.model.config.context - self.known.len()
    }

    /// Appends tokens, and reads all but the last of those that were not read yet.
    ///
    /// # Errors
    /// If there is no room for them, or a token is none of the model's.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<(), Box<dyn Error>> {
        refuse_tokens(tokens, &self.model.config, self.room())?;
        self.known.extend(tokens.iter().map(|&token| token as i32));
        let mut all = self.known.clone();
        all.resize(self.model.config.context + 1, 0);
        self.tokens.write(&all)?;
        self.place.write(&[self.position as i32, self.known.len() as i32])?;
        for (rows, read) in &self.reads {
            while self.position + rows < self.known.len() {
                read.replay()?;
                self.position += rows;
            }
        }
        Ok(())
    }

    /// Appends the next token, and gives it; none if there is no room, or nothing to continue.
    ///
    /// # Errors
    /// What the device reports.
    pub fn next(&mut self) -> kiln::Result<Option<u32>> {
        let next = self.known.len();
        if next == 0 || next >= self.model.config.context {
            return Ok(None);
        }
        self.decode.replay()?;
        self.position += 1;
        let token = self.tokens.slice(0, next..next + 1)?.item()?;
        self.known.push(token);
        Ok(Some(token as u32))
    }

    /// The logits that the last token was chosen by.
    ///
    /// # Errors
    /// What the device reports; if none was chosen yet.
    #[allow(dead_code)] // Only the tests look at them.
    pub fn logits(&self) -> kiln::Result<Vec<f32>> {
        self.logits.to_vec()
    }
}
