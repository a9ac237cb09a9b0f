//! Conversions between all element types, as Rust's `as`; to bool it is `!= 0`.

use super::convert::{To, ToBool, copy};
use super::elementwise::{Map, MapLoop};
use super::float16::{Half, ToOddF32};
use super::isa::{Isa, IsaProfile};
use super::signature::{UnaryFn, UnaryLoop};
use super::through_f32::{NarrowLoop, Steps, WidenLoop};
use half::{bf16, f16};
use kiln_ir::Scalar;
use std::marker::PhantomData;

/// Saturating conversions that vectorize: what Rust's `as` does, as a clamp and an unchecked
/// conversion.
macro_rules! saturating_casts {
    ($($from:ty => $to:ty: $low:expr, $high:expr;)*) => {$(
        impl Map<$from> for To<$to> {
            type Out = $to;
            #[inline(always)]
            fn apply<I: IsaProfile>(x: $from) -> $to {
                // NaN becomes the lower limit here and 0 below.
                let inside = if x > $low { x } else { $low };
                let inside = if inside < $high { inside } else { $high };
                // SAFETY: between the limits, which are numbers of the integer type.
                let y: $to = unsafe { inside.to_int_unchecked() };
                let y = if x > $high { <$to>::MAX } else { y };
                if x.is_nan() { 0 } else { y }
            }
        }
    )*};
}

saturating_casts! {
    // The greatest f32 below 2^31 and 2^32; f64 holds the integers' limits themselves.
    f32 => i32: -2_147_483_648.0, 2_147_483_520.0;
    f32 => u32: 0.0, 4_294_967_040.0;
    f64 => i32: -2_147_483_648.0, 2_147_483_647.0;
    f64 => u32: 0.0, 4_294_967_295.0;
}

/// Conversion to f32 on the way to a shorter float.
struct ToOdd;
impl<T: ToOddF32> Map<T> for ToOdd {
    type Out = f32;
    #[inline(always)]
    fn apply<I: IsaProfile>(x: T) -> f32 {
        x.to_odd_f32()
    }
}

/// A cast to a 16-bit float through f32, rounding once.
struct CastToHalf<T, H>(PhantomData<(T, H)>);

impl<T: ToOddF32, H: Half> UnaryLoop for CastToHalf<T, H> {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: *const u8, n: usize) {
        let first = (MapLoop::<ToOdd, T>::at(I::ISA), size_of::<T>());
        let last = (NarrowLoop::<H>::at(I::ISA), size_of::<H>());
        // SAFETY: the caller's.
        unsafe { Steps { first, middle: None, last }.run(out, a, n) }
    }
}

/// A cast from a 16-bit float through f32, which is exact, by the conversion `K` of f32.
struct CastFromHalf<H, K>(PhantomData<(H, K)>);

impl<H: Half, K: Map<f32>> UnaryLoop for CastFromHalf<H, K> {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: *const u8, n: usize) {
        let first = (WidenLoop::<H>::at(I::ISA), size_of::<H>());
        let last = (MapLoop::<K, f32>::at(I::ISA), size_of::<K::Out>());
        // SAFETY: the caller's.
        unsafe { Steps { first, middle: None, last }.run(out, a, n) }
    }
}

/// A cast from one 16-bit float to the other.
struct RenarrowLoop<H, R>(PhantomData<(H, R)>);

impl<H: Half, R: Half> UnaryLoop for RenarrowLoop<H, R> {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: *const u8, n: usize) {
        let first = (WidenLoop::<H>::at(I::ISA), size_of::<H>());
        let last = (NarrowLoop::<R>::at(I::ISA), size_of::<R>());
        // SAFETY: the caller's.
        unsafe { Steps { first, middle: None, last }.run(out, a, n) }
    }
}

/// The primitive for a cast; `None` for those that the compiler does by way of others.
pub(crate) fn lookup(isa: Isa, from: Scalar, to: Scalar) -> Option<UnaryFn> {
    if from == to {
        return Some(copy(isa, from.bytes()));
    }
    let is_small = |elem: Scalar| elem.is_float8() || elem.is_small_int();
    if is_small(from) || is_small(to) {
        return super::bytes::lookup(isa, from, to);
    }
    // What follows has no types of one byte but bool, and no integers of 16 bits.
    Some(match to {
        Scalar::Bool => to_bool(isa, from),
        Scalar::I32 | Scalar::U32 => to_int32(isa, from, to),
        Scalar::I64 | Scalar::U64 => to_int64(isa, from, to),
        Scalar::F16 => to_half::<f16>(isa, from),
        Scalar::BF16 => to_half::<bf16>(isa, from),
        Scalar::F32 => to_f32(isa, from),
        _ => to_f64(isa, from),
    })
}

fn to_bool(isa: Isa, from: Scalar) -> UnaryFn {
    match from {
        Scalar::Bool => copy(isa, 1),
        Scalar::I32 | Scalar::U32 => MapLoop::<ToBool, u32>::at(isa),
        Scalar::I64 | Scalar::U64 => MapLoop::<ToBool, u64>::at(isa),
        Scalar::F16 => MapLoop::<ToBool, f16>::at(isa),
        Scalar::BF16 => MapLoop::<ToBool, bf16>::at(isa),
        Scalar::F32 => MapLoop::<ToBool, f32>::at(isa),
        _ => MapLoop::<ToBool, f64>::at(isa),
    }
}

fn to_int32(isa: Isa, from: Scalar, to: Scalar) -> UnaryFn {
    let unsigned = to == Scalar::U32;
    match from {
        Scalar::Bool => MapLoop::<To<i32>, u8>::at(isa),
        Scalar::I32 | Scalar::U32 => copy(isa, 4),
        Scalar::I64 | Scalar::U64 => MapLoop::<To<i32>, i64>::at(isa),
        Scalar::F16 if unsigned => CastFromHalf::<f16, To<u32>>::at(isa),
        Scalar::F16 => CastFromHalf::<f16, To<i32>>::at(isa),
        Scalar::BF16 if unsigned => CastFromHalf::<bf16, To<u32>>::at(isa),
        Scalar::BF16 => CastFromHalf::<bf16, To<i32>>::at(isa),
        Scalar::F32 if unsigned => MapLoop::<To<u32>, f32>::at(isa),
        Scalar::F32 => MapLoop::<To<i32>, f32>::at(isa),
        Scalar::F64 if unsigned => MapLoop::<To<u32>, f64>::at(isa),
        _ => MapLoop::<To<i32>, f64>::at(isa),
    }
}

fn to_int64(isa: Isa, from: Scalar, to: Scalar) -> UnaryFn {
    let unsigned = to == Scalar::U64;
    match from {
        Scalar::Bool => MapLoop::<To<i64>, u8>::at(isa),
        Scalar::I32 => MapLoop::<To<i64>, i32>::at(isa),
        Scalar::U32 => MapLoop::<To<i64>, u32>::at(isa),
        Scalar::I64 | Scalar::U64 => copy(isa, 8),
        Scalar::F16 if unsigned => CastFromHalf::<f16, To<u64>>::at(isa),
        Scalar::F16 => CastFromHalf::<f16, To<i64>>::at(isa),
        Scalar::BF16 if unsigned => CastFromHalf::<bf16, To<u64>>::at(isa),
        Scalar::BF16 => CastFromHalf::<bf16, To<i64>>::at(isa),
        Scalar::F32 if unsigned => MapLoop::<To<u64>, f32>::at(isa),
        Scalar::F32 => MapLoop::<To<i64>, f32>::at(isa),
        Scalar::F64 if unsigned => MapLoop::<To<u64>, f64>::at(isa),
        _ => MapLoop::<To<i64>, f64>::at(isa),
    }
}

fn to_half<H: Half>(isa: Isa, from: Scalar) -> UnaryFn {
    match from {
        Scalar::Bool => CastToHalf::<u8, H>::at(isa),
        Scalar::I32 => CastToHalf::<i32, H>::at(isa),
        Scalar::U32 => CastToHalf::<u32, H>::at(isa),
        Scalar::I64 => CastToHalf::<i64, H>::at(isa),
        Scalar::U64 => CastToHalf::<u64, H>::at(isa),
        Scalar::F16 => RenarrowLoop::<f16, H>::at(isa),
        Scalar::BF16 => RenarrowLoop::<bf16, H>::at(isa),
        Scalar::F32 => NarrowLoop::<H>::at(isa),
        _ => CastToHalf::<f64, H>::at(isa),
    }
}

fn to_f32(isa: Isa, from: Scalar) -> UnaryFn {
    match from {
        Scalar::Bool => MapLoop::<To<f32>, u8>::at(isa),
        Scalar::I32 => MapLoop::<To<f32>, i32>::at(isa),
        Scalar::U32 => MapLoop::<To<f32>, u32>::at(isa),
        Scalar::I64 => MapLoop::<To<f32>, i64>::at(isa),
        Scalar::U64 => MapLoop::<To<f32>, u64>::at(isa),
        Scalar::F16 => WidenLoop::<f16>::at(isa),
        Scalar::BF16 => WidenLoop::<bf16>::at(isa),
        Scalar::F32 => copy(isa, 4),
        _ => MapLoop::<To<f32>, f64>::at(isa),
    }
}

fn to_f64(isa: Isa, from: Scalar) -> UnaryFn {
    match from {
        Scalar::Bool => MapLoop::<To<f64>, u8>::at(isa),
        Scalar::I32 => MapLoop::<To<f64>, i32>::at(isa),
        Scalar::U32 => MapLoop::<To<f64>, u32>::at(isa),
        Scalar::I64 => MapLoop::<To<f64>, i64>::at(isa),
        Scalar::U64 => MapLoop::<To<f64>, u64>::at(isa),
        Scalar::F16 => CastFromHalf::<f16, To<f64>>::at(isa),
        Scalar::BF16 => CastFromHalf::<bf16, To<f64>>::at(isa),
        Scalar::F32 => MapLoop::<To<f64>, f32>::at(isa),
        _ => copy(isa, 8),
    }
}
