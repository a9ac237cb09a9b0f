//! The element types that an element-wise operation works on.

use crate::types::Scalar;

/// A set of element types. None has those that are for [storage](Scalar::is_storage) alone.
///
/// ```
/// use kiln_ir::{Class, Scalar};
/// assert!(Class::Bits.has(Scalar::Bool) && !Class::Integer.has(Scalar::Bool));
/// assert!(Class::Number.has(Scalar::I8) && !Class::Number.has(Scalar::E4M3));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// Integers and floats.
    Number,
    /// Integers and bool.
    Bits,
    /// Integers.
    Integer,
    /// Floats.
    Float,
    /// Bool.
    Bool,
}

impl Class {
    /// Whether an element type is one of them.
    pub const fn has(self, elem: Scalar) -> bool {
        let is_bool = matches!(elem, Scalar::Bool);
        let is_of_kind = match self {
            Class::Number => !is_bool,
            Class::Bits => !elem.is_float(),
            Class::Integer => elem.is_int(),
            Class::Float => elem.is_float(),
            Class::Bool => is_bool,
        };
        is_of_kind && !elem.is_storage()
    }

    /// What errors call them.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Class::Number => "numbers",
            Class::Bits => "integers or bool",
            Class::Integer => "integers",
            Class::Float => "floats",
            Class::Bool => "bool",
        }
    }
}
