//! Maps: every thread makes one element, and no thread needs another.

use super::bench::{Bench, Outcome, blocks_for, compare};
use kiln::prelude::*;

/// Puzzle 1, map: add 10 to each element of `a`, with as many threads as elements.
///
/// A thread-level kernel is the program of *one* thread; the launch runs it for each of them.
/// [`thread_index`] is the thread's number in the launch. No other thread has it, which is why
/// `set` with it is safe: two threads cannot store to one place.
#[kernel]
fn map(a: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let i = thread_index();
    out.set(i, a.get(i) + 10.0);
}

/// Puzzle 2, zip: add two vectors element by element.
///
/// Reading is free: any thread may `get` any element of a tensor that the kernel only reads. An
/// index outside the tensor would be no crash and no stray read: the kernel ends with a fault that
/// names this line, and the host gets it as an error.
#[kernel]
fn zip(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let i = thread_index();
    out.set(i, a.get(i) + b.get(i));
}

/// Puzzle 3, guards: as map, but the block has more threads than there are elements.
///
/// `i` and the extent live on the device, so this `if` becomes a branch of the compiled kernel: the
/// threads beyond the end do nothing. (An `if` on a host value, such as a `bool` parameter, is
/// decided while the kernel is compiled.)
#[kernel]
fn guards(a: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let i = thread_index();
    if i.get() < out.extent(0) {
        out.set(i, a.get(i) + 10.0);
    }
}

/// Puzzle 4, map 2D: as guards, for a matrix and a two-dimensional block.
///
/// Axis 0 of a block is the one whose threads are neighbors in a warp; [`thread_index_2d`] makes it
/// the column, so that neighboring threads touch neighboring addresses.
#[kernel]
fn map_2d(a: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    let at = thread_index_2d();
    let (row, column) = (at.axis(0), at.axis(1));
    if row < out.extent(0) && column < out.extent(1) {
        out.set(at, a.get(at) + 10.0);
    }
}

/// Puzzle 5, broadcast: `out[i, j] = a[i, 0] + b[0, j]`, the sum table of a column and a row.
///
/// A thread reads wherever it likes: the index of a read is any expression, here two of them in a
/// tuple.
#[kernel]
fn broadcast(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    let at = thread_index_2d();
    let (row, column) = (at.axis(0), at.axis(1));
    if row < out.extent(0) && column < out.extent(1) {
        out.set(at, a.get((row, 0)) + b.get((0, column)));
    }
}

/// Blocks and their threads that make exactly the elements: these kernels have no guard.
const EXACT: [(u32, u32); 6] = [(1, 1), (1, 4), (1, 37), (3, 32), (5, 33), (2, 256)];

pub fn check_map(bench: &mut Bench) -> Outcome {
    for (blocks, threads) in EXACT {
        let n = (blocks * threads) as usize;
        let a = bench.numbers(n);
        let mut out = bench.poisoned([n])?;
        map(&bench.device.tensor(&a, [n])?, &mut out)
            .grid([blocks])
            .block([threads])
            .launch(&bench.device)?;
        let expected: Vec<f32> = a.iter().map(|x| x + 10.0).collect();
        compare(&format!("{blocks} blocks of {threads}"), &out, &expected)?;
    }
    Ok(())
}

pub fn check_zip(bench: &mut Bench) -> Outcome {
    for (blocks, threads) in EXACT {
        let n = (blocks * threads) as usize;
        let (a, b) = (bench.numbers(n), bench.numbers(n));
        let mut out = bench.poisoned([n])?;
        zip(&bench.device.tensor(&a, [n])?, &bench.device.tensor(&b, [n])?, &mut out)
            .grid([blocks])
            .block([threads])
            .launch(&bench.device)?;
        let expected: Vec<f32> = a.iter().zip(&b).map(|(x, y)| x + y).collect();
        compare(&format!("{blocks} blocks of {threads}"), &out, &expected)?;
    }
    Ok(())
}

pub fn check_guards(bench: &mut Bench) -> Outcome {
    for (n, threads) in [(1, 8), (4, 8), (31, 32), (100, 128), (257, 1024)] {
        let a = bench.numbers(n);
        let mut out = bench.poisoned([n])?;
        guards(&bench.device.tensor(&a, [n])?, &mut out).grid([1]).block([threads]).launch(&bench.device)?;
        let expected: Vec<f32> = a.iter().map(|x| x + 10.0).collect();
        compare(&format!("{n} elements, {threads} threads"), &out, &expected)?;
    }
    Ok(())
}

/// Shapes (rows, columns) and blocks (columns, rows).
const MATRICES: [([usize; 2], [u32; 2]); 5] =
    [([1, 1], [3, 3]), ([2, 2], [3, 3]), ([5, 3], [4, 8]), ([17, 33], [8, 4]), ([64, 7], [32, 2])];

/// Blocks on both axes that cover a matrix.
fn grid_2d(shape: [usize; 2], block: [u32; 2]) -> [u32; 2] {
    [blocks_for(shape[1], block[0]), blocks_for(shape[0], block[1])]
}

pub fn check_map_2d(bench: &mut Bench) -> Outcome {
    for (shape, block) in MATRICES {
        let a = bench.numbers(shape[0] * shape[1]);
        let mut out = bench.poisoned(shape)?;
        map_2d(&bench.device.tensor(&a, shape)?, &mut out)
            .grid(grid_2d(shape, block))
            .block(block)
            .launch(&bench.device)?;
        let expected: Vec<f32> = a.iter().map(|x| x + 10.0).collect();
        compare(&format!("shape {shape:?}, block {block:?}"), &out, &expected)?;
    }
    Ok(())
}

pub fn check_broadcast(bench: &mut Bench) -> Outcome {
    for (shape, block) in MATRICES {
        let (a, b) = (bench.numbers(shape[0]), bench.numbers(shape[1]));
        let mut out = bench.poisoned(shape)?;
        broadcast(
            &bench.device.tensor(&a, [shape[0], 1])?,
            &bench.device.tensor(&b, [1, shape[1]])?,
            &mut out,
        )
        .grid(grid_2d(shape, block))
        .block(block)
        .launch(&bench.device)?;
        let expected: Vec<f32> = a.iter().flat_map(|x| b.iter().map(move |y| x + y)).collect();
        compare(&format!("shape {shape:?}, block {block:?}"), &out, &expected)?;
    }
    Ok(())
}
