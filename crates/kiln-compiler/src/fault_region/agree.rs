//! What one thread has found becomes known to its block: by a vote in a block of one warp, else
//! through shared memory. The results are uniform.

use super::Lowering;
use crate::target::WARP;
use kiln_ir::{
    AtomicOp, Axis, BinaryOp, Block, Bounds, Builder, CompareOp, Level, Literal, Op, OpKind, Scalar, Scope,
    Shape, Space, Type, Value, VoteMode,
};

impl Lowering<'_> {
    /// Whether a condition holds in every thread of the block. All of them must get here.
    pub(super) fn all_of_block(&mut self, at: Block, holds: Value) -> Value {
        if self.is_one_warp() {
            return self.vote(at, VoteMode::All, holds);
        }
        let none = self.site_constant(at, 0);
        let some = self.site_constant(at, 1);
        let own = self.at(at).select(holds, none, some);
        let largest = self.largest_in_memory(at, own);
        self.is_fine(at, largest)
    }

    /// The site of an operation with regions: if threads part in it and the block is concerned, the
    /// largest one among them.
    pub(super) fn agreed_site(&mut self, op: Op, at: Block, site: Value) -> Value {
        if !self.fault_regions.concerns_block(op) || !self.fault_regions.parts_threads(self.kernel, op) {
            return site;
        }
        if !self.is_one_warp() {
            return self.largest_in_memory(at, site);
        }
        // Most of the time there is nothing to agree on.
        let fine = self.is_fine(at, site);
        let fine = self.vote(at, VoteMode::All, fine);
        let arms = [self.kernel.add_block(), self.kernel.add_block()];
        let none = self.site_constant(arms[0], 0);
        let largest = self.largest_in_memory(arms[1], site);
        for (arm, site) in arms.into_iter().zip([none, largest]) {
            self.at(arm).yield_(&[site]);
        }
        let types = [Type::scalar(Scalar::U32)];
        let op = self.kernel.append(at, OpKind::If, &[fine], &types, &arms, self.loc);
        self.kernel.result(op)
    }

    fn is_one_warp(&self) -> bool {
        matches!(self.kernel.level, Level::Thread { block } if block.iter().product::<u32>() <= WARP)
    }

    fn vote(&mut self, at: Block, mode: VoteMode, holds: Value) -> Value {
        let op = self.at(at).op(OpKind::Vote(mode), &[holds], &[Type::scalar(Scalar::Bool)]);
        self.kernel.result(op)
    }

    fn largest_in_memory(&mut self, at: Block, own: Value) -> Value {
        let mut b = self.at(at);
        let shared = b.alloc(Space::Shared, Scalar::U32, Shape::new(&[1]));
        let (index, none) = (b.index(0), b.constant(Literal::zero(Scalar::U32)));
        let threads = [Axis::X, Axis::Y, Axis::Z].map(|axis| b.thread_id(axis));
        let any = threads.into_iter().reduce(|a, c| b.binary(BinaryOp::Or, a, c)).unwrap_or(index);
        let first = b.compare(CompareOp::Eq, any, index);
        b.op(OpKind::Barrier, &[], &[]);
        self.only_where(at, first, |b| b.scatter(shared, &[index], None, none, Bounds::Trust));
        self.at(at).op(OpKind::Barrier, &[], &[]);
        let found = self.at(at).compare(CompareOp::Ne, own, none);
        self.only_where(at, found, |b| {
            let (op, scope, bounds) = (AtomicOp::Max, Scope::Block, Bounds::Trust);
            let kind = OpKind::Atomic { op, scope, bounds, masked: false };
            b.op(kind, &[shared, index, own], &[Type::scalar(Scalar::U32)]);
        });
        let mut b = self.at(at);
        b.op(OpKind::Barrier, &[], &[]);
        b.gather(shared, &[index], None, none, Bounds::Trust)
    }

    /// Appends an `if` without another arm.
    pub(super) fn only_where(&mut self, at: Block, cond: Value, then: impl FnOnce(&mut Builder<'_>)) {
        let arms = [self.kernel.add_block(), self.kernel.add_block()];
        then(&mut self.at(arms[0]));
        arms.into_iter().for_each(|arm| self.at(arm).yield_(&[]));
        self.kernel.append(at, OpKind::If, &[cond], &[], &arms, self.loc);
    }
}
