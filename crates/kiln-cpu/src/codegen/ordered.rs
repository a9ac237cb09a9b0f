//! Ordered accesses. Those of one thread are machine instructions; those of lanes are calls (see
//! [`ordered`](crate::ordered)).

use super::asm::scalar_type;
use super::emitter::Emitter;
use super::repr::Repr;
use crate::symbol::Function;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, condcodes::IntCC, types};
use kiln_backend::Result;
use kiln_cpu_primitives::atomic_128::{self, Pairs};
use kiln_cpu_primitives::ordered::Quads;
use kiln_ir::{Bounds, Literal, OpData, Operand, Order, Scalar, Value};
use std::mem::{offset_of, size_of};

impl Emitter<'_> {
    pub(super) fn ordered_load(&mut self, data: &OpData, order: Order, bounds: Bounds) -> Result<()> {
        let result = data.results[0];
        if !self.kernel.ty(result).is_scalar() {
            let access = self.indexed(data, true, 0)?;
            let lanes = self.elements(&access, bounds)?;
            let out = self.output(result).at;
            let function = Function::Load(access.view.elem.bytes() != 4, order == Order::Acquire);
            let args = [out, lanes.base, lanes.linear, lanes.mask, lanes.count];
            self.asm.call_own(function, &args, None);
            return Ok(());
        }
        let access = self.indexed(data, false, 0)?;
        let elem = access.view.elem;
        let zero = self.constant(Literal::zero(elem));
        let value = self.one_access(&access, bounds, Some(zero), |e, at| {
            // A load that acquires, which costs no more than a plain one on x86-64 and little more
            // on AArch64.
            let bits = integer(elem);
            let loaded = e.asm.fb.ins().atomic_load(bits, MemFlagsData::trusted(), at);
            Some(match scalar_type(elem) == bits {
                true => loaded,
                false => e.asm.fb.ins().bitcast(scalar_type(elem), MemFlagsData::new(), loaded),
            })
        })?;
        if let Some(value) = value {
            self.set(result, Repr::Scalar(value));
        }
        Ok(())
    }

    pub(super) fn ordered_store(&mut self, data: &OpData, order: Order, bounds: Bounds) -> Result<()> {
        let value = data.stored_value();
        if self.is_lanes(data) {
            let access = self.indexed(data, true, 1)?;
            let lanes = self.elements(&access, bounds)?;
            let tile = self.array(value, access.len)?;
            let function = Function::Store(access.view.elem.bytes() != 4, order == Order::Release);
            let args = [lanes.base, tile, lanes.linear, lanes.mask, lanes.count];
            self.asm.call_own(function, &args, None);
            return Ok(());
        }
        let access = self.indexed(data, false, 1)?;
        let scalar = self.scalar(value)?;
        self.one_access(&access, bounds, None, |e, at| {
            e.store_in_order(scalar, access.view.elem, at);
            None
        })?;
        Ok(())
    }

    /// A store that releases.
    fn store_in_order(&mut self, scalar: ir::Value, elem: Scalar, at: ir::Value) {
        // x86-64 makes stores visible in program order, after all loads before them. Cranelift's
        // atomic store is sequentially consistent, which costs a full fence there; a plain one
        // between sequence points, which no access of memory crosses, does what is asked.
        if cfg!(target_arch = "x86_64") {
            self.asm.fb.ins().sequence_point();
            self.asm.store(scalar, at, 0);
            self.asm.fb.ins().sequence_point();
            return;
        }
        let bits = match scalar_type(elem) == integer(elem) {
            true => scalar,
            false => self.asm.fb.ins().bitcast(integer(elem), MemFlagsData::new(), scalar),
        };
        self.asm.fb.ins().atomic_store(MemFlagsData::trusted(), bits, at);
    }

    pub(super) fn load_quad(&mut self, data: &OpData, bounds: Bounds) -> Result<()> {
        self.has_quads()?;
        if self.is_lanes(data) {
            let words = data.results.iter().map(|&r| self.output(r).at).collect();
            return self.quads_of_lanes(data, bounds, words, Function::LoadQuads);
        }
        let zero = self.asm.fb.ins().iconst(types::I32, 0);
        let (rest, words) = self.asm.block(&[types::I32; 4]);
        let at = self.quad_address(data, bounds, rest, &[zero; 4])?;
        // One aligned vector access, which is atomic on every x86-64 with AVX and on AArch64 with
        // LSE2. The sequence points keep Cranelift from taking the value from an earlier access.
        self.asm.fb.ins().sequence_point();
        let vector = self.asm.load(types::I32X4, at, 0);
        self.asm.fb.ins().sequence_point();
        let lanes = [0, 1, 2, 3].map(|lane| self.asm.fb.ins().extractlane(vector, lane));
        self.asm.jump(rest, &lanes);
        self.asm.enter(rest);
        for (&result, word) in data.results.iter().zip(words) {
            self.set(result, Repr::Scalar(word));
        }
        Ok(())
    }

    pub(super) fn store_quad(&mut self, data: &OpData, bounds: Bounds) -> Result<()> {
        self.has_quads()?;
        if self.is_lanes(data) {
            let len = self.len(data.index()).max(1);
            let words = data.stored_values().iter().map(|&v| self.array(v, len)).collect::<Result<_>>()?;
            return self.quads_of_lanes(data, bounds, words, Function::StoreQuads);
        }
        let words = data.stored_values().iter().map(|&v| self.scalar(v)).collect::<Result<Vec<_>>>()?;
        let (rest, _) = self.asm.block(&[]);
        let at = self.quad_address(data, bounds, rest, &[])?;
        let mut vector = self.asm.fb.ins().scalar_to_vector(types::I32X4, words[0]);
        for (lane, &word) in words.iter().enumerate().skip(1) {
            vector = self.asm.fb.ins().insertlane(vector, word, lane as u8);
        }
        self.asm.fb.ins().sequence_point();
        self.asm.store(vector, at, 0);
        self.asm.fb.ins().sequence_point();
        self.asm.jump(rest, &[]);
        self.asm.enter(rest);
        Ok(())
    }

    /// The address of one thread's quad; goes to `rest` with `otherwise` where there is none and
    /// that is masked.
    fn quad_address(
        &mut self,
        data: &OpData,
        bounds: Bounds,
        rest: ir::Block,
        otherwise: &[ir::Value],
    ) -> Result<ir::Value> {
        let (view, index) = (self.view(data.view())?.clone(), self.scalar(data.index())?);
        let bytes = self.asm.mul_const(index, 4);
        let at = self.asm.add(view.base, bytes);
        if bounds != Bounds::Trust {
            let (zero, last) = (self.asm.int(0), self.asm.add_const(view.extents[0], -4));
            let above = self.asm.compare(IntCC::SignedGreaterThanOrEqual, index, zero);
            let below = self.asm.compare(IntCC::SignedLessThanOrEqual, index, last);
            let mut inside = self.asm.and(above, below);
            let rest_of = self.asm.fb.ins().band_imm_u(at, 15);
            let aligned = self.asm.fb.ins().icmp_imm_s(IntCC::Equal, rest_of, 0);
            inside = self.asm.and(inside, aligned);
            let adjacent = self.asm.fb.ins().icmp_imm_s(IntCC::Equal, view.strides[0], 1);
            inside = self.asm.and(inside, adjacent);
            let (next, _) = self.asm.block(&[]);
            let otherwise: Vec<ir::BlockArg> = otherwise.iter().map(|&v| v.into()).collect();
            self.asm.fb.ins().brif(inside, next, &[], rest, &otherwise);
            self.asm.enter(next);
        }
        Ok(at)
    }

    /// Calls a function on the quads of lanes. Operands: the view, the index, the mask, the words.
    fn quads_of_lanes(
        &mut self,
        data: &OpData,
        bounds: Bounds,
        words: Vec<ir::Value>,
        function: Function,
    ) -> Result<()> {
        let view = self.view(data.view())?.clone();
        let [index, mask] = data.coordinates()[..] else {
            return Err(self.internal("quads without a mask"));
        };
        let len = self.len(index).max(self.len(mask));
        let (index, mask) = (self.array(index, len)?, self.array(mask, len)?);
        let extent = match bounds {
            Bounds::Trust => self.asm.int(i64::MAX),
            _ => {
                let adjacent = self.asm.fb.ins().icmp_imm_s(IntCC::Equal, view.strides[0], 1);
                let none = self.asm.int(0);
                self.asm.fb.ins().select(adjacent, view.extents[0], none)
            }
        };
        let quads = self.asm.stack(size_of::<Quads>());
        self.asm.store(view.base, quads, offset_of!(Quads, memory) as i32);
        self.asm.store(extent, quads, offset_of!(Quads, extent) as i32);
        self.asm.store(index, quads, offset_of!(Quads, index) as i32);
        self.asm.store(mask, quads, offset_of!(Quads, mask) as i32);
        for (i, word) in words.into_iter().enumerate() {
            self.asm.store(word, quads, (offset_of!(Quads, words) + 8 * i) as i32);
        }
        let count = self.asm.int(len as i64);
        self.asm.call_own(function, &[quads, count], None);
        Ok(())
    }

    /// Two elements of 8 bytes of each lane, or of one thread, by a call.
    pub(super) fn atomic_128(&mut self, data: &OpData) -> Result<()> {
        if !atomic_128::is_there() {
            return Err(self.unsupported(format!("`{}` on this processor", data.kind.mnemonic())));
        }
        let view = self.view(data.view())?.clone();
        let lanes = data.coordinates().iter().map(|&v| self.len(v)).max().unwrap_or(1).max(1);
        let index = self.array(data.index(), lanes)?;
        let mask = match data.coordinates() {
            [_, mask] => self.array(*mask, lanes)?,
            _ => {
                let (all, one) = (self.asm.stack(1), self.asm.fb.ins().iconst(types::I8, 1));
                self.asm.store(one, all, 0);
                all
            }
        };
        let adjacent = self.asm.fb.ins().icmp_imm_s(IntCC::Equal, view.strides[0], 1);
        let none = self.asm.int(0);
        let extent = self.asm.fb.ins().select(adjacent, view.extents[0], none);
        let pairs = self.asm.stack(size_of::<Pairs>());
        for (field, value) in [
            (offset_of!(Pairs, memory), view.base),
            (offset_of!(Pairs, extent), extent),
            (offset_of!(Pairs, index), index),
            (offset_of!(Pairs, mask), mask),
        ] {
            self.asm.store(value, pairs, field as i32);
        }
        let compares = !data.named(Operand::Expected).is_empty();
        let desired = if compares { Operand::Desired } else { Operand::Stored };
        for (field, name) in
            [(offset_of!(Pairs, expected), Operand::Expected), (offset_of!(Pairs, desired), desired)]
        {
            for i in 0..2 {
                let at = match data.named(name).get(i) {
                    Some(&value) => self.array(value, lanes)?,
                    None => none,
                };
                self.asm.store(at, pairs, (field + 8 * i) as i32);
            }
        }
        let is_lanes = self.is_lanes(data);
        let places: Vec<ir::Value> = data
            .results
            .iter()
            .map(|&result| match is_lanes {
                true => self.output(result).at,
                false => self.asm.stack(8),
            })
            .collect();
        let fields = [offset_of!(Pairs, old), offset_of!(Pairs, old) + 8, offset_of!(Pairs, found)];
        for (&at, field) in places.iter().zip(fields) {
            self.asm.store(at, pairs, field as i32);
        }
        let count = self.asm.int(lanes as i64);
        self.asm.call_own(Function::ExchangePairs, &[pairs, count], None);
        if !is_lanes {
            for (&result, at) in data.results.iter().zip(places) {
                let loaded = self.asm.load(scalar_type(self.kernel.ty(result).elem()), at, 0);
                self.set(result, Repr::Scalar(loaded));
            }
        }
        Ok(())
    }

    /// An error on processors of which it is not known that an aligned vector arrives whole.
    fn has_quads(&self) -> Result<()> {
        match cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            true => Ok(()),
            false => Err(self.unsupported("quads that arrive whole on this processor".into())),
        }
    }

    /// Whether an access is of lanes: some index, mask or value is a tile.
    fn is_lanes(&self, data: &OpData) -> bool {
        let tile = |v: &Value| self.kernel.ty(*v).as_tile().is_some_and(|t| t.shape.rank() > 0);
        data.operands.iter().any(tile)
    }
}

/// The integer of an element's size.
fn integer(elem: Scalar) -> ir::Type {
    if elem.bytes() == 4 { types::I32 } else { types::I64 }
}
