//! If-conversion: a small `if` over scalars without effects becomes its operations and selections,
//! which is what short-circuit logic and predicated arithmetic want to be.

use super::rewrite::{Cursor, Fate, Pass, rewrite};
use kiln_ir::{Block, Kernel, Op, OpKind};

/// How much more than the branch that is taken may be computed, in simple operations.
const BUDGET: u32 = 8;

pub(crate) fn run(kernel: &mut Kernel) -> bool {
    rewrite(kernel, &mut IfConvert)
}

struct IfConvert;

impl Pass for IfConvert {
    fn leave(&mut self, cx: &mut Cursor<'_>, op: Op) -> Fate {
        let data = cx.kernel.op(op);
        if data.kind != OpKind::If || !data.results.iter().all(|&v| cx.kernel.ty(v).is_scalar()) {
            return Fate::Keep;
        }
        let (cond, results) = (data.condition(), data.results.to_vec());
        let [then, other] = data.regions[..] else { return Fate::Keep };
        let cost = [then, other].map(|region| cost(cx.kernel, region));
        let [Some(a), Some(b)] = cost else { return Fate::Keep };
        if a + b + results.len() as u32 > BUDGET {
            return Fate::Keep;
        }
        let (yes, no) = (cx.splice(then), cx.splice(other));
        for ((result, yes), no) in results.into_iter().zip(yes).zip(no) {
            let ty = cx.kernel.ty(result).clone();
            let chosen = cx.emit(OpKind::Select, &[cond, yes, no], ty);
            cx.rename(result, chosen);
        }
        Fate::Drop
    }
}

/// What a region costs in simple operations; `None` if it does more than compute scalars.
fn cost(kernel: &Kernel, region: Block) -> Option<u32> {
    let mut sum = 0;
    for &op in &kernel.block(region).ops {
        let data = kernel.op(op);
        if data.kind == OpKind::Yield {
            continue;
        }
        let scalars = data.results.iter().chain(&data.operands).all(|&v| kernel.ty(v).is_scalar());
        if !kernel.is_pure(op) || !scalars {
            return None;
        }
        sum += if let OpKind::Const(_) = data.kind {
            0
        } else {
            let cheap = if let OpKind::Binary(op) = data.kind {
                op.info().cheap
            } else if let OpKind::Unary(op) = data.kind {
                op.info().cheap
            } else {
                true
            };
            if cheap { 1 } else { 4 }
        };
    }
    Some(sum)
}
