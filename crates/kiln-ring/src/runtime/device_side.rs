//! The device's side of an actor's channel: commands to its worker, and its memory.

use super::Side;
use super::limit::Limit;
use crate::channel::DeviceSide;
use crate::error::Result;
use crate::payload::Hold;
use crate::reason::Reason;
use crate::standing::Standing;
use crate::wire::command::Operation;
use crate::wire::record::{actor as line, endpoint};
use crate::wire::slot::priority_of;
use kiln_backend::{BlockTime, is_printing};
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Side {
    pub(super) fn command(&self, operation: Operation, argument: u32) -> Result<()> {
        self.command_by(operation, argument, Limit::NONE)
    }

    pub(super) fn command_by(&self, operation: Operation, argument: u32, limit: Limit) -> Result<()> {
        self.shared.command(self.endpoints.first, operation, argument, limit)
    }

    /// Has the worker forget the actor.
    pub(super) fn remove(&self, limit: Limit) -> Result<()> {
        self.remove_inbound_links(limit)?;
        self.shared.places().remove(&self.actor);
        self.endpoints
            .iter()
            .try_for_each(|endpoint| self.shared.load(endpoint, &[0; endpoint::WORDS], limit))?;
        self.resident.store(false, Ordering::Release);
        Ok(())
    }

    /// Has the supervisor check soon.
    pub(super) fn nudge(&self) {
        self.shared.supervisor.nudge();
    }

    pub(super) fn write_state(&self, words: &[u32]) -> Result<()> {
        self.shared.memory.write_arena(self.ranges[2].at + line::WORDS, words)
    }

    /// Reads whole quads of the request ring.
    pub(super) fn read_requests(&self, at: usize, words: &mut [u32]) -> Result<()> {
        self.shared.memory.read_inbox(self.ranges[0].at + at, words)
    }

    /// The device's time, in nanoseconds.
    pub(super) fn device_clock(&self) -> Result<u64> {
        self.command(Operation::Settle, 0)?;
        Ok(self.shared.grid().clock(&self.shared.memory, self.endpoints.first.worker))
    }

    /// How long the host waits for what should come soon.
    pub(super) fn patience(&self) -> Duration {
        self.shared.config.acknowledge_within
    }

    /// The time that the actor's worker has had, as far as the device says.
    pub(super) fn worker_time(&self) -> Option<BlockTime> {
        self.shared.grid().block_time(self.endpoints.first.worker)
    }

    pub(super) fn read_state(&self, words: &mut [u32]) -> Result<()> {
        self.shared.memory.read_arena(self.ranges[2].at + line::WORDS, words)
    }
}

impl DeviceSide for Side {
    fn settle(&self, hold: &Hold) -> Result<bool, String> {
        hold.settle(&*self.shared).map_err(|error| error.to_string())
    }

    fn skip(&self, position: u64) {
        // Without an acknowledgement the send that requested it goes on waiting for its slot, as it
        // does for a worker that is busy.
        let _ = self.shared.command(
            self.endpoints.of_priority(priority_of(position)),
            Operation::Skip,
            position as u32,
            Limit::NONE,
        );
    }

    fn wake(&self) {
        self.shared.wake();
    }

    fn standing(&self) -> Standing {
        self.standing.get()
    }

    fn notice(&self) {
        if let Some(body) = self.body.get().and_then(Weak::upgrade) {
            // Reading an actor's life detects its failure.
            drop(body.life());
        }
    }

    fn explain(&self, reason: Reason, position: u64) -> String {
        if matches!(reason, Reason::Failed { .. }) {
            // A policy may have it restarted, without another poll's time.
            self.nudge();
        }
        self.explain_message(reason, 0, position)
    }

    fn read_requests(&self, at: usize, words: &mut [u32]) -> bool {
        // What was lost with its device cannot be read.
        self.shared.loss.get().is_none() && Side::read_requests(self, at, words).is_ok()
    }

    fn is_held_by_print_sink(&self) -> bool {
        self.shared.within && is_printing()
    }

    fn pump(&self) -> bool {
        // Called at every poll of a queue: a device that runs by itself costs no lock.
        if !self.shared.within || self.shared.loss.get().is_some() || is_printing() {
            return false;
        }
        let pumped = self.shared.grid().pump(&self.shared.memory);
        // A device that failed has nothing to say any more.
        self.shared.record_loss(pumped).unwrap_or(false)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // What a worker may still use is not freed.
        if !self.resident.load(Ordering::Acquire) {
            self.inbound_links.give_back(&self.shared);
            self.shared.grid().give_endpoints(self.endpoints);
            self.shared.release_ranges(self.ranges);
        }
    }
}
