//! Tiles and blocks of threads of odd shapes over odd extents: with every modifier of an access,
//! from and to dense tensors, parts of larger ones and transposed ones.

use crate::case::{Case, cases};
use crate::library_rows::{LAYOUTS, Matrix};
use crate::trial::{Trial, Verdict, holds, list};
use half::f16;
use kiln_lang::prelude::*;
use kiln_lang::{TileView, TileViewMut};
use kiln_reference::{Host, Rng, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["extents":
        boxes for i32 f16 f32 f64;
        blocks;
    ]
}

/// More of them, for [`sweep`](crate::sweep).
pub fn large_cases() -> Vec<Case> {
    cases!["extents":
        many_boxes for i32 u64 f16 f32 f64;
        many_blocks;
    ]
}

fn load<T: Elem>(tile: TileView<T>, streams: bool, other: Val<T>) -> Val<T> {
    if streams { tile.streaming().load(other) } else { tile.load(other) }
}

fn store<T: Elem>(tile: TileViewMut<T>, streams: bool, value: Val<T>) {
    if streams { tile.streaming().store(value) } else { tile.store(value) }
}

#[kernel(crate = kiln_runtime)]
#[allow(clippy::too_many_arguments)]
fn boxed<T: Num>(
    x: &Tensor<T, 2>,
    y: &mut Tensor<T, 2>,
    transposed: &mut Tensor<T, 2>,
    rows: &mut Tensor<T, 2>,
    other: Val<T>,
    m: usize,
    n: usize,
    streams: [bool; 3],
) {
    let (p, q) = (program_id(0), program_id(1));
    let (row, column) = (p * m, q * n);
    let v = load(x.tile((row, column), (m, n)), streams[0], other);
    let w = v + v;
    store(y.tile((row, column), (m, n)), streams[1], w);
    // What was stored is used again.
    store(transposed.tile((column, row), (n, m)), streams[2], (w * v - v).transpose());
    let line = x.row(row).tile(column, n).streaming().load(other);
    rows.row(p).tile(column, n).streaming().store(line * 3 - 1);
}

/// Extents of tiles: one part on a GPU and several, less than a warp, more than the CPU works on
/// at a time.
const TILES: [usize; 14] = [1, 2, 3, 5, 7, 8, 33, 100, 127, 1000, 1025, 1500, 2047, 2049];

fn boxes<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    (0..8).try_for_each(|_| one_box::<T>(trial))
}

fn many_boxes<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    (0..60).try_for_each(|_| one_box::<T>(trial))
}

fn one_box<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let rng = &mut trial.rng;
    let any = |rng: &mut Rng| TILES[rng.below(TILES.len() as u64) as usize];
    let [m, n] = loop {
        let tile = [any(rng), any(rng)];
        if tile[0] * tile[1] <= 4200 {
            break tile;
        }
    };
    let mut extent = |tile: usize| (tile * rng.below(3) as usize + rng.below(4) as usize).saturating_sub(1);
    let shape @ [high, wide] = [extent(m), extent(n)];
    let streams = [(); 3].map(|()| rng.below(2) == 1);
    // Small, so that everything is exact.
    let small = |rng: &mut Rng| T::small(rng.below(9) as i32 + 1);
    let other = small(rng);
    let layouts = [(); 4].map(|()| LAYOUTS[rng.below(3) as usize]);
    let (x, data) = Matrix::new(trial, shape, layouts[0], small)?;
    let y = Matrix::<T>::output(trial, shape, layouts[1])?;
    let transposed = Matrix::<T>::output(trial, [wide, high], layouts[2])?;
    let rows = Matrix::<T>::output(trial, [high.div_ceil(m), wide], layouts[3])?;
    let part = |matrix: &Matrix<T>| matrix.part.slice(0, 0..matrix.part.shape()[0]);
    boxed(&x.part, &mut part(&y)?, &mut part(&transposed)?, &mut part(&rows)?, other, m, n, streams)
        .grid([high.div_ceil(m), wide.div_ceil(n)].map(|e| e as u32))
        .launch(trial.device)?;
    let at = |i: usize, j: usize| data[x.place(i, j)].host();
    let number = |n: i32| T::small(n).host();
    let what = format!("tiles {m} × {n} of {high} × {wide}, streams {streams:?}, {layouts:?}");
    let exact = |value: Host| (value, 0.0);
    y.check(&format!("{what}, twice"), &|i, j| exact(at(i, j).add(at(i, j))))?;
    transposed.check(&format!("{what}, transposed"), &|j, i| {
        let v = at(i, j);
        exact(v.add(v).mul(v).sub(v))
    })?;
    rows.check(&format!("{what}, rows"), &|p, j| exact(at(p * m, j).mul(number(3)).sub(number(1))))
}

#[kernel(crate = kiln_runtime)]
fn blocked(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, threads: usize) {
    let s = shared::<i32, 1>([threads]);
    let t = (thread_id(2) * block_dim(1) + thread_id(1)) * block_dim(0) + thread_id(0);
    let p = (program_id(2) * num_programs(1) + program_id(1)) * num_programs(0) + program_id(0);
    let i = p * threads + t;
    // SAFETY: each thread writes its own element, and reads after the barrier.
    unsafe { s.put(t, x.get_or(i, -5)) };
    barrier();
    let mut total = s.get(threads as i64 - 1 - t);
    if t % 3 == 1 {
        for k in range(0, t % 5) {
            total += s.get((t + k) % threads as i64);
        }
    } else {
        total *= 2;
    }
    if i < y.extent(0) {
        // SAFETY: each thread has an element of its own.
        unsafe { y.write(i, total) };
    }
}

/// Blocks of one thread, of parts of warps, of as many threads as there may be, on one axis and on
/// three.
const BLOCKS: [[u32; 3]; 18] = [
    [1, 1, 1],
    [2, 1, 1],
    [1, 3, 1],
    [1, 1, 7],
    [31, 1, 1],
    [32, 1, 1],
    [33, 1, 1],
    [3, 5, 7],
    [7, 5, 1],
    [1, 33, 1],
    [1, 1, 64],
    [1000, 1, 1],
    [1023, 1, 1],
    [1024, 1, 1],
    [1, 1024, 1],
    [31, 33, 1],
    [32, 32, 1],
    [8, 2, 64],
];

const GRIDS: [[u32; 3]; 5] = [[1, 1, 1], [2, 1, 1], [1, 3, 1], [2, 1, 3], [3, 5, 2]];

fn blocks(trial: &mut Trial<'_>) -> Verdict {
    let grid = |trial: &mut Trial<'_>| GRIDS[trial.rng.below(5) as usize];
    BLOCKS.into_iter().try_for_each(|block| {
        let grid = grid(trial);
        one_block(trial, block, grid)
    })
}

fn many_blocks(trial: &mut Trial<'_>) -> Verdict {
    BLOCKS
        .into_iter()
        .flat_map(|block| GRIDS.map(|grid| (block, grid)))
        .try_for_each(|(block, grid)| one_block(trial, block, grid))
}

fn one_block(trial: &mut Trial<'_>, block: [u32; 3], grid: [u32; 3]) -> Verdict {
    let size = |extents: [u32; 3]| extents.iter().product::<u32>() as usize;
    let (threads, all) = (size(block), size(block) * size(grid));
    // More threads than elements, or elements that no thread has.
    let n = [all, all - all / 7, all + 3][trial.rng.below(3) as usize];
    let data: Vec<i32> = list(0..n, |_| trial.rng.below(1000) as i32);
    let x = trial.vector(&data)?;
    let mut y = trial.output::<i32, 1>([n])?;
    blocked(&x, &mut y, threads).grid(grid).block(block).launch(trial.device)?;
    let element = |i: usize| {
        let (p, t) = (i / threads, i % threads);
        let shared = |t: usize| data.get(p * threads + t).copied().unwrap_or(-5);
        let own = shared(threads - 1 - t);
        match t % 3 {
            1 => (0..t % 5).fold(own, |total, k| total + shared((t + k) % threads)),
            _ => 2 * own,
        }
    };
    let expected: Vec<i32> = list(0..n, |i| if i < all { element(i) } else { i32::POISON });
    holds(&format!("blocks {block:?}, grid {grid:?}, {n} elements"), &y, &expected)
}
