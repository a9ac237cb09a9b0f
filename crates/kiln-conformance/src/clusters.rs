//! Clusters of blocks of threads: stores to each other's shared memory, and barriers.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, list};
use kiln_lang::cluster_barrier;
use kiln_lang::explicit::cluster;
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["clusters":
        quads_to_every_block;
        quads_arrive_whole;
    ]
}

/// How a launch is divided.
#[derive(Clone, Copy, Hash, PartialEq, KernelConst)]
#[kiln(crate = kiln_runtime)]
struct Shape {
    /// Blocks of a cluster.
    blocks: usize,
    /// Threads of a block.
    threads: usize,
}

/// Rounds of the exchange.
const ROUNDS: usize = 3;

/// In every round each block gives each of its cluster a quad, its own too, and writes down what it
/// got.
#[kernel(crate = kiln_runtime)]
fn exchange(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, shape: Shape) {
    let Shape { blocks, threads } = shape;
    cluster(blocks);
    // Not at the beginning of the memory.
    let _before = shared::<u32, 1>([3]);
    let slots = shared::<u32, 1>([4 * blocks]);
    let number = program_id(0);
    let rank = number % blocks;
    cluster_barrier();
    for round in 0..ROUNDS {
        let at = (number * ROUNDS + round) * blocks;
        for other in range_step(thread_id(0), blocks, threads) {
            let v = x.get(at + other);
            // SAFETY: each block has a quad of its own in every block's memory, and barriers lie
            // between rounds.
            unsafe { slots.set_quad_of(other, rank * 4, [v, v * 3 + 1, !v, number.cast::<u32>()]) };
        }
        cluster_barrier();
        for other in range_step(thread_id(0), blocks, threads) {
            // SAFETY: a quad of the memory.
            let got = unsafe { slots.get_quad_unchecked(other * 4) };
            for word in 0..4 {
                // SAFETY: each thread has places of its own.
                unsafe { y.scatter((at + other) * 4 + word, got[word]) };
            }
        }
        cluster_barrier();
    }
}

fn quads_to_every_block(trial: &mut Trial<'_>) -> Verdict {
    for (blocks, threads) in [(2, 32), (4, 3), (8, 1), (8, 64)] {
        let programs = 3 * blocks;
        let data: Vec<u32> = list(0..programs * ROUNDS * blocks, |_| trial.rng.bits() as u32);
        let (x, mut y) = (trial.vector(&data)?, trial.output::<u32, 1>([data.len() * 4])?);
        let launch = exchange(&x, &mut y, Shape { blocks, threads });
        launch.grid([programs as u32, 1, 1]).block([threads as u32, 1, 1]).launch(trial.device)?;
        let at = |number: usize, round: usize, other: usize| (number * ROUNDS + round) * blocks + other;
        let mut want = vec![0; data.len() * 4];
        for (number, round, other) in
            (0..programs).flat_map(|n| (0..ROUNDS).flat_map(move |r| (0..blocks).map(move |o| (n, r, o))))
        {
            let sender = number / blocks * blocks + other;
            let v = data[at(sender, round, number % blocks)];
            let quad = [v, v.wrapping_mul(3).wrapping_add(1), !v, sender as u32];
            want[4 * at(number, round, other)..][..4].copy_from_slice(&quad);
        }
        holds(&format!("clusters of {blocks} blocks of {threads}"), &y, &want)?;
    }
    Ok(())
}

/// How long the blocks of the next kernel go on.
#[derive(Clone, Copy, Hash, PartialEq, KernelConst)]
#[kiln(crate = kiln_runtime)]
struct Effort {
    /// How many quads are written.
    rounds: usize,
    /// How often they are looked at, at most.
    looks: usize,
}

/// The first block writes quads to the second's memory, one after the other to the same places;
/// that one looks meanwhile, and counts quads that are no later than the one before, or of which
/// the words differ. It writes down how many there were, and what was there in the end.
#[kernel(crate = kiln_runtime)]
fn overwrite(found: &mut Tensor<u32, 1>, effort: Effort) {
    cluster(2);
    let slots = shared::<u32, 1>([4 * 32]);
    let place = thread_id(0) * 4;
    // SAFETY: the thread's own quad.
    unsafe { slots.set_quad_unchecked(place, [val(0); 4]) };
    cluster_barrier();
    let (last, mut wrong): (u32, Val<u32>) = (effort.rounds as u32, val(0));
    if program_id(0) == 0 {
        for round in 1..val::<u32>(last + 1) {
            // SAFETY: this thread alone stores there now, and the other block loads by quads.
            unsafe { slots.set_quad_of(1, place, [round, !round, round * 5, round]) };
        }
    } else {
        let (mut seen, mut looks): (Val<u32>, Val<u32>) = (val(0), val(0));
        while seen.ne(last) & looks.lt(effort.looks as u32) {
            // SAFETY: a quad of the memory.
            let [a, b, c, d] = unsafe { slots.get_quad_unchecked(place) };
            let whole = (b.eq(!a) | a.eq(0)) & c.eq(a * 5) & d.eq(a) & a.ge(seen);
            wrong += select(whole, val::<u32>(0), 1);
            seen = a;
            looks += 1;
        }
    }
    cluster_barrier();
    // SAFETY: a quad of the memory, and places of the thread's own.
    unsafe {
        let end = slots.get_quad_unchecked(place)[0];
        let at = (program_id(0) * 32 + thread_id(0)) * 2;
        found.scatter(at, wrong);
        found.scatter(at + 1, end);
    }
}

/// What the hardware's manuals do not promise and queues in shared memory rest on.
fn quads_arrive_whole(trial: &mut Trial<'_>) -> Verdict {
    // Blocks that take turns see nothing of each other between barriers.
    let at_once = trial.device.capabilities().concurrent_blocks;
    let (rounds, looks) = if at_once { (200_000, 50_000_000) } else { (50, 20) };
    let mut found = trial.output::<u32, 1>([2 * 32 * 2])?;
    let launch = overwrite(&mut found, Effort { rounds, looks });
    launch.grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let end = |block: usize| [0, if block == 1 { rounds as u32 } else { 0 }];
    let want: Vec<u32> = (0..64).flat_map(|thread| end(thread / 32)).collect();
    holds("quads that were torn, and the last", &found, &want)
}
