//! Which message of an actor with several priorities comes next.
//!
//! The priorities of an actor are endpoints that follow one another, the highest first. A poll
//! finds messages of several at once, or, where a worker has more endpoints than one poll covers,
//! of one priority now and of another later. So before a message of a lower priority begins, the
//! next slot of every higher one is checked. Where a message is there, the lower one remains in its
//! slot, and is found again when the higher one is done. The check is skipped where the poll itself
//! covered all endpoints and this is the first message that it found.

use super::delivery::Delivery;
use super::plan::{ActorKind, GridPlan, host};
use super::position::{join, stamp_and_slot};
use super::read_message::Taken;
use super::route::Route;
use super::worker::WorkerMemory;
use crate::wire::record::endpoint;
use crate::wire::slot::{Kind as SlotKind, PAYLOAD, PRIORITY_SHIFT, QUAD};
use kiln_lang::prelude::*;

impl Delivery {
    /// The message's priority.
    pub(super) fn priority(&self) -> Val<u32> {
        (self.position >> PRIORITY_SHIFT).cast::<u32>()
    }

    /// Handles a message unless one of a higher priority comes first; whether it was done with.
    #[device(crate = kiln_lang)]
    pub(super) fn handle_in_turn(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        message: &Taken,
        route: &mut Route,
    ) -> Val<bool> {
        let mut first: Val<bool> = true;
        if block_uniform(!self.fresh & !self.inbound_link) {
            for above in 1..kind.priorities {
                if block_uniform((self.priority() + above as u32).lt(kind.priorities as u32)) {
                    let other = plan.record(self.record - (above * endpoint::WORDS) as u32);
                    first = first & !is_there(plan, memory, kind, other);
                }
            }
        }
        let mut done: Val<bool> = false;
        if block_uniform(first) {
            done = self.handle(plan, memory, kind, message, route);
        }
        done
    }
}

/// Whether the next message of an endpoint is there, whole.
#[device(crate = kiln_lang)]
fn is_there(plan: &GridPlan, memory: &WorkerMemory, kind: &ActorKind, record: Val<u32>) -> Val<bool> {
    let field = |word: usize| memory.field(record, word);
    let position = join(field(endpoint::POSITION), field(endpoint::POSITION + 1));
    let (stamp, slot) = stamp_and_slot(position, field(endpoint::LOG2_SLOTS), SlotKind::Request as u32);
    let at = field(endpoint::REQUESTS) + slot * field(endpoint::REQUEST_STRIDE);
    let (quads, lanes) = (kind.requests.quads() as u32, plan.lanes);
    let mut there: Val<bool> = true;
    // Each lane checks its share of the quads; one that has none left checks the last once more.
    for turn in range(val::<u32>(0), quads.div_ceil(lanes)) {
        let mine = if host(lanes > 1) { lane_id().cast::<u32>() + turn * lanes } else { turn };
        let quad = at + mine.minimum(quads - 1) * QUAD as u32;
        // SAFETY: the slot lies in the inbox, as the record says: the endpoint of a priority is no
        // inbound link.
        let stamped = unsafe { memory.inbox.get_quad_unchecked(quad) }[PAYLOAD].eq(stamp);
        there = there & if host(lanes > 1) { !vote_any(!stamped) } else { stamped };
    }
    there
}
