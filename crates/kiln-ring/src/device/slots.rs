//! Writing slots: requests to other actors, answers, outputs.

use super::resident::Plan;
use crate::slot::{PAYLOAD, QUAD, quads_for};
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

impl Slot {
    /// Writes the slot.
    ///
    /// # Safety
    /// It lies inside the view, at a multiple of 16 bytes, and nobody else writes it now. Whoever reads it does so by quads.
    #[device(crate = kiln_lang)]
    pub unsafe fn write(&self, plan: &Plan, memory: &ViewMut<u32, 1>, payload: &[Val<u32>]) {
        let zero = val::<u32>(0);
        let quad = |q: usize| -> [Val<u32>; PAYLOAD] {
            std::array::from_fn(|i| payload.get(q * PAYLOAD + i).copied().unwrap_or(zero))
        };
        let quads = quads_for(payload.len());
        // SAFETY: as the caller promises.
        unsafe {
            if plan.lanes == 1 {
                if self.headers != 0 {
                    let [a, b, c] = self.header;
                    memory.set_quad_unchecked(self.at, [a, b, c, self.stamp]);
                }
                let first = self.at + self.headers * QUAD as u32;
                for q in 0..quads {
                    let [a, b, c] = quad(q);
                    memory.set_quad_unchecked(first + (q * QUAD) as u32, [a, b, c, self.stamp]);
                }
            } else {
                // A quad a lane, so that the slot leaves in one store.
                let lane = lane_id().cast::<u32>();
                let mine_of_payload = lane - self.headers;
                let mut mine = self.header;
                for q in 0..quads {
                    let words = quad(q);
                    mine = std::array::from_fn(|i| select(mine_of_payload.eq(q as u32), words[i], mine[i]));
                }
                let [a, b, c] = mine;
                if lane < self.headers + quads as u32 {
                    memory.set_quad_unchecked(self.at + lane * QUAD as u32, [a, b, c, self.stamp]);
                }
            }
        }
    }
}
