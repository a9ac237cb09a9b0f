//! The explicit level: the gradients of attention.

use crate::attention::float;
use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure};
use kiln_kernels::attention::hopper_gradients::{self, Division, GradientPlan};
use kiln_kernels::attention::schedule;
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["explicit":
        attention_gradients for f16 bf16;
        attention_gradients_of_divided_turns for bf16;
        attention_gradients_of_narrow_heads for bf16;
    ]
}

/// Extents, and whether a query sees no key after its place.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    heads: usize,
    length: usize,
    width: usize,
    causal: bool,
}

/// A gradient in float64, and for each element the sum of the sizes of what it is added up from.
struct Expected {
    values: Vec<f64>,
    sizes: Vec<f64>,
}

impl Expected {
    fn add(&mut self, at: usize, factors: [f64; 2], size: f64) {
        self.values[at] += factors[0] * factors[1];
        self.sizes[at] += size * factors[1].abs();
    }
}

/// The gradients of queries, keys and values, the logarithms of sums and the means.
fn reference(
    Sizes { batch, heads, length, width, causal }: Sizes,
    [q, k, v, g]: [&[f64]; 4],
) -> ([Expected; 3], [Vec<f32>; 2]) {
    let none = || Expected { values: vec![0.0; q.len()], sizes: vec![0.0; q.len()] };
    let (mut of, mut logarithms, mut means) = ([none(), none(), none()], Vec::new(), Vec::new());
    let scale = 1.0 / (width as f64).sqrt();
    for head in 0..batch * heads {
        let at = |row: usize| (head * length + row) * width;
        let dot = |x: &[f64], i: usize, y: &[f64], j: usize| -> f64 {
            x[at(i)..][..width].iter().zip(&y[at(j)..][..width]).map(|(x, y)| x * y).sum()
        };
        for i in 0..length {
            let seen = if causal { i + 1 } else { length };
            let scores: Vec<f64> = (0..seen).map(|j| scale * dot(q, i, k, j)).collect();
            let greatest = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let sum: f64 = scores.iter().map(|s| (s - greatest).exp()).sum();
            let logarithm = greatest + sum.ln();
            let weights: Vec<f64> = scores.iter().map(|s| (s - logarithm).exp()).collect();
            let of_weights: Vec<f64> = (0..seen).map(|j| dot(g, i, v, j)).collect();
            let mean: f64 = weights.iter().zip(&of_weights).map(|(w, d)| w * d).sum();
            logarithms.push(logarithm as f32);
            means.push(mean as f32);
            for (j, (weight, of_weight)) in weights.iter().zip(&of_weights).enumerate() {
                let of_score = scale * weight * (of_weight - mean);
                let size = scale * weight * (of_weight.abs() + mean.abs());
                for c in 0..width {
                    of[0].add(at(i) + c, [of_score, k[at(j) + c]], size);
                    of[1].add(at(j) + c, [of_score, q[at(i) + c]], size);
                    of[2].add(at(j) + c, [*weight, g[at(i) + c]], *weight);
                }
            }
        }
    }
    (of, [logarithms, means])
}

/// Runs both kernels on three programs.
fn run<T: Sample + Float>(trial: &mut Trial<'_>, sizes: Sizes, divisions: [Division; 2]) -> Verdict {
    let Sizes { batch, heads, length, width, causal } = sizes;
    let shape = [batch, heads, length, width];
    let (q, qs) = trial.input::<T, 4>(shape)?;
    let (k, ks) = trial.input::<T, 4>(shape)?;
    let (v, vs) = trial.input::<T, 4>(shape)?;
    let (g, gs) = trial.input::<T, 4>(shape)?;
    let (expected, given) = reference(sizes, [&float(&qs), &float(&ks), &float(&vs), &float(&gs)]);
    let [sums, means] = given.map(|x| trial.device.tensor::<f32, 3>(&x, [batch, heads, length]));
    let (sums, means) = (sums?, means?);
    let mut of_q = trial.output::<T, 4>(shape)?;
    let mut of_kv = trial.output::<T, 5>([2, batch, heads, length, width])?;
    let scale = 1.0 / (width as f32).sqrt();
    let plans = divisions.map(|division| GradientPlan::divided(width, causal, division));
    let order = |plan: &GradientPlan| {
        let (order, shape) = schedule::order(&plan.work(batch, heads, length), 3);
        trial.device.tensor(&order, shape)
    };
    hopper_gradients::of_queries(
        &q,
        &k,
        &v,
        &g,
        &sums,
        &means,
        &mut of_q,
        &order(&plans[0])?,
        scale,
        plans[0],
    )
    .grid([3])
    .launch(trial.device)?;
    hopper_gradients::of_keys(&q, &k, &v, &g, &sums, &means, &mut of_kv, &order(&plans[1])?, scale, plans[1])
        .grid([3])
        .launch(trial.device)?;
    let of = |part: usize| -> kiln_runtime::Result<Tensor<T, 4>> { of_kv.select::<4>(0, part) };
    for (name, (got, expected)) in ["q", "k", "v"].iter().zip([of_q, of(0)?, of(1)?].iter().zip(&expected)) {
        let (got, Expected { values, sizes: bounds }) = (float(&got.to_vec()?), expected);
        for (i, ((got, want), size)) in got.iter().zip(values).zip(bounds).enumerate() {
            // A factor may round to the next 16-bit number, and terms may cancel.
            let within = (got - want).abs() <= T::EPSILON * (2.0 * size + want.abs()) + 1e-6;
            ensure(within, || format!("{sizes:?} {plans:?}, {name}, element {i}: {got} for {want}"))?;
        }
    }
    Ok(())
}

fn sizes(batch: usize, heads: usize, length: usize, width: usize) -> [Sizes; 2] {
    [false, true].map(|causal| Sizes { batch, heads, length, width, causal })
}

fn attention_gradients<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for sizes in [sizes(2, 2, 200, 64), sizes(1, 1, 330, 64), sizes(1, 2, 129, 128)].into_iter().flatten() {
        run::<T>(trial, sizes, GradientPlan::divisions(sizes.width).map(|all| all[0]))?;
    }
    let [full, causal] = sizes(1, 4, 1, 64);
    run::<T>(trial, full, [(2, 64, 2); 2])?;
    run::<T>(trial, causal, [(2, 64, 2); 2])
}

/// Turns that are no multiple of a task's rows, and longer than them.
fn attention_gradients_of_divided_turns<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let (third, half) = ([(3, 48, 4); 2], [(2, 96, 2); 2]);
    let (long, one) = ([(2, 128, 2), (2, 64, 2)], [(1, 64, 2); 2]);
    for divisions in [third, half, long, one] {
        for sizes in sizes(1, 2, 310, 64) {
            run::<T>(trial, sizes, divisions)?;
        }
    }
    Ok(())
}

/// Columns that a head has not are loaded as zeros, and not stored.
fn attention_gradients_of_narrow_heads<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for sizes in [sizes(1, 2, 150, 40), sizes(1, 1, 190, 72)].into_iter().flatten() {
        run::<T>(trial, sizes, GradientPlan::divisions(sizes.width).map(|all| all[0]))?;
    }
    Ok(())
}
