//! Gather, scatter and atomics: element by element, at indices that tiles hold.

use super::barriers::{AccessTarget, Does, Same, SharedRegion};
use super::layouts::LayoutId;
use super::roles;
use super::{Lowering, Registers};
use crate::error::CompileError;
use kiln_ir::{
    Bounds, CompareOp, LinearOp, Literal, Op, OpData, OpKind, Reuse, Scalar, Type, UnaryOp, Value,
};

/// The linear index of an element, and where it is to be accessed; `None` is always.
pub(super) type Element = (Value, Option<Value>);

/// The operands of an indexed access, as registers of one layout.
pub(super) struct Indexed {
    pub view: Value,
    elem: Scalar,
    rank: usize,
    indices: Vec<Registers>,
    mask: Option<Registers>,
    bounds: Bounds,
    pub count: usize,
    /// Where threads hold copies, the one that acts.
    first: Option<Value>,
    /// Where it takes place at all: see `deferred_faults.rs`.
    allowed: Option<Value>,
    /// What is accessed: the result, or what is stored.
    pub tile: Value,
}

impl Indexed {
    /// Whether an index outside the view is a fault.
    pub fn is_checked(&self) -> bool {
        self.bounds == Bounds::Check
    }
}

impl Lowering<'_> {
    pub(super) fn gather(&mut self, data: &OpData) -> Result<(), CompileError> {
        let OpKind::Gather { bounds, .. } = data.kind else { return Ok(()) };
        let result = data.results[0];
        let layout = self.plan.home(result);
        // A load does no harm where copies repeat it.
        let access = Indexed { first: None, ..self.indexed(data, layout, bounds)? };
        let padding = self.scalar(data.padding())?;
        let zero_padding = self.em.kernel.as_const(padding) == Some(Literal::zero(access.elem));
        let checked = self.checked_elements(data, &access)?;
        let view = self.scalar(access.view)?;
        let mut loaded = Vec::with_capacity(access.count);
        for r in 0..access.count {
            let (index, predicate) = self.checked_or_place(&access, &checked, r)?;
            let op = self.view_load((view, index), 1, Reuse::Normal, predicate);
            self.note_view(op, data, Does::Read)?;
            loaded.push((self.em.kernel.result(op), predicate));
        }
        let registers = loaded
            .into_iter()
            .map(|(value, predicate)| match predicate {
                Some(predicate) if !zero_padding => self.em.select(predicate, value, padding),
                _ => value,
            })
            .collect();
        self.defer_found(access.tile);
        self.define(result, layout, registers)
    }

    pub(super) fn scatter(&mut self, op: Op, data: &OpData) -> Result<(), CompileError> {
        let OpKind::Scatter { bounds, asynchronous, .. } = data.kind else { return Ok(()) };
        let asynchronous = asynchronous && self.target.async_copies;
        let layout = self.plan.input(op, 0);
        let access = self.indexed(data, layout, bounds)?;
        let values = self.operand(data.stored_value(), layout)?;
        let checked = self.checked_elements(data, &access)?;
        let view = self.scalar(access.view)?;
        for r in 0..access.count {
            let (index, predicate) = self.checked_or_place(&access, &checked, r)?;
            let kind = LinearOp::Store { lanes: 1, reuse: Reuse::Normal, asynchronous };
            let op = self.linear_access(kind, (view, index), predicate, &[values[r]], &[]);
            self.note_view(op, data, Does::Write)?;
        }
        self.defer_found(access.tile);
        Ok(())
    }

    pub(super) fn atomic(&mut self, data: &OpData) -> Result<(), CompileError> {
        let (OpKind::Atomic { bounds, scope, .. } | OpKind::AtomicCas { bounds, scope }) = data.kind else {
            return Ok(());
        };
        let kind = if let OpKind::Atomic { op, .. } = data.kind {
            LinearOp::Atomic { op, scope }
        } else {
            LinearOp::AtomicCas { scope }
        };
        let result = data.results[0];
        let layout = self.plan.home(result);
        let access = self.indexed(data, layout, bounds)?;
        let values: Vec<Registers> =
            data.access_values().iter().map(|&v| self.operand(v, layout)).collect::<Result<_, _>>()?;
        let checked = self.checked_elements(data, &access)?;
        let view = self.scalar(access.view)?;
        let mut old = Vec::with_capacity(access.count);
        for r in 0..access.count {
            let (index, predicate) = self.checked_or_place(&access, &checked, r)?;
            let values: Vec<Value> = values.iter().map(|registers| registers[r]).collect();
            let results = [Type::scalar(access.elem)];
            let op = self.linear_access(kind, (view, index), predicate, &values, &results);
            self.note_view(op, data, Does::Atomic)?;
            old.push(self.em.kernel.result(op));
        }
        self.defer_found(access.tile);
        if access.first.is_some() && self.is_used(result) {
            old = self.share(layout, old);
        }
        self.define(result, layout, old)
    }

    /// Whether an operation of the source uses a value.
    fn is_used(&self, value: Value) -> bool {
        let mut used = false;
        self.src.walk(|_, data| used |= data.operands.contains(&value));
        used
    }

    pub(super) fn indexed(
        &mut self,
        data: &OpData,
        layout: LayoutId,
        bounds: Bounds,
    ) -> Result<Indexed, CompileError> {
        let view = data.view();
        let ty = self.src.ty(view);
        let elem = ty.elem();
        let rank = ty.as_view().map_or(0, |v| v.rank as usize);
        let indices =
            data.coordinates().iter().map(|&v| self.operand(v, layout)).collect::<Result<Vec<_>, _>>()?;
        let mask = data.mask().map(|mask| self.operand(mask, layout)).transpose()?;
        let tile = data.results.first().or(data.operands.last()).copied().unwrap_or(view);
        let layout = if roles::is_tile(self.src, tile) { layout } else { LayoutId::SCALAR };
        let first = self.first_copy(tile, layout);
        let allowed = self.still_trusted(bounds);
        let count = self.plan.layout(layout).registers();
        Ok(Indexed { view, elem, rank, indices, mask, bounds, count, first, allowed, tile })
    }

    /// The linear index of an element, and where it is to be accessed, unless both were found
    /// before.
    fn checked_or_place(
        &mut self,
        access: &Indexed,
        checked: &Option<Vec<Element>>,
        r: usize,
    ) -> Result<Element, CompileError> {
        match checked {
            Some(elements) => Ok(elements[r]),
            None => self.element_place(access, r),
        }
    }

    /// The linear index of an element, and where it is to be accessed.
    pub(super) fn element_place(
        &mut self,
        access: &Indexed,
        r: usize,
    ) -> Result<(Value, Option<Value>), CompileError> {
        let mut predicate = access.mask.as_ref().map(|mask| mask[r]);
        let mut linear = self.em.i64(0);
        for axis in 0..access.rank {
            let index = access.indices[axis][r];
            let wide = self.em.cast(index, Scalar::I64);
            let inside = self.index_inside(access, axis, wide, predicate)?;
            predicate = self.em.both(predicate, inside);
            let stride = self.stride(access.view, axis)?;
            let part = self.em.mul(wide, stride);
            linear = self.em.add(linear, part);
        }
        let acts = self.em.both(access.first, access.allowed);
        Ok((linear, self.em.both(predicate, acts)))
    }

    /// Where an index lies inside the view, if that is to mask the access; a fault if it is to be
    /// checked, which masks it where the fault is deferred. An access of tiles is checked as a
    /// whole.
    fn index_inside(
        &mut self,
        access: &Indexed,
        axis: usize,
        index: Value,
        mask: Option<Value>,
    ) -> Result<Option<Value>, CompileError> {
        if access.bounds == Bounds::Trust {
            return Ok(None);
        }
        let extent = self.extent(access.view, axis)?;
        // As unsigned numbers, negative indices are above every extent.
        let (unsigned, limit) = (self.em.cast(index, Scalar::U64), self.em.cast(extent, Scalar::U64));
        let inside = self.em.compare(CompareOp::Lt, unsigned, limit);
        if access.bounds == Bounds::Mask {
            return Ok(Some(inside));
        }
        let fine = match mask {
            Some(mask) => {
                let masked_off = self.em.unary(UnaryOp::Not, mask);
                self.em.or(inside, masked_off)
            }
            None => inside,
        };
        if self.remember_index(access.tile, axis, fine, index, extent) {
            return Ok(self.deferred.is_some().then_some(inside));
        }
        self.em.op(OpKind::CheckBounds, &[fine, index, extent], &[]);
        Ok(None)
    }

    fn note_view(&mut self, op: Op, data: &OpData, does: Does) -> Result<(), CompileError> {
        if self.is_read_only(data.view()) {
            return Ok(());
        }
        if self.per_thread && !data.operands.iter().any(|&v| roles::is_tile(self.src, v)) {
            return Ok(());
        }
        let memory = SharedRegion::View(self.scalar(data.view())?);
        // Elements of one scatter that name one place leave any of the values.
        let same = (does == Does::Write).then(|| Same::Scatter(data.operands.to_vec()));
        self.accesses.record(op, Some(AccessTarget { memory, same }), does);
        Ok(())
    }
}
