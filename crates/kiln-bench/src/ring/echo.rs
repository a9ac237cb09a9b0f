//! Round trips of one message, and rates of many.

use super::message::{Ping, active, config, echo, explained, transport, wrong};
use super::places::Places;
use super::row::Row;
use super::undisturbed;
use crate::failure::Failure;
use kiln_backend::{MappedPlace, Residency};
use kiln_ring::{Actor, RingConfig, RingRuntime, RuntimeConfig, Transport};
use kiln_runtime::Device;
use std::time::{Duration, Instant};

pub const ROUND_TRIP: &str = "ring.round_trip_48B";
pub const ON_CPU: &str = "ring.baseline_cpu_48B";
pub const RATE_ON_CPU: &str = "ring.baseline_cpu_echo_48B_1x1024";
pub const UNMEASURED: &str = "ring.echo_48B_1x1024_unmeasured";

/// Numbers of actors, and of messages in flight to each.
pub const SIZES: [(usize, usize); 17] = [
    (1, 1),
    (1, 16),
    (1, 64),
    (1, 256),
    (1, 1024),
    (1, 4096),
    (4, 64),
    (4, 1024),
    (16, 1),
    (16, 64),
    (16, 256),
    (16, 1024),
    (16, 4096),
    (64, 64),
    (64, 1024),
    (132, 64),
    (132, 1024),
];

/// Messages that are made, and sent, at once.
const BATCH: usize = 256;

/// Round trips before those that count.
const WARM_UP: usize = 2000;

pub fn name(actors: usize, window: usize) -> String {
    format!("ring.echo_48B_{actors}x{window}")
}

/// One message in flight.
pub fn round_trip(device: &Device, place: MappedPlace) -> Result<Row, Failure> {
    round_trips(device, ROUND_TRIP, config(place, 1), (place, &transport(device, place)))
}

/// The same by the processor of this machine, beside a device that is another.
pub fn round_trip_on_cpu() -> Result<Row, Failure> {
    let place = MappedPlace::Host;
    round_trips(&Device::open("cpu")?, ON_CPU, config(place, 1), (place, "cpu"))
}

/// The same by release and acquire.
pub fn round_trip_ordered(device: &Device) -> Result<Row, Failure> {
    let place = MappedPlace::Host;
    let config = config(place, 1).transport(Transport::Ordered);
    round_trips(device, ROUND_TRIP, config, (place, "ordered"))
}

fn round_trips(
    device: &Device,
    name: &str,
    config: RuntimeConfig,
    (place, transport): (MappedPlace, &str),
) -> Result<Row, Failure> {
    let rounds = match device.properties().residency {
        Residency::Within => 20,
        Residency::Dispatched => 400,
        Residency::Beside => 16_000,
    };
    let warm_up = WARM_UP.min(rounds);
    let mut places = Places::new(device.backend(), place);
    let slices = undisturbed::measure(&mut || {
        places.change()?;
        let runtime = RingRuntime::with(device, config)?;
        let events = runtime.events();
        let actor = active(&runtime, echo, RingConfig::default().capacity(64))?;
        let mut times_us = Vec::with_capacity(rounds);
        for round in 0..warm_up + rounds {
            let time = explained(one(&actor, round as u32), &events)?;
            if round >= warm_up {
                times_us.push(time.as_secs_f64() * 1e6);
            }
        }
        actor.terminate()?;
        Ok(times_us)
    })?;
    Ok(slices.times(name, transport))
}

/// The time of one message there and back, verified.
pub fn one(actor: &Actor<echo>, number: u32) -> Result<Duration, Failure> {
    let message = Ping::numbered(number);
    let start = Instant::now();
    actor.send(message)?;
    let reply = actor.recv()?;
    let good = reply.is(&message.raised(1));
    let time = start.elapsed();
    if good { Ok(time) } else { Err(wrong(message, reply)) }
}

/// An actor, and how far its messages are.
struct Flow {
    actor: Actor<echo>,
    sent: u32,
    seen: u32,
}

impl Flow {
    /// Sends what there is room for, as soon as that is a quarter of the window.
    fn send(&mut self, window: u32, batch: &mut Vec<Ping>) -> Result<(), Failure> {
        let mut room = window - self.sent.wrapping_sub(self.seen);
        if room < (window / 4).max(1) {
            return Ok(());
        }
        while room > 0 {
            let count = room.min(BATCH as u32);
            batch.clear();
            batch.extend((0..count).map(|i| Ping::numbered(self.sent.wrapping_add(i))));
            self.actor.send_many(batch)?;
            self.sent = self.sent.wrapping_add(count);
            room -= count;
        }
        Ok(())
    }

    /// Takes the replies that are there, and compares every word; gives how many.
    fn receive(&mut self, window: u32) -> Result<u64, Failure> {
        let (mut seen, mut bad) = (self.seen, None);
        let taken = self.actor.channel().try_recv_each(window as usize, |reply| {
            let sent = Ping::numbered(seen);
            if !reply.is(&sent.raised(1)) {
                bad.get_or_insert((sent, reply));
            }
            seen = seen.wrapping_add(1);
        })?;
        self.seen = seen;
        bad.map_or(Ok(taken as u64), |(sent, got)| Err(wrong(sent, got)))
    }
}

/// As many messages in flight as the window, to each of some actors, from one thread.
pub fn rate(device: &Device, place: MappedPlace, actors: usize, window: usize) -> Result<Row, Failure> {
    rate_of(device, place, &name(actors, window), (actors, window), config(place, actors))
}

/// A rate by the processor of this machine.
pub fn rate_on_cpu() -> Result<Row, Failure> {
    let place = MappedPlace::Host;
    rate_of(&Device::open("cpu")?, place, RATE_ON_CPU, (1, 1024), config(place, 1))
}

/// One actor of which no handling times are measured: what measuring costs.
pub fn unmeasured(device: &Device, place: MappedPlace) -> Result<Row, Failure> {
    let config = RuntimeConfig { measure_every: 0, ..config(place, 1) };
    rate_of(device, place, UNMEASURED, (1, 1024), config)
}

fn rate_of(
    device: &Device,
    place: MappedPlace,
    name: &str,
    (actors, window): (usize, usize),
    config: RuntimeConfig,
) -> Result<Row, Failure> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut places = Places::new(device.backend(), place);
    let slices = undisturbed::measure(&mut || {
        places.change()?;
        let runtime = RingRuntime::with(device, config)?;
        let flow = |_| {
            let actor = active(&runtime, echo, RingConfig::default().capacity(window))?;
            Ok(Flow { actor, sent: 0, seen: 0 })
        };
        let mut flows = (0..actors).map(flow).collect::<Result<Vec<Flow>, Failure>>()?;
        let mut flow_for = |length| {
            let (start, mut total) = (Instant::now(), 0);
            while start.elapsed() < length {
                for flow in &mut flows {
                    flow.send(window as u32, &mut batch)?;
                    total += flow.receive(window as u32)?;
                }
            }
            Ok::<_, Failure>(undisturbed::rate(total, start.elapsed()))
        };
        // Until all pages of the rings were used.
        flow_for(undisturbed::SLICE / 8)?;
        flow_for(undisturbed::SLICE)
    })?;
    Ok(slices.rate(name, &transport(device, place)))
}
