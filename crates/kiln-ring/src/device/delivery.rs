//! The message that a worker handles: where it came from, and where its answer goes.

use super::prefetch::{EARLY, OUTPUT_ROOM};
use super::worker::WorkerMemory;
use crate::wire::record::actor;
use kiln_lang::prelude::*;

/// A message's place: the record of its endpoint, and its position there.
#[derive(Clone, Copy)]
pub(super) struct Delivery {
    pub(super) record: Val<u32>,
    pub(super) position: Val<u64>,
    /// Where its answer to the host stands in the outbox. Computed before the handler runs, since
    /// the answer is latency-critical.
    pub(super) answer: Val<u32>,
    /// The stamp of that answer, but for the kind.
    pub(super) lap: Val<u32>,
    /// Whether another actor sent the message.
    pub(super) inbound_link: Val<bool>,
    /// Whether all endpoints were polled, and nothing was served since.
    pub(super) fresh: Val<bool>,
    /// How many endpoints the worker has.
    pub(super) endpoints: Val<u32>,
    /// The actor's number.
    pub(super) actor: Val<u32>,
    /// Where the actor's state begins, and the first words of it.
    pub(super) state_at: Val<u32>,
    pub(super) state: [Val<u32>; EARLY],
    /// How many messages of other actors the actor has had.
    pub(super) received: Val<u64>,
    /// See [`Prefetched::output`].
    pub(super) output: [Val<u32>; OUTPUT_ROOM.len()],
}

impl Delivery {
    /// A word of the record of its endpoint.
    #[track_caller]
    pub(super) fn field(&self, memory: &WorkerMemory, word: usize) -> Val<u32> {
        memory.field(self.record, word)
    }

    /// Sets a word of the record of its endpoint.
    pub(super) fn set(&self, memory: &WorkerMemory, word: usize, value: Val<u32>) {
        memory.set_field(self.record, word, value);
    }

    /// A word of the actor's line.
    pub(super) fn line(&self, memory: &WorkerMemory, word: usize) -> Val<u32> {
        // SAFETY: the line lies in the arena, before the state.
        unsafe { memory.word(self.state_at - actor::WORDS as u32, word) }
    }

    /// Sets a word of the actor's line.
    pub(super) fn set_line(&self, memory: &WorkerMemory, word: usize, value: Val<u32>) {
        // SAFETY: the line lies in the arena before the state. It is the actor's, which this worker
        // serves, and all lanes store the same.
        unsafe { memory.set_word(self.state_at - actor::WORDS as u32, word, value) };
    }
}
