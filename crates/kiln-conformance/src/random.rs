//! Random numbers: the published words of Philox, its uses against the same on the host, and what
//! is true of many of them.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, close, ensure, holds, list};
use kiln_kernels::Create;
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["random":
        published_words;
        words_of_offsets for i32 u32 i64 u64;
        distributions;
        tensors for f16 bf16 f32 f64;
    ]
}

/// Counter, key and result, from the file `kat_vectors` of Random123.
const PUBLISHED: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
    ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
    ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
    (
        [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
        [0xa409_3822, 0x299f_31d0],
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
    ),
];

/// Philox 4x32-10 as the paper defines it.
fn reference(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let first = u64::from(counter[0]) * 0xD251_1F53;
        let second = u64::from(counter[2]) * 0xCD9E_8D57;
        let high = |product: u64| (product >> 32) as u32;
        counter = [
            high(second) ^ counter[1] ^ key[0],
            second as u32,
            high(first) ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

#[kernel(crate = kiln_runtime)]
fn words_in_tiles(x: &Tensor<u32, 2>, y: &mut Tensor<u32, 2>) {
    let word = |i: usize| x.row(i).load(4, 0);
    let words = philox([0, 1, 2, 3].map(word), [4, 5].map(word));
    let at = program_id(0) * 4;
    for (i, word) in words.into_iter().enumerate() {
        y.row(i).tile(at, 4).store(word);
    }
}

#[kernel(crate = kiln_runtime)]
fn words_in_threads(x: &Tensor<u32, 2>, y: &mut Tensor<u32, 2>) {
    let i = thread_index();
    if i.get() < x.extent(1) {
        let word = |row: usize| x.row(row).get(i);
        let words = philox([0, 1, 2, 3].map(word), [4, 5].map(word));
        for (row, word) in words.into_iter().enumerate() {
            y.row(row).set(i, word);
        }
    }
}

fn published_words(trial: &mut Trial<'_>) -> Verdict {
    let mut all: Vec<([u32; 4], [u32; 2])> = PUBLISHED.iter().map(|(c, k, _)| (*c, *k)).collect();
    let mut word = || trial.rng.bits() as u32;
    all.push((std::array::from_fn(|_| word()), std::array::from_fn(|_| word())));
    let of = |row: usize, i: usize| if row < 4 { all[i].0[row] } else { all[i].1[row - 4] };
    let x = trial.device.tensor(&list(0..24, |at| of(at / 4, at % 4)), [6, 4])?;
    let expected = |i: usize| PUBLISHED.get(i).map_or_else(|| reference(all[i].0, all[i].1), |p| p.2);
    let expected = list(0..16, |at| expected(at % 4)[at / 4]);
    let mut y = trial.output([4, 4])?;
    words_in_tiles(&x, &mut y).grid([1; 3]).launch(trial.device)?;
    holds("in tiles", &y, &expected)?;
    let mut y = trial.output([4, 4])?;
    words_in_threads(&x, &mut y).grid([1; 3]).block([32, 1, 1]).launch(trial.device)?;
    holds("in threads", &y, &expected)
}

#[kernel(crate = kiln_runtime)]
fn streams<T: Int>(
    offsets: &Tensor<T, 1>,
    seed: Val<u64>,
    words: &mut Tensor<u32, 2>,
    numbers: &mut Tensor<f32, 2>,
    block: usize,
) {
    let at = program_id(0) * block;
    let offset = offsets.tile(at, block).load(0);
    for (i, word) in randint4x(seed, offset).into_iter().enumerate() {
        words.row(i).tile(at, block).store(word);
    }
    words.row(4).tile(at, block).store(randint(seed, offset));
    numbers.row(0).tile(at, block).store(rand(seed, offset));
    numbers.row(1).tile(at, block).store(randn(seed, offset));
}

/// What the host makes of two words: a uniform number, and one of the normal distribution.
fn uniform_and_normal(words: [u32; 4]) -> [f64; 2] {
    let [first, second] = [words[0], words[1]].map(|w| f64::from(w >> 8) / 16_777_216.0);
    let length = (-2.0 * (first + 1.0 / 16_777_216.0).ln()).sqrt();
    [first, length * (second * std::f64::consts::TAU).cos()]
}

fn words_of_offsets<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    let n = 37;
    let (seed, data) = (trial.rng.bits(), trial.random::<T>(n));
    let offsets = trial.vector(&data)?;
    let (mut words, mut numbers) = (trial.output([5, n])?, trial.output::<f32, 2>([2, n])?);
    streams(&offsets, seed, &mut words, &mut numbers, 32).launch(trial.device)?;
    let of = |i: usize| {
        let offset = match data[i].host() {
            Host::Int(offset) => offset as u64,
            Host::Float(_) => 0,
        };
        // An offset of 32 bits is one word.
        let high = if T::BITS == 64 { (offset >> 32) as u32 } else { 0 };
        reference([offset as u32, high, 0, 0], [seed as u32, (seed >> 32) as u32])
    };
    let expected: Vec<u32> = list(0..5 * n, |at| of(at % n)[at / n % 4]);
    holds("words", &words, &expected)?;
    let expected = list(0..2 * n, |at| Host::Float(uniform_and_normal(of(at % n))[at / n]));
    let got = numbers.to_vec()?;
    close("rand", &got[..n], &expected[..n], 0.0, 0.0)?;
    // The angle is rounded before its cosine is taken.
    close("randn", &got[n..], &expected[n..], 32.0, 1.0)
}

/// Tensors that the library fills.
fn tensors<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let (seed, shape, n) = (trial.rng.bits(), [3, 5, 7], 105);
    let of =
        |i: usize| uniform_and_normal(reference([i as u32, 0, 0, 0], [seed as u32, (seed >> 32) as u32]));
    // What the type holds of a number below 1 without rounding it up, of 24 bits.
    let steps = f64::min(2.0 / T::EPSILON, 16_777_216.0);
    let expected = list(0..n, |i| Host::Float((of(i)[0] * steps).floor() / steps));
    close("rand", &trial.device.rand::<T, 3>(shape, seed)?.to_vec()?, &expected, 0.0, 0.0)?;
    let expected = list(0..n, |i| Host::Float(of(i)[1]));
    let ulps = 32.0 * (f64::from(f32::EPSILON) / T::EPSILON).max(1.0 / 32.0);
    close("randn", &trial.device.randn::<T, 3>(shape, seed)?.to_vec()?, &expected, ulps, 1.0)?;
    ensure(trial.device.rand::<T, 1>([0], seed)?.is_empty(), || "none has elements".into())
}

#[kernel(crate = kiln_runtime)]
fn many(seed: Val<u64>, uniform: &mut Tensor<f32, 1>, normal: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    let offsets = iota::<i64>(block) + at;
    uniform.tile(at, block).store(rand(seed, offsets));
    normal.tile(at, block).store(randn(seed, offsets + (1i64 << 40)));
}

/// Mean, variance, and third and fourth central moments, of which the errors are in standard
/// deviations of an average of so many.
fn distributions(trial: &mut Trial<'_>) -> Verdict {
    let n = 16_384;
    let (mut uniform, mut normal) = (trial.output::<f32, 1>([n])?, trial.output::<f32, 1>([n])?);
    // A seed of its own, not a random one: a sixth of a percent of all would fail.
    many(20_260_801, &mut uniform, &mut normal, 1024).launch(trial.device)?;
    let (uniform, normal) = (uniform.to_vec()?, normal.to_vec()?);
    let inside = uniform.iter().all(|x| (0.0..1.0).contains(x));
    ensure(inside, || "a uniform number is not in 0 .. 1".into())?;
    let average =
        |of: &[f32], f: &dyn Fn(f64) -> f64| of.iter().map(|x| f(f64::from(*x))).sum::<f64>() / n as f64;
    let off = |what: &str, got: f64, mean: f64, deviation: f64| {
        let far = (got - mean).abs() / (deviation / (n as f64).sqrt());
        ensure(far < 4.0, || format!("{what} is {got}, {far} deviations from {mean}"))
    };
    // Of a uniform x: of x the variance is 1/12, of (x - 1/2)² it is 1/180.
    off("the uniform mean", average(&uniform, &|x| x), 0.5, (1.0f64 / 12.0).sqrt())?;
    off(
        "the uniform variance",
        average(&uniform, &|x| (x - 0.5) * (x - 0.5)),
        1.0 / 12.0,
        (1.0f64 / 180.0).sqrt(),
    )?;
    // Of a normal x the variances of x, x², x³ and x⁴ are 1, 2, 15 and 96.
    for (power, mean, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0f64)] {
        let moment = average(&normal, &|x| x.powi(power));
        off(&format!("normal moment {power}"), moment, mean, variance.sqrt())?;
    }
    // Neighbors are independent, and so are bins of a sixteenth.
    let products = uniform.windows(2).map(|x| f64::from(x[0] - 0.5) * f64::from(x[1] - 0.5));
    off("the product of neighbors", products.sum::<f64>() / n as f64, 0.0, 1.0 / 12.0)?;
    let mut bins = [0.0f64; 16];
    uniform.iter().for_each(|x| bins[(x * 16.0) as usize] += 1.0);
    let share = n as f64 / 16.0;
    let chi: f64 = bins.iter().map(|b| (b - share) * (b - share) / share).sum();
    // 15 degrees of freedom: above 44.3 once in 10,000.
    ensure(chi < 44.3, || format!("chi squared of 16 bins is {chi}"))
}
