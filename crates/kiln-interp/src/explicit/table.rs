//! What the agents of a cluster share: memory, whose turn it is, and what each waits for.

use super::order::{Gate, World};
use crate::spaces::Spaces;
use crate::trap::Trap;
use kiln_backend::Error;
use kiln_ir::Loc;
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
    /// That all blocks of the launch have come to so many barriers.
    Grid(usize),
}

pub enum AgentState {
    Ready,
    Running,
    Waiting { on: Condition, loc: Loc, block: [u32; 3] },
    Done,
}

/// What the agents of a cluster share.
pub struct Table<'m> {
    inner: Mutex<Inner<'m>>,
    pub changed: Condvar,
}

pub struct Inner<'m> {
    pub world: World,
    /// Memory, while no agent holds it.
    pub spaces: Option<Spaces<'m>>,
    /// What agents that do not run hold in its place.
    pub idle: Vec<Spaces<'m>>,
    pub agents: Vec<AgentState>,
    /// By block: how many barriers of the cluster, or of the grid, it has come to.
    met: Vec<usize>,
    pub running: Option<usize>,
    /// Why the launch ends early.
    pub failed: Option<Error>,
    /// Who waits for what will not come, once that is known.
    pub stuck: Option<(String, Loc, [u32; 3])>,
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
            agents: (0..agents).map(|_| AgentState::Ready).collect(),
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
        inner.agents.push(AgentState::Ready);
        inner.agents.len() - 1
    }
}

impl Inner<'_> {
    fn is_done(&self, agent: usize) -> bool {
        matches!(self.agents[agent], AgentState::Done)
    }

    /// A block comes to its next barrier of the cluster or grid; gives its number, from 1.
    pub fn meet(&mut self, agent: usize) -> usize {
        self.met[agent] += 1;
        self.met[agent]
    }

    pub fn holds(&self, on: &Condition) -> Result<bool, Trap> {
        match on {
            Condition::Phase(gate, phase) => self.world.is_complete(*gate, *phase),
            Condition::Signals(seen) => Ok(self.world.signals > *seen),
            Condition::Ends(agents) => Ok(agents.iter().all(|&a| self.is_done(a))),
            Condition::Meeting(number) => {
                Ok((0..self.met.len()).all(|agent| self.met[agent] >= *number || self.is_done(agent)))
            }
            Condition::Grid(number) => Ok(self.met.iter().all(|met| met >= number)),
        }
    }

    /// What everybody waits for, at the place of the first.
    fn stuck_here(&self) -> Option<(String, Loc, [u32; 3])> {
        let waits: Vec<_> = self
            .agents
            .iter()
            .filter_map(|agent| match agent {
                AgentState::Waiting { on: Condition::Phase(gate, phase), loc, block } => {
                    let what = self.world.describe(*gate);
                    Some((format!("a wait for phase {phase} of mbarrier {}: {what}", gate.2), *loc, *block))
                }
                AgentState::Waiting { on: Condition::Signals(_), loc, block } => {
                    let what = "a wait for a signal that no program with a smaller number has stored";
                    Some((what.into(), *loc, *block))
                }
                AgentState::Waiting { on: Condition::Grid(number), loc, block } => {
                    let ended = self.met.iter().filter(|met| *met < number).count();
                    let what = format!("a barrier of the grid that {ended} blocks have ended without");
                    Some((what, *loc, *block))
                }
                _ => None,
            })
            .collect();
        let &(_, loc, block) = waits.first()?;
        let mut all: Vec<String> = waits.into_iter().map(|wait| wait.0).collect();
        // Blocks of one barrier wait for the same.
        all.dedup();
        Some((all.join("; "), loc, block))
    }

    /// Lets the next agent that can go on run. A wait that has become wrong is found by the one
    /// that waits.
    pub fn pass_on(&mut self, from: usize) {
        let count = self.agents.len();
        let next = (1..=count).map(|i| (from + i) % count).find(|&id| match &self.agents[id] {
            AgentState::Ready => true,
            AgentState::Waiting { on, .. } => self.holds(on).unwrap_or(true),
            _ => false,
        });
        self.running = next;
        if next.is_none() && self.stuck.is_none() {
            self.stuck = self.stuck_here();
        }
    }
}
