//! Looking for complete messages.
//!
//! A slot is complete when all its quads bear the stamp of its lap. The lanes of a warp poll
//! several slots with one load: each group of lanes has a slot, each lane a quad. Where there are
//! more groups than endpoints, the groups of an endpoint poll the slots that follow one another. A
//! worker of one thread polls the first quad of one slot, and the others once that one is there.

use super::plan::{GridPlan, host};
use super::position::{first_lane, is_before, join, stamp_and_slot};
use super::worker::{Worker, WorkerMemory};
use crate::wire::record::{LINE, endpoint, gate};
use crate::wire::slot::{Kind as SlotKind, PAYLOAD, QUAD};
use kiln_lang::prelude::*;

/// Of as many turns in which a worker has something to do, one begins with a poll of all endpoints.
pub(super) const ALL_EVERY: u32 = 8;

/// Polls of one place in a row, at most, between two that check everything else.
const GLANCES: u32 = 1024;

/// Of as many turns in which a worker has something to do, one checks messages that wait for room.
const ROOM_EVERY: u32 = 8;

/// Quads of a slot that all lanes get before the handler that takes them is determined.
pub(super) const SPREAD: usize = 4;

/// What is loaded for a lane's message before it is there: the number of its handler and some bits.
pub(super) mod ticket {
    /// The handler's number.
    pub const KIND: u32 = 0xffff;
    /// It is the next of its endpoint, whose gate is open, and is not to be dropped.
    pub const PLAIN: u32 = 1 << 16;
    /// Another actor sends it.
    pub const INBOUND: u32 = 1 << 17;
}

/// The poll set of a worker: the endpoints and slots of its lanes, and what it will need when a
/// message is there.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub(super) struct PollSet {
    /// The endpoint at which the next poll begins.
    pub next: Val<u32>,
    /// Whether one poll covers all endpoints of the worker, so that the next poll reads the same
    /// places.
    pub sees_all: Val<bool>,
    /// Each lane's: the record of its endpoint, in the table.
    pub record: Val<u32>,
    /// Each lane's: the low half of its slot's position.
    pub low: Val<u32>,
    /// Each lane's: where the answer stands in the outbox.
    pub answer: Val<u32>,
    /// Each lane's: see [`ticket`].
    pub ticket: Val<u32>,
    /// Each lane's: the stamp that it compares with.
    pub stamp: Val<u32>,
    /// Each lane's: where its slot begins.
    pub slot: Val<u32>,
    /// Each lane's: where the quad that it polls stands, or some other quad of the same memory.
    pub quad: Val<u32>,
    /// Each lane's: where the same quad of its endpoint's next message stands, and the stamp of
    /// that.
    near: Val<u32>,
    near_stamp: Val<u32>,
    /// Each lane's: whether its endpoint hands out messages.
    pub open: Val<bool>,
    /// Each lane's: whether its endpoint hands out its next message.
    open_near: Val<bool>,
    /// Each lane's: whether its place in a slot is that of a quad.
    has_quad: Val<bool>,
    /// Each lane's: whether it has a quad to poll.
    pub looks: Val<bool>,
    /// Each lane's: whether its endpoint is an inbound link, whose slots lie in the arena or in the
    /// worker's own memory.
    pub inbound_link: Val<bool>,
    /// Each lane's: whether they lie in the worker's own memory.
    pub own: Val<bool>,
    /// Whether the next message of any of these endpoints found no room for what it may lead to.
    pub held_up: Val<bool>,
}

/// What a worker saw.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub(super) struct Poll {
    pub poll_set: PollSet,
    /// A bit for each complete slot: that of the first lane of its group.
    pub ready: Val<u32>,
    /// The lane of the first of these bits.
    pub lane: Val<u32>,
    /// Each lane's: its quad of the slot.
    pub(super) quad: [Val<u32>; QUAD],
    /// The worker's command.
    pub command: [Val<u32>; QUAD],
    /// How often it polled.
    pub glances: Val<u32>,
}

impl GridPlan {
    /// Lanes that poll one slot, whose first quads they read: a power of two.
    pub(super) fn width(&self) -> u32 {
        let quads = self.kinds.iter().map(|kind| kind.requests.quads()).max().unwrap_or(1);
        (quads.next_power_of_two() as u32).min(self.lanes)
    }
}

impl GridPlan {
    /// The number of a lane's quad in its slot.
    fn quad_number(&self) -> Val<u32> {
        lane_id().cast::<u32>() % self.width()
    }

    /// The first quads of a slot that all lanes have before the handler that takes them is
    /// determined.
    pub(super) fn spread(&self) -> usize {
        let most = self.kinds.iter().map(|kind| kind.requests.quads()).max().unwrap_or(1);
        if host(self.lanes == 1) { 1 } else { most.min(SPREAD) }
    }
}

impl PollSet {
    /// Some endpoints, from `worker.first` on. A worker that was idle (`rested`) polls the next
    /// slot of each alone: a poll of few lines returns sooner, and takes less of the bus where the
    /// requests lie in the host's memory.
    #[device(crate = kiln_lang)]
    pub fn take(plan: &GridPlan, memory: &WorkerMemory, worker: &Worker, rested: Val<bool>) -> PollSet {
        let width = plan.width();
        let groups = plan.lanes / width;
        let lane = lane_id().cast::<u32>();
        // Each endpoint has 2^deep groups.
        let mut deep: Val<u32> = 0;
        for more in 1..=groups.ilog2() {
            deep = select((worker.count << more).le(groups), more, deep);
        }
        let group = lane / width;
        let index = worker.first + (group >> deep);
        let ahead = group & ((val::<u32>(1) << deep) - 1);
        let quad_number = plan.quad_number();

        let (exists, nearest) = (index.lt(worker.count), ahead.eq(0));
        let record = plan.record(select(exists, index * (endpoint::WORDS as u32), 0));
        let field = |word: usize| memory.field(record, word);
        let next = join(field(endpoint::POSITION), field(endpoint::POSITION + 1));
        let position = next + ahead.cast::<u64>();
        let log2_slots = field(endpoint::LOG2_SLOTS);
        let (stamp, slot) = stamp_and_slot(position, log2_slots, SlotKind::Request as u32);
        let (near_stamp, next_slot) = stamp_and_slot(next, log2_slots, SlotKind::Request as u32);
        let (ring, stride) = (field(endpoint::REQUESTS), field(endpoint::REQUEST_STRIDE));
        let at = ring + slot * stride;
        let (kind, bits) = (field(endpoint::KIND), field(endpoint::GATE));
        let state = if host(plan.may_wait()) { bits & !gate::HELD_UP } else { bits };
        // Messages that are to be dropped are read behind every gate: a full queue that drops the
        // oldest waits for their slots.
        let skip = field(endpoint::SKIP);
        let given_up = is_before(position.cast::<u32>(), skip);
        let serves = exists & kind.ne(0);
        let sees_all = worker.first.eq(0) & worker.count.le(groups);
        let waits = if host(plan.may_wait()) { serves & bits.ne(state) } else { false.into_val() };
        // While there is other work, the worker checks for room only now and then.
        let rests = waits & sees_all & !rested & (worker.turns % ROOM_EVERY).ne(0);
        let serves = if host(plan.may_wait()) { serves & !rests } else { serves };
        let handed = state.eq(gate::OPEN) | state.eq(gate::RETURNING);
        let open = serves & (nearest | !rested) & (handed | given_up);
        let open_near = serves & (handed | is_before(next.cast::<u32>(), skip));
        let quads = field(endpoint::REQUEST_QUADS);
        let may_own = plan.inbound_links && memory.near.is_some();
        let in_own = if host(may_own) { serves & (quads & endpoint::NEAR).ne(0) } else { false.into_val() };
        let quads = if host(may_own) { quads & !endpoint::NEAR } else { quads };
        let has_quad = quad_number.lt(if host(plan.lanes == 1) { val(1) } else { quads });
        let looks = open & has_quad;
        let inbound_link =
            if host(plan.inbound_links) { serves & field(endpoint::LINK).ne(0) } else { false.into_val() };
        let in_slot = quad_number * QUAD as u32;
        let in_slot = if host(plan.ordered) { select(inbound_link, in_slot, 0) } else { in_slot };
        // A lane that has nothing to poll loads what another lane loads anyway.
        let line = memory.number.cast::<u32>() * LINE as u32;
        let rest = if host(may_own) { select(in_own, val(0), line) } else { line };
        let near = select(serves & has_quad, ring + next_slot * stride + in_slot, rest);
        let plain = serves & nearest & state.eq(gate::OPEN) & !given_up & !waits;
        let after = worker.first + (val::<u32>(groups) >> deep);
        PollSet {
            next: select(after.lt(worker.count), after, 0),
            sees_all,
            record,
            low: position.cast::<u32>(),
            answer: field(endpoint::ANSWERS) + slot * field(endpoint::ANSWER_STRIDE),
            ticket: kind
                | select(plain, ticket::PLAIN, val(0))
                | select(inbound_link, ticket::INBOUND, val(0)),
            stamp,
            slot: at,
            quad: select(looks, at + in_slot, near),
            near,
            near_stamp,
            open,
            open_near,
            has_quad,
            looks,
            inbound_link,
            own: in_own,
            held_up: match plan.lanes {
                1 => waits,
                _ if plan.may_wait() => vote_any(waits),
                _ => waits,
            },
        }
    }

    /// Whether no endpoint of the worker can have a message.
    #[device(crate = kiln_lang)]
    pub(super) fn is_vacant(&self, plan: &GridPlan) -> Val<bool> {
        let may = self.open | self.open_near | self.held_up;
        let any = if host(plan.lanes == 1) { may } else { vote_any(may) };
        self.sees_all & !any
    }

    /// What a lane polls: its quad. Where quads may arrive in parts it is the stamp of its slot's
    /// first, which was written last: what is read of the slot after it is there.
    #[device(crate = kiln_lang)]
    pub(super) fn look(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        at: Val<u32>,
        mixed: bool,
    ) -> [Val<u32>; QUAD] {
        if host(!plan.ordered) {
            return self.quad_at(memory, at, mixed);
        }
        let mut quad = [val::<u32>(0); QUAD];
        if host(mixed) && self.inbound_link {
            quad = self.quad_at(memory, at, mixed);
        } else {
            // SAFETY: as of `quad_at`.
            quad[PAYLOAD] = unsafe {
                memory.inbox.get_ordered_unchecked(at + PAYLOAD as u32, Order::Acquire, Scope::System)
            };
        }
        quad
    }

    /// Each lane's quad of a message whose stamp was [seen](Self::look) where quads may arrive in
    /// parts.
    #[device(crate = kiln_lang)]
    pub(super) fn quad_in_order(&self, plan: &GridPlan, memory: &WorkerMemory) -> [Val<u32>; QUAD] {
        let stamped = if host(plan.inbound_links) { self.inbound_link } else { false.into_val() };
        let at = self.slot + plan.quad_number() * QUAD as u32;
        self.quad_at(memory, select(self.looks & !stamped, at, self.quad), plan.inbound_links)
    }

    /// A quad of the lane's slot: one of the inbox, unless they are mixed with such of the arena.
    #[device(crate = kiln_lang)]
    pub fn quad_at(&self, memory: &WorkerMemory, at: Val<u32>, mixed: bool) -> [Val<u32>; QUAD] {
        // SAFETY: the slot lies in the arena, in the worker's own memory or in the inbox, as its
        // record says, and in the first and the last every worker has a line, which lanes without a
        // slot read.
        unsafe {
            if host(mixed) && self.inbound_link {
                match memory.near {
                    Some(near) => self.quad_of_inbound_link(memory, near.memory, at),
                    None => memory.arena.get_quad_unchecked(at),
                }
            } else {
                memory.inbox.get_quad_unchecked(at)
            }
        }
    }

    /// A quad of an inbound link's slot, in the arena or in the worker's own memory.
    #[device(crate = kiln_lang)]
    fn quad_of_inbound_link(
        &self,
        memory: &WorkerMemory,
        own: Shared<u32, 1>,
        at: Val<u32>,
    ) -> [Val<u32>; QUAD] {
        // SAFETY: the slot lies there, as its record says.
        unsafe { if self.own { own.get_quad_unchecked(at) } else { memory.arena.get_quad_unchecked(at) } }
    }

    /// Which slots are complete, by what the lanes loaded.
    pub fn ready(&self, plan: &GridPlan, quad: [Val<u32>; QUAD]) -> Val<u32> {
        self.whole(plan, self.open & (!self.looks | quad[PAYLOAD].eq(self.stamp)))
    }

    /// A bit for each slot of which all lanes found their quads good: that of its first lane.
    #[device(crate = kiln_lang)]
    pub fn whole(&self, plan: &GridPlan, good: Val<bool>) -> Val<u32> {
        if host(plan.lanes == 1) {
            block_uniform(select(good, val::<u32>(1), 0))
        } else {
            whole_groups(ballot(good), plan.width())
        }
    }

    /// What was seen.
    #[device(crate = kiln_lang)]
    pub fn poll(
        self,
        ready: Val<u32>,
        quad: [Val<u32>; QUAD],
        command: [Val<u32>; QUAD],
        glances: Val<u32>,
    ) -> Poll {
        Poll { poll_set: self, lane: first_lane(ready), ready, quad, command, glances }
    }

    /// Polls once.
    #[device(crate = kiln_lang)]
    pub fn glance(self, plan: &GridPlan, memory: &WorkerMemory) -> Poll {
        let command = memory.command();
        let quad = self.look(plan, memory, self.quad, plan.inbound_links);
        self.poll(self.ready(plan, quad), quad, command, val(1))
    }

    /// Polls the same places again and again, until a message or a command is there, and at most so
    /// many times. A worker that was not idle (`rested`) polls several slots of each endpoint, and
    /// does so once.
    #[device(crate = kiln_lang)]
    pub fn watch(
        self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        worker: &Worker,
        most: Val<u32>,
        (rested, on_fast_path): (Val<bool>, Val<bool>),
    ) -> Poll {
        let most = most.minimum(GLANCES);
        let most_of_all = select(rested, most, 1);
        let all_first = rested | on_fast_path | (worker.turns % ALL_EVERY).eq(0);
        match memory.near.filter(|_| plan.inbound_links) {
            Some(near) => {
                if vote_any(self.own) {
                    self.watch_in_bursts(plan, memory, Some(&near), worker, (most_of_all, all_first))
                } else {
                    self.watch_far(plan, memory, worker, (most, most_of_all, all_first))
                }
            }
            None => self.watch_far(plan, memory, worker, (most, most_of_all, all_first)),
        }
    }

    /// Polls where no slot lies in the worker's own memory.
    #[device(crate = kiln_lang)]
    fn watch_far(
        self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        worker: &Worker,
        (most, most_of_all, all_first): (Val<u32>, Val<u32>, Val<bool>),
    ) -> Poll {
        // A worker without messages of other actors has a constant poll set.
        if host(plan.inbound_links) && vote_any(self.inbound_link) {
            if host(plan.far_inbox) {
                self.watch_in_bursts(plan, memory, None, worker, (most_of_all, all_first))
            } else {
                self.watch_all(plan, memory, worker, most_of_all, true)
            }
        } else {
            if worker.count == 1 {
                self.watch_one(plan, memory, worker, most)
            } else {
                self.watch_all(plan, memory, worker, most_of_all, false)
            }
        }
    }

    #[device(crate = kiln_lang)]
    pub(super) fn watch_all(
        self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        worker: &Worker,
        most: Val<u32>,
        mixed: bool,
    ) -> Poll {
        let (mut quad, mut command) = ([val::<u32>(0); QUAD], [val::<u32>(0); QUAD]);
        let (mut ready, mut glances): (Val<u32>, Val<u32>) = (val(0), val(0));
        let mut watching = true.into_val();
        while watching {
            command = memory.command();
            quad = self.look(plan, memory, self.quad, mixed);
            ready = self.ready(plan, quad);
            glances += 1;
            let commanded = block_uniform(command[PAYLOAD]).ne(worker.seen);
            watching = ready.eq(0) & !commanded & glances.lt(most);
        }
        self.poll(ready, quad, command, glances)
    }

    /// Polls the only endpoint of a worker: after the first poll, all groups read its next slot, so
    /// that one vote decides.
    #[device(crate = kiln_lang)]
    fn watch_one(self, plan: &GridPlan, memory: &WorkerMemory, worker: &Worker, most: Val<u32>) -> Poll {
        let first = self.glance(plan, memory);
        let (mut quad, mut command, mut glances) = (first.quad, first.command, first.glances);
        let (mut ready, mut lane) = (first.ready, first.lane);
        let commanded = block_uniform(command[PAYLOAD]).ne(worker.seen);
        let mut watching = ready.eq(0) & !commanded & glances.lt(most);
        while watching {
            command = memory.command();
            quad = self.look(plan, memory, self.near, false);
            let complete = vote_all(self.open_near & (!self.has_quad | quad[PAYLOAD].eq(self.near_stamp)));
            (ready, lane) = (select(complete, val::<u32>(1), 0), val(0));
            glances += 1;
            let commanded = block_uniform(command[PAYLOAD]).ne(worker.seen);
            watching = !complete & !commanded & glances.lt(most);
        }
        Poll { poll_set: self, lane, ready, quad, command, glances }
    }
}

impl Poll {
    /// The first quads of the slot of the group whose first lane this is, as far as all lanes can
    /// have them without another load; zeros behind them.
    pub fn spread(&self, plan: &GridPlan, lane: Val<u32>) -> [[Val<u32>; QUAD]; SPREAD] {
        std::array::from_fn(|q| {
            if host(q < plan.spread()) { self.quad_of(plan, lane, q) } else { [val(0); QUAD] }
        })
    }

    /// A quad of that slot, in all lanes.
    pub(super) fn quad_of(&self, plan: &GridPlan, lane: Val<u32>, q: usize) -> [Val<u32>; QUAD] {
        match plan.lanes {
            1 => self.quad,
            _ => self.quad.map(|word| block_uniform(shuffle_idx(word, lane + q as u32))),
        }
    }
}

/// Of the lanes' votes, the first lane of each group of `width` lanes in which all agree.
fn whole_groups(votes: Val<u32>, width: u32) -> Val<u32> {
    let mut all = votes;
    for step in 0..width.ilog2() {
        all = all & (all >> (1 << step));
    }
    let firsts = (0..32).step_by(width as usize).fold(0, |bits, lane| bits | 1u32 << lane);
    all & firsts
}
