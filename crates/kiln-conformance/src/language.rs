//! What makes kernels Rust: structs of device values, closures, generics, helper functions, host
//! constants.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, holds_near, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["language":
        structs_in_loops for f32 f64;
        structs_from_branches;
        closures;
        generic_functions for i32 u64 f16 f32;
        host_constants;
        arrays_of_tiles;
        tiles_carried_by_loops;
        numbers_known_at_the_launch for i8 u8 i16 u16 bool i32 u32 i64 u64 f16 bf16 f32 f64;
        specializations_differ;
    ]
}

/// Mean and sum of squared deviations of the values so far (Welford, 1962).
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_runtime)]
struct Moments<T: Float> {
    count: Val<T>,
    mean: Val<T>,
    squares: Val<T>,
}

impl<T: Float> Moments<T> {
    #[device(crate = kiln_runtime)]
    fn add(&mut self, x: Val<T>) {
        self.count += 1;
        let before = x - self.mean;
        self.mean += before / self.count;
        self.squares += before * (x - self.mean);
    }
}

#[kernel(crate = kiln_runtime)]
fn variances<T: Float>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    let i = thread_index().get();
    if i < x.extent(0) {
        let mut m = Moments { count: val::<T>(0), mean: val::<T>(0), squares: val::<T>(0) };
        for j in 0..x.extent(1) {
            let v = x.get((i, j));
            if v < 3 {
                m.add(v);
            }
        }
        // SAFETY: each thread writes its own row.
        unsafe {
            y.write((i, 0), m.mean);
            y.write((i, 1), m.squares / m.count);
        }
    }
}

fn structs_in_loops<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let (m, n) = (35, 20);
    let (x, data) = trial.input::<T, 2>([m, n])?;
    let mut y = trial.output::<T, 2>([m, 2])?;
    variances(&x, &mut y).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let mut expected = Vec::new();
    for row in data.chunks(n) {
        let kept: Vec<f64> = row.iter().map(|v| v.host().float()).filter(|&v| v < 3.0).collect();
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        let variance = kept.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / kept.len() as f64;
        expected.extend([Host::Float(mean), Host::Float(variance)]);
    }
    holds_near("mean and variance", &y, &expected, 32.0, 4.0)
}

#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_runtime)]
struct Span {
    lo: Val<i32>,
    hi: Val<i32>,
}

#[device(crate = kiln_runtime)]
fn ordered(a: Val<i32>, b: Val<i32>) -> Span {
    if a < b {
        return Span { lo: a, hi: b };
    }
    Span { lo: b, hi: a }
}

#[kernel(crate = kiln_runtime)]
fn spans(a: &Tensor<i32, 1>, b: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let i = thread_index();
    let mut span = ordered(a.get_or(i, 0), b.get_or(i, 0));
    let other = if span.lo > 10 { Span { lo: span.hi, hi: span.lo } } else { span };
    if span.hi > 50 {
        span = other;
        span.lo += 1;
    }
    y.set_or_skip(i, span.lo * 1000 + span.hi + other.hi);
}

fn structs_from_branches(trial: &mut Trial<'_>) -> Verdict {
    let n = 70;
    let mut numbers = || list(0..n, |_| trial.rng.below(100) as i32);
    let (a, b) = (numbers(), numbers());
    let mut y = trial.output([n])?;
    let launch_inputs = (trial.vector(&a)?, trial.vector(&b)?);
    spans(&launch_inputs.0, &launch_inputs.1, &mut y)
        .grid([3, 1, 1])
        .block([32, 1, 1])
        .launch(trial.device)?;
    let reference = |(&a, &b): (&i32, &i32)| {
        let (mut lo, mut hi) = (a.min(b), a.max(b));
        let other = if lo > 10 { (hi, lo) } else { (lo, hi) };
        if hi > 50 {
            (lo, hi) = other;
            lo += 1;
        }
        lo * 1000 + hi + other.1
    };
    holds("spans", &y, &a.iter().zip(&b).map(reference).collect::<Vec<i32>>())
}

#[kernel(crate = kiln_runtime)]
fn with_closures(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    let scale = 3;
    let apply = |f: &dyn Fn(Val<f32>) -> Val<f32>, v| f(f(v));
    let mut calls = 0;
    let mut shift = |v: Val<f32>| {
        calls += 1;
        v * scale + calls as f32
    };
    let v = shift(x.tile(at, block).load(0.0));
    let v = shift(v);
    y.tile(at, block).store(apply(&|v| v.maximum(0.0) - 1.0, v));
}

fn closures(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 1>([99])?;
    let mut y = trial.output([99])?;
    with_closures(&x, &mut y, 32).launch(trial.device)?;
    let relu = |v: f64| v.max(0.0) - 1.0;
    let reference = |&v: &f32| Host::Float(relu(relu((f64::from(v) * 3.0 + 1.0) * 3.0 + 2.0)));
    holds_near("closures", &y, &data.iter().map(reference).collect::<Vec<Host>>(), 8.0, 8.0)
}

trait Activation: 'static {
    fn apply<T: Num>(x: Val<T>) -> Val<T>;
}

struct Relu;
struct Square;

impl Activation for Relu {
    fn apply<T: Num>(x: Val<T>) -> Val<T> {
        x.maximum(0)
    }
}

impl Activation for Square {
    fn apply<T: Num>(x: Val<T>) -> Val<T> {
        x * x
    }
}

#[device(crate = kiln_runtime)]
fn clipped<T: Num>(x: Val<T>, limit: Val<T>) -> Val<T> {
    if x > limit { limit } else { x }
}

#[kernel(crate = kiln_runtime)]
fn activated<A: Activation, B: Activation, T: Num, const N: usize>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>) {
    let i = thread_index();
    let mut v = x.get_or(i, 0);
    for _ in 0..N {
        v = clipped(B::apply(A::apply(v)), val(50));
    }
    y.set_or_skip(i, v);
}

fn generic_functions<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let data: Vec<T> = list(0..40, |_| T::small(trial.rng.below(10) as i32));
    let x = trial.vector(&data)?;
    let (mut a, mut b) = (trial.output::<T, 1>([40])?, trial.output::<T, 1>([40])?);
    activated::<Relu, Square, T, 1>(&x, &mut a).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    activated::<Relu, Square, T, 2>(&x, &mut b).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let square = |v: T| v.host().mul(v.host()).min(T::small(50).host());
    let once: Vec<T> = data.iter().map(|&v| T::from_host(square(v))).collect();
    holds("once", &a, &once)?;
    holds("twice", &b, &once.iter().map(|&v| T::from_host(square(v))).collect::<Vec<T>>())
}

#[derive(Clone, Copy, Hash, PartialEq, KernelConst)]
#[kiln(crate = kiln_runtime)]
enum Edge {
    Zero,
    Constant { value: i32 },
    Clamp,
}

#[kernel(crate = kiln_runtime)]
fn shift_right(
    x: &Tensor<i32, 1>,
    y: &mut Tensor<i32, 1>,
    by: usize,
    edge: Edge,
    negate: bool,
    weights: [i32; 3],
) {
    let i = thread_index();
    let from = i.get() - by;
    let v = match edge {
        Edge::Zero => x.get_or(from, 0),
        Edge::Constant { value } => x.get_or(from, value),
        Edge::Clamp => x.get(from.clamp(0, x.extent(0) - 1)),
    };
    let mut total: Val<i32> = 0;
    for (k, w) in weights.into_iter().enumerate() {
        if w != 0 {
            total += v * w + k;
        }
    }
    y.set_or_skip(i, if negate { -total } else { total });
}

fn host_constants(trial: &mut Trial<'_>) -> Verdict {
    let n = 50;
    let data: Vec<i32> = list(0..n, |_| trial.rng.below(100) as i32);
    let x = trial.vector(&data)?;
    for (edge, negate) in [
        (Edge::Zero, false),
        (Edge::Constant { value: 9 }, true),
        (Edge::Clamp, false),
        (Edge::Constant { value: -4 }, false),
    ] {
        let mut y = trial.output([n])?;
        shift_right(&x, &mut y, 3, edge, negate, [2, 0, -5])
            .grid([2, 1, 1])
            .block([32, 1, 1])
            .launch(trial.device)?;
        let reference = |i: usize| {
            let v = match edge {
                _ if i >= 3 => data[i - 3],
                Edge::Zero => 0,
                Edge::Constant { value } => value,
                Edge::Clamp => data[0],
            };
            let total = 2 * v + (-5 * v + 2);
            if negate { -total } else { total }
        };
        holds("shifted", &y, &list(0..n, reference))?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn columns_of_tiles(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, tiles: usize, block: usize) {
    let row = program_id(0);
    let parts: Vec<Tile<f32>> = list(0..tiles, |k| x.row(row).tile(k * block, block).load(0.0));
    let total = parts.iter().map(|part| part.sum()).reduce(|a, b| a + b).unwrap_or(val(0));
    for (k, part) in parts.iter().enumerate() {
        y.row(row).tile(k * block, block).store(*part - total);
    }
}

fn arrays_of_tiles(trial: &mut Trial<'_>) -> Verdict {
    let (m, n) = (3, 59);
    let (x, data) = trial.input::<f32, 2>([m, n])?;
    let mut y = trial.output([m, n])?;
    columns_of_tiles(&x, &mut y, 4, 16).grid([m as u32, 1, 1]).launch(trial.device)?;
    let total = |i: usize| data[i / n * n..][..n].iter().map(|&v| f64::from(v)).sum::<f64>();
    let expected: Vec<Host> = list(0..m * n, |i| Host::Float(f64::from(data[i]) - total(i)));
    holds_near("less the sum of the row", &y, &expected, 16.0, 32.0)
}

#[kernel(crate = kiln_runtime)]
fn halve_until_small(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, rounds: &mut Tensor<i32, 1>, block: usize) {
    let p = program_id(0);
    let mut v = x.tile(p * block, block).load(0.0);
    let mut n: Val<i32> = 0;
    while v.abs().reduce_max() > 0.5 {
        v = select(v.abs().gt(0.25), v * 0.5, v);
        n += 1;
        if n >= 20 {
            break;
        }
    }
    y.tile(p * block, block).store(v);
    rounds.tile(p, 1).store(n.reshape(1));
}

fn tiles_carried_by_loops(trial: &mut Trial<'_>) -> Verdict {
    let (n, block) = (90usize, 32);
    let (x, data) = trial.input::<f32, 1>([n])?;
    let (mut y, mut rounds) = (trial.output([n])?, trial.output([3])?);
    halve_until_small(&x, &mut y, &mut rounds, block).launch(trial.device)?;
    let (mut expected, mut counts) = (data.clone(), Vec::new());
    for part in expected.chunks_mut(block) {
        let mut count = 0;
        while part.iter().any(|v| v.abs() > 0.5) && count < 20 {
            part.iter_mut().filter(|v| v.abs() > 0.25).for_each(|v| *v *= 0.5);
            count += 1;
        }
        counts.push(count);
    }
    holds("halved", &y, &expected)?;
    holds("rounds", &rounds, &counts)
}

#[kernel(crate = kiln_runtime)]
fn fill<T: Elem>(y: &mut Tensor<T, 1>, value: Val<T>, block: usize) {
    y.tile(program_id(0) * block, block).store(value);
}

fn numbers_known_at_the_launch<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let mut y = trial.output::<T, 1>([37])?;
    for _ in 0..3 {
        let value = T::sample(&mut trial.rng);
        fill(&mut y, value, 16).launch(trial.device)?;
        holds("filled", &y, &[value; 37])?;
    }
    Ok(())
}

fn specializations_differ(trial: &mut Trial<'_>) -> Verdict {
    let before = trial.device.programs().len();
    let mut y = trial.output::<u32, 1>([64])?;
    // The block is a constant that no other case uses.
    for (value, block) in [(1u32, 512usize), (2, 512), (3, 1024), (4, 512)] {
        fill(&mut y, value, block).launch(trial.device)?;
        holds("filled", &y, &[value; 64])?;
    }
    let made = trial.device.programs().len() - before;
    crate::trial::ensure(made <= 2, || format!("{made} programs were made for two constants"))
}
