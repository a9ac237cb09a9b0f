//! Values that flow through control flow unchanged: what a loop carries but never changes, and what
//! both branches of an `if` agree on. They are replaced by where they come from; dead-code
//! elimination then takes the places they flowed through.

use super::rewrite::{Cursor, Fate, Pass, rewrite};
use kiln_ir::{Block, Kernel, Op, OpKind, Value};

pub(crate) fn run(kernel: &mut Kernel) -> bool {
    rewrite(kernel, &mut Invariant)
}

struct Invariant;

impl Pass for Invariant {
    fn enter(&mut self, cx: &mut Cursor<'_>, op: Op) -> Fate {
        let kind = &cx.kernel.op(op).kind;
        if *kind == OpKind::For {
            carried(cx, op, 1);
        } else if *kind == OpKind::While {
            carried(cx, op, 0);
        }
        Fate::Keep
    }

    fn leave(&mut self, cx: &mut Cursor<'_>, op: Op) -> Fate {
        if cx.kernel.op(op).kind == OpKind::If {
            agreed(cx, op);
        }
        Fate::Keep
    }
}

fn terminator(kernel: &Kernel, region: Block) -> &[Value] {
    kernel.block(region).ops.last().map_or(&[], |&last| &kernel.op(last).operands)
}

/// A carried value that every round hands on as it got it is its initial value.
fn carried(cx: &mut Cursor<'_>, op: Op, first_arg: usize) {
    let data = cx.kernel.op(op);
    let mut renames = Vec::new();
    if let Some(&last) = data.regions.last() {
        let next = terminator(cx.kernel, last);
        for (i, &init) in data.inits().iter().enumerate() {
            let arg = cx.kernel.block(last).args[first_arg + i];
            if next[i] == arg || next[i] == init {
                let args = data.regions.iter().map(|&r| cx.kernel.block(r).args[first_arg + i]);
                renames.extend(args.chain([data.results[i]]).map(|v| (v, init)));
            }
        }
    }
    for (from, to) in renames {
        cx.rename(from, to);
    }
}

/// A result that both branches give the same value is that value.
fn agreed(cx: &mut Cursor<'_>, op: Op) {
    let data = cx.kernel.op(op);
    let [then, other] = data.regions[..] else { return };
    let pairs = terminator(cx.kernel, then).iter().zip(terminator(cx.kernel, other)).zip(&data.results);
    let renames: Vec<(Value, Value)> =
        pairs.filter(|((a, b), _)| a == b).map(|((&a, _), &result)| (result, a)).collect();
    for (from, to) in renames {
        cx.rename(from, to);
    }
}
