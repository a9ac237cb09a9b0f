//! Boxes of views: one linear index a thread, a predicate a vector, accesses of up to 16 bytes.

use super::Lowering;
use super::barriers::{AccessTarget, Does, Same, SharedRegion};
use super::box_access::BoxAccess;
use super::coalesce::Contiguity;
use super::layouts::LayoutId;
use super::mask::Mask;
use crate::error::CompileError;
use crate::layout::AxisBits;
use kiln_ir::{LinearOp, Literal, Op, OpData, OpKind, Reuse, Scalar, Shape, Space, Type, Value};
use rustc_hash::FxHashMap;

/// The vectors of a thread.
pub(super) struct Vectors {
    /// The registers of each vector, in memory order.
    pub registers: Vec<Vec<usize>>,
    /// The linear index of the first element of each.
    pub indices: Vec<Value>,
    /// Where each is inside the view; `None` is everywhere.
    pub predicates: Vec<Option<Value>>,
}

impl Lowering<'_> {
    pub(super) fn load(&mut self, data: &OpData) -> Result<(), CompileError> {
        let OpKind::Load(reuse) = data.kind else { return Ok(()) };
        let result = data.results[0];
        let home = self.plan.home(result);
        let padding = self.scalar(data.padding())?;
        // A load does no harm where copies repeat it.
        let mut access = BoxAccess { first: None, ..self.box_access(data, result, home, reuse)? };
        if access.copies {
            // Only one of those that load stores there.
            access.place = access.place.map(|place| AccessTarget { same: None, ..place });
        }
        let mask = self.mask(&access)?;
        let registers = match self.whole_box(&access, &mask) {
            None => self.load_vectors(&access, Some(&mask), padding)?,
            Some(whole) => {
                let types = vec![Type::scalar(access.elem); access.layout.registers()];
                self.branch(
                    whole,
                    &types,
                    |lowering| lowering.load_vectors(&access, None, padding),
                    |lowering| lowering.load_vectors(&access, Some(&mask), padding),
                )?
            }
        };
        self.define(result, home, registers)
    }

    pub(super) fn store(&mut self, op: Op, data: &OpData) -> Result<(), CompileError> {
        let OpKind::Store { reuse, .. } = data.kind else { return Ok(()) };
        let tile = data.stored_value();
        let layout = self.plan.input(op, 0);
        let registers = self.operand(tile, layout)?;
        let access = self.box_access(data, tile, layout, reuse)?;
        let mask = self.mask(&access)?;
        match self.whole_box(&access, &mask) {
            None => self.store_vectors(&access, Some(&mask), &registers)?,
            Some(whole) => self.branch(
                whole,
                &[],
                |lowering| lowering.store_vectors(&access, None, &registers),
                |lowering| lowering.store_vectors(&access, Some(&mask), &registers),
            )?,
        };
        Ok(())
    }

    /// Whether the box lies wholly inside the view, if that allows longer vectors than at its
    /// edges.
    fn whole_box(&mut self, access: &BoxAccess<'_>, mask: &Mask) -> Option<Value> {
        (access.uncut_bits < access.vector_bits.len()).then(|| self.whole(access, mask)).flatten()
    }

    /// Loads a box in vectors: aligned ones where there is no mask, shorter ones where there is.
    pub(super) fn load_vectors(
        &mut self,
        access: &BoxAccess<'_>,
        mask: Option<&Mask>,
        padding: Value,
    ) -> Result<Vec<Value>, CompileError> {
        let vectors = self.vectors(access, mask)?;
        let view = self.scalar(access.view)?;
        let zero_padding = self.em.kernel.as_const(padding) == Some(Literal::zero(access.elem));
        let mut registers = vec![padding; access.layout.registers()];
        for (i, members) in vectors.registers.iter().enumerate() {
            let (index, predicate) = (vectors.indices[i], vectors.predicates[i]);
            let op = self.view_load((view, index), members.len(), access.reuse, predicate);
            self.accesses.record(op, access.place.clone(), Does::Read);
            for (k, &register) in members.iter().enumerate() {
                registers[register] = self.em.kernel.op(op).results[k];
            }
        }
        if !zero_padding {
            // After all loads, so that they are in flight together.
            for (members, predicate) in vectors.registers.iter().zip(&vectors.predicates) {
                let Some(predicate) = *predicate else { continue };
                for &register in members {
                    registers[register] = self.em.select(predicate, registers[register], padding);
                }
            }
        }
        Ok(registers)
    }

    fn store_vectors(
        &mut self,
        access: &BoxAccess<'_>,
        mask: Option<&Mask>,
        registers: &[Value],
    ) -> Result<Vec<Value>, CompileError> {
        let vectors = self.vectors(access, mask)?;
        let view = self.scalar(access.view)?;
        for (i, members) in vectors.registers.iter().enumerate() {
            let predicate = self.em.both(vectors.predicates[i], access.first);
            let values: Vec<Value> = members.iter().map(|&r| registers[r]).collect();
            let op = self.view_store((view, vectors.indices[i]), access.reuse, predicate, &values);
            self.accesses.record(op, access.place.clone(), Does::Write);
        }
        Ok(Vec::new())
    }

    pub(super) fn box_access<'a>(
        &mut self,
        data: &'a OpData,
        tile: Value,
        id: LayoutId,
        reuse: Reuse,
    ) -> Result<BoxAccess<'a>, CompileError> {
        let shape = self.src.shape(tile);
        let (view, offsets) = (data.view(), data.coordinates());
        let ty = self.src.ty(view);
        let layout = self.layout(id);
        let contiguity = Contiguity::of(&mut self.facts, self.src, view, offsets, &shape);
        let copies = layout.copies() != 0;
        Ok(BoxAccess {
            copies,
            view,
            offsets,
            elem: ty.elem(),
            reuse,
            first: self.first_copy(tile, id),
            place: self.place(view, offsets, &shape, id)?,
            vector_bits: contiguity.vector_bits(&layout, &shape, contiguity.aligned),
            uncut_bits: contiguity.vector_bits(&layout, &shape, contiguity.uncut).len(),
            shape,
            layout,
        })
    }

    /// What the barrier pass must know: two accesses at the same place in the same layout touch
    /// each element from the same thread.
    fn place(
        &self,
        view: Value,
        offsets: &[Value],
        shape: &Shape,
        layout: LayoutId,
    ) -> Result<Option<AccessTarget>, CompileError> {
        if self.per_thread && shape.rank() == 0 || self.is_read_only(view) {
            return Ok(None);
        }
        let offsets = offsets.iter().map(|&o| self.scalar(o)).collect::<Result<_, _>>()?;
        let same = Some(Same::Box(layout, shape.clone(), offsets));
        Ok(Some(AccessTarget { memory: SharedRegion::View(self.scalar(view)?), same }))
    }

    pub(super) fn vectors(
        &mut self,
        access: &BoxAccess<'_>,
        mask: Option<&Mask>,
    ) -> Result<Vectors, CompileError> {
        let bits = match mask {
            Some(_) => &access.vector_bits[..access.uncut_bits],
            None => &access.vector_bits[..],
        };
        let step: usize = bits.iter().map(|&bit| 1 << bit).sum();
        let firsts: Vec<usize> = (0..access.layout.registers()).filter(|r| r & step == 0).collect();
        let spread = |k: usize| -> usize {
            bits.iter().enumerate().filter(|(i, _)| k >> i & 1 == 1).map(|(_, b)| 1 << b).sum()
        };
        let members = |first: &usize| (0..1 << bits.len()).map(|k| first | spread(k)).collect();
        let registers = firsts.iter().map(members).collect();
        let indices = self.linear_indices(access, &firsts)?;
        let predicates = match mask {
            Some(mask) => self.predicates(access, mask, &firsts),
            None => vec![None; firsts.len()],
        };
        Ok(Vectors { registers, indices, predicates })
    }

    /// One linear index for the thread, and the distance of each vector from it.
    fn linear_indices(
        &mut self,
        access: &BoxAccess<'_>,
        firsts: &[usize],
    ) -> Result<Vec<Value>, CompileError> {
        let rank = access.shape.rank();
        let mut strides = Vec::with_capacity(rank);
        let mut uniform = self.em.i64(0);
        let mut varying = self.em.i64(0);
        for axis in 0..rank {
            let stride = self.stride(access.view, axis)?;
            let offset = self.scalar(access.offsets[axis])?;
            let part = self.em.mul(offset, stride);
            uniform = self.em.add(uniform, part);
            let thread = self.thread_coordinate(access, axis);
            let part = self.em.hoisted(|e| {
                let thread = e.cast(thread, Scalar::I64);
                e.mul(thread, stride)
            });
            varying = self.em.hoisted(|e| e.add(varying, part));
            strides.push(stride);
        }
        let base = self.em.add(uniform, varying);
        let mut made: FxHashMap<(usize, u32), Value> = FxHashMap::default();
        let mut indices = Vec::with_capacity(firsts.len());
        for &first in firsts {
            let flat = access.layout.register_index(first);
            let mut distance = self.em.i64(0);
            for (axis, &stride) in strides.iter().enumerate() {
                let at = AxisBits::of(&access.shape, axis).coordinate(flat);
                let part = *made.entry((axis, at)).or_insert_with(|| {
                    let at = self.em.i64(at.into());
                    self.em.hoisted(|e| e.mul(at, stride))
                });
                distance = self.em.add(distance, part);
            }
            indices.push(self.em.add(base, distance));
        }
        Ok(indices)
    }

    /// The i32 coordinate on an axis of this thread's register 0.
    pub(super) fn thread_coordinate(&mut self, access: &BoxAccess<'_>, axis: usize) -> Value {
        let place = AxisBits::of(&access.shape, axis);
        let bases: Vec<u32> = access.layout.thread().iter().map(|&b| place.coordinate(b)).collect();
        self.em.linear(&bases)
    }

    /// A load of adjacent elements of a view of the kernel that is made.
    pub(super) fn view_load(
        &mut self,
        (view, index): (Value, Value),
        lanes: usize,
        reuse: Reuse,
        predicate: Option<Value>,
    ) -> Op {
        let op = LinearOp::Load { lanes: lanes as u32, reuse };
        let types = vec![Type::scalar(self.em.elem(view)); lanes];
        self.linear_access(op, (view, index), predicate, &[], &types)
    }

    /// A store of adjacent elements.
    pub(super) fn view_store(
        &mut self,
        at: (Value, Value),
        reuse: Reuse,
        predicate: Option<Value>,
        values: &[Value],
    ) -> Op {
        let op = LinearOp::Store { lanes: values.len() as u32, reuse, asynchronous: false };
        self.linear_access(op, at, predicate, values, &[])
    }

    /// An access of a view at a linear index.
    pub(super) fn linear_access(
        &mut self,
        op: LinearOp,
        (view, index): (Value, Value),
        predicate: Option<Value>,
        values: &[Value],
        results: &[Type],
    ) -> Op {
        let operands: Vec<Value> =
            [view, index].into_iter().chain(predicate).chain(values.iter().copied()).collect();
        self.em.op(OpKind::Linear { op, predicated: predicate.is_some() }, &operands, results)
    }

    /// The address of an element of a view.
    pub(super) fn view_address(&mut self, (view, index): (Value, Value)) -> Value {
        let kind = OpKind::Linear { op: LinearOp::Address, predicated: false };
        self.em.one(kind, &[view, index], Scalar::U64)
    }

    /// A store of adjacent elements to an address in shared memory.
    pub(super) fn shared_store_at(
        &mut self,
        address: Value,
        predicate: Option<Value>,
        values: &[Value],
    ) -> Op {
        let lanes = values.len() as u32;
        let (space, reuse) = (Space::Shared, Reuse::Normal);
        let kind = OpKind::PtrStore { space, lanes, reuse, predicated: predicate.is_some() };
        let operands: Vec<Value> =
            std::iter::once(address).chain(predicate).chain(values.iter().copied()).collect();
        self.em.op(kind, &operands, &[])
    }
}
