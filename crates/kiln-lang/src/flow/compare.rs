//! Comparison operators.

use crate::elem::{Elem, HostNumber, Num, Ordered};
use crate::val::{IntoVal, Val, WideLiteral};
use crate::view::ThreadIndex;
use std::marker::PhantomData;

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

/// Equality of host values. The bounds are of the methods, as those on device values are: where one
/// does not hold, the error names the two types and not this probe.
pub trait CompareEq<A: ?Sized, B: ?Sized> {
    fn eq(self) -> bool
    where
        A: PartialEq<B>;
    fn ne(self) -> bool
    where
        A: PartialEq<B>;
}

/// Order of host values.
pub trait CompareOrd<A: ?Sized, B: ?Sized> {
    fn lt(self) -> bool
    where
        A: PartialOrd<B>;
    fn le(self) -> bool
    where
        A: PartialOrd<B>;
    fn gt(self) -> bool
    where
        A: PartialOrd<B>;
    fn ge(self) -> bool
    where
        A: PartialOrd<B>;
}

macro_rules! device {
    ($bound:ident $elem:ident $right:ident: $($name:ident)*) => {
        impl<T: Elem, R> CompareProbe<'_, Val<T>, R> {$(
            #[track_caller]
            pub fn $name(self) -> Val<bool>
            where
                T: $bound,
                R: IntoVal<T>,
            {
                Val::$name(*self.0, *self.1)
            }
        )*}

        impl<R> CompareProbe<'_, ThreadIndex<1>, R> {$(
            #[track_caller]
            pub fn $name(self) -> Val<bool>
            where
                R: IntoVal<i64>,
            {
                Val::$name(self.0.get(), *self.1)
            }
        )*}

        impl<T: $elem, A: IntoVal<T> + HostScalar> $right for CompareProbe<'_, A, Val<T>> {$(
            #[track_caller]
            fn $name(self) -> Val<bool> {
                let left: Val<T> = (*self.0).into_val();
                Val::$name(left, *self.1)
            }
        )*}

        impl<A: IntoVal<i64> + HostScalar> $right for CompareProbe<'_, A, ThreadIndex<1>> {$(
            #[track_caller]
            fn $name(self) -> Val<bool> {
                let left: Val<i64> = (*self.0).into_val();
                Val::$name(left, self.1.get())
            }
        )*}
    };
}
device! { Copy Elem CompareRight: eq ne }
device! { Ordered Num CompareRightOrd: lt le gt ge }

/// A host number or bool, which compares with device values.
pub trait HostScalar: Copy {}

impl<N: HostNumber> HostScalar for N {}
impl HostScalar for bool {}

macro_rules! host {
    ($probe:ident $bound:ident: $($name:ident $op:tt)*) => {
        impl<A: ?Sized, B: ?Sized> $probe<A, B> for &CompareProbe<'_, A, B> {$(
            fn $name(self) -> bool
            where
                A: $bound<B>,
            {
                self.0 $op self.1
            }
        )*}
    };
}
host! { CompareEq PartialEq: eq == ne != }
host! { CompareOrd PartialOrd: lt < le <= gt > ge >= }

/// A literal on the left of an arithmetic operator, which takes the type of a device value on the
/// right.
pub struct LiteralLeft<L, R>(pub L, pub R);

macro_rules! literal_left {
    ($($name:ident $trait:ident $host:ident)*) => {$(
        impl<T: crate::Elem, L> LiteralLeft<L, Val<T>> {
            #[track_caller]
            pub fn $name(self) -> Val<T>
            where
                T: crate::Num,
                L: IntoVal<T>,
            {
                std::ops::$trait::$name(self.0.into_val(), self.1)
            }
        }

        /// The operator between host values.
        pub trait $host<L, R> {
            fn $name(self) -> L::Output
            where
                L: std::ops::$trait<R>;
        }

        impl<L, R> $host<L, R> for LiteralLeft<L, R> {
            fn $name(self) -> L::Output
            where
                L: std::ops::$trait<R>,
            {
                std::ops::$trait::$name(self.0, self.1)
            }
        }
    )*};
}
literal_left! { add Add LiteralAdd sub Sub LiteralSub mul Mul LiteralMul div Div LiteralDiv rem Rem LiteralRem }

/// What a function of a number type, such as `f32::sqrt`, is called with in a kernel: the number,
/// or a device value, which has a method of the same name.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// #[device(crate = kiln_lang)]
/// fn roots(x: Val<f32>, y: f32) -> (Val<f32>, f32) {
///     (f32::sqrt(x), f32::sqrt(y)) // of the device, and of the host
/// }
///
/// let (device, host) = roots(val(9.0), 4.0);
/// assert_eq!(host, 2.0);
/// device_assert!(device.eq(3.0));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "this is a function of `{N}`, which does not take `{Self}`",
    note = "write it as a method, such as `x.sqrt()`, and convert with `.cast::<{N}>()` first"
)]
pub trait OfNumber<N> {}

impl<N: HostNumber> OfNumber<N> for N {}
impl<N: Elem> OfNumber<N> for Val<N> {}

/// The first operand of a function of a number type, as `x` of `f32::sqrt(x)`.
pub fn of_number<N, V: OfNumber<N>>(value: V) -> V {
    value
}

/// What stands beside a number literal that is larger than the largest `i32`.
pub struct WideProbe<T: ?Sized>(PhantomData<*const T>);

impl<T: ?Sized> WideProbe<T> {
    /// The type.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        WideProbe(PhantomData)
    }

    /// The type of a value.
    pub fn like(_: &T) -> Self {
        WideProbe(PhantomData)
    }
}

impl<T> WideProbe<Val<T>> {
    /// The literal, for a device value: any type takes it that it fits.
    pub fn literal(self, number: i128) -> WideLiteral {
        WideLiteral(number)
    }
}

impl WideProbe<ThreadIndex<1>> {
    /// The literal, for an index.
    pub fn literal(self, number: i128) -> WideLiteral {
        WideLiteral(number)
    }
}

/// The same beside a host value: the literal has the type that Rust infers.
pub trait WideHost {
    fn literal<N>(self, number: N) -> N;
}

impl<T: ?Sized> WideHost for WideProbe<T> {
    fn literal<N>(self, number: N) -> N {
        number
    }
}
