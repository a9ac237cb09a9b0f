//! Products in flight whose columns, or depth, are no power of two: one instruction each.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds_near};
use half::{bf16, f16};
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample, by_rows, product};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["explicit::extents":
        chained_products for f16 bf16;
        carried_products for f16 bf16;
    ]
}

/// Columns of the first factors, one panel.
const DEPTH: usize = 64;

/// o = (q · kᵀ / 8) · v with the weights rounded in between, and their sums: a tile of `rows` a
/// program, all `keys` at once.
#[kernel(crate = kiln_runtime)]
fn weighted<T: Float>(
    q: &Tensor<T, 2>,
    k: &Tensor<T, 2>,
    v: &Tensor<T, 2>,
    o: &mut Tensor<f32, 2>,
    sums: &mut Tensor<f32, 1>,
    rows: usize,
    keys: usize,
    width: usize,
) {
    let (left, right) = (shared_tiles::<T>(1, rows, DEPTH), shared_tiles::<T>(1, keys, DEPTH));
    let (values, full) = (shared_tiles::<T>(1, keys, width), mbarriers(1, 1));
    let row = program_id(0) * rows;
    tasks()
        .task(4, 40, || {
            full.at(0).expect((rows * DEPTH + keys * (DEPTH + width)) * size_of::<T>());
            left.at(0).load(q, (row, 0), full.at(0));
            right.at(0).load(k, (0, 0), full.at(0));
            values.at(0).load(v, (0, 0), full.at(0));
        })
        .task(4, 232, || {
            full.at(0).wait(0);
            let product = wgmma(left.at(0), right.at(0).transposed(), zeros::<f32>((rows, keys)), false);
            let weights = wgmma_wait(product, 0) * 0.125;
            sums.tile(row, rows).store(weights.sum_axis(1));
            let pairs = pack_pairs::<T>(weights);
            let product = wgmma_registers(pairs, values.at(0), zeros::<f32>((rows, width)), false);
            o.tile((row, 0), (rows, width)).store(wgmma_wait(product, 0));
        })
        .run();
}

fn chained_products<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for [rows, keys, width] in [[64, 80, 64], [64, 176, 192], [128, 48, 64], [64, 112, 128]] {
        let (m, n) = (rows + 8, keys - 3);
        let (q, qs) = trial.input::<T, 2>([m, DEPTH])?;
        let (k, ks) = trial.input::<T, 2>([n, DEPTH])?;
        let (v, vs) = trial.input::<T, 2>([n, width])?;
        let (mut o, mut sums) = (trial.output::<f32, 2>([m, width])?, trial.output::<f32, 1>([m])?);
        weighted(&q, &k, &v, &mut o, &mut sums, rows, keys, width).grid([2]).launch(trial.device)?;
        let (x, y) = (by_rows(&qs, [m, DEPTH], false), by_rows(&ks, [DEPTH, n], true));
        let scores = product(&x, &y, [m, n, DEPTH], Host::Float(0.0));
        let weights: Vec<f64> = scores.iter().map(|score| 0.125 * score.float()).collect();
        let what = format!("{rows} rows, {keys} keys, width {width}");
        let expected: Vec<Host> = weights.chunks(n).map(|row| Host::Float(row.iter().sum())).collect();
        holds_near(&format!("{what}, sums"), &sums, &expected, 64.0, 16.0 * n as f64)?;
        let rounded = |w: &f64| T::from_host(Host::Float(*w)).host().float();
        let weights: Vec<Host> = weights.iter().map(|w| Host::Float(rounded(w))).collect();
        let values = by_rows(&vs, [n, width], false);
        let expected = product(&weights, &values, [m, width, n], Host::Float(0.0));
        // Two weights of a row, each between two 16-bit numbers, may have become the other ones.
        let largest = |of: &[Host]| of.iter().fold(0.0f64, |most, x| most.max(x.float().abs()));
        let (turned, size) = (2.0 * T::EPSILON * largest(&weights) * largest(&values), 64.0 * n as f64);
        let ulps = 64.0 + turned / (size * f64::from(f32::EPSILON));
        holds_near(&what, &o, &expected, ulps, size)?;
    }
    Ok(())
}

/// Columns of a program.
const COLUMNS: usize = 192;

/// c = a · b in tiles of `rows` × 192, rounded: sums stay in flight from step to step, and are
/// stored strip by strip.
#[kernel(crate = kiln_runtime)]
fn stepwise<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T, 2>, rows: usize) {
    let (left, right) = (shared_tiles::<T>(2, rows, DEPTH), shared_tiles::<T>(2, DEPTH, COLUMNS));
    let (full, empty) = (mbarriers(2, 1), mbarriers(2, 1));
    let out = shared_tiles::<T>(3, rows, DEPTH);
    let (row, column) = (program_id(0) * rows, program_id(1) * COLUMNS);
    let steps = (a.extent(1) + (DEPTH - 1)) / DEPTH;
    tasks()
        .task(4, 40, || {
            for step in range(0, steps) {
                let stage = step % 2;
                empty.at(stage).wait(step / 2 - 1);
                full.at(stage).expect((rows + COLUMNS) * DEPTH * size_of::<T>());
                left.at(stage).load(a, (row, step * DEPTH), full.at(stage));
                right.at(stage).load(b, (step * DEPTH, column), full.at(stage));
            }
        })
        .task(4, 232, || {
            let mut sum = zeros::<f32>((rows, COLUMNS));
            for step in range(0, steps) {
                let stage = step % 2;
                full.at(stage).wait(step / 2);
                sum = wgmma_wait(wgmma(left.at(stage), right.at(stage), sum, step.gt(0)), 0);
                empty.at(stage).arrive();
            }
            let pairs = pack_pairs::<T>(sum);
            for strip in 0..3 {
                out.at(strip).put_pairs(pairs, strip * DEPTH);
            }
            proxy_fence();
            task_barrier();
            for strip in 0..3 {
                // SAFETY: every program has rows and columns of its own.
                unsafe { out.at(strip).store(c, (row, column + strip * DEPTH)) };
            }
            store_wait(0);
        })
        .run();
}

fn carried_products<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for (rows, [m, n, k]) in [(64, [72, 200, 136]), (128, [128, 192, 64])] {
        let (a, xs) = trial.input::<T, 2>([m, k])?;
        let (b, ys) = trial.input::<T, 2>([k, n])?;
        let mut c = trial.output::<T, 2>([m, n])?;
        let grid = [m.div_ceil(rows) as u32, n.div_ceil(COLUMNS) as u32];
        stepwise(&a, &b, &mut c, rows).grid(grid).launch(trial.device)?;
        let (x, y) = (by_rows(&xs, [m, k], false), by_rows(&ys, [k, n], false));
        let expected = product(&x, &y, [m, n, k], Host::Float(0.0));
        holds_near(&format!("{rows} x {COLUMNS}"), &c, &expected, 4.0, 8.0)?;
    }
    Ok(())
}
