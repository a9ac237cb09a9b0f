//! The weights of a model, as the kernel reads them.

use super::sizes::Sizes;
use crate::model::Source;
use kiln::prelude::*;
use std::error::Error;

/// All weights in one piece, in the order of [`Sizes::weights`], and the factors of norms.
pub fn load(source: &Source<'_>, sizes: Sizes) -> Result<(Vec<u32>, Vec<f32>), Box<dyn Error>> {
    let Sizes { width, inner, layers, key_heads, tokens, .. } = sizes;
    let keys = key_heads * sizes.head;
    let mut words = Vec::with_capacity(sizes.weights()[6]);
    let mut append = |name: &str, shape: [usize; 2]| -> Result<(), Box<dyn Error>> {
        pack(&source.rows(name, shape)?, sizes.half, &mut words);
        Ok(())
    };
    let kinds: [&[(&str, [usize; 2])]; 4] = [
        &[("attn_q", [width, width]), ("attn_k", [keys, width]), ("attn_v", [keys, width])],
        &[("attn_output", [width, width])],
        &[("ffn_gate", [inner, width]), ("ffn_up", [inner, width])],
        &[("ffn_down", [width, inner])],
    ];
    for (parts, layer) in kinds.into_iter().flat_map(|parts| (0..layers).map(move |l| (parts, l))) {
        for &(part, shape) in parts {
            append(&format!("blk.{layer}.{part}.weight"), shape)?;
        }
    }
    append("token_embd.weight", [tokens, width])?;
    if sizes.own_logits {
        append("output.weight", [tokens, width])?;
    }
    let mut gains = Vec::new();
    for layer in 0..layers {
        gains.extend(source.vector(&format!("blk.{layer}.attn_norm.weight"), width)?);
        gains.extend(source.vector(&format!("blk.{layer}.ffn_norm.weight"), width)?);
    }
    gains.extend(source.vector("output_norm.weight", width)?);
    Ok((words, gains))
}

/// Appends numbers as words, of which each has two that are rounded to bf16, or one.
fn pack(numbers: &[f32], half: bool, words: &mut Vec<u32>) {
    if half {
        let bits = |x: &f32| u32::from(bf16::from_f32(*x).to_bits());
        let pairs = numbers.chunks(2).map(|pair| bits(&pair[0]) | pair.get(1).map_or(0, bits) << 16);
        words.extend(pairs);
    } else {
        words.extend(numbers.iter().map(|x| x.to_bits()));
    }
}
