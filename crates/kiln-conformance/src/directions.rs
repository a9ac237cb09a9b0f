//! Arithmetic that rounds in a given direction, against integers of the host.

use crate::case::{Case, cases};
use crate::elementwise::{Elementwise, check};
use crate::parts_of_floats::decoded;
use crate::trial::{Trial, Verdict, same};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Rng};
use kiln_runtime::Tensor;
use std::cmp::Ordering;

pub fn cases() -> Vec<Case> {
    cases!["directions":
        sums_and_products;
        quotients_and_roots;
        ends_and_zeros;
    ]
}

/// Towards zero, up, down.
const DIRECTIONS: [fn(Ordering) -> bool; 3] =
    [|_| false, |sign| sign == Ordering::Greater, |sign| sign == Ordering::Less];

/// `(m + a little more, if there is a rest) 2^e` in each direction.
fn rounded(m: i128, e: i32, has_rest: bool) -> [f64; 3] {
    DIRECTIONS.map(|is_away| {
        let magnitude = m.unsigned_abs();
        let length = 128 - magnitude.leading_zeros() as i32;
        let exponent = (length - 24 + e).max(-149);
        let shift = exponent - e;
        let kept = if shift > 0 { magnitude >> shift } else { magnitude << -shift };
        let is_inexact = has_rest || (shift > 0 && kept << shift != magnitude);
        let kept = kept + u128::from(is_inexact && is_away(m.cmp(&0)));
        let value = kept as f64 * 2f64.powi(exponent);
        if m < 0 { -value } else { value }
    })
}

fn product(a: f64, b: f64) -> (i128, i32) {
    let ((m, e), (n, f)) = (decoded(a), decoded(b));
    (m * n, e + f)
}

fn sum((m, e): (i128, i32), (n, f): (i128, i32)) -> (i128, i32) {
    let least = e.min(f);
    ((m << (e - least)) + (n << (f - least)), least)
}

/// A number of 24 bits, of magnitude 2^-12 to 2^12.
fn number(rng: &mut Rng) -> f32 {
    let fraction = 1.0 + (rng.bits() >> 41) as f32 / (1u32 << 23) as f32;
    let scaled = fraction * 2f32.powi(rng.below(24) as i32 - 12);
    if rng.below(2) == 0 { -scaled } else { scaled }
}

struct Sums;

impl Elementwise for Sums {
    type In = f32;
    type Out = f32;
    const NAMES: &'static [&'static str] = &[
        "add_rz", "add_ru", "add_rd", "sub_rz", "sub_ru", "sub_rd", "mul_rz", "mul_ru", "mul_rd", "fma_rz",
        "fma_ru", "fma_rd",
    ];

    fn device([a, b, c]: [Val<f32>; 3]) -> Vec<Val<f32>> {
        let sums = [a.add_rz(b), a.add_ru(b), a.add_rd(b), a.sub_rz(b), a.sub_ru(b), a.sub_rd(b)];
        let products =
            [a.mul_rz(b), a.mul_ru(b), a.mul_rd(b), a.fma_rz(b, c), a.fma_ru(b, c), a.fma_rd(b, c)];
        [sums, products].concat()
    }

    fn host(operands: [Host; 3]) -> Vec<Host> {
        let [a, b, c] = operands.map(Host::float);
        let exact = [
            sum(decoded(a), decoded(b)),
            sum(decoded(a), decoded(-b)),
            product(a, b),
            sum(product(a, b), decoded(c)),
        ];
        let all = exact.map(|(m, e)| rounded(m, e, false)).concat();
        all.into_iter().map(Host::Float).collect()
    }

    fn operands(rng: &mut Rng) -> [f32; 3] {
        [number(rng), number(rng), number(rng)]
    }

    fn special() -> Vec<[f32; 3]> {
        let some = [1.0, -1.0, 3.0, 1.0 + f32::EPSILON, -4095.999, 2f32.powi(-12)];
        some.iter().flat_map(|a| some.map(|b| [*a, b, 2f32.powi(-11)])).collect()
    }

    const ULPS: f64 = 0.0;
}

fn sums_and_products(trial: &mut Trial<'_>) -> Verdict {
    check::<Sums>(trial)
}

struct Quotients;

impl Elementwise for Quotients {
    type In = f32;
    type Out = f32;
    const NAMES: &'static [&'static str] = &["div_rz", "div_ru", "div_rd", "sqrt_rz", "sqrt_ru", "sqrt_rd"];

    fn device([a, b, _]: [Val<f32>; 3]) -> Vec<Val<f32>> {
        let c = a.abs();
        vec![a.div_rz(b), a.div_ru(b), a.div_rd(b), c.sqrt_rz(), c.sqrt_ru(), c.sqrt_rd()]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let ((m, e), (n, f)) = (decoded(a.float()), decoded(b.float()));
        let dividend = m.abs() << 64;
        let (quotient, rest) = (dividend / n.abs(), dividend % n.abs());
        let quotients = rounded(quotient * m.signum() * n.signum(), e - f - 64, rest != 0);
        // The square of the root has an even exponent.
        let shift = if e % 2 == 0 { 64 } else { 65 };
        let square = m.unsigned_abs() << shift;
        let root = (0..64).rev().fold(0u128, |root, bit| {
            let more = root | 1 << bit;
            if more * more <= square { more } else { root }
        });
        let roots = rounded(root as i128, (e - shift) / 2, root * root != square);
        [quotients, roots].concat().into_iter().map(Host::Float).collect()
    }

    fn operands(rng: &mut Rng) -> [f32; 3] {
        [number(rng), number(rng), 0.0]
    }

    fn special() -> Vec<[f32; 3]> {
        let some = [1.0, -1.0, 3.0, 9.0, 1.0 + f32::EPSILON, -4095.999, 2f32.powi(-11)];
        some.iter().flat_map(|a| some.map(|b| [*a, b, 0.0])).collect()
    }

    const ULPS: f64 = 0.0;
}

fn quotients_and_roots(trial: &mut Trial<'_>) -> Verdict {
    check::<Quotients>(trial)
}

#[kernel(crate = kiln_runtime)]
fn at_the_ends(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, y: &mut Tensor<u32, 2>) {
    let i = thread_index();
    let (x, z) = (a.get(i), b.get(i));
    let sums = [x.add_rz(z), x.add_ru(z), x.add_rd(z)];
    let products = [x.mul_rz(z), x.mul_ru(z), x.mul_rd(z)];
    let quotients = [x.div_rz(z), x.div_ru(z), x.div_rd(z)];
    for (row, result) in [sums, products, quotients].concat().into_iter().enumerate() {
        // Whatever bits a NaN has.
        let bits = select(result.is_nan(), 0x7fc0_0000u32, result.bitcast::<u32>());
        y.row(row).set(i, bits);
    }
}

/// What the host's integers do not have: infinities, the largest numbers, the least ones, and zeros
/// with their signs.
fn ends_and_zeros(trial: &mut Trial<'_>) -> Verdict {
    const MAX: f32 = f32::MAX;
    const INF: f32 = f32::INFINITY;
    let least = f32::from_bits(1);
    let nan = [f32::NAN; 3];
    let table: [([f32; 2], [[f32; 3]; 3]); 9] = [
        ([MAX, MAX], [[MAX, INF, MAX], [MAX, INF, MAX], [1.0; 3]]),
        ([-MAX, -MAX], [[-MAX, -MAX, -INF], [MAX, INF, MAX], [1.0; 3]]),
        ([1.0, -1.0], [[0.0, 0.0, -0.0], [-1.0; 3], [-1.0; 3]]),
        ([INF, 2.0], [[INF; 3], [INF; 3], [INF; 3]]),
        ([INF, -INF], [nan, [-INF; 3], nan]),
        ([1.0, 0.0], [[1.0; 3], [0.0; 3], [INF; 3]]),
        ([least, 0.5], [[0.5, 0.5 + 2f32.powi(-24), 0.5], [0.0, least, 0.0], [2.0 * least; 3]]),
        (
            [-least, 4.0],
            [[4.0 - 2f32.powi(-22), 4.0, 4.0 - 2f32.powi(-22)], [-4.0 * least; 3], [-0.0, -0.0, -least]],
        ),
        ([MAX, 0.5], [[MAX, INF, MAX], [MAX / 2.0; 3], [MAX, INF, MAX]]),
    ];
    let (a, b): (Vec<f32>, Vec<f32>) = table.iter().map(|([a, b], _)| (*a, *b)).unzip();
    let (a, b) = (trial.vector(&a)?, trial.vector(&b)?);
    let mut y = trial.output::<u32, 2>([9, table.len()])?;
    at_the_ends(&a, &b, &mut y).grid([1, 1, 1]).block([table.len() as u32, 1, 1]).launch(trial.device)?;
    let got = y.to_vec()?;
    let names = ["add_rz", "add_ru", "add_rd", "mul_rz", "mul_ru", "mul_rd", "div_rz", "div_ru", "div_rd"];
    for (row, name) in names.into_iter().enumerate() {
        let expected = table.iter().map(|(_, results)| results[row / 3][row % 3]);
        let bits: Vec<u32> = expected.map(|x| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }).collect();
        same(name, &got[row * table.len()..][..table.len()], &bits)?;
    }
    Ok(())
}
