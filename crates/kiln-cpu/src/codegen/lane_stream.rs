//! Stores of lanes that go past the caches.
//!
//! A store to a line that no cache holds reads the line first, and then displaces others. That is a
//! third of the traffic of a kernel that reads one large view and writes another. Where a view is
//! written once and holds more than the caches keep, a group's loop over lanes stores to scratch
//! memory, and whole lines are streamed from there when it is done.
//!
//! Streamed stores become visible to other threads in any order. The launch fences after its
//! programs; a kernel that orders its accesses by itself streams nothing.

use super::affine::Uniform;
use super::emitter::Emitter;
use super::lane_plan::{Along, LaneAccess, LanePlan, LaneStream};
use crate::symbol::Function;
use cranelift_codegen::ir::{self, InstBuilder, condcodes::IntCC};
use kiln_backend::Result;
use kiln_cpu_primitives::streaming::LINE;

impl Emitter<'_> {
    /// How a store is streamed, if it may be: where its view is large, and each row of lanes is
    /// whole lines.
    pub(super) fn plan_stream(&mut self, access: &LaneAccess, plan: &LanePlan) -> Result<Option<LaneStream>> {
        if !self.streamed.contains(&access.op) || access.along != Along::Adjacent || access.mask.is_some() {
            return Ok(None);
        }
        let large = self.outgrows_caches(self.kernel.op(access.op))?;
        let bytes = i64::from(access.view.elem.bytes());
        let first = self.first_element(access, plan);
        let lanes = self.asm.uniform_sub(plan.lanes.to[0], plan.lanes.from[0]);
        let mut edges = self.asm.uniform_value(first);
        let mut distances = vec![self.asm.uniform_mul(lanes, Uniform::constant(bytes))];
        for axis in (1..3).filter(|&axis| plan.space.extents[axis] > 1) {
            distances.push(self.bytes_along(access, axis));
        }
        for distance in distances {
            let distance = self.asm.uniform_value(distance);
            edges = self.asm.fb.ins().bor(edges, distance);
        }
        let parts = self.asm.fb.ins().band_imm_u(edges, LINE as i64 - 1);
        let whole = self.asm.fb.ins().icmp_imm_u(IntCC::Equal, parts, 0);
        let goes = self.asm.and(large, whole);
        let scratch = self.temporary(plan.space.lanes() * bytes as usize);
        Ok(Some(LaneStream { goes, scratch }))
    }

    /// The address of the element of the first lane in the box.
    fn first_element(&mut self, access: &LaneAccess, plan: &LanePlan) -> Uniform {
        let bytes = Uniform::constant(access.view.elem.bytes().into());
        let mut at = Uniform { value: Some(access.view.base), constant: 0 };
        for (index, &stride) in access.indices.iter().zip(&access.view.strides) {
            let stride = self.asm.uniform(stride);
            let mut place = index.base;
            for (&step, &from) in index.steps.iter().zip(&plan.lanes.from) {
                let along = self.asm.uniform_mul(step, from);
                place = self.asm.uniform_add(place, along);
            }
            let along = self.asm.uniform_mul(place, stride);
            let along = self.asm.uniform_mul(along, bytes);
            at = self.asm.uniform_add(at, along);
        }
        at
    }

    /// How far the elements of two lanes are apart that follow each other on an axis, in bytes.
    fn bytes_along(&mut self, access: &LaneAccess, axis: usize) -> Uniform {
        let mut step = Uniform::ZERO;
        for (index, &stride) in access.indices.iter().zip(&access.view.strides) {
            let stride = self.asm.uniform(stride);
            let along = self.asm.uniform_mul(index.steps[axis], stride);
            step = self.asm.uniform_add(step, along);
        }
        self.asm.uniform_mul(step, Uniform::constant(access.view.elem.bytes().into()))
    }

    /// Where a row of lanes is stored, whose first lane is `first` and whose elements belong
    /// elsewhere.
    pub(super) fn streamed_row(
        &mut self,
        stream: LaneStream,
        bytes: i64,
        first: ir::Value,
        belongs: ir::Value,
    ) -> ir::Value {
        let ahead = self.asm.mul_const(first, bytes);
        let scratch = self.asm.add(stream.scratch, ahead);
        self.asm.fb.ins().select(stream.goes, scratch, belongs)
    }

    /// Streams what a group's loop left in scratch memory, plane by plane.
    pub(super) fn stream_lanes(&mut self, plan: &LanePlan) -> Result<()> {
        for access in &plan.accesses {
            let Some(stream) = access.stream else { continue };
            let (copy, rest) = (self.asm.block(&[]).0, self.asm.block(&[]).0);
            self.asm.branch(stream.goes, copy, rest);
            self.asm.enter(copy);
            self.along_axis_of(plan, 2, |e, z| {
                e.stream_plane(access, stream, plan, z);
                Ok(())
            })?;
            self.asm.jump(rest, &[]);
            self.asm.enter(rest);
        }
        Ok(())
    }

    fn stream_plane(&mut self, access: &LaneAccess, stream: LaneStream, plan: &LanePlan, z: ir::Value) {
        let bytes = i64::from(access.view.elem.bytes());
        let [width, height, _] = plan.space.extents.map(i64::from);
        let [x, y] = [0, 1].map(|axis| plan.lanes.from[axis]);
        // The planes before this one in the box.
        let planes = self.asm.uniform_sub(Uniform { value: Some(z), constant: 0 }, plan.lanes.from[2]);
        let ahead = self.bytes_along(access, 2);
        let ahead = self.asm.uniform_mul(planes, ahead);
        let first = self.first_element(access, plan);
        let to = self.asm.uniform_add(first, ahead);

        let z = Uniform { value: Some(z), constant: 0 };
        let rows = self.asm.uniform_mul(z, Uniform::constant(height));
        let rows = self.asm.uniform_add(rows, y);
        let lane = self.asm.uniform_mul(rows, Uniform::constant(width));
        let lane = self.asm.uniform_add(lane, x);
        let lane = self.asm.uniform_mul(lane, Uniform::constant(bytes));
        let from = self.asm.uniform_add(Uniform { value: Some(stream.scratch), constant: 0 }, lane);

        let [lanes, rows] = [0, 1].map(|axis| {
            let (from, to) = (plan.lanes.from[axis], plan.lanes.to[axis]);
            self.asm.uniform_sub(to, from)
        });
        let lines = self.asm.uniform_mul(lanes, Uniform::constant(bytes));
        let to_step = self.bytes_along(access, 1);
        let from_step = Uniform::constant(width * bytes);
        let args = [to, from, lines, rows, to_step, from_step].map(|n| self.asm.uniform_value(n));
        self.asm.call_own(Function::StreamRows, &args, None);
    }
}
