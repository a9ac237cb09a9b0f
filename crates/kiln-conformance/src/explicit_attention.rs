//! The explicit level: products whose first factor is in registers, copies of a task, and the
//! attention that is made of them.

use crate::attention::{Options, Sizes, causal, float, reference};
use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, close, ensure, holds_near};
use half::{bf16, f16};
use kiln_kernels::attention::hopper;
use kiln_kernels::attention::schedule::{self, Lengths, Work};
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample, product_of_floats};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["explicit":
        products_from_registers for f16 bf16;
        attention for f16 bf16;
        attention_of_shared_keys for f16 bf16;
        attention_of_narrow_heads for f16 bf16;
        attention_of_wide_heads for bf16;
        attention_of_more_queries_than_keys for bf16;
        attention_in_windows for bf16;
        attention_of_few_keys_is_exact for f16 bf16;
        attention_with_a_cap for f16 bf16;
        attention_of_packed_sequences for bf16;
    ]
}

/// Extents of the products.
const ROWS: usize = 64;
const INNER: usize = 128;
const COLUMNS: usize = 64;

/// Of scores: their powers of two are 16-bit numbers.
const SCALE: f32 = 1.0 / 64.0;

/// c = 2 · exp2(s) · v0 + s · v1, where s = a · b / 64, and v is v0 above v1: a task for each
/// stripe of c. Factors computed by a product go to two others, in flight at once, of which the
/// first is waited for first.
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
    let rounded = |x: f64| T::from_host(Host::Float(x)).host().float();
    let scores = product_of_floats(&float(&xs), &float(&ys), [rows, INNER, COLUMNS]);
    let factors = |row: &[f64]| -> Vec<f64> {
        let row = row.iter().map(|score| score * f64::from(SCALE));
        row.clone().map(|s| 2.0 * rounded(s.exp2())).chain(row.map(rounded)).collect()
    };
    let factors: Vec<f64> = scores.chunks(INNER).flat_map(factors).collect();
    // Each element's terms: their sum, and the sum of their sizes.
    let sizes = |x: &[f64]| -> Vec<f64> { x.iter().map(|x| x.abs()).collect() };
    let (values, shape) = (float(&vs), [rows, COLUMNS, 2 * INNER]);
    let sums = product_of_floats(&factors, &values, shape);
    let sizes = product_of_floats(&sizes(&factors), &sizes(&values), shape);
    for copies in [1, 2] {
        let mut c = trial.output::<f32, 2>([rows, COLUMNS])?;
        let programs = rows.div_ceil(copies * ROWS) as u32;
        from_registers(&a, &b, &v, &mut c, copies).grid([programs]).launch(trial.device)?;
        for (i, (got, (want, sizes))) in c.to_vec()?.iter().zip(sums.iter().zip(&sizes)).enumerate() {
            // A factor may round to the next 16-bit number, and terms may cancel.
            let within = (f64::from(*got) - want).abs() <= 2.0 * T::EPSILON * sizes;
            ensure(within, || format!("{copies} copies, element {i}: {got} for {want}"))?;
        }
    }
    Ok(())
}

/// Runs the kernel on three programs, with tensors of batch 1.
fn run<T: Sample + Float>(
    trial: &mut Trial<'_>,
    sizes: Sizes,
    plan: hopper::AttentionPlan,
    options: Options,
) -> Verdict {
    let Sizes { heads, shared, queries, keys, width } = sizes;
    let bounded = [options.left.is_some(), options.right.is_some()];
    let plan = hopper::AttentionPlan { shared, bounded, capped: options.cap.is_some(), ..plan };
    let (q, qs) = trial.input::<T, 4>([1, heads, queries, width])?;
    let (k, ks) = trial.input::<T, 4>([1, heads / shared, keys, width])?;
    let (v, vs) = trial.input::<T, 4>([1, heads / shared, keys, width])?;
    let mut o = trial.output::<T, 4>([1, heads, queries, width])?;
    let mut sums = trial.output::<f32, 3>([1, heads, queries])?;
    let lengths = Lengths::All { batch: 1, lengths: [queries, keys] };
    let work = Work { plan, window: window(options), heads, lengths };
    let none = trial.device.zeros([1, 4])?;
    launch(trial, [&q, &k, &v], &mut o, &mut sums, work, &none, options)?;
    let (out, logarithms) = reference(sizes, [&float(&qs), &float(&ks), &float(&vs)], options);
    let what = format!("{sizes:?} {options:?} {plan:?}");
    holds_near(&what, &o, &out, 8.0, 4.0)?;
    holds_near(&what, &sums, &logarithms, 64.0, 4.0)
}

fn window(options: Options) -> [i64; 2] {
    [options.left, options.right].map(|limit| limit.unwrap_or(0) as i64)
}

fn launch<T: Sample + Float>(
    trial: &mut Trial<'_>,
    [q, k, v]: [&Tensor<T, 4>; 3],
    o: &mut Tensor<T, 4>,
    sums: &mut Tensor<f32, 3>,
    work: Work,
    sequences: &Tensor<i32, 2>,
    options: Options,
) -> Verdict {
    let scale = options.scale.unwrap_or(1.0 / (q.shape()[3] as f32).sqrt());
    let ([left, right], cap, plan) =
        (work.window.map(|limit| limit as i32), options.cap.unwrap_or(1.0), work.plan);
    let (order, shape) = schedule::order(&work, 3);
    let order = trial.device.tensor(&order, shape)?;
    hopper::attention(q, k, v, o, sums, &order, sequences, scale, cap, left, right, plan)
        .grid([3])
        .launch(trial.device)?;
    Ok(())
}

fn plan() -> hopper::AttentionPlan {
    hopper::AttentionPlan {
        keys: 64,
        stages: 2,
        tasks: 2,
        registers: [232, 40],
        ..hopper::AttentionPlan::of(64, 1)
    }
}

fn sizes(heads: usize, queries: usize, keys: usize, width: usize) -> Sizes {
    Sizes { heads, shared: 1, queries, keys, width }
}

fn attention<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for options in [Options::default(), causal()] {
        run::<T>(trial, sizes(3, 200, 200, 64), plan(), options)?;
        run::<T>(trial, sizes(1, 70, 327, 128), hopper::AttentionPlan::of(128, 1), options)?;
        run::<T>(trial, sizes(1, 193, 193, 64), hopper::AttentionPlan::of(64, 1), options)?;
    }
    run::<T>(trial, sizes(1, 1, 1, 64), plan(), Options::default())?;
    run::<T>(trial, sizes(1, 130, 300, 64), hopper::AttentionPlan { stages: 4, ..plan() }, Options::default())
}

fn attention_of_shared_keys<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    run::<T>(trial, Sizes { shared: 3, ..sizes(6, 90, 130, 64) }, plan(), causal())
}

/// Columns that a head has not are loaded as zeros, and not stored.
fn attention_of_narrow_heads<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    run::<T>(trial, sizes(2, 70, 90, 40), plan(), causal())?;
    run::<T>(
        trial,
        Sizes { shared: 2, ..sizes(2, 66, 130, 72) },
        hopper::AttentionPlan { width: 128, ..plan() },
        Options::default(),
    )
}

fn attention_of_wide_heads<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    run::<T>(trial, sizes(2, 140, 150, 256), hopper::AttentionPlan::of(256, 1), causal())?;
    run::<T>(trial, sizes(1, 65, 66, 200), hopper::AttentionPlan::of(200, 1), Options::default())
}

fn attention_of_more_queries_than_keys<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for options in [Options::default(), causal()] {
        run::<T>(trial, sizes(1, 300, 77, 64), plan(), options)?;
    }
    Ok(())
}

fn attention_in_windows<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for (left, right) in [(Some(70), Some(0)), (Some(0), Some(200))] {
        let options = Options { left, right, ..Options::default() };
        run::<T>(trial, sizes(2, 400, 400, 64), plan(), options)?;
        run::<T>(trial, sizes(1, 150, 60, 64), plan(), options)?;
    }
    for (left, right) in [(Some(100), None), (None, Some(30))] {
        let options = Options { left, right, ..Options::default() };
        run::<T>(trial, sizes(1, 30, 500, 64), plan(), options)?;
    }
    Ok(())
}

/// One key in each turn matters. Its weight is exact, whatever it is, so the result is, but for its
/// own rounding.
fn attention_of_few_keys_is_exact<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let (queries, keys, width) = (70, 64 * 7, 64);
    let number = |x: f64| T::from_host(Host::Float(x));
    let mut qs = vec![number(0.0); queries * width];
    qs.chunks_mut(width).for_each(|row| row[0] = number(1.0));
    let mut ks = vec![number(0.0); keys * width];
    for (j, row) in ks.chunks_mut(width).enumerate() {
        row[0] = if j % 64 == j / 64 * 9 { T::sample(&mut trial.rng) } else { number(-300.0) };
    }
    let q = trial.device.tensor(&qs, [1, 1, queries, width])?;
    let k = trial.device.tensor(&ks, [1, 1, keys, width])?;
    let (v, vs) = trial.input::<T, 4>([1, 1, keys, width])?;
    let mut o = trial.output::<T, 4>([1, 1, queries, width])?;
    let mut sums = trial.output::<f32, 3>([1, 1, queries])?;
    let options = Options { scale: Some(1.0), ..Options::default() };
    let lengths = Lengths::All { batch: 1, lengths: [queries, keys] };
    let work = Work { plan: plan(), window: [0; 2], heads: 1, lengths };
    let none = trial.device.zeros([1, 4])?;
    launch(trial, [&q, &k, &v], &mut o, &mut sums, work, &none, options)?;
    let sizes = sizes(1, queries, keys, width);
    let (out, logarithms) = reference(sizes, [&float(&qs), &float(&ks), &float(&vs)], options);
    for (i, (got, want)) in o.to_vec()?.iter().zip(&out).enumerate() {
        let (got, want) = (got.host().float(), want.float());
        let unit = T::EPSILON * want.abs().max(0.01).log2().floor().exp2();
        ensure((got - want).abs() <= 0.51 * unit, || format!("element {i}: {got} for {want}"))?;
    }
    holds_near("sums", &sums, &logarithms, 64.0, 4.0)
}

fn attention_with_a_cap<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for cap in [2.0, 50.0] {
        let options = Options { cap: Some(cap), scale: Some(0.3), ..causal() };
        run::<T>(trial, sizes(1, 140, 200, 64), plan(), options)?;
    }
    Ok(())
}

/// Sequences in tensors tokens × heads × width, between which nothing passes, some of them empty.
fn attention_of_packed_sequences<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let lengths = [[200, 200], [0, 30], [64, 129], [70, 0], [1, 77], [129, 60]];
    let (heads, shared, width) = (2, 2, 64);
    for options in [Options::default(), causal(), Options { left: Some(50), cap: Some(20.0), ..causal() }] {
        let bounded = [options.left.is_some(), options.right.is_some()];
        let capped = options.cap.is_some();
        let plan = hopper::AttentionPlan { shared, bounded, capped, packed: true, ..plan() };
        let tokens = [0, 1].map(|side| lengths.iter().map(|l| l[side]).sum::<usize>());
        let (q, qs) = trial.input::<T, 3>([tokens[0], heads, width])?;
        let (k, ks) = trial.input::<T, 3>([tokens[1], 1, width])?;
        let (v, vs) = trial.input::<T, 3>([tokens[1], 1, width])?;
        let o = trial.output::<T, 3>([tokens[0], heads, width])?;
        let mut sums = trial.output::<f32, 3>([1, heads, tokens[0]])?;
        let by_head = |x: &Tensor<T, 3>| x.permute([1, 0, 2])?.unsqueeze::<4>(0);
        let (mut table, mut at) = (Vec::new(), [0, 0]);
        for [queries, keys] in lengths {
            table.extend([at[0], queries, at[1], keys].map(|n| n as i32));
            at = [at[0] + queries, at[1] + keys];
        }
        let sequences = trial.device.tensor(&table, [lengths.len(), 4])?;
        let work = Work { plan, window: window(options), heads, lengths: Lengths::Each(lengths.to_vec()) };
        let tensors = [&by_head(&q)?, &by_head(&k)?, &by_head(&v)?];
        launch(trial, tensors, &mut by_head(&o)?, &mut sums, work, &sequences, options)?;
        let (o, sums) = (o.to_vec()?, sums.to_vec()?);
        for (row, &[queries, keys]) in table.chunks(4).zip(&lengths) {
            let [from, keys_from] = [row[0] as usize, row[2] as usize];
            let rows = (0..heads).flat_map(|h| (from..from + queries).map(move |i| (i, h)));
            let own = |x: &[T]| -> Vec<T> {
                rows.clone().flat_map(|(i, h)| x[(i * heads + h) * width..][..width].to_vec()).collect()
            };
            let part = |x: &[T]| float(&x[keys_from * width..][..keys * width]);
            let sizes = Sizes { heads, shared, queries, keys, width };
            let (out, logarithms) = reference(sizes, [&float(&own(&qs)), &part(&ks), &part(&vs)], options);
            let what = format!("{sizes:?} {options:?}");
            close(&what, &own(&o), &out, 8.0, 4.0)?;
            let own: Vec<f32> = rows.map(|(i, h)| sums[h * tokens[0] + i]).collect();
            close(&what, &own, &logarithms, 64.0, 4.0)?;
        }
    }
    Ok(())
}
