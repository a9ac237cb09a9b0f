//! Telemetry in the Prometheus text format (version 0.0.4).

use super::{ActorTelemetry, RuntimeTelemetry};
use std::fmt::Write;

/// A metric of actors: its name, type and meaning, and an actor's value.
type Metric = (&'static str, &'static str, &'static str, fn(&ActorTelemetry) -> f64);

const METRICS: [Metric; 13] = [
    ("processed_total", "counter", "Messages that the device is done with.", |a| a.processed as f64),
    ("received_total", "counter", "Of these, messages of other actors.", |a| a.received as f64),
    ("failed_total", "counter", "Messages that their handler did not answer.", |a| f64::from(a.failed)),
    ("sent_total", "counter", "Messages that were sent.", |a| a.counts.sent as f64),
    ("rejected_total", "counter", "Sends refused by a full queue.", |a| a.counts.rejected as f64),
    ("dropped_newest_total", "counter", "Messages not sent, for the queue was full.", |a| {
        a.counts.dropped_newest as f64
    }),
    ("dropped_oldest_total", "counter", "Messages given up to make room.", |a| {
        a.counts.dropped_oldest as f64
    }),
    ("expired_total", "counter", "Messages whose deadline passed.", |a| a.counts.expired as f64),
    ("undeliverable_total", "counter", "Messages to an actor that handled no more.", |a| {
        a.counts.undeliverable as f64
    }),
    ("unclaimed_total", "counter", "Replies whose caller no longer waited.", |a| a.counts.unclaimed as f64),
    ("restarts_total", "counter", "Restarts after failures.", |a| a.restarts as f64),
    ("queue_depth", "gauge", "Messages that wait for the device.", |a| a.depth as f64),
    ("uptime_seconds", "gauge", "Time since the actor was launched.", |a| a.uptime.as_secs_f64()),
];

impl RuntimeTelemetry {
    /// The metrics in the Prometheus text format: `kiln_ring_…`, by actor.
    ///
    /// ```
    /// # let device = kiln_runtime::Device::open("interp")?;
    /// # let runtime = kiln_ring::RingRuntime::new(&device)?;
    /// let text = runtime.telemetry()?.to_prometheus();
    /// assert!(text.contains("kiln_ring_runtime_uptime_seconds{device=\"interp\",runtime=\""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).map_or_else(|_| String::new(), |()| text)
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        // With the runtime: one collector may see several on a device, and refuses the same metric
        // twice.
        let own = format!("device=\"{}\",runtime=\"{}\"", escaped(&self.device), escaped(&self.runtime));
        head(out, "runtime_uptime_seconds", "gauge", "Time since the runtime was made.")?;
        writeln!(out, "kiln_ring_runtime_uptime_seconds{{{own}}} {}", self.uptime.as_secs_f64())?;
        head(out, "transport_info", "gauge", "1 for the transport of the runtime's messages.")?;
        let transport = self.transport;
        writeln!(out, "kiln_ring_transport_info{{{own},transport=\"{transport}\"}} 1")?;
        head(out, "dead_letters_total", "counter", "Messages that no handler finished.")?;
        writeln!(out, "kiln_ring_dead_letters_total{{{own}}} {}", self.dead_letters)?;
        for (name, kind, help, value) in METRICS {
            head(out, name, kind, help)?;
            for actor in &self.actors {
                writeln!(out, "kiln_ring_{name}{{{}}} {}", labels(&own, actor), value(actor))?;
            }
        }
        head(out, "priority_depth", "gauge", "Messages that wait for the device, by priority.")?;
        for actor in self.actors.iter().filter(|actor| actor.depths.len() > 1) {
            for (priority, depth) in actor.depths.iter().enumerate() {
                writeln!(
                    out,
                    "kiln_ring_priority_depth{{{},priority=\"{priority}\"}} {depth}",
                    labels(&own, actor)
                )?;
            }
        }
        head(out, "lifecycle", "gauge", "1 for the state that the actor is in.")?;
        for actor in &self.actors {
            writeln!(out, "kiln_ring_lifecycle{{{},state=\"{}\"}} 1", labels(&own, actor), actor.lifecycle)?;
        }
        head(out, "handling_seconds", "histogram", "Time from seeing a message to its answer, of a sample.")?;
        self.actors.iter().try_for_each(|actor| handling(out, &labels(&own, actor), actor))
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(out, "# HELP kiln_ring_{name} {help}\n# TYPE kiln_ring_{name} {kind}")
}

fn labels(own: &str, actor: &ActorTelemetry) -> String {
    format!("{own},actor=\"{}\",handler=\"{}\"", actor.actor, escaped(actor.handler))
}

/// The histogram of an actor: how many times lie below each bound.
fn handling(out: &mut String, labels: &str, actor: &ActorTelemetry) -> std::fmt::Result {
    let mut below = 0;
    for (end, count) in actor.handling.buckets() {
        below += count;
        // Times are whole nanoseconds: those below the end are at most one less.
        let bound = (end - 1) as f64 / 1e9;
        writeln!(out, "kiln_ring_handling_seconds_bucket{{{labels},le=\"{bound}\"}} {below}")?;
    }
    writeln!(out, "kiln_ring_handling_seconds_bucket{{{labels},le=\"+Inf\"}} {below}")?;
    let sum = actor.handling.sum_ns() as f64 / 1e9;
    writeln!(out, "kiln_ring_handling_seconds_sum{{{labels}}} {sum}")?;
    writeln!(out, "kiln_ring_handling_seconds_count{{{labels}}} {below}")
}

/// A label's value, without what would end it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
