//! Trains a small GPT-2 from scratch on two books of the Bible, and lets it write. The network is
//! written in arrays, their gradients are recorded, and Kiln compiles all kernels while it runs.
//!
//! ```text
//! cargo run --release --example gpt                          # two minutes on two cores
//! cargo run --release --example gpt -- --tokens pairs --sample 400
//! cargo run --release --example gpt -- --checkpoint target/gpt.safetensors    # again: goes on
//! cargo run --release --example gpt -- --device cuda:0 --size 124m --precision bf16 --steps 50
//! ```

#[path = "../digits/chart.rs"]
#[allow(dead_code)]
mod chart;
mod model;
mod pairs;
mod profile;
mod text;
mod training;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use kiln::Device;
use kiln::array::nn::Key;
use kiln::array::{Array, Module};
use model::Extents;
use pairs::Tokens;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use text::Text;
use training::{Recipe, Training};

/// Trains a GPT-2-like language model from scratch.
#[derive(Parser)]
struct Options {
    /// The network: `small`, or `124m`, which is GPT-2's shape.
    #[arg(long, value_enum, default_value_t = Size::Small)]
    size: Size,
    /// The same as `--size small`.
    #[arg(long, conflicts_with = "size")]
    small: bool,
    /// What a token is: a byte, or one of 512 that are learned from the text.
    #[arg(long, value_enum, default_value_t = Kind::Bytes)]
    tokens: Kind,
    /// The number of steps.
    #[arg(long, default_value_t = 500)]
    steps: usize,
    /// Sequences of a step [default: 16, for 124m 4].
    #[arg(long)]
    batch: Option<usize>,
    /// Tokens of a sequence [default: 64, for 124m 1024].
    #[arg(long)]
    length: Option<usize>,
    /// The device, such as `cpu` or `cuda:0` [default: the best one that is there].
    #[arg(long)]
    device: Option<String>,
    /// The numbers to compute in; parameters are f32.
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,
    /// Where to keep the state: it is written every 100 steps and at the end, and a run begins with
    /// it if it is there.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// The number of tokens to write at the end.
    #[arg(long, default_value_t = 200)]
    sample: usize,
    /// The seed of weights, batches and samples; equal seeds give equal losses.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the kernels of one more step, by the time that they take on the device.
    #[arg(long)]
    profile: bool,
    /// Train on this text instead.
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Size {
    Small,
    #[value(name = "124m")]
    Gpt2,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Bytes,
    Pairs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Precision {
    F32,
    Bf16,
}

/// The number of tokens with learned pairs.
const PAIRS: usize = 512;
/// Steps between checkpoints.
const KEPT: usize = 100;
/// The time between readings of losses.
const READ_EVERY: Duration = Duration::from_secs(2);

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
    let device = match &options.device {
        Some(name) => Device::open(name)?,
        None => Device::default()?,
    };
    let (text, recipe) = prepared(options)?;
    let mut training = Training::new(&device, recipe)?;
    if let Some(path) = options.checkpoint.as_ref().filter(|path| path.exists()) {
        training.resume(path)?;
        println!("goes on after step {} of {}", training.steps(), path.display());
    }
    println!(
        "{} parameters, {} tokens of {} kinds, on {} ({})",
        training.net.parameter_count(),
        text.len(),
        text.tokens.count(),
        device.id(),
        device.properties().name
    );
    let losses = train(&mut training, &text, recipe, options)?;
    if !losses.is_empty() {
        println!("\nloss\n{}", chart::text(&losses, 72, 8));
    }
    if options.profile {
        profile::profile(&device, || Ok(training.step(&text).map(drop)?))?;
    }
    if options.sample > 0 {
        let written = training.sample(&text, "And ", options.sample, Key::new(options.seed).fold(2))?;
        println!("{written}\n");
    }
    println!("validation loss: {:.3}", training.validation_loss(&text, 8)?);
    Ok(())
}

/// The text and what is done with it.
fn prepared(options: &Options) -> Result<(Text, Recipe), Box<dyn Error>> {
    let words = match &options.text {
        Some(path) => std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?,
        None => include_str!("data/genesis-exodus.txt").into(),
    };
    let large = options.size == Size::Gpt2;
    let length = options.length.unwrap_or(if large { 1024 } else { 64 });
    let batch = options.batch.unwrap_or(if large { 4 } else { 16 });
    if length == 0 || batch == 0 {
        return Err("--length and --batch are at least 1".into());
    }
    let tokens = match options.tokens {
        Kind::Bytes => Tokens::bytes(),
        Kind::Pairs => Tokens::learned(&words, PAIRS - Tokens::bytes().count()),
    };
    let extents = match options.size {
        Size::Small => {
            Extents { vocabulary: tokens.count(), context: length, width: 128, heads: 4, layers: 4 }
        }
        // As many as GPT-2 has tokens, in whole multiples of 64 for the tensor cores. The text has
        // only the first ones.
        Size::Gpt2 => {
            Extents { vocabulary: 50_304, context: length.max(1024), width: 768, heads: 12, layers: 12 }
        }
    };
    let rate = if large { 6e-4 } else { 2e-3 };
    let bf16 = options.precision == Precision::Bf16;
    let recipe = Recipe { extents, batch, length, steps: options.steps, rate, bf16, seed: options.seed };
    Ok((Text::new(&words, tokens, length)?, recipe))
}

/// The steps that are left, with a bar. Gives their losses.
fn train(
    training: &mut Training,
    text: &Text,
    recipe: Recipe,
    options: &Options,
) -> Result<Vec<f32>, Box<dyn Error>> {
    let bar = ProgressBar::new(recipe.steps as u64).with_style(ProgressStyle::with_template(
        "{bar:40} {pos}/{len} steps, {msg}, {elapsed_precise}, {eta} left",
    )?);
    bar.set_position(training.steps() as u64);
    let mut losses = Vec::new();
    let (mut pending, mut read) = (Vec::new(), Instant::now());
    // The first two steps compile.
    let (mut begun, mut counted) = (Instant::now(), 0);
    while training.steps() < recipe.steps {
        // Reading a loss waits for all that was enqueued, and the device for the host after it: so
        // they are read now and then, together.
        pending.push(training.step(text)?);
        if read.elapsed() >= READ_EVERY {
            note(&bar, &mut losses, &mut pending)?;
            read = Instant::now();
        }
        bar.set_position(training.steps() as u64);
        counted += 1;
        if counted == 2 {
            note(&bar, &mut losses, &mut pending)?;
            begun = Instant::now();
            read = begun;
        }
        if let Some(path) = options.checkpoint.as_ref().filter(|_| training.steps().is_multiple_of(KEPT)) {
            training.save(path)?;
        }
    }
    note(&bar, &mut losses, &mut pending)?;
    bar.finish();
    if counted > 2 {
        let tokens = ((counted - 2) * recipe.batch * recipe.length) as f64;
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{:.0} tokens/s, {:.1} ms a step",
            tokens / seconds,
            1e3 * seconds / f64::from(counted as u32 - 2)
        );
    }
    if let Some(path) = &options.checkpoint {
        training.save(path)?;
    }
    Ok(losses)
}

/// Reads losses.
fn note(bar: &ProgressBar, losses: &mut Vec<f32>, pending: &mut Vec<Array>) -> Result<(), Box<dyn Error>> {
    for loss in pending.drain(..) {
        losses.push(loss.item()?);
    }
    if let Some(loss) = losses.last() {
        bar.set_message(format!("loss {loss:.4}"));
    }
    Ok(())
}
