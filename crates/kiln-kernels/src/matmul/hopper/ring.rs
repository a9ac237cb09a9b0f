//! The ring of stages in shared memory: what is copied into it, and by which task.

use super::jobs::{Job, Jobs, quotient};
use super::{Factor, MatmulPlan};
use kiln_lang::Untyped;
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;

/// A position in the ring: the stage, and how often the ring was gone round.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_runtime)]
pub(super) struct Position {
    pub stage: Idx,
    pub phase: Idx,
}

impl Position {
    /// The first stage, in the first round.
    pub fn first() -> Position {
        Position { stage: val(0), phase: val(0) }
    }

    /// Goes to the next stage.
    #[device(crate = kiln_runtime)]
    pub fn advance(&mut self, stages: usize) {
        self.stage += 1;
        if self.stage.eq(stages) {
            self.stage = 0;
            self.phase += 1;
        }
    }
}

/// Tiles of a and b. Stages follow each other; in each, a tile of a for every task, and one of b
/// for each half of the columns.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    a: SharedTiles<Untyped>,
    b: SharedTiles<Untyped>,
    /// Bytes of an element.
    bytes: usize,
}

impl Tiles {
    /// Allocates them. What they hold concerns nobody but the products, so that all that follows is
    /// compiled once for all types.
    pub fn new<T: Factor, U: Factor>(plan: &MatmulPlan) -> Tiles {
        let MatmulPlan { depth, stages, tasks, halves, .. } = *plan;
        let (rows, columns) = (plan.task_rows(), plan.product_columns());
        let [high, wide] = if plan.a_transposed { [depth, rows] } else { [rows, depth] };
        let a = shared_tiles::<T>(stages * tasks, high, wide).untyped();
        let [high, wide] = if plan.b_transposed { [columns, depth] } else { [depth, columns] };
        let b = shared_tiles::<U>(stages * halves, high, wide).untyped();
        Tiles { a, b, bytes: size_of::<T>() }
    }
}

/// The stages, and who waits for whom.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    tiles: Tiles,
    plan: MatmulPlan,
    /// A stage is full when its bytes have come, and empty when every task of every block that gets
    /// a part of what this one copies has multiplied it.
    full: Mbarriers,
    empty: Mbarriers,
}

impl Ring {
    /// Makes the barriers of some tiles.
    pub fn new(tiles: Tiles, plan: MatmulPlan) -> Ring {
        let MatmulPlan { stages, tasks, cluster: blocks, .. } = plan;
        Ring { tiles, plan, full: mbarriers(stages, 1), empty: mbarriers(stages, blocks * tasks) }
    }

    /// Waits until a stage is full.
    pub fn wait(&self, at: Position) {
        self.full.at(at.stage).wait(at.phase);
    }

    /// The factor of a that a task multiplies.
    pub fn a(&self, at: Position, task: Idx) -> SharedTile<Untyped> {
        let tile = self.tiles.a.at(at.stage * self.plan.tasks + task);
        if self.plan.a_transposed { tile.transposed() } else { tile }
    }

    /// The factor of b for one half of the columns.
    pub fn b(&self, at: Position, half: usize) -> SharedTile<Untyped> {
        let tile = self.tiles.b.at(at.stage * self.plan.halves + half);
        if self.plan.b_transposed { tile.transposed() } else { tile }
    }

    /// Signals every block of the cluster that this task is done with a stage.
    pub fn release(&self, stage: Idx) {
        match self.plan.cluster {
            1 => self.empty.at(stage).arrive(),
            blocks => (0..blocks).for_each(|rank| self.empty.at(stage).arrive_at(rank)),
        }
    }

    /// What this block copies of a tile with so many rows in shared memory.
    fn part(&self, all: usize, shared: bool, rank: Idx) -> Part {
        let blocks = self.plan.cluster;
        match shared && blocks > 1 {
            true => Part { row: rank * (all / blocks), rows: all / blocks, multicast: (1 << blocks) - 1 },
            false => Part { row: val(0), rows: all, multicast: 0 },
        }
    }

    /// Begins to copy a's tiles of a stage: those from `row` and `at` on, of the matrix `batch`.
    fn copy_a(&self, a: View<Untyped, 3>, stage: Idx, [batch, row, at]: [Idx; 3], rank: Idx) {
        let MatmulPlan { depth, tasks, side_by_side, .. } = self.plan;
        let (rows, full) = (self.plan.task_rows(), self.full.at(stage));
        for task in 0..tasks {
            let (tile, row) = (self.tiles.a.at(stage * tasks + task), row + task * rows);
            if self.plan.a_transposed {
                let part = self.part(depth, side_by_side, rank);
                tile.load_part(a, (batch, at + part.row, row), part, full);
            } else {
                let part = self.part(rows, side_by_side, rank);
                tile.load_part(a, (batch, row + part.row, at), part, full);
            }
        }
    }

    /// Begins to copy b's tiles of a stage: those from `at` and `column` on.
    fn copy_b(&self, b: View<Untyped, 3>, stage: Idx, [batch, column, at]: [Idx; 3], rank: Idx) {
        let MatmulPlan { depth, halves, side_by_side, .. } = self.plan;
        let (columns, full) = (self.plan.product_columns(), self.full.at(stage));
        for half in 0..halves {
            let (tile, column) = (self.tiles.b.at(stage * halves + half), column + half * columns);
            if self.plan.b_transposed {
                let part = self.part(columns, !side_by_side, rank);
                tile.load_part(b, (batch, column + part.row, at), part, full);
            } else {
                let part = self.part(depth, !side_by_side, rank);
                tile.load_part(b, (batch, at + part.row, column), part, full);
            }
        }
    }
}

/// The task that copies: all steps of all jobs, the first of which was found already.
#[device(crate = kiln_runtime)]
pub(super) fn copy(a: View<Untyped, 3>, b: View<Untyped, 3>, ring: Ring, jobs: Jobs, beginning: Job) {
    let MatmulPlan { rows, columns, depth, stages, cluster: blocks, group, staggered, shared, .. } =
        jobs.plan;
    let mut at = Position::first();
    let Job { corner: (_, row, column), batch, from, count, .. } = beginning;
    let (mut row, mut column, mut batch, mut from, mut count) = (row, column, batch, from, count);
    for number in range_step(jobs.first, jobs.end, jobs.apart) {
        // The blocks of a cluster keep step.
        let neighbor = program_id(0) / blocks;
        let mut next = neighbor - quotient(neighbor, count) * count;
        let of = |shared: bool| if shared { val(0) } else { batch };
        let (in_a, in_b) = (of(shared[0]), of(shared[1]));
        for step in range(0, count) {
            let step = if staggered { next } else { from + step };
            let first = step * depth;
            if staggered {
                next += 1;
                if next.eq(count) {
                    next = 0;
                }
            }
            ring.empty.at(at.stage).wait(at.phase - 1);
            ring.full.at(at.stage).expect(ring.tiles.bytes * depth * (rows + columns));
            ring.copy_a(a, at.stage, [in_a, row, first], jobs.rank);
            ring.copy_b(b, at.stage, [in_b, column, first], jobs.rank);
            at.advance(stages);
        }
        if group > 0 {
            let next = jobs.job(number + jobs.apart);
            row = next.corner.1;
            column = next.corner.2;
            batch = next.batch;
            from = next.from;
            count = next.count;
        }
    }
}
