//! Sums, rows and element-wise kernels of the library over odd, prime, tiny and huge extents,
//! against f64: of dense tensors, parts of larger ones, and tensors whose rows are not adjacent.
//!
//! Whatever lies around a result must stay as it was. Bounds follow from the algorithms: an
//! operation of the device is within a few units in the last place, and a sum of n terms in an
//! unknown order takes each through n / 8 additions at most (8 lanes are the fewest that a backend
//! sums in), whose errors are independent.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Rng, Sample};
use kiln_runtime::{Execution, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["library":
        added for i32 u32 i64 u64 f16 bf16 f32 f64;
        copied for i32 u32 i64 u64 f16 bf16 f32 f64;
        chained;
        summed;
        softmax;
        layer_norm for f16 bf16 f32 f64;
    ]
}

/// Large ones, for [`sweep`](crate::sweep).
pub fn large_cases() -> Vec<Case> {
    cases!["library":
        large_added for i32 u32 i64 u64 f16 bf16 f32 f64;
        large_copied for i32 u32 i64 u64 f16 bf16 f32 f64;
        large_chained;
        large_summed;
        large_softmax;
        large_layer_norm for f16 bf16 f32 f64;
    ]
}

/// None, few, primes, and those around powers of two: of warps, of what the CPU works on at a time,
/// of programs.
pub(crate) const EXTENTS: [usize; 26] = [
    0, 1, 2, 3, 7, 31, 33, 127, 129, 1000, 1023, 1024, 1025, 1031, 1500, 2047, 2049, 4095, 4097, 8191, 16385,
    65537, 131_071, 1_000_003, 5_000_011, 20_000_003,
];

/// How many elements tensors of the suite have at most.
fn few(trial: &Trial<'_>) -> usize {
    match trial.device.capabilities().execution {
        Execution::Interpreted => 2100,
        _ => 8200,
    }
}

/// How many those of the sweep have. On a CPU they outgrow the caches, where stores go another way.
fn many(trial: &Trial<'_>) -> usize {
    match trial.device.capabilities().execution {
        Execution::Interpreted => 132_000,
        Execution::Simd => (trial.device.properties().cache as usize / 8 + 100_000).clamp(1 << 21, 1 << 24),
        Execution::Simt if trial.device.capabilities().software => 1_100_000,
        Execution::Simt => 21_000_000,
    }
}

/// Where the elements of a matrix lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// One after the other.
    Dense,
    /// In a larger matrix, from an odd place on.
    Part,
    /// Column by column in a larger matrix.
    Columns,
}

pub(crate) const LAYOUTS: [Layout; 3] = [Layout::Dense, Layout::Part, Layout::Columns];

/// A matrix, and the tensor that it is a part of.
pub(crate) struct Matrix<T: Elem> {
    whole: Tensor<T, 2>,
    pub part: Tensor<T, 2>,
    shape: [usize; 2],
    layout: Layout,
}

impl<T: Sample> Matrix<T> {
    /// A matrix whose elements, and those around it, `fill` gives.
    pub fn new(
        trial: &mut Trial<'_>,
        shape: [usize; 2],
        layout: Layout,
        mut fill: impl FnMut(&mut Rng) -> T,
    ) -> Result<(Matrix<T>, Vec<T>), Stop> {
        let [rows, columns] = shape;
        let [high, wide] = match layout {
            Layout::Dense => shape,
            Layout::Part => [rows + 1, columns + 3],
            Layout::Columns => [columns + 1, rows + 2],
        };
        let data: Vec<T> = list(0..high * wide, |_| fill(&mut trial.rng));
        let whole = trial.device.tensor(&data, [high, wide])?;
        let part = match layout {
            Layout::Dense => whole.slice(0, 0..rows)?,
            Layout::Part => whole.slice(0, 1..1 + rows)?.slice(1, 1..1 + columns)?,
            Layout::Columns => whole.slice(0, 1..1 + columns)?.slice(1, 1..1 + rows)?.transpose(),
        };
        Ok((Matrix { whole, part, shape, layout }, data))
    }

    fn input(trial: &mut Trial<'_>, shape: [usize; 2], layout: Layout) -> Result<Input<T>, Stop> {
        let (matrix, data) = Matrix::new(trial, shape, layout, T::sample)?;
        Ok(Input { matrix, data })
    }

    pub fn output(trial: &mut Trial<'_>, shape: [usize; 2], layout: Layout) -> Result<Matrix<T>, Stop> {
        Ok(Matrix::new(trial, shape, layout, |_| T::POISON)?.0)
    }

    /// The only row.
    fn vector(&self) -> Result<Tensor<T, 1>, Stop> {
        Ok(self.part.select(0, 0)?)
    }

    /// Where an element is in the whole tensor.
    pub fn place(&self, i: usize, j: usize) -> usize {
        let [rows, columns] = self.shape;
        match self.layout {
            Layout::Dense => i * columns + j,
            Layout::Part => (i + 1) * (columns + 3) + j + 1,
            Layout::Columns => (j + 1) * (rows + 2) + i + 1,
        }
    }

    /// Compares each element with what is expected, rounded to the type, within a bound; and what
    /// is around with what was there.
    pub fn check(&self, what: &str, expected: &dyn Fn(usize, usize) -> (Host, f64)) -> Verdict {
        let (got, [rows, columns]) = (self.whole.to_vec()?, self.shape);
        let mut around = vec![true; got.len()];
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let at = self.place(i, j);
            around[at] = false;
            let (value, bound) = expected(i, j);
            let value = T::from_host(value);
            let right = match (got[at].host(), value.host()) {
                (Host::Float(g), Host::Float(e)) => g == e || (g - e).abs() <= bound,
                (g, e) => g == e,
            };
            ensure(right, || {
                let layout = self.layout;
                format!(
                    "{what}, {layout:?}: [{i}, {j}] is {:?}, expected {value:?} within {bound:e}",
                    got[at]
                )
            })?;
        }
        let touched = (0..got.len()).find(|&at| around[at] && got[at].host() != T::POISON.host());
        ensure(touched.is_none(), || format!("{what}, {:?}: element {touched:?} around it", self.layout))
    }
}

/// A matrix and the elements of the tensor that it is a part of.
struct Input<T: Elem> {
    matrix: Matrix<T>,
    data: Vec<T>,
}

impl<T: Sample> Input<T> {
    fn at(&self, i: usize, j: usize) -> T {
        self.data[self.matrix.place(i, j)]
    }

    fn float(&self, i: usize, j: usize) -> f64 {
        self.at(i, j).host().float()
    }
}

/// Runs `one` on vectors of all extents up to a number of elements: every layout where they are
/// few, else one.
fn vectors(trial: &mut Trial<'_>, most: usize, one: fn(&mut Trial<'_>, usize, Layout) -> Verdict) -> Verdict {
    for n in EXTENTS.into_iter().filter(|&n| n <= most).chain([most]) {
        let chosen = trial.rng.below(3) as usize;
        for (at, layout) in LAYOUTS.into_iter().enumerate() {
            if n <= 5000 || at == chosen {
                one(trial, n, layout)?;
            }
        }
    }
    Ok(())
}

/// As [`vectors`], on matrices: of a few rows of every extent, and of many short rows.
fn matrices(
    trial: &mut Trial<'_>,
    most: usize,
    one: fn(&mut Trial<'_>, [usize; 2], Layout) -> Verdict,
) -> Verdict {
    // The tile of a longer row would not fit the registers of a GPU's block.
    let widest = if trial.device.capabilities().is_simt() { 16385 } else { 131_071 };
    let mut shapes = vec![[0, 5], [3, 0], [most / 33, 33], [most / 1500, 1500]];
    for columns in EXTENTS.into_iter().filter(|&n| n > 0 && n <= most.min(widest)) {
        let rows = 1 + trial.rng.below(3) as usize;
        shapes.push([rows.min(most / columns), columns]);
    }
    for shape in shapes {
        let chosen = trial.rng.below(3) as usize;
        for (at, layout) in LAYOUTS.into_iter().enumerate() {
            if shape[0] * shape[1] <= 2500 || at == chosen {
                one(trial, shape, layout)?;
            }
        }
    }
    Ok(())
}

/// By how many units in the last place a sum of n terms may be off, as a part of the sum of their
/// sizes.
fn units_of_sum(n: usize) -> f64 {
    4.0 * (16.0 + n as f64 / 8.0).sqrt()
}

const F32: f64 = f32::EPSILON as f64;

fn added<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let most = few(trial);
    vectors(trial, most, add_one::<T>)
}

fn large_added<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let most = many(trial);
    vectors(trial, most, add_one::<T>)
}

fn add_one<T: Sample + Num>(trial: &mut Trial<'_>, n: usize, layout: Layout) -> Verdict {
    let x = Matrix::<T>::input(trial, [1, n], layout)?;
    let other = LAYOUTS[trial.rng.below(3) as usize];
    let y = Matrix::<T>::input(trial, [1, n], other)?;
    let z = Matrix::<T>::output(trial, [1, n], layout)?;
    kiln_kernels::add(&x.matrix.vector()?, &y.matrix.vector()?, &mut z.vector()?)?;
    // Rounded once.
    z.check(&format!("{n}"), &|_, j| (x.at(0, j).host().add(y.at(0, j).host()), 0.0))
}

fn copied<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let most = few(trial);
    vectors(trial, most, copy_one::<T>)
}

fn large_copied<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let most = many(trial);
    vectors(trial, most, copy_one::<T>)
}

fn copy_one<T: Sample + Num>(trial: &mut Trial<'_>, n: usize, layout: Layout) -> Verdict {
    let x = Matrix::<T>::input(trial, [1, n], layout)?;
    let other = LAYOUTS[trial.rng.below(3) as usize];
    let y = Matrix::<T>::output(trial, [1, n], other)?;
    kiln_kernels::copy(&x.matrix.vector()?, &mut y.vector()?)?;
    y.check(&format!("{n}"), &|_, j| (x.at(0, j).host(), 0.0))
}

/// z = relu(x y + x) / 2 + tanh(y), `block` elements a program: several operations on
/// the way from memory to memory.
#[kernel(crate = kiln_runtime, contract)]
fn chain(x: &Tensor<f32, 1>, y: &Tensor<f32, 1>, z: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    let (a, b) = (x.tile(at, block).streaming().load(0.0), y.tile(at, block).streaming().load(0.0));
    let result = (a * b + a).maximum(0.0) * 0.5 + b.tanh();
    z.tile(at, block).streaming().store(result);
}

fn chained(trial: &mut Trial<'_>) -> Verdict {
    let most = few(trial);
    vectors(trial, most, chain_one)
}

fn large_chained(trial: &mut Trial<'_>) -> Verdict {
    let most = many(trial);
    vectors(trial, most, chain_one)
}

fn chain_one(trial: &mut Trial<'_>, n: usize, layout: Layout) -> Verdict {
    let x = Matrix::<f32>::input(trial, [1, n], layout)?;
    let y = Matrix::<f32>::input(trial, [1, n], layout)?;
    let z = Matrix::<f32>::output(trial, [1, n], layout)?;
    let (a, b, mut c) = (x.matrix.vector()?, y.matrix.vector()?, z.vector()?);
    chain(&a, &b, &mut c, 512).launch(trial.device)?;
    z.check(&format!("{n}"), &|_, j| {
        let (a, b) = (x.float(0, j), y.float(0, j));
        let (product, tanh) = (a * b, b.tanh());
        let value = (product + a).max(0.0) * 0.5 + tanh;
        // The product, its sum with a, half of it plus tanh, and the error of tanh itself.
        (Host::Float(value), F32 * (product.abs() + a.abs() + 4.0 * tanh.abs() + value.abs()))
    })
}

fn summed(trial: &mut Trial<'_>) -> Verdict {
    let most = few(trial);
    vectors(trial, most, sum_one)
}

fn large_summed(trial: &mut Trial<'_>) -> Verdict {
    let most = many(trial);
    vectors(trial, most, sum_one)
}

/// Of small integers the sum is exact in every order, so that no element can be missing; of others
/// it is near.
fn sum_one(trial: &mut Trial<'_>, n: usize, layout: Layout) -> Verdict {
    let largest = ((1 << 24) / n.max(1)).clamp(0, 100) as u64;
    let integer = |rng: &mut Rng| rng.below(2 * largest + 1) as f32 - largest as f32;
    let (matrix, data) = Matrix::new(trial, [1, n], layout, integer)?;
    let integers = Input { matrix, data };
    let floats = Matrix::<f32>::input(trial, [1, n], layout)?;
    for (what, x, exact) in [("integers", &integers, true), ("floats", &floats, false)] {
        let y = Matrix::<f32>::output(trial, [1, 1], Layout::Part)?;
        kiln_kernels::sum(&x.matrix.vector()?, &mut y.vector()?)?;
        let sum: f64 = (0..n).map(|j| x.float(0, j)).sum();
        let sizes: f64 = (0..n).map(|j| x.float(0, j).powi(2)).sum::<f64>();
        // Partial sums of terms of random sign are about the root of the sum of their squares.
        let bound = F32 * units_of_sum(n) * (sizes.sqrt() + sum.abs());
        let bound = if exact { 0.0 } else { bound };
        y.check(&format!("{n} {what}"), &|_, _| (Host::Float(sum), bound))?;
    }
    Ok(())
}

fn softmax(trial: &mut Trial<'_>) -> Verdict {
    let most = few(trial);
    matrices(trial, most, softmax_one)
}

fn large_softmax(trial: &mut Trial<'_>) -> Verdict {
    let most = many(trial);
    matrices(trial, most, softmax_one)
}

fn softmax_one(trial: &mut Trial<'_>, shape: [usize; 2], layout: Layout) -> Verdict {
    let [rows, columns] = shape;
    // Scores of any size, of which some are masked out.
    let score = |rng: &mut Rng| match rng.below(16) {
        0 if columns > 8 => f32::NEG_INFINITY,
        _ => 5.0 * f32::sample(rng),
    };
    let (matrix, data) = Matrix::new(trial, shape, layout, score)?;
    let x = Input { matrix, data };
    let y = Matrix::<f32>::output(trial, shape, layout)?;
    kiln_kernels::softmax(&x.matrix.part, &mut y.part.slice(0, 0..rows)?)?;
    let maxima: Vec<f64> =
        list(0..rows, |i| (0..columns).map(|j| x.float(i, j)).fold(f64::NEG_INFINITY, f64::max));
    let sums: Vec<f64> = list(0..rows, |i| (0..columns).map(|j| (x.float(i, j) - maxima[i]).exp()).sum());
    y.check(&format!("{rows} × {columns}"), &|i, j| {
        let score = x.float(i, j) - maxima[i];
        let value = score.exp() / sums[i];
        // The difference counts as often as it is large, all terms of the sum are positive.
        let size = if score.is_finite() { score.abs() } else { 0.0 };
        let units = 8.0 + size + units_of_sum(columns);
        (Host::Float(value), F32 * units * value + f64::from(f32::MIN_POSITIVE))
    })
}

fn layer_norm<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let most = few(trial);
    matrices(trial, most, layer_norm_one::<T>)
}

fn large_layer_norm<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let most = many(trial);
    matrices(trial, most, layer_norm_one::<T>)
}

fn layer_norm_one<T: Sample + Float>(trial: &mut Trial<'_>, shape: [usize; 2], layout: Layout) -> Verdict {
    const EPSILON: f32 = 1e-3;
    let [rows, columns] = shape;
    let x = Matrix::<T>::input(trial, shape, layout)?;
    let weight = Matrix::<T>::input(trial, [1, columns], layout)?;
    let bias = Matrix::<T>::input(trial, [1, columns], layout)?;
    let y = Matrix::<T>::output(trial, shape, layout)?;
    kiln_kernels::layer_norm(
        &x.matrix.part,
        &weight.matrix.vector()?,
        &bias.matrix.vector()?,
        &mut y.part.slice(0, 0..rows)?,
        EPSILON,
    )?;
    let moments: Vec<[f64; 2]> = list(0..rows, |i| {
        let mean = (0..columns).map(|j| x.float(i, j)).sum::<f64>() / columns as f64;
        let squares = (0..columns).map(|j| (x.float(i, j) - mean).powi(2)).sum::<f64>();
        [mean, (squares / columns as f64 + f64::from(EPSILON)).sqrt()]
    });
    y.check(&format!("{rows} × {columns}"), &|i, j| {
        let [mean, deviation] = moments[i];
        let (w, b) = (weight.float(0, j), bias.float(0, j));
        let normal = (x.float(i, j) - mean) / deviation;
        let value = normal * w + b;
        // Elements are below 4: so far the mean and each difference may be off, in deviations; it
        // is the same for the root of the sum.
        let units = 8.0 + units_of_sum(columns);
        let inner = F32 * units * (4.0 / deviation) * (1.0 + normal.abs());
        (Host::Float(value), inner * w.abs() + 4.0 * F32 * b.abs() + T::EPSILON * value.abs())
    })
}
