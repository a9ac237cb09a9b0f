//! Which elements of a box lie inside its view.

use super::Lowering;
use super::box_access::BoxAccess;
use super::coalesce::inside;
use crate::error::CompileError;
use crate::layout::AxisBits;
use kiln_ir::{BinaryOp, CompareOp, Scalar, Value};
use rustc_hash::FxHashMap;

/// What must hold for an element of a box to lie inside the view.
pub(super) struct Mask {
    /// A condition on all elements.
    uniform: Option<Value>,
    /// Conditions on coordinates, by axis.
    windows: Vec<(usize, Window)>,
}

/// The coordinates of a box that lie inside the view on one axis: from `low` (if that is not 0) up
/// to `high` (if that is not the end), as uniform i32 values from 0 to the box's extent.
#[derive(Clone, Copy)]
struct Window {
    low: Option<Value>,
    high: Option<Value>,
}

impl Lowering<'_> {
    pub(super) fn mask(&mut self, access: &BoxAccess<'_>) -> Result<Mask, CompileError> {
        let mut mask = Mask { uniform: None, windows: Vec::new() };
        for axis in 0..access.shape.rank() {
            if access.shape[axis] == 1 {
                let own = self.single(access, axis)?;
                mask.uniform = self.em.both(mask.uniform, own);
            } else {
                mask.windows.push((axis, self.window(access, axis)?));
            }
        }
        // What holds for all elements or none closes one window, instead of entering every
        // predicate.
        if let Some(holds) = mask.uniform
            && let Some(high) = mask.windows.iter_mut().find_map(|(_, window)| window.high.as_mut())
        {
            let nothing = self.em.i32(0);
            *high = self.em.select(holds, *high, nothing);
            mask.uniform = None;
        }
        Ok(mask)
    }

    /// Where the one coordinate of a box on an axis lies inside the view.
    fn single(&mut self, access: &BoxAccess<'_>, axis: usize) -> Result<Option<Value>, CompileError> {
        let offset = self.facts.of(access.offsets[axis]);
        if inside(offset, self.facts.extent(access.view, axis), 1) {
            return Ok(None);
        }
        let at = self.scalar(access.offsets[axis])?;
        let extent = self.extent(access.view, axis)?;
        // As unsigned numbers, negative offsets are above every extent.
        let (at, extent) = (self.em.cast(at, Scalar::U64), self.em.cast(extent, Scalar::U64));
        Ok(Some(self.em.compare(CompareOp::Lt, at, extent)))
    }

    /// The part of the box that lies inside the view on an axis. Clamped to the box it fits i32,
    /// whatever the offset.
    fn window(&mut self, access: &BoxAccess<'_>, axis: usize) -> Result<Window, CompileError> {
        let size = access.shape[axis];
        let offset = self.facts.of(access.offsets[axis]);
        let known = self.facts.extent(access.view, axis);
        let at = self.scalar(access.offsets[axis])?;
        let mut window = Window { low: None, high: None };
        if offset.max + i128::from(size) > known.min {
            let extent = self.extent(access.view, axis)?;
            let rest = self.em.sub(extent, at);
            window.high = Some(self.clamp(rest, size));
        }
        if !offset.non_negative() {
            let zero = self.em.i64(0);
            let before = self.em.sub(zero, at);
            window.low = Some(self.clamp(before, size));
        }
        Ok(window)
    }

    /// An i64 clamped to `0 ..= size`, as i32.
    fn clamp(&mut self, value: Value, size: u32) -> Value {
        let (zero, size) = (self.em.i64(0), self.em.i64(size.into()));
        let value = self.em.binary(BinaryOp::Max, value, zero);
        let value = self.em.binary(BinaryOp::Min, value, size);
        self.em.cast(value, Scalar::I32)
    }

    /// Whether the whole box lies inside; `None` if it always does.
    pub(super) fn whole(&mut self, access: &BoxAccess<'_>, mask: &Mask) -> Option<Value> {
        let mut whole = mask.uniform;
        for &(axis, window) in &mask.windows {
            for (end, full) in [(window.low, 0), (window.high, access.shape[axis])] {
                let holds = end.map(|end| {
                    let full = self.em.i32(full.into());
                    self.em.compare(CompareOp::Eq, end, full)
                });
                whole = self.em.both(whole, holds);
            }
        }
        whole
    }

    /// Where the vectors that begin at these registers lie inside; `None` is everywhere.
    pub(super) fn predicates(
        &mut self,
        access: &BoxAccess<'_>,
        mask: &Mask,
        firsts: &[usize],
    ) -> Vec<Option<Value>> {
        let windows: Vec<(usize, Window)> =
            mask.windows.iter().map(|&(axis, window)| (axis, self.relative(access, axis, window))).collect();
        let mut made: FxHashMap<(usize, u32), Option<Value>> = FxHashMap::default();
        let mut predicates = Vec::with_capacity(firsts.len());
        for &first in firsts {
            let flat = access.layout.register_index(first);
            let mut inside = mask.uniform;
            for &(axis, window) in &windows {
                let at = AxisBits::of(&access.shape, axis).coordinate(flat);
                let own = *made.entry((axis, at)).or_insert_with(|| self.within(window, at));
                inside = self.em.both(inside, own);
            }
            predicates.push(inside);
        }
        predicates
    }

    /// A window as seen from this thread's register 0.
    fn relative(&mut self, access: &BoxAccess<'_>, axis: usize, window: Window) -> Window {
        let thread = self.thread_coordinate(access, axis);
        let mut from_here = |end: Option<Value>| end.map(|end| self.em.sub(end, thread));
        Window { low: from_here(window.low), high: from_here(window.high) }
    }

    /// Where a coordinate lies in a window.
    fn within(&mut self, window: Window, at: u32) -> Option<Value> {
        let at = self.em.i32(at.into());
        let below = window.high.map(|high| self.em.compare(CompareOp::Lt, at, high));
        let above = window.low.map(|low| self.em.compare(CompareOp::Ge, at, low));
        self.em.both(below, above)
    }
}
