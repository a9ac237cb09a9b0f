//! Mathematical functions of floats, against `f64` on the host.

use crate::case::{Case, cases};
use crate::elementwise::{Elementwise, check};
use crate::trial::{Trial, Verdict};
use half::{bf16, f16};
use kiln_lang::{Float, Val};
use kiln_reference::{Host, Rng, Sample};
use std::marker::PhantomData;

pub fn cases() -> Vec<Case> {
    cases!["math":
        exponentials for f16 bf16 f32 f64;
        logarithms_and_roots for f16 bf16 f32 f64;
        log1p for f16 bf16 f32 f64;
        trigonometry for f16 bf16 f32 f64;
        rounding for f16 bf16 f32 f64;
        powers for f16 bf16 f32 f64;
        special_values for f16 bf16 f32 f64;
    ]
}

/// Elementary functions may be off by a few units; a 16-bit result is a rounded 32-bit one.
const FEW: f64 = 6.0;

struct Exponentials<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for Exponentials<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["exp", "exp2", "tanh", "sigmoid", "erf"];

    fn device([a, ..]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.exp(), a.exp2(), a.tanh(), a.sigmoid(), a.erf()]
    }

    fn host([a, ..]: [Host; 3]) -> Vec<Host> {
        let x = a.float();
        [x.exp(), x.exp2(), x.tanh(), 1.0 / (1.0 + (-x).exp()), erf(x)].map(Host::Float).to_vec()
    }

    fn special() -> Vec<[T; 3]> {
        [0.0, 1.0, -1.0, 9.5, -9.5, 0.001].map(|x| [T::from_host(Host::Float(x)); 3]).to_vec()
    }

    // In f64 the reference for erf is itself good to a few units only.
    const ULPS: f64 = if T::BITS == 64 { 16.0 } else { FEW };
    const SCALE: f64 = 1e-3;
}

fn exponentials<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<Exponentials<T>>(trial)
}

/// erf by its series of positive terms: `2/√π e^(-x²) Σ 2ⁿ x^(2n+1) / (2n+1)!!` (Abramowitz and
/// Stegun, 7.1.6).
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

struct LogarithmsAndRoots<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for LogarithmsAndRoots<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["log", "log2", "sqrt", "rsqrt", "recip"];

    fn device([a, ..]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.log(), a.log2(), a.sqrt(), a.rsqrt(), a.recip()]
    }

    fn host([a, ..]: [Host; 3]) -> Vec<Host> {
        let x = a.float();
        [x.ln(), x.log2(), x.sqrt(), 1.0 / x.sqrt(), 1.0 / x].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [T::from_host(Host::Float(rng.between(-4.0, 4.0).exp2())); 3]
    }

    const ULPS: f64 = FEW;
    const SCALE: f64 = 0.1;
}

fn logarithms_and_roots<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<LogarithmsAndRoots<T>>(trial)
}

struct Log1p<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for Log1p<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["log1p"];

    fn device([a, ..]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.log1p()]
    }

    fn host([a, ..]: [Host; 3]) -> Vec<Host> {
        vec![Host::Float(a.float().ln_1p())]
    }

    /// From far below the last place of 1 to far above it, and to near -1.
    fn operands(rng: &mut Rng) -> [T; 3] {
        let magnitude = rng.between(-40.0, 12.0).exp2();
        let x = if magnitude < 1.0 && rng.below(2) == 0 { -magnitude } else { magnitude };
        [T::from_host(Host::Float(x)); 3]
    }

    fn special() -> Vec<[T; 3]> {
        let infinite = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let finite = [0.0, -0.0, -1.0, -2.0, 4.0, -0.5, 60000.0];
        finite.into_iter().chain(infinite).map(|x| [T::from_host(Host::Float(x)); 3]).collect()
    }

    // Relative to the smallest results too.
    const ULPS: f64 = FEW;
}

fn log1p<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<Log1p<T>>(trial)
}

struct Trigonometry<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for Trigonometry<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["sin", "cos", "atan2"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.sin(), a.cos(), a.atan2(b)]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, y) = (a.float(), b.float());
        [x.sin(), x.cos(), x.atan2(y)].map(Host::Float).to_vec()
    }

    fn special() -> Vec<[T; 3]> {
        let x = |x: f64| T::from_host(Host::Float(x));
        let large = [(0.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (100.0, -3.0), (-55.5, -2.0)];
        // Quotients of the smallest numbers.
        let small = [(0.0, 1e-45), (1e-45, 1e-45), (-1e-45, 3e-45), (1e-40, -1e-42), (1e-30, 1e-36)];
        large.into_iter().chain(small).map(|(a, b)| [x(a), x(b), x(0.0)]).collect()
    }

    const ULPS: f64 = FEW;
    const SCALE: f64 = 1.0;
}

fn trigonometry<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<Trigonometry<T>>(trial)
}

struct Rounding<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for Rounding<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["floor", "ceil", "round", "trunc"];

    fn device([a, ..]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.floor(), a.ceil(), a.round(), a.trunc()]
    }

    fn host([a, ..]: [Host; 3]) -> Vec<Host> {
        let x = a.float();
        [x.floor(), x.ceil(), x.round_ties_even(), x.trunc()].map(Host::Float).to_vec()
    }

    fn special() -> Vec<[T; 3]> {
        [0.5, 1.5, 2.5, -0.5, -1.5, 0.25, -0.75, 3.0, 1024.0]
            .map(|x| [T::from_host(Host::Float(x)); 3])
            .to_vec()
    }

    const ULPS: f64 = 0.0;
}

fn rounding<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<Rounding<T>>(trial)
}

struct Powers<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for Powers<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["pow", "pow of a constant"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.pow(b), a.pow(2.0)]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, y) = (a.float(), b.float());
        [x.powf(y), x * x].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        let base = T::from_host(Host::Float(rng.between(-2.0, 2.0).exp2()));
        [base, T::sample(rng), base]
    }

    // In f64 the logarithm is one double, so that the error grows with the exponent.
    const ULPS: f64 = if T::BITS == 64 { 512.0 } else { FEW };
    const SCALE: f64 = 1e-3;
}

fn powers<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<Powers<T>>(trial)
}

struct SpecialValues<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for SpecialValues<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] =
        &["exp", "log", "sqrt", "recip", "tanh", "sigmoid", "erf", "abs", "floor", "x - x", "sin"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![
            a.exp(),
            a.log(),
            a.sqrt(),
            a.recip(),
            a.tanh(),
            a.sigmoid(),
            a.erf(),
            a.abs(),
            a.floor(),
            a - b,
            a.sin(),
        ]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, same) = (a.float(), b.float());
        let erf = if x.is_nan() { x } else { erf(x) };
        let sigmoid = 1.0 / (1.0 + (-x).exp());
        [x.exp(), x.ln(), x.sqrt(), 1.0 / x, x.tanh(), sigmoid, erf, x.abs(), x.floor(), x - same, x.sin()]
            .map(Host::Float)
            .to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        let all = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0, -1.0, 1.0];
        [T::from_host(Host::Float(all[rng.below(all.len() as u64) as usize])); 3]
    }

    const ULPS: f64 = FEW;
    const SCALE: f64 = 1.0;
}

fn special_values<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<SpecialValues<T>>(trial)
}
