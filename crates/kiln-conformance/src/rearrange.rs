//! Moving the elements of tiles: pairs, parts, and any places of an axis.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["rearrange":
        pairs for u16 bool i8 i32 u64 f16 bf16 E5M2 f32 f64;
        parts for i32 f16 f32;
        parts_of_odd_extents for i32 f64;
        gathered for bool i32 f16 f32 f64;
    ]
}

#[kernel(crate = kiln_runtime)]
fn in_pairs<T: Elem>(
    x: &Tensor<T, 2>,
    y: &mut Tensor<T, 3>,
    both: &mut Tensor<T, 3>,
    turns: &mut Tensor<T, 2>,
    n: usize,
) {
    let v = x.load((3, 2 * n), x.get((0, 0)));
    let p = program_id(0);
    let (first, second) = v.reshape((3, n, 2)).split();
    y.tile((p * 2, 0, 0), (1, 3, n)).store(first.reshape((1, 3, n)));
    y.tile((p * 2 + 1, 0, 0), (1, 3, n)).store(second.reshape((1, 3, n)));
    both.tile((p * 3, 0, 0), (3, n, 2)).store(second.join(first));
    turns.tile((p * 3, 0), (3, 2 * n)).store(first.interleave(second));
}

fn pairs<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for n in [8, 5] {
        let (x, data) = trial.input::<T, 2>([3, 2 * n])?;
        let (mut y, mut both, mut turns) =
            (trial.output([2, 3, n])?, trial.output([3, n, 2])?, trial.output([3, 2 * n])?);
        in_pairs(&x, &mut y, &mut both, &mut turns, n).grid([1; 3]).launch(trial.device)?;
        let apart: Vec<T> = list(0..6 * n, |i| data[i % (3 * n) * 2 + i / (3 * n)]);
        holds("split", &y, &apart)?;
        holds("join", &both, &list(0..6 * n, |i| data[i ^ 1]))?;
        holds("interleave", &turns, &data)?;
    }
    Ok(())
}

/// Extents of a matrix, and a part of its columns.
#[derive(Clone, Copy, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
struct Extents {
    m: usize,
    n: usize,
    from: usize,
    to: usize,
}

#[kernel(crate = kiln_runtime)]
fn in_parts<T: Elem>(
    x: &Tensor<T, 2>,
    flipped: &mut Tensor<T, 2>,
    halves: &mut Tensor<T, 2>,
    wide: &mut Tensor<T, 2>,
    by: Extents,
) {
    let Extents { m, n, from, to } = by;
    let v = x.load((m, n), x.get((0, 0)));
    let p = program_id(0);
    flipped.tile((p * 2 * m, 0), (m, n)).store(v.flip(0));
    flipped.tile((p * 2 * m + m, 0), (m, n)).store(v.flip(1));
    // The rows twice, then columns after columns.
    halves.tile((p * 2 * m, 0), (2 * m, n)).store(v.concat(v.flip(1), 0));
    let part = v.slice(1, from..to);
    wide.tile((p * m, 0), (m, n + to - from)).store(part.concat(v, 1));
}

fn run_parts<T: Sample>(trial: &mut Trial<'_>, by: Extents) -> Verdict {
    let Extents { m, n, from, to } = by;
    let (x, data) = trial.input::<T, 2>([m, n])?;
    let width = n + to - from;
    let (mut flipped, mut halves, mut wide) =
        (trial.output([2 * m, n])?, trial.output([2 * m, n])?, trial.output([m, width])?);
    in_parts(&x, &mut flipped, &mut halves, &mut wide, by).grid([1; 3]).launch(trial.device)?;
    let up = list(0..m * n, |i| data[(m - 1 - i / n) * n + i % n]);
    let left = list(0..m * n, |i| data[i / n * n + n - 1 - i % n]);
    holds("flip", &flipped, &[up, left.clone()].concat())?;
    holds("concat of equal tiles", &halves, &[data.clone(), left].concat())?;
    let expected = list(0..m * width, |i| {
        let (row, column) = (&data[i / width * n..][..n], i % width);
        if column < to - from { row[from + column] } else { row[column - (to - from)] }
    });
    holds("slice, and concat of unequal tiles", &wide, &expected)
}

fn parts<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    run_parts::<T>(trial, Extents { m: 4, n: 16, from: 8, to: 12 })?;
    run_parts::<T>(trial, Extents { m: 2, n: 32, from: 3, to: 19 })
}

fn parts_of_odd_extents<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    run_parts::<T>(trial, Extents { m: 3, n: 13, from: 2, to: 7 })
}

#[kernel(crate = kiln_runtime)]
fn by_index<T: Elem>(
    x: &Tensor<T, 2>,
    rows: &Tensor<i64, 2>,
    columns: &Tensor<i32, 1>,
    y: &mut Tensor<T, 2>,
    z: &mut Tensor<T, 2>,
    n: usize,
) {
    let v = x.load((8, n), x.get((0, 0)));
    let p = program_id(0);
    y.tile((p * 4, 0), (4, n)).store(v.gather(rows.load((4, n), 0), 0));
    z.tile((p * 8, 0), (8, n)).store(v.gather(columns.load(n, 0), 1));
}

fn gathered<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for n in [16, 11] {
        let (x, data) = trial.input::<T, 2>([8, n])?;
        // Some indices lie outside.
        let rows: Vec<i64> = list(0..4 * n, |_| trial.rng.below(10) as i64 - 1);
        let columns: Vec<i32> = list(0..n, |_| trial.rng.below(n as u64 + 2) as i32 - 1);
        let (row, column) = (trial.device.tensor(&rows, [4, n])?, trial.device.tensor(&columns, [n])?);
        let (mut y, mut z) = (trial.output([4, n])?, trial.output([8, n])?);
        by_index(&x, &row, &column, &mut y, &mut z, n).grid([1; 3]).launch(trial.device)?;
        let at = |i: i64, j: i64| match (0..8).contains(&i) && (0..n as i64).contains(&j) {
            true => data[i as usize * n + j as usize],
            false => T::small(0),
        };
        let by_rows = list(0..4 * n, |i| at(rows[i], (i % n) as i64));
        holds("along columns", &y, &by_rows)?;
        let by_columns = list(0..8 * n, |i| at((i / n) as i64, columns[i % n].into()));
        holds("along rows", &z, &by_columns)?;
    }
    Ok(())
}
