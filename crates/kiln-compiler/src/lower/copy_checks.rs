//! Checks of where bulk copies begin.
//!
//! The copy engine takes boxes only that begin at a multiple of 16 bytes of a row: at any other
//! place it ends the GPU's context with "illegal instruction" (seen on an H200, for loads, stores
//! and prefetches). Copies that are not known to begin at one are checked first, and begin at the
//! one before if they fail, since a thread that fails a check goes on where others wait for it.
//! Stores have no check: who writes one has promised it.

use super::facts::IntFacts;
use kiln_ir::{BinaryOp, Block, Builder, CompareOp, ExplicitOp, Kernel, Op, OpData, OpKind, Operand};

/// The kernel with checks; `None` if none is needed.
pub(super) fn checked(kernel: &Kernel) -> Option<Kernel> {
    let mut begin = Vec::new();
    kernel.walk(|op, data| {
        if let OpKind::Explicit(ExplicitOp::TmaLoad { .. } | ExplicitOp::TmaPrefetch { .. }) = data.kind {
            begin.push((op, ExplicitOp::copied_together(kernel.ty(data.view()).elem())));
        }
    });
    if begin.is_empty() {
        return None;
    }
    let mut facts = IntFacts::new(kernel);
    begin.retain(|&(op, elements)| {
        let data = kernel.op(op);
        !facts.of(data.coordinates()[adjacent(data)]).divisor.is_multiple_of(u64::from(elements))
    });
    if begin.is_empty() {
        return None;
    }
    let mut out = kernel.clone();
    for block in (0..kernel.counts().2).map(Block::from_index) {
        for op in std::mem::take(&mut out.block_mut(block).ops) {
            if let Some(&(_, elements)) = begin.iter().find(|(unchecked, _)| *unchecked == op) {
                check(&mut out, block, op, elements);
            }
            out.block_mut(block).ops.push(op);
        }
    }
    Some(out)
}

/// The axis along which the elements of a load's or prefetch's view are adjacent.
fn adjacent(data: &OpData) -> usize {
    let transposed = matches!(data.kind, OpKind::Explicit(ExplicitOp::TmaLoad { transposed: true, .. }));
    data.coordinates().len() - 1 - usize::from(transposed)
}

/// Checks a copy before it.
fn check(kernel: &mut Kernel, block: Block, op: Op, elements: u32) {
    let (data, loc) = (kernel.op(op), kernel.op(op).loc);
    let axis = adjacent(data);
    let begins = data.coordinates()[axis];
    let message = kernel.message(ExplicitOp::BEGINS_BETWEEN);
    let mut b = Builder { kernel, block, loc };
    let (whole, together) = (b.index(-i64::from(elements)), b.index(i64::from(elements)));
    let rounded = b.binary(BinaryOp::And, begins, whole);
    let fine = b.compare(CompareOp::Eq, rounded, begins);
    b.op(OpKind::Assert(message), &[fine, begins, together], &[]);
    if let Some(place) = kernel.op_mut(op).named_mut(Operand::Offset).get_mut(axis) {
        *place = rounded;
    }
}
