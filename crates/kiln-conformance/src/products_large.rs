//! Products of any extents up to 4099 and with any options, against f64.
//!
//! Every row of a result is checked as a whole: its sum with random signs is that of the factors (Freivalds, "Probabilistic machines can use less running
//! time", 1977). Corners and random elements are computed one by one.

use crate::case::{Case, cases};
use crate::sample::{Host, Sample};
use crate::trial::{Rng, Stop, Trial, Verdict, close, ensure};
use half::{bf16, f16};
use kiln_kernels::matmul::{Factor, Matmul, Precision};
use kiln_lang::prelude::*;
use kiln_runtime::{BackendKind, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["products": any_extents for f16 bf16 E4M3 E5M2 i8 u8 f32;]
}

/// Large ones, for [`sweep`](crate::sweep).
pub fn large_cases() -> Vec<Case> {
    cases!["products": large_extents for f16 bf16 E4M3 E5M2 i8 u8 f32;]
}

fn any_extents<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let multiplications = match trial.device.properties().kind {
        BackendKind::Interp => 3e5,
        _ => 3e7,
    };
    (0..3).try_for_each(|_| any_product::<T>(trial, multiplications))
}

fn large_extents<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let multiplications = match trial.device.properties().kind {
        BackendKind::Interp => 3e6,
        BackendKind::Cpu => 3e9,
        _ => f64::INFINITY,
    };
    (0..8).try_for_each(|_| any_product::<T>(trial, multiplications))
}

/// Extents of 1 to 4099, as many small as large ones, of which the largest is halved until the product takes so many multiplications at most.
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
    turned: bool,
    border: usize,
    across: usize,
}

impl<T: Sample> Side<T> {
    fn random(trial: &mut Trial<'_>, [rows, columns]: [usize; 2]) -> Result<Side<T>, Stop> {
        let turned = trial.rng.below(2) == 1;
        // Mostly none, since then rows are aligned.
        let border = trial.rng.below(6).saturating_sub(3) as usize;
        let [high, wide] = if turned { [columns, rows] } else { [rows, columns] };
        let (whole, all) = trial.input::<T, 2>([high + border, wide + border])?;
        let part = whole.slice(0, border..border + high)?.slice(1, border..border + wide)?;
        let part = if turned { part.transpose() } else { part };
        Ok(Side { part, all, turned, border, across: wide + border })
    }

    fn at(&self, i: usize, j: usize) -> Host {
        let (i, j) = if self.turned { (j, i) } else { (i, j) };
        self.all[(i + self.border) * self.across + j + self.border].host()
    }
}

fn any_product<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>, multiplications: f64) -> Verdict {
    let shape @ [m, n, k] = extents(&mut trial.rng, multiplications);
    let (a, b) = (Side::<T>::random(trial, [m, k])?, Side::<T>::random(trial, [k, n])?);
    let turned = trial.rng.below(2) == 1;
    let mut c = trial.output::<T::Sum, 2>(if turned { [n, m] } else { [m, n] })?;
    if turned {
        c = c.transpose();
    }
    let precision = if trial.rng.below(3) == 0 { Precision::FastSums } else { Precision::Full };
    Matmul::new(&a.part, &b.part).precision(precision).run(&mut c)?;
    let what = format!(
        "{m} × {n} × {k}, {precision:?}, turned {:?}, borders {:?}",
        [a.turned, b.turned, turned],
        [a.border, b.border]
    );
    let got = c.to_vec()?;
    let fast = if precision == Precision::FastSums { 4.0 } else { 1.0 };
    some_elements(trial, &what, shape, [&a, &b], &got, fast)?;
    all_rows(trial, &what, shape, [&a, &b], &got, fast)
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
    let signs: Vec<f64> = (0..n).map(|_| if trial.rng.below(2) == 0 { 1.0 } else { -1.0 }).collect();
    let inner: Vec<f64> = (0..k).map(|p| (0..n).map(|j| b.at(p, j).float() * signs[j]).sum()).collect();
    // Errors of one sign in each element add up by their random signs to eight times their root mean square at most, all but surely.
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

/// By how many units of f32 a sum of so many products in -4..4 may be off, at a size of 64: tensor cores keep fewer bits of those of 8-bit floats.
pub(crate) fn allowed<T: Sample>(k: usize) -> f64 {
    match T::BITS {
        _ if T::EPSILON == 0.0 => 0.0,
        8 => 16384.0 + 64.0 * k as f64,
        _ => 16.0 + k as f64,
    }
}
