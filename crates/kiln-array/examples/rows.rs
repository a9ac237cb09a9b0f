//! Rows of `bench/compare.py` by programs over arrays: its `--arrays` starts this, and sends
//! requests by the line protocol that `bench/README.md` defines.
//!
//! `cargo build --release -p kiln-array --example rows`

use kiln_array::{Array, Result, Scalar, eval};
use kiln_runtime::{Clock, Device, Event};
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

/// What a row computes from its arguments.
type Work = fn(&[Array]) -> Array;

/// Elements of a vector, and the shape of a matrix.
const VECTOR: usize = 1 << 28;
const MATRIX: [usize; 2] = [16384, 4096];

/// As the other sides have it.
const EPSILON: f64 = 1e-5;

/// A row: its name, its arguments, and what it computes of them, in operations that know nothing of
/// each other.
struct Row {
    name: &'static str,
    arguments: fn(&Device) -> Vec<Array>,
    work: Work,
}

const ROWS: [Row; 5] = [
    Row { name: "add_f32_2^28", arguments: vectors, work: |a| &a[0] + &a[1] },
    Row {
        name: "chain_f32_2^28",
        arguments: vectors,
        work: |a| (&a[0] * &a[1] + &a[0]).maximum(0.0) * 0.5 + a[1].tanh(),
    },
    Row { name: "sum_f32_2^28", arguments: vectors, work: |a| a[0].sum() },
    Row { name: "softmax_f32_16384x4096", arguments: matrix, work: softmax },
    Row { name: "layernorm_bf16_16384x4096", arguments: weighted_matrix, work: layer_norm },
];

fn softmax(arguments: &[Array]) -> Array {
    let x = &arguments[0];
    let e = (x - x.max_keep(&[-1])).exp();
    &e / e.sum_keep(&[-1])
}

fn layer_norm(arguments: &[Array]) -> Array {
    let [x, weight, bias] = [0, 1, 2].map(|i| arguments[i].cast(Scalar::F32));
    let centered = &x - x.mean_keep(&[-1]);
    let variance = centered.square().mean_keep(&[-1]);
    (centered * (variance + EPSILON).rsqrt() * weight + bias).cast(Scalar::BF16)
}

/// Normally distributed numbers (Box and Muller).
fn normal(device: &Device, shape: &[usize], seed: u64) -> Array {
    let mut random = fastrand::Rng::with_seed(seed);
    // A block of them, repeated, is as good for timing and made in a moment.
    let block: Vec<f32> = (0..1 << 20)
        .map(|_| (-2.0 * (1.0 - random.f32()).ln()).sqrt() * (std::f32::consts::TAU * random.f32()).cos())
        .collect();
    let count = shape.iter().product();
    let numbers: Vec<f32> = block.iter().copied().cycle().take(count).collect();
    Array::new(device, &numbers, shape)
}

fn vectors(device: &Device) -> Vec<Array> {
    [1, 2].map(|seed| normal(device, &[VECTOR], seed)).into()
}

fn matrix(device: &Device) -> Vec<Array> {
    vec![normal(device, &MATRIX, 1)]
}

fn weighted_matrix(device: &Device) -> Vec<Array> {
    let [_, columns] = MATRIX;
    let arrays = [normal(device, &MATRIX, 1), normal(device, &[columns], 2), normal(device, &[columns], 3)];
    arrays.map(|array| array.cast(Scalar::BF16)).into()
}

/// The time of each of some rounds in microseconds, behind zeros written to 256 MiB on a GPU, as
/// the other sides do it.
fn times(device: &Device, work: Work, arguments: &[Array], rounds: usize) -> Result<Vec<f64>> {
    work(arguments).eval()?;
    device.synchronize()?;
    let mut times_us = Vec::with_capacity(rounds);
    if device.capabilities().clock != Clock::Device {
        for _ in 0..rounds {
            let start = Instant::now();
            work(arguments).eval()?;
            device.synchronize()?;
            times_us.push(start.elapsed().as_secs_f64() * 1e6);
        }
        return Ok(times_us);
    }
    let mut events = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        drop(device.zeros::<f32, 1>([64 << 20])?);
        let start = Event::now(device)?;
        work(arguments).eval()?;
        events.push((start, Event::now(device)?));
    }
    device.synchronize()?;
    for (start, end) in &events {
        times_us.push(f64::from(end.milliseconds_since(start)?) * 1e3);
    }
    Ok(times_us)
}

fn say(reply: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{reply}")?;
    out.flush()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(&std::env::args().nth(1).unwrap_or_else(|| "cpu".into()))?;
    let names: Vec<String> = ROWS.iter().map(|row| format!("{:?}", row.name)).collect();
    let (version, name) = (env!("CARGO_PKG_VERSION"), &device.properties().name);
    let names = names.join(", ");
    say(&format!(
        "{{\"ready\": \"Kiln\", \"version\": {version:?}, \"device\": {name:?}, \"rows\": [{names}]}}"
    ))?;
    let mut kept: Option<(&str, Vec<Array>)> = None;
    for line in stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let &["bench", name, rounds] = &words[..] else { break };
        let row = ROWS.iter().find(|row| row.name == name).ok_or("there is no such row")?;
        if kept.as_ref().is_none_or(|(kept, _)| *kept != row.name) {
            // The old data goes before the new is made: both may not fit.
            drop(kept.take());
            let arguments = (row.arguments)(&device);
            eval(&arguments.iter().collect::<Vec<_>>())?;
            kept = Some((row.name, arguments));
        }
        let Some((_, arguments)) = &kept else { continue };
        let times = times(&device, row.work, arguments, rounds.parse()?)?;
        say(&format!("{{\"name\": {name:?}, \"times_us\": {times:?}}}"))?;
    }
    Ok(())
}
