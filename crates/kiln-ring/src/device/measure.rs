//! What a worker keeps of an actor's work; see [`gauge`](crate::wire::gauge).

use super::delivery::At;
use super::plan::{Kind, Plan};
use super::worker::Place;
use crate::handler::RingCtx;
use crate::wire::gauge::{BUCKETS, FAILURE, SUM, behind, bucket, done, fault};
use crate::wire::record::{cause, port};
use kiln_lang::{fence_system, prelude::*};

impl At {
    /// Whether the handling of this message is measured.
    fn is_measured(&self, plan: &Plan) -> Val<bool> {
        let every = val::<u32>(plan.measure_every.next_power_of_two() - 1);
        (self.position.cast::<u32>() & every).eq(0)
    }

    /// When the handling of a message that is measured began.
    #[device(crate = kiln_lang)]
    pub fn begun(&self, plan: &Plan) -> Val<u64> {
        let mut begun: Val<u64> = 0;
        if plan.measure_every > 0 {
            if block_uniform(self.is_measured(plan)) {
                begun = clock_ns();
            }
        }
        begun
    }

    /// Where the quad of messages done of its band stands among the gauges.
    fn done_at(&self, kind: &Kind) -> Val<u32> {
        let mut at = val::<u32>(done(0) as u32);
        for band in 1..kind.bands {
            at = select(self.band().eq(band as u32), done(band) as u32, at);
        }
        at
    }

    /// The word of the arena at which the actor's gauges begin.
    fn gauges(&self, kind: &Kind) -> Val<u32> {
        self.state_at + behind(kind.handler.signature().state_words) as u32
    }

    /// Counts a message that is done. Comes after its answer, which somebody waits for.
    #[device(crate = kiln_lang)]
    pub fn tally(&self, plan: &Plan, place: &Place, kind: &Kind, begun: Val<u64>) {
        let at = self.gauges(kind);
        let next = self.position + 1;
        let quad = [
            next.cast::<u32>(),
            (next >> 32).cast::<u32>(),
            self.field(place, port::UNHANDLED),
            val::<u32>(0),
        ];
        if self.inlet {
            self.count_received(place);
        } else {
            // SAFETY: the gauges lie in the arena behind the state, at a multiple of 16 bytes; this
            // worker alone stores them, all lanes the same.
            unsafe { place.arena.set_quad_unchecked(at + self.done_at(kind), quad) };
        }
        if plan.measure_every > 0 {
            if block_uniform(self.is_measured(plan)) {
                measure(place, at, clock_ns() - begun);
            }
        }
    }

    /// Notes why the handler failed, before its answer says so.
    pub fn note_failure(&self, plan: &Plan, place: &Place, kind: &Kind, why: [Val<u32>; 2]) {
        let at = self.gauges(kind);
        // Lanes may fail by themselves: the lowest of those whose check it was.
        let own = why[0].eq(cause::FAULT) & place.faults.get(0).cast::<u32>().eq(why[1]);
        let ctx = RingCtx::new(self.actor, self.position, plan.lanes, place.arena);
        let first = ctx.min(select(own, ctx.lane(), u32::MAX));
        let site = select(first.eq(u32::MAX), 0, why[1]);
        let mut words = vec![
            self.field(place, port::LINK),
            self.position.cast::<u32>(),
            (self.position >> 32).cast::<u32>(),
            site,
        ];
        for k in 0..fault::MOST {
            let mut value = place.faults.get(1 + k);
            if plan.lanes > 1 {
                value = shuffle_idx(value, first);
            }
            words.push(value.cast::<u32>());
            words.push((value >> 32).cast::<u32>());
        }
        // SAFETY: as above.
        unsafe {
            place.set_word(at, FAILURE, why[0]);
            place.set_word(at, FAILURE + 1, why[1]);
            for (k, word) in words.iter().enumerate() {
                place.set_word(at, fault(kind.bands) + k, *word);
            }
        }
        place.faults.set(0, 0u64);
        // The host reads it when it has seen the answer.
        fence_system();
    }
}

/// Counts a handling time.
#[device(crate = kiln_lang)]
fn measure(place: &Place, gauges: Val<u32>, took: Val<u64>) {
    // One lane's, for the clocks of two may differ.
    let ns = block_uniform(took.minimum(u64::from(u32::MAX)).cast::<u32>());
    let exponent = val::<u32>(31) - (ns | bucket::EACH).clz();
    let fine = (ns >> (exponent - bucket::LOG2_EACH)) & (bucket::EACH - 1);
    let coarse = (exponent - (bucket::LOG2_EACH - 1)) * bucket::EACH;
    let at = gauges + BUCKETS as u32 + select(ns.lt(bucket::EACH), ns, coarse + fine);
    let sum_at = gauges + SUM as u32;
    let sum = (place.arena.get_or(sum_at, 0).cast::<u64>()
        | place.arena.get_or(sum_at + 1, 0).cast::<u64>() << 32)
        + ns.cast::<u64>();
    // SAFETY: the gauges lie in the arena; this worker alone stores them, all lanes the same.
    unsafe {
        place.arena.scatter(at, place.arena.get_or(at, 0) + 1);
        place.arena.scatter(sum_at, sum.cast::<u32>());
        place.arena.scatter(sum_at + 1, (sum >> 32).cast::<u32>());
    }
}
