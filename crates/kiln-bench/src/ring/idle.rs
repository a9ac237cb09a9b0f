//! What a grid costs that has nothing to do, and how soon it wakes: for each way in which its
//! workers wait.

use super::echo;
use super::message::{active, config, echo as echo_handler, explained, transport};
use super::power::Meter;
use super::process::cpu_time;
use super::row::Row;
use super::undisturbed;
use crate::failure::Failure;
use kiln_backend::MappedPlace;
use kiln_ring::{RingConfig, RingRuntime, RuntimeConfig};
use kiln_runtime::Device;
use serde_json::json;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A way in which workers wait.
struct Stage {
    name: &'static str,
    /// Polls before they sleep between polls, and how long they sleep.
    spins: u32,
    sleep: Duration,
    /// After how long the grid leaves the device.
    park: Option<Duration>,
    /// How often it is woken in a slice, and how long it rests before.
    wakes: u32,
    rest: Duration,
}

const fn polling(name: &'static str, spins: u32, sleep: Duration) -> Stage {
    Stage { name, spins, sleep, park: None, wakes: 8, rest: Duration::from_millis(5) }
}

const STAGES: [Stage; 4] = [
    polling("ring.idle_spin", u32::MAX, Duration::ZERO),
    polling("ring.idle_sleep_1us", 0, Duration::from_micros(1)),
    polling("ring.idle_sleep_100us", 0, Duration::from_micros(100)),
    Stage {
        park: Some(Duration::from_millis(50)),
        wakes: 1,
        rest: Duration::from_millis(100),
        ..polling("ring.idle_parked", 0, Duration::from_micros(1))
    },
];

/// How long the meters run.
const LENGTH: Duration = Duration::from_secs(2);

/// What the time at rest took: the share of one processor, and watts.
struct Rest {
    processor: Option<f64>,
    watts: Option<f64>,
}

fn rest(meter: Option<&Meter>) -> Rest {
    // What came before has ended, and clocks have settled.
    sleep(LENGTH / 4);
    let (begun, used, energy) = (Instant::now(), cpu_time(), meter.and_then(Meter::read));
    sleep(LENGTH);
    let took = begun.elapsed().as_secs_f64();
    let share = |since: Duration| Some((cpu_time()? - since).as_secs_f64() / took);
    Rest { processor: used.and_then(share), watts: energy.and_then(|e| meter?.watts_since(&e)) }
}

/// Lets time pass for the grid alone. A thread of the host that has slept takes 4 to 14 us for a
/// message, and keeps to about one time for as long as its process lives, so that a row would say
/// how the host wakes.
fn rest_awake(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A row for each way to wait. Watts are those above a context without a grid.
pub fn rows(device: &Device, place: MappedPlace, wanted: impl Fn(&str) -> bool) -> Result<Vec<Row>, Failure> {
    let stages: Vec<Stage> = STAGES.into_iter().filter(|stage| wanted(stage.name)).collect();
    if stages.is_empty() {
        return Ok(Vec::new());
    }
    let meter = Meter::of(device);
    let without = rest(meter.as_ref()).watts;
    let mut rows = Vec::new();
    for stage in stages {
        let workers = if meter.is_some() { device.properties().units as usize } else { 1 };
        let config = RuntimeConfig { spins: stage.spins, sleep: stage.sleep, ..config(place, workers) };
        let config = config.park_after(stage.park);
        let runtime = RingRuntime::with(device, config)?;
        let events = runtime.events();
        let actor = active(&runtime, echo_handler, RingConfig::default().capacity(64))?;
        explained(echo::one(&actor, 0), &events)?;
        let rest = rest(meter.as_ref());
        let mut number = 0;
        let mut wake_us = || {
            // Not always at the same time after a worker has slept.
            number += 1;
            rest_awake(stage.rest + Duration::from_micros(u64::from(number) * 617 % 1000));
            explained(echo::one(&actor, number), &events).map(|time| time.as_secs_f64() * 1e6)
        };
        let slices = undisturbed::measure_at_once(&mut || (0..stage.wakes).map(|_| wake_us()).collect())?;
        let mut more = slices.more();
        more["workers"] = json!(workers);
        more["processor_share"] = json!(rest.processor);
        more["watts"] = json!(rest.watts);
        more["watts_without_grid"] = json!(without);
        rows.push(Row::times(stage.name, &transport(device, place), slices.values()).with(more));
    }
    Ok(rows)
}
