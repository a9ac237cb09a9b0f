//! What is known before the launch.

use super::Change;
use kiln_ir::{Axis, Def, Facts, Kernel, Level, Literal, Loc, Op, OpData, OpKind, Type, Value};

/// Replaces scalar parameters whose value is part of the specialization by constants; whether any
/// was used.
pub(super) fn parameters(kernel: &mut Kernel) -> bool {
    let mut known = Vec::new();
    for (param, &value) in kernel.params.iter().zip(&kernel.block(kernel.body).args) {
        if let Some(equals) = param.facts.value.equals {
            known.push((value, Literal::wrapping(param.ty.elem(), equals.into())));
        }
    }
    let mut changed = false;
    for (param, literal) in known {
        let mut uses: Vec<Op> = Vec::new();
        kernel.walk(|op, data| uses.extend(data.operands.contains(&param).then_some(op)));
        if uses.is_empty() {
            continue;
        }
        changed = true;
        let ty = Type::scalar(literal.elem());
        let constant = kernel.add_op(OpKind::Const(literal), &[], &[ty], &[], Loc::default());
        let body = kernel.body;
        kernel.block_mut(body).ops.insert(0, constant);
        let constant = kernel.result(constant);
        for op in uses {
            let operands = &mut kernel.op_mut(op).operands;
            operands.iter_mut().filter(|v| **v == param).for_each(|v| *v = constant);
        }
    }
    changed
}

fn facts(kernel: &Kernel, view: Value) -> Option<&Facts> {
    match kernel.def(view) {
        Def::Arg(block, at) if block == kernel.body => Some(&kernel.params[at as usize].facts),
        _ => None,
    }
}

/// What is asked of the launch.
pub(super) enum Launch {
    BlockDim(Axis),
    ThreadId(Axis),
    Extent(u32),
    Stride(u32),
}

/// Extents and strides of views, and of the block.
pub(super) fn of_launch(kernel: &Kernel, data: &OpData, asked: Launch) -> Change {
    let block = |axis: usize| match kernel.level {
        Level::Thread { block } => Some(i64::from(block[axis])),
        Level::Tile { .. } => None,
    };
    let alloc = |axis: u32, stride: bool| {
        let (_, extent, inner) = kernel.alloc_shape(data.view())?.around(axis as usize);
        Some((if stride { inner } else { extent }) as i64)
    };
    let param = |axis: u32, stride: bool| {
        let facts = facts(kernel, data.view())?;
        (if stride { &facts.strides } else { &facts.extents }).get(axis as usize)?.equals
    };
    let known = match asked {
        Launch::BlockDim(axis) => block(axis as usize),
        Launch::ThreadId(axis) => block(axis as usize).filter(|&e| e == 1).map(|_| 0),
        Launch::Extent(axis) => param(axis, false).or_else(|| alloc(axis, false)),
        Launch::Stride(axis) => param(axis, true).or_else(|| alloc(axis, true)),
    };
    known.map_or(Change::None, |value| Change::Constant(Literal::index(value)))
}
