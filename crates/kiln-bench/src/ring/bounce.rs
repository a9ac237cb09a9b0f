//! A message that two actors bounce to each other without the host.

use super::row::Row;
use crate::failure::Failure;
use kiln_backend::Residency;
use kiln_ring::{
    Actor, Address, Message, RingConfig, RingCtx, RingError, RingRuntime, RuntimeConfig, State, ring_kernel,
};
use kiln_runtime::{Device, Execution};

pub const ACTOR_TO_ACTOR: &str = "ring.actor_to_actor_global";
pub const CLUSTER: &str = "ring.actor_to_actor_cluster";
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

/// Where the messages wait between two actors.
#[derive(Clone, Copy, PartialEq)]
enum Between {
    /// In the receiver's device memory.
    Memory,
    /// In the shared memory of the receiver's worker, of the same cluster as the sender's.
    Cluster,
}

impl Between {
    /// A queue of messages that another actor, maybe of another runtime, sends to this one.
    fn inbound_link(self, to: &Actor<bounce>, from: &RingRuntime) -> Result<Address<Ball>, Failure> {
        Ok(if self == Between::Cluster {
            to.inbound_link_in_cluster(16)?
        } else {
            to.inbound_link_from(from, 16)?
        })
    }
}

/// The times of one way between two actors, in microseconds: each the mean of `hops` ways, an even
/// number, by the device's clock. Every word that arrives in the end is verified.
fn one_way(
    runtime: &RingRuntime,
    other: &RingRuntime,
    between: Between,
    rounds: usize,
    hops: u32,
) -> Result<Vec<f64>, Failure> {
    let player = |other| RingConfig::default().state(Player { other }).capacity(16);
    let a = runtime.launch(bounce, player(Address::none()))?;
    let b = other.launch(bounce, player(between.inbound_link(&a, other)?))?;
    a.set_state(Player { other: between.inbound_link(&b, runtime)? })?;
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

/// From one actor to another: on another worker, on another one of its cluster, or on the same one.
///
/// There is none in a cluster on a device without.
pub fn row(device: &Device, name: &str) -> Result<Option<Row>, Failure> {
    let workers = if name == SAME_WORKER { 1 } else { 2 };
    let between = if name == CLUSTER { Between::Cluster } else { Between::Memory };
    let cluster = if between == Between::Cluster { workers } else { 1 };
    let config = RuntimeConfig::default().workers(workers).clusters_of(cluster).endpoints_per_worker(8);
    let runtime = match RingRuntime::with(device, config) {
        Err(RingError::NoClusters { .. }) => return Ok(None),
        made => made?,
    };
    // Two threads of a machine that is busy take turns by its clock.
    let (rounds, hops) = match device.capabilities().execution {
        _ if device.properties().residency == Residency::Dispatched => (20, 20),
        Execution::Interpreted => (10, 10),
        Execution::Simt => (2000, 100),
        Execution::Simd => (300, 20),
    };
    let times_us = one_way(&runtime, &runtime, between, rounds, hops)?;
    Ok(Some(Row::times(name, "device", times_us)))
}

/// Between this GPU and another one of the machine, if there is one.
pub fn to_another_gpu(device: &Device) -> Result<Option<Row>, Failure> {
    let reaches = |device: &Device| device.capabilities().peer_access;
    let others = Device::available().into_iter().filter(|id| reaches(device) && id != device.id());
    let other = others.filter_map(|id| Device::open(&id).ok()).find(reaches);
    let Some(other) = other else { return Ok(None) };
    let config = || RuntimeConfig::default().workers(1).endpoints_per_worker(8);
    let (here, there) = (RingRuntime::with(device, config())?, RingRuntime::with(&other, config())?);
    Ok(Some(Row::times(OTHER_GPU, "device", one_way(&here, &there, Between::Memory, 2000, 100)?)))
}
