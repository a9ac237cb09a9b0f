//! Dead code: operations whose results are not used, and places in control flow through which
//! nothing of use flows.
//!
//! What has an effect is live, and what a live thing uses. A value that a loop carries is live if
//! its result is, or if its argument is used by something live in the loop: handing itself on is no
//! use. Loops are taken to end.

use super::rewrite::Renames;
use kiln_ir::{BinaryOp, Block, Def, Kernel, Op, OpKind, Type, Value};

pub(crate) fn run(kernel: &mut Kernel) -> bool {
    let mut liveness = Liveness::new(kernel);
    liveness.find(kernel);
    let mut sweep = Sweep { liveness, renames: Renames::default(), changed: false };
    let body = kernel.body;
    sweep.block(kernel, body);
    sweep.changed
}

struct Liveness {
    values: Vec<bool>,
    ops: Vec<bool>,
    /// By block: the operation whose region it is.
    parent: Vec<Option<Op>>,
    /// By operation: its block.
    home: Vec<Option<Block>>,
    /// Values that have become live and whose origin is still to be marked.
    todo: Vec<Value>,
}

/// Where carried values begin among the arguments of a loop's regions.
fn carried_from(kind: &OpKind) -> Option<usize> {
    if let OpKind::For = kind {
        Some(1)
    } else if let OpKind::While = kind {
        Some(0)
    } else {
        None
    }
}

fn terminator(kernel: &Kernel, region: Block) -> Option<Op> {
    kernel.block(region).ops.last().copied()
}

fn stays(kernel: &Kernel, op: Op) -> bool {
    let data = kernel.op(op);
    let may_fault = matches!(data.kind, OpKind::Binary(BinaryOp::Div | BinaryOp::Rem)) && !kernel.is_pure(op);
    may_fault || (data.kind.has_effect() && !data.kind.is_terminator())
}

impl Liveness {
    fn new(kernel: &Kernel) -> Liveness {
        let (values, ops, blocks) = kernel.counts();
        let mut liveness = Liveness {
            values: vec![false; values],
            ops: vec![false; ops],
            parent: vec![None; blocks],
            home: vec![None; ops],
            todo: Vec::new(),
        };
        liveness.locate(kernel, kernel.body);
        liveness
    }

    fn locate(&mut self, kernel: &Kernel, block: Block) {
        for &op in &kernel.block(block).ops {
            self.home[op.index()] = Some(block);
            for &region in &kernel.op(op).regions {
                self.parent[region.index()] = Some(op);
                self.locate(kernel, region);
            }
        }
    }

    fn find(&mut self, kernel: &Kernel) {
        let mut roots = Vec::new();
        kernel.walk(|op, _| roots.extend(stays(kernel, op).then_some(op)));
        for op in roots {
            self.op(kernel, op);
        }
        while let Some(value) = self.todo.pop() {
            match kernel.def(value) {
                Def::Result(op, i) => {
                    self.op(kernel, op);
                    self.flow(kernel, op, i as usize);
                }
                Def::Arg(block, i) => {
                    let Some(op) = self.parent[block.index()] else { continue };
                    self.op(kernel, op);
                    let first = carried_from(&kernel.op(op).kind).unwrap_or(0);
                    if let Some(i) = (i as usize).checked_sub(first) {
                        self.flow(kernel, op, i);
                    }
                }
            }
        }
    }

    fn value(&mut self, value: Value) {
        if !std::mem::replace(&mut self.values[value.index()], true) {
            self.todo.push(value);
        }
    }

    /// Marks an operation, those that hold it, and what they need whatever flows through them.
    fn op(&mut self, kernel: &Kernel, op: Op) {
        if std::mem::replace(&mut self.ops[op.index()], true) {
            return;
        }
        let data = kernel.op(op);
        let flows = matches!(data.kind, OpKind::If | OpKind::For | OpKind::While);
        let control = if flows { data.control() } else { &data.operands };
        control.iter().for_each(|&v| self.value(v));
        if data.kind == OpKind::While
            && let Some(condition) = terminator(kernel, data.regions[0])
        {
            kernel.op(condition).operands.iter().for_each(|&v| self.value(v));
        }
        if let Some(holder) = self.home[op.index()].and_then(|block| self.parent[block.index()]) {
            self.op(kernel, holder);
        }
    }

    /// Marks everything that ends up in result `i` of an operation with regions.
    fn flow(&mut self, kernel: &Kernel, op: Op, i: usize) {
        let data = kernel.op(op);
        let regions = &data.regions;
        let mut through: Vec<Value> = Vec::new();
        if let Some(arg) = carried_from(&data.kind) {
            through.push(data.inits()[i]);
            through.extend(regions.iter().map(|&r| kernel.block(r).args[arg + i]));
            through.push(data.results[i]);
        }
        for &region in regions {
            let last = terminator(kernel, region).map(|last| kernel.op(last));
            through.extend(last.filter(|l| l.kind == OpKind::Yield).map(|l| l.yielded()[i]));
        }
        through.into_iter().for_each(|v| self.value(v));
    }
}

struct Sweep {
    liveness: Liveness,
    renames: Renames,
    changed: bool,
}

impl Sweep {
    fn is_live(&self, value: Value) -> bool {
        self.liveness.values.get(value.index()).copied().unwrap_or(true)
    }

    fn block(&mut self, kernel: &mut Kernel, block: Block) {
        let ops = std::mem::take(&mut kernel.block_mut(block).ops);
        let mut kept = Vec::with_capacity(ops.len());
        for op in ops {
            let terminator = kernel.op(op).kind.is_terminator();
            if !self.liveness.ops[op.index()] && !terminator {
                self.changed = true;
                continue;
            }
            self.renames.apply(kernel, op);
            let op = if kernel.op(op).regions.is_empty() { op } else { self.narrow(kernel, op) };
            for region in kernel.op(op).regions.clone() {
                self.block(kernel, region);
            }
            kept.push(op);
        }
        kernel.block_mut(block).ops = kept;
    }

    /// Drops the dead results of an operation with regions, and all that only flows there.
    fn narrow(&mut self, kernel: &mut Kernel, op: Op) -> Op {
        let data = kernel.op(op).clone();
        let live: Vec<bool> = data.results.iter().map(|&v| self.is_live(v)).collect();
        if live.iter().all(|&l| l) {
            return op;
        }
        self.changed = true;
        let keep = |values: &[Value]| -> Vec<Value> {
            values.iter().zip(&live).filter(|(_, l)| **l).map(|(&v, _)| v).collect()
        };
        let results = keep(&data.results);
        let types: Vec<Type> = results.iter().map(|&v| kernel.ty(v).clone()).collect();
        let mut operands = data.operands.to_vec();
        let mut regions = data.regions.to_vec();
        if let Some(arg) = carried_from(&data.kind) {
            operands = [data.control(), &keep(data.inits())].concat();
            for region in &mut regions {
                let args = kernel.block(*region).args.to_vec();
                let args = [&args[..arg], &keep(&args[arg..])].concat();
                *region = self.move_block(kernel, *region, &args);
            }
        }
        for &region in &regions {
            if let Some(last) = terminator(kernel, region)
                && kernel.op(last).kind == OpKind::Yield
            {
                kernel.op_mut(last).operands = keep(&kernel.op(last).operands).into();
            }
        }
        let new = kernel.add_op(data.kind, &operands, &types, &regions, data.loc);
        for (i, &old) in results.iter().enumerate() {
            self.renames.add(old, kernel.op(new).results[i]);
        }
        new
    }

    /// A block with these of the arguments, and the same operations.
    fn move_block(&mut self, kernel: &mut Kernel, from: Block, args: &[Value]) -> Block {
        let to = kernel.add_block();
        for &old in args {
            let ty = kernel.ty(old).clone();
            let new = kernel.add_arg(to, ty);
            self.renames.add(old, new);
        }
        kernel.block_mut(to).ops = std::mem::take(&mut kernel.block_mut(from).ops);
        to
    }
}
