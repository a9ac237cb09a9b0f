//! What a worker has: the memory that it reaches, and what changes while it works.

use super::cluster::Near;
use crate::wire::record::LINE;
use kiln_lang::prelude::*;

/// Where a worker is: the memory that host and device share, and its own.
#[derive(Clone, Copy)]
pub(super) struct WorkerMemory {
    pub inbox: View<u32, 1>,
    pub outbox: ViewMut<u32, 1>,
    pub arena: ViewMut<u32, 1>,
    /// The worker's number.
    pub number: Idx,
    /// The word of the arena at which its section begins.
    pub section: Idx,
    /// The records of its endpoints, in the block's shared memory.
    pub table: Shared<u32, 1>,
    /// The memory for rings of its neighbors, where workers stand in clusters.
    pub near: Option<Near>,
    /// What the fault regions of handlers record of a check that failed.
    pub faults: Local<u64>,
}

impl WorkerMemory {
    /// A word of an endpoint's record, which begins at a word of the table that
    /// [`GridPlan::record`] gave.
    #[track_caller]
    pub fn field(&self, record: Val<u32>, word: usize) -> Val<u32> {
        // SAFETY: a record lies in the table, and has that word.
        unsafe { self.table.get_unchecked(record.cast::<i64>() + word) }
    }

    /// Sets a word of an endpoint's record.
    #[track_caller]
    pub fn set_field(&self, record: Val<u32>, word: usize, value: Val<u32>) {
        // SAFETY: as above; the table is the worker's own, and all lanes store the same.
        unsafe { self.table.scatter_unchecked(record.cast::<i64>() + word, value) };
    }

    /// The word of the arena that lies so many behind another.
    ///
    /// # Safety
    /// It is one of the arena's.
    #[track_caller]
    pub unsafe fn word(&self, at: Val<u32>, behind: usize) -> Val<u32> {
        // SAFETY: as the caller promises.
        unsafe { self.arena.get_unchecked(at.cast::<i64>() + behind) }
    }

    /// Sets that word.
    ///
    /// # Safety
    /// It is one of the arena's, and this worker alone accesses it now. All lanes store the same.
    #[track_caller]
    pub unsafe fn set_word(&self, at: Val<u32>, behind: usize, value: Val<u32>) {
        // SAFETY: as the caller promises.
        unsafe { self.arena.scatter_unchecked(at.cast::<i64>() + behind, value) };
    }

    /// The worker's command.
    pub fn command(&self) -> [Val<u32>; 4] {
        // SAFETY: every worker has a line in the inbox.
        unsafe { self.inbox.get_quad_unchecked(self.number * LINE) }
    }
}

/// What changes while a worker works.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub(super) struct Worker {
    /// How many endpoints it has.
    pub count: Val<u32>,
    /// The endpoint at which the next poll begins.
    pub first: Val<u32>,
    /// The number of the last command.
    pub seen: Val<u32>,
    /// Turns of its loop.
    pub turns: Val<u32>,
    /// Until the command to leave.
    pub running: Val<bool>,
}
