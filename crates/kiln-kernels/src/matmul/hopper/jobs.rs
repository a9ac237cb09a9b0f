//! Which tiles a program computes, one after the other, and which steps of their inner extent.

use super::super::stream::{Segment, Shares};
use super::MatmulPlan;
use kiln_lang::Untyped;
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;

/// How many tiles of a size cover an extent.
fn tiles_over(extent: Idx, size: usize) -> Idx {
    (extent + (size - 1)) / size
}

/// A quotient in 32 bits, whose divisions take a fraction of the time.
pub(super) fn quotient(of: Idx, by: Idx) -> Idx {
    (of.cast::<i32>() / by.cast::<i32>().maximum(1)).cast()
}

/// Where the tile with a number begins, in rows of clusters' tiles and columns of tiles: `group`
/// rows at a time, down, then across. In 32 bits, whose divisions take a fraction of the time.
#[device(crate = kiln_runtime)]
fn place(tile: Idx, down: Idx, across: Idx, group: usize) -> (Idx, Idx) {
    let (tile, down, across) = (tile.cast::<i32>(), down.cast::<i32>(), across.cast::<i32>());
    let group = group as i32;
    // Never below 1, so that the compiler can divide by it without a check.
    let wide = (across * group).maximum(1);
    let before = tile / wide;
    let (first, within) = (before * group, tile - before * wide);
    let height = (down - first).minimum(group).maximum(1);
    let right = within / height;
    ((first + within - right * height).cast(), right.cast())
}

/// Where a task's tile is: which matrix of c, its first row and column.
pub(super) type Corner = (Idx, Idx, Idx);

/// What a program does at a time.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub corner: Corner,
    /// The matrices that are multiplied.
    pub batch: Idx,
    /// The number of the tile.
    pub tile: Idx,
    /// The first step of the inner extent.
    pub from: Idx,
    /// How many steps.
    pub count: Idx,
}

impl Job {
    /// The part of one of the tasks that multiply: rows of its own.
    pub fn of_task(self, task: Idx, plan: &MatmulPlan) -> Job {
        let (matrix, row, column) = self.corner;
        Job { corner: (matrix, row + task * plan.task_rows(), column), ..self }
    }
}

/// The jobs of a program, by numbers from `first` up to `end`, `apart` from each other.
#[derive(Clone, Copy)]
pub(super) struct Jobs {
    pub plan: MatmulPlan,
    /// The number of this block in its cluster.
    pub rank: Idx,
    /// Steps of the inner extent.
    pub steps: Idx,
    pub first: Idx,
    pub end: Idx,
    pub apart: Idx,
    /// Tiles that are divided by steps, if any are.
    pub shares: Option<Shares>,
    /// Steps of a split.
    each: Idx,
    /// Rows and columns of tiles of c; of a cluster's tiles along the axis that it extends along.
    down: Idx,
    across: Idx,
    /// Whether c has several matrices.
    several: bool,
}

impl Jobs {
    /// The jobs of this program in the product of `inner` steps' worth of elements that fills `c`.
    pub fn new(inner: Idx, c: ViewMut<Untyped, 3>, plan: MatmulPlan, by_step: bool) -> Jobs {
        let MatmulPlan { rows, columns, depth, cluster: blocks, group, splits, .. } = plan;
        let (high, wide) = if plan.side_by_side { (1, blocks) } else { (blocks, 1) };
        // There is a step, which the compiler must be able to prove.
        let steps = tiles_over(inner, depth).maximum(1);
        let each = if splits > 1 { tiles_over(steps, splits) } else { steps };
        let across = tiles_over(c.extent(2), columns * wide);
        let down = tiles_over(c.extent(1), rows * high);
        let several = plan.stack || splits > 1;
        let tiles = if several { down * across * c.extent(0) } else { down * across };
        let rank = if blocks > 1 { cluster_rank() } else { val(0) };
        // Tiles that are divided come first; programs then number what they have to do from 0.
        let shares = by_step.then(|| Shares::new(tiles, steps, plan.streamed));
        let (first, end, apart) = match (group, shares) {
            (0, _) => (val(0), val(1), val(1)),
            (_, Some(shares)) => (val(0), shares.segments(), val(1)),
            _ => (program_id(0) / blocks, tiles, num_programs(0) / blocks),
        };
        Jobs { plan, rank, steps, first, end, apart, shares, each, down, across, several }
    }

    /// The job with a number.
    pub fn job(&self, number: Idx) -> Job {
        if let Some(shares) = self.shares {
            let Segment { tile, from, count } = shares.segment(number);
            let corner = self.corner(tile);
            return Job { corner, batch: corner.0, tile, from, count };
        }
        let corner = self.corner(number);
        let (batch, from, count) = self.split(corner.0);
        Job { corner, batch, tile: number, from, count }
    }

    /// Where this block's part of a tile begins.
    fn corner(&self, tile: Idx) -> Corner {
        let MatmulPlan { rows, columns, cluster: blocks, group, side_by_side, .. } = self.plan;
        if group == 0 {
            let (along, other) = (program_id(0), program_id(1));
            let (i, j) = if side_by_side { (other, along) } else { (along, other) };
            return (if self.several { program_id(2) } else { val(0) }, i * rows, j * columns);
        }
        let each = self.down * self.across;
        let matrix = if self.several { quotient(tile, each) } else { val(0) };
        let (i, j) = place(tile - matrix * each, self.down, self.across, group);
        match side_by_side {
            true => (matrix, i * rows, (j * blocks + self.rank) * columns),
            false => (matrix, (i * blocks + self.rank) * rows, j * columns),
        }
    }

    /// The product that a matrix of c belongs to, and the steps that it has of the inner extent:
    /// the first and how many.
    fn split(&self, matrix: Idx) -> (Idx, Idx, Idx) {
        let splits = self.plan.splits;
        if splits == 1 {
            return (matrix, val(0), self.steps);
        }
        let batch = if self.plan.stack { quotient(matrix, val(splits)) } else { val(0) };
        let first = (matrix - batch * splits) * self.each;
        (batch, first, (self.steps - first).minimum(self.each).maximum(1))
    }
}
