//! Writing slots: requests to other actors, answers, outputs.

use super::plan::{GridPlan, host};
use super::words::Words;
use crate::wire::slot::{PAYLOAD, QUAD};
use kiln_lang::prelude::*;

/// A slot about to be written.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub(super) struct Slot {
    /// Where it begins.
    pub at: Val<u32>,
    /// The stamp of its quads.
    pub stamp: Val<u32>,
    /// Quads before the payload: 1 for a slot with a header, else 0.
    pub headers: Val<u32>,
    /// The header, if it has one.
    pub header: [Val<u32>; PAYLOAD],
}

/// Memory that slots are written to.
#[derive(Clone, Copy)]
pub(super) struct SlotTarget<'a> {
    pub memory: &'a ViewMut<u32, 1>,
    /// How far the slots lie behind their place in the view, in words; `None` where they lie in the
    /// view.
    pub far: Option<Val<i64>>,
    /// Another worker's memory, where the slots may lie there.
    pub near: Option<NeighborTarget>,
}

/// The own memory of a worker of this cluster.
#[derive(Clone, Copy)]
pub(super) struct NeighborTarget {
    /// This worker's, of which that one's is the counterpart.
    pub memory: Shared<u32, 1>,
    /// Whether the slots lie there.
    pub is: Val<bool>,
    /// That worker's rank.
    pub rank: Val<u32>,
}

impl SlotTarget<'_> {
    #[device(crate = kiln_lang)]
    unsafe fn set_quad(&self, at: Val<u32>, quad: [Val<u32>; QUAD]) {
        // SAFETY: as the caller promises.
        unsafe {
            if let Some(near) = self.near {
                if near.is {
                    near.memory.set_quad_of(near.rank, at, quad);
                } else {
                    self.set_quad_of_view(at, quad);
                }
            } else {
                self.set_quad_of_view(at, quad);
            }
        }
    }

    unsafe fn set_quad_of_view(&self, at: Val<u32>, quad: [Val<u32>; QUAD]) {
        // SAFETY: as the caller promises.
        unsafe {
            match self.far {
                None => self.memory.set_quad_unchecked(at, quad),
                Some(far) => self.memory.set_quad_unchecked(at.cast::<i64>() + far, quad),
            }
        }
    }
}

impl Slot {
    /// Writes the slot for a reader to whom quads may arrive in parts: all of it, and then, with
    /// release, the stamp of the first quad.
    ///
    /// # Safety
    /// As for [`write`](Self::write), of which the reader loads that stamp first, with acquire.
    #[device(crate = kiln_lang)]
    pub unsafe fn write_ordered(&self, plan: &GridPlan, memory: &ViewMut<u32, 1>, payload: &Words<'_>) {
        let plain = payload.plain_quads();
        let shares = !payload.inlines.is_empty() && plan.lanes > 1;
        if host(shares) {
            // What the lanes wrote to arrays, all of them copy.
            barrier();
        }
        // SAFETY: as the caller promises. All lanes store the same here, so that whichever store is
        // seen, what its own lane stored before it is.
        unsafe {
            for &q in &plain {
                let words = [0, 1, 2].map(|i| payload.word(q * PAYLOAD + i));
                self.write_unstamped(memory, self.headers + q as u32, words);
            }
            if self.headers != 0 {
                self.write_unstamped(memory, val(0), self.header);
            }
        }
        let lane = if host(plan.lanes == 1) { val(0) } else { lane_id().cast::<u32>() };
        for (array, quads) in payload.filled() {
            for q in range_step(lane + quads.start as u32, quads.end as u32, plan.lanes) {
                let index = q * PAYLOAD as u32 - array.start as u32;
                let words = [0u32, 1, 2].map(|i| payload.of_array(array, index + i));
                // SAFETY: as above, a quad a lane.
                unsafe { self.write_unstamped(memory, self.headers + q, words) };
            }
        }
        if host(shares) {
            // The stamp comes after what every lane stored.
            barrier();
        }
        // SAFETY: as above.
        unsafe {
            let stamp_at = self.at + PAYLOAD as u32;
            memory.set_ordered_unchecked(stamp_at, self.stamp, Order::Release, Scope::System);
        }
    }

    /// Writes a quad of the slot word by word, and, but for the first, its stamp.
    #[device(crate = kiln_lang)]
    unsafe fn write_unstamped(&self, memory: &ViewMut<u32, 1>, quad: Val<u32>, words: [Val<u32>; PAYLOAD]) {
        let at = self.at + quad * QUAD as u32;
        // SAFETY: as the caller promises.
        unsafe {
            for i in 0..PAYLOAD {
                memory.set_ordered_unchecked(at + i as u32, words[i], Order::Relaxed, Scope::System);
            }
            if quad != 0 {
                memory.set_ordered_unchecked(at + PAYLOAD as u32, self.stamp, Order::Relaxed, Scope::System);
            }
        }
    }

    /// Writes the slot.
    ///
    /// # Safety
    /// It lies inside the view, at a multiple of 16 bytes, and has no other writer now. Its readers
    /// load quads.
    #[device(crate = kiln_lang)]
    pub unsafe fn write(&self, plan: &GridPlan, target: SlotTarget<'_>, payload: &Words<'_>) {
        let plain = payload.plain_quads();
        if host(!payload.inlines.is_empty() && plan.lanes > 1) {
            // What the lanes wrote to arrays, all of them copy.
            barrier();
        }
        // SAFETY: as the caller promises.
        unsafe {
            if host(plan.lanes == 1) {
                self.write_header(target);
                for &q in &plain {
                    self.write_quad(target, val(q as u32), [0, 1, 2].map(|i| payload.word(q * PAYLOAD + i)));
                }
            } else if host(payload.inlines.is_empty()) {
                self.write_at_once(target, payload, plain.len());
            } else {
                let lane = lane_id().cast::<u32>();
                if lane.eq(0) {
                    self.write_header(target);
                    for &q in &plain {
                        self.write_quad(
                            target,
                            val(q as u32),
                            [0, 1, 2].map(|i| payload.word(q * PAYLOAD + i)),
                        );
                    }
                }
            }
        }
        let lane = if host(plan.lanes == 1) { val(0) } else { lane_id().cast::<u32>() };
        for (array, quads) in payload.filled() {
            for q in range_step(lane + quads.start as u32, quads.end as u32, plan.lanes) {
                let index = q * PAYLOAD as u32 - array.start as u32;
                let words = [0u32, 1, 2].map(|i| payload.of_array(array, index + i));
                // SAFETY: as above.
                unsafe { self.write_quad(target, q, words) };
            }
        }
    }

    /// A quad a lane, so that the slot leaves in one store.
    #[device(crate = kiln_lang)]
    unsafe fn write_at_once(&self, target: SlotTarget<'_>, payload: &Words<'_>, quads: usize) {
        let lane = lane_id().cast::<u32>();
        let mine_of_payload = lane - self.headers;
        let mut mine = self.header;
        for q in 0..quads {
            let words: [Val<u32>; PAYLOAD] = std::array::from_fn(|i| payload.word(q * PAYLOAD + i));
            mine = std::array::from_fn(|i| select(mine_of_payload.eq(q as u32), words[i], mine[i]));
        }
        let [a, b, c] = mine;
        if lane < self.headers + quads as u32 {
            // SAFETY: as the caller promises.
            unsafe { target.set_quad(self.at + lane * QUAD as u32, [a, b, c, self.stamp]) };
        }
    }

    #[device(crate = kiln_lang)]
    unsafe fn write_header(&self, target: SlotTarget<'_>) {
        if self.headers != 0 {
            let [a, b, c] = self.header;
            // SAFETY: as the caller promises.
            unsafe { target.set_quad(self.at, [a, b, c, self.stamp]) };
        }
    }

    /// Writes a quad of the payload.
    #[device(crate = kiln_lang)]
    unsafe fn write_quad(&self, target: SlotTarget<'_>, number: Val<u32>, [a, b, c]: [Val<u32>; PAYLOAD]) {
        // SAFETY: as the caller promises.
        unsafe { target.set_quad(self.at + (self.headers + number) * QUAD as u32, [a, b, c, self.stamp]) };
    }
}
