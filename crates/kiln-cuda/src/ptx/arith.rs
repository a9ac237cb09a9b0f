//! Element-wise operations on registers.
//!
//! Sums, products, quotients, square roots and reciprocals are rounded once, as Rust's are: `.rn`
//! also keeps the assembler from fusing a product with a sum, which it does to instructions without
//! a rounding modifier (PTX ISA, "Floating Point Instructions: add"). Kernels with `contract` are
//! written without it. f32 `fast_div`, `rsqrt` and `exp2` are the hardware's approximations, within
//! 2 ulp. No instruction here flushes subnormal numbers.
//!
//! Everything longer was expanded by the compiler. 16-bit floats were promoted to f32, so only
//! moves, selects and multiply-adds of them arrive here.

use super::register::{Class, Reg, suffix};
use super::target::BF16;
use super::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{BinaryOp, CompareOp, Literal, OpData, Scalar, UnaryOp, Value};

impl Writer<'_> {
    pub(super) fn constant(&mut self, op: &OpData, literal: Literal) {
        let to = self.define(op.results[0]);
        match literal.elem() {
            Scalar::Bool => {
                self.put(format_args!("setp.{}.u32 {to}, 0, 0", if literal.is_true() { "eq" } else { "ne" }))
            }
            _ => self.put(format_args!("mov.{} {to}, 0x{:x}", to.class.bits(), literal.bits())),
        }
    }

    pub(super) fn unary(&mut self, op: &OpData, unary: UnaryOp) -> Result<()> {
        use UnaryOp::*;
        let elem = self.elem(op.input());
        let x = self.get(op.input())?;
        let to = self.define(op.results[0]);
        let t = suffix(elem);
        let float = matches!(elem, Scalar::F32 | Scalar::F64);
        let width = 8 * elem.bytes();
        match unary {
            Neg if elem.is_int() && x.class != Class::B64 => self.negate(to, x, width),
            Neg if elem.is_int() => self.put(format_args!("neg.s{width} {to}, {x}")),
            Neg if float => self.put(format_args!("neg.{t} {to}, {x}")),
            Abs if elem.is_int() && !elem.is_signed() => self.mov(to, x),
            Abs if elem.is_int() && x.class != Class::B64 => self.absolute(to, x, width),
            Abs if elem.is_int() || float => self.put(format_args!("abs.{t} {to}, {x}")),
            Not if elem == Scalar::Bool => self.put(format_args!("not.pred {to}, {x}")),
            Not if elem.is_int() => self.complement(to, x),
            Popcount if elem.is_int() => self.count_bits("popc", to, x),
            Clz if elem.is_int() => self.count_bits("clz", to, x),
            BitReverse if elem.is_int() => self.put(format_args!("brev.{} {to}, {x}", x.class.bits())),
            Exp2 if elem == Scalar::F32 => self.put(format_args!("ex2.approx.f32 {to}, {x}")),
            Rsqrt if elem == Scalar::F32 => self.put(format_args!("rsqrt.approx.f32 {to}, {x}")),
            Sqrt if float => self.put(format_args!("sqrt.rn.{t} {to}, {x}")),
            Recip if float => self.put(format_args!("rcp.rn.{t} {to}, {x}")),
            Floor if float => self.put(format_args!("cvt.rmi.{t}.{t} {to}, {x}")),
            Ceil if float => self.put(format_args!("cvt.rpi.{t}.{t} {to}, {x}")),
            Round if float => self.put(format_args!("cvt.rni.{t}.{t} {to}, {x}")),
            Trunc if float => self.put(format_args!("cvt.rzi.{t}.{t} {to}, {x}")),
            IsNan if float => self.put(format_args!("testp.notanumber.{t} {to}, {x}")),
            Neg | Abs | Not | Popcount | Clz | BitReverse | Exp2 | Rsqrt | Sqrt | Recip | Floor | Ceil
            | Round | Trunc | IsNan | Math(_) => {
                return Err(self.unsupported(
                    op,
                    format!("{} of {elem}", unary.name()),
                    "This should have been expanded before; please report it",
                ));
            }
        }
        Ok(())
    }

    /// `-x` as `!x + 1`. NVIDIA's assembler (ptxas 13.0, and that of the driver, from sm_90 on)
    /// makes one instruction of a signed `max(max(a, b), c)` or `min`, and drops the sign of an
    /// operand that is a `neg`, or a difference from 0, or a product with -1.
    fn negate(&mut self, to: Reg, x: Reg, width: u32) {
        let inverse = self.reg(x.class);
        self.put(format_args!("not.{} {inverse}, {x}", x.class.bits()));
        self.put(format_args!("add.s{width} {to}, {inverse}, 1"));
    }

    /// `!x` as `-1 - x`. Where a branch says that `x` is a constant, the assembler (ptxas 13.0 and
    /// that of the driver) puts this constant in place of `!x` into an `and`, `or` or `xor`, which
    /// take the inverse of an operand: `if x == 5 { y | !x }` gave `y | 5`. So it does for a `not`
    /// and for an `xor` with -1. With a `lop3` of `y` and `x` four of 100,000 random kernels
    /// failed, three by a signal of the assembler and one by another value.
    fn complement(&mut self, to: Reg, x: Reg) {
        let width = if x.class == Class::B64 { 64 } else { 32 };
        self.put(format_args!("sub.s{width} {to}, -1, {x}"));
    }

    /// `|x|` without `abs`, which the assembler drops where it drops a `neg`.
    fn absolute(&mut self, to: Reg, x: Reg, width: u32) {
        let (sign, flipped) = (self.reg(x.class), self.reg(x.class));
        self.put(format_args!("shr.s{width} {sign}, {x}, {}", width - 1));
        self.put(format_args!("xor.{} {flipped}, {x}, {sign}", x.class.bits()));
        self.put(format_args!("sub.s{width} {to}, {flipped}, {sign}"));
    }

    /// `popc` and `clz` give 32 bits whatever they count in.
    fn count_bits(&mut self, name: &str, to: Reg, x: Reg) {
        match x.class {
            Class::B64 => {
                let narrow = self.reg(Class::B32);
                self.put(format_args!("{name}.b64 {narrow}, {x}"));
                self.put(format_args!("cvt.u64.u32 {to}, {narrow}"));
            }
            _ => self.put(format_args!("{name}.b32 {to}, {x}")),
        }
    }

    pub(super) fn binary(&mut self, op: &OpData, binary: BinaryOp) -> Result<()> {
        use BinaryOp::*;
        let elem = self.elem(op.left());
        let (a, b) = (self.get(op.left())?, self.get(op.right())?);
        let to = self.define(op.results[0]);
        let t = suffix(elem);
        let bits = a.class.bits();
        let rn = if self.kernel.contract { "" } else { ".rn" };
        let float = matches!(elem, Scalar::F32 | Scalar::F64);
        let ordered = elem.is_int() || float;
        match binary {
            And if !elem.is_float() => self.put(format_args!("and.{bits} {to}, {a}, {b}")),
            Or if !elem.is_float() => self.put(format_args!("or.{bits} {to}, {a}, {b}")),
            Xor if self.is_all_ones(op.left()) => self.complement(to, b),
            Xor if self.is_all_ones(op.right()) => self.complement(to, a),
            Xor if !elem.is_float() => self.put(format_args!("xor.{bits} {to}, {a}, {b}")),
            Min | Mul if elem == Scalar::Bool => self.put(format_args!("and.pred {to}, {a}, {b}")),
            Max | Add if elem == Scalar::Bool => self.put(format_args!("or.pred {to}, {a}, {b}")),
            Add if float => self.put(format_args!("add{rn}.{t} {to}, {a}, {b}")),
            Sub if float => self.put(format_args!("sub{rn}.{t} {to}, {a}, {b}")),
            Mul if float => self.put(format_args!("mul{rn}.{t} {to}, {a}, {b}")),
            FastDiv if elem == Scalar::F32 && self.is_one(op.left()) => {
                self.put(format_args!("rcp.approx.f32 {to}, {b}"))
            }
            FastDiv if elem == Scalar::F32 => self.put(format_args!("div.full.f32 {to}, {a}, {b}")),
            Div | FastDiv if float => self.put(format_args!("div.rn.{t} {to}, {a}, {b}")),
            Add if elem.is_int() => self.put(format_args!("add.{t} {to}, {a}, {b}")),
            Sub if elem.is_int() => self.put(format_args!("sub.{t} {to}, {a}, {b}")),
            Mul if elem.is_int() => self.put(format_args!("mul.lo.{t} {to}, {a}, {b}")),
            Div if elem.is_int() => self.put(format_args!("div.{t} {to}, {a}, {b}")),
            Rem if elem.is_int() => self.put(format_args!("rem.{t} {to}, {a}, {b}")),
            Min if ordered => self.put(format_args!("min.{t} {to}, {a}, {b}")),
            Max if ordered => self.put(format_args!("max.{t} {to}, {a}, {b}")),
            Shl | Shr if elem.is_int() => self.shift(binary == Shl, elem, to, a, b),
            Add | Sub | Mul | Div | FastDiv | Rem | Min | Max | And | Or | Xor | Shl | Shr | Pow | Atan2 => {
                return Err(self.unsupported(
                    op,
                    format!("{} of {elem}", binary.name()),
                    "This should have been expanded before; please report it",
                ));
            }
        }
        Ok(())
    }

    /// Whether an integer is a constant of ones alone.
    fn is_all_ones(&self, value: Value) -> bool {
        self.kernel.as_const(value).is_some_and(|literal| {
            let elem = literal.elem();
            let unsigned = (1i128 << (8 * elem.bytes())) - 1;
            elem.is_int() && elem.bytes() >= 4 && [-1, unsigned].contains(&literal.as_i128())
        })
    }

    /// Whether a value is the constant 1.
    fn is_one(&self, value: Value) -> bool {
        self.kernel.as_const(value).is_some_and(|literal| literal == Literal::one(literal.elem()))
    }

    /// PTX clamps the amount of a shift; here it counts modulo the width.
    fn shift(&mut self, left: bool, elem: Scalar, to: Reg, x: Reg, by: Reg) {
        let amount = self.reg(Class::B32);
        match by.class {
            Class::B64 => self.put(format_args!("cvt.u32.u64 {amount}, {by}")),
            _ => self.mov(amount, by),
        }
        self.put(format_args!("and.b32 {amount}, {amount}, {}", elem.bytes() * 8 - 1));
        match left {
            true => self.put(format_args!("shl.{} {to}, {x}, {amount}", x.class.bits())),
            false => self.put(format_args!("shr.{} {to}, {x}, {amount}", suffix(elem))),
        }
    }

    pub(super) fn compare(&mut self, op: &OpData, compare: CompareOp) -> Result<()> {
        let elem = self.elem(op.left());
        let (a, b) = (self.get(op.left())?, self.get(op.right())?);
        let to = self.define(op.results[0]);
        let name = match compare {
            CompareOp::Eq => "eq",
            CompareOp::Ne if elem.is_float() => "neu",
            CompareOp::Ne => "ne",
            CompareOp::Lt => "lt",
            CompareOp::Le => "le",
            CompareOp::Gt => "gt",
            CompareOp::Ge => "ge",
        };
        match elem {
            Scalar::F16 | Scalar::BF16 => {
                return Err(self.unsupported(
                    op,
                    format!("comparison of {elem}"),
                    "This should have been promoted; please report it",
                ));
            }
            Scalar::Bool => {
                let (x, y) = (self.reg(Class::B32), self.reg(Class::B32));
                self.put(format_args!("selp.u32 {x}, 1, 0, {a}"));
                self.put(format_args!("selp.u32 {y}, 1, 0, {b}"));
                self.put(format_args!("setp.{name}.u32 {to}, {x}, {y}"));
            }
            _ => self.put(format_args!("setp.{name}.{} {to}, {a}, {b}", suffix(elem))),
        }
        Ok(())
    }

    pub(super) fn select(&mut self, op: &OpData) -> Result<()> {
        let [cond, a, b] = [self.get(op.condition())?, self.get(op.if_true())?, self.get(op.if_false())?];
        let to = self.define(op.results[0]);
        if to.class == Class::Pred {
            let (yes, no) = (self.reg(Class::Pred), self.reg(Class::Pred));
            self.put(format_args!("and.pred {yes}, {cond}, {a}"));
            self.put(format_args!("not.pred {no}, {cond}"));
            self.put(format_args!("and.pred {no}, {no}, {b}"));
            self.put(format_args!("or.pred {to}, {yes}, {no}"));
        } else {
            self.put(format_args!("selp.{} {to}, {a}, {b}, {cond}", to.class.bits()));
        }
        Ok(())
    }

    pub(super) fn fma(&mut self, op: &OpData) -> Result<()> {
        let elem = self.elem(op.left());
        let [a, b, c] = [self.get(op.left())?, self.get(op.right())?, self.get(op.addend())?];
        let to = self.define(op.results[0]);
        match elem {
            Scalar::BF16 if self.target.capability() < BF16 => self.fma_bf16([a, b, c], to),
            Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64 => {
                self.put(format_args!("fma.rn.{} {to}, {a}, {b}, {c}", suffix(elem)))
            }
            e if e.is_int() => self.put(format_args!("mad.lo.{} {to}, {a}, {b}, {c}", suffix(elem))),
            _ => {
                return Err(self.unsupported(
                    op,
                    format!("fma of {elem}"),
                    "There is none; please report it",
                ));
            }
        }
        Ok(())
    }

    /// A multiply-add of bf16 that rounds once: the product is exact in f64, and the sum is rounded
    /// to an odd significand if it is inexact, by which the rest rounds as if it were exact.
    fn fma_bf16(&mut self, factors: [Reg; 3], to: Reg) {
        let [a, b, c] = factors.map(|x| {
            let wide = self.reg(Class::B64);
            self.convert(Scalar::BF16, Scalar::F64, x, wide);
            wide
        });
        let [down, up, sum, odd] = [(); 4].map(|()| self.reg(Class::B64));
        let inexact = self.reg(Class::Pred);
        self.put(format_args!("mul.rn.f64 {a}, {a}, {b}"));
        self.put(format_args!("add.rm.f64 {down}, {a}, {c}"));
        self.put(format_args!("add.rp.f64 {up}, {a}, {c}"));
        self.put(format_args!("add.rz.f64 {sum}, {a}, {c}"));
        self.put(format_args!("setp.ne.f64 {inexact}, {down}, {up}"));
        self.put(format_args!("selp.b64 {odd}, 1, 0, {inexact}"));
        self.put(format_args!("or.b64 {sum}, {sum}, {odd}"));
        self.convert(Scalar::F64, Scalar::BF16, sum, to);
    }
}
