//! Decoding attention on a GPU: a query for each of 16 sequences, 32 heads that share 8 of keys,
//! width 128.

use super::clock::Cache as Starts;
use super::rows::{Call, Row, Sizes, Work, random};
use half::bf16;
use kiln_kernels::Attention;
use kiln_kernels::attention::Cache;
use kiln_runtime::{Device, Result, Tensor};

const SEQUENCES: usize = 16;
const HEADS: usize = 32;
const KEY_HEADS: usize = 8;
const WIDTH: usize = 128;
/// Keys of a page, where keys lie in pages.
const PAGE: usize = 64;

/// A row for each length of the caches, and one in pages.
pub fn rows() -> [Row; 3] {
    [
        row("decode_bf16_16384", 16384, |device, _| make(device, 16384, false)),
        row("decode_bf16_65536", 65536, |device, _| make(device, 65536, false)),
        row("decode_bf16_16384_paged", 16384, |device, _| make(device, 16384, true)),
    ]
}

fn row(name: &'static str, keys: usize, make: fn(&Device, &Sizes) -> Result<Call>) -> Row {
    Row {
        name,
        bytes: (4 * SEQUENCES * WIDTH * (keys * KEY_HEADS + HEADS)) as u64,
        flops: (4 * SEQUENCES * HEADS * keys * WIDTH) as u64,
        arithmetic: false,
        cache: Starts::Written,
        work: Work::Device(make),
    }
}

fn make(device: &Device, keys: usize, is_paged: bool) -> Result<Call> {
    let numbers = |count: usize| -> Vec<bf16> {
        let block: Vec<bf16> = random(count.min(1 << 22)).into_iter().map(bf16::from_f32).collect();
        block.repeat(count / block.len())
    };
    let pages = keys / PAGE;
    let shape = match is_paged {
        true => [SEQUENCES * pages, PAGE, KEY_HEADS, WIDTH],
        false => [SEQUENCES, keys, KEY_HEADS, WIDTH],
    };
    let tensor = || -> Result<Tensor<bf16, 4>> { device.tensor(&numbers(shape.iter().product()), shape) };
    let (k, v) = (tensor()?, tensor()?);
    let lengths = device.tensor(&[keys as i32; SEQUENCES], [SEQUENCES])?;
    let cache = if is_paged {
        // A sequence's pages lie apart.
        let table: Vec<i32> =
            (0..SEQUENCES * pages).map(|at| (at % pages * SEQUENCES + at / pages) as i32).collect();
        Cache::paged(&k, &v, &lengths, &device.tensor(&table, [SEQUENCES, pages])?)?
    } else {
        Cache::new(&k, &v, &lengths)?
    };
    let q = device.tensor(&numbers(SEQUENCES * HEADS * WIDTH), [SEQUENCES, HEADS, WIDTH])?;
    let mut o = device.zeros([SEQUENCES, HEADS, WIDTH])?;
    Ok(Box::new(move || Attention::new().decode(&q, &cache, &mut o)))
}
