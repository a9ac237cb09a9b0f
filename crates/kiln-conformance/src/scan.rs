//! Running combinations along an axis.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds_near, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["scan":
        sums for i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        products for i32 u32 f32 f64;
        least_and_greatest for i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        along_columns for i32 f32;
        one_long_row for i32 f64;
    ]
}

#[kernel(crate = kiln_runtime)]
fn scans<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 3>, op: Op, padding: Val<T>, block: usize) {
    let p = program_id(0);
    let v = x.row(p).load(block, padding);
    let op = op.combine();
    let results = [
        v.scan_axis(op, 0),
        v.scan_axis_exclusive(op, 0),
        v.scan_axis_reverse(op, 0),
        v.scan_axis_reverse_exclusive(op, 0),
    ];
    for (k, r) in results.into_iter().enumerate() {
        y.row(p).row(k).store(r);
    }
}

/// Which combination; a constant of the specialization.
#[derive(Clone, Copy, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
enum Op {
    Sum,
    Prod,
    Min,
    Max,
}

impl Op {
    fn combine(self) -> Combine {
        match self {
            Op::Sum => Combine::Sum,
            Op::Prod => Combine::Prod,
            Op::Min => Combine::Min,
            Op::Max => Combine::Max,
        }
    }

    /// The value that changes nothing, and the combination.
    fn reference<T: Sample>(self) -> (Host, fn(Host, Host) -> Host) {
        let far = |x: f64, n: i128| if T::EPSILON > 0.0 { Host::Float(x) } else { Host::Int(n) };
        let signed = T::small(-1).host().less(T::small(0).host());
        let top = (1i128 << (T::BITS - u32::from(signed))) - 1;
        let bottom = if signed { -top - 1 } else { 0 };
        match self {
            Op::Sum => (T::small(0).host(), Host::add),
            Op::Prod => (T::small(1).host(), Host::mul),
            Op::Min => (far(f64::INFINITY, top), Host::min),
            Op::Max => (far(f64::NEG_INFINITY, bottom), Host::max),
        }
    }
}

fn run<T: Sample + Num>(trial: &mut Trial<'_>, op: Op, data: &[T], n: usize, scale: f64) -> Verdict {
    let m = data.len() / n;
    let x = trial.device.tensor(data, [m, n])?;
    let mut y = trial.output::<T, 3>([m, 4, n])?;
    let (identity, combine) = op.reference::<T>();
    scans(&x, &mut y, op, T::from_host(identity), n.next_power_of_two())
        .grid([m as u32, 1, 1])
        .launch(trial.device)?;
    let mut expected = Vec::new();
    for row in data.chunks(n) {
        let row: Vec<Host> = row.iter().map(|v| v.host()).collect();
        let running = |values: &mut dyn Iterator<Item = Host>| {
            let mut before = Vec::new();
            let mut total = identity;
            for v in values {
                before.push(total);
                total = wrap::<T>(combine(total, v));
            }
            before.push(total);
            before
        };
        let forward = running(&mut row.iter().copied());
        let mut backward = running(&mut row.iter().rev().copied());
        backward.reverse();
        expected.extend_from_slice(&forward[1..]);
        expected.extend_from_slice(&forward[..n]);
        expected.extend_from_slice(&backward[..n]);
        expected.extend_from_slice(&backward[1..]);
    }
    holds_near("forward, exclusive, reverse, reverse exclusive", &y, &expected, 8.0, scale)
}

fn wrap<T: Sample>(value: Host) -> Host {
    match value {
        Host::Int(_) => T::from_host(value).host(),
        float => float,
    }
}

fn sums<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let data = trial.random::<T>(3 * 57);
    run(trial, Op::Sum, &data, 57, if T::BITS == 16 { 16.0 } else { 128.0 })
}

fn products<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let near_one = |rng: &mut kiln_reference::Rng| T::from_host(Host::Float(rng.between(0.7, 1.4)));
    let data: Vec<T> = match T::EPSILON > 0.0 {
        true => list(0..93, |_| near_one(&mut trial.rng)),
        false => trial.random(93),
    };
    run(trial, Op::Prod, &data, 31, 1.0)
}

fn least_and_greatest<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let data = trial.random::<T>(2 * 45);
    run(trial, Op::Min, &data, 45, 0.0)?;
    run(trial, Op::Max, &data, 45, 0.0)
}

fn one_long_row<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let data = trial.random::<T>(1999);
    // The order of additions is the device's, so an error is relative to the sum of magnitudes.
    run(trial, Op::Sum, &data, 1999, 4096.0)
}

#[kernel(crate = kiln_runtime)]
fn down<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    let at = (0, program_id(0) * 16);
    y.tile(at, (16, 16)).store(x.tile(at, (16, 16)).load(0).cumsum(0));
}

fn along_columns<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let (m, n) = (14, 37);
    let (x, data) = trial.input::<T, 2>([m, n])?;
    let mut y = trial.output::<T, 2>([m, n])?;
    down(&x, &mut y).launch(trial.device)?;
    let total = |i: usize, j: usize| (0..=i).fold(T::small(0).host(), |t, k| t.add(data[k * n + j].host()));
    let expected: Vec<Host> = list(0..m * n, |i| total(i / n, i % n));
    holds_near("running sums of columns", &y, &expected, 8.0, 16.0)
}
