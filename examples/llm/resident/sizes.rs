//! The sizes of a model, and how a launch divides it.

use kiln::prelude::*;

/// The sizes of a model, and how a launch divides it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, KernelConst)]
pub struct Sizes {
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
    /// The width of a head.
    pub head: usize,
    /// Tokens that there are.
    pub tokens: usize,
    /// The most tokens of a conversation.
    pub context: usize,
    /// Whether weights are bf16, two of which share a word; else they are f32.
    pub half: bool,
    /// Whether the logits have weights of their own, other than the embeddings.
    pub own_logits: bool,
    /// Conversations that there is room for.
    pub conversations: usize,
    /// Blocks of the launch.
    pub blocks: usize,
    /// Warps of a block that multiply.
    pub warps: usize,
}

/// Threads of a warp.
pub const WARP: usize = 32;
/// Keys that a warp takes on at once, of each of its groups of lanes.
pub const KEYS: usize = 6;
/// Parts of attention that are joined at once.
pub const PARTS: usize = 4;
/// Elements of a vector that a thread has, at most.
pub const OWN: usize = 8;
/// Words of a turn.
pub const TURN: usize = 8;
/// Rows of logits that a warp multiplies at once, at most, and quads of a lane then.
const ROWS: usize = 4;
const LOGIT_QUADS: usize = 16;
/// Quads of a lane of a row, or of the parts into which long rows are divided, at most.
pub const ITEM: usize = 8;
/// Numbers of keys and values that a lane loads at once, at most.
pub const EARLIER: usize = KEYS * 8;
/// Numbers that a lane keeps for all heads that share keys.
pub const STATE: usize = 48;

impl Sizes {
    /// Threads of a block: those that multiply, and a warp that only waits.
    pub fn threads(self) -> usize {
        (self.warps + 1) * WARP
    }

    /// Threads of a block that multiply.
    pub fn workers(self) -> usize {
        self.warps * WARP
    }

    /// Numbers of a quad of weights.
    pub fn quad(self) -> usize {
        if self.half { 8 } else { 4 }
    }

    /// Rows of queries, keys and values.
    pub fn qkv(self) -> usize {
        (self.heads + 2 * self.key_heads) * self.head
    }

    /// Heads of queries that share one of keys.
    pub fn shared(self) -> usize {
        self.heads / self.key_heads
    }

    /// Lanes that share a key.
    pub fn lanes(self) -> usize {
        (self.head / 2).min(WARP)
    }

    /// Pairs of numbers of a head that a lane has.
    pub fn pairs(self) -> usize {
        self.head / 2 / self.lanes()
    }

    /// Keys that a block takes on at once.
    pub fn keys(self) -> usize {
        self.slots() * KEYS
    }

    /// Groups of lanes of a block, each of which attends to keys of its own.
    pub fn slots(self) -> usize {
        self.warps * WARP / self.lanes()
    }

    /// Into how many parts attention can be divided: one for each lane of the warp that joins them.
    pub fn most_parts(self) -> usize {
        (self.blocks / self.key_heads).min(WARP)
    }

    /// Into how many parts the rows of the product that ends a layer are divided.
    pub fn row_parts(self) -> usize {
        (self.inner / self.quad()).div_ceil(self.part_quads())
    }

    /// Quads of such a part, but for the last: whole ones of a warp.
    pub fn part_quads(self) -> usize {
        let quads = self.inner / self.quad();
        match quads.div_ceil(ITEM * WARP).max(if quads >= 128 { 2 } else { 1 }) {
            1 => quads,
            parts => quads.div_ceil(parts).next_multiple_of(WARP),
        }
    }

    /// Rows of logits that a warp multiplies at once.
    pub fn rows(self) -> usize {
        let quads = (self.width / self.quad()).div_ceil(WARP);
        (LOGIT_QUADS / quads.max(1)).clamp(1, ROWS)
    }

    /// Where what blocks hand on begins: queries, keys and values; parts of attention, with their
    /// greatest scores and sums; the attention's product; what gates have let through; parts of the
    /// last product; the greatest logits and their tokens; two turns. Then the end.
    pub fn passed(self) -> [usize; 10] {
        let parts = self.most_parts() * self.heads;
        let lengths = [
            self.qkv(),
            parts * self.head,
            parts * 2,
            self.width,
            self.inner,
            self.row_parts() * self.width,
            2 * self.blocks,
            TURN,
            TURN,
        ];
        let mut at = [0; 10];
        for i in 0..9 {
            at[i + 1] = at[i] + lengths[i];
        }
        at
    }

    /// Where the weights of each kind begin, in words: queries, keys and values of all layers;
    /// attention's products; gates and what they multiply; last products; embeddings; logits. Then
    /// the end.
    pub fn weights(self) -> [usize; 7] {
        let Sizes { width, inner, layers, heads, head, tokens, .. } = self;
        let table = tokens * width;
        let numbers = [
            layers * self.qkv() * width,
            layers * width * heads * head,
            layers * 2 * inner * width,
            layers * width * inner,
            table,
            if self.own_logits { table } else { 0 },
        ];
        let mut at = [0; 7];
        for i in 0..6 {
            at[i + 1] = at[i] + if self.half { numbers[i] / 2 } else { numbers[i] };
        }
        at
    }

    /// Why the kernel cannot run a model of these sizes, if it cannot.
    pub fn refusal(self) -> Option<String> {
        let Sizes { width, inner, heads, head, blocks, key_heads, .. } = self;
        let quad = self.quad();
        if [width, inner, heads * head].iter().any(|length| length % quad != 0) {
            return Some(format!(
                "vectors of {width}, {inner} and {} are no whole quads of {quad}",
                heads * head
            ));
        }
        let most = ITEM * WARP * quad;
        if width.max(heads * head) > most {
            return Some(format!("rows of {} numbers are longer than {most}", width.max(heads * head)));
        }
        if !(head / 2).is_power_of_two() {
            return Some(format!("heads have a width of {head}, which is no power of two"));
        }
        if self.shared() * (2 + 2 * self.pairs()) > STATE || self.pairs() > 2 {
            return Some(format!("{} heads of {head} share their keys", self.shared()));
        }
        if blocks > width.min(inner) {
            return Some(format!("there are {blocks} blocks, more than rows of its matrices"));
        }
        let cached = self.layers * key_heads * head * self.context * self.conversations;
        if self.weights()[6].max(cached) > i32::MAX as usize {
            return Some("its weights or its memory have more than 2^31 words".into());
        }
        if width > OWN * self.workers() {
            return Some(format!("{} threads have too few elements of {width}", self.workers()));
        }
        (blocks < key_heads).then(|| format!("there are {key_heads} heads of keys, and {blocks} blocks"))
    }
}
