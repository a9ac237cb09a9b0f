//! Operators, comparisons, selection, bits.

use crate::case::{Case, cases};
use crate::elementwise::{Elementwise, check};
use crate::trial::{Trial, Verdict};
use half::{bf16, f16};
use kiln_lang::{Bits, Float, Int, Num, Val, select};
use kiln_reference::{Host, Rng, Sample};
use std::marker::PhantomData;

pub fn cases() -> Vec<Case> {
    cases!["arithmetic":
        operators for i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        division for i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        literals for i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        compound_assignment for i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        bits for i8 u8 i16 u16 i32 u32 i64 u64;
        shifts for i8 u8 i16 u16 i32 u32 i64 u64;
        logic;
        comparisons for i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        compare_bools;
        not_a_number for f16 bf16 f32 f64;
        selection for i16 u16 bool i32 u32 i64 u64 f16 bf16 f32 f64;
    ]
}

struct Operators<T>(PhantomData<T>);

impl<T: Sample + Num> Elementwise for Operators<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] =
        &["+", "-", "*", "neg", "abs", "minimum", "maximum", "clamp", "fma"];

    fn device([a, b, c]: [Val<T>; 3]) -> Vec<Val<T>> {
        let (lo, hi) = (b.minimum(c), b.maximum(c));
        vec![a + b, a - b, a * b, -a, a.abs(), a.minimum(b), a.maximum(b), a.clamp(lo, hi), a.fma(b, c)]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let zero = T::small(0).host();
        let negative = zero.sub(a);
        let abs = if a.less(zero) { negative } else { a };
        let fma = a.with(b, i128::wrapping_mul, |a, b| a * b);
        let fma = match (a, b, c) {
            (Host::Float(a), Host::Float(b), Host::Float(c)) => Host::Float(a.mul_add(b, c)),
            _ => fma.add(c),
        };
        vec![
            a.add(b),
            a.sub(b),
            a.mul(b),
            negative,
            abs,
            a.min(b),
            a.max(b),
            a.max(b.min(c)).min(b.max(c)),
            fma,
        ]
    }

    fn special() -> Vec<[T; 3]> {
        // The least and greatest integers wrap.
        let least = T::from_host(Host::Int(i128::from(i64::MIN) >> (64 - T::BITS.min(64))));
        let [zero, one, top] = [T::small(0), T::small(1), T::small(-1)];
        vec![[zero, zero, one], [least, one, top], [least, top, one], [top, top, top]]
    }
}

fn operators<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    check::<Operators<T>>(trial)
}

struct Division<T>(PhantomData<T>);

impl<T: Sample + Num> Elementwise for Division<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["/", "%", "/ by a constant", "% by a constant"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a / b, a % b, a / 7, a % 7]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let seven = T::small(7).host();
        let (div, rem) = (i128::wrapping_div, i128::wrapping_rem);
        let by = |b: Host| [a.with(b, div, |a, b| a / b), a.with(b, rem, |a, b| a % b)];
        [by(b), by(seven)].concat()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        let mut b = T::sample(rng);
        while b.host().float() == 0.0 {
            b = T::sample(rng);
        }
        [T::sample(rng), b, b]
    }

    fn special() -> Vec<[T; 3]> {
        if T::EPSILON > 0.0 {
            return Vec::new();
        }
        // The least integer by -1 wraps; all signs truncate towards zero.
        let least = T::from_host(Host::Int(i128::from(i64::MIN) >> (64 - T::BITS)));
        let pairs = [(-7, 2), (7, -2), (-7, -2), (0, 5)].map(|(a, b)| (T::small(a), T::small(b)));
        pairs.into_iter().chain([(least, T::small(-1))]).map(|(a, b)| [a, b, b]).collect()
    }

    const SCALE: f64 = 1.0;
    const ULPS: f64 = 2.0;
}

fn division<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    check::<Division<T>>(trial)
}

struct Literals<T>(PhantomData<T>);

impl<T: Sample + Num> Elementwise for Literals<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["x * 2 + 1", "3 - x", "2 * x", "x - 1 as u8", "x * -1"];

    fn device([a, ..]: [Val<T>; 3]) -> Vec<Val<T>> {
        let minus_one: Val<T> = kiln_lang::val::<T>(0) - 1;
        vec![a * 2 + 1, 3 - a, 2 * a, a - 1u8, a * minus_one]
    }

    fn host([a, ..]: [Host; 3]) -> Vec<Host> {
        let n = |n| T::small(n).host();
        vec![T::from_host(a.mul(n(2))).host().add(n(1)), n(3).sub(a), n(2).mul(a), a.sub(n(1)), a.mul(n(-1))]
    }

    const ULPS: f64 = 2.0;
    const SCALE: f64 = 1.0;
}

fn literals<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    check::<Literals<T>>(trial)
}

struct Compound<T>(PhantomData<T>);

impl<T: Sample + Num> Elementwise for Compound<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["a copy stays", "+=, -=, *="];

    fn device([a, b, c]: [Val<T>; 3]) -> Vec<Val<T>> {
        let mut x = a;
        let before = x;
        x += b;
        x -= c;
        x *= 3;
        vec![before, x]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let round = |x: Host| T::from_host(x).host();
        vec![a, round(round(a.add(b)).sub(c)).mul(T::small(3).host())]
    }

    const ULPS: f64 = 4.0;
    const SCALE: f64 = 4.0;
}

fn compound_assignment<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    check::<Compound<T>>(trial)
}

struct BitOperations<T>(PhantomData<T>);

impl<T: Sample + Int + Bits> Elementwise for BitOperations<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] =
        &["&", "|", "^", "!", "<<", ">>", "<< 3", ">> 1", "popcount", "clz", "bit_reverse"];

    fn device([a, b, c]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a & b, a | b, a ^ b, !a, a << c, a >> c, a << 3, a >> 1, a.popcount(), a.clz(), a.bit_reverse()]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let [Host::Int(a), Host::Int(b), Host::Int(c)] = [a, b, c] else { return Vec::new() };
        let width = T::BITS;
        let bits = (a as u128) & (u128::MAX >> (128 - width));
        let ones = i128::from(bits.count_ones());
        let leading = i128::from(bits.leading_zeros()) - (128 - i128::from(width));
        let reversed = (0..width).fold(0, |all, i| all | (a >> i & 1) << (width - 1 - i));
        vec![a & b, a | b, a ^ b, !a, a << c, a >> c, a << 3, a >> 1, ones, leading, reversed]
            .into_iter()
            .map(Host::Int)
            .collect()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        let shift = rng.below(u64::from(T::BITS));
        [T::sample(rng), T::sample(rng), T::from_host(Host::Int(shift.into()))]
    }

    fn special() -> Vec<[T; 3]> {
        let top = T::from_host(Host::Int(i128::from(T::BITS) - 1));
        [0, 1, -1].map(|a| [T::small(a), T::small(5), top]).to_vec()
    }
}

fn bits<T: Sample + Int + Bits>(trial: &mut Trial<'_>) -> Verdict {
    check::<BitOperations<T>>(trial)
}

/// By any amounts, which count modulo the width.
struct Shifts<T>(PhantomData<T>);

impl<T: Sample + Int> Elementwise for Shifts<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["<<", ">>", "<< width", ">> -1"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        let minus_one = !(a & !a);
        vec![a << b, a >> b, a << T::BITS, a >> minus_one]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let [Host::Int(a), Host::Int(b)] = [a, b] else { return Vec::new() };
        let by = b.rem_euclid(T::BITS.into());
        [a << by, a >> by, a, a >> (T::BITS - 1)].map(Host::Int).to_vec()
    }

    fn special() -> Vec<[T; 3]> {
        let of = |n: i128| T::from_host(Host::Int(n));
        let width = i128::from(T::BITS);
        let least = of(i128::from(i64::MIN) >> (64 - T::BITS));
        let amounts = [0, 1, width - 1, width, width + 1, 2 * width - 1, -1, -width];
        let shifted = [of(-1), least, of(1), of(0x5a)];
        amounts.iter().flat_map(|&n| shifted.map(|a| [a, of(n), a])).collect()
    }
}

fn shifts<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    check::<Shifts<T>>(trial)
}

struct Logic;

impl Elementwise for Logic {
    type In = bool;
    type Out = bool;
    const NAMES: &'static [&'static str] = &["&", "|", "^", "!", "true ^", "false |"];

    fn device([a, b, _]: [Val<bool>; 3]) -> Vec<Val<bool>> {
        vec![a & b, a | b, a ^ b, !a, true ^ a, false | a]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (a, b) = (a != Host::Int(0), b != Host::Int(0));
        [a & b, a | b, a ^ b, !a, !a, a].map(|v| Host::Int(i128::from(v))).to_vec()
    }
}

fn logic(trial: &mut Trial<'_>) -> Verdict {
    check::<Logic>(trial)
}

struct Comparisons<T>(PhantomData<T>);

impl<T: Sample + Num> Elementwise for Comparisons<T> {
    type In = T;
    type Out = bool;
    const NAMES: &'static [&'static str] = &["==", "!=", "<", "<=", ">", ">="];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<bool>> {
        vec![a.eq(b), a.ne(b), a.lt(b), a.le(b), a.gt(b), a.ge(b)]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (less, more) = (a.less(b), b.less(a));
        [a == b, a != b, less, less || a == b, more, more || a == b]
            .map(|v| Host::Int(i128::from(v)))
            .to_vec()
    }

    fn special() -> Vec<[T; 3]> {
        [(-1, 1), (1, -1), (2, 2), (0, 0)].map(|(a, b)| [T::small(a), T::small(b), T::small(0)]).to_vec()
    }
}

fn comparisons<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    check::<Comparisons<T>>(trial)
}

struct BoolComparisons;

impl Elementwise for BoolComparisons {
    type In = bool;
    type Out = bool;
    const NAMES: &'static [&'static str] = &["==", "!=", "== true"];

    fn device([a, b, _]: [Val<bool>; 3]) -> Vec<Val<bool>> {
        vec![a.eq(b), a.ne(b), a.eq(true)]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        [a == b, a != b, a == Host::Int(1)].map(|v| Host::Int(i128::from(v))).to_vec()
    }
}

fn compare_bools(trial: &mut Trial<'_>) -> Verdict {
    check::<BoolComparisons>(trial)
}

struct NotANumber<T>(PhantomData<T>);

impl<T: Sample + Float> Elementwise for NotANumber<T> {
    type In = T;
    type Out = bool;
    const NAMES: &'static [&'static str] =
        &["==", "!=", "<", ">=", "is_nan", "minimum is a number", "maximum is the other"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<bool>> {
        let other = a.is_nan();
        vec![
            a.eq(b),
            a.ne(b),
            a.lt(b),
            a.ge(b),
            other,
            !a.minimum(b).is_nan(),
            select(other, a.maximum(b).eq(b), true),
        ]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (a, b) = (a.float(), b.float());
        [a == b, a != b, a < b, a >= b, a.is_nan(), true, true].map(|v| Host::Int(i128::from(v))).to_vec()
    }

    fn special() -> Vec<[T; 3]> {
        let x = |x: f64| T::from_host(Host::Float(x));
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]
            .map(|special| [x(special), x(1.5), x(0.0)])
            .to_vec()
    }
}

fn not_a_number<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    check::<NotANumber<T>>(trial)
}

struct Selection<T>(PhantomData<T>);

impl<T: Sample> Elementwise for Selection<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["select of values", "select by a constant"];

    fn device([a, b, c]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![select(a.ne(b), b, c), select(true, a, c)]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        vec![if a == b { c } else { b }, a]
    }
}

fn selection<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    check::<Selection<T>>(trial)
}
