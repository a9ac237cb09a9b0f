//! An adapter as a device: memory, launches, streams, events, losses. Without an adapter the tests
//! are counted as ignored.

mod artifacts;
mod awaited;
mod failures;
mod launches;
mod memory;
mod reports;
mod residents;
mod rounds;
mod streams;

use kiln_backend::{Backend, BufferBinding, DevicePtr, LaunchArguments, Program, StreamId};
use kiln_wgpu::Wgpu;
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use std::sync::Arc;

/// What a test comes to.
type Outcome = Result<(), String>;

/// A test and its name.
type Test = (&'static str, fn(&Wgpu) -> Outcome);

fn main() -> ExitCode {
    let missing = kiln_wgpu::adapters().is_empty();
    if missing {
        eprintln!("no Vulkan adapter: install Mesa's CPU driver (mesa-vulkan-drivers) to run these tests");
    }
    let trial = |&(name, test): &Test| {
        // A device for each, so that an error is that of the test that made it.
        let run = move || {
            let device = Wgpu::open("wgpu").map_err(|error| error.to_string())?;
            test(&device).map_err(|error| format!("on {}: {error}", device.properties().name).into())
        };
        Trial::test(name, run).with_ignored_flag(missing)
    };
    let tests = [
        artifacts::TESTS,
        awaited::TESTS,
        memory::TESTS,
        launches::TESTS,
        streams::TESTS,
        reports::TESTS,
        residents::TESTS,
        rounds::TESTS,
        failures::TESTS,
    ]
    .concat();
    libtest_mimic::run(&Arguments::from_args(), tests.iter().map(trial).collect()).exit_code()
}

/// The stream of tests that ask for none.
const STREAM: StreamId = StreamId(0);

fn text(error: kiln_backend::Error) -> String {
    error.to_string()
}

/// Fails unless a condition holds.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what()) }
}

fn compiled(device: &Wgpu, source: &str) -> Result<Arc<dyn Program>, String> {
    let kernel = kiln_ir::parse(source).map_err(|error| error.to_string())?;
    Ok(device.compile(&kernel).map_err(text)?.program)
}

/// Memory with these bytes.
fn uploaded(device: &Wgpu, bytes: &[u8]) -> Result<DevicePtr, String> {
    let memory = device.allocate(bytes.len(), STREAM).map_err(text)?;
    // SAFETY: the allocation has as many bytes.
    unsafe { device.upload(memory, bytes, STREAM) }.map_err(text)?;
    Ok(memory)
}

/// So many bytes from a pointer on.
fn downloaded(device: &Wgpu, from: DevicePtr, bytes: usize) -> Result<Vec<u8>, String> {
    let mut data = vec![0xa5; bytes];
    // SAFETY: the tests ask for bytes of one allocation.
    unsafe { device.download(&mut data, from, STREAM) }.map_err(text)?;
    Ok(data)
}

fn floats(device: &Wgpu, from: DevicePtr, count: usize) -> Result<Vec<f32>, String> {
    Ok(bytemuck::pod_collect_to_vec(&downloaded(device, from, count * 4)?))
}

/// A vector of so many elements, which a kernel may write.
fn vector(memory: DevicePtr, elements: u64) -> LaunchArguments {
    LaunchArguments::new().view(BufferBinding::write(memory), &[elements])
}

fn launched(
    device: &Wgpu,
    program: &Arc<dyn Program>,
    grid: [u32; 3],
    arguments: &LaunchArguments,
) -> Outcome {
    // SAFETY: the tests describe memory that is there, and free it after they have waited.
    unsafe { device.launch(&**program, arguments.launch(grid, STREAM)) }.map_err(text)
}
