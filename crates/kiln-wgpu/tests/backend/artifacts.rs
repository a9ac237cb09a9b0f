//! What is kept of compiled kernels, and the SPIR-V that they are made of.

use crate::{Outcome, Test, ensure, floats, launched, text, uploaded, vector};
use kiln_backend::Backend;
use kiln_wgpu::Wgpu;

pub const TESTS: &[Test] =
    &[("a_kept_kernel_is_loaded", a_kept_kernel_is_loaded), ("products_and_sums", products_and_sums)];

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
