//! The conditions under which operations do not fault.

use super::Lowering;
use crate::opt::trusted;
use kiln_ir::{
    BinaryOp, Block, Bounds, CompareOp, Literal, Op, OpData, OpFault, OpKind, Operand, ReduceOp, Scalar,
    Shape, UnaryOp, Value,
};

impl Lowering<'_> {
    /// The number of an operation as a site; 0 if it cannot fault, also because that has been
    /// proved.
    pub(super) fn site(&self, op: Op) -> u32 {
        let data = self.kernel.op(op);
        let proved = if let OpKind::Assert(_) = data.kind {
            self.kernel.as_const(data.condition()).is_some_and(Literal::is_true)
        } else {
            data.kind.bounds().is_some_and(|bounds| bounds != Bounds::Check)
        };
        if proved { 0 } else { self.fault_regions.site(op) }
    }

    /// Appends the condition under which an operation does not fault; `None` if it never does. If
    /// its fault concerns the block, the condition is that no thread's does, and the thread's own
    /// condition comes with it.
    pub(super) fn does_not_fault(&mut self, op: Op, at: Block) -> Option<(Value, Option<Value>)> {
        let data = self.kernel.op(op).clone();
        let fine = match self.kernel.fault_of(op)? {
            OpFault::Assert => data.condition(),
            OpFault::DivisionByZero => self.is_not_zero(at, data.right()),
            OpFault::OutOfBounds => self.is_inside(at, &data)?,
        };
        let fine = self.all_elements(at, fine);
        let varies = data.operands.iter().any(|&v| self.fault_regions.varies(v));
        let agree = varies && self.fault_regions.concerns_block(op);
        Some(if agree { (self.all_of_block(at, fine), Some(fine)) } else { (fine, None) })
    }

    /// What is left of an operation that surely does not fault.
    pub(super) fn without_check(&mut self, op: Op) -> Option<Op> {
        let kind = &self.kernel.op(op).kind;
        if let OpKind::Assert(_) = kind {
            return None;
        }
        self.kernel.op_mut(op).kind = trusted(kind);
        Some(op)
    }

    fn is_not_zero(&mut self, at: Block, divisor: Value) -> Value {
        let (elem, shape) = (self.kernel.ty(divisor).elem(), self.kernel.shape(divisor));
        let mut b = self.at(at);
        let zero = b.splat(Literal::zero(elem), shape);
        b.compare(CompareOp::Ne, divisor, zero)
    }

    /// Whether the elements that an access names lie inside its view.
    fn is_inside(&mut self, at: Block, data: &OpData) -> Option<Value> {
        let view = data.view();
        let rank = self.kernel.ty(view).as_view().map_or(0, |v| v.rank);
        let mut b = self.at(at);
        let mut inside = None;
        for axis in 0..rank {
            let index = data.coordinates()[axis as usize];
            let shape = b.kernel.shape(index);
            let extent = b.extent(view, axis);
            // As unsigned numbers, negative indices are above every extent.
            let index = b.cast(index, Scalar::I64);
            let (index, extent) = (b.cast(index, Scalar::U64), b.cast(extent, Scalar::U64));
            let extent = b.broadcast(extent, shape);
            let here = b.compare(CompareOp::Lt, index, extent);
            inside = Some(match inside {
                Some(others) => b.binary(BinaryOp::And, others, here),
                None => here,
            });
        }
        if data.mask().is_none() {
            return inside;
        }
        let off = b.unary(UnaryOp::Not, data.operand(Operand::Mask));
        inside.map(|inside| b.binary(BinaryOp::Or, inside, off))
    }

    /// Whether a condition holds of all elements of a tile.
    fn all_elements(&mut self, at: Block, holds: Value) -> Value {
        let shape = self.kernel.shape(holds);
        if shape.rank() == 0 {
            return holds;
        }
        let mut b = self.at(at);
        let flat = b.reshape(holds, Shape::new(&[shape.len() as u32]));
        b.reduce(ReduceOp::And, 0, flat)
    }
}
