//! Ring kernels, and what else is done with their device meanwhile: nothing of it waits for their
//! end.

use crate::actors::{active, defaults, running_sum, same};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, holds};
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
    ]
}

/// More than a driver has room for at once: one that is measured makes room for 32 more.
const STREAMS: usize = 100;
/// Longer than all of it takes.
const LIMIT: Duration = Duration::from_secs(120);

/// Does something beside an actor that stays, and answers before and after. If that takes too long
/// the actor goes, and with it whatever was waited for.
fn beside(device: &Device, work: impl FnOnce() -> Verdict + Send) -> Verdict {
    let config = RuntimeConfig { workers: Some(1), ..defaults() };
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
