//! Time of a graph of eight small kernels that depend on each other: bursts of replays, with the
//! wait for the last of them, beside the driver's own graph of the same machine code.

use kiln_cuda::driver::{Context, CudaError, DeviceBuffer, Graph, JitOptions, LaunchShape, Module, Stream};
use kiln_cuda::{compile_to_ptx, ptx};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Result, Tensor};
use std::time::Instant;

const KERNELS: usize = 8;
const ELEMENTS: usize = 1 << 14;
const TILE: usize = 1024;
const BURST: u32 = 500;

#[kernel(crate = kiln_runtime)]
fn step(x: &mut Tensor<f32, 1>, block: usize) {
    let tile = x.tile(program_id(0) * block, block);
    tile.store(tile.load(0.0) * 0.5 + 1.0);
}

/// Microseconds a replay of Kiln's graph, a burst a round.
pub fn kiln(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    let mut x = device.zeros([ELEMENTS])?;
    let (graph, ()) = device.graph(|_| (0..KERNELS).try_for_each(|_| step(&mut x, TILE).launch(device)))?;
    bursts(rounds, || graph.replay(), || device.synchronize())
}

/// Microseconds that the same kernels take without a graph, a burst a round.
pub fn launches(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    let mut x = device.zeros([ELEMENTS])?;
    let launch = || (0..KERNELS).try_for_each(|_| step(&mut x, TILE).launch(device));
    bursts(rounds, launch, || device.synchronize())
}

/// Microseconds a launch of the driver's graph, captured from launches of the same code.
pub fn driver(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    let refused = |e: CudaError| Error::from(e.into_backend(device.id()));
    let properties = device.properties();
    let mut x = device.zeros([ELEMENTS])?;
    let target = ptx::Target {
        compute: properties.compute_capability.unwrap_or((8, 0)),
        ptx: properties.ptx.unwrap_or((8, 0)),
    };
    let module = compile_to_ptx(&step(&mut x, TILE).ir()?, target)?;
    let index = device.id().rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let context = Context::new(index).map_err(refused)?;
    let stream = Stream::new(&context).map_err(refused)?;
    let (loaded, _) =
        Module::from_ptx(&context, "step", &module.text, &JitOptions::default()).map_err(refused)?;
    let function = loaded.function(&module.entry).map_err(refused)?;
    let memory = DeviceBuffer::new(&stream, ELEMENTS * size_of::<f32>()).map_err(refused)?;
    memory.fill(0).map_err(refused)?;
    // The address, the extent and the stride.
    let words = [memory.pointer().0, ELEMENTS as u64, 1];
    if module.words as usize != words.len() || !module.maps.is_empty() {
        let (what, given) = ("the parameters of the kernel".to_owned(), format!("{} words", module.words));
        return Err(Error::Value { what, expected: "three words".to_owned(), given });
    }
    let shape = LaunchShape::new([(ELEMENTS / TILE) as u32, 1, 1], module.block);
    let graph = Graph::capture(&stream, |stream| {
        // SAFETY: the kernel takes the three words of a view, of memory that outlives the graph's
        // runs: they are waited for below.
        (0..KERNELS).try_for_each(|_| unsafe { function.launch(stream, &shape, &words) })
    })
    .map_err(refused)?;
    // SAFETY: memory and module live until the end of this function.
    let launch = || unsafe { graph.launch(&stream) }.map_err(refused);
    bursts(rounds, launch, || stream.synchronize().map_err(refused))
}

fn bursts(
    rounds: usize,
    mut enqueue: impl FnMut() -> Result<()>,
    wait: impl Fn() -> Result<()>,
) -> Result<Vec<f64>> {
    let mut burst = || {
        let start = Instant::now();
        for _ in 0..BURST {
            enqueue()?;
        }
        wait()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(BURST))
    };
    burst()?;
    (0..rounds).map(|_| burst()).collect()
}
