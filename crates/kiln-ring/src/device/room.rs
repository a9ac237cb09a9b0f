//! Room for what a handler may lead to, looked for before it runs.
//!
//! A handler may change arrays where they lie, print and count: it must run once for a message. So
//! it begins only when there is room for as many messages as it may send to each address that it
//! can send to, and, for a message of another actor, for one output. All that it can send to are the
//! addresses in its state and in the message; how many messages there may be for one of them is the
//! number of places in the handler that send messages of its type. A queue with fewer slots than
//! that must be empty, and a handler that then sends more than it holds fails.

use super::poll::Taken;
use super::resident::{Kind, Place, Plan};
use super::route::Route;
use super::send::{fits_now, has_room_for};
use super::serve::At;
use crate::handler::RingCtx;
use kiln_ir::Facts;
use kiln_lang::prelude::*;

/// An address: its link and its serial number.
type Way = (Val<u32>, Val<u32>);

impl Plan {
    /// The plan with what its handlers may send, for which each is traced once by itself. A handler
    /// that cannot be traced says so when the plan is.
    pub(super) fn with_sends(&self) -> Plan {
        let mut plan = self.clone();
        for kind in &mut plan.kinds {
            kind.sends = sends(kind, self.lanes);
        }
        plan
    }

    /// Whether there may be messages that wait for room.
    pub(super) fn may_wait(&self) -> bool {
        self.kinds.iter().any(|kind| kind.may_wait(self))
    }
}

/// The layout of the message that each place of a handler sends.
fn sends(kind: &Kind, lanes: u32) -> Vec<u64> {
    let (mut found, signature) = (Vec::new(), kind.handler.signature());
    let traced = trace(signature.name, Level::Thread { block: [lanes, 1, 1] }, |p| {
        let arena = p.view_mut::<u32, 1>("arena", Facts::default());
        let words = |count: usize| -> Vec<Val<u32>> { (0..count).map(|w| arena.get_or(w, 0)).collect() };
        let (state, message) = (words(signature.state_words), words(signature.message_words));
        let ctx = RingCtx::new(val(0), val(0), lanes, arena);
        kind.handler.trace_guarded(&ctx, val(0), &state, &message);
        found = ctx.sendings().iter().map(|send| send.message).collect();
    });
    traced.map_or_else(|_| Vec::new(), |_| found)
}

impl Kind {
    /// Whether a message may have to wait for room: the handler sends, or other actors' messages
    /// lead to outputs.
    pub(super) fn may_wait(&self, plan: &Plan) -> bool {
        plan.inlets || !self.sends.is_empty()
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

    /// Of a handler that sends from one place, and can send to one address alone, which is part of
    /// its state: the number of that address's first word.
    pub(super) fn only_way(&self) -> Option<usize> {
        let [sent] = self.sends[..] else { return None };
        let addresses = self.handler.addresses();
        let takes = |(_, message): &&(usize, u64)| *message == sent;
        let mut ways = addresses.state.iter().filter(takes);
        let only = ways.next().filter(|_| ways.next().is_none())?;
        addresses.message.iter().find(takes).is_none().then_some(only.0)
    }
}

impl At {
    /// The address whose first word has this number in the state.
    pub(super) fn way(&self, place: &Place, first: usize) -> Way {
        (self.state_word(place, first), self.state_word(place, first + 1))
    }

    /// The addresses to which the handler may send, and how many messages to each.
    fn ways(&self, place: &Place, kind: &Kind, message: &Taken) -> Vec<(Way, u32)> {
        let addresses = kind.handler.addresses();
        let of_state = addresses.state.iter().map(|(first, id)| (self.way(place, *first), kind.most(*id)));
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
        plan: &Plan,
        place: &Place,
        kind: &Kind,
        message: &Taken,
        route: &Route,
    ) -> Val<bool> {
        let ways: Vec<_> = self.ways(place, kind, message);
        // Most messages find room by what is in registers, and most others by one look at the records,
        // with all loads under way at once.
        let mut fits: Val<bool> =
            if plan.inlets { !self.inlet | self.output_fits(place) } else { true.into_val() };
        let mut led: Val<bool> = fits;
        for (way, most) in &ways {
            led = led & route.leads(self.actor, *way, *most);
        }
        let mut room: Val<bool> = true.into_val();
        if block_uniform(!led) {
            for (way, most) in &ways {
                fits = fits
                    & (route.leads(self.actor, *way, *most) | fits_now(place, *way, self.actor + 1, *most));
            }
            if block_uniform(!fits) {
                if plan.inlets {
                    if self.inlet {
                        room = self.has_room(place);
                    }
                }
                for (way, most) in &ways {
                    if block_uniform(room) {
                        room = has_room_for(plan, place, *way, self.actor + 1, *most);
                    }
                }
            }
        }
        block_uniform(room)
    }
}
