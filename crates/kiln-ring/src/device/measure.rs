//! What a worker keeps of an actor's work; see [`gauge`](crate::wire::gauge).

use super::delivery::Delivery;
use super::plan::{ActorKind, GridPlan, host};
use super::worker::WorkerMemory;
use crate::handler::RingCtx;
use crate::wire::gauge::{BUCKETS, FAILURE, SUM, behind, bucket, done, fault};
use crate::wire::record::{cause, endpoint};
use kiln_lang::{fence_system, prelude::*};

impl Delivery {
    /// Whether the handling of this message is measured.
    fn is_measured(&self, plan: &GridPlan) -> Val<bool> {
        let every = val::<u32>(plan.measure_every.next_power_of_two() - 1);
        (self.position.cast::<u32>() & every).eq(0)
    }

    /// When the handling of a message that is measured began.
    #[device(crate = kiln_lang)]
    pub fn begun(&self, plan: &GridPlan) -> Val<u64> {
        let mut begun: Val<u64> = 0;
        if host(plan.measure_every > 0) {
            if block_uniform(self.is_measured(plan)) {
                begun = clock_ns();
            }
        }
        begun
    }

    /// Where the quad of messages done of its priority stands among the gauges.
    fn done_at(&self, kind: &ActorKind) -> Val<u32> {
        let mut at = val::<u32>(done(0) as u32);
        for priority in 1..kind.priorities {
            at = select(self.priority().eq(priority as u32), done(priority) as u32, at);
        }
        at
    }

    /// The word of the arena at which the actor's gauges begin.
    fn gauges(&self, kind: &ActorKind) -> Val<u32> {
        self.state_at + behind(kind.handler.signature().state_words) as u32
    }

    /// Counts a message that is done. It comes after the answer, which is latency-critical.
    #[device(crate = kiln_lang)]
    pub fn tally(&self, plan: &GridPlan, memory: &WorkerMemory, kind: &ActorKind, begun: Val<u64>) {
        let at = self.gauges(kind);
        let next = self.position + 1;
        let quad = [
            next.cast::<u32>(),
            (next >> 32).cast::<u32>(),
            self.field(memory, endpoint::UNHANDLED),
            val::<u32>(0),
        ];
        if self.inbound_link {
            self.count_received(memory);
        } else {
            // SAFETY: the gauges lie in the arena behind the state, at a multiple of 16 bytes; this
            // worker alone stores them, all lanes the same.
            unsafe { memory.arena.set_quad_unchecked(at + self.done_at(kind), quad) };
        }
        if host(plan.measure_every > 0) {
            if block_uniform(self.is_measured(plan)) {
                measure(memory, at, clock_ns() - begun);
            }
        }
    }

    /// Records why the handler failed, before its answer says so.
    pub fn note_failure(&self, plan: &GridPlan, memory: &WorkerMemory, kind: &ActorKind, why: [Val<u32>; 2]) {
        let at = self.gauges(kind);
        // Lanes may fail by themselves: the lowest of those whose check it was.
        let own = why[0].eq(cause::FAULT) & memory.faults.get(0).cast::<u32>().eq(why[1]);
        let ctx = RingCtx::new(self.actor, self.position, plan.lanes, memory.arena);
        let first = ctx.min(select(own, ctx.lane(), u32::MAX));
        let site = select(first.eq(u32::MAX), 0, why[1]);
        let mut words = vec![
            self.field(memory, endpoint::LINK),
            self.position.cast::<u32>(),
            (self.position >> 32).cast::<u32>(),
            site,
        ];
        for k in 0..fault::MOST {
            let mut value = memory.faults.get(1 + k);
            if host(plan.lanes > 1) {
                value = shuffle_idx(value, first);
            }
            words.push(value.cast::<u32>());
            words.push((value >> 32).cast::<u32>());
        }
        // SAFETY: as above.
        unsafe {
            memory.set_word(at, FAILURE, why[0]);
            memory.set_word(at, FAILURE + 1, why[1]);
            for (k, word) in words.iter().enumerate() {
                memory.set_word(at, fault(kind.priorities) + k, *word);
            }
        }
        memory.faults.set(0, 0u64);
        // The host reads it when it has seen the answer.
        fence_system();
    }
}

/// Counts a handling time.
#[device(crate = kiln_lang)]
fn measure(memory: &WorkerMemory, gauges: Val<u32>, took: Val<u64>) {
    // One lane's, for the clocks of two may differ.
    let ns = block_uniform(took.minimum(u64::from(u32::MAX)).cast::<u32>());
    let exponent = val::<u32>(31) - (ns | bucket::EACH).clz();
    let fine = (ns >> (exponent - bucket::LOG2_EACH)) & (bucket::EACH - 1);
    let coarse = (exponent - (bucket::LOG2_EACH - 1)) * bucket::EACH;
    let at = gauges + BUCKETS as u32 + select(ns.lt(bucket::EACH), ns, coarse + fine);
    let sum_at = gauges + SUM as u32;
    let sum = (memory.arena.get_or(sum_at, 0).cast::<u64>()
        | memory.arena.get_or(sum_at + 1, 0).cast::<u64>() << 32)
        + ns.cast::<u64>();
    // SAFETY: the gauges lie in the arena; this worker alone stores them, all lanes the same.
    unsafe {
        memory.arena.scatter(at, memory.arena.get_or(at, 0) + 1);
        memory.arena.scatter(sum_at, sum.cast::<u32>());
        memory.arena.scatter(sum_at + 1, (sum >> 32).cast::<u32>());
    }
}
