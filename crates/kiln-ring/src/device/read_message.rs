//! Reading a message out of its slot: into registers, except for arrays, which are read in place.

use super::plan::{ActorKind, GridPlan, host};
use super::poll::{Poll, SPREAD};
use super::worker::WorkerMemory;
use crate::payload::{MESSAGE, MessageSlot};
use crate::wire::quads::plain_quads;
use crate::wire::slot::{PAYLOAD, QUAD, SlotLayout};
use kiln_lang::prelude::*;
use std::ops::Range;

/// A message: whether it is there, its header, its words, and the slot of those that remain there.
pub(super) struct Taken {
    pub complete: Val<bool>,
    pub header: [Val<u32>; PAYLOAD],
    pub words: Vec<Val<u32>>,
    pub slot: Option<MessageSlot>,
}

impl Poll {
    /// The message in that slot, of which some quads were spread.
    #[device(crate = kiln_lang)]
    pub fn take(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        (lane, early): (Val<u32>, &[[Val<u32>; QUAD]; SPREAD]),
    ) -> Taken {
        let (layout, inlines) = (&kind.requests, kind.handler.inlines().message);
        let quads = layout.quads();
        let headers = usize::from(layout.has_header());
        let plain = quads_to_read(layout, &inlines);
        let slot = (!inlines.is_empty()).then(|| self.slot(plan, memory, headers, lane));
        let mut seen: Vec<[Val<u32>; QUAD]> = vec![[val(0); QUAD]; quads];
        let (mut mine, mut complete) = (*self, true.into_val());
        if host(plan.ordered) {
            mine.quad = self.poll_set.quad_in_order(plan, memory);
        }
        for &q in &plain {
            if host(q < plan.spread() && !plan.ordered) {
                seen[q] = early[q];
            } else if host(q == 0 || plan.lanes > 1 && q < plan.width() as usize) {
                seen[q] = mine.quad_of(plan, lane, q);
            } else {
                let quad =
                    self.poll_set.quad_at(memory, self.poll_set.slot + (q * QUAD) as u32, plan.inbound_links);
                complete = complete & quad[PAYLOAD].eq(self.poll_set.stamp);
                seen[q] = quad;
            }
        }
        if host(!inlines.is_empty()) {
            complete = complete & self.rest_is_there(plan, memory, quads);
            complete = if host(plan.lanes == 1) { complete } else { block_uniform(vote_all(complete)) };
        }
        let header =
            if host(layout.has_header()) { [seen[0][0], seen[0][1], seen[0][2]] } else { [val(0); PAYLOAD] };
        let word = |w: usize| seen[layout.payload_at(w) / QUAD][w % PAYLOAD];
        let mut words: Vec<Val<u32>> = (0..layout.payload_words()).map(word).collect();
        for array in &inlines {
            words[array.clone()].fill(val(MESSAGE));
            words[array.start] = val(array.start as u32);
        }
        Taken { complete, header, words, slot }
    }

    /// Where the arrays of that message lie.
    fn slot(&self, plan: &GridPlan, memory: &WorkerMemory, headers: usize, lane: Val<u32>) -> MessageSlot {
        let (mut at, mut inbound_link) = (self.poll_set.slot, self.poll_set.inbound_link);
        if host(plan.lanes > 1) {
            at = shuffle_idx(at, lane);
            inbound_link = if host(plan.inbound_links) {
                shuffle_idx(inbound_link.cast::<u32>(), lane).ne(0)
            } else {
                inbound_link
            };
        }
        MessageSlot {
            inbox: memory.inbox,
            inbound_links: plan.inbound_links,
            inbound_link,
            at: at + (headers * QUAD) as u32,
        }
    }

    /// Whether each lane's share of the unread quads is there: the quads behind as many as are
    /// lanes to a slot, which are then all of the worker's.
    #[device(crate = kiln_lang)]
    fn rest_is_there(&self, plan: &GridPlan, memory: &WorkerMemory, quads: usize) -> Val<bool> {
        let mut there: Val<bool> = true;
        let first = plan.width() as usize;
        if host(quads > first) {
            let lane = if host(plan.lanes == 1) { val(0) } else { lane_id().cast::<u32>() };
            for q in range_step(lane + first as u32, quads as u32, plan.lanes) {
                let quad =
                    self.poll_set.quad_at(memory, self.poll_set.slot + q * QUAD as u32, plan.inbound_links);
                there = there & quad[PAYLOAD].eq(self.poll_set.stamp);
            }
        }
        there
    }
}

/// The quads of a slot that a handler's message needs in registers, its header included.
fn quads_to_read(layout: &SlotLayout, inlines: &[Range<usize>]) -> Vec<usize> {
    let headers = usize::from(layout.has_header());
    let of_payload = plain_quads(layout.payload_words(), inlines);
    (0..headers).chain(of_payload.into_iter().map(|q| q + headers)).collect()
}
