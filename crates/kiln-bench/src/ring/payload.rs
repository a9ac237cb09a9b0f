//! Arrays that messages refer to, against bare copies to the device.

use super::row::Row;
use crate::failure::Failure;
use kiln_backend::MappedPlace;
use kiln_lang::prelude::*;
use kiln_ring::{Message, Payload, RingConfig, RingCtx, RingRuntime, RuntimeConfig, WaitPolicy, ring_kernel};
use kiln_runtime::Device;
use std::time::{Duration, Instant};

pub const COPY: &str = "ring.baseline_copy_1MiB";
pub const PAYLOAD: &str = "ring.payload_1MiB";

/// Words of an array: 1 MiB.
const LEN: usize = 1 << 18;

/// Arrays in turn.
const ARRAYS: usize = 4;

/// Every so many words one is read by the handler.
const APART: usize = 1 << 10;

#[derive(Message)]
#[kiln(crate = kiln_ring)]
struct Job {
    values: Payload<u32>,
}

/// The sum of words all over the array, so that one that is not there yet does not pass.
#[ring_kernel(crate = kiln_ring)]
fn sample(ctx: &RingCtx, job: Job) -> u32 {
    let values = ctx.array(&job.values);
    let mut sum: Val<u32> = 0;
    for i in ctx.share(values.len() / APART as u32) {
        sum += values.get_or(i * APART as u32, 0) + values.get_or(i * APART as u32 + APART as u32 - 1, 0);
    }
    ctx.sum(sum)
}

fn expected(values: &[u32]) -> u32 {
    values.chunks_exact(APART).fold(0u32, |sum, part| sum.wrapping_add(part[0]).wrapping_add(part[APART - 1]))
}

fn length(device: &Device) -> Duration {
    Duration::from_millis(if device.capabilities().is_interpreted() { 50 } else { 1000 })
}

/// Arrays of 1 MiB a second to an actor that answers what it read in each, and the same bytes by
/// copies alone.
pub fn rows(device: &Device, transport: &str) -> Result<Vec<Row>, Failure> {
    let copied = copies(device)?;
    let config = RuntimeConfig { arena_bytes: 2 * ARRAYS * LEN * 4, ..RuntimeConfig::default() };
    let runtime = RingRuntime::with(device, config.workers(1).endpoints_per_worker(8))?;
    let actor = runtime.launch(sample, RingConfig::default().capacity(2 * ARRAYS).wait(WaitPolicy::SPIN))?;
    actor.activate()?;
    let mut arrays = Vec::new();
    for k in 0..ARRAYS {
        let mut array = runtime.payload::<u32>(LEN)?;
        let staging = array.staging()?;
        staging
            .iter_mut()
            .enumerate()
            .for_each(|(i, word)| *word = (i as u32).wrapping_mul(0x9e37_79b9) ^ k as u32);
        let want = expected(staging);
        arrays.push((array, want));
    }
    let (start, mut sent, mut answered) = (Instant::now(), 0usize, 0usize);
    arrays[0].0.flush()?;
    while start.elapsed() < length(device) {
        // The next array is under way while this one is waited for and sent.
        if sent - answered == ARRAYS - 1 {
            check(actor.recv()?, arrays[answered % ARRAYS].1)?;
            answered += 1;
        }
        arrays[(sent + 1) % ARRAYS].0.flush()?;
        actor.send(Job { values: arrays[sent % ARRAYS].0.clone() })?;
        sent += 1;
    }
    while answered < sent {
        check(actor.recv()?, arrays[answered % ARRAYS].1)?;
        answered += 1;
    }
    let per_second = sent as f64 / start.elapsed().as_secs_f64();
    actor.terminate()?;
    Ok(vec![Row::rate(COPY, "copies", copied), Row::rate(PAYLOAD, transport, per_second)])
}

fn check(got: u32, want: u32) -> Result<(), Failure> {
    if got == want {
        Ok(())
    } else {
        Err(Failure::Wrong(format!("an array was summed to {got} instead of {want}")))
    }
}

/// Copies of 1 MiB a second from page-locked memory, back to back.
fn copies(device: &Device) -> Result<f64, Failure> {
    let backend = device.backend();
    let stream = backend.create_stream()?;
    let from = backend.need_mapped_memory()?.map(LEN * 4, MappedPlace::Host)?;
    let to = backend.allocate(LEN * 4, stream)?;
    let run = |copies: usize| -> Result<f64, Failure> {
        let start = Instant::now();
        for _ in 0..copies {
            // SAFETY: both are as long; neither is freed before the copies are over.
            unsafe { backend.copy(to, from.device, LEN * 4, stream)? };
        }
        backend.synchronize(stream)?;
        Ok(copies as f64 / start.elapsed().as_secs_f64())
    };
    let rate =
        run(16).and_then(|warm_up| run((warm_up * length(device).as_secs_f64() / 2.0).max(1.0) as usize));
    let waited = backend.synchronize(stream);
    // SAFETY: the copies are over, or the device has failed; each is freed once.
    unsafe {
        backend.free(to, LEN * 4, stream);
        backend.unmap(from);
    }
    backend.destroy_stream(stream);
    waited?;
    rate
}
