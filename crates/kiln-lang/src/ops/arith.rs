//! Operators on values, and on a host number and a value.

use crate::elem::{Bits, Elem, Int, Num};
use crate::flow::Places;
use crate::trace::Site;
use crate::val::{IntoVal, Val};
use kiln_ir::{BinaryOp, UnaryOp};
use std::ops::*;
use std::panic::Location;

macro_rules! binary {
    ($bound:ident: $($trait:ident $method:ident $assign:ident $assign_method:ident;)*) => {$(
        impl<T: $bound, R: IntoVal<T>> $trait<R> for Val<T> {
            type Output = Val<T>;
            #[track_caller]
            fn $method(self, other: R) -> Val<T> {
                let other = other.into_val();
                Val::from_raw(super::binary(BinaryOp::$trait, self.raw(), other.raw(), T::SCALAR, Location::caller()))
            }
        }

        impl<T: $bound, R: IntoVal<T>> $assign<R> for Val<T> {
            #[track_caller]
            fn $assign_method(&mut self, other: R) {
                let value = (*self).$method(other);
                self.assign(value, Location::caller());
            }
        }
    )*};
}

binary! { Num: Add add AddAssign add_assign; Sub sub SubAssign sub_assign; Mul mul MulAssign mul_assign; Div div DivAssign div_assign; Rem rem RemAssign rem_assign; }
binary! { Int: Shl shl ShlAssign shl_assign; Shr shr ShrAssign shr_assign; }

macro_rules! bitwise {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident $op:ident;)*) => {$(
        impl<T: Bits, R: IntoVal<T>> $trait<R> for Val<T> {
            type Output = Val<T>;
            #[track_caller]
            fn $method(self, other: R) -> Val<T> {
                let other = other.into_val();
                Val::from_raw(super::binary(BinaryOp::$op, self.raw(), other.raw(), T::SCALAR, Location::caller()))
            }
        }

        impl<T: Bits, R: IntoVal<T>> $assign<R> for Val<T> {
            #[track_caller]
            fn $assign_method(&mut self, other: R) {
                let value = (*self).$method(other);
                self.assign(value, Location::caller());
            }
        }
    )*};
}

bitwise! { BitAnd bitand BitAndAssign bitand_assign And; BitOr bitor BitOrAssign bitor_assign Or; BitXor bitxor BitXorAssign bitxor_assign Xor; }

/// A host number on the left. Inside `#[kernel]` and `#[device]` a literal needs no suffix;
/// elsewhere `2.0 * x` may need one before a method is called on the result.
macro_rules! host_left {
    ($bound:ident, $($trait:ident $method:ident)*: $types:tt) => {$( host_left! { @each $bound $trait $method $types } )*};
    (@each $bound:ident $trait:ident $method:ident [$($t:ty)*]) => {$(
        impl<T: $bound> $trait<Val<T>> for $t {
            type Output = Val<T>;
            #[track_caller]
            fn $method(self, other: Val<T>) -> Val<T> {
                let this: Val<T> = self.into_val();
                this.$method(other)
            }
        }
    )*};
}

host_left! { Num, Add add Sub sub Mul mul Div div Rem rem: [f32 f64 half::f16 half::bf16] }
host_left! { Num, Add add Sub sub Mul mul Div div Rem rem: [i8 u8 i16 u16 i32 u32 i64 u64 isize usize] }

macro_rules! host_left_bits {
    ($($trait:ident $method:ident)*) => {$(
        impl $trait<Val<bool>> for bool {
            type Output = Val<bool>;
            #[track_caller]
            fn $method(self, other: Val<bool>) -> Val<bool> {
                let this: Val<bool> = self.into_val();
                this.$method(other)
            }
        }
    )*};
}
host_left_bits! { BitAnd bitand BitOr bitor BitXor bitxor }

impl<T: Num> Neg for Val<T> {
    type Output = Val<T>;
    #[track_caller]
    fn neg(self) -> Val<T> {
        Val::from_raw(super::unary(UnaryOp::Neg, self.raw(), T::SCALAR, Location::caller()))
    }
}

impl<T: Bits> Not for Val<T> {
    type Output = Val<T>;
    #[track_caller]
    fn not(self) -> Val<T> {
        Val::from_raw(super::unary(UnaryOp::Not, self.raw(), T::SCALAR, Location::caller()))
    }
}

impl<T: Elem> Val<T> {
    /// Puts another value in the place of this one: writes the variable, if the handle is one.
    pub(crate) fn assign(&mut self, value: Val<T>, site: Site) {
        self.overwrite(&value, site);
    }
}
