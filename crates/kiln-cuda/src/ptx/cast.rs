//! Conversions between element types.

use super::register::{Class, Reg, suffix};
use super::target::BF16;
use super::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Def, Kernel, OpData, OpKind, Scalar, Value};

/// Whether conversions of this type are those of [`Writer::convert_small`].
fn is_small(elem: Scalar) -> bool {
    elem.is_float8() || elem.is_small_int()
}

impl Writer<'_> {
    pub(super) fn cast(&mut self, op: &OpData) -> Result<()> {
        let (from, into) = (self.elem(op.input()), self.elem(op.results[0]));
        let x = self.get(op.input())?;
        let to = self.define(op.results[0]);
        self.convert(from, into, x, to);
        Ok(())
    }

    /// Converts as Rust's `as`.
    pub(super) fn convert(&mut self, from: Scalar, into: Scalar, x: Reg, to: Reg) {
        use Scalar::*;
        match (from, into) {
            (a, b) if a == b => self.mov(to, x),
            (a, b) if (is_small(a) || is_small(b)) && b != Bool => self.convert_small(a, b, x, to),
            (Bool, F16 | BF16 | F32 | F64) => self.cast_bool(into, x, to),
            (Bool, _) => self.put(format_args!("selp.{} {to}, 1, 0, {x}", to.class.bits())),
            (F16 | BF16, Bool) => {
                let wide = self.widened(from, x);
                self.put(format_args!("setp.neu.f32 {to}, {wide}, 0f00000000"));
            }
            (E4M3 | E5M2, Bool) => {
                let wide = self.reg(Class::B32);
                self.convert(from, F32, x, wide);
                self.convert(F32, Bool, wide, to);
            }
            (I8 | U8 | I16 | U16, Bool) => self.put(format_args!("setp.ne.u16 {to}, {x}, 0")),
            (F32, Bool) => self.put(format_args!("setp.neu.f32 {to}, {x}, 0f00000000")),
            (F64, Bool) => self.put(format_args!("setp.neu.f64 {to}, {x}, 0d0000000000000000")),
            (_, Bool) => self.put(format_args!("setp.ne.{} {to}, {x}, 0", suffix(from))),
            // The same width, or wrapping.
            (I32 | U32, I32 | U32) | (I64 | U64, I64 | U64) => self.mov(to, x),
            (I32, I64 | U64) => self.put(format_args!("cvt.s64.s32 {to}, {x}")),
            (U32, I64 | U64) => self.put(format_args!("cvt.u64.u32 {to}, {x}")),
            (I64 | U64, I32 | U32) => self.put(format_args!("cvt.u32.u64 {to}, {x}")),
            (F16 | BF16, F32) => self.widen_into(from, x, to),
            (F16 | BF16, _) => {
                let wide = self.widened(from, x);
                self.convert(F32, into, wide, to);
            }
            (F32, F16) => self.put(format_args!("cvt.rn.f16.f32 {to}, {x}")),
            (F32, BF16) => self.narrow_bf16(x, to),
            (F32, F64) => self.put(format_args!("cvt.f64.f32 {to}, {x}")),
            (F64, F32) => self.put(format_args!("cvt.rn.f32.f64 {to}, {x}")),
            (F64, F16) => self.put(format_args!("cvt.rn.f16.f64 {to}, {x}")),
            (F64, BF16) => {
                let odd = self.round_to_odd(x);
                self.narrow_bf16(odd, to);
            }
            (F32 | F64, _) => self.float_to_int(from, into, x, to),
            (_, BF16) => {
                let wide = self.integer_to_odd(from, x);
                self.convert(F64, BF16, wide, to);
            }
            _ => self.put(format_args!("cvt.rn.{}.{} {to}, {x}", suffix(into), suffix(from))),
        }
    }

    /// An f32 as bf16, to the nearest, of two as near the even one. GPUs before compute capability
    /// 8.0 have no instruction for it.
    fn narrow_bf16(&mut self, x: Reg, to: Reg) {
        if self.target.capability() >= BF16 {
            return self.put(format_args!("cvt.rn.bf16.f32 {to}, {x}"));
        }
        let (bits, number) = (self.reg(Class::B32), self.reg(Class::Pred));
        // The half of the last place, less what makes of two as near the even one.
        self.put(format_args!("bfe.u32 {bits}, {x}, 16, 1"));
        self.put(format_args!("add.u32 {bits}, {bits}, {x}"));
        self.put(format_args!("add.u32 {bits}, {bits}, 0x7fff"));
        self.put(format_args!("shr.u32 {bits}, {bits}, 16"));
        self.put(format_args!("testp.number.f32 {number}, {x}"));
        self.put(format_args!("selp.b32 {bits}, {bits}, 0x7fff, {number}"));
        self.put(format_args!("cvt.u16.u32 {to}, {bits}"));
    }

    fn cast_bool(&mut self, into: Scalar, x: Reg, to: Reg) {
        let one = kiln_ir::Literal::one(into).bits();
        self.put(format_args!("selp.{} {to}, 0x{one:x}, 0, {x}", to.class.bits()));
    }

    /// PTX's conversions to integers clamp, but what they make of NaN depends on the types: an H200
    /// gives 0 for f32 to s32 and the least integer for f32 to s64 and f64 to s32.
    fn float_to_int(&mut self, from: Scalar, into: Scalar, x: Reg, to: Reg) {
        let (clamped, number) = (self.reg(to.class), self.reg(Class::Pred));
        self.put(format_args!("cvt.rzi.{}.{} {clamped}, {x}", suffix(into), suffix(from)));
        self.put(format_args!("testp.number.{} {number}, {x}", suffix(from)));
        self.put(format_args!("selp.{} {to}, {clamped}, 0, {number}", to.class.bits()));
    }

    /// A 16-bit float as f32, exactly.
    pub(super) fn widened(&mut self, from: Scalar, x: Reg) -> Reg {
        let wide = self.reg(Class::B32);
        self.widen_into(from, x, wide);
        wide
    }

    fn widen_into(&mut self, from: Scalar, x: Reg, to: Reg) {
        match from {
            Scalar::F16 => self.put(format_args!("cvt.f32.f16 {to}, {x}")),
            // bf16 is the upper half of f32; `cvt` from it needs a newer PTX than the move.
            _ => {
                let zero = self.reg(Class::B16);
                self.put(format_args!("mov.b16 {zero}, 0"));
                self.put(format_args!("mov.b32 {to}, {{{zero}, {x}}}"));
            }
        }
    }

    /// f64 to f32, rounding an inexact result to an odd significand, so that a second rounding to
    /// fewer bits is right (Boldo and Melquiond, "When double rounding is odd", 2005).
    pub(super) fn round_to_odd(&mut self, x: Reg) -> Reg {
        let (down, back, odd) = (self.reg(Class::B32), self.reg(Class::B64), self.reg(Class::B32));
        let inexact = self.reg(Class::Pred);
        self.put(format_args!("cvt.rz.f32.f64 {down}, {x}"));
        self.put(format_args!("cvt.f64.f32 {back}, {down}"));
        self.put(format_args!("setp.ne.f64 {inexact}, {back}, {x}"));
        self.put(format_args!("selp.b32 {odd}, 1, 0, {inexact}"));
        self.put(format_args!("or.b32 {odd}, {odd}, {down}"));
        odd
    }

    /// An integer as f64, rounding an inexact result to an odd significand: only those of more than
    /// 53 bits are inexact.
    fn integer_to_odd(&mut self, from: Scalar, x: Reg) -> Reg {
        let (t, wide) = (suffix(from), self.reg(Class::B64));
        self.put(format_args!("cvt.rz.f64.{t} {wide}, {x}"));
        if from.bytes() < 8 {
            return wide;
        }
        let (back, odd, inexact) = (self.reg(Class::B64), self.reg(Class::B64), self.reg(Class::Pred));
        self.put(format_args!("cvt.rzi.{t}.f64 {back}, {wide}"));
        self.put(format_args!("setp.ne.{t} {inexact}, {back}, {x}"));
        self.put(format_args!("selp.b64 {odd}, 1, 0, {inexact}"));
        self.put(format_args!("or.b64 {odd}, {odd}, {wide}"));
        odd
    }

    pub(super) fn bitcast(&mut self, op: &OpData) -> Result<()> {
        let mut x = self.get(op.input())?;
        let (from, into) = (self.elem(op.input()), self.elem(op.results[0]));
        if from.is_int() && into.is_float() && may_be_condition(self.kernel, op.input()) {
            x = self.bits_kept(x);
        }
        let to = self.define(op.results[0]);
        self.mov(to, x);
        Ok(())
    }

    /// The same bits, of which `ptxas` does not know that they are 1 or 0.
    ///
    /// It takes `selp.b32 %r, 1, 0, %p` for the number 1 of whatever type the next operation has:
    /// `cvt.rzi.s32.f32` of it, which is 0, becomes 1, `neg.f32` of it -1 as an integer, and f16
    /// and f64 go the same way (seen with those of CUDA 12.8 to 13.5, where another such selection
    /// stands in a loop). Permuting bytes keeps it from that.
    fn bits_kept(&mut self, x: Reg) -> Reg {
        let word = match x.class {
            Class::B16 => {
                let wide = self.reg(Class::B32);
                self.put(format_args!("cvt.u32.u16 {wide}, {x}"));
                wide
            }
            Class::B64 => {
                let low = self.reg(Class::B32);
                self.put(format_args!("cvt.u32.u64 {low}, {x}"));
                low
            }
            Class::B32 | Class::Pred => x,
        };
        let permuted = self.reg(Class::B32);
        self.put(format_args!("prmt.b32 {permuted}, {word}, 0, 0x3210"));
        match x.class {
            Class::B16 => {
                let half = self.reg(Class::B16);
                self.put(format_args!("cvt.u16.u32 {half}, {permuted}"));
                half
            }
            Class::B64 => {
                let (low, high, whole) = (self.reg(Class::B32), self.reg(Class::B32), self.reg(Class::B64));
                self.put(format_args!("mov.b64 {{{low}, {high}}}, {x}"));
                self.put(format_args!("mov.b64 {whole}, {{{permuted}, {high}}}"));
                whole
            }
            Class::B32 | Class::Pred => permuted,
        }
    }
}

/// Whether an integer may be a condition as 1 or 0, or a selection that becomes one.
fn may_be_condition(kernel: &Kernel, value: Value) -> bool {
    let op = match kernel.def(value) {
        Def::Arg(block, _) => return block != kernel.body,
        Def::Result(op, _) => kernel.op(op),
    };
    let through = op.kind == OpKind::Bitcast || op.kind == OpKind::Cast;
    if through {
        let from = kernel.ty(op.input()).elem();
        return from == Scalar::Bool || from.is_int() && may_be_condition(kernel, op.input());
    }
    op.kind == OpKind::Select || !op.regions.is_empty()
}
