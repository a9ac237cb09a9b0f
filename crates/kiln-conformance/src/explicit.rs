//! The explicit level: bulk tensor copies, mbarriers, warpgroup products, tasks and clusters.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, holds_near, list};
use half::{bf16, f16};
use kiln_kernels::matmul::epilogue::{Along, Combined, Identity, Vector};
use kiln_kernels::matmul::{Factor, hopper};
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample, by_rows};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["explicit":
        one_stage for f16 bf16;
        ring for f16 bf16;
        transposed_factors for f16 bf16;
        cluster_shares_loads for f16 bf16;
        two_consumers for bf16;
        copies_of_a_task for bf16;
        the_product_before for bf16;
        whole_product for f16 bf16;
        divided_by_steps for f16 bf16;
        copies_of_boxes for f16 f32 i32;
    ]
}

/// Extents of a program's tile, and how far a stage reaches.
const TILE: usize = 64;

/// How the kernel below works.
#[derive(Clone, Copy, Hash, PartialEq, KernelConst)]
#[kiln(crate = kiln_runtime)]
struct PipelineConfig {
    stages: usize,
    blocks: usize,
    a_transposed: bool,
    b_transposed: bool,
}

impl PipelineConfig {
    const PLAIN: PipelineConfig =
        PipelineConfig { stages: 1, blocks: 1, a_transposed: false, b_transposed: false };
}

/// c = a · b, a tile a program; the blocks of a cluster stand one above the other and each loads a
/// part of the tile of b that they share.
#[kernel(crate = kiln_runtime)]
fn pipelined<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T, 2>, config: PipelineConfig) {
    let PipelineConfig { stages, blocks, .. } = config;
    cluster(blocks);
    let (left, right) = (shared_tiles::<T>(stages, TILE, TILE), shared_tiles::<T>(stages, TILE, TILE));
    let out = shared_tiles::<T>(1, TILE, TILE);
    let (full, empty) = (mbarriers(stages, 1), mbarriers(stages, blocks));
    let inner = if config.a_transposed { a.extent(0) } else { a.extent(1) };
    let steps = (inner + (TILE - 1)) / TILE;
    let (row, column) = (program_id(0) * TILE, program_id(1) * TILE);
    let rank = if blocks > 1 { cluster_rank() } else { val(0) };
    tasks()
        .task(4, 40, || {
            for step in range(0, steps) {
                let (stage, at) = (step % stages, step * TILE);
                let done = full.at(stage);
                empty.at(stage).wait(step / stages - 1);
                done.expect(2 * TILE * TILE * size_of::<T>());
                let from = if config.a_transposed { (at, row) } else { (row, at) };
                left.at(stage).load(a, from, done);
                let share = TILE / blocks;
                let multicast = if blocks > 1 { (1 << blocks) - 1 } else { 0 };
                let part = Part { row: rank * share, rows: share, multicast };
                let (down, across) = if config.b_transposed { (column, at) } else { (at, column) };
                right.at(stage).load_part(b, (down + rank * share, across), part, done);
            }
        })
        .task(4, 200, || {
            let mut sum = zeros::<f32>((TILE, TILE));
            for step in range(0, steps) {
                let stage = step % stages;
                full.at(stage).wait(step / stages);
                let (x, y) = (left.at(stage), right.at(stage));
                let x = if config.a_transposed { x.transposed() } else { x };
                let y = if config.b_transposed { y.transposed() } else { y };
                sum = wgmma(x, y, sum, true);
                sum = wgmma_wait(sum, 0);
                if blocks == 1 {
                    empty.at(stage).arrive();
                } else {
                    for there in 0..blocks {
                        empty.at(stage).arrive_at(there);
                    }
                }
            }
            out.at(0).put(sum.cast::<T>(), 0);
            proxy_fence();
            task_barrier();
            // SAFETY: every program has a tile of its own.
            unsafe { out.at(0).store(c, (row, column)) };
            store_wait(0);
        })
        .run();
}

/// Runs the kernel for extents that are multiples of 8, as the copies want rows in multiples of 16
/// bytes.
fn product<T: Sample + Float>(
    trial: &mut Trial<'_>,
    [m, n, k]: [usize; 3],
    config: PipelineConfig,
) -> Verdict {
    let (a, xs) = trial.input::<T, 2>(if config.a_transposed { [k, m] } else { [m, k] })?;
    let (b, ys) = trial.input::<T, 2>(if config.b_transposed { [n, k] } else { [k, n] })?;
    let mut c = trial.output::<T, 2>([m, n])?;
    let down = m.div_ceil(TILE * config.blocks) * config.blocks;
    pipelined(&a, &b, &mut c, config).grid([down as u32, n.div_ceil(TILE) as u32]).launch(trial.device)?;
    let (x, y) = (by_rows(&xs, [m, k], config.a_transposed), by_rows(&ys, [k, n], config.b_transposed));
    let expected = kiln_reference::product(&x, &y, [m, n, k], Host::Float(0.0));
    holds_near("a b", &c, &expected, 4.0, 8.0)
}

fn one_stage<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    product::<T>(trial, [64, 64, 64], PipelineConfig::PLAIN)?;
    product::<T>(trial, [72, 136, 200], PipelineConfig::PLAIN)
}

fn ring<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for stages in [2, 3, 4] {
        product::<T>(trial, [40, 72, 456], PipelineConfig { stages, ..PipelineConfig::PLAIN })?;
    }
    Ok(())
}

fn transposed_factors<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for (a_transposed, b_transposed) in [(false, true), (true, false), (true, true)] {
        product::<T>(
            trial,
            [72, 88, 136],
            PipelineConfig { stages: 2, a_transposed, b_transposed, ..PipelineConfig::PLAIN },
        )?;
    }
    Ok(())
}

fn cluster_shares_loads<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for (blocks, b_transposed) in [(2, true), (2, false), (4, false)] {
        let config = PipelineConfig { stages: 3, blocks, a_transposed: false, b_transposed };
        product::<T>(trial, [200, 72, 264], config)?;
    }
    Ok(())
}

/// Two tasks take turns at one ring: the first multiplies even tiles of columns, the second odd
/// ones.
#[kernel(crate = kiln_runtime)]
fn taking_turns<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<f32, 2>) {
    let (left, right) = (shared_tiles::<T>(2, TILE, TILE), shared_tiles::<T>(2, TILE, TILE));
    let (full, empty) = (mbarriers(2, 1), mbarriers(2, 1));
    let row = program_id(0) * TILE;
    let tiles = (b.extent(1) + (TILE - 1)) / TILE;
    let consume = |turn: usize| {
        for tile in range_step(turn, tiles, 2) {
            full.at(turn).wait(tile / 2);
            let product = wgmma(left.at(turn), right.at(turn), zeros::<f32>((TILE, TILE)), false);
            let sum = wgmma_wait(product, 0);
            empty.at(turn).arrive();
            c.tile((row, tile * TILE), (TILE, TILE)).store(sum);
        }
    };
    tasks()
        .task(4, 40, || {
            for tile in range(0, tiles) {
                let stage = tile % 2;
                empty.at(stage).wait(tile / 2 - 1);
                full.at(stage).expect(2 * TILE * TILE * size_of::<T>());
                left.at(stage).load(a, (row, 0), full.at(stage));
                right.at(stage).load(b, (0, tile * TILE), full.at(stage));
            }
        })
        .task(4, 160, || consume(0))
        .task(4, 160, || consume(1))
        .run();
}

fn two_consumers<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [72, 264, 56];
    let (a, xs) = trial.input::<T, 2>([m, k])?;
    let (b, ys) = trial.input::<T, 2>([k, n])?;
    let mut c = trial.output::<f32, 2>([m, n])?;
    taking_turns(&a, &b, &mut c).grid([m.div_ceil(TILE) as u32]).launch(trial.device)?;
    let (x, y) = (by_rows(&xs, [m, k], false), by_rows(&ys, [k, n], false));
    let expected = kiln_reference::product(&x, &y, [m, n, k], Host::Float(0.0));
    holds_near("a b", &c, &expected, 64.0, 64.0)
}

/// Two copies of a task share every stage: each multiplies 64 rows of its own.
#[kernel(crate = kiln_runtime)]
fn in_copies<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<f32, 2>) {
    let (left, right) = (shared_tiles::<T>(2 * 2, TILE, TILE), shared_tiles::<T>(2, TILE, TILE));
    let (full, empty) = (mbarriers(2, 1), mbarriers(2, 2));
    let (row, steps) = (program_id(0) * (2 * TILE), (a.extent(1) + (TILE - 1)) / TILE);
    tasks()
        .task(4, 40, || {
            for step in range(0, steps) {
                let stage = step % 2;
                empty.at(stage).wait(step / 2 - 1);
                full.at(stage).expect(3 * TILE * TILE * size_of::<T>());
                for copy in 0..2 {
                    left.at(stage * 2 + copy).load(a, (row + copy * TILE, step * TILE), full.at(stage));
                }
                right.at(stage).load(b, (step * TILE, 0), full.at(stage));
            }
        })
        .copies(2, 4, 160, || {
            let copy = task_rank();
            let mut sum = zeros::<f32>((TILE, TILE));
            for step in range(0, steps) {
                let stage = step % 2;
                full.at(stage).wait(step / 2);
                sum = wgmma(left.at(stage * 2 + copy), right.at(stage), sum, true);
                sum = wgmma_wait(sum, 0);
                empty.at(stage).arrive();
            }
            // SAFETY: every copy of every program has rows of its own.
            unsafe { c.tile((row + copy * TILE, 0), (TILE, TILE)).store_overlapping(sum) };
        })
        .run();
}

fn copies_of_a_task<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [200, 56, 136];
    let (a, xs) = trial.input::<T, 2>([m, k])?;
    let (b, ys) = trial.input::<T, 2>([k, n])?;
    let mut c = trial.output::<f32, 2>([m, n])?;
    in_copies(&a, &b, &mut c).grid([m.div_ceil(2 * TILE) as u32]).launch(trial.device)?;
    let (x, y) = (by_rows(&xs, [m, k], false), by_rows(&ys, [k, n], false));
    let expected = kiln_reference::product(&x, &y, [m, n, k], Host::Float(0.0));
    holds_near("a b", &c, &expected, 64.0, 64.0)
}

/// c = the sum of the products of all steps but the last: each is read when the next one is there
/// already.
#[kernel(crate = kiln_runtime)]
fn one_behind<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<f32, 2>) {
    let (left, right) = (shared_tiles::<T>(1, TILE, TILE), shared_tiles::<T>(1, TILE, TILE));
    let (full, empty) = (mbarriers(1, 1), mbarriers(1, 1));
    let steps = a.extent(1) / TILE;
    tasks()
        .task(4, 40, || {
            for step in range(0, steps) {
                empty.at(0).wait(step - 1);
                full.at(0).expect(2 * TILE * TILE * size_of::<T>());
                left.at(0).load(a, (0, step * TILE), full.at(0));
                right.at(0).load(b, (step * TILE, 0), full.at(0));
            }
        })
        .task(4, 160, || {
            let mut sum = zeros::<f32>((TILE, TILE));
            let mut before = zeros::<f32>((TILE, TILE));
            for step in range(0, steps) {
                full.at(0).wait(step);
                let product = wgmma(left.at(0), right.at(0), zeros::<f32>((TILE, TILE)), false);
                let product = wgmma_wait(product, 0);
                empty.at(0).arrive();
                sum += before;
                before = product;
            }
            // SAFETY: there is one program.
            unsafe { c.tile((0, 0), (TILE, TILE)).store_overlapping(sum) };
        })
        .run();
}

fn the_product_before<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let k = 5 * TILE;
    let (a, xs) = trial.input::<T, 2>([TILE, k])?;
    let (b, ys) = trial.input::<T, 2>([k, TILE])?;
    let mut c = trial.output::<f32, 2>([TILE, TILE])?;
    one_behind(&a, &b, &mut c).grid([1]).launch(trial.device)?;
    let element = |i: usize| {
        (0..k - TILE).fold(Host::Float(0.0), |sum, p| {
            sum.add(xs[i / TILE * k + p].host().mul(ys[p * TILE + i % TILE].host()))
        })
    };
    let expected: Vec<Host> = list(0..TILE * TILE, element);
    holds_near("the sum", &c, &expected, 64.0, 64.0)
}

/// The library's kernel with plans that `choose` may or may not make: several tiles a program, both
/// kinds of clusters, both ways to store, f32.
use hopper::MatmulPlan as Whole;

/// Plans that `choose` may or may not make.
const PLAIN: Whole =
    Whole { rows: 128, columns: 128, stages: 3, group: 2, tasks: 2, registers: [232, 40], ..Whole::PLAIN };
const NARROW: Whole = Whole {
    rows: 64,
    columns: 16,
    depth: 128,
    tasks: 1,
    registers: [0, 0],
    b_transposed: true,
    bulk: false,
    ..PLAIN
};
const SHORT: Whole =
    Whole { rows: 64, columns: 64, depth: 256, stages: 2, tasks: 1, registers: [0, 0], ..PLAIN };

fn whole_product<T: Sample + Factor<Sum = f32> + Float>(trial: &mut Trial<'_>) -> Verdict {
    let (plain, narrow, short) = (PLAIN, NARROW, SHORT);
    whole::<T, T>(trial, plain, 3)?;
    whole::<T, f32>(trial, Whole { columns: 64, ..plain }, 2)?;
    whole::<T, T>(trial, narrow, 5)?;
    // Results wait for the next tile: of several steps, and of one; and where a program has no
    // tile.
    whole::<T, T>(trial, Whole { held: true, ..plain }, 3)?;
    whole::<T, T>(trial, Whole { held: true, ..short }, 5)?;
    whole::<T, T>(trial, Whole { held: true, ..short }, 14)?;
    // Each program begins elsewhere, alone and with the other of its cluster.
    let staggered = Whole { group: 0, staggered: true, ..narrow };
    whole::<T, T>(trial, staggered, 0)?;
    whole::<T, T>(trial, Whole { cluster: 2, ..staggered }, 0)?;
    for (side_by_side, a_transposed) in [(false, false), (true, false), (true, true), (false, true)] {
        let plan = Whole { cluster: 2, side_by_side, a_transposed, b_transposed: !a_transposed, ..plain };
        whole::<T, T>(trial, plan, 4)?;
    }
    Ok(())
}

/// Stream-K: fewer tiles than programs, as many, and more; shares of several tiles, of a part of
/// one, and empty ones; results that wait, and f32.
fn divided_by_steps<T: Sample + Factor<Sum = f32> + Float>(trial: &mut Trial<'_>) -> Verdict {
    let (one, two) = (Whole { streamed: 1, ..PLAIN }, Whole { streamed: 2, ..PLAIN });
    // Four tiles of three steps.
    for programs in [3, 4, 5, 8, 13] {
        whole::<T, T>(trial, one, programs)?;
    }
    whole::<T, T>(trial, Whole { held: true, ..one }, 3)?;
    whole::<T, T>(trial, Whole { held: true, ..two }, 3)?;
    whole::<T, f32>(trial, Whole { columns: 64, ..two }, 4)?;
    // Of one step.
    whole::<T, T>(trial, Whole { held: true, streamed: 1, ..SHORT }, 5)?;
    whole::<T, T>(trial, Whole { streamed: 1, ..SHORT }, 14)?;
    // 36 tiles of two steps, stored by threads.
    whole::<T, T>(trial, Whole { streamed: 2, ..NARROW }, 7)?;
    for programs in [1, 3, 5] {
        stack_divided_by_steps::<T>(trial, two, programs)?;
    }
    Ok(())
}

/// Two matrices by one, six tiles of three steps, and a number for each column added to the sums.
fn stack_divided_by_steps<T: Sample + Factor<Sum = f32> + Float>(
    trial: &mut Trial<'_>,
    plan: Whole,
    programs: u32,
) -> Verdict {
    let plan = Whole { stack: true, shared: [false, true], ..plan };
    let [products, m, n, k] = [2, 40, 136, 136];
    let (a, xs) = trial.input::<T, 3>([products, m, k])?;
    let (b, ys) = trial.input::<T, 3>([1, k, n])?;
    let (values, terms) = trial.input::<f32, 1>([n])?;
    let mut c = trial.output::<f32, 3>([products, m, n])?;
    let plan = Whole { columns: 64, ..plan };
    let mut parts = trial.output::<f32, 1>([plan.parts(programs as usize)])?;
    let mut signals = trial.device.zeros([programs as usize * plan.tasks])?;
    let epilogue = Vector { values, along: Along::Columns, combined: Combined::Term };
    hopper::stream_k::<T, T, f32, Vector<f32>>(&a, &b, &mut c, &mut parts, &mut signals, epilogue, plan)
        .grid([programs])
        .launch(trial.device)?;
    // Rows of a stack are those of one matrix.
    let shape @ [rows, ..] = [products * m, n, k];
    let (x, y) = (by_rows(&xs, [rows, k], false), by_rows(&ys, [k, n], false));
    let sums = kiln_reference::product(&x, &y, shape, Host::Float(0.0));
    let expected: Vec<Host> = sums.iter().enumerate().map(|(i, sum)| sum.add(terms[i % n].host())).collect();
    holds_near(&format!("a stack by {programs} programs"), &c, &expected, 256.0, 16.0)
}

fn whole<T: Sample + Factor<Sum = f32> + Float, O: Sample + Float>(
    trial: &mut Trial<'_>,
    plan: Whole,
    programs: u32,
) -> Verdict {
    let [m, n, k] = [200, 136, 136];
    let (a, xs) = trial.input::<T, 2>(if plan.a_transposed { [k, m] } else { [m, k] })?;
    let (b, ys) = trial.input::<T, 2>(if plan.b_transposed { [n, k] } else { [k, n] })?;
    let c = trial.output::<O, 2>([m, n])?;
    let down = m.div_ceil(plan.rows * plan.cluster) * plan.cluster;
    let grid = if plan.group == 0 { [down as u32, n.div_ceil(plan.columns) as u32] } else { [programs, 1] };
    let (a, b, mut stack) = (a.stacked(), b.stacked(), c.stacked());
    if plan.streamed > 0 {
        let mut parts = trial.output::<f32, 1>([plan.parts(programs as usize)])?;
        let mut signals = trial.device.zeros([programs as usize * plan.tasks])?;
        // The first launch leaves the signals as the second one expects them.
        for _ in 0..2 {
            let stack = &mut stack;
            hopper::stream_k::<T, T, O, Identity>(&a, &b, stack, &mut parts, &mut signals, Identity, plan)
                .grid(grid)
                .launch(trial.device)?;
            let left = signals.to_vec()?;
            ensure(left.iter().all(|&s| s == 0), || format!("{plan:?}: signals are left: {left:?}"))?;
        }
    } else {
        hopper::matmul::<T, T, O, Identity>(&a, &b, &mut stack, Identity, plan)
            .grid(grid)
            .launch(trial.device)?;
    }
    let (x, y) = (by_rows(&xs, [m, k], plan.a_transposed), by_rows(&ys, [k, n], plan.b_transposed));
    let expected = kiln_reference::product(&x, &y, [m, n, k], Host::Float(0.0));
    // Sums of f32 differ by their order.
    let ulps = if O::EPSILON < 1e-6 { 256.0 } else { 4.0 };
    holds_near(&format!("{plan:?}"), &c, &expected, ulps, 16.0)
}

/// Copies boxes of a tensor of rank 3 into the place of others: what lies outside is zero on the
/// way in and dropped on the way out.
#[kernel(crate = kiln_runtime)]
fn shift<T: Num>(x: &Tensor<T, 3>, y: &mut Tensor<T, 3>, columns: usize) {
    let tile = shared_tiles::<T>(1, 8, columns);
    let done = mbarriers(1, 1);
    let (plane, row) = (program_id(1), program_id(0) * 8);
    done.at(0).expect(8 * columns * size_of::<T>());
    tile.at(0).load(x, (plane, row - 3, -8), done.at(0));
    done.at(0).wait(0);
    // SAFETY: every program has rows of its own.
    unsafe { tile.at(0).store(y, (plane, row, 0)) };
    store_wait(0);
}

fn copies_of_boxes<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let [planes, rows, columns] = [3, 21, 72];
    let (x, data) = trial.input::<T, 3>([planes, rows, columns])?;
    let mut y = trial.output::<T, 3>([planes, rows, columns])?;
    shift(&x, &mut y, 128).grid([rows.div_ceil(8) as u32, planes as u32]).warps(4).launch(trial.device)?;
    let element = |i: usize| {
        let (plane, row, column) = (i / columns / rows, i / columns % rows, i % columns);
        match row >= 3 && column >= 8 {
            true => data[(plane * rows + row - 3) * columns + column - 8].host(),
            false => T::small(0).host(),
        }
    };
    let expected: Vec<Host> = list(0..planes * rows * columns, element);
    holds_near("moved", &y, &expected, 0.0, 0.0)
}
