//! A message that two actors bounce to each other without the host.

use super::row::Row;
use crate::failure::Failure;
use kiln_ring::{Address, Message, RingConfig, RingCtx, RingRuntime, RuntimeConfig, State, ring_kernel};
use kiln_runtime::{BackendKind, Device};

pub const ACTOR_TO_ACTOR: &str = "ring.actor_to_actor_global";
pub const SAME_WORKER: &str = "ring.actor_to_actor_same_worker";
pub const OTHER_GPU: &str = "ring.actor_to_actor_other_gpu";

/// Words that each actor changes.
const WORDS: usize = 9;

/// A message of 48 bytes.
#[derive(Message, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Ball {
    /// How often it is still to be sent.
    left: u32,
    /// When it was sent first, by the device's clock in nanoseconds; 0 for not yet.
    began: u64,
    words: [u32; WORDS],
}

#[derive(Message, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Landed {
    ns: u64,
    words: [u32; WORDS],
}

#[derive(State, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Player {
    other: Address<Ball>,
}

#[ring_kernel(crate = kiln_ring)]
fn bounce(ctx: &RingCtx, s: &mut Player, m: Ball) -> Option<Landed> {
    let mut began = m.began;
    if began == 0u64 {
        began = ctx.now_ns();
    }
    if m.left == 0 {
        return Some(Landed { ns: ctx.now_ns() - began, words: m.words });
    }
    ctx.send(&s.other, Ball { left: m.left - 1, began, words: m.words.map(|word| word + 1) });
    None
}

/// The times of one way between two actors, in microseconds: each the mean of `hops` ways, an even number, by the device's clock. Every word that arrives in the end is
/// verified.
fn one_way(
    runtime: &RingRuntime,
    other: &RingRuntime,
    rounds: usize,
    hops: u32,
) -> Result<Vec<f64>, Failure> {
    let player = |other| RingConfig::default().state(Player { other }).capacity(16);
    let a = runtime.launch(bounce, player(Address::none()))?;
    let b = other.launch(bounce, player(a.inlet_from(other, 16)?))?;
    a.set_state(Player { other: b.inlet_from(runtime, 16)? })?;
    a.activate()?;
    b.activate()?;
    let outputs = a.outputs();
    let mut times_us = Vec::with_capacity(rounds);
    for round in 0..rounds + rounds / 10 {
        let words = std::array::from_fn(|i| (round as u32).wrapping_mul(31).wrapping_add(i as u32));
        a.send(Ball { left: hops, began: 0, words })?;
        let landed = outputs.recv()?;
        let want = words.map(|word| word.wrapping_add(hops));
        if landed.words != want {
            return Err(Failure::Wrong(format!("{:?} came back instead of {want:?}", landed.words)));
        }
        if round >= rounds / 10 {
            times_us.push(landed.ns as f64 / 1e3 / f64::from(hops));
        }
    }
    a.terminate()?;
    b.terminate()?;
    Ok(times_us)
}

/// From one actor to another: on another worker, or on the same one.
pub fn row(device: &Device, name: &str) -> Result<Row, Failure> {
    let workers = if name == SAME_WORKER { 1 } else { 2 };
    let runtime = RingRuntime::with(device, RuntimeConfig::default().workers(workers).ports_per_worker(8))?;
    // Two threads of a machine that is busy take turns by its clock.
    let (rounds, hops) = match device.properties().kind {
        BackendKind::Interp => (10, 10),
        BackendKind::Cuda => (2000, 100),
        _ => (300, 20),
    };
    Ok(Row::times(name, "device", one_way(&runtime, &runtime, rounds, hops)?))
}

/// Between this GPU and another one of the machine, if there is one.
pub fn to_another_gpu(device: &Device) -> Result<Option<Row>, Failure> {
    let number = device.id().strip_prefix("cuda:").and_then(|number| number.parse::<u32>().ok());
    let other = number.and_then(|number| Device::open(&format!("cuda:{}", u32::from(number == 0))).ok());
    let Some(other) = other else { return Ok(None) };
    let config = || RuntimeConfig::default().workers(1).ports_per_worker(8);
    let (here, there) = (RingRuntime::with(device, config())?, RingRuntime::with(&other, config())?);
    Ok(Some(Row::times(OTHER_GPU, "device", one_way(&here, &there, 2000, 100)?)))
}
