//! Operations on scalars, and on splats, which are scalars. What Cranelift has is emitted;
//! everything else is a primitive over one element, so that scalars and tiles agree to the bit.

use super::asm::scalar_type;
use super::emitter::Emitter;
use super::liveness::Elementwise;
use super::repr::Repr;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder};
use kiln_backend::Result;
use kiln_cpu_primitives::{Form, PrimitiveKey, UnaryInstruction, unary_instruction};
use kiln_ir::{BinaryOp, CompareOp, OpData, Scalar, UnaryOp};

impl Emitter<'_> {
    /// An element-wise operation on scalars.
    pub(super) fn scalar_operation(&mut self, data: &OpData) -> Result<()> {
        let result = data.results[0];
        let elem = self.kernel.ty(result).elem();
        let from = data.operands.last().map_or(elem, |&v| self.kernel.ty(v).elem());
        let args = data.operands.iter().map(|&v| self.scalar(v)).collect::<Result<Vec<_>>>()?;
        let operation = Elementwise::of(&data.kind);
        let operation = operation.ok_or_else(|| self.internal("not an element-wise operation"))?;
        let native = match operation {
            Elementwise::Unary(op) => self.native_unary(op, from, args[0]),
            Elementwise::Binary(op) => self.native_binary(op, elem, args[0], args[1]),
            Elementwise::Compare(op) => self.native_compare(op, from, args[0], args[1]),
            Elementwise::Select => Some(self.asm.fb.ins().select(args[0], args[1], args[2])),
            Elementwise::Fma if elem.is_int() => {
                let product = self.asm.mul(args[0], args[1]);
                Some(self.asm.add(product, args[2]))
            }
            Elementwise::Cast => self.native_cast(from, elem, args[0]),
            Elementwise::Fma => None,
        };
        let value = match native {
            Some(value) => value,
            None => self.one_element(operation, from, elem, &args)?,
        };
        self.set(result, Repr::Scalar(value));
        Ok(())
    }

    /// Calls the primitive of an operation for one element.
    fn one_element(
        &mut self,
        operation: Elementwise,
        from: Scalar,
        elem: Scalar,
        args: &[ir::Value],
    ) -> Result<ir::Value> {
        let out = self.asm.stack(8);
        let one = self.asm.int(1);
        let a = self.asm.stack(8);
        self.asm.store(args[0], a, 0);
        match operation {
            Elementwise::Unary(op) => drop(self.call(PrimitiveKey::Unary(op, from), &[out, a, one])?),
            Elementwise::Cast => drop(self.call(PrimitiveKey::Cast(from, elem), &[out, a, one])?),
            Elementwise::Binary(op) => {
                let b = self.asm.bits(args[1]);
                let form = Form::ScalarRight;
                let flag = self.call(PrimitiveKey::Binary(op, form, elem), &[out, a, b, one])?;
                self.check_divisor(op, elem, flag, [a, b], form, None, one)?;
            }
            Elementwise::Compare(op) => {
                let b = self.asm.bits(args[1]);
                self.call(PrimitiveKey::Compare(op, Form::ScalarRight, from), &[out, a, b, one])?;
            }
            Elementwise::Fma => {
                let (b, c) = (self.asm.bits(args[1]), self.asm.stack(8));
                self.asm.store(args[2], c, 0);
                self.call(PrimitiveKey::Fma(Form::ScalarRight, elem), &[out, a, b, c, one])?;
            }
            // It is an instruction for every type.
            Elementwise::Select => return Err(self.internal("a selection without an instruction")),
        }
        Ok(self.asm.load(scalar_type(elem), out, 0))
    }

    fn native_unary(&mut self, op: UnaryOp, elem: Scalar, x: ir::Value) -> Option<ir::Value> {
        unary_instruction(op, elem).map(|instruction| self.native_instruction(instruction, x))
    }

    /// An instruction for scalars, and but for bools also for vectors.
    pub(super) fn native_instruction(&mut self, instruction: UnaryInstruction, x: ir::Value) -> ir::Value {
        let ins = self.asm.fb.ins();
        match instruction {
            UnaryInstruction::Copy => x,
            UnaryInstruction::NegateInt => ins.ineg(x),
            UnaryInstruction::NegateFloat => ins.fneg(x),
            UnaryInstruction::InvertBool => ins.bxor_imm_u(x, 1),
            UnaryInstruction::InvertBits => ins.bnot(x),
            UnaryInstruction::AbsInt => ins.iabs(x),
            UnaryInstruction::AbsFloat => ins.fabs(x),
            UnaryInstruction::Sqrt => ins.sqrt(x),
            UnaryInstruction::IsNan => ins.fcmp(FloatCC::Unordered, x, x),
        }
    }

    pub(super) fn native_binary(
        &mut self,
        op: BinaryOp,
        elem: Scalar,
        a: ir::Value,
        b: ir::Value,
    ) -> Option<ir::Value> {
        use BinaryOp::*;
        let ins = self.asm.fb.ins();
        if matches!(elem, Scalar::F32 | Scalar::F64) {
            return Some(match op {
                Add => ins.fadd(a, b),
                Sub => ins.fsub(a, b),
                Mul => ins.fmul(a, b),
                Div | FastDiv => ins.fdiv(a, b),
                Rem | Min | Max | And | Or | Xor | Shl | Shr | Pow | Atan2 => return None,
            });
        }
        if elem.is_float() {
            return None;
        }
        let signed = elem.is_signed();
        Some(match op {
            Add => ins.iadd(a, b),
            Sub => ins.isub(a, b),
            Mul => ins.imul(a, b),
            And => ins.band(a, b),
            Or => ins.bor(a, b),
            Xor => ins.bxor(a, b),
            // Cranelift takes amounts modulo the width, too.
            Shl => ins.ishl(a, b),
            Shr if signed => ins.sshr(a, b),
            Shr => ins.ushr(a, b),
            Min if signed => ins.smin(a, b),
            Min => ins.umin(a, b),
            Max if signed => ins.smax(a, b),
            Max => ins.umax(a, b),
            Div | FastDiv | Rem | Pow | Atan2 => return None,
        })
    }

    pub(super) fn native_compare(
        &mut self,
        op: CompareOp,
        elem: Scalar,
        a: ir::Value,
        b: ir::Value,
    ) -> Option<ir::Value> {
        if matches!(elem, Scalar::F16 | Scalar::BF16) {
            return None;
        }
        let ins = self.asm.fb.ins();
        if elem.is_float() {
            let cc = match op {
                CompareOp::Eq => FloatCC::Equal,
                CompareOp::Ne => FloatCC::NotEqual,
                CompareOp::Lt => FloatCC::LessThan,
                CompareOp::Le => FloatCC::LessThanOrEqual,
                CompareOp::Gt => FloatCC::GreaterThan,
                CompareOp::Ge => FloatCC::GreaterThanOrEqual,
            };
            return Some(ins.fcmp(cc, a, b));
        }
        let cc = match op {
            CompareOp::Eq => IntCC::Equal,
            CompareOp::Ne => IntCC::NotEqual,
            CompareOp::Lt => IntCC::SignedLessThan,
            CompareOp::Le => IntCC::SignedLessThanOrEqual,
            CompareOp::Gt => IntCC::SignedGreaterThan,
            CompareOp::Ge => IntCC::SignedGreaterThanOrEqual,
        };
        Some(ins.icmp(if elem.is_signed() { cc } else { cc.unsigned() }, a, b))
    }

    pub(super) fn native_cast(&mut self, from: Scalar, to: Scalar, x: ir::Value) -> Option<ir::Value> {
        let ty = scalar_type(to);
        let (narrower, same) = (to.bytes() < from.bytes(), to.bytes() == from.bytes());
        let ins = self.asm.fb.ins();
        let whole = |s: Scalar| s.is_int() || s == Scalar::Bool;
        // Cranelift converts no floats from and to integers of 8 and 16 bits.
        let small = |s: Scalar| s.is_float8() || s.is_small_int();
        if (small(from) || small(to)) && !(whole(from) && whole(to)) {
            return None;
        }
        let wide_float = |s: Scalar| matches!(s, Scalar::F32 | Scalar::F64);
        Some(match to {
            Scalar::Bool if from.is_int() => ins.icmp_imm_s(IntCC::NotEqual, x, 0),
            Scalar::Bool => return None,
            _ if to.is_int() && whole(from) => match (narrower, same, from.is_signed()) {
                (_, true, _) => x,
                (true, ..) => ins.ireduce(ty, x),
                (_, _, true) => ins.sextend(ty, x),
                (_, _, false) => ins.uextend(ty, x),
            },
            _ if to.is_int() && wide_float(from) => match to.is_signed() {
                true => ins.fcvt_to_sint_sat(ty, x),
                false => ins.fcvt_to_uint_sat(ty, x),
            },
            _ if wide_float(to) && from.is_int() => match from.is_signed() {
                true => ins.fcvt_from_sint(ty, x),
                false => ins.fcvt_from_uint(ty, x),
            },
            Scalar::F64 if from == Scalar::F32 => ins.fpromote(ty, x),
            Scalar::F32 if from == Scalar::F64 => ins.fdemote(ty, x),
            _ => return None,
        })
    }
}
