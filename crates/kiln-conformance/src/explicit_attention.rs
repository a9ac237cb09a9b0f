//! The explicit level: products whose first factor is in registers, copies of a task, and the attention that is made of them.

use crate::case::{Case, cases};
use crate::library::reference;
use crate::sample::{Host, Sample};
use crate::trial::{Trial, Verdict, close, ensure};
use half::{bf16, f16};
use kiln_kernels::attention::{hopper, schedule};
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["explicit":
        products_from_registers for f16 bf16;
        attention for f16 bf16;
        attention_of_shared_keys for f16 bf16;
        attention_of_narrow_heads for f16 bf16;
        attention_of_more_queries_than_keys for bf16;
    ]
}

/// Extents of the products.
const ROWS: usize = 64;
const INNER: usize = 128;
const COLUMNS: usize = 64;

/// Of scores: their powers of two are 16-bit numbers.
const SCALE: f32 = 1.0 / 64.0;

/// c = 2 · exp2(s) · v0 + s · v1, where s = a · b / 64, and v is v0 above v1: a task for each stripe of c. Factors computed by a product go to two others, in flight
/// at once, of which the first is waited for first.
#[kernel(crate = kiln_runtime)]
fn from_registers<T: Float>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    v: &Tensor<T, 2>,
    c: &mut Tensor<f32, 2>,
    copies: usize,
) {
    let (left, right) = (shared_tiles::<T>(copies, ROWS, COLUMNS), shared_tiles::<T>(1, COLUMNS, INNER));
    let values = shared_tiles::<T>(2, INNER, COLUMNS);
    let full = mbarriers(1, 1);
    let first = program_id(0) * copies * ROWS;
    tasks()
        .task(4, 40, || {
            full.at(0).expect((copies * ROWS * COLUMNS + 3 * INNER * COLUMNS) * size_of::<T>());
            for i in 0..copies {
                left.at(i).load(a, (first + i * ROWS, 0), full.at(0));
            }
            right.at(0).load(b, (0, 0), full.at(0));
            values.at(0).load(v, (0, 0), full.at(0));
            values.at(1).load(v, (INNER, 0), full.at(0));
        })
        .copies(copies, 4, 160, || {
            full.at(0).wait(0);
            let scores = wgmma(left.at(task_rank()), right.at(0), zeros::<f32>((ROWS, INNER)), false);
            let scores = wgmma_wait(scores, 0) * SCALE;
            let none = zeros::<f32>((ROWS, COLUMNS));
            let x = wgmma_registers(pack_pairs::<T>(exp2_flushed(scores)), values.at(0), none, false);
            let y = wgmma_registers(pack_pairs::<T>(scores), values.at(1), none, false);
            let twice = wgmma_wait(x, 1) * 2.0;
            let sum = twice + wgmma_wait(y, 0);
            // SAFETY: every task has rows of its own.
            unsafe { c.tile((first + task_rank() * ROWS, 0), (ROWS, COLUMNS)).store_overlapping(sum) };
        })
        .run();
}

fn products_from_registers<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let rows = 3 * ROWS - 9;
    let (a, xs) = trial.input::<T, 2>([rows, COLUMNS])?;
    let (b, ys) = trial.input::<T, 2>([COLUMNS, INNER])?;
    let (v, vs) = trial.input::<T, 2>([2 * INNER, COLUMNS])?;
    let float = |data: &[T], i: usize| data[i].host().float();
    let rounded = |x: f64| T::from_host(Host::Float(x)).host().float();
    // Each element's terms: their sum, and the sum of their sizes.
    let element = |i: usize, j: usize| -> (f64, f64) {
        let value = |p: usize| float(&vs, p * COLUMNS + j);
        let terms = (0..INNER).map(|p| {
            let score = |k: usize| float(&xs, i * COLUMNS + k) * float(&ys, k * INNER + p);
            let score = (0..COLUMNS).map(score).sum::<f64>() * f64::from(SCALE);
            [2.0 * rounded(score.exp2()) * value(p), rounded(score) * value(INNER + p)]
        });
        terms.flatten().fold((0.0, 0.0), |(sum, sizes), term| (sum + term, sizes + term.abs()))
    };
    let expected: Vec<(f64, f64)> = (0..rows * COLUMNS).map(|i| element(i / COLUMNS, i % COLUMNS)).collect();
    for copies in [1, 2] {
        let mut c = trial.output::<f32, 2>([rows, COLUMNS])?;
        let programs = rows.div_ceil(copies * ROWS) as u32;
        from_registers(&a, &b, &v, &mut c, copies).grid([programs]).launch(trial.device)?;
        for (i, (got, (want, sizes))) in c.to_vec()?.iter().zip(&expected).enumerate() {
            // A factor may round to the next 16-bit number, and terms may cancel.
            let within = (f64::from(*got) - want).abs() <= 2.0 * T::EPSILON * sizes;
            ensure(within, || format!("{copies} copies, element {i}: {got} for {want}"))?;
        }
    }
    Ok(())
}

/// What is asked of a case: heads, heads of keys, queries, keys, width.
type Extents = [usize; 5];

fn run<T: Sample + Float>(trial: &mut Trial<'_>, extents: Extents, plan: hopper::Plan) -> Verdict {
    let [heads, key_heads, queries, keys, width] = extents;
    let (q, qs) = trial.input::<T, 3>([heads, queries, width])?;
    let (k, ks) = trial.input::<T, 3>([key_heads, keys, width])?;
    let (v, vs) = trial.input::<T, 3>([key_heads, keys, width])?;
    let mut o = trial.output::<T, 3>([heads, queries, width])?;
    let mut sums = trial.output::<f32, 2>([heads, queries])?;
    let scale = 1.0 / (width as f32).sqrt();
    let (order, shape) = schedule::order(&plan, heads, queries, keys, 3);
    let order = trial.device.tensor(&order, shape)?;
    hopper::attention(&q, &k, &v, &mut o, &mut sums, &order, scale, plan).grid([3]).launch(trial.device)?;
    let float = |x: &[T]| x.iter().map(|x| x.host().float()).collect::<Vec<f64>>();
    let data = [float(&qs), float(&ks), float(&vs)];
    let (out, logarithms) = reference([heads, plan.shared, queries, keys, width], data, plan.causal);
    let what = format!("{extents:?} {plan:?}");
    close(&what, &o.to_vec()?, &out, 8.0, 4.0)?;
    close(&what, &sums.to_vec()?, &logarithms, 64.0, 4.0)
}

const PLAN: hopper::Plan =
    hopper::Plan { tasks: 2, keys: 64, width: 64, stages: 2, shared: 1, registers: [232, 40], causal: false };

fn attention<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for causal in [false, true] {
        run::<T>(trial, [3, 3, 200, 200, 64], hopper::Plan { causal, ..PLAN })?;
        run::<T>(trial, [1, 1, 70, 327, 128], hopper::Plan { causal, width: 128, keys: 128, ..PLAN })?;
        let three = hopper::Plan { causal, tasks: 3, registers: [152, 56], ..PLAN };
        run::<T>(trial, [1, 1, 193, 193, 64], three)?;
    }
    run::<T>(trial, [1, 1, 1, 1, 64], PLAN)?;
    run::<T>(trial, [1, 1, 130, 300, 64], hopper::Plan { stages: 4, ..PLAN })
}

fn attention_of_shared_keys<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    run::<T>(trial, [6, 2, 90, 130, 64], hopper::Plan { shared: 3, causal: true, ..PLAN })
}

/// Columns that a head has not are loaded as zeros, and not stored.
fn attention_of_narrow_heads<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    run::<T>(trial, [2, 2, 70, 90, 40], hopper::Plan { causal: true, ..PLAN })?;
    run::<T>(trial, [2, 1, 66, 130, 72], hopper::Plan { width: 128, shared: 2, ..PLAN })
}

fn attention_of_more_queries_than_keys<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for causal in [false, true] {
        run::<T>(trial, [1, 1, 300, 77, 64], hopper::Plan { causal, ..PLAN })?;
    }
    Ok(())
}
