//! Targets whose warps have other than 32 threads.

use crate::harness::*;
use crate::kernels::SOFTMAX;
use kiln_compiler::{Target, lower_to_threads};
use kiln_ir::{Level, OpKind, Scalar, ShuffleMode};

const WIDTHS: [u32; 3] = [8, 16, 64];

const REDUCTIONS: &str = "
kernel @reductions(%x: view<f32, 2, global> {$0}, %y: mut view<f32, 1, global> {$1}, %z: mut view<i64, 1, global> {$2}) tile {
  %0 = const 0 : i64
  %1 = const 0.0 : f32
  %2 = load %x[%0, %0] pad %1 : f32[32, 64]
  %3 = reduce.sum %2 axis 1 : f32[32]
  %4 = reduce.argmax %2 axis 0 : i64[64]
  store.disjoint %y[%0] = %3
  store.disjoint %z[%0] = %4
}
";

const SCAN: &str = "
kernel @scan(%x: view<i32, 1, global> {$0}, %y: mut view<i32, 1, global> {$1}, %z: mut view<i32, 1, global> {$2}) tile {
  %0 = const 0 : i64
  %1 = const 0 : i32
  %2 = load %x[%0] pad %1 : i32[1024]
  %3 = scan.sum %2 axis 0 : i32[1024]
  %4 = scan.max.reverse.exclusive %2 axis 0 : i32[1024]
  store.disjoint %y[%0] = %3
  store.disjoint %z[%0] = %4
}
";

/// Stores columns where rows were loaded, so that threads exchange a tile.
const TRANSPOSE: &str = "
kernel @transpose(%x: view<f32, 2, global> {$0}, %y: mut view<f32, 2, global> {$1}) tile {
  %0 = const 0 : i64
  %1 = const 0.0 : f32
  %2 = load %x[%0, %0] pad %1 : f32[64, 64]
  %3 = transpose %2 [1, 0] : f32[64, 64]
  store.disjoint %y[%0, %0] = %3
}
";

#[test]
fn softmax_by_warps_of_any_width() {
    for columns in [4096, 4000, 37] {
        let buffers = vec![
            buffer(Scalar::F32, &[3, columns], Fill::Random),
            buffer(Scalar::F32, &[3, columns], Fill::Poison),
        ];
        let case = Case::new(SOFTMAX, 3, buffers).within(1e-6);
        WIDTHS.into_iter().for_each(|width| case.check_warps_of(width));
    }
}

#[test]
fn reductions_by_warps_of_any_width() {
    let buffers = vec![
        buffer(Scalar::F32, &[32, 64], Fill::Random),
        buffer(Scalar::F32, &[32], Fill::Poison),
        buffer(Scalar::I64, &[64], Fill::Poison),
    ];
    let case = Case::new(REDUCTIONS, 1, buffers).within(1e-5);
    WIDTHS.into_iter().for_each(|width| case.check_warps_of(width));
}

#[test]
fn scans_by_warps_of_any_width() {
    for n in [1024, 1000] {
        let out = || buffer(Scalar::I32, &[n], Fill::Poison);
        let case = Case::new(SCAN, 1, vec![buffer(Scalar::I32, &[n], Fill::Random), out(), out()]);
        WIDTHS.into_iter().for_each(|width| case.check_warps_of(width));
    }
}

#[test]
fn exchanges_by_warps_of_any_width() {
    let buffers =
        vec![buffer(Scalar::F32, &[64, 61], Fill::Random), buffer(Scalar::F32, &[61, 64], Fill::Poison)];
    let case = Case::new(TRANSPOSE, 1, buffers);
    WIDTHS.into_iter().for_each(|width| case.check_warps_of(width));
}

/// A target that computes indices in 64 bits gets the arithmetic of the kernel.
#[test]
fn indices_of_64_bits_do_what_those_of_32_do() {
    let buffers =
        vec![buffer(Scalar::F32, &[64, 61], Fill::Random), buffer(Scalar::F32, &[61, 64], Fill::Poison)];
    Case::new(TRANSPOSE, 1, buffers).check_indices();
    let out = || buffer(Scalar::I32, &[1000], Fill::Poison);
    let buffers = vec![buffer(Scalar::I32, &[1000], Fill::Random), out(), out()];
    Case::new(SCAN, 1, buffers).check_indices();
}

/// The block has as many threads whatever the width, and lanes shuffle among as many as there are.
#[test]
fn wide_warps_shuffle_further() {
    let buffers =
        vec![buffer(Scalar::F32, &[3, 4000], Fill::Random), buffer(Scalar::F32, &[3, 4000], Fill::Poison)];
    let kernel = Case::new(SOFTMAX, 3, buffers).kernel(None, true);
    for width in [8, 32, 64] {
        let target = Target { warp: width, max_threads: 1024, ..Target::portable(width, 64 << 10) };
        let lowered = lower_to_threads(&kernel, &target).unwrap();
        assert_eq!(lowered.level, Level::Thread { block: [256, 1, 1] });
        let mut furthest = 0;
        lowered.walk(|_, data| {
            if data.kind == OpKind::Shuffle(ShuffleMode::Xor) {
                let by = lowered.as_const(data.lane()).map_or(0, |by| by.as_i128());
                furthest = furthest.max(by);
            }
        });
        assert_eq!(furthest, i128::from(width / 2), "{lowered}");
    }
}
