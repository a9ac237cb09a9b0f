//! Making tiles and changing their shape.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["shapes":
        reshape_and_transpose for u16 bool i32 u64 f16 bf16 f32 f64;
        permute for i32 f16 f32 f64;
        broadcast for i32 u32 i64 u64 f16 bf16 f32 f64;
        iota_and_full for i16 u8 i32 u32 i64 u64 f16 bf16 f32 f64;
        scalars_stretch;
    ]
}

#[kernel(crate = kiln_runtime)]
fn reshaped<T: Elem>(
    x: &Tensor<T, 2>,
    t: &mut Tensor<T, 2>,
    flat: &mut Tensor<T, 1>,
    odd: &mut Tensor<T, 2>,
) {
    let v = x.load((8, 16), x.get((0, 0)));
    t.tile((program_id(0) * 16, 0), (16, 8)).store(v.transpose());
    flat.tile(program_id(0) * 128, 128).store(v.reshape(128));
    odd.tile((program_id(0) * 4, 0), (4, 32)).store(v.transpose().reshape((4, 32)));
}

fn reshape_and_transpose<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 2>([8, 16])?;
    let (mut t, mut flat, mut odd) = (trial.output([16, 8])?, trial.output([128])?, trial.output([4, 32])?);
    reshaped(&x, &mut t, &mut flat, &mut odd).grid([1; 3]).launch(trial.device)?;
    let transposed: Vec<T> = list(0..128, |i| data[i % 8 * 16 + i / 8]);
    holds("transpose", &t, &transposed)?;
    holds("reshape", &flat, &data)?;
    holds("transpose, then reshape", &odd, &transposed)
}

#[kernel(crate = kiln_runtime)]
fn permuted<T: Elem>(x: &Tensor<T, 3>, y: &mut Tensor<T, 3>, z: &mut Tensor<T, 3>) {
    let v = x.load([2, 4, 8], x.get((0, 0, 0)));
    y.tile((program_id(0) * 8, 0, 0), [8, 2, 4]).store(v.permute([2, 0, 1]));
    z.tile((program_id(0) * 4, 0, 0), [4, 2, 8]).store(v.permute([1, 0, 2]));
}

fn permute<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 3>([2, 4, 8])?;
    let (mut y, mut z) = (trial.output([8, 2, 4])?, trial.output([4, 2, 8])?);
    permuted(&x, &mut y, &mut z).grid([1; 3]).launch(trial.device)?;
    let at = |a: usize, b: usize, c: usize| data[(a * 4 + b) * 8 + c];
    let by_last: Vec<T> = list(0..64, |i| at(i / 4 % 2, i % 4, i / 8));
    let by_middle: Vec<T> = list(0..64, |i| at(i / 8 % 2, i / 16, i % 8));
    holds("axes 2, 0, 1", &y, &by_last)?;
    holds("axes 1, 0, 2", &z, &by_middle)
}

#[kernel(crate = kiln_runtime)]
fn outer<T: Num>(x: &Tensor<T, 1>, y: &Tensor<T, 1>, sum: &mut Tensor<T, 2>, rows: &mut Tensor<T, 2>) {
    let (a, b) = (x.load(8, 0), y.load(16, 0));
    let at = (program_id(0) * 8, 0);
    sum.tile(at, (8, 16)).store(a.expand(1) - b.expand(0));
    rows.tile(at, (8, 16)).store(b.broadcast_to((8, 16)));
}

fn broadcast<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let (x, xs) = trial.input::<T, 1>([5])?;
    let (y, ys) = trial.input::<T, 1>([11])?;
    let (mut sum, mut rows) = (trial.output([5, 11])?, trial.output([5, 11])?);
    outer(&x, &y, &mut sum, &mut rows).grid([1; 3]).launch(trial.device)?;
    let difference = |i: usize| T::from_host(xs[i / 11].host().sub(ys[i % 11].host()));
    holds("column - row", &sum, &list(0..55, difference))?;
    holds("a row repeats", &rows, &list(0..55, |i| ys[i % 11]))
}

#[kernel(crate = kiln_runtime)]
fn made<T: Num>(count: &mut Tensor<T, 1>, same: &mut Tensor<T, 2>, none: &mut Tensor<bool, 1>, block: usize) {
    let at = program_id(0) * block;
    count.tile(at, block).store(iota::<T>(block) + at.cast::<T>());
    same.tile((0, at), (2, block)).store(full((2, block), 7));
    none.tile(at, block).store(zeros::<bool>(block));
}

fn iota_and_full<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let n = 101;
    let (mut count, mut sevens) = (trial.output::<T, 1>([n])?, trial.output::<T, 2>([2, n])?);
    let mut none = trial.output([n])?;
    made(&mut count, &mut sevens, &mut none, 32).launch(trial.device)?;
    holds("iota", &count, &list(0..n as i32, T::small))?;
    holds("full", &sevens, &vec![T::small(7); 2 * n])?;
    holds("false", &none, &vec![false; n])
}

#[kernel(crate = kiln_runtime)]
fn stretched(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, factor: Val<f32>, block: usize) {
    let at = program_id(0) * block;
    let mut total: Val<f32> = 0.5;
    total += x.get(0);
    y.tile(at, block).store(total);
    let v = y.tile(at, block).load(0.0);
    y.tile(at, block).store(v * factor + x.tile(at, block).load(0.0));
}

fn scalars_stretch(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 1>([45])?;
    let mut y = trial.output([45])?;
    stretched(&x, &mut y, 2.0, 16).launch(trial.device)?;
    let expected: Vec<f32> = data.iter().map(|v| (0.5 + data[0]) * 2.0 + v).collect();
    holds("a scalar fills a tile", &y, &expected)
}
