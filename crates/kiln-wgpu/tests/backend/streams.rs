//! Streams, events and their times.

use crate::{Outcome, STREAM, Test, ensure, text, uploaded};
use kiln_backend::{Backend, Clock, EventId, StreamId};
use kiln_wgpu::Wgpu;

pub const TESTS: &[Test] = &[
    ("events_are_reached_in_order", events_are_reached_in_order),
    ("work_takes_time", work_takes_time),
    ("what_is_not_there_is_refused", what_is_not_there_is_refused),
];

fn events_are_reached_in_order(device: &Wgpu) -> Outcome {
    let memory = uploaded(device, &[0; 4096])?;
    let other = device.create_stream().map_err(text)?;
    let before = device.record(STREAM, false).map_err(text)?;
    // SAFETY: the memory has 4096 bytes.
    unsafe { device.fill(memory, 1, 4096, STREAM) }.map_err(text)?;
    let after = device.record(STREAM, false).map_err(text)?;
    device.wait(other, after).map_err(text)?;
    device.synchronize(other).map_err(text)?;
    for event in [before, after] {
        ensure(device.query(event).map_err(text)?, || format!("{event:?} was not reached"))?;
        device.destroy_event(event);
    }
    device.destroy_stream(other);
    // Its number means the default stream from now on.
    device.synchronize(other).map_err(text)
}

fn work_takes_time(device: &Wgpu) -> Outcome {
    let (a, b) = (uploaded(device, &vec![3; 32 << 20])?, uploaded(device, &vec![4; 32 << 20])?);
    let start = device.record(STREAM, true).map_err(text)?;
    for _ in 0..4 {
        // SAFETY: both have as many bytes.
        unsafe { device.copy(a, b, 32 << 20, STREAM) }.map_err(text)?;
    }
    let end = device.record(STREAM, true).map_err(text)?;
    device.synchronize(STREAM).map_err(text)?;
    let [forward, backward, none] =
        [(start, end), (end, start), (start, start)].map(|(from, to)| device.elapsed_ms(from, to));
    let (forward, backward) = (forward.map_err(text)?, backward.map_err(text)?);
    let clock = device.properties().capabilities.clock;
    ensure(forward > 0.0 && forward < 60_000.0, || format!("{forward} ms by {clock}"))?;
    ensure((forward + backward).abs() < 1e-3 * forward, || format!("{forward} and {backward} ms"))?;
    ensure(none.map_err(text)? == 0.0 || clock == Clock::Host, || "an event is not at its own time".into())?;
    let untimed = device.record(STREAM, false).map_err(text)?;
    ensure(device.elapsed_ms(start, untimed).is_err(), || "an event without timing has a time".into())
}

fn what_is_not_there_is_refused(device: &Wgpu) -> Outcome {
    let (stream, event) = (StreamId(999), EventId(999));
    let refused = [
        device.allocate(4, stream).map(drop),
        device.synchronize(stream),
        device.record(stream, false).map(drop),
        device.wait(STREAM, event),
        device.query(event).map(drop),
        device.elapsed_ms(event, event).map(drop),
    ];
    ensure(refused.iter().all(Result::is_err), || format!("{refused:?}"))
}
