//! Reserving room for what a handler may send, before it runs.
//!
//! A handler may change arrays where they lie, print and count: it must run once for a message. So
//! it begins only when there is room for as many messages as it may send to each address that it
//! can send to, and, for a message of another actor, for one output. All that it can send to are
//! the addresses in its state and in the message; how many messages there may be for one of them is
//! the number of places in the handler that send messages of its type. A queue with fewer slots
//! than that must be empty, and a handler that then sends more than it holds fails.
//!
//! The steps, of which most messages need the first alone:
//!
//! 1. Positions that the worker has cached: the room of the actor's outputs, loaded with its state
//!    ([`Delivery::output_fits`]), and of the link that it sends to, in registers or loaded at once
//!    ([`Route::turn_to`], [`Delivery::ways_fit`]).
//! 2. Reading the positions of the host and the receivers, and addresses that have no actor yet or
//!    several ([`Delivery::has_room`], [`has_room_for`]).
//! 3. No room: the message remains in its slot, and its endpoint is marked
//!    ([`HELD_UP`](crate::wire::record::gate::HELD_UP)).

use super::delivery::Delivery;
use super::plan::{ActorKind, GridPlan};
use super::read_message::Taken;
use super::route::Route;
use super::send::{fits_now, has_room_for};
use super::worker::WorkerMemory;
use crate::handler::RingCtx;
use kiln_ir::{Facts, OpKind, Uniformity};
use kiln_lang::prelude::*;

/// An address: its link and its serial number.
type Way = (Val<u32>, Val<u32>);

impl GridPlan {
    /// The plan with what its handlers may send and change, for which each is traced once by
    /// itself. A handler that cannot be traced says so when the plan is.
    pub(crate) fn with_effects(&self) -> GridPlan {
        let mut plan = self.clone();
        for kind in &mut plan.kinds {
            let effects = effects(kind, self.lanes);
            (kind.sends, kind.repeatable) = (effects.sends, effects.repeatable);
            kind.faults_vary = effects.faults_vary;
        }
        plan
    }

    /// Whether there may be messages that wait for room.
    pub(crate) fn may_wait(&self) -> bool {
        self.kinds.iter().any(|kind| kind.may_wait(self))
    }
}

/// What a handler does besides its reply and its state: the fields of [`ActorKind`] of the same
/// names.
struct Effects {
    sends: Vec<u64>,
    repeatable: bool,
    faults_vary: bool,
}

/// The effects of a handler, which is traced for it.
fn effects(kind: &ActorKind, lanes: u32) -> Effects {
    let (mut sends, signature) = (Vec::new(), kind.handler.signature());
    let traced = trace(signature.name, Level::Thread { block: [lanes, 1, 1] }, |p| {
        let arena = p.view_mut::<u32, 1>("arena", Facts::default());
        let words = |count: usize| -> Vec<Val<u32>> { (0..count).map(|w| arena.get_or(w, 0)).collect() };
        let (state, message) = (words(signature.state_words), words(signature.message_words));
        let ctx = RingCtx::new(val(0), val(0), lanes, arena);
        kind.handler.trace_in_fault_region(&ctx, val(0), &state, &message);
        sends = ctx.sendings().iter().map(|send| send.message).collect();
    });
    let Ok(kernel) = traced else {
        return Effects { sends: Vec::new(), repeatable: false, faults_vary: true };
    };
    let uniformity = Uniformity::of(&kernel);
    let (mut repeatable, mut faults_vary) = (true, false);
    kernel.walk(|_, op| {
        repeatable &= !op.kind.has_effect() || ends_fault_region(&op.kind);
        // The site of a fault region varies where lanes may fault by themselves.
        faults_vary |= op.kind == OpKind::FaultRegion && uniformity.varies(op.results[0]);
    });
    Effects { sends, repeatable, faults_vary }
}

/// Whether the operation does nothing but end a region: a fault of a handler ends its fault region.
fn ends_fault_region(op: &OpKind) -> bool {
    matches!(op, OpKind::Assert(_) | OpKind::Gather { .. } | OpKind::Yield | OpKind::Condition)
}

impl ActorKind {
    /// Whether a message may have to wait for room: the handler sends, or other actors' messages
    /// lead to outputs.
    pub(super) fn may_wait(&self, plan: &GridPlan) -> bool {
        plan.inbound_links || !self.sends.is_empty()
    }

    /// Whether the handler may change arrays where they lie.
    pub(super) fn has_arrays(&self) -> bool {
        let (inlines, references) = (self.handler.inlines(), self.handler.references());
        !(inlines.state.is_empty() && references.message.is_empty() && references.state.is_empty())
    }

    /// The most messages of a layout that one run of the handler sends.
    fn most(&self, message: u64) -> u32 {
        self.sends.iter().filter(|sent| **sent == message).count() as u32
    }

    /// Whether the handler is eligible for the fast path: it may do no more than pass a message on,
    /// and what it decides may be dropped.
    pub(super) fn passes_on(&self) -> bool {
        self.sends.len() == 1 && self.repeatable && !self.has_arrays()
    }

    /// Of a handler that sends from one place, and can send to one address alone, which is part of
    /// its state: the number of that address's first word.
    fn only_way(&self) -> Option<usize> {
        let [sent] = self.sends[..] else { return None };
        let addresses = self.handler.addresses();
        let takes = |(_, message): &&(usize, u64)| *message == sent;
        let mut ways = addresses.state.iter().filter(takes);
        let only = ways.next().filter(|_| ways.next().is_none())?;
        addresses.message.iter().find(takes).is_none().then_some(only.0)
    }
}

impl Delivery {
    /// The address whose first word has this number in the state.
    fn way(&self, memory: &WorkerMemory, first: usize) -> Way {
        (self.state_word(memory, first), self.state_word(memory, first + 1))
    }

    /// The addresses to which the handler may send, and how many messages to each.
    fn ways(&self, memory: &WorkerMemory, kind: &ActorKind, message: &Taken) -> Vec<(Way, u32)> {
        let addresses = kind.handler.addresses();
        let of_state = addresses.state.iter().map(|(first, id)| (self.way(memory, *first), kind.most(*id)));
        let of_message = addresses.message.iter().map(|(first, id)| {
            let way = (message.words[*first], message.words[first + 1]);
            (way, kind.most(*id))
        });
        of_state.chain(of_message).filter(|(_, most)| *most > 0).collect()
    }

    /// Whether there is room for all that the handler may lead to.
    #[device(crate = kiln_lang)]
    pub(super) fn may_begin(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        kind: &ActorKind,
        message: &Taken,
        route: &mut Route,
    ) -> Val<bool> {
        let ways: Vec<_> = self.ways(memory, kind, message);
        // Most messages find room by what is in registers or is loaded at once.
        let sends_fit: Val<bool> = match kind.only_way() {
            Some(first) => route.turn_to(plan, memory, self.actor, self.way(memory, first)),
            None => self.ways_fit(memory, &ways, route),
        };
        let mut room: Val<bool> = sends_fit & (!self.inbound_link | self.output_fits());
        if block_uniform(!room) {
            room = self.has_room(memory);
            for (way, most) in &ways {
                if block_uniform(room) {
                    room = has_room_for(plan, memory, *way, self.actor + 1, *most);
                }
            }
        }
        block_uniform(room)
    }

    /// Whether there is room, by what is in registers, or else by one read of the records, with all
    /// loads in flight at once.
    #[device(crate = kiln_lang)]
    fn ways_fit(&self, memory: &WorkerMemory, ways: &[(Way, u32)], route: &Route) -> Val<bool> {
        let mut fits: Val<bool> = true.into_val();
        for (way, most) in ways {
            fits = fits & route.leads(self.actor, *way, *most);
        }
        if block_uniform(!fits) {
            fits = true.into_val();
            for (way, most) in ways {
                fits = fits
                    & (route.leads(self.actor, *way, *most) | fits_now(memory, *way, self.actor + 1, *most));
            }
        }
        fits
    }
}
