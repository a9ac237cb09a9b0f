//! Rows of sorting, on a GPU.

use super::clock::Cache;
use super::rows::{Call, Row, Sizes, Work, vector};
use kiln_kernels::Sort;
use kiln_runtime::{Device, Result};

/// Indices that put numbers in order: one row of many, and many rows.
pub(super) fn rows() -> [Row; 3] {
    let row = |name, elements: u64, make| Row {
        name,
        // Elements of 4 bytes, indices of 8.
        bytes: 12 * elements,
        flops: 0,
        arithmetic: false,
        cache: Cache::Written,
        work: Work::Device(make),
    };
    [
        row("argsort_f32_2^20", 1 << 20, |device, _: &Sizes| make(device, [1, 1 << 20])),
        row("argsort_f32_2^26", 1 << 26, |device, _| make(device, [1, 1 << 26])),
        row("argsort_f32_4096x50257", 4096 * 50257, |device, _| make(device, [4096, 50257])),
    ]
}

fn make(device: &Device, [rows, columns]: [usize; 2]) -> Result<Call> {
    let x = vector(device, rows * columns)?.reshape([rows, columns])?;
    let mut order = device.uninit([rows, columns])?;
    Ok(Box::new(move || Sort::new().order(&x, &mut order)))
}
