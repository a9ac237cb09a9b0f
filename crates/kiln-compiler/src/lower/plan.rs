//! Which layout each tile has, and in which layouts each is used: what `assign_layouts.rs` finds.

use super::layouts::{LayoutId, Layouts};
use super::pipeline::Pipelines;
use super::products::Products;
use super::roles::Role;
use crate::layout::{Layout, Threads};
use kiln_backend::CostModel;
use kiln_ir::{Kernel, Op, OpData, OpKind, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The layouts of a kernel's tiles.
pub(crate) struct LayoutPlan {
    pub(super) layouts: Layouts,
    /// The number of warps of a block.
    pub warps: u32,
    /// Its threads.
    pub threads: Threads,
    /// What each value becomes.
    pub roles: Vec<Role>,
    /// The layout in which a materialized tile is made.
    pub(super) home: Vec<Option<LayoutId>>,
    /// The layouts in which a value is used.
    pub(super) wanted: Vec<SmallVec<[LayoutId; 2]>>,
    /// The layouts in which an operation uses its tiles, where its result does not say.
    pub(super) inputs: FxHashMap<Op, SmallVec<[LayoutId; 2]>>,
    /// The products on matrix units.
    pub products: Products,
    /// The loops whose loads are under way some rounds before their own.
    pub pipelines: Pipelines,
    /// What work costs on the target.
    pub cost: CostModel,
}

/// What a plan may use shared memory for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Whether threads may exchange tiles. Without, boxes of memory are moved in the layouts at
    /// hand, whatever that costs.
    pub exchanges: bool,
    /// Bytes for the stages of pipelined loops.
    pub stages: u32,
}

impl LayoutPlan {
    /// A layout.
    pub fn layout(&self, id: LayoutId) -> &Layout {
        self.layouts.get(id)
    }

    /// The number of a layout.
    pub fn intern(&mut self, layout: Layout) -> LayoutId {
        self.layouts.intern(layout)
    }

    /// The layout in which a value is made: that of a materialized tile, or that of scalars.
    pub fn home(&self, value: Value) -> LayoutId {
        self.home[value.index()].unwrap_or(LayoutId::SCALAR)
    }

    /// The layouts in which a value is used. For a materialized tile, others than where it is made
    /// need a conversion.
    pub fn wanted(&self, value: Value) -> SmallVec<[LayoutId; 2]> {
        self.wanted[value.index()].clone()
    }

    /// The layout in which an operation uses its tile operands, or the `i`-th kind of them.
    pub fn input(&self, op: Op, i: usize) -> LayoutId {
        self.inputs.get(&op).and_then(|l| l.get(i)).copied().unwrap_or(LayoutId::SCALAR)
    }

    /// The layout an operand of a change of shape must have for its result to have
    /// this one.
    pub fn before(&mut self, kernel: &Kernel, data: &OpData, result: LayoutId) -> LayoutId {
        let from = kernel.shape(data.input());
        if from.rank() == 0 {
            return LayoutId::SCALAR;
        }
        let layout = if data.kind == OpKind::Broadcast {
            self.layout(result).before_broadcast(&from, &kernel.shape(data.results[0]))
        } else if let OpKind::Transpose(perm) = &data.kind {
            self.layout(result).before_transpose(&from, perm)
        } else {
            return result;
        };
        self.intern(layout)
    }
}
