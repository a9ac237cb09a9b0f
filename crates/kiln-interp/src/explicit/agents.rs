//! Agents: programs of a cluster and their tasks, each on a thread of its own, of which one runs at
//! a time.
//!
//! The one that runs holds memory. It goes on until it ends or must wait; then the next in the
//! circle that can go on does. So the order is the same in every run, and a deadlock is detected.

use super::table::{AgentState, Condition, Inner, Seat};
use crate::machine::Machine;
use crate::trap::Trap;
use kiln_backend::{Error, Finding};
use kiln_ir::OpData;
use std::sync::{MutexGuard, PoisonError};

impl<'m> Machine<'m> {
    pub fn seat(&self) -> Result<Seat<'m>, Trap> {
        self.seat.clone().ok_or_else(|| Trap::Bug("an explicit operation outside a cluster".into()))
    }

    /// Waits for this agent's first turn; false if the launch has failed.
    pub fn enter(&mut self, seat: &Seat<'m>) -> bool {
        self.take_turn(seat, seat.table.lock())
    }

    fn take_turn(&mut self, seat: &Seat<'m>, mut inner: MutexGuard<'_, Inner<'m>>) -> bool {
        while inner.running != Some(seat.agent) {
            if inner.failed.is_some() || inner.stuck.is_some() {
                return false;
            }
            inner = seat.table.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(spaces) = inner.spaces.take() {
            let placeholder = std::mem::replace(&mut self.spaces, spaces);
            inner.idle.push(placeholder);
        }
        inner.agents[seat.agent] = AgentState::Running;
        true
    }

    /// Ends this agent.
    pub fn leave(&mut self, seat: &Seat<'m>, result: Result<(), Error>, entered: bool) {
        let mut inner = seat.table.lock();
        if entered && matches!(inner.agents[seat.agent], AgentState::Running) {
            self.give_back(&mut inner);
        }
        inner.agents[seat.agent] = AgentState::Done;
        if let Err(error) = result {
            // Agents that were stopped because of another's failure come after it.
            inner.failed.get_or_insert(error);
        }
        if inner.running == Some(seat.agent) {
            inner.pass_on(seat.agent);
        }
        seat.table.changed.notify_all();
    }

    fn give_back(&mut self, inner: &mut Inner<'m>) {
        if let Some(placeholder) = inner.idle.pop() {
            inner.spaces = Some(std::mem::replace(&mut self.spaces, placeholder));
        }
    }

    /// Waits, while others run.
    pub fn wait_until(&mut self, on: Condition, data: &OpData) -> Result<(), Error> {
        let seat = self.seat().map_err(|trap| self.error(trap, data.loc))?;
        let mut inner = seat.table.lock();
        if inner.holds(&on).map_err(|trap| self.error(trap, data.loc))? {
            return Ok(());
        }
        self.give_back(&mut inner);
        inner.agents[seat.agent] = AgentState::Waiting { on, loc: data.loc, block: self.block };
        inner.pass_on(seat.agent);
        seat.table.changed.notify_all();
        if self.take_turn(&seat, inner) {
            return Ok(());
        }
        // An agent that failed has said why; a deadlock is of all of them, and reported once.
        let mut inner = seat.table.lock();
        let (detail, loc, block) = inner.stuck.take().unwrap_or_default();
        if inner.failed.is_some() {
            return Err(self.error(Trap::Bug("stopped by another agent's failure".into()), data.loc));
        }
        let own = std::mem::replace(&mut self.block, block);
        let error = self.error(Trap::finding(Finding::Deadlock, detail), loc);
        self.block = own;
        inner.failed = Some(error.clone());
        seat.table.changed.notify_all();
        Err(error)
    }
}
