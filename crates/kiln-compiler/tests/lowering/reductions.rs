//! Reductions and scans: every combination, type and axis.

use crate::harness::*;
use kiln_ir::{OpKind, ReduceOp, Scalar};

/// Loads a tile, applies one line of text to it and stores the result.
fn unary_kernel(elem: Scalar, shape: &str, line: &str, result: &str, out_shape: &str) -> String {
    let rank = shape.matches(',').count() + 1;
    let out_rank = if out_shape.is_empty() { 0 } else { out_shape.matches(',').count() + 1 };
    let zeros = |n: usize| vec!["%0"; n].join(", ");
    let padding = match elem {
        Scalar::Bool => "false",
        e if e.is_float() => "0.0",
        _ => "0",
    };
    let store = match out_rank {
        0 => "store.disjoint %y[%0] = %5".to_owned(),
        _ => format!("store.disjoint %y[{}] = %4", zeros(out_rank)),
    };
    let cell = if out_rank == 0 { format!("  %5 = reshape %4 : {result}[1]\n") } else { String::new() };
    format!(
        "kernel @k(%x: view<{elem}, {rank}, global> {{$0}}, %y: mut view<{result}, {}, global> {{$1}}) tile {{
  %0 = const 0 : i64
  %1 = const {padding} : {elem}
  %3 = load %x[{}] pad %1 : {elem}[{shape}]
  %4 = {line} : {result}{}
{cell}  {store}
}}
",
        out_rank.max(1),
        zeros(rank),
        if out_rank == 0 { String::new() } else { format!("[{out_shape}]") },
    )
}

fn is_valid(op: ReduceOp, elem: Scalar) -> bool {
    let bitwise = matches!(op, ReduceOp::And | ReduceOp::Or | ReduceOp::Xor);
    match elem {
        Scalar::Bool => bitwise,
        e if e.is_float() => !bitwise,
        _ => true,
    }
}

fn tolerance(op: ReduceOp, elem: Scalar) -> f64 {
    match (op, elem) {
        (ReduceOp::Sum | ReduceOp::Prod, Scalar::F16 | Scalar::BF16) => 0.02,
        (ReduceOp::Sum | ReduceOp::Prod, _) => 1e-4,
        _ => 0.0,
    }
}

#[test]
fn every_reduction_of_every_type() {
    for &op in ReduceOp::ALL {
        for elem in Scalar::COMPUTED.into_iter().filter(|&e| is_valid(op, e)) {
            let arg = matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax);
            let result = if arg { Scalar::I64 } else { elem };
            let line = format!("reduce.{} %3 axis 0", op.name());
            let text = unary_kernel(elem, "512", &line, &result.to_string(), "");
            let buffers = vec![buffer(elem, &[500], Fill::Random), buffer(result, &[1], Fill::Poison)];
            Case::new(&text, 1, buffers).within(tolerance(op, elem)).check();
        }
    }
}

#[test]
fn every_axis_of_tiles_of_three_axes() {
    for (axis, out) in [(0, [8u64, 16]), (1, [4, 16]), (2, [4, 8])] {
        for op in ["sum", "argmax", "min"] {
            let result = if op == "argmax" { Scalar::I64 } else { Scalar::I32 };
            let line = format!("reduce.{op} %3 axis {axis}");
            let out_shape = format!("{}, {}", out[0], out[1]);
            let text = unary_kernel(Scalar::I32, "4, 8, 16", &line, &result.to_string(), &out_shape);
            let buffers =
                vec![buffer(Scalar::I32, &[4, 8, 16], Fill::Random), buffer(result, &out, Fill::Poison)];
            Case::new(&text, 1, buffers).check();
        }
    }
}

#[test]
fn tall_and_wide_reductions() {
    for (rows, columns) in [(256, 2), (2, 256), (64, 64), (1, 128), (128, 1)] {
        for axis in 0..2 {
            let left: u64 = if axis == 0 { columns } else { rows };
            let line = format!("reduce.max %3 axis {axis}");
            let text =
                unary_kernel(Scalar::F32, &format!("{rows}, {columns}"), &line, "f32", &left.to_string());
            let buffers = vec![
                buffer(Scalar::F32, &[rows, columns], Fill::Random),
                buffer(Scalar::F32, &[left], Fill::Poison),
            ];
            Case::new(&text, 1, buffers).check();
        }
    }
}

#[test]
fn argmax_takes_the_first_and_loses_nan() {
    // Small integers as floats, so that equal values abound; NaN and both zeros among them.
    let text = "
kernel @k(%x: view<f32, 1, global> {$0}, %y: mut view<i64, 1, global> {$1}) tile {
  %0 = const 0 : i64
  %1 = const 0.0 : f32
  %2 = load %x[%0] pad %1 : f32[256]
  %3 = const 3.0 : f32[256]
  %4 = const 2.0 : f32[256]
  %5 = sub %2, %3 : f32[256]
  %6 = sub %2, %4 : f32[256]
  %7 = div %5, %6 : f32[256]
  %8 = sqrt %7 : f32[256]
  %9 = reduce.argmax %8 axis 0 : i64
  %10 = reduce.argmin %8 axis 0 : i64
  %11 = reshape %9 : i64[1]
  %12 = reshape %10 : i64[1]
  %13 = const 1 : i64
  store.disjoint %y[%0] = %11
  store.disjoint %y[%13] = %12
}
";
    let buffers = vec![buffer(Scalar::F32, &[256], Fill::Below(6)), buffer(Scalar::I64, &[2], Fill::Poison)];
    Case::new(text, 1, buffers).check();
}

#[test]
fn every_scan() {
    for op in ["sum", "prod", "min", "max", "and", "or", "xor"] {
        for modifiers in ["", ".reverse", ".exclusive", ".reverse.exclusive"] {
            let line = format!("scan.{op}{modifiers} %3 axis 0");
            let text = unary_kernel(Scalar::I32, "512", &line, "i32", "512");
            let buffers =
                vec![buffer(Scalar::I32, &[500], Fill::Random), buffer(Scalar::I32, &[512], Fill::Poison)];
            Case::new(&text, 1, buffers).check();
        }
    }
}

#[test]
fn scans_along_every_axis() {
    for axis in 0..2 {
        for (rows, columns) in [(64, 32), (8, 256), (256, 4), (1, 512), (512, 1)] {
            for modifiers in ["", ".reverse.exclusive"] {
                let line = format!("scan.sum{modifiers} %3 axis {axis}");
                let shape = format!("{rows}, {columns}");
                let text = unary_kernel(Scalar::I64, &shape, &line, "i64", &shape);
                let buffers = vec![
                    buffer(Scalar::I64, &[rows, columns], Fill::Random),
                    buffer(Scalar::I64, &[rows, columns], Fill::Poison),
                ];
                Case::new(&text, 1, buffers).check();
            }
        }
    }
}

#[test]
fn float_scans_round_like_sums() {
    for elem in [Scalar::F16, Scalar::F32, Scalar::F64] {
        let text = unary_kernel(elem, "1024", "scan.sum %3 axis 0", &elem.to_string(), "1024");
        let buffers = vec![buffer(elem, &[1000], Fill::Random), buffer(elem, &[1024], Fill::Poison)];
        Case::new(&text, 1, buffers).within(0.02).check();
    }
}

#[test]
fn a_reduction_within_a_warp_needs_no_barrier() {
    let text = unary_kernel(Scalar::F32, "4, 128", "reduce.sum %3 axis 1", "f32", "4");
    let buffers = vec![buffer(Scalar::F32, &[4, 128], Fill::Random), buffer(Scalar::F32, &[4], Fill::Poison)];
    let lowered = lower(&Case::new(&text, 1, buffers).kernel(Some(4), true));
    assert_eq!(count(&lowered, |k| *k == OpKind::Barrier), 0, "{lowered}");
    assert_eq!(lowered.scratch_bytes, 0);
}
