//! What the host tells a worker: one command at a time, in the worker's quad of the inbox; the
//! worker acknowledges its number.

use super::plan::Plan;
use super::position::is_before;
use super::worker::{Place, Worker};
use crate::wire::command::Operation;
use crate::wire::record::{LINE, port, worker};
use kiln_lang::prelude::*;

impl Worker {
    /// Carries out a command that was not seen before; whether there was one.
    #[device(crate = kiln_lang)]
    pub(super) fn obey(&mut self, plan: &Plan, place: &Place, command: [Val<u32>; 4]) -> Val<bool> {
        let number = block_uniform(command[3]);
        let new = number.ne(self.seen);
        if new {
            // Its number was written last: so all of it is there, also where a quad arrives in
            // parts.
            let numbered = (place.number * LINE).cast::<u32>() + 3;
            // SAFETY: every worker has a line in the inbox.
            unsafe { place.inbox.get_ordered_unchecked(numbered, Order::Acquire, Scope::System) };
            let command = place.command();
            let operation = block_uniform(command[0]) & 0xff;
            let record = (block_uniform(command[0]) >> 8) * (port::WORDS as u32);
            let argument = block_uniform(command[1]);
            if operation == Operation::Gate as u32 {
                self.set_all(place, record, port::GATE, argument);
            }
            if operation == Operation::Kind as u32 {
                self.set_all(place, record, port::KIND, argument);
            }
            // SAFETY: every lane stores the same word to the worker's own table.
            unsafe {
                if operation == Operation::Skip as u32 {
                    let skip = place.table.get_or(record + port::SKIP as u32, 0);
                    let further = select(is_before(skip, argument), argument, skip);
                    place.table.scatter(record + port::SKIP as u32, further);
                }
            }
            if operation == Operation::Load as u32 {
                // Ports come in any order, and what lies between is memory that nobody wrote.
                for between in self.count..record / (port::WORDS as u32) {
                    let unused = between * (port::WORDS as u32) + port::KIND as u32;
                    // SAFETY: every lane stores the same word to the worker's own table.
                    unsafe { place.table.scatter(unused, val::<u32>(0)) };
                }
                load_port(place, record);
                share_gate(place, self.count, record);
                clear_near(plan, place, record);
                self.count = self.count.maximum(record / (port::WORDS as u32) + 1);
                self.first = 0.into_val();
            }
            self.seen = number;
            if operation == Operation::Leave as u32 {
                self.running = false.into_val();
            } else {
                self.acknowledge(place);
            }
        }
        new
    }

    /// Sets a word of the records of all ports of an actor.
    #[device(crate = kiln_lang)]
    fn set_all(&self, place: &Place, record: Val<u32>, word: usize, value: Val<u32>) {
        let actor = place.table.get_or(record + port::ACTOR as u32, 0);
        set_of_actor(place, self.count, actor, word, value);
    }

    /// Tells the host the number of the last command, after everything that the command did, and
    /// the device's time.
    #[device(crate = kiln_lang)]
    pub(super) fn acknowledge(&self, place: &Place) {
        fence();
        let now = clock_ns();
        let (low, high) = (block_uniform(now.cast::<u32>()), block_uniform((now >> 32).cast::<u32>()));
        let line = (place.number * LINE).cast::<u32>();
        // SAFETY: every worker has a line in the outbox, whose number the host loads with acquire
        // before the time; all lanes store the same.
        unsafe {
            place.outbox.set_ordered_unchecked(line, low, Order::Relaxed, Scope::System);
            place.outbox.set_ordered_unchecked(line + 1, high, Order::Relaxed, Scope::System);
            place.outbox.set_ordered_unchecked(line + 3, self.seen, Order::Release, Scope::System);
        }
    }

    /// Writes the worker's record and those of its ports to the arena.
    #[device(crate = kiln_lang)]
    pub(super) fn save(&self, place: &Place) {
        let words = self.count * (port::WORDS as u32);
        // SAFETY: the section is the worker's own, and all lanes store the same words.
        unsafe {
            place.arena.scatter(place.section + worker::PORTS, self.count);
            place.arena.scatter(place.section + worker::SEEN, self.seen);
            for word in 0..words {
                let at = place.section + worker::WORDS + word.cast::<i64>();
                place.arena.scatter(at, place.table.get_or(word, 0));
            }
        }
        fence();
    }
}

/// Sets a word of the records of all ports of an actor.
#[device(crate = kiln_lang)]
pub(super) fn set_of_actor(place: &Place, count: Val<u32>, actor: Val<u32>, word: usize, value: Val<u32>) {
    for p in 0..count {
        let record = p * (port::WORDS as u32);
        let field = |word: usize| place.field(record, word);
        if block_uniform(field(port::ACTOR).eq(actor) & field(port::KIND).ne(0)) {
            // SAFETY: every lane stores the same word to the worker's own table.
            unsafe { place.table.scatter(record + word as u32, value) };
        }
    }
}

/// Gives an inlet that was just taken up the gate of its actor.
#[device(crate = kiln_lang)]
fn share_gate(place: &Place, count: Val<u32>, record: Val<u32>) {
    let field = |record: Val<u32>, word: usize| place.field(record, word);
    if block_uniform(field(record, port::LINK).ne(0)) {
        for p in 0..count {
            let other = p * (port::WORDS as u32);
            let same = field(other, port::ACTOR).eq(field(record, port::ACTOR));
            let first = same & field(other, port::KIND).ne(0) & field(other, port::LINK).eq(0);
            if block_uniform(first) {
                // SAFETY: every lane stores the same word to the worker's own table.
                unsafe { place.table.scatter(record + port::GATE as u32, field(other, port::GATE)) };
            }
        }
    }
}

/// Makes the ring of an inlet that was just taken up empty, where it lies in the worker's own
/// memory.
#[device(crate = kiln_lang)]
fn clear_near(plan: &Plan, place: &Place, record: Val<u32>) {
    if let Some(near) = place.near {
        let field = |word: usize| place.field(record, word);
        if block_uniform(field(port::KIND).ne(0) & (field(port::REQUEST_QUADS) & port::NEAR).ne(0)) {
            let words = field(port::REQUEST_STRIDE) << field(port::LOG2_SLOTS);
            near.clear(plan.lanes, field(port::REQUESTS), words);
        }
    }
}

/// Copies a port's record from the arena, where the host wrote it while this kernel ran.
#[device(crate = kiln_lang)]
pub(super) fn load_port(place: &Place, record: Val<u32>) {
    for word in 0..port::WORDS {
        let at = place.section + worker::WORDS + record.cast::<i64>() + word;
        // SAFETY: the record lies in the worker's section; every lane stores the same word to the
        // worker's own table.
        unsafe {
            let value = place.arena.get_ordered_unchecked(at, Order::Relaxed, Scope::System);
            place.table.scatter(record + word as u32, block_uniform(value));
        }
    }
}
