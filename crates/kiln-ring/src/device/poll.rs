//! Looking for complete messages.
//!
//! A slot is complete when all its quads bear the stamp of its lap. The lanes of a warp look at several slots with one load: each group of lanes has a
//! slot, each lane a quad. Where there are more groups than ports, the groups of a port look at the slots that follow one another. A worker of one
//! thread looks at the first quad of one slot, and at the others once that one is there.

use super::record::{LINE, gate, port};
use super::resident::{Place, Plan, Worker};
use crate::slot::{Kind, PAYLOAD, QUAD, SlotLayout};
use kiln_lang::prelude::*;

/// Looks in a row at one place, between two that see to everything else.
const GLANCES: u32 = 128;

/// Where a worker looks: the ports and slots of its lanes.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub(super) struct Aim {
    /// The port at which the next poll begins.
    pub next: Val<u32>,
    /// Whether the worker sees all its ports at once, so that the next poll looks at the same places.
    pub sees_all: Val<bool>,
    /// Each lane's: the record of its port, in the table.
    pub record: Val<u32>,
    /// Each lane's: the low half of its slot's position.
    pub low: Val<u32>,
    /// Each lane's: where its slot begins.
    slot: Val<u32>,
    /// Each lane's: where its quad stands, or some other quad of the inbox.
    quad: Val<u32>,
    /// Each lane's: the stamp that it looks for.
    stamp: Val<u32>,
    /// Each lane's: whether its port hands out messages.
    open: Val<bool>,
    /// Each lane's: whether it has a quad to look at.
    looks: Val<bool>,
    /// Each lane's: whether its port is an inlet, whose slots lie in the arena.
    inlet: Val<bool>,
}

/// What a worker saw.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub(super) struct Poll {
    pub aim: Aim,
    /// A bit for each complete slot: that of the first lane of its group.
    pub ready: Val<u32>,
    /// Each lane's: its quad of the slot.
    quad: [Val<u32>; QUAD],
    /// The worker's command.
    pub command: [Val<u32>; QUAD],
    /// How often it looked.
    pub glances: Val<u32>,
}

/// A message: whether it is there, its header and its words.
pub(super) struct Taken {
    pub complete: Val<bool>,
    pub header: [Val<u32>; PAYLOAD],
    pub words: Vec<Val<u32>>,
}

impl Plan {
    /// Lanes that look at one slot: a power of two.
    fn width(&self) -> u32 {
        let quads = self.kinds.iter().map(|kind| kind.requests.quads()).max().unwrap_or(1);
        if self.lanes == 1 { 1 } else { quads.next_power_of_two() as u32 }
    }
}

impl Aim {
    /// Some ports, from `worker.first` on. One that has `rested`, for there was nothing to do, looks at the next slot of each alone: a look at few lines comes back
    /// sooner, and takes less of the bus where the requests lie in the host's memory.
    #[device(crate = kiln_lang)]
    pub fn take(plan: &Plan, place: &Place, worker: &Worker, rested: Val<bool>) -> Aim {
        let width = plan.width();
        let groups = plan.lanes / width;
        let lane = lane_id().cast::<u32>();
        // Each port has 2^deep groups.
        let mut deep: Val<u32> = 0;
        for more in 1..=groups.ilog2() {
            deep = select((worker.count << more).le(groups), more, deep);
        }
        let group = lane / width;
        let index = worker.first + (group >> deep);
        let ahead = group & ((val::<u32>(1) << deep) - 1);
        let quad_number = lane % width;

        let inside = index.lt(worker.count) & (ahead.eq(0) | !rested);
        let record = plan.record(select(inside, index * (port::WORDS as u32), 0));
        let field = |word: usize| place.table.get_or(record + word as u32, 0);
        let position = join(field(port::POSITION), field(port::POSITION + 1)) + ahead.cast::<u64>();
        let log2_slots = field(port::LOG2_SLOTS);
        let (stamp, slot) = stamp_and_slot(position, log2_slots, Kind::Request as u32);
        let at = field(port::REQUESTS) + slot * field(port::REQUEST_STRIDE);
        let state = field(port::GATE);
        // Messages that are to be dropped are looked at behind every gate: a full queue that drops the oldest waits for their slots.
        let given_up = is_before(position.cast::<u32>(), field(port::SKIP));
        let open =
            inside & field(port::KIND).ne(0) & (state.eq(gate::OPEN) | state.eq(gate::RETURNING) | given_up);
        let looks = open & quad_number.lt(if plan.lanes == 1 { val(1) } else { field(port::REQUEST_QUADS) });
        let after = worker.first + (val::<u32>(groups) >> deep);
        Aim {
            next: select(after.lt(worker.count), after, 0),
            sees_all: worker.first.eq(0) & worker.count.le(groups),
            record,
            low: position.cast::<u32>(),
            slot: at,
            quad: select(looks, at + quad_number * QUAD as u32, place.number.cast::<u32>() * LINE as u32),
            stamp,
            open,
            looks,
            inlet: if plan.inlets { looks & field(port::LINK).ne(0) } else { false.into_val() },
        }
    }

    /// Each lane's quad.
    #[device(crate = kiln_lang)]
    fn load(&self, place: &Place, mixed: bool) -> [Val<u32>; QUAD] {
        self.quad_at(place, self.quad, mixed)
    }

    /// A quad of the lane's slot: one of the inbox, unless they are mixed with such of the arena.
    #[device(crate = kiln_lang)]
    fn quad_at(&self, place: &Place, at: Val<u32>, mixed: bool) -> [Val<u32>; QUAD] {
        // SAFETY: the slot lies in the arena or in the inbox, as its record says, and in the inbox so does the worker's command, at which lanes without a slot look.
        unsafe {
            if mixed && self.inlet {
                place.arena.get_quad_unchecked(at)
            } else {
                place.inbox.get_quad_unchecked(at)
            }
        }
    }

    /// Which slots are complete, by what the lanes loaded.
    #[device(crate = kiln_lang)]
    fn ready(&self, plan: &Plan, quad: [Val<u32>; QUAD]) -> Val<u32> {
        let good = self.open & (!self.looks | quad[PAYLOAD].eq(self.stamp));
        let ready = if plan.lanes == 1 {
            select(good, val::<u32>(1), 0)
        } else {
            whole_groups(ballot(good), plan.width())
        };
        block_uniform(ready)
    }

    /// Looks once.
    #[device(crate = kiln_lang)]
    pub fn glance(self, plan: &Plan, place: &Place) -> Poll {
        let command = place.command();
        let quad = self.load(place, plan.inlets);
        Poll { aim: self, ready: self.ready(plan, quad), quad, command, glances: val(1) }
    }

    /// Looks at the same places again and again, until a message or a command is there, and no longer than for some time.
    #[device(crate = kiln_lang)]
    pub fn watch(self, plan: &Plan, place: &Place, worker: &Worker) -> Poll {
        // A worker without messages of other actors need not ask each time where to look.
        if plan.inlets && vote_any(self.inlet) {
            self.watch_as(plan, place, worker, true)
        } else {
            self.watch_as(plan, place, worker, false)
        }
    }

    #[device(crate = kiln_lang)]
    fn watch_as(self, plan: &Plan, place: &Place, worker: &Worker, mixed: bool) -> Poll {
        let (mut quad, mut command) = ([val::<u32>(0); QUAD], [val::<u32>(0); QUAD]);
        let (mut ready, mut glances): (Val<u32>, Val<u32>) = (val(0), val(0));
        let mut watching = true.into_val();
        while watching {
            command = place.command();
            quad = self.load(place, mixed);
            ready = self.ready(plan, quad);
            glances += 1;
            let told = block_uniform(command[PAYLOAD]).ne(worker.seen);
            watching = ready.eq(0) & !told & glances.lt(GLANCES);
        }
        Poll { aim: self, ready, quad, command, glances }
    }
}

impl Poll {
    /// The message in the slot of the group whose first lane this is.
    #[device(crate = kiln_lang)]
    pub fn take(&self, plan: &Plan, place: &Place, layout: &SlotLayout, lane: Val<u32>) -> Taken {
        let quads = layout.quads();
        let mut seen: Vec<[Val<u32>; QUAD]> = Vec::with_capacity(quads);
        let mut complete = true.into_val();
        for q in 0..quads {
            if plan.lanes > 1 {
                seen.push(self.quad.map(|word| shuffle_idx(word, lane + q as u32)));
            } else if q == 0 {
                seen.push(self.quad);
            } else {
                let quad = self.aim.quad_at(place, self.aim.slot + (q * QUAD) as u32, plan.inlets);
                complete = complete & quad[PAYLOAD].eq(self.aim.stamp);
                seen.push(quad);
            }
        }
        let header =
            if layout.has_header() { [seen[0][0], seen[0][1], seen[0][2]] } else { [val(0); PAYLOAD] };
        let word = |w: usize| seen[layout.payload_at(w) / QUAD][w % PAYLOAD];
        let words = (0..layout.payload_words()).map(word).collect();
        Taken { complete, header, words }
    }
}

/// A number from its halves.
pub(super) fn join(low: Val<u32>, high: Val<u32>) -> Val<u64> {
    low.cast::<u64>() | high.cast::<u64>() << 32
}

/// Whether one position comes before another, by their low halves: they lie less than 2^31 apart.
pub(super) fn is_before(low: Val<u32>, other: Val<u32>) -> Val<bool> {
    (low - other).bitcast::<i32>().lt(0)
}

/// The stamp of a position's slot, for a kind, and the slot's number; see `slot.rs`.
pub(super) fn stamp_and_slot(
    position: Val<u64>,
    log2_slots: Val<u32>,
    kind: impl IntoVal<u32>,
) -> (Val<u32>, Val<u32>) {
    let lap = ((position >> log2_slots.cast::<u64>()) + 1).cast::<u32>() & 0x00ff_ffff;
    let slot = position.cast::<u32>() & ((val::<u32>(1) << log2_slots) - 1);
    (lap | kind.into_val() << 24, slot)
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
