//! How many streams there may be beside resident kernels. The driver hands work to the GPU in a few
//! queues (`CUDA_DEVICE_MAX_CONNECTIONS`, 8 by default), which streams share where there are more:
//! work behind a resident kernel in the same queue waits for its end.
//!
//! What waits is reported and is no failure.

use crate::rig::{Outcome, Rig, Staying};
use kiln_cuda::driver::{DeviceBuffer, LaunchShape, Stream};
use std::error::Error;
use std::time::{Duration, Instant};

/// How long the kernels are resident if the host does not release them.
const STAY: Duration = Duration::from_secs(20);
/// Work that takes as long waits for one of them: it takes some microseconds.
const LONG: Duration = Duration::from_millis(20);
const SHAPE: LaunchShape = LaunchShape::new([1, 1, 1], [16, 1, 1]);
/// Streams, and resident kernels, at most.
const MOST: usize = 40;

/// Streams that are made one by one beside one resident kernel, and resident kernels that are
/// begun one by one beside one stream.
pub fn measure(rig: &Rig) -> Outcome {
    let buffer = DeviceBuffer::new(&rig.stream, 128)?;
    rig.stream.synchronize()?;
    // Loaded before any kernel is resident, which loading would wait for.
    waits(rig, &rig.stream, &buffer)?;
    for (what, priority) in [("as other streams", 0), ("of the highest priority", i32::MIN)] {
        let own = Stream::with_priority(&rig.context, priority)?;
        let staying = rig.stay_in(&own, STAY)?;
        // All live, and then each gone before the next.
        let mut kept = Vec::new();
        let kept_wait = waiting(rig, &buffer, |stream| kept.push(stream))?;
        let gone_wait = waiting(rig, &buffer, drop)?;
        let (streams, was_there) = (kept.len(), staying.end()?);
        println!(
            "  the kernel's stream {what}: of {streams} streams {kept_wait:?} wait, of as many that are gone {gone_wait:?}"
        );
        if !was_there {
            println!("  and something waited for its end");
        }
    }
    let (mut staying, mut stopped) = (Vec::new(), None);
    while staying.len() < MOST && stopped.is_none() {
        staying.push(rig.stay_in(&Stream::new(&rig.context)?, STAY)?);
        stopped = waits(rig, &rig.stream, &buffer)?.then_some(staying.len());
    }
    println!("  resident kernels beside which the work of another stream waits: {stopped:?} of {MOST}");
    // All of them first: what one of them used is freed when none is there.
    staying.iter().for_each(Staying::release);
    staying.into_iter().try_for_each(|staying| staying.end().map(drop))
}

/// Which of [`MOST`] new streams wait, by their numbers. Each is then handed to `keep`.
fn waiting(
    rig: &Rig,
    buffer: &DeviceBuffer,
    mut keep: impl FnMut(Stream),
) -> Result<Vec<usize>, Box<dyn Error>> {
    let mut found = Vec::new();
    for number in 0..MOST {
        let stream = Stream::new(&rig.context)?;
        if waits(rig, &stream, buffer)? {
            found.push(number);
        }
        keep(stream);
    }
    Ok(found)
}

/// Whether a copy and a launch in a stream are not done in time.
fn waits(rig: &Rig, stream: &Stream, buffer: &DeviceBuffer) -> Result<bool, Box<dyn Error>> {
    let at = buffer.pointer();
    // SAFETY: the buffer has the two lines of 64 bytes that the kernel takes, and outlives all of
    // this; what stands in it when several streams write to it is of no account.
    unsafe {
        stream.upload(at, &[1; 64])?;
        rig.function("answer_once")?.launch(stream, &SHAPE, &[at.0, at.0 + 64])?;
    }
    let begun = Instant::now();
    while !stream.is_idle()? {
        if begun.elapsed() > LONG {
            return Ok(true);
        }
    }
    Ok(false)
}
