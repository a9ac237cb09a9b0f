//! The tensor maps that a kernel's bulk copies need, which a launch passes.

use kiln_ir::{BulkReduce, Scalar};

/// What is done by a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Boxes are loaded.
    Load,
    /// Boxes are loaded of a view whose elements are adjacent on the last axis but one: for the
    /// copy that is the last one.
    LoadTransposed,
    /// Boxes are stored, or combined with what is there.
    Store,
}

impl Way {
    /// All ways, in the order of declaration.
    pub const ALL: [Way; 3] = [Way::Load, Way::LoadTransposed, Way::Store];
}

/// A tensor map that a launch must pass, made from a view parameter. The maps come before the
/// words, 128 bytes each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMap {
    /// The parameter, as the user calls it.
    pub name: String,
    /// The first word of the view among the parameters.
    pub word: u32,
    /// Its axes.
    pub rank: u32,
    /// Its elements, as the copy engine is to see them.
    pub elem: Scalar,
    /// The extents of the box on the last two axes, as the copy sees them; on the others they
    /// are 1. Of a vector only the second counts.
    pub extents: [u32; 2],
    /// What it is for.
    pub way: Way,
}

/// The elements that the copy engine is to see in a view that it stores to. It has no sums of i64,
/// which are those of u64, and combines bits as unsigned numbers.
pub(super) fn stored_as(elem: Scalar, combine: Option<BulkReduce>) -> Scalar {
    use BulkReduce::{Add, And, Max, Min, Or, Xor};
    match (combine, elem) {
        (Some(Add | And | Or | Xor), Scalar::I64) => Scalar::U64,
        (Some(And | Or | Xor), Scalar::I32) => Scalar::U32,
        (Some(Add | Min | Max | And | Or | Xor) | None, elem) => elem,
    }
}

/// The maps of a kernel, in the order of its parameters for them.
#[derive(Default)]
pub(super) struct TensorMaps {
    pub(super) all: Vec<TensorMap>,
}

impl TensorMaps {
    /// The number of a map, which is added if it is new.
    pub(super) fn number(&mut self, map: TensorMap) -> usize {
        self.all.iter().position(|known| *known == map).unwrap_or_else(|| {
            self.all.push(map);
            self.all.len() - 1
        })
    }
}
