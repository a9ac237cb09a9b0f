//! Products whose tiles are large enough that a GPU may give the copies of their factors to a warp
//! of their own: over every edge of views, in every order of memory, of views without elements, and
//! with what comes after the sums.

use crate::case::{Case, cases};
use crate::matrix_units::{host, matrix, product, scale};
use crate::trial::{Trial, Verdict, holds, holds_near, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["matrix_units_copied":
        edges for f16 bf16;
        stacks for f16 bf16;
        several_sums for f16 bf16;
        far_places for bf16;
    ]
}

/// The tiles of a program, its warps, and the matrices: over all edges, in no round and in one, in
/// as many as there are stages and more; and with rows of lengths that bulk copies do not know.
const SIZES: [([usize; 3], u32, [usize; 3]); 5] = [
    ([128, 128, 64], 4, [136, 136, 72]),
    ([256, 128, 64], 8, [264, 128, 400]),
    ([128, 256, 64], 8, [128, 256, 64]),
    ([128, 128, 128], 4, [128, 128, 0]),
    ([128, 128, 64], 4, [129, 131, 77]),
];

#[kernel(crate = kiln_runtime)]
fn blocked<T: Accumulate<Acc = f32>, O: Numeric>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<O, 2>,
    m: usize,
    n: usize,
    k: usize,
) {
    let (row, column) = (program_id(1) * m, program_id(0) * n);
    let mut total = zeros::<f32>((m, n));
    for at in range_step(0, a.extent(1), k) {
        total = dot_acc(a.tile((row, at), (m, k)).load(0), b.tile((at, column), (k, n)).load(0), total);
    }
    c.tile((row, column), (m, n)).store(total.cast::<O>());
}

fn edges<T: Sample + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for (i, ([m, n, k], warps, sizes)) in SIZES.into_iter().enumerate() {
        // Each order of each factor, in two of the four combinations.
        for order in [i % 4, 3 - i % 4] {
            let [rows, columns, depth] = sizes;
            let (a, xs) = matrix::<T>(trial, [rows, depth], order & 1 == 1)?;
            let (b, ys) = matrix::<T>(trial, [depth, columns], order & 2 == 2)?;
            let expected = host(&product(&xs, &ys, sizes));
            let what = format!("tiles {m} x {n} x {k} of {sizes:?}, {warps} warps, order {order}");
            let mut c = trial.output::<f32, 2>([rows, columns])?;
            blocked(&a, &b, &mut c, m, n, k).warps(warps).launch(trial.device)?;
            holds_near(&what, &c, &expected, 8.0, scale(&xs, &ys, depth))?;
            // What is rounded leaves another way, and is the same rounded.
            let mut rounded = trial.output::<T, 2>([rows, columns])?;
            blocked(&a, &b, &mut rounded, m, n, k).warps(warps).launch(trial.device)?;
            let wide = c.to_vec()?;
            let again: Vec<T> = wide.iter().map(|&x| T::from_host(x.host())).collect();
            holds(&format!("{what}, rounded"), &rounded, &again)?;
        }
    }
    Ok(())
}

/// c = a b + bias for stacks, of which a is one for all where it is `shared`.
#[kernel(crate = kiln_runtime)]
fn stacked<T: Accumulate<Acc = f32>>(
    a: &Tensor<T, 3>,
    b: &Tensor<T, 3>,
    bias: &Tensor<f32, 1>,
    c: &mut Tensor<T, 3>,
    shared: bool,
) {
    let (batch, row, column) = (program_id(2), program_id(1) * 128, program_id(0) * 128);
    let (a, b) = (a.row(if shared { val(0) } else { batch }), b.row(batch));
    let mut total = zeros::<f32>((128, 128));
    for at in range_step(0, a.extent(1), 64) {
        let (x, y) = (a.tile((row, at), (128, 64)).load(0), b.tile((at, column), (64, 128)).load(0));
        total = dot_acc(x, y, total);
    }
    let bias = bias.tile(column, 128).load(0.0);
    c.row(batch).tile((row, column), (128, 128)).store((total + bias.expand(0)).cast::<T>());
}

fn stacks<T: Sample + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let sizes @ [m, n, k] = [136, 72, 200];
    for shared in [false, true] {
        let (a, xs) = trial.input::<T, 3>([if shared { 1 } else { 2 }, m, k])?;
        let (b, ys) = trial.input::<T, 3>([2, k, n])?;
        let (bias, added) = trial.input::<f32, 1>([n])?;
        let mut c = trial.output::<T, 3>([2, m, n])?;
        stacked(&a, &b, &bias, &mut c, shared).launch(trial.device)?;
        let floats = |x: &[T]| -> Vec<f64> { x.iter().map(|v| v.host().float()).collect() };
        let (xs, ys) = (floats(&xs), floats(&ys));
        let mut expected = Vec::new();
        for batch in 0..2 {
            let from = if shared { 0 } else { batch * m * k };
            let sums = product(&xs[from..from + m * k], &ys[batch * k * n..(batch + 1) * k * n], sizes);
            expected.extend(sums.iter().enumerate().map(|(e, sum)| sum + f64::from(added[e % n])));
        }
        holds_near(&format!("shared {shared}"), &c, &host(&expected), 8.0, scale(&xs, &ys, k))?;
    }
    Ok(())
}

/// Two products of a round, which share a factor, and the product of what they come to.
#[kernel(crate = kiln_runtime)]
fn gated<T: Accumulate<Acc = f32>>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    gate: &Tensor<T, 2>,
    c: &mut Tensor<f32, 2>,
) {
    let (row, column) = (program_id(1) * 128, program_id(0) * 128);
    let (mut total, mut gates) = (zeros::<f32>((128, 128)), zeros::<f32>((128, 128)));
    for at in range_step(0, a.extent(1), 64) {
        let x = a.tile((row, at), (128, 64)).load(0);
        total = dot_acc(x, b.tile((at, column), (64, 128)).load(0), total);
        gates = dot_acc(x, gate.tile((at, column), (64, 128)).load(0), gates);
    }
    c.tile((row, column), (128, 128)).store(total * gates);
}

fn several_sums<T: Sample + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let sizes @ [m, n, k] = [128, 136, 392];
    let (a, xs) = matrix::<T>(trial, [m, k], false)?;
    let (b, ys) = matrix::<T>(trial, [k, n], false)?;
    let (gate, gs) = matrix::<T>(trial, [k, n], true)?;
    let mut c = trial.output::<f32, 2>([m, n])?;
    gated(&a, &b, &gate, &mut c).warps(8).launch(trial.device)?;
    let (left, right) = (product(&xs, &ys, sizes), product(&xs, &gs, sizes));
    let expected: Vec<f64> = left.iter().zip(&right).map(|(x, y)| x * y).collect();
    let most = scale(&xs, &ys, k) * scale(&xs, &gs, k);
    holds_near("two products", &c, &host(&expected), 16.0, most)
}

/// As `blocked`, but rows of a are taken from a place that 32 bits may not hold, and columns of b
/// from one that the loop carries.
#[kernel(crate = kiln_runtime)]
fn moved<T: Accumulate<Acc = f32>>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<f32, 2>,
    far: Val<i64>,
    near: Val<i64>,
) {
    let (row, column) = (program_id(1) * 128, program_id(0) * 128);
    let (mut total, mut place) = (zeros::<f32>((128, 128)), column);
    for at in range_step(0, a.extent(1), 64) {
        let (x, y) = (a.tile((row + far, at), (128, 64)), b.tile((at, place), (64, 128)));
        total = dot_acc(x.load(0), y.load(0), total);
        place += near;
    }
    c.tile((row, column), (128, 128)).store(total);
}

fn far_places<T: Sample + Accumulate<Acc = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [128, 136, 136];
    let (a, xs) = matrix::<T>(trial, [m, k], false)?;
    let (b, ys) = matrix::<T>(trial, [k, n], false)?;
    let places =
        [(0, 0), (1 << 32, 0), (-(1 << 32), 0), (64, 8), (-64, -72), (i64::MAX - 1000, 0), (0, 1 << 32)];
    for (far, near) in places {
        let mut c = trial.output::<f32, 2>([m, n])?;
        moved(&a, &b, &mut c, far, near).launch(trial.device)?;
        let inside = |at: i128, extent: usize| usize::try_from(at).ok().filter(|&at| at < extent);
        let element = |i: usize, j: usize| -> f64 {
            let Some(row) = inside(i as i128 + i128::from(far), m) else { return 0.0 };
            let term = |p: usize| {
                let column = inside(j as i128 + i128::from(near) * (p / 64) as i128, n);
                xs[row * k + p] * column.map_or(0.0, |column| ys[p * n + column])
            };
            (0..k).map(term).sum()
        };
        let expected: Vec<Host> = list(0..m * n, |e| Host::Float(element(e / n, e % n)));
        holds_near(&format!("far {far}, near {near}"), &c, &expected, 8.0, scale(&xs, &ys, k))?;
    }
    Ok(())
}
