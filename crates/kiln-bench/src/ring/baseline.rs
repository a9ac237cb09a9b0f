//! What resident actors replace: copy in, launch, copy out, wait; by Kiln, and as one graph by the
//! driver alone.

use super::message::{Ping, WORDS};
use super::row::Row;
use super::undisturbed::{self, Slices};
use crate::failure::Failure;
use kiln_cuda::driver::{
    Context, CudaError, DeviceBuffer, Function, Graph, JitOptions, LaunchShape, Module, PinnedBuffer, Stream,
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

/// A way to send a message to the device and back.
trait RoundTrip {
    /// Prepares the next slice.
    fn renew(&mut self) -> Result<(), Failure>;

    /// The words of the answer.
    fn go(&mut self, message: Ping) -> Result<Vec<u32>, Failure>;
}

/// Copy in, launch, copy out and wait, by Kiln.
pub fn launch(device: &Device) -> Result<Row, Failure> {
    let rounds = if device.capabilities().is_interpreted() { 5 } else { ROUNDS };
    Ok(timed(rounds, &mut Launched { device, y: device.zeros([WORDS])? })?.times(LAUNCH, "copies"))
}

struct Launched<'a> {
    device: &'a Device,
    y: Tensor<u32, 1>,
}

impl RoundTrip for Launched<'_> {
    fn renew(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn go(&mut self, message: Ping) -> Result<Vec<u32>, Failure> {
        let x = self.device.tensor(&message.words, [WORDS])?;
        echo_once(&x, &mut self.y).grid([1, 1, 1]).launch(self.device)?;
        Ok(self.y.to_vec()?)
    }
}

/// The three as one graph of the driver's, and a wait: a slice at its best, for with one stream and
/// memory it takes 9 us and with others 17 (`bench/notes.md`).
pub fn graph(device: &Device) -> Result<Row, Failure> {
    let refused = |error: CudaError| Failure::from(error.into_backend(device.id()));
    let index = device.id().rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let context = Context::new(index).map_err(refused)?;
    let (module, _) =
        Module::from_ptx(&context, "echo_once", ECHO_ONCE, &JitOptions::default()).map_err(refused)?;
    let function = module.function("echo_once").map_err(refused)?;
    Ok(timed(ROUNDS, &mut Graphs { device, context, function, made: Vec::new() })?.quickest(GRAPH, "copies"))
}

/// Graphs, the last of which is launched. Those before it are kept, so that the stream, the memory
/// and the commands of each slice lie elsewhere (see `places.rs`).
struct Graphs<'a> {
    device: &'a Device,
    context: Context,
    function: Function,
    made: Vec<EchoGraph>,
}

impl RoundTrip for Graphs<'_> {
    fn renew(&mut self) -> Result<(), Failure> {
        let made = EchoGraph::new(&self.context, &self.function);
        self.made.push(made.map_err(|error| error.into_backend(self.device.id()))?);
        Ok(())
    }

    fn go(&mut self, message: Ping) -> Result<Vec<u32>, Failure> {
        let graph = self.made.last().ok_or_else(|| Failure::Wrong("no graph was made".to_owned()))?;
        Ok(graph.echo(message).map_err(|error| error.into_backend(self.device.id()))?)
    }
}

/// Copies a message in, raises its words and copies it out.
struct EchoGraph {
    graph: Graph,
    inbox: PinnedBuffer,
    outbox: PinnedBuffer,
    _device: [DeviceBuffer; 2],
    stream: Stream,
}

impl EchoGraph {
    fn new(context: &Context, function: &Function) -> kiln_cuda::driver::Result<EchoGraph> {
        let stream = Stream::new(context)?;
        let bytes = WORDS * 4;
        let (inbox, outbox) = (PinnedBuffer::new(context, bytes)?, PinnedBuffer::new(context, bytes)?);
        let device = [DeviceBuffer::new(&stream, bytes)?, DeviceBuffer::new(&stream, bytes)?];
        let [from, to] = [device[0].pointer(), device[1].pointer()];
        let shape = LaunchShape::new([1, 1, 1], [WORDS as u32, 1, 1]);
        let graph = Graph::capture(&stream, |stream| {
            // SAFETY: all are of twelve words, and alive until the wait after each launch of the
            // graph.
            unsafe {
                stream.upload_pinned(from, &inbox, 0..bytes)?;
                function.launch(stream, &shape, &[from.0, to.0])?;
                stream.download_pinned(&outbox, 0..bytes, to)
            }
        })?;
        Ok(EchoGraph { graph, inbox, outbox, _device: device, stream })
    }

    fn echo(&self, message: Ping) -> kiln_cuda::driver::Result<Vec<u32>> {
        let words = |buffer: &PinnedBuffer| buffer.host_pointer().as_ptr().cast::<[u32; WORDS]>();
        // SAFETY: pinned memory of twelve words that nothing uses between two launches.
        unsafe { words(&self.inbox).write_volatile(message.words) };
        // SAFETY: what the graph uses is alive until the wait.
        unsafe { self.graph.launch(&self.stream) }?;
        self.stream.synchronize()?;
        // SAFETY: as above.
        Ok(unsafe { words(&self.outbox).read_volatile() }.to_vec())
    }
}

/// The times of round trips, as many as that a slice.
fn timed(rounds: usize, round_trip: &mut dyn RoundTrip) -> Result<Slices, Failure> {
    let mut number = 0;
    let mut one_us = |round_trip: &mut dyn RoundTrip| {
        let message = Ping::numbered(number);
        number += 1;
        let start = Instant::now();
        let reply = round_trip.go(message)?;
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
    round_trip.renew()?;
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP {
        one_us(round_trip)?;
    }
    let mut slice = || {
        round_trip.renew()?;
        (0..rounds).map(|_| one_us(round_trip)).collect()
    };
    undisturbed::measure(&mut slice)
}
