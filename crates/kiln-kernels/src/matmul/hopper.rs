//! The product of matrices on a Hopper GPU, at the explicit level.
//!
//! Programs stay and go through the tiles of c, in clusters of neighbours that stand one above the other. In each, one task copies tiles of a and b into a
//! ring of stages; the other multiplies what has arrived and stores the sums, while the copies for the next tile are already under way. The
//! blocks of a cluster need the same tile of b: each copies a part of it, into all of them.

use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;

/// How a product is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
pub struct Plan {
    /// Rows of c a program computes at once: a multiple of 64 for each 4 warps.
    pub rows: usize,
    /// Columns of c: a power of two from 64 to 256.
    pub columns: usize,
    /// How far a stage reaches along the inner extent: a multiple of 64.
    pub depth: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Programs of a cluster, which share tiles of b.
    pub cluster: usize,
    /// Rows of clusters' tiles that are worked on together, so that what they read stays in L2.
    pub group: usize,
    /// Warps that multiply.
    pub warps: usize,
    /// Registers of their threads, and of those that copy; 0 leaves them as they are.
    pub registers: [usize; 2],
    /// a is given as `[k, m]`.
    pub a_transposed: bool,
    /// b is given as `[n, k]`.
    pub b_transposed: bool,
}

impl Plan {
    /// Columns that are stored at a time.
    const STRIP: usize = 64;
}

/// How many pieces of a size cover an extent.
fn pieces(extent: Idx, size: usize) -> Idx {
    (extent + (size - 1)) / size
}

/// Where the tile with a number begins, in rows of clusters' tiles and columns of tiles: `group` rows at a time, down, then across.
#[device(crate = kiln_runtime)]
fn place(tile: Idx, down: Idx, across: Idx, group: usize) -> (Idx, Idx) {
    // Never below 1, which a division wants to know.
    let wide = (across * group).maximum(1);
    let first = tile / wide * group;
    let height = (down - first).minimum(group).maximum(1);
    let within = tile % wide;
    (first + within % height, within / height)
}

/// c = a · b, of f16 or bf16, accumulated in f32. The inner extent is at least 1, and every tensor one that bulk copies can move: elements
/// adjacent on the last axis, rows in multiples of 16 bytes. Launch it with a multiple of `plan.cluster` programs on axis 0, as many as run at once.
#[kernel(crate = kiln_runtime)]
pub fn matmul<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T, 2>, plan: Plan) {
    let Plan { rows, columns, depth, stages, cluster: blocks, group, .. } = plan;
    cluster(blocks);
    let left = match plan.a_transposed {
        false => shared_tiles::<T>(stages, rows, depth),
        true => shared_tiles::<T>(stages, depth, rows),
    };
    let right = match plan.b_transposed {
        true => shared_tiles::<T>(stages, columns, depth),
        false => shared_tiles::<T>(stages, depth, columns),
    };
    let out = shared_tiles::<T>(2, rows, Plan::STRIP);
    // A stage is full when its bytes have come, and empty when every block that gets a part of what this one copies has multiplied it.
    let (full, empty) = (mbarriers(stages, 1), mbarriers(stages, blocks));

    let inner = if plan.a_transposed { a.extent(0) } else { a.extent(1) };
    let (steps, across) = (pieces(inner, depth), pieces(c.extent(1), columns));
    let down = pieces(c.extent(0), rows * blocks);
    let rank = if blocks > 1 { cluster_rank() } else { val(0) };
    let (first, apart) = (program_id(0) / blocks, num_programs(0) / blocks);

    tasks()
        .task(4, plan.registers[1], || {
            let (mut stage, mut phase) = (val::<i64>(0), val::<i64>(0));
            for tile in range_step(first, down * across, apart) {
                let (i, j) = place(tile, down, across, group);
                let (row, column) = ((i * blocks + rank) * rows, j * columns);
                for step in range(0, steps) {
                    let (at, done) = (step * depth, full.at(stage));
                    empty.at(stage).wait(phase - 1);
                    done.expect(size_of::<T>() * depth * (rows + columns));
                    if plan.a_transposed {
                        left.at(stage).load(a, (at, row), done);
                    } else {
                        left.at(stage).load(a, (row, at), done);
                    }
                    let all = if plan.b_transposed { columns } else { depth };
                    let share = all / blocks;
                    let multicast = if blocks > 1 { (1 << blocks) - 1 } else { 0 };
                    let part = Part { row: rank * share, rows: share, multicast };
                    if plan.b_transposed {
                        right.at(stage).load_part(b, (column + rank * share, at), part, done);
                    } else {
                        right.at(stage).load_part(b, (at + rank * share, column), part, done);
                    }
                    stage += 1;
                    if stage.eq(stages) {
                        stage = 0;
                        phase += 1;
                    }
                }
            }
        })
        .task(plan.warps, plan.registers[0], || {
            let (mut stage, mut phase) = (val::<i64>(0), val::<i64>(0));
            let mut sum = zeros::<f32>((rows, columns));
            for tile in range_step(first, down * across, apart) {
                let mut before = stage;
                for step in range(0, steps) {
                    full.at(stage).wait(phase);
                    let (x, y) = (left.at(stage), right.at(stage));
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

                let (i, j) = place(tile, down, across, group);
                let (row, column) = ((i * blocks + rank) * rows, j * columns);
                let result = product.cast::<T>();
                for strip in 0..columns / Plan::STRIP {
                    let from = strip * Plan::STRIP;
                    // The store before the last one has left its buffer.
                    store_wait(1);
                    out.at(strip % 2).put(result, from);
                    proxy_fence();
                    task_barrier();
                    // SAFETY: every tile of c has one number, and one program takes it.
                    unsafe { out.at(strip % 2).store(c, (row, column + from)) };
                }
            }
            store_wait(0);
        })
        .run();
}

/// Tells every block of the cluster that this one is done with a stage.
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
