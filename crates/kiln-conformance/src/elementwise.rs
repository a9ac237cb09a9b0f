//! How operations on each element are tested: one definition runs on tiles and in threads, and is
//! compared with the host.

use crate::trial::{Trial, Verdict, close, list};
use kiln_ir::Scalar;
use kiln_lang::param::{ArgSink, KernelParam, ParamDecl, SpecKey};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Rng, Sample};
use kiln_runtime::Tensor;

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

/// Operations on the device: a host constant of the kernels, which so are compiled for the types of
/// elements alone, and not for each of the definitions, of which there are many more.
#[derive(Clone, Copy)]
struct Operations<T, U>(fn([Val<T>; 3]) -> Vec<Val<U>>);

impl<T: Elem, U: Elem> Operations<T, U> {
    fn of(self, operands: [Val<T>; 3]) -> Vec<Val<U>> {
        (self.0)(operands)
    }
}

impl<T: Elem, U: Elem> KernelParam for Operations<T, U> {
    type Arg = Self;
    type Traced = Self;

    /// Functions at the same address are the same code, which records the same kernel.
    fn key(arg: &Self, key: &mut SpecKey) {
        key.word(arg.0 as usize as u64);
    }

    fn declare(arg: &Self, _: &'static str, _: &mut ParamDecl) -> Self {
        *arg
    }

    fn pack(_: &Self, _: &mut dyn ArgSink) {}
}

#[kernel(crate = kiln_runtime)]
fn on_tiles<T: Elem, U: Elem>(
    a: &Tensor<T, 1>,
    b: &Tensor<T, 1>,
    c: &Tensor<T, 1>,
    y: &mut Tensor<U, 2>,
    operations: Operations<T, U>,
    block: usize,
) {
    let at = program_id(0) * block;
    // Padding is an element too, so that no lane divides by zero.
    let results = operations.of([
        a.tile(at, block).load(a.get(0)),
        b.tile(at, block).load(b.get(0)),
        c.tile(at, block).load(c.get(0)),
    ]);
    for (row, result) in results.into_iter().enumerate() {
        y.row(row).tile(at, block).store(result);
    }
}

#[kernel(crate = kiln_runtime)]
fn in_threads<T: Elem, U: Elem>(
    a: &Tensor<T, 1>,
    b: &Tensor<T, 1>,
    c: &Tensor<T, 1>,
    y: &mut Tensor<U, 2>,
    operations: Operations<T, U>,
) {
    let i = thread_index();
    if i.get() < a.extent(0) {
        let results = operations.of([a.get(i), b.get(i), c.get(i)]);
        for (row, result) in results.into_iter().enumerate() {
            y.row(row).set(i, result);
        }
    }
}

/// Runs the operations at both levels on as many elements as fill no block.
pub fn check<E: Elementwise>(trial: &mut Trial<'_>) -> Verdict {
    let definition = Definition {
        names: E::NAMES,
        device: Operations(E::device),
        host: E::host,
        operands: E::operands,
        near: (E::ULPS, E::SCALE),
    };
    definition.check(trial, E::special())
}

/// An [`Elementwise`] as values. What follows is generic over types alone.
struct Definition<T, U> {
    names: &'static [&'static str],
    device: Operations<T, U>,
    host: fn([Host; 3]) -> Vec<Host>,
    operands: fn(&mut Rng) -> [T; 3],
    near: (f64, f64),
}

impl<T: Sample, U: Sample> Definition<T, U> {
    fn check(&self, trial: &mut Trial<'_>, mut samples: Vec<[T; 3]>) -> Verdict {
        for _ in 0..203 {
            samples.push((self.operands)(&mut trial.rng));
        }
        if !trial.device.capabilities().subnormals && matches!(T::SCALAR, Scalar::F32 | Scalar::BF16) {
            // Such a device may take some of them for zeros.
            let is_subnormal = |x: &T| {
                let size = x.host().float().abs();
                size > 0.0 && size < f32::MIN_POSITIVE.into()
            };
            samples.retain(|sample| !sample.iter().any(is_subnormal));
        }
        let n = samples.len();
        let host = list(0..n, |i| (self.host)(samples[i].map(Sample::host)));
        let column = |k: usize| trial.vector(&list(0..n, |i| samples[i][k]));
        let (a, b, c) = (column(0)?, column(1)?, column(2)?);
        let mut y = trial.output([self.names.len(), n])?;
        on_tiles(&a, &b, &c, &mut y, self.device, 64).launch(trial.device)?;
        self.compare("on tiles", &y, &host)?;
        let mut y = trial.output([self.names.len(), n])?;
        let threads = in_threads(&a, &b, &c, &mut y, self.device);
        threads.grid([n.div_ceil(32)]).block([32]).launch(trial.device)?;
        self.compare("in threads", &y, &host)
    }

    /// Compares results, of which each has a name.
    fn compare(&self, level: &str, y: &Tensor<U, 2>, host: &[Vec<Host>]) -> Verdict {
        let (got, n) = (y.to_vec()?, host.len());
        for (row, name) in self.names.iter().enumerate() {
            let expected = list(0..n, |i| host[i][row]);
            close(&format!("{name} {level}"), &got[row * n..][..n], &expected, self.near.0, self.near.1)?;
        }
        Ok(())
    }
}
