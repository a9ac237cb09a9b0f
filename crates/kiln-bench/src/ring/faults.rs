//! What it costs when something fails: an actor alone, or the device with all of them.

use super::message::{active, transport};
use super::row::Row;
use crate::failure::Failure;
use kiln_backend::MappedPlace;
use kiln_lang::prelude::*;
use kiln_ring::{
    Actor, AskError, Backoff, Restart, RingConfig, RingCtx, RingRuntime, RuntimeConfig, ring_kernel,
};
use kiln_runtime::Device;
use serde_json::json;
use std::time::{Duration, Instant};

/// From the message on which a handler fails to the restarted actor's first answer.
pub const RESTART: &str = "ring.restart";
/// From the message that traps, in a process of the device's own, to the answers of all its actors
/// from their checkpoints.
pub const TRAP: &str = "ring.recover_trap";
/// The same of a message whose handler never ends.
pub const HANG: &str = "ring.recover_hang";

/// How often an actor fails; on an interpreter, where each takes seconds; and a device.
const FAILURES: u32 = 200;
const FAILURES_INTERPRETED: u32 = 3;
const LOSSES: u32 = 5;
/// How long a worker may show no sign of life.
const STALLED: Duration = Duration::from_millis(250);
/// How long to wait for what is sure to come.
const PATIENCE: Duration = Duration::from_secs(20);

const FAIL: u32 = 12;
const STORE_NOWHERE: u32 = 13;
const NEVER_END: u32 = 14;

/// Adds, but for three numbers.
#[ring_kernel(crate = kiln_ring)]
fn dangerous(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
    device_assert!(x != FAIL);
    let scratch = shared::<u32, 1>([32]);
    if x == STORE_NOWHERE {
        // SAFETY: there is none. This is the trap whose cost is measured, in a process that is
        // there for that.
        unsafe { scratch.set_ordered_unchecked(x << 26, x, Order::Relaxed, Scope::Device) };
    }
    let mut n: Val<u32> = 0;
    while x == NEVER_END {
        n += 1;
    }
    *total += x + n;
    *total
}

/// Failures of one actor beside another, which must not notice.
pub fn restarts(device: &Device, place: MappedPlace) -> Result<Row, Failure> {
    let at_once = Backoff { first: Duration::ZERO, most: Duration::ZERO, calm: Duration::ZERO };
    let runtime = RingRuntime::with(device, super::message::config(place, 1))?;
    let config = RingConfig::default().state(100).restart(Restart::Always(at_once));
    let actor = active(&runtime, dangerous, config)?;
    let beside = active(&runtime, dangerous, RingConfig::default().state(0))?;
    let mut times_us = Vec::new();
    let interpreted = device.capabilities().is_interpreted();
    for round in 1..=if interpreted { FAILURES_INTERPRETED } else { FAILURES } {
        let begun = Instant::now();
        check("the one that failed", actor.ask(FAIL).err().map(|_| 0), Some(0))?;
        let answer = asked_again(&actor, 5, begun)?;
        times_us.push(begun.elapsed().as_secs_f64() * 1e6);
        check("after the restart", answer, Some(105))?;
        check("the one beside", beside.ask(1)?, Some(round))?;
    }
    Ok(Row::times(RESTART, &transport(device, place), times_us))
}

/// Asks until the actor, which is being restarted, takes it.
fn asked_again(actor: &Actor<dangerous>, x: u32, begun: Instant) -> Result<Option<u32>, Failure> {
    loop {
        match actor.ask(x) {
            Ok(answer) => return Ok(answer),
            Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
            Err(AskError::Send(_) | AskError::Unhandled { .. }) => std::hint::spin_loop(),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Losses of a device that is in a process of its own, and of every actor on it.
pub fn losses(device: &Device, name: &str) -> Result<Row, Failure> {
    let poison = if name == TRAP { STORE_NOWHERE } else { NEVER_END };
    let isolated = Device::open(&format!("isolated:{}", device.id()))?;
    let config = RuntimeConfig { step_budget: 0, stalled_after: STALLED, ..RuntimeConfig::default() };
    let mut runtime = RingRuntime::with(&isolated, config)?;
    let (mut total, mut other) = (100, 7);
    let mut actor = active(&runtime, dangerous, RingConfig::default().state(total))?;
    let mut idle = active(&runtime, dangerous, RingConfig::default().state(other))?;
    let (mut times_us, mut known_us) = (Vec::new(), Vec::new());
    for _ in 0..LOSSES {
        check("before", actor.ask(1)?, Some(total + 1))?;
        total += 1;
        actor.checkpoint()?;
        idle.checkpoint()?;
        let begun = Instant::now();
        // Its answer is not awaited: the host detects what a trap ends by its own means.
        actor.send(poison)?;
        while !runtime.is_lost() {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::Wrong(format!("{name}: nothing was lost")));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        known_us.push(begun.elapsed().as_secs_f64() * 1e6);
        let next = runtime.recover()?;
        let [a, b] = [next.bring_back(&actor)?, next.bring_back(&idle)?];
        a.activate()?;
        b.activate()?;
        check("the poisoned one", a.ask(5)?, Some(total + 5))?;
        check("the idle one", b.ask(2)?, Some(other + 2))?;
        times_us.push(begun.elapsed().as_secs_f64() * 1e6);
        (total, other) = (total + 5, other + 2);
        drop((std::mem::replace(&mut actor, a), std::mem::replace(&mut idle, b)));
        runtime = next;
    }
    known_us.sort_unstable_by(f64::total_cmp);
    let more = json!({
        "stalled_after_ms": STALLED.as_millis() as u64,
        "known_after_us": { "median": known_us[known_us.len() / 2], "most": known_us.last() },
    });
    Ok(Row::times(name, "isolated", times_us).with(more))
}

fn check(what: &str, got: Option<u32>, want: Option<u32>) -> Result<(), Failure> {
    if got == want { Ok(()) } else { Err(Failure::Wrong(format!("{what}: {got:?} instead of {want:?}"))) }
}
