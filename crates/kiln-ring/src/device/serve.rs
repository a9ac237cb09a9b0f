//! One message: its handler, the actor's state, the answer.

use super::poll::{Poll, is_before, join, stamp_and_slot};
use super::record::{cause, gate, port};
use super::resident::{Kind as ActorKind, Place, Plan};
use crate::handler::RingCtx;
use crate::slot::{Kind, PAYLOAD, QUAD, quads_for};
use kiln_lang::prelude::*;

/// A message's place: the record of its port, and its position there.
#[derive(Clone, Copy)]
pub(super) struct At {
    record: Val<u32>,
    pub(super) position: Val<u64>,
    /// Where its answer stands in the outbox. Known before the handler runs, whose end somebody waits for.
    answer: Val<u32>,
    /// The stamp of its answer, but for the kind.
    lap: Val<u32>,
}

impl Poll {
    /// Serves all messages that are ready; whether there were any.
    #[device(crate = kiln_lang)]
    pub fn serve(&self, plan: &Plan, place: &Place) -> Val<bool> {
        let mut ready: Val<u32> = self.ready;
        while ready != 0 {
            let lane = ((ready & (val::<u32>(0) - ready)) - 1).popcount();
            ready = ready & (ready - 1);
            let (record, low) = if plan.lanes > 1 {
                (plan.record(shuffle_idx(self.aim.record, lane)), shuffle_idx(self.aim.low, lane))
            } else {
                (self.aim.record, self.aim.low)
            };
            let field = |word: usize| place.table.get_or(record + word as u32, 0);
            let (next, high) = (field(port::POSITION), field(port::POSITION + 1));
            let (kind, state) = (block_uniform(field(port::KIND)), field(port::GATE));
            // A message whose turn has not come, or whose actor has failed meanwhile, is found again.
            let may = state.ne(gate::FAILED) | is_before(low, field(port::SKIP));
            let due = block_uniform(next.eq(low) & may);
            if due {
                let position = join(low, high);
                let (lap, slot) = stamp_and_slot(position, field(port::LOG2_SLOTS), 0);
                let answer = field(port::ANSWERS) + slot * field(port::ANSWER_STRIDE);
                let at = At { record, position, answer, lap };
                for k in 0..plan.kinds.len() {
                    if kind == k as u32 + 1 {
                        self.serve_as(plan, place, &plan.kinds[k], lane, &at);
                    }
                }
            }
        }
        self.ready.ne(0)
    }

    #[device(crate = kiln_lang)]
    fn serve_as(&self, plan: &Plan, place: &Place, kind: &ActorKind, lane: Val<u32>, at: &At) {
        let message = self.take(plan, place, &kind.requests, lane);
        if message.complete {
            // The copy engine has filled the arrays that the message refers to, of which a cache may still have what was there before.
            if kind.handler.signature().message_holds {
                fence();
            }
            let begun = at.begun(plan);
            let low = at.position.cast::<u32>();
            let skip = at.field(place, port::SKIP);
            let skipped = is_before(low, skip);
            let returned = at.field(place, port::GATE).eq(gate::RETURNING);
            let deadline = join(message.header[0], message.header[1]);
            let expired = if kind.requests.has_header() { deadline.lt(clock_ns()) } else { false.into_val() };
            if block_uniform(skipped | returned | expired) {
                at.set(place, port::UNHANDLED, at.field(place, port::UNHANDLED) + 1);
                let of = |kind: Kind| val::<u32>(kind as u32);
                let why = select(
                    returned,
                    of(Kind::Undeliverable),
                    select(skipped, of(Kind::Dropped), of(Kind::Expired)),
                );
                at.answer(plan, place, why, &message.words);
            } else {
                at.handle(plan, place, kind, &message.words);
            }
            // After the answer, which somebody waits for.
            at.set(place, port::POSITION, low + 1);
            // It keeps up with the position, so that the two never lie so far apart that their order turns round.
            at.set(place, port::SKIP, select(skipped, skip, low + 1));
            at.set(place, port::POSITION + 1, ((at.position + 1) >> 32).cast::<u32>());
            at.set(place, port::HANDLED, at.field(place, port::HANDLED) + 1);
            at.tally(plan, place, kind, begun);
        }
    }
}

impl At {
    #[track_caller]
    pub(super) fn field(&self, place: &Place, word: usize) -> Val<u32> {
        place.table.get_or(self.record + word as u32, 0)
    }

    fn set(&self, place: &Place, word: usize, value: Val<u32>) {
        // SAFETY: the table is the worker's own, and all lanes store the same.
        unsafe { place.table.scatter(self.record + word as u32, value) };
    }

    /// Runs the handler, and answers what it says.
    #[device(crate = kiln_lang)]
    fn handle(&self, plan: &Plan, place: &Place, kind: &ActorKind, message: &[Val<u32>]) {
        let state_at = self.field(place, port::STATE);
        let words = kind.handler.signature().state_words;
        let before: Vec<Val<u32>> =
            (0..words).map(|word| place.arena.get_or(state_at + word as u32, 0)).collect();
        let ctx = RingCtx::new(self.field(place, port::ACTOR), self.position, plan.lanes, place.arena);
        let (fault, outcome) = kind.handler.trace_guarded(&ctx, val(plan.budget), &before, message);
        let faulted = fault.ne(0);
        if block_uniform(outcome.failed | faulted) {
            self.set(place, port::GATE, val(gate::FAILED));
            self.set(place, port::UNHANDLED, self.field(place, port::UNHANDLED) + 1);
            let cause = select(faulted, val::<u32>(cause::FAULT), cause::RETURNED);
            let why = [cause, select(faulted, fault, outcome.code)];
            self.answer(plan, place, val(Kind::Failed as u32), &why);
            self.note_failure(place, kind, why);
        } else {
            // SAFETY: the state belongs to the actor, which this worker serves, and all lanes store the same.
            unsafe {
                for word in 0..words {
                    place.arena.scatter(state_at + word as u32, outcome.state[word]);
                }
            }
            if block_uniform(outcome.replies) {
                self.answer(plan, place, val(Kind::Reply as u32), &outcome.reply);
            } else {
                self.answer(plan, place, val(Kind::None as u32), &[]);
            }
        }
    }

    /// Writes the answer's slot.
    #[device(crate = kiln_lang)]
    fn answer(&self, plan: &Plan, place: &Place, kind: Val<u32>, payload: &[Val<u32>]) {
        let (at, stamp) = (self.answer, self.lap | kind << 24);
        let zero = val::<u32>(0);
        let quad = |q: usize| -> [Val<u32>; PAYLOAD] {
            std::array::from_fn(|i| payload.get(q * PAYLOAD + i).copied().unwrap_or(zero))
        };
        let quads = quads_for(payload.len());
        // SAFETY: the answer's slot lies in the outbox, as the record says, and the host reads it by quads.
        unsafe {
            if plan.lanes == 1 {
                for q in 0..quads {
                    let [a, b, c] = quad(q);
                    place.outbox.set_quad_unchecked(at + (q * QUAD) as u32, [a, b, c, stamp]);
                }
            } else {
                // A quad a lane, so that the slot leaves in one store.
                let lane = lane_id().cast::<u32>();
                let mut mine = [zero; PAYLOAD];
                for q in 0..quads {
                    let words = quad(q);
                    mine = std::array::from_fn(|i| select(lane.eq(q as u32), words[i], mine[i]));
                }
                let [a, b, c] = mine;
                if lane < quads as u32 {
                    place.outbox.set_quad_unchecked(at + lane * QUAD as u32, [a, b, c, stamp]);
                }
            }
        }
    }
}
