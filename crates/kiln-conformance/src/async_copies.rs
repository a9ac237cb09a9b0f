//! Copies from global to shared memory in flight, by threads.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, holds, holds_near, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["async_copies":
        vectors for bool u8 i16 bf16 f16 i32 f32 u64 f64;
        from_anywhere for u8 f16 f32 f64;
        edges for u8 f16 i32 f32 i64;
        transposed for u16 u32 f64;
        stages for f32 i64;
        products;
        groups_in_branches;
        faults;
    ]
}

/// Each block's elements backwards, by copies of so many at a time.
#[kernel(crate = kiln_runtime)]
fn backwards<T: Elem>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>, count: usize) {
    let (t, n) = (thread_id(0), 32 * count);
    let s = shared::<T, 1>([n]);
    let from = program_id(0) * n + t * count;
    // SAFETY: each thread copies elements of its own, which others read after the barrier.
    unsafe { s.copy_async(t, x, program_id(0) * 32 + t, count) };
    commit_copies();
    wait_copies(0);
    barrier();
    for k in 0..count {
        // SAFETY: each thread of the launch has elements of its own.
        unsafe { y.write(from + k as i64, s.get(n as i64 - 1 - t * count - k as i64)) };
    }
}

fn vectors<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for count in [1, 2, 4, 8, 16] {
        let (block, n) = (32 * count, 3 * 32 * count);
        let (x, data) = trial.input::<T, 1>([n])?;
        let mut y = trial.output::<T, 1>([n])?;
        backwards(&x, &mut y, count).grid([3]).block([32]).launch(trial.device)?;
        let at = |i: usize| data[i / block * block + block - 1 - i % block];
        holds(&format!("backwards, by {count}"), &y, &list(0..n, at))?;
    }
    Ok(())
}

/// Tensors that begin anywhere, with rows and elements that are apart.
fn from_anywhere<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for count in [1, 2, 4, 8, 16] {
        let (block, n) = (32 * count, 2 * 32 * count);
        let (whole, data) = trial.input::<T, 2>([n + 1, 3])?;
        for (first, column) in [(1, 0), (0, 2)] {
            let x = whole.slice(0, first..first + n)?.select(1, column)?;
            let mut y = trial.output::<T, 1>([n])?;
            backwards(&x, &mut y, count).grid([2]).block([32]).launch(trial.device)?;
            let at = |i: usize| data[(first + i / block * block + block - 1 - i % block) * 3 + column];
            holds(&format!("column {column} from {first}, by {count}"), &y, &list(0..n, at))?;
        }
        let (long, data) = trial.input::<T, 1>([n + 3])?;
        for first in [1, 3] {
            let x = long.slice(0, first..first + n)?;
            let mut y = trial.output::<T, 1>([n])?;
            backwards(&x, &mut y, count).grid([2]).block([32]).launch(trial.device)?;
            let at = |i: usize| data[first + i / block * block + block - 1 - i % block];
            holds(&format!("from element {first}, by {count}"), &y, &list(0..n, at))?;
        }
    }
    Ok(())
}

/// Boxes of eight rows with what is around them, a vector to the left and right, zeros outside.
#[kernel(crate = kiln_runtime)]
fn with_surroundings<T: Elem>(x: &Tensor<T, 2>, y: &mut Tensor<T, 3>, count: usize) {
    let (row, vector) = (thread_id(1), thread_id(0));
    let s = shared::<T, 2>([8, 6 * count]);
    let from = (row + (program_id(0) - 1) * 8, vector + program_id(1) * 4 - 1);
    let (rows, vectors) = (x.extent(0), x.extent(1) / count);
    let inside = (from.0 >= 0) & (from.0 < rows) & (from.1 >= 0) & (from.1 < vectors);
    // SAFETY: each thread copies elements of its own, and reads no others.
    unsafe { s.copy_async_where((row, vector), x, from, inside, count) };
    commit_copies();
    wait_copies(0);
    let program = program_id(0) * num_programs(1) + program_id(1);
    for k in 0..count {
        let column = vector * count + k as i64;
        // SAFETY: each thread of the launch has elements of its own.
        unsafe { y.write((program, row, column), s.get((row, column))) };
    }
}

fn edges<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for count in [1, 2, 4] {
        let [rows, columns] = [11, 9 * count];
        let (x, data) = trial.input::<T, 2>([rows, columns])?;
        let grid = [4, 3];
        let mut y = trial.output::<T, 3>([12, 8, 6 * count])?;
        with_surroundings(&x, &mut y, count).grid(grid).block([6, 8]).launch(trial.device)?;
        let zero = T::from_host(Host::Int(0));
        let zero = if T::EPSILON > 0.0 { T::from_host(Host::Float(0.0)) } else { zero };
        let at = |i: usize| {
            let (program, row, column) = (i / (48 * count), i / (6 * count) % 8, i % (6 * count));
            let row = (program / 3 * 8 + row).checked_sub(8);
            let column = (program % 3 * 4 * count + column).checked_sub(count);
            match (row, column) {
                (Some(row), Some(column)) if row < rows && column < columns => data[row * columns + column],
                _ => zero,
            }
        };
        holds(&format!("boxes, by {count}"), &y, &list(0..12 * 48 * count, at))?;
    }
    Ok(())
}

/// A matrix transposed through shared memory whose rows are one element longer.
#[kernel(crate = kiln_runtime)]
fn transposes<T: Elem>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    let s = shared::<T, 2>([16, 17]);
    let (i, j) = (thread_id(1), thread_id(0));
    let (row, column) = (program_id(1) * 16, program_id(0) * 16);
    let inside = (row + i < x.extent(0)) & (column + j < x.extent(1));
    // SAFETY: each thread copies an element of its own, which another reads after the barrier.
    unsafe { s.copy_async_where((i, j), x, (row + i, column + j), inside, 1) };
    commit_copies();
    wait_copies(0);
    barrier();
    if (column + i < y.extent(0)) & (row + j < y.extent(1)) {
        // SAFETY: each thread of the launch has an element of its own.
        unsafe { y.write((column + i, row + j), s.get((j, i))) };
    }
}

fn transposed<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for [rows, columns] in [[1, 1], [16, 16], [37, 29], [5, 130]] {
        let (x, data) = trial.input::<T, 2>([rows, columns])?;
        let mut y = trial.output::<T, 2>([columns, rows])?;
        let grid = [columns.div_ceil(16) as u32, rows.div_ceil(16) as u32];
        transposes(&x, &mut y).grid(grid).block([16, 16]).launch(trial.device)?;
        let at = |i: usize| data[i % rows * columns + i / rows];
        holds(&format!("{rows} x {columns} transposed"), &y, &list(0..rows * columns, at))?;
    }
    Ok(())
}

/// Sums along the rows: tiles of 128 columns come while those before are added up, so many ahead.
#[kernel(crate = kiln_runtime)]
fn sums_by_stages<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, ahead: usize) {
    let (row, t, stages) = (program_id(0), thread_id(0), ahead as i64 + 1);
    let s = shared::<T, 2>([ahead + 1, 128]);
    let tiles = x.extent(1) / 128;
    for tile in 0..ahead as i64 {
        if tile < tiles {
            // SAFETY: each thread copies two elements of its own, and reads no others.
            unsafe { s.copy_async((tile, t), x, (row, tile * 64 + t), 2) };
        }
        commit_copies();
    }
    let mut sum: Val<T> = x.get((row, 0)) - x.get((row, 0));
    for tile in 0..tiles {
        let next = tile + ahead as i64;
        if next < tiles {
            // SAFETY: as above; the stage was read in the round before.
            unsafe { s.copy_async((next % stages, t), x, (row, next * 64 + t), 2) };
        }
        commit_copies();
        wait_copies(ahead);
        sum += s.get((tile % stages, 2 * t)) + s.get((tile % stages, 2 * t + 1));
    }
    // SAFETY: each thread of the launch has an element of its own.
    unsafe { y.write((row, t), sum) };
}

fn stages<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let [rows, tiles] = [3, 7];
    let (x, data) = trial.input::<T, 2>([rows, tiles * 128])?;
    for ahead in [1, 2, 3, 9] {
        let mut y = trial.output::<T, 2>([rows, 64])?;
        sums_by_stages(&x, &mut y, ahead).grid([3]).block([64]).launch(trial.device)?;
        let part = |i: usize, tile: usize| {
            let at = i / 64 * tiles * 128 + tile * 128 + 2 * (i % 64);
            [data[at].host(), data[at + 1].host()]
        };
        let zero = data[0].host().sub(data[0].host());
        let sum = |i: usize| (0..tiles).flat_map(|tile| part(i, tile)).fold(zero, Host::add);
        holds_near(&format!("sums, {ahead} ahead"), &y, &list(0..rows * 64, sum), 8.0, 8.0)?;
    }
    Ok(())
}

/// The product of matrices by tiles of 16 x 16 in two stages, as CUDA's guide has it.
#[kernel(crate = kiln_runtime)]
fn multiplies(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    let (left, right) = (shared::<f32, 3>([2, 16, 20]), shared::<f32, 3>([2, 16, 16]));
    let (i, j) = (thread_id(1), thread_id(0));
    let (row, column) = (program_id(1) * 16, program_id(0) * 16);
    let tiles = a.extent(1) / 16;
    let mut sum: Val<f32> = 0.0;
    for tile in 0..tiles + 1 {
        if tile < tiles {
            let stage = tile % 2;
            // The first four columns of threads copy four elements each.
            if j < 4 {
                // SAFETY: each thread copies elements of its own, to the stage that nobody reads
                // since the barrier of the round before.
                unsafe {
                    left.copy_async((stage, i, j), a, (row + i, 4 * tile + j), 4);
                    right.copy_async((stage, i, j), b, (16 * tile + i, column / 4 + j), 4);
                }
            }
        }
        commit_copies();
        if tile > 0 {
            let stage = (tile + 1) % 2;
            wait_copies(1);
            barrier();
            for k in 0..16 {
                sum = left.get((stage, i, k)).mul_add(right.get((stage, k, j)), sum);
            }
            barrier();
        }
    }
    // SAFETY: each thread of the launch has an element of its own.
    unsafe { c.write((row + i, column + j), sum) };
}

fn products(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [32, 48, 80];
    let (a, x) = trial.input::<f32, 2>([m, k])?;
    let (b, y) = trial.input::<f32, 2>([k, n])?;
    let mut c = trial.output::<f32, 2>([m, n])?;
    multiplies(&a, &b, &mut c).grid([3, 2]).block([16, 16]).launch(trial.device)?;
    let sum = |i: usize| {
        let terms = (0..k).map(|d| f64::from(x[i / n * k + d]) * f64::from(y[d * n + i % n]));
        Host::Float(terms.sum())
    };
    holds_near("product", &c, &list(0..m * n, sum), 16.0, 16.0)
}

/// Threads begin copies, make groups and wait for them in branches of their own.
#[kernel(crate = kiln_runtime)]
fn own_ways(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 2>) {
    let t = thread_id(0);
    let s = shared::<f32, 2>([3, 64]);
    let mut first: Val<f32> = 0.0;
    if t % 3 == 0 {
        for k in 0..3 {
            // SAFETY: each thread copies elements of its own, and reads no others.
            unsafe { s.copy_async((k, t), x, 3 * t + k, 1) };
            commit_copies();
        }
        wait_copies(2);
        first = s.get((0, t));
    } else {
        for k in 0..3 {
            // SAFETY: as above.
            unsafe { s.copy_async((k, t), x, 3 * t + 2 - k, 1) };
        }
        commit_copies();
    }
    wait_copies(0);
    for k in 0..3 {
        // SAFETY: each thread of the launch has elements of its own.
        unsafe { y.write((t, k), s.get((k, t))) };
    }
    // SAFETY: as above.
    unsafe { y.write((t, 3), first) };
}

fn groups_in_branches(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 1>([192])?;
    let mut y = trial.output::<f32, 2>([64, 4])?;
    own_ways(&x, &mut y).grid([1]).block([64]).launch(trial.device)?;
    let at = |i: usize| match (i / 4 % 3, i / 4, i % 4) {
        (0, t, 3) => data[3 * t],
        (_, _, 3) => 0.0,
        (0, t, k) => data[3 * t + k],
        (_, t, k) => data[3 * t + 2 - k],
    };
    holds("groups of threads", &y, &list(0..256, at))
}

#[kernel(crate = kiln_runtime)]
fn copies_beyond(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, at: Val<i64>, from: Val<i64>) {
    let s = shared::<f32, 1>([16]);
    // SAFETY: there is one thread.
    unsafe { s.copy_async(at, x, from, 4) };
    commit_copies();
    wait_copies(0);
    y.set(thread_index(), s.get(4 * at + 3));
}

fn faults(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 1>([64])?;
    let mut y = trial.output::<f32, 1>([1])?;
    let mut run = |at: i64, from: i64| {
        copies_beyond(&x, &mut y, at, from).grid([1]).block([1]).launch(trial.device)?;
        let ended = trial.device.synchronize();
        Ok::<_, Stop>(ended.err().and_then(|error| error.fault().map(|fault| fault.to_string())))
    };
    for (at, from, words) in [
        (0, 16, "index 67 out of bounds for extent 64"),
        (0, -1, "index -1 out of bounds for extent 64"),
        (4, 0, "index 19 out of bounds for extent 16"),
        (-2, 0, "index -5 out of bounds for extent 16"),
    ] {
        let fault = run(at, from)?;
        ensure(fault.as_ref().is_some_and(|text| text.contains(words)), || {
            format!("from {from} to {at}: expected a fault with `{words}`, found {fault:?}")
        })?;
    }
    ensure(run(3, 15)?.is_none(), || "a fault where none is".into())?;
    holds("the last element", &y, &data[63..])
}
