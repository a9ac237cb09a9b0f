//! Tiles between registers and shared tiles: factors that products take from registers, results
//! that are packed by pairs.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds_near};
use half::{bf16, f16};
use kiln_kernels::matmul::Factor;
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample, by_rows, product};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["explicit::registers":
        factor_in_registers for f16 bf16 E4M3 E5M2 i8 u8;
        packed_results for f16 bf16;
        by_the_layout_of_memory for f16 bf16 f32 i32;
    ]
}

/// Rows of a factor.
const ROWS: usize = 64;
/// Bytes of a row of a stage.
const ROW: usize = 128;

/// c = a · bᵀ, a tile of 64 × 128 a program, one half of the columns after the other: both take the
/// rows of a from the same registers.
#[kernel(crate = kiln_runtime)]
fn in_halves<T: Factor>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T::Sum, 2>) {
    let depth = ROW / size_of::<T>();
    let (left, right) = (shared_tiles::<T>(1, ROWS, depth), shared_tiles::<T>(2, ROWS, depth));
    let (full, empty) = (mbarriers(1, 1), mbarriers(1, 1));
    let (row, column) = (program_id(0) * ROWS, program_id(1) * (2 * ROWS));
    let steps = (a.extent(1) + (depth - 1)) / depth;
    tasks()
        .task(4, 40, || {
            for step in range(0, steps) {
                empty.at(0).wait(step - 1);
                full.at(0).expect(3 * ROWS * ROW);
                left.at(0).load(a, (row, step * depth), full.at(0));
                for half in 0..2 {
                    right.at(half).load(b, (column + half * ROWS, step * depth), full.at(0));
                }
            }
        })
        .task(4, 200, || {
            let none = || zeros::<T::Sum>((ROWS, ROWS));
            let (mut first, mut second) = (none(), none());
            for step in range(0, steps) {
                full.at(0).wait(step);
                let rows = left.at(0).words();
                let product = |half: usize| wgmma_registers(rows, right.at(half).transposed(), none(), false);
                first += wgmma_wait(product(0), 0);
                second += wgmma_wait(product(1), 0);
                empty.at(0).arrive();
            }
            c.tile((row, column), (ROWS, ROWS)).store(first);
            c.tile((row, column + ROWS), (ROWS, ROWS)).store(second);
        })
        .run();
}

fn factor_in_registers<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    for [m, n, k] in [[64, 128, 128], [72, 200, 336]] {
        let (a, xs) = trial.input::<T, 2>([m, k])?;
        let (b, ys) = trial.input::<T, 2>([n, k])?;
        let mut c = trial.output::<T::Sum, 2>([m, n])?;
        let grid = [m.div_ceil(ROWS) as u32, n.div_ceil(2 * ROWS) as u32];
        in_halves(&a, &b, &mut c).grid(grid).launch(trial.device)?;
        let (x, y) = (by_rows(&xs, [m, k], false), by_rows(&ys, [k, n], true));
        let expected = product(&x, &y, [m, n, k], T::Sum::small(0).host());
        // Tensor cores keep fewer bits of sums of 8-bit floats.
        let ulps = if T::EPSILON == 0.0 {
            0.0
        } else if T::BITS == 8 {
            16384.0
        } else {
            64.0
        };
        holds_near("a b", &c, &expected, ulps, 64.0)?;
    }
    Ok(())
}

/// c = a · b of 64 × 64 and 64 × 128, rounded: packed by pairs, put strip by strip, and stored in
/// bulk.
#[kernel(crate = kiln_runtime)]
fn packed<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T, 2>) {
    let (left, right) = (shared_tiles::<T>(1, ROWS, ROWS), shared_tiles::<T>(1, ROWS, 2 * ROWS));
    let (out, full) = (shared_tiles::<T>(2, ROWS, ROWS), mbarriers(1, 1));
    let row = program_id(0) * ROWS;
    tasks()
        .task(4, 40, || {
            full.at(0).expect(3 * ROWS * ROWS * size_of::<T>());
            left.at(0).load(a, (row, 0), full.at(0));
            right.at(0).load(b, (0, 0), full.at(0));
        })
        .task(4, 200, || {
            full.at(0).wait(0);
            let product = wgmma(left.at(0), right.at(0), zeros::<f32>((ROWS, 2 * ROWS)), false);
            let pairs = pack_pairs::<T>(wgmma_wait(product, 0));
            for strip in 0..2 {
                out.at(strip).put_pairs(pairs, strip * ROWS);
            }
            proxy_fence();
            task_barrier();
            for strip in 0..2 {
                // SAFETY: every program has rows of its own.
                unsafe { out.at(strip).store(c, (row, strip * ROWS)) };
            }
            store_wait(0);
        })
        .run();
}

fn packed_results<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [136, 120, 56];
    let (a, xs) = trial.input::<T, 2>([m, k])?;
    let (b, ys) = trial.input::<T, 2>([k, n])?;
    let mut c = trial.output::<T, 2>([m, n])?;
    packed(&a, &b, &mut c).grid([m.div_ceil(ROWS) as u32]).launch(trial.device)?;
    let (x, y) = (by_rows(&xs, [m, k], false), by_rows(&ys, [k, n], false));
    let expected = product(&x, &y, [m, n, k], Host::Float(0.0));
    holds_near("a b", &c, &expected, 4.0, 8.0)
}

/// y = x by way of registers in the layout of memory and a shared tile of some of its columns at a
/// time.
#[kernel(crate = kiln_runtime)]
fn by_strips<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, strips: usize) {
    let width = ROW / size_of::<T>();
    let out = shared_tiles::<T>(strips, ROWS, width);
    tasks()
        .task(4, 0, || {
            for strip in 0..strips {
                let columns = x.tile((program_id(0) * ROWS, strip * width), (ROWS, width)).load(0);
                out.at(strip).put(columns, 0);
            }
            proxy_fence();
            task_barrier();
            for strip in 0..strips {
                // SAFETY: every program has rows of its own.
                unsafe { out.at(strip).store(y, (program_id(0) * ROWS, strip * width)) };
            }
            store_wait(0);
        })
        .run();
}

fn by_the_layout_of_memory<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let [rows, columns] = [72, 104];
    let (x, data) = trial.input::<T, 2>([rows, columns])?;
    let mut y = trial.output::<T, 2>([rows, columns])?;
    let strips = (columns * size_of::<T>()).div_ceil(ROW);
    by_strips(&x, &mut y, strips).grid([rows.div_ceil(ROWS) as u32]).launch(trial.device)?;
    let expected: Vec<Host> = data.iter().map(|x| x.host()).collect();
    holds_near("moved", &y, &expected, 0.0, 0.0)
}
