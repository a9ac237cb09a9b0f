//! Which type of naga holds values of an element type.

use crate::features::Features;
use kiln_ir::Scalar as Elem;
use naga::{Literal, Scalar, ScalarKind};

impl Features {
    /// Whether values of a type are held as codes, their bits in a word: see `codes.rs`.
    pub(crate) fn is_code(self, elem: Elem) -> bool {
        elem.is_float8() || (elem == Elem::F16 && !self.float16)
    }

    /// The type in which values of an element type are held. Elements of 8 bits, integers of 16
    /// and `bf16` are held in 32 bits.
    pub(crate) fn register(self, elem: Elem) -> Scalar {
        match elem {
            _ if self.is_code(elem) => Scalar::U32,
            Elem::Bool => Scalar::BOOL,
            Elem::I32 | Elem::I8 | Elem::I16 => Scalar::I32,
            Elem::U32 | Elem::U8 | Elem::U16 | Elem::E4M3 | Elem::E5M2 => Scalar::U32,
            Elem::I64 => Scalar::I64,
            Elem::U64 => Scalar::U64,
            Elem::F16 => Scalar::F16,
            Elem::F32 | Elem::BF16 => Scalar::F32,
            Elem::F64 => Scalar::F64,
        }
    }

    /// The type that elements of memory have, if naga has one that a host can share, and the
    /// adapter has it.
    pub(crate) fn stored(self, elem: Elem) -> Option<Scalar> {
        let small = matches!(elem, Elem::Bool | Elem::BF16) || elem.is_small_int();
        let stored = !small && !self.is_code(elem) && self.missing(elem).is_none();
        stored.then(|| self.register(elem))
    }
}

/// The unsigned integer of as many bits.
pub(crate) fn unsigned(scalar: Scalar) -> Scalar {
    Scalar { kind: ScalarKind::Uint, width: scalar.width }
}

/// Zero, or false.
pub(crate) fn zero(scalar: Scalar) -> Literal {
    integer(scalar, 0)
}

/// A small number of a type; of bool, whether it is not zero.
pub(crate) fn integer(scalar: Scalar, value: u32) -> Literal {
    match (scalar.kind, scalar.width) {
        (ScalarKind::Sint, 8) => Literal::I64(value.into()),
        (ScalarKind::Sint, _) => Literal::I32(value as i32),
        (ScalarKind::Uint, 8) => Literal::U64(value.into()),
        (ScalarKind::Uint, _) => Literal::U32(value),
        (ScalarKind::Float, 2) => Literal::F16(half::f16::from_f32(value as f32)),
        (ScalarKind::Float, 8) => Literal::F64(value.into()),
        (ScalarKind::Float, _) => Literal::F32(value as f32),
        (ScalarKind::Bool | ScalarKind::AbstractInt | ScalarKind::AbstractFloat, _) => {
            Literal::Bool(value != 0)
        }
    }
}
