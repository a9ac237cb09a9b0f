//! Atomic read-modify-write of memory that other threads share, element by element through an index
//! array. Relaxed order.
//!
//! Each operation is the processor's own instruction where it has one, else a loop of compare and
//! exchange on the element's bits.

use super::element::{Element, Number, Ordered};
use super::float16::Half;
use super::gather::for_each_index;
use super::signature::{AtomicCasFn, AtomicFn};
use half::{bf16, f16};
use kiln_ir::{AtomicOp, Scalar};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// An atomic replacement of one element, as a type so that each is a loop of its own.
trait Replace<T: Element>: 'static {
    /// Replaces the element at `place` and returns the old one.
    ///
    /// # Safety
    /// `place` is valid, aligned, and accessed only atomically by other threads.
    unsafe fn replace(place: *mut T, value: T) -> T;
}

struct Add;
struct Min;
struct Max;
struct And;
struct Or;
struct Xor;
struct Exchange;

macro_rules! replace {
    ($($t:ty, $atomic:ty: $($op:ident = $method:ident),*;)*) => {$($(
        impl Replace<$t> for $op {
            #[inline(always)]
            unsafe fn replace(place: *mut $t, value: $t) -> $t {
                // SAFETY: the caller's.
                unsafe { <$atomic>::from_ptr(place) }.$method(value, Relaxed)
            }
        }
    )*)*};
}

replace! {
    i32, AtomicI32: Min = fetch_min, Max = fetch_max;
    i64, AtomicI64: Min = fetch_min, Max = fetch_max;
    u8, AtomicU8: And = fetch_and, Or = fetch_or, Xor = fetch_xor, Exchange = swap;
    u16, AtomicU16: Exchange = swap;
    u32, AtomicU32: Add = fetch_add, Min = fetch_min, Max = fetch_max, And = fetch_and, Or = fetch_or, Xor = fetch_xor, Exchange = swap;
    u64, AtomicU64: Add = fetch_add, Min = fetch_min, Max = fetch_max, And = fetch_and, Or = fetch_or, Xor = fetch_xor, Exchange = swap;
}

/// What an operation that no instruction does makes of the old value and the operand.
trait Update<T> {
    fn update(old: T, value: T) -> T;
}

macro_rules! update {
    ($($op:ident, |$old:ident, $value:ident| $wide:expr;)*) => {$(
        impl Update<f32> for $op {
            #[inline(always)]
            fn update($old: f32, $value: f32) -> f32 {
                $wide
            }
        }
        impl Update<f64> for $op {
            #[inline(always)]
            fn update($old: f64, $value: f64) -> f64 {
                $wide
            }
        }
        impl Update<f16> for $op {
            #[inline(always)]
            fn update(old: f16, value: f16) -> f16 {
                f16::narrow(<$op as Update<f32>>::update(old.widen(), value.widen()))
            }
        }
        impl Update<bf16> for $op {
            #[inline(always)]
            fn update(old: bf16, value: bf16) -> bf16 {
                bf16::narrow(<$op as Update<f32>>::update(old.widen(), value.widen()))
            }
        }
    )*};
}

update! {
    Add, |old, value| old.add(value);
    Min, |old, value| old.lesser(value);
    Max, |old, value| old.greater(value);
}

macro_rules! replace_float {
    ($($t:ty, $atomic:ty, $bits:ty: $($op:ident),*;)*) => {$($(
        impl Replace<$t> for $op {
            #[inline(always)]
            unsafe fn replace(place: *mut $t, value: $t) -> $t {
                // SAFETY: the caller's; the integer of the same size has the same alignment or
                // less.
                let place = unsafe { <$atomic>::from_ptr(place.cast::<$bits>()) };
                let mut old = place.load(Relaxed);
                loop {
                    let new = <$op as Update<$t>>::update(<$t>::from_bits(old), value).to_bits();
                    match place.compare_exchange_weak(old, new, Relaxed, Relaxed) {
                        Ok(old) => return <$t>::from_bits(old),
                        Err(now) => old = now,
                    }
                }
            }
        }
    )*)*};
}

replace_float! {
    f16, AtomicU16, u16: Add, Min, Max;
    bf16, AtomicU16, u16: Add, Min, Max;
    f32, AtomicU32, u32: Add, Min, Max;
    f64, AtomicU64, u64: Add, Min, Max;
}

/// Add the two elements that a word is made of, one by one.
struct AddF16x2;
struct AddBf16x2;

macro_rules! add_pair {
    ($($op:ident: $t:ty;)*) => {$(
        impl Replace<u32> for $op {
            #[inline(always)]
            unsafe fn replace(place: *mut u32, value: u32) -> u32 {
                // SAFETY: the caller's.
                let place = unsafe { AtomicU32::from_ptr(place) };
                let sum = |old: u32, shift: u32| {
                    let part = |word: u32| <$t>::from_bits((word >> shift) as u16);
                    u32::from(<Add as Update<$t>>::update(part(old), part(value)).to_bits()) << shift
                };
                let mut old = place.load(Relaxed);
                loop {
                    match place.compare_exchange_weak(old, sum(old, 0) | sum(old, 16), Relaxed, Relaxed) {
                        Ok(old) => return old,
                        Err(now) => old = now,
                    }
                }
            }
        }
    )*};
}

add_pair!(AddF16x2: f16; AddBf16x2: bf16;);

/// # Safety
/// As for [`AtomicFn`].
unsafe extern "C" fn atomic<T: Element, K: Replace<T>>(
    old: *mut u8,
    memory: *mut u8,
    index: *const i64,
    mask: *const u8,
    value: *const u8,
    n: usize,
) {
    let (old, memory, value) = (old.cast::<T>(), memory.cast::<T>(), value.cast::<T>());
    // SAFETY: `i < n`, and memory is valid at the index of an element whose mask is not 0.
    unsafe {
        let access = |i: usize, at: isize| {
            let before = K::replace(memory.offset(at), value.add(i).read());
            if !old.is_null() {
                old.add(i).write(before);
            }
        };
        for_each_index(index, mask, n, access, |i| {
            if !old.is_null() {
                old.add(i).write(T::default());
            }
        });
    }
}

/// The primitive for an atomic operation, if the operation is defined on the type.
pub(crate) fn lookup(op: AtomicOp, scalar: Scalar) -> Option<AtomicFn> {
    if let Some(half) = op.pair_of() {
        let add: AtomicFn = match half {
            Scalar::F16 => atomic::<u32, AddF16x2>,
            _ => atomic::<u32, AddBf16x2>,
        };
        return (scalar == Scalar::U32).then_some(add);
    }
    if op == AtomicOp::Exchange {
        return Some(match scalar.bytes() {
            1 => atomic::<u8, Exchange>,
            2 => atomic::<u16, Exchange>,
            4 => atomic::<u32, Exchange>,
            _ => atomic::<u64, Exchange>,
        });
    }
    match scalar {
        Scalar::Bool => bits::<u8>(op),
        Scalar::I32 => ordered::<i32>(op).or_else(|| lookup(op, Scalar::U32)),
        Scalar::I64 => ordered::<i64>(op).or_else(|| lookup(op, Scalar::U64)),
        Scalar::U32 => bits::<u32>(op).or_else(|| number::<u32>(op)),
        Scalar::U64 => bits::<u64>(op).or_else(|| number::<u64>(op)),
        Scalar::F16 => number::<f16>(op),
        Scalar::BF16 => number::<bf16>(op),
        Scalar::F32 => number::<f32>(op),
        Scalar::F64 => number::<f64>(op),
        Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => None,
    }
}

fn bits<T: Element>(op: AtomicOp) -> Option<AtomicFn>
where
    And: Replace<T>,
    Or: Replace<T>,
    Xor: Replace<T>,
{
    Some(match op {
        AtomicOp::And => atomic::<T, And>,
        AtomicOp::Or => atomic::<T, Or>,
        AtomicOp::Xor => atomic::<T, Xor>,
        AtomicOp::Add | AtomicOp::Min | AtomicOp::Max | AtomicOp::Exchange => return None,
        AtomicOp::AddF16x2 | AtomicOp::AddBf16x2 => return None,
    })
}

fn ordered<T: Element>(op: AtomicOp) -> Option<AtomicFn>
where
    Min: Replace<T>,
    Max: Replace<T>,
{
    Some(match op {
        AtomicOp::Min => atomic::<T, Min>,
        AtomicOp::Max => atomic::<T, Max>,
        AtomicOp::Add | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exchange => return None,
        AtomicOp::AddF16x2 | AtomicOp::AddBf16x2 => return None,
    })
}

fn number<T: Element>(op: AtomicOp) -> Option<AtomicFn>
where
    Add: Replace<T>,
    Min: Replace<T>,
    Max: Replace<T>,
{
    if op == AtomicOp::Add { Some(atomic::<T, Add>) } else { ordered::<T>(op) }
}

/// Elements compared and exchanged by their bits.
trait CompareExchange: Element {
    /// # Safety
    /// As for [`Replace::replace`].
    unsafe fn compare_exchange(place: *mut Self, expected: Self, desired: Self) -> Self;
}

macro_rules! compare_exchange {
    ($($t:ty, $atomic:ty;)*) => {$(
        impl CompareExchange for $t {
            #[inline(always)]
            unsafe fn compare_exchange(place: *mut $t, expected: $t, desired: $t) -> $t {
                // SAFETY: the caller's.
                let place = unsafe { <$atomic>::from_ptr(place) };
                match place.compare_exchange(expected, desired, Relaxed, Relaxed) {
                    Ok(old) | Err(old) => old,
                }
            }
        }
    )*};
}
compare_exchange!(u8, AtomicU8; u16, AtomicU16; u32, AtomicU32; u64, AtomicU64;);

/// # Safety
/// As for [`AtomicCasFn`].
unsafe extern "C" fn atomic_cas<T: CompareExchange>(
    old: *mut u8,
    memory: *mut u8,
    index: *const i64,
    mask: *const u8,
    expected: *const u8,
    desired: *const u8,
    n: usize,
) {
    let (old, memory) = (old.cast::<T>(), memory.cast::<T>());
    let (expected, desired) = (expected.cast::<T>(), desired.cast::<T>());
    // SAFETY: `i < n`, and memory is valid at the index of an element whose mask is not 0.
    unsafe {
        let access = |i: usize, at: isize| {
            let before =
                T::compare_exchange(memory.offset(at), expected.add(i).read(), desired.add(i).read());
            if !old.is_null() {
                old.add(i).write(before);
            }
        };
        for_each_index(index, mask, n, access, |i| {
            if !old.is_null() {
                old.add(i).write(T::default());
            }
        });
    }
}

/// The primitive for atomic compare and exchange.
pub(crate) fn compare_exchange(scalar: Scalar) -> AtomicCasFn {
    match scalar.bytes() {
        1 => atomic_cas::<u8>,
        2 => atomic_cas::<u16>,
        4 => atomic_cas::<u32>,
        _ => atomic_cas::<u64>,
    }
}
