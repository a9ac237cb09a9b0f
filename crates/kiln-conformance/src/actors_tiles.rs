//! Ring kernels: handlers that work on tiles and in shared memory.

use crate::actors::{active, defaults, same};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, list};
use kiln_backend::Execution;
use kiln_lang::prelude::*;
use kiln_ring::{Inline, RingConfig, RingCtx, RingRuntime, ring_kernel};

pub fn cases() -> Vec<Case> {
    cases!["actors":
        handlers_of_tiles;
    ]
}

const SCORES: usize = 64;

/// Weights of scores (softmax) as the threads leave them in shared memory, and how many messages
/// there were.
#[ring_kernel(crate = kiln_ring)]
fn weigh(ctx: &RingCtx, seen: &mut u32, m: Inline<f32, SCORES>) -> [f32; 4] {
    let (scores, row) = (ctx.array(&m), shared::<f32, 1>([SCORES]));
    for i in ctx.share(SCORES as u32) {
        // SAFETY: every thread has elements of its own, and all wait for each other before they are
        // read.
        unsafe { row.scatter(i, scores.get(i)) };
    }
    ctx.sync();
    let scores = row.tile(0, SCORES).load(0.0);
    let most = scores.reduce_max();
    let weights = (scores - most).exp();
    let sum = weights.sum();
    let place = iota::<i32>(SCORES).cast::<f32>();
    let mean = (weights * place).sum() / sum;
    // No lane writes the row for the next message before all have read it.
    ctx.sync();
    *seen += 1;
    [most, sum, mean, seen.cast::<f32>()]
}

fn handlers_of_tiles(trial: &mut Trial<'_>) -> Verdict {
    // A tile needs the threads of a warp on a GPU, whose workers always are warps; elsewhere it
    // does without.
    let one = trial.device.capabilities().execution == Execution::Simd;
    for warps in if one { &[false, true][..] } else { &[true] } {
        let rt = RingRuntime::with(trial.device, defaults().workers(2).warps(*warps))?;
        let actor = active(&rt, weigh, RingConfig::default().state(0))?;
        for turn in 1..=5 {
            let scores: Vec<f32> = list(0..SCORES, |_| (trial.rng.bits() % 4000) as f32 / 1000.0 - 2.0);
            let Some(got) = actor.ask(Inline::from_fn(|i| scores[i]))? else {
                return Err(Stop::wrong("no reply".to_owned()));
            };
            let most = scores.iter().copied().fold(f32::MIN, f32::max);
            let weights: Vec<f64> = scores.iter().map(|&x| (f64::from(x) - f64::from(most)).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let mean = (0..).zip(&weights).map(|(i, w)| f64::from(i) * w).sum::<f64>() / sum;
            same("the greatest, the number", (got[0], got[3]), (most, turn as f32))?;
            ensure((f64::from(got[1]) - sum).abs() < 1e-4 * sum, || format!("sum {} for {sum}", got[1]))?;
            ensure((f64::from(got[2]) - mean).abs() < 1e-3, || format!("mean {} for {mean}", got[2]))?;
        }
    }
    Ok(())
}
