//! Attention without its scores in memory, against attention with them.
//!
//! ```text
//! cargo run --release --example attention
//! KILN_DEVICE=cuda:0 cargo run --release --example attention
//! ```
//!
//! Read `kernel.rs` first. This file computes the same by products and a softmax that keep all
//! scores, compares both with f64 on the host, and prints time, memory and largest error of each.

mod kernel;

use kernel::{Tile, flash};
use kiln::prelude::bf16;
use kiln::{Device, Execution, Result, Tensor};
use std::time::{Duration, Instant};

/// What is computed.
#[derive(Clone, Copy)]
struct Size {
    heads: usize,
    length: usize,
    width: usize,
}

impl Size {
    fn of(device: &Device) -> Size {
        match device.capabilities().execution {
            // A small GPU, or software.
            Execution::Simt if device.properties().units < 16 => Size { heads: 2, length: 1024, width: 64 },
            Execution::Simt => Size { heads: 16, length: 4096, width: 64 },
            Execution::Simd => Size { heads: 4, length: 1024, width: 64 },
            Execution::Interpreted => Size { heads: 1, length: 96, width: 16 },
        }
    }

    fn shape(self) -> [usize; 3] {
        [self.heads, self.length, self.width]
    }

    /// Bytes of q, k, v or o in f32.
    fn tensor(self) -> usize {
        4 * self.heads * self.length * self.width
    }

    /// Bytes of all scores in f32.
    fn scores(self) -> usize {
        4 * self.heads * self.length * self.length
    }
}

/// A way to compute it, and what came of it.
struct Outcome {
    name: &'static str,
    time: Duration,
    /// Bytes of memory besides q, k, v and o.
    memory: usize,
    /// Bytes that travel between memory and the processor, or its caches.
    traffic: usize,
    result: Vec<f32>,
}

fn main() -> Result<()> {
    let device = Device::default()?;
    let size = Size::of(&device);
    let Size { heads, length, width } = size;
    println!("on {} ({})", device.id(), device.properties().name);
    println!("attention of {heads} heads, {length} queries and keys, width {width}, f32\n");

    let mut random = fastrand::Rng::with_seed(7);
    let mut data = || (0..heads * length * width).map(|_| random.f32() * 4.0 - 2.0).collect::<Vec<f32>>();
    let inputs = [data(), data(), data()];
    let mut outcomes = vec![with_scores(&device, size, &inputs)?, without_scores(&device, size, &inputs)?];
    if device.capabilities().is_simt() {
        outcomes.push(library(&device, size, &inputs)?);
    }
    report(size, &outcomes, &inputs);
    Ok(())
}

/// Runs it once to compile, then three times; the fastest counts.
fn timed(device: &Device, mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    run()?;
    device.synchronize()?;
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        run()?;
        device.synchronize()?;
        fastest = fastest.min(start.elapsed());
    }
    Ok(fastest)
}

/// Head by head: scores, weights and their product with the values, each a tensor in memory.
fn with_scores(device: &Device, size: Size, [q, k, v]: &[Vec<f32>; 3]) -> Result<Outcome> {
    let Size { heads, length, width } = size;
    let scale = 1.0 / (width as f32).sqrt();
    let scaled: Vec<f32> = q.iter().map(|x| x * scale).collect();
    let head = |data: &[f32], h: usize| -> Result<Tensor<f32, 2>> {
        device.tensor(&data[h * length * width..][..length * width], [length, width])
    };
    let mut parts = Vec::new();
    for h in 0..heads {
        parts.push((
            head(&scaled, h)?,
            head(k, h)?.transpose(),
            head(v, h)?,
            device.uninit::<f32, 2>([length, width])?,
        ));
    }
    let (mut scores, mut weights) = (device.uninit([length, length])?, device.uninit([length, length])?);
    let time = timed(device, || {
        for (q, k, v, o) in &mut parts {
            kiln::kernels::matmul(q, k, &mut scores)?;
            kiln::kernels::softmax(&scores, &mut weights)?;
            kiln::kernels::matmul(&weights, v, o)?;
        }
        Ok(())
    })?;
    let mut result = Vec::new();
    for part in &parts {
        result.extend(part.3.to_vec()?);
    }
    Ok(Outcome {
        name: "with scores",
        time,
        memory: 2 * size.scores() / heads,
        traffic: 4 * size.tensor() + 4 * size.scores(),
        result,
    })
}

/// The kernel of `kernel.rs`.
fn without_scores(device: &Device, size: Size, inputs: &[Vec<f32>; 3]) -> Result<Outcome> {
    let rows = match device.capabilities().execution {
        Execution::Simd => 128,
        Execution::Simt => 32,
        Execution::Interpreted => 16,
    };
    let tile = Tile { queries: rows, keys: rows, width: size.width };
    let tensor = |data: &Vec<f32>| device.tensor(data, size.shape());
    let (q, k, v) = (tensor(&inputs[0])?, tensor(&inputs[1])?, tensor(&inputs[2])?);
    let mut o = device.uninit(size.shape())?;
    let time = timed(device, || flash(&q, &k, &v, &mut o, tile).launch(device))?;
    // Queries and results travel once; keys and values once for every tile of queries.
    let passes = size.length.div_ceil(rows);
    Ok(Outcome {
        name: "without scores",
        time,
        memory: 0,
        traffic: (2 + 2 * passes) * size.tensor(),
        result: o.to_vec()?,
    })
}

/// The library's attention in bf16, which goes to the tensor cores where there are any.
fn library(device: &Device, size: Size, inputs: &[Vec<f32>; 3]) -> Result<Outcome> {
    let tensor = |data: &Vec<f32>| -> Result<Tensor<bf16, 3>> {
        let half: Vec<bf16> = data.iter().map(|x| bf16::from_f32(*x)).collect();
        device.tensor(&half, size.shape())
    };
    let (q, k, v) = (tensor(&inputs[0])?, tensor(&inputs[1])?, tensor(&inputs[2])?);
    let mut o = device.uninit(size.shape())?;
    let time = timed(device, || kiln::kernels::attention(&q, &k, &v, &mut o, false))?;
    let rows = kiln::kernels::attention::hopper::AttentionPlan::of(size.width, 1).rows();
    let passes = size.length.div_ceil(rows);
    Ok(Outcome {
        name: "kiln_kernels, bf16",
        time,
        memory: 4 * size.heads * size.length,
        traffic: (2 + 2 * passes) * size.tensor() / 2,
        result: o.to_vec()?.iter().map(|x| x.to_f32()).collect(),
    })
}

/// One query's result in f64.
fn exact(size: Size, [q, k, v]: &[Vec<f32>; 3], head: usize, query: usize) -> Vec<f64> {
    let Size { length, width, .. } = size;
    let row = |x: &[f32], i: usize| -> Vec<f64> {
        x[(head * length + i) * width..][..width].iter().map(|x| f64::from(*x)).collect()
    };
    let asked = row(q, query);
    let score =
        |i: usize| asked.iter().zip(row(k, i)).map(|(x, y)| x * y).sum::<f64>() / (width as f64).sqrt();
    let scores: Vec<f64> = (0..length).map(score).collect();
    let greatest = scores.iter().copied().fold(f64::MIN, f64::max);
    let mut out = vec![0.0; width];
    let mut sum = 0.0;
    for (i, score) in scores.iter().enumerate() {
        let weight = (score - greatest).exp();
        sum += weight;
        out.iter_mut().zip(row(v, i)).for_each(|(o, x)| *o += weight * x);
    }
    out.iter().map(|x| x / sum).collect()
}

/// The largest difference from f64 among seven queries of every head.
fn largest_error(size: Size, inputs: &[Vec<f32>; 3], result: &[f32]) -> f64 {
    let mut largest = 0.0f64;
    for head in 0..size.heads {
        for query in (0..size.length).step_by(size.length / 7 + 1) {
            let own = &result[(head * size.length + query) * size.width..][..size.width];
            for (x, y) in own.iter().zip(exact(size, inputs, head, query)) {
                // Not a number is further off than any.
                let error = (f64::from(*x) - y).abs();
                largest = if error.is_nan() { f64::INFINITY } else { largest.max(error) };
            }
        }
    }
    largest
}

fn report(size: Size, outcomes: &[Outcome], inputs: &[Vec<f32>; 3]) {
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    println!("{:20} {:>12} {:>14} {:>14} {:>14}", "", "time", "extra memory", "bytes moved", "largest error");
    for o in outcomes {
        println!(
            "{:20} {:>9.3} ms {:>10.2} MiB {:>10.1} MiB {:>14.1e}",
            o.name,
            o.time.as_secs_f64() * 1e3,
            mib(o.memory),
            mib(o.traffic),
            largest_error(size, inputs, &o.result),
        );
    }
    println!("\nWhat travels between memory (or its caches) and the processor:\n");
    let most = outcomes.iter().map(|o| o.traffic).max().unwrap_or(1);
    for o in outcomes {
        let bar = |bytes: usize| (bytes * 60).div_ceil(most);
        // q, k, v and o once; what is beyond that.
        let least = 4 * size.tensor();
        let once = bar(least.min(o.traffic));
        println!("{:20} {}{}", o.name, "#".repeat(once), "+".repeat(bar(o.traffic).saturating_sub(once)));
    }
    println!("\n# queries, keys, values and results once   + scores, or keys and values again");
}
