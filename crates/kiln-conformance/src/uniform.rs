//! What all threads of a block agree on: the first thread's value, votes of one warp; and clocks,
//! on which they do not.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, holds, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["uniform":
        first_thread for i16 bool i32 u32 i64 u64 f16 bf16 f32 f64;
        barriers_under_the_first_thread;
        tiles_under_votes;
        barriers_under_votes;
        clocks;
        rests;
    ]
}

#[kernel(crate = kiln_runtime)]
fn first<T: Elem>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, constant: &mut Tensor<i32, 1>) {
    let i = thread_index().get();
    // Two at a time and again: exchanges must not run into each other.
    for k in range(0, x.extent(0) / 2) {
        let (a, b) = (block_uniform(x.get((k * 2, i))), block_uniform(x.get((k * 2 + 1, i))));
        // SAFETY: each thread writes its own column.
        unsafe {
            y.write((k * 2, i), a);
            y.write((k * 2 + 1, i), b);
        }
    }
    constant.set(thread_index(), block_uniform(val(-5)));
}

fn first_thread<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (rows, blocks) = (6, 3);
    for block in [[1, 1, 1], [20, 1, 1], [8, 2, 2], [96, 1, 1], [25, 3, 2]] {
        let threads: usize = block.iter().product::<u32>() as usize;
        let n = blocks * threads;
        let (x, data) = trial.input::<T, 2>([rows, n])?;
        let (mut y, mut constant) = (trial.output([rows, n])?, trial.output([n])?);
        first(&x, &mut y, &mut constant).grid([blocks as u32, 1, 1]).block(block).launch(trial.device)?;
        let expected: Vec<T> = list(0..rows * n, |i| data[i / n * n + i % n / threads * threads]);
        holds("the first thread's", &y, &expected)?;
        holds("a constant", &constant, &vec![-5; n])?;
    }
    Ok(())
}

/// How long the loop runs varies between threads; the first decides.
#[kernel(crate = kiln_runtime)]
fn turns(trips: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let s = shared::<i32, 1>([64]);
    let t = thread_id(0);
    let mut mine = t.cast::<i32>();
    let mut left = trips.get(thread_index());
    while block_uniform(left) > 0 {
        // SAFETY: barriers stand between a turn's writes and reads.
        unsafe { s.put(t, mine) };
        barrier();
        mine = s.get((t + 1) % block_dim(0));
        barrier();
        left -= 1;
    }
    y.set(thread_index(), mine);
}

fn barriers_under_the_first_thread(trial: &mut Trial<'_>) -> Verdict {
    for block in [1usize, 17, 64] {
        let trips: Vec<i32> = list(0..5 * block, |_| trial.rng.below(9) as i32);
        let x = trial.vector(&trips)?;
        let mut y = trial.output([5 * block])?;
        turns(&x, &mut y).grid([5, 1, 1]).block([block as u32, 1, 1]).launch(trial.device)?;
        let at = |i: usize| ((i % block + trips[i / block * block] as usize) % block) as i32;
        holds("rotated", &y, &list(0..5 * block, at))?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn sum_if(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>) {
    let (p, t) = (program_id(0), thread_id(0));
    let v = x.get((p, t));
    let mut sum: Val<i32> = -1;
    if vote_any(v > 90) {
        sum = x.row(p).load(32, 0).sum();
    }
    // SAFETY: each thread writes its own element of its block's row.
    unsafe { y.write((p, t), sum) };
}

fn tiles_under_votes(trial: &mut Trial<'_>) -> Verdict {
    let rows = 40;
    let data: Vec<i32> = list(0..rows * 32, |_| trial.rng.below(94) as i32);
    let x = trial.device.tensor(&data, [rows, 32])?;
    let mut y = trial.output([rows, 32])?;
    sum_if(&x, &mut y).grid([rows as u32, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let row = |r: &[i32]| if r.iter().any(|&v| v > 90) { r.iter().sum() } else { -1 };
    holds("sums", &y, &data.chunks(32).flat_map(|r| [row(r); 32]).collect::<Vec<i32>>())
}

/// Counts the turns until no thread has anything left, with votes of every kind.
#[kernel(crate = kiln_runtime)]
fn last_one(x: &Tensor<i32, 1>, y: &mut Tensor<u32, 2>) {
    let i = thread_index();
    let mut left = x.get(i);
    let (mut turns, mut lanes): (Val<u32>, Val<u32>) = (0, 0);
    while !vote_all(left.le(0)) {
        barrier();
        turns += 1;
        lanes += ballot(left > 0).popcount();
        left -= 1;
    }
    // SAFETY: each thread writes its own column.
    unsafe {
        y.write((0, i.get()), turns);
        y.write((1, i.get()), lanes);
    }
}

fn barriers_under_votes(trial: &mut Trial<'_>) -> Verdict {
    for block in [1usize, 13, 32] {
        let n = 4 * block;
        let data: Vec<i32> = list(0..n, |_| trial.rng.below(12) as i32);
        let x = trial.vector(&data)?;
        let mut y = trial.output([2, n])?;
        last_one(&x, &mut y).grid([4, 1, 1]).block([block as u32, 1, 1]).launch(trial.device)?;
        let of = |f: fn(&[i32]) -> i32| data.chunks(block).map(f).collect::<Vec<i32>>();
        let expected = [of(|w| w.iter().copied().max().unwrap_or(0)), of(|w| w.iter().sum())];
        let expected: Vec<u32> = list(0..2 * n, |i| expected[i / n][i % n / block] as u32);
        holds("turns, and lanes in all of them", &y, &expected)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn time(x: &Tensor<u32, 1>, y: &mut Tensor<u64, 2>, sum: &mut Tensor<u32, 1>) {
    let i = thread_index().get();
    let (ns, cycles) = (clock_ns(), clock_cycles());
    let mut total: Val<u32> = 0;
    for k in range(0, x.extent(0)) {
        total += x.get(k) * total + 1;
    }
    let (cycles, ns) = (clock_cycles() - cycles, clock_ns() - ns);
    sum.set(thread_index(), total);
    // SAFETY: each thread writes its own column.
    unsafe {
        y.write((0, i), ns);
        y.write((1, i), cycles);
    }
}

fn clocks(trial: &mut Trial<'_>) -> Verdict {
    for block in [1usize, 24] {
        let (x, data) = trial.input::<u32, 1>([2000])?;
        let (mut y, mut sum) = (trial.output([2, 2 * block])?, trial.output([2 * block])?);
        time(&x, &mut y, &mut sum).grid([2, 1, 1]).block([block as u32, 1, 1]).launch(trial.device)?;
        let got = y.to_vec()?;
        let (ns, cycles) = got.split_at(2 * block);
        // A GPU's clock may stand for a microsecond, but not go back; the work takes well below a
        // minute.
        ensure(ns.iter().all(|&t| t < 60_000_000_000), || format!("nanoseconds: {ns:?}"))?;
        ensure(cycles.iter().all(|&t| (100..1 << 40).contains(&t)), || format!("cycles: {cycles:?}"))?;
        let total = data.iter().fold(0u32, |t, v| t.wrapping_add(v.wrapping_mul(t).wrapping_add(1)));
        holds("what was computed meanwhile", &sum, &vec![total; 2 * block])?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn nap(y: &mut Tensor<i32, 1>) {
    let t = thread_id(0).cast::<u32>();
    if t % 2 == 0 {
        sleep_ns(t * 100);
    }
    sleep_ns(0);
    sleep_ns(2000);
    y.set(thread_index(), t.cast::<i32>());
}

fn rests(trial: &mut Trial<'_>) -> Verdict {
    for block in [1u32, 40] {
        let mut y = trial.output([2 * block as usize])?;
        nap(&mut y).grid([2, 1, 1]).block([block, 1, 1]).launch(trial.device)?;
        let expected: Vec<i32> = list(0..2 * block, |i| (i % block) as i32);
        holds("threads that rested", &y, &expected)?;
    }
    Ok(())
}
