//! Conversions from and to the types of one byte, which registers of 16 bits hold, zero-extended,
//! and integers of 16 bits.
//!
//! GPUs from compute capability 8.9 on convert 8-bit floats; before, integer and f32 arithmetic
//! does.

use super::register::{Class, Reg, suffix};
use super::target::FLOAT8_VERSION;
use super::writer::Writer;
use kiln_ir::eval::identity;
use kiln_ir::{Literal, ReduceOp, Scalar};

/// An 8-bit float's format.
struct Format {
    name: &'static str,
    /// Bits of the significand that are stored.
    significand: u32,
    /// What is added to exponents that are stored.
    bias: u32,
    /// The code of the largest number.
    greatest: u32,
}

impl Format {
    fn of(elem: Scalar) -> Format {
        match elem {
            Scalar::E4M3 => Format { name: "e4m3x2", significand: 3, bias: 7, greatest: 0x7e },
            _ => Format { name: "e5m2x2", significand: 2, bias: 15, greatest: 0x7b },
        }
    }
}

impl Writer<'_> {
    /// Four bytes in one word, if each was part of a word that was loaded: by permutations of
    /// these, or without any. Those words are written where the bytes are, so that they are there
    /// whenever these are.
    pub(super) fn bytes_of_other_words(&mut self, bytes: &[Reg]) -> Option<Reg> {
        let &[a, b, c, d] = bytes else { return None };
        let of = |byte| self.bytes_of_words.get(&byte).copied();
        let [a, b, c, d] = [of(a)?, of(b)?, of(c)?, of(d)?];
        let word = a.0;
        if [a, b, c, d].iter().enumerate().all(|(i, &byte)| byte == (word, i)) {
            return Some(word);
        }
        let [low, high] = [(a, b), (c, d)].map(|(first, second)| {
            let pair = self.reg(Class::B32);
            let which = first.1 | (4 + second.1) << 4;
            self.put(format_args!("prmt.b32 {pair}, {}, {}, 0x{which:x}", first.0, second.0));
            pair
        });
        let whole = self.reg(Class::B32);
        self.put(format_args!("prmt.b32 {whole}, {low}, {high}, 0x5410"));
        Some(whole)
    }

    /// Converts where one of the types is an 8-bit float or an integer of 8 or 16 bits, and the
    /// result no bool.
    pub(super) fn convert_small(&mut self, from: Scalar, into: Scalar, x: Reg, to: Reg) {
        use Scalar::*;
        match (from, into) {
            (I8, U8) | (U8, I8) | (I16, U16) | (U16, I16) => self.mov(to, x),
            (E4M3 | E5M2, F32) => self.widen_float8(from, x, to),
            (E4M3 | E5M2, _) => {
                let wide = self.reg(Class::B32);
                self.widen_float8(from, x, wide);
                self.convert(F32, into, wide, to);
            }
            (I8 | U8 | I16 | U16, I32 | U32) => {
                let wide = if from.is_signed() { "s32" } else { "u32" };
                self.put(format_args!("cvt.{wide}.{} {to}, {x}", suffix(from)));
            }
            (I8 | U8 | I16 | U16, _) => {
                let (wide, as_int) = (self.reg(Class::B32), if from.is_signed() { I32 } else { U32 });
                self.convert(from, as_int, x, wide);
                self.convert(as_int, into, wide, to);
            }
            (Bool, _) => {
                let one = Literal::one(into).bits();
                self.put(format_args!("selp.b16 {to}, 0x{one:x}, 0, {x}"));
            }
            (F32, E4M3 | E5M2) => self.narrow_float8(into, x, to),
            (F64, E4M3 | E5M2) => {
                let odd = self.round_to_odd(x);
                self.narrow_float8(into, odd, to);
            }
            // Integers that f32 does not hold are beyond the largest number.
            (_, E4M3 | E5M2) => {
                let wide = self.reg(Class::B32);
                self.convert(from, F32, x, wide);
                self.narrow_float8(into, wide, to);
            }
            _ => self.narrow_int(from, into, x, to),
        }
    }

    /// An integer of 8 or 16 bits: floats are clamped, integers wrap.
    fn narrow_int(&mut self, from: Scalar, into: Scalar, x: Reg, to: Reg) {
        let mut wide = x;
        if !matches!(from, Scalar::I32 | Scalar::U32) {
            wide = self.reg(Class::B32);
            self.convert(from, Scalar::I32, x, wide);
        }
        if from.is_float() {
            let [low, high] = [ReduceOp::Max, ReduceOp::Min].map(|op| identity(op, into).as_i128());
            self.put(format_args!("max.s32 {wide}, {wide}, {low}"));
            self.put(format_args!("min.s32 {wide}, {wide}, {high}"));
        }
        if into.bytes() == 2 {
            self.put(format_args!("cvt.u16.u32 {to}, {wide}"));
            return;
        }
        let byte = self.reg(Class::B32);
        self.put(format_args!("and.b32 {byte}, {wide}, 255"));
        self.put(format_args!("cvt.u16.u32 {to}, {byte}"));
    }

    fn converts_float8(&self) -> bool {
        self.target.capability() >= 89 && self.target.ptx >= FLOAT8_VERSION
    }

    /// An 8-bit float as f32, exactly.
    fn widen_float8(&mut self, from: Scalar, x: Reg, to: Reg) {
        let format = Format::of(from);
        if self.converts_float8() {
            let (pair, low, high) = (self.reg(Class::B32), self.reg(Class::B16), self.reg(Class::B16));
            self.version = self.version.max(FLOAT8_VERSION);
            self.put(format_args!("cvt.rn.f16x2.{} {pair}, {x}", format.name));
            self.put(format_args!("mov.b32 {{{low}, {high}}}, {pair}"));
            self.put(format_args!("cvt.f32.f16 {to}, {low}"));
            return;
        }
        let [bits, code, sign, size, power] = [(); 5].map(|()| self.reg(Class::B32));
        let special = self.reg(Class::Pred);
        self.put(format_args!("cvt.u32.u16 {bits}, {x}"));
        self.put(format_args!("and.b32 {code}, {bits}, 127"));
        // The fields in their places in an f32, whose exponent then lacks the difference of the
        // biases.
        self.put(format_args!("shl.b32 {size}, {code}, {}", 23 - format.significand));
        self.put(format_args!("mov.b32 {power}, 0x{:08x}", (127 + 127 - format.bias) << 23));
        self.put(format_args!("mul.rn.f32 {size}, {size}, {power}"));
        self.put(format_args!("setp.gt.u32 {special}, {code}, {}", format.greatest));
        self.put(format_args!("@{special} mov.b32 {size}, 0x7fffffff"));
        if from == Scalar::E5M2 {
            self.put(format_args!("setp.eq.u32 {special}, {code}, {}", format.greatest + 1));
            self.put(format_args!("@{special} mov.b32 {size}, 0x7f800000"));
        }
        self.put(format_args!("and.b32 {sign}, {bits}, 128"));
        self.put(format_args!("shl.b32 {sign}, {sign}, 24"));
        self.put(format_args!("or.b32 {to}, {size}, {sign}"));
    }

    /// An f32 rounded to an 8-bit float, ties to even, what is too large to the largest.
    fn narrow_float8(&mut self, into: Scalar, x: Reg, to: Reg) {
        let format = Format::of(into);
        if self.converts_float8() {
            let zero = self.reg(Class::B32);
            self.version = self.version.max(FLOAT8_VERSION);
            self.put(format_args!("mov.b32 {zero}, 0"));
            self.put(format_args!("cvt.rn.satfinite.{}.f32 {to}, {zero}, {x}", format.name));
            return;
        }
        let [size, exponent, magic, sum, code, sign] = [(); 6].map(|()| self.reg(Class::B32));
        let special = self.reg(Class::Pred);
        // The least exponent of a normal number, in its place in an f32.
        let least = (127 + 1 - format.bias) << 23;
        let shift = 23 - format.significand;
        self.put(format_args!("and.b32 {size}, {x}, 0x7fffffff"));
        self.put(format_args!("setp.gt.u32 {special}, {size}, 0x7f800000"));
        let largest = f32::from_bits((format.greatest << shift) + ((127 - format.bias) << 23));
        self.put(format_args!("min.u32 {size}, {size}, 0x{:08x}", largest.to_bits()));
        self.put(format_args!("and.b32 {exponent}, {size}, 0x7f800000"));
        self.put(format_args!("max.u32 {exponent}, {exponent}, 0x{least:08x}"));
        // A power of two whose last bit counts in units of the result: the sum is rounded to them,
        // and its low bits are how many.
        self.put(format_args!("add.u32 {magic}, {exponent}, 0x{:08x}", shift << 23));
        self.put(format_args!("add.rn.f32 {sum}, {size}, {magic}"));
        self.put(format_args!("sub.u32 {sum}, {sum}, {magic}"));
        self.put(format_args!("sub.u32 {code}, {exponent}, 0x{least:08x}"));
        self.put(format_args!("shr.u32 {code}, {code}, {shift}"));
        self.put(format_args!("add.u32 {code}, {code}, {sum}"));
        self.put(format_args!("shr.u32 {sign}, {x}, 24"));
        self.put(format_args!("and.b32 {sign}, {sign}, 128"));
        self.put(format_args!("or.b32 {code}, {code}, {sign}"));
        self.put(format_args!("@{special} mov.b32 {code}, 127"));
        self.put(format_args!("cvt.u16.u32 {to}, {code}"));
    }
}
