//! Which message of an actor with several bands of priority comes next.
//!
//! The bands of an actor are ports that follow one another, the highest first. A poll finds
//! messages of several at once, or, where a worker has more ports than it sees at a glance, of one
//! band now and of another later. So a message of a lower band is begun only after a look at the
//! next place of every higher one; where a message is there, the lower one stays where it is, and
//! is found again when the higher one is done. A look is saved where the poll itself was one: it
//! saw all ports, and this is the first message that it leads to.

use super::delivery::At;
use super::plan::{Kind, Plan};
use super::position::{join, stamp_and_slot};
use super::read_message::Taken;
use super::route::Route;
use super::worker::Place;
use crate::wire::record::port;
use crate::wire::slot::{BAND_SHIFT, Kind as SlotKind, PAYLOAD, QUAD};
use kiln_lang::prelude::*;

impl At {
    /// The message's band.
    pub(super) fn band(&self) -> Val<u32> {
        (self.position >> BAND_SHIFT).cast::<u32>()
    }

    /// Handles a message unless one of a higher band comes first; whether it was done with.
    #[device(crate = kiln_lang)]
    pub(super) fn handle_in_turn(
        &self,
        plan: &Plan,
        place: &Place,
        kind: &Kind,
        message: &Taken,
        route: &mut Route,
    ) -> Val<bool> {
        let mut first: Val<bool> = true;
        if block_uniform(!self.fresh & !self.inlet) {
            for above in 1..kind.bands {
                if block_uniform((self.band() + above as u32).lt(kind.bands as u32)) {
                    let other = plan.record(self.record - (above * port::WORDS) as u32);
                    first = first & !is_there(plan, place, kind, other);
                }
            }
        }
        let mut done: Val<bool> = false;
        if block_uniform(first) {
            done = self.handle(plan, place, kind, message, route);
        }
        done
    }
}

/// Whether the next message of a port is there, whole.
#[device(crate = kiln_lang)]
fn is_there(plan: &Plan, place: &Place, kind: &Kind, record: Val<u32>) -> Val<bool> {
    let field = |word: usize| place.field(record, word);
    let position = join(field(port::POSITION), field(port::POSITION + 1));
    let (stamp, slot) = stamp_and_slot(position, field(port::LOG2_SLOTS), SlotKind::Request as u32);
    let at = field(port::REQUESTS) + slot * field(port::REQUEST_STRIDE);
    let (quads, lanes) = (kind.requests.quads() as u32, plan.lanes);
    let mut there: Val<bool> = true;
    // Each lane looks at its share of the quads; one that has none left at the last once more.
    for turn in range(val::<u32>(0), quads.div_ceil(lanes)) {
        let mine = if lanes > 1 { lane_id().cast::<u32>() + turn * lanes } else { turn };
        let quad = at + mine.minimum(quads - 1) * QUAD as u32;
        // SAFETY: the slot lies in the inbox, as the record says: the port of a band is no inlet.
        let stamped = unsafe { place.inbox.get_quad_unchecked(quad) }[PAYLOAD].eq(stamp);
        there = there & if lanes > 1 { !vote_any(!stamped) } else { stamped };
    }
    there
}
