//! One message: its handler, the actor's state, the answer.

use super::command::set_of_actor;
use super::delivery::Delivery;
use super::plan::{ActorKind, GridPlan, host};
use super::poll::{Poll, ticket};
use super::position::{first_lane, is_before, join, stamp_and_slot};
use super::prefetch::{EARLY, Prefetched, todo};
use super::read_message::Taken;
use super::ref_counts::RefCounting;
use super::route::Route;
use super::send::Checked;
use super::words::Words;
use super::worker::{Worker, WorkerMemory};
use super::write_slot::{Slot, SlotTarget};
use crate::handler::{ErasedOutcome, RingCtx};
use crate::outgoing::Sending;
use crate::payload::{ARENA, ArrayMemory};
use crate::wire::record::{actor, cause, endpoint, gate, link, refusal};
use crate::wire::slot::Kind;
use kiln_lang::prelude::*;
use std::ops::Range;

/// What a handler said of a message, before anything is done about it.
pub(super) struct Ran {
    /// Whether all that follows is a message by the worker's [`Route`], and what there always is
    /// room for.
    pub swift: Val<bool>,
    pub outcome: ErasedOutcome,
    /// Why the actor fails, one of [`cause`], and its number; or 0.
    failure: Val<u32>,
    why: Val<u32>,
    sends: Vec<Sending>,
    memory: ArrayMemory,
    /// The words of the message.
    message: Vec<Val<u32>>,
}

impl Poll {
    /// Serves all messages that are ready; whether any was done with.
    #[device(crate = kiln_lang)]
    pub fn serve(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        worker: &Worker,
        route: &mut Route,
    ) -> Val<bool> {
        let mut worked: Val<bool> = false;
        let mut ready: Val<u32> = self.ready;
        let mut prefetched = self.first(plan, memory);
        while prefetched.todo != todo::NOTHING {
            let fresh = self.poll_set.sees_all & !worked & !self.poll_set.held_up;
            let delivery = Delivery::of(plan, memory, worker, &prefetched, fresh);
            for k in 0..plan.kinds.len() {
                if prefetched.todo == k as u32 + 1 {
                    let done = self.serve_as(plan, memory, &plan.kinds[k], &prefetched, &delivery, route);
                    worked = worked | done;
                }
            }
            if prefetched.todo == todo::GIVEN_BACK {
                for k in 0..plan.kinds.len() {
                    if (prefetched.ticket & ticket::KIND) == k as u32 + 1 {
                        let kind = &plan.kinds[k];
                        let message = self.take(plan, memory, kind, (prefetched.lane, &prefetched.spread));
                        if message.complete {
                            let done = delivery.give_back(plan, memory, kind, &message, prefetched.why);
                            worked = worked | done;
                        }
                    }
                }
            }
            ready = ready & (ready - 1);
            prefetched = self.later(plan, memory, ready);
        }
        worked
    }

    /// Serves a message of an actor of some kind; whether it was done with. It was not if it is not
    /// complete, where there is no room for what it leads to, or if one of a higher priority comes
    /// first.
    #[device(crate = kiln_lang)]
    fn serve_as(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        prefetched: &Prefetched,
        delivery: &Delivery,
        route: &mut Route,
    ) -> Val<bool> {
        let message = self.take(plan, memory, kind, (prefetched.lane, &prefetched.spread));
        let mut done = message.complete;
        if message.complete {
            delivery.receive(kind);
            let begun = delivery.begun(plan);
            if host(kind.requests.has_header()) {
                let deadline = join(message.header[0], message.header[1]);
                if block_uniform(deadline.lt(clock_ns())) {
                    done = delivery.give_back(plan, memory, kind, &message, val(Kind::Expired as u32));
                } else {
                    done = delivery.handle_one(plan, memory, kind, &message, begun, route);
                }
            } else {
                done = delivery.handle_one(plan, memory, kind, &message, begun, route);
            }
        }
        done
    }
}

impl Delivery {
    /// The place of a message. `fresh` says that all endpoints were polled, and nothing was served
    /// since.
    fn of(
        plan: &GridPlan,
        memory: &WorkerMemory,
        worker: &Worker,
        prefetched: &Prefetched,
        fresh: Val<bool>,
    ) -> Delivery {
        Delivery {
            record: prefetched.record,
            position: join(prefetched.low, memory.field(prefetched.record, endpoint::POSITION + 1)),
            answer: prefetched.answer,
            lap: prefetched.lap,
            inbound_link: if host(plan.inbound_links) {
                (prefetched.ticket & ticket::INBOUND).ne(0)
            } else {
                false.into_val()
            },
            fresh,
            endpoints: worker.count,
            actor: memory.field(prefetched.record, endpoint::ACTOR),
            state_at: prefetched.state_at,
            state: prefetched.state,
            received: join(prefetched.received[0], prefetched.received[1]),
            output: prefetched.output,
        }
    }

    /// Before what a message refers to is read: the copy engine has filled those arrays, of which a
    /// cache may still have what was there before.
    pub(super) fn receive(&self, kind: &ActorKind) {
        if host(kind.handler.signature().message_holds) {
            fence();
        }
    }

    /// Handles a message when its turn has come, and what follows; whether it was done with.
    #[device(crate = kiln_lang)]
    fn handle_one(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        message: &Taken,
        begun: Val<u64>,
        route: &mut Route,
    ) -> Val<bool> {
        let done = if host(kind.priorities > 1) {
            self.handle_in_turn(plan, memory, kind, message, route)
        } else {
            self.handle(plan, memory, kind, message, route)
        };
        if done {
            self.finish(plan, memory, kind, begun);
        }
        done
    }

    /// Answers a message that is not to be handled, with what it said; whether there was room for
    /// that.
    #[device(crate = kiln_lang)]
    fn give_back(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        message: &Taken,
        why: Val<u32>,
    ) -> Val<bool> {
        let done = self.has_room(memory);
        if done {
            self.count_unhandled(memory);
            let arrays = ArrayMemory { arena: memory.arena, message: message.slot };
            let inlines = kind.handler.inlines().message;
            let words = Words { words: &message.words, inlines: &inlines, memory: &arrays };
            let references = kind.handler.references();
            RefCounting::of(memory, self, &references, &[]).let_go(
                plan,
                memory,
                self.inbound_link,
                &message.words,
            );
            self.answer(plan, memory, why, &words);
            self.finish(plan, memory, kind, self.begun(plan));
        }
        done
    }

    /// What comes after the answer, which is latency-critical.
    #[device(crate = kiln_lang)]
    pub(super) fn finish(&self, plan: &GridPlan, memory: &WorkerMemory, kind: &ActorKind, begun: Val<u64>) {
        let next = self.position.cast::<u32>() + 1;
        let skip = self.field(memory, endpoint::SKIP);
        self.set(memory, endpoint::POSITION, next);
        // It keeps up with the position, so that the two never lie so far apart that their order
        // turns round.
        self.set(memory, endpoint::SKIP, select(is_before(skip, next), next, skip));
        self.set(memory, endpoint::POSITION + 1, ((self.position + 1) >> 32).cast::<u32>());
        self.set(memory, endpoint::HANDLED, self.field(memory, endpoint::HANDLED) + 1);
        self.free_slot(memory);
        self.tally(plan, memory, kind, begun);
    }
}

impl Delivery {
    /// Whether there is room for an output by what the worker last saw of the host.
    pub(super) fn output_fits(&self) -> Val<bool> {
        let [log2_slots, tail, taken] = self.output;
        (tail - taken).lt(val::<u32>(1) << log2_slots)
    }

    /// Whether there is room for an answer. For one to the host there always is.
    #[device(crate = kiln_lang)]
    pub(super) fn has_room(&self, memory: &WorkerMemory) -> Val<bool> {
        let mut room: Val<bool> = true;
        if self.inbound_link {
            let slots = val::<u32>(1) << self.line(memory, actor::LOG2_SLOTS);
            let tail = self.line(memory, actor::TAIL);
            room = (tail - self.line(memory, actor::TAKEN_SEEN)).lt(slots);
            if block_uniform(!room) {
                // SAFETY: the host's quad lies in the inbox, as the line says.
                let quad = unsafe { memory.inbox.get_quad_unchecked(self.line(memory, actor::TAKEN_AT)) };
                let taken = block_uniform(quad[0]);
                self.set_line(memory, actor::TAKEN_SEEN, taken);
                room = (tail - taken).lt(slots);
            }
        }
        block_uniform(room)
    }

    /// Runs the handler, and does what it says, if there is room for all that it may lead to;
    /// whether there was. So a handler runs once for a message, whatever it does besides sending.
    #[device(crate = kiln_lang)]
    pub(super) fn handle(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        message: &Taken,
        route: &mut Route,
    ) -> Val<bool> {
        let mut begins: Val<bool> = true.into_val();
        if host(kind.may_wait(plan)) {
            begins = self.may_begin(plan, memory, kind, message, route);
            if begins {
                self.work(plan, memory, kind, message, route);
            } else {
                let bits = self.field(memory, endpoint::GATE) | gate::HELD_UP;
                self.set(memory, endpoint::GATE, bits);
            }
        } else {
            self.work(plan, memory, kind, message, route);
        }
        begins
    }

    /// Runs the handler, and does what it says. There is room.
    #[device(crate = kiln_lang)]
    fn work(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        message: &Taken,
        route: &mut Route,
    ) {
        let ran = self.run(plan, memory, kind, message, route);
        if block_uniform(ran.swift) {
            self.pass_on(plan, memory, kind, &ran, route);
        } else {
            self.conclude(plan, memory, kind, &ran, route);
        }
    }

    /// Runs the handler.
    pub(super) fn run(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        message: &Taken,
        route: &Route,
    ) -> Ran {
        let before = self.state(memory, kind.handler.signature().state_words, &kind.handler.inlines().state);
        let ctx = RingCtx::new(self.actor, self.position, plan.lanes, memory.arena)
            .with_message(message.slot)
            .with_faults(memory.faults);
        let (fault, outcome) =
            kind.handler.trace_in_fault_region(&ctx, val(plan.budget), &before, &message.words);
        let fault = if host(plan.lanes > 1 && kind.faults_vary) { fault_of_any_lane(fault) } else { fault };
        let returned = select(outcome.failed, val::<u32>(cause::RETURNED), 0);
        let failure = select(fault.ne(0), val::<u32>(cause::FAULT), returned);
        let why = select(fault.ne(0), fault, outcome.code);
        let sends = ctx.sendings();
        let references = kind.handler.references();
        if host(plan.lanes > 1 && kind.has_arrays()) {
            // What a thread wrote to an array, every thread finds there in the next message.
            barrier();
        }
        let ref_counting = RefCounting::of(memory, self, &references, &sends);
        let (failure, why) = if host(ref_counting.is_any()) {
            let replies = self.inbound_link & outcome.replies;
            let unheld = ref_counting.is_unheld(memory, replies, &outcome.reply) & failure.eq(0);
            (select(unheld, cause::SEND, failure), select(unheld, refusal::UNHELD, why))
        } else {
            (failure, why)
        };
        let swift = route.takes(self.actor, &sends) & failure.eq(0) & !(self.inbound_link & outcome.replies);
        Ran { swift, outcome, failure, why, sends, memory: *ctx.memory(), message: message.words.clone() }
    }

    /// Does what a handler said where that is [swift](Ran::swift).
    #[device(crate = kiln_lang)]
    pub(super) fn pass_on(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        ran: &Ran,
        route: &mut Route,
    ) {
        let references = kind.handler.references();
        let ref_counting = RefCounting::of(memory, self, &references, &ran.sends);
        if host(!ran.sends.is_empty()) {
            ref_counting.send(plan, memory, 0);
        }
        // Before the state is stored: the answer is latency-critical.
        route.send(plan, memory, self, &ran.sends, &ran.memory);
        self.keep_state(memory, kind, ran);
        self.settle_arrays(plan, memory, &ref_counting, ran);
        if !self.inbound_link {
            self.answer_host(plan, memory, kind, ran);
        }
        self.replace_arrays(plan, memory, kind, ran);
    }

    /// Does what a handler said, whatever that is. There is room for it.
    #[device(crate = kiln_lang)]
    pub(super) fn conclude(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        ran: &Ran,
        route: &mut Route,
    ) {
        let (mut failure, mut why) = (ran.failure, ran.why);
        let references = kind.handler.references();
        let ref_counting = RefCounting::of(memory, self, &references, &ran.sends);
        let checked = Checked::of(plan, memory, self.actor, &ran.sends, failure.eq(0));
        if host(!ran.sends.is_empty()) {
            why = select(checked.refused.ne(0), checked.refused, why);
            failure = select(checked.refused.ne(0), cause::SEND, failure);
        }
        if block_uniform(failure.ne(0)) {
            set_of_actor(memory, self.endpoints, self.actor, endpoint::GATE, val(gate::FAILED));
            self.count_unhandled(memory);
            let words = Words { words: &[failure, why], inlines: &[], memory: &ran.memory };
            ref_counting.let_go(plan, memory, self.inbound_link, &ran.message);
            self.note_failure(plan, memory, kind, [failure, why]);
            self.answer(plan, memory, val(Kind::Failed as u32), &words);
        } else {
            self.keep_state(memory, kind, ran);
            if host(!ran.sends.is_empty()) {
                checked.send(plan, memory, &ran.memory, &ref_counting);
                route.learn(self.actor, &checked);
                if block_uniform(checked.gone).ne(0) {
                    let before = self.line(memory, actor::UNDELIVERED);
                    self.set_line(memory, actor::UNDELIVERED, before + checked.gone);
                }
            }
            self.settle_arrays(plan, memory, &ref_counting, ran);
            if block_uniform(ran.outcome.replies | !self.inbound_link) {
                self.answer_host(plan, memory, kind, ran);
            }
            self.replace_arrays(plan, memory, kind, ran);
        }
    }

    /// Before the answer to a message that was handled: counts the arrays that the reply refers to,
    /// and those of the message no more.
    #[device(crate = kiln_lang)]
    fn settle_arrays(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        ref_counting: &RefCounting<'_>,
        ran: &Ran,
    ) {
        if host(ref_counting.replies()) {
            if block_uniform(ran.outcome.replies) {
                ref_counting.reply(plan, memory, self.inbound_link, &ran.outcome.reply);
            }
        }
        ref_counting.let_go(plan, memory, self.inbound_link, &ran.message);
    }

    /// Answers a message that was handled: with the reply, if there is one.
    #[device(crate = kiln_lang)]
    fn answer_host(&self, plan: &GridPlan, memory: &WorkerMemory, kind: &ActorKind, ran: &Ran) {
        if block_uniform(ran.outcome.replies) {
            let inlines = kind.handler.inlines().reply;
            let words = Words { words: &ran.outcome.reply, inlines: &inlines, memory: &ran.memory };
            self.answer(plan, memory, val(Kind::Reply as u32), &words);
        } else {
            let words = Words { words: &[], inlines: &[], memory: &ran.memory };
            self.answer(plan, memory, val(Kind::None as u32), &words);
        }
    }

    /// Stores the words of the state that belong to no array.
    #[device(crate = kiln_lang)]
    fn keep_state(&self, memory: &WorkerMemory, kind: &ActorKind, ran: &Ran) {
        let inlines = kind.handler.inlines().state;
        let after = Words { words: &ran.outcome.state, inlines: &inlines, memory: &ran.memory };
        // SAFETY: the state belongs to the actor, which this worker serves, and all lanes store the
        // same.
        unsafe {
            for word in after.plain() {
                memory.set_word(self.state_at, word, ran.outcome.state[word]);
            }
        }
    }

    /// Stores the arrays of the state. What was sent and answered may have been copied from there.
    #[device(crate = kiln_lang)]
    fn replace_arrays(&self, plan: &GridPlan, memory: &WorkerMemory, kind: &ActorKind, ran: &Ran) {
        let inlines = kind.handler.inlines().state;
        let after = Words { words: &ran.outcome.state, inlines: &inlines, memory: &ran.memory };
        for array in &inlines {
            replace_array(plan, memory, &after, array, self.state_at + array.start as u32);
        }
    }

    /// A word of the actor's state that belongs to no array.
    pub(super) fn state_word(&self, memory: &WorkerMemory, word: usize) -> Val<u32> {
        if host(word < EARLY) {
            self.state[word]
        } else {
            // SAFETY: the state lies in the arena, as the record says.
            unsafe { memory.word(self.state_at, word) }
        }
    }

    /// The words of the actor's state.
    fn state(&self, memory: &WorkerMemory, words: usize, inlines: &[Range<usize>]) -> Vec<Val<u32>> {
        let word = |word: usize| match inlines.iter().find(|array| array.contains(&word)) {
            None => self.state_word(memory, word),
            Some(array) if array.start == word => self.state_at + word as u32,
            Some(_) => val(ARENA),
        };
        (0..words).map(word).collect()
    }

    /// Writes the answer's slot. There is room.
    #[device(crate = kiln_lang)]
    fn answer(&self, plan: &GridPlan, memory: &WorkerMemory, kind: Val<u32>, payload: &Words<'_>) {
        let slot = if self.inbound_link {
            self.output(memory)
        } else {
            Slot { at: self.answer, stamp: self.lap, headers: val(0), header: [val(0), val(0), val(0)] }
        };
        let slot = Slot { stamp: slot.stamp | kind << 24, ..slot };
        // SAFETY: the slot lies in the outbox, as the record says; the host has taken what stood in
        // it, and reads it by quads.
        unsafe {
            if host(plan.ordered) {
                slot.write_ordered(plan, &memory.outbox, payload);
            } else {
                let target = SlotTarget { memory: &memory.outbox, far: None, near: None };
                slot.write(plan, target, payload);
            }
        }
    }

    /// Takes the slot of the actor's next output.
    #[device(crate = kiln_lang)]
    fn output(&self, memory: &WorkerMemory) -> Slot {
        let position = join(self.line(memory, actor::TAIL), self.line(memory, actor::TAIL + 1));
        let (stamp, number) = stamp_and_slot(position, self.line(memory, actor::LOG2_SLOTS), 0);
        let after = position + 1;
        self.set_line(memory, actor::TAIL, after.cast::<u32>());
        self.set_line(memory, actor::TAIL + 1, (after >> 32).cast::<u32>());
        Slot {
            at: self.line(memory, actor::OUTPUTS) + number * self.line(memory, actor::STRIDE),
            stamp,
            headers: val(1),
            header: [
                self.field(memory, endpoint::LINK),
                self.position.cast::<u32>(),
                (self.position >> 32).cast::<u32>(),
            ],
        }
    }

    /// Counts a message that the handler did not answer.
    #[device(crate = kiln_lang)]
    fn count_unhandled(&self, memory: &WorkerMemory) {
        self.set(memory, endpoint::UNHANDLED, self.field(memory, endpoint::UNHANDLED) + 1);
        if self.inbound_link {
            let before = self.line(memory, actor::RECEIVED_UNHANDLED);
            self.set_line(memory, actor::RECEIVED_UNHANDLED, before + 1);
        }
    }

    /// Counts a message of another actor that is done.
    #[device(crate = kiln_lang)]
    pub(super) fn count_received(&self, memory: &WorkerMemory) {
        let count = self.received + 1;
        self.set_line(memory, actor::RECEIVED, count.cast::<u32>());
        self.set_line(memory, actor::RECEIVED + 1, (count >> 32).cast::<u32>());
    }

    /// Acknowledges the message to an inbound link's sender.
    #[device(crate = kiln_lang)]
    fn free_slot(&self, memory: &WorkerMemory) {
        if self.inbound_link {
            let head = self.field(memory, endpoint::LINK) + link::HEAD as u32;
            let next = self.position.cast::<u32>() + 1;
            // SAFETY: the link lies in the arena; the sender loads the word in order. See `send.rs`
            // for why this need not be a release.
            unsafe { memory.arena.set_ordered_unchecked(head, next, Order::Relaxed, Scope::System) };
        }
    }
}

/// The fault of the lowest lane that had one, for all lanes; 0 if none had.
#[device(crate = kiln_lang)]
fn fault_of_any_lane(fault: Val<u32>) -> Val<u32> {
    let failed = ballot(fault.ne(0));
    let mut found: Val<u32> = 0;
    if block_uniform(failed) != 0 {
        found = block_uniform(shuffle_idx(fault, first_lane(failed)));
    }
    found
}

/// Puts what a handler left there into an array of the state, unless that is the array itself.
#[device(crate = kiln_lang)]
fn replace_array(
    plan: &GridPlan,
    memory: &WorkerMemory,
    state: &Words<'_>,
    array: &Range<usize>,
    own: Val<u32>,
) {
    let (at, source) = (state.words[array.start], state.words[array.start + 1]);
    if block_uniform(source.ne(ARENA) | at.ne(own)) {
        if host(plan.lanes > 1) {
            barrier();
        }
        let lane = if host(plan.lanes == 1) { val(0) } else { lane_id().cast::<u32>() };
        for i in range_step(lane, array.len() as u32, plan.lanes) {
            let word = state.of_array(array, i);
            // SAFETY: the state belongs to the actor, which this worker serves, and each word is
            // one lane's.
            unsafe { memory.arena.scatter(own + i, word) };
        }
    }
}
