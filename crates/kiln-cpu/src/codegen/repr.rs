//! What becomes of the values of a kernel: scalars, tiles in memory, views.

use super::affine::Affine;
use super::arena::Slot;
use super::condition::Condition;
use cranelift_codegen::ir;
use kiln_ir::Scalar;

/// A tile in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    /// The address of its first element.
    pub(super) at: ir::Value,
    /// The slot that is freed after the tile's last use, if it has one of its own.
    pub(super) slot: Option<Slot>,
    /// Whether only the part of the tile that a group works on is there.
    pub(super) windowed: bool,
}

/// A view: an address, and an extent and a stride in elements for each axis.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) base: ir::Value,
    pub(super) extents: Vec<ir::Value>,
    pub(super) strides: Vec<ir::Value>,
    pub(super) elem: Scalar,
}

/// What has become of an IR value.
#[derive(Clone, Debug)]
pub(super) enum Repr {
    /// A scalar, or a tile that consists of it.
    Scalar(ir::Value),
    Tile(Tile),
    /// A number of each lane, which is nowhere written.
    Affine(Affine),
    /// A bool of each lane, which is nowhere written.
    Condition(Condition),
    /// A tile that is only multiplied.
    Matrix(Matrix),
    View(View),
}

/// A tile of rank 2 with strides of its own, in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    pub(super) tile: Tile,
    pub(super) row: ir::Value,
    pub(super) column: ir::Value,
}

impl Repr {
    /// The same without a slot of its own.
    pub(super) fn without_slot(self) -> Repr {
        match self {
            Repr::Tile(tile) => Repr::Tile(Tile { slot: None, ..tile }),
            Repr::Scalar(_) | Repr::Affine(_) | Repr::Condition(_) | Repr::Matrix(_) | Repr::View(_) => self,
        }
    }
}
