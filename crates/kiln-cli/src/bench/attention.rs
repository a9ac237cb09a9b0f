//! Attention on a GPU: batch times length is 16384, heads times width 2048.

use super::clock::Cache;
use super::rows::{Call, Row, Work, random};
use half::bf16;
use kiln_kernels::Attention;
use kiln_runtime::{Device, Result, Tensor};

/// Queries, and keys, of all sequences.
const POSITIONS: usize = 16384;
/// Heads times their width.
const MODEL: usize = 2048;

/// What a row computes.
struct Shape {
    name: &'static str,
    width: usize,
    /// One length of all sequences, or that of each of those that follow each other in one tensor.
    lengths: &'static [usize],
    causal: bool,
    /// How many keys a query sees, itself included.
    window: Option<usize>,
}

/// The lengths of sequences in one tensor.
const PACKED: &[usize] = &[5000, 3000, 2500, 2000, 1500, 1200, 800, 384];

const fn shape(name: &'static str, width: usize, lengths: &'static [usize], causal: bool) -> Shape {
    Shape { name, width, lengths, causal, window: None }
}

const SHAPES: [Shape; 11] = [
    shape("attention_bf16_d64_4096", 64, &[4096], false),
    shape("attention_bf16_d64_16384", 64, &[16384], false),
    shape("attention_bf16_d64_16384_causal", 64, &[16384], true),
    shape("attention_bf16_d128_4096", 128, &[4096], false),
    shape("attention_bf16_d128_16384", 128, &[16384], false),
    shape("attention_bf16_d128_4096_causal", 128, &[4096], true),
    shape("attention_bf16_d128_16384_causal", 128, &[16384], true),
    shape("attention_bf16_d256_4096", 256, &[4096], false),
    shape("attention_bf16_d256_16384_causal", 256, &[16384], true),
    Shape { window: Some(1024), ..shape("attention_bf16_d128_16384_window1024", 128, &[16384], true) },
    shape("attention_bf16_d128_packed_causal", 128, PACKED, true),
];

impl Shape {
    /// Pairs of a query and a key that it sees, of one head of all sequences; with a causal mask,
    /// half of all.
    fn pairs(&self) -> usize {
        let repeats = if self.lengths.len() > 1 { 1 } else { POSITIONS / self.lengths[0] };
        let of = |&n: &usize| match (self.window, self.causal) {
            (Some(window), _) => n * window - window * window / 2,
            (None, causal) => n * n / if causal { 2 } else { 1 },
        };
        repeats * self.lengths.iter().map(of).sum::<usize>()
    }

    fn options(&self) -> Attention {
        let attention = if self.causal { Attention::new().causal() } else { Attention::new() };
        self.window.map_or(attention, |window| attention.window(window - 1, None))
    }
}

/// A row for each shape.
pub fn rows() -> [Row; SHAPES.len()] {
    [
        row::<0>(),
        row::<1>(),
        row::<2>(),
        row::<3>(),
        row::<4>(),
        row::<5>(),
        row::<6>(),
        row::<7>(),
        row::<8>(),
        row::<9>(),
        row::<10>(),
    ]
}

fn row<const N: usize>() -> Row {
    let shape = &SHAPES[N];
    Row {
        name: shape.name,
        bytes: (8 * POSITIONS * MODEL) as u64,
        flops: (4 * MODEL * shape.pairs()) as u64,
        arithmetic: true,
        cache: Cache::Written,
        work: Work::Device(|device, _| make(device, &SHAPES[N])),
    }
}

fn make(device: &Device, shape: &Shape) -> Result<Call> {
    let (heads, options) = (MODEL / shape.width, shape.options());
    let packed = shape.lengths.len() > 1;
    let extents = match packed {
        true => [POSITIONS, heads, shape.width],
        false => [POSITIONS / shape.lengths[0] * heads, shape.lengths[0], shape.width],
    };
    let tensor = || -> Result<Tensor<bf16, 3>> {
        let block: Vec<bf16> = random(1 << 22).into_iter().map(bf16::from_f32).collect();
        device.tensor(&block.repeat(POSITIONS * MODEL / block.len()), extents)
    };
    let (q, k, v) = (tensor()?, tensor()?, tensor()?);
    let mut o = device.zeros(extents)?;
    if !packed {
        return Ok(Box::new(move || options.run(&q, &k, &v, &mut o)));
    }
    let ends = shape.lengths.iter().scan(0, |end, length| {
        *end += *length as u32;
        Some(*end)
    });
    let starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
    let starts = device.tensor(&starts, [starts.len()])?;
    let attention = options.packed(&starts, &starts)?;
    Ok(Box::new(move || attention.run(&q, &k, &v, &mut o)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_as_their_peers_count_them() {
        let pairs = |name: &str| SHAPES.iter().find(|s| s.name == name).map(Shape::pairs);
        assert_eq!(pairs("attention_bf16_d64_4096"), Some(4 * 4096 * 4096));
        assert_eq!(pairs("attention_bf16_d128_4096_causal"), Some(2 * 4096 * 4096));
        assert_eq!(pairs("attention_bf16_d128_16384_window1024"), Some(16384 * 1024 - 512 * 1024));
        assert_eq!(PACKED.iter().sum::<usize>(), POSITIONS);
    }
}
