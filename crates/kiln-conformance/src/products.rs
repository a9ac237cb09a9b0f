//! Products of the library: every element type, stacks, epilogues, views, random shapes; and its
//! kernel for tensor cores with plans of all kinds.

use crate::case::{Case, cases};
use crate::products_large::allowed;
use crate::trial::{Stop, Trial, Verdict, close, ensure, holds_near, list};
use half::{bf16, f16};
use kiln_kernels::Tuning;
use kiln_kernels::matmul::epilogue::{Along, Combined, Identity, Then, Vector};
use kiln_kernels::matmul::hopper::{self, MatmulPlan};
use kiln_kernels::matmul::{Factor, Matmul, Precision};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample, by_rows, product as sums};
use kiln_runtime::{Error, Tensor};
use std::time::Duration;

pub fn cases() -> Vec<Case> {
    let mut all = cases!["products":
        random_shapes for f16 bf16 E4M3 E5M2 i8 u8 f32;
        tf32;
        fast_sums for E4M3 E5M2;
        scaled for E4M3 i8 bf16;
        epilogues for f16 f32 E5M2;
        stacks for bf16 i8 f32;
        long_sums for bf16 E4M3;
        tuned for bf16 E4M3 i8 f32;
        mixed_floats;
        mixed_integers;
        misfits;
    ];
    all.extend(cases!["explicit::matmul":
        stacks_and_splits for bf16 E4M3;
        two_level_sums for E4M3 E5M2;
        narrow_types;
        mixed_types;
        epilogue_of_copies;
    ]);
    all
}

/// A matrix by rows or by columns, or the middle of a larger one, and its elements by rows.
fn factor<T: Sample>(
    trial: &mut Trial<'_>,
    [rows, columns]: [usize; 2],
) -> Result<(Tensor<T, 2>, Vec<Host>), Stop> {
    let transposed = trial.rng.below(2) == 1;
    let border = trial.rng.below(3) as usize;
    let [down, across] = if transposed { [columns, rows] } else { [rows, columns] };
    let (whole, all) = trial.input::<T, 2>([down + border, across + border])?;
    let part = whole.slice(0, border..border + down)?.slice(1, border..border + across)?;
    let at = |i: usize, j: usize| {
        let (i, j) = if transposed { (j, i) } else { (i, j) };
        all[(i + border) * (across + border) + j + border].host()
    };
    let elements = list(0..rows * columns, |e| at(e / columns, e % columns));
    Ok((if transposed { part.transpose() } else { part }, elements))
}

fn random_shapes<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    for round in 0..6 {
        // One extent is small, one may be empty.
        let mut extent = |most: u64| trial.rng.below(most) as usize;
        let mut shape = [1 + extent(150), 1 + extent(90), extent(300)];
        shape.rotate_left(round % 3);
        let [m, n, k] = if round < 3 { shape } else { [shape[0], shape[1] % 17, shape[2]] };
        let (a, xs) = factor::<T>(trial, [m, k])?;
        let (b, ys) = factor::<T>(trial, [k, n])?;
        let transposed = trial.rng.below(2) == 1;
        let mut c = trial.output::<T::Sum, 2>(if transposed { [n, m] } else { [m, n] })?;
        if transposed {
            c = c.transpose();
        }
        kiln_kernels::matmul(&a, &b, &mut c)?;
        let expected = sums(&xs, &ys, [m, n, k], T::Sum::small(0).host());
        holds_near(&format!("{m} × {n} × {k}"), &c, &expected, allowed::<T>(k), 64.0)?;
    }
    Ok(())
}

/// Whatever way is chosen by measurement, the result is right, and the same when it is taken again.
fn tuned<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    for [m, n, k] in [[150, 140, 100], [7, 90, 300]] {
        let (a, xs) = factor::<T>(trial, [m, k])?;
        let (b, ys) = factor::<T>(trial, [k, n])?;
        let mut results = Vec::new();
        for _ in 0..2 {
            let mut c = trial.output::<T::Sum, 2>([m, n])?;
            Matmul::new(&a, &b).tuning(Tuning::budget(Duration::from_secs(60))).run(&mut c)?;
            results.push(c.to_vec()?);
        }
        let expected = sums(&xs, &ys, [m, n, k], T::Sum::small(0).host());
        close(&format!("{m} × {n} × {k}"), &results[0], &expected, allowed::<T>(k), 64.0)?;
        ensure(results[0] == results[1], || format!("{m} × {n} × {k}: another result at the second time"))?;
    }
    Ok(())
}

/// A product of one type by another: matrices and vectors, whichever way round they lie, and
/// stacks.
fn mixed<T, U>(trial: &mut Trial<'_>, precision: Precision) -> Verdict
where
    T: Sample + Factor<Sum: Sample>,
    U: Sample + Factor<Sum = T::Sum, Family = T::Family>,
{
    let zero = T::Sum::small(0).host();
    for [m, n, k] in [[70, 72, 150], [130, 9, 272], [1, 80, 200], [66, 1, 48], [3, 5, 0]] {
        let (a, xs) = factor::<T>(trial, [m, k])?;
        let (b, ys) = factor::<U>(trial, [k, n])?;
        let transposed = trial.rng.below(2) == 1;
        let mut c = trial.output::<T::Sum, 2>(if transposed { [n, m] } else { [m, n] })?;
        if transposed {
            c = c.transpose();
        }
        Matmul::new(&a, &b).precision(precision).run(&mut c)?;
        let what = format!("{} by {}, {m} × {n} × {k}, {precision:?}", T::SCALAR, U::SCALAR);
        let units = if precision == Precision::FastSums { 4.0 } else { 1.0 } * allowed::<T>(k);
        holds_near(&what, &c, &sums(&xs, &ys, [m, n, k], zero), units, 64.0)?;
    }
    let [m, n, k] = [40, 24, 80];
    let (a, xs) = trial.input::<T, 3>([2, m, k])?;
    let (b, ys) = trial.input::<U, 3>([1, k, n])?;
    let mut c = trial.output::<T::Sum, 3>([2, m, n])?;
    kiln_kernels::matmul(&a, &b, &mut c)?;
    // Rows of a stack are those of one matrix.
    let xs: Vec<Host> = xs.iter().map(|x| x.host()).collect();
    let ys: Vec<Host> = ys.iter().map(|y| y.host()).collect();
    holds_near("a stack", &c, &sums(&xs, &ys, [2 * m, n, k], zero), allowed::<T>(k), 64.0)
}

fn mixed_floats(trial: &mut Trial<'_>) -> Verdict {
    for precision in [Precision::Full, Precision::FastSums] {
        mixed::<E4M3, E5M2>(trial, precision)?;
        mixed::<E5M2, E4M3>(trial, precision)?;
    }
    // Scales of rows and columns and a bias, as for equal ones.
    let [m, n, k] = [70, 136, 144];
    let (a, xs) = factor::<E5M2>(trial, [m, k])?;
    let (b, ys) = factor::<E4M3>(trial, [k, n])?;
    let (rows, down) = vector(trial, m)?;
    let (bias, across) = vector(trial, n)?;
    let mut c = trial.output::<bf16, 2>([m, n])?;
    Matmul::new(&a, &b).scale_rows(&rows).bias(&bias).run(&mut c)?;
    let sums = sums(&xs, &ys, [m, n, k], Host::Float(0.0));
    let scaled = |(e, s): (usize, &Host)| Host::Float(s.float() * down[e / n] + across[e % n]);
    let expected: Vec<Host> = sums.iter().enumerate().map(scaled).collect();
    holds_near("scaled", &c, &expected, 2.0, 64.0)
}

fn mixed_integers(trial: &mut Trial<'_>) -> Verdict {
    mixed::<i8, u8>(trial, Precision::Full)?;
    mixed::<u8, i8>(trial, Precision::Full)
}

/// Elements are those of tf32 already, so that nothing is lost wherever it runs.
fn tf32(trial: &mut Trial<'_>) -> Verdict {
    for [m, n, k] in [[70, 130, 100], [129, 5, 36], [3, 72, 264]] {
        let cut = |x: f32| f32::from_bits(x.to_bits() & !0x1fff);
        let [xs, ys] =
            [m * k, k * n].map(|len| trial.random::<f32>(len).into_iter().map(cut).collect::<Vec<_>>());
        let (a, b) = (trial.device.tensor(&xs, [m, k])?, trial.device.tensor(&ys, [k, n])?);
        let mut c = trial.output::<f32, 2>([m, n])?;
        Matmul::new(&a, &b).precision(Precision::Tf32).run(&mut c)?;
        let [xs, ys] = [xs, ys].map(|v| v.iter().map(|x| x.host()).collect::<Vec<_>>());
        let expected = sums(&xs, &ys, [m, n, k], Host::Float(0.0));
        holds_near("tf32", &c, &expected, 16.0 + k as f64, 64.0)?;
    }
    Ok(())
}

fn fast_sums<T: Sample + Factor<Sum = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [130, 72, 400];
    let (a, xs) = factor::<T>(trial, [m, k])?;
    let (b, ys) = factor::<T>(trial, [k, n])?;
    let mut c = trial.output::<f32, 2>([m, n])?;
    Matmul::new(&a, &b).precision(Precision::FastSums).run(&mut c)?;
    let expected = sums(&xs, &ys, [m, n, k], Host::Float(0.0));
    holds_near("fast sums", &c, &expected, 4.0 * allowed::<T>(k), 64.0)
}

/// A vector of f32 and its elements as doubles.
fn vector(trial: &mut Trial<'_>, len: usize) -> Result<(Tensor<f32, 1>, Vec<f64>), Error> {
    let values = trial.random::<f32>(len);
    Ok((trial.device.tensor(&values, [len])?, values.iter().map(|&x| f64::from(x)).collect()))
}

/// Scales for rows, columns and all, as quantized layers have them, and a result of 16 bits.
fn scaled<T: Sample + Factor>(trial: &mut Trial<'_>) -> Verdict
where
    Then<Identity, Vector<f32>>: kiln_kernels::matmul::Epilogue<T::Sum, Out = f32>,
    Vector<f32>: kiln_kernels::matmul::Epilogue<T::Sum, Out = f32>,
{
    for [m, n, k] in [[70, 136, 144], [5, 72, 32], [72, 5, 32]] {
        let (a, xs) = factor::<T>(trial, [m, k])?;
        let (b, ys) = factor::<T>(trial, [k, n])?;
        let (rows, down) = vector(trial, m)?;
        let (columns, across) = vector(trial, n)?;
        let (one, all) = vector(trial, 1)?;
        let mut c = trial.output::<bf16, 2>([m, n])?;
        let product = Matmul::new(&a, &b).scale_rows(&rows).scale_columns(&columns);
        product.scale_all(&one).run(&mut c)?;
        let sums = sums(&xs, &ys, [m, n, k], Host::Float(0.0));
        let scaled = |(e, s): (usize, &Host)| Host::Float(s.float() * down[e / n] * across[e % n] * all[0]);
        let expected: Vec<Host> = sums.iter().enumerate().map(scaled).collect();
        holds_near("scaled", &c, &expected, 2.0, 64.0)?;
    }
    Ok(())
}

/// relu(0.5 a b + bias) - 2 r, whichever way round c lies and however few rows or columns there
/// are.
fn epilogues<T: Sample + Factor<Sum = f32>>(trial: &mut Trial<'_>) -> Verdict {
    for [m, n, k] in [[70, 136, 72], [131, 67, 40], [4, 72, 40], [72, 4, 40], [1, 40, 24]] {
        for transposed in [false, true] {
            let (a, xs) = factor::<T>(trial, [m, k])?;
            let (b, ys) = factor::<T>(trial, [k, n])?;
            let (bias, across) = trial.input::<bf16, 1>([n])?;
            let (residual, others) = factor::<f16>(trial, [m, n])?;
            let mut c = trial.output::<f32, 2>(if transposed { [n, m] } else { [m, n] })?;
            if transposed {
                c = c.transpose();
            }
            Matmul::new(&a, &b)
                .scale(0.5)
                .bias(&bias)
                .map(|x| x.maximum(0.0))
                .residual(&residual, -2.0)
                .run(&mut c)?;
            let element = |(e, sum): (usize, &Host)| {
                let biased = 0.5 * sum.float() + across[e % n].host().float();
                Host::Float(biased.max(0.0) - 2.0 * others[e].float())
            };
            let sums = sums(&xs, &ys, [m, n, k], Host::Float(0.0));
            let expected: Vec<Host> = sums.iter().enumerate().map(element).collect();
            holds_near(&format!("{m} × {n} × {k}"), &c, &expected, 2.0 * allowed::<T>(k), 64.0)?;
        }
    }
    Ok(())
}

/// Stacks of as many matrices, and one for all on either side.
fn stacks<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [70, 40, 48];
    for (of_a, of_b) in [(3, 3), (3, 1), (1, 3), (0, 1), (1, 1)] {
        let (a, xs) = trial.input::<T, 3>([of_a, m, k])?;
        let (b, ys) = trial.input::<T, 3>([of_b, n, k])?;
        let products = if of_a == 1 { of_b } else { of_a };
        let mut c = trial.output::<T::Sum, 3>([products, m, n])?;
        kiln_kernels::matmul(&a, &b.swap_axes(1, 2)?, &mut c)?;
        let mut expected = Vec::new();
        for i in 0..products {
            let part = |all: &[T], stack: usize, [rows, columns]: [usize; 2], by_columns: bool| {
                let at = if stack == 1 { 0 } else { i } * rows * columns;
                by_rows(&all[at..][..rows * columns], [rows, columns], by_columns)
            };
            let (x, y) = (part(&xs, of_a, [m, k], false), part(&ys, of_b, [k, n], true));
            expected.extend(sums(&x, &y, [m, n, k], T::Sum::small(0).host()));
        }
        holds_near(&format!("{of_a} by {of_b}"), &c, &expected, allowed::<T>(k), 64.0)?;
    }
    // A matrix for all, as it is.
    let (a, b) = (trial.input::<T, 2>([m, k])?.0, trial.input::<T, 3>([2, k, n])?.0);
    let (mut c, mut one) = (trial.output::<T::Sum, 3>([2, m, n])?, trial.output::<T::Sum, 2>([m, n])?);
    kiln_kernels::matmul(&a, &b, &mut c)?;
    kiln_kernels::matmul(&a, &b.slice(0, 1..2)?.reshape([k, n])?, &mut one)?;
    let second = c.to_vec()?.split_off(m * n);
    ensure(second == one.to_vec()?, || "the second product differs from that of its own".into())
}

/// Few tiles and a long inner extent: programs may share it. The result is the same in every run.
fn long_sums<T: Sample + Factor<Sum = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [66, 72, 3000];
    let (a, xs) = factor::<T>(trial, [m, k])?;
    let (b, ys) = factor::<T>(trial, [k, n])?;
    let (bias, across) = vector(trial, n)?;
    let (mut c, mut again) = (trial.output::<f32, 2>([m, n])?, trial.output::<f32, 2>([m, n])?);
    Matmul::new(&a, &b).bias(&bias).run(&mut c)?;
    Matmul::new(&a, &b).bias(&bias).run(&mut again)?;
    let sums = sums(&xs, &ys, [m, n, k], Host::Float(0.0));
    let biased = |(e, sum): (usize, &Host)| Host::Float(sum.float() + across[e % n]);
    let expected: Vec<Host> = sums.iter().enumerate().map(biased).collect();
    holds_near("a long sum", &c, &expected, 4.0 * allowed::<T>(k), 64.0)?;
    ensure(c.to_vec()? == again.to_vec()?, || "two runs differ".into())
}

fn misfits(trial: &mut Trial<'_>) -> Verdict {
    let zeros = |shape| trial.device.zeros::<f32, 3>(shape);
    let refused = |done: Result<(), Error>, expected: &[usize], given: &[usize]| match done {
        Err(Error::Shape { expected: e, given: g, .. }) if e == expected && g == given => Ok(()),
        other => Err(Stop::wrong(format!("{other:?}, expected a refusal of {given:?}"))),
    };
    let (a, b) = (zeros([2, 3, 4])?, zeros([2, 4, 5])?);
    let mut c = zeros([2, 3, 5])?;
    refused(kiln_kernels::matmul(&a, &zeros([3, 4, 5])?, &mut c), &[2, 4, 5], &[3, 4, 5])?;
    refused(kiln_kernels::matmul(&a, &zeros([2, 3, 5])?, &mut c), &[2, 4, 5], &[2, 3, 5])?;
    refused(kiln_kernels::matmul(&a, &b, &mut zeros([1, 3, 5])?), &[2, 3, 5], &[1, 3, 5])?;
    let bias = trial.device.zeros::<f32, 1>([4])?;
    refused(Matmul::new(&a, &b).bias(&bias).run(&mut c), &[5], &[4])?;
    refused(Matmul::new(&a, &b).scale_rows(&bias).run(&mut c), &[3], &[4])?;
    refused(Matmul::new(&a, &b).residual(&zeros([3, 3, 5])?, 1.0).run(&mut c), &[2, 3, 5], &[3, 3, 5])?;
    Ok(())
}

/// A product by the kernel for tensor cores with one plan: b by columns, as elements that are not
/// of 16 bits need it.
fn planned<T: Sample + Factor<Sum: Sample>>(
    trial: &mut Trial<'_>,
    extents: [usize; 4],
    plan: MatmulPlan,
    programs: u32,
) -> Verdict {
    planned_of::<T, T>(trial, extents, plan, programs)
}

/// The same of factors of two types.
fn planned_of<T, U>(
    trial: &mut Trial<'_>,
    [products, m, n, k]: [usize; 4],
    plan: MatmulPlan,
    programs: u32,
) -> Verdict
where
    T: Sample + Factor<Sum: Sample>,
    U: Sample + Factor<Sum = T::Sum, Family = T::Family>,
{
    let stack = |shared: bool| if shared { 1 } else { products };
    let (a, xs) = trial.input::<T, 3>([stack(plan.shared[0]), m, k])?;
    let (b, ys) = trial.input::<U, 3>([stack(plan.shared[1]), n, k])?;
    let mut c = trial.output::<T::Sum, 3>([products * plan.splits, m, n])?;
    let plan = MatmulPlan { b_transposed: true, ..plan };
    hopper::matmul::<T, U, T::Sum, Identity>(&a, &b, &mut c, Identity, plan)
        .grid([programs])
        .launch(trial.device)?;
    let got = c.to_vec()?;
    let zero = T::Sum::small(0).host();
    for i in 0..products {
        let (x, y) = (if plan.shared[0] { 0 } else { i }, if plan.shared[1] { 0 } else { i });
        let (x, y) = (&xs[x * m * k..][..m * k], &ys[y * n * k..][..n * k]);
        let expected = sums(&by_rows(x, [m, k], false), &by_rows(y, [k, n], true), [m, n, k], zero);
        // Parts of sums add up to them.
        let parts = &got[i * plan.splits * m * n..][..plan.splits * m * n];
        let added = |e: usize| (0..plan.splits).fold(zero, |sum, s| sum.add(parts[s * m * n + e].host()));
        let whole: Vec<T::Sum> = list(0..m * n, |e| T::Sum::from_host(added(e)));
        close(&format!("product {i}"), &whole, &expected, allowed::<T>(k), 64.0)?;
    }
    Ok(())
}

fn plan_of<T>() -> MatmulPlan {
    MatmulPlan { depth: 128 / size_of::<T>(), stages: 3, group: 2, bulk: false, ..MatmulPlan::PLAIN }
}

fn stacks_and_splits<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let plan = MatmulPlan { stack: true, ..plan_of::<T>() };
    planned::<T>(trial, [3, 72, 80, 144], plan, 5)?;
    planned::<T>(trial, [2, 72, 80, 144], MatmulPlan { shared: [true, false], ..plan }, 3)?;
    planned::<T>(trial, [2, 40, 136, 48], MatmulPlan { shared: [false, true], ..plan }, 3)?;
    let long = 5 * plan.depth - 16;
    planned::<T>(trial, [1, 72, 64, long], MatmulPlan { stack: false, splits: 3, ..plan }, 4)?;
    planned::<T>(trial, [2, 40, 64, long], MatmulPlan { splits: 2, bulk: true, ..plan }, 3)
}

fn two_level_sums<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let plan = MatmulPlan { two_level: true, ..plan_of::<T>() };
    planned::<T>(trial, [1, 72, 80, 400], plan, 3)?;
    let copies = MatmulPlan { rows: 128, columns: 128, tasks: 2, registers: [232, 40], bulk: true, ..plan };
    planned::<T>(trial, [1, 200, 136, 272], copies, 2)?;
    let three = MatmulPlan { rows: 192, tasks: 3, registers: [152, 40], ..copies };
    planned::<T>(trial, [1, 200, 136, 272], three, 2)?;
    let halves = MatmulPlan { columns: 256, halves: 2, stages: 2, ..copies };
    planned::<T>(trial, [1, 130, 264, 144], halves, 1)?;
    planned::<T>(trial, [1, 66, 264, 144], MatmulPlan { bulk: false, ..halves }, 2)
}

fn narrow_types(trial: &mut Trial<'_>) -> Verdict {
    planned::<i8>(trial, [1, 72, 80, 144], plan_of::<i8>(), 2)?;
    planned::<u8>(trial, [1, 72, 80, 144], MatmulPlan { bulk: true, ..plan_of::<u8>() }, 2)?;
    let narrow = MatmulPlan { columns: 16, ..plan_of::<E4M3>() };
    planned::<E4M3>(trial, [1, 72, 24, 144], narrow, 2)
}

fn mixed_types(trial: &mut Trial<'_>) -> Verdict {
    let two_level = MatmulPlan { two_level: true, ..plan_of::<E4M3>() };
    planned_of::<E4M3, E5M2>(trial, [1, 72, 80, 272], two_level, 2)?;
    planned_of::<E5M2, E4M3>(trial, [1, 72, 80, 144], MatmulPlan { bulk: true, ..plan_of::<E5M2>() }, 2)?;
    planned_of::<u8, i8>(trial, [1, 72, 80, 144], plan_of::<u8>(), 2)
}

/// A task with copies keeps tiles where they were computed: vectors are loaded for that, and both
/// ways to store are tried.
fn epilogue_of_copies(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [200, 264, 72];
    let (a, xs) = trial.input::<bf16, 2>([m, k])?;
    let (b, ys) = trial.input::<bf16, 2>([n, k])?;
    let (rows, down) = vector(trial, m)?;
    let (columns, across) = vector(trial, n)?;
    for bulk in [true, false] {
        let plan = MatmulPlan {
            rows: 128,
            columns: 128,
            tasks: 2,
            registers: [232, 40],
            b_transposed: true,
            bulk,
            ..plan_of::<bf16>()
        };
        let c = trial.output::<f16, 2>([m, n])?;
        let by =
            |values: &Tensor<f32, 1>, along, combined| Vector { values: values.alias(), along, combined };
        let epilogue =
            Then(by(&rows, Along::Rows, Combined::Factor), by(&columns, Along::Columns, Combined::Term));
        hopper::matmul::<bf16, bf16, f16, Then<Vector<f32>, Vector<f32>>>(
            &a.stacked(),
            &b.stacked(),
            &mut c.stacked(),
            epilogue,
            plan,
        )
        .grid([3])
        .launch(trial.device)?;
        let element = |e: usize| {
            let (i, j) = (e / n, e % n);
            let products = (0..k).map(|p| f64::from(xs[i * k + p]) * f64::from(ys[j * k + p]));
            Host::Float(products.sum::<f64>() * down[i] + across[j])
        };
        let expected: Vec<Host> = list(0..m * n, element);
        holds_near("with vectors", &c, &expected, 2.0, 64.0)?;
    }
    Ok(())
}
