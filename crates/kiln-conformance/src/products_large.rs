//! Products of any extents up to 4099 and with any options, against f64.
//!
//! Every row of a result is checked as a whole: its sum with random signs is that of the factors
//! (Freivalds, "Probabilistic machines can use less running time", 1977). Corners and random
//! elements are computed one by one.

use crate::case::{Case, cases};
use crate::library_rows::EXTENTS;
use crate::trial::{Stop, Trial, Verdict, close, ensure, holds_near, list};
use half::{bf16, f16};
use kiln_kernels::matmul::epilogue::{Epilogue, Identity, Then, Vector};
use kiln_kernels::matmul::{Factor, Matmul, Precision};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Rng, Sample, product};
use kiln_runtime::{Execution, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["products":
        any_extents for f16 bf16 E4M3 E5M2 i8 u8 f32;
        any_epilogues for f16 bf16 E4M3 i8 f32;
    ]
}

/// Large ones, for [`sweep`](crate::sweep).
pub fn large_cases() -> Vec<Case> {
    cases!["products":
        large_extents for f16 bf16 E4M3 E5M2 i8 u8 f32;
        large_epilogues for f16 bf16 E4M3 i8 f32;
        odd_extents for i32 u32 i64 u64 i8 u8 E4M3 E5M2 f16 bf16 f32 f64;
        more_than_a_grid for bf16 f32 f64;
    ]
}

/// How many multiplications a product of the suite may take.
fn few(trial: &Trial<'_>) -> f64 {
    match trial.device.capabilities().execution {
        Execution::Interpreted => 3e5,
        _ => 3e7,
    }
}

/// How many one of the sweep may take.
fn many(trial: &Trial<'_>) -> f64 {
    match trial.device.capabilities().execution {
        Execution::Interpreted => 3e6,
        Execution::Simd => 3e9,
        Execution::Simt if trial.device.capabilities().software => 1e8,
        Execution::Simt => f64::INFINITY,
    }
}

fn any_extents<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    (0..3).try_for_each(|_| any_product::<T>(trial, few(trial)))
}

fn large_extents<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    (0..8).try_for_each(|_| any_product::<T>(trial, many(trial)))
}

/// Odd, prime, tiny and huge extents, of which every element is compared. A device that does not
/// make the loops of some does the others.
fn odd_extents<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    // The reference takes all multiplications too.
    let most = many(trial).min(1e7);
    let mut limited = Ok(());
    for _ in 0..12 {
        let rng = &mut trial.rng;
        let shape = loop {
            let all = [(); 3].map(|()| EXTENTS[rng.below(EXTENTS.len() as u64) as usize]);
            if all.iter().map(|&e| e.max(1) as f64).product::<f64>() <= most {
                break all;
            }
        };
        match odd_product::<T>(trial, shape) {
            Err(stop) if stop.loop_limit().is_some() => limited = Err(stop),
            verdict => verdict?,
        }
    }
    limited
}

/// More products, and more rows of tiles, than a grid of NVIDIA's GPUs has blocks on an axis.
fn more_than_a_grid<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let (count, [m, n, k]) = (65_537, [2, 3, 5]);
    for alone in [false, true] {
        let (a, xs) = trial.input::<T, 3>([count, m, k])?;
        let (b, ys) = trial.input::<T, 3>([if alone { 1 } else { count }, k, n])?;
        let mut c = trial.output::<T::Sum, 3>([count, m, n])?;
        kiln_kernels::matmul(&a, &b, &mut c)?;
        let [xs, ys] = [xs, ys].map(|all| list(0..all.len(), |e| all[e].host()));
        let expected: Vec<Host> = (0..count)
            .flat_map(|i| {
                let (x, y) = (&xs[i * m * k..][..m * k], &ys[if alone { 0 } else { i * k * n }..][..k * n]);
                product(x, y, [m, n, k], T::Sum::small(0).host())
            })
            .collect();
        holds_near(&format!("{count} products"), &c, &expected, allowed::<T>(k), 64.0)?;
    }
    // A program has 16 rows on the interpreter, and 128 at most elsewhere.
    let tile = if trial.device.capabilities().is_interpreted() { 16 } else { 128 };
    odd_product::<T>(trial, [65_536 * tile + 1, 1, 1])
}

fn odd_product<T: Sample + Factor<Sum: Sample>>(
    trial: &mut Trial<'_>,
    shape @ [m, n, k]: [usize; 3],
) -> Verdict {
    let (a, b) = (Side::<T>::random(trial, [m, k])?, Side::<T>::random(trial, [k, n])?);
    let mut c = trial.output::<T::Sum, 2>([m, n])?;
    kiln_kernels::matmul(&a.part, &b.part, &mut c)?;
    let [xs, ys] = [(&a, m, k), (&b, k, n)]
        .map(|(side, rows, columns)| list(0..rows * columns, |e| side.at(e / columns, e % columns)));
    let expected = product(&xs, &ys, shape, T::Sum::small(0).host());
    let what = format!("{m} × {n} × {k}, transposed {:?}", [a.transposed, b.transposed]);
    holds_near(&what, &c, &expected, allowed::<T>(k), 64.0)
}

fn any_epilogues<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict
where
    Scaled: Epilogue<T::Sum, Out = f32>,
    Vector<f32>: Epilogue<T::Sum, Out = f32>,
{
    (0..2).try_for_each(|_| any_epilogue::<T>(trial, few(trial)))
}

fn large_epilogues<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict
where
    Scaled: Epilogue<T::Sum, Out = f32>,
    Vector<f32>: Epilogue<T::Sum, Out = f32>,
{
    (0..6).try_for_each(|_| any_epilogue::<T>(trial, many(trial)))
}

/// The first step of an epilogue, which makes f32 of all sums.
type Scaled = Then<Identity, Vector<f32>>;

/// Extents of 1 to 4099, as many small as large ones, of which the largest is halved until the
/// product takes so many multiplications at most.
fn extents(rng: &mut Rng, multiplications: f64) -> [usize; 3] {
    let mut all = [(); 3].map(|()| 4100_f64.powf(rng.between(0.0, 1.0)) as usize);
    while all.iter().map(|&e| e as f64).product::<f64>() > multiplications {
        let largest = (0..3).max_by_key(|&i| all[i]).unwrap_or_default();
        all[largest] /= 2;
    }
    all
}

/// A matrix in a larger one, by rows or by columns.
struct Side<T: Elem> {
    part: Tensor<T, 2>,
    all: Vec<T>,
    transposed: bool,
    border: usize,
    across: usize,
}

impl<T: Sample> Side<T> {
    fn random(trial: &mut Trial<'_>, [rows, columns]: [usize; 2]) -> Result<Side<T>, Stop> {
        let transposed = trial.rng.below(2) == 1;
        // Mostly none, since then rows are aligned.
        let border = trial.rng.below(6).saturating_sub(3) as usize;
        let [high, wide] = if transposed { [columns, rows] } else { [rows, columns] };
        let (whole, all) = trial.input::<T, 2>([high + border, wide + border])?;
        let part = whole.slice(0, border..border + high)?.slice(1, border..border + wide)?;
        let part = if transposed { part.transpose() } else { part };
        Ok(Side { part, all, transposed, border, across: wide + border })
    }

    fn at(&self, i: usize, j: usize) -> Host {
        let (i, j) = if self.transposed { (j, i) } else { (i, j) };
        self.all[(i + self.border) * self.across + j + self.border].host()
    }
}

fn any_product<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>, multiplications: f64) -> Verdict {
    let shape @ [m, n, k] = extents(&mut trial.rng, multiplications);
    let (a, b) = (Side::<T>::random(trial, [m, k])?, Side::<T>::random(trial, [k, n])?);
    let transposed = trial.rng.below(2) == 1;
    let mut c = trial.output::<T::Sum, 2>(if transposed { [n, m] } else { [m, n] })?;
    if transposed {
        c = c.transpose();
    }
    let precision = if trial.rng.below(3) == 0 { Precision::FastSums } else { Precision::Full };
    Matmul::new(&a.part, &b.part).precision(precision).run(&mut c)?;
    let what = format!(
        "{m} × {n} × {k}, {precision:?}, transposed {:?}, borders {:?}",
        [a.transposed, b.transposed, transposed],
        [a.border, b.border]
    );
    let got = c.to_vec()?;
    // Only 8-bit floats have faster sums.
    let fast = if precision == Precision::FastSums && T::SCALAR.is_float8() { 4.0 } else { 1.0 };
    some_elements(trial, &what, shape, [&a, &b], &got, fast)?;
    all_rows(trial, &what, shape, [&a, &b], &got, fast)
}

/// A stack of products of which rows and columns are scaled, a bias is added, negative elements are
/// cut off and others are added. Into elements of 16 bits.
fn any_epilogue<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>, multiplications: f64) -> Verdict
where
    Scaled: Epilogue<T::Sum, Out = f32>,
    Vector<f32>: Epilogue<T::Sum, Out = f32>,
{
    let stack = 1 + trial.rng.below(3) as usize;
    let shape @ [m, n, k] = extents(&mut trial.rng, multiplications / stack as f64);
    let shared = trial.rng.below(2) == 1;
    let (a, xs) = trial.input::<T, 3>([stack, m, k])?;
    let (b, ys) = trial.input::<T, 3>([if shared { 1 } else { stack }, n, k])?;
    let ((rows, down), (columns, across)) = (trial.input::<f32, 1>([m])?, trial.input::<f32, 1>([n])?);
    let ((bias, terms), (others, more)) =
        (trial.input::<f32, 1>([n])?, trial.input::<bf16, 3>([stack, m, n])?);
    let mut c = trial.output::<bf16, 3>([stack, m, n])?;
    Matmul::new(&a, &b.swap_axes(1, 2)?)
        .scale_rows(&rows)
        .scale_columns(&columns)
        .bias(&bias)
        .map(|x| x.maximum(0.0))
        .residual(&others, -0.5)
        .run(&mut c)?;
    let got = c.to_vec()?;
    ensure(got.iter().all(|x| x.is_finite()), || format!("{stack} of {shape:?}: not finite"))?;
    for place in 0..40 {
        // The last element of all, and any others.
        let at = if place == 0 { got.len() - 1 } else { trial.rng.below(got.len() as u64) as usize };
        let (product, i, j) = (at / (m * n), at / n % m, at % n);
        let (x, y) =
            (&xs[(product * m + i) * k..][..k], &ys[(if shared { 0 } else { product } * n + j) * k..][..k]);
        let sum: f64 = x.iter().zip(y).map(|(x, y)| x.host().float() * y.host().float()).sum();
        let scales = f64::from(down[i]) * f64::from(across[j]);
        let scaled = sum * scales + f64::from(terms[j]);
        let expected = scaled.max(0.0) - 0.5 * more[at].host().float();
        // The sum's own error counts as much as its scales make of it; 2 units are those of the
        // conversions.
        let own = allowed::<T>(k) * f64::from(f32::EPSILON) * 64.0 * scales.abs();
        let limit = own + 2.0 * <bf16 as Sample>::EPSILON * expected.abs().max(1.0);
        ensure((got[at].to_f64() - expected).abs() <= limit, || {
            format!(
                "{stack} of {shape:?}, shared {shared}: element {at} is {}, expected {expected} within {limit}",
                got[at]
            )
        })?;
    }
    Ok(())
}

/// The corners, and any others.
fn some_elements<T: Sample + Factor<Sum: Sample>>(
    trial: &mut Trial<'_>,
    what: &str,
    [m, n, k]: [usize; 3],
    [a, b]: [&Side<T>; 2],
    got: &[T::Sum],
    times: f64,
) -> Verdict {
    let mut places = vec![(0, 0), (0, n - 1), (m - 1, 0), (m - 1, n - 1)];
    let rng = &mut trial.rng;
    places.extend((0..60).map(|_| (rng.below(m as u64) as usize, rng.below(n as u64) as usize)));
    for (i, j) in places {
        let sum = (0..k).fold(T::Sum::small(0).host(), |sum, p| sum.add(a.at(i, p).mul(b.at(p, j))));
        let at = i * n + j;
        let units = times * allowed::<T>(k);
        close(&format!("{what}: element {i}, {j}"), &got[at..=at], &[sum], units, 64.0)?;
    }
    Ok(())
}

/// Every row's sum with random signs, which is one product with the signs less.
fn all_rows<T: Sample + Factor<Sum: Sample>>(
    trial: &mut Trial<'_>,
    what: &str,
    [m, n, k]: [usize; 3],
    [a, b]: [&Side<T>; 2],
    got: &[T::Sum],
    times: f64,
) -> Verdict {
    let signs: Vec<f64> = list(0..n, |_| if trial.rng.below(2) == 0 { 1.0 } else { -1.0 });
    let inner: Vec<f64> = list(0..k, |p| (0..n).map(|j| b.at(p, j).float() * signs[j]).sum());
    // Errors of one sign in each element add up by their random signs to eight times their root
    // mean square at most, all but surely.
    let one = times * allowed::<T>(k) * T::Sum::EPSILON * 64.0;
    let limit = (8.0 * one * (n as f64).sqrt()).max(1e-6);
    for i in 0..m {
        let expected: f64 = (0..k).map(|p| a.at(i, p).float() * inner[p]).sum();
        let row = got[i * n..][..n].iter().zip(&signs).map(|(x, sign)| x.host().float() * sign);
        let sum: f64 = row.sum();
        ensure((sum - expected).abs() <= limit, || {
            format!("{what}: row {i} adds up to {sum} with random signs, expected {expected} within {limit}")
        })?;
    }
    Ok(())
}

/// By how many units of f32 a sum of so many products in -4..4 may be off, at a size of 64: tensor
/// cores keep fewer bits of those of 8-bit floats.
pub(crate) fn allowed<T: Sample>(k: usize) -> f64 {
    match T::BITS {
        _ if T::EPSILON == 0.0 => 0.0,
        8 => 16384.0 + 64.0 * k as f64,
        _ => 16.0 + k as f64,
    }
}
