//! Streams and events: order between launches.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, holds};
use kiln_lang::prelude::*;
use kiln_runtime::{Event, StreamPriority, Tensor};
use std::sync::mpsc::channel;
use std::time::Duration;

pub fn cases() -> Vec<Case> {
    cases!["streams":
        tensors_order_streams;
        readers_and_writers;
        freed_while_in_use;
        events;
        faults_stay_in_their_stream;
        calls_of_the_host;
    ]
}

#[kernel(crate = kiln_runtime)]
fn affine(x: &mut Tensor<u32, 1>, factor: Val<u32>, addend: Val<u32>) {
    let tile = x.tile(program_id(0) * 256, 256);
    tile.store(tile.load(0) * factor + addend);
}

fn tensors_order_streams(trial: &mut Trial<'_>) -> Verdict {
    let streams = [trial.device.stream()?, trial.device.stream()?, trial.device.stream()?];
    let (mut x, data) = trial.input::<u32, 1>([10_001])?;
    let mut expected = data;
    for step in 0..20u32 {
        affine(&mut x, 2 * step + 1, step).on(&streams[step as usize % 3]).launch(trial.device)?;
        expected.iter_mut().for_each(|v| *v = v.wrapping_mul(2 * step + 1).wrapping_add(step));
    }
    holds("twenty steps over three streams", &x, &expected)
}

#[kernel(crate = kiln_runtime)]
fn copy(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>) {
    let at = program_id(0) * 256;
    y.tile(at, 256).store(x.tile(at, 256).load(0));
}

fn readers_and_writers(trial: &mut Trial<'_>) -> Verdict {
    let (a, b) = (trial.device.stream()?, trial.device.stream()?);
    let (mut x, data) = trial.input::<u32, 1>([5003])?;
    let mut copies = Vec::new();
    for step in 0..8u32 {
        let mut y = trial.device.uninit([5003])?;
        copy(&x, &mut y).on(if step % 2 == 0 { &a } else { &b }).launch(trial.device)?;
        copies.push(y);
        // The write must wait for the reads in the other streams.
        affine(&mut x, 3, 1).on(&a).launch(trial.device)?;
    }
    let mut expected = data;
    for copy in copies {
        holds("what a reader saw", &copy, &expected)?;
        expected.iter_mut().for_each(|v| *v = v.wrapping_mul(3).wrapping_add(1));
    }
    Ok(())
}

fn freed_while_in_use(trial: &mut Trial<'_>) -> Verdict {
    let stream = trial.device.stream()?;
    let mut last = trial.device.zeros([4099])?;
    let mut expected = 0u32;
    for step in 0..16u32 {
        let mut x = trial.device.tensor(&vec![step; 4099], [4099])?;
        affine(&mut x, 2, 1).on(&stream).launch(trial.device)?;
        copy(&x, &mut last).on(&stream).launch(trial.device)?;
        expected = 2 * step + 1;
        // `x` goes here, while the stream may still use it.
    }
    holds("the last step", &last, &vec![expected; 4099])
}

fn events(trial: &mut Trial<'_>) -> Verdict {
    let stream = trial.device.stream()?;
    let (mut x, _) = trial.input::<u32, 1>([1000])?;
    let before = Event::now(trial.device)?;
    stream.wait(&before)?;
    let start = stream.record()?;
    affine(&mut x, 3, 1).on(&stream).launch(trial.device)?;
    let end = stream.record()?;
    stream.synchronize()?;
    trial.device.synchronize()?;
    ensure(before.is_reached()? && start.is_reached()? && end.is_reached()?, || {
        "an event was not reached".into()
    })?;
    let ms = end.milliseconds_since(&start)?;
    ensure((0.0..10_000.0).contains(&ms), || format!("the launch took {ms} ms"))
}

#[kernel(crate = kiln_runtime)]
fn refuse(x: &Tensor<u32, 1>) {
    device_assert!(x.get(0) == 0, "refused");
}

fn faults_stay_in_their_stream(trial: &mut Trial<'_>) -> Verdict {
    let stream = trial.device.stream()?;
    let x = trial.vector(&[1u32])?;
    refuse(&x).grid([1; 3]).on(&stream).launch(trial.device)?;
    let found = stream.synchronize();
    ensure(found.as_ref().is_err_and(|e| e.fault().is_some()), || format!("the stream reported {found:?}"))?;
    trial.device.synchronize()?;
    stream.synchronize()?;
    Ok(())
}

/// Calls come in the order of the stream, and what they precede waits for them.
fn calls_of_the_host(trial: &mut Trial<'_>) -> Verdict {
    if trial.device.backend().stream_controls().is_none() {
        return Err(Stop::missing("stream priorities and calls of the host"));
    }
    let urgent = trial.device.stream_with_priority(StreamPriority::High)?;
    let (mut x, data) = trial.input::<u32, 1>([10_007])?;
    let (send, calls) = channel();
    let mut expected = data;
    for step in 0..5u32 {
        affine(&mut x, 3, step).on(&urgent).launch(trial.device)?;
        expected.iter_mut().for_each(|v| *v = v.wrapping_mul(3).wrapping_add(step));
        let send = send.clone();
        urgent.call(move || _ = send.send(step))?;
    }
    // One that panics takes nobody with it.
    urgent.call(|| std::panic::resume_unwind(Box::new("on purpose")))?;
    let last = send;
    urgent.call(move || _ = last.send(5))?;
    for step in 0..=5 {
        let called = calls.recv_timeout(Duration::from_secs(20));
        ensure(called == Ok(step), || format!("call {step} was {called:?}"))?;
    }
    urgent.synchronize()?;
    holds("what was launched between the calls", &x, &expected)
}
