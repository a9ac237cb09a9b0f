//! The explicit level: what has tiles becomes registers and addresses, the rest is left to the
//! emitter.

use super::assign_layouts::assign_layouts;
use super::layout_classes::registers_of_factor;
use super::plan::Room;
use super::roles::is_tile;
use super::{Lowering, Registers};
use crate::error::CompileError;
use crate::target::WARP;
use kiln_ir::{Block, ExplicitOp, Kernel, Op, OpData, OpKind, Operand, Scalar, Task, Type, Value};

/// Warps of a warpgroup.
const WARPGROUP: u32 = 4;

impl<'k> Lowering<'k> {
    pub(super) fn explicit(
        &mut self,
        op: Op,
        data: &'k OpData,
        kind: &ExplicitOp,
    ) -> Result<(), CompileError> {
        match kind {
            ExplicitOp::SharedTile { stages, rows, columns } => {
                let elem = self.src.ty(data.results[0]).elem();
                self.scratch.reserve(stages * rows * columns * elem.bytes(), data.loc);
                self.made_before_all(data);
                Ok(())
            }
            ExplicitOp::Mbarrier { count, .. } => {
                self.scratch.reserve(8 * count, data.loc);
                self.made_before_all(data);
                Ok(())
            }
            ExplicitOp::Tasks(tasks) => self.tasks(data, tasks),
            ExplicitOp::Wgmma { .. } => self.product_in_flight(op, data, 5),
            ExplicitOp::WgmmaRegisters { .. } => self.product_in_flight(op, data, 3),
            ExplicitOp::WgmmaWait { .. } => self.product_in_flight(op, data, 0),
            ExplicitOp::PackPairs { .. } => self.pack_pairs(op, data),
            ExplicitOp::Exp2Flushed => self.elementwise(data),
            ExplicitOp::SharedStore { column } => self.shared_store(op, data, *column),
            ExplicitOp::SharedLoad => self.shared_load(data),
            ExplicitOp::TaskBarrier => {
                self.task_barrier();
                Ok(())
            }
            ExplicitOp::Signal => self.signal(data),
            ExplicitOp::SignalWait => self.wait_for_signal(data),
            ExplicitOp::TmaStoreWait { .. } => {
                self.copy(data)?;
                // One thread waits; a barrier releases the others.
                self.task_barrier();
                Ok(())
            }
            ExplicitOp::MbarrierExpect { .. }
            | ExplicitOp::MbarrierArrive
            | ExplicitOp::MbarrierWait
            | ExplicitOp::TmaLoad { .. }
            | ExplicitOp::TmaStore
            | ExplicitOp::TmaReduce(_)
            | ExplicitOp::TmaPrefetch { .. }
            | ExplicitOp::ProxyFence
            | ExplicitOp::TaskRank
            | ExplicitOp::ClusterRank => self.copy(data),
        }
    }

    pub(super) fn task_barrier(&mut self) {
        if !self.one_thread {
            self.em.op(OpKind::Barrier, &[], &[]);
        }
    }

    /// Memory, which is there before the first operation.
    fn made_before_all(&mut self, data: &OpData) {
        let ty = self.src.ty(data.results[0]).clone();
        let made = self.em.hoisted(|e| {
            let made = e.op(data.kind.clone(), &[], &[ty]);
            e.kernel.result(made)
        });
        self.define_scalar(data.results[0], made);
    }

    /// Lowers each task for its own warps. One without tiles is the work of one thread.
    fn tasks(&mut self, data: &'k OpData, tasks: &[Task]) -> Result<(), CompileError> {
        let mut regions = Vec::new();
        let mut exchanging = 0;
        for (&region, task) in data.regions.iter().zip(tasks) {
            // Copies would exchange tiles through one memory.
            let room = Room { exchanges: task.copies == 1, stages: 0 };
            let plan = assign_layouts(self.src, &mut self.facts, task.warps, self.target, room);
            let outer = (std::mem::replace(&mut self.plan, plan), self.warps);
            self.warps = task.warps;
            let exchanges = task.copies as usize;
            self.one_thread = !has_tiles(self.src, region);
            let before = self.scratch.exchanges();
            regions.push(self.task(region, task)?);
            exchanging += if self.scratch.exchanges() > before { exchanges } else { 0 };
            (self.plan, self.warps) = outer;
            self.one_thread = false;
        }
        if exchanging > 1 {
            return Err(self.unsupported(
                data,
                "an exchange of tiles between threads in two tasks",
                "keep tiles in the layout in which they are computed in all tasks but one",
            ));
        }
        self.em.kernel.append(self.em.block, data.kind.clone(), &[], &[], &regions, data.loc);
        Ok(())
    }

    fn task(&mut self, region: Block, task: &Task) -> Result<Block, CompileError> {
        let block = self.em.kernel.add_block();
        let outer = std::mem::replace(&mut self.em.block, block);
        if self.one_thread {
            if task.warps > WARPGROUP {
                return Err(CompileError::Unsupported {
                    location: self.src.describe(self.em.loc),
                    what: format!("a task of {} warps without tiles", task.warps),
                    hint: format!("one thread does its work: give it up to {WARPGROUP} warps"),
                });
            }
            let first = self.em.thread_is_first(WARP * task.warps - 1);
            let first = first.ok_or_else(|| self.internal("a task without threads".into()))?;
            self.branch(first, &[], |l| l.region_body(region), |_| Ok(Vec::new()))?;
        } else {
            self.region_body(region)?;
        }
        self.em.op(OpKind::Yield, &[], &[]);
        self.em.block = outer;
        Ok(block)
    }

    /// The operations of a region that yields nothing, without its end.
    fn region_body(&mut self, region: Block) -> Result<Vec<Value>, CompileError> {
        let src = self.src;
        for &op in &src.block(region).ops {
            let data = src.op(op);
            self.em.loc = data.loc;
            if data.kind != OpKind::Yield {
                self.op(op, data, &[])?;
            }
        }
        Ok(Vec::new())
    }

    /// The registers of two neighbors become one.
    fn pack_pairs(&mut self, op: Op, data: &OpData) -> Result<(), CompileError> {
        let from = self.operand(data.operand(Operand::Registers), self.plan.input(op, 0))?;
        let home = self.plan.home(data.results[0]);
        let mut packed = Vec::with_capacity(from.len() / 2);
        for pair in from.chunks_exact(2) {
            packed.push(self.em.one(data.kind.clone(), pair, Scalar::U32));
        }
        self.define(data.results[0], home, packed)
    }

    /// `Wgmma`, `WgmmaRegisters` and `WgmmaWait`: `fixed` scalars, maybe the registers of a factor,
    /// then the accumulators', which the results take over.
    fn product_in_flight(&mut self, op: Op, data: &OpData, fixed: usize) -> Result<(), CompileError> {
        let (rows, needed) = (self.src.shape(data.results[0])[0], 16 * self.warps);
        if !self.warps.is_multiple_of(WARPGROUP) || rows < needed {
            return Err(self.unsupported(
                data,
                &format!("a product of {rows} rows on {} warps", self.warps),
                "give it a multiple of 4 warps, and 16 rows or more for each",
            ));
        }
        // A wait has no instruction of its own for each block.
        let blocks = if fixed == 0 { 1 } else { (rows / needed) as usize };
        let mut operands = self.scalars(data.control())?.to_vec();
        let mut factor = Vec::new();
        for (i, &tile) in registers_of_factor(data).iter().enumerate() {
            factor.push(self.operand(tile, self.plan.input(op, i))?);
        }
        operands.extend(by_blocks(&factor, blocks));
        let mut sums = Vec::new();
        for (&sum, &result) in data.sums().iter().zip(&data.results) {
            sums.push(self.operand(sum, self.plan.home(result))?);
        }
        operands.extend(by_blocks(&sums, blocks));
        let elem = self.src.ty(data.results[0]).elem();
        let registers: usize = sums.iter().map(|sum| sum.len()).sum();
        let op = self.em.op(data.kind.clone(), &operands, &vec![Type::scalar(elem); registers]);
        let made = self.em.kernel.op(op).results.to_vec();
        let (each, mut first) = (registers / blocks, 0);
        for (&result, sum) in data.results.iter().zip(&sums) {
            let own = sum.len() / blocks;
            let places = (0..blocks).flat_map(|block| block * each + first..block * each + first + own);
            let results = places.map(|at| made[at]).collect();
            self.define(result, self.plan.home(result), results)?;
            first += own;
        }
        Ok(())
    }

    /// The address of a stage of so many bytes.
    pub(super) fn stage_address(
        &mut self,
        view: Value,
        stage: Value,
        bytes: u32,
    ) -> Result<Value, CompileError> {
        let base = self.address(view)?;
        let stage = self.scalar(stage)?;
        let bytes = self.em.i64(bytes.into());
        let distance = self.em.mul(stage, bytes);
        let distance = self.em.cast(distance, Scalar::U64);
        Ok(self.em.add(base, distance))
    }

    pub(super) fn unsupported(&self, data: &OpData, what: &str, hint: &str) -> CompileError {
        CompileError::Unsupported {
            location: self.src.describe(data.loc),
            what: what.into(),
            hint: hint.into(),
        }
    }
}

/// The registers of tiles side by side: for each block of rows those of all tiles, as an
/// instruction takes them.
fn by_blocks(tiles: &[Registers], blocks: usize) -> Vec<Value> {
    let of = |block: usize| {
        tiles.iter().flat_map(move |tile| {
            let each = tile.len() / blocks;
            tile[block * each..(block + 1) * each].iter().copied()
        })
    };
    (0..blocks).flat_map(of).collect()
}

/// Whether any value in a region is a tile.
fn has_tiles(kernel: &Kernel, region: Block) -> bool {
    kernel.block(region).ops.iter().any(|&op| {
        let data = kernel.op(op);
        data.results.iter().chain(&data.operands).any(|&v| is_tile(kernel, v))
            || data.regions.iter().any(|&r| has_tiles(kernel, r))
    })
}
