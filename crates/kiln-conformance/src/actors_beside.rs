//! Ring kernels, and what else is done with their device meanwhile: nothing of it waits for their
//! end.

use crate::actors::{active, defaults, running_sum, same};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, holds};
use kiln_backend::Residency;
use kiln_kernels::Matmul;
use kiln_lang::prelude::*;
use kiln_ring::{RingConfig, RingRuntime, RuntimeConfig};
use kiln_runtime::{Device, Stream, Tensor};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

pub fn cases() -> Vec<Case> {
    cases!["actors_beside":
        streams_are_made;
        the_device_is_opened_again;
        kernels_that_need_a_multiprocessor;
    ]
}

/// More than a driver has room for at once: one that is measured makes room for 32 more.
const STREAMS: usize = 100;
/// Longer than all of it takes.
const LIMIT: Duration = Duration::from_secs(120);

/// Does something beside an actor that stays, and answers before and after. If that takes too long
/// the actor goes, and with it whatever was waited for.
fn beside(device: &Device, work: impl FnOnce() -> Verdict + Send) -> Verdict {
    beside_workers(device, 1, work)
}

/// The same beside workers on all multiprocessors of a GPU.
pub(crate) fn beside_all(device: &Device, work: impl FnOnce() -> Verdict + Send) -> Verdict {
    let workers = if is_gpu_with_residents(device) { device.properties().units as usize } else { 1 };
    beside_workers(device, workers, work)
}

fn is_gpu_with_residents(device: &Device) -> bool {
    device.properties().residency == Residency::Beside && device.properties().warp > 1
}

fn beside_workers(device: &Device, workers: usize, work: impl FnOnce() -> Verdict + Send) -> Verdict {
    // They do not go by themselves.
    let config = RuntimeConfig { workers: Some(workers), park_after: None, ..defaults() };
    let rt = RingRuntime::with(device, config)?;
    let actor = active(&rt, running_sum, RingConfig::default().state(0))?;
    same("before", actor.ask(1)?, Some(1))?;
    thread::scope(|scope| {
        let (send, done) = channel();
        let working = scope.spawn(move || {
            let outcome = work();
            let _ = send.send(());
            outcome
        });
        let in_time = done.recv_timeout(LIMIT).is_ok();
        let after = match in_time {
            true => actor.ask(2).map_err(Stop::from).and_then(|sum| same("after", sum, Some(3))),
            false => Err(Stop::wrong(format!("it waited for an actor for more than {LIMIT:?}"))),
        };
        drop((actor, rt));
        let outcome = working.join().unwrap_or_else(|_| Err(Stop::wrong("the work panicked".to_owned())));
        after.and(outcome)
    })
}

#[kernel(crate = kiln_runtime)]
fn affine(x: &mut Tensor<u32, 1>, factor: Val<u32>, addend: Val<u32>) {
    let tile = x.tile(program_id(0) * 256, 256);
    tile.store(tile.load(0) * factor + addend);
}

/// A number after a launch with it, in a stream or the default one.
fn launched(device: &Device, number: u32, stream: Option<&Stream>) -> Verdict {
    let mut x = device.tensor(&[number; 301], [301])?;
    let launch = affine(&mut x, 3, number);
    match stream {
        Some(stream) => launch.on(stream),
        None => launch,
    }
    .launch(device)?;
    holds("what was launched beside an actor", &x, &[4 * number; 301])
}

fn streams_are_made(trial: &mut Trial<'_>) -> Verdict {
    let device = trial.device;
    beside(device, || {
        let streams = (0..STREAMS).map(|_| device.stream()).collect::<Result<Vec<_>, _>>()?;
        streams.iter().zip(1..).try_for_each(|(stream, number)| launched(device, number, Some(stream)))
    })
}

/// By who has nothing to do with the one that the actor is on, and has actors of its own.
fn the_device_is_opened_again(trial: &mut Trial<'_>) -> Verdict {
    let device = trial.device;
    beside(device, || {
        let other = Device::open_apart(device.id())?;
        launched(&other, 5, None)?;
        beside(&other, || launched(device, 6, None).and(launched(&other, 7, Some(&other.stream()?))))
    })
}

/// Reverses parts of 32, in some of 16 KiB of shared memory.
#[kernel(crate = kiln_runtime)]
fn reversed(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>) {
    let s = shared::<u32, 1>([4096]);
    let (t, i) = (thread_id(0), thread_index());
    // SAFETY: each thread writes its own element, and reads after the barrier.
    unsafe { s.put(t * 100, x.get_or(i, 0)) };
    barrier();
    y.set_or_skip(i, s.get((val(31i64) - t) * 100));
}

/// The number at a place in one of 1024 of each thread: in memory of its own.
#[kernel(crate = kiln_runtime)]
fn remembered(y: &mut Tensor<u32, 1>, step: Val<i64>) {
    let (i, numbers) = (thread_index(), local::<u32>(1024));
    for at in range(0, 1024) {
        numbers.set(at, (at + i).cast::<u32>());
    }
    y.set_or_skip(i, numbers.get(i * step % 1024));
}

fn kernels_that_need_a_multiprocessor(trial: &mut Trial<'_>) -> Verdict {
    let data = trial.random::<u32>(301);
    // On a GPU so large that its programs need much of a multiprocessor.
    let n: usize = if is_gpu_with_residents(trial.device) { 1024 } else { 64 };
    let numbers: Vec<bf16> = (0..n * n).map(|i| bf16::from_f32((i * 7 % 31) as f32)).collect();
    let one: Vec<bf16> = (0..n * n).map(|i| bf16::from_f32(f32::from(i / n == i % n))).collect();
    let device = trial.device;
    beside_all(device, || {
        let (x, mut y) = (device.tensor(&data, [301])?, device.tensor(&[7u32; 301], [301])?);
        reversed(&x, &mut y).grid([10]).block([32]).launch(device)?;
        let other = |i: usize| i / 32 * 32 + 31 - i % 32;
        let expected: Vec<u32> = (0..301).map(|i| data.get(other(i)).copied().unwrap_or(0)).collect();
        holds("by shared memory", &y, &expected)?;
        remembered(&mut y, 37).grid([10]).block([32]).launch(device)?;
        let expected: Vec<u32> = (0..301).map(|i| i * 37 % 1024 + i).collect();
        holds("by local memory", &y, &expected)?;
        let (a, b) = (device.tensor(&numbers, [n, n])?, device.tensor(&one, [n, n])?);
        let mut c = device.zeros::<bf16, 2>([n, n])?;
        Matmul::new(&a, &b).run(&mut c)?;
        holds("a product", &c, &numbers)?;
        let mut d = device.zeros::<bf16, 2>([n, n])?;
        let (graph, ()) = device
            .graph(|_| Matmul::new(&b, &c).run(&mut d).and_then(|()| Matmul::new(&d, &b).run(&mut c)))?;
        graph.replay()?;
        holds("products in a graph", &c, &numbers)
    })
}
