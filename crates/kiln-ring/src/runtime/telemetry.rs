//! Reading what actors do.

use super::body::Body;
use super::{RingRuntime, Shared};
use crate::error::Result;
use crate::reason::Reason;
use crate::telemetry::{ActorTelemetry, Histogram, Publisher, RuntimeTelemetry};
use crate::wire::gauge::{self, fault};
use crate::wire::record::actor;
use crate::wire::slot::count_of;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The actors of a runtime.
#[derive(Default)]
pub(super) struct Registry(Mutex<Vec<Weak<Body>>>);

impl Registry {
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
        let mut words = vec![0; gauge::words(self.mailbox.form().priorities)];
        shared.memory.read_arena(self.gauges, &mut words)?;
        let (cause, number) = (words[gauge::FAILURE], words[gauge::FAILURE + 1]);
        let last_failure = (cause != 0).then(|| {
            let record = &words[gauge::fault(self.mailbox.form().priorities)..];
            let position = u64::from(record[fault::POSITION]) | u64::from(record[fault::POSITION + 1]) << 32;
            self.side.explain_message(Reason::Failed { cause, number }, record[fault::LINK], position)
        });
        let mut line = [0; actor::WORDS];
        shared.memory.read_arena(self.side.ranges[2].at, &mut line)?;
        let received = u64::from(line[actor::RECEIVED]) | u64::from(line[actor::RECEIVED + 1]) << 32;
        let (mut processed, mut failed, mut depths) = (received, line[actor::RECEIVED_UNHANDLED], Vec::new());
        for (priority, (lane, passed)) in self.mailbox.rings().zip(&self.passed).enumerate() {
            let [low, high, unhandled] = [0, 1, 2].map(|word| words[gauge::done(priority) + word]);
            // Nothing is there until the first message is done.
            let done = count_of(u64::from(low) | u64::from(high) << 32).max(*passed);
            processed += done;
            failed = failed.wrapping_add(unhandled);
            depths.push(count_of(lane.queue.tail()).saturating_sub(done));
        }
        Ok(ActorTelemetry {
            actor: self.number,
            handler: self.kind().handler.signature().name,
            lifecycle,
            restarts,
            read_at: Instant::now(),
            uptime: self.launched.elapsed(),
            processed,
            received,
            failed,
            depth: depths.iter().sum(),
            depths,
            counts,
            handling: Histogram::of_gauges(&words),
            last_failure,
        })
    }
}

impl Shared {
    /// The actors that have not gone.
    pub(super) fn living(&self) -> Vec<Arc<Body>> {
        self.registry.living()
    }

    fn telemetry(&self) -> Result<RuntimeTelemetry> {
        let actors = self.registry.living();
        Ok(RuntimeTelemetry {
            device: self.device.id().to_owned(),
            runtime: format!("{}-{}", std::process::id(), self.number),
            transport: self.transport.transport,
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

    /// From now on, writes what the actors do to a file of the directory, in the Prometheus text
    /// format, until the publisher is dropped: for the textfile collector of Prometheus's node
    /// exporter, and, in [`telemetry_dir`](crate::telemetry_dir), for `kiln ring top`.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Publisher, RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// use std::time::Duration;
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn double(_ctx: &RingCtx, x: u32) -> u32 {
    ///     x * 2
    /// }
    ///
    /// let folder = std::env::temp_dir().join(format!("kiln-doc-publish-{}", std::process::id()));
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(double, RingConfig::default())?;
    /// actor.activate()?;
    /// let publisher: Publisher = runtime.publish(&folder, Duration::from_secs(1))?;
    /// let path = publisher.path().to_owned();
    /// assert!(std::fs::read_to_string(&path)?.contains("double"));
    /// drop(publisher);
    /// assert!(!path.exists());
    /// # std::fs::remove_dir_all(folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
