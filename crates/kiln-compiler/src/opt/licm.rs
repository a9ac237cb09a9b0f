//! Loop-invariant code motion: a pure operation in a loop whose operands come from outside moves
//! before the loop.
//!
//! Loads are not moved, since memory may change. Nor are operations inside an `if`, since the loop
//! may never reach them.

use kiln_ir::{Block, Def, Kernel, Op, OpKind};

pub(crate) fn run(kernel: &mut Kernel) -> bool {
    let (_, ops, blocks) = kernel.counts();
    let mut home = Home { of_op: vec![None; ops], parent: vec![None; blocks] };
    home.locate(kernel, kernel.body);
    let body = kernel.body;
    hoist_in(kernel, &mut home, body)
}

/// Where operations and blocks stand.
struct Home {
    /// By operation: its block.
    of_op: Vec<Option<Block>>,
    /// By block: the operation whose region it is.
    parent: Vec<Option<Op>>,
}

impl Home {
    fn locate(&mut self, kernel: &Kernel, block: Block) {
        for &op in &kernel.block(block).ops {
            self.of_op[op.index()] = Some(block);
            for &region in &kernel.op(op).regions {
                self.parent[region.index()] = Some(op);
                self.locate(kernel, region);
            }
        }
    }

    /// Whether a block is inside an operation.
    fn is_inside(&self, mut block: Block, op: Op) -> bool {
        while let Some(parent) = self.parent[block.index()] {
            if parent == op {
                return true;
            }
            match self.of_op[parent.index()] {
                Some(outer) => block = outer,
                None => return false,
            }
        }
        false
    }
}

/// Hoists out of the loops of a block, inner ones first; whether anything moved.
fn hoist_in(kernel: &mut Kernel, home: &mut Home, block: Block) -> bool {
    let mut changed = false;
    let ops = std::mem::take(&mut kernel.block_mut(block).ops);
    let mut kept = Vec::with_capacity(ops.len());
    for op in ops {
        let regions = kernel.op(op).regions.clone();
        for &region in &regions {
            changed |= hoist_in(kernel, home, region);
        }
        if matches!(kernel.op(op).kind, OpKind::For | OpKind::While) {
            for &region in &regions {
                let moved = invariants(kernel, home, op, region, block);
                changed |= !moved.is_empty();
                kept.extend(moved);
            }
        }
        kept.push(op);
    }
    kernel.block_mut(block).ops = kept;
    changed
}

/// Takes the invariant operations out of a region of a loop; they belong to the block around the
/// loop then.
fn invariants(kernel: &mut Kernel, home: &mut Home, of: Op, region: Block, around: Block) -> Vec<Op> {
    let ops = std::mem::take(&mut kernel.block_mut(region).ops);
    let (mut moved, mut kept) = (Vec::new(), Vec::with_capacity(ops.len()));
    for op in ops {
        let from_outside = |home: &Home| {
            kernel.op(op).operands.iter().all(|&v| match kernel.def(v) {
                Def::Arg(block, _) => block != region && !home.is_inside(block, of),
                Def::Result(def, _) => home.of_op[def.index()].is_some_and(|b| !home.is_inside(b, of)),
            })
        };
        if kernel.is_pure(op) && from_outside(home) {
            home.of_op[op.index()] = Some(around);
            moved.push(op);
        } else {
            kept.push(op);
        }
    }
    kernel.block_mut(region).ops = kept;
    moved
}
