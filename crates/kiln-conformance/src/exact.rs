//! Arithmetic that has the same bits on every device, and those that Rust computes.
//!
//! Sums, differences, products, quotients, remainders, square roots, reciprocals and multiply-adds
//! are rounded once. Nothing is fused that does not say so, subnormal numbers count in full, and a
//! chain of operations is thus as exact as each of them.

use crate::actors::{active, runtimes};
use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, list};
use half::{bf16, f16};
use kiln_ir::{Literal, Scalar, eval};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Rng, Sample};
use kiln_ring::{RingConfig, RingCtx, State, ring_kernel};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    let cases = cases!["exact":
        operations for f16 bf16 f32 f64;
        whole_numbers_round_once for f16 bf16 f32 f64;
        fast_division for f16 bf16 f32 f64;
        welford;
        contracted_welford;
    ];
    let resident = cases!["exact": welford_in_a_handler;];
    cases.into_iter().chain(resident.into_iter().map(Case::resident)).collect()
}

/// Floats with Rust's own arithmetic.
trait Exact: Sample + Float + num::Host {
    /// The number with these low bits.
    fn of_bits(bits: u64) -> Self;
    fn bits(self) -> u64 {
        self.literal().bits()
    }
}

mod num {
    use half::{bf16, f16};
    use std::ops::{Add, Div, Mul, Rem, Sub};

    /// Rust's operators, and the functions that are exact.
    pub trait Host:
        Sized
        + Add<Output = Self>
        + Sub<Output = Self>
        + Mul<Output = Self>
        + Div<Output = Self>
        + Rem<Output = Self>
    {
        fn root(self) -> Self;
    }

    impl Host for f32 {
        fn root(self) -> f32 {
            self.sqrt()
        }
    }
    impl Host for f64 {
        fn root(self) -> f64 {
            self.sqrt()
        }
    }
    impl Host for f16 {
        fn root(self) -> f16 {
            f16::from_f32(self.to_f32().sqrt())
        }
    }
    impl Host for bf16 {
        fn root(self) -> bf16 {
            bf16::from_f32(self.to_f32().sqrt())
        }
    }
}

macro_rules! exact {
    ($($t:ident $bits:ident;)*) => {$(
        impl Exact for $t {
            fn of_bits(bits: u64) -> $t {
                $t::from_bits(bits as $bits)
            }
        }
    )*};
}
exact! { f16 u16; bf16 u16; f32 u32; f64 u64; }

/// Any bits at all, small whole numbers, and neighbors of zero, each as often.
fn any<T: Exact>(rng: &mut Rng) -> T {
    let bits = rng.bits();
    let width = 8 * size_of::<T>() as u32;
    match rng.below(4) {
        0 | 1 => T::of_bits(bits),
        2 => T::small((bits % 200) as i32 - 100),
        // The lowest quarter of the bits and the sign: subnormal numbers and zeros.
        _ => T::of_bits(bits & ((1 << (width / 4)) - 1) | bits >> 63 << (width - 1)),
    }
}

/// Whether a device's subnormal numbers are no zeros.
fn counts_subnormals<T: Exact>(trial: &Trial<'_>) -> bool {
    trial.device.capabilities().subnormals || !matches!(T::SCALAR, Scalar::F32 | Scalar::BF16)
}

/// Any number; where a device takes subnormal numbers for zeros, one of which no operation comes
/// near them: 2^-40 to 2^40, or none of that kind.
fn operand<T: Exact>(trial: &mut Trial<'_>) -> T {
    let counted = counts_subnormals::<T>(trial);
    loop {
        let x: T = any(&mut trial.rng);
        let size = x.host().float().abs();
        if counted || size == 0.0 || !size.is_finite() || (-40.0..40.0).contains(&size.log2()) {
            return x;
        }
    }
}

const NAMES: [&str; 10] =
    ["a + b", "a - b", "a * b", "a / b", "a % b", "sqrt a", "recip a", "fma", "a * b + c", "(a - b) / c"];

fn on_device<T: Float>([a, b, c]: [Val<T>; 3]) -> [Val<T>; 10] {
    let fused = a.fma(b, c);
    [a + b, a - b, a * b, a / b, a % b, a.sqrt(), a.recip(), fused, a * b + c, (a - b) / c]
}

fn on_host<T: Exact>([a, b, c]: [T; 3]) -> [T; 10] {
    let fused =
        eval::fma(a.literal(), b.literal(), c.literal()).map_or(T::small(0), |l| T::of_bits(l.bits()));
    [a + b, a - b, a * b, a / b, a % b, a.root(), T::small(1) / a, fused, a * b + c, (a - b) / c]
}

#[kernel(crate = kiln_runtime)]
fn all_on_tiles<T: Float>(
    a: &Tensor<T, 1>,
    b: &Tensor<T, 1>,
    c: &Tensor<T, 1>,
    y: &mut Tensor<T, 2>,
    block: usize,
) {
    let at = program_id(0) * block;
    let load = |x: View<T, 1>| x.tile(at, block).load(1);
    for (row, result) in on_device([load(a), load(b), load(c)]).into_iter().enumerate() {
        y.row(row).tile(at, block).store(result);
    }
}

#[kernel(crate = kiln_runtime)]
fn all_in_threads<T: Float>(a: &Tensor<T, 1>, b: &Tensor<T, 1>, c: &Tensor<T, 1>, y: &mut Tensor<T, 2>) {
    let i = thread_index();
    if i.get() < a.extent(0) {
        for (row, result) in on_device([a.get(i), b.get(i), c.get(i)]).into_iter().enumerate() {
            y.row(row).set(i, result);
        }
    }
}

fn operations<T: Exact>(trial: &mut Trial<'_>) -> Verdict {
    const N: usize = 1500;
    let [a, mut b, mut c]: [Vec<T>; 3] = [(); 3].map(|()| list(0..N, |_| operand(trial)));
    let least = if T::SCALAR == Scalar::F64 { -1022 } else { -126 };
    if T::BITS >= 32 && counts_subnormals::<T>(trial) {
        // Products that are subnormal by a few bits, and small addends.
        for i in (0..N).step_by(8) {
            let size = 0.25 + trial.rng.below(1 << 20) as f64 / f64::from(1 << 20);
            let product = 2f64.powi(least) * size;
            let factor = T::from_host(Host::Float(product / a[i].host().float()));
            if factor.host().float().is_normal() {
                let addend = product * 2f64.powi(-(trial.rng.below(60) as i32));
                (b[i], c[i]) = (factor, T::from_host(Host::Float(addend)));
            }
        }
    }
    let expected: Vec<[T; 10]> = list(0..N, |i| on_host([a[i], b[i], c[i]]));
    let (x, y, z) = (trial.vector(&a)?, trial.vector(&b)?, trial.vector(&c)?);
    let mut tiles = trial.output::<T, 2>([NAMES.len(), N])?;
    all_on_tiles(&x, &y, &z, &mut tiles, 256).launch(trial.device)?;
    let mut threads = trial.output::<T, 2>([NAMES.len(), N])?;
    let grid = [N.div_ceil(64) as u32, 1, 1];
    all_in_threads(&x, &y, &z, &mut threads).grid(grid).block([64, 1, 1]).launch(trial.device)?;
    for (level, got) in [("on tiles", tiles.to_vec()?), ("in threads", threads.to_vec()?)] {
        for (row, name) in NAMES.iter().enumerate() {
            let want: Vec<T> = expected.iter().map(|e| e[row]).collect();
            let inputs = |i: usize| format!("{:?}, {:?}, {:?}", a[i], b[i], c[i]);
            same_bits(&format!("{name} {level}"), &got[row * N..][..N], &want, inputs)?;
        }
    }
    Ok(())
}

/// The same bits, but for what NaN carries.
fn same_bits<T: Exact>(what: &str, got: &[T], want: &[T], of: impl Fn(usize) -> String) -> Verdict {
    let nan = |x: T| x.host().float().is_nan();
    let right = |(g, w): (&T, &T)| g.bits() == w.bits() || nan(*g) && nan(*w);
    let wrong: Vec<usize> = (0..want.len()).filter(|&i| !right((&got[i], &want[i]))).collect();
    let Some(&i) = wrong.first() else { return Ok(()) };
    let (n, bits) = (wrong.len(), [got[i].bits(), want[i].bits()]);
    ensure(false, || {
        let [g, w] = bits;
        format!("{what} of {}: {:?} ({g:#x}) for {:?} ({w:#x}); {n} differ", of(i), got[i], want[i])
    })
}

#[kernel(crate = kiln_runtime)]
fn converted<T: Float>(x: &Tensor<i64, 1>, y: &mut Tensor<T, 1>, block: usize) {
    let at = program_id(0) * block;
    y.tile(at, block).store(x.tile(at, block).load(0).cast::<T>());
}

/// Whole numbers of more digits than f64 has, some of them just beside the middle of two floats.
fn whole_numbers_round_once<T: Exact>(trial: &mut Trial<'_>) -> Verdict {
    let mut x: Vec<i64> =
        vec![i64::MIN, i64::MAX, 0, -1, (1 << 62) + (1 << 54) + 1, (1 << 62) + (1 << 38) + 1];
    for digits in [8, 11, 24, 53] {
        for beside in [-1i64, 0, 1] {
            let middle = (1i64 << 62) + (1 << (62 - digits));
            x.extend([middle + beside, -middle - beside, 3 * (middle / 4) + beside]);
        }
    }
    x.extend((0..500).map(|_| trial.rng.bits() as i64 >> trial.rng.below(60)));
    let want: Vec<T> =
        x.iter().map(|&v| T::of_bits(eval::cast(Literal::index(v), T::SCALAR).bits())).collect();
    let input = trial.vector(&x)?;
    let mut y = trial.output::<T, 1>([x.len()])?;
    converted(&input, &mut y, 128).launch(trial.device)?;
    same_bits("i64 to float", &y.to_vec()?, &want, |i| x[i].to_string())
}

#[kernel(crate = kiln_runtime)]
fn divided_fast<T: Float>(a: &Tensor<T, 1>, b: &Tensor<T, 1>, y: &mut Tensor<T, 2>, block: usize) {
    let at = program_id(0) * block;
    let (a, b) = (a.tile(at, block).load(1), b.tile(at, block).load(1));
    y.row(0).tile(at, block).store(a.fast_div(b));
    y.row(1).tile(at, block).store(b.fast_recip());
}

fn fast_division<T: Exact>(trial: &mut Trial<'_>) -> Verdict {
    const N: usize = 300;
    let (x, a) = trial.input::<T, 1>([N])?;
    let b: Vec<T> =
        trial.random(N).into_iter().map(|v: T| if v.bits() << 1 == 0 { T::small(3) } else { v }).collect();
    let divisors = trial.vector(&b)?;
    let mut y = trial.output::<T, 2>([2, N])?;
    divided_fast(&x, &divisors, &mut y, 128).launch(trial.device)?;
    let got = y.to_vec()?;
    let one = T::small(1).host();
    let by = |a: kiln_reference::Host, b: T| a.with(b.host(), |a, _| a, |a, b| a / b);
    let quotients: Vec<_> = a.iter().zip(&b).map(|(a, &b)| by(a.host(), b)).collect();
    let inverses: Vec<_> = b.iter().map(|&b| by(one, b)).collect();
    crate::trial::close("fast_div", &got[..N], &quotients, 2.0, 0.0)?;
    crate::trial::close("fast_recip", &got[N..], &inverses, 2.0, 0.0)
}

/// Readings of 256 sensors, one after the other, and the means and variances of Welford's method in
/// Rust's own f32 ("Note on a method for calculating corrected sums of squares and products",
/// 1962).
struct Readings {
    by_sensor: Vec<f32>,
    means: Vec<f32>,
    variances: Vec<f32>,
}

const SENSORS: usize = 256;
const TURNS: usize = 40;

impl Readings {
    fn new(rng: &mut Rng) -> Readings {
        let by_sensor: Vec<f32> = list(0..SENSORS * TURNS, |_| rng.between(-40.0, 85.0) as f32);
        let (mut means, mut variances) = (Vec::new(), Vec::new());
        for readings in by_sensor.chunks(TURNS) {
            let (mut count, mut mean, mut squares) = (0.0f32, 0.0f32, 0.0f32);
            for &x in readings {
                count += 1.0;
                let delta = x - mean;
                mean += delta / count;
                squares += delta * (x - mean);
            }
            means.push(mean);
            variances.push(squares / (count - 1.0));
        }
        Readings { by_sensor, means, variances }
    }
}

/// The mean and the variance of each row of `x`.
#[kernel(crate = kiln_runtime)]
fn spread_on_tiles(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, sensors: usize) {
    let at = program_id(0) * sensors;
    let mut count: Val<f32> = 0.0;
    let mut mean = zeros::<f32>(sensors);
    let mut squares = zeros::<f32>(sensors);
    for turn in 0..x.extent(1) {
        let reading = x.tile((at, turn), (sensors, 1)).load(0.0).reshape(sensors);
        count += 1.0;
        let delta = reading - mean;
        mean += delta / count;
        squares += delta * (reading - mean);
    }
    y.row(0).tile(at, sensors).store(mean);
    y.row(1).tile(at, sensors).store(squares / (count - 1.0));
}

#[kernel(crate = kiln_runtime)]
fn spread_in_threads(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    let sensor = thread_index();
    let readings = x.row(sensor.get());
    let mut count: Val<f32> = 0.0;
    let mut mean: Val<f32> = 0.0;
    let mut squares: Val<f32> = 0.0;
    for turn in 0..x.extent(1) {
        let reading = readings.get(turn);
        count += 1.0;
        let delta = reading - mean;
        mean += delta / count;
        squares += delta * (reading - mean);
    }
    y.row(0).set(sensor, mean);
    y.row(1).set(sensor, squares / (count - 1.0));
}

fn welford(trial: &mut Trial<'_>) -> Verdict {
    let readings = Readings::new(&mut trial.rng);
    let x = trial.device.tensor(&readings.by_sensor, [SENSORS, TURNS])?;
    let want = [readings.means, readings.variances].concat();
    let sensor = |i: usize| format!("sensor {}", i % SENSORS);
    let mut tiles = trial.output::<f32, 2>([2, SENSORS])?;
    spread_on_tiles(&x, &mut tiles, 64).grid([SENSORS as u32 / 64, 1, 1]).launch(trial.device)?;
    same_bits("on tiles, the mean or variance", &tiles.to_vec()?, &want, sensor)?;
    let mut threads = trial.output::<f32, 2>([2, SENSORS])?;
    let grid = [SENSORS as u32 / 32, 1, 1];
    spread_in_threads(&x, &mut threads).grid(grid).block([32, 1, 1]).launch(trial.device)?;
    same_bits("in threads, the mean or variance", &threads.to_vec()?, &want, sensor)
}

#[derive(State, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Spread {
    count: f32,
    mean: f32,
    squares: f32,
}

/// The mean and the sum of squared differences of all readings so far.
#[ring_kernel(crate = kiln_ring)]
fn observe(_ctx: &RingCtx, s: &mut Spread, reading: f32) -> [f32; 2] {
    s.count += 1.0;
    let delta = reading - s.mean;
    s.mean += delta / s.count;
    s.squares += delta * (reading - s.mean);
    [s.mean, s.squares]
}

fn welford_in_a_handler(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let start = Spread { count: 0.0, mean: 0.0, squares: 0.0 };
        let actor = active(&rt, observe, RingConfig::default().state(start))?;
        let (mut count, mut mean, mut squares) = (0.0f32, 0.0f32, 0.0f32);
        for turn in 0..150 {
            let reading = trial.rng.between(-40.0, 85.0) as f32;
            count += 1.0;
            let delta = reading - mean;
            mean += delta / count;
            squares += delta * (reading - mean);
            let got = actor.ask(reading)?;
            ensure(got.map(|r| r.map(f32::to_bits)) == Some([mean, squares].map(f32::to_bits)), || {
                format!("reading {turn}: {got:?} for {mean:?}, {squares:?}")
            })?;
        }
    }
    Ok(())
}

/// As [`spread_in_threads`], with products and sums that may be fused.
#[kernel(crate = kiln_runtime, contract)]
fn spread_contracted(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    let sensor = thread_index();
    let readings = x.row(sensor.get());
    let mut count: Val<f32> = 0.0;
    let mut mean: Val<f32> = 0.0;
    let mut squares: Val<f32> = 0.0;
    for turn in 0..x.extent(1) {
        let reading = readings.get(turn);
        count += 1.0;
        let delta = reading - mean;
        mean += delta / count;
        squares += delta * (reading - mean);
    }
    y.row(0).set(sensor, mean);
    y.row(1).set(sensor, squares / (count - 1.0));
}

fn contracted_welford(trial: &mut Trial<'_>) -> Verdict {
    let readings = Readings::new(&mut trial.rng);
    let x = trial.device.tensor(&readings.by_sensor, [SENSORS, TURNS])?;
    let want = [readings.means, readings.variances].concat();
    let mut y = trial.output::<f32, 2>([2, SENSORS])?;
    let grid = [SENSORS as u32 / 32, 1, 1];
    spread_contracted(&x, &mut y).grid(grid).block([32, 1, 1]).launch(trial.device)?;
    let want: Vec<_> = want.iter().map(|v| v.host()).collect();
    crate::trial::close("the mean or variance", &y.to_vec()?, &want, 64.0, 50.0)
}
