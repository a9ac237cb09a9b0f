//! What a product costs without an epilogue, with one, and with one that checks: `cargo run
//! --release -p kiln-kernels --example epilogue_cost [DEVICE [ROUNDS]]`.
//!
//! Prints the median TFLOP/s of products of bf16 into bf16, those of one row taken in turns. Then
//! an assertion fails in every tile of a product, and the same product without it must be what it
//! was before.

use half::bf16;
use kiln_kernels::matmul::Matmul;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Event, Result, Tensor};

/// Rows, columns, inner extent: of whole rounds of tiles, of a last round that is divided, and with
/// little to multiply for each result.
const SHAPES: [[usize; 3]; 4] =
    [[4096, 4096, 4096], [3072, 3072, 3072], [8192, 8192, 512], [1024, 4096, 1024]];
/// Launches between two events.
const BATCH: usize = 8;

/// A matrix of numbers from -1 to 1 (xorshift64*), the same ones again and again.
fn matrix(device: &Device, rows: usize, columns: usize) -> Result<Tensor<bf16, 2>> {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut number = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bf16::from_f32((state >> 40) as f32 / (1 << 23) as f32 - 1.0)
    };
    let some: Vec<bf16> = (0..(1 << 16) + 1).map(|_| number()).collect();
    let mut all = some.repeat(rows * columns / some.len() + 1);
    all.truncate(rows * columns);
    device.tensor(&all, [rows, columns])
}

type Product<'a> = dyn Fn(&mut Tensor<bf16, 2>) -> Result<()> + 'a;

/// Milliseconds of a product.
fn time(device: &Device, c: &mut Tensor<bf16, 2>, product: &Product<'_>) -> Result<f64> {
    let start = Event::now(device)?;
    for _ in 0..BATCH {
        product(c)?;
    }
    let end = Event::now(device)?;
    device.synchronize()?;
    Ok(f64::from(end.milliseconds_since(&start)?) / BATCH as f64)
}

fn row(device: &Device, [m, n, k]: [usize; 3], rounds: usize) -> Result<()> {
    let (a, b) = (matrix(device, m, k)?, matrix(device, k, n)?);
    let mut c = device.uninit::<bf16, 2>([m, n])?;
    let plain = |c: &mut Tensor<bf16, 2>| Matmul::new(&a, &b).run(c);
    let scaled = |c: &mut Tensor<bf16, 2>| Matmul::new(&a, &b).map(|x| x * 2.0).run(c);
    let checked = |c: &mut Tensor<bf16, 2>| {
        let check = |x: Val<f32>| {
            device_assert!(x.le(1e30), "a sum is too large");
            x * 2.0
        };
        Matmul::new(&a, &b).map(check).run(c)
    };
    let ways: [&Product<'_>; 3] = [&plain, &scaled, &checked];
    let mut times = [(); 3].map(|()| Vec::with_capacity(rounds));
    for round in 0..=rounds {
        for (way, times) in ways.iter().zip(&mut times) {
            let took = time(device, &mut c, way)?;
            // The first round compiles.
            times.extend((round > 0).then_some(took));
        }
    }
    let speeds = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        2.0 * (m * n * k) as f64 / times[times.len() / 2] / 1e9
    });
    println!(
        "{m} x {n} x {k}: {:.1} plain, {:.1} scaled, {:.1} scaled and checked",
        speeds[0], speeds[1], speeds[2]
    );
    plain(&mut c)?;
    let before = c.to_vec()?;
    let wrong = |x: Val<f32>| {
        device_assert!(x.le(-1e30), "a sum is not small");
        x
    };
    Matmul::new(&a, &b).map(wrong).run(&mut c)?;
    match device.synchronize() {
        Err(error) => println!("  {error}"),
        Ok(()) => println!("  NO FAULT"),
    }
    plain(&mut c)?;
    let same = before == c.to_vec()?;
    println!("  afterwards {}", if same { "as before" } else { "NOT AS BEFORE" });
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let device = Device::open(&args.next().unwrap_or_else(|| "cuda:0".into()))?;
    let rounds: usize = args.next().map_or(Ok(9), |n| n.parse())?;
    SHAPES.into_iter().try_for_each(|shape| Ok(row(&device, shape, rounds.max(1))?))
}
