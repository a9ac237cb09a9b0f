//! Constants: an element type and its bits.

use crate::float8::{E4M3, E5M2};
use crate::rounding;
use crate::types::Scalar;
use half::{bf16, f16};
use std::fmt;

/// A constant of an element type, held as bits so that NaN payloads and signed zeros survive and
/// equality is exact.
///
/// ```
/// use kiln_ir::{Literal, Scalar};
/// assert_eq!(Literal::from_f64(Scalar::F32, 1.5).as_f64(), 1.5);
/// assert_eq!(Literal::from_i128(Scalar::U32, -1), None); // out of range
/// assert_eq!(Literal::from_i128(Scalar::I64, -1).unwrap().as_i128(), -1);
/// assert_eq!(Literal::zero(Scalar::BF16).as_f64(), 0.0);
/// ```
///
/// ```
/// use kiln_ir::{Literal, Scalar};
/// let one = Literal::one(Scalar::F32);
/// assert_eq!((one, one.elem(), one.bits()), (Literal::f32(1.0), Scalar::F32, 0x3f80_0000));
/// assert_eq!(Literal::from_bits(Scalar::U8, 0x1ff), Literal::wrapping(Scalar::U8, -1)); // 255
/// assert!(Literal::index(-3).is_true() && Literal::bool(true).is_true());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Literal {
    elem: Scalar,
    bits: u64,
}

impl Literal {
    /// A literal from raw bits; bits above the type's width are cleared.
    pub fn from_bits(elem: Scalar, bits: u64) -> Literal {
        let bits = match elem.bytes() {
            1 if elem == Scalar::Bool => u64::from(bits != 0),
            1 => bits & 0xff,
            2 => bits & 0xffff,
            4 => bits & 0xffff_ffff,
            _ => bits,
        };
        Literal { elem, bits }
    }

    /// Zero, or false.
    pub fn zero(elem: Scalar) -> Literal {
        Literal { elem, bits: 0 }
    }

    /// One, or true.
    pub fn one(elem: Scalar) -> Literal {
        if elem.is_float() { Literal::from_f64(elem, 1.0) } else { Literal { elem, bits: 1 } }
    }

    /// A bool.
    pub fn bool(value: bool) -> Literal {
        Literal { elem: Scalar::Bool, bits: value as u64 }
    }

    /// An i64, the type of indices.
    pub fn index(value: i64) -> Literal {
        Literal { elem: Scalar::I64, bits: value as u64 }
    }

    /// An f32.
    pub fn f32(value: f32) -> Literal {
        Literal { elem: Scalar::F32, bits: value.to_bits() as u64 }
    }

    /// A float of any type, rounded to nearest even; integers and 8-bit floats saturate, as Rust's
    /// `as` and [`E4M3::from_f64`].
    pub fn from_f64(elem: Scalar, value: f64) -> Literal {
        let bits = match elem {
            Scalar::Bool => (value != 0.0) as u64,
            Scalar::I32 => value as i32 as u32 as u64,
            Scalar::U32 => value as u32 as u64,
            Scalar::I64 => value as i64 as u64,
            Scalar::U64 => value as u64,
            Scalar::F16 => rounding::f16_from_f64(value).to_bits() as u64,
            Scalar::BF16 => rounding::bf16_from_f64(value).to_bits() as u64,
            Scalar::F32 => (value as f32).to_bits() as u64,
            Scalar::F64 => value.to_bits(),
            Scalar::E4M3 => E4M3::from_f64(value).to_bits().into(),
            Scalar::E5M2 => E5M2::from_f64(value).to_bits().into(),
            Scalar::I8 => u64::from(value as i8 as u8),
            Scalar::U8 => u64::from(value as u8),
            Scalar::I16 => u64::from(value as i16 as u16),
            Scalar::U16 => u64::from(value as u16),
        };
        Literal { elem, bits }
    }

    /// An integer of any type, if it is in range; floats round, bool takes 0 and 1.
    pub fn from_i128(elem: Scalar, value: i128) -> Option<Literal> {
        let bits = match elem {
            Scalar::Bool => u64::from(u8::try_from(value).ok().filter(|&b| b < 2)?),
            Scalar::I32 => i32::try_from(value).ok()? as u32 as u64,
            Scalar::U32 => u64::from(u32::try_from(value).ok()?),
            Scalar::I64 => i64::try_from(value).ok()? as u64,
            Scalar::U64 => u64::try_from(value).ok()?,
            Scalar::I8 => u64::from(i8::try_from(value).ok()? as u8),
            Scalar::U8 => u64::from(u8::try_from(value).ok()?),
            Scalar::I16 => u64::from(i16::try_from(value).ok()? as u16),
            Scalar::U16 => u64::from(u16::try_from(value).ok()?),
            _ => return Some(Literal::rounded(elem, value)),
        };
        Some(Literal { elem, bits })
    }

    /// The integer with the low bits of `value`, as wrapping arithmetic leaves it. For floats the
    /// nearest.
    pub fn wrapping(elem: Scalar, value: i128) -> Literal {
        match elem {
            Scalar::I32 | Scalar::U32 => Literal { elem, bits: value as u32 as u64 },
            Scalar::I64 | Scalar::U64 => Literal { elem, bits: value as u64 },
            Scalar::I8 | Scalar::U8 => Literal { elem, bits: u64::from(value as u8) },
            Scalar::I16 | Scalar::U16 => Literal { elem, bits: u64::from(value as u16) },
            Scalar::Bool => Literal::bool(value & 1 != 0),
            _ => Literal::rounded(elem, value),
        }
    }

    /// The float nearest to an integer.
    fn rounded(elem: Scalar, value: i128) -> Literal {
        match elem {
            Scalar::F64 => Literal::from_f64(elem, value as f64),
            _ => Literal::from_f64(elem, rounding::f64_to_odd(value)),
        }
    }

    /// The element type.
    pub fn elem(self) -> Scalar {
        self.elem
    }

    /// The bits, zero-extended.
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// The value as an integer; floats truncate.
    pub fn as_i128(self) -> i128 {
        match self.elem {
            Scalar::Bool | Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => self.bits as i128,
            Scalar::I8 => self.bits as u8 as i8 as i128,
            Scalar::I16 => self.bits as u16 as i16 as i128,
            Scalar::I32 => self.bits as u32 as i32 as i128,
            Scalar::I64 => self.bits as i64 as i128,
            _ => self.as_f64() as i128,
        }
    }

    /// The value as a float; 64-bit integers round.
    pub fn as_f64(self) -> f64 {
        match self.elem {
            Scalar::F16 => f16::from_bits(self.bits as u16).to_f64(),
            Scalar::BF16 => bf16::from_bits(self.bits as u16).to_f64(),
            Scalar::F32 => f32::from_bits(self.bits as u32) as f64,
            Scalar::F64 => f64::from_bits(self.bits),
            Scalar::E4M3 => E4M3::from_bits(self.bits as u8).to_f64(),
            Scalar::E5M2 => E5M2::from_bits(self.bits as u8).to_f64(),
            _ => self.as_i128() as f64,
        }
    }

    /// Whether a bool is true, or a number is not zero.
    pub fn is_true(self) -> bool {
        self.as_f64() != 0.0
    }
}

/// The text format: integers and bools in decimal and `true`/`false`; floats in the shortest form
/// that reads back the same, and `0x…` bits for NaN.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.elem {
            Scalar::Bool => write!(f, "{}", self.bits != 0),
            Scalar::F32 if !f32::from_bits(self.bits as u32).is_nan() => {
                write!(f, "{:?}", f32::from_bits(self.bits as u32))
            }
            e if e.is_float() && self.as_f64().is_nan() => write!(f, "0x{:x}", self.bits),
            e if e.is_float() => write!(f, "{:?}", self.as_f64()),
            _ => write!(f, "{}", self.as_i128()),
        }
    }
}
