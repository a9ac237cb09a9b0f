//! Values of rank 0 in kernels over tiles, memory of blocks and threads, prints.

use crate::harness::*;
use kiln_ir::{OpKind, Scalar};

#[test]
fn scalars_are_stored_once_and_read_by_all() {
    let text = "
kernel @k(%x: view<i32, 1, global> {$0}, %y: mut view<i32, 1, global> {$1}, %z: mut view<i32, 1, global> {$2}) tile {
  %0 = program_id x : i64
  %1 = const 0 : i32
  %2 = gather.check %x[%0] pad %1 : i32
  %3 = add %2, %2 : i32
  scatter.mask %y[%0] = %3
  %4 = gather.mask %y[%0] pad %1 : i32
  %5 = broadcast %4 : i32[32]
  %6 = const 32 : i64
  %7 = mul %0, %6 : i64
  store.disjoint %z[%7] = %5
}
";
    let buffers = vec![
        buffer(Scalar::I32, &[3], Fill::Random),
        buffer(Scalar::I32, &[3], Fill::Poison),
        buffer(Scalar::I32, &[96], Fill::Poison),
    ];
    let case = Case::new(text, 3, buffers);
    case.check();
    // What thread 0 wrote every thread reads.
    assert_eq!(count(&lower(&case.kernel(Some(4), true)), |k| *k == OpKind::Barrier), 1);
}

#[test]
fn views_without_axes() {
    let text = "
kernel @k(%x: view<f32, 0, global> {$0}, %y: mut view<f32, 0, global> {$1}) tile {
  %0 = const 0.0 : f32
  %1 = load %x[] pad %0 : f32
  %2 = add %1, %1 : f32
  store.disjoint %y[] = %2
}
";
    let buffers = vec![buffer(Scalar::F32, &[], Fill::Random), buffer(Scalar::F32, &[], Fill::Poison)];
    Case::new(text, 1, buffers).check();
}

#[test]
fn tiles_in_memory_of_the_block() {
    let text = "
kernel @k(%x: view<i32, 1, global> {$0}, %y: mut view<i32, 1, global> {$1}) tile {
  %0 = const 0 : i64
  %1 = const 0 : i32
  %2 = alloc shared i32[256] : view<i32, 1, shared>
  %3 = load %x[%0] pad %1 : i32[256]
  store %2[%0] = %3
  %4 = iota : i32[256]
  %5 = const 255 : i32[256]
  %6 = xor %4, %5 : i32[256]
  %7 = gather.trust %2[%6] pad %1 : i32[256]
  store.disjoint %y[%0] = %7
}
";
    let buffers = vec![buffer(Scalar::I32, &[250], Fill::Random), buffer(Scalar::I32, &[256], Fill::Poison)];
    Case::new(text, 1, buffers).check();
}

#[test]
fn memory_of_a_thread() {
    let text = "
kernel @k(%x: view<i32, 1, global> {$0}, %y: mut view<i32, 1, global> {$1}) thread [32, 2, 1] {
  %0 = thread_id x : i64
  %1 = thread_id y : i64
  %2 = const 32 : i64
  %3 = mul %1, %2 : i64
  %4 = add %3, %0 : i64
  %5 = alloc local i32[4] : view<i32, 1, local>
  %6 = const 0 : i64
  %7 = const 4 : i64
  %8 = const 1 : i64
  %9 = const 0 : i32
  for %10 = %6 to %7 step %8 {
    %11 = add %4, %10 : i64
    %12 = gather.mask %x[%11] pad %9 : i32
    scatter.check %5[%10] = %12
    yield
  }
  %13 = rem %4, %7 : i64
  %14 = gather.check %5[%13] pad %9 : i32
  %15 = lt %0, %7 : bool
  if %15 {
    scatter.mask %y[%4] = %14
    yield
  } else {
    yield
  }
}
";
    let buffers = vec![buffer(Scalar::I32, &[60], Fill::Random), buffer(Scalar::I32, &[64], Fill::Poison)];
    Case::new(text, 1, buffers).check();
}

#[test]
fn a_program_prints_once() {
    let text = "
kernel @k(%x: view<i32, 1, global> {$0}) tile warps 4 {
  %0 = program_id x : i64
  print \"program {}\", %0
}
";
    let case = Case::new(text, 2, vec![buffer(Scalar::I32, &[1], Fill::Zero)]);
    let lowered = lower(&case.kernel(None, true));
    assert_eq!(case.printed(&lowered), ["program 0", "program 1"]);
}
