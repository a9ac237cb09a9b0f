//! The way of results to memory.

use super::MatmulPlan;
use super::jobs::Corner;
use kiln_lang::Untyped;
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;

/// What the tile before became, packed by pairs, and where it goes.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_runtime)]
pub(super) struct Held {
    pub pairs: Val<u32>,
    pub matrix: Idx,
    pub row: Idx,
    pub column: Idx,
    /// Whether there is any.
    pub any: Val<bool>,
}

impl Held {
    /// No results.
    pub fn none(plan: &MatmulPlan) -> Held {
        let pairs = zeros::<u32>((plan.task_rows(), if plan.held { plan.columns / 2 } else { 2 }));
        Held { pairs, matrix: val(0), row: val(0), column: val(0), any: val(false) }
    }
}

/// Where a task puts its results. Strip by strip they go to memory by way of two buffers in turn,
/// which those of the tile before may still occupy.
#[derive(Clone, Copy)]
pub(super) struct Delivery {
    pub c: ViewMut<Untyped, 3>,
    /// The buffers of all tasks, if results are stored in bulk.
    pub buffers: Option<SharedTiles<Untyped>>,
    pub task: Idx,
    pub columns: usize,
    /// Columns of a strip.
    pub strip: usize,
}

impl Delivery {
    /// Stores the strip with a number: what `put` writes to its buffer.
    fn strip_at(&self, number: usize, occupied: bool, put: &dyn Fn(SharedTile<Untyped>), corner: Corner) {
        let Some(buffers) = self.buffers else { return };
        let buffer = buffers.at(self.task * 2 + number % 2);
        if occupied || number >= 2 {
            store_wait(if self.columns > self.strip { 1 } else { 0 });
        }
        put(buffer);
        proxy_fence();
        task_barrier();
        // SAFETY: every tile of c has one number, and one task of one program takes it.
        unsafe { buffer.store(self.c, corner) };
    }

    /// Stores the results that waited.
    pub fn held(&self, held: Held) {
        for strip in 0..self.columns / self.strip {
            let from = strip * self.strip;
            let put = |buffer: SharedTile<Untyped>| buffer.put_pairs(held.pairs, from);
            self.strip_at(strip, true, &put, (held.matrix, held.row, held.column + from));
        }
    }

    /// Stores results, the part with a number of a tile's, in bulk.
    pub fn in_bulk(&self, result: Val<Untyped>, [part, columns]: [usize; 2], occupied: bool, corner: Corner) {
        let (matrix, row, column) = corner;
        let strips = columns / self.strip;
        for strip in 0..strips {
            let from = strip * self.strip;
            let put = |buffer: SharedTile<Untyped>| buffer.put(result, from);
            self.strip_at(part * strips + strip, occupied, &put, (matrix, row, column + from));
        }
    }
}
