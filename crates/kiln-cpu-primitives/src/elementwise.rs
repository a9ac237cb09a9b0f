//! The loops of element-wise primitives, generic over what they do to an element.

use super::element::Element;
use super::isa::{IsaProfile, Portable, one_element};
use super::signature::{BinaryLoop, Operand, TernaryLoop, UnaryLoop};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements that go through a buffer on the stack at a time.
pub(crate) const STAGE: usize = 256;

/// A function of one element.
pub(crate) trait Map<A>: 'static {
    type Out: Element;
    fn apply<I: IsaProfile>(a: A) -> Self::Out;

    /// Whether `apply` does not hold for this element, so that `exceptional` must replace its
    /// result.
    #[inline(always)]
    fn is_exceptional(_: A) -> bool {
        false
    }

    /// The result where `is_exceptional`.
    fn exceptional(a: A) -> Self::Out {
        Self::apply::<super::isa::Portable>(a)
    }
}

/// A function of two elements.
pub(crate) trait Zip<A>: 'static {
    type Out: Element;
    fn apply<I: IsaProfile>(a: A, b: A) -> Self::Out;

    /// Whether an element takes so much code and time that the ways to reach it share one loop.
    const LONG: bool = false;

    /// Whether the pair of operands is one to report.
    #[inline(always)]
    fn faults(_a: A, _b: A) -> bool {
        false
    }
}

/// A function of two elements and one of type `C`.
pub(crate) trait Zip3<A, C>: 'static {
    fn apply(a: A, b: A, c: C) -> A;
}

/// Which operands are scalars, as types so that each form is a loop of its own.
pub(crate) trait OperandForm: Sized + 'static {
    const A_IS_SCALAR: bool;
    const B_IS_SCALAR: bool;
    /// The loop of this form for an operation that commutes: the two forms with a scalar share one.
    type Commuting<K: Zip<A>, A: Element>: BinaryLoop;
}

macro_rules! operand_form {
    ($($name:ident: $a:expr, $b:expr, $commuting:ty;)*) => {$(
        pub(crate) struct $name;
        impl OperandForm for $name {
            const A_IS_SCALAR: bool = $a;
            const B_IS_SCALAR: bool = $b;
            type Commuting<K: Zip<A>, A: Element> = $commuting;
        }
    )*};
}
operand_form! {
    Arrays: false, false, ZipLoop<K, A, Arrays>;
    ScalarLeft: true, false, Swapped<ZipLoop<K, A, ScalarRight>>;
    ScalarRight: false, true, ZipLoop<K, A, ScalarRight>;
}

/// Calls `body(output, start)` for parts of `0..n` that together cover it. An output that is also
/// an input is written through a buffer, so that `body` may take input and output for disjoint:
/// LLVM then vectorizes without a scalar version for the other case.
///
/// # Safety
/// `out` is valid for writes of `n` elements.
#[inline(always)]
unsafe fn staged<T: Element>(
    out: *mut T,
    n: usize,
    in_place: bool,
    mut body: impl FnMut(&mut [MaybeUninit<T>], usize),
) {
    let mut buffer = [const { MaybeUninit::<T>::uninit() }; STAGE];
    let step = if in_place { STAGE } else { n };
    let mut start = 0;
    while start < n {
        let len = step.min(n - start);
        // SAFETY: `start + len <= n`; the buffer holds `STAGE >= len` elements where it is used.
        unsafe {
            let target = out.add(start).cast::<MaybeUninit<T>>();
            let part = if in_place { buffer.as_mut_ptr() } else { target };
            body(std::slice::from_raw_parts_mut(part, len), start);
            if in_place {
                part.copy_to_nonoverlapping(target, len);
            }
        }
        start += len;
    }
}

/// The part of an array operand that begins at `start`.
///
/// # Safety
/// The array is valid for reads of `start + len` elements.
#[inline(always)]
unsafe fn part<'a, T>(array: *const u8, start: usize, len: usize) -> &'a [T] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(array.cast::<T>().add(start), len) }
}

/// The loop of a [`Map`] over elements of type `A`.
pub(crate) struct MapLoop<K, A>(PhantomData<(K, A)>);

impl<A: Element, K: Map<A>> UnaryLoop for MapLoop<K, A> {
    const WIDE: bool = size_of::<A>() == 4 && size_of::<K::Out>() <= 4;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: *const u8, n: usize) {
        let in_place = out.cast_const() == a;
        let body = |out: &mut [MaybeUninit<K::Out>], start: usize| {
            // SAFETY: the caller passed `n` readable elements and `start + out.len() <= n`.
            let a = unsafe { part::<A>(a, start, out.len()) };
            map_slice::<I, K, A>(out, a);
        };
        // SAFETY: the caller passed `n` writable elements.
        unsafe { staged(out.cast(), n, in_place, body) }
    }
}

#[inline(always)]
fn map_slice<I: IsaProfile, K: Map<A>, A: Element>(out: &mut [MaybeUninit<K::Out>], a: &[A]) {
    let mut exceptional = false;
    for (o, &x) in out.iter_mut().zip(a) {
        one_element::<I>();
        exceptional |= K::is_exceptional(x);
        o.write(K::apply::<I>(x));
    }
    if exceptional {
        for (o, &x) in out.iter_mut().zip(a) {
            if K::is_exceptional(x) {
                o.write(K::exceptional(x));
            }
        }
    }
}

/// The loop of a [`Zip`] over elements of type `A`.
pub(crate) struct ZipLoop<K, A, F>(PhantomData<(K, A, F)>);

impl<A: Element, K: Zip<A>, F: OperandForm> BinaryLoop for ZipLoop<K, A, F> {
    const WIDE: bool = size_of::<A>() == 4;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: Operand, b: Operand, n: usize) -> u32 {
        let mut fault = false;
        // Elements of different sizes never lie in the same place.
        let same_place = |operand: Operand| {
            // SAFETY: asked of arrays only.
            size_of::<A>() == size_of::<K::Out>() && out.cast_const() == unsafe { operand.array }
        };
        // SAFETY: the form says which member each operand is; arrays have `n` elements and the
        // output, too.
        unsafe {
            if K::LONG && (F::A_IS_SCALAR || F::B_IS_SCALAR) {
                return by_arrays::<I, K, A, F>(out, a, b, n);
            }
            if F::A_IS_SCALAR {
                let (x, in_place) = (A::from_bits(a.bits), out.cast_const() == b.array);
                staged(out.cast(), n, in_place, |out, start| {
                    let b = part::<A>(b.array, start, out.len());
                    fault |= zip_slice::<I, K, A>(out, |i| (x, b[i]));
                });
            } else if F::B_IS_SCALAR {
                let (y, in_place) = (A::from_bits(b.bits), out.cast_const() == a.array);
                staged(out.cast(), n, in_place, |out, start| {
                    let a = part::<A>(a.array, start, out.len());
                    fault |= zip_slice::<I, K, A>(out, |i| (a[i], y));
                });
            } else if !K::LONG && same_place(a) && !same_place(b) {
                fault = combine::<I, K, A, false>(out.cast(), part(b.array, 0, n));
            } else if !K::LONG && same_place(b) && !same_place(a) {
                fault = combine::<I, K, A, true>(out.cast(), part(a.array, 0, n));
            } else {
                let in_place = same_place(a) || same_place(b);
                staged(out.cast(), n, in_place, |out, start| {
                    let a = part::<A>(a.array, start, out.len());
                    let b = part::<A>(b.array, start, out.len());
                    fault |= zip_slice::<I, K, A>(out, |i| (a[i], b[i]));
                });
            }
        }
        fault as u32
    }
}

/// The loop of a form with a scalar, by that of arrays.
///
/// # Safety
/// As for [`BinaryFn`](super::signature::BinaryFn).
#[inline(always)]
unsafe fn by_arrays<I: IsaProfile, K: Zip<A>, A: Element, F: OperandForm>(
    out: *mut u8,
    a: Operand,
    b: Operand,
    n: usize,
) -> u32 {
    let zip = ZipLoop::<K, A, Arrays>::at(I::ISA);
    let mut fault = 0;
    // SAFETY: the form says which member each operand is.
    let scalar = A::from_bits(unsafe { if F::A_IS_SCALAR { a.bits } else { b.bits } });
    let scalars = [scalar; STAGE];
    for start in (0..n).step_by(STAGE) {
        // SAFETY: the caller passed `n` elements of each array, and there are `STAGE` scalars.
        unsafe {
            let part = |operand: Operand, is_scalar: bool| {
                let array = if is_scalar { scalars.as_ptr() } else { operand.array.cast::<A>().add(start) };
                Operand { array: array.cast() }
            };
            let out = out.cast::<K::Out>().add(start).cast();
            fault |= zip(out, part(a, F::A_IS_SCALAR), part(b, F::B_IS_SCALAR), STAGE.min(n - start));
        }
    }
    fault
}

/// Combines the elements at `out`, which are one operand (the second if `SWAPPED`), with those of
/// the other, where they stand: what a loop carries is mostly made so.
///
/// # Safety
/// `out` is valid for as many elements as there are others, and does not overlap them; results are
/// of the elements' size.
#[inline(always)]
unsafe fn combine<I: IsaProfile, K: Zip<A>, A: Element, const SWAPPED: bool>(
    out: *mut A,
    other: &[A],
) -> bool {
    // SAFETY: the caller's.
    let out = unsafe { std::slice::from_raw_parts_mut(out, other.len()) };
    let mut fault = false;
    for (o, &y) in out.iter_mut().zip(other) {
        one_element::<I>();
        let (a, b) = if SWAPPED { (y, *o) } else { (*o, y) };
        fault |= K::faults(a, b);
        // SAFETY: the result takes the operand's place, which has its size.
        unsafe { (&raw mut *o).cast::<K::Out>().write(K::apply::<I>(a, b)) };
    }
    fault
}

#[inline(always)]
fn zip_slice<I: IsaProfile, K: Zip<A>, A: Element>(
    out: &mut [MaybeUninit<K::Out>],
    at: impl Fn(usize) -> (A, A),
) -> bool {
    let mut fault = false;
    for (i, o) in out.iter_mut().enumerate() {
        one_element::<I>();
        let (x, y) = at(i);
        fault |= K::faults(x, y);
        o.write(K::apply::<I>(x, y));
    }
    fault
}

/// The loop of a [`Zip`] that no vector instruction does, one element after the other: one for all
/// instruction sets.
pub(crate) struct SerialLoop<K, A, F>(PhantomData<(K, A, F)>);

impl<A: Element, K: Zip<A>, F: OperandForm> BinaryLoop for SerialLoop<K, A, F> {
    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: Operand, b: Operand, n: usize) -> u32 {
        // SAFETY: the form says which operand is a scalar; arrays have `n` elements and the output,
        // too.
        unsafe {
            let (x, y);
            let a = if F::A_IS_SCALAR {
                x = A::from_bits(a.bits);
                (&raw const x, 0)
            } else {
                (a.array.cast(), 1)
            };
            let b = if F::B_IS_SCALAR {
                y = A::from_bits(b.bits);
                (&raw const y, 0)
            } else {
                (b.array.cast(), 1)
            };
            serial::<K, A>(out.cast(), a, b, n) as u32
        }
    }
}

/// Combines `n` pairs of elements, each operand's so many elements apart; whether one faults. Each
/// input is read before its place is written.
///
/// # Safety
/// The operands are valid for reads of these elements, the output for writes of `n`.
#[inline(never)]
unsafe fn serial<K: Zip<A>, A: Element>(
    out: *mut K::Out,
    (a, a_step): (*const A, usize),
    (b, b_step): (*const A, usize),
    n: usize,
) -> bool {
    let mut fault = false;
    for i in 0..n {
        // SAFETY: the caller's.
        unsafe {
            let (x, y) = (a.add(i * a_step).read(), b.add(i * b_step).read());
            fault |= K::faults(x, y);
            out.add(i).write(K::apply::<Portable>(x, y));
        }
    }
    fault
}

/// A loop with its operands exchanged, by a call to it.
pub(crate) struct Swapped<L>(PhantomData<L>);

impl<L: BinaryLoop> BinaryLoop for Swapped<L> {
    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: Operand, b: Operand, n: usize) -> u32 {
        // SAFETY: the caller's.
        unsafe { L::at(I::ISA)(out, b, a, n) }
    }
}

/// The loop of a [`Zip3`] over elements of type `A` and an array of `C`.
pub(crate) struct Zip3Loop<K, A, C, F>(PhantomData<(K, A, C, F)>);

impl<A: Element, C: Element, K: Zip3<A, C>, F: OperandForm> TernaryLoop for Zip3Loop<K, A, C, F> {
    const WIDE: bool = size_of::<A>() == 4;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: Operand, b: Operand, c: *const u8, n: usize) {
        // SAFETY: the form says which member each operand is; arrays have `n` elements and the
        // output, too.
        unsafe {
            let mut in_place = out.cast_const() == c;
            if F::A_IS_SCALAR {
                in_place |= out.cast_const() == b.array;
                let x = A::from_bits(a.bits);
                staged(out.cast(), n, in_place, |out, start| {
                    let (b, c) = (part::<A>(b.array, start, out.len()), part::<C>(c, start, out.len()));
                    zip3_slice::<I, K, A, C>(out, |i| (x, b[i], c[i]));
                });
            } else if F::B_IS_SCALAR {
                in_place |= out.cast_const() == a.array;
                let y = A::from_bits(b.bits);
                staged(out.cast(), n, in_place, |out, start| {
                    let (a, c) = (part::<A>(a.array, start, out.len()), part::<C>(c, start, out.len()));
                    zip3_slice::<I, K, A, C>(out, |i| (a[i], y, c[i]));
                });
            } else {
                in_place |= out.cast_const() == a.array || out.cast_const() == b.array;
                staged(out.cast(), n, in_place, |out, start| {
                    let (a, b) = (part::<A>(a.array, start, out.len()), part::<A>(b.array, start, out.len()));
                    let c = part::<C>(c, start, out.len());
                    zip3_slice::<I, K, A, C>(out, |i| (a[i], b[i], c[i]));
                });
            }
        }
    }
}

#[inline(always)]
fn zip3_slice<I: IsaProfile, K: Zip3<A, C>, A: Element, C: Element>(
    out: &mut [MaybeUninit<A>],
    at: impl Fn(usize) -> (A, A, C),
) {
    for (i, o) in out.iter_mut().enumerate() {
        one_element::<I>();
        let (a, b, c) = at(i);
        o.write(K::apply(a, b, c));
    }
}
