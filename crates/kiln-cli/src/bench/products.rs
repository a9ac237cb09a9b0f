//! The rows of matrix products on a GPU.

use super::clock::Cache;
use super::rows::{Call, Row, Sizes, Work, random};
use half::{bf16, f16};
use kiln_kernels::matmul::Product;
use kiln_lang::{Float, Num};
use kiln_runtime::{Device, Result, Tensor};

/// The rows, as `bench/rows.py` has them.
pub fn rows() -> Vec<Row> {
    vec![
        square("matmul_bf16_1024", 1024, |d, _| make::<bf16>(d, [1024; 3])),
        square("matmul_bf16_2048", 2048, |d, _| make::<bf16>(d, [2048; 3])),
        square("matmul_bf16_4096", 4096, |d, _| make::<bf16>(d, [4096; 3])),
        square("matmul_bf16_8192", 8192, |d, _| make::<bf16>(d, [8192; 3])),
        square("matmul_bf16_16384", 16384, |d, _| make::<bf16>(d, [16384; 3])),
        square("matmul_f16_2048", 2048, |d, _| make::<f16>(d, [2048; 3])),
        square("matmul_f16_4096", 4096, |d, _| make::<f16>(d, [4096; 3])),
        square("matmul_f16_8192", 8192, |d, _| make::<f16>(d, [8192; 3])),
        square("matmul_f16_16384", 16384, |d, _| make::<f16>(d, [16384; 3])),
        row("matmul_bf16_4096x14336x4096", [4096, 14336, 4096], true, |d, _| {
            make::<bf16>(d, [4096, 14336, 4096])
        }),
        row("matmul_bf16_8192x1024x8192", [8192, 1024, 8192], true, |d, _| {
            make::<bf16>(d, [8192, 1024, 8192])
        }),
        row("matmul_bf16_128x8192x8192", [128, 8192, 8192], true, |d, _| layer::<bf16>(d, [128, 8192, 8192])),
        row("matmul_bf16_64x8192x8192", [64, 8192, 8192], false, |d, _| layer::<bf16>(d, [64, 8192, 8192])),
        row("matmul_bf16_16x8192x8192", [16, 8192, 8192], false, |d, _| layer::<bf16>(d, [16, 8192, 8192])),
        row("matmul_bf16_1x8192x8192", [1, 8192, 8192], false, |d, _| layer::<bf16>(d, [1, 8192, 8192])),
    ]
}

fn square(name: &'static str, n: u64, make: fn(&Device, &Sizes) -> Result<Call>) -> Row {
    row(name, [n; 3], true, make)
}

/// A product of m × k and k × n, all of 16-bit floats.
fn row(
    name: &'static str,
    [m, n, k]: [u64; 3],
    arithmetic: bool,
    make: fn(&Device, &Sizes) -> Result<Call>,
) -> Row {
    Row {
        name,
        bytes: 2 * (m * k + k * n + m * n),
        flops: 2 * m * n * k,
        arithmetic,
        cache: Cache::Read,
        work: Work::Device(make),
    }
}

/// Both factors by rows.
fn make<T: Product<T> + Float + Rounded>(device: &Device, [m, n, k]: [usize; 3]) -> Result<Call> {
    let (a, b) = (matrix::<T>(device, m, k)?, matrix::<T>(device, k, n)?);
    let mut c = device.zeros::<T, 2>([m, n])?;
    Ok(Box::new(move || kiln_kernels::matmul(&a, &b, &mut c)))
}

/// A layer with weights `[n, k]`: the second factor by columns.
fn layer<T: Product<T> + Float + Rounded>(device: &Device, [m, n, k]: [usize; 3]) -> Result<Call> {
    let (a, b) = (matrix::<T>(device, m, k)?, matrix::<T>(device, n, k)?.transpose());
    let mut c = device.zeros::<T, 2>([m, n])?;
    Ok(Box::new(move || kiln_kernels::matmul(&a, &b, &mut c)))
}

/// What numbers are rounded to.
trait Rounded: Num {
    fn rounded(x: f32) -> Self;
}

impl Rounded for bf16 {
    fn rounded(x: f32) -> bf16 {
        bf16::from_f32(x)
    }
}

impl Rounded for f16 {
    fn rounded(x: f32) -> f16 {
        f16::from_f32(x)
    }
}

/// Random numbers: a block of them, repeated, whose length has no factor in common with any row's.
fn matrix<T: Rounded>(device: &Device, rows: usize, columns: usize) -> Result<Tensor<T, 2>> {
    let block: Vec<T> = random((rows * columns).min((1 << 22) - 3)).into_iter().map(T::rounded).collect();
    let data: Vec<T> = block.iter().copied().cycle().take(rows * columns).collect();
    device.tensor(&data, [rows, columns])
}
