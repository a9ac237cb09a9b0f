//! Ring kernels: what telemetry reports of actors while they work.

use crate::actors::{SOON, active, even_halves, running_sum, runtimes, same};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure};
use kiln_backend::{Clock, Residency};
use kiln_ring::{Actor, ActorTelemetry, Handler, Lifecycle, RingConfig};
use std::time::Instant;

pub fn cases() -> Vec<Case> {
    cases!["telemetry":
        actors_tell_what_they_did;
        failures_are_told;
    ]
}

/// An actor's figures once it is done with so many messages: the last one is counted after its
/// answer.
pub(crate) fn after<H: Handler>(actor: &Actor<H>, processed: u64) -> Result<ActorTelemetry, Stop> {
    let begun = Instant::now();
    loop {
        let seen = actor.telemetry()?;
        if seen.processed >= processed || begun.elapsed() > SOON {
            same("processed", seen.processed, processed)?;
            return Ok(seen);
        }
        // A device that runs within the host's waits goes on in them.
        actor.channel().tidy();
    }
}

fn actors_tell_what_they_did(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let (actor, other) = (
            active(&rt, running_sum, RingConfig::default().state(0u64))?,
            active(&rt, even_halves, RingConfig::default())?,
        );
        let begun = Instant::now();
        for x in 0..100 {
            actor.ask(x)?;
        }
        let took = begun.elapsed();
        let seen = after(&actor, 100)?;
        same("failed", seen.failed, 0)?;
        same("depth", seen.depth, 0)?;
        same("sent", seen.counts.sent, 100)?;
        same("state behind which the gauges lie", actor.state()?, (0..100).sum::<u64>())?;
        // In a dispatch there is no clock.
        let measures = trial.device.properties().residency != Residency::Dispatched;
        same("measured", seen.handling.count(), if measures { 100u64.div_ceil(16) } else { 0 })?;
        // The interpreter's clock counts operations.
        if trial.device.capabilities().clock != Clock::Operations {
            let most = seen.handling.quantile(1.0).unwrap_or(0);
            ensure(u128::from(most) <= 2 * took.as_nanos() + 2000, || format!("{most} ns of {took:?}"))?;
        }
        actor.deactivate()?;
        (0..3).try_for_each(|x| actor.send(x).map(drop))?;
        let held = actor.telemetry()?;
        same("held", (held.processed, held.depth, held.lifecycle), (100, 3, Lifecycle::Deactivated))?;
        same("throughput", held.throughput_since(&seen), Some(0.0))?;
        same("the other", other.telemetry()?.processed, 0)?;
        let all = rt.telemetry()?;
        let of: Vec<(u32, u64)> = all.actors.iter().map(|a| (a.actor, a.processed)).collect();
        same("all", of, vec![(actor.number(), 100), (other.number(), 0)])?;
        let text = all.to_prometheus();
        let line = format!(
            "kiln_ring_processed_total{{device=\"{}\",runtime=\"{}\",actor=\"{}\",handler=\"running_sum\"}} 100",
            trial.device.id(),
            all.runtime,
            actor.number()
        );
        ensure(text.lines().any(|l| l == line), || format!("no line `{line}` in\n{text}"))?;
    }
    Ok(())
}

fn failures_are_told(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, even_halves, RingConfig::default())?;
        same("first", actor.ask(6)?, Some(3))?;
        same("before", actor.telemetry()?.last_failure, None)?;
        ensure(actor.ask(13).is_err(), || "13 was halved".to_owned())?;
        let seen = after(&actor, 2)?;
        same("failed", (seen.failed, seen.lifecycle), (1, Lifecycle::Failed))?;
        let why = seen.last_failure.as_deref();
        same("why", why, Some("the handler returned the error 77"))?;
        actor.restart()?;
        same("after the restart", actor.ask(8)?, Some(4))?;
        let again = after(&actor, 3)?;
        same("restarts", (again.failed, again.restarts), (1, 1))?;
    }
    Ok(())
}
