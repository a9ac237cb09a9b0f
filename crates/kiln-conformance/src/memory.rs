//! Reaching tensors: boxes and what lies outside, gather and scatter, strides, rows and columns,
//! local arrays.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, list, picked};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::{Rng, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["memory":
        boxes_reach_outside for i16 u16 bool i32 u32 i64 u64 f16 bf16 f32 f64;
        stores_are_dropped_outside for i32 f16 f64;
        strided_tensors for bool i32 f16 f32 f64;
        columns_and_planes;
        gather_and_scatter for i16 u16 bool i32 u32 i64 u64 f16 bf16 f32 f64;
        gather_in_two_axes;
        unchecked_elements for i32 u32 i64 f16 f64;
        elements_of_threads for i16 u16 bool i32 u32 i64 u64 f16 bf16 f32 f64;
        local_arrays for i32 f16 f64;
        streaming;
        in_place;
        empty_tensors;
    ]
}

#[kernel(crate = kiln_runtime)]
fn window<T: Elem>(x: &Tensor<T, 1>, y: &mut Tensor<T, 2>, shift: Val<i64>, padding: Val<T>, block: usize) {
    let p = program_id(0);
    y.row(p).store(x.tile(p * block + shift, block).load(padding));
}

fn boxes_reach_outside<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (n, block) = (77usize, 16usize);
    let (x, data) = trial.input::<T, 1>([n])?;
    let padding = T::sample(&mut trial.rng);
    for shift in [0i64, -5, 3, -1000, 1 << 40] {
        let programs = n.div_ceil(block) + 1;
        let mut y = trial.output::<T, 2>([programs, block])?;
        window(&x, &mut y, shift, padding, block).launch(trial.device)?;
        let at = |i: usize| usize::try_from(i as i64 + shift).ok().and_then(|i| data.get(i)).copied();
        let expected: Vec<T> = list(0..programs * block, |i| at(i).unwrap_or(padding));
        holds(&format!("shifted by {shift}"), &y, &expected)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn corners<T: Elem>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, padding: Val<T>) {
    let at = (program_id(1) * 8, program_id(0) * 16);
    y.tile(at, (8, 16)).store(x.tile(at, (8, 16)).load(padding));
}

fn stores_are_dropped_outside<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 2>([19, 21])?;
    // The output is a window on a larger tensor, whose other elements must stay.
    let whole = trial.output::<T, 2>([24, 32])?;
    let mut part = whole.slice(0, 2..21)?.slice(1, 3..24)?;
    corners(&x, &mut part, T::small(1)).launch(trial.device)?;
    let mut expected = vec![T::POISON; 24 * 32];
    (0..19 * 21).for_each(|i| expected[(i / 21 + 2) * 32 + i % 21 + 3] = data[i]);
    holds("the tensor around the output", &whole, &expected)
}

fn strided_tensors<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 2>([23, 41])?;
    let transposed = x.transpose();
    let mut y = trial.output::<T, 2>([41, 23])?;
    corners(&transposed, &mut y, T::small(0)).launch(trial.device)?;
    let expected: Vec<T> = list(0..23 * 41, |i| data[i % 23 * 41 + i / 23]);
    holds("from a transpose", &y, &expected)?;

    let z = trial.output::<T, 2>([23, 41])?;
    let mut into = z.transpose();
    corners(&y, &mut into, T::small(0)).launch(trial.device)?;
    holds("into a transpose", &z, &data)
}

#[kernel(crate = kiln_runtime)]
fn pick(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 2>, z: &mut Tensor<f32, 1>, j: Val<i32>) {
    let p = program_id(0);
    y.tile((p * 4, 0), (4, 8)).store(x.at_axis(1, j).tile((p * 4, 0), (4, 8)).load(-1.0));
    let plane = x.row(0);
    z.tile(p * 4, 4).store(plane.col(j).tile(p * 4, 4).load(-2.0) + plane.row(1).tile(p * 4, 4).load(-3.0));
}

fn columns_and_planes(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 3>([5, 6, 7])?;
    let (mut y, mut z) = (trial.output([5, 7])?, trial.output([6])?);
    for j in [0, 4] {
        pick(&x, &mut y, &mut z, j).launch(trial.device)?;
        let at = |a: usize, b: usize, c: usize| data[(a * 6 + b) * 7 + c];
        let plane: Vec<f32> = list(0..35, |i| at(i / 7, j as usize, i % 7));
        holds("the middle axis fixed", &y, &plane)?;
        let line: Vec<f32> = list(0..6, |i| at(0, i, j as usize) + at(0, 1, i));
        holds("a column and a row", &z, &line)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn by_index<T: Elem>(
    x: &Tensor<T, 1>,
    index: &Tensor<i64, 1>,
    gathered: &mut Tensor<T, 1>,
    chosen: &mut Tensor<T, 1>,
    scattered: &mut Tensor<T, 1>,
    some: &mut Tensor<T, 1>,
    other: Val<T>,
    block: usize,
) {
    let at = program_id(0) * block;
    let i = index.tile(at, block).load(-1);
    let even = (i & 1).eq(0);
    gathered.tile(at, block).store(x.get_or(i, other));
    chosen.tile(at, block).store(x.get_where(i, even, other));
    let v = x.tile(at, block).load(other);
    // SAFETY: the indices inside the tensor are different, and no program reads what another
    // writes.
    unsafe {
        scattered.scatter(i, v);
        some.scatter_where(i, even, v);
    }
}

fn gather_and_scatter<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let n = 91usize;
    let (x, data) = trial.input::<T, 1>([n])?;
    let other = T::sample(&mut trial.rng);
    let index = scattered_indices(&mut trial.rng, n);
    let indices = trial.vector(&index)?;
    let mut outputs = Vec::new();
    for _ in 0..4 {
        outputs.push(trial.output::<T, 1>([n])?);
    }
    let [gathered, chosen, scattered, some] = &mut outputs[..] else { return Ok(()) };
    by_index(&x, &indices, gathered, chosen, scattered, some, other, 32)
        .grid([3, 1, 1])
        .launch(trial.device)?;

    let places = places_of(&index);
    holds("gather", gathered, &picked(&data, &places.gathered, other))?;
    holds("gather under a mask", chosen, &picked(&data, &places.chosen, other))?;
    holds("scatter", scattered, &picked(&data, &places.scattered, T::POISON))?;
    holds("scatter under a mask", some, &picked(&data, &places.some, T::POISON))
}

/// Each number below `n` in a random order, but for some that lie outside, on both sides.
fn scattered_indices(rng: &mut Rng, n: usize) -> Vec<i64> {
    let mut index: Vec<i64> = (0..n as i64).collect();
    (1..n).rev().for_each(|i| index.swap(i, rng.below(i as u64 + 1) as usize));
    (0..n).step_by(9).for_each(|i| index[i] = if i % 2 == 0 { -3 - i as i64 } else { (n + i) as i64 });
    index
}

/// From which place the elements of each result come.
struct Places {
    gathered: Vec<Option<usize>>,
    chosen: Vec<Option<usize>>,
    scattered: Vec<Option<usize>>,
    some: Vec<Option<usize>>,
}

fn places_of(index: &[i64]) -> Places {
    let n = index.len();
    let inside = |i: i64| usize::try_from(i).ok().filter(|&i| i < n);
    let (mut scattered, mut some) = (vec![None; n], vec![None; n]);
    for (from, &to) in index.iter().enumerate() {
        let Some(to) = inside(to) else { continue };
        scattered[to] = Some(from);
        if to % 2 == 0 {
            some[to] = Some(from);
        }
    }
    let gathered = list(0..n, |i| inside(index[i]));
    let chosen = list(0..n, |i| gathered[i].filter(|_| index[i] % 2 == 0));
    Places { gathered, chosen, scattered, some }
}

#[kernel(crate = kiln_runtime)]
fn diagonal(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, table: &mut Tensor<i32, 2>) {
    let p = program_id(0);
    let i = p * 16 + iota::<i64>(16);
    y.tile(p * 16, 16).store(x.get_or((i, i), -1.0));
    let (rows, columns) = (i.expand(1), iota::<i64>(4).expand(0));
    let sum = (rows * 10 + columns).cast::<i32>();
    // SAFETY: every element is written by one program.
    unsafe { table.scatter((rows, columns), sum) }
}

fn gather_in_two_axes(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 2>([20, 33])?;
    let (mut y, mut table) = (trial.output([33])?, trial.output([33, 3])?);
    diagonal(&x, &mut y, &mut table).grid([3, 1, 1]).launch(trial.device)?;
    let expected: Vec<f32> = list(0..33, |i| if i < 20 { data[i * 33 + i] } else { -1.0 });
    holds("the diagonal", &y, &expected)?;
    holds("rows and columns", &table, &list(0..99, |i| i / 3 * 10 + i % 3))
}

#[kernel(crate = kiln_runtime)]
fn shifted<T: Elem>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>, z: &mut Tensor<T, 1>, other: Val<T>) {
    let i = thread_index();
    y.set_or_skip(i, x.get_or(i.get() - 3, other));
    if i.get() < x.extent(0) && i.get() % 2 == 0 {
        z.set(i, x.get(x.extent(0) - 1 - i.get()));
    }
}

fn shifted_places(n: usize) -> [Vec<Option<usize>>; 2] {
    [list(0..n, |i| i.checked_sub(3)), list(0..n, |i| (i % 2 == 0).then_some(n - 1 - i))]
}

fn elements_of_threads<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let n = 75;
    let (x, data) = trial.input::<T, 1>([n])?;
    let other = T::sample(&mut trial.rng);
    let (mut y, mut z) = (trial.output::<T, 1>([n])?, trial.output::<T, 1>([n])?);
    shifted(&x, &mut y, &mut z, other).grid([3, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let [right, reversed] = shifted_places(n);
    holds("three to the right", &y, &picked(&data, &right, other))?;
    holds("every other one, reversed", &z, &picked(&data, &reversed, T::POISON))
}

#[kernel(crate = kiln_runtime)]
fn sort_five<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    let i = thread_index().get();
    let column = i.minimum(x.extent(1) - 1);
    let a = local::<T>(5);
    for k in 0..5 {
        a.set(k, x.get((k, column)));
    }
    for k in range(1, 5) {
        let v = a.get(k);
        let mut j = k;
        while j > 0 && a.get(j - 1) > v {
            a.set(j, a.get(j - 1));
            j -= 1;
        }
        a.set(j, v);
    }
    if i < x.extent(1) {
        for k in range(0, 5) {
            // SAFETY: each thread writes its own column.
            unsafe { y.write((k, i), a.get(k)) }
        }
    }
}

fn local_arrays<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let n = 41;
    let (x, data) = trial.input::<T, 2>([5, n])?;
    let mut y = trial.output::<T, 2>([5, n])?;
    sort_five(&x, &mut y).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let mut expected = data.clone();
    for j in 0..n {
        let mut column: Vec<T> = list(0..5, |k| data[k * n + j]);
        column.sort_unstable_by(|a, b| a.host().float().total_cmp(&b.host().float()));
        column.into_iter().enumerate().for_each(|(k, v)| expected[k * n + j] = v);
    }
    holds("columns sorted", &y, &expected)
}

#[kernel(crate = kiln_runtime)]
fn streamed(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    y.tile(at, block).streaming().store(x.tile(at, block).streaming().load(0.0) * 2.0);
}

/// Each thread takes elements on both sides of its own, by an index and constants, through shared
/// memory.
#[kernel(crate = kiln_runtime)]
fn neighbors<T: Elem>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>, threads: usize) {
    let table = shared::<T, 1>([threads + 8]);
    let (lane, first) = (thread_id(0), program_id(0) * threads);
    // SAFETY: the tensor has eight elements more than there are threads, the table too, and no two
    // threads store one place.
    unsafe {
        table.scatter_unchecked(lane + 5, x.get_unchecked(first + lane + 3));
        barrier();
        y.scatter_unchecked(first + (lane + 8), table.get_unchecked(lane - (-5)));
    }
}

fn unchecked_elements<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for threads in [1usize, 20, 32, 96] {
        let (x, data) = trial.input::<T, 1>([3 * threads + 8])?;
        let mut y = trial.output::<T, 1>([3 * threads + 8])?;
        neighbors(&x, &mut y, threads).grid([3, 1, 1]).block([threads as u32]).launch(trial.device)?;
        let expected: Vec<T> = list(0..3 * threads + 8, |i| if i < 8 { T::POISON } else { data[i - 5] });
        holds(&format!("{threads} threads"), &y, &expected)?;
    }
    Ok(())
}

fn streaming(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 1>([1003])?;
    let mut y = trial.output([1003])?;
    streamed(&x, &mut y, 256).launch(trial.device)?;
    holds("doubled", &y, &data.iter().map(|v| v * 2.0).collect::<Vec<f32>>())
}

#[kernel(crate = kiln_runtime)]
fn twice(y: &mut Tensor<i32, 1>, block: usize) {
    let tile = y.tile(program_id(0) * block, block);
    tile.store(tile.load(0) + 1);
    tile.store(tile.load(0) * 2);
}

fn in_place(trial: &mut Trial<'_>) -> Verdict {
    let (mut y, data) = trial.input::<i32, 1>([333])?;
    twice(&mut y, 64).launch(trial.device)?;
    let expected: Vec<i32> = data.iter().map(|v| v.wrapping_add(1).wrapping_mul(2)).collect();
    holds("what was stored is loaded", &y, &expected)
}

fn empty_tensors(trial: &mut Trial<'_>) -> Verdict {
    let x = trial.output::<f32, 1>([0])?;
    let mut y = trial.output::<f32, 1>([0])?;
    streamed(&x, &mut y, 64).launch(trial.device)?;
    holds("nothing", &y, &[])?;
    let mut z = trial.output::<f32, 1>([10])?;
    streamed(&x, &mut z, 64).launch(trial.device)?;
    holds("padding alone", &z, &[0.0; 10])?;
    let flat = trial.output::<f32, 2>([0, 7])?;
    let mut out = trial.output::<f32, 2>([0, 7])?;
    corners(&flat, &mut out, 1.0).launch(trial.device)?;
    holds("no rows", &out, &[])
}
