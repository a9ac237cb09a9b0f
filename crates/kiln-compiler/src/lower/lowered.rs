//! Kernels that are over threads already: what the lowering makes, written by hand or read back.
//!
//! Needs: a kernel that the verifier accepts. After: such a kernel is left as it is, or refused by
//! the name of what has no place in it.

use crate::error::CompileError;
use kiln_ir::{ExplicitOp, Kernel, Level, OpData, OpKind};

/// Whether a kernel has operations that only the lowering makes. One that has is a lowered kernel,
/// or an error.
///
/// # Errors
/// [`CompileError::Unsupported`] names the first operation that is above those of a lowered kernel.
pub(super) fn is_lowered(kernel: &Kernel) -> Result<bool, CompileError> {
    let threads = matches!(kernel.level, Level::Thread { .. });
    let (mut lowered, mut above) = (false, None);
    kernel.walk(|_, data| {
        // The explicit level is one of kernels over tiles; over threads it is what became of it.
        lowered |= data.kind.is_below_tiles() || threads && matches!(data.kind, OpKind::Explicit(_));
        if above.is_none() && is_above(kernel, data) {
            above = Some((data.kind.mnemonic(), data.loc));
        }
    });
    match above.filter(|_| lowered) {
        None => Ok(lowered),
        Some((name, loc)) => Err(CompileError::Unsupported {
            location: kernel.describe(loc),
            what: format!("`{name}` beside operations below the tile level"),
            hint: "write all of the kernel over tiles, or all of it over scalars and addresses".into(),
        }),
    }
}

/// Whether an operation is one that lowered kernels do not have.
fn is_above(kernel: &Kernel, data: &OpData) -> bool {
    use OpKind::*;
    let tiles = |values: &[kiln_ir::Value]| {
        values.iter().any(|v| kernel.ty(*v).as_tile().is_some_and(|tile| tile.shape.rank() > 0))
    };
    if tiles(&data.operands) || tiles(&data.results) {
        return true;
    }
    match &data.kind {
        // Those of the explicit level that become others.
        Explicit(op) => matches!(
            op,
            ExplicitOp::TaskBarrier
                | ExplicitOp::Signal
                | ExplicitOp::SignalWait
                | ExplicitOp::SharedStore { .. }
                | ExplicitOp::SharedLoad
        ),
        Iota
        | Broadcast
        | Reshape
        | Transpose(_)
        | Reduce { .. }
        | Scan { .. }
        | Dot(_)
        | Load(_)
        | Store { .. }
        | Gather { .. }
        | Scatter { .. }
        | Atomic { .. }
        | AtomicCas { .. }
        | OrderedLoad { .. }
        | OrderedStore { .. }
        | LoadQuad(_)
        | StoreQuad(_)
        | Atomic128 { .. }
        | BlockUniform
        | FaultRegion => true,
        Const(_)
        | ProgramId(_)
        | NumPrograms(_)
        | ThreadId(_)
        | BlockDim(_)
        | Unary(_)
        | Binary(_)
        | Compare(_)
        | Select
        | Fma
        | Cast
        | Bitcast
        | Extent(_)
        | Stride(_)
        | Alloc { .. }
        | Fence(_)
        | Barrier
        | WarpBarrier
        | GridBarrier
        | Shuffle(_)
        | Vote(_)
        | Cluster(_)
        | AsyncCopy(_)
        | Clock(_)
        | InlinePtx(_)
        | Sleep
        | If
        | For
        | While
        | Yield
        | Condition
        | Assert(_)
        | Print(_)
        | Fragment(_)
        | Address
        | Scratch { .. }
        | Linear { .. }
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
        | Faulted => false,
    }
}
