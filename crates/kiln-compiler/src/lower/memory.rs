//! Boxes of views: one 64-bit address a thread, a predicate a vector, accesses of up to 16 bytes.

use super::Lowering;
use super::barriers::{Does, Memory, Place, Same};
use super::coalesce::{Contiguity, inside};
use super::plan::LayoutId;
use crate::error::CompileError;
use crate::layout::{AxisBits, Layout};
use kiln_ir::{BinaryOp, CompareOp, Literal, Op, OpData, OpKind, Reuse, Scalar, Shape, Space, Type, Value};
use std::collections::HashMap;

/// A box of a view under a layout.
struct BoxAccess<'a> {
    view: Value,
    offsets: &'a [Value],
    shape: Shape,
    layout: Layout,
    elem: Scalar,
    space: Space,
    /// Register bits that step through a vector.
    vector_bits: Vec<usize>,
}

/// The vectors of a thread.
struct Vectors {
    /// The registers of each vector, in memory order.
    registers: Vec<Vec<usize>>,
    /// The address of each.
    addresses: Vec<Value>,
    /// Where each is inside the view; `None` is everywhere.
    predicates: Vec<Option<Value>>,
}

/// The coordinates of this thread's register 0 that lie inside the view on one axis: from `low` (if it is not 0) up to `high`, relative to the
/// thread's own coordinate, as i32.
#[derive(Clone, Copy)]
struct Window {
    low: Option<Value>,
    high: Option<Value>,
}

impl Lowering<'_> {
    pub(super) fn load(&mut self, data: &OpData) -> Result<(), CompileError> {
        let OpKind::Load(reuse) = data.kind else { return Ok(()) };
        let result = data.results[0];
        let home = self.plan.home(result);
        let padding = self.scalar(data.operands[data.operands.len() - 1])?;
        let access = self.box_access(data, result, home);
        let vectors = self.vectors(&access)?;
        let zero_padding = self.em.kernel.as_const(padding) == Some(Literal::zero(access.elem));
        let mut registers = vec![padding; access.layout.registers()];
        let place = self.place(&access, home)?;
        for (i, members) in vectors.registers.iter().enumerate() {
            let predicate = vectors.predicates[i];
            let loaded = self.ptr_load(
                access.space,
                access.elem,
                members.len(),
                reuse,
                vectors.addresses[i],
                predicate,
            );
            self.accesses.note(loaded, place.clone(), Does::Read);
            for (k, &register) in members.iter().enumerate() {
                registers[register] = self.em.kernel.op(loaded).results[k];
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
        self.define(result, home, registers)
    }

    pub(super) fn store(&mut self, op: Op, data: &OpData) -> Result<(), CompileError> {
        let OpKind::Store { reuse, .. } = data.kind else { return Ok(()) };
        let tile = data.operands[data.operands.len() - 1];
        let layout = self.plan.input(op, 0);
        let registers = self.operand(tile, layout)?;
        let access = self.box_access(data, tile, layout);
        let vectors = self.vectors(&access)?;
        let place = self.place(&access, layout)?;
        let first = self.first_copy(layout);
        for (i, members) in vectors.registers.iter().enumerate() {
            let predicate = self.em.both(vectors.predicates[i], first);
            let values: Vec<Value> = members.iter().map(|&r| registers[r]).collect();
            let stored = self.ptr_store(access.space, reuse, vectors.addresses[i], predicate, &values);
            self.accesses.note(stored, place.clone(), Does::Write);
        }
        Ok(())
    }

    fn box_access<'a>(&mut self, data: &'a OpData, tile: Value, layout: LayoutId) -> BoxAccess<'a> {
        let shape = self.src.shape(tile);
        let (view, offsets) = (data.operands[0], &data.operands[1..=shape.rank()]);
        let ty = self.src.ty(view);
        let layout = self.layout(layout);
        let contiguity = Contiguity::of(&mut self.facts, self.src, view, offsets, &shape);
        BoxAccess {
            view,
            offsets,
            elem: ty.elem(),
            space: ty.as_view().map_or(Space::Global, |v| v.space),
            vector_bits: contiguity.vector_bits(&layout, &shape),
            shape,
            layout,
        }
    }

    /// What the barrier pass must know: two accesses at the same place in the same layout touch each element from the same thread.
    fn place(&self, access: &BoxAccess<'_>, layout: LayoutId) -> Result<Option<Place>, CompileError> {
        if self.per_thread && access.shape.rank() == 0 {
            return Ok(None);
        }
        let offsets = access.offsets.iter().map(|&o| self.scalar(o)).collect::<Result<_, _>>()?;
        Ok(Some(Place {
            memory: Memory::View(self.scalar(access.view)?),
            same: Some(Same::Box(layout, access.shape.clone(), offsets)),
        }))
    }

    fn vectors(&mut self, access: &BoxAccess<'_>) -> Result<Vectors, CompileError> {
        let step: usize = access.vector_bits.iter().map(|&bit| 1 << bit).sum();
        let firsts: Vec<usize> = (0..access.layout.registers()).filter(|r| r & step == 0).collect();
        let lanes = 1usize << access.vector_bits.len();
        let spread = |k: usize| -> usize {
            access.vector_bits.iter().enumerate().filter(|(i, _)| k >> i & 1 == 1).map(|(_, b)| 1 << b).sum()
        };
        let registers = firsts.iter().map(|&f| (0..lanes).map(|k| f | spread(k)).collect()).collect();
        let addresses = self.addresses(access, &firsts)?;
        let predicates = self.predicates(access, &firsts)?;
        Ok(Vectors { registers, addresses, predicates })
    }

    /// One address for the thread, and the distance of each vector from it.
    fn addresses(&mut self, access: &BoxAccess<'_>, firsts: &[usize]) -> Result<Vec<Value>, CompileError> {
        let rank = access.shape.rank();
        let bytes = self.em.i64(access.elem.bytes().into());
        let mut steps = Vec::with_capacity(rank);
        let mut uniform = self.em.i64(0);
        let mut varying = self.em.i64(0);
        for axis in 0..rank {
            let stride = self.stride(access.view, axis)?;
            let step = self.em.hoisted(|e| e.mul(stride, bytes));
            let offset = self.scalar(access.offsets[axis])?;
            let part = self.em.mul(offset, step);
            uniform = self.em.add(uniform, part);
            let thread = self.thread_coordinate(access, axis);
            let part = self.em.hoisted(|e| {
                let thread = e.cast(thread, Scalar::I64);
                e.mul(thread, step)
            });
            varying = self.em.hoisted(|e| e.add(varying, part));
            steps.push(step);
        }
        let mut base = self.address(access.view)?;
        for part in [uniform, varying] {
            let part = self.em.cast(part, Scalar::U64);
            base = self.em.add(base, part);
        }
        let mut made: HashMap<(usize, u32), Value> = HashMap::new();
        let mut addresses = Vec::with_capacity(firsts.len());
        for &first in firsts {
            let flat = access.layout.register_index(first);
            let mut distance = self.em.i64(0);
            for (axis, &step) in steps.iter().enumerate() {
                let at = AxisBits::of(&access.shape, axis).coordinate(flat);
                let part = *made.entry((axis, at)).or_insert_with(|| {
                    let at = self.em.i64(at.into());
                    self.em.hoisted(|e| e.mul(at, step))
                });
                distance = self.em.add(distance, part);
            }
            let distance = self.em.cast(distance, Scalar::U64);
            addresses.push(self.em.add(base, distance));
        }
        Ok(addresses)
    }

    /// The i32 coordinate on an axis of this thread's register 0.
    fn thread_coordinate(&mut self, access: &BoxAccess<'_>, axis: usize) -> Value {
        let place = AxisBits::of(&access.shape, axis);
        let bases: Vec<u32> = access.layout.thread().iter().map(|&b| place.coordinate(b)).collect();
        self.em.linear(&bases)
    }

    fn predicates(
        &mut self,
        access: &BoxAccess<'_>,
        firsts: &[usize],
    ) -> Result<Vec<Option<Value>>, CompileError> {
        let mut windows = Vec::new();
        let mut uniform = None;
        for axis in 0..access.shape.rank() {
            if access.shape[axis] == 1 {
                let own = self.single(access, axis)?;
                uniform = self.em.both(uniform, own);
            } else {
                windows.push((axis, self.window(access, axis)?));
            }
        }
        // What holds for all elements or none narrows one window, instead of every predicate.
        if let Some(holds) = uniform
            && let Some(high) = windows.iter_mut().find_map(|(_, window)| window.high.as_mut())
        {
            let nothing = self.em.i32(i32::MIN.into());
            *high = self.em.select(holds, *high, nothing);
            uniform = None;
        }
        let mut made: HashMap<(usize, u32), Option<Value>> = HashMap::new();
        let mut predicates = Vec::with_capacity(firsts.len());
        for &first in firsts {
            let flat = access.layout.register_index(first);
            let mut inside = uniform;
            for &(axis, window) in &windows {
                let at = AxisBits::of(&access.shape, axis).coordinate(flat);
                let own = match made.get(&(axis, at)) {
                    Some(&own) => own,
                    None => {
                        let own = self.within(window, at);
                        made.insert((axis, at), own);
                        own
                    }
                };
                inside = self.em.both(inside, own);
            }
            predicates.push(inside);
        }
        Ok(predicates)
    }

    /// Where a coordinate lies in a window.
    fn within(&mut self, window: Window, at: u32) -> Option<Value> {
        let at = self.em.i32(at.into());
        let below = window.high.map(|high| self.em.compare(CompareOp::Lt, at, high));
        let above = window.low.map(|low| self.em.compare(CompareOp::Ge, at, low));
        self.em.both(below, above)
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

    /// The part of the box that lies inside the view on an axis. Clamped to the box it fits i32, whatever the offset.
    fn window(&mut self, access: &BoxAccess<'_>, axis: usize) -> Result<Window, CompileError> {
        let size = access.shape[axis];
        let offset = self.facts.of(access.offsets[axis]);
        let extent = self.facts.extent(access.view, axis);
        if inside(offset, extent, size) {
            return Ok(Window { low: None, high: None });
        }
        let thread = self.thread_coordinate(access, axis);
        let at = self.scalar(access.offsets[axis])?;
        let high = match offset.max + i128::from(size) <= extent.min {
            true => None,
            false => {
                let extent = self.extent(access.view, axis)?;
                let rest = self.em.sub(extent, at);
                let rest = self.clamp(rest, size);
                Some(self.em.sub(rest, thread))
            }
        };
        let low = match offset.non_negative() {
            true => None,
            false => {
                let zero = self.em.i64(0);
                let before = self.em.sub(zero, at);
                let before = self.clamp(before, size);
                Some(self.em.sub(before, thread))
            }
        };
        Ok(Window { low, high })
    }

    /// An i64 clamped to `0 ..= size`, as i32.
    fn clamp(&mut self, value: Value, size: u32) -> Value {
        let (zero, size) = (self.em.i64(0), self.em.i64(size.into()));
        let value = self.em.binary(BinaryOp::Max, value, zero);
        let value = self.em.binary(BinaryOp::Min, value, size);
        self.em.cast(value, Scalar::I32)
    }

    /// A load of adjacent elements.
    pub(super) fn ptr_load(
        &mut self,
        space: Space,
        elem: Scalar,
        lanes: usize,
        reuse: Reuse,
        address: Value,
        predicate: Option<Value>,
    ) -> Op {
        let kind = OpKind::PtrLoad { space, lanes: lanes as u32, reuse, predicated: predicate.is_some() };
        let operands: Vec<Value> = std::iter::once(address).chain(predicate).collect();
        self.em.op(kind, &operands, &vec![Type::scalar(elem); lanes])
    }

    /// A store of adjacent elements.
    pub(super) fn ptr_store(
        &mut self,
        space: Space,
        reuse: Reuse,
        address: Value,
        predicate: Option<Value>,
        values: &[Value],
    ) -> Op {
        let lanes = values.len() as u32;
        let kind = OpKind::PtrStore { space, lanes, reuse, predicated: predicate.is_some() };
        let operands: Vec<Value> =
            std::iter::once(address).chain(predicate).chain(values.iter().copied()).collect();
        self.em.op(kind, &operands, &[])
    }
}
