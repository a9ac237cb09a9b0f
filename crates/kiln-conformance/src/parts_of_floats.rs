//! Parts and neighbors of floats, remainders and quick functions, against `f64` and integers of the
//! host.

use crate::case::{Case, cases};
use crate::elementwise::{Elementwise, check};
use crate::trial::{Trial, Verdict};
use half::{bf16, f16};
use kiln_lang::{Float, Val};
use kiln_reference::{Host, Rng, Sample};
use std::f64::consts::PI;
use std::marker::PhantomData;

pub fn cases() -> Vec<Case> {
    cases!["parts_of_floats":
        neighbors for f16 bf16 f32 f64;
        signs for f16 bf16 f32 f64;
        remainders for f16 bf16 f32 f64;
        scaled for f16 bf16 f32 f64;
        parts_of_pi for f16 bf16 f32 f64;
        quick for f16 bf16 f32 f64;
        quick_powers for f16 bf16 f32 f64;
    ]
}

const EXCEPTIONAL: [f64; 5] = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

fn of<T: Sample>(x: f64) -> T {
    T::from_host(Host::Float(x))
}

/// Every pair of some numbers.
fn pairs<T: Sample>(numbers: &[f64]) -> Vec<[T; 3]> {
    numbers.iter().flat_map(|a| numbers.iter().map(|b| [of(*a), of(*b), of(*a)])).collect()
}

fn magnitude<T: Sample>(rng: &mut Rng, from: f64, to: f64) -> T {
    let x = rng.between(from, to).exp2();
    of(if rng.below(2) == 0 { -x } else { x })
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// Types whose numbers the host can count through.
trait Neighbors: Sample + Float {
    /// The number above.
    fn above(x: f64) -> f64;
    /// The least and the largest magnitude.
    const ENDS: [f64; 2];
}

impl Neighbors for f64 {
    fn above(x: f64) -> f64 {
        x.next_up()
    }
    const ENDS: [f64; 2] = [f64::from_bits(1), f64::MAX];
}

impl Neighbors for f32 {
    fn above(x: f64) -> f64 {
        (x as f32).next_up().into()
    }
    const ENDS: [f64; 2] = [f32::from_bits(1) as f64, f32::MAX as f64];
}

macro_rules! neighbors_of_halves {
    ($($t:ty, $ends:expr;)*) => {$(
        impl Neighbors for $t {
            fn above(x: f64) -> f64 {
                let own = <$t>::from_f64(x);
                let next = match own.to_bits() {
                    0 | 0x8000 => 1,
                    bits if bits < 0x8000 => bits + 1,
                    bits => bits - 1,
                };
                if own.is_nan() || x == f64::INFINITY { x } else { <$t>::from_bits(next).into() }
            }
            const ENDS: [f64; 2] = $ends;
        }
    )*};
}
neighbors_of_halves! {
    f16, [f32::from_bits(0x3380_0000) as f64, 65504.0];
    bf16, [f32::from_bits(1 << 16) as f64, f32::from_bits(0x7f7f_0000) as f64];
}

struct OfNeighbors<T>(PhantomData<T>);

impl<T: Neighbors> Elementwise for OfNeighbors<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["next_up", "next_down", "next_after", "min_nan", "max_nan"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.next_up(), a.next_down(), a.next_after(b), a.min_nan(b), a.max_nan(b)]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, y) = (a.float(), b.float());
        let (up, down) = (T::above(x), -T::above(-x));
        let after = match x.partial_cmp(&y) {
            None => f64::NAN,
            Some(std::cmp::Ordering::Less) => up,
            Some(std::cmp::Ordering::Equal) => y,
            Some(std::cmp::Ordering::Greater) => down,
        };
        let or_nan = |value: f64| if x.is_nan() || y.is_nan() { f64::NAN } else { value };
        [up, down, after, or_nan(x.min(y)), or_nan(x.max(y))].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [magnitude(rng, -30.0, 15.0), magnitude(rng, -14.0, 15.0), of(0.0)]
    }

    fn special() -> Vec<[T; 3]> {
        let [least, most] = T::ENDS;
        let powers = [1.0, 2f64.powi(-14), 2f64.powi(-13)];
        let numbers = [&EXCEPTIONAL[..], &powers, &powers.map(|x| -x), &[least, -least, most, -most]];
        pairs(&numbers.concat())
    }

    const ULPS: f64 = 0.0;
}

fn neighbors<T: Neighbors>(trial: &mut Trial<'_>) -> Verdict {
    check::<OfNeighbors<T>>(trial)
}

struct Signs<T>(PhantomData<T>);

impl<T: Neighbors> Elementwise for Signs<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] =
        &["is_sign_negative", "copysign", "sign of copysign", "round_away", "fract", "saturate"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![
            a.is_sign_negative().cast(),
            a.copysign(b),
            a.copysign(b).is_sign_negative().cast(),
            a.round_away(),
            a.fract(),
            a.saturate(),
        ]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, y) = (a.float(), b.float());
        let all = [
            truth(x.is_sign_negative()),
            x.copysign(y),
            truth(y.is_sign_negative()),
            x.round(),
            x - x.trunc(),
            if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) },
        ];
        all.map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [magnitude(rng, -8.0, 8.0), magnitude(rng, -4.0, 4.0), of(0.0)]
    }

    fn special() -> Vec<[T; 3]> {
        // Of NaN the sign is not the same everywhere.
        pairs(&[0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 0.5, -0.5, 1.5, -2.5, 0.25])
    }

    const ULPS: f64 = 0.0;
}

fn signs<T: Neighbors>(trial: &mut Trial<'_>) -> Verdict {
    check::<Signs<T>>(trial)
}

/// A finite number as an integer times a power of 2.
pub fn decoded(x: f64) -> (i128, i32) {
    let bits = x.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, i128::from(bits & ((1 << 52) - 1)));
    let (mut m, mut e) = match exponent {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, exponent - 1075),
    };
    while m != 0 && m & 1 == 0 {
        (m, e) = (m >> 1, e + 1);
    }
    (if x.is_sign_negative() { -m } else { m }, e)
}

/// The remainder of IEEE 754, in integers.
fn remainder(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() || x.is_infinite() || y == 0.0 {
        return f64::NAN;
    }
    if y.is_infinite() || x == 0.0 {
        return x;
    }
    let ((m, e), (n, f)) = (decoded(x), decoded(y));
    let least = e.min(f);
    let (m, n) = (m << (e - least), n.abs() << (f - least));
    let (quotient, rest) = (m.div_euclid(n), m.rem_euclid(n));
    let is_up = 2 * rest > n || (2 * rest == n && quotient % 2 != 0);
    let rest = if is_up { rest - n } else { rest };
    (rest as f64 * 2f64.powi(least)).copysign(if rest == 0 { x } else { rest as f64 })
}

struct Remainders<T>(PhantomData<T>);

impl<T: Neighbors> Elementwise for Remainders<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["remainder", "its sign", "fdim"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        let rest = a.remainder(b);
        vec![rest, (rest.is_sign_negative() & !rest.is_nan()).cast(), a.fdim(b)]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, y) = (a.float(), b.float());
        let rest = remainder(x, y);
        let more = if x <= y { 0.0 } else { x - y };
        [rest, truth(rest.is_sign_negative() && !rest.is_nan()), more].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        let divisor = magnitude::<T>(rng, -4.0, 4.0);
        // Half of them lie at ties, as far as the type has them.
        let ties = (rng.between(-20.0, 20.0).floor() + 0.5) * divisor.host().float();
        let dividend = if rng.below(2) == 0 { of(ties) } else { magnitude(rng, -8.0, 15.0) };
        [dividend, divisor, divisor]
    }

    fn special() -> Vec<[T; 3]> {
        let most = T::ENDS[1];
        let mut all = pairs(&[EXCEPTIONAL.as_slice(), &[1.0, -1.0, 0.5, 3.0, -6.0]].concat());
        all.extend(pairs::<T>(&[most, -most, most / 2.0]));
        all
    }

    const ULPS: f64 = 0.0;
}

fn remainders<T: Neighbors>(trial: &mut Trial<'_>) -> Verdict {
    check::<Remainders<T>>(trial)
}

struct Scaled<T>(PhantomData<T>);

impl<T: Neighbors> Elementwise for Scaled<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["ldexp", "fraction", "exponent", "together"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        let (fraction, exponent) = a.frexp();
        vec![a.ldexp(b.cast::<i32>()), fraction, exponent.cast(), fraction.ldexp(exponent)]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, n) = (a.float(), b.float() as i32);
        let (mut fraction, mut exponent) = (x, 0);
        while fraction.is_finite() && fraction.abs() >= 1.0 {
            (fraction, exponent) = (fraction * 0.5, exponent + 1);
        }
        while fraction != 0.0 && fraction.abs() < 0.5 {
            (fraction, exponent) = (fraction * 2.0, exponent - 1);
        }
        // In two steps, of which only the last one may round.
        let half = n / 2;
        let scaled = x * 2f64.powi(half) * 2f64.powi(n - half);
        [scaled, fraction, exponent.into(), x].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        let n = of(rng.between(-40.0, 40.0).round());
        [magnitude(rng, -12.0, 12.0), n, n]
    }

    fn special() -> Vec<[T; 3]> {
        let [least, most] = T::ENDS;
        let numbers = [0.0, f64::INFINITY, f64::NEG_INFINITY, 1.0, -1.5, least, 3.0 * least, -most];
        let powers = [0.0, 1.0, -1.0, 15.0, -24.0, -130.0, 144.0, -152.0, 272.0, -304.0];
        numbers.iter().flat_map(|x| powers.iter().map(|n| [of(*x), of(*n), of(*x)])).collect()
    }

    const ULPS: f64 = 0.0;
}

fn scaled<T: Neighbors>(trial: &mut Trial<'_>) -> Verdict {
    check::<Scaled<T>>(trial)
}

struct PartsOfPi<T>(PhantomData<T>);

impl<T: Neighbors> Elementwise for PartsOfPi<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["sin_pi", "cos_pi", "sign of sin_pi"];

    fn device([a, ..]: [Val<T>; 3]) -> Vec<Val<T>> {
        let sine = a.sin_pi();
        vec![sine, a.cos_pi(), (sine.is_sign_negative() & !sine.is_nan()).cast()]
    }

    fn host([a, ..]: [Host; 3]) -> Vec<Host> {
        let x = a.float();
        let turns = x - 2.0 * (x * 0.5).round_ties_even();
        let near = if turns.abs() > 0.5 { (1.0 - turns.abs()).copysign(turns) } else { turns };
        let sine = if near == 0.0 { 0f64.copysign(x) } else { (near * PI).sin() };
        let cosine = ((0.5 - turns.abs()) * PI).sin();
        [sine, cosine, truth(sine.is_sign_negative() && !sine.is_nan())].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [magnitude(rng, -10.0, 10.0); 3]
    }

    fn special() -> Vec<[T; 3]> {
        pairs(&[0.0, -0.0, f64::INFINITY, f64::NAN, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -3.0, 0.25, 1000.0])
    }

    const ULPS: f64 = 6.0;
}

fn parts_of_pi<T: Neighbors>(trial: &mut Trial<'_>) -> Verdict {
    check::<PartsOfPi<T>>(trial)
}

struct Quick<T>(PhantomData<T>);

impl<T: Neighbors> Elementwise for Quick<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] =
        &["fast_sin", "fast_cos", "fast_tanh", "fast_sigmoid", "fast_log2", "fast_log", "fast_log10"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        let logs = [b.fast_log2(), b.fast_log(), b.fast_log10()];
        [vec![a.fast_sin(), a.fast_cos(), a.fast_tanh(), a.fast_sigmoid()], logs.to_vec()].concat()
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, y) = (a.float(), b.float());
        let all = [x.sin(), x.cos(), x.tanh(), 1.0 / (1.0 + (-x).exp()), y.log2(), y.ln(), y.log10()];
        all.map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        let positive: T = of(magnitude::<T>(rng, -14.0, 15.0).host().float().abs());
        [magnitude(rng, -10.0, 13.2), positive, positive]
    }

    fn special() -> Vec<[T; 3]> {
        let arguments = [0.0, 10_000.0, -10_000.0, 1e-3, 0.75];
        let numbers = [0.0, f64::INFINITY, -1.0, 1.0, 2.0, 0.5];
        arguments.iter().flat_map(|x| numbers.iter().map(|y| [of(*x), of(*y), of(*x)])).collect()
    }

    // 2^-21 of f32.
    const ULPS: f64 = 4.0;
    const SCALE: f64 = 1.0;
}

fn quick<T: Neighbors>(trial: &mut Trial<'_>) -> Verdict {
    check::<Quick<T>>(trial)
}

struct QuickPowers<T>(PhantomData<T>);

impl<T: Neighbors> Elementwise for QuickPowers<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["fast_exp", "fast_exp10", "fast_pow", "fast_tan"];

    fn device([a, b, c]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.fast_exp(), a.fast_exp10(), b.fast_pow(a), c.fast_tan()]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let (x, y, angle) = (a.float(), b.float(), c.float());
        [x.exp(), 10f64.powf(x), y.powf(x), angle.tan()].map(Host::Float).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [of(rng.between(-4.0, 4.0)), of(rng.between(0.2, 4.0)), of(rng.between(-1.4, 1.4))]
    }

    // Products of exponents of up to 14.
    const ULPS: f64 = 32.0;
}

fn quick_powers<T: Neighbors>(trial: &mut Trial<'_>) -> Verdict {
    check::<QuickPowers<T>>(trial)
}
