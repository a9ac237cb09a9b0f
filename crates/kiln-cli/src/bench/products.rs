//! The rows of matrix products on a GPU.

use super::clock::Cache;
use super::rows::{Call, Row, Sizes, Work, random};
use half::{bf16, f16};
use kiln_kernels::matmul::epilogue::{Epilogue, Identity};
use kiln_kernels::matmul::{Factor, Matmul, Precision, plain};
use kiln_lang::{E4M3, Num, Numeric};
use kiln_runtime::{Device, Result, Tensor};

/// The rows, as `bench/rows.py` has them.
pub fn rows() -> Vec<Row> {
    vec![
        square("matmul_bf16_1024", 1024, |d, _| make::<bf16>(d, [1024; 3])),
        square("matmul_bf16_2048", 2048, |d, _| make::<bf16>(d, [2048; 3])),
        square("matmul_bf16_3072", 3072, |d, _| make::<bf16>(d, [3072; 3])),
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
        narrow("matmul_fp8_8192", 8192, 2, |d, _| scaled(d, 8192, Precision::Full)),
        narrow("matmul_fp8_fast_8192", 8192, 2, |d, _| scaled(d, 8192, Precision::FastSums)),
        narrow("matmul_i8_8192", 8192, 4, |d, _| integers(d, 8192)),
        Row { bytes: 12 << 24, ..square("matmul_tf32_4096", 4096, |d, _| whole::<f32>(d, Precision::Tf32)) },
        Row {
            bytes: 12 << 24,
            ..square("matmul_tf32x3_4096", 4096, |d, _| whole::<f32>(d, Precision::Tf32x3))
        },
        Row { bytes: 12 << 24, ..square("matmul_f32_4096", 4096, |d, _| whole::<f32>(d, Precision::Full)) },
        Row { bytes: 24 << 24, ..square("matmul_f64_4096", 4096, |d, _| whole::<f64>(d, Precision::Full)) },
        Row {
            bytes: 6 * (64 << 20),
            flops: 2 * (64 << 30),
            ..square("matmul_bf16_64x1024", 1024, |d, _| stack(d, 64, 1024))
        },
        square("matmul_tile_4096", 4096, |d, _| over_tiles::<bf16>(d, 4096)),
    ]
}

/// A product of factors of 8 bits, b by columns, with a result of so many bytes.
fn narrow(name: &'static str, n: u64, result: u64, make: fn(&Device, &Sizes) -> Result<Call>) -> Row {
    Row { bytes: (2 + result) * n * n, ..square(name, n, make) }
}

/// 8-bit floats, with a scale for each factor and a result of bf16.
fn scaled(device: &Device, n: usize, precision: Precision) -> Result<Call> {
    let (a, b) = (matrix::<E4M3>(device, n, n)?, matrix::<E4M3>(device, n, n)?.transpose());
    let (of_a, of_b) = (device.tensor(&[0.5f32], [1])?, device.tensor(&[2.0f32], [1])?);
    let mut c = device.zeros::<bf16, 2>([n, n])?;
    Ok(Box::new(move || {
        let product = Matmul::new(&a, &b).precision(precision);
        product.scale_all(&of_a).scale_all(&of_b).run(&mut c)
    }))
}

fn integers(device: &Device, n: usize) -> Result<Call> {
    let (a, b) = (matrix::<i8>(device, n, n)?, matrix::<i8>(device, n, n)?.transpose());
    let mut c = device.zeros::<i32, 2>([n, n])?;
    Ok(Box::new(move || kiln_kernels::matmul(&a, &b, &mut c)))
}

/// Floats of 32 or 64 bits, 4096 x 4096, b by columns.
fn whole<T: Factor<Sum = T> + Num + Rounded>(device: &Device, precision: Precision) -> Result<Call>
where
    Identity: Epilogue<T>,
{
    let n = 4096;
    let (a, b) = (matrix::<T>(device, n, n)?, matrix::<T>(device, n, n)?.transpose());
    let mut c = device.zeros::<T, 2>([n, n])?;
    Ok(Box::new(move || Matmul::new(&a, &b).precision(precision).run(&mut c)))
}

/// So many products of n × n, all factors by rows.
fn stack(device: &Device, products: usize, n: usize) -> Result<Call> {
    let factors = || matrix::<bf16>(device, products * n, n)?.reshape([products, n, n]);
    let (a, b) = (factors()?, factors()?);
    let mut c = device.zeros::<bf16, 3>([products, n, n])?;
    Ok(Box::new(move || kiln_kernels::matmul(&a, &b, &mut c)))
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
fn make<T: Factor + Rounded>(device: &Device, [m, n, k]: [usize; 3]) -> Result<Call> {
    let (a, b) = (matrix::<T>(device, m, k)?, matrix::<T>(device, k, n)?);
    let mut c = device.zeros::<T, 2>([m, n])?;
    Ok(Box::new(move || kiln_kernels::matmul(&a, &b, &mut c)))
}

/// By the kernel over tiles.
pub(super) fn over_tiles<T: Factor + Rounded>(device: &Device, n: usize) -> Result<Call> {
    let factor = || matrix::<T>(device, n, n)?.reshape([1, n, n]);
    let (a, b) = (factor()?, factor()?);
    let mut c = device.zeros::<T, 3>([1, n, n])?;
    let (rows, columns, depth) = plain::tile::<T>(device, Precision::Full, [n; 3]);
    let device = device.clone();
    Ok(Box::new(move || {
        let shared = [true; 2];
        let product = plain::kernels::matmul::<T, T, T, Identity>;
        product(&a, &b, &mut c, Identity, 0, 0, shared, Precision::Full, rows, columns, depth)
            .grid([n.div_ceil(columns) as u32, n.div_ceil(rows) as u32])
            .launch(&device)
    }))
}

/// A layer with weights `[n, k]`: the second factor by columns.
fn layer<T: Factor + Rounded>(device: &Device, [m, n, k]: [usize; 3]) -> Result<Call> {
    let (a, b) = (matrix::<T>(device, m, k)?, matrix::<T>(device, n, k)?.transpose());
    let mut c = device.zeros::<T, 2>([m, n])?;
    Ok(Box::new(move || kiln_kernels::matmul(&a, &b, &mut c)))
}

/// What numbers are rounded to.
pub(super) trait Rounded: Numeric {
    fn rounded(x: f32) -> Self;
}

impl Rounded for bf16 {
    fn rounded(x: f32) -> bf16 {
        bf16::from_f32(x)
    }
}

impl Rounded for f32 {
    fn rounded(x: f32) -> f32 {
        x
    }
}

impl Rounded for f64 {
    fn rounded(x: f32) -> f64 {
        x.into()
    }
}

impl Rounded for E4M3 {
    fn rounded(x: f32) -> E4M3 {
        E4M3::from_f32(x)
    }
}

impl Rounded for i8 {
    fn rounded(x: f32) -> i8 {
        (32.0 * x) as i8
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
