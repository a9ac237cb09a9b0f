//! Sums on matrix units whose fragments nobody else can read: threads get them back through shared
//! memory, some fragments of every warp at a time.

use super::Lowering;
use crate::error::CompileError;
use crate::layout::Layout;
use kiln_ir::{FragmentOp, MATRIX, MatrixGrid, MatrixOp, OpData, OpKind, Reuse, Scalar, Type, Value};

/// Elements of a fragment.
const FRAGMENT: usize = (MATRIX * MATRIX) as usize;

/// Elements of the longest vector.
const VECTOR: usize = 4;

impl Lowering<'_> {
    pub(super) fn matrix(&mut self, data: &OpData, op: MatrixOp) -> Result<(), CompileError> {
        match op {
            MatrixOp::Load(grid) => return self.load_sums(data, grid),
            // Other threads have stored the factors.
            MatrixOp::Multiply { .. } => self.barrier(),
            MatrixOp::Zero(_) | MatrixOp::Store { .. } => {}
        }
        self.copy(data)
    }

    fn load_sums(&mut self, data: &OpData, grid: MatrixGrid) -> Result<(), CompileError> {
        let (result, staged) = (data.results[0], data.tile());
        let layout = Layout::of_matrix(&self.src.shape(result), grid, self.plan.threads);
        let made = self.plan.intern(layout.clone());
        let line = self.src.alloc_shape(staged).map_or(0, |shape| shape[1]);
        let [sums, view] = [data.view(), staged].map(|v| self.scalar(v));
        let (sums, view) = (sums?, view?);
        let width = self.target.warp as usize;
        let each = FRAGMENT / width;
        let lanes = VECTOR.min(each);
        let (fragments, slots) = (layout.registers() / each, line as usize / FRAGMENT);
        let thread = self.line_of_thread(line, lanes as u32);
        let mut registers = Vec::with_capacity(layout.registers());
        for first in (0..fragments).step_by(slots.max(1)) {
            let together = first..(first + slots.max(1)).min(fragments);
            self.barrier();
            for (slot, fragment) in together.clone().enumerate() {
                let op = MatrixOp::Store { grid, fragment: fragment as u32, slot: slot as u32 };
                self.em.op(OpKind::Fragment(FragmentOp::Matrix(op)), &[sums, view], &[]);
            }
            self.barrier();
            for slot in 0..together.len() {
                for vector in 0..each / lanes {
                    let distance = self.em.i32((slot * FRAGMENT + vector * width * lanes) as i64);
                    let index = self.em.add(thread, distance);
                    let loaded = self.view_load((view, index), lanes, Reuse::Normal, None);
                    registers.extend_from_slice(&self.em.kernel.op(loaded).results);
                }
            }
        }
        self.define(result, made, registers)
    }

    /// An i32: where a thread's elements begin in the first fragment of its warp's line.
    fn line_of_thread(&mut self, line: u32, vector: u32) -> Value {
        let (lanes, warps) = (self.target.warp.trailing_zeros(), self.warps.trailing_zeros());
        let lane: Vec<u32> = (0..lanes + warps).map(|i| if i < lanes { vector << i } else { 0 }).collect();
        let warp: Vec<u32> =
            (0..lanes + warps).map(|i| if i < lanes { 0 } else { 1 << (i - lanes) }).collect();
        let (lane, warp) = (self.em.linear(&lane), self.em.linear(&warp));
        self.em.hoisted(|e| {
            let line = e.int(Scalar::I32, line.into());
            let before = e.mul(warp, line);
            e.add(before, lane)
        })
    }

    fn barrier(&mut self) {
        self.em.op(OpKind::Barrier, &[], &[] as &[Type]);
    }
}
