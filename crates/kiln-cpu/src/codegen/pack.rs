//! Elements of adjacent lanes in registers, and operations on them.
//!
//! A [`Pack`] of one lane is a scalar. One of 4 or 8 lanes is several vectors of 128 bits, which is
//! what Cranelift has on every machine. Integers of 8 and 16 bits have 32 bits there, and
//! bools are masks of 32 bits.

use super::asm::scalar_type;
use super::emitter::Emitter;
use super::liveness::Elementwise;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, Endianness, InstBuilder, MemFlagsData, types};
use kiln_backend::Result;
use kiln_cpu_primitives::{Isa, UnaryInstruction, unary_instruction};
use kiln_ir::{BinaryOp, CompareOp, Scalar};

/// The elements of a value in adjacent lanes.
#[derive(Clone, Debug)]
pub(super) struct Pack {
    pub(super) parts: Vec<ir::Value>,
}

impl Pack {
    pub(super) fn of(part: ir::Value) -> Pack {
        Pack { parts: vec![part] }
    }
}

/// The vector that holds elements of a type, if packs have such elements.
pub(super) fn part_type(elem: Scalar) -> Option<ir::Type> {
    Some(match elem {
        Scalar::F32 => types::F32X4,
        Scalar::F64 => types::F64X2,
        Scalar::I32 | Scalar::U32 | Scalar::Bool => types::I32X4,
        Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => types::I32X4,
        Scalar::I64 | Scalar::U64 => types::I64X2,
        Scalar::F16 | Scalar::BF16 => types::I16X8,
        Scalar::E4M3 | Scalar::E5M2 => return None,
    })
}

fn is_float(elem: Scalar) -> bool {
    matches!(elem, Scalar::F32 | Scalar::F64)
}

fn is_int(elem: Scalar) -> bool {
    matches!(elem, Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64)
}

/// Whether packs hold elements of a type as they are in memory, and compute with them.
pub(super) fn is_number(elem: Scalar) -> bool {
    is_float(elem) || is_int(elem)
}

/// Whether an operation from elements of one type to another can be done on packs. Amounts of
/// shifts are the same in all lanes.
pub(super) fn is_packable(op: Elementwise, from: Scalar, to: Scalar) -> bool {
    let number = is_number;
    match op {
        Elementwise::Unary(op) => {
            (number(from) || from == Scalar::Bool) && unary_instruction(op, from).is_some()
        }
        Elementwise::Binary(op) => match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max => number(to),
            BinaryOp::Div | BinaryOp::FastDiv => is_float(to),
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => is_int(to) || to == Scalar::Bool,
            BinaryOp::Shl | BinaryOp::Shr => is_int(to),
            BinaryOp::Rem | BinaryOp::Pow | BinaryOp::Atan2 => false,
        },
        Elementwise::Compare(op) => {
            let equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
            number(from) || (from == Scalar::Bool && equality)
        }
        Elementwise::Select => number(to) || to.is_small_int() || to == Scalar::Bool,
        Elementwise::Fma => is_int(to) || (is_float(to) && has_fma()),
        Elementwise::Cast if to == Scalar::Bool => is_int(from),
        Elementwise::Cast if from == Scalar::Bool => is_int(to),
        Elementwise::Cast if to.is_small_int() => is_int(from) || from.is_small_int(),
        Elementwise::Cast => number(to) && (number(from) || from.is_small_int()),
    }
}

/// Whether Cranelift has an instruction that multiplies and adds with one rounding.
fn has_fma() -> bool {
    cfg!(target_arch = "aarch64") || Isa::best() != Isa::Portable
}

/// Bits, whatever type they have: vectors of another shape need to know their order.
fn as_bits() -> MemFlagsData {
    MemFlagsData::new().with_endianness(Endianness::Little)
}

/// Memory that is there, at any address.
pub(super) fn unaligned() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Emitter<'_> {
    /// The same scalar in all lanes.
    pub(super) fn pack_splat(&mut self, scalar: ir::Value, elem: Scalar, width: usize) -> Pack {
        let Some(ty) = part_type(elem).filter(|_| width > 1) else { return Pack::of(scalar) };
        let wide = self.wide_scalar(scalar, elem);
        let part = self.asm.fb.ins().splat(ty, wide);
        Pack { parts: vec![part; (width / ty.lane_count() as usize).max(1)] }
    }

    /// Scalars of type i64, one for each lane.
    pub(super) fn pack_of_scalars(&mut self, scalars: &[ir::Value]) -> Pack {
        if let [scalar] = scalars {
            return Pack::of(*scalar);
        }
        let pair = |e: &mut Self, pair: &[ir::Value]| {
            let low = e.asm.fb.ins().splat(types::I64X2, pair[0]);
            e.asm.fb.ins().insertlane(low, pair[1], 1)
        };
        Pack { parts: scalars.chunks_exact(2).map(|two| pair(self, two)).collect() }
    }

    /// Scalars that were loaded, one for each lane.
    pub(super) fn pack_of_elements(&mut self, scalars: &[ir::Value], elem: Scalar) -> Pack {
        let Some(ty) = part_type(elem).filter(|_| scalars.len() > 1) else {
            return Pack { parts: scalars.to_vec() };
        };
        let lanes = ty.lane_count() as usize;
        let part = |e: &mut Self, scalars: &[ir::Value]| {
            let mut part = e.pack_splat(scalars[0], elem, lanes).parts[0];
            for (lane, &scalar) in scalars.iter().enumerate().skip(1) {
                let wide = e.wide_scalar(scalar, elem);
                part = e.asm.fb.ins().insertlane(part, wide, lane as u8);
            }
            part
        };
        Pack { parts: scalars.chunks_exact(lanes).map(|s| part(self, s)).collect() }
    }

    /// A scalar as a lane of a vector has it.
    fn wide_scalar(&mut self, scalar: ir::Value, elem: Scalar) -> ir::Value {
        let ins = self.asm.fb.ins();
        let wide = match elem {
            Scalar::Bool | Scalar::U8 | Scalar::U16 => ins.uextend(types::I32, scalar),
            Scalar::I8 | Scalar::I16 => ins.sextend(types::I32, scalar),
            _ => scalar,
        };
        if elem == Scalar::Bool { self.asm.fb.ins().ineg(wide) } else { wide }
    }

    /// The lanes of a pack as scalars, bools as 0 or not 0.
    pub(super) fn pack_scalars(&mut self, pack: &Pack, elem: Scalar, width: usize) -> Vec<ir::Value> {
        if width == 1 {
            return pack.parts.clone();
        }
        let mut scalars = Vec::new();
        for &part in &pack.parts {
            let lanes = self.asm.fb.func.dfg.value_type(part).lane_count() as u8;
            for lane in 0..lanes {
                let scalar = self.asm.fb.ins().extractlane(part, lane);
                let small = elem == Scalar::Bool || elem.is_small_int();
                scalars.push(if small {
                    self.asm.fb.ins().ireduce(scalar_type(elem), scalar)
                } else {
                    scalar
                });
            }
        }
        scalars
    }

    // ---- memory

    /// Loads adjacent elements.
    pub(super) fn pack_load(&mut self, elem: Scalar, width: usize, at: ir::Value, offset: i32) -> Pack {
        let Some(ty) = part_type(elem).filter(|_| width > 1) else {
            return Pack::of(self.asm.fb.ins().load(scalar_type(elem), unaligned(), at, offset));
        };
        if elem.bytes() == 1 {
            let mut parts = Vec::new();
            for first in (0..width).step_by(8) {
                parts.extend(self.load_bytes(elem, width.min(8), at, offset + first as i32));
            }
            let negate = |e: &mut Self, part| e.asm.fb.ins().ineg(part);
            return match elem {
                Scalar::Bool => Pack { parts: parts.into_iter().map(|p| negate(self, p)).collect() },
                _ => Pack { parts },
            };
        }
        if elem.is_small_int() {
            let parts = (0..width / 4).map(|part| {
                let (ins, offset) = (self.asm.fb.ins(), offset + 8 * part as i32);
                match elem.is_signed() {
                    true => ins.sload16x4(unaligned(), at, offset),
                    false => ins.uload16x4(unaligned(), at, offset),
                }
            });
            return Pack { parts: parts.collect() };
        }
        let parts = (0..width / ty.lane_count() as usize)
            .map(|part| self.asm.fb.ins().load(ty, unaligned(), at, offset + 16 * part as i32));
        Pack { parts: parts.collect() }
    }

    /// Loads 4 or 8 bytes as vectors of 32-bit integers.
    fn load_bytes(&mut self, elem: Scalar, width: usize, at: ir::Value, offset: i32) -> Vec<ir::Value> {
        let signed = elem == Scalar::I8;
        let halves = if width == 8 {
            let ins = self.asm.fb.ins();
            match signed {
                true => ins.sload8x8(unaligned(), at, offset),
                false => ins.uload8x8(unaligned(), at, offset),
            }
        } else {
            let four = self.asm.fb.ins().load(types::I32, unaligned(), at, offset);
            let four = self.asm.fb.ins().scalar_to_vector(types::I32X4, four);
            let four = self.asm.fb.ins().bitcast(types::I8X16, as_bits(), four);
            let ins = self.asm.fb.ins();
            if signed { ins.swiden_low(four) } else { ins.uwiden_low(four) }
        };
        let widen = |e: &mut Self, high: bool| match (signed, high) {
            (true, false) => e.asm.fb.ins().swiden_low(halves),
            (true, true) => e.asm.fb.ins().swiden_high(halves),
            (false, false) => e.asm.fb.ins().uwiden_low(halves),
            (false, true) => e.asm.fb.ins().uwiden_high(halves),
        };
        (0..width / 4).map(|part| widen(self, part == 1)).collect()
    }

    /// Stores adjacent elements.
    pub(super) fn pack_store(&mut self, pack: &Pack, elem: Scalar, width: usize, at: ir::Value, offset: i32) {
        if width > 1 && elem.bytes() == 1 {
            for (index, parts) in pack.parts.chunks(2).enumerate() {
                self.store_bytes(parts, elem, width.min(8), at, offset + 8 * index as i32);
            }
            return;
        }
        if width > 1 && elem.is_small_int() {
            for (index, &part) in pack.parts.iter().enumerate() {
                let ins = self.asm.fb.ins();
                let halves = if elem.is_signed() { ins.snarrow(part, part) } else { ins.unarrow(part, part) };
                let four = self.asm.fb.ins().bitcast(types::I64X2, as_bits(), halves);
                let four = self.asm.fb.ins().extractlane(four, 0);
                self.asm.fb.ins().store(unaligned(), four, at, offset + 8 * index as i32);
            }
            return;
        }
        for (index, &part) in pack.parts.iter().enumerate() {
            self.asm.fb.ins().store(unaligned(), part, at, offset + 16 * index as i32);
        }
    }

    /// Stores 4 or 8 bytes of vectors of 32-bit integers.
    fn store_bytes(&mut self, parts: &[ir::Value], elem: Scalar, width: usize, at: ir::Value, offset: i32) {
        let parts: Vec<ir::Value> = match elem {
            Scalar::Bool => parts.iter().map(|&p| self.asm.fb.ins().ineg(p)).collect(),
            _ => parts.to_vec(),
        };
        let (first, last) = (parts[0], parts[parts.len() - 1]);
        let halves = self.asm.fb.ins().snarrow(first, last);
        let ins = self.asm.fb.ins();
        let bytes = match elem {
            Scalar::I8 => ins.snarrow(halves, halves),
            _ => ins.unarrow(halves, halves),
        };
        let ty = if width == 8 { types::I64X2 } else { types::I32X4 };
        let bytes = self.asm.fb.ins().bitcast(ty, as_bits(), bytes);
        let bytes = self.asm.fb.ins().extractlane(bytes, 0);
        self.asm.fb.ins().store(unaligned(), bytes, at, offset);
    }

    // ---- operations

    /// An element-wise operation that [`is_packable`].
    pub(super) fn pack_operation(
        &mut self,
        op: Elementwise,
        [from, to]: [Scalar; 2],
        args: &[Pack],
        width: usize,
    ) -> Result<Pack> {
        if let Elementwise::Cast = op {
            return self.pack_cast(from, to, &args[0], width);
        }
        if let Elementwise::Select = op {
            return Ok(self.pack_select(to, args, width));
        }
        let parts = args.iter().map(|a| a.parts.len()).max().unwrap_or(0);
        let missing = self.internal("an operation that packs do not have");
        let results = (0..parts).map(|part| {
            let arg = |i: usize| args[i].parts[part];
            match op {
                Elementwise::Unary(op) => self.part_unary(unary_instruction(op, from), arg(0), width),
                Elementwise::Binary(op) => {
                    // The amount of a shift is one scalar.
                    let right = args[1].parts.get(part).copied().unwrap_or(args[1].parts[0]);
                    self.part_binary(op, to, arg(0), right, width)
                }
                Elementwise::Compare(op) => self.native_compare(op, from, arg(0), arg(1)),
                Elementwise::Fma if to.is_int() => {
                    let product = self.asm.mul(arg(0), arg(1));
                    Some(self.asm.add(product, arg(2)))
                }
                Elementwise::Fma => Some(self.asm.fb.ins().fma(arg(0), arg(1), arg(2))),
                Elementwise::Select | Elementwise::Cast => None,
            }
        });
        let results: Option<Vec<ir::Value>> = results.collect();
        let pack = Pack { parts: results.ok_or(missing)? };
        let compares = to == Scalar::Bool && from.bytes() == 8;
        Ok(if compares && width > 1 { self.narrow(&pack) } else { pack })
    }

    fn part_unary(
        &mut self,
        instruction: Option<UnaryInstruction>,
        x: ir::Value,
        width: usize,
    ) -> Option<ir::Value> {
        match instruction? {
            // A mask of lanes.
            UnaryInstruction::InvertBool if width > 1 => Some(self.asm.fb.ins().bnot(x)),
            other => Some(self.native_instruction(other, x)),
        }
    }

    fn part_binary(
        &mut self,
        op: BinaryOp,
        elem: Scalar,
        a: ir::Value,
        b: ir::Value,
        width: usize,
    ) -> Option<ir::Value> {
        if !matches!(op, BinaryOp::Min | BinaryOp::Max) || (is_int(elem) && (width == 1 || elem.bytes() == 4))
        {
            return self.native_binary(op, elem, a, b);
        }
        // A NaN loses: where `b` is one, `a` is taken, and comparisons with `a` do not hold.
        let order = if op == BinaryOp::Min { CompareOp::Lt } else { CompareOp::Gt };
        let mut first = self.native_compare(order, elem, a, b)?;
        if is_float(elem) {
            let nan = self.asm.fb.ins().fcmp(FloatCC::Unordered, b, b);
            first = self.asm.fb.ins().bor(first, nan);
        }
        Some(self.part_select(first, a, b, width))
    }

    /// One of two parts in each lane, by a mask of lanes as wide as theirs.
    fn part_select(&mut self, mask: ir::Value, a: ir::Value, b: ir::Value, width: usize) -> ir::Value {
        if width == 1 {
            return self.asm.fb.ins().select(mask, a, b);
        }
        let ty = self.asm.fb.func.dfg.value_type(a);
        let mask = match self.asm.fb.func.dfg.value_type(mask) == ty {
            true => mask,
            false => self.asm.fb.ins().bitcast(ty, as_bits(), mask),
        };
        self.asm.fb.ins().bitselect(mask, a, b)
    }

    /// Elements of the second pack where the first, of bools, holds, and of the third elsewhere.
    pub(super) fn pack_select(&mut self, elem: Scalar, args: &[Pack], width: usize) -> Pack {
        let mask = match elem.bytes() {
            8 if width > 1 => self.widen(&args[0], true),
            2 if width > 1 && elem.is_float() => {
                let pairs = args[0].parts.chunks_exact(2);
                Pack { parts: pairs.map(|two| self.asm.fb.ins().snarrow(two[0], two[1])).collect() }
            }
            _ => args[0].clone(),
        };
        let parts = mask.parts.iter().zip(&args[1].parts).zip(&args[2].parts);
        Pack { parts: parts.map(|((&mask, &a), &b)| self.part_select(mask, a, b, width)).collect() }
    }

    /// The same bits as elements of another type of the same size.
    pub(super) fn pack_bitcast(&mut self, pack: &Pack, to: Scalar, width: usize) -> Pack {
        let ty = part_type(to).filter(|_| width > 1).unwrap_or(scalar_type(to));
        let cast = |e: &mut Self, part| match e.asm.fb.func.dfg.value_type(part) == ty {
            true => part,
            false => e.asm.fb.ins().bitcast(ty, MemFlagsData::new(), part),
        };
        Pack { parts: pack.parts.iter().map(|&part| cast(self, part)).collect() }
    }

    // ---- widths

    /// Integers of 32 bits as such of 64.
    fn widen(&mut self, pack: &Pack, signed: bool) -> Pack {
        let mut parts = Vec::new();
        for &part in &pack.parts {
            let mut half = |high: bool| {
                let ins = self.asm.fb.ins();
                match (signed, high) {
                    (true, false) => ins.swiden_low(part),
                    (true, true) => ins.swiden_high(part),
                    (false, false) => ins.uwiden_low(part),
                    (false, true) => ins.uwiden_high(part),
                }
            };
            parts.extend([half(false), half(true)]);
        }
        Pack { parts }
    }

    /// The low halves of integers of 64 bits.
    fn narrow(&mut self, pack: &Pack) -> Pack {
        const LOW: [u8; 16] = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27];
        let pairs = pack.parts.chunks_exact(2);
        Pack { parts: pairs.map(|two| self.bytes_of(two[0], two[1], LOW, types::I32X4)).collect() }
    }

    /// Bytes of two vectors, which count on from the first to the second.
    pub(super) fn bytes_of(
        &mut self,
        a: ir::Value,
        b: ir::Value,
        which: [u8; 16],
        ty: ir::Type,
    ) -> ir::Value {
        let [a, b] = [a, b].map(|part| self.asm.fb.ins().bitcast(types::I8X16, as_bits(), part));
        let which = self.asm.fb.func.dfg.immediates.push(which.to_vec().into());
        let bytes = self.asm.fb.ins().shuffle(a, b, which);
        self.asm.fb.ins().bitcast(ty, as_bits(), bytes)
    }

    // ---- casts

    fn pack_cast(&mut self, from: Scalar, to: Scalar, pack: &Pack, width: usize) -> Result<Pack> {
        if width == 1 {
            return self.scalar_cast(from, to, pack.parts[0]).map(Pack::of);
        }
        let words = |elem: Scalar| is_int(elem) && elem.bytes() == 4 || elem.is_small_int();
        if to == Scalar::Bool {
            let zero = self.pack_zero(from, width);
            let parts = pack.parts.iter().zip(&zero.parts);
            let mask =
                Pack { parts: parts.map(|(&p, &zero)| self.asm.compare(IntCC::NotEqual, p, zero)).collect() };
            return Ok(if from.bytes() == 8 { self.narrow(&mask) } else { mask });
        }
        if from == Scalar::Bool {
            let ones = self.each_part(pack, |e, part| e.asm.fb.ins().ineg(part));
            return Ok(if to.bytes() == 8 { self.widen(&ones, false) } else { ones });
        }
        let convert = |e: &mut Self, pack: &Pack, ty: ir::Type, signed: bool| {
            e.each_part(pack, |e, part| match signed {
                true => e.asm.fb.ins().fcvt_from_sint(ty, part),
                false => e.asm.fb.ins().fcvt_from_uint(ty, part),
            })
        };
        Ok(match (from, to) {
            _ if to.is_small_int() => {
                let low = if from.bytes() == 8 { self.narrow(pack) } else { pack.clone() };
                self.low_bits(&low, to)
            }
            _ if words(from) && is_int(to) => match to.bytes() {
                8 => self.widen(pack, from.is_signed()),
                _ => pack.clone(),
            },
            _ if is_int(from) && is_int(to) => match to.bytes() {
                8 => pack.clone(),
                _ => self.narrow(pack),
            },
            (_, Scalar::F32) if words(from) => convert(self, pack, types::F32X4, from != Scalar::U32),
            (_, Scalar::F64) if words(from) => {
                let wide = self.widen(pack, from.is_signed());
                convert(self, &wide, types::F64X2, true)
            }
            (Scalar::F32, Scalar::I32) => {
                self.each_part(pack, |e, part| e.asm.fb.ins().fcvt_to_sint_sat(types::I32X4, part))
            }
            (Scalar::F32, Scalar::U32) => {
                self.each_part(pack, |e, part| e.asm.fb.ins().fcvt_to_uint_sat(types::I32X4, part))
            }
            (Scalar::F32, Scalar::F32) | (Scalar::F64, Scalar::F64) => pack.clone(),
            _ => return self.cast_by_lanes(from, to, pack, width),
        })
    }

    fn each_part(&mut self, pack: &Pack, mut f: impl FnMut(&mut Self, ir::Value) -> ir::Value) -> Pack {
        Pack { parts: pack.parts.iter().map(|&part| f(self, part)).collect() }
    }

    fn pack_zero(&mut self, elem: Scalar, width: usize) -> Pack {
        let zero = self.asm.fb.ins().iconst(scalar_type(elem), 0);
        self.pack_splat(zero, elem, width)
    }

    /// Integers of 32 bits as the small integers that their low bits are.
    fn low_bits(&mut self, pack: &Pack, to: Scalar) -> Pack {
        self.each_part(pack, |e, part| {
            let bits = e.asm.fb.ins().iconst(types::I32, i64::from(32 - 8 * to.bytes()));
            let high = e.asm.fb.ins().ishl(part, bits);
            let ins = e.asm.fb.ins();
            if to.is_signed() { ins.sshr(high, bits) } else { ins.ushr(high, bits) }
        })
    }

    /// A cast of each lane by itself.
    fn cast_by_lanes(&mut self, from: Scalar, to: Scalar, pack: &Pack, width: usize) -> Result<Pack> {
        let mut scalars = Vec::new();
        for scalar in self.pack_scalars(pack, from, width) {
            scalars.push(self.scalar_cast(from, to, scalar)?);
        }
        Ok(self.pack_of_elements(&scalars, to))
    }

    fn scalar_cast(&mut self, from: Scalar, to: Scalar, x: ir::Value) -> Result<ir::Value> {
        // Cranelift converts no floats from integers of 8 and 16 bits.
        let (from, x) = match from {
            Scalar::U8 | Scalar::U16 if is_float(to) => {
                (Scalar::I32, self.asm.fb.ins().uextend(types::I32, x))
            }
            Scalar::I8 | Scalar::I16 if is_float(to) => {
                (Scalar::I32, self.asm.fb.ins().sextend(types::I32, x))
            }
            _ => (from, x),
        };
        let cast = self.native_cast(from, to, x);
        cast.ok_or_else(|| self.internal("a cast that packs do not have"))
    }
}
