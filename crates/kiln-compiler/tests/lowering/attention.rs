//! A chain of products and reductions with carried statistics: layouts must agree all the way.

use crate::harness::*;
use kiln_compiler::explain_layouts;
use kiln_ir::Scalar;

/// Attention of 32 queries of width 16 over keys in blocks of 32, with a running maximum and sum.
const ATTENTION: &str = "
kernel @attend(%q: view<f32, 2, global> {$0}, %k: view<f32, 2, global> {$1}, %v: view<f32, 2, global> {$2}, %o: mut view<f32, 2, global> {$3}) tile {
  %0 = program_id x : i64
  %1 = const 32 : i64
  %2 = mul %0, %1 : i64
  %3 = const 0 : i64
  %4 = const 0.0 : f32
  %5 = load %q[%2, %3] pad %4 : f32[32, 16]
  %6 = extent %k axis 0 : i64
  %7 = const -1e30 : f32[32]
  %8 = const 0.0 : f32[32]
  %9 = const 0.0 : f32[32, 16]
  %10 = const 0.0 : f32[32, 32]
  %15, %16, %17 = for %11 = %3 to %6 step %1 carry (%12 = %7, %13 = %8, %14 = %9) : f32[32], f32[32], f32[32, 16] {
    %18 = load %k[%11, %3] pad %4 : f32[32, 16]
    %19 = transpose %18 [1, 0] : f32[16, 32]
    %20 = dot %5, %19, %10 : f32[32, 32]
    %21 = iota : i64[32]
    %22 = broadcast %11 : i64[32]
    %23 = add %21, %22 : i64[32]
    %24 = broadcast %6 : i64[32]
    %25 = lt %23, %24 : bool[32]
    %26 = reshape %25 : bool[1, 32]
    %27 = broadcast %26 : bool[32, 32]
    %28 = const -1e30 : f32[32, 32]
    %29 = select %27, %20, %28 : f32[32, 32]
    %30 = reduce.max %29 axis 1 : f32[32]
    %31 = max %12, %30 : f32[32]
    %32 = sub %12, %31 : f32[32]
    %33 = exp %32 : f32[32]
    %34 = reshape %31 : f32[32, 1]
    %35 = broadcast %34 : f32[32, 32]
    %36 = sub %29, %35 : f32[32, 32]
    %37 = exp %36 : f32[32, 32]
    %38 = reduce.sum %37 axis 1 : f32[32]
    %39 = fma %13, %33, %38 : f32[32]
    %40 = reshape %33 : f32[32, 1]
    %41 = broadcast %40 : f32[32, 16]
    %42 = mul %14, %41 : f32[32, 16]
    %43 = load %v[%11, %3] pad %4 : f32[32, 16]
    %44 = dot %37, %43, %42 : f32[32, 16]
    yield %31, %39, %44
  }
  %45 = reshape %16 : f32[32, 1]
  %46 = broadcast %45 : f32[32, 16]
  %47 = div %17, %46 : f32[32, 16]
  store.disjoint %o[%2, %3] = %47
}
";

fn case() -> Case<'static> {
    let input = |rows| buffer(Scalar::F32, &[rows, 16], Fill::Random);
    let buffers = vec![input(64), input(75), input(75), buffer(Scalar::F32, &[64, 16], Fill::Poison)];
    Case::new(ATTENTION, 2, buffers).within(1e-4)
}

#[test]
fn attention_over_keys_in_blocks() {
    case().check();
}

#[test]
fn statistics_stay_where_the_scores_are() {
    let report = explain_layouts(&case().kernel(Some(4), true), &target()).unwrap();
    // The maximum is carried in the slice of the scores that the reduction leaves: none of its
    // users converts it but the other product.
    let of = |what: &str| -> Vec<&str> { report.lines().filter(|l| l.contains(what)).collect() };
    assert!(of("after reducing").is_empty(), "{report}");
    assert!(of(": max f32[32]").len() == 1, "{report}");
    let scores = of(": dot f32[32, 32]")[0].split(": dot f32[32, 32]: ").nth(1).unwrap();
    let shifted = of(": sub f32[32, 32]")[0].split(": sub f32[32, 32]: ").nth(1).unwrap();
    assert_eq!(scores, shifted, "{report}");
}
