//! Element-wise operations with one operand: what they are, and the table that every stage reads.
//!
//! A new operation is a variant and a row of [`UnaryOp::info`] or [`MathFn::info`]. Printer,
//! parser, builder, verifier, constant folding, the interpreter, the legalization of tiles and the
//! random kernels follow from the row. What remains is the code of each device:
//! `kiln-cpu-primitives` (`unary.rs`), and for GPUs either an instruction (`kiln-cuda`,
//! `ptx/arith.rs`) or, for a [`MathFn`], an expansion (`kiln-compiler`, `expand/mod.rs`).

use super::class::Class;
use super::listed::listed;
use crate::types::Scalar;

listed! {
    /// Element-wise operations with one operand. The result has the operand's type unless said
    /// otherwise.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub enum UnaryOp {
        /// Negation; wraps for integers.
        Neg,
        /// Logical not of a bool, bitwise not of an integer.
        Not,
        /// Absolute value; wraps for the least integer.
        Abs,
        /// A function that no GPU has an instruction for.
        Math(MathFn),
        /// 2^x, within a few ulp.
        Exp2,
        /// Square root, correctly rounded.
        Sqrt,
        /// 1 / sqrt(x), within a few ulp.
        Rsqrt,
        /// 1 / x, correctly rounded.
        Recip,
        /// Rounds towards minus infinity.
        Floor,
        /// Rounds towards plus infinity.
        Ceil,
        /// Rounds to nearest, ties to even.
        Round,
        /// Rounds towards zero.
        Trunc,
        /// The number of one bits of an integer, in the same type.
        Popcount,
        /// The number of leading zero bits of an integer, in the same type.
        Clz,
        /// The bits of an integer in the opposite order.
        BitReverse,
        /// Whether a float is NaN; the result is bool.
        IsNan,
    }
}

listed! {
    /// Mathematical functions of a float, for which GPUs have no instruction: within a few ulp,
    /// special values as in IEEE 754.
    ///
    /// ```
    /// use kiln_ir::{Expr, MathFn};
    /// assert_eq!((MathFn::Erf.info().name, MathFn::Erf.info().exact), ("erf", false));
    /// assert_eq!(MathFn::Exp.derivative()(), Expr::Y); // that of e^x is its result
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub enum MathFn {
        /// e^x.
        Exp,
        /// Natural logarithm.
        Log,
        /// Base-2 logarithm.
        Log2,
        /// ln(1 + x), also where x is small.
        Log1p,
        /// Sine, of radians.
        Sin,
        /// Cosine, of radians.
        Cos,
        /// Hyperbolic tangent.
        Tanh,
        /// The error function.
        Erf,
        /// 1 / (1 + e^-x).
        Sigmoid,
    }
}

/// What a unary operation computes.
///
/// ```
/// use kiln_ir::{UnaryOp, UnaryRule};
/// let UnaryRule::Bits(zeros) = UnaryOp::Clz.info().rule else { unreachable!() };
/// assert_eq!((zeros(1, 32), zeros(1, 8)), (31, 7));
/// assert!(matches!(UnaryOp::Neg.info().rule, UnaryRule::Negate));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum UnaryRule {
    /// A function of a float as an f64. The result is rounded once to the element type.
    Float(fn(f64) -> f64),
    /// A function of an integer's bits, zero-extended, and of how many there are.
    Bits(fn(u64, u32) -> u64),
    /// The number of the other sign.
    Negate,
    /// Every bit inverted; of a bool, the other one.
    Invert,
    /// The number without its sign.
    Magnitude,
    /// Whether the float is NaN.
    IsNan,
}

/// Which floats a GPU has no instruction for, so that the compiler expands the operation. Those of
/// 16 bits are always computed in f32.
///
/// ```
/// use kiln_ir::{Expansion, Scalar, UnaryOp};
/// assert_eq!(UnaryOp::Exp2.info().expansion, Expansion::F64);
/// assert!(Expansion::F64.is_needed(Scalar::F64) && !Expansion::F64.is_needed(Scalar::F32));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Expansion {
    /// There is an instruction for all.
    Never,
    /// There is one for f32.
    F64,
    /// There is none.
    Always,
}

impl Expansion {
    /// Whether the compiler expands an operation on f32 or f64.
    pub const fn is_needed(self, elem: Scalar) -> bool {
        match self {
            Expansion::Never => false,
            Expansion::F64 => matches!(elem, Scalar::F64),
            Expansion::Always => true,
        }
    }
}

/// A row of the table.
///
/// ```
/// use kiln_ir::{Class, UnaryInfo, UnaryOp};
/// let info: UnaryInfo = UnaryOp::Sqrt.info();
/// assert_eq!((info.name, info.class), ("sqrt", Class::Float));
/// assert!(info.exact && !info.cheap); // every device rounds a root correctly
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UnaryInfo {
    /// The name in the text format.
    pub name: &'static str,
    /// The types it works on.
    pub class: Class,
    /// What it computes.
    pub rule: UnaryRule,
    /// Whether computing it twice costs less than moving its result: one simple instruction.
    pub cheap: bool,
    /// Whether every device gives the same bits.
    pub exact: bool,
    /// Whether a GPU has to compute it by other operations.
    pub expansion: Expansion,
}

/// A row of an operation that is one simple instruction of every processor.
const fn simple(name: &'static str, class: Class, rule: UnaryRule) -> UnaryInfo {
    UnaryInfo { name, class, rule, cheap: true, exact: true, expansion: Expansion::Never }
}

/// A row of a function of the bits of integers.
const fn of_bits(name: &'static str, f: fn(u64, u32) -> u64) -> UnaryInfo {
    UnaryInfo { cheap: false, ..simple(name, Class::Integer, UnaryRule::Bits(f)) }
}

/// A row of a function of floats that every device rounds correctly.
const fn rounded(name: &'static str, f: fn(f64) -> f64) -> UnaryInfo {
    UnaryInfo { cheap: false, ..simple(name, Class::Float, UnaryRule::Float(f)) }
}

/// A row of a function of floats of which devices differ in the last bits.
const fn approximate(name: &'static str, expansion: Expansion, f: fn(f64) -> f64) -> UnaryInfo {
    UnaryInfo { exact: false, expansion, ..rounded(name, f) }
}

impl UnaryOp {
    /// The row of the operation.
    ///
    /// ```
    /// use kiln_ir::{Class, MathFn, UnaryOp};
    /// assert_eq!(UnaryOp::Popcount.info().class, Class::Integer);
    /// assert_eq!(UnaryOp::Math(MathFn::Tanh).info().name, "tanh");
    /// ```
    pub const fn info(self) -> UnaryInfo {
        match self {
            UnaryOp::Neg => simple("neg", Class::Number, UnaryRule::Negate),
            UnaryOp::Not => simple("not", Class::Bits, UnaryRule::Invert),
            UnaryOp::Abs => simple("abs", Class::Number, UnaryRule::Magnitude),
            UnaryOp::Math(function) => function.info(),
            UnaryOp::Exp2 => approximate("exp2", Expansion::F64, libm::exp2),
            UnaryOp::Sqrt => rounded("sqrt", f64::sqrt),
            UnaryOp::Rsqrt => approximate("rsqrt", Expansion::F64, |x| 1.0 / x.sqrt()),
            UnaryOp::Recip => rounded("recip", |x| 1.0 / x),
            UnaryOp::Floor => rounded("floor", f64::floor),
            UnaryOp::Ceil => rounded("ceil", f64::ceil),
            UnaryOp::Round => rounded("round", f64::round_ties_even),
            UnaryOp::Trunc => rounded("trunc", f64::trunc),
            UnaryOp::Popcount => of_bits("popcount", |x, _| x.count_ones().into()),
            UnaryOp::Clz => of_bits("clz", |x, width| (x.leading_zeros() - (64 - width)).into()),
            UnaryOp::BitReverse => of_bits("bit_reverse", |x, width| x.reverse_bits() >> (64 - width)),
            UnaryOp::IsNan => simple("is_nan", Class::Float, UnaryRule::IsNan),
        }
    }

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The operation with this name in the text format.
    ///
    /// ```
    /// use kiln_ir::{MathFn, Scalar, UnaryOp};
    /// assert_eq!(UnaryOp::from_name("tanh"), Some(UnaryOp::Math(MathFn::Tanh)));
    /// assert_eq!((UnaryOp::IsNan.result(Scalar::F32), UnaryOp::Abs.result(Scalar::F32)), (Scalar::Bool, Scalar::F32));
    /// ```
    pub fn from_name(name: &str) -> Option<UnaryOp> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// The element type of the result, for operands of this one.
    pub const fn result(self, operand: Scalar) -> Scalar {
        match self.info().rule {
            UnaryRule::IsNan => Scalar::Bool,
            UnaryRule::Float(_)
            | UnaryRule::Bits(_)
            | UnaryRule::Negate
            | UnaryRule::Invert
            | UnaryRule::Magnitude => operand,
        }
    }
}

impl MathFn {
    /// The row of the function.
    pub const fn info(self) -> UnaryInfo {
        match self {
            MathFn::Exp => function("exp", libm::exp),
            MathFn::Log => function("log", libm::log),
            MathFn::Log2 => function("log2", libm::log2),
            MathFn::Log1p => function("log1p", libm::log1p),
            MathFn::Sin => function("sin", libm::sin),
            MathFn::Cos => function("cos", libm::cos),
            MathFn::Tanh => function("tanh", libm::tanh),
            MathFn::Erf => function("erf", libm::erf),
            MathFn::Sigmoid => function("sigmoid", sigmoid),
        }
    }
}

/// A row of a [`MathFn`].
const fn function(name: &'static str, f: fn(f64) -> f64) -> UnaryInfo {
    approximate(name, Expansion::Always, f)
}

/// `1 / (1 + e^-x)`. The exponential is of a negative number, so that it cannot overflow: below
/// -709 the result is as small as the exponential, and not zero.
fn sigmoid(x: f64) -> f64 {
    let e = libm::exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_listed_once_and_found_by_its_name() {
        for (i, op) in UnaryOp::ALL.iter().enumerate() {
            assert_eq!(UnaryOp::ALL.iter().position(|other| other.name() == op.name()), Some(i));
            assert_eq!(UnaryOp::from_name(op.name()), Some(*op));
        }
    }
}
