//! Adjacent elements as one access, of buffers and of scratch memory: every type and number of
//! lanes, also next to accesses of single elements, and with offsets of views.

use crate::device::{Arg, Device};
use crate::{Test, compiled_for};
use kiln_ir::Scalar;
use kiln_wgpu::Features;

pub const TESTS: &[Test] = &[("adjacent_elements_are_loaded_and_stored", vectors)];

/// How many vectors are read and written, by two blocks of 32 threads.
const VECTORS: usize = 50;

const TYPES: [Scalar; 12] = [
    Scalar::Bool,
    Scalar::I8,
    Scalar::U8,
    Scalar::E4M3,
    Scalar::E5M2,
    Scalar::F16,
    Scalar::BF16,
    Scalar::I32,
    Scalar::U32,
    Scalar::F32,
    Scalar::I64,
    Scalar::F64,
];

fn vectors(device: &Device) -> Result<(), String> {
    let lesser = Features { int64: false, float64: false, float16: false, ..device.features };
    for features in [device.features, lesser] {
        for elem in TYPES {
            if elem == Scalar::F64 && !(features.float64 && features.int64) {
                continue;
            }
            for lanes in [1, 2, 4, 8, 16].into_iter().filter(|lanes| lanes * elem.bytes() <= 16) {
                exchanged(device, features, elem, lanes as usize)
                    .map_err(|e| format!("{lanes} lanes of {elem}: {e}"))?;
            }
        }
    }
    Ok(())
}

/// A thread stores the vector of the thread beside it, which went through scratch memory, in
/// reverse, and the last element of its own.
fn text(elem: Scalar, lanes: usize) -> String {
    let names = |prefix: &str| (0..lanes).map(|k| format!("%{prefix}{k}")).collect::<Vec<_>>();
    let (read, other) = (names("v"), names("u"));
    let reversed: Vec<String> = other.iter().rev().cloned().collect();
    let [read, other, reversed] = [read, other, reversed].map(|names| names.join(", "));
    let types = vec![elem.to_string(); lanes].join(", ");
    let (last, scratch) = (lanes - 1, 32 * lanes as u32 * elem.bytes());
    format!(
        "kernel @vectors(%x: view<{elem}, 1, global>, %y: mut view<{elem}, 1, global>, \
         %z: mut view<{elem}, 1, global>) thread [32, 1, 1] scratch {scratch} {{
  %t = thread_id x : i64
  %p = program_id x : i64
  %threads = const 32 : i64
  %first = mul %p, %threads : i64
  %i = add %first, %t : i64
  %lanes = const {lanes} : i64
  %at = mul %i, %lanes : i64
  %extent = extent %x axis 0 : i64
  %in = lt %at, %extent : bool
  {read} = view_load.x{lanes} %x[%at] where %in : {types}
  %rest = const {last} : i64
  %end = add %at, %rest : i64
  %s = view_load.x1 %x[%end] where %in : {elem}
  %w = scratch 0 : view<{elem}, 1, shared>
  %own = mul %t, %lanes : i64
  view_store.x{lanes} %w[%own] = {read}
  barrier
  %one = const 1 : i64
  %beside = xor %t, %one : i64
  %from = mul %beside, %lanes : i64
  {other} = view_load.x{lanes} %w[%from] : {types}
  view_store.x{lanes} %y[%at] where %in = {reversed}
  view_store.x1 %z[%i] where %in = %s
}}"
    )
}

fn exchanged(device: &Device, features: Features, elem: Scalar, lanes: usize) -> Result<(), String> {
    let text = text(elem, lanes);
    let module = compiled_for(features, &text).map_err(|e| format!("{e}\n{text}"))?;
    let width = elem.bytes() as usize;
    // No NaN, of which the bits may change, and no subnormal number.
    let byte = |i: usize| if elem == Scalar::Bool { (i * i % 2) as u8 } else { (8 + i * 37 % 112) as u8 };
    let x: Vec<u8> = (0..VECTORS * lanes * width).map(byte).collect();
    // A view begins behind a vector, and what lies around it stays as it was.
    let around = vec![1u8; lanes * width];
    let place = |bytes: Vec<u8>| Arg::View {
        extents: vec![(bytes.len() / width) as i64],
        bytes: [around.clone(), bytes, around.clone()].concat(),
        offset: lanes as u32,
    };
    let (y, z) = (vec![1u8; x.len()], vec![1u8; VECTORS * width]);
    let args = [x.clone(), y, z].map(place);
    let results = device.run(&module, [2, 1, 1], &args)?;
    let element = |i: usize| x[i * width..(i + 1) * width].to_vec();
    let reversed = |i: usize| (0..lanes).rev().map(move |k| (i ^ 1) * lanes + k);
    let y: Vec<u8> = (0..VECTORS).flat_map(reversed).flat_map(element).collect();
    let z: Vec<u8> = (0..VECTORS).flat_map(|i| element(i * lanes + lanes - 1)).collect();
    for (name, got, want) in [("y", &results[1], y), ("z", &results[2], z)] {
        let want = [around.clone(), want, around.clone()].concat();
        if got[..want.len()] != want {
            return Err(format!("{name} is {got:?}, expected {want:?}"));
        }
    }
    Ok(())
}
