//! Reading what actors do.

use super::body::Body;
use super::error::Result;
use super::{RingRuntime, Shared};
use crate::dead_letter::Reason;
use crate::telemetry::{ActorTelemetry, Publisher, RuntimeTelemetry, gauge};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The actors of a runtime.
#[derive(Default)]
pub(super) struct Census(Mutex<Vec<Weak<Body>>>);

impl Census {
    fn list(&self) -> MutexGuard<'_, Vec<Weak<Body>>> {
        // Changed by pushes and removals only.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(&self, body: &Arc<Body>) {
        let mut list = self.list();
        list.retain(|body| body.strong_count() > 0);
        list.push(Arc::downgrade(body));
    }

    fn living(&self) -> Vec<Arc<Body>> {
        self.list().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Body {
    /// What the actor has done.
    pub fn telemetry(&self) -> Result<ActorTelemetry> {
        let shared = &self.side.shared;
        // Before the words are read: what was sent later cannot be done already.
        let (lifecycle, restarts) = {
            let life = self.life();
            (life.stage, life.restarts())
        };
        let counts = self.mailbox.counts();
        let mut words = [0; gauge::WORDS];
        shared.memory.read_arena(self.gauges, &mut words)?;
        let [low, high, failed, _, cause, number, ..] = words;
        let last_failure = (cause != 0).then(|| shared.explain(Reason::Failed { cause, number }));
        let processed = u64::from(low) | u64::from(high) << 32;
        Ok(ActorTelemetry {
            actor: self.number,
            handler: self.kind().handler.signature().name,
            lifecycle,
            restarts,
            read_at: Instant::now(),
            uptime: self.launched.elapsed(),
            processed,
            failed,
            depth: self.mailbox.queue().tail().saturating_sub(self.first + processed),
            counts,
            handling: gauge::histogram(&words),
            last_failure,
        })
    }
}

impl Shared {
    fn telemetry(&self) -> Result<RuntimeTelemetry> {
        let actors = self.census.living();
        Ok(RuntimeTelemetry {
            device: self.device.id().to_owned(),
            uptime: self.begun.elapsed(),
            measure_every: self.measure_every,
            dead_letters: self.letters.arrived(),
            actors: actors.iter().map(|body| body.telemetry()).collect::<Result<_>>()?,
        })
    }
}

impl RingRuntime {
    /// What all actors have done, read from the device while they go on.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn telemetry(&self) -> Result<RuntimeTelemetry> {
        self.0.telemetry()
    }

    /// From now on, writes what the actors do to a file of the directory, in the Prometheus text format, until the publisher is dropped: for the textfile collector of
    /// Prometheus's node exporter, and, in [`telemetry_dir`](crate::telemetry_dir), for `kiln ring top`.
    ///
    /// # Errors
    /// The directory cannot be written, or the thread cannot be started.
    pub fn publish(&self, directory: &Path, every: Duration) -> std::io::Result<Publisher> {
        let shared = Arc::downgrade(&self.0);
        Publisher::start(directory, every, move || {
            let shared = shared.upgrade()?;
            // A device that does not answer has nothing new to say.
            Some(shared.telemetry().ok().map(|telemetry| telemetry.to_prometheus()))
        })
    }
}
