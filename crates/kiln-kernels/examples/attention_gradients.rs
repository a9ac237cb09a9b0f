//! The gradients of attention: errors against float64, and times of the kernels in different
//! divisions.
//!
//! `cargo run --release -p kiln-kernels --example attention_gradients DEVICE errors`; other parts
//! are `times` and `plans`.

use kiln_kernels::Attention;
use kiln_kernels::attention::hopper_gradients::{self, GradientPlan};
use kiln_kernels::attention::{Given, gradients, schedule};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Result, Tensor};
use std::time::Instant;

/// Batch, length, heads and width, and whether a query sees no key after its place.
type Problem = (usize, usize, usize, usize, bool);

fn main() -> Result<()> {
    let device = Device::open(&std::env::args().nth(1).unwrap_or_else(|| "interp".into()))?;
    let part = std::env::args().nth(2);
    if !matches!(part.as_deref(), Some("times" | "plans")) {
        for problem in [
            (1, 64, 1, 64, false),
            (1, 64, 1, 64, true),
            (1, 1, 1, 64, true),
            (2, 129, 3, 64, false),
            (2, 200, 2, 64, true),
            (1, 513, 2, 64, true),
            (1, 77, 2, 128, false),
            (2, 300, 2, 128, true),
            (1, 1000, 1, 128, false),
            (1, 777, 2, 80, true),
            (3, 257, 50, 40, true),
        ] {
            if part.is_some() || problem.1 < 130 && problem.0 * problem.2 < 3 {
                errors(&device, problem)?;
            }
        }
    }
    if part.as_deref() != Some("errors") && part.is_some() {
        for width in [64, 128] {
            for length in [4096, 16384] {
                for causal in [false, true] {
                    let problem = (16384 / length, length, 2048 / width, width, causal);
                    times(&device, problem, part.as_deref() == Some("plans"))?;
                }
            }
        }
    }
    Ok(())
}

fn numbers(seed: u64, count: usize, factor: f32) -> Vec<bf16> {
    let mut random = fastrand::Rng::with_seed(seed);
    let sum = |random: &mut fastrand::Rng| (0..4).map(|_| random.f32() - 0.5).sum::<f32>() * 1.732;
    (0..count).map(|_| bf16::from_f32(factor * sum(&mut random))).collect()
}

/// The norm of the difference from float64 by the norm of the gradient, for each of the three.
fn errors(device: &Device, (batch, length, heads, width, causal): Problem) -> Result<()> {
    let qkv = numbers(1, batch * length * 3 * heads * width, 1.0);
    let g = numbers(2, batch * length * heads * width, 1.0);
    let (mut sums, mut means) = (vec![0.0f32; batch * heads * length], vec![0.0f32; batch * heads * length]);
    let mut exact = vec![0.0f64; qkv.len()];
    let scale = 1.0 / (width as f64).sqrt();
    for b in 0..batch {
        for h in 0..heads {
            let at = |row: usize, part: usize| (((b * length + row) * 3 + part) * heads + h) * width;
            let x = |row: usize, part: usize, i: usize| qkv[at(row, part) + i].to_f64();
            let slope = |row: usize, i: usize| g[((b * length + row) * heads + h) * width + i].to_f64();
            for q in 0..length {
                let seen = if causal { q + 1 } else { length };
                let dot = |k: usize| (0..width).map(|i| x(q, 0, i) * x(k, 1, i)).sum::<f64>();
                let scores: Vec<f64> = (0..seen).map(|k| scale * dot(k)).collect();
                let sum: f64 = scores.iter().map(|s| s.exp()).sum();
                let weights: Vec<f64> = scores.iter().map(|s| s.exp() / sum).collect();
                let of: Vec<f64> =
                    (0..seen).map(|k| (0..width).map(|i| slope(q, i) * x(k, 2, i)).sum()).collect();
                let mean: f64 = weights.iter().zip(&of).map(|(w, d)| w * d).sum();
                sums[(b * heads + h) * length + q] = sum.ln() as f32;
                means[(b * heads + h) * length + q] = mean as f32;
                for k in 0..seen {
                    let of_score = weights[k] * (of[k] - mean) * scale;
                    for i in 0..width {
                        exact[at(q, 0) + i] += of_score * x(k, 1, i);
                        exact[at(k, 1) + i] += of_score * x(q, 0, i);
                        exact[at(k, 2) + i] += weights[k] * slope(q, i);
                    }
                }
            }
        }
    }
    let shape = [batch, length, 3, heads, width];
    let (qkv, g) = (device.tensor(&qkv, shape)?, device.tensor(&g, [batch, length, heads, width])?);
    let (sums, means) =
        (device.tensor(&sums, [batch, heads, length])?, device.tensor(&means, [batch, heads, length])?);
    let mut result = device.tensor(&vec![bf16::from_f32(f32::NAN); exact.len()], shape)?;
    let given = Given { qkv: &qkv, g: &g, sums: &sums, means: &means };
    options(causal).gradients(&given, &mut result)?;
    let first = result.to_vec()?;
    options(causal).gradients(&given, &mut result)?;
    let same = first.iter().zip(result.to_vec()?).all(|(a, b)| a.to_bits() == b.to_bits());
    let errors: Vec<f64> = (0..3)
        .map(|part| {
            let (mut of_squares, mut square, mut count) = (0.0, 0.0f64, 0.0f64);
            for (i, (found, exact)) in first.iter().zip(&exact).enumerate() {
                if i / (heads * width) % 3 == part {
                    let off = (found.to_f64() - exact).abs();
                    (square, count) = (square + exact * exact, count + 1.0);
                    of_squares += off * off;
                }
            }
            (of_squares / square.max(1e-6 * count)).sqrt()
        })
        .collect();
    let what = if errors.iter().all(|&e| e < 0.01) && same { "ok" } else { "WRONG" };
    println!(
        "{what}: {batch} x {length} x {heads} x {width}, causal {causal}: {errors:.5?}, same bits {same}"
    );
    Ok(())
}

fn options(causal: bool) -> Attention {
    if causal { Attention::new().causal() } else { Attention::new() }
}

/// The median time of calls, two of them at once.
fn median(device: &Device, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut run = || -> Result<f64> {
        device.synchronize()?;
        let started = Instant::now();
        for _ in 0..2 {
            call()?;
        }
        device.synchronize()?;
        Ok(started.elapsed().as_secs_f64() / 2.0)
    };
    run()?;
    let mut all = (0..9).map(|_| run()).collect::<Result<Vec<f64>>>()?;
    all.sort_by(f64::total_cmp);
    Ok(all[4])
}

/// Times of the gradients as they are computed, then of each kernel: at the tile level, and for
/// Hopper GPUs in all divisions.
fn times(device: &Device, (batch, length, heads, width, causal): Problem, plans: bool) -> Result<()> {
    let shape = [batch, length, 3, heads, width];
    let qkv = device.tensor(&numbers(1, shape.iter().product(), 1.0), shape)?;
    let g = device.tensor(&numbers(2, batch * length * heads * width, 1.0), [batch, length, heads, width])?;
    let part = |i: usize| qkv.select::<4>(2, i);
    let (q, k, v) = (part(0)?, part(1)?, part(2)?);
    let mut o: Tensor<bf16, 4> = device.uninit([batch, length, heads, width])?;
    let mut sums: Tensor<f32, 3> = device.uninit([batch, heads, length])?;
    options(causal).run_with_sums(&q, &k, &v, &mut o, &mut sums)?;
    let means = device.zeros([batch, heads, length])?;
    let mut result = device.uninit(shape)?;
    let products =
        (batch * heads * width) as f64 * (length * length) as f64 * if causal { 1e-12 } else { 2e-12 };
    let what = format!("width {width}, {length}, {}", if causal { "causal" } else { "full" });
    let report = |name: &str, count: f64, time: f64| {
        println!("{what}: {name} {:.3} ms, {:.0} TFLOP/s", time * 1e3, count * products / time);
    };
    let given = Given { qkv: &qkv, g: &g, sums: &sums, means: &means };
    report("all", 5.0, median(device, || options(causal).gradients(&given, &mut result))?);
    if !plans {
        return Ok(());
    }
    let [q, k, v, g] = [&q, &k, &v, &g].map(|x| x.permute([0, 2, 1, 3]));
    let (q, k, v, g) = (q?, k?, v?, g?);
    let mut of_q = result.select::<4>(2, 0)?.permute([0, 2, 1, 3])?;
    let mut of_kv = result.slice(2, 1..3)?.permute([2, 0, 3, 1, 4])?;
    let scale = 1.0 / (width as f32).sqrt();
    let form = gradients::kernels::GradientForm { rows: 64, columns: 64, width, causal };
    let grid = [length.div_ceil(64) as u32, heads as u32, batch as u32];
    let time = median(device, || {
        let kernel = gradients::kernels::of_queries(&q, &k, &v, &g, &sums, &means, &mut of_q, scale, form);
        kernel.grid(grid).launch(device)
    })?;
    report("queries, tile level", 3.0, time);
    let time = median(device, || {
        let kernel = gradients::kernels::of_keys(&q, &k, &v, &g, &sums, &means, &mut of_kv, scale, form);
        kernel.grid(grid).launch(device)
    })?;
    report("keys, tile level", 4.0, time);
    for (i, divisions) in GradientPlan::divisions(width).into_iter().enumerate() {
        for &division in divisions {
            let plan = GradientPlan::divided(width, causal, division);
            let work = plan.work(batch, heads, length);
            let programs = work.tiles().min(device.properties().units as usize);
            let (table, extents) = schedule::order(&work, programs);
            let (order, programs) = (device.tensor(&table, extents)?, [programs as u32]);
            let time = median(device, || {
                if i == 0 {
                    hopper_gradients::of_queries(
                        &q, &k, &v, &g, &sums, &means, &mut of_q, &order, scale, plan,
                    )
                    .grid(programs)
                    .launch(device)
                } else {
                    hopper_gradients::of_keys(&q, &k, &v, &g, &sums, &means, &mut of_kv, &order, scale, plan)
                        .grid(programs)
                        .launch(device)
                }
            });
            let name = format!("{} {division:?}", ["queries", "keys"][i]);
            match time {
                Ok(time) => report(&name, [3.0, 4.0][i], time),
                Err(error) => println!("{what}: {name}: {error}"),
            }
        }
    }
    Ok(())
}
