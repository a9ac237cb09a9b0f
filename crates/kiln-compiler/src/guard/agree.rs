//! What one thread has found becomes known to its block, through shared memory: its result is uniform.

use super::Lowering;
use kiln_ir::{
    AtomicOp, Axis, BinaryOp, Block, Bounds, CompareOp, Literal, Op, OpKind, Scalar, Scope, Shape, Space,
    Type, Value,
};

impl Lowering<'_> {
    /// Whether a condition holds in every thread of the block. All of them must get here.
    pub(super) fn all_of_block(&mut self, at: Block, holds: Value) -> Value {
        let none = self.site_constant(at, 0);
        let some = self.site_constant(at, 1);
        let own = self.at(at).select(holds, none, some);
        let largest = self.largest_of_block(at, own);
        self.is_fine(at, largest)
    }

    /// The site of an operation with regions: if threads part in it and the block is concerned, the largest one among them.
    pub(super) fn agreed_site(&mut self, op: Op, at: Block, site: Value) -> Value {
        let agree = self.guards.concerns_block(op) && self.guards.parts_threads(self.kernel, op);
        if agree { self.largest_of_block(at, site) } else { site }
    }

    fn largest_of_block(&mut self, at: Block, own: Value) -> Value {
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
            let kind = OpKind::Atomic {
                op: AtomicOp::Max,
                scope: Scope::Block,
                bounds: Bounds::Trust,
                masked: false,
            };
            b.op(kind, &[shared, index, own], &[Type::scalar(Scalar::U32)]);
        });
        let mut b = self.at(at);
        b.op(OpKind::Barrier, &[], &[]);
        b.gather(shared, &[index], None, none, Bounds::Trust)
    }

    /// Appends an `if` without another arm.
    fn only_where(&mut self, at: Block, cond: Value, then: impl FnOnce(&mut kiln_ir::Builder<'_>)) {
        let arms = [self.kernel.add_block(), self.kernel.add_block()];
        then(&mut self.at(arms[0]));
        arms.into_iter().for_each(|arm| self.at(arm).yield_(&[]));
        self.kernel.append(at, OpKind::If, &[cond], &[], &arms, self.loc);
    }
}
