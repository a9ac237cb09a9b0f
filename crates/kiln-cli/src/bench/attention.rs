//! Attention on a GPU: batch times length is 16384, heads times width 2048.

use super::clock::Cache;
use super::rows::{Call, Row, Work, random};
use half::bf16;
use kiln_runtime::{Device, Result, Tensor};

/// Queries, and keys, of all sequences.
const POSITIONS: usize = 16384;
/// Heads times their width.
const MODEL: usize = 2048;

/// A row for each width and length, with and without a causal mask.
pub fn rows() -> [Row; 7] {
    [
        row::<64, 4096, false>("attention_bf16_d64_4096"),
        row::<64, 16384, false>("attention_bf16_d64_16384"),
        row::<64, 16384, true>("attention_bf16_d64_16384_causal"),
        row::<128, 4096, false>("attention_bf16_d128_4096"),
        row::<128, 16384, false>("attention_bf16_d128_16384"),
        row::<128, 4096, true>("attention_bf16_d128_4096_causal"),
        row::<128, 16384, true>("attention_bf16_d128_16384_causal"),
    ]
}

fn row<const WIDTH: usize, const LENGTH: usize, const CAUSAL: bool>(name: &'static str) -> Row {
    // With a causal mask a query sees half of the keys.
    let seen = (LENGTH / if CAUSAL { 2 } else { 1 }) as u64;
    let elements = (POSITIONS * MODEL) as u64;
    Row {
        name,
        bytes: 8 * elements,
        flops: 4 * elements * seen,
        arithmetic: true,
        cache: Cache::Written,
        work: Work::Device(|device, _| make(device, WIDTH, LENGTH, CAUSAL)),
    }
}

fn make(device: &Device, width: usize, length: usize, causal: bool) -> Result<Call> {
    let shape = [POSITIONS / length * (MODEL / width), length, width];
    let tensor = || -> Result<Tensor<bf16, 3>> {
        let block: Vec<bf16> = random(1 << 22).into_iter().map(bf16::from_f32).collect();
        let data: Vec<bf16> = block.iter().copied().cycle().take(POSITIONS * MODEL).collect();
        device.tensor(&data, shape)
    };
    let (q, k, v) = (tensor()?, tensor()?, tensor()?);
    let mut o = device.zeros(shape)?;
    Ok(Box::new(move || kiln_kernels::attention(&q, &k, &v, &mut o, causal)))
}
