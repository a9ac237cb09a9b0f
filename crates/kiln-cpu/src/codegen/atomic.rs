//! Atomics of one thread on what the processor has an instruction for; the others are primitives
//! (see `elements.rs`).

use super::asm::scalar_type;
use super::elements::Indexed;
use super::emitter::Emitter;
use super::repr::Repr;
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, MemFlagsData, types};
use kiln_backend::Result;
use kiln_ir::{AtomicOp, Bounds, Literal, OpData, Scalar};

impl Emitter<'_> {
    /// A read-modify-write of one element; whether there is an instruction for it.
    pub(super) fn native_atomic(
        &mut self,
        data: &OpData,
        access: &Indexed,
        op: AtomicOp,
        bounds: Bounds,
    ) -> Result<bool> {
        let (elem, result) = (access.view.elem, data.results[0]);
        let Some(op) = instruction(op, elem).filter(|_| self.kernel.ty(result).is_scalar()) else {
            return Ok(false);
        };
        let (value, zero) = (self.scalar(access.values[0])?, self.constant(Literal::zero(elem)));
        let bits = if elem.bytes() == 4 { types::I32 } else { types::I64 };
        let old = self.one_access(access, bounds, Some(zero), |e, at| {
            let flags = MemFlagsData::trusted();
            if scalar_type(elem) == bits {
                return Some(e.asm.fb.ins().atomic_rmw(bits, flags, op, at, value));
            }
            let value = e.asm.fb.ins().bitcast(bits, MemFlagsData::new(), value);
            let old = e.asm.fb.ins().atomic_rmw(bits, flags, op, at, value);
            Some(e.asm.fb.ins().bitcast(scalar_type(elem), MemFlagsData::new(), old))
        })?;
        if let Some(old) = old {
            self.set(result, Repr::Scalar(old));
        }
        Ok(true)
    }

    /// A compare and exchange of one integer; whether this is one.
    pub(super) fn native_cas(&mut self, data: &OpData, access: &Indexed, bounds: Bounds) -> Result<bool> {
        let (elem, result) = (access.view.elem, data.results[0]);
        if !elem.is_int() || !self.kernel.ty(result).is_scalar() {
            return Ok(false);
        }
        let (expected, desired) = (self.scalar(access.values[0])?, self.scalar(access.values[1])?);
        let zero = self.constant(Literal::zero(elem));
        let old = self.one_access(access, bounds, Some(zero), |e, at| {
            Some(e.asm.fb.ins().atomic_cas(MemFlagsData::trusted(), at, expected, desired))
        })?;
        if let Some(old) = old {
            self.set(result, Repr::Scalar(old));
        }
        Ok(true)
    }
}

/// The instruction of an operation, if there is one.
pub(super) fn instruction(op: AtomicOp, elem: Scalar) -> Option<AtomicRmwOp> {
    if elem.bytes() < 4 || (elem.is_float() && op != AtomicOp::Exchange) {
        return None;
    }
    Some(match (op, elem.is_signed()) {
        (AtomicOp::Add, _) => AtomicRmwOp::Add,
        (AtomicOp::And, _) => AtomicRmwOp::And,
        (AtomicOp::Or, _) => AtomicRmwOp::Or,
        (AtomicOp::Xor, _) => AtomicRmwOp::Xor,
        (AtomicOp::Exchange, _) => AtomicRmwOp::Xchg,
        (AtomicOp::Min, true) => AtomicRmwOp::Smin,
        (AtomicOp::Min, false) => AtomicRmwOp::Umin,
        (AtomicOp::Max, true) => AtomicRmwOp::Smax,
        (AtomicOp::Max, false) => AtomicRmwOp::Umax,
        (AtomicOp::AddF16x2 | AtomicOp::AddBf16x2, _) => return None,
    })
}
