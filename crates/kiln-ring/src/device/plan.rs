//! What a resident kernel is made for. All of it is on the host when the kernel is traced.

use crate::channel::Form;
use crate::handler::ErasedHandler;
use crate::wire::record::endpoint;
use crate::wire::slot::SlotLayout;
use kiln_lang::prelude::*;
use std::sync::Arc;

/// A kind of actor: a handler and the slots of its messages and answers.
#[derive(Clone)]
pub(crate) struct ActorKind {
    pub handler: Arc<dyn ErasedHandler>,
    pub requests: SlotLayout,
    pub answers: SlotLayout,
    /// How many priorities its actors have.
    pub priorities: usize,
    /// The layout of the message that each place in the handler sends: set when a plan is traced.
    pub sends: Vec<u64>,
    /// Whether the handler can run several times, without a visible effect, before its decision is
    /// carried out: it changes no memory and prints nothing. Set when a plan is traced.
    pub repeatable: bool,
    /// Whether a check may fail in some lanes alone, so that the worker must take a vote of all of
    /// them. Set when a plan is traced.
    pub faults_vary: bool,
}

impl ActorKind {
    /// The kind of actors of a handler whose queues have this form.
    pub fn new(handler: Arc<dyn ErasedHandler>, form: &Form) -> ActorKind {
        ActorKind::of_slots(handler, form.requests.slot(), form.answers.slot(), form.priorities)
    }

    /// The kind of actors of a handler with these slots for messages and for answers.
    pub fn of_slots(
        handler: Arc<dyn ErasedHandler>,
        requests: SlotLayout,
        answers: SlotLayout,
        priorities: usize,
    ) -> ActorKind {
        ActorKind {
            handler,
            requests,
            answers,
            priorities,
            sends: Vec::new(),
            repeatable: false,
            faults_vary: true,
        }
    }
}

/// What a resident kernel is made for.
#[derive(Clone)]
pub(crate) struct GridPlan {
    /// The kinds of actors; an endpoint's record names one by its place here, from 1.
    pub kinds: Vec<ActorKind>,
    /// The most endpoints of a worker.
    pub endpoints: usize,
    /// Threads of a worker: 1, or the 32 of a warp.
    pub lanes: u32,
    /// The most steps that loops in a handler may take for one message; 0 for no limit.
    pub budget: u32,
    /// Whether actors may get messages of other actors. Where none does, no code on a message's
    /// path checks for them.
    pub inbound_links: bool,
    /// Whether actors may send to those of other runtimes. Where none does, links lie in one arena.
    pub peers: bool,
    /// The clusters of workers, where workers stand in some.
    pub cluster: Option<Cluster>,
    /// Whether the host's slots and the device's answers are ordered by release and acquire, where
    /// quads may not arrive whole.
    pub ordered: bool,
    /// Whether the inbox lies across a bus. A poll of it then takes several times as long as one of
    /// the arena, so that workers with inbound links poll those more often.
    pub far_inbox: bool,
    /// Whether the device runs it in dispatches, each of which ends after some turns.
    pub dispatched: bool,
    /// The handling time of one in so many messages, a power of two, is measured; 0 for none.
    pub measure_every: u32,
}

/// The clusters of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    /// Workers of each: a power of two.
    pub workers: u32,
    /// Words of each worker's memory for rings: a multiple of 64.
    pub words: usize,
}

impl GridPlan {
    /// Words of the table: a power of two.
    pub(super) fn table_words(&self) -> usize {
        self.endpoints.next_power_of_two() * endpoint::WORDS
    }

    /// A record's place in the table, masked so that the compiler can prove it in bounds.
    pub(super) fn record(&self, word: Val<u32>) -> Val<u32> {
        word & (self.table_words() - endpoint::WORDS) as u32
    }
}

/// Marks an `if` of the host, which is decided while the kernel is traced:
/// `if host(plan.lanes > 1)`. The branch that is not taken is no part of the kernel. In this folder
/// every other `if` tests a device value; `if let` and `match` are the host's always.
pub(super) const fn host(condition: bool) -> bool {
    condition
}
