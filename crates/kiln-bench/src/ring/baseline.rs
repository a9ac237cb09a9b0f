//! What resident actors replace: copy in, launch, copy out, wait; by Kiln, and as one graph by the
//! driver alone.

use super::message::{Ping, WORDS};
use super::row::Row;
use super::undisturbed;
use crate::failure::Failure;
use kiln_cuda::driver::{
    Context, CudaError, DeviceBuffer, Graph, JitOptions, LaunchShape, Module, PinnedBuffer, Stream,
};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Tensor};
use std::time::{Duration, Instant};

pub const LAUNCH: &str = "ring.baseline_launch_48B";
pub const GRAPH: &str = "ring.baseline_graph_48B";

/// Round trips of a slice.
const ROUNDS: usize = 1000;

/// For how long there are round trips before those that count: a GPU at rest needs a moment until
/// its clocks are at their highest.
const WARM_UP: Duration = Duration::from_millis(200);

#[kernel(crate = kiln_runtime)]
fn echo_once(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>) {
    let at = program_id(0) * 16;
    y.tile(at, 16).store(x.tile(at, 16).load(0) + 1);
}

/// The same for the driver: one block of twelve threads, a word each.
const ECHO_ONCE: &str = "\
.version 7.0
.target sm_80
.address_size 64
.visible .entry echo_once(.param .u64 in, .param .u64 out)
{
    .reg .b32 %x, %t;
    .reg .b64 %in, %out, %offset;
    mov.u32 %t, %tid.x;
    mul.wide.u32 %offset, %t, 4;
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    add.u64 %in, %in, %offset;
    add.u64 %out, %out, %offset;
    ld.global.u32 %x, [%in];
    add.u32 %x, %x, 1;
    st.global.u32 [%out], %x;
    ret;
}
";

/// Copy in, launch, copy out and wait, by Kiln.
pub fn launch(device: &Device) -> Result<Row, Failure> {
    let mut y = device.zeros::<u32, 1>([WORDS])?;
    let rounds = if device.capabilities().is_interpreted() { 5 } else { ROUNDS };
    timed(LAUNCH, rounds, |message| {
        let x = device.tensor(&message.words, [WORDS])?;
        echo_once(&x, &mut y).grid([1, 1, 1]).launch(device)?;
        Ok(y.to_vec()?)
    })
}

/// The three as one graph of the driver's, and a wait.
pub fn graph(device: &Device) -> Result<Row, Failure> {
    let refused = |error: CudaError| Failure::from(error.into_backend(device.id()));
    let index = device.id().rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let context = Context::new(index).map_err(refused)?;
    let stream = Stream::new(&context).map_err(refused)?;
    let (module, _) =
        Module::from_ptx(&context, "echo_once", ECHO_ONCE, &JitOptions::default()).map_err(refused)?;
    let function = module.function("echo_once").map_err(refused)?;
    let pinned = || PinnedBuffer::new(&context, WORDS * 4).map_err(refused);
    let device_buffer = || DeviceBuffer::new(&stream, WORDS * 4).map_err(refused);
    let (inbox, outbox, a, b) = (pinned()?, pinned()?, device_buffer()?, device_buffer()?);
    let (from, to) = (a.pointer(), b.pointer());
    let graph = Graph::capture(&stream, |stream| -> kiln_cuda::driver::Result<()> {
        // SAFETY: all are of twelve words, and alive until the wait after each launch of the graph.
        unsafe {
            stream.upload_pinned(from, &inbox, 0..WORDS * 4)?;
            function.launch(stream, &LaunchShape::new([1, 1, 1], [WORDS as u32, 1, 1]), &[from.0, to.0])?;
            stream.download_pinned(&outbox, 0..WORDS * 4, to)
        }
    })
    .map_err(refused)?;
    let host = |buffer: &PinnedBuffer| buffer.host_pointer().as_ptr().cast::<[u32; WORDS]>();
    timed(GRAPH, ROUNDS, |message| {
        // SAFETY: pinned memory of twelve words that nothing uses between two launches.
        unsafe { host(&inbox).write_volatile(message.words) };
        // SAFETY: what the graph uses is alive until the wait.
        unsafe { graph.launch(&stream) }.map_err(refused)?;
        stream.synchronize().map_err(refused)?;
        // SAFETY: as above.
        Ok(unsafe { host(&outbox).read_volatile() }.to_vec())
    })
}

/// The times of round trips, as many as that a slice, of which each gives the words of the answer.
fn timed(
    name: &str,
    rounds: usize,
    mut round_trip: impl FnMut(Ping) -> Result<Vec<u32>, Failure>,
) -> Result<Row, Failure> {
    let mut number = 0;
    let mut one_us = || {
        let message = Ping::numbered(number);
        number += 1;
        let start = Instant::now();
        let reply = round_trip(message)?;
        let good = reply == message.raised(1).words;
        let time = start.elapsed();
        match good {
            true => Ok(time.as_secs_f64() * 1e6),
            false => {
                let sent = message.words;
                Err(Failure::Wrong(format!("a launch was wrong: {reply:?} came back for {sent:?}")))
            }
        }
    };
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP {
        one_us()?;
    }
    Ok(undisturbed::measure(&mut || (0..rounds).map(|_| one_us()).collect())?.times(name, "copies"))
}
