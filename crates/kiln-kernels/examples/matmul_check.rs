//! Checks products of random shapes against sums in f64: `cargo run --release -p kiln-kernels --example matmul_check [DEVICE [ROUNDS [LARGEST]]]`.
//!
//! Extents are from 1 to LARGEST (4099), small ones as likely as large ones; factors and results are by rows, by columns or parts of larger matrices; each
//! product is computed twice and must be the same. Of each, 200 elements are compared.

use half::{bf16, f16};
use kiln_kernels::matmul::Product;
use kiln_lang::Num;
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
trait Element: Num {
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

element! { bf16: bf16::from_f32, bf16::to_f64; f16: f16::from_f32, f16::to_f64; f32: |x| x, f64::from; }

/// A matrix by rows, by columns, or a part of a larger one, and its elements by rows.
fn matrix<T: Element>(
    device: &Device,
    random: &mut Random,
    [rows, columns]: [usize; 2],
) -> Result<(Tensor<T, 2>, Vec<f64>), Box<dyn Error>> {
    let (turned, odd) = (random.below(2) == 1, random.below(4) == 0);
    let [down, across] = if turned { [columns, rows] } else { [rows, columns] };
    let (before, more) = if odd { (random.below(3), random.below(5)) } else { (0, 0) };
    let data: Vec<T> =
        (0..(down + before) * (across + before + more)).map(|_| T::from(random.number())).collect();
    let whole = device.tensor(&data, [down + before, across + before + more])?;
    let part = whole.slice(0, before..before + down)?.slice(1, before..before + across)?;
    let part = if turned { part.transpose() } else { part };
    let at = |i: usize, j: usize| {
        let (i, j) = if turned { (j, i) } else { (i, j) };
        data[(i + before) * (across + before + more) + j + before].wide()
    };
    let elements = (0..rows * columns).map(|e| at(e / columns, e % columns)).collect();
    Ok((part, elements))
}

/// The error of a product relative to its size, at random places and the corners.
fn check<T: Element + Product<O>, O: Element>(
    device: &Device,
    random: &mut Random,
    largest: usize,
) -> Outcome {
    let [m, n, k] = [(); 3].map(|()| random.extent(largest));
    let (a, xs) = matrix::<T>(device, random, [m, k])?;
    let (b, ys) = matrix::<T>(device, random, [k, n])?;
    let (mut c, _) = matrix::<O>(device, random, [m, n])?;
    kiln_kernels::matmul(&a, &b, &mut c)?;
    let first = c.to_vec()?;
    kiln_kernels::matmul(&a, &b, &mut c)?;
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
        let terms: f64 = (0..k).map(|p| (xs[i * k + p] * ys[p * n + j]).powi(2)).sum();
        wrong += (first[i * n + j].wide() - sum).powi(2);
        size += terms;
    }
    let error = (wrong / size).sqrt();
    let limit = if size_of::<O>() == 4 { 1e-5 } else { 8e-3 };
    if error.is_nan() || error > limit {
        return Err(format!("{what}: error {error:.2e}").into());
    }
    Ok(error / limit)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = match arguments.next() {
        Some(name) => Device::open(&name)?,
        None => Device::default()?,
    };
    let rounds: usize = arguments.next().map_or(Ok(100), |n| n.parse())?;
    let largest: usize = arguments.next().map_or(Ok(4099), |n| n.parse())?;
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut worst = 0.0f64;
    for round in 0..rounds {
        worst = worst.max(match round % 5 {
            0 => check::<bf16, f32>(&device, &mut random, largest)?,
            1 => check::<f16, f32>(&device, &mut random, largest)?,
            2 => check::<f16, f16>(&device, &mut random, largest)?,
            _ => check::<bf16, bf16>(&device, &mut random, largest)?,
        });
    }
    println!(
        "{rounds} products on {}, the largest error {:.0} % of what is allowed",
        device.id(),
        100.0 * worst
    );
    Ok(())
}
