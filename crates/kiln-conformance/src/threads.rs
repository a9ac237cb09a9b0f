//! The threads of a block: where they stand, shared memory, barriers, shuffles, votes, and tiles
//! among threads.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, list, same};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["threads":
        places;
        two_and_three_axes;
        programs_of_tiles;
        shared_memory for i16 bool i32 u32 i64 u64 f16 bf16 f32 f64;
        tree_of_sums for u16 i32 u64 f32 f64;
        shared_transpose;
        vectors for u8 f32;
        shuffles for i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
        votes;
        many_barriers;
        tiles_among_threads for i32 f32;
        loops_around_barriers;
    ]
}

#[kernel(crate = kiln_runtime)]
fn stand(y: &mut Tensor<i64, 2>) {
    let i = thread_index().get();
    let values = [
        program_id(0),
        num_programs(0),
        thread_id(0),
        thread_id(1),
        thread_id(2),
        block_dim(0) * 100 + block_dim(1) * 10 + block_dim(2),
        lane_id(),
        warp_id(),
    ];
    for (k, v) in values.into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i), v) }
    }
}

fn places(trial: &mut Trial<'_>) -> Verdict {
    let [bx, by, bz] = [4i64, 6, 3];
    let (threads, grid) = (bx * by * bz, 3);
    let n = (threads * grid) as usize;
    let mut y = trial.output::<i64, 2>([8, n])?;
    stand(&mut y).grid([grid as u32, 1, 1]).block([4, 6, 3]).launch(trial.device)?;
    let mut expected = vec![0; 8 * n];
    for i in 0..n as i64 {
        let t = i % threads;
        let values = [i / threads, grid, t % bx, t / bx % by, t / bx / by, 463, t % 32, t / 32];
        values.into_iter().enumerate().for_each(|(k, v)| expected[k * n + i as usize] = v);
    }
    holds("program, programs, thread x, y, z, block, lane, warp", &y, &expected)
}

#[kernel(crate = kiln_runtime)]
fn planes(deep: &mut Tensor<i64, 3>) {
    let j = thread_index_3d();
    deep.set_or_skip(j, j.axis(0) * 10_000 + j.axis(1) * 100 + j.axis(2));
}

#[kernel(crate = kiln_runtime)]
fn squares(flat: &mut Tensor<i64, 2>) {
    let i = thread_index_2d();
    flat.set_or_skip(i, i.axis(0) * 100 + i.axis(1));
}

fn two_and_three_axes(trial: &mut Trial<'_>) -> Verdict {
    let mut deep = trial.output([3, 7, 11])?;
    planes(&mut deep).grid([3, 4, 2]).block([4, 2, 2]).launch(trial.device)?;
    let expected: Vec<i64> = list(0..231, |i| i / 77 * 10_000 + i / 11 % 7 * 100 + i % 11);
    holds("planes, rows and columns", &deep, &expected)?;
    let mut flat = trial.output([7, 11])?;
    squares(&mut flat).grid([3, 2, 1]).block([4, 2, 2]).launch(trial.device)?;
    let expected: Vec<i64> = list(0..77, |i| i / 11 * 100 + i % 11);
    holds("rows and columns, where a third axis counts on in rows", &flat, &expected)
}

#[kernel(crate = kiln_runtime)]
fn programs(y: &mut Tensor<i64, 3>) {
    let p = [program_id(0), program_id(1), program_id(2)];
    let id = p[2] * 100
        + p[1] * 10
        + p[0]
        + num_programs(2) * 100_000
        + num_programs(1) * 10_000
        + num_programs(0) * 1000;
    y.tile((p[2], p[1], p[0]), (1, 1, 1)).store(id);
}

fn programs_of_tiles(trial: &mut Trial<'_>) -> Verdict {
    let mut y = trial.output([2, 3, 5])?;
    programs(&mut y).launch(trial.device)?;
    let expected: Vec<i64> = list(0..30, |i| i / 15 * 100 + i / 5 % 3 * 10 + i % 5 + 235_000);
    holds("ids on three axes", &y, &expected)
}

#[kernel(crate = kiln_runtime)]
fn reversed<T: Elem>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>, other: Val<T>) {
    let s = shared::<T, 1>([48]);
    let (i, t) = (thread_index(), thread_id(0));
    // SAFETY: each thread writes its own element, and reads after the barrier.
    unsafe { s.put(t, x.get_or(i, other)) };
    barrier();
    y.set_or_skip(i, s.get(47 - t));
}

/// The first 52 elements of rows backwards by vectors of four, and the others as they are.
#[kernel(crate = kiln_runtime)]
fn backwards<T: Elem>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    let (row, t) = (program_id(0), thread_id(0));
    let (from, to, s) = (x.row(row), y.row(row), shared::<T, 1>([52]));
    if t < 13 {
        let [a, b, c, d] = from.get_vec::<4>(t);
        // SAFETY: each thread has four elements of its own, which others read after the barrier.
        unsafe { s.put_vec(12 - t, [d, c, b, a]) };
    }
    barrier();
    if t < 13 {
        // SAFETY: each thread of the launch has four elements of its own.
        unsafe { to.write_vec(t, s.get_vec::<4>(t)) };
    } else if t + 39 < to.extent(0) {
        // SAFETY: one thread of each element, in a row that its block has alone.
        unsafe { to.write(t + 39, from.get(t + 39)) };
    }
}

fn vectors<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    // The third row of 53 or 54 begins at no multiple of a vector.
    for columns in [53, 54, 56, 64] {
        let (x, data) = trial.input::<T, 2>([3, columns])?;
        let mut y = trial.output::<T, 2>([3, columns])?;
        backwards(&x, &mut y).grid([3]).block([32]).launch(trial.device)?;
        let place = |i: usize| if i % columns < 52 { i / columns * columns + 51 - i % columns } else { i };
        holds(&format!("rows of {columns} backwards"), &y, &list(0..3 * columns, |i| data[place(i)]))?;
    }
    Ok(())
}

fn shared_memory<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let n = 133;
    let (x, data) = trial.input::<T, 1>([n])?;
    let other = T::sample(&mut trial.rng);
    let mut y = trial.output::<T, 1>([n])?;
    reversed(&x, &mut y, other).grid([3, 1, 1]).block([48, 1, 1]).launch(trial.device)?;
    let at = |i: usize| data.get(i / 48 * 48 + 47 - i % 48).copied().unwrap_or(other);
    holds("each block reversed", &y, &list(0..n, at))
}

#[kernel(crate = kiln_runtime)]
fn block_sums<T: Num>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>) {
    let s = shared::<T, 1>([128]);
    let t = thread_id(0);
    // SAFETY: a thread writes its own element; a barrier stands between writing and reading.
    unsafe { s.put(t, x.get_or(thread_index(), 0)) };
    barrier();
    let mut half: Idx = val(64);
    while half > 0 {
        if t < half {
            // SAFETY: as above: the upper half is only read in this step.
            unsafe { s.put(t, s.get(t) + s.get(t + half)) };
        }
        barrier();
        half = half / 2;
    }
    if t == 0 {
        // SAFETY: one thread a block.
        unsafe { y.write(program_id(0), s.get(0)) };
    }
}

fn tree_of_sums<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    // Small integers, so that the order does not matter in floats either.
    let n = 300;
    let data: Vec<T> = list(0..n, |_| T::small(trial.rng.below(50) as i32));
    let x = trial.vector(&data)?;
    let mut y = trial.output::<T, 1>([3])?;
    block_sums(&x, &mut y).grid([3, 1, 1]).block([128, 1, 1]).launch(trial.device)?;
    let sum = |block: &[T]| T::from_host(block.iter().fold(T::small(0).host(), |t, v| t.add(v.host())));
    holds("sums of blocks", &y, &data.chunks(128).map(sum).collect::<Vec<T>>())
}

#[kernel(crate = kiln_runtime)]
fn transpose_through_shared(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    let s = shared::<f32, 2>([8, 8]);
    let (row, column) = (thread_id(1), thread_id(0));
    let (r, c) = (program_id(1) * 8, program_id(0) * 8);
    // SAFETY: each thread writes its own element, and reads after the barrier.
    unsafe { s.put((row, column), x.get_or((r + row, c + column), 0.0)) };
    barrier();
    if c + row < y.extent(0) && r + column < y.extent(1) {
        // SAFETY: the blocks' squares are disjoint, and so are the threads' elements.
        unsafe { y.write((c + row, r + column), s.get((column, row))) };
    }
}

fn shared_transpose(trial: &mut Trial<'_>) -> Verdict {
    let (m, n) = (13, 21);
    let (x, data) = trial.input::<f32, 2>([m, n])?;
    let mut y = trial.output([n, m])?;
    transpose_through_shared(&x, &mut y).grid([3, 2, 1]).block([8, 8, 1]).launch(trial.device)?;
    holds("transpose", &y, &list(0..m * n, |i| data[i % m * n + i / m]))
}

#[kernel(crate = kiln_runtime)]
fn shuffled<T: Elem>(x: &Tensor<T, 1>, y: &mut Tensor<T, 2>) {
    let i = thread_index();
    let v = x.get(i);
    let results = [
        shuffle_xor(v, 1),
        shuffle_xor(v, 16),
        shuffle_up(v, 3),
        shuffle_down(v, 5),
        shuffle_idx(v, 7),
        shuffle_idx(v, (lane_id() * 5 + 1) % 32),
        // Amounts count modulo 32.
        shuffle_up(v, 35),
        shuffle_idx(v, lane_id() + 9),
        shuffle_xor(v, 33),
    ];
    for (k, r) in results.into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i.get()), r) }
    }
}

fn shuffles<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for block in [3, 17, 33, 64, 96] {
        shuffles_of::<T>(trial, block)?;
    }
    // The last warp has 5 lanes: who would read another one keeps its own value.
    shuffles_of::<T>(trial, 37)
}

fn shuffles_of<T: Sample>(trial: &mut Trial<'_>, block: usize) -> Verdict {
    type Source = fn(usize) -> usize;
    let sources: [(&str, Source); 9] = [
        ("xor 1", |l| l ^ 1),
        ("xor 16", |l| l ^ 16),
        ("up 3", |l| if l < 3 { l } else { l - 3 }),
        ("down 5", |l| if l + 5 > 31 { l } else { l + 5 }),
        ("lane 7", |_| 7),
        ("a lane of its own choice", |l| (l * 5 + 1) % 32),
        ("up 35", |l| if l < 3 { l } else { l - 3 }),
        ("nine lanes on", |l| (l + 9) % 32),
        ("xor 33", |l| l ^ 1),
    ];
    let n = 2 * block;
    let (x, data) = trial.input::<T, 1>([n])?;
    let mut y = trial.output::<T, 2>([sources.len(), n])?;
    shuffled(&x, &mut y).grid([2, 1, 1]).block([block as u32, 1, 1]).launch(trial.device)?;
    let got = y.to_vec()?;
    for (k, (name, source)) in sources.into_iter().enumerate() {
        let read = |i: usize| {
            let thread = i % block;
            let there = thread / 32 * 32 + source(thread % 32);
            i - thread + if there < block { there } else { thread }
        };
        let expected: Vec<T> = list(0..n, |i| data[read(i)]);
        same(name, &got[k * n..][..n], &expected)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn voted(
    x: &Tensor<i32, 1>,
    all: &mut Tensor<bool, 1>,
    any: &mut Tensor<bool, 1>,
    bits: &mut Tensor<u32, 1>,
) {
    let i = thread_index();
    let v = x.get(i);
    all.set(i, vote_all(v >= 0));
    any.set(i, vote_any(v < 0));
    bits.set(i, ballot(v % 3 == 0));
}

fn votes(trial: &mut Trial<'_>) -> Verdict {
    let mut data: Vec<i32> = list(0..128, |_| trial.rng.below(100) as i32);
    data[40] = -1;
    data[100] = -7;
    let x = trial.vector(&data)?;
    let (mut all, mut any, mut bits) = (trial.output([128])?, trial.output([128])?, trial.output([128])?);
    voted(&x, &mut all, &mut any, &mut bits).grid([2, 1, 1]).block([64, 1, 1]).launch(trial.device)?;
    let warps = |f: fn(&[i32]) -> bool| data.chunks(32).flat_map(|w| [f(w); 32]).collect::<Vec<bool>>();
    holds("all", &all, &warps(|w| w.iter().all(|&v| v >= 0)))?;
    holds("any", &any, &warps(|w| w.iter().any(|&v| v < 0)))?;
    let ballot = |w: &[i32]| (0..32).fold(0, |b, i| b | (u32::from(w[i] % 3 == 0) << i));
    holds("ballot", &bits, &data.chunks(32).flat_map(|w| [ballot(w); 32]).collect::<Vec<u32>>())
}

#[kernel(crate = kiln_runtime)]
fn rotate(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, steps: Val<i32>) {
    let s = shared::<i32, 1>([32]);
    let t = thread_id(0);
    let mut mine = x.get(thread_index());
    for _step in range(0, steps) {
        // SAFETY: barriers stand between a step's writes and reads.
        unsafe { s.put(t, mine) };
        barrier();
        mine = s.get((t + 1) % 32) + 1;
        barrier();
    }
    y.set(thread_index(), mine);
}

fn many_barriers(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<i32, 1>([64])?;
    let mut y = trial.output([64])?;
    rotate(&x, &mut y, 37).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let expected: Vec<i32> = list(0..64, |i| data[i / 32 * 32 + (i + 37) % 32].wrapping_add(37));
    holds("rotated", &y, &expected)
}

#[kernel(crate = kiln_runtime)]
fn mixed<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    let (p, t) = (program_id(0), thread_id(0));
    // A tile belongs to the whole block; every thread sees its scalar results.
    let row = x.row(p).load(64, 0);
    let (total, most) = (row.sum(), row.reduce_max());
    let s = shared::<T, 1>([64]);
    s.tile(0, 64).store(row.cumsum(0));
    barrier();
    if t < x.extent(1) {
        // SAFETY: each thread writes its own element of its block's row.
        unsafe { y.write((p, t), s.get(t) + total * 2 - most) };
    }
}

fn tiles_among_threads<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let (m, n) = (3, 51);
    let data: Vec<T> = list(0..m * n, |_| T::small(trial.rng.below(20) as i32 + 1));
    let x = trial.device.tensor(&data, [m, n])?;
    let mut y = trial.output::<T, 2>([m, n])?;
    mixed(&x, &mut y).grid([m as u32, 1, 1]).block([64, 1, 1]).launch(trial.device)?;
    let mut expected = Vec::new();
    for row in data.chunks(n) {
        let values: Vec<i64> = row.iter().map(|v| v.host().float() as i64).collect();
        let (total, most) = (values.iter().sum::<i64>(), values.iter().max().copied().unwrap_or(0));
        let mut running = 0;
        for v in values {
            running += v;
            expected.push(T::small((running + 2 * total - most) as i32));
        }
    }
    holds("running sum, twice the total, less the largest", &y, &expected)
}

#[kernel(crate = kiln_runtime)]
fn windows(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let s = shared::<i32, 1>([32]);
    let t = thread_id(0);
    let mut total: Val<i32> = 0;
    for start in (0..x.extent(0)).step_by(32) {
        // SAFETY: barriers stand between a step's writes and reads.
        unsafe { s.put(t, x.get_or(start + t, 0)) };
        barrier();
        for k in 0..4 {
            let at = t + k;
            if at < 32 {
                total += s.get(at);
            } else {
                continue;
            }
        }
        barrier();
    }
    y.set(thread_index(), total);
}

fn loops_around_barriers(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<i32, 1>([75])?;
    let mut y = trial.output([32])?;
    windows(&x, &mut y).grid([1; 3]).block([32, 1, 1]).launch(trial.device)?;
    let mut expected = vec![0i32; 32];
    for start in (0..75).step_by(32) {
        for (t, total) in expected.iter_mut().enumerate() {
            let at = (t..t + 4).filter(|&a| a < 32).filter_map(|a| data.get(start + a));
            *total = at.fold(*total, |s, v| s.wrapping_add(*v));
        }
    }
    holds("sums of windows", &y, &expected)
}
