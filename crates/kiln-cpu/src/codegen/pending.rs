//! Operations that have been collected into a group and not emitted yet.

use super::arena::Slot;
use cranelift_codegen::ir;
use kiln_ir::{Kernel, Op, OpData, OpKind, Value};

/// Operations that have been collected.
#[derive(Default)]
pub(super) struct Group {
    pub(super) len: usize,
    pub(super) ops: Vec<Op>,
    /// Whether it runs lane by lane in registers.
    pub(super) lanewise: bool,
    /// The mask of lanes that it runs in, if it does not in all.
    pub(super) within: Option<Value>,
    pub(super) streamed: Vec<StreamedStore>,
    /// Values that are copied to views when all operations are done: they live until then.
    pub(super) copied: Vec<Value>,
}

impl Group {
    pub(super) fn contains(&self, op: Op) -> bool {
        self.ops.contains(&op)
    }

    /// Whether an operation of the group stores to a view.
    pub(super) fn stores_to(&self, kernel: &Kernel, view: Value) -> bool {
        let stores = |op: &Op| {
            let kind = &kernel.op(*op).kind;
            matches!(kind, OpKind::Store { .. } | OpKind::Scatter { .. } | OpKind::Atomic { .. })
        };
        self.ops.iter().any(|op| stores(op) && kernel.op(*op).view() == view)
    }

    /// Whether a fault must wait until this group is done: it stores, or faults itself.
    pub(super) fn precedes_faults(&self, kernel: &Kernel) -> bool {
        let orders = |op: &Op| matches!(kernel.op(*op).kind, OpKind::Store { .. }) || may_fault(kernel, *op);
        self.ops.iter().any(orders)
    }

    /// Whether lanes of the group exchange values.
    pub(super) fn shuffles(&self, kernel: &Kernel) -> bool {
        self.ops.iter().any(|&op| matches!(kernel.op(op).kind, OpKind::Shuffle(_)))
    }

    /// Whether the group has accesses that are done lane by lane: atomics, and such with a mask.
    pub(super) fn goes_by_lanes(&self, kernel: &Kernel) -> bool {
        self.ops.iter().any(|&op| goes_by_lanes(kernel.op(op)))
    }

    /// Whether an operation of the group makes a value.
    pub(super) fn makes(&self, kernel: &Kernel, value: Value) -> bool {
        self.ops.iter().any(|&op| kernel.op(op).results.contains(&value))
    }
}

/// A store whose value may be made chunk by chunk in scratch memory and copied from there past the
/// caches.
#[derive(Clone, Copy)]
pub(super) struct StreamedStore {
    pub(super) op: Op,
    /// The value, and where all of it belongs.
    pub(super) root: Value,
    pub(super) to: ir::Value,
    /// Not 0 if it is.
    pub(super) streams: ir::Value,
    /// Where a chunk is made.
    pub(super) chunk: Slot,
}

/// Whether an access is done lane by lane.
pub(super) fn goes_by_lanes(data: &OpData) -> bool {
    matches!(data.kind, OpKind::Atomic { .. }) || data.mask().is_some()
}

/// Whether an element-wise operation may end the program.
pub(super) fn may_fault(kernel: &Kernel, op: Op) -> bool {
    matches!(kernel.op(op).kind, OpKind::Binary(_)) && !kernel.is_pure(op)
}
