//! One message: its handler, the actor's state, the answer.

use super::command::set_of_actor;
use super::poll::{Poll, Taken, first_lane, is_before, join, stamp_and_slot, ticket};
use super::record::{actor, cause, gate, link, port};
use super::resident::{Kind as ActorKind, Place, Plan, Worker};
use super::send::Checked;
use super::slots::{Ground, Slot};
use super::words::Words;
use crate::handler::RingCtx;
use crate::payload::{ARENA, Memory};
use crate::slot::{Kind, LAP_MASK, QUAD};
use kiln_lang::prelude::*;
use std::ops::Range;

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
    /// Whether all places were looked at, and nothing was served since.
    fresh: Val<bool>,
    /// How many ports the worker has.
    ports: Val<u32>,
}

impl Poll {
    /// Serves all messages that are ready; whether any was done with.
    #[device(crate = kiln_lang)]
    pub fn serve(&self, plan: &Plan, place: &Place, worker: &Worker) -> Val<bool> {
        let mut ready: Val<u32> = self.ready;
        let mut worked: Val<bool> = false;
        let (mut is_first, mut lane): (Val<bool>, Val<u32>) = (true.into_val(), self.lane);
        while ready != 0 {
            let of_lane = |value: Val<u32>| match plan.lanes {
                1 => value,
                _ => block_uniform(shuffle_idx(value, lane)),
            };
            let aim = &self.aim;
            let (known, low) = (of_lane(aim.ticket), of_lane(aim.low));
            let (answer, lap) = (of_lane(aim.answer), of_lane(aim.stamp) & LAP_MASK);
            let record = plan.record(of_lane(aim.record));
            // Before it is known whether the message's turn has come: the shuffles take as long as that does.
            let spread = self.spread(plan, lane);
            let field = |word: usize| place.field(record, word);
            // What was known when the worker took aim holds for the first message. Any other looks at the table, which those before it have changed.
            let mut due: Val<bool> = is_first & (known & ticket::PLAIN).ne(0);
            let mut why: Val<u32> = 0;
            is_first = false.into_val();
            if !due {
                // A message whose turn has not come, or whose actor has failed meanwhile, is found again.
                let (state, skipped) = (field(port::GATE), is_before(low, field(port::SKIP)));
                due = field(port::POSITION).eq(low) & (state.ne(gate::FAILED) | skipped);
                let given_up = select(skipped, val(Kind::Dropped as u32), val(0));
                why = select(state.eq(gate::RETURNING), Kind::Undeliverable as u32, given_up);
            }
            if due {
                let position = join(low, field(port::POSITION + 1));
                let inlet = if plan.inlets { (known & ticket::INLET).ne(0) } else { false.into_val() };
                let fresh = aim.sees_all & !worked;
                let at = At { record, position, answer, lap, inlet, fresh, ports: worker.count };
                let kind = known & ticket::KIND;
                for k in 0..plan.kinds.len() {
                    if kind == k as u32 + 1 {
                        let done = self.serve_as(plan, place, &plan.kinds[k], (lane, &spread), &at, why);
                        worked = worked | done;
                    }
                }
            }
            ready = ready & (ready - 1);
            lane = first_lane(ready);
        }
        worked
    }

    /// Serves a message of an actor of some kind; whether it was done with. It was not if it is not complete, where there is no room for what
    /// it leads to, or if one of a higher band comes first. `why` is the answer of one that is not to be handled, else 0.
    #[device(crate = kiln_lang)]
    fn serve_as(
        &self,
        plan: &Plan,
        place: &Place,
        kind: &ActorKind,
        seen: (Val<u32>, &[[Val<u32>; QUAD]]),
        at: &At,
        why: Val<u32>,
    ) -> Val<bool> {
        let message = self.take(plan, place, kind, seen);
        let mut done = message.complete;
        if message.complete {
            // The copy engine has filled the arrays that the message refers to, of which a cache may still have what was there before.
            if kind.handler.signature().message_holds {
                fence();
            }
            let begun = at.begun(plan);
            let deadline = join(message.header[0], message.header[1]);
            let expired = if kind.requests.has_header() { deadline.lt(clock_ns()) } else { false.into_val() };
            if block_uniform(why.ne(0) | expired) {
                let why = select(why.ne(0), why, val(Kind::Expired as u32));
                done = at.has_room(place);
                if done {
                    at.set(place, port::UNHANDLED, at.field(place, port::UNHANDLED) + 1);
                    let memory = Memory { arena: place.arena, message: message.slot };
                    let inlines = kind.handler.inlines().message;
                    let words = Words { words: &message.words, inlines: &inlines, memory: &memory };
                    at.answer(plan, place, why, &words);
                }
            } else if kind.bands > 1 {
                done = at.handle_in_turn(plan, place, kind, &message, at.fresh);
            } else {
                done = at.handle(plan, place, kind, &message);
            }
            if done {
                // After the answer, which somebody waits for.
                let next = at.position.cast::<u32>() + 1;
                let skip = at.field(place, port::SKIP);
                at.set(place, port::POSITION, next);
                // It keeps up with the position, so that the two never lie so far apart that their order turns round.
                at.set(place, port::SKIP, select(is_before(skip, next), next, skip));
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
        place.field(self.record, word)
    }

    fn set(&self, place: &Place, word: usize, value: Val<u32>) {
        place.set_field(self.record, word, value);
    }

    /// A word of the actor's line.
    fn line(&self, place: &Place, word: usize) -> Val<u32> {
        // SAFETY: the line lies in the arena, before the state.
        unsafe { place.word(self.field(place, port::STATE) - actor::WORDS as u32, word) }
    }

    fn set_line(&self, place: &Place, word: usize, value: Val<u32>) {
        // SAFETY: the line lies in the arena before the state. It is the actor's, which this worker serves, and all lanes store the same.
        unsafe { place.set_word(self.field(place, port::STATE) - actor::WORDS as u32, word, value) };
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
    pub(super) fn handle(&self, plan: &Plan, place: &Place, kind: &ActorKind, message: &Taken) -> Val<bool> {
        let state_at = self.field(place, port::STATE);
        let words = kind.handler.signature().state_words;
        let inlines = kind.handler.inlines();
        let before = state(place, state_at, words, &inlines.state);
        let number = self.field(place, port::ACTOR);
        let ctx = RingCtx::new(number, self.position, plan.lanes, place.arena).with_message(message.slot);
        let memory = ctx.memory();
        let (fault, outcome) = kind.handler.trace_guarded(&ctx, val(plan.budget), &before, &message.words);
        let sends = ctx.sendings();
        let faulted = fault.ne(0);
        let mut failure =
            select(faulted, val::<u32>(cause::FAULT), select(outcome.failed, val::<u32>(cause::RETURNED), 0));
        let mut why = select(faulted, fault, outcome.code);
        let checked = Checked::of(plan, place, number, &sends, failure.eq(0));
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
                let words = Words { words: &[failure, why], inlines: &[], memory };
                self.answer(plan, place, val(Kind::Failed as u32), &words);
                self.note_failure(place, kind, [failure, why]);
            } else {
                let after = Words { words: &outcome.state, inlines: &inlines.state, memory };
                // SAFETY: the state belongs to the actor, which this worker serves, and all lanes store the same.
                unsafe {
                    for word in after.plain() {
                        place.set_word(state_at, word, outcome.state[word]);
                    }
                }
                if !sends.is_empty() {
                    checked.send(plan, place, memory);
                    if block_uniform(checked.gone).ne(0) {
                        let before = self.line(place, actor::UNDELIVERED);
                        self.set_line(place, actor::UNDELIVERED, before + checked.gone);
                    }
                }
                if block_uniform(outcome.replies) {
                    let words = Words { words: &outcome.reply, inlines: &inlines.reply, memory };
                    self.answer(plan, place, val(Kind::Reply as u32), &words);
                } else if !self.inlet {
                    let words = Words { words: &[], inlines: &[], memory };
                    self.answer(plan, place, val(Kind::None as u32), &words);
                }
                // What was sent and answered may have been copied from there.
                for array in &inlines.state {
                    replace_array(plan, place, &after, array, state_at + array.start as u32);
                }
            }
        }
        room
    }

    /// Writes the answer's slot. There is room.
    #[device(crate = kiln_lang)]
    fn answer(&self, plan: &Plan, place: &Place, kind: Val<u32>, payload: &Words<'_>) {
        let slot = if self.inlet {
            self.output(place)
        } else {
            Slot { at: self.answer, stamp: self.lap, headers: val(0), header: [val(0), val(0), val(0)] }
        };
        let slot = Slot { stamp: slot.stamp | kind << 24, ..slot };
        // SAFETY: the slot lies in the outbox, as the record says; the host has taken what stood in it, and reads it by quads.
        unsafe {
            if plan.ordered {
                slot.write_ordered(plan, &place.outbox, payload);
            } else {
                let ground = Ground { memory: &place.outbox, far: None, near: None };
                slot.write(plan, ground, payload);
            }
        }
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

/// The words of a state, which begins at a word of the arena.
fn state(place: &Place, at: Val<u32>, words: usize, inlines: &[Range<usize>]) -> Vec<Val<u32>> {
    let word = |word: usize| match inlines.iter().find(|array| array.contains(&word)) {
        // SAFETY: the state lies in the arena, as the record says.
        None => unsafe { place.word(at, word) },
        Some(array) if array.start == word => at + word as u32,
        Some(_) => val(ARENA),
    };
    (0..words).map(word).collect()
}

/// Puts what a handler left there into an array of the state, unless that is the array itself.
#[device(crate = kiln_lang)]
fn replace_array(plan: &Plan, place: &Place, state: &Words<'_>, array: &Range<usize>, own: Val<u32>) {
    let (at, source) = (state.words[array.start], state.words[array.start + 1]);
    if block_uniform(source.ne(ARENA) | at.ne(own)) {
        if plan.lanes > 1 {
            barrier();
        }
        let lane = if plan.lanes == 1 { val(0) } else { lane_id().cast::<u32>() };
        for i in range_step(lane, array.len() as u32, plan.lanes) {
            let word = state.of_array(array, i);
            // SAFETY: the state belongs to the actor, which this worker serves, and each word is one lane's.
            unsafe { place.arena.scatter(own + i, word) };
        }
    }
}
