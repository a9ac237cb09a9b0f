//! Warpgroup products of what is not 16 bits wide: tf32, 8-bit floats and 8-bit integers, whose
//! factors lie along the inner extent.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds_near};
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample, by_rows};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["explicit::narrow":
        floats_of_8_bits;
        tf32;
        integers_of_8_bits;
        in_pieces for E4M3 E5M2;
    ]
}

/// Extents of a program's tile.
const TILE: usize = 64;
/// Bytes of a row of a stage.
const ROW: usize = 128;

/// c = a · bᵀ, a tile a program, in two stages. With two levels of sums, every stage's product is
/// added to the sum by itself.
#[kernel(crate = kiln_runtime)]
fn product<T: Elem, U: Elem, S: Num>(
    a: &Tensor<T, 2>,
    b: &Tensor<U, 2>,
    c: &mut Tensor<S, 2>,
    two_level: bool,
) {
    let depth = ROW / size_of::<T>();
    let (left, right) = (shared_tiles::<T>(2, TILE, depth), shared_tiles::<U>(2, TILE, depth));
    let (full, empty) = (mbarriers(2, 1), mbarriers(2, 1));
    let (row, column) = (program_id(0) * TILE, program_id(1) * TILE);
    let steps = (a.extent(1) + (depth - 1)) / depth;
    tasks()
        .task(4, 40, || {
            for step in range(0, steps) {
                let (stage, at) = (step % 2, step * depth);
                empty.at(stage).wait(step / 2 - 1);
                full.at(stage).expect(2 * TILE * ROW);
                left.at(stage).load(a, (row, at), full.at(stage));
                right.at(stage).load(b, (column, at), full.at(stage));
            }
        })
        .task(4, 200, || {
            let mut sum = zeros::<S>((TILE, TILE));
            for step in range(0, steps) {
                let stage = step % 2;
                full.at(stage).wait(step / 2);
                let (x, y) = (left.at(stage), right.at(stage).transposed());
                if two_level {
                    sum += wgmma_wait(wgmma(x, y, zeros::<S>((TILE, TILE)), false), 0);
                } else {
                    sum = wgmma_wait(wgmma(x, y, sum, true), 0);
                }
                empty.at(stage).arrive();
            }
            c.tile((row, column), (TILE, TILE)).store(sum);
        })
        .run();
}

/// Runs it; `seen` is what matrix units see of an element, and a result may be off by so many units
/// of its type at a size of 64.
fn check<T: Sample, U: Sample, S: Sample + Num>(
    trial: &mut Trial<'_>,
    [m, n, k]: [usize; 3],
    seen: impl Fn(Host) -> Host,
    (two_level, ulps): (bool, f64),
) -> Verdict {
    let (a, xs) = trial.input::<T, 2>([m, k])?;
    let (b, ys) = trial.input::<U, 2>([n, k])?;
    let mut c = trial.output::<S, 2>([m, n])?;
    let grid = [m.div_ceil(TILE) as u32, n.div_ceil(TILE) as u32];
    product(&a, &b, &mut c, two_level).grid(grid).launch(trial.device)?;
    let seen = |all: Vec<Host>| -> Vec<Host> { all.into_iter().map(&seen).collect() };
    let (x, y) = (seen(by_rows(&xs, [m, k], false)), seen(by_rows(&ys, [k, n], true)));
    let expected = kiln_reference::product(&x, &y, [m, n, k], S::small(0).host());
    holds_near("a b", &c, &expected, ulps, 64.0)
}

/// Units of f32 that a sum of products of 8-bit floats may be off: tensor cores keep fewer bits of
/// it while they add.
const COARSE: f64 = 16384.0;

fn floats_of_8_bits(trial: &mut Trial<'_>) -> Verdict {
    let same = |x| x;
    check::<E4M3, E4M3, f32>(trial, [64, 64, 128], same, (false, COARSE))?;
    check::<E5M2, E5M2, f32>(trial, [72, 80, 272], same, (false, COARSE))?;
    check::<E4M3, E5M2, f32>(trial, [65, 3, 400], same, (false, COARSE))?;
    check::<E5M2, E4M3, f32>(trial, [8, 127, 16], same, (false, COARSE))
}

fn in_pieces<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    check::<T, T, f32>(trial, [72, 80, 272], |x| x, (true, COARSE))
}

fn tf32(trial: &mut Trial<'_>) -> Verdict {
    // The last 13 bits do not count; what is left is multiplied exactly.
    let cut = |x: Host| Host::Float(f64::from(f32::from_bits((x.float() as f32).to_bits() & !0x1fff)));
    check::<f32, f32, f32>(trial, [64, 64, 32], cut, (false, 64.0))?;
    check::<f32, f32, f32>(trial, [72, 80, 100], cut, (false, 64.0))
}

fn integers_of_8_bits(trial: &mut Trial<'_>) -> Verdict {
    let same = |x| x;
    check::<i8, i8, i32>(trial, [64, 64, 128], same, (false, 0.0))?;
    check::<u8, u8, i32>(trial, [72, 80, 272], same, (false, 0.0))?;
    check::<i8, u8, i32>(trial, [65, 3, 400], same, (false, 0.0))?;
    check::<u8, i8, i32>(trial, [8, 127, 16], same, (false, 0.0))
}
