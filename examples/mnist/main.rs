//! From the perceptron to a vision transformer, in four networks on images of handwritten digits,
//! or, with `--fashion-mnist`, of clothes. They are written in arrays.
//!
//! ```text
//! cargo run --release --example mnist
//! cargo run --release --example mnist -- --model transformer --device cuda:0
//! cargo run --release --example mnist -- --fashion-mnist /usr/share/datasets/fashion-mnist
//! ```

#[path = "../digits/chart.rs"]
#[allow(dead_code)]
mod chart;
#[path = "../digits/data.rs"]
mod data;
#[path = "../digits/fashion.rs"]
mod fashion;
mod models;
mod train;

use clap::{Parser, ValueEnum};
use data::Set;
use indicatif::{ProgressBar, ProgressStyle};
use kiln::Device;
use models::{Convolutional, Mlp, Network, Perceptron, Transformer};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use train::Recipe;

/// Trains networks for images, from the perceptron to a vision transformer.
#[derive(Parser)]
struct Options {
    /// Which network.
    #[arg(long, value_enum, default_value_t = Model::All)]
    model: Model,
    /// Passes over the training images [default: 30, for Fashion-MNIST 3].
    #[arg(long)]
    epochs: Option<usize>,
    /// The device, such as `cpu` or `cuda:0` [default: the best one that is there].
    #[arg(long)]
    device: Option<String>,
    /// The seed of weights and of the order of images; equal seeds give equal losses.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The norm down to which longer gradients are scaled; 0 leaves them.
    #[arg(long, value_name = "NORM", default_value_t = 1.0, value_parser = norm)]
    clip: f64,
    /// Train on Fashion-MNIST: the folder with its IDX files (Debian's package
    /// dataset-fashion-mnist).
    #[arg(long, value_name = "DIR")]
    fashion_mnist: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Model {
    Perceptron,
    Mlp,
    Conv,
    Transformer,
    All,
}

fn norm(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(norm) if (0.0..f64::INFINITY).contains(&norm) => Ok(norm),
        _ => Err("a norm is a number, 0 or more".into()),
    }
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
    let device = match &options.device {
        Some(name) => Device::open(name)?,
        None => Device::default()?,
    };
    let ((train, test), epochs) = match &options.fashion_mnist {
        Some(folder) => (fashion::fashion_mnist(folder)?, 3),
        None => (data::digits()?, 30),
    };
    let (id, name) = (device.id(), &device.properties().name);
    println!(
        "{} training and {} test images of {} pixels, on {id} ({name})",
        train.len(),
        test.len(),
        train.size
    );
    let recipe = Recipe {
        epochs: options.epochs.unwrap_or(epochs),
        batch: 64,
        rate: 3e-3,
        clip: (options.clip > 0.0).then_some(options.clip),
        seed: options.seed,
    };
    let run = Run { device, recipe, train: Arc::new(train), test };
    let models = match options.model {
        Model::All => vec![Model::Perceptron, Model::Mlp, Model::Conv, Model::Transformer],
        one => vec![one],
    };
    let mut accuracy = 0.0;
    for model in models {
        accuracy = run.one(model)?;
    }
    println!("accuracy: {accuracy:.2} %");
    Ok(())
}

/// What all networks have in common.
struct Run {
    device: Device,
    recipe: Recipe,
    train: Arc<Set>,
    test: Set,
}

impl Run {
    /// Trains a network and gives its accuracy in percent.
    fn one(&self, model: Model) -> Result<f64, Box<dyn Error>> {
        match model {
            Model::Perceptron => self.network::<Perceptron>(
                "A perceptron: for each class a sum of the pixels with weights. Training moves the\n\
                 weights down the gradient of the cross entropy. It can only tell classes apart by\n\
                 which pixels are dark.",
            ),
            Model::Mlp => self.network::<Mlp>(
                "A multilayer perceptron: a layer of 128 features before the sums. A feature is a sum\n\
                 that counts only where it is positive (ReLU), so that pixels can count together.",
            ),
            Model::Conv => self.network::<Convolutional>(
                "A convolutional network: features are the same at each place, of 3 x 3 pixels first\n\
                 and of 3 x 3 such features then. What was learned in one corner holds in the others,\n\
                 and few weights are needed.",
            ),
            Model::Transformer | Model::All => self.network::<Transformer>(
                "A vision transformer: patches of the image are tokens. In each of two blocks every\n\
                 token looks at all others (attention) and is changed by a small network. Where things\n\
                 are is learned too, so that it needs more images to be the best.",
            ),
        }
    }

    fn network<N: Network>(&self, explained: &str) -> Result<f64, Box<dyn Error>> {
        println!("\n{explained}");
        let start = Instant::now();
        let bar = ProgressBar::new(self.recipe.steps(self.train.len()) as u64).with_style(
            ProgressStyle::with_template(
                "{bar:40} {pos}/{len} steps, loss {msg}, {elapsed_precise}, {eta} left",
            )?,
        );
        let mut losses = Vec::new();
        let net: N = train::train(&self.device, self.recipe, &self.train, |loss| {
            bar.inc(1);
            bar.set_message(format!("{loss:.4}"));
            losses.push(loss);
        })?;
        bar.finish();
        let right = train::count_correct(&self.device, &net, &self.test)?;
        let accuracy = 100.0 * right as f64 / self.test.len() as f64;
        if !losses.is_empty() {
            println!("\nloss\n{}", chart::text(&losses, 72, 6));
        }
        let seconds = start.elapsed().as_secs_f64();
        let parameters = net.parameter_count();
        println!("{parameters} parameters, {seconds:.1} s, {accuracy:.2} % of the test images are right");
        Ok(accuracy)
    }
}
