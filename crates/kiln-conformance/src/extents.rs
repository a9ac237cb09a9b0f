//! Tiles whose extents are no powers of two: which GPUs legalize.

use crate::case::{Case, cases};
use crate::matrix_units::{blocked, host, matrix, product, scale};
use crate::trial::{Trial, Verdict, holds, holds_near, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["extents":
        elements for i32 u64 f16 f32;
        combined for i32 f16 f32;
        numbers_win_over_nan for f16 f32 f64;
        three_axes for i32 f16 f64;
        reshaped for bool i32 f16 f64;
        by_index for i32 u64 f32;
        carried for i32 f32;
        products for f16 bf16 f32;
        large_products for f16 bf16;
    ]
}

/// Tiles: of one part on an axis and of three, more rows than columns and fewer.
const TILES: [[usize; 2]; 5] = [[3, 5], [24, 48], [1, 7], [80, 6], [5, 176]];

#[kernel(crate = kiln_runtime)]
fn compared<T: Num>(
    x: &Tensor<T, 2>,
    y: &mut Tensor<T, 2>,
    transposed: &mut Tensor<T, 2>,
    m: usize,
    n: usize,
) {
    let row = program_id(0) * m;
    let v = x.tile((row, 0), (m, n)).load(1);
    let column = iota::<T>(n).expand(0);
    let result = select(v.lt(column), v + column, v) + iota::<T>(m).expand(1);
    y.tile((row, 0), (m, n)).store(result);
    transposed.tile((0, row), (n, m)).store(result.transpose());
}

fn elements<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for [m, n] in TILES {
        let (rows, columns) = (2 * m - m / 2, (n - n / 3).max(1));
        let (x, data) = trial.input::<T, 2>([rows, columns])?;
        let mut y = trial.output::<T, 2>([rows, columns])?;
        let mut transposed = trial.output::<T, 2>([columns, rows])?;
        compared(&x, &mut y, &mut transposed, m, n).grid([2]).launch(trial.device)?;
        let element = |i: usize, j: usize| {
            let (v, column) = (data[i * columns + j], T::small(j as i32).host());
            let sum = if v.host().less(column) { T::from_host(v.host().add(column)) } else { v };
            T::from_host(sum.host().add(T::small((i % m) as i32).host()))
        };
        let expected: Vec<T> = list(0..rows * columns, |i| element(i / columns, i % columns));
        holds(&format!("{m} x {n}"), &y, &expected)?;
        let expected: Vec<T> = list(0..rows * columns, |i| element(i % rows, i / rows));
        holds(&format!("{m} x {n}, transposed"), &transposed, &expected)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn combinations<T: Num>(
    x: &Tensor<T, 2>,
    rows: &mut Tensor<T, 2>,
    columns: &mut Tensor<T, 2>,
    places: &mut Tensor<i64, 2>,
    scans: &mut Tensor<T, 3>,
    m: usize,
    n: usize,
) {
    let v = x.load((m, n), 0);
    let p = program_id(0);
    for (k, r) in [v.sum_axis(1), v.min_axis(1), v.max_axis(1)].into_iter().enumerate() {
        rows.row(k).tile(p * m, m).store(r);
    }
    for (k, r) in [v.sum_axis(0), v.min_axis(0), v.max_axis(0)].into_iter().enumerate() {
        columns.row(k).tile(p * n, n).store(r);
    }
    places.row(0).tile(p * m, m).store(v.argmax_axis(1));
    places.row(1).tile(p * m, m).store(v.argmin_axis(1));
    let results = [
        v.scan_axis(Combine::Sum, 1),
        v.scan_axis_reverse_exclusive(Combine::Sum, 1),
        v.scan_axis_reverse(Combine::Max, 0),
        v.scan_axis_exclusive(Combine::Sum, 0),
    ];
    for (k, r) in results.into_iter().enumerate() {
        scans.row(k).tile((p * m, 0), (m, n)).store(r);
    }
}

/// Small numbers, whose sums are exact in every order, and of which several are the best.
fn small<T: Sample>(trial: &mut Trial<'_>, count: usize) -> Vec<T> {
    list(0..count, |_| T::small(trial.rng.below(6) as i32))
}

fn combined<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for [m, n] in TILES {
        let data: Vec<T> = small(trial, m * n);
        let x = trial.device.tensor(&data, [m, n])?;
        let (mut rows, mut columns) = (trial.output::<T, 2>([3, m])?, trial.output::<T, 2>([3, n])?);
        let (mut places, mut scans) = (trial.output::<i64, 2>([2, m])?, trial.output::<T, 3>([4, m, n])?);
        combinations(&x, &mut rows, &mut columns, &mut places, &mut scans, m, n)
            .grid([1])
            .launch(trial.device)?;
        let at = |i: usize, j: usize| data[i * n + j].host();
        let zero = T::small(0).host();
        let sum = |values: &[Host]| values.iter().fold(zero, |a, &b| a.add(b));
        let row = |i: usize| -> Vec<Host> { list(0..n, |j| at(i, j)) };
        let column = |j: usize| -> Vec<Host> { list(0..m, |i| at(i, j)) };
        let least = |values: &[Host]| values.iter().copied().reduce(Host::min).unwrap_or(zero);
        let greatest = |values: &[Host]| values.iter().copied().reduce(Host::max).unwrap_or(zero);
        let three = |lines: &[Vec<Host>]| -> Vec<T> {
            let all = [&sum as &dyn Fn(&[Host]) -> Host, &least, &greatest];
            all.iter().flat_map(|f| lines.iter().map(|l| T::from_host(f(l)))).collect()
        };
        let what = format!("{m} x {n}");
        let (by_row, by_column): (Vec<_>, Vec<_>) = (list(0..m, row), list(0..n, column));
        holds(&format!("{what}, rows"), &rows, &three(&by_row))?;
        holds(&format!("{what}, columns"), &columns, &three(&by_column))?;
        let first =
            |line: &Vec<Host>, best: Host| line.iter().position(|v| *v == best).map_or(-1, |i| i as i64);
        let greatest_at = by_row.iter().map(|line| first(line, greatest(line)));
        let expected: Vec<i64> =
            greatest_at.chain(by_row.iter().map(|line| first(line, least(line)))).collect();
        holds(&format!("{what}, argmax and argmin"), &places, &expected)?;
        let scanned = |k: usize, i: usize, j: usize| match k {
            0 => sum(&by_row[i][..=j]),
            1 => sum(&by_row[i][j + 1..]),
            2 => greatest(&by_column[j][i..]),
            _ => sum(&by_column[j][..i]),
        };
        let element = |e: usize| T::from_host(scanned(e / (m * n), e / n % m, e % n));
        holds(&format!("{what}, scans"), &scans, &list(0..4 * m * n, element))?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn best<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<i64, 2>) {
    let p = program_id(0);
    let v = x.row(p).load(7, 0);
    y.row(0).tile(p, 1).store(v.argmax().reshape(1));
    y.row(1).tile(p, 1).store(v.argmin().reshape(1));
}

/// Pieces of 4, 2 and 1 elements, some of which hold nothing but NaN.
fn numbers_win_over_nan<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let (n, low) = (f64::NAN, f64::NEG_INFINITY);
    let rows = [
        ([n, n, n, n, 1.0, 2.0, 2.0], [5, 4]),
        ([n, n, n, n, n, n, low], [6, 6]),
        ([1.0, n, n, 1.0, n, n, n], [0, 0]),
        ([n; 7], [0, 0]),
        ([0.0, -0.0, n, n, n, n, 0.0], [0, 0]),
        ([n, n, n, n, -low, low, n], [4, 5]),
    ];
    let data: Vec<T> = rows.iter().flat_map(|(row, _)| row.map(|v| T::from_host(Host::Float(v)))).collect();
    let x = trial.device.tensor(&data, [rows.len(), 7])?;
    let mut y = trial.output::<i64, 2>([2, rows.len()])?;
    best(&x, &mut y).grid([rows.len() as u32]).launch(trial.device)?;
    let expected: Vec<i64> = [0, 1].into_iter().flat_map(|k| rows.map(|(_, at)| at[k])).collect();
    holds("argmax and argmin", &y, &expected)
}

#[kernel(crate = kiln_runtime)]
fn folded<T: Num>(x: &Tensor<T, 3>, y: &mut Tensor<T, 2>, flat: &mut Tensor<T, 1>, z: &mut Tensor<T, 3>) {
    let v = x.load([3, 5, 6], 0);
    let transposed = v.permute([2, 0, 1]);
    y.tile((program_id(0) * 6, 0), [6, 5]).store(transposed.sum_axis(1));
    flat.tile(program_id(0) * 90, 90).store(transposed.reshape(90));
    let stretched = v.max_axis(1).expand(1).broadcast_to([3, 5, 6]);
    z.tile((program_id(0) * 3, 0, 0), [3, 5, 6]).store(stretched - v);
}

fn three_axes<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let data: Vec<T> = small(trial, 90);
    let x = trial.device.tensor(&data, [3, 5, 6])?;
    let mut y = trial.output::<T, 2>([6, 5])?;
    let mut flat = trial.output::<T, 1>([90])?;
    let mut z = trial.output::<T, 3>([3, 5, 6])?;
    folded(&x, &mut y, &mut flat, &mut z).grid([1]).launch(trial.device)?;
    let at = |a: usize, b: usize, c: usize| data[(a * 5 + b) * 6 + c].host();
    let sum = |e: usize| T::from_host(at(0, e % 5, e / 5).add(at(1, e % 5, e / 5)).add(at(2, e % 5, e / 5)));
    holds("sums", &y, &list(0..30, sum))?;
    let transposed: Vec<T> = list(0..90, |e| T::from_host(at(e / 5 % 3, e % 5, e / 15)));
    holds("permuted", &flat, &transposed)?;
    let greatest = |a: usize, c: usize| (1..5).fold(at(a, 0, c), |most, b| most.max(at(a, b, c)));
    let below = |e: usize| T::from_host(greatest(e / 30, e % 6).sub(at(e / 30, e / 6 % 5, e % 6)));
    holds("below the greatest", &z, &list(0..90, below))
}

/// Shapes whose parts are the same runs of elements, and others, in a loop where each round reads
/// what it has written.
#[kernel(crate = kiln_runtime)]
fn regrouped<T: Elem>(
    x: &Tensor<T, 2>,
    runs: &mut Tensor<T, 2>,
    eights: &mut Tensor<T, 3>,
    fifths: &mut Tensor<T, 2>,
    other: Val<T>,
) {
    let mut v = x.tile((program_id(0) * 15, 0), (15, 16)).load(other);
    runs.tile((program_id(0) * 3, 0), (3, 80)).store(v.reshape((3, 80)));
    eights.tile((program_id(0) * 15, 0, 0), (15, 2, 8)).store(v.reshape((15, 2, 8)));
    for _ in range(0, 2) {
        v = v.reshape((3, 80)).transpose().reshape((5, 48)).reshape((15, 16));
    }
    fifths.tile((program_id(0) * 15, 0), (15, 16)).store(v);
}

fn reshaped<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 2>([15, 16])?;
    let mut runs = trial.output::<T, 2>([3, 80])?;
    let mut eights = trial.output::<T, 3>([15, 2, 8])?;
    let mut fifths = trial.output::<T, 2>([15, 16])?;
    let other = T::sample(&mut trial.rng);
    regrouped(&x, &mut runs, &mut eights, &mut fifths, other).grid([1]).launch(trial.device)?;
    holds("3 x 80", &runs, &data)?;
    holds("15 x 2 x 8", &eights, &data)?;
    let turn = |v: Vec<T>| -> Vec<T> { list(0..240, |e| v[e % 3 * 80 + e / 3]) };
    holds("twice transposed", &fifths, &turn(turn(data)))
}

#[kernel(crate = kiln_runtime)]
fn permuted<T: Num>(
    x: &Tensor<T, 1>,
    index: &Tensor<i64, 1>,
    gathered: &mut Tensor<T, 1>,
    scattered: &mut Tensor<T, 1>,
    counts: &mut Tensor<T, 1>,
    block: usize,
) {
    let at = program_id(0) * block;
    let i = index.tile(at, block).load(-1);
    gathered.tile(at, block).store(x.get_where(i, i.ne(4), 9));
    let v = x.tile(at, block).load(0);
    // SAFETY: the indices inside the tensor are different, and no program reads what another
    // writes.
    unsafe { scattered.scatter(i, v) };
    counts.atomic_add_where(i % 5, i.ge(0), 1);
}

fn by_index<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for block in [3, 24, 31] {
        let n = 2 * block + 1;
        let (x, data) = trial.input::<T, 1>([n])?;
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|i| order.swap(i, trial.rng.below(i as u64 + 1) as usize));
        let index = trial.vector(&order.iter().map(|&i| i as i64).collect::<Vec<i64>>())?;
        let (mut gathered, mut scattered) = (trial.output::<T, 1>([n])?, trial.output::<T, 1>([n])?);
        let mut counts = trial.device.zeros::<T, 1>([5])?;
        permuted(&x, &index, &mut gathered, &mut scattered, &mut counts, block)
            .grid([3])
            .launch(trial.device)?;
        let expected: Vec<T> = order.iter().map(|&i| if i == 4 { T::small(9) } else { data[i] }).collect();
        holds(&format!("gather of {block}"), &gathered, &expected)?;
        let mut expected = vec![T::POISON; n];
        order.iter().zip(&data).for_each(|(&to, &v)| expected[to] = v);
        holds(&format!("scatter of {block}"), &scattered, &expected)?;
        let expected: Vec<T> = list(0..5, |k| T::small((n - k).div_ceil(5) as i32));
        holds(&format!("counts of {block}"), &counts, &expected)?;
    }
    Ok(())
}

/// Tiles that `if`, `for` and `while` carry, of two shapes.
#[kernel(crate = kiln_runtime)]
fn rounds<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, sums: &mut Tensor<T, 2>, m: usize, n: usize) {
    let p = program_id(0);
    let mut v = x.load((m, n), 0);
    let mut total = zeros::<T>(m);
    for i in range(0, p + 2) {
        if i.eq(1) {
            v = v * 2;
        } else {
            v += 1;
        }
        total = total + v.sum_axis(1);
    }
    let mut k = p;
    while k.lt(2) {
        v = v - 1;
        k += 1;
    }
    y.tile((p * m, 0), (m, n)).store(v);
    sums.row(p).store(total);
}

fn carried<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for [m, n] in [[3, 5], [24, 80]] {
        let data: Vec<T> = small(trial, m * n);
        let x = trial.device.tensor(&data, [m, n])?;
        let (mut y, mut sums) = (trial.output::<T, 2>([3 * m, n])?, trial.output::<T, 2>([3, m])?);
        rounds(&x, &mut y, &mut sums, m, n).grid([3]).launch(trial.device)?;
        let (mut expected, mut totals) = (Vec::new(), Vec::new());
        for p in 0..3i32 {
            let mut v: Vec<Host> = data.iter().map(|v| v.host()).collect();
            let mut total = vec![T::small(0).host(); m];
            for i in 0..p + 2 {
                let next = |v: Host| if i == 1 { v.add(v) } else { v.add(T::small(1).host()) };
                v.iter_mut().for_each(|v| *v = next(*v));
                total
                    .iter_mut()
                    .zip(v.chunks(n))
                    .for_each(|(t, row)| *t = row.iter().fold(*t, |t, v| t.add(*v)));
            }
            let less = T::small((2 - p).max(0)).host();
            expected.extend(v.into_iter().map(|v| T::from_host(v.sub(less))));
            totals.extend(total.into_iter().map(T::from_host));
        }
        holds(&format!("{m} x {n}"), &y, &expected)?;
        holds(&format!("{m} x {n}, sums"), &sums, &totals)?;
    }
    Ok(())
}

/// The tiles of a program (m, n, k), the warps if they are chosen, and the matrices: parts that
/// matrix units take on all axes and on some, on none.
const PRODUCTS: [([usize; 3], Option<u32>, [usize; 3]); 6] = [
    ([96, 96, 32], None, [100, 96, 72]),
    ([48, 24, 80], Some(1), [50, 31, 160]),
    ([80, 176, 48], Some(4), [80, 176, 50]),
    ([24, 40, 16], Some(2), [30, 41, 40]),
    ([16, 80, 64], Some(1), [16, 80, 128]),
    ([3, 5, 7], None, [8, 9, 20]),
];

fn multiply<T: Sample + Accumulate<Acc = f32>>(
    trial: &mut Trial<'_>,
    ([m, n, k], warps, sizes): ([usize; 3], Option<u32>, [usize; 3]),
    order: u32,
) -> Verdict {
    let [rows, columns, depth] = sizes;
    let (a, xs) = matrix::<T>(trial, [rows, depth], order & 1 == 1)?;
    let (b, ys) = matrix::<T>(trial, [depth, columns], order & 2 == 2)?;
    let mut c = trial.output::<f32, 2>([rows, columns])?;
    let mut launch = blocked(&a, &b, &mut c, m, n, k);
    if let Some(warps) = warps {
        launch = launch.warps(warps);
    }
    launch.launch(trial.device)?;
    let what = format!("tiles {m} x {n} x {k} of {sizes:?}, {warps:?} warps, order {order}");
    holds_near(&what, &c, &host(&product(&xs, &ys, sizes)), 8.0, scale(&xs, &ys, depth))
}

fn products<T: Sample + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    PRODUCTS
        .into_iter()
        .zip([0, 1, 2, 3, 0, 1])
        .try_for_each(|(case, order)| multiply::<T>(trial, case, order))
}

/// As [`PRODUCTS`], where a GPU has its warpgroups multiply parts side by side, one above the
/// other, or both.
const LARGE: [([usize; 3], Option<u32>, [usize; 3]); 3] = [
    ([128, 192, 64], Some(8), [130, 200, 136]),
    ([192, 80, 32], Some(4), [192, 80, 72]),
    ([64, 176, 32], Some(4), [64, 176, 136]),
];

fn large_products<T: Sample + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    LARGE.into_iter().zip([0, 1, 2]).try_for_each(|(case, order)| multiply::<T>(trial, case, order))
}
