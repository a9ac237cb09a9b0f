//! A worker that stays with an inlet.
//!
//! A whole turn takes a worker longer than a message needs on its way to a neighbor: it takes aim
//! at all its ports, finds out whose message it saw, and reads the records of its actor. An actor
//! that passes messages on, as those of a pipeline do, soon gets the next one by the same inlet. So
//! a worker that has sent on what came by an inlet stays there for some messages: the actor's state
//! and count, the inlet's next slot and the way out ([`Route`]) are in registers, and nothing but
//! the handler stands between a look and the message that it leads to.
//!
//! It sees its other ports meanwhile (in a cluster only those in its own memory, and where the
//! inbox lies across a bus only its inlets: the next turn begins with a look at all). It leaves
//! when one of them has something too, when nothing comes, when there is no room for what comes
//! next, when a handler does anything but pass on, or after [`STAY`] messages.
//!
//! What a handler that does anything but pass on decided is dropped, and the turn that follows runs
//! it again: what else becomes of a message would have to be in registers before the message that
//! is passed on can leave. So this is for handlers of which nobody can tell how often they ran
//! ([`Kind::repeatable`]).

use super::bursts::LOOKS_FAR;
use super::delivery::At;
use super::plan::{Kind, Plan};
use super::poll::{Aim, Poll, ticket};
use super::position::{first_lane, join, stamp_and_slot};
use super::prefetch::Due;
use super::route::Route;
use super::worker::{Place, Worker};
use crate::wire::record::port;
use crate::wire::slot::Kind as SlotKind;
use kiln_lang::prelude::*;

/// The most messages for which a worker stays.
const STAY: u32 = 16;

/// The same where the turn after them looks across a bus, which takes as long as some messages do.
const STAY_FAR: u32 = 32;

/// How often it looks at all its ports for the next one.
const LOOKS: u32 = 8;

/// The inlet with which a worker stays, by the bits of the lanes that look at it.
struct Inlet {
    /// The first lane of those that look at its next message, and its bit.
    lane: Val<u32>,
    next: Val<u32>,
    /// Those whose messages are served here, one after the other.
    all: Val<u32>,
}

impl Inlet {
    /// Whether its next message is there, and nothing elsewhere.
    fn alone_waits(&self, poll: &Poll) -> Val<bool> {
        (poll.ready & self.next).ne(0) & (poll.ready & !self.all).eq(0)
    }
}

impl Poll {
    /// Serves what was seen at the inlet whose message led to the last one that was sent by the
    /// route, and what follows there, as long as that is all there is to do. What is left to serve,
    /// and how many messages were.
    #[device(crate = kiln_lang)]
    pub fn stay(self, plan: &Plan, place: &Place, worker: &Worker, route: &mut Route) -> (Poll, Val<u32>) {
        let mut poll = self;
        let mut count: Val<u32> = 0;
        let plain = ticket::PLAIN | ticket::INLET;
        let aim = &self.aim;
        let mut mine = aim.record.eq(route.port) & (aim.ticket & plain).eq(plain);
        if place.near.is_some() {
            mine = mine & aim.own;
        }
        if plan.lanes > 1 {
            mine = mine & aim.sees_all;
        }
        let bits = |of: Val<bool>| if plan.lanes > 1 { ballot(of) } else { select(of, val::<u32>(1), 0) };
        let votes = bits(mine);
        if block_uniform(votes) != 0 {
            let lane = first_lane(votes);
            // Where a look takes long, messages that were seen at once are served as such.
            let next = val::<u32>(1) << lane;
            let inlet = Inlet {
                next,
                all: if place.near.is_some() { bits(aim.record.eq(route.port)) } else { next },
                lane,
            };
            if inlet.alone_waits(&self) {
                let kind = block_uniform(place.field(plan.record(route.port), port::KIND));
                for k in 0..plan.kinds.len() {
                    if plan.kinds[k].passes_on() {
                        if kind == k as u32 + 1 {
                            (poll, count) =
                                self.stay_as(plan, place, worker, (&plan.kinds[k], &inlet), route);
                        }
                    }
                }
            }
        }
        (poll, count)
    }

    #[device(crate = kiln_lang)]
    fn stay_as(
        self,
        plan: &Plan,
        place: &Place,
        worker: &Worker,
        (kind, inlet): (&Kind, &Inlet),
        route: &mut Route,
    ) -> (Poll, Val<u32>) {
        let record = plan.record(route.port);
        let due = Due { record, ..Due::none() }.with_state(plan, place);
        let actor = place.field(record, port::ACTOR);
        let mut state = due.state;
        let mut received: Val<u64> = join(due.received[0], due.received[1]);
        let mut position: Val<u64> =
            join(place.field(record, port::POSITION), place.field(record, port::POSITION + 1));
        let mut poll = self;
        let mut count: Val<u32> = 0;
        let most = if plan.far_inbox { STAY_FAR } else { STAY };
        let mut staying = route.has_room();
        route.settle();
        while staying {
            let at = At {
                record,
                position,
                answer: val(0),
                lap: val(0),
                inlet: true.into_val(),
                fresh: true.into_val(),
                ports: worker.count,
                actor,
                state_at: due.state_at,
                state,
                received,
                output: due.output,
            };
            let early = poll.spread(plan, inlet.lane);
            let message = poll.take(plan, place, kind, (inlet.lane, &early));
            staying = false.into_val();
            if message.complete {
                at.receive(kind);
                let begun = at.begun(plan);
                let ran = at.run(plan, place, kind, &message, route);
                if block_uniform(ran.swift) {
                    at.pass_on(plan, place, kind, &ran, route);
                    state = std::array::from_fn(|w| ran.outcome.state.get(w).copied().unwrap_or(val(0)));
                    at.finish(plan, place, kind, begun);
                    poll.aim.advance(place, record, position);
                    poll.ready = 0;
                    position += 1;
                    received += 1;
                    count += 1;
                    staying = count.lt(most);
                }
            }
            if staying {
                route.renew(plan, place);
                // Known before the message is there, for which somebody waits.
                let room = route.has_room();
                poll = poll.look_again(plan, place, worker);
                staying = room & inlet.alone_waits(&poll);
            }
        }
        (poll, count)
    }

    /// Looks for the next message, for as long as it is worth staying.
    #[device(crate = kiln_lang)]
    fn look_again(self, plan: &Plan, place: &Place, worker: &Worker) -> Poll {
        match place.near {
            Some(near) => {
                let (quad, ready) = self.aim.burst(plan, &near);
                self.aim.poll(ready, quad, self.command, self.glances)
            }
            None if plan.far_inbox => {
                let (quad, ready) = self.aim.burst_of_inlets(plan, place, val(LOOKS_FAR));
                self.aim.poll(ready, quad, self.command, self.glances)
            }
            None if plan.lanes > 1 => self.aim.watch_all(plan, place, worker, val(LOOKS), true),
            None => self.aim.glance(plan, place),
        }
    }
}

impl Aim {
    /// Goes on to the next slot of the port with this record, whose message in that position was
    /// served.
    #[device(crate = kiln_lang)]
    fn advance(&mut self, place: &Place, record: Val<u32>, position: Val<u64>) {
        let mine = self.record.eq(record);
        let ahead = self.low - position.cast::<u32>();
        let next = position + 1 + ahead.cast::<u64>();
        let field = |word: usize| place.field(record, word);
        let (stamp, number) = stamp_and_slot(next, field(port::LOG2_SLOTS), SlotKind::Request as u32);
        let slot = field(port::REQUESTS) + number * field(port::REQUEST_STRIDE);
        self.quad = select(mine & self.looks, slot + (self.quad - self.slot), self.quad);
        self.slot = select(mine, slot, self.slot);
        self.stamp = select(mine, stamp, self.stamp);
        self.low = select(mine, next.cast::<u32>(), self.low);
    }
}
