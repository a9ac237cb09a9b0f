//! Functions that the language makes of operations, against `f64` and integers on the host.

use crate::case::{Case, cases};
use crate::elementwise::{Elementwise, check};
use crate::trial::{Trial, Verdict};
use half::{bf16, f16};
use kiln_lang::{Float, Int, Val};
use kiln_reference::{Host, Rng, Sample};
use std::marker::PhantomData;

pub fn cases() -> Vec<Case> {
    cases!["functions":
        hyperbolic for f16 bf16 f32 f64;
        inverse_hyperbolic for f16 bf16 f32 f64;
        angles for f16 bf16 f32 f64;
        roots_and_powers for f16 bf16 f32 f64;
        classes for f16 bf16 f32 f64;
        of_bits for i8 u8 i16 u16 i32 u32 i64 u64;
    ]
}

/// A result is rounded after two or three functions that are off by a few units each.
const SEVERAL: f64 = 10.0;

const EXCEPTIONAL: [f64; 5] = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

fn triples<T: Sample>(values: impl IntoIterator<Item = f64>) -> Vec<[T; 3]> {
    values.into_iter().map(|x| [T::from_host(Host::Float(x)); 3]).collect()
}

/// A number of either sign and of any magnitude between two powers of two.
fn magnitude<T: Sample>(rng: &mut Rng, from: f64, to: f64) -> T {
    let x = rng.between(from, to).exp2();
    T::from_host(Host::Float(if rng.below(2) == 0 { -x } else { x }))
}

struct Hyperbolic<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for Hyperbolic<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["expm1", "sinh", "cosh", "asinh"];

    fn device([a, ..]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.expm1(), a.sinh(), a.cosh(), a.asinh()]
    }

    fn host([a, ..]: [Host; 3]) -> Vec<Host> {
        let x = a.float();
        // `f64::asinh` of the standard library loses digits of negative and of large numbers.
        let asinh = x.abs().min(1e150);
        let asinh = (asinh + asinh * asinh / (1.0 + (asinh * asinh + 1.0).sqrt())).ln_1p().copysign(x);
        let asinh = if x.is_finite() { asinh } else { x };
        [x.exp_m1(), x.sinh(), x.cosh(), asinh].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [magnitude(rng, -30.0, 6.4); 3]
    }

    fn special() -> Vec<[T; 3]> {
        // Where a function of f32 is finite and e^x is not, and near where formulas change.
        triples(EXCEPTIONAL.into_iter().chain([1.0, -1.0, 19.9, -20.1, 89.2, -89.2, 1e-4]))
    }

    const ULPS: f64 = SEVERAL;
}

fn hyperbolic<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<Hyperbolic<T>>(trial)
}

struct InverseHyperbolic<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for InverseHyperbolic<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["acosh", "atanh"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.acosh(), b.atanh()]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, y) = (a.float(), b.float());
        let above = x - 1.0;
        let near = (above + (above * (above + 2.0)).sqrt()).ln_1p();
        let acosh = if x > 1e9 { x.ln() + std::f64::consts::LN_2 } else { near };
        let acosh = if x < 1.0 { f64::NAN } else { acosh };
        let t = y.abs();
        let atanh = 0.5 * (2.0 * t + 2.0 * t * t / (1.0 - t)).ln_1p();
        let atanh = if t == 1.0 { f64::INFINITY } else { atanh };
        let atanh = if t > 1.0 { f64::NAN } else { atanh };
        [acosh, atanh.copysign(y)].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        let above: T = magnitude(rng, -6.0, 14.0);
        let x = T::from_host(Host::Float(1.0 + above.host().float().abs()));
        [x, magnitude(rng, -20.0, -0.001), x]
    }

    fn special() -> Vec<[T; 3]> {
        // Far outside too, where formulas cancel.
        triples(EXCEPTIONAL.into_iter().chain([1.0, -1.0, 0.5, 2.0, -3.0, -5e3, 6e6, -3e15]))
    }

    const ULPS: f64 = SEVERAL;
}

fn inverse_hyperbolic<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<InverseHyperbolic<T>>(trial)
}

struct Angles<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for Angles<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["asin", "acos", "atan", "tan", "sin", "cos"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        let (sin, cos) = b.sin_cos();
        vec![a.asin(), a.acos(), a.atan(), b.tan(), sin, cos]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, y) = (a.float(), b.float());
        [x.asin(), x.acos(), x.atan(), y.tan(), y.sin(), y.cos()].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        let x = magnitude(rng, -10.0, -0.001);
        [x, T::from_host(Host::Float(rng.between(-1.5, 1.5))), x]
    }

    fn special() -> Vec<[T; 3]> {
        let [one, small] = [1.0, 0.25].map(|x| T::from_host(Host::Float(x)));
        let outside = [1.5, f64::NEG_INFINITY, f64::NAN].map(|x| T::from_host(Host::Float(x)));
        let mut all = triples([0.0, -0.0, 1.0, -1.0, 0.5]);
        all.extend(outside.map(|x| [x, one, small]));
        all
    }

    const ULPS: f64 = SEVERAL;
    // The cosine of what is near a right angle.
    const SCALE: f64 = 0.05;
}

fn angles<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<Angles<T>>(trial)
}

struct RootsAndPowers<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for RootsAndPowers<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["cbrt", "hypot", "powi 0", "powi 3", "powi -2", "log10"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.cbrt(), a.hypot(b), a.powi(0), b.powi(3), b.powi(-2), a.abs().log10()]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, y) = (a.float(), b.float());
        [x.cbrt(), x.hypot(y), 1.0, y * y * y, 1.0 / (y * y), x.abs().log10()].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [magnitude(rng, -14.0, 15.0), magnitude(rng, -4.0, 4.0), T::small(0)]
    }

    fn special() -> Vec<[T; 3]> {
        let numbers = [f64::INFINITY, 0.0, f64::NAN, -8.0].map(|x| T::from_host(Host::Float(x)));
        let pairs = numbers.iter().flat_map(|a| numbers.iter().map(|b| [*a, *b, *a]));
        pairs.collect()
    }

    const ULPS: f64 = SEVERAL;
    // Logarithms near 1.
    const SCALE: f64 = 1e-2;
}

fn roots_and_powers<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<RootsAndPowers<T>>(trial)
}

struct Classes<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for Classes<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["is_infinite", "is_finite", "sign"];

    fn device([a, ..]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.is_infinite().cast(), a.is_finite().cast(), a.sign()]
    }

    fn host([a, ..]: [Host; 3]) -> Vec<Host> {
        let x = a.float();
        let number = |is: bool| f64::from(u8::from(is));
        let sign = if x == 0.0 || x.is_nan() { x } else { x.signum() };
        [number(x.is_infinite()), number(x.is_finite()), sign].map(Host::Float).to_vec()
    }

    fn special() -> Vec<[T; 3]> {
        triples(EXCEPTIONAL.into_iter().chain([2.5, -1e-3]))
    }

    const ULPS: f64 = 0.0;
}

fn classes<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<Classes<T>>(trial)
}

struct OfBits<T>(PhantomData<T>);

impl<T: Sample + Int> Elementwise for OfBits<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["ctz", "rotate_left", "rotate_right", "mul_hi", "sign"];

    fn device([a, b, c]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.ctz(), a.rotate_left(c), a.rotate_right(c), a.mul_hi(b), a.sign()]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let int = |host: Host| match host {
            Host::Int(n) => n,
            Host::Float(x) => x as i128,
        };
        let (x, y) = (int(a), int(b));
        let mask = (1i128 << T::BITS) - 1;
        let (bits, width) = (x & mask, T::BITS);
        let left = (int(c) & i128::from(width - 1)) as u32;
        let rotated = |by: u32| (bits << by | bits >> (width - by)) & mask;
        let high = match T::SCALAR.is_signed() {
            true => (x * y) >> width,
            false => ((x.cast_unsigned() * y.cast_unsigned()) >> width).cast_signed(),
        };
        let ctz = if bits == 0 { width } else { bits.trailing_zeros() };
        let all = [i128::from(ctz), rotated(left), rotated((width - left) % width), high, x.signum()];
        all.map(Host::Int).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        let any = |rng: &mut Rng| T::from_host(Host::Int(i128::from(rng.bits() as i64) >> rng.below(64)));
        [any(rng), any(rng), any(rng)]
    }

    fn special() -> Vec<[T; 3]> {
        let least = T::from_host(Host::Int(i128::from(i64::MIN) >> (64 - T::BITS)));
        let [zero, one, top] = [T::small(0), T::small(1), T::small(-1)];
        vec![[zero, one, zero], [least, least, one], [top, top, top], [least, top, zero], [one, top, least]]
    }

    const ULPS: f64 = 0.0;
}

fn of_bits<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    check::<OfBits<T>>(trial)
}
