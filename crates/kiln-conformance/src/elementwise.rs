//! How operations on each element are tested: one definition runs on tiles and in threads, and is
//! compared with the host.

use crate::trial::{Trial, Verdict, close};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Rng, Sample};
use kiln_runtime::{Device, Result, Tensor};

/// A few operations with up to three operands of one type and results of another.
pub trait Elementwise: 'static {
    /// The operands' type.
    type In: Sample;
    /// The results' type.
    type Out: Sample;

    /// The results' names.
    const NAMES: &'static [&'static str];

    /// The operations, on the device.
    fn device(operands: [Val<Self::In>; 3]) -> Vec<Val<Self::Out>>;

    /// The operations, on the host.
    fn host(operands: [Host; 3]) -> Vec<Host>;

    /// Operands that the operations are defined for.
    fn operands(rng: &mut Rng) -> [Self::In; 3] {
        [(); 3].map(|()| Self::In::sample(rng))
    }

    /// Operands that must be tried beside random ones.
    fn special() -> Vec<[Self::In; 3]> {
        Vec::new()
    }

    /// By how many units in the last place a result may be off, and the least magnitude for which
    /// this is relative.
    const ULPS: f64 = 1.0;
    /// See [`ULPS`](Self::ULPS).
    const SCALE: f64 = 0.0;
}

#[kernel(crate = kiln_runtime)]
fn on_tiles<E: Elementwise>(
    a: &Tensor<E::In, 1>,
    b: &Tensor<E::In, 1>,
    c: &Tensor<E::In, 1>,
    y: &mut Tensor<E::Out, 2>,
    block: usize,
) {
    let at = program_id(0) * block;
    // Padding is an element too, so that no lane divides by zero.
    let results = E::device([
        a.tile(at, block).load(a.get(0)),
        b.tile(at, block).load(b.get(0)),
        c.tile(at, block).load(c.get(0)),
    ]);
    for (row, result) in results.into_iter().enumerate() {
        y.row(row).tile(at, block).store(result);
    }
}

#[kernel(crate = kiln_runtime)]
fn in_threads<E: Elementwise>(
    a: &Tensor<E::In, 1>,
    b: &Tensor<E::In, 1>,
    c: &Tensor<E::In, 1>,
    y: &mut Tensor<E::Out, 2>,
) {
    let i = thread_index();
    if i.get() < a.extent(0) {
        let results = E::device([a.get(i), b.get(i), c.get(i)]);
        for (row, result) in results.into_iter().enumerate() {
            y.row(row).set(i, result);
        }
    }
}

/// Runs the operations at both levels on as many elements as fill no block.
pub fn check<E: Elementwise>(trial: &mut Trial<'_>) -> Verdict {
    let launches: [Launch<E::In, E::Out>; 2] = [
        ("on tiles", |[a, b, c], y, device| on_tiles::<E>(a, b, c, y, 64).launch(device)),
        ("in threads", |[a, b, c], y, device| {
            let grid = [a.shape()[0].div_ceil(32) as u32, 1, 1];
            in_threads::<E>(a, b, c, y).grid(grid).block([32, 1, 1]).launch(device)
        }),
    ];
    let mut operands = E::special();
    operands.extend((0..203).map(|_| E::operands(&mut trial.rng)));
    let host: Vec<Vec<Host>> = operands.iter().map(|o| E::host(o.map(Sample::host))).collect();
    compare(trial, &operands, launches, (E::NAMES, &host), (E::ULPS, E::SCALE))
}

/// A level, and how a kernel is launched at it.
type Launch<T, U> = (&'static str, fn([&Tensor<T, 1>; 3], &mut Tensor<U, 2>, &Device) -> Result<()>);

/// Launches kernels on some operands and compares their results, of which each has a name. Generic
/// over types alone, not over operations, of which there are many more.
fn compare<T: Sample, U: Sample>(
    trial: &Trial<'_>,
    operands: &[[T; 3]],
    launches: [Launch<T, U>; 2],
    (names, host): (&[&str], &[Vec<Host>]),
    (ulps, scale): (f64, f64),
) -> Verdict {
    let n = operands.len();
    let [a, b, c] = [0, 1, 2].map(|i| operands.iter().map(|o| o[i]).collect::<Vec<_>>());
    let (a, b, c) = (trial.vector(&a)?, trial.vector(&b)?, trial.vector(&c)?);
    for (level, launch) in launches {
        let mut y = trial.output::<U, 2>([names.len(), n])?;
        launch([&a, &b, &c], &mut y, trial.device)?;
        let got = y.to_vec()?;
        for (row, name) in names.iter().enumerate() {
            let expected: Vec<Host> = host.iter().map(|h| h[row]).collect();
            close(&format!("{name} {level}"), &got[row * n..][..n], &expected, ulps, scale)?;
        }
    }
    Ok(())
}
