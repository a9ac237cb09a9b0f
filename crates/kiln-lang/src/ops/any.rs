//! Values whose element type is known when a kernel is recorded, and not before: for code that is
//! made of data, such as the epilogue of a product that a graph of arrays asks for.

use super::convert::cast;
use super::{binary, elementwise, unary};
use crate::elem::Elem;
use crate::trace::{Raw, error};
use crate::val::{Val, now};
use kiln_ir::{BinaryOp, CompareOp, Literal, OpKind, Scalar, UnaryOp};
use std::panic::Location;

/// A value of any element type. Operations are named as in the IR, and combine shapes as those of
/// [`Val`] do.
///
/// ```
/// # use kiln_lang::{AnyVal, iota, trace, Level};
/// use kiln_ir::{BinaryOp, Literal, Scalar};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let i = AnyVal::from(iota::<i32>(8));
/// let doubled = i.binary(BinaryOp::Mul, AnyVal::literal(Literal::from_bits(Scalar::I32, 2)));
/// let y = doubled.cast(Scalar::F32).typed::<f32>();
/// assert_eq!(y.shape(), [8]);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy)]
pub struct AnyVal {
    raw: Raw,
    elem: Scalar,
}

impl<T: Elem> From<Val<T>> for AnyVal {
    fn from(value: Val<T>) -> AnyVal {
        AnyVal { raw: value.raw(), elem: T::SCALAR }
    }
}

impl AnyVal {
    /// A number.
    pub fn literal(literal: Literal) -> AnyVal {
        AnyVal { raw: Raw::Const(literal), elem: literal.elem() }
    }

    /// The type of the elements.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// use kiln_ir::{BinaryOp, CompareOp, Literal, Scalar, UnaryOp};
    /// use kiln_lang::AnyVal;
    /// let two = AnyVal::literal(Literal::wrapping(Scalar::I32, 2));
    /// let i = AnyVal::from(iota::<i32>(4));
    /// let large = i.compare(CompareOp::Ge, two);
    /// let y = large.select(i, i.unary(UnaryOp::Neg)).binary(BinaryOp::Mul, two); // 0 -2 4 6
    /// assert_eq!((large.elem(), y.elem()), (Scalar::Bool, Scalar::I32));
    /// device_assert!(y.typed::<i32>().sum().eq(8));
    /// # });
    /// ```
    pub fn elem(self) -> Scalar {
        self.elem
    }

    /// A function of each element.
    #[track_caller]
    pub fn unary(self, op: UnaryOp) -> AnyVal {
        let elem = if op == UnaryOp::IsNan { Scalar::Bool } else { self.elem };
        AnyVal { raw: unary(op, self.raw, elem, Location::caller()), elem }
    }

    /// An operation on two elements of one type.
    #[track_caller]
    pub fn binary(self, op: BinaryOp, other: AnyVal) -> AnyVal {
        AnyVal { raw: binary(op, self.raw, other.raw, self.elem, Location::caller()), ..self }
    }

    /// A comparison of two elements of one type.
    #[track_caller]
    pub fn compare(self, op: CompareOp, other: AnyVal) -> AnyVal {
        let raw = elementwise(OpKind::Compare(op), &[self.raw, other.raw], Scalar::Bool, Location::caller());
        AnyVal { raw, elem: Scalar::Bool }
    }

    /// Where this one is true `yes`, elsewhere `no`.
    #[track_caller]
    pub fn select(self, yes: AnyVal, no: AnyVal) -> AnyVal {
        let raw = elementwise(OpKind::Select, &[self.raw, yes.raw, no.raw], yes.elem, Location::caller());
        AnyVal { raw, ..yes }
    }

    /// Converts each element, as [`Val::cast`] does.
    #[track_caller]
    pub fn cast(self, to: Scalar) -> AnyVal {
        AnyVal { raw: cast(self.raw, self.elem, to, Location::caller()), elem: to }
    }

    /// The value as one of a known type; another type is an error of the trace.
    #[track_caller]
    pub fn typed<T: Elem>(self) -> Val<T> {
        if self.elem == T::SCALAR {
            return Val::from_raw(now(self.raw, Location::caller()));
        }
        let what = format!("a value of {} is none of {}", self.elem, T::SCALAR);
        error(Location::caller(), what, "`cast` converts it");
        Val::poison()
    }
}
