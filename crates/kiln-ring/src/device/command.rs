//! Commands of the host to a worker: one at a time, in the worker's quad of the inbox. The worker
//! acknowledges its number.

use super::plan::GridPlan;
use super::position::is_before;
use super::worker::{Worker, WorkerMemory};
use crate::wire::command::Operation;
use crate::wire::record::{LINE, endpoint, worker};
use kiln_lang::prelude::*;

impl Worker {
    /// Carries out a command that was not seen before; whether there was one.
    #[device(crate = kiln_lang)]
    pub(super) fn carry_out(
        &mut self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        command: [Val<u32>; 4],
    ) -> Val<bool> {
        let number = block_uniform(command[3]);
        let new = number.ne(self.seen);
        if new {
            // Its number was written last: so all of it is there, also where a quad arrives in
            // parts.
            let numbered = (memory.number * LINE).cast::<u32>() + 3;
            // SAFETY: every worker has a line in the inbox.
            unsafe { memory.inbox.get_ordered_unchecked(numbered, Order::Acquire, Scope::System) };
            let command = memory.command();
            let operation = block_uniform(command[0]) & 0xff;
            let record = (block_uniform(command[0]) >> 8) * (endpoint::WORDS as u32);
            let argument = block_uniform(command[1]);
            if operation == Operation::Gate as u32 {
                self.set_all(memory, record, endpoint::GATE, argument);
            }
            if operation == Operation::Kind as u32 {
                self.set_all(memory, record, endpoint::KIND, argument);
            }
            // SAFETY: every lane stores the same word to the worker's own table.
            unsafe {
                if operation == Operation::Skip as u32 {
                    let skip = memory.table.get_or(record + endpoint::SKIP as u32, 0);
                    let further = select(is_before(skip, argument), argument, skip);
                    memory.table.scatter(record + endpoint::SKIP as u32, further);
                }
            }
            if operation == Operation::Load as u32 {
                // Endpoints come in any order, and what lies between is memory that was never
                // written.
                for between in self.count..record / (endpoint::WORDS as u32) {
                    let unused = between * (endpoint::WORDS as u32) + endpoint::KIND as u32;
                    // SAFETY: every lane stores the same word to the worker's own table.
                    unsafe { memory.table.scatter(unused, val::<u32>(0)) };
                }
                load_endpoint(memory, record);
                share_gate(memory, self.count, record);
                clear_near(plan, memory, record);
                self.count = self.count.maximum(record / (endpoint::WORDS as u32) + 1);
                self.first = 0.into_val();
            }
            self.seen = number;
            if operation == Operation::Leave as u32 {
                self.running = false.into_val();
            } else {
                self.acknowledge(memory);
            }
        }
        new
    }

    /// Sets a word of the records of all endpoints of an actor.
    #[device(crate = kiln_lang)]
    fn set_all(&self, memory: &WorkerMemory, record: Val<u32>, word: usize, value: Val<u32>) {
        let actor = memory.table.get_or(record + endpoint::ACTOR as u32, 0);
        set_of_actor(memory, self.count, actor, word, value);
    }

    /// Acknowledges a command: stores its number, after everything that the command did, and the
    /// device's time.
    #[device(crate = kiln_lang)]
    pub(super) fn acknowledge(&self, memory: &WorkerMemory) {
        fence();
        let now = clock_ns();
        let (low, high) = (block_uniform(now.cast::<u32>()), block_uniform((now >> 32).cast::<u32>()));
        let line = (memory.number * LINE).cast::<u32>();
        // SAFETY: every worker has a line in the outbox, whose number the host loads with acquire
        // before the time; all lanes store the same.
        unsafe {
            memory.outbox.set_ordered_unchecked(line, low, Order::Relaxed, Scope::System);
            memory.outbox.set_ordered_unchecked(line + 1, high, Order::Relaxed, Scope::System);
            memory.outbox.set_ordered_unchecked(line + 3, self.seen, Order::Release, Scope::System);
        }
    }

    /// Writes the worker's record and those of its endpoints to the arena.
    #[device(crate = kiln_lang)]
    pub(super) fn save(&self, memory: &WorkerMemory) {
        let words = self.count * (endpoint::WORDS as u32);
        // SAFETY: the section is the worker's own, and all lanes store the same words.
        unsafe {
            memory.arena.scatter(memory.section + worker::ENDPOINTS, self.count);
            memory.arena.scatter(memory.section + worker::SEEN, self.seen);
            for word in 0..words {
                let at = memory.section + worker::WORDS + word.cast::<i64>();
                memory.arena.scatter(at, memory.table.get_or(word, 0));
            }
        }
        fence();
    }
}

/// Sets a word of the records of all endpoints of an actor.
#[device(crate = kiln_lang)]
pub(super) fn set_of_actor(
    memory: &WorkerMemory,
    count: Val<u32>,
    actor: Val<u32>,
    word: usize,
    value: Val<u32>,
) {
    for p in 0..count {
        let record = p * (endpoint::WORDS as u32);
        let field = |word: usize| memory.field(record, word);
        if block_uniform(field(endpoint::ACTOR).eq(actor) & field(endpoint::KIND).ne(0)) {
            // SAFETY: every lane stores the same word to the worker's own table.
            unsafe { memory.table.scatter(record + word as u32, value) };
        }
    }
}

/// Gives an inbound link that was just taken up the gate of its actor.
#[device(crate = kiln_lang)]
fn share_gate(memory: &WorkerMemory, count: Val<u32>, record: Val<u32>) {
    let field = |record: Val<u32>, word: usize| memory.field(record, word);
    if block_uniform(field(record, endpoint::LINK).ne(0)) {
        for p in 0..count {
            let other = p * (endpoint::WORDS as u32);
            let same = field(other, endpoint::ACTOR).eq(field(record, endpoint::ACTOR));
            let first = same & field(other, endpoint::KIND).ne(0) & field(other, endpoint::LINK).eq(0);
            if block_uniform(first) {
                // SAFETY: every lane stores the same word to the worker's own table.
                unsafe { memory.table.scatter(record + endpoint::GATE as u32, field(other, endpoint::GATE)) };
            }
        }
    }
}

/// Makes the ring of an inbound link that was just taken up empty, where it lies in the worker's
/// own memory.
#[device(crate = kiln_lang)]
fn clear_near(plan: &GridPlan, memory: &WorkerMemory, record: Val<u32>) {
    if let Some(near) = memory.near {
        let field = |word: usize| memory.field(record, word);
        if block_uniform(
            field(endpoint::KIND).ne(0) & (field(endpoint::REQUEST_QUADS) & endpoint::NEAR).ne(0),
        ) {
            let words = field(endpoint::REQUEST_STRIDE) << field(endpoint::LOG2_SLOTS);
            near.clear(plan.lanes, field(endpoint::REQUESTS), words);
        }
    }
}

/// Copies an endpoint's record from the arena, where the host wrote it while this kernel ran.
#[device(crate = kiln_lang)]
pub(super) fn load_endpoint(memory: &WorkerMemory, record: Val<u32>) {
    for word in 0..endpoint::WORDS {
        let at = memory.section + worker::WORDS + record.cast::<i64>() + word;
        // SAFETY: the record lies in the worker's section; every lane stores the same word to the
        // worker's own table.
        unsafe {
            let value = memory.arena.get_ordered_unchecked(at, Order::Relaxed, Scope::System);
            memory.table.scatter(record + word as u32, block_uniform(value));
        }
    }
}
