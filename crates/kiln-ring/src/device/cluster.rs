//! Rings in a worker's shared memory, to which the other workers of its block cluster send.
//!
//! Such a ring is like any other, except for where its slots lie: its sender stores quads to the
//! receiver's shared memory, and the receiver polls its own, which takes a tenth of the time of a
//! poll of the arena. The link's record and the receiver's head are in the arena.
//!
//! Shared memory lasts as long as its block. So a grid that leaves saves the rings: on the command
//! to leave, a worker waits at a barrier of the cluster. Behind it no worker sends any more, and
//! everything that was sent has arrived. Then it copies its memory, slots and stamps unchanged, to
//! the arena, and the next grid's worker copies it back before a barrier behind which its neighbors
//! begin. Records are kept as those of other endpoints. So nothing is lost, doubled or reordered,
//! wherever messages were; and no block ends while another may still write to its memory.

use super::plan::{Cluster, GridPlan, host};
use crate::wire::record::section_words;
use crate::wire::slot::QUAD;
use kiln_lang::prelude::*;
use kiln_lang::{cluster_barrier, explicit};

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
    pub fn of(plan: &GridPlan, number: Idx) -> Option<Near> {
        let cluster = plan.cluster?;
        explicit::cluster(cluster.workers as usize);
        let copy = num_programs(0) * section_words(plan.endpoints) + number * cluster.words;
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

    /// Restores what the worker of the previous grid saved, before any worker sends.
    #[device(crate = kiln_lang)]
    pub fn restore(&self, plan: &GridPlan, arena: &ViewMut<u32, 1>) {
        for at in range_step(first_quad(plan), self.cluster.words as u32, plan.lanes * QUAD as u32) {
            // SAFETY: the arena has as many words there, of this worker alone; each quad is one
            // lane's.
            unsafe {
                let quad = arena.get_quad_unchecked(self.copy + at.cast::<i64>());
                self.memory.set_quad_unchecked(at, quad);
            }
        }
        cluster_barrier();
    }

    /// Saves it for the next grid, once no worker sends any more.
    #[device(crate = kiln_lang)]
    pub fn keep(&self, plan: &GridPlan, arena: &ViewMut<u32, 1>) {
        cluster_barrier();
        for at in range_step(first_quad(plan), self.cluster.words as u32, plan.lanes * QUAD as u32) {
            // SAFETY: as above.
            unsafe {
                let quad = self.memory.get_quad_unchecked(at);
                arena.set_quad_unchecked(self.copy + at.cast::<i64>(), quad);
            }
        }
    }

    /// Clears a ring before its address is published.
    #[device(crate = kiln_lang)]
    pub fn clear(&self, lanes: u32, ring: Val<u32>, words: Val<u32>) {
        let lane = if host(lanes == 1) { val(0) } else { lane_id().cast::<u32>() };
        for at in range_step(lane * QUAD as u32, words, lanes * QUAD as u32) {
            // SAFETY: the ring lies in the memory, as its record says.
            unsafe { self.memory.set_quad_unchecked(ring + at, [val(0); QUAD]) };
        }
        if host(lanes > 1) {
            barrier();
        }
    }
}

/// The first word that is a lane's to copy.
fn first_quad(plan: &GridPlan) -> Val<u32> {
    if host(plan.lanes == 1) { val(0) } else { lane_id().cast::<u32>() * QUAD as u32 }
}
