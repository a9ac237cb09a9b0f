//! Hints: they change no result, and what is assumed is checked.

use crate::case::{Case, cases};
use crate::matrix_units::blocked;
use crate::trial::{Trial, Verdict, ensure, holds, list};
use kiln_lang::prelude::*;
use kiln_runtime::{FaultKind, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["hints":
        caches;
        assumptions;
        false_assumptions;
        unrolled_loops;
        registers_and_stages;
    ]
}

#[kernel(crate = kiln_runtime)]
fn hinted(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    let read = || x.tile(at, block);
    let written = || y.tile(at, block);
    written().l2_only().store(read().evict_first().load(0.0));
    written().evict_last().store(written().l2_only().load(0.0) + read().evict_last().load(0.0));
    written().write_through().store(written().evict_first().load(0.0) + read().l2_only().load(0.0));
}

fn caches(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 1>([1003])?;
    let mut y = trial.output([1003])?;
    hinted(&x, &mut y, 256).launch(trial.device)?;
    holds("the sum", &y, &data.iter().map(|v| v + v + v).collect::<Vec<f32>>())
}

#[kernel(crate = kiln_runtime)]
fn blocks(at: &Tensor<i32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 2>) {
    let program = program_id(0);
    let from = at.get(program).cast::<i64>().multiple_of(4);
    assume(from.ge(0) & from.lt(2000));
    y.row(program).store(x.tile(from, 64).load(-1.0));
}

fn assumptions(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 1>([1003])?;
    let at = [0, 8, 972, 1100];
    let mut y = trial.output([4, 64])?;
    blocks(&trial.vector(&at)?, &x, &mut y).launch(trial.device)?;
    let element = |i: usize| data.get(at[i / 64] as usize + i % 64).copied().unwrap_or(-1.0);
    holds("the blocks", &y, &list(0..256, element))
}

fn false_assumptions(trial: &mut Trial<'_>) -> Verdict {
    let x = trial.input::<f32, 1>([1003])?.0;
    for (at, said) in [(6, "6 is not a multiple of 4"), (-4, "an assumption does not hold")] {
        let at = trial.vector(&[at])?;
        let mut y = trial.device.zeros([1, 64])?;
        blocks(&at, &x, &mut y).launch(trial.device)?;
        let error = trial.device.synchronize().err();
        let kind = error.as_ref().and_then(|e| e.fault()).map(|fault| &fault.kind);
        let expected = FaultKind::Assert { message: said.into() };
        ensure(kind == Some(&expected), || format!("expected {expected:?}, found {error:?}"))?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn sums(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 1>, n: Val<i64>) {
    let mut sum = zeros::<i32>(16);
    for i in range(1, n).unroll(4) {
        sum = sum * 3 + x.row(i).load(16, 0);
    }
    y.tile(0, 16).store(sum);
}

fn unrolled_loops(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<i32, 2>([12, 16])?;
    for n in [0usize, 2, 5, 12] {
        let mut y = trial.output([16])?;
        sums(&x, &mut y, n as i64).launch(trial.device)?;
        let add = |sum: i32, x: i32| sum.wrapping_mul(3).wrapping_add(x);
        let sum = |j| (1..n).fold(0, |sum, i| add(sum, data[16 * i + j]));
        holds(&format!("{n} rows"), &y, &list(0..16, sum))?;
    }
    Ok(())
}

fn registers_and_stages(trial: &mut Trial<'_>) -> Verdict {
    let (a, b): (Vec<f16>, Vec<f16>) = (
        list(0..64 * 80, |i| f16::from_f32((i % 5) as f32)),
        list(0..80 * 32, |i| f16::from_f32((i % 7) as f32)),
    );
    let (a, b) = (trial.device.tensor(&a, [64, 80])?, trial.device.tensor(&b, [80, 32])?);
    let element = |i: usize| (0..80).map(|k| (i / 32 * 80 + k) % 5 * ((k * 32 + i % 32) % 7)).sum::<usize>();
    let expected = list(0..64 * 32, |i| element(i) as f32);
    for stages in [1, 2, 5] {
        let mut c = trial.output([64, 32])?;
        blocked(&a, &b, &mut c, 64, 32, 16).warps(4).max_registers(64).stages(stages).launch(trial.device)?;
        holds(&format!("{stages} stages"), &c, &expected)?;
    }
    Ok(())
}
