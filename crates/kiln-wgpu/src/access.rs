//! Accesses of views at an index for each axis, as kernels over threads have them.

use crate::body::Expr;
use crate::memory::ElementAccess;
use crate::parameters::Parameter;
use crate::types::{integer, unsigned, zero};
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Bounds, OpData, OpKind, Value};
use naga::{BinaryOperator as B, Scalar};

impl Writer<'_> {
    /// A thread's load: the padding where the index lies outside or the mask is false.
    pub(crate) fn gather(&mut self, op: &OpData, bounds: Bounds) -> Result<()> {
        let place = self.indexed(op, bounds)?;
        let held = self.held(place.elem);
        let padding = (self.get_as(op.padding(), held)?, held);
        self.load(op, place, &[padding])
    }

    pub(crate) fn scatter(&mut self, op: &OpData, bounds: Bounds) -> Result<()> {
        let place = self.indexed(op, bounds)?;
        let value = self.get_as(op.stored_value(), self.held(place.elem))?;
        self.store(place, &[value])
    }

    /// The place of the element at an operation's coordinates.
    pub(crate) fn indexed(&mut self, op: &OpData, bounds: Bounds) -> Result<ElementAccess> {
        if bounds == Bounds::Check {
            let what = format!("a checked index of `{}`", op.kind.mnemonic());
            return Err(self.unsupported(op, what, "Lower the kernel to threads first."));
        }
        let scalar = self.index_scalar();
        let mut predicate = op.mask().map(|mask| self.get(mask)).transpose()?;
        let mut at = self.body.literal(zero(scalar));
        for (axis, &coordinate) in op.coordinates().iter().enumerate() {
            let index = self.index(op, coordinate)?;
            if bounds == Bounds::Mask {
                let extent = self.extent_of(op.view(), axis as u32)?;
                let inside = self.inside(index, extent, scalar);
                let inside = self.inside_as_pair(op, coordinate, inside)?;
                predicate = Some(match predicate {
                    None => inside,
                    Some(others) => self.body.binary(B::LogicalAnd, others, inside),
                });
            }
            let stride = self.stride_of(op.view(), axis as u32)?;
            let step = self.body.binary(B::Multiply, index, stride);
            at = if axis == 0 { step } else { self.body.binary(B::Add, at, step) };
        }
        let at = self.narrowed(at, scalar);
        self.place(op, op.view(), at, predicate)
    }

    /// An integer as an index.
    fn index(&mut self, op: &OpData, value: Value) -> Result<Expr> {
        let (x, from) = (self.get(value)?, self.scalar(op, value)?);
        let to = self.index_scalar();
        Ok(self.resized(x, from, to))
    }

    /// Whether `0 <= index < extent`: as unsigned numbers, negative ones are large.
    fn inside(&mut self, index: Expr, extent: Expr, scalar: Scalar) -> Expr {
        let [index, extent] = [index, extent].map(|x| self.body.reinterpret(x, unsigned(scalar)));
        self.body.binary(B::Less, index, extent)
    }

    /// The same where the index is a pair, of which `inside` has seen the low word: the high one
    /// is zero.
    fn inside_as_pair(&mut self, op: &OpData, coordinate: Value, inside: Expr) -> Result<Expr> {
        let (x, scalar) = (self.get(coordinate)?, self.scalar(op, coordinate)?);
        if !self.is_pair(scalar) {
            return Ok(inside);
        }
        let [_, high] = self.words(x);
        let none = self.body.u32(0);
        let is_word = self.body.binary(B::Equal, high, none);
        Ok(self.body.binary(B::LogicalAnd, inside, is_word))
    }

    pub(crate) fn extent_of(&mut self, view: Value, axis: u32) -> Result<Expr> {
        if let Some(param) = self.parameter_of(view) {
            let extent = self.parameter(Parameter::Extent(param, axis));
            return extent.ok_or_else(|| self.internal(format!("no extent {axis} of {view}")));
        }
        let extents = self.extents(view);
        self.constant_index(extents.get(axis as usize).copied().unwrap_or_default())
    }

    pub(crate) fn stride_of(&mut self, view: Value, axis: u32) -> Result<Expr> {
        if let Some(param) = self.parameter_of(view) {
            let stride = self.parameter(Parameter::Stride(param, axis));
            return stride.ok_or_else(|| self.internal(format!("no stride {axis} of {view}")));
        }
        let extents = self.extents(view);
        self.constant_index(extents.iter().skip(axis as usize + 1).product())
    }

    fn constant_index(&mut self, value: u32) -> Result<Expr> {
        let scalar = self.index_scalar();
        Ok(self.body.literal(integer(scalar, value)))
    }

    /// The position of the parameter that a view is.
    fn parameter_of(&self, view: Value) -> Option<usize> {
        self.kernel.block(self.kernel.body).args.iter().position(|&arg| arg == view)
    }

    /// The extents of an allocation or of scratch memory.
    fn extents(&self, view: Value) -> Vec<u32> {
        let elem = self.elem(view);
        let Some(op) = self.kernel.defining_op(view) else { return Vec::new() };
        if let OpKind::Alloc { shape, .. } = &op.kind {
            shape.extents().to_vec()
        } else if let OpKind::Scratch { offset } = op.kind {
            vec![self.kernel.scratch_bytes.saturating_sub(offset) / elem.bytes()]
        } else {
            Vec::new()
        }
    }
}
