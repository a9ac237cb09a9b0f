//! A steady rate of messages for a long time: whether any is lost, doubled, reordered or changed,
//! how late answers are, and whether memory grows.

use super::message::{Ping, active, config, count, transport};
use super::process::resident_bytes;
use super::row::Row;
use crate::failure::Failure;
use kiln_backend::MappedPlace;
use kiln_ring::{Actor, Histogram, RecvError, RingConfig, RingRuntime};
use kiln_runtime::Device;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Messages in flight to each actor.
const WINDOW: usize = 4096;
/// How long no answer may come at the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Messages to actors in turns: message `i` goes to actor `i % actors`, and is due at `i / rate`
/// seconds.
struct Soak {
    actors: Vec<Actor<count>>,
    /// How many answers each actor gave.
    seen: Vec<u64>,
    sent: u64,
    rate: f64,
    begun: Instant,
    /// The first answer that was not the one that was due.
    wrong: Option<String>,
    /// From when a message was due to when its answer was verified: of this second, and of all.
    second: Histogram,
    all: Histogram,
    seconds: Vec<Value>,
}

/// Runs it.
pub fn run(
    device: &Device,
    place: MappedPlace,
    actors: usize,
    length: Duration,
    rate: u64,
) -> Result<Row, Failure> {
    let runtime = RingRuntime::with(device, config(place, actors))?;
    let actor = |_| active(&runtime, count, RingConfig::default().state(0).capacity(WINDOW));
    let mut soak = Soak {
        actors: (0..actors).map(actor).collect::<Result<_, Failure>>()?,
        seen: vec![0; actors],
        sent: 0,
        rate: rate as f64,
        begun: Instant::now(),
        wrong: None,
        second: Histogram::default(),
        all: Histogram::default(),
        seconds: Vec::new(),
    };
    // What is allocated in the first moments is no growth.
    let settled = length.min(Duration::from_secs(1));
    soak.go_on(settled)?;
    let free = || device.backend().free_memory().ok();
    let before = (resident_bytes(), free());
    soak.go_on(length)?;
    let after = (resident_bytes(), free());
    let took = soak.begun.elapsed();
    let lost = soak.drain()?;
    let processed = soak.processed(&runtime)?;
    let more = json!({
        "seconds": length.as_secs_f64(), "rate_asked": rate, "actors": actors,
        "sent": soak.sent, "lost": lost, "wrong": soak.wrong, "processed_by_device": processed,
        "resident_bytes": [before.0, after.0], "device_bytes_free": [before.1, after.1],
        "p50_us": us(&soak.all, 0.5), "p99_us": us(&soak.all, 0.99), "p999_us": us(&soak.all, 0.999),
        "max_us": us(&soak.all, 1.0),
        "each_second": soak.seconds,
    });
    let per_second = soak.seen.iter().sum::<u64>() as f64 / took.as_secs_f64();
    Ok(Row::rate("ring.soak_48B", &transport(device, place), per_second).with(more))
}

/// A quantile in microseconds.
fn us(times: &Histogram, fraction: f64) -> Option<f64> {
    times.quantile(fraction).map(|ns| ns as f64 / 1e3)
}

impl Soak {
    /// Goes on until so much time has passed since the beginning.
    fn go_on(&mut self, until: Duration) -> Result<(), Failure> {
        loop {
            let now = self.begun.elapsed().min(until);
            self.send((now.as_secs_f64() * self.rate) as u64)?;
            self.receive()?;
            if now == until {
                return Ok(());
            }
            if now.as_secs() > self.seconds.len() as u64 {
                self.end_second();
            }
        }
    }

    /// Sends what is due, as far as there is room.
    fn send(&mut self, due: u64) -> Result<(), Failure> {
        let actors = self.actors.len() as u64;
        while self.sent < due {
            let k = (self.sent % actors) as usize;
            if self.sent / actors - self.seen[k] >= WINDOW as u64 {
                return Ok(());
            }
            self.actors[k].send(Ping::numbered(self.sent as u32))?;
            self.sent += 1;
        }
        Ok(())
    }

    /// Takes and verifies the answers that are there.
    fn receive(&mut self) -> Result<u64, Failure> {
        let actors = self.actors.len() as u64;
        let mut taken = 0;
        for (k, actor) in self.actors.iter().enumerate() {
            let (mut seen, first) = (self.seen[k], self.seen[k]);
            let wrong = &mut self.wrong;
            actor.channel().try_recv_each(WINDOW, |reply| {
                let number = seen * actors + k as u64;
                let want = Ping::numbered(number as u32).raised(seen as u32);
                if !reply.is(&want) {
                    wrong.get_or_insert_with(|| {
                        format!("message {number}: {:?} instead of {:?}", reply.words, want.words)
                    });
                }
                seen += 1;
            })?;
            let now = self.begun.elapsed().as_secs_f64();
            for answer in first..seen {
                let due = (answer * actors + k as u64) as f64 / self.rate;
                self.second.record(((now - due).max(0.0) * 1e9) as u64);
            }
            self.seen[k] = seen;
            taken += seen - first;
        }
        Ok(taken)
    }

    /// Reads how many messages the device says that it has handled. It counts each after its
    /// answer.
    fn processed(&self, runtime: &RingRuntime) -> Result<u64, Failure> {
        let begun = Instant::now();
        loop {
            let processed = runtime.telemetry()?.actors.iter().map(|actor| actor.processed).sum();
            if processed >= self.seen.iter().sum() || begun.elapsed() >= PATIENCE {
                return Ok(processed);
            }
        }
    }

    fn end_second(&mut self) {
        let second = std::mem::take(&mut self.second);
        let of = |fraction| us(&second, fraction);
        self.seconds.push(json!([second.count(), of(0.5), of(0.99), of(1.0)]));
        self.all.merge(&second);
    }

    /// Waits for what is still under way; gives how many messages have no answer.
    fn drain(&mut self) -> Result<u64, Failure> {
        let mut last = Instant::now();
        while self.seen.iter().sum::<u64>() < self.sent && last.elapsed() < PATIENCE {
            if self.receive()? > 0 {
                last = Instant::now();
            }
        }
        self.end_second();
        // An answer more than there were messages would be a doubled one.
        for actor in &self.actors {
            match actor.try_recv() {
                Err(RecvError::Empty { .. }) => {}
                Ok(reply) => drop(self.wrong.get_or_insert(format!("an answer too many: {:?}", reply.words))),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.sent - self.seen.iter().sum::<u64>())
    }
}
