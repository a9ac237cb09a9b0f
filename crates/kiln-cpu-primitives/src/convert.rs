//! The conversions of one element that casts of all types are made of.

use super::element::Element;
use super::elementwise::{Map, MapLoop};
use super::isa::{Isa, IsaProfile};
use super::signature::{UnaryFn, UnaryLoop};
use std::marker::PhantomData;

/// Conversion to `R`.
pub(super) struct To<R>(PhantomData<R>);

/// Conversions that are Rust's `as`.
macro_rules! casts {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl Map<$from> for To<$to> {
            type Out = $to;
            #[inline(always)]
            fn apply<I: IsaProfile>(x: $from) -> $to {
                x as $to
            }
        }
    )*)*};
}
pub(super) use casts;

casts! {
    u8 => i32, i64, f32, f64;
    i32 => i64, f32, f64;
    u32 => i64, f32, f64;
    i64 => i32, f32, f64;
    u64 => f32, f64;
    f32 => i64, u64, f64;
    f64 => i64, u64, f32;
}

/// Conversion to bool.
pub(super) struct ToBool;
impl<T: Element> Map<T> for ToBool {
    type Out = u8;
    #[inline(always)]
    fn apply<I: IsaProfile>(x: T) -> u8 {
        (x != T::default()) as u8
    }
}

/// The bits, unchanged.
struct Same;
impl<T: Element> Map<T> for Same {
    type Out = T;
    #[inline(always)]
    fn apply<I: IsaProfile>(x: T) -> T {
        x
    }
}

/// The primitive that copies elements of a size, in bytes, which a scalar type has.
pub(crate) fn copy(isa: Isa, bytes: u32) -> UnaryFn {
    match bytes {
        1 => MapLoop::<Same, u8>::at(isa),
        2 => MapLoop::<Same, u16>::at(isa),
        4 => MapLoop::<Same, u32>::at(isa),
        _ => MapLoop::<Same, u64>::at(isa),
    }
}
