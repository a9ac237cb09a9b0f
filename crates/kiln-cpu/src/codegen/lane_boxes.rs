//! Accesses whose lanes are a box of a view: each axis of lanes runs along an axis of the view, in
//! the same order. Where some of it may lie outside, one call moves what lies inside, row by row,
//! and no index or mask of a lane is written.

use super::elements::Indexed;
use super::emitter::Emitter;
use cranelift_codegen::ir;
use kiln_cpu_primitives::BoxAxis;
use kiln_ir::{Op, Scalar};
use std::mem::{offset_of, size_of};

impl Emitter<'_> {
    /// What a primitive that moves the box of an access is called with, if its lanes are one.
    pub(super) fn lane_box(
        &mut self,
        access: &Indexed,
        tile: ir::Value,
        padding: ir::Value,
    ) -> Option<[ir::Value; 5]> {
        let axes = self.axes_of_lanes(access)?;
        let described = self.asm.stack(size_of::<BoxAxis>() * axes.len().max(1));
        for (axis, (offset, lanes)) in axes.into_iter().enumerate() {
            let at = (axis * size_of::<BoxAxis>()) as i32;
            let lanes = self.asm.int(lanes);
            self.asm.store(lanes, described, at + offset_of!(BoxAxis, tile) as i32);
            self.asm.store(offset, described, at + offset_of!(BoxAxis, offset) as i32);
            self.asm.store(access.view.extents[axis], described, at + offset_of!(BoxAxis, extent) as i32);
            self.asm.store(access.view.strides[axis], described, at + offset_of!(BoxAxis, stride) as i32);
        }
        let rank = self.asm.int(access.indices.len() as i64);
        Some([tile, access.view.base, described, rank, padding])
    }

    /// Leaves out the mask of a load that only says which lanes have come to it, if all lanes are a
    /// box: what the others get is never read.
    pub(super) fn widen_to_box(&mut self, op: Op, access: &mut Indexed) {
        let arrived = self.lockstep.and_then(|lockstep| lockstep.masks.get(&op).copied());
        let Some(mask) = access.mask.filter(|&mask| arrived == Some(mask)) else { return };
        access.mask = None;
        if self.axes_of_lanes(access).is_none() {
            access.mask = Some(mask);
        }
    }

    /// For each axis of the view, where the box begins and how many lanes it has.
    fn axes_of_lanes(&mut self, access: &Indexed) -> Option<Vec<(ir::Value, i64)>> {
        let space = self.space.filter(|space| space.lanes() == access.len && access.mask.is_none())?;
        // The lanes of a tile follow each other along the last axis of the box.
        let mut next = (0..3).rev().filter(|&axis| space.extents[axis] > 1);
        let mut axes = Vec::with_capacity(access.indices.len());
        for &index in &access.indices {
            if self.kernel.ty(index).elem() != Scalar::I64 {
                return None;
            }
            let number = self.affine(index)?;
            let mut moving = (0..3).filter(|&a| space.extents[a] > 1 && number.steps[a].known() != Some(0));
            let lanes = match (moving.next(), moving.next()) {
                (None, _) => 1,
                (Some(axis), None) if number.steps[axis].known() == Some(1) && next.next() == Some(axis) => {
                    space.extents[axis].into()
                }
                _ => return None,
            };
            axes.push((self.asm.uniform_value(number.base), lanes));
        }
        next.next().is_none().then_some(axes)
    }
}
