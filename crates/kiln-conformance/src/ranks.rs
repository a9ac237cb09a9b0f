//! Sorting, the greatest elements and their places, softmax, counts.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, holds_near, hosts, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;
use std::cmp::Ordering;

pub fn cases() -> Vec<Case> {
    cases!["ranks":
        sorted for i16 i32 u64 bf16 f32 f64;
        sorted_with_order;
        greatest for u16 u32 i64 f16 f32;
        ties for i32 f32;
        softmax for f16 f32 f64;
        histogram for i32 u64;
    ]
}

/// The order of elements: NaN come last.
fn order(a: Host, b: Host) -> Ordering {
    let is_nan = |x: Host| matches!(x, Host::Float(x) if x.is_nan());
    match (is_nan(a), is_nan(b)) {
        (false, false) if a.less(b) => Ordering::Less,
        (false, false) if b.less(a) => Ordering::Greater,
        (a, b) => a.cmp(&b),
    }
}

/// Random elements, some equal, one of floats NaN.
fn elements<T: Sample>(trial: &mut Trial<'_>, n: usize) -> Vec<T> {
    let mut data = trial.random::<T>(n);
    data[n / 2] = data[0];
    data[n - 1] = data[1];
    if T::EPSILON > 0.0 {
        data[2] = T::from_host(Host::Float(f64::NAN));
        data[3] = T::from_host(Host::Float(f64::NEG_INFINITY));
    }
    data
}

#[kernel(crate = kiln_runtime)]
fn sorts<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, down: &mut Tensor<T, 2>, shape: [usize; 2]) {
    let [m, n] = shape;
    let v = x.load((m, n), 0);
    let at = program_id(0) * m;
    y.tile((at, 0), (m, n)).store(v.sort(1));
    down.tile((at, 0), (m, n)).store(v.sort_descending(0));
}

fn sorted<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n] = [4, 11];
    let data = elements::<T>(trial, m * n);
    let x = trial.device.tensor(&data, [m, n])?;
    let (mut y, mut down) = (trial.output::<T, 2>([m, n])?, trial.output::<T, 2>([m, n])?);
    sorts(&x, &mut y, &mut down, [m, n]).grid([1; 3]).launch(trial.device)?;
    let (rows, columns) = expected_sorts(&hosts(&data), [m, n]);
    holds_near("sort", &y, &rows, 0.0, 0.0)?;
    holds_near("sort_descending", &down, &columns, 0.0, 0.0)
}

/// Every row sorted, and every column, the greatest first.
fn expected_sorts(data: &[Host], [m, n]: [usize; 2]) -> (Vec<Host>, Vec<Host>) {
    let (mut rows, mut columns) = (data.to_vec(), data.to_vec());
    rows.chunks_mut(n).for_each(|row| row.sort_unstable_by(|a, b| order(*a, *b)));
    for j in 0..n {
        let mut column: Vec<Host> = list(0..m, |i| columns[i * n + j]);
        column.sort_unstable_by(|a, b| order(*b, *a));
        column.into_iter().enumerate().for_each(|(i, value)| columns[i * n + j] = value);
    }
    (rows, columns)
}

#[kernel(crate = kiln_runtime)]
fn sort_indices(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, from: &mut Tensor<i32, 2>, n: usize) {
    let p = program_id(0);
    let each = (x.row(p).load(n, 0.0), iota::<i32>(n));
    let (values, indices) = each.sort_by(0, |(a, i), (b, j)| a.lt(b) | (a.eq(b) & i.lt(j)));
    y.row(p).tile(0, n).store(values);
    from.row(p).tile(0, n).store(indices);
}

fn sorted_with_order(trial: &mut Trial<'_>) -> Verdict {
    for n in [16, 13] {
        let mut data = trial.random::<f32>(2 * n);
        data[5] = data[0];
        let x = trial.device.tensor(&data, [2, n])?;
        let (mut y, mut from) = (trial.output([2, n])?, trial.output([2, n])?);
        sort_indices(&x, &mut y, &mut from, n).grid([2, 1, 1]).launch(trial.device)?;
        let (mut values, mut indices) = (Vec::new(), Vec::new());
        for row in data.chunks(n) {
            let mut at: Vec<usize> = (0..n).collect();
            at.sort_by(|i, j| row[*i].total_cmp(&row[*j]));
            values.extend(at.iter().map(|i| row[*i]));
            indices.extend(at.iter().map(|i| *i as i32));
        }
        holds("values", &y, &values)?;
        holds("indices", &from, &indices)?;
    }
    Ok(())
}

/// An extent, and how many elements of it.
#[derive(Clone, Copy, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
struct Best {
    n: usize,
    k: usize,
}

#[kernel(crate = kiln_runtime)]
fn best<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, from: &mut Tensor<i64, 2>, of: Best) {
    let (values, indices) = x.load((2, of.n), 0).top_k(1, of.k);
    let at = program_id(0) * 2;
    y.tile((at, 0), (2, of.k)).store(values);
    from.tile((at, 0), (2, of.k)).store(indices);
}

fn expected_best(data: &[Host], of: Best) -> (Vec<Host>, Vec<i64>) {
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    for row in data.chunks(of.n) {
        let mut at: Vec<usize> = (0..of.n).collect();
        // A stable sort: of equal elements the first stays first.
        at.sort_by(|i, j| order(row[*j], row[*i]));
        values.extend(at[..of.k].iter().map(|i| row[*i]));
        indices.extend(at[..of.k].iter().map(|i| *i as i64));
    }
    (values, indices)
}

fn greatest<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for of in [Best { n: 16, k: 4 }, Best { n: 21, k: 3 }] {
        let data = elements::<T>(trial, 2 * of.n);
        let x = trial.device.tensor(&data, [2, of.n])?;
        let (mut y, mut from) = (trial.output::<T, 2>([2, of.k])?, trial.output([2, of.k])?);
        best(&x, &mut y, &mut from, of).grid([1; 3]).launch(trial.device)?;
        let (values, indices) = expected_best(&hosts(&data), of);
        holds_near("the greatest", &y, &values, 0.0, 0.0)?;
        holds("where they are", &from, &indices)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn extremes<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, at: &mut Tensor<i64, 2>, n: usize) {
    let v = x.load((4, n), 0);
    let p = program_id(0) * 4;
    let ((most, first_most), (least, first_least)) = (v.max_with_index(1), v.min_with_index(1));
    let sums = v.sum_keep(1) - v.max_keep(1);
    for (k, value) in [most, least, sums.reshape(4)].into_iter().enumerate() {
        y.row(k).tile(p, 4).store(value);
    }
    let places = [first_most, first_least, v.argmax_axis_last(1), v.argmin_axis_last(1)];
    for (k, index) in places.into_iter().enumerate() {
        at.row(k).tile(p, 4).store(index);
    }
}

fn ties<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let n = 19;
    let data: Vec<T> = list(0..4 * n, |_| T::small(trial.rng.below(4) as i32));
    let x = trial.device.tensor(&data, [4, n])?;
    let (mut y, mut at) = (trial.output::<T, 2>([3, 4])?, trial.output::<i64, 2>([4, 4])?);
    extremes(&x, &mut y, &mut at, n).grid([1; 3]).launch(trial.device)?;
    let (mut values, mut places) = (vec![Host::Int(0); 12], vec![0; 16]);
    for (row, of) in data.chunks(n).enumerate() {
        let of = hosts(of);
        let most = of.iter().fold(of[0], |a, b| a.max(*b));
        let least = of.iter().fold(of[0], |a, b| a.min(*b));
        let sum = of.iter().skip(1).fold(of[0], |a, b| a.add(*b));
        [most, least, sum.sub(most)].iter().enumerate().for_each(|(k, v)| values[k * 4 + row] = *v);
        let found = |value: Host| {
            let first = of.iter().position(|v| *v == value).unwrap_or(n);
            let last = of.iter().rposition(|v| *v == value).unwrap_or(n);
            [first, last].map(|i| i as i64)
        };
        let ([first_most, last_most], [first_least, last_least]) = (found(most), found(least));
        let all = [first_most, first_least, last_most, last_least];
        all.into_iter().enumerate().for_each(|(k, i)| places[k * 4 + row] = i);
    }
    holds_near("values", &y, &values, 0.0, 0.0)?;
    holds("places", &at, &places)
}

#[kernel(crate = kiln_runtime)]
fn softmaxes<T: Float>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, n: usize) {
    let at = program_id(0) * 4;
    y.tile((at, 0), (4, n)).store(x.load((4, n), 0).softmax(1));
}

fn softmax<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let n = 45;
    let data: Vec<T> = list(0..4 * n, |_| T::from_host(Host::Float(trial.rng.between(-20.0, 20.0))));
    let x = trial.device.tensor(&data, [4, n])?;
    let mut y = trial.output::<T, 2>([4, n])?;
    softmaxes(&x, &mut y, n).grid([1; 3]).launch(trial.device)?;
    let mut expected = Vec::new();
    for row in data.chunks(n) {
        let row: Vec<f64> = row.iter().map(|v| v.host().float()).collect();
        let most = row.iter().fold(f64::MIN, |a, b| a.max(*b));
        let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
        expected.extend(row.iter().map(|x| Host::Float((x - most).exp() / sum)));
    }
    // 16-bit floats have few digits where results are small.
    holds_near("softmax", &y, &expected, 32.0, if T::BITS == 16 { 1e-3 } else { 0.0 })
}

#[kernel(crate = kiln_runtime)]
fn counted<T: Int>(x: &Tensor<T, 1>, y: &mut Tensor<u32, 2>, n: usize, bins: usize) {
    let p = program_id(0);
    // What lies behind the end is no bin.
    let counts = x.tile(p * n, n).load(bins).histogram(bins);
    y.row(p).tile(0, bins).store(counts);
}

fn histogram<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    let (n, bins, len) = (96, 10, 150);
    let data: Vec<T> = list(0..len, |_| T::small(trial.rng.below(13) as i32));
    let x = trial.vector(&data)?;
    let mut y = trial.output::<u32, 2>([2, bins])?;
    counted(&x, &mut y, n, bins).grid([2, 1, 1]).launch(trial.device)?;
    let mut counts = vec![0; 2 * bins];
    for (i, value) in data.iter().enumerate() {
        let is_bin = |bin: &usize| value.host() == Host::Int(*bin as i128);
        if let Some(bin) = (0..bins).find(is_bin) {
            counts[i / n * bins + bin] += 1;
        }
    }
    holds("counts", &y, &counts)
}
