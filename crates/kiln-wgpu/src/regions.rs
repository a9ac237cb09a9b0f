//! How memory is laid out in variables of the module.
//!
//! A view of the kernel is a part of a *region*: an array that is a storage buffer, a workgroup
//! variable or a local one. What its elements are follows from all accesses of it.

use crate::body::Expr;
use kiln_ir::{AtomicOp, Kernel, LinearOp, OpData, OpKind, Scalar as Elem, Value};
use naga::Scalar;
use std::collections::{BTreeMap, BTreeSet};

/// What the elements of a region are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cell {
    /// Values, each in the type that holds it.
    Plain(Scalar),
    /// The same, as atomics.
    Atomic(Scalar),
    /// Words of 32 bits, which hold parts of elements, elements or several of them; as atomics or
    /// not.
    Words(bool),
}

impl Cell {
    /// The type of the array's elements, and whether they are atomics.
    pub(crate) fn element(self) -> (Scalar, bool) {
        match self {
            Cell::Plain(scalar) => (scalar, false),
            Cell::Atomic(scalar) => (scalar, true),
            Cell::Words(atomic) => (Scalar::U32, atomic),
        }
    }
}

/// Where a view's elements are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// The array, as a pointer.
    pub(crate) array: Expr,
    pub(crate) cell: Cell,
    /// The number of element 0, as a u32, if it is not 0.
    pub(crate) base: Option<Expr>,
}

/// The region of each view, and whether barriers order storage buffers too.
#[derive(Default)]
pub(crate) struct Regions {
    pub(crate) views: BTreeMap<Value, Region>,
    /// Whether a buffer is both written and read.
    pub(crate) shares_storage: bool,
}

/// Memory that views are parts of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum RegionBase {
    /// A parameter or an allocation.
    View(Value),
    /// The block's scratch memory.
    Scratch,
}

/// How a region is accessed.
#[derive(Clone, Default, Debug)]
pub(crate) struct Uses {
    pub(crate) elems: BTreeSet<Elem>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    atomics: bool,
    /// Whether a part of a word is stored.
    parts: bool,
}

/// What an access does to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    /// Of so many adjacent elements.
    Write(u32),
    Atomic,
}

/// What an operation does to the view that is its first operand; `None` if it does not access it.
fn access(data: &OpData) -> Option<Access> {
    if let OpKind::Linear { op, .. } = data.kind {
        return Some(match op {
            // Refused where it stands.
            LinearOp::Address => return None,
            LinearOp::Load { .. } => Access::Read,
            LinearOp::Store { lanes, .. } => Access::Write(lanes),
            LinearOp::Atomic { .. }
            | LinearOp::AtomicCas { .. }
            | LinearOp::OrderedLoad { .. }
            | LinearOp::OrderedStore { .. } => Access::Atomic,
        });
    }
    let reads = matches!(data.kind, OpKind::Load(_) | OpKind::Gather { .. });
    let writes = matches!(data.kind, OpKind::Store { .. } | OpKind::Scatter { .. });
    let atomics = matches!(
        data.kind,
        OpKind::Atomic { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::OrderedLoad { .. }
            | OpKind::OrderedStore { .. }
    );
    let kinds = [(reads, Access::Read), (writes, Access::Write(1)), (atomics, Access::Atomic)];
    kinds.into_iter().find(|(holds, _)| *holds).map(|(_, access)| access)
}

/// How each memory of a kernel is accessed.
pub(crate) fn uses(kernel: &Kernel) -> BTreeMap<RegionBase, Uses> {
    let mut all: BTreeMap<RegionBase, Uses> = BTreeMap::new();
    kernel.walk(|_, data| {
        let Some(access) = access(data) else { return };
        let view = data.view();
        let elem = kernel.ty(view).elem();
        let uses = all.entry(memory(kernel, view)).or_default();
        uses.elems.insert(elem);
        match access {
            Access::Read => uses.reads = true,
            Access::Write(lanes) => {
                uses.writes = true;
                uses.parts |= lanes * elem.bytes() < 4;
            }
            Access::Atomic => (uses.reads, uses.writes, uses.atomics) = (true, true, true),
        }
    });
    all
}

fn memory(kernel: &Kernel, view: Value) -> RegionBase {
    let scratch = |op: &OpData| matches!(op.kind, OpKind::Scratch { .. });
    if kernel.defining_op(view).is_some_and(scratch) { RegionBase::Scratch } else { RegionBase::View(view) }
}

impl Uses {
    /// What cells serve all accesses, where `held` is the type of elements if they agree on one.
    pub(crate) fn cell(&self, held: Option<Scalar>) -> Cell {
        match (held, self.atomics) {
            (Some(scalar), false) => Cell::Plain(scalar),
            (Some(scalar @ (Scalar::I32 | Scalar::U32)), true) => Cell::Atomic(scalar),
            (_, atomics) => Cell::Words(atomics || self.parts),
        }
    }
}

/// Whether atomic cells of a type have an operation themselves.
pub(crate) fn is_native(op: AtomicOp, cell: Cell, elem: Elem) -> bool {
    match (cell, op) {
        (Cell::Atomic(_), _) => true,
        (Cell::Words(true), AtomicOp::Exchange) => elem.bytes() == 4,
        (Cell::Words(true), AtomicOp::Min | AtomicOp::Max) => elem == Elem::U32,
        (Cell::Words(true), AtomicOp::Add | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) => {
            matches!(elem, Elem::I32 | Elem::U32)
        }
        (Cell::Words(false) | Cell::Plain(_), _) => false,
    }
}
