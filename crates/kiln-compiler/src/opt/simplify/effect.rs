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
    if data.kind.is_check() && cx.kernel.as_const(data.condition()).is_some_and(Literal::is_true) {
        return Fate::Drop;
    }
    let known = mask(cx.kernel, op);
    if matches!(data.kind, OpKind::Scatter { .. }) && known == Some(false) {
        return Fate::Drop;
    }
    let mut kind = data.kind.clone();
    if let (Some(masked), Some(true)) = (kind.masked_mut(), known) {
        *masked = false;
        let mut operands = data.operands.to_vec();
        operands.remove(operands.len() - 2);
        cx.become_(op, kind, &operands);
    }
    Fate::Keep
}
