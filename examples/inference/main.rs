//! A trained network as a resident actor: an image goes in, its class comes out, and nothing is
//! launched in between.
//!
//! Trains the network of `examples/digits`, leaves its weights on the device as payloads of an
//! actor's state, and classifies the test images one by one, each as soon as the answer to the one
//! before is there: by the actor, and by launches (copy in, two kernels, copy out).
//!
//! ```text
//! cargo run --release --example inference
//! KILN_DEVICE=cuda:0 cargo run --release --example inference
//! ```

#[path = "../digits/data.rs"]
mod data;
#[path = "../digits/kernels.rs"]
mod kernels;
#[path = "../digits/model.rs"]
mod model;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kiln::Execution;
use kiln::prelude::*;
use kiln::ring::{Message, Payload, RingConfig, RingCtx, RingRuntime, State, WaitPolicy, ring_kernel};
use model::{Network, Recipe};
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

/// Classifies handwritten digits by a resident actor, against a launch for each image.
#[derive(Parser)]
struct Options {
    /// The seed of weights, order and noise.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How often all test images are classified, after a first time that does not count.
    #[arg(long, default_value_t = 4)]
    rounds: usize,
}

const PIXELS: usize = 64;
const CLASSES: usize = 10;

#[derive(Message)]
struct Image {
    pixels: [f32; PIXELS],
}

#[derive(Message)]
struct Answer {
    class: u32,
    logits: [f32; CLASSES],
}

/// Matrices are row-major `[inputs, outputs]`.
#[derive(State)]
struct Weights {
    w1: Payload<f32>,
    b1: Payload<f32>,
    w2: Payload<f32>,
    b2: Payload<f32>,
}

/// x → relu(x w1 + b1) w2 + b2. The lanes share the hidden units; each adds up what its units give
/// every class.
#[ring_kernel]
fn classify(ctx: &RingCtx, s: &mut Weights, image: Image) -> Answer {
    let (w1, b1, w2, b2) = (ctx.array(&s.w1), ctx.array(&s.b1), ctx.array(&s.w2), ctx.array(&s.b2));
    let mut logits = [val(0.0f32); CLASSES];
    for unit in ctx.share(b1.len()) {
        let mut sum = b1.get(unit);
        for i in 0..PIXELS {
            sum += image.pixels[i] * w1.get_or(b1.len() * i as u32 + unit, 0.0);
        }
        let hidden = sum.maximum(0.0);
        for class in 0..CLASSES {
            logits[class] += hidden * w2.get_or(unit * CLASSES as u32 + class as u32, 0.0);
        }
    }
    let (mut class, mut best) = (val(0u32), val(f32::NEG_INFINITY));
    for k in 0..CLASSES {
        logits[k] = ctx.sum(logits[k]) + b2.get(k as u32);
        class = select(logits[k].gt(best), k as u32, class);
        best = best.maximum(logits[k]);
    }
    Answer { class, logits }
}

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
    let (train, test) = data::digits()?;
    // The interpreter checks every operation, and takes its time for it.
    let (steps, images) =
        if device.capabilities().is_interpreted() { (20, 20) } else { (usize::MAX, test.len()) };
    let recipe = Recipe { seed: options.seed, ..Recipe::DIGITS };
    let mut network = Network::new(&device, recipe, PIXELS, CLASSES)?;
    let bar =
        ProgressBar::new(1).with_style(ProgressStyle::with_template("training: {bar:40} {pos}/{len} steps")?);
    network.train(&train, steps, |step, of, _| {
        bar.set_length(of as u64);
        bar.set_position(step as u64);
    })?;
    bar.finish_and_clear();
    println!(
        "on {} ({}): {} of {} test images right, by batches",
        device.id(),
        device.properties().name,
        network.count_correct(&test)?,
        test.len()
    );

    let runtime = RingRuntime::new(&device)?;
    let [w1, b1, w2, b2] = network.parameters()?;
    let weights = Weights {
        w1: runtime.payload_of(&w1)?,
        b1: runtime.payload_of(&b1)?,
        w2: runtime.payload_of(&w2)?,
        b2: runtime.payload_of(&b2)?,
    };
    // To spin takes a core for itself, of which a device that is the processor may need every one.
    let wait = if device.capabilities().execution == Execution::Simd {
        WaitPolicy::default()
    } else {
        WaitPolicy::SPIN
    };
    let actor = runtime.launch(classify, RingConfig::default().state(weights).wait(wait))?;
    actor.activate()?;
    let image =
        |i: usize| -> Result<Image, Box<dyn Error>> { Ok(Image { pixels: test.image(i).try_into()? }) };
    let resident = timed(options, &test, images, |i| {
        let answer = actor.ask(image(i)?)?.ok_or("the actor gave no answer")?;
        Ok((answer.class as usize, answer.logits.to_vec()))
    })?;
    actor.terminate()?;
    let mut row = network.row()?;
    let launched = timed(options, &test, images, |i| {
        let logits = row.logits(&network, test.image(i))?;
        let best = (0..CLASSES).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0);
        Ok((best, logits))
    })?;

    let differ =
        resident.logits.iter().zip(&launched.logits).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    println!("largest difference of a logit between the two: {differ:.1e}");
    println!("resident actor ({}): {resident}", runtime.transport());
    println!("launch for each image: {launched}");
    println!("test accuracy: {:.2} %", 100.0 * resident.right as f64 / images as f64);
    // Both add up in f32, in different orders.
    if differ < 1e-3 { Ok(()) } else { Err("the actor and the launches differ".into()) }
}

/// What classifying all images gave, and how long one took.
struct Timed {
    right: usize,
    logits: Vec<f32>,
    /// Sorted.
    times_us: Vec<f64>,
}

fn timed(
    options: &Options,
    test: &data::Set,
    images: usize,
    mut one: impl FnMut(usize) -> Result<(usize, Vec<f32>), Box<dyn Error>>,
) -> Result<Timed, Box<dyn Error>> {
    let mut all = Timed { right: 0, logits: Vec::new(), times_us: Vec::new() };
    for round in 0..options.rounds.max(1) + 1 {
        (all.right, all.logits) = (0, Vec::new());
        for i in 0..images {
            let start = Instant::now();
            let (class, logits) = one(i)?;
            let time = start.elapsed().as_secs_f64() * 1e6;
            if round > 0 {
                all.times_us.push(time);
            }
            all.right += usize::from(class as i32 == test.labels[i]);
            all.logits.extend(logits);
        }
    }
    all.times_us.sort_by(f64::total_cmp);
    Ok(all)
}

impl std::fmt::Display for Timed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quantile = |q: f64| self.times_us[((self.times_us.len() - 1) as f64 * q) as usize];
        write!(f, "{} right, {:.2} us p50, {:.2} us p99 an image", self.right, quantile(0.5), quantile(0.99))
    }
}
