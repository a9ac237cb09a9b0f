//! The way of results to memory.

use super::MatmulPlan;
use super::jobs::Corner;
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
pub(super) struct Delivery<O: Elem> {
    pub c: ViewMut<O, 3>,
    /// The buffers of all tasks, if results are stored in bulk.
    pub buffers: Option<SharedTiles<O>>,
    pub task: Idx,
    pub columns: usize,
}

impl<O: Numeric> Delivery<O> {
    /// Columns of a strip.
    pub fn strip() -> usize {
        MatmulPlan::strip(size_of::<O>())
    }

    /// Stores the strip with a number: what `put` writes to its buffer.
    fn strip_at(&self, number: usize, occupied: bool, put: &dyn Fn(SharedTile<O>), corner: Corner) {
        let Some(buffers) = self.buffers else { return };
        let buffer = buffers.at(self.task * 2 + number % 2);
        if occupied || number >= 2 {
            store_wait(if self.columns > Self::strip() { 1 } else { 0 });
        }
        put(buffer);
        proxy_fence();
        task_barrier();
        // SAFETY: every tile of c has one number, and one task of one program takes it.
        unsafe { buffer.store(self.c, corner) };
    }

    /// Stores the results that waited.
    pub fn held(&self, held: Held) {
        for strip in 0..self.columns / Self::strip() {
            let from = strip * Self::strip();
            let put = |buffer: SharedTile<O>| buffer.put_pairs(held.pairs, from);
            self.strip_at(strip, true, &put, (held.matrix, held.row, held.column + from));
        }
    }

    /// Stores results, the part with a number of a tile's, in bulk.
    pub fn in_bulk(&self, result: Val<O>, [part, columns]: [usize; 2], occupied: bool, corner: Corner) {
        let (matrix, row, column) = corner;
        let strips = columns / Self::strip();
        for strip in 0..strips {
            let from = strip * Self::strip();
            let put = |buffer: SharedTile<O>| buffer.put(result, from);
            self.strip_at(part * strips + strip, occupied, &put, (matrix, row, column + from));
        }
    }

    /// Stores results from registers.
    pub fn by_threads(&self, result: Val<O>, shape: [usize; 2], corner: Corner) {
        let (matrix, row, column) = corner;
        let tile = self.c.row(matrix).tile((row, column), (shape[0], shape[1]));
        // SAFETY: every tile of c has one number, and one task of one program takes it.
        unsafe { tile.store_overlapping(result) };
    }
}
