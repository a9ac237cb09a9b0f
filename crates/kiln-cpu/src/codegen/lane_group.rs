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
use super::emitter::Emitter;
use super::lane_box::{LaneBox, Requirements};
use super::lane_plan::{Along, LaneAccess, LanePlan};
use super::liveness::{Elementwise, is_alias};
use super::pack::{is_packable, part_type};
use super::pending::{Group, goes_by_lanes};
use super::repr::{Repr, View};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder};
use kiln_backend::Result;
use kiln_ir::{BinaryOp, Bounds, Op, OpData, OpKind, Scalar, Value, WARP};

/// The most operations of a group: each lives in registers.
const MOST: usize = 160;

impl Emitter<'_> {
    /// Adds an operation to a group that runs in registers, if it is one that those do.
    pub(super) fn join_lanes(&mut self, op: Op) -> Result<bool> {
        let data = self.kernel.op(op);
        let accesses = is_access(&data.kind);
        let atomic = matches!(data.kind, OpKind::Atomic { .. });
        let shuffles = matches!(data.kind, OpKind::Shuffle(_));
        let fits = match (accesses, shuffles) {
            (true, _) if atomic => self.is_lane_atomic(data),
            (true, _) => self.is_lane_access(op, data),
            (_, true) => self.is_lane_shuffle(data),
            _ => self.is_lane_operation(data),
        };
        if !fits {
            return Ok(false);
        }
        // Shuffles read from other lanes, all of which are therefore done.
        let within = if shuffles { None } else { self.enclosing(op) };
        let follows = self.group.lanewise
            && self.group.ops.len() < MOST
            && match accesses || shuffles {
                true => self.group.within == within,
                false => self.is_inside(within, self.group.within),
            }
            // A warp at a time is too much code for lanes one by one.
            && !(goes_by_lanes(data) && self.group.shuffles(self.kernel))
            && !(shuffles && self.group.goes_by_lanes(self.kernel));
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

    /// Whether an access is one at affine indices, of which one varies, or a store of few lanes to
    /// one place.
    fn is_lane_access(&mut self, op: Op, data: &OpData) -> bool {
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
        let stores = data.results.is_empty() && !indices.is_empty();
        indices.iter().any(|index| !index.is_uniform()) || (stores && self.enclosing(op).is_some())
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
    /// other indices or before a load, or atomics.
    fn conflicts(&mut self, data: &OpData) -> bool {
        is_access(&data.kind)
            && (0..self.group.ops.len()).any(|at| {
                let other = self.kernel.op(self.group.ops[at]);
                is_access(&other.kind) && other.view() == data.view() && self.conflict(other, data)
            })
    }

    /// Whether an access conflicts with an earlier one to the same view.
    fn conflict(&mut self, earlier: &OpData, later: &OpData) -> bool {
        let atomic = |data: &OpData| matches!(data.kind, OpKind::Atomic { .. });
        let stores = |data: &OpData| matches!(data.kind, OpKind::Scatter { .. });
        if atomic(earlier) || atomic(later) {
            return true;
        }
        if !stores(earlier) && (!stores(later) || earlier.coordinates() == later.coordinates()) {
            return false;
        }
        stores(earlier) && !stores(later)
            || earlier.coordinates() != later.coordinates() && !self.are_apart(earlier, later)
    }

    /// Whether the elements of two accesses of the group are known to be others, whichever lanes
    /// make them.
    fn are_apart(&mut self, a: &OpData, b: &OpData) -> bool {
        let lanes = match self.group.within.map(|mask| self.known_lanes(mask)) {
            Some(Some(holds)) => holds.iter().map(|literal| literal.bits() != 0).collect(),
            Some(None) => return false,
            None => vec![true; self.space.map_or(0, |space| space.lanes())],
        };
        let (a, b) = (a.coordinates().to_vec(), b.coordinates().to_vec());
        a.into_iter().zip(b).any(|(a, b)| {
            let [a, b] = [a, b].map(|index| {
                let numbers = self.known_lanes(index)?;
                let here = || numbers.iter().zip(&lanes).filter(|(_, here)| **here).map(|(n, _)| n.as_i128());
                Some((here().min()?, here().max()?))
            });
            matches!((a, b), (Some(a), Some(b)) if a.1 < b.0 || b.1 < a.0)
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
        let accesses: Vec<Op> =
            group.ops.iter().copied().filter(|&op| is_access(&self.kernel.op(op).kind)).collect();
        // Without an access it is no harm to compute in all lanes.
        let within = group.within.filter(|_| !accesses.is_empty());
        let within = within.and_then(|mask| self.lane_condition(mask));
        let lanes = match &within {
            Some(condition) => self.box_of_lanes(condition, &mut requirements),
            None => Some(LaneBox::whole(space)),
        };
        let Some(lanes) = lanes else { return Ok(None) };
        let width = if group.shuffles(self.kernel) { WARP as usize } else { space.width() };
        let mut plan = LanePlan {
            lanes,
            within,
            accesses: Vec::new(),
            atomics: Vec::new(),
            space,
            width,
            outputs: Vec::new(),
            requirements,
        };
        let empty = self.is_empty(&plan.lanes);
        for op in accesses {
            if let OpKind::Atomic { .. } = self.kernel.op(op).kind {
                let Some(atomic) = self.plan_atomic(op, &mut plan, empty) else { return Ok(None) };
                plan.atomics.push(atomic);
                continue;
            }
            let Some(mut access) = self.plan_access(op, &mut plan, empty) else { return Ok(None) };
            access.stream = self.plan_stream(&access, &plan)?;
            plan.accesses.push(access);
        }
        plan.outputs = self.lane_outputs(group);
        Ok(Some(plan))
    }

    /// The mask of an access, unless it holds in the lanes of the plan.
    pub(super) fn own_mask(&self, data: &OpData, plan: &LanePlan) -> Option<Value> {
        data.mask().filter(|&mask| {
            let condition = self.lane_condition(mask);
            !condition.zip(plan.within.as_ref()).is_some_and(|(c, within)| c.follows_from(within))
        })
    }

    fn plan_access(&mut self, op: Op, plan: &mut LanePlan, empty: ir::Value) -> Option<LaneAccess> {
        let data = self.kernel.op(op);
        let indices = self.lane_indices(data)?;
        let view = self.view(data.view()).ok()?.clone();
        let (OpKind::Gather { bounds, .. } | OpKind::Scatter { bounds, .. }) = data.kind else { return None };
        let mask = self.own_mask(data, plan);
        let along = self.along(&indices, &view, plan);
        if bounds != Bounds::Trust || mask.is_some() {
            for (index, &extent) in indices.iter().zip(&view.extents) {
                let ends = self.limits(index, &plan.lanes, &mut plan.requirements);
                for end in ends {
                    self.require_inside(end, extent, empty, &mut plan.requirements);
                }
            }
        }
        Some(LaneAccess { op, view, indices, along, mask, stream: None })
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
            let mut access = self.indexed(data, masked, 1)?;
            if bounds == Bounds::Mask {
                self.widen_to_box(op, &mut access);
            }
            let out = self.whole_destination(op);
            return self.gather_each(&access, bounds, out);
        }
        if let OpKind::Shuffle(mode) = data.kind {
            return self.shuffle(data, mode);
        }
        if let OpKind::Atomic { op, bounds, masked, .. } = data.kind {
            return self.atomic(data, op, bounds, masked);
        }
        if let OpKind::Scatter { bounds, masked, .. } = data.kind {
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

/// Whether an operation reads or writes elements of a view at indices.
fn is_access(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Gather { .. } | OpKind::Scatter { .. } | OpKind::Atomic { .. })
}
