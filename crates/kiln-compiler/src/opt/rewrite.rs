//! Walking a kernel to change it: renaming values, dropping, replacing and inserting operations.

use kiln_ir::{Block, Kernel, Literal, Loc, Op, OpKind, Type, Value};
use rustc_hash::FxHashMap;

/// Values that stand for others from now on.
#[derive(Default)]
pub(crate) struct Renames(FxHashMap<Value, Value>);

impl Renames {
    pub(crate) fn add(&mut self, from: Value, to: Value) {
        let to = self.resolve(to);
        if from != to {
            self.0.insert(from, to);
        }
    }

    pub(crate) fn resolve(&self, mut value: Value) -> Value {
        while let Some(&next) = self.0.get(&value) {
            value = next;
        }
        value
    }

    /// Renames the operands of an operation; whether any changed.
    pub(crate) fn apply(&self, kernel: &mut Kernel, op: Op) -> bool {
        let mut changed = false;
        for operand in &mut kernel.op_mut(op).operands {
            let to = self.resolve(*operand);
            changed |= to != *operand;
            *operand = to;
        }
        changed
    }
}

/// What becomes of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    /// It goes; its results have been renamed or are not used.
    Drop,
}

/// A pass that visits one operation after the other, in order, and may replace it.
pub(super) trait Pass {
    /// Sees an operation before its regions, with its operands renamed.
    fn enter(&mut self, _: &mut Cursor<'_>, _: Op) -> Fate {
        Fate::Keep
    }

    /// Sees an operation after its regions.
    fn leave(&mut self, _: &mut Cursor<'_>, _: Op) -> Fate {
        Fate::Keep
    }
}

/// The place that a pass has reached.
pub(super) struct Cursor<'k> {
    pub(super) kernel: &'k mut Kernel,
    renames: Renames,
    /// The operations of the block so far.
    done: Vec<Op>,
    /// The operations of the block that are still to be visited, last first.
    pending: Vec<Op>,
    changed: bool,
    loc: Loc,
}

/// Runs a pass over a kernel; whether it changed anything.
pub(super) fn rewrite(kernel: &mut Kernel, pass: &mut dyn Pass) -> bool {
    let body = kernel.body;
    let mut cursor = Cursor {
        kernel,
        renames: Renames::default(),
        done: Vec::new(),
        pending: Vec::new(),
        changed: false,
        loc: Loc::default(),
    };
    cursor.block(body, pass);
    cursor.changed
}

impl Cursor<'_> {
    fn block(&mut self, block: Block, pass: &mut dyn Pass) {
        let mut ops = std::mem::take(&mut self.kernel.block_mut(block).ops);
        ops.reverse();
        let outer_pending = std::mem::replace(&mut self.pending, ops);
        let outer_done = std::mem::take(&mut self.done);
        while let Some(op) = self.pending.pop() {
            self.changed |= self.renames.apply(self.kernel, op);
            self.loc = self.kernel.op(op).loc;
            if pass.enter(self, op) == Fate::Drop {
                self.changed = true;
                continue;
            }
            for region in self.kernel.op(op).regions.clone() {
                self.block(region, pass);
            }
            self.loc = self.kernel.op(op).loc;
            if pass.leave(self, op) == Fate::Drop {
                self.changed = true;
            } else {
                self.done.push(op);
            }
        }
        self.kernel.block_mut(block).ops = std::mem::replace(&mut self.done, outer_done);
        self.pending = outer_pending;
    }

    /// From here on, `from` is `to`, which is defined before the cursor.
    pub(super) fn rename(&mut self, from: Value, to: Value) {
        self.renames.add(from, to);
    }

    /// Inserts an operation with one result before the cursor.
    pub(super) fn emit(&mut self, kind: OpKind, operands: &[Value], ty: Type) -> Value {
        let op = self.kernel.add_op(kind, operands, &[ty], &[], self.loc);
        self.done.push(op);
        self.changed = true;
        self.kernel.result(op)
    }

    /// Inserts a constant with the type of a value.
    pub(super) fn constant_like(&mut self, value: Value, literal: Literal) -> Value {
        let ty = Type::tile(literal.elem(), self.kernel.shape(value));
        self.emit(OpKind::Const(literal), &[], ty)
    }

    /// Makes an operation another one with results of the same types.
    pub(super) fn become_(&mut self, op: Op, kind: OpKind, operands: &[Value]) {
        let data = self.kernel.op_mut(op);
        data.kind = kind;
        data.operands = operands.into();
        self.changed = true;
    }

    /// Puts the operations of a region, but for its terminator, next in turn; gives what the
    /// terminator has. For `enter`: they have not been visited yet.
    pub(super) fn inline(&mut self, region: Block) -> Vec<Value> {
        let (ops, values) = self.take(region);
        self.pending.extend(ops.into_iter().rev());
        values
    }

    /// Puts the operations of a region, but for its terminator, before the cursor; gives what the
    /// terminator has. For `leave`: they have been visited.
    pub(super) fn splice(&mut self, region: Block) -> Vec<Value> {
        let (ops, values) = self.take(region);
        self.done.extend(ops);
        values
    }

    fn take(&mut self, region: Block) -> (Vec<Op>, Vec<Value>) {
        let mut ops = std::mem::take(&mut self.kernel.block_mut(region).ops);
        let values = ops.pop().map(|last| self.kernel.op(last).operands.to_vec());
        self.changed = true;
        (ops, values.unwrap_or_default())
    }
}
