//! How a product is divided among programs, tasks and stages.

use kiln_lang::prelude::*;

/// How a product is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelConst)]
#[kiln(crate = kiln_runtime)]
pub struct MatmulPlan {
    /// Rows of c a program computes at once: 64 for each of `tasks`, or 128 for each.
    pub rows: usize,
    /// Columns of c: a power of two from 8 to 256, and at least those of 128 bytes of c if a task
    /// stores in bulk.
    pub columns: usize,
    /// How far a stage reaches along the inner extent: a multiple of 128 bytes.
    pub depth: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Programs of a cluster: a power of two up to 8.
    pub cluster: usize,
    /// Whether the programs of a cluster stand side by side and share tiles of a; else one above
    /// the other, and share tiles of b.
    pub side_by_side: bool,
    /// Whether programs are persistent and go through tiles, so many rows of clusters' tiles at a
    /// time, so that what they read remains in L2; 0 is a program for each tile.
    pub group: usize,
    /// Tasks that multiply, each of 4 warps.
    pub tasks: usize,
    /// Registers of their threads, and of those that copy; 0 leaves them as they are.
    pub registers: [usize; 2],
    /// a is given as `[k, m]`.
    pub a_transposed: bool,
    /// b is given as `[n, k]`.
    pub b_transposed: bool,
    /// Whether c is stored by bulk copies; else from registers, which any strides allow.
    pub bulk: bool,
    /// Whether there are several products, and of which factors there is but one for all.
    pub stack: bool,
    /// See `stack`: a, b.
    pub shared: [bool; 2],
    /// Programs that share the inner extent of a tile, one part after the other: c is a stack of as
    /// many results for each product, to be added up.
    pub splits: usize,
    /// Whether sums have two levels: the product of every stage is added to the sum outside of the
    /// tensor cores, which keep fewer bits of sums of 8-bit floats.
    pub two_level: bool,
    /// 2 if the columns of a tile are multiplied one half after the other, so that a stage's
    /// product takes half as many registers; with two levels of sums only. Else 1.
    pub halves: usize,
    /// Whether what becomes of the sums of a tile waits in registers, packed by pairs, and is
    /// stored while the products of the next tile are computed. c is of f16 or bf16 and stored in
    /// bulk, programs are persistent, and sums have one level.
    pub held: bool,
    /// Whether programs begin at different steps of the inner extent and go round, so that they do
    /// not all read the same columns of memory at a time. With a `group` of 0 and one split.
    pub staggered: bool,
    /// For `stream_k`: of how many rounds of tiles the steps are divided evenly among all
    /// programs, the last, incomplete one first; 0 of none. With a group, one split and no cluster.
    pub streamed: usize,
}

impl MatmulPlan {
    /// One program a tile, one product, and nothing transposed: what other plans are made from.
    pub const PLAIN: MatmulPlan = MatmulPlan {
        rows: 64,
        columns: 64,
        depth: 64,
        stages: 2,
        cluster: 1,
        side_by_side: false,
        group: 0,
        tasks: 1,
        registers: [0, 0],
        a_transposed: false,
        b_transposed: false,
        bulk: true,
        stack: false,
        shared: [false, false],
        splits: 1,
        two_level: false,
        halves: 1,
        held: false,
        staggered: false,
        streamed: 0,
    };

    /// How many sums so many programs may leave for each other.
    pub fn parts(&self, programs: usize) -> usize {
        programs * self.rows * self.columns
    }

    /// Rows of c of a task.
    pub(super) fn task_rows(&self) -> usize {
        self.rows / self.tasks
    }

    /// Columns of c that one instruction multiplies.
    pub(super) fn product_columns(&self) -> usize {
        self.columns / self.halves
    }

    /// Columns of c that are stored at a time: those of 128 bytes.
    pub(in crate::matmul) fn strip(result_bytes: usize) -> usize {
        128 / result_bytes
    }
}
