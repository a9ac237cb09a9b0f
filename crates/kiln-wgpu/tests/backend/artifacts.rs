//! What is kept of compiled kernels, and the SPIR-V that they are made of.

use crate::{Outcome, STREAM, Test, ensure, floats, launched, text, uploaded, vector};
use kiln_backend::{Artifacts, Backend, BufferBinding, Error, LaunchArguments, Places};
use kiln_wgpu::Wgpu;

pub const TESTS: &[Test] = &[
    ("a_kept_kernel_is_loaded", a_kept_kernel_is_loaded),
    ("products_and_sums", products_and_sums),
    ("a_packaged_kernel_computes", a_packaged_kernel_computes),
    ("packaged_faults_name_the_places_of_today", packaged_faults_name_the_places_of_today),
    ("damaged_packaged_kernels_are_refused", damaged_packaged_kernels_are_refused),
    ("a_target_names_the_adapter", a_target_names_the_adapter),
];

/// Leaves the sum of a product and another number, of three elements, in the first one.
const APART: &str = "kernel @apart(%x: mut view<f32, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %2 = const 2 : i64
  %a = view_load.x1 %x[%0] : f32
  %b = view_load.x1 %x[%1] : f32
  %c = view_load.x1 %x[%2] : f32
  %product = mul %a, %b : f32
  %sum = add %product, %c : f32
  view_store.x1 %x[%0] = %sum
}";

/// A product whose last bit is lost as it is rounded, and its opposite.
const FACTOR: f32 = 1.0 + 1.0 / 4096.0;
const INPUT: [f32; 3] = [FACTOR, FACTOR, -FACTOR * FACTOR];

fn a_kept_kernel_is_loaded(device: &Wgpu) -> Outcome {
    // An adapter without caches of pipelines keeps nothing.
    let Some(artifacts) = device.artifacts() else { return Ok(()) };
    let kernel = kiln_ir::parse(APART).map_err(|error| error.to_string())?;
    let kept = device.compile(&kernel).map_err(text)?.artifact.ok_or("nothing is kept")?;
    let program = artifacts.load(&kept).map_err(text)?;
    let memory = uploaded(device, bytemuck::cast_slice(&INPUT))?;
    launched(device, &program, [1; 3], &vector(memory, 3))?;
    let [got] = floats(device, memory, 1)?[..] else { return Err("one number".into()) };
    ensure(got == 0.0, || format!("{got}"))?;
    let damaged = artifacts.load(&kept[..7]).err().ok_or("seven bytes are loaded")?;
    ensure(text(damaged).contains("compile the kernel again"), || "another error".into())
}

/// They are two operations, whatever the driver is told, and are told to be where it can be.
fn products_and_sums(device: &Wgpu) -> Outcome {
    let program = crate::compiled(device, APART)?;
    let memory = uploaded(device, bytemuck::cast_slice(&INPUT))?;
    launched(device, &program, [1; 3], &vector(memory, 3))?;
    let [got] = floats(device, memory, 1)?[..] else { return Err("one number".into()) };
    ensure(got == 0.0, || format!("{got}"))?;
    let Some(artifacts) = device.artifacts() else { return Ok(()) };
    let key = artifacts.artifact_key();
    let masked = std::env::var("KILN_WGPU_WITHOUT").is_ok_and(|names| names.contains("spirv"));
    let told = key.contains("float_modes: Some");
    ensure(!key.contains("llvmpipe") || told != masked, || key)
}

/// Adds two vectors, and asserts that there are as many elements as threads.
fn sum(lines: [u32; 2]) -> Result<kiln_ir::Kernel, String> {
    let [assert, add] = lines;
    let source = format!(
        "file \"k.rs\"
kernel @sum(%x: view<f32, 1, global>, %n: i64, %y: mut view<f32, 1, global>) tile {{
  %0 = program_id x : i64 @0:{assert}:1
  %1 = const 8 : i64 @0:{assert}:2
  %at = mul %0, %1 : i64 @0:{assert}:3
  %fine = lt %at, %n : bool @0:{assert}:4
  assert %fine, \"at {{}}\", %at @0:{assert}:5
  %pad = const 0.0 : f32 @0:{add}:1
  %a = load %x[%at] pad %pad : f32[8] @0:{add}:2
  %b = load %y[%at] pad %pad : f32[8] @0:{add}:3
  %c = add %a, %b : f32[8] @0:{add}:4
  store %y[%at] = %c @0:{add}:5
}}
"
    );
    kiln_ir::parse(&source).map_err(|error| error.to_string())
}

/// What takes packages, if the adapter does.
fn taking(device: &Wgpu) -> Option<&dyn Artifacts> {
    device.artifacts().filter(|artifacts| artifacts.package_target().is_some())
}

/// Odd extents, none, and two views of one buffer, for which there is another pipeline.
fn a_packaged_kernel_computes(device: &Wgpu) -> Outcome {
    let Some(artifacts) = taking(device) else { return Ok(()) };
    let code = device.compile_for_package(&sum([3, 4])?).map_err(text)?;
    let program = artifacts.load_packaged(&code, &Places::default()).map_err(text)?;
    for count in [1usize, 7, 8, 37, 131] {
        let [x, y] = [0.5, 3.0].map(|scale| (0..count).map(|i| i as f32 * scale - 2.0).collect::<Vec<f32>>());
        let memory = uploaded(device, bytemuck::cast_slice(&[&x[..], &y].concat()))?;
        let behind = kiln_backend::DevicePtr(memory.0 + 4 * count as u64);
        let arguments = LaunchArguments::new()
            .view(BufferBinding::read(memory), &[count as u64])
            .scalar(count as u64)
            .view(BufferBinding::write(behind), &[count as u64]);
        launched(device, &program, [count.div_ceil(8) as u32, 1, 1], &arguments)?;
        let apart = uploaded(device, bytemuck::cast_slice(&y))?;
        let arguments = LaunchArguments::new()
            .view(BufferBinding::read(memory), &[count as u64])
            .scalar(count as u64)
            .view(BufferBinding::write(apart), &[count as u64]);
        launched(device, &program, [count.div_ceil(8) as u32, 1, 1], &arguments)?;
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        for place in [behind, apart] {
            let got = floats(device, place, count)?;
            ensure(got == expected, || format!("{count}: {got:?}"))?;
        }
    }
    device.synchronize(STREAM).map_err(text)
}

fn packaged_faults_name_the_places_of_today(device: &Wgpu) -> Outcome {
    let Some(artifacts) = taking(device) else { return Ok(()) };
    let then = sum([10, 12])?;
    let code = device.compile_for_package(&then).map_err(text)?;
    let recorded = Places::record(&then);
    for (now, place) in [([10, 12], "k.rs:10:5"), ([31, 77], "k.rs:31:5")] {
        let places = Places::since(&recorded, &sum(now)?).map_err(str::to_owned)?;
        let program = artifacts.load_packaged(&code, &places).map_err(text)?;
        let memory = uploaded(device, &[0; 64])?;
        let view = [16u64];
        let arguments = LaunchArguments::new()
            .view(BufferBinding::read(memory), &view)
            .scalar(8)
            .view(BufferBinding::write(uploaded(device, &[0; 64])?), &view);
        launched(device, &program, [2, 1, 1], &arguments)?;
        let Err(Error::Fault(fault)) = device.synchronize(STREAM) else { return Err("no fault".into()) };
        ensure(fault.location == place && fault.block == [1, 0, 0], || format!("{fault:?}"))?;
        ensure(fault.kernel == "sum" && fault.thread.is_none(), || format!("{fault:?}"))?;
    }
    Ok(())
}

fn damaged_packaged_kernels_are_refused(device: &Wgpu) -> Outcome {
    let Some(artifacts) = taking(device) else { return Ok(()) };
    let whole = device.compile_for_package(&sum([3, 4])?).map_err(text)?;
    let refused = |bytes: &[u8]| match artifacts.load_packaged(bytes, &Places::default()).map(drop) {
        Err(Error::Driver { code, .. }) if code == "damaged bytes" => Ok(()),
        other => Err(format!("{other:?}")),
    };
    for length in (0..whole.len()).step_by(7) {
        refused(&whole[..length])?;
        let mut bytes = whole.clone();
        bytes[length] ^= 1 << (length % 8);
        refused(&bytes)?;
    }
    refused(&[&whole[..], &[0]].concat())
}

fn a_target_names_the_adapter(device: &Wgpu) -> Outcome {
    let target = device.artifacts().and_then(Artifacts::package_target);
    let masked = std::env::var("KILN_WGPU_WITHOUT").is_ok_and(|names| names.contains("spirv"));
    let Some(target) = target else {
        let refused = device.compile_for_package(&sum([3, 4])?).is_err();
        return ensure(refused && (masked || !device.properties().name.contains("llvmpipe")), || {
            "no target".into()
        });
    };
    ensure(target.name == "wgpu" && target.maker.starts_with("kiln-wgpu "), || format!("{target:?}"))?;
    let threads = format!("{} threads of a block", device.properties().max_threads);
    let needs: Vec<&str> = target.needs.split(", ").collect();
    ensure(needs.contains(&threads.as_str()), || format!("{needs:?}"))
}
