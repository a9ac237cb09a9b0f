//! Conversions between all pairs of element types.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, holds, holds_near, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["casts":
        from for i16 u16 bool i32 u32 i64 u64 f16 bf16 f32 f64 i8 u8 E4M3 E5M2;
        in_threads for i16 u16 bool i32 u64 f16 f32 f64 i8 u8 E4M3 E5M2;
        bitcasts;
        bits_of_conditions;
    ]
}

#[kernel(crate = kiln_runtime)]
fn cast_to_all<T: Elem>(
    x: &Tensor<T, 1>,
    b: &mut Tensor<bool, 1>,
    i: &mut Tensor<i32, 1>,
    u: &mut Tensor<u32, 1>,
    l: &mut Tensor<i64, 1>,
    ul: &mut Tensor<u64, 1>,
    h: &mut Tensor<f16, 1>,
    bh: &mut Tensor<bf16, 1>,
    f: &mut Tensor<f32, 1>,
    d: &mut Tensor<f64, 1>,
    block: usize,
) {
    let at = program_id(0) * block;
    let v = x.tile(at, block).load(x.get(0));
    b.tile(at, block).store(v.cast::<bool>());
    i.tile(at, block).store(v.cast::<i32>());
    u.tile(at, block).store(v.cast::<u32>());
    l.tile(at, block).store(v.cast::<i64>());
    ul.tile(at, block).store(v.cast::<u64>());
    h.tile(at, block).store(v.cast::<f16>());
    bh.tile(at, block).store(v.cast::<bf16>());
    f.tile(at, block).store(v.cast::<f32>());
    d.tile(at, block).store(v.cast::<f64>());
}

/// Of integers of 16 bits and the types of one byte.
#[kernel(crate = kiln_runtime)]
fn cast_to_small<T: Elem>(
    x: &Tensor<T, 1>,
    i: &mut Tensor<i8, 1>,
    u: &mut Tensor<u8, 1>,
    e4: &mut Tensor<E4M3, 1>,
    e5: &mut Tensor<E5M2, 1>,
    i16s: &mut Tensor<i16, 1>,
    u16s: &mut Tensor<u16, 1>,
    block: usize,
) {
    let at = program_id(0) * block;
    let v = x.tile(at, block).load(x.get(0));
    i.tile(at, block).store(v.cast::<i8>());
    u.tile(at, block).store(v.cast::<u8>());
    e4.tile(at, block).store(v.cast::<E4M3>());
    e5.tile(at, block).store(v.cast::<E5M2>());
    i16s.tile(at, block).store(v.cast::<i16>());
    u16s.tile(at, block).store(v.cast::<u16>());
}

#[kernel(crate = kiln_runtime)]
fn cast_a_thread<T: Elem>(
    x: &Tensor<T, 1>,
    u: &mut Tensor<u8, 1>,
    e4: &mut Tensor<E4M3, 1>,
    f: &mut Tensor<f32, 1>,
    l: &mut Tensor<i64, 1>,
    i16s: &mut Tensor<i16, 1>,
) {
    let i = thread_index();
    if i.get() < x.extent(0) {
        let v = x.get(i);
        u.set(i, v.cast::<u8>());
        e4.set(i, v.cast::<E4M3>());
        f.set(i, v.cast::<f32>());
        l.set(i, v.cast::<i64>());
        i16s.set(i, v.cast::<i16>());
    }
}

/// Values at which conversions differ: halves, the edges of every integer type, what overflows
/// 16-bit floats, infinities and NaN.
fn edges<T: Sample>() -> Vec<T> {
    let floats = [
        0.5,
        -0.5,
        // Around the least and the greatest numbers of the 8-bit floats.
        0.0009765625,
        0.0009765626,
        -0.0029296875,
        1e-5,
        17.0,
        19.0,
        447.0,
        464.5,
        -57344.5,
        0.999,
        -1.5,
        2.5,
        255.5,
        32_767.5,
        -32_769.0,
        65519.0,
        65520.0,
        2147483647.0,
        2147483648.0,
        -2147483649.0,
        4294967296.0,
    ]
    .into_iter()
    .chain([1e19, -1e19, 1.8e19, 9.3e18, 1e-8, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0]);
    let integers = [
        0,
        1,
        -1,
        17,
        127,
        -129,
        -32_769,
        32_768,
        255,
        449,
        2049,
        2051,
        65535,
        16_777_217,
        i32::MAX.into(),
        i32::MIN.into(),
        u32::MAX.into(),
    ];
    let integers = integers.into_iter().chain([i64::MAX, i64::MIN, (1 << 53) + 1]);
    if T::EPSILON > 0.0 {
        return floats.map(|x| T::from_host(Host::Float(x))).collect();
    }
    integers.map(|n| T::from_host(Host::Int(n.into()))).collect()
}

/// What values are converted to, of every type: not generic, as the values are.
struct Outputs {
    b: Tensor<bool, 1>,
    i: Tensor<i32, 1>,
    u: Tensor<u32, 1>,
    l: Tensor<i64, 1>,
    ul: Tensor<u64, 1>,
    h: Tensor<f16, 1>,
    bh: Tensor<bf16, 1>,
    f: Tensor<f32, 1>,
    d: Tensor<f64, 1>,
    small: Small,
}

/// Of them integers of 16 bits and the types of one byte.
struct Small {
    i: Tensor<i8, 1>,
    u: Tensor<u8, 1>,
    e4: Tensor<E4M3, 1>,
    e5: Tensor<E5M2, 1>,
    i16s: Tensor<i16, 1>,
    u16s: Tensor<u16, 1>,
}

impl Outputs {
    fn new(trial: &Trial<'_>, n: usize) -> Result<Outputs, Stop> {
        let n = [n];
        Ok(Outputs {
            b: trial.output(n)?,
            i: trial.output(n)?,
            u: trial.output(n)?,
            l: trial.output(n)?,
            ul: trial.output(n)?,
            h: trial.output(n)?,
            bh: trial.output(n)?,
            f: trial.output(n)?,
            d: trial.output(n)?,
            small: Small {
                i: trial.output(n)?,
                u: trial.output(n)?,
                e4: trial.output(n)?,
                e5: trial.output(n)?,
                i16s: trial.output(n)?,
                u16s: trial.output(n)?,
            },
        })
    }

    /// Compares those that tiles were converted to.
    fn check(&self, expected: &[Host]) -> Verdict {
        compare("to bool", &self.b, expected)?;
        compare("to i32", &self.i, expected)?;
        compare("to u32", &self.u, expected)?;
        compare("to i64", &self.l, expected)?;
        compare("to u64", &self.ul, expected)?;
        compare("to f16", &self.h, expected)?;
        compare("to bf16", &self.bh, expected)?;
        compare("to f32", &self.f, expected)?;
        compare("to f64", &self.d, expected)?;
        compare("to i8", &self.small.i, expected)?;
        compare("to u8", &self.small.u, expected)?;
        compare("to e4m3", &self.small.e4, expected)?;
        compare("to e5m2", &self.small.e5, expected)?;
        compare("to i16", &self.small.i16s, expected)?;
        compare("to u16", &self.small.u16s, expected)
    }

    /// Compares those that elements were converted to in threads.
    fn check_threads(&self, expected: &[Host]) -> Verdict {
        compare("to u8", &self.small.u, expected)?;
        compare("to i16", &self.small.i16s, expected)?;
        compare("to e4m3", &self.small.e4, expected)?;
        compare("to f32", &self.f, expected)?;
        compare("to i64", &self.l, expected)
    }
}

/// Random values, after the special ones.
fn values<T: Sample>(trial: &mut Trial<'_>, count: usize) -> Result<(Tensor<T, 1>, Vec<Host>), Stop> {
    let mut data = edges::<T>();
    data.extend(trial.random::<T>(count));
    let x = trial.vector(&data)?;
    Ok((x, list(0..data.len(), |i| data[i].host())))
}

fn from<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (x, expected) = values::<T>(trial, 103)?;
    let mut outputs = Outputs::new(trial, expected.len())?;
    let Outputs { b, i, u, l, ul, h, bh, f, d, small } = &mut outputs;
    cast_to_all(&x, b, i, u, l, ul, h, bh, f, d, 32).launch(trial.device)?;
    let Small { i, u, e4, e5, i16s, u16s } = small;
    cast_to_small(&x, i, u, e4, e5, i16s, u16s, 32).launch(trial.device)?;
    outputs.check(&expected)
}

fn in_threads<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (x, expected) = values::<T>(trial, 50)?;
    let mut outputs = Outputs::new(trial, expected.len())?;
    let Outputs { f, l, small: Small { u, e4, i16s, .. }, .. } = &mut outputs;
    let grid = [expected.len().div_ceil(32)];
    cast_a_thread(&x, u, e4, f, l, i16s).grid(grid).block([32]).launch(trial.device)?;
    outputs.check_threads(&expected)
}

fn compare<U: Sample>(what: &str, got: &Tensor<U, 1>, expected: &[Host]) -> Verdict {
    holds_near(what, got, expected, 0.0, 0.0)
}

#[kernel(crate = kiln_runtime)]
fn reinterpret(
    f: &Tensor<f32, 1>,
    d: &Tensor<f64, 1>,
    u: &mut Tensor<u32, 1>,
    i: &mut Tensor<i32, 1>,
    l: &mut Tensor<u64, 1>,
    back: &mut Tensor<f32, 1>,
    block: usize,
) {
    let at = program_id(0) * block;
    let x = f.tile(at, block).load(0.0);
    u.tile(at, block).store(x.bitcast::<u32>());
    i.tile(at, block).store(x.bitcast::<i32>() ^ 1);
    l.tile(at, block).store(d.tile(at, block).load(0.0).bitcast::<u64>());
    back.tile(at, block).store((x.bitcast::<u32>() ^ 0x8000_0000u32).bitcast::<f32>());
}

fn bitcasts(trial: &mut Trial<'_>) -> Verdict {
    let n = 77;
    let (f, fs) = trial.input::<f32, 1>([n])?;
    let (d, ds) = trial.input::<f64, 1>([n])?;
    let (mut u, mut i, mut l) = (trial.output([n])?, trial.output([n])?, trial.output([n])?);
    let mut back = trial.output([n])?;
    reinterpret(&f, &d, &mut u, &mut i, &mut l, &mut back, 32).launch(trial.device)?;
    holds("f32 as u32", &u, &fs.iter().map(|x| x.to_bits()).collect::<Vec<u32>>())?;
    holds("f32 as i32", &i, &fs.iter().map(|x| x.to_bits() as i32 ^ 1).collect::<Vec<i32>>())?;
    holds("f64 as u64", &l, &ds.iter().map(|x| x.to_bits()).collect::<Vec<u64>>())?;
    holds("sign flipped", &back, &fs.iter().map(|x| -x).collect::<Vec<f32>>())
}

/// A condition as 1 or 0, whose bits are taken for a float: 2^-149, 2^-24 and 2^-1074, or 0.
/// Another such selection stands in a loop, where a compiler looks at all of them.
#[kernel(crate = kiln_runtime)]
fn take_for_floats(
    others: &mut Tensor<u32, 1>,
    rounds: Val<i64>,
    whole: &mut Tensor<i32, 2>,
    negative: &mut Tensor<u64, 2>,
) {
    for i in range(0, rounds) {
        // SAFETY: all programs store the same there, and none reads it.
        unsafe { others.write(i, i.ne(3).cast::<u32>()) };
    }
    let me = program_id(0);
    let holds = me.ne(0);
    let single = holds.cast::<u32>().bitcast::<f32>();
    let half = holds.cast::<u16>().bitcast::<f16>();
    let double = holds.cast::<u64>().bitcast::<f64>();
    // SAFETY: each program has a row of its own.
    unsafe {
        whole.write((me, 0), single.cast::<i32>());
        whole.write((me, 1), half.cast::<i32>());
        whole.write((me, 2), double.cast::<i32>());
        negative.write((me, 0), (-single).bitcast::<u32>().cast::<u64>());
        negative.write((me, 1), (-half).bitcast::<u16>().cast::<u64>());
        negative.write((me, 2), (-double).bitcast::<u64>());
    }
}

fn bits_of_conditions(trial: &mut Trial<'_>) -> Verdict {
    let mut others = trial.output([7])?;
    let (mut whole, mut negative) = (trial.output([2, 3])?, trial.output([2, 3])?);
    take_for_floats(&mut others, 7, &mut whole, &mut negative).grid([2]).launch(trial.device)?;
    holds("the selections of the loop", &others, &[1, 1, 1, 0, 1, 1, 1])?;
    holds("as integers", &whole, &[0; 6])?;
    let signs = [1 << 31, 1 << 15, 1 << 63];
    holds("with a sign", &negative, &[signs, signs.map(|sign| sign | 1)].concat())
}
