//! Layouts that meet: transposes, broadcasts, reshapes and what is computed again instead of moved.

use crate::harness::*;
use kiln_ir::{OpKind, Scalar, Space};

fn transpose(rows: u32, columns: u32, elem: Scalar) -> String {
    format!(
        "kernel @t(%x: view<{elem}, 2, global> {{$0}}, %y: mut view<{elem}, 2, global> {{$1}}) tile {{
  %0 = program_id x : i64
  %1 = const {columns} : i64
  %2 = mul %0, %1 : i64
  %3 = const 0 : i64
  %4 = const {} : {elem}
  %5 = load %x[%3, %2] pad %4 : {elem}[{rows}, {columns}]
  %6 = transpose %5 [1, 0] : {elem}[{columns}, {rows}]
  store.disjoint %y[%2, %3] = %6
}}
",
        if elem.is_float() { "0.0" } else { "0" }
    )
}

#[test]
fn transposes() {
    for elem in [Scalar::F32, Scalar::F16, Scalar::I64] {
        for (rows, columns) in [(32, 32), (64, 16), (8, 128), (64, 64)] {
            let buffers = vec![
                buffer(elem, &[rows as u64, 2 * columns as u64], Fill::Random),
                buffer(elem, &[2 * columns as u64, rows as u64], Fill::Poison),
            ];
            Case::new(&transpose(rows, columns, elem), 2, buffers).check();
        }
    }
}

#[test]
fn a_transpose_goes_through_scratch_and_both_sides_move_vectors() {
    let buffers =
        vec![buffer(Scalar::F32, &[64, 128], Fill::Random), buffer(Scalar::F32, &[128, 64], Fill::Poison)];
    let text = transpose(64, 64, Scalar::F32);
    let lowered = lower(&Case::new(&text, 2, buffers).kernel(None, true));
    let wide = |k: &OpKind| {
        matches!(
            k,
            OpKind::PtrLoad { space: Space::Global, lanes: 4, .. }
                | OpKind::PtrStore { space: Space::Global, lanes: 4, .. }
        )
    };
    // 64 * 64 elements over 256 threads are 4 vectors each way.
    assert_eq!(count(&lowered, wide), 8, "{lowered}");
    assert_eq!(count(&lowered, |k| *k == OpKind::Barrier), 1);
    assert!(lowered.scratch_bytes > 64 * 64 * 4);
}

#[test]
fn broadcasts_of_rows_and_columns() {
    let text = "
kernel @k(%x: view<f32, 1, global> {$0}, %y: view<f32, 1, global> {$1}, %z: mut view<f32, 2, global> {$2}) tile {
  %0 = const 0 : i64
  %1 = const 1.5 : f32
  %2 = load %x[%0] pad %1 : f32[32]
  %3 = load %y[%0] pad %1 : f32[64]
  %4 = reshape %2 : f32[32, 1]
  %5 = reshape %3 : f32[1, 64]
  %6 = broadcast %4 : f32[32, 64]
  %7 = broadcast %5 : f32[32, 64]
  %8 = mul %6, %7 : f32[32, 64]
  store.disjoint %z[%0, %0] = %8
  %9 = reduce.sum %8 axis 1 : f32[32]
  %10 = add %9, %2 : f32[32]
  %11 = reshape %10 : f32[32, 1]
  %12 = const 64 : i64
  store.disjoint %z[%0, %12] = %11
}
";
    let buffers = vec![
        buffer(Scalar::F32, &[30], Fill::Random),
        buffer(Scalar::F32, &[64], Fill::Random),
        buffer(Scalar::F32, &[32, 65], Fill::Poison),
    ];
    Case::new(text, 1, buffers).within(1e-5).check();
}

#[test]
fn indices_and_masks_are_computed_where_they_are_needed() {
    let text = "
kernel @k(%x: view<i32, 2, global> {$0}, %y: mut view<i32, 2, global> {$1}) tile {
  %0 = const 0 : i64
  %1 = const 0 : i32
  %2 = load %x[%0, %0] pad %1 : i32[16, 64]
  %3 = iota : i32[16]
  %4 = reshape %3 : i32[16, 1]
  %5 = broadcast %4 : i32[16, 64]
  %6 = iota : i32[64]
  %7 = reshape %6 : i32[1, 64]
  %8 = broadcast %7 : i32[16, 64]
  %9 = le %5, %8 : bool[16, 64]
  %10 = const -1 : i32[16, 64]
  %11 = select %9, %2, %10 : i32[16, 64]
  %12 = transpose %11 [1, 0] : i32[64, 16]
  %13 = transpose %9 [1, 0] : bool[64, 16]
  %14 = const 7 : i32[64, 16]
  %15 = select %13, %12, %14 : i32[64, 16]
  store.disjoint %y[%0, %0] = %15
}
";
    let buffers =
        vec![buffer(Scalar::I32, &[16, 64], Fill::Random), buffer(Scalar::I32, &[64, 16], Fill::Poison)];
    Case::new(text, 1, buffers).check();
}

#[test]
fn three_axes_in_every_order() {
    for (perm, to) in [
        ([0, 2, 1], [4u64, 16, 8]),
        ([1, 0, 2], [8, 4, 16]),
        ([1, 2, 0], [8, 16, 4]),
        ([2, 0, 1], [16, 4, 8]),
        ([2, 1, 0], [16, 8, 4]),
    ] {
        let text = format!(
            "kernel @k(%x: view<i32, 3, global> {{$0}}, %y: mut view<i32, 3, global> {{$1}}) tile {{
  %0 = const 0 : i64
  %1 = const 0 : i32
  %2 = load %x[%0, %0, %0] pad %1 : i32[4, 8, 16]
  %3 = transpose %2 {perm:?} : i32{to:?}
  %4 = add %3, %3 : i32{to:?}
  store.disjoint %y[%0, %0, %0] = %4
}}
"
        );
        let buffers =
            vec![buffer(Scalar::I32, &[4, 8, 16], Fill::Random), buffer(Scalar::I32, &to, Fill::Poison)];
        Case::new(&text, 1, buffers).check();
    }
}

#[test]
fn reshapes_keep_the_order() {
    let text = "
kernel @k(%x: view<f32, 2, global> {$0}, %y: mut view<f32, 1, global> {$1}, %z: mut view<f32, 2, global> {$2}) tile {
  %0 = const 0 : i64
  %1 = const 0.0 : f32
  %2 = load %x[%0, %0] pad %1 : f32[16, 32]
  %3 = reshape %2 : f32[512]
  %4 = add %3, %3 : f32[512]
  store.disjoint %y[%0] = %4
  %5 = transpose %2 [1, 0] : f32[32, 16]
  %6 = reshape %5 : f32[64, 8]
  store.disjoint %z[%0, %0] = %6
}
";
    let buffers = vec![
        buffer(Scalar::F32, &[16, 31], Fill::Random),
        buffer(Scalar::F32, &[512], Fill::Poison),
        buffer(Scalar::F32, &[64, 8], Fill::Poison),
    ];
    Case::new(text, 1, buffers).check();
}

#[test]
fn indices_in_64_bits_against_any_bound() {
    // Every comparison, with bounds inside and far outside what the indices reach.
    let text = "
kernel @k(%y: mut view<i32, 2, global> {$0}, %n: i64) tile {
  %0 = iota : i64[64]
  %1 = const 3 : i64[64]
  %2 = mul %0, %1 : i64[64]
  %3 = const 20 : i64[64]
  %4 = sub %2, %3 : i64[64]
  %5 = broadcast %n : i64[64]
  %6 = lt %4, %5 : bool[64]
  %7 = le %4, %5 : bool[64]
  %8 = eq %4, %5 : bool[64]
  %9 = gt %4, %5 : bool[64]
  %10 = ge %5, %4 : bool[64]
  %11 = ne %5, %4 : bool[64]
  %12 = cast %6 : i32[64]
  %13 = cast %7 : i32[64]
  %14 = cast %8 : i32[64]
  %15 = cast %9 : i32[64]
  %16 = cast %10 : i32[64]
  %17 = cast %11 : i32[64]
  %18 = const 2 : i32[64]
  %19 = fma %12, %18, %13 : i32[64]
  %20 = fma %19, %18, %14 : i32[64]
  %21 = fma %20, %18, %15 : i32[64]
  %22 = fma %21, %18, %16 : i32[64]
  %23 = fma %22, %18, %17 : i32[64]
  %24 = reshape %23 : i32[1, 64]
  %25 = const 0 : i64
  store.disjoint %y[%25, %25] = %24
  %26 = cast %4 : f32[64]
  %27 = cast %26 : i32[64]
  %28 = reshape %27 : i32[1, 64]
  %29 = const 1 : i64
  store.disjoint %y[%29, %25] = %28
}
";
    for n in [-21, -20, -19, 0, 100, 169, 170, i64::MIN, i64::MAX, 1 << 32, -(1 << 32)] {
        let buffers = vec![buffer(Scalar::I32, &[2, 64], Fill::Poison)];
        Case { scalars: vec![n as u64], ..Case::new(text, 1, buffers) }.check();
    }
}

#[test]
fn conversions_sink_to_where_tiles_are_smallest() {
    let text = "
kernel @k(%x: view<f16, 2, global> {$0}, %y: mut view<f32, 2, global> {$1}) tile {
  %0 = const 0 : i64
  %1 = const 0.0 : f16
  %2 = load %x[%0, %0] pad %1 : f16[64, 64]
  %3 = cast %2 : f32[64, 64]
  %4 = exp %3 : f32[64, 64]
  %5 = transpose %4 [1, 0] : f32[64, 64]
  store.disjoint %y[%0, %0] = %5
}
";
    let buffers =
        vec![buffer(Scalar::F16, &[64, 64], Fill::Random), buffer(Scalar::F32, &[64, 64], Fill::Poison)];
    let case = Case::new(text, 1, buffers);
    let lowered = lower(&case.kernel(None, true));
    // Half as many bytes as the stored tile has, with padding.
    assert!((64 * 64 * 2..64 * 64 * 3).contains(&lowered.scratch_bytes), "{}", lowered.scratch_bytes);
    case.within(1e-6).check();
}
