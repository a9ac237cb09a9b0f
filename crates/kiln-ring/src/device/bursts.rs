//! Polling in bursts: often where a poll is cheap, seldom across a bus.

use super::cluster::Near;
use super::plan::GridPlan;
use super::poll::{Poll, PollSet};
use super::worker::{Worker, WorkerMemory};
use crate::wire::slot::{PAYLOAD, QUAD};
use kiln_lang::prelude::*;

/// How often a worker polls its own memory between two polls of all endpoints.
pub(super) const BURST: u32 = 32;

/// How often one that was not idle does, where the inbox lies across a bus: for longer than a
/// neighbor takes for a poll of all, as with [`LOOKS_FAR`].
pub(super) const BURST_FAR: u32 = 128;

/// How often an idle worker polls its inbound links between two polls across a bus.
const RESTING_LOOKS: u32 = 2;

/// How often a worker on the fast path polls its inbound links alone: for longer than the other end
/// takes for a poll across the bus. Otherwise each such poll would make the other end take one too.
pub(super) const LOOKS_FAR: u32 = 16;

impl PollSet {
    /// Polls the worker's own memory (`near`), or else its inbound links in the arena, in bursts,
    /// and all endpoints between two bursts, until a message or a command is there, and for at most
    /// so many bursts. So a message of a neighbor is read at once, and one of the host after half a
    /// burst on average.
    ///
    /// A worker that was not idle has just handled a message, to which its neighbor may answer
    /// soon. It begins with a burst unless it is time to poll all endpoints (`all_first`), so that
    /// other senders have their turn too: such a poll may cross the bus.
    #[device(crate = kiln_lang)]
    pub(super) fn watch_in_bursts(
        self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        near: Option<&Near>,
        worker: &Worker,
        (most, all_first): (Val<u32>, Val<bool>),
    ) -> Poll {
        let mut quad = [val::<u32>(0); QUAD];
        // The last one, until it polls.
        let mut command = [val(0), val(0), val(0), worker.seen];
        let mut at_all: Val<bool> = all_first;
        let (mut ready, mut glances): (Val<u32>, Val<u32>) = (val(0), val(0));
        let mut watching = true.into_val();
        while watching {
            if at_all {
                command = memory.command();
                quad = self.look(plan, memory, self.quad, true);
                ready = self.ready(plan, quad);
            }
            at_all = true.into_val();
            glances += 1;
            let commanded = block_uniform(command[PAYLOAD]).ne(worker.seen);
            if ready.eq(0) & !commanded {
                (quad, ready) = match near {
                    Some(near) if plan.far_inbox => {
                        self.burst(plan, near, select(most.gt(1), BURST, BURST_FAR))
                    }
                    Some(near) => self.burst(plan, near, val(BURST)),
                    // One that rests may be sent something by the host as well as by others.
                    None => self.burst_of_inbound_links(
                        plan,
                        memory,
                        select(most.gt(1), RESTING_LOOKS, LOOKS_FAR),
                    ),
                };
            }
            watching = ready.eq(0) & !commanded & glances.lt(most);
        }
        self.poll(ready, quad, command, glances)
    }

    /// Polls the inbound links in the arena until a message is there, and at most so often.
    #[device(crate = kiln_lang)]
    pub(super) fn burst_of_inbound_links(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        most: Val<u32>,
    ) -> ([Val<u32>; QUAD], Val<u32>) {
        let mut quad = [val::<u32>(0); QUAD];
        let (mut ready, mut left): (Val<u32>, Val<u32>) = (val(0), most);
        let mine = self.inbound_link & !self.own;
        let at = select(mine, self.quad, 0);
        while left > 0 {
            // SAFETY: the slot lies in the arena, as its record says, as do the first words, which
            // lanes without such a slot read.
            quad = unsafe { memory.arena.get_quad_unchecked(at) };
            let good = mine & self.open & (!self.looks | quad[PAYLOAD].eq(self.stamp));
            ready = self.whole(plan, good);
            left = select(ready.eq(0), left - 1, 0);
        }
        (quad, ready)
    }

    /// Polls the worker's own memory until a message is there, and at most so often.
    #[device(crate = kiln_lang)]
    pub(super) fn burst(&self, plan: &GridPlan, near: &Near, most: Val<u32>) -> ([Val<u32>; QUAD], Val<u32>) {
        let mut quad = [val::<u32>(0); QUAD];
        let (mut ready, mut left): (Val<u32>, Val<u32>) = (val(0), most);
        let at = select(self.own, self.quad, 0);
        while left > 0 {
            // SAFETY: the slot lies in the memory, as its record says, as do the first words, which
            // lanes without such a slot read.
            quad = unsafe { near.memory.get_quad_unchecked(at) };
            let good = self.own & self.open & (!self.looks | quad[PAYLOAD].eq(self.stamp));
            ready = self.whole(plan, good);
            left = select(ready.eq(0), left - 1, 0);
        }
        (quad, ready)
    }
}
