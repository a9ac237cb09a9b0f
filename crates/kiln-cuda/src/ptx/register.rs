//! Virtual registers, and which one holds which value.

use kiln_ir::{Scalar, Value};
use std::fmt;

/// A register class. PTX lets untyped registers serve every instruction of their width. Types of
/// one byte but bool have 16 bits, the upper ones 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Class {
    Pred,
    B16,
    B32,
    B64,
}

impl Class {
    pub(super) fn of(elem: Scalar) -> Class {
        match elem.bytes() {
            1 if elem == Scalar::Bool => Class::Pred,
            1 | 2 => Class::B16,
            4 => Class::B32,
            _ => Class::B64,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Class::Pred => "%p",
            Class::B16 => "%h",
            Class::B32 => "%r",
            Class::B64 => "%d",
        }
    }

    /// The type of a plain move of this class.
    pub(super) fn bits(self) -> &'static str {
        match self {
            Class::Pred => "pred",
            Class::B16 => "b16",
            Class::B32 => "b32",
            Class::B64 => "b64",
        }
    }
}

/// A virtual register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Reg {
    pub(super) class: Class,
    number: u32,
}

impl Reg {
    /// Whether it was made before there were more than `count` of its class.
    pub(super) fn is_one_of_first(self, count: u32) -> bool {
        self.number <= count
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.class.prefix(), self.number)
    }
}

/// The registers of a kernel.
pub(super) struct Registers {
    /// The register of each value, by index; absent until it is defined.
    by_value: Vec<Option<Reg>>,
    counts: [u32; 4],
}

impl Registers {
    /// The registers of a kernel with so many values.
    pub(super) fn new(values: usize) -> Registers {
        Registers { by_value: vec![None; values], counts: [0; 4] }
    }

    /// A fresh register.
    pub(super) fn fresh(&mut self, class: Class) -> Reg {
        let count = &mut self.counts[class as usize];
        *count += 1;
        Reg { class, number: *count }
    }

    /// How many registers of a class there are.
    pub(super) fn count(&self, class: Class) -> u32 {
        self.counts[class as usize]
    }

    /// Lets a value be held by a register that is already there.
    pub(super) fn bind(&mut self, value: Value, reg: Reg) {
        self.by_value[value.index()] = Some(reg);
    }

    /// The register of a value, if it is defined.
    pub(super) fn get(&self, value: Value) -> Option<Reg> {
        self.by_value[value.index()]
    }

    /// The declarations of all registers used.
    pub(super) fn declarations(&self) -> String {
        let classes = [Class::Pred, Class::B16, Class::B32, Class::B64];
        let used = classes.into_iter().filter(|&c| self.counts[c as usize] > 0);
        used.map(|c| format!("\t.reg .{} {}<{}>;\n", c.bits(), c.prefix(), self.counts[c as usize] + 1))
            .collect()
    }
}

/// The type suffix of arithmetic on an element type.
pub(super) fn suffix(elem: Scalar) -> &'static str {
    match elem {
        Scalar::Bool => "pred",
        Scalar::I32 => "s32",
        Scalar::U32 => "u32",
        Scalar::I64 => "s64",
        Scalar::U64 => "u64",
        Scalar::F16 => "f16",
        Scalar::BF16 => "bf16",
        Scalar::F32 => "f32",
        Scalar::F64 => "f64",
        Scalar::E4M3 => "e4m3",
        Scalar::E5M2 => "e5m2",
        Scalar::I8 => "s8",
        Scalar::U8 => "u8",
        Scalar::I16 => "s16",
        Scalar::U16 => "u16",
    }
}
