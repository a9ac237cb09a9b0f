//! Rings in a worker's shared memory, to which the other workers of its block cluster send.
//!
//! Such a ring is one like any other, but for where its slots lie: its sender stores quads to the
//! receiver's shared memory, and the receiver looks at its own, which takes a tenth of the time of
//! a look at the arena. The link's record and what the receiver says of its head stay in the arena.
//!
//! Shared memory lasts as long as its block. So a grid that leaves takes the rings along: when a
//! worker is told to leave, it waits at a barrier of the cluster, behind which nobody sends any
//! more and everything that was sent is there. Then it copies its memory, slots and stamps as they
//! are, to the arena, and the next grid's worker copies it back before a barrier behind which its
//! neighbors begin. Records are kept as those of other ports. So nothing is lost, doubled or
//! reordered, wherever messages were; and no block ends while another may still write to its
//! memory.

use super::poll::{Aim, Poll};
use super::record::section_words;
use super::resident::{Place, Plan, Worker};
use super::stay::LOOKS_FAR;
use crate::slot::{PAYLOAD, QUAD};
use kiln_lang::prelude::*;
use kiln_lang::{cluster_barrier, explicit};

/// How often a worker looks at its own memory between two looks at everything.
const BURST: u32 = 32;

/// How often a worker that rests looks at its inlets between two looks across a bus.
const RESTING_LOOKS: u32 = 2;

/// Of as many turns in which a worker has something to do, one begins with a look at everything.
pub(super) const ALL_EVERY: u32 = 8;

/// The clusters of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    /// Workers of each: a power of two.
    pub workers: u32,
    /// Words of each worker's memory for rings: a multiple of 64.
    pub words: usize,
}

/// A worker's memory for rings.
#[derive(Clone, Copy)]
pub(super) struct Near {
    pub memory: Shared<u32, 1>,
    cluster: Cluster,
    /// The word of the arena at which its copy begins.
    copy: Idx,
}

impl Near {
    /// That of a worker, in the kernel of a plan that has clusters.
    pub fn of(plan: &Plan, number: Idx) -> Option<Near> {
        let cluster = plan.cluster?;
        explicit::cluster(cluster.workers as usize);
        let copy = num_programs(0) * section_words(plan.ports) + number * cluster.words;
        Some(Near { memory: shared([cluster.words]), cluster, copy })
    }

    /// The rank of a worker in its cluster.
    pub fn rank(&self, worker: Val<u32>) -> Val<u32> {
        worker & (self.cluster.workers - 1)
    }

    /// Whether two workers are of one cluster.
    pub fn are_neighbors(&self, one: Val<u32>, other: Val<u32>) -> Val<bool> {
        ((one ^ other) & !(self.cluster.workers - 1)).eq(0)
    }

    /// Takes over what the worker of the grid before left, before anybody sends.
    #[device(crate = kiln_lang)]
    pub fn restore(&self, plan: &Plan, place: &Place) {
        for at in range_step(first_quad(plan), self.cluster.words as u32, plan.lanes * QUAD as u32) {
            // SAFETY: the arena has as many words there, of this worker alone; each quad is one
            // lane's.
            unsafe {
                let quad = place.arena.get_quad_unchecked(self.copy + at.cast::<i64>());
                self.memory.set_quad_unchecked(at, quad);
            }
        }
        cluster_barrier();
    }

    /// Leaves it for the next, once nobody sends any more.
    #[device(crate = kiln_lang)]
    pub fn keep(&self, plan: &Plan, place: &Place) {
        cluster_barrier();
        for at in range_step(first_quad(plan), self.cluster.words as u32, plan.lanes * QUAD as u32) {
            // SAFETY: as above.
            unsafe {
                let quad = self.memory.get_quad_unchecked(at);
                place.arena.set_quad_unchecked(self.copy + at.cast::<i64>(), quad);
            }
        }
    }

    /// Makes a ring of which nobody knows yet empty.
    #[device(crate = kiln_lang)]
    pub fn clear(&self, lanes: u32, ring: Val<u32>, words: Val<u32>) {
        let lane = if lanes == 1 { val(0) } else { lane_id().cast::<u32>() };
        for at in range_step(lane * QUAD as u32, words, lanes * QUAD as u32) {
            // SAFETY: the ring lies in the memory, as its record says.
            unsafe { self.memory.set_quad_unchecked(ring + at, [val(0); QUAD]) };
        }
        if lanes > 1 {
            barrier();
        }
    }
}

/// The first word that is a lane's to copy.
fn first_quad(plan: &Plan) -> Val<u32> {
    if plan.lanes == 1 { val(0) } else { lane_id().cast::<u32>() * QUAD as u32 }
}

impl Aim {
    /// Looks at the worker's own memory (`near`) in bursts, or else at its inlets in the arena, and
    /// at everything between them, until a message or a command is there, and for so many bursts at
    /// most. So a message of a neighbor is seen at once, and one of the host after half a burst on
    /// average.
    ///
    /// A worker that has not rested has just handled something, to which its neighbor may answer
    /// soon. It begins with a burst unless it is time for a look at everything (`all_first`), that
    /// whatever comes from elsewhere has its turn too: such a look may cross the bus.
    #[device(crate = kiln_lang)]
    pub(super) fn watch_in_bursts(
        self,
        plan: &Plan,
        place: &Place,
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
                command = place.command();
                quad = self.quad_at(place, self.quad, true);
                ready = self.ready(plan, quad);
            }
            at_all = true.into_val();
            glances += 1;
            let told = block_uniform(command[PAYLOAD]).ne(worker.seen);
            if ready.eq(0) & !told {
                (quad, ready) = match near {
                    Some(near) => self.burst(plan, near),
                    // One that rests may be sent something by the host as well as by others.
                    None => self.burst_of_inlets(plan, place, select(most.gt(1), RESTING_LOOKS, LOOKS_FAR)),
                };
            }
            watching = ready.eq(0) & !told & glances.lt(most);
        }
        self.poll(ready, quad, command, glances)
    }

    /// Looks at the inlets in the arena until a message is there, and so often at most.
    #[device(crate = kiln_lang)]
    pub(super) fn burst_of_inlets(
        &self,
        plan: &Plan,
        place: &Place,
        most: Val<u32>,
    ) -> ([Val<u32>; QUAD], Val<u32>) {
        let mut quad = [val::<u32>(0); QUAD];
        let (mut ready, mut left): (Val<u32>, Val<u32>) = (val(0), most);
        let mine = self.inlet & !self.own;
        let at = select(mine, self.quad, 0);
        while left > 0 {
            // SAFETY: the slot lies in the arena, as its record says, as do the first words, at
            // which lanes without such a slot look.
            quad = unsafe { place.arena.get_quad_unchecked(at) };
            let good = mine & self.open & (!self.looks | quad[PAYLOAD].eq(self.stamp));
            ready = self.whole(plan, good);
            left = select(ready.eq(0), left - 1, 0);
        }
        (quad, ready)
    }

    /// Looks at the worker's own memory until a message is there, and so often at most.
    #[device(crate = kiln_lang)]
    pub(super) fn burst(&self, plan: &Plan, near: &Near) -> ([Val<u32>; QUAD], Val<u32>) {
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
