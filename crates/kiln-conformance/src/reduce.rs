//! Reductions along an axis and of everything.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, close, holds, holds_near, hosts, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["reduce":
        along_axes for i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        everything for i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        positions for i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        bits for i8 u8 i16 u16 i32 u32 i64 u64;
        any_and_all;
        numbers_win_over_nan for f16 bf16 f32 f64;
        of_three_axes for i32 f32;
        long_rows for f32 f64;
    ]
}

/// Sum, least and greatest. Sums may be taken in any order.
fn combine(values: &[Host]) -> [Host; 3] {
    let fold = |f: fn(Host, Host) -> Host| values.iter().copied().reduce(f).unwrap_or(Host::Int(0));
    [fold(Host::add), fold(Host::min), fold(Host::max)]
}

/// The magnitude that a sum's error is relative to: that of its terms, as their order is the
/// device's. 16-bit floats add up in f32 and round once.
fn magnitude<T: Sample>(terms: usize) -> f64 {
    if T::BITS == 16 { 4.0 } else { 4.0 * terms as f64 }
}

#[kernel(crate = kiln_runtime)]
fn axes<T: Num>(
    x: &Tensor<T, 2>,
    rows: &mut Tensor<T, 2>,
    columns: &mut Tensor<T, 2>,
    prod: &mut Tensor<T, 1>,
) {
    let v = x.load((16, 32), x.get((0, 0)));
    let inside = iota::<i64>(16).expand(1).lt(x.extent(0)) & iota::<i64>(32).expand(0).lt(x.extent(1));
    let zeroed = select(inside, v, 0);
    let at = program_id(0);
    for (k, r) in [zeroed.sum_axis(1), v.min_axis(1), v.max_axis(1)].into_iter().enumerate() {
        rows.row(k).tile(at * 16, 16).store(r);
    }
    for (k, r) in [zeroed.sum_axis(0), v.min_axis(0), v.max_axis(0)].into_iter().enumerate() {
        columns.row(k).tile(at * 32, 32).store(r);
    }
    prod.tile(at * 16, 16).store(select(iota::<i64>(32).expand(0).lt(3), v, 1).prod_axis(1));
}

fn along_axes<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let (m, n) = (13, 27);
    let (x, data) = trial.input::<T, 2>([m, n])?;
    let (mut rows, mut columns) = (trial.output::<T, 2>([3, m])?, trial.output::<T, 2>([3, n])?);
    let mut prod = trial.output::<T, 1>([m])?;
    axes(&x, &mut rows, &mut columns, &mut prod).grid([1; 3]).launch(trial.device)?;
    let (rows, columns) = (rows.to_vec()?, columns.to_vec()?);
    let expected = expected_along_axes(&hosts(&data), [m, n]);
    for (k, name) in ["sum", "min", "max"].into_iter().enumerate() {
        let (of_rows, of_columns) = (format!("{name} of rows"), format!("{name} of columns"));
        close(&of_rows, &rows[k * m..][..m], &expected.rows[k], 4.0, magnitude::<T>(n))?;
        close(&of_columns, &columns[k * n..][..n], &expected.columns[k], 4.0, magnitude::<T>(m))?;
    }
    holds_near("product of rows", &prod, &expected.products, 4.0, 1.0)
}

struct Along {
    rows: [Vec<Host>; 3],
    columns: [Vec<Host>; 3],
    products: Vec<Host>,
}

fn expected_along_axes(data: &[Host], [m, n]: [usize; 2]) -> Along {
    let at = |i: usize, j: usize| data[i * n + j];
    let by_row = list(0..m, |i| combine(&data[i * n..][..n]));
    let by_column = list(0..n, |j| combine(&list(0..m, |i| at(i, j))));
    // The padding is the first element, so least and greatest have to know it.
    let pick = |k: usize, of: &[[Host; 3]]| {
        list(0..of.len(), |i| match k {
            0 => of[i][0],
            1 => of[i][1].min(data[0]),
            _ => of[i][2].max(data[0]),
        })
    };
    Along {
        rows: [0, 1, 2].map(|k| pick(k, &by_row)),
        columns: [0, 1, 2].map(|k| pick(k, &by_column)),
        products: list(0..m, |i| at(i, 0).mul(at(i, 1)).mul(at(i, 2))),
    }
}

#[kernel(crate = kiln_runtime)]
fn totals<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    let p = program_id(0);
    let v = x.row(p).load(64, 0);
    let low = x.row(p).load(64, x.get((p, 0)));
    y.row(p).store(v.sum().reshape(1));
    y.row(p).tile(1, 1).store(low.reduce_min());
    y.row(p).tile(2, 1).store(low.reduce_max());
}

fn everything<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let (m, n) = (5, 61);
    let (x, data) = trial.input::<T, 2>([m, n])?;
    let mut y = trial.output::<T, 2>([m, 3])?;
    totals(&x, &mut y).grid([m as u32, 1, 1]).launch(trial.device)?;
    let expected = expected_of_rows(&hosts(&data), n);
    holds_near("sum, min, max", &y, expected.as_flattened(), 4.0, magnitude::<T>(n))
}

fn expected_of_rows(data: &[Host], n: usize) -> Vec<[Host; 3]> {
    data.chunks(n).map(combine).collect()
}

#[kernel(crate = kiln_runtime)]
fn extremes<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<i64, 2>) {
    let v = x.load((8, 16), x.get((0, 0)));
    let at = program_id(0) * 8;
    y.row(0).tile(at, 8).store(v.argmax_axis(1));
    y.row(1).tile(at, 8).store(v.argmin_axis(1));
    y.row(2).tile(at, 8).store(v.argmax());
    y.row(3).tile(at, 8).store(v.argmin());
}

fn positions<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    // Few different values, so that the first of several counts.
    let data: Vec<T> = list(0..128, |_| T::small(trial.rng.below(9) as i32));
    let x = trial.device.tensor(&data, [8, 16])?;
    let mut y = trial.output::<i64, 2>([4, 8])?;
    extremes(&x, &mut y).grid([1; 3]).launch(trial.device)?;
    holds("argmax and argmin", &y, &expected_positions(&hosts(&data)))
}

fn expected_positions(data: &[Host]) -> Vec<i64> {
    let first = |values: &[Host], better: fn(Host, Host) -> bool| {
        let best = (0..values.len()).reduce(|b, i| if better(values[i], values[b]) { i } else { b });
        best.unwrap_or(0) as i64
    };
    let (less, more) = (|a: Host, b: Host| a.less(b), |a: Host, b: Host| b.less(a));
    let mut expected: Vec<i64> = data.chunks(16).map(|row| first(row, more)).collect();
    expected.extend(data.chunks(16).map(|row| first(row, less)));
    expected.extend([first(data, more); 8]);
    expected.extend([first(data, less); 8]);
    expected
}

#[kernel(crate = kiln_runtime)]
fn combined_bits<T: Bits>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    let v = x.load((8, 32), x.get((0, 0)));
    let at = program_id(0) * 32;
    y.row(0).tile(at, 32).store(v.and_bits_axis(0));
    y.row(1).tile(at, 32).store(v.or_bits_axis(0));
    y.row(2).tile(at, 32).store(v.xor_bits_axis(0));
    y.row(3).tile(at, 32).store(v.xor_bits());
}

fn bits<T: Sample + Bits + Int>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 2>([8, 32])?;
    let mut y = trial.output::<T, 2>([4, 32])?;
    combined_bits(&x, &mut y).grid([1; 3]).launch(trial.device)?;
    holds_near("and, or, xor", &y, &expected_bits(&hosts(&data)), 0.0, 0.0)
}

fn expected_bits(data: &[Host]) -> Vec<Host> {
    let int = |v: Host| if let Host::Int(n) = v { n } else { 0 };
    let fold =
        |f: fn(i128, i128) -> i128, j: usize| (0..8).map(|i| int(data[i * 32 + j])).reduce(f).unwrap_or(0);
    let mut expected = Vec::new();
    for f in [|a, b| a & b, |a, b| a | b, |a, b| a ^ b] as [fn(i128, i128) -> i128; 3] {
        expected.extend((0..32).map(|j| Host::Int(fold(f, j))));
    }
    let all = data.iter().fold(0, |a, v| a ^ int(*v));
    expected.extend([Host::Int(all); 32]);
    expected
}

#[kernel(crate = kiln_runtime)]
fn truths(x: &Tensor<bool, 2>, y: &mut Tensor<bool, 2>) {
    let v = x.load((8, 4), false);
    let at = program_id(0) * 8;
    y.row(0).tile(at, 8).store(v.any_axis(1));
    y.row(1).tile(at, 8).store(v.all_axis(1));
    y.row(2).tile(at, 8).store(v.any());
    y.row(3).tile(at, 8).store(v.all());
}

fn any_and_all(trial: &mut Trial<'_>) -> Verdict {
    let mut data: Vec<bool> = trial.random(32);
    data[..8].copy_from_slice(&[true, true, true, true, false, false, false, false]);
    let x = trial.device.tensor(&data, [8, 4])?;
    let mut y = trial.output([4, 8])?;
    truths(&x, &mut y).grid([1; 3]).launch(trial.device)?;
    let mut expected: Vec<bool> = data.chunks(4).map(|row| row.contains(&true)).collect();
    expected.extend(data.chunks(4).map(|row| !row.contains(&false)));
    expected.extend([true; 8]);
    expected.extend([false; 8]);
    holds("any and all", &y, &expected)
}

fn numbers_win_over_nan<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let mut data: Vec<T> = trial.random(3 * 20);
    let nan = T::from_host(Host::Float(f64::NAN));
    (0..60).filter(|i| i % 3 == 1).for_each(|i| data[i] = nan);
    let x = trial.device.tensor(&data, [3, 20])?;
    let mut y = trial.output::<T, 2>([3, 3])?;
    totals(&x, &mut y).grid([3, 1, 1]).launch(trial.device)?;
    let y = y.to_vec()?;
    for (i, row) in hosts(&data).chunks(20).enumerate() {
        let numbers: Vec<Host> = row.iter().copied().filter(|v| !v.float().is_nan()).collect();
        let [_, min, max] = combine(&numbers);
        close("min and max", &y[3 * i + 1..3 * i + 3], &[min, max], 0.0, 0.0)?;
        close("sum", &y[3 * i..][..1], &[Host::Float(f64::NAN)], 0.0, 0.0)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn middle<T: Num>(x: &Tensor<T, 3>, y: &mut Tensor<T, 2>) {
    let v = x.load([4, 8, 16], 0);
    y.tile((program_id(0) * 4, 0), (4, 16)).store(v.sum_axis(1));
}

fn of_three_axes<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 3>([3, 7, 11])?;
    let mut y = trial.output::<T, 2>([3, 11])?;
    middle(&x, &mut y).grid([1; 3]).launch(trial.device)?;
    let data = hosts(&data);
    let at = |i: usize, j: usize, k: usize| data[(i * 7 + j) * 11 + k];
    let expected: Vec<Host> = list(0..33, |n| combine(&list(0..7, |j| at(n / 11, j, n % 11)))[0]);
    holds_near("sum of the middle axis", &y, &expected, 4.0, magnitude::<T>(7))
}

#[kernel(crate = kiln_runtime)]
fn row_sums<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 1>, block: usize) {
    let row = program_id(0);
    y.tile(row, 1).store(x.row(row).load(block, 0).sum().reshape(1));
}

fn long_rows<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 2>([3, 3001])?;
    let mut y = trial.output::<T, 1>([3])?;
    row_sums(&x, &mut y, 4096).launch(trial.device)?;
    let expected: Vec<Host> = expected_of_rows(&hosts(&data), 3001).iter().map(|row| row[0]).collect();
    holds_near("sum", &y, &expected, 4.0, magnitude::<T>(3001))
}
