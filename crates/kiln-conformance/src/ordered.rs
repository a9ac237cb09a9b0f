//! Ordered accesses: of single elements, of quads, and what blocks hand each other by them.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, holds, list};
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::{FaultKind, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["ordered":
        elements for i32 u32 i64 u64 f32 f64;
        elements_of_one_thread for i32 u32 i64 u64 f32 f64;
        rows_and_shared_memory;
        outside_the_view;
        quads;
        quads_of_one_thread;
        quads_that_are_none;
        blocks_in_turn;
        quads_in_turn;
        blocks_at_once;
    ]
}

/// Every access is of an element of the thread's own, so that the value is known.
#[kernel(crate = kiln_runtime)]
fn reverse<T: Word>(x: &mut Tensor<T, 1>, y: &mut Tensor<T, 1>) {
    let i = thread_index().get();
    let n = x.extent(0);
    if i < n {
        let v = x.get_ordered(i, Order::Acquire, Scope::System);
        if i % 3 == 0 {
            // SAFETY: each thread stores to elements of its own.
            unsafe { y.set_ordered(n - 1 - i, v, Order::Release, Scope::Device) };
        } else {
            // SAFETY: as above.
            unsafe { x.set_ordered(i, v + v, Order::Relaxed, Scope::System) };
            let twice = x.get_ordered(i, Order::Relaxed, Scope::Block);
            // SAFETY: as above; `n - 1 - i` is below `n`.
            unsafe { y.set_ordered_unchecked(n - 1 - i, twice - v, Order::Relaxed, Scope::Block) };
        }
    }
}

fn reversed<T: Sample + Word>(trial: &mut Trial<'_>, block: u32) -> Verdict {
    let n = 77;
    // Small numbers: floats are added exactly.
    let data: Vec<T> = list(0..n, |_| T::small(trial.rng.below(1000) as i32));
    let (mut x, mut y) = (trial.vector(&data)?, trial.output::<T, 1>([n])?);
    let grid = (n as u32).div_ceil(block);
    reverse(&mut x, &mut y).grid([grid, 1, 1]).block([block, 1, 1]).launch(trial.device)?;
    let expected: Vec<T> = data.iter().rev().copied().collect();
    holds("elements in reverse", &y, &expected)
}

fn elements<T: Sample + Word>(trial: &mut Trial<'_>) -> Verdict {
    reversed::<T>(trial, 24)
}

fn elements_of_one_thread<T: Sample + Word>(trial: &mut Trial<'_>) -> Verdict {
    reversed::<T>(trial, 1)
}

#[kernel(crate = kiln_runtime)]
fn turn_rows(x: &Tensor<u32, 2>, y: &mut Tensor<u32, 2>) {
    let s = shared::<u32, 1>([8]);
    let (p, t) = (program_id(0), thread_id(0));
    let row = x.row(p);
    // SAFETY: each thread stores to its own element, and reads after the barrier.
    unsafe {
        s.set_ordered(t, row.get_ordered(t, Order::Relaxed, Scope::Device), Order::Release, Scope::Block)
    };
    barrier();
    let v = s.get_ordered((t + 1) % 8, Order::Acquire, Scope::Block);
    // SAFETY: as above.
    unsafe { y.row(p).set_ordered(t, v, Order::Relaxed, Scope::System) };
}

fn rows_and_shared_memory(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<u32, 2>([5, 8])?;
    let mut y = trial.output([5, 8])?;
    turn_rows(&x, &mut y).grid([5, 1, 1]).block([8, 1, 1]).launch(trial.device)?;
    let expected: Vec<u32> = list(0..40, |i| data[i / 8 * 8 + (i + 1) % 8]);
    holds("rows rotated by one", &y, &expected)
}

#[kernel(crate = kiln_runtime)]
fn beyond(x: &mut Tensor<i32, 1>, store: bool) {
    let i = thread_index().get();
    if store {
        // SAFETY: each thread stores to its own element.
        unsafe { x.set_ordered(i, 1, Order::Release, Scope::System) };
    } else {
        let v = x.get_ordered(i, Order::Acquire, Scope::System);
        device_assert!(v == 7, "no garbage");
    }
}

fn outside_the_view(trial: &mut Trial<'_>) -> Verdict {
    for store in [false, true] {
        let mut x = trial.vector(&[7i32; 21])?;
        beyond(&mut x, store).grid([1, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
        let error = trial.device.synchronize().err();
        let fault = error.as_ref().and_then(|e| e.fault());
        let kind = FaultKind::OutOfBounds { index: 21, extent: 21 };
        // Threads 21 to 31 fault at once: any of them may be the one that is reported.
        let reported = fault.is_some_and(|f| match f.kind {
            FaultKind::OutOfBounds { index, extent } => (21..32).contains(&index) && extent == 21,
            _ => false,
        });
        ensure(reported, || format!("store {store}: expected {kind:?} or the like, found {error:?}"))?;
    }
    Ok(())
}

/// Quad `q` goes to quad `len - 1 - q`, its words rotated.
#[kernel(crate = kiln_runtime)]
fn rotate(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>) {
    let q = thread_index().get();
    let [a, b, c, d] = x.get_quad(q * 4);
    // SAFETY: each thread stores to quads of its own.
    unsafe { y.set_quad(x.extent(0) - 4 - q * 4, [b, c, d, a]) };
}

fn rotated(trial: &mut Trial<'_>, block: u32) -> Verdict {
    let quads = 37;
    let (x, data) = trial.input::<u32, 1>([4 * quads])?;
    let mut y = trial.output([4 * quads])?;
    // Threads beyond the end load zeros and store nothing.
    rotate(&x, &mut y)
        .grid([(quads as u32).div_ceil(block) + 1, 1, 1])
        .block([block, 1, 1])
        .launch(trial.device)?;
    let place = |i: usize| (quads - 1 - i / 4) * 4 + (i + 1) % 4;
    let expected: Vec<u32> = list(0..4 * quads, |i| data[place(i)]);
    holds("quads in reverse, rotated", &y, &expected)
}

fn quads(trial: &mut Trial<'_>) -> Verdict {
    rotated(trial, 24)
}

fn quads_of_one_thread(trial: &mut Trial<'_>) -> Verdict {
    rotated(trial, 1)
}

#[kernel(crate = kiln_runtime)]
fn stray(x: &Tensor<u32, 1>, places: &Tensor<i64, 1>, y: &mut Tensor<u32, 1>, sums: &mut Tensor<u32, 1>) {
    let t = thread_index();
    let at = places.get_or(t, -4);
    let [a, b, c, d] = x.get_quad(at);
    sums.set_or_skip(t, a + b + c + d);
    // SAFETY: places are all different.
    unsafe { y.set_quad(at, [a + 1, b + 1, c + 1, d + 1]) };
}

fn quads_that_are_none(trial: &mut Trial<'_>) -> Verdict {
    let words: Vec<u32> = (1..=18).collect();
    // Inside; outside before, behind and half; between quads.
    let places = [4i64, 0, 12, -4, 20, 16, 1 << 40, 9, i64::MAX - 2, i64::MIN];
    let sum = |at: i64| -> u32 {
        let inside = at % 4 == 0 && (0..=14).contains(&at);
        if inside { words[at as usize..at as usize + 4].iter().sum() } else { 0 }
    };
    let expected: Vec<u32> = places.iter().map(|&at| sum(at)).collect();
    let mut stored = vec![u32::POISON; 18];
    for &at in places.iter().filter(|&&at| sum(at) > 0) {
        (0..4).for_each(|k| stored[at as usize + k] = words[at as usize + k] + 1);
    }
    for block in [1, 32] {
        let (x, at) = (trial.vector(&words)?, trial.vector(&places)?);
        let (mut y, mut sums) = (trial.output([18])?, trial.output([places.len()])?);
        let grid = [10u32.div_ceil(block), 1, 1];
        stray(&x, &at, &mut y, &mut sums).grid(grid).block([block, 1, 1]).launch(trial.device)?;
        holds("sums of quads", &sums, &expected)?;
        holds("quads stored", &y, &stored)?;
    }
    Ok(())
}

/// How often a kernel looks for what must come, before it gives up: seconds on any device.
const PATIENCE: i64 = 20_000_000;

/// Block `p` waits for the flag of block `p - 1`, adds to all that this one left, and raises its
/// own. Blocks begin in order, so that those that are waited for run or have run on every device.
#[kernel(crate = kiln_runtime)]
fn relay(data: &mut Tensor<u32, 2>, flags: &mut Tensor<u32, 1>, patience: Val<i64>) {
    let (p, n) = (program_id(0), data.extent(1));
    if thread_id(0) == 0 {
        let mut polls = val(0i64);
        let mut here =
            flags.get_ordered((p + num_programs(0) - 1) % num_programs(0), Order::Acquire, Scope::Device);
        while p > 0 && here != 1 && polls < patience {
            here = flags.get_ordered(p - 1, Order::Acquire, Scope::Device);
            polls += 1;
        }
        if p == 0 || here == 1 {
            for j in range(0, n) {
                let before: Val<u32> = if p > 0 { data.get((p - 1, j)) } else { val(0u32) };
                // SAFETY: this thread alone writes the row, which others read after its flag is
                // raised.
                unsafe { data.write((p, j), before + (p * 10 + j).cast::<u32>()) };
            }
            // SAFETY: others access the flag in order.
            unsafe { flags.set_ordered(p, 1, Order::Release, Scope::Device) };
        }
    }
}

fn blocks_in_turn(trial: &mut Trial<'_>) -> Verdict {
    let (blocks, n) = (19usize, 33usize);
    for block in [1, 32] {
        let (mut data, mut flags) = (trial.output([blocks, n])?, trial.device.zeros([blocks])?);
        let launch = relay(&mut data, &mut flags, PATIENCE);
        launch.grid([blocks as u32, 1, 1]).block([block, 1, 1]).launch(trial.device)?;
        let at = |i: usize| (0..=i / n).map(|p| (p * 10 + i % n) as u32).sum();
        let expected: Vec<u32> = list(0..blocks * n, at);
        holds("what the blocks before left, and more", &data, &expected)?;
        holds("flags", &flags, &vec![1; blocks])?;
    }
    Ok(())
}

/// As `relay`, with the message in quads that bear a stamp each: no order among them is needed.
#[kernel(crate = kiln_runtime)]
fn relay_quads(slots: &mut Tensor<u32, 1>, patience: Val<i64>) {
    let (p, lane) = (program_id(0), thread_id(0));
    let place = (p * block_dim(0) + lane) * 4;
    let mut got = [val(0u32), val(0u32), val(0u32), val(1u32)];
    if p > 0 {
        let mut polls = val(0i64);
        let mut waits = val(true);
        while waits && polls < patience {
            let quad = slots.get_quad(place - block_dim(0) * 4);
            got = quad;
            waits = !vote_all(quad[3].eq(p.cast::<u32>()));
            polls += 1;
        }
    }
    let [a, b, c, _] = got;
    let l = lane.cast::<u32>();
    // SAFETY: others access the slot by quads.
    unsafe { slots.set_quad(place, [a + l, b + 1, c + l * l, p.cast::<u32>() + 1]) };
}

fn quads_in_turn(trial: &mut Trial<'_>) -> Verdict {
    let blocks = 23usize;
    for lanes in [1usize, 8, 32] {
        let mut slots = trial.device.zeros([blocks * 4 * lanes])?;
        let launch = relay_quads(&mut slots, PATIENCE);
        launch.grid([blocks as u32, 1, 1]).block([lanes as u32, 1, 1]).launch(trial.device)?;
        let at = |i: usize| {
            let (turn, lane) = ((i / (4 * lanes)) as u32 + 1, (i / 4 % lanes) as u32);
            [turn * lane, turn, turn * lane * lane, turn][i % 4]
        };
        let expected: Vec<u32> = list(0..blocks * 4 * lanes, at);
        holds("slots of stamped quads", &slots, &expected)?;
    }
    Ok(())
}

/// Two blocks throw a ball of several words back and forth.
#[kernel(crate = kiln_runtime)]
fn rally(ball: &mut Tensor<u32, 1>, turn: &mut Tensor<u32, 1>, rounds: Val<u32>, patience: Val<i64>) {
    let me = program_id(0).cast::<u32>();
    if thread_id(0) == 0 {
        let mut polls = val(0i64);
        let mut next = me;
        while next < rounds && polls < patience {
            polls += 1;
            if turn.get_ordered(0, Order::Acquire, Scope::Device) == next {
                for j in range(0, ball.extent(0)) {
                    // SAFETY: the block whose turn it is alone accesses the ball.
                    unsafe { ball.write(j, ball.get(j) * 3 + j.cast::<u32>()) };
                }
                // SAFETY: both access the turn in order.
                unsafe { turn.set_ordered(0, next + 1, Order::Release, Scope::Device) };
                next += 2;
                polls = val(0i64);
            }
        }
    }
}

fn blocks_at_once(trial: &mut Trial<'_>) -> Verdict {
    if !trial.device.capabilities().concurrent_blocks {
        return Err(Stop::missing("concurrent blocks"));
    }
    let rounds = 2000;
    let data = trial.random::<u32>(50);
    let (mut ball, mut turn) = (trial.vector(&data)?, trial.device.zeros([1])?);
    rally(&mut ball, &mut turn, rounds, PATIENCE).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let thrown = |j: usize| (0..rounds).fold(data[j], |word, _| word.wrapping_mul(3).wrapping_add(j as u32));
    holds("turns", &turn, &[rounds])?;
    holds("the ball", &ball, &list(0..50, thrown))
}
