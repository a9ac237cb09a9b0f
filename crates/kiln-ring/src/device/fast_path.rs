//! The fast path: a worker handles several messages of one inbound link in a row.
//!
//! A whole turn of a worker takes longer than a message needs to reach a neighbor: the worker
//! builds its poll set, finds the endpoint of the message, and reads the records of its actor. An
//! actor that forwards messages, as in a pipeline, soon gets the next one by the same inbound link.
//! So after a worker has forwarded a message of an inbound link, it polls that link again for some
//! messages. The actor's state and count, the link's next slot and the route ([`Route`]) are in
//! registers, and only the handler runs between a poll and the message that it sends.
//!
//! The worker polls its other endpoints too (in a cluster only those in its own memory, and where
//! the inbox lies across a bus only its inbound links: the next turn begins with a poll of all). It
//! leaves the fast path when another endpoint has a message, when no message comes, when there is
//! no room for what the handler sends, when a handler does anything but forward, or after
//! [`MOST_MESSAGES`] messages.
//!
//! If a handler does anything but forward, its results are dropped and the next turn runs it again:
//! the other results would have to be in registers before the forwarded message can leave. So the
//! fast path is for handlers that can be repeated without an observable difference
//! ([`ActorKind::repeatable`]).

use super::bursts::{BURST, BURST_FAR, LOOKS_FAR};
use super::delivery::Delivery;
use super::plan::{ActorKind, GridPlan, host};
use super::poll::{Poll, PollSet, ticket};
use super::position::{first_lane, join, stamp_and_slot};
use super::prefetch::Prefetched;
use super::route::Route;
use super::worker::{Worker, WorkerMemory};
use crate::wire::record::endpoint;
use crate::wire::slot::Kind as SlotKind;
use kiln_lang::prelude::*;

/// The most messages that a worker handles on the fast path before the next turn: a turn takes
/// three times as long as a message here, and the others of the worker wait this long for it.
const MOST_MESSAGES: u32 = 24;

/// The same where the next turn polls across a bus, which takes as long as some messages do.
const MOST_MESSAGES_FAR: u32 = 32;

/// How often it polls for the next message.
const LOOKS: u32 = 8;

/// The inbound link of the fast path, by the bits of the lanes that poll it.
struct InboundLink {
    /// The first lane of those that poll its next message, and its bit.
    lane: Val<u32>,
    next: Val<u32>,
    /// Those whose messages are served here, one after the other.
    all: Val<u32>,
}

impl InboundLink {
    /// Whether its next message is there, and nothing elsewhere.
    fn alone_waits(&self, poll: &Poll) -> Val<bool> {
        (poll.ready & self.next).ne(0) & (poll.ready & self.all).eq(poll.ready)
    }
}

impl Poll {
    /// Serves what was seen at the inbound link whose message led to the last one that was sent by
    /// the route, and what follows there, as long as that is all there is to do. What is left to
    /// serve, and how many messages were.
    #[device(crate = kiln_lang)]
    pub fn fast_path(
        self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        worker: &Worker,
        route: &mut Route,
    ) -> (Poll, Val<u32>) {
        let mut poll = self;
        let mut count: Val<u32> = 0;
        let plain = ticket::PLAIN | ticket::INBOUND;
        let poll_set = &self.poll_set;
        let mut mine = poll_set.record.eq(route.endpoint) & (poll_set.ticket & plain).eq(plain);
        if host(memory.near.is_some()) {
            mine = mine & poll_set.own;
        }
        if host(plan.lanes > 1) {
            mine = mine & poll_set.sees_all;
        }
        let bits =
            |of: Val<bool>| if host(plan.lanes > 1) { ballot(of) } else { select(of, val::<u32>(1), 0) };
        let votes = bits(mine);
        if block_uniform(votes) != 0 {
            let lane = first_lane(votes);
            // Where a poll takes long, messages that were read together are served together.
            let next = val::<u32>(1) << lane;
            let inbound_link = InboundLink {
                next,
                all: if host(memory.near.is_some()) {
                    bits(poll_set.record.eq(route.endpoint))
                } else {
                    next
                },
                lane,
            };
            if inbound_link.alone_waits(&self) {
                let kind = block_uniform(memory.field(plan.record(route.endpoint), endpoint::KIND));
                for k in 0..plan.kinds.len() {
                    if host(plan.kinds[k].passes_on()) {
                        if kind == k as u32 + 1 {
                            (poll, count) = self.fast_path_as(
                                plan,
                                memory,
                                worker,
                                (&plan.kinds[k], &inbound_link),
                                route,
                            );
                        }
                    }
                }
            }
        }
        (poll, count)
    }

    #[device(crate = kiln_lang)]
    fn fast_path_as(
        self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        worker: &Worker,
        (kind, inbound_link): (&ActorKind, &InboundLink),
        route: &mut Route,
    ) -> (Poll, Val<u32>) {
        let record = plan.record(route.endpoint);
        let prefetched = Prefetched { record, ..Prefetched::none() }.with_state(plan, memory);
        let actor = memory.field(record, endpoint::ACTOR);
        let mut state = prefetched.state;
        let mut received: Val<u64> = join(prefetched.received[0], prefetched.received[1]);
        let mut position: Val<u64> =
            join(memory.field(record, endpoint::POSITION), memory.field(record, endpoint::POSITION + 1));
        let mut poll = self;
        let mut count: Val<u32> = 0;
        let most = if host(plan.far_inbox) { MOST_MESSAGES_FAR } else { MOST_MESSAGES };
        let mut going_on = route.has_room();
        route.settle();
        while going_on {
            let delivery = Delivery {
                record,
                position,
                answer: val(0),
                lap: val(0),
                inbound_link: true.into_val(),
                fresh: true.into_val(),
                endpoints: worker.count,
                actor,
                state_at: prefetched.state_at,
                state,
                received,
                output: prefetched.output,
            };
            let early = poll.spread(plan, inbound_link.lane);
            let message = poll.take(plan, memory, kind, (inbound_link.lane, &early));
            going_on = false.into_val();
            if message.complete {
                delivery.receive(kind);
                let begun = delivery.begun(plan);
                let ran = delivery.run(plan, memory, kind, &message, route);
                if block_uniform(ran.swift) {
                    delivery.pass_on(plan, memory, kind, &ran, route);
                    state = std::array::from_fn(|w| ran.outcome.state.get(w).copied().unwrap_or(val(0)));
                    delivery.finish(plan, memory, kind, begun);
                    poll.poll_set.advance(memory, record, position);
                    poll.ready = 0;
                    position += 1;
                    received += 1;
                    count += 1;
                    going_on = count.lt(most);
                }
            }
            if going_on {
                route.renew(plan, memory);
                // Computed before the message is there, to keep it out of the latency.
                let room = route.has_room();
                poll = poll.look_again(plan, memory, worker);
                going_on = room & inbound_link.alone_waits(&poll);
            }
        }
        (poll, count)
    }

    /// Polls for the next message, for as long as the fast path pays.
    #[device(crate = kiln_lang)]
    fn look_again(self, plan: &GridPlan, memory: &WorkerMemory, worker: &Worker) -> Poll {
        match memory.near {
            Some(near) => {
                let most = if host(plan.far_inbox) { BURST_FAR } else { BURST };
                let (quad, ready) = self.poll_set.burst(plan, &near, val(most));
                self.poll_set.poll(ready, quad, self.command, self.glances)
            }
            None if plan.far_inbox => {
                let (quad, ready) = self.poll_set.burst_of_inbound_links(plan, memory, val(LOOKS_FAR));
                self.poll_set.poll(ready, quad, self.command, self.glances)
            }
            None if plan.lanes > 1 => self.poll_set.watch_all(plan, memory, worker, val(LOOKS), true),
            None => self.poll_set.glance(plan, memory),
        }
    }
}

impl PollSet {
    /// Goes on to the next slot of the endpoint with this record, whose message in that position
    /// was served.
    #[device(crate = kiln_lang)]
    fn advance(&mut self, memory: &WorkerMemory, record: Val<u32>, position: Val<u64>) {
        let mine = self.record.eq(record);
        let ahead = self.low - position.cast::<u32>();
        let next = position + 1 + ahead.cast::<u64>();
        let field = |word: usize| memory.field(record, word);
        let (stamp, number) = stamp_and_slot(next, field(endpoint::LOG2_SLOTS), SlotKind::Request as u32);
        let slot = field(endpoint::REQUESTS) + number * field(endpoint::REQUEST_STRIDE);
        self.quad = select(mine & self.looks, slot + (self.quad - self.slot), self.quad);
        self.slot = select(mine, slot, self.slot);
        self.stamp = select(mine, stamp, self.stamp);
        self.low = select(mine, next.cast::<u32>(), self.low);
    }
}
