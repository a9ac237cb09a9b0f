//! Attention of the library, with all options, against f64.

use crate::case::{Case, cases};
use crate::library_rows::EXTENTS;
use crate::trial::{Trial, Verdict, close, ensure, holds_near, list, same};
use half::{bf16, f16};
use kiln_kernels::{Attention, Tuning};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Rng, Sample, add_scaled, dot};
use kiln_runtime::{Error, Execution, Tensor};
use std::time::Duration;

pub fn cases() -> Vec<Case> {
    cases!["attention":
        one_length for f16 bf16 f32;
        tuned for f16 bf16 f32;
        shared_keys for f16 bf16 f32;
        windows for bf16 f32;
        caps_and_scales for f16 f32;
        wide_heads for bf16;
        parts_of_a_fused_tensor for f16 f32;
        packed_sequences for bf16 f32;
        any_options for f16 bf16;
        refused;
    ]
}

/// Large ones, for [`sweep`](crate::sweep).
pub fn large_cases() -> Vec<Case> {
    cases!["attention":
        any_lengths for f16 bf16 f32;
        odd_lengths for f16 bf16 f32;
        more_heads_than_a_grid for f32;
    ]
}

/// What is computed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub heads: usize,
    /// Heads with the same keys.
    pub shared: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub left: Option<usize>,
    pub right: Option<usize>,
    pub cap: Option<f32>,
    pub scale: Option<f32>,
    /// Whether the way is chosen by measurement.
    pub tuned: bool,
}

impl Options {
    pub(crate) fn attention(self) -> Attention {
        let mut attention = Attention::new().window(self.left, self.right);
        if self.tuned {
            attention = attention.tuning(Tuning::budget(Duration::from_secs(60)));
        }
        attention = self.cap.map_or(attention, |cap| attention.soft_cap(cap));
        self.scale.map_or(attention, |scale| attention.scale(scale))
    }

    /// Any, for so many keys.
    pub fn random(rng: &mut Rng, keys: usize) -> Options {
        let mut limit = || (rng.below(2) == 0).then(|| rng.below(keys as u64 + 2) as usize);
        let (left, right) = (limit(), limit());
        let cap = (rng.below(3) == 0).then(|| rng.between(1.0, 40.0) as f32);
        let scale = (rng.below(3) == 0).then(|| rng.between(0.05, 0.5) as f32);
        Options { left, right, cap, scale, tuned: false }
    }
}

pub(crate) fn causal() -> Options {
    Options { right: Some(0), ..Options::default() }
}

/// Attention in f64 of q, k and v by head, and the logarithms of the sums.
pub(crate) fn reference(sizes: Sizes, data: [&[f64]; 3], options: Options) -> (Vec<Host>, Vec<Host>) {
    let (mut out, mut sums) = (Vec::new(), Vec::new());
    for (head, i) in (0..sizes.heads).flat_map(|h| (0..sizes.queries).map(move |i| (h, i))) {
        let (row, sum) = of_query(sizes, data, options, head, i);
        out.extend(row.into_iter().map(Host::Float));
        sums.push(Host::Float(sum));
    }
    (out, sums)
}

/// The result of one query of a head, score by score, and the logarithm of its sum.
fn of_query(
    sizes: Sizes,
    [q, k, v]: [&[f64]; 3],
    options: Options,
    head: usize,
    i: usize,
) -> (Vec<f64>, f64) {
    let Sizes { shared, queries, keys, width, .. } = sizes;
    let scale = options.scale.map_or(1.0 / (width as f64).sqrt(), f64::from);
    let query = &q[(head * queries + i) * width..][..width];
    let row = |j: usize| (head / shared * keys + j) * width..(head / shared * keys + j + 1) * width;
    let place = (i + keys) as i64 - queries as i64;
    let seen = |j: &usize| {
        let distance = *j as i64 - place;
        options.left.is_none_or(|left| -distance <= left as i64)
            && options.right.is_none_or(|right| distance <= right as i64)
    };
    let score = |j: &usize| {
        let score = dot(query, &k[row(*j)]) * scale;
        options.cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
    };
    let seen: Vec<usize> = (0..keys).filter(seen).collect();
    if seen.is_empty() {
        return (vec![0.0; width], f64::NEG_INFINITY);
    }
    let scores: Vec<f64> = seen.iter().map(score).collect();
    let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - greatest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut weighted = vec![0.0; width];
    weights.iter().zip(&seen).for_each(|(w, &j)| add_scaled(&mut weighted, w / sum, &v[row(j)]));
    (weighted, greatest + sum.ln())
}

pub(crate) fn float<T: Sample>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| x.host().float()).collect()
}

/// How far results may be off: scores of f32 are exact to about 1e-5; weights are rounded to the
/// type before they are multiplied.
fn ulps<T: Sample>() -> f64 {
    if T::EPSILON < 1e-6 { 512.0 } else { 8.0 }
}

fn attend<T: Sample + Float + Accumulate<Acc = f32>>(
    trial: &mut Trial<'_>,
    sizes: Sizes,
    options: Options,
) -> Verdict {
    let Sizes { heads, shared, queries, keys, width } = sizes;
    let (q, qs) = trial.input::<T, 3>([heads, queries, width])?;
    let (k, ks) = trial.input::<T, 3>([heads / shared, keys, width])?;
    let (v, vs) = trial.input::<T, 3>([heads / shared, keys, width])?;
    let mut o = trial.output::<T, 3>([heads, queries, width])?;
    let mut sums = trial.output::<f32, 2>([heads, queries])?;
    options.attention().run_with_sums(&q, &k, &v, &mut o, &mut sums)?;
    let (expected, logarithms) = reference(sizes, [&float(&qs), &float(&ks), &float(&vs)], options);
    let what = format!("{sizes:?}, {options:?}");
    holds_near(&what, &o, &expected, ulps::<T>(), 4.0)?;
    holds_near(&format!("{what}, sums"), &sums, &logarithms, 64.0, 4.0)?;
    let mut again = trial.output::<T, 3>([heads, queries, width])?;
    options.attention().run(&q, &k, &v, &mut again)?;
    let digits = |x: Vec<T>| x.iter().map(|x| format!("{x:?}")).collect::<Vec<String>>();
    same(&format!("{what}, again"), &digits(again.to_vec()?), &digits(o.to_vec()?))
}

/// Whatever way is chosen by measurement, the result is right, and the same when it is taken again.
fn tuned<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let tuned = Options { tuned: true, ..Options::default() };
    attend::<T>(trial, sizes(2, 70, 90, 64), Options { tuned: true, ..causal() })?;
    attend::<T>(trial, sizes(1, 33, 130, 128), tuned)?;
    attend::<T>(trial, Sizes { shared: 2, ..sizes(2, 40, 20, 256) }, Options { left: Some(9), ..tuned })?;
    attend::<T>(trial, sizes(1, 20, 30, 5), tuned)?;
    attend::<T>(trial, sizes(2, 0, 5, 8), tuned)?;
    packed::<T>(trial, &[[5, 7], [0, 3], [70, 70]], [2, 1, 64], tuned)
}

fn sizes(heads: usize, queries: usize, keys: usize, width: usize) -> Sizes {
    Sizes { heads, shared: 1, queries, keys, width }
}

fn one_length<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for [heads, queries, keys, width] in
        [[2, 40, 40, 24], [1, 150, 137, 16], [3, 33, 70, 5], [1, 1, 1, 1], [2, 4, 0, 8], [2, 0, 5, 8]]
    {
        for options in [Options::default(), causal()] {
            attend::<T>(trial, sizes(heads, queries, keys, width), options)?;
        }
    }
    // The widths that GPUs have tensor cores for.
    attend::<T>(trial, sizes(1, 40, 70, 64), causal())?;
    attend::<T>(trial, sizes(1, 17, 65, 128), Options::default())
}

fn shared_keys<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    attend::<T>(trial, Sizes { shared: 3, ..sizes(6, 33, 40, 32) }, causal())?;
    attend::<T>(trial, Sizes { shared: 3, ..sizes(3, 20, 17, 12) }, Options::default())
}

fn windows<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let limits =
        [(Some(5), Some(3)), (Some(0), Some(0)), (Some(20), None), (None, Some(9)), (Some(1 << 50), Some(0))];
    for (left, right) in limits {
        let options = Options { left, right, ..Options::default() };
        attend::<T>(trial, sizes(2, 75, 75, 16), options)?;
        attend::<T>(trial, sizes(1, 71, 21, 16), options)?;
        attend::<T>(trial, sizes(1, 3, 301, 16), options)?;
    }
    let options = Options { left: Some(130), right: Some(0), ..Options::default() };
    attend::<T>(trial, sizes(1, 300, 310, 16), options)
}

fn caps_and_scales<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for (cap, scale) in [(Some(5.0), None), (Some(30.0), Some(0.5)), (None, Some(0.0)), (None, Some(-0.2))] {
        attend::<T>(trial, sizes(2, 40, 50, 16), Options { cap, scale, ..causal() })?;
    }
    Ok(())
}

fn wide_heads<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    attend::<T>(trial, sizes(1, 30, 90, 256), causal())?;
    attend::<T>(trial, Sizes { shared: 2, ..sizes(2, 20, 40, 200) }, Options::default())
}

/// Queries, keys and values side by side, in batch × length × 3 × heads × width, and results
/// between others.
fn parts_of_a_fused_tensor<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let [batch, length, heads, width] = [2, 37, 3, 16];
    let (fused, data) = trial.input::<T, 5>([batch, length, 3, heads, width])?;
    let part = |i: usize| fused.select::<4>(2, i);
    let around = trial.output::<T, 5>([batch, length, 2, heads, width])?;
    let mut o = around.select::<4>(2, 1)?;
    let mut sums = trial.output::<f32, 3>([batch, heads, length])?;
    let options = Options { left: Some(11), cap: Some(20.0), ..causal() };
    options.attention().run_with_sums(&part(0)?, &part(1)?, &part(2)?, &mut o, &mut sums)?;
    let of = |b: usize, part: usize| -> Vec<f64> {
        let element = |h: usize, i: usize, c: usize| {
            data[(((b * length + i) * 3 + part) * heads + h) * width + c].host().float()
        };
        let rows = (0..heads).flat_map(|h| (0..length).map(move |i| (h, i)));
        rows.flat_map(|(h, i)| (0..width).map(move |c| element(h, i, c))).collect()
    };
    for b in 0..batch {
        let sizes = sizes(heads, length, length, width);
        let (expected, logarithms) = reference(sizes, [&of(b, 0), &of(b, 1), &of(b, 2)], options);
        let own: Tensor<T, 3> = o.select(0, b)?;
        let by_head = own.permute([1, 0, 2])?.to_vec()?;
        close(&format!("sequence {b}"), &by_head, &expected, ulps::<T>(), 4.0)?;
        let own: Tensor<f32, 2> = sums.select(0, b)?;
        holds_near(&format!("sums of sequence {b}"), &own, &logarithms, 64.0, 4.0)?;
    }
    let left_alone = around.select::<4>(2, 0)?.to_vec()?;
    ensure(left_alone.iter().all(|x| *x == T::POISON), || "elements between results were written".into())
}

/// Sequences of the given queries and keys, with tokens before and behind them.
fn packed<T: Sample + Float + Accumulate<Acc = f32>>(
    trial: &mut Trial<'_>,
    lengths: &[[usize; 2]],
    [heads, shared, width]: [usize; 3],
    options: Options,
) -> Verdict {
    let starts = |side: usize, first: usize| -> Vec<i32> {
        let ends = lengths.iter().scan(first, |at, length| {
            *at += length[side];
            Some(*at as i32)
        });
        std::iter::once(first as i32).chain(ends).collect()
    };
    let all = [starts(0, 2), starts(1, 1)];
    let tokens = all.clone().map(|s| s.last().map_or(0, |&end| end as usize) + 3);
    let (q, qs) = trial.input::<T, 3>([tokens[0], heads, width])?;
    let (k, ks) = trial.input::<T, 3>([tokens[1], heads / shared, width])?;
    let (mut v, mut vs) = trial.input::<T, 3>([tokens[1], heads / shared, width])?;
    // Behind the last sequence may be anything.
    let behind = vs.len() - 3 * heads / shared * width;
    vs[behind..].fill(T::from_host(Host::Float(f64::NAN)));
    v.write(&vs)?;
    let mut o = trial.output::<T, 3>([tokens[0], heads, width])?;
    let mut sums = trial.output::<f32, 2>([heads, tokens[0]])?;
    let [query_starts, key_starts] = [trial.vector(&all[0])?, trial.vector(&all[1])?];
    let attention = options.attention().packed(&query_starts, &key_starts)?;
    attention.run_with_sums(&q, &k, &v, &mut o, &mut sums)?;

    let (mut expected, mut logarithms) = (
        vec![Host::Float(T::POISON.host().float()); o.len()],
        vec![Host::Float(f64::from(f32::POISON)); sums.len()],
    );
    for (n, &[queries, keys]) in lengths.iter().enumerate() {
        let [from, keys_from] = [all[0][n] as usize, all[1][n] as usize];
        let part = |x: &[T], heads: usize, from: usize, count: usize| -> Vec<f64> {
            let rows = (0..heads).flat_map(|h| (from..from + count).map(move |i| (i * heads + h) * width));
            rows.flat_map(|at| float(&x[at..at + width])).collect()
        };
        let sizes = Sizes { heads, shared, queries, keys, width };
        let data = [
            part(&qs, heads, from, queries),
            part(&ks, heads / shared, keys_from, keys),
            part(&vs, heads / shared, keys_from, keys),
        ];
        let (out, own) = reference(sizes, [&data[0], &data[1], &data[2]], options);
        for (h, i) in (0..heads).flat_map(|h| (0..queries).map(move |i| (h, i))) {
            let row = &out[(h * queries + i) * width..][..width];
            expected[((from + i) * heads + h) * width..][..width].copy_from_slice(row);
            logarithms[h * tokens[0] + from + i] = own[h * queries + i];
        }
    }
    let what = format!("{lengths:?}, {heads} heads by {shared}, width {width}, {options:?}");
    holds_near(&what, &o, &expected, ulps::<T>(), 4.0)?;
    holds_near(&format!("{what}, sums"), &sums, &logarithms, 64.0, 4.0)
}

fn packed_sequences<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let lengths = [[5, 7], [0, 3], [70, 70], [17, 0], [1, 90], [30, 9]];
    packed::<T>(trial, &lengths, [2, 1, 16], Options::default())?;
    packed::<T>(trial, &lengths, [4, 2, 24], causal())?;
    packed::<T>(trial, &lengths[2..], [1, 1, 64], Options { left: Some(20), cap: Some(9.0), ..causal() })?;
    packed::<T>(trial, &lengths[1..2], [1, 1, 8], Options::default())?;
    packed::<T>(trial, &[], [1, 1, 8], Options::default())
}

/// Any sizes and options.
fn any_options<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for _ in 0..2 {
        let rng = &mut trial.rng;
        let [queries, keys] = [(); 2].map(|()| 1 + rng.below(150) as usize);
        let (shared, key_heads) = (1 + rng.below(3) as usize, 1 + rng.below(2) as usize);
        let width = 8 * (1 + rng.below(16) as usize);
        let options = Options::random(rng, keys);
        attend::<T>(trial, Sizes { heads: shared * key_heads, shared, queries, keys, width }, options)?;
        let rng = &mut trial.rng;
        let lengths: Vec<[usize; 2]> =
            list(0..1 + rng.below(4), |_| [(); 2].map(|()| rng.below(80) as usize));
        packed::<T>(trial, &lengths, [shared * key_heads, shared, width], options)?;
    }
    Ok(())
}

/// How many products of elements of a query and a key one attention of the sweep may take.
fn many(trial: &Trial<'_>) -> usize {
    match trial.device.capabilities().execution {
        Execution::Interpreted => 1 << 20,
        Execution::Simd => 1 << 26,
        Execution::Simt if trial.device.capabilities().software => 1 << 20,
        Execution::Simt => usize::MAX,
    }
}

/// Tries so many sizes; fewer where a driver in software takes seconds to compile the kernels of
/// each. A device that lacks the shared memory for some does the others.
fn of_each(trial: &mut Trial<'_>, sizes: usize, mut one: impl FnMut(&mut Trial<'_>) -> Verdict) -> Verdict {
    let sizes = if trial.device.capabilities().software { sizes / 3 } else { sizes };
    let mut refused = Ok(());
    for _ in 0..sizes {
        match one(trial) {
            Err(stop) if stop.is_lack_of_shared_memory() => refused = Err(stop),
            verdict => verdict?,
        }
    }
    refused
}

/// Odd, prime, tiny and huge lengths and widths with any options, of which all queries are looked
/// at.
fn odd_lengths<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    // The reference takes all products too, and looks at every query.
    let (most, elements) = (many(trial).min(1 << 23), 1 << 18);
    of_each(trial, 10, |trial| {
        let rng = &mut trial.rng;
        let any = |rng: &mut Rng| EXTENTS[rng.below(EXTENTS.len() as u64) as usize];
        let width = [1, 3, 8, 33, 64, 100, 128, 256][rng.below(8) as usize];
        let shared = 1 + rng.below(3) as usize;
        let [queries, keys] = loop {
            let lengths = [any(rng), any(rng)];
            let rows = shared * width * lengths[0].max(lengths[1]);
            if rows <= elements && rows * lengths[0].min(lengths[1]).max(1) <= most {
                break lengths;
            }
        };
        let options = Options::random(rng, keys);
        attend::<T>(trial, Sizes { heads: shared, shared, queries, keys, width }, options)
    })
}

/// Lengths from 1 to 4099 with any options, of which some queries are looked at.
/// More heads than a grid of NVIDIA's GPUs has blocks on an axis; three have the same keys.
fn more_heads_than_a_grid<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let sizes = Sizes { shared: 3, ..sizes(65_538, 3, 4, 2) };
    attend::<T>(trial, sizes, Options::default())
}

fn any_lengths<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let most = many(trial);
    of_each(trial, 6, |trial| {
        let rng = &mut trial.rng;
        let [mut queries, mut keys] = [(); 2].map(|()| 1 + rng.below(4099) as usize);
        let (shared, width) = (1 + rng.below(3) as usize, 8 * (1 + rng.below(32) as usize));
        while shared.saturating_mul(queries * keys * width) > most {
            (queries, keys) = if queries > keys { (queries / 2, keys) } else { (queries, keys / 2) };
        }
        let options = Options::random(rng, keys);
        let sizes = Sizes { heads: shared, shared, queries, keys, width };
        let (q, qs) = trial.input::<T, 3>([shared, queries, width])?;
        let (k, ks) = trial.input::<T, 3>([1, keys, width])?;
        let (v, vs) = trial.input::<T, 3>([1, keys, width])?;
        let mut o = trial.output::<T, 3>([shared, queries, width])?;
        let mut sums = trial.output::<f32, 2>([shared, queries])?;
        options.attention().run_with_sums(&q, &k, &v, &mut o, &mut sums)?;
        let ([qs, ks, vs], o, sums) = ([&qs, &ks, &vs].map(|x| float(x)), o.to_vec()?, sums.to_vec()?);
        ensure(o.iter().all(|x| x.host().float().is_finite()), || {
            format!("{sizes:?} {options:?}: not finite")
        })?;
        for n in 0..24 {
            // The first and the last query, and any others.
            let at = match n {
                0 => 0,
                1 => shared * queries - 1,
                _ => trial.rng.below((shared * queries) as u64) as usize,
            };
            let (row, sum) = of_query(sizes, [&qs, &ks, &vs], options, at / queries, at % queries);
            let expected: Vec<Host> = row.into_iter().map(Host::Float).collect();
            let what = format!("query {at}, {sizes:?}, {options:?}");
            close(&what, &o[at * width..][..width], &expected, ulps::<T>(), 4.0)?;
            close(&what, &sums[at..=at], &[Host::Float(sum)], 64.0, 4.0)?;
        }
        Ok(())
    })
}

fn refused(trial: &mut Trial<'_>) -> Verdict {
    let (q, _) = trial.input::<f32, 3>([2, 3, 4])?;
    let (k, _) = trial.input::<f32, 3>([2, 5, 8])?;
    let mut o = trial.output::<f32, 3>([2, 3, 4])?;
    let is_shape = |result: kiln_runtime::Result<()>, argument: &str| {
        let named = matches!(&result, Err(Error::Shape { what, .. }) if what.contains(argument));
        ensure(named, || format!("a wrong {argument}: {result:?}"))
    };
    is_shape(kiln_kernels::attention(&q, &k, &k, &mut o, true), "attention, k")?;
    let mut sums = trial.output::<f32, 2>([3, 2])?;
    is_shape(Attention::new().run_with_sums(&q, &q, &q, &mut o, &mut sums), "attention, sums")?;
    let batch = trial.output::<f32, 4>([1, 2, 3, 4])?;
    let mut other = trial.output::<f32, 4>([1, 2, 4, 3])?;
    is_shape(Attention::new().run(&batch, &batch, &batch, &mut other), "attention, o")?;

    let is_value = |result: kiln_runtime::Result<()>, argument: &str| {
        let named = matches!(&result, Err(Error::Value { what, .. }) if what.contains(argument));
        ensure(named, || format!("a wrong {argument}: {result:?}"))
    };
    for cap in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        is_value(Attention::new().soft_cap(cap).run(&q, &q, &q, &mut o), "soft_cap")?;
    }
    is_value(Attention::new().scale(f32::NAN).run(&q, &q, &q, &mut o), "scale")?;
    let (starts, more) = (trial.vector(&[0u32, 1, 2])?, trial.vector(&[0u32, 1, 2, 3])?);
    is_shape(Attention::new().packed(&starts, &more).map(drop), "key_starts")?;
    let wrong = [trial.vector(&[0i32, 2, 1])?, trial.vector(&[-1i32, 0, 1])?];
    is_value(Attention::new().packed(&wrong[0], &wrong[0]).map(drop), "query_starts[2]")?;
    is_value(Attention::new().packed(&wrong[1], &wrong[1]).map(drop), "query_starts[0]")?;
    let long = trial.vector(&[0u32, 9, 9])?;
    is_value(Attention::new().packed(&long, &starts)?.run(&q, &q, &q, &mut o), "query_starts")
}
