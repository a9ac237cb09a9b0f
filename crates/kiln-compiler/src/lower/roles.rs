//! What each value of a tile kernel becomes: a scalar, a tile that is cheaper to compute again than
//! to move, a tile that is another one seen differently, or a tile with a layout of its own.

use kiln_ir::{BinaryOp, Block, ControlFlow, ExplicitOp, Kernel, Op, OpData, OpKind, Value};

/// What a value becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// A view or a value of rank 0: one value in every thread.
    Uniform,
    /// A tile that is computed in whatever layout is asked for: constants, indices, masks.
    Rematerializable,
    /// A transposed or broadcast tile: registers of the operand under other names.
    View,
    /// A tile with a layout of its own.
    Materialized,
    /// A loaded tile that is kept in shared memory, where products read fragments of it.
    SharedStaged,
}

/// The role of every value, by index.
pub(crate) fn assign(kernel: &Kernel) -> Vec<Role> {
    let mut roles = vec![Role::Uniform; kernel.counts().0];
    let held = |roles: &mut Vec<Role>, values: &[Value]| {
        for &value in values.iter().filter(|v| is_tile(kernel, **v)) {
            roles[value.index()] = Role::Materialized;
        }
    };
    kernel.walk(|_, data| {
        for &region in &data.regions {
            held(&mut roles, &kernel.block(region).args);
        }
        match of_result(kernel, data, &roles) {
            Some(role) if is_tile(kernel, data.results[0]) => roles[data.results[0].index()] = role,
            _ => held(&mut roles, &data.results),
        }
    });
    roles
}

/// Whether a value is a tile of rank 1 or more.
pub(crate) fn is_tile(kernel: &Kernel, value: Value) -> bool {
    kernel.ty(value).as_tile().is_some_and(|t| t.shape.rank() > 0)
}

/// The role of the result of an operation that need not be held.
fn of_result(kernel: &Kernel, data: &OpData, roles: &[Role]) -> Option<Role> {
    let free =
        || data.operands.iter().all(|v| roles[v.index()] == Role::Rematerializable || !is_tile(kernel, *v));
    match &data.kind {
        OpKind::Const(_) | OpKind::Iota => Some(Role::Rematerializable),
        OpKind::Broadcast | OpKind::Reshape if !is_tile(kernel, data.input()) => Some(Role::Rematerializable),
        OpKind::Broadcast | OpKind::Transpose(_) => {
            Some(if free() { Role::Rematerializable } else { Role::View })
        }
        OpKind::Reshape => free().then_some(Role::Rematerializable),
        kind @ (OpKind::ProgramId(_)
        | OpKind::NumPrograms(_)
        | OpKind::ThreadId(_)
        | OpKind::BlockDim(_)
        | OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare(_)
        | OpKind::Select
        | OpKind::Fma
        | OpKind::Cast
        | OpKind::Bitcast
        | OpKind::Reduce { .. }
        | OpKind::Scan { .. }
        | OpKind::Dot(_)
        | OpKind::Extent(_)
        | OpKind::Stride(_)
        | OpKind::Alloc { .. }
        | OpKind::Load(_)
        | OpKind::Store { .. }
        | OpKind::Gather { .. }
        | OpKind::Scatter { .. }
        | OpKind::Atomic { .. }
        | OpKind::AtomicCas { .. }
        | OpKind::Fence(_)
        | OpKind::OrderedLoad { .. }
        | OpKind::OrderedStore { .. }
        | OpKind::LoadQuad(_)
        | OpKind::StoreQuad(_)
        | OpKind::Atomic128 { .. }
        | OpKind::Barrier
        | OpKind::WarpBarrier
        | OpKind::GridBarrier
        | OpKind::Shuffle(_)
        | OpKind::Vote(_)
        | OpKind::BlockUniform
        | OpKind::Cluster(_)
        | OpKind::AsyncCopy(_)
        | OpKind::Clock(_)
        | OpKind::InlinePtx(_)
        | OpKind::Sleep
        | OpKind::If
        | OpKind::For
        | OpKind::While
        | OpKind::Yield
        | OpKind::Condition
        | OpKind::FaultRegion
        | OpKind::Assert(_)
        | OpKind::Print(_)
        | OpKind::Explicit(_)
        | OpKind::Fragment(_)
        | OpKind::Address
        | OpKind::Scratch { .. }
        | OpKind::Linear { .. }
        | OpKind::PtrLoad { .. }
        | OpKind::PtrStore { .. }
        | OpKind::PtrAtomic { .. }
        | OpKind::PtrAtomicCas { .. }
        | OpKind::PtrOrderedLoad { .. }
        | OpKind::PtrOrderedStore { .. }
        | OpKind::PtrAtomic128 { .. }
        | OpKind::CheckBounds
        | OpKind::CheckDivisor
        | OpKind::BlockCheck(_)
        | OpKind::DeferFault { .. }
        | OpKind::Faulted) => (is_cheap(kernel, kind, data) && free()).then_some(Role::Rematerializable),
    }
}

/// Whether computing an element-wise operation twice costs less than moving its result.
fn is_cheap(kernel: &Kernel, kind: &OpKind, data: &OpData) -> bool {
    let float = |v: Value| kernel.ty(v).elem().is_float();
    if let OpKind::Unary(op) = kind {
        op.info().cheap
    } else if let OpKind::Binary(op) = kind {
        op.info().cheap || is_constant_division(kernel, *op, data) && !float(data.left())
    } else {
        matches!(kind, OpKind::Compare(_) | OpKind::Select | OpKind::Fma | OpKind::Cast | OpKind::Bitcast)
    }
}

/// Whether this divides by a constant other than zero.
fn is_constant_division(kernel: &Kernel, op: BinaryOp, data: &OpData) -> bool {
    op.info().divides && kernel.as_const(data.right()).is_some_and(|literal| literal.is_true())
}

/// Calls `visit` with every group of values that must share a layout: what an operation carries,
/// joins or combines by element.
pub(crate) fn joined(kernel: &Kernel, mut visit: impl FnMut(Value, Value)) {
    kernel.walk(|op, data| match &data.kind {
        OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare(_)
        | OpKind::Select
        | OpKind::Fma
        | OpKind::Cast
        | OpKind::Bitcast
        | OpKind::Explicit(ExplicitOp::Exp2Flushed)
        | OpKind::Reshape
        | OpKind::Scan { .. } => {
            data.operands.iter().for_each(|&v| visit(data.results[0], v));
        }
        OpKind::Dot(_) => visit(data.results[0], data.addend()),
        OpKind::Explicit(
            ExplicitOp::Wgmma { .. } | ExplicitOp::WgmmaRegisters { .. } | ExplicitOp::WgmmaWait { .. },
        ) => {
            data.results.iter().zip(data.sums()).for_each(|(&to, &from)| visit(to, from));
        }
        OpKind::Atomic { .. } | OpKind::AtomicCas { .. } => {
            data.access_values().last().into_iter().for_each(|&v| visit(data.results[0], v));
        }
        OpKind::If | OpKind::For | OpKind::While => {
            for (i, &result) in data.results.iter().enumerate() {
                carried(kernel, op, i).into_iter().for_each(|v| visit(result, v));
            }
        }
        OpKind::Const(_)
        | OpKind::Iota
        | OpKind::ProgramId(_)
        | OpKind::NumPrograms(_)
        | OpKind::ThreadId(_)
        | OpKind::BlockDim(_)
        | OpKind::Broadcast
        | OpKind::Transpose(_)
        | OpKind::Reduce { .. }
        | OpKind::Extent(_)
        | OpKind::Stride(_)
        | OpKind::Alloc { .. }
        | OpKind::Load(_)
        | OpKind::Store { .. }
        | OpKind::Gather { .. }
        | OpKind::Scatter { .. }
        | OpKind::Fence(_)
        | OpKind::OrderedLoad { .. }
        | OpKind::OrderedStore { .. }
        | OpKind::LoadQuad(_)
        | OpKind::StoreQuad(_)
        | OpKind::Atomic128 { .. }
        | OpKind::Barrier
        | OpKind::WarpBarrier
        | OpKind::GridBarrier
        | OpKind::Shuffle(_)
        | OpKind::Vote(_)
        | OpKind::BlockUniform
        | OpKind::Cluster(_)
        | OpKind::AsyncCopy(_)
        | OpKind::Clock(_)
        | OpKind::InlinePtx(_)
        | OpKind::Sleep
        | OpKind::Yield
        | OpKind::Condition
        | OpKind::FaultRegion
        | OpKind::Assert(_)
        | OpKind::Print(_)
        | OpKind::Explicit(_)
        | OpKind::Fragment(_)
        | OpKind::Address
        | OpKind::Scratch { .. }
        | OpKind::Linear { .. }
        | OpKind::PtrLoad { .. }
        | OpKind::PtrStore { .. }
        | OpKind::PtrAtomic { .. }
        | OpKind::PtrAtomicCas { .. }
        | OpKind::PtrOrderedLoad { .. }
        | OpKind::PtrOrderedStore { .. }
        | OpKind::PtrAtomic128 { .. }
        | OpKind::CheckBounds
        | OpKind::CheckDivisor
        | OpKind::BlockCheck(_)
        | OpKind::DeferFault { .. }
        | OpKind::Faulted => {}
    });
}

/// Every value that takes the place of result `i` of a control-flow operation on some path.
fn carried(kernel: &Kernel, op: Op, i: usize) -> Vec<Value> {
    let data = kernel.op(op);
    let yielded = |block: Block| yields(kernel, block).get(i).copied();
    let arg = |region: usize, at: usize| kernel.block(data.regions[region]).args.get(at).copied();
    let init = || data.inits().get(i).copied();
    let all = match data.kind.control_flow() {
        Some(ControlFlow::For) => [init(), arg(0, 1 + i), yielded(data.regions[0]), None],
        Some(ControlFlow::While) => [init(), arg(0, i), arg(1, i), yielded(data.regions[1])],
        Some(ControlFlow::If) => [yielded(data.regions[0]), yielded(data.regions[1]), None, None],
        // They carry nothing.
        Some(ControlFlow::FaultRegion | ControlFlow::Tasks) | None => [None; 4],
    };
    all.into_iter().flatten().collect()
}

/// The values a region ends with.
fn yields(kernel: &Kernel, block: Block) -> &[Value] {
    kernel.block(block).ops.last().map_or(&[], |&op| kernel.op(op).yielded())
}
