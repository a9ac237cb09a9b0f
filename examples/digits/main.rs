//! Trains a two-layer perceptron on real handwritten digits. Every step (products, bias and ReLU,
//! softmax cross entropy, the backward pass, AdamW) is a kernel in `kernels.rs`, and runs on
//! whatever device is there.
//!
//! ```text
//! cargo run --release --example digits
//! KILN_DEVICE=cuda:0 cargo run --release --example digits -- --seed 7 --svg loss.svg
//! cargo run --release --example digits -- --fashion-mnist /usr/share/datasets/fashion-mnist
//! cargo run --release --example digits -- --compare interp      # the same losses, step by step, on another device
//! ```

mod chart;
mod data;
mod fashion;
mod kernels;
mod model;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kiln::Device;
use model::{Network, Recipe};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Trains a two-layer perceptron on handwritten digits, with Kiln kernels alone.
#[derive(Parser)]
struct Options {
    /// The seed of weights, order and noise; equal seeds give equal losses.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Passes over the training images [default: 40, for Fashion-MNIST 5].
    #[arg(long)]
    epochs: Option<usize>,
    /// Where to draw the loss curve.
    #[arg(long, default_value = "target/digits-loss.svg")]
    svg: PathBuf,
    /// Train on Fashion-MNIST: the folder with its IDX files (Debian's package
    /// dataset-fashion-mnist).
    #[arg(long, value_name = "DIR")]
    fashion_mnist: Option<PathBuf>,
    /// Train a few steps on this device too, and print how far the losses differ.
    #[arg(long, value_name = "DEVICE")]
    compare: Option<String>,
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
    let (train, test) = match &options.fashion_mnist {
        Some(folder) => fashion::fashion_mnist(folder)?,
        None => data::digits()?,
    };
    let recipe = recipe(options);
    println!(
        "{} training and {} test images of {} pixels, on {} ({})",
        train.len(),
        test.len(),
        train.size,
        device.id(),
        device.properties().name
    );
    if let Some(other) = &options.compare {
        return compare(&device, &Device::open(other)?, recipe, &train);
    }

    let start = Instant::now();
    let mut network = Network::new(&device, recipe, train.size, 10)?;
    let bar = ProgressBar::new(1).with_style(ProgressStyle::with_template(
        "{bar:40} {pos}/{len} steps, loss {msg}, {elapsed_precise}, {eta} left",
    )?);
    let mut losses = Vec::new();
    network.train(&train, usize::MAX, |step, of, loss| {
        bar.set_length(of as u64);
        bar.set_position(step as u64);
        bar.set_message(format!("{loss:.4}"));
        losses.push(loss);
    })?;
    bar.finish();
    let right = network.count_correct(&test)?;

    println!("\nloss\n{}", chart::text(&losses, 72, 8));
    if let Some(folder) = options.svg.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&options.svg, chart::svg(&losses, "Training loss"))?;
    println!(
        "loss curve in {}; {:.2} s in all, compilation included",
        options.svg.display(),
        start.elapsed().as_secs_f32()
    );
    println!("test accuracy: {:.2} %", 100.0 * right as f64 / test.len() as f64);
    Ok(())
}

fn recipe(options: &Options) -> Recipe {
    let epochs = options.epochs.unwrap_or(Recipe::DIGITS.epochs);
    let digits = Recipe { epochs, seed: options.seed, ..Recipe::DIGITS };
    match options.fashion_mnist {
        None => digits,
        Some(_) => Recipe { epochs: options.epochs.unwrap_or(5), learning_rate: 1e-3, noise: 0.0, ..digits },
    }
}

/// Trains the same network on two devices and compares the losses.
fn compare(a: &Device, b: &Device, recipe: Recipe, train: &data::Set) -> Result<(), Box<dyn Error>> {
    let steps = 20;
    let mut runs = Vec::new();
    for device in [a, b] {
        let mut losses = Vec::new();
        Network::new(device, recipe, train.size, 10)?.train(train, steps, |_, _, loss| losses.push(loss))?;
        runs.push(losses);
    }
    println!("step {:>12} {:>12}", a.id(), b.id());
    let mut largest = 0f32;
    for (step, (x, y)) in runs[0].iter().zip(&runs[1]).enumerate() {
        println!("{:4} {x:12.6} {y:12.6}", step + 1);
        largest = largest.max((x - y).abs() / y.abs());
    }
    println!("largest relative difference: {largest:.1e}");
    Ok(())
}
