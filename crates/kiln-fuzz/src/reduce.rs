//! Making a kernel that fails smaller, so that a person can read it.
//!
//! What counts the rounds of a `while` is kept while the loop is, since otherwise it may never end,
//! and so is what says where a write goes, since otherwise it may race.

use kiln_ir::{BinaryOp, Block, Def, Kernel, Literal, Op, OpKind, Type, Value, verify};
use std::collections::HashSet;

/// Takes away what can go while the kernel remains well-formed and `fails` holds: operations
/// without results are removed, others become constants, and what is unused then goes.
pub fn reduce(kernel: &Kernel, fails: impl Fn(&Kernel) -> bool) -> Kernel {
    let mut smallest = kernel.clone();
    loop {
        let before = size(&smallest);
        let mut ops = Vec::new();
        collect(&smallest, &mut ops);
        // From the end, where the values are used that come before.
        for op in ops.into_iter().rev() {
            let Some(mut smaller) = without(&smallest, op) else { continue };
            if swept(&mut smaller) && verify(&smaller).is_ok() && fails(&smaller) {
                smallest = smaller;
            }
        }
        if size(&smallest) == before {
            return smallest;
        }
    }
}

/// Drops what is unused, unless there are fault regions, which no pass leaves as they are.
fn swept(kernel: &mut Kernel) -> bool {
    let mut fault_regions = false;
    kernel.walk(|_, data| fault_regions |= data.kind == OpKind::FaultRegion);
    fault_regions || kiln_compiler::passes::run_pass(kernel, "dce").is_ok()
}

/// The operations that may go.
fn collect(kernel: &Kernel, ops: &mut Vec<Op>) {
    let mut kept = HashSet::new();
    kernel.walk(|op, data| {
        if is_write(&data.kind) {
            data.coordinates().iter().for_each(|&v| depends_on(kernel, op, v, &mut kept));
        }
        if data.kind == OpKind::While {
            let condition = kernel.block(data.regions[0]).ops.last().map(|&last| kernel.op(last).condition());
            // Generated loops go on while `count < rounds && anything`.
            let and = |v| kernel.defining_op(v).filter(|d| d.kind == OpKind::Binary(BinaryOp::And));
            let counts = condition.map(|c| and(c).map_or(c, |d| d.left()));
            kept.extend(condition);
            counts.iter().for_each(|&v| depends_on(kernel, op, v, &mut kept));
        }
    });
    kernel.walk(|op, data| {
        // The loop's own results feed it, but it may go as a whole.
        let needed = data.kind != OpKind::While && data.results.iter().any(|v| kept.contains(v));
        ops.extend((!needed).then_some(op));
    });
}

fn is_write(kind: &OpKind) -> bool {
    use OpKind::*;
    matches!(
        kind,
        Store { .. }
            | Scatter { .. }
            | Atomic { .. }
            | AtomicCas { .. }
            | OrderedStore { .. }
            | StoreQuad(_)
            | Atomic128 { .. }
    )
}

/// Adds what a value depends on inside a loop.
fn depends_on(kernel: &Kernel, of: Op, value: Value, kept: &mut HashSet<Value>) {
    if !kept.insert(value) {
        return;
    }
    match kernel.def(value) {
        Def::Result(op, _) => {
            let data = kernel.op(op);
            data.operands.iter().for_each(|&v| depends_on(kernel, of, v, kept));
            for last in data.regions.iter().filter_map(|&r| kernel.block(r).ops.last()) {
                kernel.op(*last).operands.iter().for_each(|&v| depends_on(kernel, of, v, kept));
            }
        }
        Def::Arg(block, i) => {
            let regions = &kernel.op(of).regions;
            if regions.contains(&block) {
                let next =
                    kernel.block(regions[1]).ops.last().map(|&last| kernel.op(last).yielded()[i as usize]);
                next.iter().for_each(|&v| depends_on(kernel, of, v, kept));
            }
        }
    }
}

/// How many operations there are, constants apart.
fn size(kernel: &Kernel) -> usize {
    let mut count = 0;
    kernel.walk(|_, data| count += !matches!(data.kind, OpKind::Const(_)) as usize);
    count
}

fn without(kernel: &Kernel, op: Op) -> Option<Kernel> {
    let home = home(kernel, kernel.body, op)?;
    let mut smaller = kernel.clone();
    let data = kernel.op(op);
    if data.kind.is_terminator() || matches!(data.kind, OpKind::Const(_)) {
        return None;
    }
    let ops = &mut smaller.block_mut(home).ops;
    let at = ops.iter().position(|&o| o == op)?;
    ops.remove(at);
    // Each result becomes a constant of its type.
    for (i, &result) in data.results.iter().enumerate() {
        let tile = kernel.ty(result).as_tile()?;
        let ty = Type::Tile(tile.clone());
        let constant = smaller.add_op(OpKind::Const(Literal::one(tile.elem)), &[], &[ty], &[], data.loc);
        let value = smaller.result(constant);
        smaller.block_mut(home).ops.insert(at + i, constant);
        replace(&mut smaller, result, value);
    }
    Some(smaller)
}

fn replace(kernel: &mut Kernel, from: Value, to: Value) {
    let mut uses = Vec::new();
    kernel.walk(|op, data| uses.extend(data.operands.contains(&from).then_some(op)));
    for op in uses {
        kernel.op_mut(op).operands.iter_mut().filter(|v| **v == from).for_each(|v| *v = to);
    }
}

fn home(kernel: &Kernel, block: Block, op: Op) -> Option<Block> {
    let ops = &kernel.block(block).ops;
    if ops.contains(&op) {
        return Some(block);
    }
    let regions = ops.iter().flat_map(|&o| &kernel.op(o).regions);
    regions.into_iter().find_map(|&region| home(kernel, region, op))
}
