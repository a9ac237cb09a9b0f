//! Numbers of four bits, two to a byte or eight to a word.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, holds_near, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["four_bits":
        bytes for f16 bf16 f32 f64;
        words for f16 f32;
        of_threads;
        rounded for f16 bf16 f32 f64;
        packed_integers;
        scaled_products;
    ]
}

/// What the codes of e2m1 without their sign stand for.
const E2M1: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

fn int4(code: u32) -> f64 {
    f64::from(if code < 8 { code as i32 } else { code as i32 - 16 })
}

fn e2m1(code: u32) -> f64 {
    let magnitude = E2M1[(code & 7) as usize];
    if code < 8 { magnitude } else { -magnitude }
}

#[kernel(crate = kiln_runtime)]
fn from_bytes<T: Float>(x: &Tensor<u8, 1>, y: &mut Tensor<T, 2>, block: usize) {
    let p = program_id(0);
    let packed = x.tile(p * block, block).load(0x21);
    let at = p * block * 2;
    y.row(0).tile(at, 2 * block).store(packed.unpack_int4::<T>());
    y.row(1).tile(at, 2 * block).store(packed.unpack_uint4::<T>());
    y.row(2).tile(at, 2 * block).store(packed.unpack_e2m1::<T>());
}

fn bytes<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for (n, block) in [(256, 64), (77, 16), (5, 12), (0, 8)] {
        let data: Vec<u8> = list(0..n, |i| if n == 256 { i as u8 } else { trial.rng.below(256) as u8 });
        let x = trial.vector(&data)?;
        let mut y = trial.output::<T, 2>([3, 2 * n])?;
        from_bytes(&x, &mut y, block).grid([n.div_ceil(block)]).launch(trial.device)?;
        let code = |i: usize| u32::from(data[i / 2]) >> (i % 2 * 4) & 15;
        let kinds: [fn(u32) -> f64; 3] = [int4, f64::from, e2m1];
        let expected = kinds.iter().flat_map(|of| (0..2 * n).map(move |i| Host::Float(of(code(i)))));
        holds_near(&format!("{n} bytes"), &y, &expected.collect::<Vec<_>>(), 0.0, 0.0)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn from_words<T: Float>(x: &Tensor<u32, 2>, y: &mut Tensor<T, 2>, rows: usize, columns: usize) {
    let at = program_id(0) * rows;
    let packed = x.tile((at, 0), (rows, columns)).load(0);
    let both = packed.unpack_int4::<T>() * 100 + packed.unpack_e2m1::<T>();
    y.tile((at, 0), (rows, 8 * columns)).store(both);
}

fn words<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let (rows, columns) = (13, 3);
    let (x, data) = trial.input::<u32, 2>([rows, columns])?;
    let mut y = trial.output::<T, 2>([rows, 8 * columns])?;
    from_words(&x, &mut y, 4, 4).launch(trial.device)?;
    let element = |i: usize| {
        let code = data[i / 8] >> (i % 8 * 4) & 15;
        Host::Float(int4(code) * 100.0 + e2m1(code))
    };
    holds_near("eight to a word", &y, &list(0..rows * columns * 8, element), 1.0, 0.0)
}

#[kernel(crate = kiln_runtime)]
fn each_thread(x: &Tensor<u32, 1>, y: &mut Tensor<f32, 1>, z: &mut Tensor<u32, 1>) {
    let i = thread_index();
    if i < y.extent(0) {
        let code = x.get(i / 8) >> (i % 8 * 4).cast::<u32>();
        let value = code.low_e2m1::<f32>();
        y.set(i, value + code.low_int4::<f32>() * 16.0);
        z.set(i, value.to_e2m1());
    }
}

fn of_threads(trial: &mut Trial<'_>) -> Verdict {
    let n = 83;
    let (x, data) = trial.input::<u32, 1>([11])?;
    let (mut y, mut z) = (trial.output::<f32, 1>([n])?, trial.output::<u32, 1>([n])?);
    each_thread(&x, &mut y, &mut z).grid([3]).block([32]).launch(trial.device)?;
    let codes: Vec<u32> = list(0..n, |i| data[i / 8] >> (i % 8 * 4) & 15);
    let values: Vec<f32> = codes.iter().map(|&code| (e2m1(code) + int4(code) * 16.0) as f32).collect();
    holds("values", &y, &values)?;
    holds("codes again", &z, &codes)
}

#[kernel(crate = kiln_runtime)]
fn to_e2m1<T: Float>(x: &Tensor<T, 1>, y: &mut Tensor<u8, 1>, block: usize) {
    let p = program_id(0);
    y.tile(p * block, block).store(x.tile(p * block * 2, 2 * block).load(0).to_e2m1().pack_four_bits());
}

/// The code of the nearest number, by looking at all; ties go to the even code.
fn nearest(x: f64) -> u8 {
    if x.is_nan() {
        return 7;
    }
    let distance = |code: u8| (E2M1[code as usize] - x.abs().min(6.0)).abs();
    let best = (0..8u8).min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2))));
    best.unwrap_or(0) | if x.is_sign_negative() { 8 } else { 0 }
}

fn rounded<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let special =
        [0.0, -0.0, 0.25, 0.75, -1.25, 1.75, 2.5, -3.5, 5.0, 7.0, f64::NAN, f64::INFINITY, -1e4, 1e-7];
    let mut data: Vec<T> = special.iter().map(|&x| T::from_host(Host::Float(x))).collect();
    data.extend(trial.random::<T>(120));
    data.extend(list(0..64, |i| T::from_host(Host::Float(f64::from(i - 32) / 8.0))));
    let x = trial.vector(&data)?;
    let mut y = trial.output::<u8, 1>([data.len() / 2])?;
    to_e2m1(&x, &mut y, 32).grid([data.len().div_ceil(64)]).launch(trial.device)?;
    let codes: Vec<u8> = data.iter().map(|x| nearest(x.host().float())).collect();
    let expected: Vec<u8> = codes.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect();
    holds("codes", &y, &expected)
}

#[kernel(crate = kiln_runtime)]
fn to_integers(x: &Tensor<i32, 2>, y: &mut Tensor<u8, 2>, z: &mut Tensor<u8, 2>, shape: [usize; 2]) {
    let [rows, columns] = shape;
    let at = program_id(0) * rows;
    let v = x.tile((at, 0), (rows, columns)).load(0);
    y.tile((at, 0), (rows, columns / 2)).store(v.to_int4().pack_four_bits());
    z.tile((at, 0), (rows, columns / 2)).store(v.to_uint4().pack_four_bits());
}

fn packed_integers(trial: &mut Trial<'_>) -> Verdict {
    let (rows, columns) = (7, 22);
    let mut data: Vec<i32> = list(0..rows * columns, |_| trial.rng.below(40) as i32 - 20);
    (data[0], data[1]) = (i32::MIN, i32::MAX);
    let x = trial.device.tensor(&data, [rows, columns])?;
    let (mut y, mut z) = (trial.output([rows, columns / 2])?, trial.output([rows, columns / 2])?);
    to_integers(&x, &mut y, &mut z, [4, 32]).launch(trial.device)?;
    let bytes = |of: fn(i32) -> i32| -> Vec<u8> {
        data.chunks(2).map(|pair| (of(pair[0]) & 15 | (of(pair[1]) & 15) << 4) as u8).collect()
    };
    holds("signed", &y, &bytes(|v| v.clamp(-8, 7)))?;
    holds("unsigned", &z, &bytes(|v| v.clamp(0, 15)))
}

/// The product of all of a left factor of e4m3 and a right one of e2m1, on top of what is there.
#[kernel(crate = kiln_runtime)]
fn scaled(a: &Tensor<E4M3, 2>, b: &Tensor<u8, 2>, scales: &Tensor<u8, 2>, y: &mut Tensor<f32, 2>, m: usize) {
    let (n, k) = (24, 96);
    let left = a.tile((0, 0), (m, k)).load(a.get((0, 0)));
    let right = b.tile((0, 0), (k / 2, n)).load(0);
    let [rows, columns] = [(0, m), (m, n)].map(|(at, count)| scales.tile((at, 0), (count, k / 32)).load(0));
    let sums = y.tile((0, 0), (m, n)).load(0.0);
    y.tile((0, 0), (m, n)).store(dot_scaled(left, rows, right, columns, sums));
}

/// Against sums of f64: the general dot product of the specification of MX, version 1.0.
fn scaled_products(trial: &mut Trial<'_>) -> Verdict {
    for m in [16usize, 5] {
        let (n, k) = (24, 96);
        let (a, left) = trial.input::<E4M3, 2>([m, k])?;
        let (b, right) = trial.input::<u8, 2>([k / 2, n])?;
        let mut codes: Vec<u8> = list(0..(m + n) * k / 32, |_| 120 + trial.rng.below(14) as u8);
        // No number: so is all of the first row.
        codes[1] = 255;
        let scales = trial.device.tensor(&codes, [m + n, k / 32])?;
        let mut y = trial.device.tensor(&vec![1.5; m * n], [m, n])?;
        scaled(&a, &b, &scales, &mut y, m).grid([1]).launch(trial.device)?;
        let power = |row: usize, l: usize| match codes[row * (k / 32) + l / 32] {
            255 => f64::NAN,
            code => f64::from(i32::from(code) - 127).exp2(),
        };
        let term = |at: usize, l: usize| {
            let (i, j) = (at / n, at % n);
            let byte = u32::from(right[l / 2 * n + j]);
            let factors = left[i * k + l].host().float() * e2m1(byte >> (l % 2 * 4) & 15);
            factors * power(i, l) * power(m + j, l)
        };
        let sum = |at: usize| (0..k).fold(1.5, |sum, l| sum + term(at, l));
        let size = |at: usize| (0..k).fold(1.5, |sum, l| sum + term(at, l).abs());
        let largest = (0..m * n).map(size).fold(0.0, f64::max);
        holds_near("a product", &y, &list(0..m * n, |at| Host::Float(sum(at))), 16.0, largest)?;
    }
    Ok(())
}
