//! Arithmetic of integers that the language makes of operations, against wide integers of the host.

use crate::case::{Case, cases};
use crate::elementwise::{Elementwise, check};
use crate::trial::{Trial, Verdict};
use kiln_lang::{Int, Val};
use kiln_reference::{Host, Rng, Sample};
use std::marker::PhantomData;

pub fn cases() -> Vec<Case> {
    cases!["integers":
        saturating for i8 u8 i16 u16 i32 u32 i64 u64;
        averages for i8 u8 i16 u16 i32 u32 i64 u64;
        extremes for i16 i32 i64;
        funnels for i8 u8 i16 u16 i32 u32 i64 u64;
        bytes;
        dot_products for i32 u32;
        mixed_dot_products;
    ]
}

fn int(host: Host) -> i128 {
    match host {
        Host::Int(n) => n,
        Host::Float(x) => x as i128,
    }
}

fn of<T: Sample>(n: i128) -> T {
    T::from_host(Host::Int(n))
}

/// Integers of all magnitudes.
fn any<T: Sample>(rng: &mut Rng) -> T {
    of(i128::from(rng.bits() as i64) >> rng.below(64))
}

fn least<T: Sample + Int>() -> i128 {
    if T::SCALAR.is_signed() { -(1i128 << (T::BITS - 1)) } else { 0 }
}

fn largest<T: Sample + Int>() -> i128 {
    (1i128 << (T::BITS - u32::from(T::SCALAR.is_signed()))) - 1
}

/// The number that a type has for the lowest bits of one.
fn wrapped<T: Sample + Int>(n: i128) -> i128 {
    let bits = n & ((1i128 << T::BITS) - 1);
    if bits > largest::<T>() { bits - (1i128 << T::BITS) } else { bits }
}

/// All pairs of the ends of a type's range and what lies beside them.
fn ends<T: Sample + Int>() -> Vec<[T; 3]> {
    let (low, high) = (least::<T>(), largest::<T>());
    let all = [low, low + 1, 0, 1, high - 1, high, wrapped::<T>(-1)];
    all.iter().flat_map(|a| all.iter().map(|b| [of(*a), of(*b), of(*a)])).collect()
}

struct Saturating<T>(PhantomData<T>);

impl<T: Sample + Int> Elementwise for Saturating<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["saturating_add", "saturating_sub", "abs_diff", "sad"];

    fn device([a, b, c]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.saturating_add(b), a.saturating_sub(b), a.abs_diff(b), a.sad(b, c)]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let (x, y, z) = (int(a), int(b), int(c));
        let near = |n: i128| n.clamp(least::<T>(), largest::<T>());
        let apart = (x - y).abs();
        let all = [near(x + y), near(x - y), wrapped::<T>(apart), wrapped::<T>(apart + z)];
        all.map(Host::Int).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [any(rng), any(rng), any(rng)]
    }

    fn special() -> Vec<[T; 3]> {
        ends()
    }

    const ULPS: f64 = 0.0;
}

fn saturating<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    check::<Saturating<T>>(trial)
}

/// Of three, of which one has another sign: assemblers make one instruction of them.
struct Extremes<T>(PhantomData<T>);

impl<T: Sample + Int> Elementwise for Extremes<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["max", "min", "max of |a|", "max of 0 - a", "min of -1 * a"];

    fn device([a, b, c]: [Val<T>; 3]) -> Vec<Val<T>> {
        // Both are constants for the compiler.
        let zero = c & !c;
        let minus_one = !zero;
        let (below, times) = (zero - a, a * minus_one);
        vec![
            b.max(-a).max(c),
            c.min(b.min(-a)),
            b.max(a.abs()).max(c),
            c.max(below.max(b)),
            times.min(b).min(c),
        ]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let (x, y, z) = (int(a), int(b), int(c));
        let (minus, size) = (wrapped::<T>(-x), wrapped::<T>(x.abs()));
        let (most, fewest) = (y.max(minus).max(z), y.min(minus).min(z));
        [most, fewest, y.max(size).max(z), most, fewest].map(Host::Int).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [any(rng), any(rng), any(rng)]
    }

    fn special() -> Vec<[T; 3]> {
        ends()
    }

    const ULPS: f64 = 0.0;
}

fn extremes<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    check::<Extremes<T>>(trial)
}

struct Averages<T>(PhantomData<T>);

impl<T: Sample + Int> Elementwise for Averages<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["hadd", "rhadd", "ffs"];

    fn device([a, b, _]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![a.hadd(b), a.rhadd(b), a.ffs()]
    }

    fn host([a, b, _]: [Host; 3]) -> Vec<Host> {
        let (x, y) = (int(a), int(b));
        let first = if x == 0 { 0 } else { i128::from(x.trailing_zeros()) + 1 };
        [(x + y).div_euclid(2), (x + y + 1).div_euclid(2), first].map(Host::Int).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [any(rng), any(rng), any(rng)]
    }

    fn special() -> Vec<[T; 3]> {
        ends()
    }

    const ULPS: f64 = 0.0;
}

fn averages<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    check::<Averages<T>>(trial)
}

struct Funnels<T>(PhantomData<T>);

impl<T: Sample + Int> Elementwise for Funnels<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["left", "left clamped", "right", "right clamped"];

    fn device([a, b, c]: [Val<T>; 3]) -> Vec<Val<T>> {
        vec![
            a.funnel_shift_left(b, c),
            a.funnel_shift_left_clamped(b, c),
            a.funnel_shift_right(b, c),
            a.funnel_shift_right_clamped(b, c),
        ]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let mask = (1u128 << T::BITS) - 1;
        let bits = |host: Host| int(host) as u128 & mask;
        let both = bits(a) << T::BITS | bits(b);
        let (turned, clamped) = (bits(c) % u128::from(T::BITS), bits(c).min(T::BITS.into()));
        let left = |n: u128| if n == 0 { bits(a) } else { both >> (u128::from(T::BITS) - n) };
        let all = [left(turned), left(clamped), both >> turned, both >> clamped];
        all.map(|n| Host::Int(wrapped::<T>((n & mask) as i128))).to_vec()
    }

    fn operands(rng: &mut Rng) -> [T; 3] {
        [any(rng), any(rng), of(i128::from(rng.below(2 * u64::from(T::BITS) + 2)))]
    }

    fn special() -> Vec<[T; 3]> {
        let far = [wrapped::<T>(-1), least::<T>(), largest::<T>(), 0, i128::from(T::BITS)];
        far.iter().map(|n| [of(0x1234_5677), of(0x7654_3211), of(*n)]).collect()
    }

    const ULPS: f64 = 0.0;
}

fn funnels<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    check::<Funnels<T>>(trial)
}

struct Bytes;

impl Elementwise for Bytes {
    type In = u32;
    type Out = u32;
    const NAMES: &'static [&'static str] = &["any selector", "swapped", "upper halves", "a sign"];

    fn device([a, b, c]: [Val<u32>; 3]) -> Vec<Val<u32>> {
        let constant = |selector: u32| a.byte_permute(b, selector);
        vec![a.byte_permute(b, c), constant(0x0123), constant(0x7632), constant(0xfa54)]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let word = |host: Host| (int(host) as u32).to_le_bytes();
        let bytes = [word(a), word(b)].concat();
        let chosen = |selector: u32| {
            let byte = |place: u32| {
                let nibble = selector >> (4 * place) & 0xf;
                let byte = bytes[(nibble & 7) as usize];
                if nibble < 8 { byte } else { ((byte as i8) >> 7) as u8 }
            };
            Host::Int(u32::from_le_bytes([0, 1, 2, 3].map(byte)).into())
        };
        vec![chosen(int(c) as u32), chosen(0x0123), chosen(0x7632), chosen(0xfa54)]
    }

    const ULPS: f64 = 0.0;
}

fn bytes(trial: &mut Trial<'_>) -> Verdict {
    check::<Bytes>(trial)
}

/// The numbers of so many bits that a word holds.
fn fields(word: i128, bits: u32, is_signed: bool) -> Vec<i128> {
    let word = word as u32;
    let field = |place: u32| {
        let n = i128::from(word >> (bits * place)) & ((1 << bits) - 1);
        if is_signed && n >> (bits - 1) != 0 { n - (1 << bits) } else { n }
    };
    (0..32 / bits).map(field).collect()
}

fn sum_of_products(a: &[i128], b: &[i128]) -> i128 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Types whose words are products' factors.
trait Packed: Sample + Int {
    fn products(operands: [Val<Self>; 3]) -> Vec<Val<Self>>;
}

macro_rules! packed {
    ($($t:ty)*) => {$(
        impl Packed for $t {
            fn products([a, b, c]: [Val<$t>; 3]) -> Vec<Val<$t>> {
                vec![a.dp4a(b, c), a.dp2a_low(b, c), a.dp2a_high(b, c)]
            }
        }
    )*};
}
packed! { i32 u32 }

struct DotProducts<T>(PhantomData<T>);

impl<T: Packed> Elementwise for DotProducts<T> {
    type In = T;
    type Out = T;
    const NAMES: &'static [&'static str] = &["dp4a", "dp2a_low", "dp2a_high"];

    fn device(operands: [Val<T>; 3]) -> Vec<Val<T>> {
        T::products(operands)
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let is_signed = T::SCALAR.is_signed();
        let (bytes, halves) = (fields(int(a), 8, is_signed), fields(int(a), 16, is_signed));
        let others = fields(int(b), 8, is_signed);
        let all = [
            sum_of_products(&bytes, &others),
            sum_of_products(&halves, &others[..2]),
            sum_of_products(&halves, &others[2..]),
        ];
        all.map(|sum| Host::Int(wrapped::<T>(sum + int(c)))).to_vec()
    }

    fn special() -> Vec<[T; 3]> {
        ends()
    }

    const ULPS: f64 = 0.0;
}

fn dot_products<T: Packed>(trial: &mut Trial<'_>) -> Verdict {
    check::<DotProducts<T>>(trial)
}

struct MixedDotProducts;

impl Elementwise for MixedDotProducts {
    type In = i32;
    type Out = i32;
    const NAMES: &'static [&'static str] = &["dp4a_mixed"];

    fn device([a, b, c]: [Val<i32>; 3]) -> Vec<Val<i32>> {
        vec![a.cast::<u32>().dp4a_mixed(b, c)]
    }

    fn host([a, b, c]: [Host; 3]) -> Vec<Host> {
        let sum = sum_of_products(&fields(int(a), 8, false), &fields(int(b), 8, true));
        vec![Host::Int(wrapped::<i32>(sum + int(c)))]
    }

    fn special() -> Vec<[i32; 3]> {
        ends()
    }

    const ULPS: f64 = 0.0;
}

fn mixed_dot_products(trial: &mut Trial<'_>) -> Verdict {
    check::<MixedDotProducts>(trial)
}
