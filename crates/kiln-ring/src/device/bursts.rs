//! Looking for messages in bursts: often where a look is cheap, seldom across a bus.

use super::cluster::Near;
use super::plan::GridPlan;
use super::poll::{Poll, PollSet};
use super::worker::{Worker, WorkerMemory};
use crate::wire::slot::{PAYLOAD, QUAD};
use kiln_lang::prelude::*;

/// How often a worker looks at its own memory between two looks at everything.
const BURST: u32 = 32;

/// How often a worker that rests looks at its inbound links between two looks across a bus.
const RESTING_LOOKS: u32 = 2;

/// How often a worker on the fast path looks where it looks at its inbound links alone: for longer
/// than the other end takes for a look across the bus. Else each such look would make the other end
/// take one too.
pub(super) const LOOKS_FAR: u32 = 16;

impl PollSet {
    /// Looks at the worker's own memory (`near`) in bursts, or else at its inbound links in the
    /// arena, and at everything between them, until a message or a command is there, and for so
    /// many bursts at most. So a message of a neighbor is seen at once, and one of the host after
    /// half a burst on average.
    ///
    /// A worker that has not rested has just handled something, to which its neighbor may answer
    /// soon. It begins with a burst unless it is time for a look at everything (`all_first`), that
    /// whatever comes from elsewhere has its turn too: such a look may cross the bus.
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
        // The last one, until it looks.
        let mut command = [val(0), val(0), val(0), worker.seen];
        let mut at_all: Val<bool> = all_first;
        let (mut ready, mut glances): (Val<u32>, Val<u32>) = (val(0), val(0));
        let mut watching = true.into_val();
        while watching {
            if at_all {
                command = memory.command();
                quad = self.quad_at(memory, self.quad, true);
                ready = self.ready(plan, quad);
            }
            at_all = true.into_val();
            glances += 1;
            let commanded = block_uniform(command[PAYLOAD]).ne(worker.seen);
            if ready.eq(0) & !commanded {
                (quad, ready) = match near {
                    Some(near) => self.burst(plan, near),
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

    /// Looks at the inbound links in the arena until a message is there, and so often at most.
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
            // SAFETY: the slot lies in the arena, as its record says, as do the first words, at
            // which lanes without such a slot look.
            quad = unsafe { memory.arena.get_quad_unchecked(at) };
            let good = mine & self.open & (!self.looks | quad[PAYLOAD].eq(self.stamp));
            ready = self.whole(plan, good);
            left = select(ready.eq(0), left - 1, 0);
        }
        (quad, ready)
    }

    /// Looks at the worker's own memory until a message is there, and so often at most.
    #[device(crate = kiln_lang)]
    pub(super) fn burst(&self, plan: &GridPlan, near: &Near) -> ([Val<u32>; QUAD], Val<u32>) {
        let mut quad = [val::<u32>(0); QUAD];
        let (mut ready, mut left): (Val<u32>, Val<u32>) = (val(0), val(BURST));
        let at = select(self.own, self.quad, 0);
        while left > 0 {
            // SAFETY: the slot lies in the memory, as its record says, as do the first words, at
            // which lanes without such a slot look.
            quad = unsafe { near.memory.get_quad_unchecked(at) };
            let good = self.own & self.open & (!self.looks | quad[PAYLOAD].eq(self.stamp));
            ready = self.whole(plan, good);
            left = select(ready.eq(0), left - 1, 0);
        }
        (quad, ready)
    }
}
