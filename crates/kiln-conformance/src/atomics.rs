//! Atomic operations, on tensors and on shared memory.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, holds, holds_near, hosts, list, same};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["atomics":
        add_min_max for i32 u32 i64 u64 f16 bf16 f32 f64;
        bits for i32 u32 i64 u64;
        on_tiles for i32 u32 i64 u64 f32 f64;
        old_values for i32 u32 i64 u64;
        compare_and_exchange for i32 u32 i64 u64;
        shared_histogram;
        fences_order_blocks;
        fences_order_programs;
        masked_exchange;
        orders_between_blocks;
        orders_in_a_block;
        pairs;
        of_128_bits;
    ]
}

#[kernel(crate = kiln_runtime)]
fn accumulate<T: Num>(x: &Tensor<T, 1>, y: &mut Tensor<T, 2>) {
    let i = thread_index().get();
    if i < x.extent(0) {
        let v = x.get(i);
        y.atomic_add((0, i % 5), v);
        y.atomic_min((1, i % 5), v);
        y.atomic_max((2, i % 5), v);
    }
}

fn add_min_max<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    // Small integers, so that the order does not matter in floats either.
    let data: Vec<T> = list(0..150, |_| T::small(trial.rng.below(4) as i32));
    let x = trial.vector(&data)?;
    let mut start = vec![T::small(1); 15];
    start[5..].iter_mut().for_each(|v| *v = T::small(2));
    let mut y = trial.device.tensor(&start, [3, 5])?;
    accumulate(&x, &mut y).grid([5, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let expected = accumulated(&hosts(&data), [start[0], start[5], start[5]].map(T::host));
    holds_near("add, min, max", &y, &expected, 0.0, 0.0)
}

/// Sums, least and greatest ones of every fifth element.
fn accumulated(data: &[Host], first: [Host; 3]) -> Vec<Host> {
    let fold = |bin: usize, first: Host, f: fn(Host, Host) -> Host| {
        data.iter().skip(bin).step_by(5).fold(first, |t, v| f(t, *v))
    };
    list(0..15, |i| fold(i % 5, first[i / 5], [Host::add, Host::min, Host::max][i / 5]))
}

#[kernel(crate = kiln_runtime)]
fn combine<T: Int + Bits>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>) {
    let v = x.get(thread_index());
    y.atomic_and(0, v);
    y.atomic_or(1, v);
    y.atomic_xor(2, v);
}

fn bits<T: Sample + Int + Bits>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 1>([96])?;
    let mut y = trial.vector(&[T::small(-1), T::small(0), T::small(5)])?;
    combine(&x, &mut y).grid([3, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    holds_near("and, or, xor", &y, &combined(&hosts(&data)), 0.0, 0.0)
}

fn combined(data: &[Host]) -> [Host; 3] {
    let int = |v: &Host| if let Host::Int(n) = *v { n } else { 0 };
    let fold = |first, f: fn(i128, i128) -> i128| Host::Int(data.iter().map(int).fold(first, f));
    [fold(-1, |a, b| a & b), fold(0, |a, b| a | b), fold(5, |a, b| a ^ b)]
}

#[kernel(crate = kiln_runtime)]
fn histogram<T: Num>(
    keys: &Tensor<i32, 1>,
    counts: &mut Tensor<T, 1>,
    even: &mut Tensor<T, 1>,
    block: usize,
) {
    let k = keys.tile(program_id(0) * block, block).load(-1);
    // Keys outside the counts do nothing.
    counts.atomic_add(k, full::<T>(block, 1));
    even.atomic_add_where(k, (k % 2).eq(0), full::<T>(block, 3));
}

fn counts_of(keys: &[i32]) -> [Vec<i32>; 2] {
    let count = |k: i32| keys.iter().filter(|&&key| key == k).count() as i32;
    [list(0..10, count), list(0..10, |k| if k % 2 == 0 { 3 * count(k) } else { 0 })]
}

fn on_tiles<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let keys: Vec<i32> = list(0..500, |_| trial.rng.below(13) as i32 - 1);
    let x = trial.vector(&keys)?;
    let (mut counts, mut even) = (trial.device.zeros::<T, 1>([10])?, trial.device.zeros::<T, 1>([10])?);
    histogram(&x, &mut counts, &mut even, 64).grid([8, 1, 1]).launch(trial.device)?;
    let [of_all, of_even] = counts_of(&keys);
    holds("counts", &counts, &list(0..10, |k| T::small(of_all[k])))?;
    holds("under a mask", &even, &list(0..10, |k| T::small(of_even[k])))
}

#[kernel(crate = kiln_runtime)]
fn tickets<T: Int>(counter: &mut Tensor<T, 1>, taken: &mut Tensor<T, 1>, last: &mut Tensor<T, 1>) {
    let i = thread_index();
    taken.set(i, counter.atomic_add(0, 2));
    last.atomic_exchange(0, i.get().cast::<T>());
}

fn old_values<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    let n = 160;
    let mut counter = trial.vector(&[T::small(10)])?;
    let (mut taken, mut last) = (trial.output::<T, 1>([n])?, trial.vector(&[T::small(-1)])?);
    tickets(&mut counter, &mut taken, &mut last).grid([5, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let mut got = hosts(&taken.to_vec()?);
    got.sort_unstable_by(|a, b| a.float().total_cmp(&b.float()));
    let expected: Vec<Host> = list(0..n as i32, |i| T::small(10 + 2 * i).host());
    same("each ticket once", &got, &expected)?;
    holds("the counter", &counter, &[T::small(10 + 2 * n as i32)])?;
    let last = last.item()?.host().float();
    crate::trial::ensure((0.0..n as f64).contains(&last), || {
        format!("exchanged for {last}, which no thread wrote")
    })
}

#[kernel(crate = kiln_runtime)]
fn product<T: Int>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>) {
    let v = x.get(thread_index());
    // Read atomically too: a plain read would race with the exchanges of other threads.
    let mut seen = y.atomic_add(0, 0);
    loop {
        let old = y.atomic_cas(0, seen, seen * v);
        if old == seen {
            break;
        }
        seen = old;
    }
}

fn compare_and_exchange<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    let data: Vec<T> = list(0..64, |_| T::small(2 * trial.rng.below(20) as i32 + 1));
    let x = trial.vector(&data)?;
    let mut y = trial.vector(&[T::small(1)])?;
    product(&x, &mut y).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let expected = data.iter().fold(Host::Int(1), |t, v| T::from_host(t.mul(v.host())).host());
    holds_near("a product by compare and exchange", &y, &[expected], 0.0, 0.0)
}

#[kernel(crate = kiln_runtime)]
fn block_histogram(keys: &Tensor<i32, 1>, counts: &mut Tensor<u32, 2>) {
    let s = shared::<u32, 1>([8]);
    let t = thread_id(0);
    if t < 8 {
        // SAFETY: each thread clears its own element; a barrier follows.
        unsafe { s.put(t, 0) };
    }
    barrier();
    let key = keys.get_or(thread_index(), -1);
    if key >= 0 {
        s.atomic_add(key, 1);
    }
    barrier();
    if t < 8 {
        // SAFETY: each thread writes its own element of its block's row.
        unsafe { counts.write((program_id(0), t), s.get(t)) };
    }
}

fn shared_histogram(trial: &mut Trial<'_>) -> Verdict {
    let keys: Vec<i32> = list(0..170, |_| trial.rng.below(8) as i32);
    let x = trial.vector(&keys)?;
    let mut counts = trial.output([3, 8])?;
    block_histogram(&x, &mut counts).grid([3, 1, 1]).block([64, 1, 1]).launch(trial.device)?;
    let mut expected = vec![0u32; 24];
    keys.iter().enumerate().for_each(|(i, &k)| expected[i / 64 * 8 + k as usize] += 1);
    holds("counts of each block", &counts, &expected)
}

#[kernel(crate = kiln_runtime)]
fn sum_in_the_last_block(
    x: &Tensor<i32, 1>,
    partial: &mut Tensor<i32, 1>,
    arrived: &mut Tensor<u32, 1>,
    y: &mut Tensor<i32, 1>,
) {
    let (p, blocks) = (program_id(0), num_programs(0));
    if thread_id(0) == 0 {
        let mut sum: Val<i32> = 0;
        for i in range(p * 32, p * 32 + 32) {
            sum += x.get_or(i, 0);
        }
        // SAFETY: one thread of each block writes its own element; the fence comes before its
        // arrival is counted.
        unsafe { partial.write(p, sum) };
        fence();
        let before = arrived.atomic_add(0, 1);
        if before.cast::<i64>() == blocks - 1 {
            fence();
            let mut total: Val<i32> = 0;
            for q in 0..blocks {
                total += partial.get(q);
            }
            // SAFETY: only the block that arrives last comes here.
            unsafe { y.write(0, total) };
        }
    }
}

fn fences_order_blocks(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<i32, 1>([2000])?;
    let (mut partial, mut arrived) = (trial.output([63])?, trial.device.zeros([1])?);
    let mut y = trial.output([1])?;
    let launch = sum_in_the_last_block(&x, &mut partial, &mut arrived, &mut y);
    launch.grid([63, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    holds("the sum of all blocks", &y, &[data.iter().fold(0i32, |t, v| t.wrapping_add(*v))])
}

#[kernel(crate = kiln_runtime)]
fn exchange_even(slots: &mut Tensor<u32, 1>, before: &mut Tensor<u32, 1>) {
    let i = iota::<i64>(64);
    // The last slots are outside.
    before.store(slots.atomic_exchange_where(i, (i % 2).eq(0), i.cast::<u32>() + 100));
}

fn masked_exchange(trial: &mut Trial<'_>) -> Verdict {
    let (mut slots, data) = trial.input::<u32, 1>([51])?;
    let mut before = trial.output([64])?;
    exchange_even(&mut slots, &mut before).grid([1]).launch(trial.device)?;
    let even = |i: usize| i.is_multiple_of(2) && i < 51;
    same("slots", &slots.to_vec()?, &list(0..51, |i| if even(i) { i as u32 + 100 } else { data[i] }))?;
    same("before", &before.to_vec()?, &list(0..64, |i| if even(i) { data[i] } else { 0 }))
}

/// Messages from block to block: in turn, where block `p` waits until the flag is `p`, or under a
/// lock. The words are no atomics: they are ordered by those on the flag alone.
#[kernel(crate = kiln_runtime)]
fn hand_over(words: &mut Tensor<u32, 1>, flag: &mut Tensor<u32, 1>, locks: bool) {
    let me = program_id(0).cast::<u32>();
    let (free, taken, after) = if locks { (val(0u32), val(1u32), val(0u32)) } else { (me, me, me + 1) };
    if thread_id(0) == 0 {
        let acquire = flag.atomics(AtomicOrder::Acquire, Scope::Device);
        let mut polls: Val<i64> = 0;
        let mut found = acquire.compare_exchange(0, free, taken);
        while found != free && polls < 20_000_000 {
            found = acquire.compare_exchange(0, free, taken);
            polls += 1;
        }
        if found == free {
            for j in range(0, words.extent(0)) {
                let more = if locks { words.get(j) + me } else { words.get(j) * 3 + me };
                // SAFETY: one block at a time is here, and sees what those before it have written.
                unsafe { words.write(j, more) };
            }
            flag.atomics(AtomicOrder::Release, Scope::Device).exchange(0, after);
        }
    }
}

fn orders_between_blocks(trial: &mut Trial<'_>) -> Verdict {
    let blocks = 24u32;
    for locks in [false, true] {
        let data: Vec<u32> = (0..33).collect();
        let (mut words, mut flag) = (trial.vector(&data)?, trial.device.zeros([1])?);
        hand_over(&mut words, &mut flag, locks).grid([blocks]).block([32]).launch(trial.device)?;
        let next = |word: u32, p: u32| if locks { word + p } else { word.wrapping_mul(3).wrapping_add(p) };
        same("words", &words.to_vec()?, &list(0..33, |j| (0..blocks).fold(data[j], next)))?;
        same("the flag", &flag.to_vec()?, &[if locks { 0 } else { blocks }])?;
    }
    Ok(())
}

/// The program that comes last adds up what all threads of the others have stored.
#[kernel(crate = kiln_runtime)]
fn sum_by_the_last_program(
    x: &Tensor<u32, 1>,
    parts: &mut Tensor<u32, 1>,
    done: &mut Tensor<u32, 1>,
    sum: &mut Tensor<u32, 1>,
    block: usize,
) {
    let at = program_id(0) * block;
    // SAFETY: each program has its own tile; who reads all has seen that they are stored.
    unsafe { parts.tile(at, block).store_overlapping(x.tile(at, block).load(0)) };
    fence();
    if done.atomic_add(0, 1) == (num_programs(0) - 1).cast::<u32>() {
        fence();
        let mut total: Val<u32> = 0;
        for from in range_step(0, parts.extent(0), block) {
            total += parts.tile(from, block).load(0).sum();
        }
        sum.atomic_add(0, total);
    }
}

fn fences_order_programs(trial: &mut Trial<'_>) -> Verdict {
    for (block, programs) in [(256usize, 300u32), (4096, 150)] {
        let length = block * programs as usize - 3;
        let (x, data) = trial.input::<u32, 1>([length])?;
        let mut parts = trial.output([length])?;
        let (mut done, mut sum) = (trial.device.zeros([1])?, trial.device.zeros([1])?);
        sum_by_the_last_program(&x, &mut parts, &mut done, &mut sum, block)
            .grid([programs])
            .launch(trial.device)?;
        let expected = data.iter().fold(0u32, |sum, x| sum.wrapping_add(*x));
        same("the sum", &sum.to_vec()?, &[expected])?;
    }
    Ok(())
}

/// The thread that comes last adds up what the others have stored, without a barrier.
#[kernel(crate = kiln_runtime)]
fn sum_by_the_last_thread(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>) {
    let (s, arrived) = (shared::<u32, 1>([64]), shared::<u32, 1>([1]));
    let t = thread_id(0);
    if t == 0 {
        // SAFETY: one thread clears it, before the barrier.
        unsafe { arrived.put(0, 0) };
    }
    barrier();
    // SAFETY: each thread has its own element; who reads it has acquired it.
    unsafe { s.put(t, x.get(thread_index())) };
    if arrived.atomics(AtomicOrder::AcqRel, Scope::Block).add(0, 1) == 63 {
        let mut sum: Val<u32> = 0;
        for j in range(0, 64) {
            sum += s.get(j);
        }
        // SAFETY: one thread of the block is here.
        unsafe { y.write(program_id(0), sum) };
    }
}

fn orders_in_a_block(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<u32, 1>([64 * 5])?;
    let mut y = trial.output([5])?;
    sum_by_the_last_thread(&x, &mut y).grid([5]).block([64]).launch(trial.device)?;
    let sum = |p: usize| data[p * 64..][..64].iter().fold(0u32, |t, v| t.wrapping_add(*v));
    same("sums of blocks", &y.to_vec()?, &list(0..5, sum))
}

/// Sums and counts in one word for each bin, in shared memory and then in that of the device.
#[kernel(crate = kiln_runtime)]
fn sums_and_counts(x: &Tensor<i32, 1>, bins: &mut Tensor<u32, 1>) {
    let (i, here) = (thread_index(), thread_id(0));
    let s = shared::<u32, 1>([5]);
    if here < 5 {
        // SAFETY: each thread clears its own element; a barrier follows.
        unsafe { s.put(here, 0) };
    }
    barrier();
    if i < x.len() {
        s.atomic_add_pair::<f16>(i % 5, x.get(i).cast::<f16>().pack_pair(1));
        let pair = x.get(i).cast::<bf16>().pack_pair(1);
        bins.atomics(AtomicOrder::Relaxed, Scope::Device).add_pair::<bf16>(i % 7 + 5, pair);
    }
    barrier();
    if here < 5 {
        let [sum, count] = s.get(here).unpack_pair::<f16>();
        bins.atomic_add_pair::<f16>(here, sum.pack_pair(count));
    }
}

fn pairs(trial: &mut Trial<'_>) -> Verdict {
    // Small integers, so that the order does not matter.
    let data: Vec<i32> = list(0..150, |_| trial.rng.below(5) as i32 - 2);
    let (x, mut bins) = (trial.vector(&data)?, trial.device.zeros::<u32, 1>([12])?);
    sums_and_counts(&x, &mut bins).grid([3]).block([64]).launch(trial.device)?;
    let expected = list(0..12, |bin| {
        let (first, step) = if bin < 5 { (bin, 5) } else { (bin - 5, 7) };
        let of = data.iter().skip(first).step_by(step);
        let [sum, count] = [of.clone().sum::<i32>() as f32, of.count() as f32].map(|n| match step {
            5 => u32::from(f16::from_f32(n).to_bits()),
            _ => u32::from(bf16::from_f32(n).to_bits()),
        });
        count << 16 | sum
    });
    // A sum of zero may have either sign.
    let positive = |word: u32| if word & 0xffff == 0x8000 { word & !0x8000 } else { word };
    let got = bins.to_vec()?;
    same("sums and counts", &list(0..12, |bin| positive(got[bin])), &expected)
}

/// Counts and sums in the two halves of 128 bits, and an exchange of all threads of a block.
#[kernel(crate = kiln_runtime)]
fn change_pairs(pairs: &mut Tensor<u64, 1>) {
    let (i, here) = (thread_index().get(), thread_id(0));
    let s = shared::<u64, 1>([2]);
    if here < 2 {
        // SAFETY: each thread writes its own element; a barrier follows.
        unsafe { s.put(here, here.cast::<u64>()) };
    }
    barrier();
    let at = i % 3 * 2;
    let mut seen = pairs.atomic_cas_128(at, [0, 0], [0, 0]);
    let mut done: Val<bool> = false;
    while !done {
        let [count, sum] = seen;
        let found = pairs.atomic_cas_128(at, [count, sum], [count + 1, sum + i.cast::<u64>()]);
        done = (found[0] == count) & (found[1] == sum);
        seen = found;
    }
    let own = here.cast::<u64>() + 2;
    let [a, b] = s.atomics(AtomicOrder::AcqRel, Scope::Block).exchange_128(0, [own, own + 1]);
    device_assert!(b == a + 1, "{} and {} are of two exchanges", a, b);
    pairs.atomic_add(6, a);
}

fn of_128_bits(trial: &mut Trial<'_>) -> Verdict {
    let mut pairs = trial.device.zeros::<u64, 1>([8])?;
    change_pairs(&mut pairs).grid([3]).block([64]).launch(trial.device)?;
    // Of each block, all that was stored in shared memory but what is left there.
    let mut got = pairs.to_vec()?;
    let all = 3 * (2..66).sum::<u64>();
    ensure((all - 3 * 65..=all - 6).contains(&got[6]), || format!("the old ones add up to {}", got[6]))?;
    got.truncate(6);
    let of = |j: usize| (0..192).filter(move |i| i % 3 == j as u64);
    let expected = list(0..6, |k| if k % 2 == 0 { 64 } else { of(k / 2).sum() });
    same("counts and sums", &got, &expected)
}
