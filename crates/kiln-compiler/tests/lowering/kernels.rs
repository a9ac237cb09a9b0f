//! Whole kernels, as users write them.

use crate::harness::*;
use kiln_ir::{OpKind, Scalar, Space};

const ADD: &str = "
kernel @add(%x: view<f32, 1, global> {$0}, %y: view<f32, 1, global> {$1}, %z: mut view<f32, 1, global> {$2}) tile {
  %0 = program_id x : i64
  %1 = const 1024 : i64
  %2 = mul %0, %1 : i64
  %3 = const 0.0 : f32
  %4 = load %x[%2] pad %3 : f32[1024]
  %5 = load %y[%2] pad %3 : f32[1024]
  %6 = add %4, %5 : f32[1024]
  store.disjoint %z[%2] = %6
}
";

fn vectors(n: u64) -> Vec<Buffer> {
    vec![
        buffer(Scalar::F32, &[n], Fill::Random),
        buffer(Scalar::F32, &[n], Fill::Random),
        buffer(Scalar::F32, &[n], Fill::Poison),
    ]
}

#[test]
fn add_of_any_length() {
    for n in [4096, 4000, 3001, 1, 1023] {
        Case::new(ADD, (n as u32).div_ceil(1024), vectors(n)).check();
    }
}

#[test]
fn add_uses_vectors_where_rows_are_whole() {
    let lowered = lower(&Case::new(ADD, 4, vectors(4000)).kernel(None, true));
    let loads = |lanes| move |k: &OpKind| matches!(k, OpKind::PtrLoad { space: Space::Global, lanes: l, .. } if *l == lanes);
    assert_eq!((count(&lowered, loads(4)), count(&lowered, loads(1))), (4, 0), "{lowered}");
    assert_eq!(count(&lowered, |k| *k == OpKind::Barrier), 0);
}

#[test]
fn sum_over_a_loop_with_an_atomic() {
    let text = "
kernel @sum(%x: view<f32, 1, global> {$0}, %y: mut view<f32, 1, global> {$1}) tile {
  %0 = program_id x : i64
  %1 = const 2048 : i64
  %2 = mul %0, %1 : i64
  %3 = num_programs x : i64
  %4 = mul %3, %1 : i64
  %5 = extent %x axis 0 : i64
  %6 = const 0.0 : f32[2048]
  %7 = const 0.0 : f32
  %10 = for %8 = %2 to %5 step %4 carry (%9 = %6) : f32[2048] {
    %11 = load %x[%8] pad %7 : f32[2048]
    %12 = add %9, %11 : f32[2048]
    yield %12
  }
  %13 = reduce.sum %10 axis 0 : f32
  %14 = const 0 : i64
  %15 = atomic.add.device.trust %y[%14] = %13 : f32
}
";
    let buffers = vec![buffer(Scalar::F32, &[20000], Fill::Random), buffer(Scalar::F32, &[1], Fill::Zero)];
    Case::new(text, 3, buffers).within(1e-4).check();
}

pub const SOFTMAX: &str = "
kernel @softmax(%x: view<f32, 2, global> {$0}, %y: mut view<f32, 2, global> {$1}) tile {
  %0 = program_id x : i64
  %1 = const 0 : i64
  %2 = const -inf : f32
  %3 = load %x[%0, %1] pad %2 : f32[1, 4096]
  %4 = reshape %3 : f32[4096]
  %5 = reduce.max %4 axis 0 : f32
  %6 = broadcast %5 : f32[4096]
  %7 = sub %4, %6 : f32[4096]
  %8 = exp %7 : f32[4096]
  %9 = reduce.sum %8 axis 0 : f32
  %10 = broadcast %9 : f32[4096]
  %11 = div %8, %10 : f32[4096]
  %12 = reshape %11 : f32[1, 4096]
  store.disjoint %y[%0, %1] = %12
}
";

#[test]
fn softmax_of_a_masked_row() {
    for columns in [4096, 4000, 37] {
        let buffers = vec![
            buffer(Scalar::F32, &[3, columns], Fill::Random),
            buffer(Scalar::F32, &[3, columns], Fill::Poison),
        ];
        Case::new(SOFTMAX, 3, buffers).within(1e-6).check();
    }
}

#[test]
fn softmax_is_small_and_needs_two_barriers() {
    let buffers =
        vec![buffer(Scalar::F32, &[3, 4000], Fill::Random), buffer(Scalar::F32, &[3, 4000], Fill::Poison)];
    let lowered = lower(&Case::new(SOFTMAX, 3, buffers).kernel(None, true));
    assert_eq!(count(&lowered, |k| *k == OpKind::Barrier), 2, "{lowered}");
    let ops = count(&lowered, |_| true);
    // 16 elements a thread, with 5 operations each, the two reductions, and the addresses.
    assert!(ops < 256, "{ops} operations\n{lowered}");
}

#[test]
fn layer_norm_in_bf16() {
    let text = "
kernel @norm(%x: view<bf16, 2, global> {$0}, %w: view<bf16, 1, global> {$1}, %y: mut view<bf16, 2, global> {$2}) tile {
  %0 = program_id x : i64
  %1 = const 0 : i64
  %2 = const 0.0 : bf16
  %3 = load %x[%0, %1] pad %2 : bf16[1, 1024]
  %4 = reshape %3 : bf16[1024]
  %5 = cast %4 : f32[1024]
  %6 = reduce.sum %5 axis 0 : f32
  %7 = extent %x axis 1 : i64
  %8 = cast %7 : f32
  %9 = div %6, %8 : f32
  %10 = broadcast %9 : f32[1024]
  %11 = sub %5, %10 : f32[1024]
  %12 = iota : i64[1024]
  %13 = broadcast %7 : i64[1024]
  %14 = lt %12, %13 : bool[1024]
  %15 = const 0.0 : f32[1024]
  %16 = select %14, %11, %15 : f32[1024]
  %17 = mul %16, %16 : f32[1024]
  %18 = reduce.sum %17 axis 0 : f32
  %19 = div %18, %8 : f32
  %20 = const 0.00001 : f32
  %21 = add %19, %20 : f32
  %22 = rsqrt %21 : f32
  %23 = broadcast %22 : f32[1024]
  %24 = mul %16, %23 : f32[1024]
  %25 = load %w[%1] pad %2 : bf16[1024]
  %26 = cast %25 : f32[1024]
  %27 = mul %24, %26 : f32[1024]
  %28 = cast %27 : bf16[1024]
  %29 = reshape %28 : bf16[1, 1024]
  store.disjoint %y[%0, %1] = %29
}
";
    for columns in [1024, 1000, 77] {
        let buffers = vec![
            buffer(Scalar::BF16, &[2, columns], Fill::Random),
            buffer(Scalar::BF16, &[columns], Fill::Random),
            buffer(Scalar::BF16, &[2, columns], Fill::Poison),
        ];
        Case::new(text, 2, buffers).within(0.01).check();
    }
}

#[test]
fn whole_tiles_use_vectors_although_the_last_is_cut() {
    let lowered = lower(&Case::new(ADD, 3, vectors(3001)).kernel(None, true));
    let loads = |lanes| move |k: &OpKind| matches!(k, OpKind::PtrLoad { space: Space::Global, lanes: l, .. } if *l == lanes);
    assert_eq!((count(&lowered, loads(4)), count(&lowered, loads(1))), (4, 16), "{lowered}");
    assert_eq!(count(&lowered, |k| *k == OpKind::If), 3);
}
