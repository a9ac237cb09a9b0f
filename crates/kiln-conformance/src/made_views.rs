//! Views that a kernel makes of a tensor's elements: offsets, extents and strides that the device
//! knows.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, holds, holds_near, list};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["made_views":
        pages for bool i32 u64 bf16 f32 f64;
        groups for f16 f32 f64;
        boxes_outside for i32 f16 f64;
        elements_of_threads for i32 f32 f64;
        of_a_row_and_of_each_other;
        of_shared_memory for i32 f16 f64;
        atomics;
        faults;
    ]
}

/// Rows of a sequence that lie in pages, in the order of a table.
#[kernel(crate = kiln_runtime)]
fn paged<T: Elem>(
    cache: &Tensor<T, 1>,
    table: &Tensor<i32, 2>,
    lens: &Tensor<i64, 1>,
    y: &mut Tensor<T, 3>,
    padding: Val<T>,
    shape: [usize; 2],
) {
    let (sequence, [rows, columns]) = (program_id(0), shape);
    let width = y.extent(2);
    let len = lens.get(sequence);
    for page in range(0, table.extent(1)) {
        let at = table.get((sequence, page)).cast::<i64>() * width * rows;
        let left = (len - page * rows).clamp(0, rows);
        let view = cache.view_at(at, (left, width), (width, 1));
        y.row(sequence).tile((page * rows, 0), (rows, columns)).store(view.load((rows, columns), padding));
    }
}

fn pages<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let ([rows, width], pages) = ([4, 7], [2, 3]);
    let (cache, data) = trial.input::<T, 1>([9 * rows * width])?;
    let table = [4, 0, 7, 8, 3, 1];
    let lens = [11i64, 5];
    let (t, n) = (trial.device.tensor(&table, pages)?, trial.vector(&lens)?);
    let mut y = trial.output::<T, 3>([2, pages[1] * rows, width])?;
    let padding = T::small(1);
    paged(&cache, &t, &n, &mut y, padding, [rows, 8]).grid([2]).launch(trial.device)?;
    let element = |i: usize| {
        let (row, column) = (i / width % (pages[1] * rows), i % width);
        let sequence = i / width / (pages[1] * rows);
        let page = table[sequence * pages[1] + row / rows] as usize;
        let inside = (row as i64) < lens[sequence];
        if inside { data[(page * rows + row % rows) * width + column] } else { padding }
    };
    holds("rows in pages", &y, &list(0..2 * pages[1] * rows * width, element))
}

/// Products of matrices that lie one after the other, each of its own extents.
#[kernel(crate = kiln_runtime)]
fn grouped<T: Accumulate>(
    a: &Tensor<T, 1>,
    b: &Tensor<T, 1>,
    groups: &Tensor<i64, 2>,
    c: &mut Tensor<T::Acc, 1>,
    n: Val<i64>,
) {
    let group = groups.row(program_id(0));
    let [at_a, at_b, at_c, rows, depth] = [0, 1, 2, 3, 4].map(|k| group.get(k));
    let x = a.view_at(at_a, (rows, depth), (depth, 1));
    // The second factor lies by columns.
    let y = b.view_at(at_b, (depth, n), (1, depth));
    // SAFETY: the results of two groups lie behind each other.
    let z = unsafe { c.view_at_mut(at_c, [rows, n], [n, val(1)]) };
    for row in range_step(0, rows, 16) {
        let mut sum = zeros::<T::Acc>((16, 16));
        for k in range_step(0, depth, 32) {
            sum = dot_acc(x.tile((row, k), (16, 32)).load(0), y.tile((k, 0), (32, 16)).load(0), sum);
        }
        z.tile((row, 0), (16, 16)).store(sum);
    }
}

fn groups<T: Sample + Accumulate<Acc: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    let n = 13;
    let extents = [(5, 7), (0, 3), (37, 32), (16, 41), (4, 0)];
    let (mut table, mut at) = (Vec::new(), [3, 0, 1]);
    for (rows, depth) in extents {
        table.extend([at[0], at[1], at[2], rows, depth].map(|k| k as i64));
        at = [at[0] + rows * depth, at[1] + depth * n, at[2] + rows * n];
    }
    let (a, xs) = trial.input::<T, 1>([at[0] + 2])?;
    let (b, ys) = trial.input::<T, 1>([at[1]])?;
    let mut c = trial.output::<T::Acc, 1>([at[2] + 5])?;
    let groups = trial.device.tensor(&table, [extents.len(), 5])?;
    grouped(&a, &b, &groups, &mut c, n as i64).grid([extents.len()]).launch(trial.device)?;
    // What lies around the results stays.
    let mut expected = vec![<T::Acc as Sample>::POISON.host(); at[2] + 5];
    for group in table.chunks(5) {
        let [at_a, at_b, at_c, rows, depth] = std::array::from_fn(|k| group[k] as usize);
        for i in 0..rows * n {
            let term =
                |k: usize| xs[at_a + i / n * depth + k].host().mul(ys[at_b + i % n * depth + k].host());
            expected[at_c + i] = (0..depth).fold(T::small(0).host(), |sum, k| sum.add(term(k)));
        }
    }
    holds_near("products", &c, &expected, 8.0, 64.0)
}

#[kernel(crate = kiln_runtime)]
fn diagonals<T: Elem>(
    x: &Tensor<T, 1>,
    y: &mut Tensor<T, 2>,
    z: &mut Tensor<T, 1>,
    offset: Val<i64>,
    rows: Val<i64>,
    stride: Val<i64>,
    padding: Val<T>,
) {
    let p = program_id(0);
    let view = x.view_at(offset, (rows, 9), (stride, -2));
    y.tile((p * 8, 0), (8, 16)).store(view.tile((p * 8 - 3, 2), (8, 16)).load(padding));
    // SAFETY: indices of the two axes differ in their parity, and programs by the first of them.
    let z = unsafe { z.view_at_mut(offset, (rows, 2), (2 * p + 2, 1)) };
    if p.eq(0) {
        z.tile((-1, -1), (8, 4)).store(view.tile((-1, -1), (8, 4)).load(padding));
    }
}

fn boxes_outside<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let n = 61i64;
    let (x, data) = trial.input::<T, 1>([n as usize])?;
    let padding = T::small(2);
    for [offset, rows, stride] in
        [[20, 13, 3], [-4, 40, 5], [59, 6, -7], [7, -1, 1], [0, 3, 1 << 62], [30, 20, 0]]
    {
        let inside = |i: i64, j: i64| (0..rows).contains(&i) && (0..9).contains(&j);
        let at = |i: i64, j: i64| {
            let place = offset.wrapping_add(i.wrapping_mul(stride)).wrapping_sub(2 * j);
            let found = usize::try_from(place).ok().and_then(|place| data.get(place));
            found.copied().filter(|_| inside(i, j)).unwrap_or(padding)
        };
        let mut y = trial.output::<T, 2>([24, 16])?;
        let mut z = trial.output::<T, 1>([n as usize])?;
        let what = [offset, rows, stride];
        diagonals(&x, &mut y, &mut z, offset, rows, stride, padding).grid([3]).launch(trial.device)?;
        let expected: Vec<T> = list(0..24 * 16, |k| at(k as i64 / 16 - 3, k as i64 % 16 + 2));
        holds(&format!("loaded from {what:?}"), &y, &expected)?;
        let mut stored = vec![T::POISON; n as usize];
        for (i, j) in (-1..7).flat_map(|i| (-1..3).map(move |j| (i, j))) {
            let place = usize::try_from(offset + 2 * i + j).ok();
            if (0..rows).contains(&i) && (0..2).contains(&j) && place.is_some_and(|at| at < stored.len()) {
                stored[(offset + 2 * i + j) as usize] = at(i, j);
            }
        }
        holds(&format!("stored at {what:?}"), &z, &stored)?;
    }
    Ok(())
}

/// Boxes of x transposed through shared memory, which has the extents that the device is given.
#[kernel(crate = kiln_runtime)]
fn transposed<T: Elem>(
    x: &Tensor<T, 2>,
    y: &mut Tensor<T, 2>,
    rows: Val<i64>,
    columns: Val<i64>,
    padding: Val<T>,
    most: usize,
) {
    // SAFETY: an element of it is one of `part`, which one thread stores between barriers.
    let part = unsafe { shared::<T, 1>([most]).view_at_mut(0, (rows, columns), (columns, 1)) };
    let (row, column) = (program_id(1) * rows, program_id(0) * columns);
    for i in range_step(thread_id(0), rows * columns, block_dim(0)) {
        let (r, c) = (i / columns, i % columns);
        // SAFETY: every i is a thread's own.
        unsafe { part.write((r, c), x.get_or((row + r, column + c), padding)) };
    }
    barrier();
    for i in range_step(thread_id(0), rows * columns, block_dim(0)) {
        let (c, r) = (i / rows, i % rows);
        if row + r < x.extent(0) && column + c < x.extent(1) {
            // SAFETY: boxes lie side by side, and every i is a thread's own.
            unsafe { y.write((column + c, row + r), part.get((r, c))) };
        }
    }
}

/// One program for all extents; those that the memory has no room for are a fault.
fn of_shared_memory<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (height, width, most) = (37, 53, 256);
    let (x, data) = trial.input::<T, 2>([height, width])?;
    for (rows, columns) in [(8, 16), (16, 16), (5, 7), (1, 250), (17, 15), (16, 17)] {
        let mut y = trial.output::<T, 2>([width, height])?;
        let launch = transposed(&x, &mut y, rows as i64, columns as i64, T::small(0), most);
        let grid = [width.div_ceil(columns), height.div_ceil(rows)];
        let launched = launch.grid(grid).block([64]).launch(trial.device);
        if rows * columns <= most {
            launched?;
            let expected: Vec<T> = list(0..height * width, |i| data[i % height * width + i / height]);
            holds(&format!("boxes of {rows} by {columns}"), &y, &expected)?;
            continue;
        }
        let fault = launched.and_then(|()| y.to_vec().map(|_| ()));
        let text = fault.err().map(|error| error.to_string()).unwrap_or_default();
        ensure(text.starts_with("index 256 out of bounds for extent 256 in `transposed`"), || {
            format!("{rows} by {columns}: {text:?}")
        })?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn reversed<T: Elem>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>, n: Val<i64>, padding: Val<T>) {
    let i = thread_index();
    let last = x.view_at(x.extent(0) - 1, n, -1);
    // SAFETY: different threads have different places.
    let even = unsafe { y.view_at_mut(0, n, 2) };
    even.set_or_skip(i, last.get_or(i.get(), padding));
    let pairs = x.view_at(0, (n, 2), (1, x.extent(0) / 2));
    if i < n - 1 {
        // SAFETY: as above.
        unsafe { y.view_at_mut(1, n, 2).write(i.get(), pairs.row(i.get()).get(1)) };
    }
}

fn elements_of_threads<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (size, n) = (90, 41);
    let (x, data) = trial.input::<T, 1>([size])?;
    let mut y = trial.output::<T, 1>([size])?;
    reversed(&x, &mut y, n as i64, T::small(3)).grid([2]).block([32]).launch(trial.device)?;
    let mut expected = vec![T::POISON; size];
    for i in 0..n {
        expected[2 * i] = data[size - 1 - i];
        if i + 1 < n {
            expected[2 * i + 1] = data[i + size / 2];
        }
    }
    holds("elements", &y, &expected)
}

#[kernel(crate = kiln_runtime)]
fn nested(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>, row: Val<i64>) {
    let outer = x.row(row).view_at(2, 20, 2);
    let inner = outer.view_at(1, (3, 4), (8, 3));
    let shape = inner.extent(0) * 100 + inner.stride(1);
    y.tile((program_id(0) * 4, 0), (4, 8)).store(inner.load((4, 8), -1) + shape.cast::<i32>());
}

fn of_a_row_and_of_each_other(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<i32, 2>([3, 37])?;
    let mut y = trial.output::<i32, 2>([4, 8])?;
    nested(&x, &mut y, 1).grid([1]).launch(trial.device)?;
    let element = |k: usize| {
        let (i, j) = (k / 8, k % 8);
        let middle = 1 + 8 * i + 3 * j;
        let place = 2 + 2 * middle;
        let inside = i < 3 && j < 4 && middle < 20 && place < 37;
        (if inside { data[37 + place] } else { -1 }).wrapping_add(303)
    };
    holds("a view of a view of a row", &y, &list(0..32, element))
}

#[kernel(crate = kiln_runtime)]
fn counts(bins: &Tensor<i64, 1>, y: &mut Tensor<u32, 1>, first: &mut Tensor<u32, 1>, group: Val<i64>) {
    let p = program_id(0);
    // SAFETY: all accesses are atomic.
    let (mine, claims) = unsafe { (y.view_at_mut(group * 10, 10, 1), first.view_at_mut(group * 10, 10, 1)) };
    let bin = bins.tile(p * 16, 16).load(-1);
    mine.atomic_add(bin, 1);
    claims.atomic_cas(bin, zeros::<u32>(16), full::<u32>(16, 7));
}

fn atomics(trial: &mut Trial<'_>) -> Verdict {
    let data: Vec<i64> = list(0..50, |_| trial.rng.below(16) as i64 - 3);
    let bins = trial.vector(&data)?;
    let mut y = trial.device.zeros::<u32, 1>([30])?;
    let mut first = trial.device.zeros::<u32, 1>([30])?;
    counts(&bins, &mut y, &mut first, 1).grid([4]).launch(trial.device)?;
    let mut expected = vec![0u32; 30];
    data.iter().filter(|bin| (0..10).contains(*bin)).for_each(|bin| expected[10 + *bin as usize] += 1);
    holds("counts of one group", &y, &expected)?;
    let claimed: Vec<u32> = expected.iter().map(|&count| if count > 0 { 7 } else { 0 }).collect();
    holds("claims of one group", &first, &claimed)
}

#[kernel(crate = kiln_runtime)]
fn reads_beyond(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, offset: Val<i64>, extent: Val<i64>) {
    let i = thread_index();
    y.set(i, x.view_at(offset, extent, 1).get(i.get()));
}

fn faults(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 1>([64])?;
    let mut y = trial.output::<f32, 1>([16])?;
    let mut run = |offset: i64, extent: i64| {
        reads_beyond(&x, &mut y, offset, extent).grid([1]).block([16]).launch(trial.device)?;
        let ended = trial.device.synchronize();
        Ok::<_, Stop>(ended.err().and_then(|error| error.fault().map(|fault| fault.to_string())))
    };
    for (offset, extent, words) in
        [(48, 15, "axis 0 of a view that the kernel made"), (50, 16, "64"), (-1, 16, "-1")]
    {
        let fault = run(offset, extent)?;
        ensure(fault.as_ref().is_some_and(|text| text.contains(words)), || {
            format!("offset {offset}, extent {extent}: expected a fault with `{words}`, found {fault:?}")
        })?;
    }
    ensure(run(48, 16)?.is_none(), || "a fault where none is".into())?;
    holds("the last elements", &y, &data[48..])
}
