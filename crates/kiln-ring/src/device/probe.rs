//! The device's side of a transport's test: a kernel that polls slots while the host writes them,
//! and reports in how many quads a stamp was seen before its words.
//!
//! The host writes all slots of a round and waits for as many answers; every word of a round is
//! another than in the round before. So a quad of which a part was seen before the rest shows by
//! its words.

use super::plan::{GridPlan, host};
use super::words::Words;
use super::write_slot::{Slot, SlotTarget};
use crate::payload::ArrayMemory;
use crate::wire::slot::{Kind as SlotKind, PAYLOAD, QUAD};
use kiln_ir::{Facts, IntFact, Kernel};
use kiln_lang::param::ParamDecl;
use kiln_lang::{TraceErrors, prelude::*};

/// Quads of a slot: a line.
pub const QUADS: usize = 4;

/// A word of a round: of which quad, and which of its three.
pub fn word(round: u32, quad: u32, memory: usize) -> u32 {
    round.wrapping_mul(FACTORS[0]).wrapping_add(quad.wrapping_mul(FACTORS[1])) ^ MASKS[memory]
}

const NS_PER_MS: u64 = 1_000_000;

const FACTORS: [u32; 2] = [0x9e37_79b9, 0x85eb_ca6b];
const MASKS: [u32; PAYLOAD] = [0, 0x5555_5555, 0xffff_0000];

/// The arguments of the kernel.
#[derive(Clone, Copy)]
struct Task {
    inbox: View<u32, 1>,
    outbox: ViewMut<u32, 1>,
    /// Where the slots begin, in both.
    at: Val<u32>,
    slots: Val<u32>,
    rounds: Val<u32>,
    /// After how many nanoseconds without a whole round it leaves.
    patience_ms: Val<u32>,
}

/// Records the kernel, for as many threads. Parameters: inbox, outbox, then the four numbers of
/// [`Task`]. It ends by itself. Behind the answers it leaves a quad: how many quads were seen in
/// part, and how many rounds were whole.
pub(crate) fn trace_probe(lanes: u32, ordered: bool) -> Result<Kernel, TraceErrors> {
    trace("ring_transport", Level::Thread { block: [lanes, 1, 1] }, |p: &mut ParamDecl| {
        let unit = IntFact { divisor: 1, equals: Some(1), fits_i32: true };
        let facts = || Facts { align: 256, strides: [unit].into_iter().collect(), ..Facts::default() };
        let (inbox, outbox) = (p.view("inbox", facts()), p.view_mut("outbox", facts()));
        let [at, slots, rounds, patience_ms] =
            ["at", "slots", "rounds", "patience_ms"].map(|name| p.scalar(name, IntFact::default()));
        let plan = GridPlan {
            kinds: Vec::new(),
            endpoints: 1,
            lanes,
            budget: 0,
            inbound_links: false,
            peers: false,
            cluster: None,
            ordered,
            far_inbox: false,
            dispatched: false,
            measure_every: 0,
        };
        answer_rounds(&plan, &Task { inbox, outbox, at, slots, rounds, patience_ms });
    })
}

#[device(crate = kiln_lang)]
fn answer_rounds(plan: &GridPlan, task: &Task) {
    let (mut round, mut torn): (Val<u32>, Val<u32>) = (val(1), val(0));
    let mut going: Val<bool> = true;
    while going {
        let begun = clock_ns();
        let (mut there, mut late): (Val<bool>, Val<bool>) = (false.into_val(), false.into_val());
        while !there & !late {
            let mut missing: Val<bool> = false;
            for quad in range_step(lane(plan), task.slots * QUADS as u32, plan.lanes) {
                let words = task.quad(quad);
                let stamped = words[PAYLOAD].eq(round | (SlotKind::Request as u32) << 24);
                missing = missing | !stamped;
                if host(!plan.ordered) {
                    torn += select(stamped & differs(round, quad, words), 1, 0);
                }
            }
            there = block_uniform(if host(plan.lanes > 1) { !vote_any(missing) } else { !missing });
            late = block_uniform((clock_ns() - begun).gt(task.patience_ms.cast::<u64>() * NS_PER_MS));
        }
        if there {
            if host(plan.ordered) {
                for quad in range_step(lane(plan), task.slots * QUADS as u32, plan.lanes) {
                    torn += select(differs(round, quad, task.quad_in_order(quad)), 1, 0);
                }
            }
            for slot in 0..task.slots {
                task.answer(plan, round, slot);
            }
            round += 1;
        }
        going = there & round.le(task.rounds);
    }
    let mut step = plan.lanes / 2;
    while step > 0 {
        torn += shuffle_xor(torn, step);
        step /= 2;
    }
    let end = task.at + task.slots * (QUADS * QUAD) as u32;
    // SAFETY: the quad lies behind the answers in the outbox, as the host says; all threads store
    // the same.
    unsafe {
        task.outbox.set_ordered_unchecked(end, torn, Order::Relaxed, Scope::System);
        task.outbox.set_ordered_unchecked(end + 1, round - 1, Order::Relaxed, Scope::System);
    }
}

fn lane(plan: &GridPlan) -> Val<u32> {
    if host(plan.lanes > 1) { lane_id().cast() } else { val(0) }
}

/// Whether a quad holds other words than the round's.
fn differs(round: Val<u32>, quad: Val<u32>, words: [Val<u32>; QUAD]) -> Val<bool> {
    let base = round * FACTORS[0] + quad * FACTORS[1];
    (0..PAYLOAD).fold(false.into_val(), |any, i| any | words[i].ne(base ^ MASKS[i]))
}

impl Task {
    /// A quad of the requests.
    fn quad(&self, quad: Val<u32>) -> [Val<u32>; QUAD] {
        // SAFETY: the slots lie in the inbox, as the host says.
        unsafe { self.inbox.get_quad_unchecked(self.at + quad * QUAD as u32) }
    }

    /// The same after the stamp of its slot's first quad.
    fn quad_in_order(&self, quad: Val<u32>) -> [Val<u32>; QUAD] {
        let first = self.at + quad / QUADS as u32 * (QUADS * QUAD) as u32;
        // SAFETY: as above.
        unsafe { self.inbox.get_ordered_unchecked(first + PAYLOAD as u32, Order::Acquire, Scope::System) };
        self.quad(quad)
    }

    /// Writes the answer of a slot as a worker does: what it was sent, with all bits inverted.
    #[device(crate = kiln_lang)]
    fn answer(&self, plan: &GridPlan, round: Val<u32>, slot: Val<u32>) {
        let quad = |q: usize| slot * QUADS as u32 + q as u32;
        let words: Vec<Val<u32>> = (0..QUADS * PAYLOAD)
            .map(|w| {
                let base = round * FACTORS[0] + quad(w / PAYLOAD) * FACTORS[1];
                base ^ !MASKS[w % PAYLOAD]
            })
            .collect();
        // No word of these stands in memory.
        let memory = ArrayMemory { arena: self.outbox, message: None };
        let words = Words { words: &words, inlines: &[], memory: &memory };
        let zero = val::<u32>(0);
        let answer = Slot {
            at: self.at + slot * (QUADS * QUAD) as u32,
            stamp: round | (SlotKind::Reply as u32) << 24,
            headers: zero,
            header: [zero; PAYLOAD],
        };
        // SAFETY: the answers lie in the outbox, as the host says, and the host has read those of
        // the round before.
        unsafe {
            if host(plan.ordered) {
                answer.write_ordered(plan, &self.outbox, &words);
            } else {
                answer.write(plan, SlotTarget { memory: &self.outbox, far: None, near: None }, &words);
            }
        }
    }
}
