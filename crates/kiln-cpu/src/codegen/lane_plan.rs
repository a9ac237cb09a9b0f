//! How a group of lanes runs: its box of lanes, its accesses, and what is at hand in the loop over
//! it.

use super::affine::{Affine, Uniform};
use super::condition::Condition;
use super::lane_box::{LaneBox, Requirements};
use super::pack::Pack;
use super::repr::View;
use crate::spmd::LaneSpace;
use cranelift_codegen::ir;
use kiln_ir::{AtomicOp, Op, Value};
use std::collections::HashMap;

/// A load or store of the lanes of a group.
pub(super) struct LaneAccess {
    pub(super) op: Op,
    pub(super) view: View,
    pub(super) indices: Vec<Affine>,
    pub(super) along: Along,
    /// A mask of its own, beside that of the group.
    pub(super) mask: Option<Value>,
    /// How it goes past the caches, if it may.
    pub(super) stream: Option<LaneStream>,
}

/// Where a store of a group goes if it is streamed.
#[derive(Clone, Copy)]
pub(super) struct LaneStream {
    /// Not 0 if it is.
    pub(super) goes: ir::Value,
    /// Memory for the elements of all lanes.
    pub(super) scratch: ir::Value,
}

/// Where the elements of adjacent lanes lie.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Along {
    /// In one place.
    Same,
    /// Next to each other.
    Adjacent,
    /// At any distance.
    Apart,
}

/// How a group runs.
pub(super) struct LanePlan {
    pub(super) lanes: LaneBox,
    /// The condition that holds in the box.
    pub(super) within: Option<Condition>,
    pub(super) accesses: Vec<LaneAccess>,
    pub(super) atomics: Vec<LaneAtomic>,
    pub(super) space: LaneSpace,
    /// How many lanes that follow each other are done at a time.
    pub(super) width: usize,
    /// The results that something after the group reads.
    pub(super) outputs: Vec<Value>,
    pub(super) requirements: Requirements,
}

/// A read-modify-write of the lanes of a group.
pub(super) struct LaneAtomic {
    pub(super) op: Op,
    pub(super) update: AtomicOp,
    pub(super) view: View,
    /// Whether only this block reaches the memory.
    pub(super) private: bool,
    pub(super) mask: Option<Value>,
}

/// A row of lanes: its place on the outer axes, and the position of its first lane.
pub(super) struct Row {
    pub(super) y: ir::Value,
    pub(super) z: ir::Value,
    pub(super) first: ir::Value,
    /// In the order of the plan.
    pub(super) accesses: Vec<RowAccess>,
}

/// An access along a row: where the element of its first lane lies, and how far the next is, in
/// bytes.
pub(super) struct RowAccess {
    pub(super) address: ir::Value,
    pub(super) offset: i32,
    pub(super) step: Uniform,
    /// The one element, of a load from one place.
    pub(super) element: Option<ir::Value>,
}

/// Some adjacent lanes of a row, and what has been computed for them.
pub(super) struct Turn<'r> {
    pub(super) row: &'r Row,
    pub(super) x: ir::Value,
    pub(super) width: usize,
    pub(super) packs: HashMap<Value, Pack>,
}
