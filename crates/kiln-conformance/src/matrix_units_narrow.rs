//! Products of tiles of 8-bit floats, of 8-bit integers, of both types of either, and of f32 as
//! tf32: in loops over tiles of every shape, from factors in every order, computed, kept, on both
//! sides, one after the other.

use crate::case::{Case, cases};
use crate::products_large::allowed;
use crate::trial::{Stop, Trial, Verdict, holds_near, list};
use kiln_ir::Scalar;
use kiln_lang::Precision;
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample, product};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["matrix_units":
        loops_of_bytes for E4M3 E5M2 i8 u8;
        loops_of_mixed_floats;
        loops_of_mixed_integers;
        loops_of_tf32;
        transposed_bytes for E4M3 i8;
        both_sides for E5M2 u8;
        chains_of_bytes for i8 E4M3;
        watched_bytes for i8;
    ]
}

/// The tiles of a program (m, n, k), how many warps, and the matrices: within tiles, of whole
/// tiles, rows of odd lengths and of multiples of 16 bytes; depths of one step, of a line of a
/// panel and of several; for one warpgroup and two; a loop without rounds.
const SIZES: [([usize; 3], u32, [usize; 3]); 7] = [
    ([16, 8, 32], 1, [16, 8, 96]),
    ([16, 16, 64], 1, [5, 7, 3]),
    ([32, 32, 64], 4, [40, 48, 160]),
    ([64, 16, 32], 4, [72, 16, 80]),
    ([64, 32, 256], 4, [70, 45, 272]),
    ([128, 64, 128], 8, [130, 72, 144]),
    ([64, 64, 64], 4, [64, 64, 0]),
];

/// A matrix by rows, or by columns as the transpose of one by rows, and its elements by rows.
fn matrix<T: Sample>(
    trial: &mut Trial<'_>,
    [rows, columns]: [usize; 2],
    by_columns: bool,
) -> Result<(Tensor<T, 2>, Vec<Host>), Stop> {
    let (high, wide) = if by_columns { (columns, rows) } else { (rows, columns) };
    let (x, data) = trial.input::<T, 2>([high, wide])?;
    let at = |i: usize, j: usize| if by_columns { data[j * rows + i] } else { data[i * columns + j] };
    let elements = list(0..rows * columns, |e| at(e / columns, e % columns).host());
    Ok((if by_columns { x.transpose() } else { x }, elements))
}

#[kernel(crate = kiln_runtime)]
fn blocked<T: Accumulate, U: Accumulate<Acc = T::Acc, Family = T::Family>>(
    a: &Tensor<T, 2>,
    b: &Tensor<U, 2>,
    c: &mut Tensor<T::Acc, 2>,
    precision: Precision,
    m: usize,
    n: usize,
    k: usize,
) {
    let (row, column) = (program_id(1) * m, program_id(0) * n);
    let mut total = zeros::<T::Acc>((m, n));
    for at in range_step(0, a.extent(1), k) {
        let (x, y) = (a.tile((row, at), (m, k)).load(0), b.tile((at, column), (k, n)).load(0));
        total = dot_with(x, y, total, precision);
    }
    c.tile((row, column), (m, n)).store(total);
}

fn loops<T, U>(trial: &mut Trial<'_>, precision: Precision) -> Verdict
where
    T: Sample + Accumulate<Acc: Sample>,
    U: Sample + Accumulate<Acc = T::Acc, Family = T::Family>,
{
    // Every order for one type of each kind, in full; of the others one for each size.
    let all = T::SCALAR == U::SCALAR
        && precision == Precision::Full
        && [Scalar::E4M3, Scalar::I8].contains(&T::SCALAR);
    for (i, ([m, n, k], warps, sizes)) in SIZES.into_iter().enumerate() {
        for order in (0..4).filter(|order| all || *order == i % 4) {
            let [rows, columns, depth] = sizes;
            let (a, xs) = matrix::<T>(trial, [rows, depth], order & 1 == 1)?;
            let (b, ys) = matrix::<U>(trial, [depth, columns], order & 2 == 2)?;
            let mut c = trial.output::<T::Acc, 2>([rows, columns])?;
            blocked(&a, &b, &mut c, precision, m, n, k).warps(warps).launch(trial.device)?;
            let what = format!(
                "{} by {}, {precision:?}, tiles {m} x {n} x {k} of {sizes:?}, {warps} warps, order {order}",
                T::SCALAR,
                U::SCALAR
            );
            let units = if precision == Precision::FastSums { 4.0 } else { 1.0 } * allowed::<T>(depth);
            let expected = product(&xs, &ys, sizes, T::Acc::small(0).host());
            holds_near(&what, &c, &expected, units, 64.0)?;
        }
    }
    Ok(())
}

fn loops_of_bytes<T: Sample + Accumulate<Acc: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    loops::<T, T>(trial, Precision::Full)?;
    if T::SCALAR.is_float8() { loops::<T, T>(trial, Precision::FastSums) } else { Ok(()) }
}

fn loops_of_mixed_floats(trial: &mut Trial<'_>) -> Verdict {
    loops::<E4M3, E5M2>(trial, Precision::Full)?;
    loops::<E5M2, E4M3>(trial, Precision::FastSums)
}

fn loops_of_mixed_integers(trial: &mut Trial<'_>) -> Verdict {
    loops::<i8, u8>(trial, Precision::Full)?;
    loops::<u8, i8>(trial, Precision::Full)
}

/// Elements with bits that do not count may be off by what these say: 2^-10 of each of both
/// factors.
fn loops_of_tf32(trial: &mut Trial<'_>) -> Verdict {
    for ([m, n, k], warps, sizes) in SIZES {
        for order in 0..4 {
            let [rows, columns, depth] = sizes;
            // As deep in bytes as the others.
            let (k, depth) = ((k / 4).max(8), depth / 4);
            let (a, xs) = matrix::<f32>(trial, [rows, depth], order & 1 == 1)?;
            let (b, ys) = matrix::<f32>(trial, [depth, columns], order & 2 == 2)?;
            let mut c = trial.output::<f32, 2>([rows, columns])?;
            let expected = product(&xs, &ys, [rows, columns, depth], Host::Float(0.0));
            // 2^-9 or, of elements in two parts, 2^-20 of 16, the largest product, in units of f32
            // at a size of 64.
            for (precision, lost) in [(Precision::Tf32, -9.0), (Precision::Tf32x3, -20.0)] {
                blocked(&a, &b, &mut c, precision, m, n, k).warps(warps).launch(trial.device)?;
                let what =
                    format!("{precision:?}: {m} x {n} x {k} of {sizes:?}, {warps} warps, order {order}");
                let units = depth as f64 * f64::exp2(lost) * 16.0 / (64.0 * f64::from(f32::EPSILON)) + 16.0;
                holds_near(&what, &c, &expected, units, 64.0)?;
            }
        }
    }
    Ok(())
}

/// Both tiles are transposes of what is loaded.
#[kernel(crate = kiln_runtime)]
fn transposed<T: Accumulate>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<T::Acc, 2>,
    m: usize,
    n: usize,
    k: usize,
) {
    let (row, column) = (program_id(1) * m, program_id(0) * n);
    let mut total = zeros::<T::Acc>((m, n));
    for at in range_step(0, a.extent(0), k) {
        let (x, y) = (a.tile((at, row), (k, m)).load(0), b.tile((column, at), (n, k)).load(0));
        total = dot_acc(x.transpose(), y.transpose(), total);
    }
    c.tile((row, column), (m, n)).store(total);
}

fn transposed_bytes<T: Sample + Accumulate<Acc: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    for ([m, n, k], warps, sizes) in SIZES {
        let [rows, columns, depth] = sizes;
        let (a, xs) = matrix::<T>(trial, [rows, depth], true)?;
        let (b, ys) = matrix::<T>(trial, [depth, columns], true)?;
        let mut c = trial.output::<T::Acc, 2>([rows, columns])?;
        transposed(&a.transpose(), &b.transpose(), &mut c, m, n, k).warps(warps).launch(trial.device)?;
        let expected = product(&xs, &ys, sizes, T::Acc::small(0).host());
        let what = format!("tiles {m} x {n} x {k} of {sizes:?}");
        holds_near(&what, &c, &expected, allowed::<T>(depth), 64.0)?;
    }
    Ok(())
}

/// x xᵀ + x x, of one tile that is read both ways, and a product with a factor from before the
/// loop.
#[kernel(crate = kiln_runtime)]
fn squares<T: Accumulate>(x: &Tensor<T, 2>, c: &mut Tensor<T::Acc, 2>, rounds: usize) {
    let first = x.tile((0, 0), (64, 64)).load(0);
    let mut total = zeros::<T::Acc>((64, 64));
    for _ in 0..rounds {
        for at in range_step(0, x.extent(0), 64) {
            let y = x.tile((at, 0), (64, 64)).load(0);
            total = dot_acc(y, y.transpose(), total);
            total = dot_acc(y, y, total);
            total = dot_acc(first, y, total);
        }
    }
    c.tile((program_id(0) * 64, 0), (64, 64)).store(total);
}

fn both_sides<T: Sample + Accumulate<Acc: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = matrix::<T>(trial, [50, 60], false)?;
    let mut c = trial.output::<T::Acc, 2>([64, 64])?;
    squares(&x, &mut c, 1).warps(4).grid([1]).launch(trial.device)?;
    let zero = T::small(0).host();
    let at = |i: usize, j: usize| if i < 50 && j < 60 { data[i * 60 + j] } else { zero };
    let whole: Vec<Host> = list(0..64 * 64, |e| at(e / 64, e % 64));
    let across: Vec<Host> = list(0..64 * 64, |e| at(e % 64, e / 64));
    let none = T::Acc::small(0).host();
    let [square, own] = [&across, &whole].map(|other| product(&whole, other, [64; 3], none));
    let expected: Vec<Host> = square.iter().zip(&own).map(|(a, b)| a.add(*b).add(*b)).collect();
    holds_near("x xᵀ + 2 x x", &c, &expected, 3.0 * allowed::<T>(64), 64.0)
}

/// (a b) d, where a b is rounded or wrapped to bytes in between.
#[kernel(crate = kiln_runtime)]
fn chained<T: Accumulate>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    d: &Tensor<T, 2>,
    e: &mut Tensor<T::Acc, 2>,
    rows: usize,
    middle: usize,
) {
    let row = program_id(0) * rows;
    let x = a.tile((row, 0), (rows, 32)).load(0);
    let mut total = zeros::<T::Acc>((rows, 16));
    for at in range_step(0, b.extent(1), middle) {
        let inner = dot(x, b.tile((0, at), (32, middle)).load(0)).cast::<T>();
        total = dot_acc(inner, d.tile((at, 0), (middle, 16)).load(0), total);
    }
    e.tile((row, 0), (rows, 16)).store(total);
}

fn chains_of_bytes<T: Sample + Accumulate<Acc: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    for (rows, middle, [m, k, inner, n]) in
        [(16, 32, [16, 32, 32, 16]), (64, 32, [70, 30, 72, 13]), (128, 64, [150, 32, 80, 16])]
    {
        let (a, xs) = matrix::<T>(trial, [m, k], false)?;
        let (b, ys) = matrix::<T>(trial, [k, inner], false)?;
        let (d, zs) = matrix::<T>(trial, [inner, n], false)?;
        let mut e = trial.output::<T::Acc, 2>([m, n])?;
        chained(&a, &b, &d, &mut e, rows, middle).grid([m.div_ceil(rows) as u32]).launch(trial.device)?;
        let none = T::Acc::small(0).host();
        let first = product(&xs, &ys, [m, inner, k], none);
        // By way of the sum's type, which wraps where it is an integer.
        let rounded: Vec<Host> =
            first.iter().map(|&v| T::from_host(T::Acc::from_host(v).host()).host()).collect();
        let expected = product(&rounded, &zs, [m, n, inner], none);
        let most = rounded.iter().fold(1.0f64, |most, v| most.max(v.float().abs()));
        // Where a b lies between two 8-bit floats, the other one may have been taken.
        let units = allowed::<T>(inner) + 0.01 * T::EPSILON / f64::from(f32::EPSILON);
        holds_near("(a b) d", &e, &expected, units, 4.0 * most * inner as f64)?;
    }
    Ok(())
}

/// Sums that are reduced along both axes while they grow.
#[kernel(crate = kiln_runtime)]
fn watched<T: Accumulate<Acc = i32>>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    rows: &mut Tensor<i32, 1>,
    columns: &mut Tensor<i32, 1>,
) {
    let mut total = zeros::<i32>((64, 32));
    let mut greatest = full::<i32>(64, i32::MIN);
    let mut sums = zeros::<i32>(32);
    for at in range_step(0, a.extent(1), 32) {
        total = dot_acc(a.tile((0, at), (64, 32)).load(0), b.tile((at, 0), (32, 32)).load(0), total);
        greatest = greatest.maximum(total.max_axis(1));
        sums = sums + total.sum_axis(0);
    }
    rows.tile(program_id(0) * 64, 64).store(greatest);
    columns.tile(program_id(0) * 32, 32).store(sums);
}

fn watched_bytes<T: Sample + Accumulate<Acc = i32>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [64, 32, 96];
    let (a, xs) = matrix::<T>(trial, [m, k], false)?;
    let (b, ys) = matrix::<T>(trial, [k, n], true)?;
    let mut rows = trial.output::<i32, 1>([m])?;
    let mut columns = trial.output::<i32, 1>([n])?;
    watched(&a, &b, &mut rows, &mut columns).grid([1]).launch(trial.device)?;
    let none = Host::Int(0);
    let (mut greatest, mut sums) = (vec![Host::Int(i32::MIN.into()); m], vec![none; n]);
    for end in [32, 64, 96] {
        let first: Vec<Host> = list(0..m * end, |i| xs[i / end * k + i % end]);
        for (i, v) in product(&first, &ys[..end * n], [m, n, end], none).into_iter().enumerate() {
            greatest[i / n] = greatest[i / n].max(v);
            sums[i % n] = sums[i % n].add(v);
        }
    }
    holds_near("greatest of rows", &rows, &greatest, 0.0, 0.0)?;
    holds_near("sums of columns", &columns, &sums, 0.0, 0.0)
}
