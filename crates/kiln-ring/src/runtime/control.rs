//! What the host requests of the grid: commands to workers, other programs, and leaving the device.

use super::Shared;
use super::endpoints::Endpoint;
use super::grid::{self, Grid};
use super::limit::Limit;
use crate::device::{ActorKind, GridPlan};
use crate::error::{Result, RingError};
use crate::wire::command::Operation;
use crate::wire::record::endpoint;
use kiln_backend::Tenant;
use std::panic::Location;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

impl Shared {
    /// Refuses what starts or changes actors while this thread captures a graph of the device: a
    /// graph cannot hold it, and done at once it would come before what the graph holds. The
    /// supervisor, on its thread, goes on.
    #[track_caller]
    pub(super) fn check_not_capturing(&self, what: &str) -> Result<()> {
        Ok(self.device.check_not_capturing(what, Location::caller())?)
    }

    /// The grid. A thread that panicked while it held it changed nothing halfway that matters:
    /// every command is whole.
    pub(super) fn grid(&self) -> MutexGuard<'_, Grid> {
        self.grid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The grid, once no caller requires it to be off the device.
    pub(super) fn present(&self) -> MutexGuard<'_, Grid> {
        loop {
            let grid = self.grid();
            if !grid.is_away() {
                return grid;
            }
            drop(grid);
            std::thread::yield_now();
        }
    }

    /// The same, if that is so in time: others may be waiting for a worker that does not answer.
    pub(super) fn present_by(&self, limit: Limit) -> Option<MutexGuard<'_, Grid>> {
        let mut wait = limit.wait();
        loop {
            let grid = limit.lock(&self.grid)?;
            if !grid.is_away() {
                return Some(grid);
            }
            drop(grid);
            if !wait.step() {
                return None;
            }
        }
    }

    pub(super) fn command(
        &self,
        endpoint: Endpoint,
        operation: Operation,
        argument: u32,
        limit: Limit,
    ) -> Result<()> {
        self.lost()?;
        let begun = Instant::now();
        let outcome = match self.present_by(limit) {
            Some(mut grid) => grid.command(&self.memory, endpoint, (operation, argument), limit),
            None => Err(unheard(endpoint, operation, begun)),
        };
        self.record_loss(outcome)
    }

    pub(super) fn load(
        &self,
        endpoint: Endpoint,
        record: &[u32; endpoint::WORDS],
        limit: Limit,
    ) -> Result<()> {
        self.lost()?;
        let begun = Instant::now();
        let loaded = match self.present_by(limit) {
            Some(mut grid) => grid.load(&self.memory, endpoint, record, limit),
            None => Err(unheard(endpoint, Operation::Load, begun)),
        };
        self.record_loss(loaded)
    }

    /// The number of a kind of actor. One that is new is compiled in, for which the grid leaves and
    /// comes back.
    pub(super) fn kind(&self, kind: ActorKind) -> Result<u32> {
        let _one_at_a_time = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = {
            let grid = self.grid();
            if let Some(known) = grid.known(&kind) {
                return Ok(known);
            }
            grid.plan_with(kind)?
        };
        let number = plan.kinds.len() as u32;
        self.change_over(plan).map(|()| number)
    }

    /// Has actors get messages of other actors, for which the grid leaves and comes back the first
    /// time.
    pub(super) fn open_inbound_links(&self) -> Result<()> {
        let _one_at_a_time = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = self.grid().plan_with_inbound_links();
        plan.map_or(Ok(()), |plan| self.change_over(plan))
    }

    /// Has actors send to those of other runtimes, for which the grid leaves and comes back the
    /// first time.
    pub(super) fn open_peers(&self) -> Result<()> {
        let _one_at_a_time = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = self.grid().plan_with_peers();
        plan.map_or(Ok(()), |plan| self.change_over(plan))
    }

    /// Goes on by another plan.
    fn change_over(&self, plan: GridPlan) -> Result<()> {
        let compiled = grid::compile(&self.device, &plan)?;
        // Dropped after the grid, which the end of an actor locks.
        let living = self.living();
        let mut grid = self.present();
        let left = grid.go_away(&self.memory);
        if left.is_ok() {
            // Checks get other numbers.
            living.iter().for_each(|body| body.side.remember_fault());
            grid.adopt(plan, compiled.program);
            *self.sites.write().unwrap_or_else(PoisonError::into_inner) = compiled.sites;
        }
        let back = grid.come_back(&self.memory);
        left.and(back)
    }
}

/// The error of a command that could not be given in time: another caller waited for a worker that
/// does not answer.
fn unheard(endpoint: Endpoint, operation: Operation, begun: Instant) -> RingError {
    RingError::Unresponsive { worker: endpoint.worker, what: operation.name(), waited: begun.elapsed() }
}

/// The grid makes room where a program can be loaded only while no kernel runs.
impl Tenant for Shared {
    fn leave(&self) -> kiln_backend::Result<()> {
        let mut grid = self.grid();
        self.departures.fetch_add(grid.is_here().into(), Ordering::Relaxed);
        grid.go_away(&self.memory).map_err(|error| self.refusal(error))
    }

    fn come_back(&self) {
        // A device that does not take the grid back says so to the next command, which launches it
        // too.
        let _ = self.grid().come_back(&self.memory);
    }
}

impl Shared {
    fn refusal(&self, error: RingError) -> kiln_backend::Error {
        match error {
            RingError::Device(error) => error,
            other => kiln_backend::Error::Unavailable {
                device: self.device.id().to_owned(),
                reason: other.to_string(),
                hint: "Terminate the actors that hold the device, or give handlers a step budget.".to_owned(),
            },
        }
    }
}
