//! What each operation becomes, or why it is refused. A new operation does not compile until this
//! file says what it is here.

use crate::refused::Refused;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Check, FragmentOp, Op, OpData, OpKind, Value};

impl Writer<'_> {
    /// An operation, and what the block decides after it where threads may have left in it.
    pub(crate) fn operation(&mut self, op: Op) -> Result<()> {
        if self.parts(op) {
            return self.parted(op, |w| w.instructions(op));
        }
        self.instructions(op)
    }

    fn instructions(&mut self, op: Op) -> Result<()> {
        let kernel = self.kernel;
        let data = kernel.op(op);
        let is_tile = |&value: &Value| kernel.ty(value).as_tile().is_some_and(|tile| tile.shape.rank() > 0);
        if data.operands.iter().chain(&data.results).any(is_tile) {
            return Err(self.refused(data, Refused::Tiles));
        }
        match &data.kind {
            OpKind::Const(literal) => self.constant(data, *literal),
            OpKind::ProgramId(axis) => self.program_id(data, *axis),
            OpKind::NumPrograms(axis) => self.num_programs(data, *axis),
            OpKind::ThreadId(axis) => self.thread_id(data, *axis),
            OpKind::BlockDim(axis) => self.block_dim(data, *axis),
            OpKind::Unary(unary) => self.unary(data, *unary),
            OpKind::Binary(binary) => self.binary(data, *binary),
            OpKind::Compare(compare) => self.compare(data, *compare),
            OpKind::Select => self.select(data),
            OpKind::Fma => self.fma(data),
            OpKind::Cast => self.cast(data),
            OpKind::Bitcast => self.bitcast(data),
            // Of scalars it changes nothing.
            OpKind::Broadcast | OpKind::Reshape | OpKind::Transpose(_) => {
                let value = self.get(data.input())?;
                self.set(data, value);
                Ok(())
            }
            OpKind::Extent(axis) => {
                let extent = self.extent_of(data.view(), *axis)?;
                self.set_index(data, extent)
            }
            OpKind::Stride(axis) => {
                let stride = self.stride_of(data.view(), *axis)?;
                self.set_index(data, stride)
            }
            // Declared with the module.
            OpKind::Alloc { .. } | OpKind::Scratch { .. } => self.declared(data),
            OpKind::Load(_) => self.gather(data, kiln_ir::Bounds::Mask),
            OpKind::Store { .. } => self.scatter(data, kiln_ir::Bounds::Mask),
            OpKind::Gather { bounds, .. } => self.gather(data, *bounds),
            OpKind::Scatter { bounds, .. } => self.scatter(data, *bounds),
            OpKind::Atomic { op, bounds, .. } => {
                let place = self.indexed(data, *bounds)?;
                self.atomic(data, place, *op)
            }
            OpKind::AtomicCas { bounds, .. } => {
                let place = self.indexed(data, *bounds)?;
                self.compare_exchange(data, place)
            }
            OpKind::OrderedLoad { order, bounds, .. } => {
                let place = self.indexed(data, *bounds)?;
                self.ordered_load(data, place, *order)
            }
            OpKind::OrderedStore { order, bounds, .. } => {
                let place = self.indexed(data, *bounds)?;
                self.ordered_store(data, place, *order)
            }
            OpKind::Linear { op, .. } => self.linear(data, *op),
            OpKind::Fence(scope) => self.fence(op, *scope),
            OpKind::Barrier => {
                self.together(op)?;
                self.barrier();
                Ok(())
            }
            OpKind::WarpBarrier => self.warp_barrier(op),
            OpKind::Shuffle(mode) => self.shuffle(op, *mode),
            OpKind::Vote(mode) => self.vote(op, *mode),
            OpKind::BlockUniform => self.block_uniform(op),
            OpKind::If => self.if_else(data),
            OpKind::For => self.for_loop(op),
            OpKind::While => self.while_loop(op),
            OpKind::Yield | OpKind::Condition => Err(self.internal("a region ends twice".into())),
            OpKind::Iota | OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::Dot(_) => {
                Err(self.refused(data, Refused::Tiles))
            }
            OpKind::Address
            | OpKind::PtrLoad { .. }
            | OpKind::PtrStore { .. }
            | OpKind::PtrAtomic { .. }
            | OpKind::PtrAtomicCas { .. }
            | OpKind::PtrOrderedLoad { .. }
            | OpKind::PtrOrderedStore { .. }
            | OpKind::Atomic128 { .. }
            | OpKind::AsyncCopy(_)
            | OpKind::PtrAtomic128 { .. } => Err(self.refused(data, Refused::Addresses)),
            OpKind::LoadQuad(_) | OpKind::StoreQuad(_) => Err(self.refused(data, Refused::Order)),
            OpKind::FaultRegion => Err(self.refused(data, Refused::Regions)),
            OpKind::Assert(message) => self.check(op, Check::Assert(*message)),
            OpKind::CheckBounds => self.check(op, Check::Bounds),
            OpKind::CheckDivisor => self.check(op, Check::Divisor),
            OpKind::BlockCheck(check) => self.block_check(op, *check),
            OpKind::DeferFault { check, together } => self.defer_fault(op, *check, *together),
            OpKind::Faulted => {
                self.has_faulted(data);
                Ok(())
            }
            OpKind::Print(message) => self.print(data, *message),
            OpKind::Clock(_) | OpKind::Sleep => Err(self.refused(data, Refused::Time)),
            OpKind::InlinePtx(_) => Err(self.refused(data, Refused::Ptx)),
            OpKind::Fragment(FragmentOp::Matrix(matrix)) => self.matrix(data, *matrix),
            OpKind::GridBarrier | OpKind::Cluster(_) | OpKind::Explicit(_) | OpKind::Fragment(_) => {
                Err(self.refused(data, Refused::Explicit))
            }
        }
    }

    /// A view was declared with the module; an address of scratch memory was not.
    fn declared(&self, op: &OpData) -> Result<()> {
        match op.results[..] {
            [result] if self.kernel.ty(result).as_view().is_some() => Ok(()),
            _ => Err(self.refused(op, Refused::Addresses)),
        }
    }
}
