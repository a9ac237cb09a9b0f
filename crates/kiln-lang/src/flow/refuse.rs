//! Errors for what cannot be traced, with what to write instead.
//!
//! Each probe gives a device value itself and a host value in [`OnHost`]; only the latter has the
//! trait whose method the expansion calls next. So a device value is one error, in the words of
//! that trait, and what stands around it has no type to complain of.

use super::compare::HostScalar;
use crate::val::Val;
use crate::view::{ThreadIndex, View, ViewMut};
use std::marker::PhantomData;

/// A value, or a reference to one, about to be matched, cast, formatted or iterated over.
pub struct RefuseProbe<T>(pub T);

/// A value of the host.
pub struct OnHost<T>(T);

macro_rules! device {
    ($([$($generics:tt)*] $t:ty;)*) => {$(
        impl<$($generics)*> RefuseProbe<$t> {
            /// The device value.
            pub fn value(self) -> $t {
                self.0
            }

            /// What a message of the host shows of it.
            pub fn shown(self) -> &'static str {
                "(a value of the device)"
            }
        }

        impl<'a, $($generics)*> RefuseProbe<&'a $t> {
            /// The device value.
            pub fn value(self) -> &'a $t {
                self.0
            }

            /// What a message of the host shows of it.
            pub fn shown(self) -> &'static str {
                "(a value of the device)"
            }
        }
    )*};
}
device! { [T] Val<T>; [const R: usize] ThreadIndex<R>; [T, const R: usize] View<T, R>; [T, const R: usize] ViewMut<T, R>; }

/// The host's side of [`RefuseProbe`].
pub trait RefuseHost<T> {
    fn value(self) -> OnHost<T>;
    fn shown(self) -> T;
}

impl<T> RefuseHost<T> for RefuseProbe<T> {
    fn value(self) -> OnHost<T> {
        OnHost(self.0)
    }

    fn shown(self) -> T {
        self.0
    }
}

macro_rules! refusals {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        pub trait $name {
            /// What a host value gives.
            type Value;
            /// The value.
            #[doc(hidden)]
            fn on_host(self) -> Self::Value;
        }

        #[diagnostic::do_not_recommend]
        impl<T> $name for OnHost<T> {
            type Value = T;
            fn on_host(self) -> T {
                self.0
            }
        }
    )*};
}

refusals! {
    /// What can be matched against patterns: host values.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// /// Not `match x { 0 => 7, _ => x }`.
    /// fn or_seven(x: Val<i32>) -> Val<i32> {
    ///     select(x.eq(0), 7, x)
    /// }
    ///
    /// device_assert!(or_seven(val(0)).eq(7) & or_seven(val(3)).eq(3));
    /// # });
    /// ```
    #[diagnostic::on_unimplemented(
        message = "a device value cannot be matched: its value is not known while the kernel is traced",
        label = "this is a device value",
        note = "compare it with `if x == 0 {{ .. }} else if x == 1 {{ .. }}`, or choose with `select`; `get` gives the element itself and no `Option`, `get_or` takes a value for indices outside"
    )]
    Matchable;

    /// What `as` casts: host numbers.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// /// Not `x as f32 * 0.5`.
    /// fn halved(x: Val<i32>) -> Val<f32> {
    ///     x.cast::<f32>() * 0.5
    /// }
    ///
    /// device_assert!(halved(val(3)).eq(1.5));
    /// # });
    /// ```
    #[diagnostic::on_unimplemented(
        message = "`as` does not cast device values",
        label = "this is a device value",
        note = "write `x.cast::<f32>()`; an index of any integer type needs no cast"
    )]
    Castable;

    /// What the formatting macros of the standard library show: host values.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = iota::<i32>(4).sum();
    /// device_print!("x is {}", x); // not `println!("x is {x}")`
    /// device_assert!(x.eq(6));
    /// # });
    /// ```
    #[diagnostic::on_unimplemented(
        message = "a device value cannot be formatted: this macro runs on the host, while the kernel is traced",
        label = "this is a device value",
        note = "print from the device with `device_print!(\"x is {{}}\", x)`, check with `device_assert!(x > 0, \"x is {{}}\", x)`"
    )]
    Formattable;

    /// What the assertion macros of the standard library decide on: host values.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = iota::<i32>(4).sum();
    /// device_assert!(x.gt(0), "x is {}", x); // not `assert!(x > 0, "x is {x}")`
    /// assert!(x.shape().is_empty(), "known while the kernel is traced");
    /// # });
    /// ```
    #[diagnostic::on_unimplemented(
        message = "`assert!` shows no device values",
        label = "this is decided on the device",
        note = "write `device_assert!(x > 0, \"x is {{}}\", x)`"
    )]
    HostCondition;

    /// What a `for` runs over: ranges and iterators.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// /// Not `for i in n`.
    /// #[device(crate = kiln_lang)]
    /// fn sum_below(n: Val<i32>) -> Val<i32> {
    ///     let mut sum: Val<i32> = 0;
    ///     for i in 0..n {
    ///         sum += i;
    ///     }
    ///     sum
    /// }
    ///
    /// device_assert!(sum_below(val(4)).eq(6));
    /// # });
    /// ```
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be iterated over",
        label = "this is on the device",
        note = "count with a range: `for i in 0..n {{ .. }}`, or `for i in 0..x.extent(0) {{ let v = x.get(i); .. }}` for a tensor; a tile is reduced, as in `v.sum()`"
    )]
    LoopSource;

    /// What a number or `bool` of the host takes: host values.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// #[device(crate = kiln_lang)]
    /// fn doubled(x: Val<f32>) -> Val<f32> {
    ///     let mut sum: Val<f32> = 0.0; // not `let mut sum = 0.0`, a number of the host
    ///     sum += x * 2.0;
    ///     sum
    /// }
    ///
    /// device_assert!(doubled(val(1.5)).eq(3.0));
    /// # });
    /// ```
    #[diagnostic::on_unimplemented(
        message = "a host number or `bool` cannot take a device value",
        label = "this is a device value",
        note = "declare the variable as a device value: `let mut s: Val<f32> = 0.0;`, `let mut found: Val<bool> = false;`, or without a type where it does not change: `let v = x.get(i);`"
    )]
    HostOperand;
}

/// The type of a place, and a value about to be stored in it or combined with it.
pub struct OperandProbe<P: ?Sized, V>(PhantomData<*const P>, V);

impl<P: ?Sized, V> OperandProbe<P, V> {
    /// A value for a place of a type.
    pub fn new(value: V) -> Self {
        OperandProbe(PhantomData, value)
    }

    /// A value for a place.
    pub fn like(_: &P, value: V) -> Self {
        OperandProbe(PhantomData, value)
    }
}

impl<P: HostScalar, T> OperandProbe<P, Val<T>> {
    /// A device value, which no number and no `bool` of the host takes.
    pub fn operand(self) -> Val<T> {
        self.1
    }
}

/// Any other pair, of which the operator or the types decide.
pub trait OperandHost<V> {
    fn operand(self) -> OnHost<V>;
}

impl<P: ?Sized, V> OperandHost<V> for OperandProbe<P, V> {
    fn operand(self) -> OnHost<V> {
        OnHost(self.1)
    }
}
