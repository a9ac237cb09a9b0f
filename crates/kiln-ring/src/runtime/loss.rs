//! Lost devices, and how their actors come back.
//!
//! A device is lost when a call fails that only a working device answers, or when the resident
//! kernel ends without a command: after a trap, NVIDIA's driver fails every call of the process. A
//! worker is lost when its heartbeat stops: a handler without a step budget that never ends holds
//! it for ever. An actor is lost when its worker goes on and does not take its messages (see
//! `untaken.rs`). All waits end with an error; nothing that the device may still touch is freed.

use super::body::Body;
use super::cluster::has_clusters;
use super::events::What;
use super::untaken::{Waiting, turns_of};
use super::{Actor, RingRuntime, RuntimeConfig, Shared, Transport};
use crate::channel::QueueMemory;
use crate::error::{Result, RingError};
use crate::handler::Handler;
use crate::lifecycle::Lifecycle;
use crate::wire::record::{HEARTBEAT, LINE};
use kiln_backend::ResidentId;
use kiln_runtime::Device;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;

impl Shared {
    /// The error of commanding a device that is lost.
    pub(super) fn lost(&self) -> Result<()> {
        let device = || self.device.id().to_owned();
        self.loss
            .get()
            .map_or(Ok(()), |reason| Err(RingError::Lost { device: device(), reason: reason.clone() }))
    }

    /// Returns a result, and records the loss of the device if the result reports one.
    pub(super) fn record_loss<T>(&self, result: Result<T>) -> Result<T> {
        match &result {
            Err(RingError::Lost { reason, .. }) => self.lose(reason),
            Err(RingError::Device(
                error @ (kiln_backend::Error::Lost { .. } | kiln_backend::Error::Fault(_)),
            )) => {
                self.lose(&error.to_string());
            }
            _ => {}
        }
        result
    }

    /// The device is lost: ends all waits.
    pub(super) fn lose(&self, why: &str) {
        if self.loss.set(why.to_owned()).is_err() {
            return;
        }
        self.events.publish(None, self.device.id(), What::DeviceLost { why: why.to_owned() });
        for ward in self.supervisor.wards() {
            if let Some(ward) = ward.upgrade() {
                ward.strand(why);
            }
        }
    }

    /// Checks whether the device and its workers respond. Does nothing while another thread has the
    /// grid locked, since that thread would notice a loss.
    pub(super) fn inspect(&self) {
        if self.loss.get().is_some() {
            return;
        }
        let Ok(mut grid) = self.grid.try_lock() else { return };
        let stalled = grid.stalled(&self.memory, self.config.stalled_after);
        let resident = grid.resident();
        drop(grid);
        for worker in self.record_loss(stalled).unwrap_or_default() {
            let why =
                format!("worker {worker} has shown no sign of life for {:?}", self.config.stalled_after);
            let wards = self.supervisor.wards();
            let of_worker = |ward: &Arc<Body>| ward.side.endpoints.first.worker == worker;
            let lost: Vec<_> = wards.iter().filter_map(Weak::upgrade).filter(of_worker).collect();
            // First: a caller that is notified of a lost actor may request recovery at once.
            self.stalled.fetch_or(!lost.is_empty(), Ordering::AcqRel);
            if lost.iter().filter(|ward| ward.strand(&why)).count() > 0 {
                self.events.publish(None, self.device.id(), What::Stalled { worker });
            }
        }
        self.find_untaken(resident);
    }

    /// Gives up the actors whose messages their workers do not take. `grid` is on the device.
    fn find_untaken(&self, grid: Option<ResidentId>) {
        // Elsewhere it is the host that has the device go on.
        let Some(grid) = grid.filter(|_| !self.within) else { return };
        for ward in self.supervisor.wards().iter().filter_map(Weak::upgrade) {
            if let Some(why) = ward.untaken(grid) {
                // First: a caller that is notified of a lost actor may request recovery at once.
                self.stalled.store(true, Ordering::Release);
                ward.strand(&why);
            }
        }
    }
}

impl Body {
    /// Why the actor answers no more, if its worker does not take its next message.
    fn untaken(&self, grid: ResidentId) -> Option<String> {
        let (shared, worker) = (&self.side.shared, self.side.endpoints.first.worker);
        let (sent, answered) = self.mailbox.progress();
        let active = || self.try_life().is_some_and(|life| life.stage == Lifecycle::Active);
        let waits = sent > answered && active();
        let turns = shared.memory.outbox_words.load_quad(worker * LINE + HEARTBEAT)[0];
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (turns, time) = waiting.read(waits.then_some((answered, grid, turns)), Instant::now())?;
        let enough = turns_of(shared.config.endpoints_per_worker);
        if time < shared.config.stalled_after || turns < enough {
            return None;
        }
        // What follows takes long, and is done again after as much time.
        *waiting = Waiting::default();
        let position = self.mailbox.next_whole_request()?;
        // Handlers are traced for it, and no other thread has to wait for the grid meanwhile.
        let plan = shared.grid().plan();
        // A handler that sends may wait for room for as long as others like.
        if plan.with_effects().may_wait() || self.mailbox.progress().1 != answered {
            return None;
        }
        Some(format!(
            "worker {worker} has polled for {time:.1?}, {turns} turns, and not taken message {position}"
        ))
    }
}

impl RingRuntime {
    /// Whether the device is lost, or a worker of it.
    pub fn is_lost(&self) -> bool {
        self.0.loss.get().is_some() || self.0.stalled.load(Ordering::Acquire)
    }

    /// A runtime like this one, whose device is lost, on the same device opened anew.
    /// [`bring_back`](Self::bring_back) then brings the actors back.
    ///
    /// After a trap, NVIDIA's driver refuses a process every new context; then this fails, and
    /// [`recover_on`](Self::recover_on) goes on with another device of the process, or
    /// [`restore`](Self::restore) in another process. A device whose name begins with
    /// [`isolated:`](kiln_runtime::isolate) is in a process of its own, and comes back with a new
    /// one.
    ///
    /// # Errors
    /// The device is not lost, or cannot be opened.
    #[track_caller]
    pub fn recover(&self) -> Result<RingRuntime> {
        self.check_lost()?;
        RingRuntime::with(&self.0.device.reopen()?, self.0.config)
    }

    /// A runtime like this one, whose device is lost, on another device.
    ///
    /// # Errors
    /// This runtime's device is not lost; as of [`with`](Self::with).
    #[track_caller]
    pub fn recover_on(&self, device: &Device) -> Result<RingRuntime> {
        self.check_lost()?;
        let same = device.capabilities().execution == self.0.device.capabilities().execution;
        let (warps, workers) = (self.0.config.warps, self.0.config.workers);
        let fits = RuntimeConfig {
            transport: if same { self.0.config.transport } else { Transport::Auto },
            warps: warps.filter(|_| same),
            workers: workers.filter(|_| same),
            cluster: if has_clusters(device) { self.0.config.cluster } else { 1 },
            ..self.0.config
        };
        RingRuntime::with(device, fits)
    }

    /// Brings an actor of a lost runtime back in this one: with the state and the messages of its
    /// last checkpoint, or as it was launched if there is none. It is resident, and holds its
    /// messages until it is activated; its replies come from the actor that this gives.
    ///
    /// What the lost actor did after the checkpoint is undone: messages that it handled are handled
    /// again, and messages that came later are gone with the device. Replies that had arrived can
    /// still be received from it.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Actor, RingCtx, RingError, RingRuntime, ring_kernel};
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn double(_ctx: &RingCtx, x: u32) -> u32 {
    ///     x * 2
    /// }
    ///
    /// /// An actor that may be lost with its device, and its runtime.
    /// struct Service {
    ///     runtime: RingRuntime,
    ///     actor: Actor<double>,
    /// }
    ///
    /// impl Service {
    ///     /// The same on the device opened anew, where it was lost.
    ///     fn recovered(self) -> Result<Service, RingError> {
    ///         if !self.runtime.is_lost() {
    ///             return Ok(self);
    ///         }
    ///         let runtime = self.runtime.recover()?;
    ///         let actor = runtime.bring_back(&self.actor)?;
    ///         actor.activate()?;
    ///         Ok(Service { runtime, actor })
    ///     }
    /// }
    ///
    /// use kiln_ring::RingConfig;
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(double, RingConfig::default())?;
    /// actor.activate()?;
    /// let service = Service { runtime, actor }.recovered()?;
    /// assert_eq!(service.actor.ask(2)?, Some(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`restore`](Self::restore).
    #[track_caller]
    pub fn bring_back<H: Handler>(&self, lost: &Actor<H>) -> Result<Actor<H>> {
        self.0.check_not_capturing("an actor was brought back")?;
        lost.body.check_portable()?;
        let (kind, body_config) = (lost.body.kind(), lost.body.body_config.clone());
        match lost.body.last_checkpoint() {
            Some(checkpoint) => self.restore_as(kind.handler, body_config, &checkpoint),
            None => self.begin(kind, body_config.first_state.clone(), Vec::new(), body_config),
        }
    }

    fn check_lost(&self) -> Result<()> {
        if self.is_lost() {
            Ok(())
        } else {
            Err(RingError::NotLost { device: self.0.device.id().to_owned() })
        }
    }
}
