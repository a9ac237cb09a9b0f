//! Reductions and scans with any function.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, holds_near, list};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["combine_with":
        compositions for i16 i32 u64;
        mean_and_variance for f64;
        maximum_and_sum;
        recurrence for f32;
    ]
}

/// The function a x + b of integers that wrap. To apply one function after another is associative,
/// and what comes first matters.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
struct Linear<T: Elem> {
    factor: Val<T>,
    addend: Val<T>,
}

impl<T: Num> Linear<T> {
    /// This function first, then another.
    fn then(self, next: Self) -> Self {
        Linear { factor: self.factor * next.factor, addend: self.addend * next.factor + next.addend }
    }
}

#[kernel(crate = kiln_runtime)]
fn composed<T: Int>(
    factors: &Tensor<T, 3>,
    addends: &Tensor<T, 3>,
    all: &mut Tensor<T, 3>,
    running: &mut Tensor<T, 3>,
    shape: [usize; 3],
) {
    let [k, m, n] = shape;
    let of = |x: View<T, 3>| x.load((k, m, n), 1);
    let each = Linear { factor: of(factors), addend: of(addends) };
    let whole = each.reduce_with(1, Linear::then);
    let p = program_id(0);
    all.tile((p * 2, 0, 0), (1, k, n)).store(whole.factor.reshape((1, k, n)));
    all.tile((p * 2 + 1, 0, 0), (1, k, n)).store(whole.addend.reshape((1, k, n)));
    let forward = each.scan_with(1, Linear::then);
    let backward = each.scan_with_reverse(1, Linear::then);
    running.tile((p * 2 * k, 0, 0), (k, m, n)).store(forward.addend);
    running.tile((p * 2 * k + k, 0, 0), (k, m, n)).store(backward.addend);
}

fn compositions<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    for [k, m, n] in [[2, 16, 2], [3, 11, 1]] {
        let shape = [k, m, n];
        let (factors, a) = trial.input::<T, 3>(shape)?;
        let (addends, b) = trial.input::<T, 3>(shape)?;
        let (mut all, mut running) = (trial.output([2, k, n])?, trial.output([2 * k, m, n])?);
        composed(&factors, &addends, &mut all, &mut running, shape).grid([1; 3]).launch(trial.device)?;
        let wrap = |value: Host| T::from_host(value).host();
        let then = |(a, b): (Host, Host), i: usize, c: &[T], d: &[T]| {
            (wrap(a.mul(c[i].host())), wrap(wrap(b.mul(c[i].host())).add(d[i].host())))
        };
        let (mut whole, mut forward) = (vec![T::small(0); 2 * k * n], vec![T::small(0); k * m * n]);
        let mut backward = forward.clone();
        for (block, column) in (0..k * n).map(|i| (i / n, i % n)) {
            let at = |row: usize| (block * m + row) * n + column;
            let identity = (T::small(1).host(), T::small(0).host());
            let mut so_far = identity;
            for i in (0..m).map(at) {
                so_far = then(so_far, i, &a, &b);
                forward[i] = T::from_host(so_far.1);
            }
            whole[block * n + column] = T::from_host(so_far.0);
            whole[(k + block) * n + column] = T::from_host(so_far.1);
            so_far = identity;
            for i in (0..m).rev().map(at) {
                so_far = then(so_far, i, &a, &b);
                backward[i] = T::from_host(so_far.1);
            }
        }
        holds("reduce_with", &all, &whole)?;
        holds("scan_with, forward and reverse", &running, &[forward, backward].concat())?;
    }
    Ok(())
}

/// Count, mean and sum of squared deviations (Chan, Golub and LeVeque, 1979).
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
struct Moments<T: Elem> {
    count: Val<T>,
    mean: Val<T>,
    squares: Val<T>,
}

impl<T: Float> Moments<T> {
    fn with(self, other: Self) -> Self {
        let (count, delta) = (self.count + other.count, other.mean - self.mean);
        let share = other.count / count;
        let between = delta * delta * self.count * share;
        Moments { count, mean: self.mean + delta * share, squares: self.squares + other.squares + between }
    }
}

#[kernel(crate = kiln_runtime)]
fn moments<T: Float>(x: &Tensor<T, 2>, y: &mut Tensor<T, 1>, n: usize) {
    let p = program_id(0);
    let v = x.row(p).load(n, 0);
    // One count stretches to all elements.
    let all = Moments { count: val(1), mean: v, squares: val(0) }.reduce_with(0, Moments::with);
    y.tile(p * 2, 1).store(all.mean);
    y.tile(p * 2 + 1, 1).store(all.squares / all.count);
}

fn mean_and_variance<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let n = 37;
    let data: Vec<T> = list(0..2 * n, |_| T::from_host(Host::Float(trial.rng.between(99.0, 101.0))));
    let x = trial.device.tensor(&data, [2, n])?;
    let mut y = trial.output::<T, 1>([4])?;
    moments(&x, &mut y, n).grid([2, 1, 1]).launch(trial.device)?;
    let expected: Vec<Host> = data
        .chunks(n)
        .flat_map(|row| {
            let row: Vec<f64> = row.iter().map(|v| v.host().float()).collect();
            let mean = row.iter().sum::<f64>() / n as f64;
            let squares: f64 = row.iter().map(|x| (x - mean) * (x - mean)).sum();
            [mean, squares / n as f64]
        })
        .map(Host::Float)
        .collect();
    holds_near("mean and variance", &y, &expected, 16.0, 8.0)
}

#[kernel(crate = kiln_runtime)]
fn greatest_and_sum(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, at: &mut Tensor<i32, 1>) {
    let p = program_id(0);
    let v = x.row(p).load(128, 0.0);
    let (most, sum, column) = (v, val::<f32>(1.0), iota::<i32>(128)).reduce_with(0, |a, b| {
        let most = a.0.max(b.0);
        let sum = a.1 * (a.0 - most).exp() + b.1 * (b.0 - most).exp();
        (most, sum, select(a.0.ge(b.0), a.2, b.2))
    });
    y.row(p).tile(0, 1).store(most);
    y.row(p).tile(1, 1).store(sum);
    at.tile(p, 1).store(column);
}

fn maximum_and_sum(trial: &mut Trial<'_>) -> Verdict {
    let (x, mut data) = trial.input::<f32, 2>([3, 128])?;
    // Two that are equal: the first counts.
    data[128 + 5] = 90.0;
    data[128 + 77] = 90.0;
    let x = trial.device.tensor(&data, x.shape())?;
    let (mut y, mut at) = (trial.output([3, 2])?, trial.output([3])?);
    greatest_and_sum(&x, &mut y, &mut at).grid([3, 1, 1]).launch(trial.device)?;
    let rows = || data.chunks(128);
    let most: Vec<f64> = rows().map(|r| r.iter().fold(f64::MIN, |m, v| m.max(f64::from(*v)))).collect();
    let sums = rows().zip(&most).map(|(r, m)| r.iter().map(|v| (f64::from(*v) - m).exp()).sum::<f64>());
    let expected: Vec<Host> = most.iter().zip(sums).flat_map(|(m, s)| [*m, s]).map(Host::Float).collect();
    holds_near("maximum and sum of exponentials", &y, &expected, 32.0, 0.0)?;
    let first = |(row, most): (&[f32], &f64)| row.iter().position(|v| f64::from(*v) == *most).unwrap_or(0);
    let columns: Vec<i32> = rows().zip(&most).map(|r| first(r) as i32).collect();
    holds("the first greatest", &at, &columns)
}

#[kernel(crate = kiln_runtime)]
fn selective_scan<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, h: &mut Tensor<T, 2>, n: usize) {
    let p = program_id(0);
    let factors_and_inputs = (a.row(p).load(n, 0), b.row(p).load(n, 0));
    let states = factors_and_inputs.scan_with(0, |(a1, b1), (a2, b2)| (a1 * a2, b1 * a2 + b2));
    h.row(p).tile(0, n).store(states.1);
}

fn recurrence<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let n = 50;
    let between = |rng: &mut kiln_reference::Rng, lo, hi| T::from_host(Host::Float(rng.between(lo, hi)));
    let a: Vec<T> = list(0..2 * n, |_| between(&mut trial.rng, 0.1, 0.99));
    let b: Vec<T> = list(0..2 * n, |_| between(&mut trial.rng, -1.0, 1.0));
    let (factors, inputs) = (trial.device.tensor(&a, [2, n])?, trial.device.tensor(&b, [2, n])?);
    let mut h = trial.output::<T, 2>([2, n])?;
    selective_scan(&factors, &inputs, &mut h, n).grid([2, 1, 1]).launch(trial.device)?;
    let mut state = 0.0;
    let expected: Vec<Host> = list(0..2 * n, |i| {
        let before = if i % n == 0 { 0.0 } else { state };
        state = a[i].host().float() * before + b[i].host().float();
        Host::Float(state)
    });
    holds_near("states", &h, &expected, 16.0, 1.0)
}
