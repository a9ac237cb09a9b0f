//! How memory is laid out in variables of the module.
//!
//! A view of the kernel is a part of a *region*: an array that is a storage buffer, a workgroup
//! variable or a local one. What its elements are follows from all accesses of it.

use crate::body::Expr;
use kiln_ir::{AtomicOp, Kernel, LinearOp, OpData, OpKind, Scalar as Elem, Value};
use naga::{Scalar, VectorSize};
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
    /// Vectors of values, so that adjacent ones are one access.
    Vectors(Scalar, VectorSize),
    /// Vectors of words of 32 bits.
    WordVectors(VectorSize),
}

impl Cell {
    /// The type of the array's scalars, and whether they are atomics.
    pub(crate) fn element(self) -> (Scalar, bool) {
        match self {
            Cell::Plain(scalar) | Cell::Vectors(scalar, _) => (scalar, false),
            Cell::Atomic(scalar) => (scalar, true),
            Cell::Words(atomic) => (Scalar::U32, atomic),
            Cell::WordVectors(_) => (Scalar::U32, false),
        }
    }

    /// Whether the array's scalars are words, which elements are parts of or have several of.
    pub(crate) fn is_words(self) -> bool {
        matches!(self, Cell::Words(_) | Cell::WordVectors(_))
    }

    /// How many scalars a vector has, if the array's elements are vectors.
    pub(crate) fn vector(self) -> Option<VectorSize> {
        match self {
            Cell::Vectors(_, size) | Cell::WordVectors(size) => Some(size),
            Cell::Plain(_) | Cell::Atomic(_) | Cell::Words(_) => None,
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
    /// Bytes of the longest load.
    longest_read: u32,
    /// The greatest number of bytes, up to 16, of which every store has and lies at a multiple.
    common_write: Option<u32>,
}

/// The bytes of the longest vector.
const VECTOR_BYTES: u32 = 16;

/// What an access does to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Of so many adjacent elements.
    Read(u32),
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
            LinearOp::Load { lanes, .. } => Access::Read(lanes),
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
    let kinds = [(reads, Access::Read(1)), (writes, Access::Write(1)), (atomics, Access::Atomic)];
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
            Access::Read(lanes) => {
                uses.reads = true;
                uses.longest_read = uses.longest_read.max(lanes * elem.bytes());
            }
            Access::Write(lanes) => {
                let bytes = lanes * elem.bytes();
                uses.writes = true;
                uses.parts |= bytes < 4;
                let vector = power_of_two_in(bytes);
                uses.common_write = Some(uses.common_write.map_or(vector, |other| other.min(vector)));
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

/// The greatest power of two up to that of the longest vector that divides a number of bytes.
fn power_of_two_in(bytes: u32) -> u32 {
    1 << bytes.trailing_zeros().min(VECTOR_BYTES.ilog2())
}

impl Uses {
    /// Whether every store is of whole vectors of the greatest length.
    pub(crate) fn has_whole_vectors(&self) -> bool {
        !self.parts && self.common_write.is_none_or(|bytes| bytes == VECTOR_BYTES)
    }

    /// What cells serve all accesses with the fewest of memory: vectors where every store is of
    /// whole ones. A load may be of a vector's component, while a store of one could race with
    /// stores of others: WGSL lets it write the whole vector.
    pub(crate) fn cell(&self, held: Option<Scalar>) -> Cell {
        let cell = self.scalar_cell(held);
        let bytes = self.common_write.unwrap_or(power_of_two_in(self.longest_read));
        let of = |width: u8| match bytes / u32::from(width) {
            _ if width > 4 => None,
            0 | 1 => None,
            2 => Some(VectorSize::Bi),
            _ => Some(VectorSize::Quad),
        };
        match cell {
            Cell::Plain(scalar) => of(scalar.width).map_or(cell, |size| Cell::Vectors(scalar, size)),
            Cell::Words(false) => of(4).map_or(cell, Cell::WordVectors),
            Cell::Words(true) | Cell::Atomic(_) | Cell::Vectors(..) | Cell::WordVectors(_) => cell,
        }
    }

    /// What scalars serve all accesses, where `held` is the type of elements if they agree on one.
    pub(crate) fn scalar_cell(&self, held: Option<Scalar>) -> Cell {
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
        (_, AtomicOp::AddF16x2 | AtomicOp::AddBf16x2) => false,
        (Cell::Atomic(_), _) => true,
        (Cell::Words(true), AtomicOp::Exchange) => elem.bytes() == 4,
        (Cell::Words(true), AtomicOp::Min | AtomicOp::Max) => elem == Elem::U32,
        (Cell::Words(true), AtomicOp::Add | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) => {
            matches!(elem, Elem::I32 | Elem::U32)
        }
        (Cell::Words(false) | Cell::Plain(_) | Cell::Vectors(..) | Cell::WordVectors(_), _) => false,
    }
}
