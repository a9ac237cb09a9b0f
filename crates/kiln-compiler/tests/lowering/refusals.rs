//! Kernels that cannot be lowered, and what is said of them.

use crate::harness::target;
use kiln_compiler::{CompileError, Target, lower_to_threads};
use kiln_ir::parse;

fn refuse(text: &str, target: &Target) -> CompileError {
    let kernel = parse(text).unwrap();
    lower_to_threads(&kernel, target).unwrap_err()
}

#[test]
fn tiles_of_too_many_parts() {
    let text = "
file \"src/k.rs\"
kernel @k(%x: mut view<f32, 3, global>) tile {
  %0 = const 0 : i64
  %1 = const 1.0 : f32[31, 31, 7] @0:7:13
  store %x[%0, %0, %0] = %1
}
";
    let error = refuse(text, &target());
    assert!(matches!(error, CompileError::TooManyParts { parts: 75, limit: 64, .. }));
    assert_eq!(
        error.to_string(),
        "src/k.rs:7:13: a tile of shape [31, 31, 7] splits into 75 parts whose extents are powers of two, the limit is 64; \
         use [32, 32, 8], whose extents are sums of fewer powers of two: loads give the padding outside the view and stores drop what lies there"
    );
}

#[test]
fn products_of_too_many_parts() {
    let text = "
kernel @k(%x: mut view<f32, 2, global>) tile {
  %0 = const 0 : i64
  %1 = const 1.0 : f32[27, 29]
  %2 = const 1.0 : f32[29, 31]
  %3 = const 0.0 : f32[27, 31]
  %4 = dot %1, %2, %3 : f32[27, 31]
  store %x[%0, %0] = %4
}
";
    let error = refuse(text, &target());
    let CompileError::TooManyParts { shape, parts: 80, fewer, .. } = error else { panic!("{error}") };
    assert_eq!((shape.extents(), fewer.extents()), (&[27, 31, 29][..], &[32, 32, 32][..]));
}

#[test]
fn blocks_that_cannot_hold_tiles() {
    for block in ["[48, 1, 1]", "[16, 1, 1]"] {
        let text = format!(
            "kernel @k(%x: mut view<f32, 1, global>) thread {block} {{
  %0 = const 0 : i64
  %1 = const 1.0 : f32[64]
  store %x[%0] = %1
}}
"
        );
        assert!(matches!(refuse(&text, &target()), CompileError::TilesNeedWarps { warp: 32, .. }));
    }
}

#[test]
fn blocks_and_memory_over_the_limits() {
    let text = "kernel @k() tile warps 32 {\n}\n";
    let small = Target { max_threads: 512, ..target() };
    assert!(matches!(refuse(text, &small), CompileError::TooManyThreads { threads: 1024, limit: 512, .. }));
    let text = "
kernel @k(%x: mut view<f32, 2, global>, %y: mut view<f32, 2, global>) tile {
  %0 = const 0 : i64
  %1 = const 0.0 : f32
  %2 = load %x[%0, %0] pad %1 : f32[128, 128]
  %3 = load %y[%0, %0] pad %1 : f32[128, 128]
  %4 = dot %2, %3, %3 : f32[128, 128]
  store %y[%0, %0] = %4
}
";
    let small = Target { shared_memory: 48 << 10, ..target() };
    match refuse(text, &small) {
        CompileError::SharedMemory { needed, own, limit, .. } => {
            assert!(needed >= own && own >= 128 << 10 && limit == 48 << 10);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn warps_that_a_gpu_does_not_have() {
    let portable = Target { warp: 24, ..Target::portable(8, 16 << 10) };
    for (target, width) in [(Target { warp: 64, ..target() }, 64), (portable, 24)] {
        let error = refuse("kernel @k() tile {\n}\n", &target);
        let expected = format!("a target with warps of {width} threads");
        assert!(matches!(&error, CompileError::Unsupported { what, .. } if *what == expected), "{error}");
    }
}

/// Shuffles of kernels over threads are among 32.
#[test]
fn shuffles_where_warps_have_another_width() {
    let text = "kernel @k(%y: mut view<i64, 1, global>) thread [64, 1, 1] {
  %0 = thread_id x : i64
  %1 = const 1 : i64
  %2 = shuffle.xor %0, %1 : i64
  scatter.trust %y[%0] = %2
}
";
    for (warp, subgroup) in [(64, 64), (8, 8), (32, 8)] {
        let error = refuse(text, &Target { warp, ..Target::portable(subgroup, 16 << 10) });
        let what = format!("`shuffle` among 32 threads on a device that has subgroups of {subgroup}");
        assert!(
            matches!(&error, CompileError::Unsupported { what: found, .. } if found.contains(&what)),
            "{error}"
        );
    }
}
