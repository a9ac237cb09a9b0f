//! Derivatives of element-wise operations, as expressions of their operands and their result.
//!
//! There is a line for each operation: `1.0 - Y * Y` is that of
//! `tanh`. [`Builder::derivative`](crate::Builder::derivative) writes them as operations.

use super::{BinaryOp, MathFn, UnaryOp};
use Expr::{A, B, Y};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2};

/// An expression of floats.
///
/// ```
/// use kiln_ir::{BinaryOp, Expr, MathFn, UnaryOp};
/// let expr = (Expr::A.power(Expr::B) * 2.0).of(MathFn::Exp).then(UnaryOp::Neg);
/// let Expr::Unary(UnaryOp::Neg, inner) = expr else { unreachable!() };
/// assert!(matches!(*inner, Expr::Unary(UnaryOp::Math(MathFn::Exp), _)));
/// // The derivative of the magnitude.
/// assert_eq!(UnaryOp::Abs.derivative().unwrap()(), Expr::A.less(0.0, -1.0, 1.0));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// The first operand.
    A,
    /// The second operand.
    B,
    /// The result of the operation.
    Y,
    /// A number.
    Number(f64),
    /// An element-wise operation with one operand.
    Unary(UnaryOp, Box<Expr>),
    /// An element-wise operation with two operands.
    Binary(BinaryOp, Box<[Expr; 2]>),
    /// The third where the first is less than the second, else the fourth.
    Less(Box<[Expr; 4]>),
}

/// A derivative.
///
/// ```
/// use kiln_ir::{Derivative, Expr, MathFn};
/// let slope: Derivative = MathFn::Tanh.derivative();
/// assert_eq!(slope(), 1.0 - Expr::Y * Expr::Y);
/// ```
pub type Derivative = fn() -> Expr;

/// An expression, from a number too.
impl From<f64> for Expr {
    fn from(number: f64) -> Expr {
        Expr::Number(number)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident;)*) => {$(
        impl<R: Into<Expr>> std::ops::$trait<R> for Expr {
            type Output = Expr;

            fn $method(self, right: R) -> Expr {
                Expr::Binary(BinaryOp::$trait, Box::new([self, right.into()]))
            }
        }

        impl std::ops::$trait<Expr> for f64 {
            type Output = Expr;

            fn $method(self, right: Expr) -> Expr {
                Expr::Binary(BinaryOp::$trait, Box::new([self.into(), right]))
            }
        }
    )*};
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl std::ops::Neg for Expr {
    type Output = Expr;

    fn neg(self) -> Expr {
        self.then(UnaryOp::Neg)
    }
}

impl Expr {
    /// The operation on this expression.
    pub fn then(self, op: UnaryOp) -> Expr {
        Expr::Unary(op, Box::new(self))
    }

    /// The function of this expression.
    pub fn of(self, function: MathFn) -> Expr {
        self.then(UnaryOp::Math(function))
    }

    /// This one to the power of another.
    pub fn power(self, exponent: Expr) -> Expr {
        Expr::Binary(BinaryOp::Pow, Box::new([self, exponent]))
    }

    /// One of two values: the first where this is less than `than`.
    pub fn less(self, than: impl Into<Expr>, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr {
        Expr::Less(Box::new([self, than.into(), yes.into(), no.into()]))
    }
}

/// The number 1.
const fn one() -> Expr {
    Expr::Number(1.0)
}

impl UnaryOp {
    /// The derivative, of operations on floats whose result is one.
    ///
    /// ```
    /// use kiln_ir::{Expr, UnaryOp};
    /// assert_eq!(UnaryOp::Sqrt.derivative().map(|slope| slope()), Some(0.5 / Expr::Y));
    /// assert_eq!(UnaryOp::Popcount.derivative(), None);
    /// ```
    pub fn derivative(self) -> Option<Derivative> {
        Some(match self {
            UnaryOp::Math(function) => function.derivative(),
            UnaryOp::Neg => || Expr::Number(-1.0),
            UnaryOp::Abs => || A.less(0.0, -1.0, 1.0),
            UnaryOp::Exp2 => || LN_2 * Y,
            UnaryOp::Sqrt => || 0.5 / Y,
            UnaryOp::Rsqrt => || -0.5 * Y * Y * Y,
            UnaryOp::Recip => || -(Y * Y),
            UnaryOp::Floor => || Expr::Number(0.0),
            UnaryOp::Ceil => || Expr::Number(0.0),
            UnaryOp::Round => || Expr::Number(0.0),
            UnaryOp::Trunc => || Expr::Number(0.0),
            UnaryOp::Not | UnaryOp::Popcount | UnaryOp::Clz | UnaryOp::BitReverse | UnaryOp::IsNan => {
                return None;
            }
        })
    }
}

impl MathFn {
    /// The derivative.
    pub fn derivative(self) -> Derivative {
        match self {
            MathFn::Exp => || Y,
            MathFn::Log => || 1.0 / A,
            MathFn::Log2 => || 1.0 / (LN_2 * A),
            MathFn::Log1p => || 1.0 / (1.0 + A),
            MathFn::Sin => || A.of(MathFn::Cos),
            MathFn::Cos => || -A.of(MathFn::Sin),
            MathFn::Tanh => || 1.0 - Y * Y,
            MathFn::Erf => || FRAC_2_SQRT_PI * (-(A * A)).of(MathFn::Exp),
            MathFn::Sigmoid => || Y * (1.0 - Y),
        }
    }
}

impl BinaryOp {
    /// The derivatives with respect to both operands, of operations on floats.
    ///
    /// ```
    /// use kiln_ir::{BinaryOp, Expr};
    /// assert_eq!(BinaryOp::Mul.derivatives().map(|both| both.map(|slope| slope())), Some([Expr::B, Expr::A]));
    /// assert!(BinaryOp::Xor.derivatives().is_none());
    /// ```
    pub fn derivatives(self) -> Option<[Derivative; 2]> {
        Some(match self {
            BinaryOp::Add => [one, one],
            BinaryOp::Sub => [one, || Expr::Number(-1.0)],
            BinaryOp::Mul => [|| B, || A],
            BinaryOp::Div => [|| 1.0 / B, || -(Y / B)],
            BinaryOp::FastDiv => [|| 1.0 / B, || -(Y / B)],
            BinaryOp::Rem => [one, || -(A / B).then(UnaryOp::Trunc)],
            BinaryOp::Min => [|| B.less(A, 0.0, 1.0), || B.less(A, 1.0, 0.0)],
            BinaryOp::Max => [|| A.less(B, 0.0, 1.0), || A.less(B, 1.0, 0.0)],
            BinaryOp::Pow => [|| B * A.power(B - 1.0), || Y * A.of(MathFn::Log)],
            BinaryOp::Atan2 => [|| B / (A * A + B * B), || -(A / (A * A + B * B))],
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval;
    use crate::literal::Literal;
    use crate::op::{Class, CompareOp};
    use crate::types::Scalar;

    fn literal(x: f64) -> Literal {
        Literal::from_f64(Scalar::F64, x)
    }

    fn unary(op: UnaryOp, x: f64) -> f64 {
        eval::unary(op, literal(x)).unwrap().as_f64()
    }

    fn binary(op: BinaryOp, a: f64, b: f64) -> f64 {
        eval::binary(op, literal(a), literal(b)).unwrap().as_f64()
    }

    fn value(expr: &Expr, [a, b, y]: [f64; 3]) -> f64 {
        let of = |expr: &Expr| value(expr, [a, b, y]);
        match expr {
            Expr::A => a,
            Expr::B => b,
            Expr::Y => y,
            Expr::Number(number) => *number,
            Expr::Unary(op, x) => unary(*op, of(x)),
            Expr::Binary(op, operands) => binary(*op, of(&operands[0]), of(&operands[1])),
            Expr::Less(operands) => {
                let [left, right, yes, no] = operands.each_ref().map(of);
                let less = eval::compare(CompareOp::Lt, literal(left), literal(right));
                if less.is_true() { yes } else { no }
            }
        }
    }

    /// The difference quotient of a function, with an error of about 1e-10.
    fn slope(f: impl Fn(f64) -> f64, x: f64) -> f64 {
        let step = 1e-5;
        (f(x + step) - f(x - step)) / (2.0 * step)
    }

    fn check(what: &str, derivative: f64, slope: f64) {
        assert!(
            (derivative - slope).abs() < 1e-6 * slope.abs().max(1.0),
            "{what}: {derivative}, expected {slope}"
        );
    }

    #[test]
    fn unary_derivatives_are_difference_quotients() {
        let mut tested = 0;
        for &op in UnaryOp::ALL {
            let floats = op.info().class.has(Scalar::F64) && op.result(Scalar::F64) == Scalar::F64;
            assert_eq!(op.derivative().is_some(), floats, "{}", op.name());
            let Some(derivative) = op.derivative() else { continue };
            for x in [-2.3, -0.7, 0.31, 1.6, 3.7] {
                let y = unary(op, x);
                if y.is_nan() {
                    continue; // outside of its domain
                }
                check(op.name(), value(&derivative(), [x, f64::NAN, y]), slope(|x| unary(op, x), x));
                tested += 1;
            }
        }
        assert!(tested > 80, "{tested}");
    }

    #[test]
    fn binary_derivatives_are_difference_quotients() {
        let mut tested = 0;
        for &op in BinaryOp::ALL {
            let floats = matches!(op.info().class, Class::Number | Class::Float);
            assert_eq!(op.derivatives().is_some(), floats, "{}", op.name());
            let Some(derivatives) = op.derivatives() else { continue };
            for (a, b) in [(0.7, 1.9), (5.3, 1.7), (2.2, 0.4), (-1.3, 2.6), (1.2, -0.8)] {
                let y = binary(op, a, b);
                if y.is_nan() {
                    continue;
                }
                let [by_a, by_b] = derivatives.map(|rule| value(&rule(), [a, b, y]));
                check(op.name(), by_a, slope(|a| binary(op, a, b), a));
                check(op.name(), by_b, slope(|b| binary(op, a, b), b));
                tested += 1;
            }
        }
        assert!(tested > 40, "{tested}");
    }
}
