//! Groups of operations that are done lane by lane in registers: element-wise ones, and accesses at
//! affine indices.
//!
//! Like other groups, they are collected until something needs their results or their place in the
//! order. Then they run as one loop over the lanes (`lane_loop.rs`), a few adjacent ones each turn,
//! if nothing in it can fault or leave its view: the indices of each access are affine, so that the
//! ends of the box of lanes that make it say so. Where that does not hold, each operation is done
//! for all lanes by itself, as outside of groups.
//!
//! Operations under a mask that is a condition on affine numbers run in the box of lanes where it
//! holds. What they compute in other lanes is never read.

use super::affine::Affine;
use super::condition::Condition;
use super::emitter::Emitter;
use super::lane_box::{LaneBox, Requirements};
use super::liveness::{Elementwise, is_alias};
use super::pack::{is_packable, part_type};
use super::pending::Group;
use super::repr::{Repr, View};
use crate::spmd::LaneSpace;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder};
use kiln_backend::Result;
use kiln_ir::{BinaryOp, Bounds, Op, OpData, OpKind, Scalar, Value};

/// The most operations of a group: each lives in registers.
const MOST: usize = 160;

/// A load or store of the lanes of a group.
pub(super) struct LaneAccess {
    pub(super) op: Op,
    pub(super) view: View,
    pub(super) indices: Vec<Affine>,
    pub(super) along: Along,
    /// A mask of its own, beside that of the group.
    pub(super) mask: Option<Value>,
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
    pub(super) space: LaneSpace,
    /// The results that something after the group reads.
    pub(super) outputs: Vec<Value>,
    requirements: Requirements,
}

impl Emitter<'_> {
    /// Adds an operation to a group that runs in registers, if it is one that those do.
    pub(super) fn join_lanes(&mut self, op: Op) -> Result<bool> {
        let data = self.kernel.op(op);
        let accesses = matches!(data.kind, OpKind::Gather { .. } | OpKind::Scatter { .. });
        let fits = match accesses {
            true => self.is_lane_access(data),
            false => self.is_lane_operation(data),
        };
        if !fits {
            return Ok(false);
        }
        let within = self.enclosing(op);
        let follows = self.group.lanewise
            && self.group.ops.len() < MOST
            && if accesses { self.group.within == within } else { self.is_inside(within, self.group.within) };
        if !follows || self.conflicts(data) {
            self.flush()?;
            self.group.lanewise = true;
            self.group.within = within;
        }
        self.group.ops.push(op);
        Ok(true)
    }

    /// The mask of an operation if it is a condition, or the innermost around it that is one.
    fn enclosing(&self, op: Op) -> Option<Value> {
        let lockstep = self.lockstep?;
        let mut mask = lockstep.masks.get(&op).copied();
        while let Some(value) = mask {
            if self.lane_condition(value).is_some() {
                return mask;
            }
            mask = lockstep.outer.get(&value).copied();
        }
        None
    }

    /// Whether the lanes of a mask are among those of another.
    fn is_inside(&self, mask: Option<Value>, other: Option<Value>) -> bool {
        let outer = |mask: Value| self.lockstep.and_then(|l| l.outer.get(&mask).copied());
        other.is_none() || std::iter::successors(mask, |&m| outer(m)).any(|m| Some(m) == other)
    }

    fn is_lane_operation(&self, data: &OpData) -> bool {
        let [result] = data.results[..] else { return false };
        let elem = self.kernel.ty(result).elem();
        if !self.has_lanes(result) || self.live.is_splat(result) {
            return false;
        }
        if data.kind == OpKind::Bitcast {
            let number = |elem: Scalar| elem.bytes() >= 4;
            let from = data.input();
            return self.group.lanewise
                && self.group.makes(self.kernel, from)
                && number(elem)
                && number(self.kernel.ty(from).elem());
        }
        let Some(operation) = Elementwise::of(&data.kind) else { return false };
        let from = data.operands.last().map_or(elem, |&v| self.kernel.ty(v).elem());
        let uniform = |v: Value| matches!(self.repr(v), Ok(Repr::Scalar(_)));
        let shifts = matches!(operation, Elementwise::Binary(BinaryOp::Shl | BinaryOp::Shr));
        is_packable(operation, from, elem) && (!shifts || uniform(data.right()))
    }

    /// Whether an access is one at affine indices, of which one varies.
    fn is_lane_access(&mut self, data: &OpData) -> bool {
        let (value, padding) = match data.results.first() {
            Some(&result) => (result, data.access_values().first().copied()),
            None => (data.access_values()[0], None),
        };
        let Some(space) = self.space else { return false };
        let elem = self.kernel.ty(data.view()).elem();
        let holds = part_type(elem).is_some_and(|ty| ty.lane_count() as usize <= space.width().max(4));
        let uniform = |v: Value| matches!(self.repr(v), Ok(Repr::Scalar(_)));
        if !holds || !self.has_lanes(value) || !padding.is_none_or(uniform) {
            return false;
        }
        let Some(indices) = self.lane_indices(data) else { return false };
        indices.iter().any(|index| !index.is_uniform())
    }

    /// The indices of an access, if all are affine.
    fn lane_indices(&mut self, data: &OpData) -> Option<Vec<Affine>> {
        let Ok(Repr::View(view)) = self.repr(data.view()) else { return None };
        let rank = view.strides.len();
        let indices = data.coordinates().iter().map(|&index| {
            let wide = self.kernel.ty(index).elem() == Scalar::I64;
            if wide { self.affine(index) } else { None }
        });
        let indices: Vec<Affine> = indices.collect::<Option<_>>()?;
        (indices.len() == rank).then_some(indices)
    }

    /// Whether an access must wait until the group is done: the group has accesses to the view, at
    /// other indices or before a load.
    fn conflicts(&self, data: &OpData) -> bool {
        let loads = matches!(data.kind, OpKind::Gather { .. });
        let stores = matches!(data.kind, OpKind::Scatter { .. });
        (loads || stores)
            && self.group.ops.iter().any(|&op| {
                let other = self.kernel.op(op);
                let stored = matches!(other.kind, OpKind::Scatter { .. });
                let accesses = stored || matches!(other.kind, OpKind::Gather { .. });
                let elsewhere = other.coordinates() != data.coordinates();
                accesses && other.view() == data.view() && (stored && loads || stores && elsewhere)
            })
    }

    /// Emits a group.
    pub(super) fn flush_lanes(&mut self, group: &Group) -> Result<()> {
        let at = self.locate(None);
        let Some(plan) = self.plan_lanes(group)? else { return Err(self.internal("no lanes")) };
        match plan.requirements.flag() {
            Some(flag) => self.either_way(flag, |e| e.in_lanes(group, &plan), |e| e.one_by_one(group))?,
            None => self.in_lanes(group, &plan)?,
        }
        for &op in &group.ops {
            let data = self.kernel.op(op);
            if is_alias(&data.kind) {
                // What follows uses whole tiles.
                let root = self.live.root(data.results[0]);
                if plan.outputs.contains(&root) {
                    let repr = self.repr(root)?.clone();
                    self.set(data.results[0], repr.without_slot());
                }
            }
        }
        for &op in &group.ops {
            self.release(op);
        }
        self.locate(at);
        Ok(())
    }

    fn plan_lanes(&mut self, group: &Group) -> Result<Option<LanePlan>> {
        let Some(space) = self.space else { return Ok(None) };
        let mut requirements = Requirements::default();
        let accesses: Vec<Op> = group.ops.iter().copied().filter(|&op| self.is_access(op)).collect();
        // Without an access it is no harm to compute in all lanes.
        let within = group.within.filter(|_| !accesses.is_empty());
        let within = within.and_then(|mask| self.lane_condition(mask));
        let lanes = match &within {
            Some(condition) => self.box_of_lanes(condition, &mut requirements),
            None => Some(LaneBox::whole(space)),
        };
        let Some(lanes) = lanes else { return Ok(None) };
        let mut plan =
            LanePlan { lanes, within, accesses: Vec::new(), space, outputs: Vec::new(), requirements };
        let empty = self.is_empty(&plan.lanes);
        for op in accesses {
            let Some(access) = self.plan_access(op, &mut plan, empty) else { return Ok(None) };
            plan.accesses.push(access);
        }
        plan.outputs = self.lane_outputs(group);
        Ok(Some(plan))
    }

    fn is_access(&self, op: Op) -> bool {
        matches!(self.kernel.op(op).kind, OpKind::Gather { .. } | OpKind::Scatter { .. })
    }

    fn plan_access(&mut self, op: Op, plan: &mut LanePlan, empty: ir::Value) -> Option<LaneAccess> {
        let data = self.kernel.op(op);
        let indices = self.lane_indices(data)?;
        let view = self.view(data.view()).ok()?.clone();
        let (OpKind::Gather { bounds, .. } | OpKind::Scatter { bounds, .. }) = data.kind else { return None };
        let mask = data.mask().filter(|&mask| {
            let condition = self.lane_condition(mask);
            let follows =
                condition.zip(plan.within.as_ref()).is_some_and(|(c, within)| c.follows_from(within));
            !follows
        });
        let along = self.along(&indices, &view, plan);
        if bounds != Bounds::Trust || mask.is_some() {
            for (index, &extent) in indices.iter().zip(&view.extents) {
                let ends = self.limits(index, &plan.lanes, &mut plan.requirements);
                for end in ends {
                    let inside = self.asm.compare(IntCC::UnsignedLessThan, end, extent);
                    let inside = self.asm.fb.ins().bor(inside, empty);
                    plan.requirements.add(self, inside);
                }
            }
        }
        Some(LaneAccess { op, view, indices, along, mask })
    }

    /// Where the elements of a row of lanes lie. Where only the view's stride is open, it is
    /// required to be 1.
    fn along(&mut self, indices: &[Affine], view: &View, plan: &mut LanePlan) -> Along {
        let step = |index: &Affine| index.steps[0].known();
        let Some((last, outer)) = indices.split_last() else { return Along::Same };
        if outer.iter().any(|index| step(index) != Some(0)) {
            return Along::Apart;
        }
        let Some(&stride) = view.strides.last() else { return Along::Apart };
        match (step(last), self.asm.uniform(stride).known()) {
            (Some(0), _) => Along::Same,
            (Some(1), Some(1)) => Along::Adjacent,
            (Some(1), None) => {
                let adjacent = self.asm.fb.ins().icmp_imm_s(IntCC::Equal, stride, 1);
                plan.requirements.add(self, adjacent);
                Along::Adjacent
            }
            _ => Along::Apart,
        }
    }

    /// Gives every result that outlives the group its memory, and lists them.
    fn lane_outputs(&mut self, group: &Group) -> Vec<Value> {
        let mut outputs = Vec::new();
        for &op in &group.ops {
            for &result in &self.kernel.op(op).results {
                let root = self.live.root(result) == result;
                let outlives = self.live.last_use(result).is_some_and(|last| !group.contains(last));
                if root && (outlives || self.preferred.contains_key(&result)) {
                    self.output(result);
                    outputs.push(result);
                }
            }
        }
        outputs
    }

    /// Does each operation for all lanes, one after the other.
    fn one_by_one(&mut self, group: &Group) -> Result<()> {
        for &op in &group.ops {
            self.locate(Some(op));
            self.alone(op)?;
            self.release_temporaries();
        }
        Ok(())
    }

    fn alone(&mut self, op: Op) -> Result<()> {
        let data = self.kernel.op(op);
        if let OpKind::Gather { bounds, masked } = data.kind {
            let access = self.indexed(data, masked, 1)?;
            let out = self.whole_destination(op);
            return self.gather_each(&access, bounds, out);
        }
        if let OpKind::Scatter { bounds, masked } = data.kind {
            let access = self.indexed(data, masked, 1)?;
            return self.scatter_each(&access, bounds);
        }
        if is_alias(&data.kind) {
            let repr = self.repr(data.input())?.clone();
            self.set(data.results[0], repr.without_slot());
            return Ok(());
        }
        self.whole_member(op)
    }
}
