//! Element-wise operations with two operands: what they are, and the table that every stage reads.
//!
//! As for `unary.rs`, a new operation is a variant and a row of [`BinaryOp::info`].

use super::attribute::{AtomicOp, ReduceOp};
use super::class::Class;
use super::listed::listed;
use crate::types::Scalar;

listed! {
    /// Element-wise operations with two operands of one type, which is also the result's.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub enum BinaryOp {
        /// Sum; integers wrap, floats are correctly rounded (but see
        /// [`Kernel::contract`](crate::Kernel::contract)).
        Add,
        /// Difference, as `Add`.
        Sub,
        /// Product, as `Add`.
        Mul,
        /// Quotient, correctly rounded for floats. Integers truncate towards zero; a zero divisor
        /// is a fault; the least integer by -1 wraps.
        Div,
        /// Quotient within 2 ulp where the divisor lies in 2^-126 ..= 2^126, floats only: what a
        /// device has that is faster than `Div`. Devices differ in the last bits.
        FastDiv,
        /// Remainder, of the dividend's sign, exact for floats; a zero integer divisor is a fault.
        Rem,
        /// The smaller; a NaN loses to a number.
        Min,
        /// The larger; a NaN loses to a number.
        Max,
        /// Bitwise, or logical for bool.
        And,
        /// Bitwise, or logical for bool.
        Or,
        /// Bitwise, or logical for bool.
        Xor,
        /// Shift left; the amount is taken modulo the width.
        Shl,
        /// Shift right, arithmetic for signed types; the amount is taken modulo the width.
        Shr,
        /// x^y, floats only.
        Pow,
        /// The angle of the point (x = second, y = first operand), floats only.
        Atan2,
    }
}

listed! {
    /// Element-wise comparisons: operands of one type, the result is bool. With NaN only `Ne`
    /// holds.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    #[allow(missing_docs)]
    pub enum CompareOp {
        Eq,
        Ne,
        Lt,
        Le,
        Gt,
        Ge,
    }
}

/// What a binary operation computes.
///
/// ```
/// use kiln_ir::{BinaryOp, BinaryRule};
/// assert!(matches!(BinaryOp::FastDiv.info().rule, BinaryRule::Div));
/// let BinaryRule::Float(power) = BinaryOp::Pow.info().rule else { unreachable!() };
/// assert_eq!(power(2.0, 10.0), 1024.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum BinaryRule {
    /// A function of floats as f64. The result is rounded once to the element type.
    Float(fn(f64, f64) -> f64),
    /// Arithmetic, which wraps for integers and is rounded once for floats.
    Add,
    /// As `Add`.
    Sub,
    /// As `Add`.
    Mul,
    /// As `Add`; nothing for an integer divided by zero.
    Div,
    /// As `Div`, with the sign of the dividend.
    Rem,
    /// The smaller; a NaN loses to a number.
    Min,
    /// The larger; a NaN loses to a number.
    Max,
    /// Bitwise, or logical for bool.
    And,
    /// As `And`.
    Or,
    /// As `And`.
    Xor,
    /// A shift by an amount modulo the width.
    Shl,
    /// As `Shl`; arithmetic for signed types.
    Shr,
}

/// A row of the table.
///
/// ```
/// use kiln_ir::{BinaryInfo, BinaryOp, Class};
/// let info: BinaryInfo = BinaryOp::Rem.info();
/// assert_eq!((info.name, info.class), ("rem", Class::Number));
/// assert!(info.divides && !info.cheap && !info.expanded);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BinaryInfo {
    /// The name in the text format.
    pub name: &'static str,
    /// The types it works on.
    pub class: Class,
    /// What it computes.
    pub rule: BinaryRule,
    /// Whether computing it twice costs less than moving its result: one simple instruction.
    pub cheap: bool,
    /// Whether an integer divisor of zero is a fault.
    pub divides: bool,
    /// Whether a GPU has to compute it by other operations.
    pub expanded: bool,
}

/// A row of an operation that is one simple instruction of every processor.
const fn simple(name: &'static str, class: Class, rule: BinaryRule) -> BinaryInfo {
    BinaryInfo { name, class, rule, cheap: true, divides: false, expanded: false }
}

/// A row of a division of integers and floats.
const fn division(name: &'static str, rule: BinaryRule) -> BinaryInfo {
    BinaryInfo { cheap: false, divides: true, ..simple(name, Class::Number, rule) }
}

/// A row of a function of floats, for which GPUs have no instruction.
const fn function(name: &'static str, f: fn(f64, f64) -> f64) -> BinaryInfo {
    BinaryInfo { cheap: false, expanded: true, ..simple(name, Class::Float, BinaryRule::Float(f)) }
}

impl BinaryOp {
    /// The row of the operation.
    ///
    /// ```
    /// use kiln_ir::{BinaryOp, Class};
    /// assert_eq!((BinaryOp::Shl.info().name, BinaryOp::Shl.info().class), ("shl", Class::Integer));
    /// ```
    pub const fn info(self) -> BinaryInfo {
        use BinaryRule as Rule;
        use Class::{Bits, Float, Integer, Number};
        match self {
            BinaryOp::Add => simple("add", Number, Rule::Add),
            BinaryOp::Sub => simple("sub", Number, Rule::Sub),
            BinaryOp::Mul => simple("mul", Number, Rule::Mul),
            BinaryOp::Div => division("div", Rule::Div),
            BinaryOp::FastDiv => BinaryInfo { cheap: false, ..simple("fast_div", Float, Rule::Div) },
            BinaryOp::Rem => division("rem", Rule::Rem),
            BinaryOp::Min => simple("min", Number, Rule::Min),
            BinaryOp::Max => simple("max", Number, Rule::Max),
            BinaryOp::And => simple("and", Bits, Rule::And),
            BinaryOp::Or => simple("or", Bits, Rule::Or),
            BinaryOp::Xor => simple("xor", Bits, Rule::Xor),
            BinaryOp::Shl => simple("shl", Integer, Rule::Shl),
            BinaryOp::Shr => simple("shr", Integer, Rule::Shr),
            BinaryOp::Pow => function("pow", libm::pow),
            BinaryOp::Atan2 => function("atan2", libm::atan2),
        }
    }

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The operation with this name in the text format.
    ///
    /// ```
    /// use kiln_ir::BinaryOp;
    /// assert_eq!((BinaryOp::from_name("atan2"), BinaryOp::from_name("atan3")), (Some(BinaryOp::Atan2), None));
    /// ```
    pub fn from_name(name: &str) -> Option<BinaryOp> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }
}

impl CompareOp {
    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            CompareOp::Eq => "eq",
            CompareOp::Ne => "ne",
            CompareOp::Lt => "lt",
            CompareOp::Le => "le",
            CompareOp::Gt => "gt",
            CompareOp::Ge => "ge",
        }
    }

    /// The comparison with this name in the text format.
    ///
    /// ```
    /// use kiln_ir::CompareOp;
    /// let names: Vec<&str> = CompareOp::ALL.iter().map(|op| op.name()).collect();
    /// assert_eq!(names, ["eq", "ne", "lt", "le", "gt", "ge"]);
    /// assert_eq!(CompareOp::from_name("le"), Some(CompareOp::Le));
    /// ```
    pub fn from_name(name: &str) -> Option<CompareOp> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }
}

impl AtomicOp {
    /// The types that it works on.
    pub const fn class(self) -> Class {
        match self {
            AtomicOp::Add | AtomicOp::Min | AtomicOp::Max | AtomicOp::Exchange => Class::Number,
            AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => Class::Integer,
            AtomicOp::AddF16x2 | AtomicOp::AddBf16x2 => Class::Integer,
        }
    }

    /// The type of which words of u32 hold two elements, if the operation is on these.
    ///
    /// ```
    /// use kiln_ir::{AtomicOp, Class, Scalar};
    /// assert_eq!((AtomicOp::Add.class(), AtomicOp::Or.class()), (Class::Number, Class::Integer));
    /// assert_eq!((AtomicOp::AddF16x2.pair_of(), AtomicOp::Add.pair_of()), (Some(Scalar::F16), None));
    /// ```
    pub const fn pair_of(self) -> Option<Scalar> {
        match self {
            AtomicOp::AddF16x2 => Some(Scalar::F16),
            AtomicOp::AddBf16x2 => Some(Scalar::BF16),
            AtomicOp::Add | AtomicOp::Min | AtomicOp::Max => None,
            AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exchange => None,
        }
    }
}

impl ReduceOp {
    /// The types that it combines. Those that give an index compare numbers.
    pub const fn class(self) -> Class {
        match self {
            ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Min | ReduceOp::Max => Class::Number,
            ReduceOp::And | ReduceOp::Or | ReduceOp::Xor => Class::Bits,
            ReduceOp::ArgMin | ReduceOp::ArgMax => Class::Number,
        }
    }

    /// Whether the result is an index.
    ///
    /// ```
    /// use kiln_ir::{Class, ReduceOp};
    /// assert!(ReduceOp::ArgMax.gives_index() && !ReduceOp::Max.gives_index());
    /// assert_eq!((ReduceOp::ArgMax.class(), ReduceOp::Xor.class()), (Class::Number, Class::Bits));
    /// ```
    pub const fn gives_index(self) -> bool {
        matches!(self, ReduceOp::ArgMin | ReduceOp::ArgMax)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_listed_once_and_found_by_its_name() {
        for (i, op) in BinaryOp::ALL.iter().enumerate() {
            assert_eq!(BinaryOp::ALL.iter().position(|other| other.name() == op.name()), Some(i));
            assert_eq!(BinaryOp::from_name(op.name()), Some(*op));
        }
    }
}
