//! What the lanes of a warp do together, in groups of all sizes and where the last warp is not
//! full.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, list, same};
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["warps":
        group_shuffles for i16 i32 u64 f32;
        group_sums for i16 i32 u32 i64 u64 f32 f64;
        group_bits for u32 i64;
        votes_of_groups;
        matches for i16 u8 i32 u64 f32;
        any_function;
        sets_of_lanes;
        barriers;
        barriers_of_lanes;
        inline_ptx;
    ]
}

const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Threads of a block: full warps, and a last one of 5 lanes.
const BLOCKS: [usize; 2] = [64, 37];

/// The threads of an element's group that the block has.
fn group(i: usize, size: usize, block: usize) -> std::ops::Range<usize> {
    let thread = i % block;
    let start = thread / size * size;
    i - thread + start..i - thread + (start + size).min(block)
}

#[kernel(crate = kiln_runtime)]
fn shuffled_in_groups<T: Elem>(x: &Tensor<T, 1>, y: &mut Tensor<T, 2>, size: usize) {
    let i = thread_index();
    let (v, group) = (x.get(i), lane_group(size));
    let results = [
        group.shuffle_idx(v, 3),
        group.shuffle_idx(v, group.rank() * 5 + 1),
        group.shuffle_up(v, 1),
        group.shuffle_up(v, size + 3),
        group.shuffle_down(v, 2),
        group.shuffle_xor(v, 1),
        group.shuffle_xor(v, size / 2),
    ];
    for (k, r) in results.into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i.get()), r) }
    }
}

fn group_shuffles<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    type Source = fn(usize, usize) -> usize;
    let sources: [(&str, Source); 7] = [
        ("lane 3", |_, n| 3 % n),
        ("a lane of its own choice", |r, n| (r * 5 + 1) % n),
        ("up 1", |r, n| r - usize::from(n > 1 && r > 0)),
        ("up 3 and once around", |r, n| if r < 3 % n { r } else { r - 3 % n }),
        ("down 2", |r, n| if r + 2 % n < n { r + 2 % n } else { r }),
        ("xor 1", |r, n| r ^ (1 % n)),
        ("xor half", |r, n| r ^ (n / 2)),
    ];
    for block in BLOCKS {
        for size in SIZES {
            let n = 2 * block;
            let (x, data) = trial.input::<T, 1>([n])?;
            let mut y = trial.output::<T, 2>([sources.len(), n])?;
            let grid = [2, 1, 1];
            shuffled_in_groups(&x, &mut y, size)
                .grid(grid)
                .block([block as u32, 1, 1])
                .launch(trial.device)?;
            let got = y.to_vec()?;
            for (k, (name, source)) in sources.into_iter().enumerate() {
                let read = |i: usize| {
                    let lanes = group(i, size, block);
                    let there = lanes.start + source(i - lanes.start, size);
                    if lanes.contains(&there) { there } else { i }
                };
                let expected: Vec<T> = list(0..n, |i| data[read(i)]);
                same(&format!("{name} of {size}, {block} threads"), &got[k * n..][..n], &expected)?;
            }
        }
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn sums_of_groups<T: Num>(x: &Tensor<T, 1>, y: &mut Tensor<T, 2>, size: usize) {
    let i = thread_index();
    let (v, group) = (x.get(i), lane_group(size));
    let results = [group.sum(v), group.min(v), group.max(v), group.inclusive_sum(v), group.exclusive_sum(v)];
    for (k, r) in results.into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i.get()), r) }
    }
}

fn group_sums<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        for size in SIZES {
            let n = 2 * block;
            // Small integers, so that the order does not matter in floats either.
            let data: Vec<i32> = list(0..n, |_| trial.rng.below(90) as i32 + 1);
            let x = trial.vector(&list(0..n, |i| T::small(data[i])))?;
            let mut y = trial.output::<T, 2>([5, n])?;
            sums_of_groups(&x, &mut y, size)
                .grid([2, 1, 1])
                .block([block as u32, 1, 1])
                .launch(trial.device)?;
            let got = y.to_vec()?;
            let of = |name: &str, row: usize, f: &dyn Fn(usize, &[i32]) -> i32| {
                let value = |i: usize| {
                    let lanes = group(i, size, block);
                    T::small(f(i - lanes.start, &data[lanes]))
                };
                let name = format!("{name} of {size}, {block} threads");
                same(&name, &got[row * n..][..n], &list(0..n, value))
            };
            of("sum", 0, &|_, all| all.iter().sum())?;
            of("min", 1, &|_, all| all.iter().copied().min().unwrap_or(0))?;
            of("max", 2, &|_, all| all.iter().copied().max().unwrap_or(0))?;
            of("inclusive_sum", 3, &|rank, all| all[..=rank].iter().sum())?;
            of("exclusive_sum", 4, &|rank, all| all[..rank].iter().sum())?;
        }
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn bits_of_groups<T: Int>(x: &Tensor<T, 1>, y: &mut Tensor<T, 2>, size: usize) {
    let i = thread_index();
    let (v, group) = (x.get(i), lane_group(size));
    for (k, r) in [group.and_bits(v), group.or_bits(v), group.xor_bits(v)].into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i.get()), r) }
    }
}

fn group_bits<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        for size in [4, 32] {
            // Not all bits of either kind disappear.
            let data: Vec<u64> = list(0..block, |_| trial.rng.bits() | trial.rng.bits() | 0x10);
            let of = |bits: u64| T::from_bits(bits & (u64::MAX >> (64 - T::BITS)));
            let x = trial.vector(&list(0..block, |i| of(data[i])))?;
            let mut y = trial.output::<T, 2>([3, block])?;
            bits_of_groups(&x, &mut y, size)
                .grid([1, 1, 1])
                .block([block as u32, 1, 1])
                .launch(trial.device)?;
            let folds: [fn(u64, u64) -> u64; 3] = [|a, b| a & b, |a, b| a | b, |a, b| a ^ b];
            let combined = |f: fn(u64, u64) -> u64| {
                list(0..block, |i| {
                    let lanes = group(i, size, block);
                    of(data[lanes.start + 1..lanes.end].iter().fold(data[lanes.start], |a, b| f(a, *b)))
                })
            };
            let expected: Vec<T> = folds.iter().flat_map(|f| combined(*f)).collect();
            holds(&format!("and, or, xor of {size}, {block} threads"), &y, &expected)?;
        }
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn voted_in_groups(x: &Tensor<i32, 1>, y: &mut Tensor<u32, 2>, size: usize) {
    let i = thread_index();
    let (v, group) = (x.get(i), lane_group(size));
    let results = [
        group.ballot(v > 20),
        group.any(v > 80).cast::<u32>(),
        group.all(v > 20).cast::<u32>(),
        active_mask(),
    ];
    for (k, r) in results.into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i.get()), r) }
    }
}

fn votes_of_groups(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        for size in SIZES {
            let n = 2 * block;
            let data: Vec<i32> = list(0..n, |_| trial.rng.below(100) as i32);
            let x = trial.vector(&data)?;
            let mut y = trial.output::<u32, 2>([4, n])?;
            voted_in_groups(&x, &mut y, size)
                .grid([2, 1, 1])
                .block([block as u32, 1, 1])
                .launch(trial.device)?;
            let ballot = |i: usize| {
                let lanes = data[group(i, size, block)].iter().enumerate();
                lanes.fold(0, |bits, (rank, v)| bits | u32::from(*v > 20) << rank)
            };
            let any = |i: usize| u32::from(data[group(i, size, block)].iter().any(|v| *v > 80));
            let all = |i: usize| u32::from(data[group(i, size, block)].iter().all(|v| *v > 20));
            let active = |i: usize| u32::MAX >> (32 - group(i, 32, block).len());
            let expected =
                [list(0..n, ballot), list(0..n, any), list(0..n, all), list(0..n, active)].concat();
            holds(&format!("votes of {size}, {block} threads"), &y, &expected)?;
        }
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn matched<T: Num>(x: &Tensor<T, 1>, y: &mut Tensor<u32, 2>) {
    let i = thread_index();
    let v = x.get(i);
    let of_8 = lane_group(8);
    let results =
        [match_any(v), of_8.match_any(v), match_all(v).cast::<u32>(), of_8.match_all(v).cast::<u32>()];
    for (k, r) in results.into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i.get()), r) }
    }
}

fn matches<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        let n = 2 * block;
        // One value in the second half; groups of one value and of a few in the first one.
        let value = |i: usize, few: i32| {
            if i >= block {
                7
            } else if (i / 8).is_multiple_of(2) {
                100 + few
            } else {
                -3
            }
        };
        let data: Vec<i32> = list(0..n, |i| value(i, trial.rng.below(3) as i32));
        let x = trial.vector(&list(0..n, |i| T::small(data[i])))?;
        let mut y = trial.output::<u32, 2>([4, n])?;
        matched(&x, &mut y).grid([2, 1, 1]).block([block as u32, 1, 1]).launch(trial.device)?;
        let any = |i: usize, size: usize| {
            let lanes = data[group(i, size, block)].iter().enumerate();
            lanes.fold(0, |bits, (rank, v)| bits | u32::from(*v == data[i]) << rank)
        };
        let all =
            |i: usize, size: usize| u32::from(data[group(i, size, block)].iter().all(|v| *v == data[i]));
        let expected = [
            list(0..n, |i| any(i, 32)),
            list(0..n, |i| any(i, 8)),
            list(0..n, |i| all(i, 32)),
            list(0..n, |i| all(i, 8)),
        ];
        holds(&format!("matches, {block} threads"), &y, &expected.concat())?;
    }
    Ok(())
}

/// The function that does first what the first one does: associative, and not commutative.
fn composed((a1, b1): (Val<u32>, Val<u32>), (a2, b2): (Val<u32>, Val<u32>)) -> (Val<u32>, Val<u32>) {
    (a1 * a2, b1 * a2 + b2)
}

#[kernel(crate = kiln_runtime)]
fn functions_of_groups(a: &Tensor<u32, 1>, b: &Tensor<u32, 1>, y: &mut Tensor<u32, 2>, size: usize) {
    let i = thread_index();
    let (v, group) = ((a.get(i), b.get(i)), lane_group(size));
    let whole = group.reduce(v, composed);
    let running = group.inclusive_scan(v, composed);
    let before = group.exclusive_scan(v, (val(1), val(0)), composed);
    for (k, r) in [whole.0, whole.1, running.0, running.1, before.0, before.1].into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i.get()), r) }
    }
}

fn any_function(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        for size in SIZES {
            let (a, factors) = trial.input::<u32, 1>([block])?;
            let (b, terms) = trial.input::<u32, 1>([block])?;
            let mut y = trial.output::<u32, 2>([6, block])?;
            let launch = functions_of_groups(&a, &b, &mut y, size).grid([1, 1, 1]);
            launch.block([block as u32, 1, 1]).launch(trial.device)?;
            let over = |lanes: std::ops::Range<usize>| {
                lanes.fold((1u32, 0u32), |(a, b), i| {
                    (a.wrapping_mul(factors[i]), b.wrapping_mul(factors[i]).wrapping_add(terms[i]))
                })
            };
            let whole = |i: usize| over(group(i, size, block));
            let running = |i: usize| over(group(i, size, block).start..i + 1);
            let before = |i: usize| over(group(i, size, block).start..i);
            let all = [list(0..block, whole), list(0..block, running), list(0..block, before)];
            let expected: Vec<u32> = all
                .iter()
                .flat_map(|list| {
                    let (a, b): (Vec<u32>, Vec<u32>) = list.iter().copied().unzip();
                    [a, b].concat()
                })
                .collect();
            holds(&format!("functions of {size}, {block} threads"), &y, &expected)?;
        }
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn among_some(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 2>, lanes: Val<u32>) {
    let i = thread_index();
    let (v, some) = (x.get(i), lane_in(lanes));
    let results = [
        some.cast::<u32>(),
        warp().sum(select(some, v, 0)),
        ballot(some & (v > 20)),
        vote_all(!some | (v > 3)).cast::<u32>(),
    ];
    for (k, r) in results.into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i.get()), r) }
    }
}

fn sets_of_lanes(trial: &mut Trial<'_>) -> Verdict {
    let lanes = 0x8421_00f3u32;
    for block in BLOCKS {
        let data: Vec<u32> = list(0..block, |_| trial.rng.below(60) as u32);
        let x = trial.vector(&data)?;
        let mut y = trial.output::<u32, 2>([4, block])?;
        among_some(&x, &mut y, lanes).grid([1, 1, 1]).block([block as u32, 1, 1]).launch(trial.device)?;
        let is_in = |i: usize| lanes >> (i % 32) & 1 == 1;
        let some = |i: usize| group(i, 32, block).filter(|j| is_in(*j));
        let bits = |i: usize| some(i).fold(0, |bits, j| bits | u32::from(data[j] > 20) << (j % 32));
        let expected = [
            list(0..block, |i| u32::from(is_in(i))),
            list(0..block, |i| some(i).map(|j| data[j]).sum()),
            list(0..block, bits),
            list(0..block, |i| u32::from(some(i).all(|j| data[j] > 3))),
        ];
        holds(&format!("some lanes, {block} threads"), &y, &expected.concat())?;
    }
    Ok(())
}

/// Threads of warps pass numbers on, one lane further in each round, through shared memory.
#[kernel(crate = kiln_runtime)]
fn passed_on(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, rounds: Val<u32>) {
    let (i, here) = (thread_index(), thread_id(0));
    let (first, lane) = (warp_id() * 32, lane_id());
    let lanes = (block_dim(0) - first).min(32);
    let s = shared::<u32, 1>([64]);
    let mut v = x.get(i);
    for _ in range(0, rounds) {
        // SAFETY: each thread writes its own place, which its warp reads between the barriers.
        unsafe { s.put(here, v) };
        sync_warp();
        v = s.get(first + (lane + 1) % lanes) + 1;
        sync_warp();
    }
    y.set(i, v);
}

fn barriers(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        for rounds in [0usize, 1, 7] {
            let n = 3 * block;
            let data: Vec<u32> = list(0..n, |_| trial.rng.below(1000) as u32);
            let (x, mut y) = (trial.vector(&data)?, trial.output::<u32, 1>([n])?);
            let launch = passed_on(&x, &mut y, rounds as u32).grid([3, 1, 1]);
            launch.block([block as u32, 1, 1]).launch(trial.device)?;
            let expected = list(0..n, |i| {
                let lanes = group(i, 32, block);
                data[lanes.start + (i - lanes.start + rounds) % lanes.len()] + rounds as u32
            });
            holds(&format!("{rounds} rounds, {block} threads"), &y, &expected)?;
        }
    }
    Ok(())
}

/// The lanes of a set exchange numbers with a partner, while others do something else.
#[kernel(crate = kiln_runtime)]
fn exchanged_in_sets(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, lanes: Val<u32>) {
    let (i, here) = (thread_index(), thread_id(0));
    let s = shared::<u32, 1>([64]);
    if lane_in(lanes) {
        // SAFETY: each thread writes its own place, which lanes of the set read behind the barrier.
        unsafe { s.put(here, x.get(i)) };
        sync_warp_mask(lanes);
        y.set(i, s.get(here ^ 1) * 2);
    } else {
        y.set(i, x.get(i) + 1);
    }
}

fn barriers_of_lanes(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        for lanes in [0x0f0f_0f0fu32, 0xff00_000f, 0b1100, 0] {
            let data: Vec<u32> = list(0..block, |_| trial.rng.below(1000) as u32);
            let (x, mut y) = (trial.vector(&data)?, trial.output::<u32, 1>([block])?);
            let launch = exchanged_in_sets(&x, &mut y, lanes).grid([1, 1, 1]);
            launch.block([block as u32, 1, 1]).launch(trial.device)?;
            let is_in = |i: usize| lanes >> (i % 32) & 1 == 1;
            let expected = list(0..block, |i| if is_in(i) { data[i ^ 1] * 2 } else { data[i] + 1 });
            holds(&format!("lanes {lanes:#x}, {block} threads"), &y, &expected)?;
        }
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn by_hand(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>) {
    let i = thread_index();
    let (v, small) = (x.get(i), x.get(i).lt(1000));
    // SAFETY: each computes a register of others.
    let (high, chosen, double) = unsafe {
        (
            ptx::<u32>("mad.hi.u32 %0, %1, %2, %2;", (v << 20, v)),
            ptx::<u32>(".reg .u32 t; mov.u32 t, %laneid; @%2 mov.u32 t, %1; mov.u32 %0, t;", (v, small)),
            ptx::<f64>("fma.rn.f64 %0, %1, %1, %1;", v.cast::<f64>()),
        )
    };
    y.set(i, high ^ chosen ^ double.cast::<u32>());
}

fn inline_ptx(trial: &mut Trial<'_>) -> Verdict {
    let data: Vec<u32> = list(0..64, |_| trial.rng.below(2000) as u32);
    let (x, mut y) = (trial.vector(&data)?, trial.output::<u32, 1>([64])?);
    by_hand(&x, &mut y).grid([1]).block([64]).launch(trial.device)?;
    let expected = list(0..64, |i| {
        let v = data[i];
        let high = ((u64::from(v << 20) * u64::from(v)) >> 32) as u32 + v;
        high ^ if v < 1000 { v } else { i as u32 % 32 } ^ (v * v + v)
    });
    holds("words", &y, &expected)
}
