//! Barriers of the grid: all blocks of a launch wait for each other.

use crate::actors_beside::beside_all;
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, holds, list};
use kiln_lang::prelude::*;
use kiln_runtime::{Error, Fault, FaultKind, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["grid":
        rounds_of_all_blocks;
        sums_of_all_blocks;
        launches_in_a_graph;
        a_fault_ends_all_blocks;
        grids_that_do_not_fit;
        copies_in_flight;
        beside_actors;
    ]
}

/// In every round each thread adds the number of a thread of another block, which follows from the
/// round, to its own: two rows take turns.
#[kernel(crate = kiln_runtime)]
fn mix(rows: &mut Tensor<u32, 2>, rounds: Val<i32>) {
    let threads = num_programs(0) * num_programs(1) * block_dim(0);
    let block = program_id(0) + num_programs(0) * program_id(1);
    let own = block * block_dim(0) + thread_id(0);
    for round in range(0, rounds) {
        let now = (round % 2).cast::<i64>();
        let other = (own * 7 + round.cast::<i64>() * 13 + block_dim(0)) % threads;
        let mixed = rows.get((now, own)) * 3 + rows.get((now, other));
        // SAFETY: each thread has a place of its own, in the row that nobody reads in this round.
        unsafe { rows.write((val(1i64) - now, own), mixed) };
        grid_barrier();
    }
}

fn rounds_of_all_blocks(trial: &mut Trial<'_>) -> Verdict {
    // More blocks than a device has cores, and threads that fill no warp.
    for (grid, block, rounds) in
        [([1, 1, 1], 32, 2), ([5, 1, 1], 33, 4), ([3, 4, 1], 64, 7), ([32, 1, 1], 1, 9)]
    {
        let threads = (grid[0] * grid[1] * block) as usize;
        let data = trial.random::<u32>(2 * threads);
        let mut rows = trial.device.tensor(&data, [2, threads])?;
        mix(&mut rows, rounds).grid(grid).block([block]).launch(trial.device)?;
        let (mut now, mut next) = (data[..threads].to_vec(), data[threads..].to_vec());
        for round in 0..rounds as usize {
            let other = |own: usize| (own * 7 + round * 13 + block as usize) % threads;
            next = list(0..threads, |own| now[own].wrapping_mul(3).wrapping_add(now[other(own)]));
            std::mem::swap(&mut now, &mut next);
        }
        let both = if rounds % 2 == 0 { [now, next] } else { [next, now] }.concat();
        holds(&format!("grid {grid:?} of {block} threads"), &rows, &both)?;
    }
    Ok(())
}

/// Each block leaves the sum of its part; all of them then add up all sums.
#[kernel(crate = kiln_runtime)]
fn shares(x: &Tensor<u32, 1>, sums: &mut Tensor<u32, 1>, all: &mut Tensor<u32, 1>) {
    let (block, first) = (program_id(0), thread_id(0).eq(0));
    let sum = block_sum(x.get_or(thread_index(), 0));
    if first {
        // SAFETY: the block's own place.
        unsafe { sums.write(block, sum) };
    }
    grid_barrier();
    let mut total = val(0u32);
    for other in range_step(thread_id(0), num_programs(0), block_dim(0)) {
        total += sums.get(other);
    }
    let total = block_sum(total);
    if first {
        // SAFETY: the block's own place.
        unsafe { all.write(block, total) };
    }
}

fn sums_of_all_blocks(trial: &mut Trial<'_>) -> Verdict {
    for (blocks, threads, len) in [(1, 32, 0), (7, 64, 400), (19, 32, 19 * 32)] {
        let data = trial.random::<u32>(len);
        let x = trial.vector(&data)?;
        let (mut sums, mut all) = (trial.output([blocks])?, trial.output::<u32, 1>([blocks])?);
        let launch = shares(&x, &mut sums, &mut all);
        launch.grid([blocks as u32]).block([threads]).launch(trial.device)?;
        let total = data.iter().fold(0, |sum: u32, x| sum.wrapping_add(*x));
        holds(&format!("{blocks} blocks"), &all, &vec![total; blocks])?;
    }
    Ok(())
}

/// One of a multiprocessor's blocks is an actor's, and all of these run at once.
fn beside_actors(trial: &mut Trial<'_>) -> Verdict {
    let blocks = if trial.device.properties().warp > 1 { trial.device.properties().units } else { 3 };
    let data = trial.random::<u32>(32 * blocks as usize);
    let device = trial.device;
    beside_all(device, || {
        let x = device.tensor(&data, [data.len()])?;
        let (mut sums, mut all) = (device.uninit([blocks as usize])?, device.uninit([blocks as usize])?);
        shares(&x, &mut sums, &mut all).grid([blocks]).block([32]).launch(device)?;
        let total = data.iter().fold(0, |sum: u32, x| sum.wrapping_add(*x));
        holds("the sum", &all, &vec![total; blocks as usize])
    })
}

/// Launches of a graph begin to count anew, each by itself, and so does one beside the graph.
fn launches_in_a_graph(trial: &mut Trial<'_>) -> Verdict {
    let (threads, rounds) = (5 * 32, 3);
    let data = trial.random::<u32>(2 * threads);
    let mut rows = [trial.device.tensor(&data, [2, threads])?, trial.device.tensor(&data, [2, threads])?];
    let mut alone = trial.device.tensor(&data, [2, threads])?;
    let (graph, ()) = trial.device.graph(|_| {
        for rows in &mut rows {
            mix(rows, rounds).grid([5]).block([32]).launch(trial.device)?;
        }
        mix(&mut rows[0], rounds).grid([5]).block([32]).launch(trial.device)
    })?;
    for _ in 0..2 {
        graph.replay()?;
        mix(&mut alone, rounds).grid([5]).block([32]).launch(trial.device)?;
    }
    let mixed = |times: i32| {
        let mut both = [data[..threads].to_vec(), data[threads..].to_vec()];
        for round in (0..times).flat_map(|_| 0..rounds as usize) {
            // Every launch begins with the first row.
            let now = round % 2;
            let other = |own: usize| both[now][(own * 7 + round * 13 + 32) % threads];
            both[1 - now] = list(0..threads, |own| both[now][own].wrapping_mul(3).wrapping_add(other(own)));
        }
        both.concat()
    };
    holds("two launches a replay", &rows[0], &mixed(4))?;
    holds("one launch a replay", &rows[1], &mixed(2))?;
    holds("launches between replays", &alone, &mixed(2))
}

/// A thread of one block reads outside of a tensor, before the second barrier.
#[kernel(crate = kiln_runtime)]
fn stumble(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, at: Val<i64>) {
    grid_barrier();
    let own = program_id(0) * block_dim(0) + thread_id(0);
    let read = x.get(select(own.eq(5), at, 0));
    grid_barrier();
    grid_barrier();
    y.set(thread_index(), read);
}

fn a_fault_ends_all_blocks(trial: &mut Trial<'_>) -> Verdict {
    let x = trial.device.tensor(&[3u32; 4], [4])?;
    for (at, faults) in [(99, true), (2, false), (-1, true), (0, false)] {
        let mut y = trial.device.tensor(&[7u32; 128], [128])?;
        let launched = stumble(&x, &mut y, at).grid([4]).block([32]).launch(trial.device);
        match launched.and_then(|()| y.to_vec()) {
            Err(Error::Device(kiln_backend::Error::Fault(fault))) if faults => {
                let Fault { kind, block, thread, .. } = *fault;
                let expected = FaultKind::OutOfBounds { index: at, extent: 4 };
                if (kind.clone(), block, thread) != (expected, [0; 3], Some([5, 0, 0])) {
                    return Err(Stop::wrong(format!("{kind:?} in block {block:?}, thread {thread:?}")));
                }
            }
            other => {
                ensure(other? == [3; 128] && !faults, || format!("index {at}: no fault, or a wrong result"))?
            }
        }
    }
    Ok(())
}

fn grids_that_do_not_fit(trial: &mut Trial<'_>) -> Verdict {
    let mut rows = trial.device.zeros([2, 1 << 16])?;
    let launched = mix(&mut rows, 1).grid([1 << 16]).block([1]).launch(trial.device);
    match launched {
        Err(Error::Device(kiln_backend::Error::LaunchLimit { what, given, .. })) => {
            let right = what == "blocks of a launch with a grid barrier" && given == 1 << 16;
            ensure(right, || format!("`{what}` of {given}"))?;
        }
        other => {
            other?;
            return Err(Stop::wrong("a grid that is too large was launched".into()));
        }
    }
    mix(&mut rows, 1).grid([2]).block([1]).launch(trial.device)?;
    holds("after it", &rows, &vec![0; 2 << 16])
}

/// What blocks have in flight while they wait for each other is their own.
#[kernel(crate = kiln_runtime)]
fn copies_around_a_barrier(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let (t, place) = (thread_id(0), program_id(0) * 32 + thread_id(0));
    let s = shared::<f32, 1>([32]);
    // SAFETY: each thread copies an element of its own, and reads no other.
    unsafe { s.copy_async(t, x, place, 1) };
    commit_copies();
    grid_barrier();
    wait_copies(0);
    // SAFETY: each thread of the launch has an element of its own.
    unsafe { y.write(place, s.get(t) + 1.0) };
}

fn copies_in_flight(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 1>([128])?;
    let mut y = trial.output::<f32, 1>([128])?;
    copies_around_a_barrier(&x, &mut y).grid([4]).block([32]).launch(trial.device)?;
    holds("copies around a barrier of the grid", &y, &list(0..128, |i: usize| data[i] + 1.0))
}
