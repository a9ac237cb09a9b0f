//! Bulk copies: of vectors and of tensors of five axes, those that combine with memory, and
//! prefetches.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, list};
use half::{bf16, f16};
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["explicit::copies":
        sums for i32 u32 i64 u64 f16 bf16 f32;
        least_and_greatest for i32 u32 i64 u64 f16 bf16;
        bits for i32 u32 i64 u64;
        computed_parts for i32 i64 f32;
        vectors for i32 i64 f16 f32;
        rows_as_vectors for u8 i16 bf16 f32 f64;
        five_axes for bf16 f32;
    ]
}

/// How a store combines.
#[derive(Clone, Copy, Debug, Hash, PartialEq, KernelConst)]
#[kiln(crate = kiln_runtime)]
enum Combine {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

impl Combine {
    /// What becomes of an element, on the host.
    fn apply<T: Sample>(self, old: T, new: T) -> T {
        let bits = |op: fn(i128, i128) -> i128| old.host().with(new.host(), op, |_, _| f64::NAN);
        T::from_host(match self {
            Combine::Add => old.host().add(new.host()),
            Combine::Min => old.host().min(new.host()),
            Combine::Max => old.host().max(new.host()),
            Combine::And => bits(|a, b| a & b),
            Combine::Or => bits(|a, b| a | b),
            Combine::Xor => bits(|a, b| a ^ b),
        })
    }
}

/// Rows of the boxes.
const ROWS: usize = 8;
/// How far the boxes of programs are apart, so that they overlap.
const STEP: usize = 3;

/// Where a program reads and combines: partly outside, at all edges where boxes may begin.
fn places() -> [(Idx, i32); 2] {
    let row = program_id(0) * STEP;
    [(row - 3, -8), (row, 16)]
}

/// Every program combines y with a box of x.
#[kernel(crate = kiln_runtime)]
fn combined<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, columns: usize, how: Combine) {
    let (tile, done) = (shared_tiles::<T>(1, ROWS, columns).at(0), mbarriers(1, 1).at(0));
    let [from, to] = places();
    tile.prefetch(x, from);
    done.expect(ROWS * columns * size_of::<T>());
    tile.load(x, from, done);
    done.wait(0);
    // SAFETY: nothing else reaches y.
    unsafe {
        if how == Combine::Add {
            tile.store_add(y, to);
        } else if how == Combine::Min {
            tile.store_min(y, to);
        } else {
            tile.store_max(y, to);
        }
    }
    store_wait(0);
}

/// The same, bit by bit.
#[kernel(crate = kiln_runtime)]
fn combined_bits<T: Bits>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, columns: usize, how: Combine) {
    let (tile, done) = (shared_tiles::<T>(1, ROWS, columns).at(0), mbarriers(1, 1).at(0));
    let [from, to] = places();
    done.expect(ROWS * columns * size_of::<T>());
    tile.load(x, from, done);
    done.wait(0);
    // SAFETY: nothing else reaches y.
    unsafe {
        if how == Combine::And {
            tile.store_and(y, to);
        } else if how == Combine::Or {
            tile.store_or(y, to);
        } else {
            tile.store_xor(y, to);
        }
    }
    store_wait(0);
}

/// What seven programs make of y, each with its box of x.
fn expected<T: Sample>(x: &[T], y: &[T], [m, n]: [usize; 2], columns: usize, how: Combine) -> Vec<T> {
    let mut after = y.to_vec();
    for program in 0..PROGRAMS {
        for (row, column) in (0..ROWS * columns).map(|i| (i / columns, i % columns)) {
            let inside = |row: Option<usize>, column: Option<usize>| {
                let (row, column) = (row.filter(|&row| row < m)?, column.filter(|&column| column < n)?);
                Some(row * n + column)
            };
            let row = program * STEP + row;
            let from = inside(row.checked_sub(3), column.checked_sub(8));
            let new = from.map_or(T::small(0), |at| x[at]);
            if let Some(to) = inside(Some(row), Some(column + 16)) {
                after[to] = how.apply(after[to], new);
            }
        }
    }
    after
}

const PROGRAMS: usize = 7;

/// Numbers whose sums are exact.
fn small<T: Sample>(trial: &mut Trial<'_>, n: usize) -> Vec<T> {
    let random = trial.random::<u32>(n);
    list(0..n, |i| T::small((random[i] % 9) as i32 - 4))
}

fn sums<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for shape in [[19, 72], [5, 24]] {
        let [xs, ys] = [(); 2].map(|()| small::<T>(trial, shape[0] * shape[1]));
        let (x, mut y) = (trial.device.tensor(&xs, shape)?, trial.device.tensor(&ys, shape)?);
        combined(&x, &mut y, 128, Combine::Add).grid([PROGRAMS as u32]).warps(4).launch(trial.device)?;
        holds("the sums", &y, &expected(&xs, &ys, shape, 128, Combine::Add))?;
    }
    Ok(())
}

fn least_and_greatest<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let shape = [19, 72];
    for how in [Combine::Min, Combine::Max] {
        let (x, xs) = trial.input::<T, 2>(shape)?;
        let (mut y, ys) = trial.input::<T, 2>(shape)?;
        combined(&x, &mut y, 64, how).grid([PROGRAMS as u32]).warps(4).launch(trial.device)?;
        holds(&format!("{how:?}"), &y, &expected(&xs, &ys, shape, 64, how))?;
    }
    Ok(())
}

fn bits<T: Sample + Bits>(trial: &mut Trial<'_>) -> Verdict {
    let shape = [19, 72];
    for how in [Combine::And, Combine::Or, Combine::Xor] {
        let (x, xs) = trial.input::<T, 2>(shape)?;
        let (mut y, ys) = trial.input::<T, 2>(shape)?;
        combined_bits(&x, &mut y, 64, how).grid([PROGRAMS as u32]).warps(4).launch(trial.device)?;
        holds(&format!("{how:?}"), &y, &expected(&xs, &ys, shape, 64, how))?;
    }
    Ok(())
}

/// All programs add what they compute to one vector.
#[kernel(crate = kiln_runtime)]
fn add_computed<T: Num>(y: &mut Tensor<T, 1>) {
    let tile = shared_tiles::<T>(1, ROWS, 32).at(0);
    let part = iota::<i32>(ROWS * 32).reshape([ROWS, 32]) * (program_id(0).cast::<i32>() + 1);
    tile.put(part.cast::<T>(), 0);
    proxy_fence();
    task_barrier();
    // SAFETY: nothing else reaches y.
    unsafe { tile.store_add(y, 0) };
    store_wait(0);
}

fn computed_parts<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let ys = small::<T>(trial, 251);
    let mut y = trial.vector(&ys)?;
    add_computed(&mut y).grid([40]).warps(4).launch(trial.device)?;
    let expected: Vec<T> = list(0..251, |i| {
        let sum = i128::from(40 * 41 / 2 * i as i32);
        Combine::Add.apply(ys[i], T::from_host(Host::Int(sum)))
    });
    holds("the sums", &y, &expected)
}

/// Rows of the tiles that vectors are copied to.
const TALL: usize = 16;

/// Each program loads a part of a vector, half of the rows at a time, stores it as rows, and adds
/// it to another vector.
#[kernel(crate = kiln_runtime)]
fn vector_to_rows<T: Num>(
    x: &Tensor<T, 1>,
    rows: &mut Tensor<T, 2>,
    sums: &mut Tensor<T, 1>,
    columns: usize,
) {
    let (tile, done) = (shared_tiles::<T>(1, TALL, columns).at(0), mbarriers(1, 1).at(0));
    let at = program_id(0) * 496 - 16;
    tile.prefetch(x, at);
    done.expect(TALL * columns * size_of::<T>());
    for row in [0, TALL / 2] {
        let part = Part { row: val(row as i64), rows: TALL / 2, multicast: 0 };
        tile.load_part(x, at + row * columns, part, done);
    }
    done.wait(0);
    // SAFETY: every program has rows of its own, and nothing else reaches the sums.
    unsafe {
        tile.store(rows, (program_id(0) * TALL, 0));
        tile.store_add(sums, program_id(0) * 304);
    }
    store_wait(0);
}

fn vectors<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let (programs, length) = (4, 1003);
    let columns = 256 / size_of::<T>();
    let (xs, ys) = (small::<T>(trial, length), small::<T>(trial, length));
    let (x, mut sums) = (trial.vector(&xs)?, trial.vector(&ys)?);
    let mut rows = trial.output::<T, 2>([programs * TALL, columns])?;
    vector_to_rows(&x, &mut rows, &mut sums, columns)
        .grid([programs as u32])
        .warps(4)
        .launch(trial.device)?;
    let loaded = |program: usize, i: usize| {
        let at = (program * 496 + i).checked_sub(16).filter(|&at| at < length);
        at.map_or(T::small(0), |at| xs[at])
    };
    let box_of = TALL * columns;
    let expected: Vec<T> = list(0..programs * box_of, |i| loaded(i / box_of, i % box_of));
    holds("the rows", &rows, &expected)?;
    let mut expected = ys.clone();
    for (program, i) in (0..programs * box_of).map(|i| (i / box_of, i % box_of)) {
        let to = program * 304 + i;
        if to < length {
            expected[to] = Combine::Add.apply(expected[to], loaded(program, i));
        }
    }
    holds("the sums", &sums, &expected)
}

/// Each program stores a box of rows as a part of a vector, side by side.
#[kernel(crate = kiln_runtime)]
fn rows_to_vector<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 1>, columns: usize) {
    let (tile, done) = (shared_tiles::<T>(1, TALL, columns).at(0), mbarriers(1, 1).at(0));
    done.expect(TALL * columns * size_of::<T>());
    tile.load(x, (program_id(0) * TALL, 0), done);
    done.wait(0);
    // SAFETY: every program has a part of its own.
    unsafe { tile.store(y, program_id(0) * (TALL * columns)) };
    store_wait(0);
}

fn rows_as_vectors<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let columns = 256 / size_of::<T>();
    let (x, xs) = trial.input::<T, 2>([3 * TALL, columns])?;
    let mut y = trial.output::<T, 1>([xs.len() - 8])?;
    rows_to_vector(&x, &mut y, columns).grid([3]).warps(4).launch(trial.device)?;
    holds("the vector", &y, &xs[..xs.len() - 8])
}

/// Each program adds a box of x to the one of y whose second index is 0.
#[kernel(crate = kiln_runtime)]
fn add_planes<T: Num>(x: &Tensor<T, 5>, y: &mut Tensor<T, 5>, columns: usize) {
    let (tile, done) = (shared_tiles::<T>(1, ROWS, columns).at(0), mbarriers(1, 1).at(0));
    let (plane, row) = (program_id(0), program_id(1) * ROWS);
    let (a, b, c) = (plane / 6, plane / 2 % 3, plane % 2);
    tile.prefetch(x, (a, b, c, row, 0));
    done.expect(ROWS * columns * size_of::<T>());
    tile.load(x, (a, b, c, row, 0), done);
    done.wait(0);
    // SAFETY: nothing else reaches y.
    unsafe { tile.store_add(y, (a, 0, c, row, 0)) };
    store_wait(0);
}

fn five_axes<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let shape = [2, 3, 2, 11, 40];
    let (rows, elements) = (shape[3] * shape[4], 12 * shape[3] * shape[4]);
    let [xs, ys] = [(); 2].map(|()| small::<T>(trial, elements));
    let (x, mut y) = (trial.device.tensor(&xs, shape)?, trial.device.tensor(&ys, shape)?);
    add_planes(&x, &mut y, 64).grid([12, 2]).warps(4).launch(trial.device)?;
    let mut expected = ys.clone();
    for (i, &x) in xs.iter().enumerate() {
        let plane = i / rows;
        let to = (plane / 6 * 6 + plane % 2) * rows + i % rows;
        expected[to] = Combine::Add.apply(expected[to], x);
    }
    holds("the sums", &y, &expected)
}
