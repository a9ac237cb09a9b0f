//! Checks products of random shapes against sums in f64: `cargo run --release -p kiln-kernels
//! --example matmul_check [DEVICE [ROUNDS [LARGEST]]]`.
//!
//! Extents are from 1 to LARGEST (4099), small ones as likely as large ones; factors and results
//! are by rows, by columns or parts of larger matrices; each product is computed twice and must be
//! the same; every other one gets a bias. Of each, 200 elements are compared. With `errors` for
//! ROUNDS it prints the error of products of 512 × 512 × 8192 instead.

use half::{bf16, f16};
use kiln_kernels::matmul::epilogue::{Identity, Then, Vector};
use kiln_kernels::matmul::{Epilogue, Factor, Matmul, Precision};
use kiln_lang::{E4M3, E5M2, Numeric};
use kiln_runtime::{Device, Tensor};
use std::error::Error;

type Outcome = Result<f64, Box<dyn Error>>;

/// Numbers with the same distribution everywhere (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    /// An extent: the number of its bits is as random as they are.
    fn extent(&mut self, largest: usize) -> usize {
        let bits = self.below(largest.ilog2() as usize + 2) as u32;
        1 + self.below(largest.min(1 << bits))
    }

    /// A number from -1 to 1.
    fn number(&mut self) -> f32 {
        self.next() as u32 as f32 / (1u64 << 31) as f32 - 1.0
    }
}

/// Element types, to and from f64.
trait Element: Numeric {
    fn from(x: f32) -> Self;
    fn wide(self) -> f64;
}

macro_rules! element {
    ($($t:ty: $from:expr, $wide:expr;)*) => {$(
        impl Element for $t {
            fn from(x: f32) -> $t {
                $from(x)
            }

            fn wide(self) -> f64 {
                $wide(self)
            }
        }
    )*};
}

element! {
    bf16: bf16::from_f32, bf16::to_f64;
    f16: f16::from_f32, f16::to_f64;
    f32: |x: f32| f32::from_bits(x.to_bits() & !0x1fff), f64::from;
    E4M3: E4M3::from_f32, E4M3::to_f64;
    E5M2: E5M2::from_f32, E5M2::to_f64;
    i8: |x: f32| (128.0 * x) as i8, f64::from;
    u8: |x: f32| (128.0 + 127.0 * x) as u8, f64::from;
    i32: |x| x as i32, f64::from;
}

/// A matrix by rows, by columns, or a part of a larger one, and its elements by rows.
fn matrix<T: Element>(
    device: &Device,
    random: &mut Random,
    [rows, columns]: [usize; 2],
) -> Result<(Tensor<T, 2>, Vec<f64>), Box<dyn Error>> {
    let (transposed, odd) = (random.below(2) == 1, random.below(4) == 0);
    let [down, across] = if transposed { [columns, rows] } else { [rows, columns] };
    let (before, more) = if odd { (random.below(3), random.below(5)) } else { (0, 0) };
    let data: Vec<T> =
        (0..(down + before) * (across + before + more)).map(|_| T::from(random.number())).collect();
    let whole = device.tensor(&data, [down + before, across + before + more])?;
    let part = whole.slice(0, before..before + down)?.slice(1, before..before + across)?;
    let part = if transposed { part.transpose() } else { part };
    let at = |i: usize, j: usize| {
        let (i, j) = if transposed { (j, i) } else { (i, j) };
        data[(i + before) * (across + before + more) + j + before].wide()
    };
    let elements = (0..rows * columns).map(|e| at(e / columns, e % columns)).collect();
    Ok((part, elements))
}

/// The error of a product relative to its size, at random places and the corners, by how much is
/// allowed.
fn check<T: Element + Factor, O: Element>(
    device: &Device,
    random: &mut Random,
    largest: usize,
    precision: Precision,
) -> Outcome
where
    Vector<f32>: Epilogue<T::Sum, Out = f32>,
    Then<Identity, Vector<f32>>: Epilogue<T::Sum>,
{
    let shape = [(); 3].map(|()| random.extent(largest));
    let error = error::<T, O>(device, random, shape, precision)?;
    let limit = match (size_of::<T>(), size_of::<O>()) {
        _ if T::SCALAR.is_int() => 1e-12,
        (1, 4) => 2e-3,
        (_, 4) => 1e-5,
        (_, 2) => 8e-3,
        _ => 0.2,
    };
    if error.is_nan() || error > limit {
        let what = std::any::type_name::<T>();
        return Err(format!("{what}, {shape:?}, {precision:?}: error {error:.2e}").into());
    }
    Ok(error / limit)
}

fn error<T: Element + Factor, O: Element>(
    device: &Device,
    random: &mut Random,
    [m, n, k]: [usize; 3],
    precision: Precision,
) -> Outcome
where
    Vector<f32>: Epilogue<T::Sum, Out = f32>,
    Then<Identity, Vector<f32>>: Epilogue<T::Sum>,
{
    let (a, xs) = matrix::<T>(device, random, [m, k])?;
    let (b, ys) = matrix::<T>(device, random, [k, n])?;
    let (mut c, _) = matrix::<O>(device, random, [m, n])?;
    let bias: Vec<f32> = (0..n).map(|_| (8.0 * random.number()).round()).collect();
    let biased = random.below(2) == 1 && !T::SCALAR.is_int();
    let (vector, product) = (device.tensor(&bias, [n])?, || Matmul::new(&a, &b).precision(precision));
    let multiply = |c: &mut Tensor<O, 2>| match biased {
        true => product().bias(&vector).run(c),
        false => product().run(c),
    };
    multiply(&mut c)?;
    let first = c.to_vec()?;
    multiply(&mut c)?;
    let what = format!(
        "{} {m} x {n} x {k}, strides {:?} {:?} {:?}",
        std::any::type_name::<T>(),
        a.strides(),
        b.strides(),
        c.strides()
    );
    if c.to_vec()? != first {
        return Err(format!("{what}: two runs differ").into());
    }
    let (mut wrong, mut size) = (0.0, 0.0);
    for sample in 0..200 {
        let (i, j) = match sample {
            0 => (0, 0),
            1 => (m - 1, n - 1),
            2 => (0, n - 1),
            3 => (m - 1, 0),
            _ => (random.below(m), random.below(n)),
        };
        let sum: f64 = (0..k).map(|p| xs[i * k + p] * ys[p * n + j]).sum();
        let sum = sum + if biased { f64::from(bias[j]) } else { 0.0 };
        let terms: f64 = (0..k).map(|p| (xs[i * k + p] * ys[p * n + j]).powi(2)).sum();
        wrong += (first[i * n + j].wide() - sum).powi(2);
        size += terms + if biased { f64::from(bias[j]).powi(2) } else { 0.0 };
    }
    Ok(if wrong == 0.0 { 0.0 } else { (wrong / size).sqrt() })
}

fn errors(device: &Device) -> Result<(), Box<dyn Error>> {
    let (shape, mut random) = ([512, 512, 8192], Random(1));
    let (full, fast, tf32) = (Precision::Full, Precision::FastSums, Precision::Tf32);
    println!("e4m3 {:.2e}", error::<E4M3, f32>(device, &mut random, shape, full)?);
    println!("e4m3, fast sums {:.2e}", error::<E4M3, f32>(device, &mut random, shape, fast)?);
    println!("e5m2 {:.2e}", error::<E5M2, f32>(device, &mut random, shape, full)?);
    println!("f32 as tf32 {:.2e}", error::<f32, f32>(device, &mut random, shape, tf32)?);
    println!("i8 {:.2e}", error::<i8, i32>(device, &mut random, shape, full)?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = match arguments.next() {
        Some(name) => Device::open(&name)?,
        None => Device::default()?,
    };
    let rounds = arguments.next();
    if rounds.as_deref() == Some("errors") {
        return errors(&device);
    }
    let rounds: usize = rounds.map_or(Ok(100), |n| n.parse())?;
    let largest: usize = arguments.next().map_or(Ok(4099), |n| n.parse())?;
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut worst = 0.0f64;
    for round in 0..rounds {
        let (full, random) = (Precision::Full, &mut random);
        worst = worst.max(match round % 12 {
            0 => check::<bf16, f32>(&device, random, largest, full)?,
            1 => check::<f16, f32>(&device, random, largest, full)?,
            2 => check::<f16, f16>(&device, random, largest, full)?,
            3 => check::<E4M3, f32>(&device, random, largest, full)?,
            4 => check::<E5M2, bf16>(&device, random, largest, full)?,
            5 => check::<E4M3, bf16>(&device, random, largest, Precision::FastSums)?,
            6 => check::<E4M3, E5M2>(&device, random, largest, full)?,
            7 => check::<i8, i32>(&device, random, largest, full)?,
            8 => check::<u8, i32>(&device, random, largest, full)?,
            9 => check::<f32, f32>(&device, random, largest, Precision::Tf32)?,
            _ => check::<bf16, bf16>(&device, random, largest, full)?,
        });
    }
    println!(
        "{rounds} products on {}, the largest error {:.0} % of what is allowed",
        device.id(),
        100.0 * worst
    );
    Ok(())
}
