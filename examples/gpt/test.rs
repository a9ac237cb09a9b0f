//! The example `gpt` against NumPy in f64 (`reference.py`), and against itself after an
//! interruption.

#[path = "model.rs"]
mod model;
#[path = "pairs.rs"]
mod pairs;
#[path = "text.rs"]
#[allow(dead_code)]
mod text;
#[path = "training.rs"]
#[allow(dead_code)]
mod training;

use kiln::Device;
use kiln::array::nn::Key;
use libtest_mimic::{Arguments, Failed, Trial};
use model::Extents;
use pairs::Tokens;
use std::path::PathBuf;
use std::process::ExitCode;
use text::Text;
use training::{Recipe, Training};

/// How far a loss may be from that in f64, relatively.
const TOLERANCE: f64 = 2e-6;

const BOOKS: &str = include_str!("data/genesis-exodus.txt");

/// The run that `reference.py` does too, of odd extents.
const TINY: Recipe = Recipe {
    extents: Extents { vocabulary: 256, context: 8, width: 16, heads: 2, layers: 2 },
    batch: 3,
    length: 7,
    steps: 60,
    rate: 1e-2,
    bf16: false,
    seed: 5,
};

type Outcome = Result<(), Failed>;

fn main() -> ExitCode {
    let trials = vec![
        Trial::test("first_losses_on_cpu", || first_losses("cpu")),
        Trial::test("first_losses_on_interp", || first_losses("interp")),
        Trial::test("the_loss_falls", the_loss_falls),
        Trial::test("a_resumed_run_has_the_same_losses", a_resumed_run_has_the_same_losses),
        Trial::test("other_checkpoints_are_refused", other_checkpoints_are_refused),
        Trial::test("pairs_are_undone", pairs_are_undone),
        Trial::test("short_texts_are_refused", short_texts_are_refused),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn expect(holds: bool, message: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(message().into()) }
}

fn bytes() -> Result<Text, Failed> {
    Ok(Text::new(BOOKS, Tokens::bytes(), TINY.length)?)
}

/// The losses of some steps.
fn losses(training: &mut Training, text: &Text, count: usize) -> Result<Vec<f32>, Failed> {
    (0..count).map(|_| Ok(training.step(text)?.item()?)).collect()
}

/// A file of this process alone.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kiln-gpt-{}-{name}.safetensors", std::process::id()))
}

fn first_losses(device: &str) -> Outcome {
    let expected: Vec<f64> = serde_json::from_str(include_str!("data/losses.json"))?;
    let mut training = Training::new(&Device::open(device)?, TINY)?;
    // The interpreter takes its time.
    let count = if device == "interp" { 1 } else { expected.len() };
    let got = losses(&mut training, &bytes()?, count)?;
    for (step, (&got, expected)) in got.iter().zip(&expected).enumerate() {
        let error = (f64::from(got) - expected).abs() / expected;
        expect(error < TOLERANCE, || format!("step {step}: {got}, expected {expected}"))?;
    }
    expect(expected.len() == 3, || "three losses are in the file".into())
}

fn the_loss_falls() -> Outcome {
    let recipe = Recipe { batch: 8, ..TINY };
    let (mut training, text) = (Training::new(&Device::open("cpu")?, recipe)?, bytes()?);
    let all = losses(&mut training, &text, recipe.steps)?;
    // At first all 256 bytes are as likely: 5.5 nats. So small a network learns how often they are.
    let last = all[50..].iter().sum::<f32>() / 10.0;
    expect(all[0] > 5.4 && last < 3.3, || format!("{all:?}"))?;
    let validation = training.validation_loss(&text, 3)?;
    expect((2.0..3.4).contains(&validation), || format!("validation loss: {validation}"))?;
    let [one, again, other] = [1, 1, 2].map(|seed| training.sample(&text, "And", 12, Key::new(seed)));
    let (one, again, other) = (one?, again?, other?);
    expect(one == again && one != other && one.starts_with("And"), || format!("{one:?}, {other:?}"))
}

fn a_resumed_run_has_the_same_losses() -> Outcome {
    let (device, text, path) = (Device::open("cpu")?, bytes()?, file("resumed"));
    let mut whole = Training::new(&device, TINY)?;
    let before = losses(&mut whole, &text, 4)?;
    whole.save(&path)?;
    let after = losses(&mut whole, &text, 4)?;

    let mut resumed = Training::new(&device, TINY)?;
    let outcome = resumed.resume(&path);
    std::fs::remove_file(&path)?;
    outcome?;
    expect(resumed.steps() == 4, || format!("goes on after step {}", resumed.steps()))?;
    let again = losses(&mut resumed, &text, 4)?;
    expect(again == after && again != before, || format!("{again:?}, expected {after:?}"))
}

fn other_checkpoints_are_refused() -> Outcome {
    let (device, path) = (Device::open("cpu")?, file("other"));
    Training::new(&device, TINY)?.save(&path)?;
    let refused = |recipe: Recipe| -> Result<String, Failed> {
        let error = Training::new(&device, recipe)?.resume(&path).err();
        error.map(|error| error.to_string()).ok_or_else(|| "it was not refused".into())
    };
    let seed = refused(Recipe { seed: 6, ..TINY });
    let wider = refused(Recipe { extents: Extents { width: 32, ..TINY.extents }, ..TINY });
    std::fs::remove_file(&path)?;
    let (seed, wider) = (seed?, wider?);
    expect(seed.contains("is of a run with seed 5, and this one has 6"), || seed)?;
    expect(wider.contains("`parameters.tokens.weight` has shape [256, 16] instead of [256, 32]"), || wider)
}

fn pairs_are_undone() -> Outcome {
    let tokens = Tokens::learned(BOOKS, 100);
    expect(tokens.count() == 356, || format!("{} tokens", tokens.count()))?;
    let known = tokens.encode(BOOKS);
    expect(known.len() * 10 < BOOKS.len() * 7, || format!("{} tokens of the books", known.len()))?;
    expect(tokens.decode(&known) == BOOKS, || "the books differ".into())?;
    for text in ["", " ", "the  theth\n\nthe", "naïve café — 日本語 😀", "And God said"] {
        let again = tokens.decode(&tokens.encode(text));
        expect(again == text, || format!("{again:?}, expected {text:?}"))?;
    }
    let the: Vec<u32> = tokens.encode(" the");
    expect(the.len() == 1, || format!("{the:?}"))?;
    let few = Tokens::learned("a", 5);
    expect(few.count() == 256, || "no pair is there twice".into())
}

fn short_texts_are_refused() -> Outcome {
    let error = Text::new("too short", Tokens::bytes(), 64).err().unwrap_or_default();
    let expected = "a text of 9 tokens is too short for sequences of 64: there must be 650 at least";
    expect(error == expected, || error)
}
