//! Which element type the result of an operation has: NumPy's rules.

use kiln_ir::Scalar;

/// The element types that arrays compute in, with the names that NumPy has for them. `u64` and the
/// types for storage are refused by name.
pub(crate) const SUPPORTED: [Scalar; 8] = [
    Scalar::Bool,
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

/// The element type that holds what both hold.
///
/// Integers of 32 and 64 bits need the 53 bits of f64 beside any float, as in NumPy; f16 and bf16
/// have f32 in common.
pub(crate) fn promote(a: Scalar, b: Scalar) -> Scalar {
    if a == b {
        return a;
    }
    match (kind(a), kind(b)) {
        (Kind::Bool, _) => b,
        (_, Kind::Bool) => a,
        (Kind::Integer, Kind::Integer) => Scalar::I64,
        (Kind::Float, Kind::Float) if a == Scalar::F64 || b == Scalar::F64 => Scalar::F64,
        (Kind::Float, Kind::Float) => Scalar::F32,
        (Kind::Integer, Kind::Float) | (Kind::Float, Kind::Integer) => Scalar::F64,
    }
}

/// The element type of functions such as the exponential: integers become f64, and bool f16, as in
/// NumPy.
pub(crate) fn float_of(elem: Scalar) -> Scalar {
    match kind(elem) {
        Kind::Float => elem,
        Kind::Integer => Scalar::F64,
        Kind::Bool => Scalar::F16,
    }
}

/// The element type of means.
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
    }
}
