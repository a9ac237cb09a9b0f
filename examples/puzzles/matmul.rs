//! Matrix multiplication: everything so far in one kernel.

use super::bench::{Bench, Outcome, blocks_for, compare};
use kiln::prelude::*;

/// Puzzle 14, matrix multiplication: `out = a b`.
///
/// A block makes a square of `out`, `tile` by `tile`, a thread for each element. The row of `a` and
/// the column of `b` that an element needs are needed by the square's other elements too, so the
/// block goes along both together, a tile at a time: load a tile of each into shared memory, an
/// element a thread; wait; multiply out of shared memory; wait, before the next tile overwrites
/// this one. Each element is read from memory once for a tile of results instead of once for each
/// of them.
///
/// The outer loop's bound lives on the device, so it stays a loop; the inner one unrolls. Padding
/// with zeros takes care of every size.
#[kernel]
fn matmul(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>, tile: usize) {
    let at = thread_index_2d();
    let (row, column) = (at.axis(0), at.axis(1));
    let (y, x) = (thread_id(1), thread_id(0));
    let (left, right) = (shared::<f32, 2>([tile, tile]), shared::<f32, 2>([tile, tile]));
    let mut sum: Val<f32> = 0.0;
    for start in (0..a.extent(1)).step_by(tile) {
        // SAFETY: each thread writes its own element; one barrier stands before the reads, one
        // after.
        unsafe {
            left.put((y, x), a.get_or((row, start + x), 0.0));
            right.put((y, x), b.get_or((start + y, column), 0.0));
        }
        barrier();
        for k in 0..tile {
            sum += left.get((y, k)) * right.get((k, x));
        }
        barrier();
    }
    out.set_or_skip(at, sum);
}

pub fn check_matmul(bench: &mut Bench) -> Outcome {
    // Rows, depth, columns, and the tile.
    let cases = [(2, 2, 2, 3), (8, 8, 8, 3), (1, 40, 1, 8), (17, 5, 33, 16), (33, 65, 20, 8), (50, 1, 3, 32)];
    for (m, k, n, tile) in cases {
        let (a, b) = (bench.numbers(m * k), bench.numbers(k * n));
        let (x, y) = (bench.device.tensor(&a, [m, k])?, bench.device.tensor(&b, [k, n])?);
        let mut out = bench.poisoned([m, n])?;
        matmul(&x, &y, &mut out, tile as usize)
            .grid([blocks_for(n, tile), blocks_for(m, tile)])
            .block([tile, tile])
            .launch(&bench.device)?;
        let element = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum::<f32>();
        let expected: Vec<f32> = (0..m * n).map(|at| element(at / n, at % n)).collect();
        compare(&format!("[{m}, {k}] by [{k}, {n}], tile {tile}"), &out, &expected)?;
    }
    Ok(())
}
