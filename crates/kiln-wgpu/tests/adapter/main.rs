//! Kernels as modules of naga on an adapter, against references in f64. Without an adapter the
//! tests are counted as ignored.

mod blocks;
mod device;
mod elements;
mod faults;
mod lowered;
mod proof;
mod threads;
mod vectors;

use device::device;
use kiln_wgpu::{Features, Module};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

/// A test and its name.
type Test = (&'static str, fn(&device::Device) -> Result<(), String>);

fn main() -> ExitCode {
    let missing = device().is_none();
    if missing {
        eprintln!("no Vulkan adapter: install Mesa's CPU driver (mesa-vulkan-drivers) to run these tests");
    }
    let trial = |&(name, test): &Test| {
        let run = move || {
            let device = device().ok_or("no Vulkan adapter")?;
            test(device).map_err(|e| format!("on {}: {e}", device.name).into())
        };
        Trial::test(name, run).with_ignored_flag(missing)
    };
    let tests = [
        proof::TESTS,
        elements::TESTS,
        vectors::TESTS,
        lowered::TESTS,
        threads::TESTS,
        blocks::TESTS,
        faults::TESTS,
    ]
    .concat();
    libtest_mimic::run(&Arguments::from_args(), tests.iter().map(trial).collect()).exit_code()
}

/// A kernel's text as a module for the device.
fn compiled(device: &device::Device, text: &str) -> Result<Module, String> {
    compiled_for(device.features, text)
}

fn compiled_for(features: Features, text: &str) -> Result<Module, String> {
    let kernel = kiln_ir::parse(text).map_err(|e| e.to_string())?;
    kiln_ir::verify(&kernel).map_err(|e| format!("{e:?}"))?;
    kiln_wgpu::compile(&kernel, features).map_err(|e| e.to_string())
}

/// Numbers in -1 .. 1 that look random (xorshift).
fn random(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(bytes)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytemuck::pod_collect_to_vec(bytes)
}
