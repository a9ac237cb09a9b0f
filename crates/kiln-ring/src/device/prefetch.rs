//! A prefetched endpoint: a message that a worker has polled, with everything that handling it
//! needs first.
//!
//! All of it is in registers before the endpoint is determined, or even before the message is
//! complete: a branch costs a GPU some 20 cycles, a shuffle or a load as many, and they would add
//! to the latency of the answer.

use super::plan::{GridPlan, host};
use super::poll::{Poll, SPREAD, ticket};
use super::position::{first_lane, is_before};
use super::worker::WorkerMemory;
use crate::wire::record::{actor, endpoint, gate};
use crate::wire::slot::{Kind as SlotKind, LAP_MASK, QUAD};
use kiln_lang::prelude::*;

/// Words of a state that are loaded before the handler is determined.
pub(super) const EARLY: usize = 4;

/// The words of an actor's line that say whether its ring of outputs has room, by the worker's
/// copy: the logarithm of its slots, the position of the next output, and how many the host took.
pub(super) const OUTPUT_ROOM: [usize; 3] = [actor::LOG2_SLOTS, actor::TAIL, actor::TAKEN_SEEN];

/// What [`Prefetched::todo`] says besides the number of a handler.
pub(super) mod todo {
    /// There is no message.
    pub const NOTHING: u32 = 0;
    /// The message remains in its slot: its turn has not come, or its actor has failed meanwhile.
    /// A later poll finds it again.
    pub const RETRY: u32 = 1 << 17;
    /// It is not to be handled, but given back: see [`Prefetched::why`](super::Prefetched::why).
    pub const GIVEN_BACK: u32 = 1 << 16;
}

/// A message that is complete, or the first quads of it.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub(super) struct Prefetched {
    /// The number of the handler that takes it, or one of [`todo`].
    pub todo: Val<u32>,
    /// The answer of a message that is not to be handled.
    pub why: Val<u32>,
    /// The first lane of those that poll its slot.
    pub lane: Val<u32>,
    /// See [`ticket`].
    pub ticket: Val<u32>,
    /// The record of its endpoint, in the table.
    pub record: Val<u32>,
    /// The low half of its position.
    pub low: Val<u32>,
    /// Where its answer to the host stands in the outbox.
    pub answer: Val<u32>,
    /// The stamp of that answer, but for the kind.
    pub lap: Val<u32>,
    /// Where the actor's state begins, and its first words, as far as they are not of arrays.
    pub state_at: Val<u32>,
    pub state: [Val<u32>; EARLY],
    /// How many messages of other actors the actor has had: the low half, then the high half.
    pub received: [Val<u32>; 2],
    /// Of the actor's ring of outputs: the words of [`OUTPUT_ROOM`].
    pub output: [Val<u32>; OUTPUT_ROOM.len()],
    /// The first quads of its slot, as far as all lanes can have them without another load.
    pub spread: [[Val<u32>; QUAD]; SPREAD],
}

impl Prefetched {
    /// None.
    pub fn none() -> Prefetched {
        let zero = || val::<u32>(0);
        Prefetched {
            todo: val(todo::NOTHING),
            why: zero(),
            lane: zero(),
            ticket: zero(),
            record: zero(),
            low: zero(),
            answer: zero(),
            lap: zero(),
            state_at: zero(),
            state: std::array::from_fn(|_| zero()),
            received: [zero(), zero()],
            output: OUTPUT_ROOM.map(|_| zero()),
            spread: std::array::from_fn(|_| std::array::from_fn(|_| zero())),
        }
    }
}

impl Poll {
    /// The first of the messages that are ready, if there is one. The poll set's copies of records
    /// hold for it.
    #[device(crate = kiln_lang)]
    pub fn first(&self, plan: &GridPlan, memory: &WorkerMemory) -> Prefetched {
        let mut prefetched = Prefetched::none();
        if self.ready != 0 {
            prefetched = self.known(plan, memory, self.lane);
            if (prefetched.ticket & ticket::PLAIN).eq(0) {
                prefetched = prefetched.looked_up(plan, memory);
            }
        }
        prefetched
    }

    /// The message after those with these bits, if there is one. Those before it have changed the
    /// table.
    #[device(crate = kiln_lang)]
    pub fn later(&self, plan: &GridPlan, memory: &WorkerMemory, ready: Val<u32>) -> Prefetched {
        let mut prefetched = Prefetched::none();
        if ready != 0 {
            prefetched = self.known(plan, memory, first_lane(ready)).looked_up(plan, memory);
        }
        prefetched
    }

    /// The message of the group whose first lane this is, by the poll set's copies of records: to
    /// be handled.
    pub fn known(&self, plan: &GridPlan, memory: &WorkerMemory, lane: Val<u32>) -> Prefetched {
        let of_lane = |value: Val<u32>| match plan.lanes {
            1 => value,
            _ => block_uniform(shuffle_idx(value, lane)),
        };
        let poll_set = &self.poll_set;
        let ticket = of_lane(poll_set.ticket);
        let record = plan.record(of_lane(poll_set.record));
        let prefetched = Prefetched {
            todo: ticket & ticket::KIND,
            lane,
            ticket,
            record,
            low: of_lane(poll_set.low),
            answer: of_lane(poll_set.answer),
            lap: of_lane(poll_set.stamp) & LAP_MASK,
            spread: self.spread(plan, lane),
            ..Prefetched::none()
        };
        prefetched.with_state(plan, memory)
    }
}

impl Prefetched {
    /// With the first words of the state of its actor and the count in its line, which only this
    /// worker changes. Nothing waits for them yet.
    pub fn with_state(self, plan: &GridPlan, memory: &WorkerMemory) -> Prefetched {
        let state_at = memory.field(self.record, endpoint::STATE);
        let most = plan.kinds.iter().map(|kind| kind.handler.signature().state_words).max().unwrap_or(0);
        let mut state = self.state;
        for (word, value) in state.iter_mut().enumerate().take(most) {
            // SAFETY: the state lies in the arena, as the record says, and its gauges behind it.
            *value = unsafe { memory.word(state_at, word) };
        }
        let (mut received, mut output) = (self.received, self.output);
        if host(plan.inbound_links) {
            let line = state_at - actor::WORDS as u32;
            // SAFETY: the actor's line lies in the arena before its state.
            let of_line = |word: usize| unsafe { memory.word(line, word) };
            received = [0, 1].map(|half| of_line(actor::RECEIVED + half));
            output = OUTPUT_ROOM.map(of_line);
        }
        Prefetched { state_at, state, received, output, ..self }
    }

    /// What becomes of it by the table. A message that waited for room is tried again: it says so
    /// anew if it still finds none.
    #[device(crate = kiln_lang)]
    fn looked_up(self, plan: &GridPlan, memory: &WorkerMemory) -> Prefetched {
        let field = |word: usize| memory.field(self.record, word);
        if host(plan.may_wait()) {
            if block_uniform(field(endpoint::GATE) & gate::HELD_UP).ne(0) {
                memory.set_field(self.record, endpoint::GATE, field(endpoint::GATE) & !gate::HELD_UP);
            }
        }
        let (state, skipped) = (field(endpoint::GATE), is_before(self.low, field(endpoint::SKIP)));
        let prefetched = field(endpoint::POSITION).eq(self.low) & (state.ne(gate::FAILED) | skipped);
        let given_up = select(skipped, val(SlotKind::Dropped as u32), val(0));
        let why = select(state.eq(gate::RETURNING), SlotKind::Undeliverable as u32, given_up);
        let handled = select(why.eq(0), self.ticket & ticket::KIND, val(todo::GIVEN_BACK));
        Prefetched { todo: block_uniform(select(prefetched, handled, val(todo::RETRY))), why, ..self }
    }
}
