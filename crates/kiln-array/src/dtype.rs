//! Which element type the result of an operation has: NumPy's rules.

use kiln_ir::Scalar;

/// The element types that arrays compute in, with the names that NumPy has for them. `u64` and the
/// types for storage are refused by name.
pub(crate) const SUPPORTED: [Scalar; 12] = [
    Scalar::Bool,
    Scalar::I8,
    Scalar::U8,
    Scalar::I16,
    Scalar::U16,
    Scalar::I32,
    Scalar::U32,
    Scalar::I64,
    Scalar::F16,
    Scalar::BF16,
    Scalar::F32,
    Scalar::F64,
];

/// How much an element type holds: bool, integers, floats.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Bool,
    Integer,
    Float,
}

/// What an element type holds.
pub(crate) fn kind(elem: Scalar) -> Kind {
    match elem {
        Scalar::Bool => Kind::Bool,
        elem if elem.is_float() => Kind::Float,
        _ => Kind::Integer,
    }
}

/// Whether an element type is for integers of 8 or 16 bits.
pub(crate) fn is_narrow(elem: Scalar) -> bool {
    matches!(elem, Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16)
}

/// The element type in which the kernel library multiplies, sorts and adds parts of this type:
/// integers of 8 and 16 bits are cast to i32 for that, and results back, which wraps.
pub(crate) fn of_library(elem: Scalar) -> Scalar {
    if is_narrow(elem) { Scalar::I32 } else { elem }
}

/// The smallest element type for integers that holds those of both.
fn integers(a: Scalar, b: Scalar) -> Scalar {
    let (wide, narrow) = if a.bytes() >= b.bytes() { (a, b) } else { (b, a) };
    let is_signed = |elem: Scalar| matches!(elem, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64);
    match (is_signed(wide), is_signed(narrow)) {
        (true, true) | (false, false) => wide,
        (true, false) if wide.bytes() > narrow.bytes() => wide,
        // One bit more than the unsigned ones have.
        _ => match wide.bytes() {
            1 => Scalar::I16,
            2 => Scalar::I32,
            _ => Scalar::I64,
        },
    }
}

/// The smallest float that holds all integers of a type, as NumPy says: a function of i8 is of f16,
/// of i16 f32, and of wider ones f64.
fn float_holding(integer: Scalar) -> Scalar {
    match integer.bytes() {
        1 => Scalar::F16,
        2 => Scalar::F32,
        _ => Scalar::F64,
    }
}

/// The element type that holds what both hold, as in NumPy: integers of 32 and 64 bits need the 53
/// bits of f64 beside any float, those of 8 bits fit every one; f16 and bf16 have f32 in common.
pub(crate) fn promote(a: Scalar, b: Scalar) -> Scalar {
    if a == b {
        return a;
    }
    match (kind(a), kind(b)) {
        (Kind::Bool, _) => b,
        (_, Kind::Bool) => a,
        (Kind::Integer, Kind::Integer) => integers(a, b),
        (Kind::Float, Kind::Float) if a == Scalar::F64 || b == Scalar::F64 => Scalar::F64,
        (Kind::Float, Kind::Float) => Scalar::F32,
        (Kind::Integer, Kind::Float) if a.bytes() == 1 => b,
        (Kind::Float, Kind::Integer) if b.bytes() == 1 => a,
        (Kind::Integer, Kind::Float) => promote(float_holding(a), b),
        (Kind::Float, Kind::Integer) => promote(a, float_holding(b)),
    }
}

/// The element type of functions such as the exponential: integers become the float that holds
/// them, f64 from 32 bits on, and bool f16, as in NumPy.
pub(crate) fn float_of(elem: Scalar) -> Scalar {
    match kind(elem) {
        Kind::Float => elem,
        Kind::Integer => float_holding(elem),
        Kind::Bool => Scalar::F16,
    }
}

/// The element type of means, spectra and what linear algebra computes: integers become f64.
pub(crate) fn mean_of(elem: Scalar) -> Scalar {
    if kind(elem) == Kind::Float { elem } else { Scalar::F64 }
}

/// The element type of sums and products: integers and bool count in i64.
pub(crate) fn sum_of(elem: Scalar) -> Scalar {
    if kind(elem) == Kind::Float { elem } else { Scalar::I64 }
}

/// The element type in which sums are added up: f32 for 16-bit floats.
pub(crate) fn accumulator(elem: Scalar) -> Scalar {
    sum_of(elem).accumulator()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_symmetric_and_keeps_what_both_hold() {
        for a in SUPPORTED {
            for b in SUPPORTED {
                assert_eq!(promote(a, b), promote(b, a));
                assert!(kind(promote(a, b)) == kind(a).max(kind(b)));
            }
        }
        assert_eq!(promote(Scalar::I32, Scalar::U32), Scalar::I64);
        assert_eq!(promote(Scalar::F16, Scalar::BF16), Scalar::F32);
        assert_eq!(promote(Scalar::I32, Scalar::F32), Scalar::F64);
        assert_eq!(promote(Scalar::Bool, Scalar::F16), Scalar::F16);
        assert_eq!(promote(Scalar::I8, Scalar::U8), Scalar::I16);
        assert_eq!(promote(Scalar::U16, Scalar::I32), Scalar::I32);
        assert_eq!(promote(Scalar::U16, Scalar::I8), Scalar::I32);
        assert_eq!(promote(Scalar::U8, Scalar::BF16), Scalar::BF16);
        assert_eq!(promote(Scalar::I16, Scalar::F16), Scalar::F32);
    }
}
