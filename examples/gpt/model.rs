//! GPT-2's network (Radford and others, "Language Models are Unsupervised Multitask Learners",
//! 2019), in arrays.

use kiln::Device;
use kiln::array::nn::{Attention, Embedding, Key, LayerNorm, Linear};
use kiln::array::{Array, Module, Result, Scalar};

/// The extents of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// How many tokens there are.
    pub vocabulary: usize,
    /// The most tokens of a sequence.
    pub context: usize,
    pub width: usize,
    pub heads: usize,
    pub layers: usize,
}

/// Tokens and their places become vectors; blocks change them; the last ones' products with the
/// vectors of all tokens are the logits of the token that follows.
#[derive(Module)]
pub struct Gpt {
    tokens: Embedding,
    places: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

/// What is added to the vectors: attention to the places before, and a network at each place.
#[derive(Module)]
struct Block {
    before_attention: LayerNorm,
    attention: Attention,
    before_network: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Gpt {
    /// Makes a network with GPT-2's random parameters: normal ones of deviation 0.02, but smaller
    /// where layers add to the vectors.
    pub fn new(device: &Device, key: Key, of: Extents) -> Gpt {
        let [tokens, places, blocks] = key.split();
        Gpt {
            tokens: Embedding::new(device, tokens, of.vocabulary, of.width),
            places: Embedding::new(device, places, of.context, of.width),
            blocks: (0..of.layers).map(|layer| Block::new(device, blocks.fold(layer as u64), of)).collect(),
            norm: LayerNorm::new(device, of.width),
        }
    }

    /// The vectors of tokens `[batch, length]` after all blocks: `[batch, length, width]`.
    fn vectors(&self, tokens: &Array) -> Array {
        let length = tokens.shape().last().copied().unwrap_or(0);
        let Some(device) = tokens.device() else { return tokens.clone() };
        let x = self.tokens.forward(tokens) + self.places.forward(&Array::arange(device, length));
        self.norm.forward(&self.blocks.iter().fold(x, |x, block| block.forward(&x)))
    }

    /// How badly the network predicts tokens `[batch, length]`, in nats a token.
    pub fn loss(&self, tokens: &Array, next: &Array) -> Array {
        self.logits(&self.vectors(tokens)).cross_entropy(next)
    }

    fn logits(&self, vectors: &Array) -> Array {
        vectors.matmul(&self.tokens.weight.transpose())
    }

    /// The logits of the token after those of a sequence, which is not empty.
    pub fn next(&self, device: &Device, tokens: &[u32], context: usize) -> Result<Vec<f32>> {
        let seen = &tokens[tokens.len().saturating_sub(context)..];
        // As long as the context, whatever the text: the last token does not see what follows, and
        // one kernel serves for all lengths.
        let mut row: Vec<i32> = seen.iter().map(|&token| token as i32).collect();
        row.resize(context, 0);
        let last = Array::new(device, &[seen.len() as i32 - 1], &[1]);
        let vectors = self.vectors(&Array::new(device, &row, &[1, context]));
        self.logits(&vectors.select(0, 0).take(&last, 0)).cast(Scalar::F32).to_vec()
    }
}

impl Block {
    fn new(device: &Device, key: Key, of: Extents) -> Block {
        let [qkv, out, up, down] = key.split();
        let (width, small) = (of.width, 0.02 / (2.0 * of.layers as f64).sqrt());
        Block {
            before_attention: LayerNorm::new(device, width),
            attention: Attention {
                qkv: Linear::normal(device, qkv, width, 3 * width, 0.02),
                out: Linear::normal(device, out, width, width, small),
                heads: of.heads,
                causal: true,
            },
            before_network: LayerNorm::new(device, width),
            up: Linear::normal(device, up, width, 4 * width, 0.02),
            down: Linear::normal(device, down, 4 * width, width, small),
        }
    }

    fn forward(&self, x: &Array) -> Array {
        let x = x + self.attention.forward(&self.before_attention.forward(x));
        let inside = self.up.forward(&self.before_network.forward(&x)).gelu();
        &x + self.down.forward(&inside)
    }
}
