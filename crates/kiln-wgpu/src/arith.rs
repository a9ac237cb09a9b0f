//! Constants and element-wise operations.

use crate::bits::BitFn;
use crate::body::Expr;
use crate::types::{integer, unsigned, zero};
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{BinaryOp, CompareOp, Literal, OpData, Scalar as Elem, UnaryOp};
use naga::{BinaryOperator as B, MathFunction as M, Scalar, ScalarKind, UnaryOperator as U};

/// What says that an operation has to be expanded first.
const EXPANDED: &str = "The compiler's expansion gives other operations for it; please report this.";

impl Writer<'_> {
    pub(crate) fn constant(&mut self, op: &OpData, literal: Literal) -> Result<()> {
        let [result] = op.results[..] else { return Ok(()) };
        let scalar = self.scalar(op, result)?;
        let expr = match self.features.is_code(literal.elem()) {
            true => self.body.u32(literal.bits() as u32),
            false => self.literal(literal, scalar),
        };
        self.set(op, expr);
        Ok(())
    }

    /// A literal as a value of the type that holds its element type.
    pub(crate) fn literal(&mut self, literal: Literal, scalar: Scalar) -> Expr {
        let value = literal.as_i128();
        if self.is_pair(scalar) {
            return self.pair_of(value as u64);
        }
        let naga = match (scalar.kind, scalar.width) {
            (ScalarKind::Float, _) => return self.float_literal(literal, scalar),
            (ScalarKind::Sint, 8) => naga::Literal::I64(value as i64),
            (ScalarKind::Sint, _) => naga::Literal::I32(value as i32),
            (ScalarKind::Uint, 8) => naga::Literal::U64(value as u64),
            (ScalarKind::Uint, _) => naga::Literal::U32(value as u32),
            (ScalarKind::Bool | ScalarKind::AbstractInt | ScalarKind::AbstractFloat, _) => {
                naga::Literal::Bool(literal.is_true())
            }
        };
        self.body.literal(naga)
    }

    /// NaN and infinities have no literals, and a cast of constant bits is refused by browsers: the
    /// bits come from a variable. So do those of the greatest f32, whose shortest decimal number,
    /// which naga writes, is a little greater: browsers take that for too large.
    fn float_literal(&mut self, literal: Literal, scalar: Scalar) -> Expr {
        let value = literal.as_f64();
        let is_greatest = scalar == Scalar::F32 && (value as f32).abs() == f32::MAX;
        if !value.is_finite() || is_greatest {
            let (name, bits) = match (value.is_nan(), is_greatest) {
                (true, _) => ("nan_bits", f32::NAN.to_bits()),
                (_, true) => ("greatest_bits", (value as f32).to_bits()),
                _ => ("infinity_bits", (value as f32).to_bits()),
            };
            let ty = self.scalar_type(Scalar::U32);
            let variable = self.body.variable(name, ty, Some(naga::Literal::U32(bits)));
            let bits = self.body.load(variable);
            let wide = self.body.bitcast(bits, ScalarKind::Float);
            return if scalar == Scalar::F32 { wide } else { self.body.convert(wide, scalar) };
        }
        self.body.literal(match scalar.width {
            2 => naga::Literal::F16(half::f16::from_f64(value)),
            4 => naga::Literal::F32(value as f32),
            _ => naga::Literal::F64(value),
        })
    }

    pub(crate) fn unary(&mut self, op: &OpData, unary: UnaryOp) -> Result<()> {
        use UnaryOp::*;
        let elem = self.elem(op.input());
        let held = match op.results[..] {
            // A 64-bit integer is held as its result is.
            [result] if self.elem(result) == elem => self.scalar(op, result)?,
            _ => self.scalar(op, op.input())?,
        };
        let x = self.get_as(op.input(), held)?;
        if self.is_pair(held) {
            let result = self.pair_unary(unary, held, x);
            let what = || format!("`{}` of {elem}", unary.name());
            let result = result.ok_or_else(|| self.unsupported(op, what(), EXPANDED))?;
            self.set(op, result);
            return Ok(());
        }
        let (x, scalar) = self.computed(x, elem, held);
        let is_float = elem.is_float();
        let math = |w: &mut Self, fun| w.body.math(fun, &[x]);
        let result = match unary {
            Neg if elem.is_int() && !elem.is_signed() => {
                let zero = self.body.literal(zero(scalar));
                self.body.binary(B::Subtract, zero, x)
            }
            Neg => self.opposite(x, scalar),
            Abs if elem.is_int() && !elem.is_signed() => x,
            Abs if scalar == Scalar::I32 && self.features.loses_signs => {
                let opposite = self.opposite(x, scalar);
                self.body.math(M::Max, &[x, opposite])
            }
            Abs => math(self, M::Abs),
            Not if elem == Elem::Bool => self.body.not(x),
            Not => self.body.unary(U::BitwiseNot, x),
            Popcount => self.bits(BitFn::Ones, x, scalar),
            Clz => self.bits(BitFn::LeadingZeros, x, scalar),
            BitReverse => self.bits(BitFn::Reverse, x, scalar),
            Exp2 if elem == Elem::F32 => self.power_of_two(x),
            Rsqrt if elem == Elem::F32 => math(self, M::InverseSqrt),
            Sqrt if scalar == Scalar::F32 => self.root(x),
            Sqrt if scalar == Scalar::F16 && !self.features.exact_roots => self.in_single(x, Self::root),
            Sqrt if is_float => math(self, M::Sqrt),
            Recip if is_float => {
                let one = self.body.literal(integer(scalar, 1));
                self.divide(scalar, one, x)
            }
            Floor if is_float => math(self, M::Floor),
            Ceil if is_float => math(self, M::Ceil),
            Round if is_float => math(self, M::Round),
            Trunc if is_float => math(self, M::Trunc),
            IsNan if is_float => self.is_nan(x, scalar),
            Exp2 | Rsqrt | Sqrt | Recip | Floor | Ceil | Round | Trunc | IsNan | Math(_) => {
                return Err(self.unsupported(op, format!("`{}` of {elem}", unary.name()), EXPANDED));
            }
        };
        let result = if unary == IsNan { result } else { self.rounded(result, elem) };
        self.set(op, result);
        Ok(())
    }

    pub(crate) fn binary(&mut self, op: &OpData, binary: BinaryOp) -> Result<()> {
        let elem = self.elem(op.left());
        let scalar = match op.results[..] {
            [result] => self.scalar(op, result)?,
            _ => self.scalar(op, op.left())?,
        };
        let (a, b) = (self.get_as(op.left(), scalar)?, self.get_as(op.right(), scalar)?);
        let result = self.combine(binary, elem, scalar, a, b);
        let result =
            result.ok_or_else(|| self.unsupported(op, format!("`{}` of {elem}", binary.name()), EXPANDED))?;
        self.set(op, result);
        Ok(())
    }

    /// A binary operation on values of an element type, held in a type; `None` if an adapter has no
    /// such operation.
    pub(crate) fn combine(
        &mut self,
        op: BinaryOp,
        elem: Elem,
        scalar: Scalar,
        a: Expr,
        b: Expr,
    ) -> Option<Expr> {
        let (a, _) = self.computed(a, elem, scalar);
        let (b, scalar) = self.computed(b, elem, scalar);
        let result = self.arithmetic(op, elem, scalar, a, b)?;
        Some(self.rounded(result, elem))
    }

    /// A value in the type in which it is computed: f32 for codes.
    fn computed(&mut self, x: Expr, elem: Elem, scalar: Scalar) -> (Expr, Scalar) {
        match self.features.is_code(elem) {
            true => (self.widened(x, elem), Scalar::F32),
            false => (x, scalar),
        }
    }

    /// A result that was computed in f32 as a value of an element type of fewer bits. For sums,
    /// products, quotients and roots, rounding twice is rounding once: f32 has more than twice the
    /// digits.
    pub(crate) fn rounded(&mut self, x: Expr, elem: Elem) -> Expr {
        match elem {
            _ if self.features.is_code(elem) => self.narrowed_to(x, elem),
            Elem::BF16 => self.rounded_to_bf16(x),
            _ => x,
        }
    }

    fn arithmetic(&mut self, op: BinaryOp, elem: Elem, scalar: Scalar, a: Expr, b: Expr) -> Option<Expr> {
        use BinaryOp::*;
        if self.is_pair(scalar) {
            return self.pair_arithmetic(op, scalar, a, b);
        }
        let (is_bool, is_int, is_float) = (elem == Elem::Bool, elem.is_int(), elem.is_float());
        let operator = match op {
            // Of bools the smaller is "and", the larger "or".
            And | Min | Mul if is_bool => B::LogicalAnd,
            Or | Max | Add if is_bool => B::LogicalOr,
            Xor if is_bool => B::NotEqual,
            Add => B::Add,
            Sub => B::Subtract,
            Mul => B::Multiply,
            Div if is_float => return Some(self.divide(scalar, a, b)),
            Div => B::Divide,
            FastDiv if elem == Elem::F32 => return Some(self.quick_quotient(a, b)),
            FastDiv if is_float => B::Divide,
            Rem if is_int => B::Modulo,
            Min | Max => return Some(self.extremum(op == Min, scalar, a, b)),
            And if is_int => B::And,
            Or if is_int => B::InclusiveOr,
            Xor if is_int => B::ExclusiveOr,
            Shl if is_int => return Some(self.shift(B::ShiftLeft, scalar, a, b)),
            Shr if is_int => return Some(self.shift(B::ShiftRight, scalar, a, b)),
            FastDiv | Rem | And | Or | Xor | Shl | Shr | Pow | Atan2 => return None,
        };
        let b = if is_int && matches!(op, Div | Rem) { self.divisor(b, scalar) } else { b };
        Some(self.exactly(operator, scalar, a, b))
    }

    /// A quotient of f32 within two units in the last place, for divisors whose reciprocals are no
    /// subnormal numbers. One divisor for many numbers has one reciprocal. That of a subnormal one
    /// is infinite, so small divisors are scaled, and what they divide.
    fn quick_quotient(&mut self, a: Expr, b: Expr) -> Expr {
        let [one, small, up] =
            [1.0, 2f32.powi(-100), 2f32.powi(64)].map(|x| self.body.literal(naga::Literal::F32(x)));
        let size = self.body.math(naga::MathFunction::Abs, &[b]);
        let is_small = self.body.binary(B::Less, size, small);
        let scale = self.body.select(is_small, up, one);
        let b = self.exactly(B::Multiply, Scalar::F32, b, scale);
        let a = self.exactly(B::Multiply, Scalar::F32, a, scale);
        let reciprocal = self.body.binary(B::Divide, one, b);
        self.exactly(B::Multiply, Scalar::F32, a, reciprocal)
    }

    /// A quotient of floats.
    fn divide(&mut self, scalar: Scalar, a: Expr, b: Expr) -> Expr {
        match scalar {
            Scalar::F32 => self.quotient(a, b),
            Scalar::F16 if !self.features.exact_quotients => {
                let a = self.body.convert(a, Scalar::F32);
                self.in_single(b, |w, b| w.quotient(a, b))
            }
            _ => self.exactly(B::Divide, scalar, a, b),
        }
    }

    /// A function of an f16 that is computed in f32, where there is room for a second rounding.
    fn in_single(&mut self, x: Expr, function: impl FnOnce(&mut Self, Expr) -> Expr) -> Expr {
        let wide = self.body.convert(x, Scalar::F32);
        let result = function(self, wide);
        self.half(result)
    }

    /// A divisor of integers. For the constant zero, which nothing divides by, since a check comes
    /// first, compilers of shaders expect another one.
    fn divisor(&mut self, x: Expr, scalar: Scalar) -> Expr {
        match self.body.function.expressions[x] {
            naga::Expression::Literal(literal) if literal == zero(scalar) => {
                self.body.literal(integer(scalar, 1))
            }
            _ => x,
        }
    }

    /// The amount counts modulo the width.
    fn shift(&mut self, operator: B, scalar: Scalar, x: Expr, by: Expr) -> Expr {
        let by = self.narrowed(by, scalar);
        let mask = self.body.u32(u32::from(scalar.width) * 8 - 1);
        let amount = self.body.binary(B::And, by, mask);
        self.body.binary(operator, x, amount)
    }

    /// The low 32 bits of an integer.
    pub(crate) fn narrowed(&mut self, x: Expr, scalar: Scalar) -> Expr {
        match (scalar.kind, scalar.width) {
            _ if self.is_pair(scalar) => self.words(x)[0],
            (_, 8) => {
                let bits = if scalar == Scalar::U64 { x } else { self.body.reinterpret(x, Scalar::U64) };
                self.body.convert(bits, Scalar::U32)
            }
            (ScalarKind::Uint, _) => x,
            _ => self.body.bitcast(x, ScalarKind::Uint),
        }
    }

    pub(crate) fn compare(&mut self, op: &OpData, compare: CompareOp) -> Result<()> {
        let elem = self.elem(op.left());
        let scalar = match self.is_narrow(op.left()) && self.is_narrow(op.right()) {
            true => self.scalar(op, op.left())?,
            false => self.require(Some(op), elem)?,
        };
        let (first, second) = (self.get_as(op.left(), scalar)?, self.get_as(op.right(), scalar)?);
        if self.is_pair(scalar) {
            let result = self.pair_compare(compare, scalar, first, second);
            self.set(op, result);
            return Ok(());
        }
        let [(mut a, _), (mut b, computed)] = [first, second].map(|x| self.computed(x, elem, scalar));
        if op.left() == op.right() && elem.is_float() {
            // Some drivers say that anything is equal to itself, NaN too.
            b = self.hidden_operand(b, computed);
        }
        let operator = match compare {
            // Some drivers say that NaN does not differ from itself.
            CompareOp::Eq | CompareOp::Ne => B::Equal,
            CompareOp::Lt => B::Less,
            CompareOp::Le => B::LessEqual,
            CompareOp::Gt => B::Greater,
            CompareOp::Ge => B::GreaterEqual,
        };
        if elem == Elem::Bool && operator != B::Equal {
            [a, b] = [a, b].map(|x| self.pack(x, elem));
        }
        if operator != B::Equal {
            [a, b] = self.compared([a, b], computed);
        }
        let mut result = self.body.binary(operator, a, b);
        if compare == CompareOp::Ne {
            result = self.body.not(result);
        }
        self.set(op, result);
        Ok(())
    }

    pub(crate) fn select(&mut self, op: &OpData) -> Result<()> {
        let [result] = op.results[..] else { return Ok(()) };
        let scalar = self.scalar(op, result)?;
        let condition = self.get(op.condition())?;
        let (a, b) = (self.get_as(op.if_true(), scalar)?, self.get_as(op.if_false(), scalar)?);
        let result = self.body.select(condition, a, b);
        self.set(op, result);
        Ok(())
    }

    pub(crate) fn fma(&mut self, op: &OpData) -> Result<()> {
        let elem = self.elem(op.left());
        let scalar = match op.results[..] {
            [result] => self.scalar(op, result)?,
            _ => self.scalar(op, op.left())?,
        };
        let [a, b, c] = [op.left(), op.right(), op.addend()].map(|value| self.get_as(value, scalar));
        let [a, b, c] = [a?, b?, c?];
        let result = match elem {
            Elem::F16 if self.features.is_code(elem) => {
                let [a, b, c] = [a, b, c].map(|x| self.widened(x, elem));
                let sum = self.multiply_add_to_odd(Scalar::F32, a, b, c);
                self.narrowed_to(sum, elem)
            }
            Elem::F16 | Elem::F32 | Elem::F64 => self.multiply_add(self.held(elem), a, b, c),
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 => {
                let product = self.on_integers(B::Multiply, scalar, a, b);
                self.on_integers(B::Add, scalar, product, c)
            }
            Elem::BF16 => self.multiply_add_of_bf16(a, b, c),
            Elem::Bool | Elem::E4M3 | Elem::E5M2 | Elem::I8 | Elem::U8 | Elem::I16 | Elem::U16 => {
                return Err(self.unsupported(op, format!("`fma` of {elem}"), "Convert to f32 first."));
            }
        };
        self.set(op, result);
        Ok(())
    }

    /// Whether a float is NaN, by its bits.
    pub(crate) fn is_nan(&mut self, x: Expr, scalar: Scalar) -> Expr {
        let (x, scalar) = match scalar {
            Scalar::F16 => (self.body.convert(x, Scalar::F32), Scalar::F32),
            _ => (x, scalar),
        };
        let bits = self.body.bitcast(x, ScalarKind::Uint);
        let (magnitude, infinity) = match unsigned(scalar) {
            Scalar::U64 => (naga::Literal::U64(u64::MAX >> 1), naga::Literal::U64(f64::INFINITY.to_bits())),
            _ => (naga::Literal::U32(u32::MAX >> 1), naga::Literal::U32(f32::INFINITY.to_bits())),
        };
        let (magnitude, infinity) = (self.body.literal(magnitude), self.body.literal(infinity));
        let bits = self.body.binary(B::And, bits, magnitude);
        self.body.binary(B::Greater, bits, infinity)
    }
}
