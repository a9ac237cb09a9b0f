//! Arrays that go from actor to actor: counting who has them, in the reference-count table that
//! `runtime/ref_counts.rs` describes.
//!
//! Only actors whose messages or replies refer to arrays have any of this in their kernel.
//!
//! What a handler wrote to an array must be visible to the next one. So the last access of any lane
//! to arrays is followed by a barrier, then a fence of each lane, and then the stores of the
//! message. The reader that finds the message complete passes a fence too before its handler
//! begins. The same order holds for the counts: one more is counted before the message can be seen,
//! and one less after the last access.

use super::delivery::Delivery;
use super::plan::{GridPlan, host};
use super::worker::WorkerMemory;
use crate::handler::References;
use crate::outgoing::Sending;
use crate::wire::record::actor;
use kiln_lang::prelude::*;

/// The references of one message's handling: those that it has, sends and replies.
pub(super) struct RefCounting<'a> {
    references: &'a References,
    sends: &'a [Sending],
    /// `None` where there are no references.
    ref_counts: Option<RefCounts>,
}

/// Where the reference-count table is.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
struct RefCounts {
    at: Val<u32>,
    /// The number of its lines less one.
    mask: Val<u32>,
}

impl<'a> RefCounting<'a> {
    pub fn of(
        memory: &WorkerMemory,
        delivery: &Delivery,
        references: &'a References,
        sends: &'a [Sending],
    ) -> RefCounting<'a> {
        let any = references.any() || sends.iter().any(|send| !send.references.is_empty());
        let ref_counts = any.then(|| RefCounts {
            at: delivery.line(memory, actor::REF_COUNTS),
            mask: delivery.line(memory, actor::REF_COUNTS + 1),
        });
        RefCounting { references, sends, ref_counts }
    }

    /// Whether the handler may hand on something at all.
    pub fn is_any(&self) -> bool {
        !self.references.reply.is_empty() || self.sends.iter().any(|send| !send.references.is_empty())
    }

    /// Whether its reply may refer to arrays.
    pub fn replies(&self) -> bool {
        !self.references.reply.is_empty()
    }

    /// Whether any of the arrays that it hands on is not in the reference-count table: those of
    /// messages that it sent, and, if that goes to other actors' outputs, of its reply.
    #[device(crate = kiln_lang)]
    pub fn is_unheld(&self, memory: &WorkerMemory, replies: Val<bool>, reply: &[Val<u32>]) -> Val<bool> {
        let mut unheld: Val<bool> = false;
        if let Some(ref_counts) = self.ref_counts {
            for send in self.sends {
                if host(!send.references.is_empty()) {
                    if block_uniform(send.sent & send.link.ne(0)) {
                        unheld = unheld | ref_counts.misses(memory, &send.words, &send.references);
                    }
                }
            }
            if host(!self.references.reply.is_empty()) {
                if block_uniform(replies) {
                    unheld = unheld | ref_counts.misses(memory, reply, &self.references.reply);
                }
            }
        }
        block_uniform(unheld)
    }

    /// Before a message goes out that was sent from this place: counts its references.
    pub fn send(&self, plan: &GridPlan, memory: &WorkerMemory, number: usize) {
        let send = &self.sends[number];
        if let Some(ref_counts) = self.ref_counts.filter(|_| !send.references.is_empty()) {
            ref_counts.change(plan, memory, (&send.words, &send.references), 1);
            settle(plan);
        }
    }

    /// Before a reply goes out, to the actor's outputs if `output`: counts its references. A host
    /// that finds an array in it finds what was written there.
    #[device(crate = kiln_lang)]
    pub fn reply(&self, plan: &GridPlan, memory: &WorkerMemory, output: Val<bool>, reply: &[Val<u32>]) {
        if let Some(ref_counts) = self.ref_counts.filter(|_| !self.references.reply.is_empty()) {
            if block_uniform(output) {
                ref_counts.change(plan, memory, (reply, &self.references.reply), 1);
            }
            settle(plan);
        }
    }

    /// The message is done with, before that is said: it refers to its arrays no more.
    /// `inbound_link` says whether another actor sent it.
    #[device(crate = kiln_lang)]
    pub fn let_go(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        inbound_link: Val<bool>,
        message: &[Val<u32>],
    ) {
        if let Some(ref_counts) = self.ref_counts.filter(|_| !self.references.message.is_empty()) {
            if block_uniform(inbound_link) {
                settle(plan);
                ref_counts.change(plan, memory, (message, &self.references.message), u32::MAX);
                // The host finds it changed when it sees the answer, of which the lane that changed
                // it writes the first quad.
                fence();
            }
        }
    }
}

/// What all lanes did before precedes what any of them does after, for every reader that sees the
/// latter.
fn settle(plan: &GridPlan) {
    if host(plan.lanes > 1) {
        barrier();
    }
    fence();
}

impl RefCounts {
    /// Whether a reference is to an array that is not in the reference-count table.
    #[device(crate = kiln_lang)]
    fn misses(&self, memory: &WorkerMemory, words: &[Val<u32>], references: &[usize]) -> Val<bool> {
        let mut misses: Val<bool> = false;
        for &first in references {
            let number = words[first + 2];
            // The host changes it meanwhile.
            // SAFETY: the reference-count table lies in the arena, and has a word for every number.
            let found = unsafe {
                memory.arena.get_ordered_unchecked(
                    self.at + (number & self.mask),
                    Order::Relaxed,
                    Scope::System,
                )
            };
            misses = misses | (number.ne(0) & found.ne(number));
        }
        misses
    }

    /// Adds to the counts of the arrays that words refer to.
    #[device(crate = kiln_lang)]
    fn change(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        (words, references): (&[Val<u32>], &[usize]),
        by: u32,
    ) {
        let lane = if host(plan.lanes == 1) { val(0) } else { lane_id().cast::<u32>() };
        for &first in references {
            let number = words[first + 2];
            if lane.eq(0) & number.ne(0) {
                let line = self.at + self.mask + 1 + (number & self.mask);
                // SAFETY: as above; counts are changed by such operations alone.
                unsafe { memory.arena.atomic_add_unchecked(line, by) };
            }
        }
    }
}
