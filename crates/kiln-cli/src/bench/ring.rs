//! `kiln bench ring`: talking to resident actors, against the launch that they replace.
//!
//! A round trip is timed on the host, from before the first word of the payload is written to after the reply was compared; the device computes the reply
//! from the payload. All replies are verified.

use super::{bounce, table};
use crate::failure::Failure;
use kiln_backend::MappedPlace;
use kiln_lang::prelude::*;
use kiln_ring::{Actor, Message, RingConfig, RingCtx, RingRuntime, RuntimeConfig, WaitPolicy, ring_kernel};
use kiln_runtime::{BackendKind, Device, Tensor};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Words of a message: 48 bytes.
const WORDS: usize = 12;

/// Round trips before those that count.
const WARM_UP: usize = 2000;

#[derive(Message, Clone, Copy, PartialEq, Debug)]
#[kiln(crate = kiln_ring)]
struct Ping {
    words: [u32; WORDS],
}

#[ring_kernel(crate = kiln_ring)]
fn echo(_ctx: &RingCtx, m: Ping) -> Ping {
    Ping { words: m.words.map(|word| word + 1) }
}

#[kernel(crate = kiln_runtime)]
fn echo_once(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>) {
    let at = program_id(0) * 16;
    y.tile(at, 16).store(x.tile(at, 16).load(0) + 1);
}

impl Ping {
    fn numbered(number: u32) -> Ping {
        Ping { words: std::array::from_fn(|i| number.wrapping_mul(31).wrapping_add(i as u32)) }
    }

    fn answered(self) -> Ping {
        Ping { words: self.words.map(|word| word.wrapping_add(1)) }
    }
}

/// A row: latencies of single messages, or a rate.
pub(super) struct Row {
    pub name: String,
    pub transport: String,
    pub times_us: Vec<f64>,
    pub per_second: f64,
}

/// Measures all rows, prints them, and writes them if asked to.
pub fn run(device: &Device, json: Option<&Path>, commit: &str) -> Result<(), Failure> {
    let gpu = device.properties().kind == BackendKind::Cuda;
    let places = device.backend().mapped_places();
    let mut rows = vec![launch_round_trip(device)?];
    for place in MappedPlace::ALL.into_iter().filter(|&place| places.get(place).is_ok()) {
        if !gpu && place == MappedPlace::Device {
            continue;
        }
        rows.push(round_trip(device, place)?);
        let most = if gpu { device.properties().units as usize } else { 1 };
        for actors in [1, 4, 16, 64, 132].into_iter().filter(|&actors| actors <= most) {
            for window in [64, 1024] {
                rows.push(rate(device, place, actors, window)?);
            }
        }
    }
    rows.push(actor_to_actor(device)?);
    let best = MappedPlace::ALL.into_iter().rfind(|&place| gpu && places.get(place).is_ok());
    rows.extend(super::ring_payload::rows(device, &transport(device, best.unwrap_or(MappedPlace::Host)))?);
    print(&rows);
    match json {
        Some(path) => write(path, &rows, device, commit),
        None => Ok(()),
    }
}

fn config(place: MappedPlace, workers: usize) -> RuntimeConfig {
    RuntimeConfig::default().workers(workers).ports_per_worker(8).mailbox(place)
}

fn active(runtime: &RingRuntime, capacity: usize) -> Result<Actor<echo>, Failure> {
    let actor = runtime.launch(echo, RingConfig::default().capacity(capacity).wait(WaitPolicy::SPIN))?;
    actor.activate()?;
    Ok(actor)
}

fn wrong(sent: Ping, got: Ping) -> Failure {
    Failure::Wrong(format!("an echo was wrong: {:?} came back for {:?}", got.words, sent.words))
}

/// One message in flight.
fn round_trip(device: &Device, place: MappedPlace) -> Result<Row, Failure> {
    let runtime = RingRuntime::with(device, config(place, 1))?;
    let actor = active(&runtime, 64)?;
    let within = device.properties().kind == BackendKind::Interp;
    let rounds = if within { 200 } else { 200_000 };
    let mut times_us = Vec::with_capacity(rounds);
    for round in 0..rounds + WARM_UP.min(rounds) {
        let message = Ping::numbered(round as u32);
        let start = Instant::now();
        actor.send(message)?;
        let reply = actor.recv()?;
        let good = reply == message.answered();
        let time = start.elapsed();
        if !good {
            return Err(wrong(message, reply));
        }
        if round >= WARM_UP.min(rounds) {
            times_us.push(time.as_secs_f64() * 1e6);
        }
    }
    actor.terminate()?;
    Ok(Row {
        name: "ring.round_trip_48B".into(),
        transport: transport(device, place),
        times_us,
        per_second: 0.0,
    })
}

/// From one actor to another, on another worker.
fn actor_to_actor(device: &Device) -> Result<Row, Failure> {
    let runtime = RingRuntime::with(device, RuntimeConfig::default().workers(2).ports_per_worker(8))?;
    let within = device.properties().kind == BackendKind::Interp;
    let (rounds, hops) = if within { (10, 10) } else { (2000, 100) };
    Ok(Row {
        name: "ring.actor_to_actor_global".into(),
        transport: "device".into(),
        times_us: bounce::one_way(&runtime, rounds, hops)?,
        per_second: 0.0,
    })
}

/// As many messages in flight as the window, to each of some actors, from one thread.
fn rate(device: &Device, place: MappedPlace, actors: usize, window: usize) -> Result<Row, Failure> {
    let runtime = RingRuntime::with(device, config(place, actors))?;
    let all: Vec<Actor<echo>> = (0..actors).map(|_| active(&runtime, window)).collect::<Result<_, _>>()?;
    let mut sent = vec![0u32; actors];
    let mut seen = vec![0u32; actors];
    let (mut batch, mut replies) = (Vec::with_capacity(window), Vec::with_capacity(window));
    let length =
        Duration::from_millis(if device.properties().kind == BackendKind::Interp { 50 } else { 1500 });
    let (start, mut total) = (Instant::now(), 0u64);
    while start.elapsed() < length {
        for (k, actor) in all.iter().enumerate() {
            let room = window as u32 - (sent[k] - seen[k]);
            if room >= (window as u32 / 4).max(1) {
                batch.clear();
                batch.extend((sent[k]..sent[k] + room).map(Ping::numbered));
                sent[k] += actor.channel().send_many(&batch).map_err(|(_, error)| error)? as u32;
            }
            replies.clear();
            actor.channel().recv_many(window, &mut replies)?;
            for reply in &replies {
                let message = Ping::numbered(seen[k]);
                if *reply != message.answered() {
                    return Err(wrong(message, *reply));
                }
                seen[k] += 1;
            }
            total += replies.len() as u64;
        }
    }
    let per_second = total as f64 / start.elapsed().as_secs_f64();
    drop(all);
    let name = format!("ring.echo_48B_{actors}x{window}");
    Ok(Row { name, transport: transport(device, place), times_us: Vec::new(), per_second })
}

/// What a resident actor replaces: copy in, launch, copy out, wait.
fn launch_round_trip(device: &Device) -> Result<Row, Failure> {
    let mut y = device.zeros::<u32, 1>([WORDS])?;
    let rounds = if device.properties().kind == BackendKind::Interp { 50 } else { 5000 };
    let mut times_us = Vec::with_capacity(rounds);
    for round in 0..rounds + 50 {
        let message = Ping::numbered(round as u32);
        let start = Instant::now();
        let x = device.tensor(&message.words, [WORDS])?;
        echo_once(&x, &mut y).grid([1, 1, 1]).launch(device)?;
        let reply = y.to_vec()?;
        let good = reply == message.answered().words;
        let time = start.elapsed();
        if !good {
            return Err(Failure::Wrong(format!(
                "a launch was wrong: {reply:?} came back for {:?}",
                message.words
            )));
        }
        if round >= 50 {
            times_us.push(time.as_secs_f64() * 1e6);
        }
    }
    Ok(Row { name: "ring.baseline_launch_48B".into(), transport: "copies".into(), times_us, per_second: 0.0 })
}

fn transport(device: &Device, place: MappedPlace) -> String {
    match (device.properties().kind, place) {
        (BackendKind::Cuda, MappedPlace::Device) => "bar".into(),
        (BackendKind::Cuda, MappedPlace::Host) => "pinned".into(),
        (kind, _) => kind.to_string(),
    }
}

/// The time that a fraction of all times does not exceed.
fn quantile(sorted: &[f64], fraction: f64) -> Option<f64> {
    let at = (sorted.len() as f64 * fraction) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
}

impl Row {
    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.times_us.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    fn json(&self, device: &Device, commit: &str, date: &str) -> Value {
        let sorted = self.sorted();
        let time = |fraction| quantile(&sorted, fraction);
        json!({
            "name": self.name, "device": device.properties().name, "commit": commit, "date": date,
            "transport": self.transport,
            "p50_us": time(0.5), "p99_us": time(0.99), "p999_us": time(0.999),
            "msgs_per_s": if self.per_second > 0.0 { json!(self.per_second) } else { Value::Null },
            "histogram_us": histogram(&sorted),
        })
    }
}

/// How many times fall below each of the bounds 0.1, 0.2, … microseconds, as far as there are any: `[bound, count]` for each that has some.
fn histogram(sorted: &[f64]) -> Vec<(f64, usize)> {
    let mut counts: Vec<(f64, usize)> = Vec::new();
    for time in sorted {
        let bound = ((time * 10.0).floor() + 1.0) / 10.0;
        match counts.last_mut() {
            Some((last, count)) if *last == bound => *count += 1,
            _ => counts.push((bound, 1)),
        }
    }
    counts
}

fn print(rows: &[Row]) {
    println!("{:28} {:8} {:>9} {:>9} {:>9} {:>14}", "row", "through", "p50", "p99", "p99.9", "messages/s");
    for row in rows {
        let sorted = row.sorted();
        let time = |fraction| quantile(&sorted, fraction).map_or(String::new(), |t| format!("{t:.2} us"));
        let rate = match row.per_second {
            0.0 => String::new(),
            many if many >= 1e6 => format!("{:.2} M", many / 1e6),
            few => format!("{few:.0}"),
        };
        let (p50, p99, p999) = (time(0.5), time(0.99), time(0.999));
        println!("{:28} {:8} {p50:>9} {p99:>9} {p999:>9} {rate:>14}", row.name, row.transport);
    }
}

fn write(path: &Path, rows: &[Row], device: &Device, commit: &str) -> Result<(), Failure> {
    let date = table::today();
    let rows: Vec<Value> = rows.iter().map(|row| row.json(device, commit, &date)).collect();
    table::write_text(path, &format!("{:#}\n", json!({ "rows": rows })))
}
