//! Products of warpgroups that are still under way when the next round of their loop begins, so
//! that matrix units need not wait for the barrier between.
//!
//! Such a product adds to what its loop carries and nothing else in the loop reads that, and its
//! factors are stages of the loop. Its sums remain in the registers in which it makes them, from
//! round to round.

use super::layouts::LayoutId;
use super::plan::LayoutPlan;
use super::products::Unit;
use kiln_ir::{Block, Kernel, Op, OpKind, Value};
use rustc_hash::FxHashMap;

/// The fewest stages: what is copied, what is there, and what is still read.
const FEWEST: u32 = 3;

/// Finds them, once it is settled which layout each tile has.
pub(crate) fn find(kernel: &Kernel, plan: &mut LayoutPlan) {
    let enough = plan.pipelines.by_loop.iter().filter(|(_, pipeline)| pipeline.stages >= FEWEST);
    let loops: Vec<Op> = enough.map(|(&op, _)| op).collect();
    if loops.is_empty() {
        return;
    }
    let mut uses: FxHashMap<Value, u32> = FxHashMap::default();
    kernel.walk(|_, data| data.operands.iter().for_each(|&v| *uses.entry(v).or_default() += 1));
    for at in loops {
        let body = kernel.op(at).regions[0];
        let ops = &kernel.block(body).ops;
        let found: Vec<Op> =
            ops.iter().copied().filter(|&op| flows(kernel, plan, &uses, (at, body), op)).collect();
        if let Some(pipeline) = plan.pipelines.by_loop.get_mut(&at) {
            pipeline.in_flight = found;
        }
    }
}

fn flows(
    kernel: &Kernel,
    plan: &LayoutPlan,
    uses: &FxHashMap<Value, u32>,
    (at, body): (Op, Block),
    op: Op,
) -> bool {
    let Some(product) = plan.products.by_op.get(&op).filter(|p| p.unit == Unit::Warpgroups && !p.two_level)
    else {
        return false;
    };
    let (data, block) = (kernel.op(op), kernel.block(body));
    let staged = |v: &Value| plan.pipelines.staged.get(v).is_some_and(|(of, _)| *of == at);
    let (before, after) = (data.addend(), data.results[0]);
    // The first argument of the body is the round.
    let Some(place) = block.args.iter().position(|&arg| arg == before).and_then(|i| i.checked_sub(1)) else {
        return false;
    };
    let handed_on = block.ops.last().map(|&end| kernel.op(end));
    let carried =
        handed_on.is_some_and(|end| end.kind == OpKind::Yield && end.operands.get(place) == Some(&after));
    let result = kernel.op(at).results[place];
    let once = |v: Value| uses.get(&v) == Some(&1);
    let in_place = |v: Value| plan.home(v) == product.sums && only(plan, v, product.sums);
    carried
        && [data.left(), data.right()].iter().all(staged)
        && [before, after].into_iter().all(|v| once(v) && in_place(v))
        && plan.home(result) == product.sums
}

/// Whether a tile is used in no other layout.
fn only(plan: &LayoutPlan, value: Value, layout: LayoutId) -> bool {
    plan.wanted(value).iter().all(|&wanted| wanted == layout)
}
