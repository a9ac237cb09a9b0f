//! Comparison operators.

use crate::elem::{Elem, HostNumber, Num, Ordered};
use crate::val::{IntoVal, Val};

/// The two sides of a comparison operator. If one is a device value, so is the result.
pub struct CompareProbe<'a, A: ?Sized, B: ?Sized>(pub &'a A, pub &'a B);

/// A host number on the left, a device value on the right.
pub trait CompareRight {
    #[track_caller]
    fn eq(self) -> Val<bool>;
    #[track_caller]
    fn ne(self) -> Val<bool>;
}

/// The same, of numbers, which have an order.
pub trait CompareRightOrd {
    #[track_caller]
    fn lt(self) -> Val<bool>;
    #[track_caller]
    fn le(self) -> Val<bool>;
    #[track_caller]
    fn gt(self) -> Val<bool>;
    #[track_caller]
    fn ge(self) -> Val<bool>;
}

/// Equality of host values.
pub trait CompareEq {
    fn eq(self) -> bool;
    fn ne(self) -> bool;
}

/// Order of host values.
pub trait CompareOrd {
    fn lt(self) -> bool;
    fn le(self) -> bool;
    fn gt(self) -> bool;
    fn ge(self) -> bool;
}

macro_rules! device {
    ($bound:ident $elem:ident $right:ident: $($name:ident)*) => {
        impl<T: Elem, R: IntoVal<T>> CompareProbe<'_, Val<T>, R> {$(
            #[track_caller]
            pub fn $name(self) -> Val<bool>
            where
                T: $bound,
            {
                Val::$name(*self.0, *self.1)
            }
        )*}

        impl<T: $elem, A: IntoVal<T> + HostOperand> $right for CompareProbe<'_, A, Val<T>> {$(
            #[track_caller]
            fn $name(self) -> Val<bool> {
                let left: Val<T> = (*self.0).into_val();
                Val::$name(left, *self.1)
            }
        )*}
    };
}
device! { Copy Elem CompareRight: eq ne }
device! { Ordered Num CompareRightOrd: lt le gt ge }

/// A host number or bool, which compares with device values.
pub trait HostOperand: Copy {}

impl<N: HostNumber> HostOperand for N {}
impl HostOperand for bool {}

impl<A: PartialEq<B> + ?Sized, B: ?Sized> CompareEq for &CompareProbe<'_, A, B> {
    fn eq(self) -> bool {
        self.0 == self.1
    }

    fn ne(self) -> bool {
        self.0 != self.1
    }
}

impl<A: PartialOrd<B> + ?Sized, B: ?Sized> CompareOrd for &CompareProbe<'_, A, B> {
    fn lt(self) -> bool {
        self.0 < self.1
    }

    fn le(self) -> bool {
        self.0 <= self.1
    }

    fn gt(self) -> bool {
        self.0 > self.1
    }

    fn ge(self) -> bool {
        self.0 >= self.1
    }
}

/// A literal on the left of an arithmetic operator, which takes the type of a device value on the
/// right.
pub struct LiteralLeft<L, R>(pub L, pub R);

macro_rules! literal_left {
    ($($name:ident $trait:ident $host:ident)*) => {$(
        impl<T: crate::Num, L: IntoVal<T>> LiteralLeft<L, Val<T>> {
            #[track_caller]
            pub fn $name(self) -> Val<T> {
                std::ops::$trait::$name(self.0.into_val(), self.1)
            }
        }

        /// The operator between host values.
        pub trait $host<Out> {
            fn $name(self) -> Out;
        }

        impl<L: std::ops::$trait<R>, R> $host<L::Output> for LiteralLeft<L, R> {
            fn $name(self) -> L::Output {
                std::ops::$trait::$name(self.0, self.1)
            }
        }
    )*};
}
literal_left! { add Add LiteralAdd sub Sub LiteralSub mul Mul LiteralMul div Div LiteralDiv rem Rem LiteralRem }
