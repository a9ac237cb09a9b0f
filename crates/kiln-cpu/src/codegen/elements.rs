//! Access to memory element by element: gather, scatter, atomics.

use super::asm::scalar_type;
use super::emitter::Emitter;
use super::repr::{Repr, View};
use crate::site::SiteKind;
use crate::symbol::Function;
use cranelift_codegen::ir::{self, InstBuilder, condcodes::IntCC, types};
use kiln_backend::Result;
use kiln_cpu_primitives::PrimitiveKey;
use kiln_cpu_primitives::indexing::IndexAxis;
use kiln_ir::{AtomicOp, Bounds, OpData, Scalar, Value};
use std::mem::{offset_of, size_of};

/// The operands of an indexed access.
pub(super) struct Indexed {
    pub(super) view: View,
    pub(super) indices: Vec<Value>,
    pub(super) mask: Option<Value>,
    /// What stands after the mask.
    pub(super) values: Vec<Value>,
    pub(super) len: usize,
}

/// Which elements of a view an access names.
pub(super) struct Elements {
    pub(super) base: ir::Value,
    /// The address of the offsets, in elements.
    pub(super) linear: ir::Value,
    /// The address of the mask; 0 where there is none.
    pub(super) mask: ir::Value,
    pub(super) count: ir::Value,
}

impl Emitter<'_> {
    pub(super) fn gather(&mut self, data: &OpData, bounds: Bounds, masked: bool) -> Result<()> {
        let access = self.indexed(data, masked, 1)?;
        let (result, padding) = (data.results[0], access.values[0]);
        let elem = access.view.elem;
        if self.kernel.ty(result).is_scalar() {
            let padding = self.scalar(padding)?;
            let value = self.one_access(&access, bounds, Some(padding), |e, at| {
                Some(e.asm.load(scalar_type(elem), at, 0))
            })?;
            if let Some(value) = value {
                self.set(result, Repr::Scalar(value));
            }
            return Ok(());
        }
        let out = self.output(result).at;
        self.gather_each(&access, bounds, out)
    }

    pub(super) fn gather_each(&mut self, access: &Indexed, bounds: Bounds, out: ir::Value) -> Result<()> {
        let padding = self.scalar(access.values[0])?;
        let padding = self.asm.bits(padding);
        if bounds == Bounds::Mask
            && let Some(args) = self.lane_box(access, out, padding)
        {
            return self.call(PrimitiveKey::LoadBox(access.view.elem), &args).map(drop);
        }
        let elements = self.elements(access, bounds)?;
        let args = [out, elements.base, elements.linear, elements.mask, padding, elements.count];
        self.call(PrimitiveKey::Gather(access.view.elem), &args).map(drop)
    }

    pub(super) fn scatter(&mut self, data: &OpData, bounds: Bounds, masked: bool) -> Result<()> {
        let access = self.indexed(data, masked, 1)?;
        let value = access.values[0];
        if access.is_scalar(self) {
            let scalar = self.scalar(value)?;
            let store = |e: &mut Self, at| {
                e.asm.store(scalar, at, 0);
                None
            };
            return self.one_access(&access, bounds, None, store).map(drop);
        }
        self.scatter_each(&access, bounds)
    }

    pub(super) fn scatter_each(&mut self, access: &Indexed, bounds: Bounds) -> Result<()> {
        if self.scatter_few(access)? {
            return Ok(());
        }
        let tile = self.array(access.values[0], access.len)?;
        let none = self.asm.int(0);
        if bounds == Bounds::Mask
            && let Some(args) = self.lane_box(access, tile, none)
        {
            return self.call(PrimitiveKey::StoreBox(access.view.elem), &args).map(drop);
        }
        let elements = self.elements(access, bounds)?;
        let args = [elements.base, tile, elements.linear, elements.mask, elements.count];
        self.call(PrimitiveKey::Scatter(access.view.elem), &args).map(drop)
    }

    /// Runs one of two pieces of code.
    pub(super) fn either_way(
        &mut self,
        condition: ir::Value,
        yes: impl FnOnce(&mut Self) -> Result<()>,
        no: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let [hot, cold, rest] = [(); 3].map(|()| self.asm.block(&[]).0);
        self.asm.fb.set_cold_block(cold);
        self.asm.branch(condition, hot, cold);
        self.asm.enter(hot);
        yes(self)?;
        self.asm.jump(rest, &[]);
        self.asm.enter(cold);
        no(self)?;
        self.asm.jump(rest, &[]);
        self.asm.enter(rest);
        Ok(())
    }

    pub(super) fn atomic(&mut self, data: &OpData, op: AtomicOp, bounds: Bounds, masked: bool) -> Result<()> {
        let access = self.indexed(data, masked, 1)?;
        if self.native_atomic(data, &access, op, bounds)? {
            return Ok(());
        }
        if self.atomic_few(data, &access, op, bounds)? {
            return Ok(());
        }
        if self.add_each(data, &access, bounds)? {
            return Ok(());
        }
        let elements = self.elements(&access, bounds)?;
        let value = self.array(access.values[0], access.len)?;
        let key = PrimitiveKey::Atomic(op, access.view.elem);
        if !self.live.is_used(data.results[0]) {
            let none = self.asm.int(0);
            let args = [none, elements.base, elements.linear, elements.mask, value, elements.count];
            return self.call(key, &args).map(drop);
        }
        self.produce(data.results[0], |e, out| {
            let args = [out, elements.base, elements.linear, elements.mask, value, elements.count];
            e.call(key, &args).map(drop)
        })
    }

    pub(super) fn atomic_cas(&mut self, data: &OpData, bounds: Bounds) -> Result<()> {
        let access = self.indexed(data, false, 2)?;
        if self.native_cas(data, &access, bounds)? {
            return Ok(());
        }
        let elements = self.elements(&access, bounds)?;
        let expected = self.array(access.values[0], access.len)?;
        let desired = self.array(access.values[1], access.len)?;
        self.produce(data.results[0], |e, out| {
            let Elements { base, linear, mask, count } = elements;
            let args = [out, base, linear, mask, expected, desired, count];
            e.call(PrimitiveKey::AtomicCas(access.view.elem), &args).map(drop)
        })
    }

    pub(super) fn indexed(&self, data: &OpData, masked: bool, values: usize) -> Result<Indexed> {
        let view = self.view(data.view())?.clone();
        // Ordered accesses of lanes have a mask behind the indices, which those of threads have
        // not.
        let (indices, lanes) = data.coordinates().split_at(view.strides.len().min(data.coordinates().len()));
        let mask = data.mask().or(lanes.first().copied());
        let in_range = indices.len() == view.strides.len() && data.access_values().len() == values;
        if !in_range || mask.is_some() != masked {
            return Err(self.internal("an indexed access with a wrong number of operands"));
        }
        let shaped = data.operands.iter().skip(1).map(|&v| self.len(v)).max();
        Ok(Indexed {
            view,
            indices: indices.to_vec(),
            mask,
            values: data.access_values().to_vec(),
            len: shaped.unwrap_or(1),
        })
    }

    /// Offsets and mask of an access; ends the program on an index outside if bounds are checked.
    pub(super) fn elements(&mut self, access: &Indexed, bounds: Bounds) -> Result<Elements> {
        if let Some(elements) = self.known_elements(access)? {
            return Ok(elements);
        }
        let len = access.len;
        let axes = self.asm.stack(size_of::<IndexAxis>() * access.indices.len().max(1));
        for (axis, &index) in access.indices.iter().enumerate() {
            let at = (axis * size_of::<IndexAxis>()) as i32;
            let index = self.index_tile(index, len)?;
            self.asm.store(index, axes, at + offset_of!(IndexAxis, index) as i32);
            self.asm.store(access.view.extents[axis], axes, at + offset_of!(IndexAxis, extent) as i32);
            self.asm.store(access.view.strides[axis], axes, at + offset_of!(IndexAxis, stride) as i32);
        }
        let none = self.asm.int(0);
        let mask = match access.mask {
            Some(mask) => self.array(mask, len)?,
            None => none,
        };
        let linear = self.temporary(len * 8);
        let inside = self.temporary(len);
        let rank = self.asm.int(access.indices.len() as i64);
        let count = self.asm.int(len as i64);
        let args = [linear, inside, mask, axes, rank, count];
        let outside = self.asm.call_own(Function::Linearize, &args, Some(types::I32));
        let mask = match bounds {
            Bounds::Mask => inside,
            Bounds::Trust => mask,
            Bounds::Check => {
                let Some(outside) = outside else { return Err(self.internal("no flag")) };
                self.check_elements(outside, mask, axes, rank, count);
                mask
            }
        };
        Ok(Elements { base: access.view.base, linear, mask, count })
    }

    fn check_elements(
        &mut self,
        outside: ir::Value,
        mask: ir::Value,
        axes: ir::Value,
        rank: ir::Value,
        count: ir::Value,
    ) {
        let site = self.site(SiteKind::Bounds);
        self.fault_if(outside, |e| {
            let found = e.asm.stack(16);
            let args = [mask, axes, rank, count, found];
            let lane = e.asm.call_own(Function::FirstOutside, &args, Some(types::I64));
            (site, lane.unwrap_or(count), found)
        });
    }

    /// An index operand as an array of i64.
    fn index_tile(&mut self, index: Value, len: usize) -> Result<ir::Value> {
        let at = self.array(index, len)?;
        let elem = self.kernel.ty(index).elem();
        if matches!(elem, Scalar::I64 | Scalar::U64) {
            return Ok(at);
        }
        let wide = self.temporary(len * 8);
        let count = self.asm.int(len as i64);
        self.call(PrimitiveKey::Cast(elem, Scalar::I64), &[wide, at, count])?;
        Ok(wide)
    }

    /// A plain access of one element: `access` gets its address, where it is inside; `otherwise` is
    /// the result where it is not.
    pub(super) fn one_access(
        &mut self,
        indexed: &Indexed,
        bounds: Bounds,
        otherwise: Option<ir::Value>,
        access: impl FnOnce(&mut Self, ir::Value) -> Option<ir::Value>,
    ) -> Result<Option<ir::Value>> {
        let (rest, params) =
            self.asm.block(&otherwise.map_or(vec![], |_| vec![scalar_type(indexed.view.elem)]));
        let otherwise: Vec<ir::Value> = otherwise.into_iter().collect();
        let skip = |e: &mut Self, goes: ir::Value| {
            let (next, _) = e.asm.block(&[]);
            let otherwise: Vec<ir::BlockArg> = otherwise.iter().map(|&v| v.into()).collect();
            e.asm.fb.ins().brif(goes, next, &[], rest, &otherwise);
            e.asm.enter(next);
        };
        if let Some(mask) = indexed.mask {
            let mask = self.scalar(mask)?;
            skip(self, mask);
        }
        let mut linear = self.asm.int(0);
        for (axis, &index) in indexed.indices.iter().enumerate() {
            let index = self.wide_index(index)?;
            let (extent, stride) = (indexed.view.extents[axis], indexed.view.strides[axis]);
            let inside = self.asm.compare(IntCC::UnsignedLessThan, index, extent);
            match bounds {
                Bounds::Trust => {}
                Bounds::Mask => skip(self, inside),
                Bounds::Check => self.check_index(0, inside, index, extent),
            }
            let step = self.asm.mul(index, stride);
            linear = self.asm.add(linear, step);
        }
        let bytes = self.asm.mul_const(linear, indexed.view.elem.bytes().into());
        let at = self.asm.add(indexed.view.base, bytes);
        let value: Vec<ir::Value> = access(self, at).into_iter().collect();
        self.asm.jump(rest, &value);
        self.asm.enter(rest);
        Ok(params.first().copied())
    }

    /// Ends the program if an index of a lane is outside.
    pub(super) fn check_index(
        &mut self,
        lane: usize,
        inside: ir::Value,
        index: ir::Value,
        extent: ir::Value,
    ) {
        let site = self.site(SiteKind::Bounds);
        let outside = self.asm.fb.ins().icmp_imm_s(IntCC::Equal, inside, 0);
        self.fault_if(outside, |e| {
            let values = e.asm.stack(16);
            e.asm.store(index, values, 0);
            e.asm.store(extent, values, 8);
            let lane = e.asm.int(lane as i64);
            (site, lane, values)
        });
    }

    /// A scalar index as i64.
    fn wide_index(&mut self, index: Value) -> Result<ir::Value> {
        let (scalar, elem) = (self.scalar(index)?, self.kernel.ty(index).elem());
        Ok(match elem {
            Scalar::I32 => self.asm.fb.ins().sextend(types::I64, scalar),
            Scalar::U32 => self.asm.fb.ins().uextend(types::I64, scalar),
            _ => scalar,
        })
    }
}

impl Indexed {
    fn is_scalar(&self, emitter: &Emitter<'_>) -> bool {
        self.values.iter().chain(&self.indices).all(|&v| emitter.kernel.ty(v).is_scalar())
    }
}
