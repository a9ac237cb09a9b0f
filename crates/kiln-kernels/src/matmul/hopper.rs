//! The product of matrices on a Hopper GPU, at the explicit level.
//!
//! Programs stay and go through the tiles of c, in clusters of neighbors. In each, one task copies
//! tiles of a and b into a ring of stages; the others multiply what has arrived, each for rows of
//! its own, and store the sums, while the copies for the next tile are already under way. The
//! multiplying tasks do not wait for each other: one stores while the other multiplies. What a
//! tile's sums become may also wait in registers, and be stored while the tensor cores have the
//! first products of the next tile. The blocks of a cluster stand one above the other and need the
//! same tile of b, or side by side and need the same tile of a: each copies a part of it, into all
//! of them.

use super::epilogue::{Epilogue, TilePosition};
use super::factor::Factor;
use super::stream::{Exchange, Segment, Shares, take};
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;

/// How a product is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
pub struct MatmulPlan {
    /// Rows of c a program computes at once: 64 for each of `tasks`, or 128 for each.
    pub rows: usize,
    /// Columns of c: a power of two from 8 to 256, and at least those of 128 bytes of c if a task
    /// stores in bulk.
    pub columns: usize,
    /// How far a stage reaches along the inner extent: a multiple of 128 bytes.
    pub depth: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Programs of a cluster: a power of two up to 8.
    pub cluster: usize,
    /// Whether the programs of a cluster stand side by side and share tiles of a; else one above
    /// the other, and share tiles of b.
    pub side_by_side: bool,
    /// Whether programs stay and go through tiles, so many rows of clusters' tiles at a time, so
    /// that what they read stays in L2; 0 is a program for each tile.
    pub group: usize,
    /// Tasks that multiply, each of 4 warps.
    pub tasks: usize,
    /// Registers of their threads, and of those that copy; 0 leaves them as they are.
    pub registers: [usize; 2],
    /// a is given as `[k, m]`.
    pub a_transposed: bool,
    /// b is given as `[n, k]`.
    pub b_transposed: bool,
    /// Whether c is stored by bulk copies; else from registers, which any strides allow.
    pub bulk: bool,
    /// Whether there are several products, and of which factors there is but one for all.
    pub stack: bool,
    /// See `stack`: a, b.
    pub shared: [bool; 2],
    /// Programs that share the inner extent of a tile, one part after the other: c is a stack of as
    /// many results for each product, to be added up.
    pub splits: usize,
    /// Whether sums have two levels: the product of every stage is added to the sum outside of the
    /// tensor cores, which keep fewer bits of sums of 8-bit floats.
    pub two_level: bool,
    /// 2 if the columns of a tile are multiplied one half after the other, so that a stage's
    /// product takes half as many registers; with two levels of sums only. Else 1.
    pub halves: usize,
    /// Whether what becomes of the sums of a tile waits in registers, packed by pairs, and is
    /// stored while the products of the next tile are computed. c is of f16 or bf16 and stored in
    /// bulk, programs stay, and sums have one level.
    pub held: bool,
    /// Whether programs begin at different steps of the inner extent and go round, so that they do
    /// not all read the same columns of memory at a time. With a `group` of 0 and one split.
    pub staggered: bool,
    /// For [`stream_k`]: of how many rounds of tiles the steps are divided evenly among all
    /// programs, the last, incomplete one first; 0 of none. With a group, one split and no cluster.
    pub streamed: usize,
}

impl MatmulPlan {
    /// One program a tile, one product, and nothing transposed: what other plans are made from.
    pub const PLAIN: MatmulPlan = MatmulPlan {
        rows: 64,
        columns: 64,
        depth: 64,
        stages: 2,
        cluster: 1,
        side_by_side: false,
        group: 0,
        tasks: 1,
        registers: [0, 0],
        a_transposed: false,
        b_transposed: false,
        bulk: true,
        stack: false,
        shared: [false, false],
        splits: 1,
        two_level: false,
        halves: 1,
        held: false,
        staggered: false,
        streamed: 0,
    };

    /// How many sums so many programs may leave for each other.
    pub fn parts(&self, programs: usize) -> usize {
        programs * self.rows * self.columns
    }

    /// Columns of c that are stored at a time: those of 128 bytes.
    pub(super) fn strip(result_bytes: usize) -> usize {
        128 / result_bytes
    }
}

/// How many tiles of a size cover an extent.
fn tiles_over(extent: Idx, size: usize) -> Idx {
    (extent + (size - 1)) / size
}

/// A quotient in 32 bits, whose divisions take a fraction of the time.
fn quotient(of: Idx, by: Idx) -> Idx {
    (of.cast::<i32>() / by.cast::<i32>().maximum(1)).cast()
}

/// Where the tile with a number begins, in rows of clusters' tiles and columns of tiles: `group`
/// rows at a time, down, then across. In 32 bits, whose divisions take a fraction of the time.
#[device(crate = kiln_runtime)]
fn place(tile: Idx, down: Idx, across: Idx, group: usize) -> (Idx, Idx) {
    let (tile, down, across) = (tile.cast::<i32>(), down.cast::<i32>(), across.cast::<i32>());
    let group = group as i32;
    // Never below 1, which a division wants to know.
    let wide = (across * group).maximum(1);
    let before = tile / wide;
    let (first, within) = (before * group, tile - before * wide);
    let height = (down - first).minimum(group).maximum(1);
    let right = within / height;
    ((first + within - right * height).cast(), right.cast())
}

/// Where a task's tile is: which matrix of c, its first row and column.
type Corner = (Idx, Idx, Idx);

/// What a program does at a time.
struct Job {
    corner: Corner,
    /// The matrices that are multiplied.
    batch: Idx,
    /// The number of the tile.
    tile: Idx,
    /// The first step of the inner extent, and how many.
    from: Idx,
    count: Idx,
}

/// c = a · b through the epilogue, for stacks of matrices. No extent is 0, and a and b are such as
/// bulk copies can move: elements adjacent on the last axis, rows and matrices in multiples of 16
/// bytes; so is c if it is stored in bulk. Elements that are not of 16 bits lie along the inner
/// extent: a is not transposed, b is. Launch it with a multiple of `plan.cluster` programs on axis
/// 0, as many as run at once; or, with a `group` of 0, with one for each row of tiles on axis 0,
/// each column on axis 1, the other way round for clusters side by side, and each matrix of c on
/// axis 2.
#[kernel(crate = kiln_runtime, contract)]
pub fn matmul<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric, E: Epilogue<T::Sum>>(
    a: &Tensor<T, 3>,
    b: &Tensor<U, 3>,
    c: &mut Tensor<O, 3>,
    epilogue: E,
    plan: MatmulPlan,
) {
    let floats = |sums: Val<T::Sum>, place: &TilePosition| E::apply(&epilogue, sums, place).cast::<f32>();
    let elements = |sums: Val<T::Sum>, place: &TilePosition| E::apply(&epilogue, sums, place).cast::<O>();
    product::<T, U, O>(a, b, c, Finish { floats: &floats, elements: &elements }, plan, None);
}

/// [`matmul`] with rounds of tiles whose steps are divided among all programs. `parts` has
/// [room](MatmulPlan::parts) for sums that programs leave for each other; `signals` have a number
/// for each task of each program that multiplies: 0 before and after. Launch it with at most as
/// many programs on axis 0 as run at once, alone. A tile's sums may be added up in another order
/// than by `matmul`, but always in the same.
#[kernel(crate = kiln_runtime, contract)]
pub fn stream_k<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric, E: Epilogue<T::Sum>>(
    a: &Tensor<T, 3>,
    b: &Tensor<U, 3>,
    c: &mut Tensor<O, 3>,
    parts: &mut Tensor<T::Sum, 1>,
    signals: &mut Tensor<u32, 1>,
    epilogue: E,
    plan: MatmulPlan,
) {
    let MatmulPlan { rows, columns, tasks, halves, .. } = plan;
    let shape = [rows / tasks, columns / halves];
    let exchange = Exchange { parts, signals, tasks, halves, shape };
    let floats = |sums: Val<T::Sum>, place: &TilePosition| E::apply(&epilogue, sums, place).cast::<f32>();
    let elements = |sums: Val<T::Sum>, place: &TilePosition| E::apply(&epilogue, sums, place).cast::<O>();
    product::<T, U, O>(a, b, c, Finish { floats: &floats, elements: &elements }, plan, Some(exchange));
}

/// What a tile of sums becomes, behind functions whose types do not name the epilogue: [`product`]
/// is long, and is compiled once for each types of elements, not once for each epilogue too.
#[derive(Clone, Copy)]
struct Finish<'a, S: Num, O: Numeric> {
    floats: &'a dyn Fn(Val<S>, &TilePosition) -> Val<f32>,
    elements: &'a dyn Fn(Val<S>, &TilePosition) -> Val<O>,
}

/// What both do.
#[device(crate = kiln_runtime)]
fn product<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric>(
    a: View<T, 3>,
    b: View<U, 3>,
    c: ViewMut<O, 3>,
    finish: Finish<'_, T::Sum, O>,
    plan: MatmulPlan,
    exchange: Option<Exchange<T::Sum>>,
) {
    let MatmulPlan { rows, columns, depth, stages, cluster: blocks, group, splits, halves, .. } = plan;
    // Columns that a product has.
    let half = columns / halves;
    cluster(blocks);
    let own = rows / plan.tasks;
    // Stages follow each other; in each, a tile for every task.
    let left = match plan.a_transposed {
        false => shared_tiles::<T>(stages * plan.tasks, own, depth),
        true => shared_tiles::<T>(stages * plan.tasks, depth, own),
    };
    let right = match plan.b_transposed {
        true => shared_tiles::<U>(stages * halves, half, depth),
        false => shared_tiles::<U>(stages * halves, depth, half),
    };
    let width = MatmulPlan::strip(size_of::<O>());
    let out = plan.bulk.then(|| shared_tiles::<O>(2 * plan.tasks, own, width));
    // A stage is full when its bytes have come, and empty when every task of every block that gets
    // a part of what this one copies has multiplied it.
    let (full, empty) = (mbarriers(stages, 1), mbarriers(stages, blocks * plan.tasks));

    let inner = if plan.a_transposed { a.extent(1) } else { a.extent(2) };
    let (high, wide) = if plan.side_by_side { (1, blocks) } else { (blocks, 1) };
    // There is a step, which the compiler wants to know.
    let steps = tiles_over(inner, depth).maximum(1);
    let each = if splits > 1 { tiles_over(steps, splits) } else { steps };
    let across = tiles_over(c.extent(2), columns * wide);
    let down = tiles_over(c.extent(1), rows * high);
    let several = plan.stack || splits > 1;
    let tiles = if several { down * across * c.extent(0) } else { down * across };
    let rank = if blocks > 1 { cluster_rank() } else { val(0) };
    // Tiles that are divided come first; programs then number what they have to do from 0.
    let shares = exchange.is_some().then(|| Shares::new(tiles, steps, plan.streamed));
    let (first, end, apart) = match (group, shares) {
        (0, _) => (val(0), val(1), val(1)),
        (_, Some(shares)) => (val(0), shares.segments(), val(1)),
        _ => (program_id(0) / blocks, tiles, num_programs(0) / blocks),
    };
    // Where this block's tile begins.
    let corner = |tile: Idx| -> Corner {
        if group == 0 {
            let (along, other) = (program_id(0), program_id(1));
            let (i, j) = if plan.side_by_side { (other, along) } else { (along, other) };
            return (if several { program_id(2) } else { val(0) }, i * rows, j * columns);
        }
        let matrix = if several { quotient(tile, down * across) } else { val(0) };
        let (i, j) = place(tile - matrix * (down * across), down, across, group);
        match plan.side_by_side {
            true => (matrix, i * rows, (j * blocks + rank) * columns),
            false => (matrix, (i * blocks + rank) * rows, j * columns),
        }
    };
    // The product that a matrix of c belongs to, and the steps that it has of the inner extent: the
    // first and how many.
    let part = |matrix: Idx| match splits {
        1 => (matrix, val(0), steps),
        _ => {
            let batch = if plan.stack { quotient(matrix, val(splits)) } else { val(0) };
            let first = (matrix - batch * splits) * each;
            (batch, first, (steps - first).minimum(each).maximum(1))
        }
    };
    // What is to be done with a number: a corner, the product it belongs to, and its steps.
    let job = |number: Idx| -> Job {
        if let Some(shares) = shares {
            let Segment { tile, from, count } = shares.segment(number);
            let corner = corner(tile);
            return Job { corner, batch: corner.0, tile, from, count };
        }
        let corner = corner(number);
        let (batch, from, count) = part(corner.0);
        Job { corner, batch, tile: number, from, count }
    };
    // Found while the mbarriers are made.
    let beginning = job(first);
    // What a block copies of a tile with so many rows in shared memory.
    let share = |all: usize, shared: bool| match shared && blocks > 1 {
        true => Part { row: rank * (all / blocks), rows: all / blocks, multicast: (1 << blocks) - 1 },
        false => Part { row: val(0), rows: all, multicast: 0 },
    };

    let multiply = |index: Idx| {
        let (mut stage, mut phase) = (val::<i64>(0), val::<i64>(0));
        // What the tile before became, and where it goes.
        let none = || zeros::<u32>((own, if plan.held { columns / 2 } else { 2 }));
        let mut held = none();
        let (mut held_matrix, mut held_row, mut held_column) = (val::<i64>(0), val::<i64>(0), val::<i64>(0));
        // Strip by strip, results go to memory by way of two buffers in turn, which those of the
        // tile before may still occupy.
        let deliver = |number: usize, occupied: bool, put: &dyn Fn(SharedTile<O>), corner: Corner| {
            let Some(out) = out else { return };
            let buffer = out.at(index * 2 + number % 2);
            if occupied || number >= 2 {
                store_wait(if columns > width { 1 } else { 0 });
            }
            put(buffer);
            proxy_fence();
            task_barrier();
            // SAFETY: every tile of c has one number, and one task of one program takes it.
            unsafe { buffer.store(c, corner) };
        };
        let deliver_held = |pairs: Val<u32>, (matrix, row, column): Corner| {
            for strip in 0..columns / width {
                let from = strip * width;
                let put = |buffer: SharedTile<O>| buffer.put_pairs(pairs, from);
                deliver(strip, true, &put, (matrix, row, column + from));
            }
        };
        let mut holding = val(false);
        for number in range_step(first, end, apart) {
            // Before the products, where its time does not count.
            let Job { corner: (matrix, row, column), batch, tile, from, count } = job(number);
            let row = row + index * own;
            let mut before = stage;
            // Whether a tile's results wait.
            let holds = if exchange.is_some() { holding } else { number.gt(first) };
            // Of this tile alone: sums that outlived the epilogue would need registers beside what
            // becomes of them.
            let (mut sum, mut second) = (zeros::<T::Sum>((own, half)), zeros::<T::Sum>((own, half)));
            // Beside the products of the first two steps, if there are two.
            let beside = (count - 1).minimum(1);
            for step in range(0, count) {
                full.at(stage).wait(phase);
                let x = left.at(stage * plan.tasks + index);
                let x = if plan.a_transposed { x.transposed() } else { x };
                let y = |half: usize| {
                    let y = right.at(stage * halves + half);
                    if plan.b_transposed { y.transposed() } else { y }
                };
                if plan.two_level {
                    let partial =
                        |i: usize| wgmma_wait(wgmma(x, y(i), zeros::<T::Sum>((own, half)), false), 0);
                    sum += partial(0);
                    if halves == 2 {
                        second += partial(1);
                    }
                    release(empty, stage, blocks);
                } else {
                    sum = wgmma(x, y(0), sum, step.gt(0));
                    if plan.held {
                        if step.eq(beside) & holds {
                            deliver_held(held, (held_matrix, held_row, held_column));
                        }
                    }
                    // The product before this one is done, and its stage free.
                    sum = wgmma_wait(sum, 1);
                    if step.gt(0) {
                        release(empty, before, blocks);
                    }
                    before = stage;
                }
                stage += 1;
                if stage.eq(stages) {
                    stage = 0;
                    phase += 1;
                }
            }
            if !plan.two_level {
                let product = wgmma_wait(sum, 0);
                release(empty, before, blocks);
                sum = product;
            }

            // Sums of a tile that another program stores: the first that this one has, so that no
            // results wait.
            let left = if exchange.is_some() { (from + count).lt(steps) } else { val(false) };
            if left {
                if let Some(exchange) = exchange {
                    exchange.leave(index, [sum, second]);
                }
                held = none();
            } else {
                if let (Some(exchange), Some(shares)) = (exchange, shares) {
                    if from.gt(0) {
                        let sums = take(exchange, shares, tile, index, [sum, second]);
                        sum = sums[0];
                        second = sums[1];
                    }
                }
                for i in 0..halves {
                    let (sum, column) = (if i == 0 { sum } else { second }, column + i * half);
                    let place = TilePosition { batch, row, column, shape: [own, half] };
                    if plan.held {
                        held = pack_pairs::<O>((finish.floats)(sum, &place));
                        held_matrix = matrix;
                        held_row = row;
                        held_column = column;
                        holding = val(true);
                    } else if plan.bulk {
                        let result = (finish.elements)(sum, &place);
                        for strip in 0..half / width {
                            let (from, number) = (strip * width, i * (half / width) + strip);
                            let put = |buffer: SharedTile<O>| buffer.put(result, from);
                            deliver(number, group > 0, &put, (matrix, row, column + from));
                        }
                    } else {
                        let result = (finish.elements)(sum, &place);
                        // SAFETY: every tile of c has one number, and one task of one program takes
                        // it.
                        unsafe { c.row(matrix).tile((row, column), (own, half)).store_overlapping(result) };
                    }
                }
            }
        }
        if plan.held {
            let holds = if exchange.is_some() { holding } else { first.lt(end) };
            if holds {
                deliver_held(held, (held_matrix, held_row, held_column));
            }
        }
        if plan.bulk {
            store_wait(0);
        }
    };

    tasks()
        .task(4, plan.registers[1], || {
            let (mut stage, mut phase) = (val::<i64>(0), val::<i64>(0));
            let Job { corner: (_, row, column), batch, from, count, .. } = beginning;
            let (mut row, mut column, mut batch, mut from, mut count) = (row, column, batch, from, count);
            for number in range_step(first, end, apart) {
                // The blocks of a cluster keep step.
                let neighbor = program_id(0) / blocks;
                let mut next = neighbor - quotient(neighbor, count) * count;
                let of = |shared: bool| if shared { val(0) } else { batch };
                let (in_a, in_b) = (of(plan.shared[0]), of(plan.shared[1]));
                for step in range(0, count) {
                    let step = if plan.staggered { next } else { from + step };
                    let (at, done) = (step * depth, full.at(stage));
                    if plan.staggered {
                        next += 1;
                        if next.eq(count) {
                            next = 0;
                        }
                    }
                    empty.at(stage).wait(phase - 1);
                    done.expect(size_of::<T>() * depth * (rows + columns));
                    for index in 0..plan.tasks {
                        let (left, row) = (left.at(stage * plan.tasks + index), row + index * own);
                        if plan.a_transposed {
                            let part = share(depth, plan.side_by_side);
                            left.load_part(a, (in_a, at + part.row, row), part, done);
                        } else {
                            let part = share(own, plan.side_by_side);
                            left.load_part(a, (in_a, row + part.row, at), part, done);
                        }
                    }
                    for i in 0..halves {
                        let (right, column) = (right.at(stage * halves + i), column + i * half);
                        if plan.b_transposed {
                            let part = share(half, !plan.side_by_side);
                            right.load_part(b, (in_b, column + part.row, at), part, done);
                        } else {
                            let part = share(depth, !plan.side_by_side);
                            right.load_part(b, (in_b, at + part.row, column), part, done);
                        }
                    }
                    stage += 1;
                    if stage.eq(stages) {
                        stage = 0;
                        phase += 1;
                    }
                }
                if group > 0 {
                    let next = job(number + apart);
                    row = next.corner.1;
                    column = next.corner.2;
                    batch = next.batch;
                    from = next.from;
                    count = next.count;
                }
            }
        })
        .copies(plan.tasks, 4, plan.registers[0], || multiply(task_rank()))
        .run();
}

/// Tells every block of the cluster that this task is done with a stage.
#[device(crate = kiln_runtime)]
fn release(empty: Mbarriers, stage: Idx, blocks: usize) {
    if blocks == 1 {
        empty.at(stage).arrive();
    } else {
        for rank in 0..blocks {
            empty.at(stage).arrive_at(rank);
        }
    }
}
