//! Shared memory: a small, fast array that the threads of one block have in common.

use super::bench::{Bench, Outcome, blocks_for, compare};
use kiln::prelude::*;

/// Puzzle 8, shared memory: add 10 to each element, on its way through shared memory.
///
/// `block` is a host number, so it is a constant of the compiled kernel: the array needs one.
/// Writing to shared memory is `unsafe`, because nothing but the program's own reasoning keeps
/// threads apart; [`barrier`] makes what all threads wrote before it visible to all after it. Here
/// every thread reads the element that its *neighbor* wrote, and hands its result to the neighbor:
/// without the barrier, that race is lost now and then.
#[kernel]
fn shared_memory(a: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>, block: usize) {
    let (i, t) = (thread_index(), thread_id(0));
    let copy = shared::<f32, 1>([block]);
    let mirrored = block as i64 - 1 - t;
    let first = program_id(0) * block;
    // SAFETY: each thread writes an element of its own, and the barrier stands before every read.
    unsafe { copy.put(mirrored, a.get_or(first + mirrored, 0.0)) };
    barrier();
    out.set_or_skip(i, copy.get(t) + 10.0);
}

/// Puzzle 9, pooling: each element becomes the sum of itself and the two before it.
///
/// Read from memory three times, the elements would cost three times the traffic. A block reads its
/// part once into shared memory, with the two elements before it (the *halo*), and the threads take
/// their three from there.
#[kernel]
fn pooling(a: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>, block: usize) {
    const HALO: usize = 2;
    let (i, t) = (thread_index(), thread_id(0));
    let first = program_id(0) * block;
    let part = shared::<f32, 1>([block + HALO]);
    // A loop, because the part has more elements than the block threads. An index before the
    // vector's start reads the 0.0, too.
    for at in range_step(t, block + HALO, block) {
        // SAFETY: thread t writes t, t + block, …: no element twice; the barrier stands before
        // every read.
        unsafe { part.put(at, a.get_or(first + at - HALO, 0.0)) };
    }
    barrier();
    out.set_or_skip(i, part.get(t) + part.get(t + 1) + part.get(t + 2));
}

/// Puzzle 11, 1D convolution: `out[i]` is the sum over `j` of `a[i + j] * b[j]`; `a` counts as zero
/// beyond its end.
///
/// Pooling with weights, for any number of them. The loop over `taps` is one over host numbers, so
/// it unrolls: the compiled kernel is a straight line of multiplications and additions.
#[kernel]
fn convolution(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>, block: usize, taps: usize) {
    let (i, t) = (thread_index(), thread_id(0));
    let first = program_id(0) * block;
    let part = shared::<f32, 1>([block + taps]);
    let weights = shared::<f32, 1>([taps]);
    for at in range_step(t, block + taps, block) {
        // SAFETY: as in `pooling`.
        unsafe { part.put(at, a.get_or(first + at, 0.0)) };
    }
    for at in range_step(t, taps, block) {
        // SAFETY: as in `pooling`.
        unsafe { weights.put(at, b.get(at)) };
    }
    barrier();
    let mut sum: Val<f32> = 0.0;
    for j in 0..taps {
        sum += part.get(t + j) * weights.get(j);
    }
    out.set_or_skip(i, sum);
}

/// Elements and threads of a block: a block larger than the vector, a block of one, odd sizes, many
/// blocks.
const SIZES: [(usize, u32); 6] = [(8, 4), (3, 32), (5, 1), (100, 7), (1000, 64), (4097, 256)];

pub fn check_shared_memory(bench: &mut Bench) -> Outcome {
    for (n, threads) in SIZES {
        let a = bench.numbers(n);
        let mut out = bench.poisoned([n])?;
        shared_memory(&bench.device.tensor(&a, [n])?, &mut out, threads as usize)
            .grid([blocks_for(n, threads)])
            .block([threads])
            .launch(&bench.device)?;
        let expected: Vec<f32> = a.iter().map(|x| x + 10.0).collect();
        compare(&format!("{n} elements, blocks of {threads}"), &out, &expected)?;
    }
    Ok(())
}

pub fn check_pooling(bench: &mut Bench) -> Outcome {
    for (n, threads) in SIZES {
        let a = bench.numbers(n);
        let mut out = bench.poisoned([n])?;
        pooling(&bench.device.tensor(&a, [n])?, &mut out, threads as usize)
            .grid([blocks_for(n, threads)])
            .block([threads])
            .launch(&bench.device)?;
        let expected: Vec<f32> = (0..n).map(|i| a[i.saturating_sub(2)..=i].iter().sum()).collect();
        compare(&format!("{n} elements, blocks of {threads}"), &out, &expected)?;
    }
    Ok(())
}

pub fn check_convolution(bench: &mut Bench) -> Outcome {
    for (n, threads) in SIZES {
        for taps in [1, 3, 9] {
            let (a, b) = (bench.numbers(n), bench.numbers(taps));
            let (x, w) = (bench.device.tensor(&a, [n])?, bench.device.tensor(&b, [taps])?);
            let mut out = bench.poisoned([n])?;
            convolution(&x, &w, &mut out, threads as usize, taps)
                .grid([blocks_for(n, threads)])
                .block([threads])
                .launch(&bench.device)?;
            let expected: Vec<f32> =
                (0..n).map(|i| a[i..].iter().zip(&b).map(|(x, w)| x * w).sum()).collect();
            compare(&format!("{n} elements, {taps} taps, blocks of {threads}"), &out, &expected)?;
        }
    }
    Ok(())
}
