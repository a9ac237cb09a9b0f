//! Which types are 64-bit integers, and which functions of pairs of words stand for operations.

use naga::Scalar;

/// Whether a type of naga's has 64-bit integers.
pub(crate) fn is_long(scalar: Scalar) -> bool {
    scalar == Scalar::I64 || scalar == Scalar::U64
}

/// A function that a module has where something calls it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum PairFunction {
    /// The pair that two words come to as factors.
    Product,
    /// A pair shifted left by a word, modulo 64.
    ShiftLeft,
    /// A pair shifted right by a word, modulo 64, with zeros coming in.
    ShiftRight,
    /// A pair shifted right by a word, modulo 64, with the sign coming in.
    ShiftRightSigned,
    /// The quotient of two unsigned pairs; any pair where the divisor is zero.
    Quotient,
    /// The f32 next to an unsigned pair, ties to even.
    Single,
    /// The f32 next to an unsigned pair towards zero, with its last bit set where bits are lost.
    SingleToOdd,
    /// The size of an f32 as an unsigned pair: truncated, saturating, and 0 for NaN.
    Truncated,
}

impl PairFunction {
    /// Its name in the module.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PairFunction::Product => "product_of_words",
            PairFunction::ShiftLeft => "shift_left",
            PairFunction::ShiftRight => "shift_right",
            PairFunction::ShiftRightSigned => "shift_right_signed",
            PairFunction::Quotient => "quotient",
            PairFunction::Single => "pair_to_f32",
            PairFunction::SingleToOdd => "pair_to_odd_f32",
            PairFunction::Truncated => "f32_to_pair",
        }
    }
}
