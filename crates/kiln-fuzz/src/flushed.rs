//! A kernel on a device that takes subnormal numbers for zeros.
//!
//! Where that changes what comes out, nothing is known of what such a device must leave: it may
//! take some for zeros and count others in full.

use kiln_ir::{
    BinaryOp, Block, CompareOp, Kernel, Literal, Op, OpKind, Scalar, TileType, Type, UnaryOp, Value,
};

/// The kernel, in which every operand of `f32` and `bf16` that is subnormal is a zero of its sign.
pub(crate) fn with_zeros_for_subnormals(kernel: &Kernel) -> Kernel {
    let mut flushed = kernel.clone();
    let mut blocks = vec![flushed.body];
    while let Some(block) = blocks.pop() {
        for op in flushed.block(block).ops.clone() {
            blocks.extend_from_slice(&flushed.op(op).regions);
            flush_operands(&mut flushed, block, op);
        }
    }
    flushed
}

fn flush_operands(kernel: &mut Kernel, block: Block, op: Op) {
    let mut added = Vec::new();
    let mut operands = kernel.op(op).operands.clone();
    for operand in operands.iter_mut() {
        if let Some(flushed) = flush(kernel, op, *operand, &mut added) {
            *operand = flushed;
        }
    }
    kernel.op_mut(op).operands = operands;
    let ops = &mut kernel.block_mut(block).ops;
    if let Some(at) = ops.iter().position(|&other| other == op) {
        ops.splice(at..at, added);
    }
}

/// The operand with zeros in it; `None` of a type that is computed with in full everywhere.
fn flush(kernel: &mut Kernel, op: Op, operand: Value, added: &mut Vec<Op>) -> Option<Value> {
    let loc = kernel.op(op).loc;
    let tile = kernel.ty(operand).as_tile()?;
    let tile = matches!(tile.elem, Scalar::F32 | Scalar::BF16).then(|| tile.clone())?;
    let ty = Type::Tile(tile.clone());
    let truths = Type::Tile(TileType { elem: Scalar::Bool, ..tile.clone() });
    let mut add = |kind, operands: &[_], ty: &Type| {
        let op = kernel.add_op(kind, operands, std::slice::from_ref(ty), &[], loc);
        added.push(op);
        kernel.result(op)
    };
    let least = Literal::from_f64(tile.elem, f32::MIN_POSITIVE.into());
    let least = add(OpKind::Const(least), &[], &ty);
    let zero = add(OpKind::Const(Literal::zero(tile.elem)), &[], &ty);
    let size = add(OpKind::Unary(UnaryOp::Abs), &[operand], &ty);
    let is_small = add(OpKind::Compare(CompareOp::Lt), &[size, least], &truths);
    let signed = add(OpKind::Binary(BinaryOp::Mul), &[operand, zero], &ty);
    Some(add(OpKind::Select, &[is_small, signed, operand], &ty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::run::{difference, run};
    use kiln_interp::{Interp, Options};

    /// Whether zeros for subnormal numbers change what a kernel leaves that turns this literal into
    /// a bool.
    fn changes(number: &str) -> bool {
        let text = format!(
            "; @grid 1 1 1\n; @arg bool[1]: false\n\
             kernel @k(%y: mut view<bool, 1, global>) tile {{\n\
             %0 = const 0 : i64\n%1 = const {number} : f32[4]\n%2 = reduce.max %1 axis 0 : f32\n\
             %3 = cast %2 : bool\nscatter.trust %y[%0] = %3\n}}\n"
        );
        let case = Case::read(&text).unwrap();
        let interp = Interp::new(Options::default());
        let flushed = case.with(with_zeros_for_subnormals(&case.kernel));
        assert_eq!(kiln_ir::verify(&flushed.kernel), Ok(()));
        let [expected, got] = [&case, &flushed].map(|case| run(case, &interp).unwrap());
        difference(&expected, &got, 0.0).is_some()
    }

    #[test]
    fn only_subnormal_numbers_are_zeros() {
        assert!(changes("1e-45") && changes("-1e-39"));
        for number in ["1.1754944e-38", "-2.0", "-0.0", "nan", "inf"] {
            assert!(!changes(number), "{number}");
        }
    }
}
