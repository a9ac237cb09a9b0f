//! Agents: programs of a cluster and their tasks, each on a thread of its own, of which one runs at
//! a time.
//!
//! The one that runs holds memory. It goes on until it ends or must wait; then the next in the
//! circle that can go on does. So the order is the same in every run, and when nobody can go on,
//! that is known.

use super::order::{Gate, World};
use crate::machine::Machine;
use crate::spaces::Spaces;
use crate::value::Trap;
use kiln_backend::{Error, Finding};
use kiln_ir::{Loc, OpData};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What an agent waits for.
pub enum Condition {
    /// A phase of an mbarrier.
    Phase(Gate, i64),
    /// That more signals than so many were stored.
    Signals(u64),
    /// The end of these agents.
    Ends(Vec<usize>),
    /// That all blocks of the cluster have come to so many barriers, or ended.
    Meeting(usize),
}

enum State {
    Ready,
    Running,
    Waiting { on: Condition, loc: Loc, block: [u32; 3] },
    Done,
}

/// What the agents of a cluster share.
pub struct Table<'m> {
    inner: Mutex<Inner<'m>>,
    changed: Condvar,
}

pub struct Inner<'m> {
    pub world: World,
    /// Memory, while nobody holds it.
    pub spaces: Option<Spaces<'m>>,
    /// What agents that do not run hold in its place.
    pub idle: Vec<Spaces<'m>>,
    agents: Vec<State>,
    /// By block: how many barriers of the cluster it has come to.
    met: Vec<usize>,
    running: Option<usize>,
    /// Why the launch ends early.
    pub failed: Option<Error>,
    /// Who waits for what will not come, once that is known.
    stuck: Option<(String, Loc, [u32; 3])>,
}

/// An agent's place at the table.
#[derive(Clone)]
pub struct Seat<'m> {
    pub table: Arc<Table<'m>>,
    /// Its number.
    pub agent: usize,
    /// The number of its block in the cluster.
    pub rank: usize,
    /// Its number among the copies of its task.
    pub copy: usize,
}

impl<'m> Table<'m> {
    pub fn new(world: World, spaces: Spaces<'m>, idle: Vec<Spaces<'m>>, agents: usize) -> Table<'m> {
        let inner = Inner {
            world,
            spaces: Some(spaces),
            idle,
            agents: (0..agents).map(|_| State::Ready).collect(),
            met: vec![0; agents],
            running: Some(0),
            failed: None,
            stuck: None,
        };
        Table { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner<'m>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an agent that is ready to run; gives its number.
    pub fn add(&self) -> usize {
        let mut inner = self.lock();
        inner.agents.push(State::Ready);
        inner.agents.len() - 1
    }
}

impl Inner<'_> {
    fn is_done(&self, agent: usize) -> bool {
        matches!(self.agents[agent], State::Done)
    }

    /// A block comes to its next barrier of the cluster; gives its number, from 1.
    pub fn meet(&mut self, agent: usize) -> usize {
        self.met[agent] += 1;
        self.met[agent]
    }

    fn holds(&self, on: &Condition) -> Result<bool, Trap> {
        match on {
            Condition::Phase(gate, phase) => self.world.is_complete(*gate, *phase),
            Condition::Signals(seen) => Ok(self.world.signals > *seen),
            Condition::Ends(agents) => Ok(agents.iter().all(|&a| self.is_done(a))),
            Condition::Meeting(number) => {
                Ok((0..self.met.len()).all(|agent| self.met[agent] >= *number || self.is_done(agent)))
            }
        }
    }

    /// What everybody waits for, at the place of the first.
    fn stuck_here(&self) -> Option<(String, Loc, [u32; 3])> {
        let waits: Vec<_> = self
            .agents
            .iter()
            .filter_map(|agent| match agent {
                State::Waiting { on: Condition::Phase(gate, phase), loc, block } => {
                    let what = self.world.describe(*gate);
                    Some((format!("a wait for phase {phase} of mbarrier {}: {what}", gate.2), *loc, *block))
                }
                State::Waiting { on: Condition::Signals(_), loc, block } => {
                    let what = "a wait for a signal that no program with a smaller number has stored";
                    Some((what.into(), *loc, *block))
                }
                _ => None,
            })
            .collect();
        let &(_, loc, block) = waits.first()?;
        let all: Vec<String> = waits.into_iter().map(|wait| wait.0).collect();
        Some((all.join("; "), loc, block))
    }

    /// Lets the next agent that can go on run. A wait that has become wrong is found by the one
    /// that waits.
    fn pass_on(&mut self, from: usize) {
        let count = self.agents.len();
        let next = (1..=count).map(|i| (from + i) % count).find(|&id| match &self.agents[id] {
            State::Ready => true,
            State::Waiting { on, .. } => self.holds(on).unwrap_or(true),
            _ => false,
        });
        self.running = next;
        if next.is_none() && self.stuck.is_none() {
            self.stuck = self.stuck_here();
        }
    }
}

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
        inner.agents[seat.agent] = State::Running;
        true
    }

    /// Ends this agent.
    pub fn leave(&mut self, seat: &Seat<'m>, result: Result<(), Error>, entered: bool) {
        let mut inner = seat.table.lock();
        if entered && matches!(inner.agents[seat.agent], State::Running) {
            self.give_back(&mut inner);
        }
        inner.agents[seat.agent] = State::Done;
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
        inner.agents[seat.agent] = State::Waiting { on, loc: data.loc, block: self.block };
        inner.pass_on(seat.agent);
        seat.table.changed.notify_all();
        if self.take_turn(&seat, inner) {
            return Ok(());
        }
        // Whoever failed has said why; a deadlock is everybody's, and told once.
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
