//! The smaller and the larger of two numbers: a NaN loses to a number, and -0 is below +0. No API
//! promises that of its functions; those of some drivers do so
//! ([`Features::exact_extrema`](crate::Features)).

use crate::body::Expr;
use crate::writer::Writer;
use naga::{BinaryOperator as B, MathFunction as M, Scalar, ScalarKind};

impl Writer<'_> {
    pub(crate) fn extremum(&mut self, least: bool, scalar: Scalar, a: Expr, b: Expr) -> Expr {
        let fun = if least { M::Min } else { M::Max };
        match scalar {
            // In f32 every f16 is itself.
            Scalar::F16 => {
                let [x, y] = [a, b].map(|x| self.body.convert(x, Scalar::F32));
                let wide = self.float_extremum(least, fun, Scalar::F32, x, y);
                self.body.convert(wide, Scalar::F16)
            }
            Scalar { kind: ScalarKind::Float, .. } => self.float_extremum(least, fun, scalar, a, b),
            _ => self.body.math(fun, &[a, b]),
        }
    }

    fn float_extremum(&mut self, least: bool, fun: M, scalar: Scalar, a: Expr, b: Expr) -> Expr {
        if self.features.exact_extrema && scalar == Scalar::F32 {
            return self.body.math(fun, &[a, b]);
        }
        let (no_a, no_b) = (self.is_nan(a, scalar), self.is_nan(b, scalar));
        let w = &mut self.body;
        let number = w.math(fun, &[a, b]);
        // Equal numbers differ in their sign at most: the bit of -0 is in "or", not in "and".
        let (left, right) = (w.bitcast(a, ScalarKind::Uint), w.bitcast(b, ScalarKind::Uint));
        let bits = w.binary(if least { B::InclusiveOr } else { B::And }, left, right);
        let signed = w.bitcast(bits, ScalarKind::Float);
        let equal = w.binary(B::Equal, a, b);
        let number = w.select(equal, signed, number);
        let or_a = w.select(no_b, a, number);
        w.select(no_a, b, or_a)
    }
}
