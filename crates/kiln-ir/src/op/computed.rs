//! Operations that compute values, for stages that look at nothing else: a `match` on them is short
//! and yet complete.

use super::{Axis, BinaryOp, CompareOp, OpKind, UnaryOp};
use crate::literal::Literal;
use crate::types::Shape;

/// A value that depends on operands and on the place in the launch alone, as analyses of
/// arithmetic see it.
///
/// ```
/// use kiln_ir::{Axis, BinaryOp, Computed, OpKind};
/// assert_eq!(OpKind::Binary(BinaryOp::Add).computed(), Some(Computed::Binary(BinaryOp::Add)));
/// assert_eq!(OpKind::ProgramId(Axis::X).computed(), Some(Computed::ProgramId(Axis::X)));
/// assert_eq!(OpKind::Barrier.computed(), None); // it does more than compute
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Computed<'a> {
    /// Every element is the literal.
    Const(Literal),
    /// 0, 1, 2, …
    Iota,
    /// Which program this is.
    ProgramId(Axis),
    /// How many programs there are.
    NumPrograms(Axis),
    /// Which thread of its block this is.
    ThreadId(Axis),
    /// How many threads a block has.
    BlockDim(Axis),
    /// An extent of a view.
    Extent(u32),
    /// A stride of a view.
    Stride(u32),
    /// An element-wise operation with one operand.
    Unary(UnaryOp),
    /// An element-wise operation with two operands.
    Binary(BinaryOp),
    /// An element-wise comparison.
    Compare(CompareOp),
    /// A choice by element.
    Select,
    /// A multiply-add by element.
    Fma,
    /// A conversion of the number.
    Cast,
    /// The same bits as another type.
    Bitcast,
    /// A tile that is stretched.
    Broadcast,
    /// The elements under another shape.
    Reshape,
    /// The elements with their axes in another order.
    Transpose(&'a Shape),
    /// The value of the block's first thread.
    BlockUniform,
}

impl OpKind {
    /// The value that the operation computes, if that is all it does.
    pub fn computed(&self) -> Option<Computed<'_>> {
        use OpKind::*;
        Some(match self {
            Const(literal) => Computed::Const(*literal),
            Iota => Computed::Iota,
            ProgramId(axis) => Computed::ProgramId(*axis),
            NumPrograms(axis) => Computed::NumPrograms(*axis),
            ThreadId(axis) => Computed::ThreadId(*axis),
            BlockDim(axis) => Computed::BlockDim(*axis),
            Extent(axis) => Computed::Extent(*axis),
            Stride(axis) => Computed::Stride(*axis),
            Unary(op) => Computed::Unary(*op),
            Binary(op) => Computed::Binary(*op),
            Compare(op) => Computed::Compare(*op),
            Select => Computed::Select,
            Fma => Computed::Fma,
            Cast => Computed::Cast,
            Bitcast => Computed::Bitcast,
            Broadcast => Computed::Broadcast,
            Reshape => Computed::Reshape,
            Transpose(perm) => Computed::Transpose(perm),
            BlockUniform => Computed::BlockUniform,
            // Combinations of elements.
            Reduce { .. } | Scan { .. } | Dot(_) => return None,
            // Memory, and communication among threads.
            Alloc { .. }
            | Load(_)
            | Store { .. }
            | Gather { .. }
            | Scatter { .. }
            | Atomic { .. }
            | AtomicCas { .. }
            | Fence(_)
            | OrderedLoad { .. }
            | OrderedStore { .. }
            | LoadQuad(_)
            | StoreQuad(_)
            | Atomic128 { .. }
            | Barrier
            | WarpBarrier
            | GridBarrier
            | Shuffle(_)
            | Vote(_)
            | Cluster(_)
            | AsyncCopy(_)
            | Clock(_)
            | InlinePtx(_)
            | Sleep => return None,
            If | For | While | Yield | Condition | FaultRegion | Assert(_) | Print(_) => return None,
            Explicit(_) => return None,
            // Made by the lowering.
            Fragment(_)
            | Linear { .. }
            | Address
            | Scratch { .. }
            | PtrLoad { .. }
            | PtrStore { .. }
            | PtrAtomic { .. }
            | PtrAtomicCas { .. }
            | PtrOrderedLoad { .. }
            | PtrOrderedStore { .. }
            | PtrAtomic128 { .. }
            | CheckBounds
            | CheckDivisor
            | BlockCheck(_)
            | DeferFault { .. }
            | Faulted => return None,
        })
    }
}
