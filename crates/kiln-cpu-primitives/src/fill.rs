//! Tiles made from one scalar: splat and iota.

use super::element::{Element, Int};
use super::isa::{Isa, IsaProfile};
use super::signature::{FillFn, FillLoop};
use kiln_ir::Scalar;
use std::marker::PhantomData;

/// Every element is the scalar.
struct Splat<T>(PhantomData<T>);

impl<T: Element> FillLoop for Splat<T> {
    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, bits: u64, n: usize) {
        // SAFETY: the caller passed `n` writable elements; every bit pattern is valid.
        let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<T>(), n) };
        out.fill(T::from_bits(bits));
    }
}

/// The scalar, and each next element 1 more.
struct Iota<T>(PhantomData<T>);

impl<T: Int> FillLoop for Iota<T> {
    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, bits: u64, n: usize) {
        // SAFETY: as above.
        let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<T>(), n) };
        let first = T::from_bits(bits);
        for (i, o) in out.iter_mut().enumerate() {
            *o = first.add(T::from_index(i));
        }
    }
}

/// The primitive that repeats a scalar.
pub(crate) fn splat(isa: Isa, scalar: Scalar) -> FillFn {
    match scalar.bytes() {
        1 => Splat::<u8>::at(isa),
        2 => Splat::<u16>::at(isa),
        4 => Splat::<u32>::at(isa),
        _ => Splat::<u64>::at(isa),
    }
}

/// The primitive that counts from a scalar, for integers.
pub(crate) fn iota(isa: Isa, scalar: Scalar) -> Option<FillFn> {
    match scalar {
        Scalar::I32 | Scalar::U32 => Some(Iota::<u32>::at(isa)),
        Scalar::I64 | Scalar::U64 => Some(Iota::<u64>::at(isa)),
        _ => None,
    }
}
