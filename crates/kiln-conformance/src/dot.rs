//! Matrix products of tiles.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds_near, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["dot":
        product for i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        of_a_transpose for i32 f16 f32;
        matmul for i32 f16 bf16 f32 f64;
        batches for i32 f16 bf16 f32 f64;
        batches_in_a_loop for i32 f16 f32;
    ]
}

#[kernel(crate = kiln_runtime)]
fn one_tile<T: Accumulate>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T::Acc, 2>) {
    let (x, y) = (a.load((16, 32), 0), b.load((32, 16), 0));
    let product = dot(x, y);
    c.tile((program_id(0) * 16, 0), (16, 16)).store(dot_acc(x, y, product * 2));
}

fn expected<T: Sample>(a: &[T], b: impl Fn(usize, usize) -> T, [m, k, n]: [usize; 3]) -> Vec<Host> {
    let zero = T::small(0).host();
    let element =
        |i: usize, j: usize| (0..k).fold(zero, |t, p| t.add(a[i * k + p].host().mul(b(p, j).host())));
    list(0..m * n, |i| element(i / n, i % n))
}

fn product<T: Sample + Accumulate<Acc: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, k, n] = [13, 29, 15];
    let (a, xs) = trial.input::<T, 2>([m, k])?;
    let (b, ys) = trial.input::<T, 2>([k, n])?;
    let mut c = trial.output::<T::Acc, 2>([m, n])?;
    one_tile(&a, &b, &mut c).grid([1; 3]).launch(trial.device)?;
    let three = T::small(3).host();
    let expected: Vec<Host> =
        expected(&xs, |p, j| ys[p * n + j], [m, k, n]).into_iter().map(|v| v.mul(three)).collect();
    holds_near("3 a b", &c, &expected, 8.0, 64.0)
}

#[kernel(crate = kiln_runtime)]
fn transposed<T: Accumulate>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T::Acc, 2>) {
    let (x, y) = (a.load((16, 16), 0), b.load((32, 16), 0));
    c.tile((program_id(0) * 16, 0), (16, 32)).store(dot(x, y.transpose()));
}

fn of_a_transpose<T: Sample + Accumulate<Acc: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, k, n] = [9, 16, 21];
    let (a, xs) = trial.input::<T, 2>([m, k])?;
    let (b, ys) = trial.input::<T, 2>([n, k])?;
    let mut c = trial.output::<T::Acc, 2>([m, n])?;
    transposed(&a, &b, &mut c).grid([1; 3]).launch(trial.device)?;
    holds_near("a bᵀ", &c, &expected(&xs, |p, j| ys[j * k + p], [m, k, n]), 8.0, 64.0)
}

#[kernel(crate = kiln_runtime)]
fn blocked<T: Accumulate>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<T::Acc, 2>,
    m: usize,
    n: usize,
    k: usize,
) {
    let (row, column) = (program_id(1) * m, program_id(0) * n);
    let mut total = zeros::<T::Acc>((m, n));
    for at in (0..a.extent(1)).step_by(k) {
        total = dot_acc(a.tile((row, at), (m, k)).load(0), b.tile((at, column), (k, n)).load(0), total);
    }
    c.tile((row, column), (m, n)).store(total);
}

fn matmul<T: Sample + Accumulate<Acc: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, k, n] = [37, 41, 53];
    let (a, xs) = trial.input::<T, 2>([m, k])?;
    let (b, ys) = trial.input::<T, 2>([k, n])?;
    let mut c = trial.output::<T::Acc, 2>([m, n])?;
    blocked(&a, &b, &mut c, 16, 32, 16).launch(trial.device)?;
    holds_near("a b", &c, &expected(&xs, |p, j| ys[p * n + j], [m, k, n]), 8.0, 64.0)
}

/// The extents of a batch of products.
#[derive(Clone, Copy, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
struct Batch {
    b: usize,
    m: usize,
    k: usize,
    n: usize,
}

#[kernel(crate = kiln_runtime)]
fn batch<T: Accumulate>(a: &Tensor<T, 3>, b: &Tensor<T, 3>, c: &mut Tensor<T::Acc, 3>, of: Batch) {
    let at = (program_id(0) * of.b, 0, 0);
    let (x, y) = (a.tile(at, (of.b, of.m, of.k)).load(0), b.tile(at, (of.b, of.k, of.n)).load(0));
    let product = dot(x, y);
    c.tile(at, (of.b, of.m, of.n)).store(dot_acc(x, y, product * 2));
}

/// The products of each of a batch, by the host.
fn of_each<T: Sample>(xs: &[T], ys: &[T], [m, k, n]: [usize; 3]) -> Vec<Host> {
    let pairs = xs.chunks(m * k).zip(ys.chunks(k * n));
    pairs.flat_map(|(a, b)| expected(a, |p, j| b[p * n + j], [m, k, n])).collect()
}

fn batches<T: Sample + Accumulate<Acc: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let shapes = [
        (4, [16, 16, 32], [13, 15, 29], 7),
        (1, [16, 16, 16], [16, 9, 16], 2),
        (3, [16, 8, 16], [11, 8, 16], 3),
    ];
    for (b, [m, n, k], extents, count) in shapes {
        let [em, en, ek] = extents;
        let (a, xs) = trial.input::<T, 3>([count, em, ek])?;
        let (other, ys) = trial.input::<T, 3>([count, ek, en])?;
        let mut c = trial.output::<T::Acc, 3>([count, em, en])?;
        batch(&a, &other, &mut c, Batch { b, m, k, n }).launch(trial.device)?;
        let three = T::small(3).host();
        let products = of_each(&xs, &ys, [em, ek, en]).into_iter().map(|v| v.mul(three));
        holds_near(&format!("3 a b, {b} at a time"), &c, &products.collect::<Vec<_>>(), 8.0, 64.0)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn batch_blocked<T: Accumulate>(a: &Tensor<T, 3>, b: &Tensor<T, 3>, c: &mut Tensor<T::Acc, 3>, of: Batch) {
    let (first, row) = (program_id(1) * of.b, program_id(0) * of.m);
    let mut total = zeros::<T::Acc>((of.b, of.m, of.n));
    for at in (0..a.extent(2)).step_by(of.k) {
        let x = a.tile((first, row, at), (of.b, of.m, of.k)).load(0);
        total = dot_acc(x, b.tile((first, at, 0), (of.b, of.k, of.n)).load(0), total);
    }
    c.tile((first, row, 0), (of.b, of.m, of.n)).store(total);
}

fn batches_in_a_loop<T: Sample + Accumulate<Acc: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let (count, [m, k, n]) = (5, [35, 41, 13]);
    let (a, xs) = trial.input::<T, 3>([count, m, k])?;
    let (b, ys) = trial.input::<T, 3>([count, k, n])?;
    let mut c = trial.output::<T::Acc, 3>([count, m, n])?;
    batch_blocked(&a, &b, &mut c, Batch { b: 2, m: 16, k: 16, n: 16 }).launch(trial.device)?;
    holds_near("a b", &c, &of_each(&xs, &ys, [m, k, n]), 8.0, 64.0)
}
