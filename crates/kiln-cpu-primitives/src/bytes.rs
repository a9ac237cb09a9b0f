//! Conversions from and to 8-bit floats, which saturate, and integers of 8 and 16 bits. The
//! compiler converts those of 16 bits by way of 32.

use super::convert::{To, ToBool, casts, copy};
use super::element::Element;
use super::elementwise::{Map, MapLoop};
use super::isa::{Isa, IsaProfile};
use super::signature::{UnaryFn, UnaryLoop};
use half::{bf16, f16};
use kiln_ir::{E4M3, E5M2, Scalar};

impl Element for i16 {
    #[inline(always)]
    fn from_bits(bits: u64) -> i16 {
        bits as i16
    }
}

impl Element for i8 {
    #[inline(always)]
    fn from_bits(bits: u64) -> i8 {
        bits as i8
    }
}

impl Element for E4M3 {
    #[inline(always)]
    fn from_bits(bits: u64) -> E4M3 {
        E4M3::from_bits(bits as u8)
    }
}

impl Element for E5M2 {
    #[inline(always)]
    fn from_bits(bits: u64) -> E5M2 {
        E5M2::from_bits(bits as u8)
    }
}

/// An element as a float that holds it, or from the f64 nearest to it.
trait ByFloat: Element {
    fn float(self) -> f64;
    fn of_float(x: f64) -> Self;
}

macro_rules! by_float {
    ($($t:ty: |$x:ident| $float:expr, |$y:ident| $of:expr;)*) => {$(
        impl ByFloat for $t {
            #[inline(always)]
            fn float(self) -> f64 {
                let $x = self;
                $float
            }
            #[inline(always)]
            fn of_float($y: f64) -> $t {
                $of
            }
        }
    )*};
}

by_float! {
    u8: |x| x.into(), |y| y as u8;
    i8: |x| x.into(), |y| y as i8;
    i32: |x| x.into(), |y| y as i32;
    u32: |x| x.into(), |y| y as u32;
    i64: |x| x as f64, |y| y as i64;
    u64: |x| x as f64, |y| y as u64;
    // A type of one byte is exact in f32, so that nothing is rounded twice.
    f16: |x| x.to_f64(), |y| f16::from_f32(y as f32);
    bf16: |x| x.to_f64(), |y| bf16::from_f32(y as f32);
    f32: |x| x.into(), |y| y as f32;
    f64: |x| x, |y| y;
    E4M3: |x| x.to_f64(), |y| E4M3::from_f64(y);
    E5M2: |x| x.to_f64(), |y| E5M2::from_f64(y);
}

/// Conversion by way of f64, which holds every element but large integers, and those are beyond
/// every 8-bit float.
struct Through<R>(std::marker::PhantomData<R>);

impl<T: ByFloat, R: ByFloat> Map<T> for Through<R> {
    type Out = R;
    #[inline(always)]
    fn apply<I: IsaProfile>(x: T) -> R {
        R::of_float(x.float())
    }
}

// Among integers; the signed and the unsigned type of a size have the same bits.
casts! {
    i8 => i32, i64;
    i16 => i32;
    u16 => i32;
    i32 => u8, u16;
    i64 => u8;
}

/// The primitive for a cast between different types, one of which is an 8-bit float or an integer
/// of 8 or 16 bits.
pub(super) fn lookup(isa: Isa, from: Scalar, to: Scalar) -> Option<UnaryFn> {
    use Scalar as S;
    Some(match (from, to) {
        (S::I16, S::I32 | S::U32) => MapLoop::<To<i32>, i16>::at(isa),
        (S::U16, S::I32 | S::U32) => MapLoop::<To<i32>, u16>::at(isa),
        (S::I32 | S::U32, S::I16 | S::U16) => MapLoop::<To<u16>, i32>::at(isa),
        (S::I16 | S::U16, S::I16 | S::U16) => copy(isa, 2),
        (S::I16 | S::U16, _) | (_, S::I16 | S::U16) => return None,
        (S::I8 | S::U8, S::Bool) => MapLoop::<ToBool, u8>::at(isa),
        (S::E4M3, S::Bool) => MapLoop::<ToBool, E4M3>::at(isa),
        (S::E5M2, S::Bool) => MapLoop::<ToBool, E5M2>::at(isa),
        (S::I8 | S::U8 | S::Bool, S::I8 | S::U8) => copy(isa, 1),
        (S::I32 | S::U32, S::I8 | S::U8) => MapLoop::<To<u8>, i32>::at(isa),
        (S::I64 | S::U64, S::I8 | S::U8) => MapLoop::<To<u8>, i64>::at(isa),
        (S::I8, S::I32 | S::U32) => MapLoop::<To<i32>, i8>::at(isa),
        (S::I8, S::I64 | S::U64) => MapLoop::<To<i64>, i8>::at(isa),
        (S::U8, S::I32 | S::U32) => MapLoop::<To<i32>, u8>::at(isa),
        (S::U8, S::I64 | S::U64) => MapLoop::<To<i64>, u8>::at(isa),
        (_, S::I32) => from_any::<i32>(isa, from),
        (_, S::U32) => from_any::<u32>(isa, from),
        (_, S::I64) => from_any::<i64>(isa, from),
        (_, S::U64) => from_any::<u64>(isa, from),
        (_, S::F16) => from_any::<f16>(isa, from),
        (_, S::BF16) => from_any::<bf16>(isa, from),
        (_, S::F32) => from_any::<f32>(isa, from),
        (_, S::F64) => from_any::<f64>(isa, from),
        (_, S::E4M3) => from_any::<E4M3>(isa, from),
        (_, S::E5M2) => from_any::<E5M2>(isa, from),
        (_, S::I8) => from_any::<i8>(isa, from),
        (_, S::U8 | S::Bool) => from_any::<u8>(isa, from),
    })
}

fn from_any<R: ByFloat>(isa: Isa, from: Scalar) -> UnaryFn {
    match from {
        Scalar::Bool | Scalar::U8 => MapLoop::<Through<R>, u8>::at(isa),
        Scalar::I8 => MapLoop::<Through<R>, i8>::at(isa),
        Scalar::I32 => MapLoop::<Through<R>, i32>::at(isa),
        Scalar::U32 => MapLoop::<Through<R>, u32>::at(isa),
        Scalar::I64 => MapLoop::<Through<R>, i64>::at(isa),
        Scalar::U64 => MapLoop::<Through<R>, u64>::at(isa),
        Scalar::F16 => MapLoop::<Through<R>, f16>::at(isa),
        Scalar::BF16 => MapLoop::<Through<R>, bf16>::at(isa),
        Scalar::F32 => MapLoop::<Through<R>, f32>::at(isa),
        Scalar::F64 => MapLoop::<Through<R>, f64>::at(isa),
        Scalar::E4M3 => MapLoop::<Through<R>, E4M3>::at(isa),
        // `lookup` refuses integers of 16 bits before.
        Scalar::E5M2 | Scalar::I16 | Scalar::U16 => MapLoop::<Through<R>, E5M2>::at(isa),
    }
}
