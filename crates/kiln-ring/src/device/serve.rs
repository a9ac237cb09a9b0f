//! One message: its handler, the actor's state, the answer.

use super::command::set_of_actor;
use super::poll::{Poll, is_before, join, stamp_and_slot};
use super::record::{actor, cause, gate, link, port};
use super::resident::{Kind as ActorKind, Place, Plan, Worker};
use super::send::Checked;
use super::slots::Slot;
use crate::handler::RingCtx;
use crate::slot::Kind;
use kiln_lang::prelude::*;

/// A message's place: the record of its port, and its position there.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) record: Val<u32>,
    pub(super) position: Val<u64>,
    /// Where its answer to the host stands in the outbox. Known before the handler runs, whose end somebody waits for.
    answer: Val<u32>,
    /// The stamp of that answer, but for the kind.
    lap: Val<u32>,
    /// Whether another actor sent the message.
    pub(super) inlet: Val<bool>,
    /// How many ports the worker has.
    ports: Val<u32>,
}

impl Poll {
    /// Serves all messages that are ready; whether any was done with.
    #[device(crate = kiln_lang)]
    pub fn serve(&self, plan: &Plan, place: &Place, worker: &Worker) -> Val<bool> {
        let mut ready: Val<u32> = self.ready;
        let mut worked: Val<bool> = false;
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
                let inlet =
                    if plan.inlets { block_uniform(field(port::LINK)).ne(0) } else { false.into_val() };
                let fresh = self.aim.sees_all & !worked;
                let at = At { record, position, answer, lap, inlet, ports: worker.count };
                for k in 0..plan.kinds.len() {
                    if kind == k as u32 + 1 {
                        let done = self.serve_as(plan, place, &plan.kinds[k], lane, &at, fresh);
                        worked = worked | done;
                    }
                }
            }
        }
        worked
    }

    /// Serves a message of an actor of some kind; whether it was done with. It was not if it is not complete, where there is no room for what
    /// it leads to, or if one of a higher band comes first. `fresh` says that all places were looked at, and nothing was served since.
    #[device(crate = kiln_lang)]
    fn serve_as(
        &self,
        plan: &Plan,
        place: &Place,
        kind: &ActorKind,
        lane: Val<u32>,
        at: &At,
        fresh: Val<bool>,
    ) -> Val<bool> {
        let message = self.take(plan, place, &kind.requests, lane);
        let mut done = message.complete;
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
                let of = |kind: Kind| val::<u32>(kind as u32);
                let why = select(
                    returned,
                    of(Kind::Undeliverable),
                    select(skipped, of(Kind::Dropped), of(Kind::Expired)),
                );
                done = at.has_room(place);
                if done {
                    at.set(place, port::UNHANDLED, at.field(place, port::UNHANDLED) + 1);
                    at.answer(plan, place, why, &message.words);
                }
            } else if kind.bands > 1 {
                done = at.handle_in_turn(plan, place, kind, &message.words, fresh);
            } else {
                done = at.handle(plan, place, kind, &message.words);
            }
            if done {
                // After the answer, which somebody waits for.
                at.set(place, port::POSITION, low + 1);
                // It keeps up with the position, so that the two never lie so far apart that their order turns round.
                at.set(place, port::SKIP, select(skipped, skip, low + 1));
                at.set(place, port::POSITION + 1, ((at.position + 1) >> 32).cast::<u32>());
                at.set(place, port::HANDLED, at.field(place, port::HANDLED) + 1);
                at.free_slot(place);
                at.tally(plan, place, kind, begun);
            }
        }
        done
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

    /// A word of the actor's line.
    fn line(&self, place: &Place, word: usize) -> Val<u32> {
        place.arena.get_or(self.field(place, port::STATE) - (actor::WORDS - word) as u32, 0)
    }

    fn set_line(&self, place: &Place, word: usize, value: Val<u32>) {
        let at = self.field(place, port::STATE) - (actor::WORDS - word) as u32;
        // SAFETY: the line is the actor's, which this worker serves, and all lanes store the same.
        unsafe { place.arena.scatter(at, value) };
    }

    /// Whether there is room for an answer. For one to the host there always is.
    #[device(crate = kiln_lang)]
    fn has_room(&self, place: &Place) -> Val<bool> {
        let mut room: Val<bool> = true;
        if self.inlet {
            let slots = val::<u32>(1) << self.line(place, actor::LOG2_SLOTS);
            let tail = self.line(place, actor::TAIL);
            room = (tail - self.line(place, actor::TAKEN_SEEN)).lt(slots);
            if block_uniform(!room) {
                // SAFETY: the host's quad lies in the inbox, as the line says.
                let quad = unsafe { place.inbox.get_quad_unchecked(self.line(place, actor::TAKEN_AT)) };
                let taken = block_uniform(quad[0]);
                self.set_line(place, actor::TAKEN_SEEN, taken);
                room = (tail - taken).lt(slots);
            }
        }
        block_uniform(room)
    }

    /// Runs the handler, and does what it says; whether there was room for that.
    #[device(crate = kiln_lang)]
    pub(super) fn handle(
        &self,
        plan: &Plan,
        place: &Place,
        kind: &ActorKind,
        message: &[Val<u32>],
    ) -> Val<bool> {
        let state_at = self.field(place, port::STATE);
        let words = kind.handler.signature().state_words;
        let before: Vec<Val<u32>> =
            (0..words).map(|word| place.arena.get_or(state_at + word as u32, 0)).collect();
        let number = self.field(place, port::ACTOR);
        let ctx = RingCtx::new(number, self.position, plan.lanes, place.arena);
        let (fault, outcome) = kind.handler.trace_guarded(&ctx, val(plan.budget), &before, message);
        let sends = ctx.sendings();
        let faulted = fault.ne(0);
        let mut failure =
            select(faulted, val::<u32>(cause::FAULT), select(outcome.failed, val::<u32>(cause::RETURNED), 0));
        let mut why = select(faulted, fault, outcome.code);
        let checked = Checked::of(place, number, &sends, failure.eq(0));
        if !sends.is_empty() {
            why = select(checked.refused.ne(0), checked.refused, why);
            failure = select(checked.refused.ne(0), cause::SEND, failure);
        }
        let fails = block_uniform(failure.ne(0));
        let mut room: Val<bool> = true;
        if self.inlet {
            if block_uniform(fails | outcome.replies) {
                room = self.has_room(place);
            }
        }
        if !sends.is_empty() {
            room = room & (fails | checked.room);
        }
        if room {
            if fails {
                set_of_actor(place, self.ports, number, port::GATE, val(gate::FAILED));
                self.set(place, port::UNHANDLED, self.field(place, port::UNHANDLED) + 1);
                self.answer(plan, place, val(Kind::Failed as u32), &[failure, why]);
                self.note_failure(place, kind, [failure, why]);
            } else {
                // SAFETY: the state belongs to the actor, which this worker serves, and all lanes store the same.
                unsafe {
                    for word in 0..words {
                        place.arena.scatter(state_at + word as u32, outcome.state[word]);
                    }
                }
                if !sends.is_empty() {
                    checked.send(plan, place);
                    if block_uniform(checked.gone).ne(0) {
                        let before = self.line(place, actor::UNDELIVERED);
                        self.set_line(place, actor::UNDELIVERED, before + checked.gone);
                    }
                }
                if block_uniform(outcome.replies) {
                    self.answer(plan, place, val(Kind::Reply as u32), &outcome.reply);
                } else if !self.inlet {
                    self.answer(plan, place, val(Kind::None as u32), &[]);
                }
            }
        }
        room
    }

    /// Writes the answer's slot. There is room.
    #[device(crate = kiln_lang)]
    fn answer(&self, plan: &Plan, place: &Place, kind: Val<u32>, payload: &[Val<u32>]) {
        let slot = if self.inlet {
            self.output(place)
        } else {
            Slot { at: self.answer, stamp: self.lap, headers: val(0), header: [val(0), val(0), val(0)] }
        };
        let slot = Slot { stamp: slot.stamp | kind << 24, ..slot };
        // SAFETY: the slot lies in the outbox, as the record says; the host has taken what stood in it, and reads it by quads.
        unsafe { slot.write(plan, &place.outbox, payload) };
    }

    /// Takes the slot of the actor's next output.
    #[device(crate = kiln_lang)]
    fn output(&self, place: &Place) -> Slot {
        let position = join(self.line(place, actor::TAIL), self.line(place, actor::TAIL + 1));
        let (stamp, number) = stamp_and_slot(position, self.line(place, actor::LOG2_SLOTS), 0);
        let after = position + 1;
        self.set_line(place, actor::TAIL, after.cast::<u32>());
        self.set_line(place, actor::TAIL + 1, (after >> 32).cast::<u32>());
        Slot {
            at: self.line(place, actor::OUTPUTS) + number * self.line(place, actor::STRIDE),
            stamp,
            headers: val(1),
            header: [
                self.field(place, port::LINK),
                self.position.cast::<u32>(),
                (self.position >> 32).cast::<u32>(),
            ],
        }
    }

    /// Counts a message of another actor that is done.
    #[device(crate = kiln_lang)]
    pub(super) fn count_received(&self, place: &Place) {
        let count = join(self.line(place, actor::RECEIVED), self.line(place, actor::RECEIVED + 1)) + 1;
        self.set_line(place, actor::RECEIVED, count.cast::<u32>());
        self.set_line(place, actor::RECEIVED + 1, (count >> 32).cast::<u32>());
    }

    /// Tells an inlet's sender that the message is done with.
    #[device(crate = kiln_lang)]
    fn free_slot(&self, place: &Place) {
        if self.inlet {
            let head = self.field(place, port::LINK) + link::HEAD as u32;
            let next = self.position.cast::<u32>() + 1;
            // SAFETY: the link lies in the arena; the sender loads the word in order. See `send.rs` for why this need not be a release.
            unsafe { place.arena.set_ordered_unchecked(head, next, Order::Relaxed, Scope::System) };
        }
    }
}
