//! The reference-count table: which arrays there are, and how many references to each are under way
//! between actors.
//!
//! What the host sends, it keeps the arrays of until it is answered. What an actor sends on, the
//! host never sees: so the device counts. The reference-count table is a range of the arena with
//! two words for each of so many arrays:
//!
//! ```text
//! line             0 … N - 1     which array has this line, by its number: the host's
//! line         N + 0 … 2N - 1    how many references are under way: the device's, of which the host never changes any
//! ```
//!
//! - An array's line is its number modulo N, so that a reference, three words of a message, says
//!   where it is counted. One whose number does not stand in its line refers to an array that is
//!   gone, and a handler that hands it on fails by name: whatever a handler keeps and however long,
//!   nothing else is ever counted there.
//! - A worker adds one *before* a message with a reference goes to another actor's inbound link or,
//!   as a reply, to the host's outputs; and takes one off when the message that brought it is done
//!   with, however it ended: handled, failed, given back. So between what adds and what takes off,
//!   the count is never 0 while any actor has the array.
//! - Outputs are taken by the host, which cannot change a word that the device changes meanwhile:
//!   it counts those by itself ([`Allocation::taken`]), once the receiver of one has the array. No
//!   actor has it when the two counts are equal. A line's final value is where its next array
//!   begins.
//! - The host's count never goes ahead of the device's. So where the host's, *read first*, equals
//!   the device's, read later, no actor had the array at the later moment, and none came back
//!   between the two. Where the host, too, had no reference before the device's count was read, and
//!   none was found since, the array has no reference, and never will. (`tests/ref_counts.rs`
//!   visits every state of a model of this, and shows what becomes of other orders.)
//! - The count is changed before the answer of a message leaves, behind a fence: who has seen the
//!   answer finds what the handler handed on counted.
//!
//! The counts of an array without references on the host are read again when memory is short and
//! now and then ([`Shared::sweep`]); until then it is *abroad*.

use super::Shared;
use super::region::WordRange;
use crate::error::{Result, RingError};
use crate::payload::{Allocation, Arena, allocation, forget, next_number, register};
use kiln_backend::{Backend, EventId, Mapped};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The reference-count table of a runtime, as the host keeps it.
pub(super) struct RefCounts(Mutex<RefCountState>);

#[derive(Default)]
struct RefCountState {
    /// The device's.
    table: Option<WordRange>,
    /// Whether actors may hand arrays on: then the device's numbers are kept.
    counts: bool,
    lines: Vec<Line>,
    /// How many of them are free.
    free: usize,
    /// Arrays that only actors may have references to, by their numbers.
    abroad: HashMap<u32, Arc<Allocation>>,
}

#[derive(Clone, Copy, Default)]
struct Line {
    /// The array's number; 0 for none.
    number: u32,
    /// The device's count when there was last no reference.
    settled: u32,
}

/// An arena has one line for so many words, between these limits.
const WORDS_PER_LINE: usize = 1024;
const LINES: std::ops::RangeInclusive<usize> = 64..=16384;

/// An array without references on the host at some moment.
struct Seen {
    memory: Arc<Allocation>,
    /// How often a reference had been found then.
    found: u64,
    /// How many references had come back from actors.
    taken: u32,
}

impl Seen {
    /// The array now, if the host has no reference.
    fn of(memory: &Arc<Allocation>) -> Option<Seen> {
        let holders = memory.holders();
        let nobody = !holders.gone && holders.block.strong_count() == 0;
        // Acquire: those who took what is counted here have found the array.
        let taken = memory.taken.load(Ordering::Acquire);
        nobody.then(|| Seen { memory: Arc::clone(memory), found: holders.found, taken })
    }
}

impl RefCounts {
    /// That of an arena of so many words.
    pub fn new(arena_words: usize) -> RefCounts {
        let lines = (arena_words / WORDS_PER_LINE).clamp(*LINES.start(), *LINES.end()).next_power_of_two();
        RefCounts(Mutex::new(RefCountState {
            lines: vec![Line::default(); lines],
            free: lines,
            ..RefCountState::default()
        }))
    }

    fn state(&self) -> MutexGuard<'_, RefCountState> {
        // Every change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RefCountState {
    /// A number for an array, and its line: none where all are taken.
    fn enter(&mut self) -> (u32, Option<usize>) {
        let lines = self.lines.len();
        // Numbers follow one another, but for those that others take meanwhile.
        for _ in 0..if self.free > 0 { 4 * lines } else { 0 } {
            let number = next_number();
            let line = number as usize & (lines - 1);
            if self.lines[line].number == 0 {
                self.lines[line].number = number;
                self.free -= 1;
                return (number, Some(line));
            }
        }
        (next_number(), None)
    }

    fn leave(&mut self, line: usize, settled: u32) {
        self.lines[line] = Line { number: 0, settled };
        self.free += 1;
    }

    /// The device's count of a line stands at a word of the arena.
    fn count_at(&self, line: usize) -> Option<usize> {
        self.table.map(|table| table.at + self.lines.len() + line)
    }
}

impl Shared {
    /// Zeroed memory for an array of so many words, without references yet.
    pub(crate) fn allocate(self: &Arc<Self>, len: usize) -> Result<Arc<Allocation>> {
        let range = self.allocate_arena(len)?;
        self.clear_arena(range).inspect_err(|_| self.release_arena(range))?;
        if self.ref_counts.state().free == 0 {
            self.sweep();
        }
        let mut state = self.ref_counts.state();
        let (number, line) = state.enter();
        let settled = line.map_or(0, |line| state.lines[line].settled);
        if let (Some(line), Some(table), true) = (line, state.table, state.counts)
            && let Err(error) = self.memory.write_arena(table.at + line, &[number])
        {
            state.leave(line, settled);
            drop(state);
            self.release_arena(range);
            return Err(error);
        }
        let memory = Allocation::new((range, len), (number, line), settled);
        let arena: Weak<dyn Arena> = Arc::downgrade(self) as _;
        register(arena, &memory);
        Ok(memory)
    }

    /// The reference-count table's place in the arena, and the number of its lines less one: for
    /// actors whose messages, replies or states refer to arrays.
    pub(super) fn open_ref_counts(&self) -> Result<[u32; 2]> {
        let lines = self.ref_counts.state().lines.len();
        if self.ref_counts.state().table.is_none() {
            let table = self.allocate_arena(2 * lines)?;
            let cleared = self.clear_arena(table);
            let mut state = self.ref_counts.state();
            if cleared.is_err() || state.table.is_some() {
                // Another thread was first.
                drop(state);
                self.release_arena(table);
                cleared?;
            } else {
                state.table = Some(table);
            }
        }
        let table = self.ref_counts.state().table;
        Ok([table.map_or(0, |table| table.at as u32), lines as u32 - 1])
    }

    /// From now on actors may hand arrays on.
    pub(super) fn count_references(&self) -> Result<()> {
        self.open_ref_counts()?;
        let mut state = self.ref_counts.state();
        if let (Some(table), false) = (state.table, state.counts) {
            let numbers: Vec<u32> = state.lines.iter().map(|line| line.number).collect();
            self.memory.write_arena(table.at, &numbers)?;
            state.counts = true;
        }
        Ok(())
    }

    /// Frees the memory of an array of which no actor had a reference after it was checked, unless
    /// the host has found one since; returns whether it did.
    fn give_back(&self, state: &mut RefCountState, seen: &Seen) -> Result<bool> {
        let memory = &seen.memory;
        let mut holders = memory.holders();
        if holders.gone || holders.found != seen.found {
            return Ok(false);
        }
        if let (Some(line), Some(table), true) = (memory.line, state.table, state.counts) {
            // From here on a handler that kept a reference without being entitled to it is refused.
            // The array cannot be found before that is certain.
            self.record_loss(self.memory.write_arena(table.at + line, &[0]))?;
        }
        holders.gone = true;
        forget(memory.number);
        if let Some(line) = memory.line {
            state.leave(line, seen.taken);
        }
        // SAFETY: there is no reference to the array, nor can one be found.
        unsafe { memory.give_staging(self) };
        self.release_arena(memory.range);
        Ok(true)
    }

    /// Frees the memory of arrays without references.
    pub(super) fn sweep(&self) {
        self.release_answered();
        self.sweep_abroad();
    }

    /// Of arrays that were abroad, gives back the memory of those that no actor has any more.
    pub(super) fn sweep_abroad(&self) {
        let mut state = self.ref_counts.state();
        let Some(table) = state.table.filter(|_| !state.abroad.is_empty()) else { return };
        let lines = state.lines.len();
        let mut counts = vec![0; lines];
        // Before the counts are read. One that was found again comes here when its references are
        // gone.
        state.abroad.retain(|_, memory| Seen::of(memory).is_some());
        let arrays: Vec<Seen> = state.abroad.values().filter_map(Seen::of).collect();
        // A device that is lost has nothing to give any more.
        if self.lost().is_err()
            || self.record_loss(self.memory.read_arena(table.at + lines, &mut counts)).is_err()
        {
            return;
        }
        let settled = |seen: &&Seen| seen.memory.line.is_some_and(|line| counts[line] == seen.taken);
        for seen in arrays.iter().filter(settled) {
            let Ok(given) = self.give_back(&mut state, seen) else { break };
            if given {
                state.abroad.remove(&seen.memory.number);
            }
        }
    }

    /// Forgets the arrays that only actors had, with the runtime. Gives their host memory back if
    /// the device is there and its grid is not.
    pub(super) fn end_ref_counts(&self, left: bool) {
        let mut state = self.ref_counts.state();
        for (number, memory) in state.abroad.drain() {
            memory.holders().gone = true;
            forget(number);
            if left {
                // SAFETY: the runtime is gone, without which the array cannot be found.
                unsafe { memory.give_staging(self) };
            }
        }
    }

    /// How many arrays' memory is not given back.
    #[cfg(test)]
    pub(super) fn arrays(&self) -> usize {
        let state = self.ref_counts.state();
        state.lines.len() - state.free
    }
}

impl Shared {
    /// Allocates memory; frees arrays without references if there is too little.
    pub(super) fn with_room<T>(&self, take: impl Fn() -> Result<T>) -> Result<T> {
        match take() {
            Err(RingError::OutOfRegion { .. }) => {
                // Once more in any case: another thread may have swept meanwhile.
                self.sweep();
                take()
            }
            other => other,
        }
    }
}

impl Arena for Shared {
    fn backend(&self) -> &dyn Backend {
        self.device.backend()
    }

    fn read(&self, range: WordRange, words: &mut [u32]) -> Result<()> {
        self.memory.read_arena(range.at, words)
    }

    fn fill(&self, range: WordRange, from: &Mapped, bytes: usize) -> Result<EventId> {
        self.memory.fill_arena(range, from, bytes)
    }

    fn is_referenced(&self, line: Option<usize>, taken: u32) -> Result<bool> {
        let at = {
            let state = self.ref_counts.state();
            line.filter(|_| state.counts).and_then(|line| state.count_at(line))
        };
        let Some(at) = at else { return Ok(false) };
        self.lost()?;
        let mut count = [0];
        self.record_loss(self.memory.read_arena(at, &mut count))?;
        Ok(count[0] != taken)
    }

    fn release(&self, number: u32) {
        let Some(memory) = allocation(number) else { return };
        let mut state = self.ref_counts.state();
        let Some(seen) = Seen::of(&memory) else { return };
        if state.counts && memory.line.is_some() {
            state.abroad.insert(number, memory);
        } else {
            // It is not freed where the device fails.
            let _ = self.give_back(&mut state, &seen);
        }
    }

    fn release_answered(&self) {
        for ward in self.supervisor.wards().iter().filter_map(Weak::upgrade) {
            ward.mailbox.tidy();
            ward.mailbox.let_go();
        }
    }
}
