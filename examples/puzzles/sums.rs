//! Sums: threads of a block combine what each of them has.

use super::bench::{Bench, Outcome, blocks_for, compare};
use kiln::prelude::*;

/// The sum of one number from each thread of the block, in every thread.
///
/// A function that kernels call; it needs `#[device]` because it has control flow over device
/// values. The numbers go to shared memory, and a tree halves them: the upper half is added to the
/// lower, until one is left. With `block` known on the host the `while` unrolls, and no power of
/// two is needed, since the halves are rounded up and the middle waits a round.
#[device]
fn block_sum(mine: Val<f32>, block: usize) -> Val<f32> {
    let t = thread_id(0);
    let tree = shared::<f32, 1>([block]);
    // SAFETY: each thread writes its own element; a barrier stands between that and every read by
    // others.
    unsafe { tree.put(t, mine) };
    barrier();
    let mut width = block;
    while width > 1 {
        let half = width.div_ceil(2);
        if t + half < width {
            // SAFETY: what is read lies in the upper half, what is written in the lower; a barrier
            // stands between the rounds.
            unsafe { tree.put(t, tree.get(t) + tree.get(t + half)) };
        }
        barrier();
        width = half;
    }
    tree.get(0)
}

/// Puzzle 10, dot product: the sum of `a[i] * b[i]`, by one block.
///
/// Each thread first sums every `block`-th product on its own, so any number of elements will do;
/// then the block adds up. All threads know the result, one stores it.
#[kernel]
fn dot_product(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>, block: usize) {
    let mut mine: Val<f32> = 0.0;
    for i in range_step(thread_id(0), a.extent(0), block) {
        mine += a.get(i) * b.get(i);
    }
    let sum = block_sum(mine, block);
    if thread_id(0) == 0 {
        // SAFETY: one thread of the only block writes.
        unsafe { out.write(0, sum) };
    }
}

/// Puzzle 12, prefix sum: in each block's part of `a`, every element becomes the sum of those up to
/// it; `sums` gets the sum of each part.
///
/// In round `step` each thread adds what the thread `step` before it had. After rounds 1, 2, 4, … a
/// thread's sum reaches back 2, 4, 8, … elements. All must read before any writes: hence the second
/// barrier of a round. (With the `sums`, prefix-summed in turn and added to the later parts, the
/// vector's whole prefix sum is two launches away.)
#[kernel]
fn prefix_sum(a: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>, sums: &mut Tensor<f32, 1>, block: usize) {
    let (i, t) = (thread_index(), thread_id(0));
    let part = shared::<f32, 1>([block]);
    let mut sum = a.get_or(i, 0.0);
    let mut step = 1;
    while step < block {
        // SAFETY: each thread writes its own element, and barriers stand before and after the reads
        // of this round.
        unsafe { part.put(t, sum) };
        barrier();
        if t >= step {
            sum += part.get(t - step);
        }
        barrier();
        step *= 2;
    }
    out.set_or_skip(i, sum);
    if t == block as i64 - 1 {
        // SAFETY: one thread of each block writes, to the block's own element.
        unsafe { sums.write(program_id(0), sum) };
    }
}

/// Puzzle 13, axis sum: the sum of each row of a matrix, a block for each row.
///
/// `a.row(r)` is a view of one row: the block works on a vector again, as in the dot product.
#[kernel]
fn axis_sum(a: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>, block: usize) {
    let row = a.row(program_id(0));
    let mut mine: Val<f32> = 0.0;
    for j in range_step(thread_id(0), row.extent(0), block) {
        mine += row.get(j);
    }
    let sum = block_sum(mine, block);
    if thread_id(0) == 0 {
        // SAFETY: one thread of each block writes, to the block's own row.
        unsafe { out.write((program_id(0), 0), sum) };
    }
}

/// Elements and threads of a block: larger than the data, of one thread, odd, full.
const SIZES: [(usize, u32); 6] = [(8, 8), (3, 32), (5, 1), (100, 7), (1001, 96), (4097, 256)];

pub fn check_dot(bench: &mut Bench) -> Outcome {
    for (n, threads) in SIZES {
        let (a, b) = (bench.numbers(n), bench.numbers(n));
        let mut out = bench.poisoned([1])?;
        dot_product(
            &bench.device.tensor(&a, [n])?,
            &bench.device.tensor(&b, [n])?,
            &mut out,
            threads as usize,
        )
        .grid([1])
        .block([threads])
        .launch(&bench.device)?;
        let expected: f32 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
        compare(&format!("{n} elements, {threads} threads"), &out, &[expected])?;
    }
    Ok(())
}

pub fn check_prefix_sum(bench: &mut Bench) -> Outcome {
    for (n, threads) in SIZES {
        let a = bench.numbers(n);
        let blocks = blocks_for(n, threads);
        let (mut out, mut sums) = (bench.poisoned([n])?, bench.poisoned([blocks as usize])?);
        prefix_sum(&bench.device.tensor(&a, [n])?, &mut out, &mut sums, threads as usize)
            .grid([blocks])
            .block([threads])
            .launch(&bench.device)?;
        let case = format!("{n} elements, blocks of {threads}");
        let parts = a.chunks(threads as usize);
        let running = |part: &[f32]| -> Vec<f32> {
            part.iter()
                .scan(0.0, |sum, x| {
                    *sum += x;
                    Some(*sum)
                })
                .collect()
        };
        let expected: Vec<f32> = parts.clone().flat_map(running).collect();
        compare(&case, &out, &expected)?;
        let expected: Vec<f32> = parts.map(|part| part.iter().sum()).collect();
        compare(&format!("{case}, sums"), &sums, &expected)?;
    }
    Ok(())
}

pub fn check_axis_sum(bench: &mut Bench) -> Outcome {
    for (columns, threads) in SIZES {
        for rows in [1, 4, 13] {
            let a = bench.numbers(rows * columns);
            let mut out = bench.poisoned([rows, 1])?;
            axis_sum(&bench.device.tensor(&a, [rows, columns])?, &mut out, threads as usize)
                .grid([rows as u32])
                .block([threads])
                .launch(&bench.device)?;
            let expected: Vec<f32> = a.chunks(columns).map(|row| row.iter().sum()).collect();
            compare(&format!("{rows} rows of {columns}, {threads} threads"), &out, &expected)?;
        }
    }
    Ok(())
}
