//! The product of matrices on a Hopper GPU, at the explicit level.
//!
//! Programs stay and go through the tiles of c, in clusters of neighbours. In each, one task copies tiles of a and b into a ring of stages; the others
//! multiply what has arrived, each for rows of its own, and store the sums, while the copies for the next tile are already under way. The multiplying
//! tasks do not wait for each other: one stores while the other multiplies. The blocks of a cluster stand one above the other and need the
//! same tile of b, or side by side and need the same tile of a: each copies a part of it, into all of them.

use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;

/// How a product is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
pub struct Plan {
    /// Rows of c a program computes at once: 64 for each of `tasks`, or 128 for each.
    pub rows: usize,
    /// Columns of c: a power of two from 8 to 256, and at least 64 if a task stores in bulk.
    pub columns: usize,
    /// How far a stage reaches along the inner extent: a multiple of 64.
    pub depth: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Programs of a cluster: a power of two up to 8.
    pub cluster: usize,
    /// Whether the programs of a cluster stand side by side and share tiles of a; else one above the other, and share tiles of b.
    pub side_by_side: bool,
    /// Whether programs stay and go through tiles, so many rows of clusters' tiles at a time, so that what they read stays in L2; 0 is a program for
    /// each tile.
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
}

impl Plan {
    /// Columns that are stored at a time.
    pub(super) const STRIP: usize = 64;
}

/// How many pieces of a size cover an extent.
fn pieces(extent: Idx, size: usize) -> Idx {
    (extent + (size - 1)) / size
}

/// Where the tile with a number begins, in rows of clusters' tiles and columns of tiles: `group` rows at a time, down, then across. In 32 bits, whose
/// divisions take a fraction of the time.
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

/// c = a · b, of f16 or bf16, accumulated in f32. The inner extent is at least 1, and a and b are such as bulk copies can move: elements
/// adjacent on the last axis, rows in multiples of 16 bytes; so is c if it is stored in bulk. Launch it with a multiple of `plan.cluster` programs on
/// axis 0, as many as run at once; or, with a `group` of 0, with one for each row of tiles on axis 0 and each column on axis 1, the other way round for
/// clusters side by side.
#[kernel(crate = kiln_runtime)]
pub fn matmul<T: Float, O: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<O, 2>, plan: Plan) {
    let Plan { rows, columns, depth, stages, cluster: blocks, group, .. } = plan;
    cluster(blocks);
    let own = rows / plan.tasks;
    // Stages follow each other; in each, a tile for every task.
    let left = match plan.a_transposed {
        false => shared_tiles::<T>(stages * plan.tasks, own, depth),
        true => shared_tiles::<T>(stages * plan.tasks, depth, own),
    };
    let right = match plan.b_transposed {
        true => shared_tiles::<T>(stages, columns, depth),
        false => shared_tiles::<T>(stages, depth, columns),
    };
    let out = plan.bulk.then(|| shared_tiles::<O>(2 * plan.tasks, own, Plan::STRIP));
    // A stage is full when its bytes have come, and empty when every task of every block that gets a part of what this one copies has multiplied it.
    let (full, empty) = (mbarriers(stages, 1), mbarriers(stages, blocks * plan.tasks));

    let inner = if plan.a_transposed { a.extent(0) } else { a.extent(1) };
    let (high, wide) = if plan.side_by_side { (1, blocks) } else { (blocks, 1) };
    // There is a step, which the compiler wants to know.
    let steps = pieces(inner, depth).maximum(1);
    let across = pieces(c.extent(1), columns * wide);
    let down = pieces(c.extent(0), rows * high);
    let rank = if blocks > 1 { cluster_rank() } else { val(0) };
    let (first, end, apart) = match group {
        0 => (val(0), val(1), val(1)),
        _ => (program_id(0) / blocks, down * across, num_programs(0) / blocks),
    };
    // Where this block's tile begins.
    let corner = |tile: Idx| {
        if group == 0 {
            let (along, other) = (program_id(0), program_id(1));
            let (i, j) = if plan.side_by_side { (other, along) } else { (along, other) };
            return (i * rows, j * columns);
        }
        let (i, j) = place(tile, down, across, group);
        match plan.side_by_side {
            true => (i * rows, (j * blocks + rank) * columns),
            false => ((i * blocks + rank) * rows, j * columns),
        }
    };
    // Found while the mbarriers are made.
    let beginning = corner(first);
    // What a block copies of a tile with so many rows in shared memory.
    let share = |all: usize, shared: bool| match shared && blocks > 1 {
        true => Part { row: rank * (all / blocks), rows: all / blocks, multicast: (1 << blocks) - 1 },
        false => Part { row: val(0), rows: all, multicast: 0 },
    };

    let multiply = |index: Idx| {
        let (mut stage, mut phase) = (val::<i64>(0), val::<i64>(0));
        let mut sum = zeros::<f32>((own, columns));
        for tile in range_step(first, end, apart) {
            // Before the products, where its time does not count.
            let (row, column) = corner(tile);
            let row = row + index * own;
            let mut before = stage;
            for step in range(0, steps) {
                full.at(stage).wait(phase);
                let (x, y) = (left.at(stage * plan.tasks + index), right.at(stage));
                let x = if plan.a_transposed { x.transposed() } else { x };
                let y = if plan.b_transposed { y.transposed() } else { y };
                sum = wgmma(x, y, sum, step.gt(0));
                // The product before this one is done, and its stage free.
                sum = wgmma_wait(sum, 1);
                if step.gt(0) {
                    release(empty, before, blocks);
                }
                before = stage;
                stage += 1;
                if stage.eq(stages) {
                    stage = 0;
                    phase += 1;
                }
            }
            let product = wgmma_wait(sum, 0);
            release(empty, before, blocks);
            sum = product;

            let result = product.cast::<O>();
            if let Some(out) = out {
                for strip in 0..columns / Plan::STRIP {
                    let (from, place) = (strip * Plan::STRIP, out.at(index * 2 + strip % 2));
                    // The last store that used this buffer has left it.
                    if group > 0 || strip >= 2 {
                        store_wait(if columns > Plan::STRIP { 1 } else { 0 });
                    }
                    place.put(result, from);
                    proxy_fence();
                    task_barrier();
                    // SAFETY: every tile of c has one number, and one task of one program takes it.
                    unsafe { place.store(c, (row, column + from)) };
                }
            } else {
                // SAFETY: as above.
                unsafe { c.tile((row, column), (own, columns)).store_overlapping(result) };
            }
        }
        if plan.bulk {
            store_wait(0);
        }
    };

    tasks()
        .task(4, plan.registers[1], || {
            let (mut stage, mut phase) = (val::<i64>(0), val::<i64>(0));
            let (mut row, mut column) = beginning;
            for tile in range_step(first, end, apart) {
                for step in range(0, steps) {
                    let (at, done) = (step * depth, full.at(stage));
                    empty.at(stage).wait(phase - 1);
                    done.expect(size_of::<T>() * depth * (rows + columns));
                    for index in 0..plan.tasks {
                        let (left, row) = (left.at(stage * plan.tasks + index), row + index * own);
                        if plan.a_transposed {
                            let part = share(depth, plan.side_by_side);
                            left.load_part(a, (at + part.row, row), part, done);
                        } else {
                            let part = share(own, plan.side_by_side);
                            left.load_part(a, (row + part.row, at), part, done);
                        }
                    }
                    if plan.b_transposed {
                        let part = share(columns, !plan.side_by_side);
                        right.at(stage).load_part(b, (column + part.row, at), part, done);
                    } else {
                        let part = share(depth, !plan.side_by_side);
                        right.at(stage).load_part(b, (at + part.row, column), part, done);
                    }
                    stage += 1;
                    if stage.eq(stages) {
                        stage = 0;
                        phase += 1;
                    }
                }
                if group > 0 {
                    let next = corner(tile + apart);
                    row = next.0;
                    column = next.1;
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
