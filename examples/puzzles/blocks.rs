//! Blocks: a launch has more elements than a block can have threads.

use super::bench::{Bench, Outcome, blocks_for, compare};
use kiln::prelude::*;

/// Puzzle 6, blocks: add 10 to each element, with blocks smaller than the vector.
///
/// The launch is a grid of blocks. A thread's place follows from both:
/// `program_id(0) * block_dim(0) + thread_id(0)`, the blocks before this one and the threads before
/// this one in it. That is what [`thread_index`] is, so the kernel is the one for a single block.
/// Instead of an `if`, the accesses check the bounds: `get_or` gives its second argument beyond the
/// end, `set_or_skip` stores nothing there.
#[kernel]
fn blocks(a: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let i = thread_index();
    out.set_or_skip(i, a.get_or(i, 0.0) + 10.0);
}

/// Puzzle 7, blocks 2D: the same for a matrix, with a grid of blocks in both directions.
///
/// Masks hold for each axis: a thread right of the last column does not write into the next row.
#[kernel]
fn blocks_2d(a: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    let at = thread_index_2d();
    out.set_or_skip(at, a.get_or(at, 0.0) + 10.0);
}

pub fn check_blocks(bench: &mut Bench) -> Outcome {
    for (n, threads) in [(1, 4), (9, 4), (64, 32), (1000, 33), (5000, 256)] {
        let a = bench.numbers(n);
        let mut out = bench.poisoned([n])?;
        blocks(&bench.device.tensor(&a, [n])?, &mut out)
            .grid([blocks_for(n, threads)])
            .block([threads])
            .launch(&bench.device)?;
        let expected: Vec<f32> = a.iter().map(|x| x + 10.0).collect();
        compare(&format!("{n} elements, blocks of {threads}"), &out, &expected)?;
    }
    Ok(())
}

pub fn check_blocks_2d(bench: &mut Bench) -> Outcome {
    let cases =
        [([5, 5], [3, 3]), ([1, 70], [16, 2]), ([33, 65], [32, 8]), ([100, 9], [5, 7]), ([2, 2], [32, 32])];
    for (shape, block) in cases {
        let [rows, columns] = shape;
        let a = bench.numbers(rows * columns);
        let mut out = bench.poisoned(shape)?;
        blocks_2d(&bench.device.tensor(&a, shape)?, &mut out)
            .grid([blocks_for(columns, block[0]), blocks_for(rows, block[1])])
            .block(block)
            .launch(&bench.device)?;
        let expected: Vec<f32> = a.iter().map(|x| x + 10.0).collect();
        compare(&format!("shape {shape:?}, blocks {block:?}"), &out, &expected)?;
    }
    Ok(())
}
