//! Control flow whose course is known.

use super::{Cursor, Fate};
use kiln_ir::{Block, ControlFlow, Kernel, Literal, Op, Value};

pub(super) fn enter(cx: &mut Cursor<'_>, op: Op) -> Fate {
    match cx.kernel.op(op).kind.control_flow() {
        Some(ControlFlow::If) => known_branch(cx, op),
        Some(ControlFlow::For) => known_loop(cx, op),
        Some(ControlFlow::While) => refused_loop(cx, op),
        Some(ControlFlow::FaultRegion | ControlFlow::Tasks) | None => Fate::Keep,
    }
}

/// Renames the results of an operation; it can go then.
fn replace(cx: &mut Cursor<'_>, op: Op, values: &[Value]) -> Fate {
    let results = cx.kernel.op(op).results.to_vec();
    for (result, &value) in results.into_iter().zip(values) {
        cx.rename(result, value);
    }
    Fate::Drop
}

/// Puts a block in the place of an operation that holds it.
fn unwrap(cx: &mut Cursor<'_>, op: Op, region: Block) -> Fate {
    let values = cx.inline(region);
    replace(cx, op, &values)
}

fn known_branch(cx: &mut Cursor<'_>, op: Op) -> Fate {
    let data = cx.kernel.op(op);
    match cx.kernel.as_const(data.condition()).map(Literal::is_true) {
        Some(taken) => {
            let region = data.regions[if taken { 0 } else { 1 }];
            unwrap(cx, op, region)
        }
        None => Fate::Keep,
    }
}

fn known_loop(cx: &mut Cursor<'_>, op: Op) -> Fate {
    let data = cx.kernel.op(op);
    let [lo, hi, step] = data.for_bounds().map(|v| cx.kernel.as_const(v).map(Literal::as_i128));
    let never = lo.zip(hi).is_some_and(|(lo, hi)| lo >= hi)
        || step.is_some_and(|s| s <= 0)
        || data.for_bounds()[0] == data.for_bounds()[1];
    let (lower, inits, region) = (data.for_bounds()[0], data.inits().to_vec(), data.regions[0]);
    if never {
        return replace(cx, op, &inits);
    }
    let (Some(lo), Some(hi), Some(step)) = (lo, hi, step) else { return Fate::Keep };
    if hi - lo > step {
        return Fate::Keep;
    }
    let args = cx.kernel.block(region).args.to_vec();
    for (arg, value) in args.into_iter().zip(std::iter::once(lower).chain(inits)) {
        cx.rename(arg, value);
    }
    unwrap(cx, op, region)
}

/// A `while` whose condition never holds runs its first region, once.
fn refused_loop(cx: &mut Cursor<'_>, op: Op) -> Fate {
    let data = cx.kernel.op(op);
    let (inits, region) = (data.operands.to_vec(), data.regions[0]);
    let condition = |kernel: &Kernel| {
        let last = *kernel.block(region).ops.last()?;
        kernel.as_const(*kernel.op(last).operands.first()?).map(Literal::is_true)
    };
    if condition(cx.kernel) != Some(false) {
        return Fate::Keep;
    }
    let args = cx.kernel.block(region).args.to_vec();
    for (arg, &value) in args.into_iter().zip(&inits) {
        cx.rename(arg, value);
    }
    cx.inline(region);
    replace(cx, op, &inits)
}
