//! Conversations with a model that stays on the device: one kernel, launched once, receives
//! requests and sends tokens as it chooses them.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | the conversations, as the host has them |
//! | `load.rs` | weights |
//! | `sizes.rs` | how a launch divides the work |
//! | `place.rs` | where a thread stands, and products of rows and vectors |
//! | `stream.rs` | the weights of a warp, which it loads before it needs them |
//! | `line.rs` | what blocks hand on to each other |
//! | `attention.rs` | attention in parts |
//! | `turns.rs` | requests, turns, and tokens for the host |
//! | `kernel.rs` | the kernel |

mod attention;
mod kernel;
mod line;
mod load;
mod place;
mod sizes;
mod stream;
mod turns;

use crate::conversation::Sampling;
use crate::model::{Config, Source, refuse_tokens};
use kiln::prelude::*;
use sizes::Sizes;
use std::error::Error;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use turns::{END, KEPT_WORDS, REQUEST, REQUESTS};

/// Warps of a block that multiply. With the one that waits they are three for each quarter of a
/// multiprocessor, so that a thread has 168 registers.
const WARPS: usize = 11;
/// How often the host looks for a token before it sleeps between looks, and for how long then.
const LOOKS: u32 = 50_000;
const SLEEP: Duration = Duration::from_micros(50);

/// How a model is kept on a device.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Whether weights are rounded to bf16; else they are f32.
    pub half: bool,
    /// Conversations that there is room for.
    pub conversations: usize,
    /// Blocks of the launch; as many as the device has multiprocessors without it.
    pub blocks: Option<usize>,
    /// Warps of a block that multiply.
    pub warps: Option<usize>,
}

impl Default for Form {
    fn default() -> Form {
        Form { half: true, conversations: 1, blocks: None, warps: None }
    }
}

/// Conversations with a model that stays on the device, numbered from 0 on.
pub struct Resident {
    config: Config,
    sizes: Sizes,
    end: Option<u32>,
    inbox: Arc<Mapped<u32>>,
    outbox: Arc<Mapped<u64>>,
    /// The thread that has launched the kernel and waits for its end.
    kernel: Option<JoinHandle<kiln::Result<()>>>,
    /// Requests that were sent.
    sent: u32,
    conversations: Vec<Spoken>,
}

/// A conversation, as the host knows it.
#[derive(Clone, Default)]
struct Spoken {
    /// Its tokens, and how many of them were read for certain.
    tokens: Vec<u32>,
    read: usize,
    /// The number of its last request, and how many tokens there are once it is answered.
    request: u32,
    asked: usize,
}

impl Resident {
    /// Loads a model for conversations of at most `context` tokens each, and launches it. `end` is
    /// the token that ends an answer.
    ///
    /// # Errors
    /// If the device has no barriers of the grid, or the kernel no room for the model; those of a
    /// [`Conversation`](crate::conversation::Conversation).
    pub fn new(
        device: &Device,
        source: Source<'_>,
        context: usize,
        end: Option<u32>,
        form: Form,
    ) -> Result<Resident, Box<dyn Error>> {
        if !device.capabilities().grid_barriers {
            return Err(format!("{} has no grid barriers, which a resident model needs", device.id()).into());
        }
        let mut config = source.config()?;
        config.context = config.context.min(context).max(1);
        let Config { width, inner, layers, heads, key_heads, context, tokens, epsilon, .. } = config;
        let blocks = form.blocks.unwrap_or((device.properties().units as usize).min(width).min(inner)).max(1);
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
            conversations: form.conversations.max(1),
            blocks,
            warps: form.warps.unwrap_or(WARPS).max(1),
        };
        if let Some(why) = sizes.refusal() {
            return Err(format!("this model cannot stay on {}: {why}", device.id()).into());
        }
        let (words, gains) = load::load(&source, sizes)?;
        let angles = config.angles();
        let conversations = sizes.conversations;
        let cache = conversations * layers * key_heads * sizes.head * context;
        let weights = device.tensor(&words, [words.len()])?;
        let gains = device.tensor(&gains, [gains.len()])?;
        let angles = device.tensor(&angles, [angles.len()])?;
        let (mut keys, mut values) = (device.zeros([cache])?, device.zeros([cache])?);
        let mut passed = device.zeros([sizes.passed()[9]])?;
        let mut clerk = device.zeros([conversations * KEPT_WORDS + 2])?;
        let inbox = Arc::new(device.mapped(REQUESTS * REQUEST + conversations * context)?);
        let outbox = Arc::new(device.mapped(1 + conversations * context)?);
        let (mail, device) = ((inbox.clone(), outbox.clone()), device.clone());
        // A launch returns at once on a GPU, and in the interpreter when the kernel ends.
        let kernel = thread::spawn(move || {
            let stream = device.stream()?;
            kernel::serve(
                &weights,
                &gains,
                &angles,
                &mut keys,
                &mut values,
                &mut passed,
                &mut clerk,
                &mail.0,
                &mail.1,
                end.unwrap_or(u32::MAX),
                epsilon,
                sizes,
            )
            .grid([sizes.blocks as u32])
            .block([sizes.threads() as u32])
            .on(&stream)
            .launch(&device)?;
            stream.synchronize()
        });
        let conversations = vec![Spoken::default(); conversations];
        Ok(Resident { config, sizes, end, inbox, outbox, kernel: Some(kernel), sent: 0, conversations })
    }

    /// Bytes of weights that are read for a token.
    pub fn bytes(&self) -> usize {
        let [.., embedding, logits, end] = self.sizes.weights();
        4 * if self.sizes.own_logits { embedding + end - logits } else { end }
    }

    /// How many more tokens a conversation has room for.
    pub fn room(&self, which: usize) -> usize {
        self.config.context - self.conversations[which].tokens.len()
    }

    /// Appends tokens to a conversation, and asks for so many more at most. It does not wait. What
    /// an earlier request would still have brought is forgotten.
    ///
    /// # Errors
    /// If there is no room for them, or a token is none of the model's; if the kernel has ended.
    pub fn ask(
        &mut self,
        which: usize,
        tokens: &[u32],
        count: usize,
        sampling: Sampling,
    ) -> Result<(), Box<dyn Error>> {
        if which >= self.conversations.len() {
            return Err(format!(
                "there are {} conversations, and none of number {which}",
                self.conversations.len()
            )
            .into());
        }
        refuse_tokens(tokens, &self.config, self.room(which))?;
        let count = count.min(self.room(which) - tokens.len());
        let row = REQUESTS * REQUEST + which * self.config.context;
        let spoken = &mut self.conversations[which];
        spoken.tokens.extend(tokens);
        let known = spoken.tokens.len();
        if known == 0 {
            return Ok(());
        }
        spoken.asked = known + count;
        spoken.read = spoken.read.min(known - 1);
        let first = spoken.read;
        for (place, &token) in spoken.tokens.iter().enumerate().skip(first) {
            self.inbox.store(row + place, token)?;
        }
        // The last token that is asked for is not read.
        let until = if count == 0 { first } else { known + count - 1 };
        let Sampling { temperature, seed } = sampling;
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let words = [first as u32, known as u32, until as u32, temperature.to_bits(), low, high];
        self.conversations[which].request = self.send(which as u32, words)?;
        Ok(())
    }

    /// Ends the answer that a conversation waits for.
    ///
    /// # Errors
    /// If the kernel has ended.
    pub fn stop(&mut self, which: usize) -> Result<(), Box<dyn Error>> {
        self.ask(which, &[], 0, Sampling { temperature: 0.0, seed: 0 })
    }

    /// The next token of an answer, as soon as it is chosen; none once it has ended.
    ///
    /// # Errors
    /// If the kernel has ended, with what ended it.
    pub fn next(&mut self, which: usize) -> Result<Option<u32>, Box<dyn Error>> {
        let mut looks = 0;
        while !self.is_answered(which) {
            if let Some(token) = self.try_next(which)? {
                return Ok(Some(token));
            }
            self.pause(&mut looks)?;
        }
        Ok(None)
    }

    /// Whether a conversation waits for no more tokens.
    pub fn is_answered(&self, which: usize) -> bool {
        let Spoken { tokens, asked, .. } = &self.conversations[which];
        tokens.len() >= *asked
    }

    /// The next token of an answer, if it was chosen already.
    ///
    /// # Errors
    /// None but those of memory that is not there.
    pub fn try_next(&mut self, which: usize) -> Result<Option<u32>, Box<dyn Error>> {
        let spoken = &mut self.conversations[which];
        if spoken.tokens.len() >= spoken.asked {
            return Ok(None);
        }
        let word = self.outbox.load(1 + which * self.config.context + spoken.tokens.len())?;
        if (word >> 32) as u32 != spoken.request {
            return Ok(None);
        }
        let token = word as u32;
        spoken.read = spoken.tokens.len();
        spoken.tokens.push(token);
        if Some(token) == self.end {
            spoken.asked = spoken.tokens.len();
        }
        Ok(Some(token))
    }

    /// Sends a request, and gives its number.
    fn send(&mut self, which: u32, words: [u32; 6]) -> Result<u32, Box<dyn Error>> {
        let mut looks = 0;
        while self.sent.wrapping_sub(self.outbox.load(0)? as u32) >= REQUESTS as u32 {
            self.pause(&mut looks)?;
        }
        let first = self.sent as usize % REQUESTS * REQUEST;
        self.inbox.store(first + 1, which)?;
        for (i, word) in words.into_iter().enumerate() {
            self.inbox.store(first + 2 + i, word)?;
        }
        self.sent = self.sent.wrapping_add(1);
        self.inbox.store(first, self.sent)?;
        Ok(self.sent)
    }

    /// Lets time pass between two looks at what the kernel may have sent.
    fn pause(&mut self, looks: &mut u32) -> Result<(), Box<dyn Error>> {
        *looks += 1;
        if *looks < LOOKS {
            std::hint::spin_loop();
            return Ok(());
        }
        thread::sleep(SLEEP);
        match self.kernel.take_if(|kernel| kernel.is_finished()) {
            None if self.kernel.is_some() => Ok(()),
            None => Err("the model is no longer on the device".into()),
            Some(kernel) => Err(match kernel.join() {
                Ok(Err(error)) => error.into(),
                _ => "the model has left the device".into(),
            }),
        }
    }
}

impl Drop for Resident {
    /// Ends the kernel, and waits for its end.
    fn drop(&mut self) {
        if self.kernel.is_some() && self.send(END, [0; 6]).is_ok() {
            let _ = self.kernel.take().map(JoinHandle::join);
        }
    }
}
