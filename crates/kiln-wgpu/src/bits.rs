//! Functions of the bits of integers. Naga has them for 32 bits; those of 64 are made of halves.

use crate::body::Expr;
use crate::types::unsigned;
use crate::writer::Writer;
use naga::{BinaryOperator as B, MathFunction as M, Scalar};

/// A function of the bits of an integer.
#[derive(Clone, Copy)]
pub(crate) enum BitFn {
    Ones,
    LeadingZeros,
    Reverse,
}

impl Writer<'_> {
    /// The function of an integer, in the same type.
    pub(crate) fn bits(&mut self, function: BitFn, x: Expr, scalar: Scalar) -> Expr {
        let fun = match function {
            BitFn::Ones => M::CountOneBits,
            BitFn::LeadingZeros => M::CountLeadingZeros,
            BitFn::Reverse => M::ReverseBits,
        };
        if scalar.width == 4 {
            return self.body.math(fun, &[x]);
        }
        let b = &mut self.body;
        let bits = if scalar == Scalar::U64 { x } else { b.reinterpret(x, Scalar::U64) };
        let by = b.u32(32);
        let up = b.binary(B::ShiftRight, bits, by);
        let (low, high) = (b.convert(bits, Scalar::U32), b.convert(up, Scalar::U32));
        let (of_low, of_high) = (b.math(fun, &[low]), b.math(fun, &[high]));
        let result = match function {
            BitFn::Ones => {
                let sum = b.binary(B::Add, of_low, of_high);
                b.convert(sum, Scalar::U64)
            }
            BitFn::LeadingZeros => {
                let zero = b.u32(0);
                let is_zero = b.binary(B::Equal, high, zero);
                let more = b.binary(B::Add, of_low, by);
                let count = b.select(is_zero, more, of_high);
                b.convert(count, Scalar::U64)
            }
            BitFn::Reverse => {
                let (low, high) = (b.convert(of_low, Scalar::U64), b.convert(of_high, Scalar::U64));
                let up = b.binary(B::ShiftLeft, low, by);
                b.binary(B::InclusiveOr, up, high)
            }
        };
        if unsigned(scalar) == scalar { result } else { b.reinterpret(result, scalar) }
    }
}
