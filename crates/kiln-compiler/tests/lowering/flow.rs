//! Control flow that carries tiles, products of matrices, and thread-level kernels.

use crate::harness::*;
use kiln_ir::{OpKind, Scalar};

#[test]
fn loops_and_branches_carry_tiles() {
    let text = "
kernel @k(%x: view<f32, 2, global> {$0}, %y: mut view<f32, 1, global> {$1}) tile {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %2 = extent %x axis 0 : i64
  %3 = const 0.0 : f32
  %4 = const -inf : f32[64]
  %5 = const 0.0 : f32[64]
  %6 = const 0 : i64
  %12, %13, %14 = for %7 = %0 to %2 step %1 carry (%8 = %4, %9 = %5, %10 = %6) : f32[64], f32[64], i64 {
    %15 = load %x[%7, %0] pad %3 : f32[1, 64]
    %16 = reshape %15 : f32[64]
    %17 = max %8, %16 : f32[64]
    %18 = const 2 : i64
    %19 = rem %7, %18 : i64
    %20 = eq %19, %0 : bool
    %21 = if %20 : f32[64] {
      %22 = add %9, %16 : f32[64]
      yield %22
    } else {
      %23 = reduce.sum %16 axis 0 : f32
      %24 = broadcast %23 : f32[64]
      %25 = sub %9, %24 : f32[64]
      yield %25
    }
    %26 = add %10, %1 : i64
    yield %17, %21, %26
  }
  %27 = cast %14 : f32
  %28 = broadcast %27 : f32[64]
  %29 = mul %12, %28 : f32[64]
  %30 = add %29, %13 : f32[64]
  store.disjoint %y[%0] = %30
}
";
    let buffers = vec![buffer(Scalar::F32, &[5, 60], Fill::Random), buffer(Scalar::F32, &[64], Fill::Poison)];
    Case::new(text, 1, buffers).within(1e-4).check();
}

#[test]
fn while_loops_until_a_reduction_says_so() {
    let text = "
kernel @k(%x: view<i32, 1, global> {$0}, %y: mut view<i32, 1, global> {$1}) tile {
  %0 = const 0 : i64
  %1 = const 0 : i32
  %2 = load %x[%0] pad %1 : i32[128]
  %4, %5 = while (%6 = %2, %7 = %1) : i32[128], i32 {
    %8 = reduce.max %6 axis 0 : i32
    %9 = gt %8, %1 : bool
    condition %9
  } do (%10, %11) {
    %12 = const 1 : i32[128]
    %13 = shr %10, %12 : i32[128]
    %14 = const 1 : i32
    %15 = add %11, %14 : i32
    yield %13, %15
  }
  %16 = broadcast %5 : i32[128]
  %17 = add %4, %16 : i32[128]
  store.disjoint %y[%0] = %17
}
";
    let buffers = vec![buffer(Scalar::I32, &[128], Fill::Random), buffer(Scalar::I32, &[128], Fill::Poison)];
    Case::new(text, 1, buffers).check();
}

fn product(m: u32, n: u32, k: u32, elem: Scalar, acc: Scalar) -> String {
    let zero = |e: Scalar| if e.is_float() { "0.0" } else { "0" };
    format!(
        "kernel @mm(%a: view<{elem}, 2, global> {{$0}}, %b: view<{elem}, 2, global> {{$1}}, %c: mut view<{acc}, 2, global> {{$2}}) tile {{
  %0 = program_id x : i64
  %1 = const {m} : i64
  %2 = mul %0, %1 : i64
  %3 = const 0 : i64
  %4 = const {k} : i64
  %5 = extent %a axis 1 : i64
  %6 = const {} : {elem}
  %7 = const {} : {acc}[{m}, {n}]
  %10 = for %8 = %3 to %5 step %4 carry (%9 = %7) : {acc}[{m}, {n}] {{
    %11 = load %a[%2, %8] pad %6 : {elem}[{m}, {k}]
    %12 = load %b[%8, %3] pad %6 : {elem}[{k}, {n}]
    %13 = dot %11, %12, %9 : {acc}[{m}, {n}]
    yield %13
  }}
  store.disjoint %c[%2, %3] = %10
}}
",
        zero(elem),
        zero(acc)
    )
}

#[test]
fn products_of_every_type_and_size() {
    for (m, n, k) in [(16, 16, 16), (32, 64, 8), (64, 32, 32), (2, 32, 4), (32, 2, 1), (1, 1, 64)] {
        for (elem, acc) in [
            (Scalar::F32, Scalar::F32),
            (Scalar::F16, Scalar::F32),
            (Scalar::BF16, Scalar::F32),
            (Scalar::F64, Scalar::F64),
            (Scalar::I32, Scalar::I32),
            (Scalar::U64, Scalar::U64),
        ] {
            let (rows, columns) = (2 * m as u64 - 1, n as u64);
            let buffers = vec![
                buffer(elem, &[rows, 50], Fill::Random),
                buffer(elem, &[50, columns], Fill::Random),
                buffer(acc, &[rows, columns], Fill::Poison),
            ];
            let text = product(m, n, k, elem, acc);
            Case::new(&text, 2, buffers).within(1e-4).check_with(&[None, Some(2)], &[true]);
        }
    }
}

#[test]
fn a_product_synchronizes_twice_an_iteration() {
    let buffers = vec![
        buffer(Scalar::F32, &[64, 64], Fill::Random),
        buffer(Scalar::F32, &[64, 64], Fill::Random),
        buffer(Scalar::F32, &[64, 64], Fill::Poison),
    ];
    let text = product(64, 64, 32, Scalar::F32, Scalar::F32);
    let lowered = lower(&Case::new(&text, 1, buffers).kernel(None, true));
    assert_eq!(count(&lowered, |k| *k == OpKind::Barrier), 2, "{lowered}");
}

#[test]
fn division_by_zero_is_the_same_fault() {
    let text = "
kernel @k(%x: view<i32, 1, global> {$0}, %y: mut view<i32, 1, global> {$1}) tile {
  %0 = const 0 : i64
  %1 = const 1 : i32
  %2 = load %x[%0] pad %1 : i32[64]
  %3 = const 10 : i32[64]
  %4 = div %3, %2 : i32[64]
  store.disjoint %y[%0] = %4
}
";
    let run = |fill| {
        let buffers = vec![buffer(Scalar::I32, &[64], fill), buffer(Scalar::I32, &[64], Fill::Poison)];
        let case = Case::new(text, 1, buffers);
        let kernel = case.kernel(None, true);
        (case.run(&kernel), case.run(&lower(&kernel)))
    };
    let (tiles, threads) = run(Fill::Zero);
    assert!(tiles.unwrap_err().starts_with("integer division by zero"));
    assert!(threads.unwrap_err().starts_with("integer division by zero"));
    let (tiles, threads) = run(Fill::One);
    assert_eq!(tiles.unwrap(), threads.unwrap());
}

#[test]
fn assertions_of_tiles() {
    let text = "
kernel @k(%x: view<i32, 1, global> {$0}) tile {
  %0 = const 0 : i64
  %1 = const 3 : i32
  %2 = load %x[%0] pad %1 : i32[64]
  %3 = const 0 : i32[64]
  %4 = gt %2, %3 : bool[64]
  %5 = extent %x axis 0 : i64
  assert %4, \"all of {} are positive\", %5
}
";
    for (fill, fails) in [(Fill::One, false), (Fill::Zero, true)] {
        let case = Case::new(text, 1, vec![buffer(Scalar::I32, &[60], fill)]);
        let kernel = case.kernel(None, true);
        for kernel in [&kernel, &lower(&kernel)] {
            match case.run(kernel) {
                Ok(_) => assert!(!fails),
                Err(e) => assert!(fails && e.contains("all of 60 are positive"), "{e}"),
            }
        }
    }
}

#[test]
fn thread_level_kernels_keep_their_block() {
    let text = "
kernel @k(%x: view<f32, 1, global> {$0}, %y: mut view<f32, 1, global> {$1}) thread [64, 1, 1] {
  %0 = thread_id x : i64
  %1 = program_id x : i64
  %2 = block_dim x : i64
  %3 = mul %1, %2 : i64
  %4 = add %3, %0 : i64
  %5 = alloc shared f32[64] : view<f32, 1, shared>
  %6 = const 0.0 : f32
  %7 = gather.mask %x[%4] pad %6 : f32
  scatter.trust %5[%0] = %7
  barrier
  %8 = const 63 : i64
  %9 = sub %8, %0 : i64
  %10 = gather.trust %5[%9] pad %6 : f32
  scatter.mask %y[%4] = %10
}
";
    let buffers = vec![buffer(Scalar::F32, &[150], Fill::Random), buffer(Scalar::F32, &[150], Fill::Poison)];
    let case = Case::new(text, 3, buffers);
    case.check();
    let lowered = lower(&case.kernel(None, true));
    assert_eq!(lowered.level, kiln_ir::Level::Thread { block: [64, 1, 1] });
    assert_eq!(count(&lowered, |k| *k == OpKind::Barrier), 1);
}

#[test]
fn tiles_in_a_kernel_over_threads() {
    let text = "
kernel @k(%x: view<f32, 1, global> {$0}, %y: mut view<f32, 1, global> {$1}) thread [16, 8, 1] {
  %0 = const 0 : i64
  %1 = const 0.0 : f32
  %2 = load %x[%0] pad %1 : f32[256]
  %3 = reduce.sum %2 axis 0 : f32
  %4 = thread_id x : i64
  %5 = thread_id y : i64
  %6 = const 16 : i64
  %7 = mul %5, %6 : i64
  %8 = add %7, %4 : i64
  %9 = cast %8 : f32
  %10 = add %3, %9 : f32
  scatter.mask %y[%8] = %10
}
";
    let buffers = vec![buffer(Scalar::F32, &[200], Fill::Random), buffer(Scalar::F32, &[128], Fill::Poison)];
    Case::new(text, 1, buffers).within(1e-4).check();
}

#[test]
fn a_tile_of_one_element_is_the_blocks_own() {
    let text = "
kernel @k(%x: view<i32, 1, global> {$0}, %y: mut view<i32, 1, global> {$1}, %z: mut view<i32, 1, global> {$2}) thread [64, 1, 1] {
  %0 = const 0 : i64
  %1 = const 0 : i32
  %2 = load %x[%0] pad %1 : i32[64]
  %3 = reduce.sum %2 axis 0 : i32
  %4 = reshape %3 : i32[1]
  store.disjoint %y[%0] = %4
  %5 = const 0 : i64[1]
  %6 = atomic.add.device.mask %z[%5] = %4 : i32[1]
  %7 = const 1 : i64[1]
  scatter.mask %y[%7] = %6
}
";
    let buffers = vec![
        buffer(Scalar::I32, &[60], Fill::Random),
        buffer(Scalar::I32, &[2], Fill::Poison),
        buffer(Scalar::I32, &[1], Fill::One),
    ];
    Case::new(text, 1, buffers).check();
}
