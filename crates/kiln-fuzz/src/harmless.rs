//! A kernel whose checks end nothing.
//!
//! The interpreter ends a launch with its first fault. On other devices other programs, and other
//! threads, go on to faults of their own: what they do is only known to be allowed if a kernel that
//! goes on everywhere keeps the rules too.

use kiln_ir::{
    BinaryOp, Block, Bounds, CompareOp, Kernel, Literal, Op, OpKind, Operand, Scalar, TileType, Type,
};

/// The kernel without asserts, with masks in place of checked indices, and with divisors of which
/// none is zero.
pub(crate) fn without_faults(kernel: &Kernel) -> Kernel {
    let mut harmless = kernel.clone();
    let mut blocks = vec![harmless.body];
    while let Some(block) = blocks.pop() {
        for op in harmless.block(block).ops.clone() {
            blocks.extend_from_slice(&harmless.op(op).regions);
            calm(&mut harmless, block, op);
        }
    }
    harmless
}

/// Takes the fault from an operation of a block.
fn calm(kernel: &mut Kernel, block: Block, op: Op) {
    let kind = &mut kernel.op_mut(op).kind;
    if let OpKind::Assert(_) = kind {
        kernel.block_mut(block).ops.retain(|&other| other != op);
    } else if let OpKind::Binary(BinaryOp::Div | BinaryOp::Rem) = kind {
        calm_division(kernel, block, op);
    } else if let OpKind::Gather { bounds, .. }
    | OpKind::Scatter { bounds, .. }
    | OpKind::Atomic { bounds, .. }
    | OpKind::AtomicCas { bounds, .. }
    | OpKind::OrderedLoad { bounds, .. }
    | OpKind::OrderedStore { bounds, .. } = kind
        && *bounds == Bounds::Check
    {
        *bounds = Bounds::Mask;
    }
}

/// Divides by one where the divisor is zero.
fn calm_division(kernel: &mut Kernel, block: Block, op: Op) {
    let (loc, divisor) = (kernel.op(op).loc, kernel.op(op).right());
    let Some(tile) = kernel.ty(divisor).as_tile().filter(|tile| tile.elem.is_int()).cloned() else { return };
    let ty = Type::Tile(tile.clone());
    let truths = Type::Tile(TileType { elem: Scalar::Bool, ..tile.clone() });
    let mut added = Vec::new();
    let mut add = |kind, operands: &[_], ty: &Type| {
        let op = kernel.add_op(kind, operands, std::slice::from_ref(ty), &[], loc);
        added.push(op);
        kernel.result(op)
    };
    let zero = add(OpKind::Const(Literal::zero(tile.elem)), &[], &ty);
    let one = add(OpKind::Const(Literal::one(tile.elem)), &[], &ty);
    let is_zero = add(OpKind::Compare(CompareOp::Eq), &[divisor, zero], &truths);
    let calm = add(OpKind::Select, &[is_zero, one, divisor], &ty);
    kernel.op_mut(op).set_operand(Operand::Right, calm);
    let ops = &mut kernel.block_mut(block).ops;
    if let Some(at) = ops.iter().position(|&other| other == op) {
        ops.splice(at..at, added);
    }
}
