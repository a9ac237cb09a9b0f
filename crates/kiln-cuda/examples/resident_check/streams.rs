//! What many streams wait for beside resident kernels. The driver hands work to the GPU in a few
//! queues (`CUDA_DEVICE_MAX_CONNECTIONS`, 8 by default), which streams share where there are more:
//! work behind a resident kernel in the same queue would wait for its end. And the driver makes
//! room for streams that are more than there ever were, which may wait too.
//!
//! What waits is reported and is no failure.

use crate::rig::{Outcome, Rig, Staying, ends, timed};
use kiln_cuda::driver::{DeviceBuffer, LaunchShape, Stream};
use std::error::Error;
use std::time::Duration;

/// How long the kernels are resident if the host does not release them.
const STAY: Duration = Duration::from_secs(2);
/// A call, or work, that takes as long waits for one of them: it takes some microseconds.
const LONG: Duration = Duration::from_millis(100);
const SHAPE: LaunchShape = LaunchShape::new([1, 1, 1], [16, 1, 1]);
/// Streams, and resident kernels, at most.
const MOST: usize = 40;

/// What is measured: the cost of streams, and what waits beside a resident kernel before which
/// there were no streams, as many, or as many with work.
pub const PARTS: [&str; 4] = ["cost", "nothing", "made", "used"];

type Found<T> = Result<T, Box<dyn Error>>;

/// A resident kernel, begun anew whenever something has waited for its end.
struct Beside<'a> {
    rig: &'a Rig,
    own: Stream,
    staying: Option<Staying>,
    /// Calls that waited, each with the number of its stream.
    waits: Vec<(&'static str, usize)>,
}

impl<'a> Beside<'a> {
    fn new(rig: &'a Rig) -> Found<Self> {
        let own = Stream::new(&rig.context)?;
        Ok(Beside { staying: Some(rig.stay_in(&own, STAY, 1)?), rig, own, waits: Vec::new() })
    }

    /// Calls something for the stream of a number, and says so if that took long.
    fn call<T>(&mut self, what: &'static str, number: usize, call: impl FnOnce() -> Found<T>) -> Found<T> {
        let (value, took) = timed(call)?;
        if took >= LONG {
            self.waits.push((what, number));
            self.end()?;
            self.staying = Some(self.rig.stay_in(&self.own, STAY, 1)?);
        }
        Ok(value)
    }

    /// Ends the kernel. Its memory is freed before there is another, which that would wait for.
    fn end(&mut self) -> Outcome {
        self.staying.take().map_or(Ok(()), |staying| staying.end().map(drop))
    }

    /// Makes streams of high priority, which may have room of their own.
    fn urgent(&mut self) -> Outcome {
        let rig = self.rig;
        let make = |number| self.call("make", number, || Ok(Stream::with_priority(&rig.context, i32::MIN)?));
        let kept: Found<Vec<Stream>> = (0..MOST).map(make).collect();
        kept?;
        println!("  of {MOST} streams of high priority: {:?}", std::mem::take(&mut self.waits));
        Ok(())
    }

    /// Makes a stream, and copies, launches and waits in it.
    fn stream(&mut self, number: usize, buffer: &DeviceBuffer) -> Found<Stream> {
        let (rig, at) = (self.rig, buffer.pointer());
        let stream = self.call("make", number, || Ok(Stream::new(&rig.context)?))?;
        // SAFETY: the buffer has 64 bytes, and outlives all of this; what stands in it when several
        // streams write to it is of no account.
        self.call("copy", number, || Ok(unsafe { stream.upload(at, &[1; 64]) }?))?;
        self.call("launch", number, || launch(rig, &stream, buffer))?;
        self.call("work", number, || ends(&stream, LONG).map(drop))?;
        Ok(stream)
    }
}

/// Measures one of the parts.
pub fn measure(rig: &Rig, part: &str) -> Outcome {
    if part == "cost" { cost(rig) } else { waits(rig, part) }
}

/// What streams cost without a resident kernel.
fn cost(rig: &Rig) -> Outcome {
    let before = rig.context.memory()?.free;
    let make = || -> Found<Vec<Stream>> { (0..MOST).map(|_| Ok(Stream::new(&rig.context)?)).collect() };
    let (streams, first) = timed(make)?;
    let taken = before.saturating_sub(rig.context.memory()?.free);
    drop(streams);
    let (_streams, again) = timed(make)?;
    println!("  {MOST} streams take {first:.1?} and {taken} bytes of the GPU, and again {again:.1?}");
    Ok(())
}

/// Streams that are made one by one beside one resident kernel, and resident kernels that are begun
/// one by one beside one stream.
fn waits(rig: &Rig, before: &str) -> Outcome {
    let buffer = DeviceBuffer::new(&rig.stream, 128)?;
    rig.stream.synchronize()?;
    // Loaded before any kernel is resident, which loading would wait for.
    launch(rig, &rig.stream, &buffer)?;
    rig.stream.synchronize()?;
    if before != "nothing" {
        let made: Found<Vec<Stream>> = (0..=MOST).map(|_| Ok(Stream::new(&rig.context)?)).collect();
        for stream in made?.iter().filter(|_| before == "used") {
            launch(rig, stream, &buffer)?;
            stream.synchronize()?;
        }
    }
    let mut beside = Beside::new(rig)?;
    beside.urgent()?;
    for time in ["first", "second"] {
        let kept: Found<Vec<Stream>> = (0..MOST).map(|number| beside.stream(number, &buffer)).collect();
        for (number, stream) in kept?.into_iter().enumerate() {
            beside.call("destroy", number, || {
                drop(stream);
                Ok(())
            })?;
        }
        println!("  the {time} time, of {MOST} streams: {:?}", std::mem::take(&mut beside.waits));
    }
    beside.end()?;
    residents(rig, &buffer)
}

/// How many resident kernels there are when the work of another stream waits.
fn residents(rig: &Rig, buffer: &DeviceBuffer) -> Outcome {
    let (mut staying, mut stopped) = (Vec::new(), None);
    while staying.len() < MOST && stopped.is_none() {
        staying.push(rig.stay_in(&Stream::new(&rig.context)?, STAY, 1)?);
        launch(rig, &rig.stream, buffer)?;
        stopped = (!ends(&rig.stream, LONG)?).then_some(staying.len());
    }
    println!("  resident kernels beside which the work of another stream waits: {stopped:?} of {MOST}");
    // All of them first: what one of them used is freed when none is there.
    staying.iter().for_each(Staying::release);
    staying.into_iter().try_for_each(|staying| staying.end().map(drop))
}

fn launch(rig: &Rig, stream: &Stream, buffer: &DeviceBuffer) -> Outcome {
    let at = buffer.pointer();
    // SAFETY: the buffer has the two lines of 64 bytes that the kernel takes, and outlives all of
    // this.
    Ok(unsafe { rig.function("answer_once")?.launch(stream, &SHAPE, &[at.0, at.0 + 64]) }?)
}
