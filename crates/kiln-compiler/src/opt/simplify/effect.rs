//! Accesses under masks that are known, and checks that hold.

use super::{Change, Cursor, Fate};
use kiln_ir::{Kernel, Literal, Op, OpKind};

/// What the mask of an access is known to be.
fn mask(kernel: &Kernel, op: Op) -> Option<bool> {
    kernel.as_const(kernel.op(op).mask()?).map(Literal::is_true)
}

pub(super) fn gather(cx: &mut Cursor<'_>, op: Op) -> Change {
    let data = cx.kernel.op(op);
    let Some(&padding) = data.operands.last() else { return Change::None };
    match mask(cx.kernel, op) {
        Some(false) if cx.kernel.ty(data.results[0]).is_scalar() => Change::Value(padding),
        Some(false) => Change::Become(OpKind::Broadcast, vec![padding]),
        _ => Change::None,
    }
}

pub(super) fn leave(cx: &mut Cursor<'_>, op: Op) -> Fate {
    let data = cx.kernel.op(op);
    let holds = |at: usize| {
        let value = data.operands.get(at);
        value.and_then(|&v| cx.kernel.as_const(v)).is_some_and(Literal::is_true)
    };
    match data.kind {
        OpKind::Assert(_)
        | OpKind::CheckBounds
        | OpKind::CheckDivisor
        | OpKind::BlockCheck(_)
        | OpKind::DeferFault { .. }
            if holds(0) =>
        {
            return Fate::Drop;
        }
        OpKind::Scatter { .. } if mask(cx.kernel, op) == Some(false) => return Fate::Drop,
        _ => {}
    }
    if mask(cx.kernel, op) == Some(true) {
        let kind = match data.kind {
            OpKind::Gather { bounds, .. } => OpKind::Gather { bounds, masked: false },
            OpKind::Scatter { bounds, .. } => OpKind::Scatter { bounds, masked: false },
            OpKind::Atomic { op, scope, bounds, .. } => OpKind::Atomic { op, scope, bounds, masked: false },
            _ => return Fate::Keep,
        };
        let mut operands = data.operands.to_vec();
        operands.remove(operands.len() - 2);
        cx.become_(op, kind, &operands);
    }
    Fate::Keep
}
