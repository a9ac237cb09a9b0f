//! What the threads of a block do together, in blocks of all kinds of extents.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, holds, list};
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["blocks":
        sums for i16 i32 u64 f32 f64;
        scans for i16 i32 u64 f32;
        any_function;
        counting_barriers;
        broadcasts for bool i32 f32 i64;
        sorting for u16 i32 u32 f32;
        sorting_pairs;
        exchanges for i32 f32 u64;
        histograms;
        in_a_loop;
        other_blocks_have_no_tiles;
    ]
}

/// Blocks of full warps, of less than one, and with threads on several axes.
const BLOCKS: [[u32; 3]; 5] = [[64, 1, 1], [37, 1, 1], [4, 3, 5], [7, 1, 1], [100, 1, 1]];

/// Blocks that tiles on GPUs have.
const POWERS: [[u32; 3]; 3] = [[64, 1, 1], [4, 2, 4], [128, 1, 1]];

fn threads(block: [u32; 3]) -> usize {
    block.iter().product::<u32>() as usize
}

/// The number of the thread in its block.
#[device(crate = kiln_runtime)]
fn own_number() -> Idx {
    thread_id(0) + block_dim(0) * (thread_id(1) + block_dim(1) * thread_id(2))
}

/// The element of a thread of a launch on one axis of blocks.
#[device(crate = kiln_runtime)]
fn own_place() -> Idx {
    program_id(0) * (block_dim(0) * block_dim(1) * block_dim(2)) + own_number()
}

#[kernel(crate = kiln_runtime)]
fn sums_of_blocks<T: Num>(x: &Tensor<T, 1>, y: &mut Tensor<T, 2>) {
    let i = own_place();
    let v = x.get(i);
    let most = block_reduce(v, |a, b| a.max(b));
    for (k, r) in [block_sum(v), block_min(v), block_max(v), most].into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i), r) }
    }
}

fn sums<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        let (each, n) = (threads(block), 2 * threads(block));
        let data: Vec<i32> = list(0..n, |_| trial.rng.below(90) as i32 + 1);
        let x = trial.vector(&list(0..n, |i| T::small(data[i])))?;
        let mut y = trial.output::<T, 2>([4, n])?;
        sums_of_blocks(&x, &mut y).grid([2, 1, 1]).block(block).launch(trial.device)?;
        let of = |f: &dyn Fn(&[i32]) -> i32| list(0..n, |i| T::small(f(&data[i / each * each..][..each])));
        let most = of(&|all| all.iter().copied().max().unwrap_or(0));
        let least = of(&|all| all.iter().copied().min().unwrap_or(0));
        let expected = [of(&|all| all.iter().sum()), least, most.clone(), most].concat();
        holds(&format!("sum, min, max, max of {block:?}"), &y, &expected)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn scans_of_blocks<T: Num>(x: &Tensor<T, 1>, y: &mut Tensor<T, 2>) {
    let i = own_place();
    let v = x.get(i);
    let results = [
        block_inclusive_sum(v),
        block_exclusive_sum(v),
        block_inclusive_scan(v, |a, b| a.max(b)),
        block_exclusive_scan(v, val(0), |a, b| a.max(b)),
    ];
    for (k, r) in results.into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i), r) }
    }
}

fn scans<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        let (each, n) = (threads(block), 2 * threads(block));
        let data: Vec<i32> = list(0..n, |_| trial.rng.below(90) as i32 + 1);
        let x = trial.vector(&list(0..n, |i| T::small(data[i])))?;
        let mut y = trial.output::<T, 2>([4, n])?;
        scans_of_blocks(&x, &mut y).grid([2, 1, 1]).block(block).launch(trial.device)?;
        let (mut inclusive, mut exclusive, mut most, mut before) = (vec![], vec![], vec![], vec![]);
        for part in data.chunks(each) {
            let (mut sum, mut greatest) = (0, FIRST);
            for v in part {
                exclusive.push(T::small(sum));
                before.push(T::small(greatest));
                (sum, greatest) = (sum + v, greatest.max(*v));
                inclusive.push(T::small(sum));
                most.push(T::small(greatest));
            }
        }
        let expected = [inclusive, exclusive, most, before].concat();
        holds(&format!("scans of {block:?}"), &y, &expected)?;
    }
    Ok(())
}

/// What the first thread of an exclusive scan gets.
const FIRST: i32 = 0;

#[kernel(crate = kiln_runtime)]
fn functions_of_blocks(a: &Tensor<u32, 1>, b: &Tensor<u32, 1>, y: &mut Tensor<u32, 2>) {
    let i = own_place();
    let v = (a.get(i), b.get(i));
    let composed = |(a1, b1): (Val<u32>, Val<u32>), (a2, b2): (Val<u32>, Val<u32>)| (a1 * a2, b1 * a2 + b2);
    let whole = block_reduce(v, composed);
    let running = block_inclusive_scan(v, composed);
    let before = block_exclusive_scan(v, (val(1), val(0)), composed);
    for (k, r) in [whole.0, whole.1, running.0, running.1, before.0, before.1].into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i), r) }
    }
}

/// Functions composed in order, which is not commutative.
fn any_function(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        let n = threads(block);
        let (a, factors) = trial.input::<u32, 1>([n])?;
        let (b, terms) = trial.input::<u32, 1>([n])?;
        let mut y = trial.output::<u32, 2>([6, n])?;
        functions_of_blocks(&a, &b, &mut y).grid([1, 1, 1]).block(block).launch(trial.device)?;
        let over = |end: usize| {
            (0..end).fold((1u32, 0u32), |(a, b), i| {
                (a.wrapping_mul(factors[i]), b.wrapping_mul(factors[i]).wrapping_add(terms[i]))
            })
        };
        let all = [list(0..n, |_| over(n)), list(0..n, |i| over(i + 1)), list(0..n, over)];
        let mut expected = Vec::new();
        for pairs in all {
            let (a, b): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
            expected.extend([a, b].concat());
        }
        holds(&format!("functions of {block:?}"), &y, &expected)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn counted_at_barriers(x: &Tensor<i32, 1>, y: &mut Tensor<u32, 2>) {
    let i = own_place();
    let v = x.get(i);
    let results = [
        barrier_count(v > 20),
        barrier_and(v >= 0).cast::<u32>(),
        barrier_and(v > 20).cast::<u32>(),
        barrier_or(v < 0).cast::<u32>(),
        barrier_or(v > 20).cast::<u32>(),
    ];
    for (k, r) in results.into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i), r) }
    }
}

fn counting_barriers(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        let n = threads(block);
        let data: Vec<i32> = list(0..n, |_| trial.rng.below(100) as i32);
        let x = trial.vector(&data)?;
        let mut y = trial.output::<u32, 2>([5, n])?;
        counted_at_barriers(&x, &mut y).grid([1, 1, 1]).block(block).launch(trial.device)?;
        let count = data.iter().filter(|v| **v > 20).count();
        let results = [count as u32, 1, u32::from(count == n), 0, u32::from(count > 0)];
        let expected: Vec<u32> = results.iter().flat_map(|r| vec![*r; n]).collect();
        holds(&format!("counts of {block:?}"), &y, &expected)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn broadcast_in_blocks<T: Elem>(x: &Tensor<T, 1>, y: &mut Tensor<T, 2>, from: Val<i64>) {
    let i = own_place();
    let v = x.get(i);
    for (k, r) in [block_broadcast(v, from), block_broadcast(v, 0)].into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i), r) }
    }
}

fn broadcasts<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        let each = threads(block);
        let (x, data) = trial.input::<T, 1>([2 * each])?;
        let mut y = trial.output::<T, 2>([2, 2 * each])?;
        let from = trial.rng.below(each as u64) as usize;
        broadcast_in_blocks(&x, &mut y, from as i64).grid([2, 1, 1]).block(block).launch(trial.device)?;
        let of = |at: usize| list(0..2 * each, |i| data[i / each * each + at]);
        holds(&format!("thread {from} of {block:?}"), &y, &[of(from), of(0)].concat())?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn sorted_in_blocks<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    let t = own_number();
    let own = [x.get((0, t)), x.get((1, t)), x.get((2, t))];
    for (k, r) in block_sort(own).into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, t), r) }
    }
}

fn sorting<T: Sample + Num + PartialOrd>(trial: &mut Trial<'_>) -> Verdict {
    for block in POWERS {
        let n = threads(block);
        let data: Vec<i32> = list(0..3 * n, |_| trial.rng.below(50) as i32);
        let x = trial.device.tensor(&list(0..3 * n, |i| T::small(data[i])), [3, n])?;
        let mut y = trial.output::<T, 2>([3, n])?;
        sorted_in_blocks(&x, &mut y).grid([1, 1, 1]).block(block).launch(trial.device)?;
        let mut sorted = data.clone();
        sorted.sort_unstable();
        let expected: Vec<T> = list(0..3 * n, |i| T::small(sorted[i % n * 3 + i / n]));
        holds(&format!("sorted in {block:?}"), &y, &expected)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn pairs_in_blocks(keys: &Tensor<i32, 1>, y: &mut Tensor<i32, 2>) {
    let t = own_number();
    let pair = (keys.get(t), t.cast::<i32>());
    let (key, value) = block_sort_by(pair, |(a, i), (b, j)| a.lt(b) | (a.eq(b) & i.lt(j)));
    // SAFETY: each thread writes its own column.
    unsafe {
        y.write((0, t), key);
        y.write((1, t), value);
    }
}

fn sorting_pairs(trial: &mut Trial<'_>) -> Verdict {
    for block in POWERS {
        let n = threads(block);
        let data: Vec<i32> = list(0..n, |_| trial.rng.below(9) as i32);
        let x = trial.vector(&data)?;
        let mut y = trial.output::<i32, 2>([2, n])?;
        pairs_in_blocks(&x, &mut y).grid([1, 1, 1]).block(block).launch(trial.device)?;
        let mut order: Vec<i32> = (0..n as i32).collect();
        order.sort_by_key(|i| data[*i as usize]);
        let keys: Vec<i32> = order.iter().map(|i| data[*i as usize]).collect();
        holds(&format!("pairs sorted in {block:?}"), &y, &[keys, order].concat())?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn exchanged<T: Elem>(x: &Tensor<T, 2>, blocked: &mut Tensor<T, 2>, back: &mut Tensor<T, 2>) {
    let t = own_number();
    let own = striped_to_blocked([x.get((0, t)), x.get((1, t)), x.get((2, t))]);
    let again = blocked_to_striped(own);
    for k in 0..3usize {
        // SAFETY: each thread writes its own column.
        unsafe {
            blocked.write((k, t), own[k]);
            back.write((k, t), again[k]);
        }
    }
}

fn exchanges<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        let n = threads(block);
        let (x, data) = trial.input::<T, 2>([3, n])?;
        let (mut blocked, mut back) = (trial.output::<T, 2>([3, n])?, trial.output::<T, 2>([3, n])?);
        exchanged(&x, &mut blocked, &mut back).grid([1, 1, 1]).block(block).launch(trial.device)?;
        let expected: Vec<T> = list(0..3 * n, |i| data[i % n * 3 + i / n]);
        holds(&format!("blocked in {block:?}"), &blocked, &expected)?;
        holds(&format!("striped in {block:?}"), &back, &data)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn counted(x: &Tensor<i32, 2>, y: &mut Tensor<u32, 1>) {
    let t = own_number();
    let counts = block_histogram([x.get((0, t)), x.get((1, t))], 11);
    y.tile(program_id(0) * 11, 11).store(counts);
}

fn histograms(trial: &mut Trial<'_>) -> Verdict {
    for block in POWERS {
        let n = threads(block);
        // Some of them are outside.
        let data: Vec<i32> = list(0..2 * n, |_| trial.rng.below(14) as i32 - 2);
        let x = trial.device.tensor(&data, [2, n])?;
        let mut y = trial.output::<u32, 1>([11])?;
        counted(&x, &mut y).grid([1, 1, 1]).block(block).launch(trial.device)?;
        let expected = list(0..11, |bin| data.iter().filter(|v| **v == bin).count() as u32);
        holds(&format!("histogram of {block:?}"), &y, &expected)?;
    }
    Ok(())
}

/// Sorting and histograms in other blocks are refused on every device, with the line.
fn other_blocks_have_no_tiles(trial: &mut Trial<'_>) -> Verdict {
    for block in [[16, 1, 1], [48, 1, 1]] {
        let x = trial.device.zeros::<i32, 2>([3, 48])?;
        let (mut y, mut z) = (trial.output::<i32, 2>([3, 48])?, trial.output::<u32, 1>([11])?);
        let found = [
            sorted_in_blocks(&x, &mut y).grid([1]).block(block).launch(trial.device),
            counted(&x, &mut z).grid([1]).block(block).launch(trial.device),
        ];
        for found in found {
            let text = found.as_ref().err().map_or_else(String::new, ToString::to_string);
            let named = text.contains("needs a block of a power of two of at least 32 threads");
            ensure(named && text.contains("blocks.rs"), || format!("{block:?} gave {found:?}"))?;
        }
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn halved_until_small(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 2>) {
    let i = own_place();
    let mut v = x.get(i);
    let mut rounds: Val<i32> = 0;
    let mut total: Val<i32> = 0;
    while barrier_or(v > 3) {
        // Calls that share memory, one after the other and again in the next round.
        total += block_sum(v) - block_max(v);
        v = block_broadcast(v, 0) / 4 + v / 2;
        rounds += 1;
    }
    for (k, r) in [v, rounds, total].into_iter().enumerate() {
        // SAFETY: each thread writes its own column.
        unsafe { y.write((k, i), r) }
    }
}

fn in_a_loop(trial: &mut Trial<'_>) -> Verdict {
    for block in BLOCKS {
        let n = threads(block);
        let data: Vec<i32> = list(0..n, |_| trial.rng.below(900) as i32);
        let x = trial.vector(&data)?;
        let mut y = trial.output::<i32, 2>([3, n])?;
        halved_until_small(&x, &mut y).grid([1, 1, 1]).block(block).launch(trial.device)?;
        let (mut values, mut rounds, mut total) = (data, 0, 0);
        while values.iter().any(|v| *v > 3) {
            total += values.iter().sum::<i32>() - values.iter().copied().max().unwrap_or(0);
            let first = values[0] / 4;
            values.iter_mut().for_each(|v| *v = first + *v / 2);
            rounds += 1;
        }
        let expected = [values, vec![rounds; n], vec![total; n]].concat();
        holds(&format!("rounds of {block:?}"), &y, &expected)?;
    }
    Ok(())
}
