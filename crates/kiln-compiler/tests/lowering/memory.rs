//! Boxes at every edge, gather, scatter, atomics, and the order of accesses that meet in memory.

use crate::harness::*;
use kiln_ir::{OpKind, Scalar, Scope};

#[test]
fn boxes_over_every_edge() {
    // Offsets from a parameter: before the view, inside, over its end, and far outside either way.
    let text = "
kernel @k(%x: view<f32, 2, global> {$0}, %y: mut view<f32, 2, global> {$1}, %i: i64, %j: i64) tile {
  %0 = const 0 : i64
  %1 = const -5.0 : f32
  %2 = load %x[%i, %j] pad %1 : f32[8, 32]
  store.disjoint %y[%0, %0] = %2
}
";
    for (i, j) in [(0, 0), (-3, -5), (4, 20), (-8, 0), (100, 3), (0, i64::MAX), (i64::MIN, 0), (2, -31)] {
        let buffers =
            vec![buffer(Scalar::F32, &[10, 36], Fill::Random), buffer(Scalar::F32, &[8, 32], Fill::Poison)];
        let case = Case { scalars: vec![i as u64, j as u64], ..Case::new(text, 1, buffers) };
        case.check();
    }
}

#[test]
fn stores_over_every_edge() {
    let text = "
kernel @k(%x: view<i32, 2, global> {$0}, %y: mut view<i32, 2, global> {$1}, %i: i64, %j: i64) tile {
  %0 = const 0 : i64
  %1 = const 0 : i32
  %2 = load %x[%0, %0] pad %1 : i32[8, 32]
  store.disjoint %y[%i, %j] = %2
}
";
    for (i, j) in [(0, 0), (-3, -5), (4, 20), (-8, 0), (9, 35), (0, i64::MAX), (i64::MIN, 0)] {
        let buffers =
            vec![buffer(Scalar::I32, &[8, 32], Fill::Random), buffer(Scalar::I32, &[10, 36], Fill::Poison)];
        let case = Case { scalars: vec![i as u64, j as u64], ..Case::new(text, 1, buffers) };
        case.check();
    }
}

#[test]
fn every_type_and_padded_rows() {
    for elem in Scalar::COMPUTED {
        let padding = match elem {
            Scalar::Bool => "true",
            e if e.is_float() => "3.0",
            _ => "3",
        };
        for pitch in [None, Some(48), Some(37)] {
            let text = format!(
                "kernel @k(%x: view<{elem}, 2, global> {{$0}}, %y: mut view<{elem}, 2, global> {{$1}}) tile {{
  %0 = program_id x : i64
  %1 = const 4 : i64
  %2 = mul %0, %1 : i64
  %3 = const 0 : i64
  %4 = const {padding} : {elem}
  %5 = load.streaming %x[%2, %3] pad %4 : {elem}[4, 64]
  store.streaming.disjoint %y[%2, %3] = %5
}}
"
            );
            let buffers = vec![
                Buffer { pitch, ..buffer(elem, &[10, 36], Fill::Random) },
                buffer(elem, &[10, 64], Fill::Poison),
            ];
            Case::new(&text, 3, buffers).check();
        }
    }
}

#[test]
fn gather_and_scatter_mask_and_check() {
    for bounds in ["mask", "trust", "check"] {
        let range = if bounds == "mask" { 200 } else { 100 };
        let text = format!(
            "kernel @k(%i: view<i32, 1, global> {{$0}}, %x: view<f32, 1, global> {{$1}}, %y: mut view<f32, 1, global> {{$2}}) tile {{
  %0 = const 0 : i64
  %1 = const 0 : i32
  %2 = load %i[%0] pad %1 : i32[128]
  %3 = iota : i32[128]
  %4 = const 120 : i32[128]
  %5 = lt %3, %4 : bool[128]
  %6 = const -1.5 : f32
  %7 = gather.{bounds} %x[%2] where %5 pad %6 : f32[128]
  %8 = gather.{bounds} %x[%2] pad %6 : f32[128]
  %9 = add %7, %8 : f32[128]
  scatter.{bounds} %y[%3] where %5 = %9
}}
"
        );
        let buffers = vec![
            buffer(Scalar::I32, &[128], Fill::Below(range)),
            buffer(Scalar::F32, &[100], Fill::Random),
            buffer(Scalar::F32, &[if bounds == "mask" { 77 } else { 128 }], Fill::Poison),
        ];
        Case::new(&text, 1, buffers).check();
    }
}

#[test]
fn gather_in_two_axes() {
    let text = "
kernel @k(%x: view<f32, 2, global> {$0}, %y: mut view<f32, 2, global> {$1}) tile {
  %0 = const 0 : i64
  %1 = iota : i64[16]
  %2 = reshape %1 : i64[16, 1]
  %3 = broadcast %2 : i64[16, 32]
  %4 = iota : i64[32]
  %5 = const 3 : i64[32]
  %6 = mul %4, %5 : i64[32]
  %7 = reshape %6 : i64[1, 32]
  %8 = broadcast %7 : i64[16, 32]
  %9 = const 9.0 : f32
  %10 = gather.mask %x[%3, %8] pad %9 : f32[16, 32]
  store.disjoint %y[%0, %0] = %10
}
";
    let buffers =
        vec![buffer(Scalar::F32, &[12, 70], Fill::Random), buffer(Scalar::F32, &[16, 32], Fill::Poison)];
    Case::new(text, 1, buffers).check();
}

#[test]
fn an_index_out_of_range_is_the_same_fault() {
    let text = "
kernel @k(%x: view<f32, 1, global> {$0}, %y: mut view<f32, 1, global> {$1}) tile {
  %0 = iota : i32[64]
  %1 = const 0.0 : f32
  %2 = gather.check %x[%0] pad %1 : f32[64]
  scatter.trust %y[%0] = %2
}
";
    let buffers = vec![buffer(Scalar::F32, &[63], Fill::Random), buffer(Scalar::F32, &[64], Fill::Poison)];
    let case = Case::new(text, 1, buffers);
    let kernel = case.kernel(None, true);
    let fault = |kernel| case.run(kernel).unwrap_err();
    assert!(fault(&kernel).starts_with("index 63 out of bounds for extent 63"));
    assert!(fault(&lower(&kernel)).starts_with("index 63 out of bounds for extent 63"));
}

#[test]
fn atomics_act_once_for_each_element() {
    let text = "
kernel @k(%i: view<i32, 1, global> {$0}, %y: mut view<i32, 1, global> {$1}, %z: mut view<i32, 1, global> {$2}) tile {
  %0 = const 0 : i64
  %1 = const 0 : i32
  %2 = load %i[%0] pad %1 : i32[16]
  %3 = const 1 : i32[16]
  %4 = atomic.add.device.mask %y[%2] = %3 : i32[16]
  %5 = const 8 : i64
  %6 = const 5 : i32
  %7 = atomic.add.device.mask %y[%5] = %6 : i32
  %8 = program_id x : i64
  %9 = reshape %7 : i32[1]
  store.disjoint %z[%8] = %9
  %10 = broadcast %7 : i32[32]
  %11 = reduce.sum %10 axis 0 : i32
  %12 = reshape %11 : i32[1]
  %13 = const 4 : i64
  %14 = add %8, %13 : i64
  store.disjoint %z[%14] = %12
}
";
    let buffers = vec![
        buffer(Scalar::I32, &[16], Fill::Below(8)),
        buffer(Scalar::I32, &[9], Fill::Zero),
        buffer(Scalar::I32, &[8], Fill::Poison),
    ];
    Case::new(text, 4, buffers).check();
}

#[test]
fn compare_and_exchange() {
    let text = "
kernel @k(%y: mut view<i32, 1, global> {$0}, %z: mut view<i32, 1, global> {$1}) tile {
  %0 = iota : i32[64]
  %1 = const 1 : i32[64]
  %2 = and %0, %1 : i32[64]
  %3 = const 100 : i32[64]
  %4 = add %0, %3 : i32[64]
  %5 = atomic_cas.device.mask %y[%0] = %2 -> %4 : i32[64]
  %6 = const 0 : i64
  store.disjoint %z[%6] = %5
}
";
    let buffers = vec![buffer(Scalar::I32, &[60], Fill::Below(2)), buffer(Scalar::I32, &[64], Fill::Poison)];
    Case::new(text, 1, buffers).check();
}

#[test]
fn what_a_program_wrote_it_reads_back() {
    let text = "
kernel @k(%x: view<i32, 1, global> {$0}, %y: mut view<i32, 1, global> {$1}, %z: mut view<i32, 1, global> {$2}) tile {
  %0 = const 0 : i64
  %1 = const 0 : i32
  %2 = load %x[%0] pad %1 : i32[256]
  store %y[%0] = %2
  %3 = iota : i32[256]
  %4 = const 255 : i32[256]
  %5 = sub %4, %3 : i32[256]
  %6 = gather.mask %y[%5] pad %1 : i32[256]
  store.disjoint %z[%0] = %6
  store %y[%0] = %6
}
";
    let buffers = vec![
        buffer(Scalar::I32, &[256], Fill::Random),
        buffer(Scalar::I32, &[256], Fill::Poison),
        buffer(Scalar::I32, &[256], Fill::Poison),
    ];
    let case = Case::new(text, 1, buffers);
    case.check();
    let lowered = lower(&case.kernel(Some(4), true));
    assert_eq!(count(&lowered, |k| *k == OpKind::Fence(Scope::Block)), 2, "{lowered}");
}

#[test]
fn in_place_needs_no_barrier() {
    let text = "
kernel @k(%x: mut view<f32, 1, global> {$0}) tile {
  %0 = program_id x : i64
  %1 = const 512 : i64
  %2 = mul %0, %1 : i64
  %3 = const 0.0 : f32
  %4 = load %x[%2] pad %3 : f32[512]
  %5 = neg %4 : f32[512]
  store.disjoint %x[%2] = %5
}
";
    let case = Case::new(text, 3, vec![buffer(Scalar::F32, &[1500], Fill::Random)]);
    case.check();
    assert_eq!(count(&lower(&case.kernel(None, true)), |k| *k == OpKind::Barrier), 0);
}

#[test]
fn a_fence_of_a_program_is_behind_what_all_of_its_threads_did() {
    let text = "
kernel @k(%x: view<f32, 1, global> {$0}, %y: mut view<f32, 1, global> {$1}, %n: mut view<i32, 1, global> {$2}) tile {
  %0 = program_id x : i64
  %1 = const 256 : i64
  %2 = mul %0, %1 : i64
  %3 = const 0.0 : f32
  %4 = load %x[%2] pad %3 : f32[256]
  store.disjoint %y[%2] = %4
  fence.device
  %5 = const 0 : i64
  %6 = const 1 : i32
  %7 = atomic.add.device.mask %n[%5] = %6 : i32
}
";
    let buffers = vec![
        buffer(Scalar::F32, &[1000], Fill::Random),
        buffer(Scalar::F32, &[1000], Fill::Poison),
        buffer(Scalar::I32, &[1], Fill::Zero),
    ];
    let case = Case::new(text, 4, buffers);
    case.check();
    let order = |warps| -> String {
        let mut order = String::new();
        lower(&case.kernel(Some(warps), true)).walk(|_, data| {
            order.push_str(match data.kind {
                OpKind::Barrier => "|",
                OpKind::Fence(Scope::Device) => "f",
                _ => "",
            });
        });
        order
    };
    assert_eq!([order(1), order(4)], ["f", "|f"]);
}
