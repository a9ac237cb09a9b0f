//! Several conversations with a model that are answered at once: their next tokens are rows of one
//! matrix, so that weights are read and unpacked once for all of them.
//!
//! A step is a graph for a number of rows. A table on the device says of each row which
//! conversation it belongs to, its place there, and its token; the host writes it before a replay.
//! So one graph reads texts, whose rows are tokens of any conversations, and another one chooses
//! the next tokens of those that go on. Rows that a step has too many are copies of its last one,
//! which write the same numbers to the same places.

mod kernels;

use crate::conversation::{Cache, PART, ROWS, Sampling};
use crate::model::{Model, Scratch, Source, refuse_tokens};
use kiln::Graph;
use kiln::prelude::*;
use std::error::Error;

/// Conversations with one model, numbered from 0 on.
pub struct Batch {
    model: Model,
    /// The token that ends an answer.
    end: Option<u32>,
    /// Reads text.
    read: Step,
    /// Choose the next tokens of so many conversations, the fewest first.
    decode: Vec<Step>,
    conversations: Vec<Spoken>,
}

/// A conversation, as the host knows it.
#[derive(Clone, Default)]
struct Spoken {
    /// Its tokens, and how many of them were read, and handed out or said by the user.
    tokens: Vec<u32>,
    read: usize,
    handed: usize,
    /// How many tokens there are once its last request is answered.
    asked: usize,
}

impl Spoken {
    /// How many tokens are to be read before the next can be chosen.
    fn unread(&self) -> usize {
        match self.tokens.len() < self.asked {
            true => self.tokens.len().saturating_sub(self.read + 1),
            false => 0,
        }
    }
}

/// What is computed for so many rows.
struct Step {
    rows: usize,
    /// The conversations of the rows, then their places, then their tokens.
    table: Tensor<i32, 2>,
    graph: Graph,
    /// The tokens that were chosen; none where text is read.
    chosen: Option<Tensor<i32, 1>>,
}

/// A row of a step: conversation, place and token.
type Row = [i32; 3];

impl Step {
    fn new(
        device: &Device,
        model: &Model,
        caches: &[Cache],
        rows: usize,
        sampling: Option<Sampling>,
    ) -> kiln::Result<Step> {
        let config = &model.config;
        let mut scratch = Scratch::new(device, config, rows)?;
        let table: Tensor<i32, 2> = device.zeros([3, rows])?;
        let (places, tokens) = (table.select(0, 1)?, table.select(0, 2)?);
        let zero = device.zeros([1])?;
        let heads = model.heads(device, rows);
        let parts = config.tokens.div_ceil(PART);
        let (graph, chosen) = device.graph(|_| {
            model.read(&tokens, &zero, &mut scratch, |layer, qkv, attended| {
                let [mut keys, mut values] = caches[layer].of_conversations(config)?;
                let angles = model.angles();
                kernels::remember(qkv, angles, &table, &mut keys, &mut values, heads).launch(device)?;
                kernels::attend(qkv, angles, &table, &keys, &values, attended, heads).launch(device)
            })?;
            let Some(Sampling { temperature, seed }) = sampling else { return Ok(None) };
            let mut logits = device.uninit([rows, config.tokens])?;
            model.predict(&scratch, &mut logits)?;
            let (mut best, mut token) = (device.uninit([rows, parts])?, device.uninit([rows, parts])?);
            kernels::likeliest(&logits, &places, &mut best, &mut token, temperature, seed, PART)
                .launch(device)?;
            let mut chosen = device.uninit([rows])?;
            kernels::choose(&best, &token, &mut chosen, parts).launch(device)?;
            Ok(Some(chosen))
        })?;
        Ok(Step { rows, table, graph, chosen })
    }

    /// Computes these rows, of which there is one at least and no more than the step has.
    fn run(&mut self, rows: &[Row]) -> kiln::Result<()> {
        let last = rows.len() - 1;
        let row = |i: usize| rows[i.min(last)];
        let table: Vec<i32> = (0..3).flat_map(|which| (0..self.rows).map(move |i| row(i)[which])).collect();
        self.table.write(&table)?;
        self.graph.replay()
    }
}

impl Batch {
    /// Loads a model for so many conversations of at most `context` tokens each. `end` is the token
    /// that ends an answer.
    ///
    /// # Errors
    /// As of [`Model::load`].
    pub fn new(
        device: &Device,
        source: Source<'_>,
        (count, context): (usize, usize),
        sampling: Sampling,
        end: Option<u32>,
    ) -> Result<Batch, Box<dyn Error>> {
        let model = Model::load(device, source, context)?;
        let caches = Cache::of_layers(device, &model.config, count)?;
        let step = |rows, sampling| Step::new(device, &model, &caches, rows, sampling);
        let read = step(if device.capabilities().is_simt() { 8 } else { ROWS }, None)?;
        // As conversations end, steps of fewer rows take less time; a few sizes do.
        let sizes = (0..usize::BITS).map(|i| 1 << i).take_while(|&rows| rows < count).chain([count]);
        let decode = sizes.map(|rows| step(rows, Some(sampling))).collect::<kiln::Result<_>>()?;
        let conversations = vec![Spoken::default(); count];
        Ok(Batch { model, end, read, decode, conversations })
    }

    /// Bytes of weights that are read for a step.
    pub fn bytes(&self) -> usize {
        self.model.bytes()
    }

    /// How many more tokens a conversation has room for.
    pub fn room(&self, which: usize) -> usize {
        self.model.config.context - self.conversations[which].handed
    }

    /// Appends tokens to a conversation, and asks for so many more at most. What an earlier request
    /// would still have brought is forgotten.
    ///
    /// # Errors
    /// If there is no room for them, or a token is none of the model's.
    pub fn ask(&mut self, which: usize, tokens: &[u32], count: usize) -> Result<(), Box<dyn Error>> {
        refuse_tokens(tokens, &self.model.config, self.room(which))?;
        let count = count.min(self.room(which) - tokens.len());
        let spoken = &mut self.conversations[which];
        spoken.tokens.truncate(spoken.handed);
        spoken.tokens.extend(tokens);
        // The last token is read where the next one is chosen.
        spoken.read = spoken.read.min(spoken.handed).min(spoken.tokens.len().saturating_sub(1));
        spoken.handed = spoken.tokens.len();
        spoken.asked = if spoken.handed == 0 { 0 } else { spoken.handed + count };
        Ok(())
    }

    /// The next token of an answer; none once it has ended. It computes one for each conversation
    /// that waits for more.
    ///
    /// # Errors
    /// What the device reports.
    pub fn next(&mut self, which: usize) -> kiln::Result<Option<u32>> {
        let Spoken { tokens, handed, asked, .. } = &self.conversations[which];
        if handed == asked {
            return Ok(None);
        }
        if handed == &tokens.len() {
            self.step()?;
        }
        let spoken = &mut self.conversations[which];
        spoken.handed += 1;
        Ok(spoken.tokens.get(spoken.handed - 1).copied())
    }

    /// Reads what was said, and chooses the next token of each conversation that waits for one.
    fn step(&mut self) -> kiln::Result<()> {
        loop {
            let rows: Vec<Row> = self.unread().take(self.read.rows).collect();
            if rows.is_empty() {
                break;
            }
            self.read.run(&rows)?;
            rows.iter().for_each(|&[which, ..]| self.conversations[which as usize].read += 1);
        }
        let waits = |spoken: &Spoken| spoken.tokens.len() < spoken.asked;
        let waiting: Vec<usize> =
            (0..self.conversations.len()).filter(|&i| waits(&self.conversations[i])).collect();
        let rows: Vec<Row> = waiting.iter().map(|&i| self.row(i, self.conversations[i].read)).collect();
        let Some(step) = self.decode.iter_mut().find(|step| step.rows >= rows.len()) else { return Ok(()) };
        step.run(&rows)?;
        let chosen = step.chosen.as_ref().map_or(Ok(Vec::new()), Tensor::to_vec)?;
        for (which, token) in waiting.into_iter().zip(chosen) {
            let spoken = &mut self.conversations[which];
            spoken.read += 1;
            spoken.tokens.push(token as u32);
            if Some(token as u32) == self.end {
                spoken.asked = spoken.tokens.len();
            }
        }
        Ok(())
    }

    /// Rows of text that is to be read before the next tokens can be chosen.
    fn unread(&self) -> impl Iterator<Item = Row> {
        self.conversations.iter().enumerate().flat_map(move |(which, spoken)| {
            (spoken.read..spoken.read + spoken.unread()).map(move |place| self.row(which, place))
        })
    }

    fn row(&self, which: usize, place: usize) -> Row {
        [which as i32, place as i32, self.conversations[which].tokens[place] as i32]
    }
}
