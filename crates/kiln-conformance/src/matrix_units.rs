//! Products of 16-bit floats as kernels multiply them in earnest: in loops over tiles of every
//! shape, from factors in every order, one after the other.

use crate::attention::{Sizes, causal, float, reference};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, close, holds_near, list};
use half::{bf16, f16};
use kiln_kernels::attention::plain::kernels;
use kiln_lang::prelude::*;
pub(crate) use kiln_reference::product_of_floats as product;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["matrix_units":
        loops for f16 bf16;
        warpgroups for f16 bf16;
        transposed_tiles for f16 bf16;
        converted_factors for f16 bf16;
        reduced_sums for f16 bf16;
        chains for f16 bf16;
        attention for f16 bf16;
    ]
}

/// The tiles of a program (m, n, k) and the matrices: within tiles, of whole tiles, rows of odd
/// lengths and of multiples of 16 bytes.
const SIZES: [([usize; 3], [usize; 3]); 6] = [
    ([16, 8, 16], [16, 8, 64]),
    ([16, 16, 32], [5, 7, 3]),
    ([32, 32, 32], [40, 48, 104]),
    ([64, 64, 32], [65, 72, 96]),
    ([64, 32, 16], [64, 37, 50]),
    ([32, 128, 64], [32, 136, 129]),
];

/// A matrix by rows, or by columns as the transpose of one by rows, and its elements by rows.
pub(crate) fn matrix<T: Sample>(
    trial: &mut Trial<'_>,
    [rows, columns]: [usize; 2],
    by_columns: bool,
) -> Result<(Tensor<T, 2>, Vec<f64>), Stop> {
    if !by_columns {
        let (x, data) = trial.input::<T, 2>([rows, columns])?;
        return Ok((x, data.iter().map(|v| v.host().float()).collect()));
    }
    let (x, data) = trial.input::<T, 2>([columns, rows])?;
    let at = |i: usize| data[i % columns * rows + i / columns].host().float();
    Ok((x.transpose(), list(0..rows * columns, at)))
}

pub(crate) fn host(values: &[f64]) -> Vec<Host> {
    values.iter().map(|&v| Host::Float(v)).collect()
}

/// The largest sum of sizes of terms that can occur, which roundings are relative to.
pub(crate) fn scale(a: &[f64], b: &[f64], k: usize) -> f64 {
    let most = |x: &[f64]| x.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    most(a) * most(b) * k as f64
}

#[kernel(crate = kiln_runtime)]
pub(crate) fn blocked<T: Accumulate<Acc = f32>>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<f32, 2>,
    m: usize,
    n: usize,
    k: usize,
) {
    let (row, column) = (program_id(1) * m, program_id(0) * n);
    let mut total = zeros::<f32>((m, n));
    for at in range_step(0, a.extent(1), k) {
        total = dot_acc(a.tile((row, at), (m, k)).load(0), b.tile((at, column), (k, n)).load(0), total);
    }
    c.tile((row, column), (m, n)).store(total);
}

fn loops<T: Sample + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for ([m, n, k], sizes) in SIZES {
        for order in 0..4 {
            let [rows, columns, depth] = sizes;
            let (a, xs) = matrix::<T>(trial, [rows, depth], order & 1 == 1)?;
            let (b, ys) = matrix::<T>(trial, [depth, columns], order & 2 == 2)?;
            let mut c = trial.output::<f32, 2>([rows, columns])?;
            blocked(&a, &b, &mut c, m, n, k).launch(trial.device)?;
            let what = format!("tiles {m} x {n} x {k} of {sizes:?}, order {order}");
            holds_near(&what, &c, &host(&product(&xs, &ys, sizes)), 8.0, scale(&xs, &ys, depth))?;
        }
    }
    Ok(())
}

/// Tiles of 64 rows and more for every four warps, how many warps, and the matrices: one warpgroup
/// and two, one block of rows for each and two, lines of every length along both axes, and a loop
/// without rounds.
const OF_WARPGROUPS: [([usize; 3], u32, [usize; 3]); 5] = [
    ([64, 16, 64], 4, [72, 16, 136]),
    ([128, 64, 16], 8, [130, 72, 40]),
    ([128, 32, 128], 4, [136, 48, 264]),
    ([64, 256, 32], 4, [64, 264, 120]),
    ([64, 32, 32], 4, [64, 32, 0]),
];

fn warpgroups<T: Sample + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for ([m, n, k], warps, sizes) in OF_WARPGROUPS {
        for order in 0..4 {
            let [rows, columns, depth] = sizes;
            let (a, xs) = matrix::<T>(trial, [rows, depth], order & 1 == 1)?;
            let (b, ys) = matrix::<T>(trial, [depth, columns], order & 2 == 2)?;
            let mut c = trial.output::<f32, 2>([rows, columns])?;
            blocked(&a, &b, &mut c, m, n, k).warps(warps).launch(trial.device)?;
            let what = format!("tiles {m} x {n} x {k} of {sizes:?}, {warps} warps, order {order}");
            holds_near(&what, &c, &host(&product(&xs, &ys, sizes)), 8.0, scale(&xs, &ys, depth))?;
        }
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn transposed<T: Accumulate<Acc = f32>>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<f32, 2>,
    m: usize,
    n: usize,
    k: usize,
) {
    let (row, column) = (program_id(1) * m, program_id(0) * n);
    let mut total = zeros::<f32>((m, n));
    for at in range_step(0, a.extent(0), k) {
        let (x, y) = (a.tile((at, row), (k, m)).load(0), b.tile((column, at), (n, k)).load(0));
        total = dot_acc(x.transpose(), y.transpose(), total);
    }
    c.tile((row, column), (m, n)).store(total);
}

fn transposed_tiles<T: Sample + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for ([m, n, k], sizes) in SIZES {
        let [rows, columns, depth] = sizes;
        let (a, xs) = matrix::<T>(trial, [rows, depth], true)?;
        let (b, ys) = matrix::<T>(trial, [depth, columns], true)?;
        let mut c = trial.output::<f32, 2>([rows, columns])?;
        transposed(&a.transpose(), &b.transpose(), &mut c, m, n, k).launch(trial.device)?;
        let what = format!("tiles {m} x {n} x {k} of {sizes:?}");
        holds_near(&what, &c, &host(&product(&xs, &ys, sizes)), 8.0, scale(&xs, &ys, depth))?;
    }
    Ok(())
}

/// Factors that are computed in the loop: one rounded from f32, one that is also summed.
#[kernel(crate = kiln_runtime)]
fn computed<T: Float + Accumulate<Acc = f32>>(
    a: &Tensor<f32, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<f32, 2>,
    sums: &mut Tensor<f32, 1>,
    rows: usize,
) {
    let row = program_id(0) * rows;
    let mut total = zeros::<f32>((rows, 64));
    let mut column_sums = zeros::<f32>(64);
    for at in range_step(0, a.extent(1), 16) {
        let x = (a.tile((row, at), (rows, 16)).load(0.0) * 0.5).cast::<T>();
        let y = b.tile((at, 0), (16, 64)).load(0);
        total = dot_acc(x, y, total);
        column_sums = column_sums + y.cast::<f32>().sum_axis(0);
    }
    c.tile((row, 0), (rows, 64)).store(total);
    sums.tile(program_id(0) * 64, 64).store(column_sums);
}

fn converted_factors<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [60, 50, 70];
    let (halves, xs) = matrix::<T>(trial, [m, k], false)?;
    // Twice a 16-bit float: exact in f32, and its half in 16 bits.
    let twice: Vec<f32> = halves.to_vec()?.iter().map(|v| 2.0 * v.host().float() as f32).collect();
    let a = trial.device.tensor(&twice, [m, k])?;
    let (b, ys) = matrix::<T>(trial, [k, n], false)?;
    for rows in [32, 64] {
        let programs = m.div_ceil(rows);
        let mut c = trial.output::<f32, 2>([m, n])?;
        let mut sums = trial.output::<f32, 1>([programs * 64])?;
        computed(&a, &b, &mut c, &mut sums, rows).grid([programs as u32]).launch(trial.device)?;
        holds_near("a / 2 · b", &c, &host(&product(&xs, &ys, [m, n, k])), 8.0, scale(&xs, &ys, k))?;
        let of = |j: usize| if j < n { (0..k).map(|p| ys[p * n + j]).sum() } else { 0.0 };
        let expected: Vec<f64> = list(0..programs * 64, |j| of(j % 64));
        holds_near("sums of b", &sums, &host(&expected), 8.0, scale(&[1.0], &ys, k))?;
    }
    Ok(())
}

/// Sums that are reduced along both axes while they grow.
#[kernel(crate = kiln_runtime)]
fn watched<T: Accumulate<Acc = f32>>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    rows: &mut Tensor<f32, 1>,
    columns: &mut Tensor<f32, 1>,
) {
    let mut total = zeros::<f32>((64, 32));
    let mut greatest = full::<f32>(64, f32::MIN);
    let mut sums = zeros::<f32>(32);
    for at in range_step(0, a.extent(1), 32) {
        total = dot_acc(a.tile((0, at), (64, 32)).load(0), b.tile((at, 0), (32, 32)).load(0), total);
        greatest = greatest.maximum(total.max_axis(1));
        sums = sums + total.sum_axis(0);
    }
    rows.tile(program_id(0) * 64, 64).store(greatest);
    columns.tile(program_id(0) * 32, 32).store(sums);
}

fn reduced_sums<T: Sample + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [64, 32, 96];
    let (a, xs) = matrix::<T>(trial, [m, k], false)?;
    let (b, ys) = matrix::<T>(trial, [k, n], true)?;
    let mut rows = trial.output::<f32, 1>([m])?;
    let mut columns = trial.output::<f32, 1>([n])?;
    watched(&a, &b, &mut rows, &mut columns).grid([1]).launch(trial.device)?;
    let mut greatest = vec![f64::MIN; m];
    let mut sums = vec![0.0; n];
    for end in [32, 64, 96] {
        let first: Vec<f64> = list(0..m * end, |i| xs[i / end * k + i % end]);
        let total = product(&first, &ys[..end * n], [m, n, end]);
        for (i, v) in total.iter().enumerate() {
            greatest[i / n] = greatest[i / n].max(*v);
            sums[i % n] += v;
        }
    }
    let size = scale(&xs, &ys, k);
    holds_near("greatest of rows", &rows, &host(&greatest), 8.0, size)?;
    holds_near("sums of columns", &columns, &host(&sums), 8.0, 3.0 * m as f64 * size)
}

/// (a b) d, where a b is rounded to 16 bits in between.
#[kernel(crate = kiln_runtime)]
fn chained<T: Float + Accumulate<Acc = f32>>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    d: &Tensor<T, 2>,
    e: &mut Tensor<f32, 2>,
    rows: usize,
    middle: usize,
) {
    let row = program_id(0) * rows;
    let x = a.tile((row, 0), (rows, 32)).load(0);
    let mut total = zeros::<f32>((rows, 16));
    for at in range_step(0, b.extent(1), middle) {
        let inner = dot(x, b.tile((0, at), (32, middle)).load(0)).cast::<T>();
        total = dot_acc(inner, d.tile((at, 0), (middle, 16)).load(0), total);
    }
    e.tile((row, 0), (rows, 16)).store(total);
}

/// By how much elements may differ that lie in the middle between two floats, as far as sums in f32
/// can show, so that either may have been taken: an ulp; else nothing.
fn either<T: Sample>(exact: &[f64], rounded: &[f64], size: f64) -> Vec<f64> {
    let ulp = |v: f64| T::EPSILON * v.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor().exp2();
    let known = 4.0 * f64::from(f32::EPSILON) * size;
    let pairs = exact.iter().zip(rounded);
    pairs.map(|(v, &r)| if ((v - r).abs() - ulp(r) / 2.0).abs() <= known { ulp(r) } else { 0.0 }).collect()
}

fn absolute(values: &[f64]) -> Vec<f64> {
    values.iter().map(|v| v.abs()).collect()
}

fn chains<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for (rows, middle, [m, k, inner, n]) in
        [(16, 16, [16, 32, 32, 16]), (64, 32, [70, 30, 72, 13]), (128, 64, [150, 32, 80, 16])]
    {
        let (a, xs) = matrix::<T>(trial, [m, k], false)?;
        let (b, ys) = matrix::<T>(trial, [k, inner], false)?;
        let (d, zs) = matrix::<T>(trial, [inner, n], false)?;
        let mut e = trial.output::<f32, 2>([m, n])?;
        chained(&a, &b, &d, &mut e, rows, middle).grid([m.div_ceil(rows) as u32]).launch(trial.device)?;
        let first = product(&xs, &ys, [m, inner, k]);
        let rounded: Vec<f64> = first.iter().map(|&v| T::from_host(Host::Float(v)).host().float()).collect();
        let expected = product(&rounded, &zs, [m, n, inner]);
        let (size, size_of_first) = (scale(&rounded, &zs, inner), scale(&xs, &ys, k));
        let slack = product(&either::<T>(&first, &rounded, size_of_first), &absolute(&zs), [m, n, inner]);
        let got = e.to_vec()?.into_iter().zip(expected.iter().zip(&slack));
        let settled: Vec<f32> =
            got.map(|(g, (w, s))| (f64::from(g) - (f64::from(g) - w).clamp(-s, *s)) as f32).collect();
        close("(a b) d", &settled, &host(&expected), 8.0, size)?;
    }
    Ok(())
}

/// Attention over the tiles that GPUs take for heads of each width (queries of a program, keys of a
/// turn, width, and warps), whatever device this is.
const OF_ATTENTION: [([usize; 3], Option<u32>); 5] = [
    ([128, 64, 64], None),
    ([128, 128, 64], Some(8)),
    ([64, 64, 128], None),
    ([128, 64, 256], None),
    ([64, 80, 64], None),
];

fn attention<T: Sample + Float + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for ([rows, columns, width], warps) in OF_ATTENTION {
        let sizes = Sizes { heads: 1, shared: 1, queries: 70, keys: 135, width };
        let (q, qs) = trial.input::<T, 4>([1, 1, sizes.queries, width])?;
        let (k, ks) = trial.input::<T, 4>([1, 1, sizes.keys, width])?;
        let (v, vs) = trial.input::<T, 4>([1, 1, sizes.keys, width])?;
        let none = trial.device.zeros([1, 4])?;
        let scale = 1.0 / (width as f32).sqrt();
        let mut o = trial.output::<T, 4>([1, 1, sizes.queries, width])?;
        let mut sums = trial.output::<f32, 3>([1, 1, sizes.queries])?;
        let bounded = [false, true];
        let form = kernels::Form { rows, columns, width, shared: 1, bounded, capped: false, packed: false };
        let launch = kernels::attention(&q, &k, &v, &mut o, &mut sums, &none, scale, 1.0, 0, 0, form);
        let launch = if let Some(warps) = warps { launch.warps(warps) } else { launch };
        launch.launch(trial.device)?;
        let data = [&float(&qs)[..], &float(&ks), &float(&vs)];
        let (expected, logarithms) = reference(sizes, data, causal());
        let what = format!("{rows} queries, {columns} keys, width {width}");
        holds_near(&what, &o, &expected, 8.0, 4.0)?;
        holds_near(&format!("{what}, sums"), &sums, &logarithms, 64.0, 4.0)?;
    }
    Ok(())
}
