//! Reductions of the middle axis of an `outer` × `len` × `inner` tile.
//!
//! The order of combination depends on the shape alone, not on the instruction set, so that results
//! are the same on every machine.

use super::binary::unsigned;
use super::element::{Bits, Element, Number, Ordered};
use super::float16::Half;
use super::isa::{Isa, IsaProfile, one_element};
use super::signature::{AxisFn, AxisLoop};
use half::{bf16, f16};
use kiln_ir::{ReduceOp, Scalar};
use std::hint::black_box;
use std::marker::PhantomData;

/// An element type with the type in which its values are combined.
pub(crate) trait Accumulate: Element {
    /// f32 for the 16-bit floats, else the type itself.
    type Acc: Element;
    /// Elements that [`widened`](Self::widened) takes at a time.
    const STAGE: usize;
    fn widen_to_acc(self) -> Self::Acc;
    fn narrow_acc(acc: Self::Acc) -> Self;
    /// The elements as accumulators: themselves, or converted into the buffer, which has room.
    fn widened<'a, I: IsaProfile>(a: &'a [Self], buffer: &'a mut [Self::Acc]) -> &'a [Self::Acc];
}

macro_rules! accumulate_as_is {
    ($($t:ty),*) => {$(
        impl Accumulate for $t {
            type Acc = $t;
            const STAGE: usize = usize::MAX;
            #[inline(always)]
            fn widen_to_acc(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow_acc(acc: $t) -> $t {
                acc
            }
            #[inline(always)]
            fn widened<'a, I: IsaProfile>(a: &'a [$t], _: &'a mut [$t]) -> &'a [$t] {
                a
            }
        }
    )*};
}
accumulate_as_is!(u8, i32, u32, i64, u64, f32, f64);

macro_rules! accumulate_as_f32 {
    ($($t:ty),*) => {$(
        impl Accumulate for $t {
            type Acc = f32;
            const STAGE: usize = BUFFER;
            #[inline(always)]
            fn widen_to_acc(self) -> f32 {
                self.widen()
            }
            #[inline(always)]
            fn narrow_acc(acc: f32) -> $t {
                <$t>::narrow(acc)
            }
            #[inline(always)]
            fn widened<'a, I: IsaProfile>(a: &'a [$t], buffer: &'a mut [f32]) -> &'a [f32] {
                let buffer = &mut buffer[..a.len()];
                <$t as Half>::widen_slice::<I>(buffer, a);
                buffer
            }
        }
    )*};
}
accumulate_as_f32!(f16, bf16);

/// Elements in a buffer for [`Accumulate::widened`].
pub(crate) const BUFFER: usize = 256;

/// An associative operation.
pub(crate) trait Combine<A: Element>: 'static {
    /// `combine` with this leaves every value but NaN as it is.
    const IDENTITY: A;
    /// What a reduction starts with: the identity, or a NaN that even NaN can replace.
    const START: A = Self::IDENTITY;
    fn combine(a: A, b: A) -> A;
}

pub(crate) struct Sum;
impl<A: Number> Combine<A> for Sum {
    const IDENTITY: A = A::ZERO;
    #[inline(always)]
    fn combine(a: A, b: A) -> A {
        a.add(b)
    }
}

pub(crate) struct Prod;
impl<A: Number> Combine<A> for Prod {
    const IDENTITY: A = A::ONE;
    #[inline(always)]
    fn combine(a: A, b: A) -> A {
        a.mul(b)
    }
}

pub(crate) struct Least;
impl<A: Ordered> Combine<A> for Least {
    const IDENTITY: A = A::GREATEST;
    const START: A = match A::LOSER {
        Some(loser) => loser,
        None => A::GREATEST,
    };
    #[inline(always)]
    fn combine(a: A, b: A) -> A {
        a.lesser(b)
    }
}

pub(crate) struct Greatest;
impl<A: Ordered> Combine<A> for Greatest {
    const IDENTITY: A = A::LEAST;
    const START: A = match A::LOSER {
        Some(loser) => loser,
        None => A::LEAST,
    };
    #[inline(always)]
    fn combine(a: A, b: A) -> A {
        a.greater(b)
    }
}

pub(crate) struct All;
impl<A: Bits> Combine<A> for All {
    const IDENTITY: A = A::ALL_ONES;
    #[inline(always)]
    fn combine(a: A, b: A) -> A {
        a.and(b)
    }
}

pub(crate) struct Any;
impl<A: Bits> Combine<A> for Any {
    const IDENTITY: A = A::ZEROS;
    #[inline(always)]
    fn combine(a: A, b: A) -> A {
        a.or(b)
    }
}

pub(crate) struct Parity;
impl<A: Bits> Combine<A> for Parity {
    const IDENTITY: A = A::ZEROS;
    #[inline(always)]
    fn combine(a: A, b: A) -> A {
        a.xor(b)
    }
}

/// Independent accumulators of a contiguous run: enough to hide the latency of an addition at every
/// vector width.
const LANES: usize = 32;

/// Columns that are reduced together when the axis is not the innermost.
pub(crate) const COLUMNS: usize = 64;

/// Combines a contiguous run.
#[inline(always)]
fn reduce_run<I: IsaProfile, K: Combine<T::Acc>, T: Accumulate>(a: &[T]) -> T::Acc {
    // A number that the compiler does not know keeps it from writing out a compact loop 32 times.
    let lanes = if I::COMPACT { black_box(LANES) } else { LANES };
    if a.len() < lanes {
        return a.iter().fold(K::START, |acc, x| K::combine(acc, x.widen_to_acc()));
    }
    let mut acc = [K::START; LANES];
    let mut buffer = [K::START; BUFFER];
    for part in a.chunks(T::STAGE) {
        let elements = T::widened::<I>(part, &mut buffer);
        if I::COMPACT {
            for row in elements.chunks(lanes) {
                combine_lanes::<I, K, _>(&mut acc, row);
            }
            continue;
        }
        let (rows, rest) = elements.as_chunks::<LANES>();
        for row in rows {
            combine_lanes::<I, K, _>(&mut acc, row);
        }
        combine_lanes::<I, K, _>(&mut acc, rest);
    }
    let mut width = lanes / 2;
    while width > 0 {
        for lane in 0..width {
            one_element::<I>();
            acc[lane] = K::combine(acc[lane], acc[lane + width]);
        }
        width /= 2;
    }
    acc[0]
}

/// Combines each lane with its element of a row, of which there may be fewer.
#[inline(always)]
fn combine_lanes<I: IsaProfile, K: Combine<A>, A: Element>(acc: &mut [A; LANES], row: &[A]) {
    for (acc, x) in acc.iter_mut().zip(row) {
        one_element::<I>();
        *acc = K::combine(*acc, *x);
    }
}

/// The loop of a reduction whose result has the element type.
struct ReduceLoop<K, T>(PhantomData<(K, T)>);

impl<T: Accumulate, K: Combine<T::Acc>> AxisLoop for ReduceLoop<K, T> {
    const WIDE: bool = size_of::<T>() == 4;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: *const u8, outer: usize, len: usize, inner: usize) {
        // SAFETY: the caller passed `outer * len * inner` readable and `outer * inner` writable
        // elements.
        let (out, a) = unsafe {
            (
                std::slice::from_raw_parts_mut(out.cast::<T>(), outer * inner),
                std::slice::from_raw_parts(a.cast::<T>(), outer * len * inner),
            )
        };
        if inner == 1 {
            for (i, o) in out.iter_mut().enumerate() {
                *o = T::narrow_acc(reduce_run::<I, K, T>(&a[i * len..][..len]));
            }
            return;
        }
        for o in 0..outer {
            let (out, a) = (&mut out[o * inner..][..inner], &a[o * len * inner..][..len * inner]);
            for (block, out) in out.chunks_mut(COLUMNS).enumerate() {
                reduce_columns::<I, K, T>(out, &a[(block * COLUMNS).min(a.len())..], inner);
            }
        }
    }
}

/// Combines the columns of the rows that begin every `stride` elements of `a`.
#[inline(always)]
fn reduce_columns<I: IsaProfile, K: Combine<T::Acc>, T: Accumulate>(out: &mut [T], a: &[T], stride: usize) {
    let mut acc = [K::START; COLUMNS];
    let mut buffer = [K::START; COLUMNS];
    let acc = &mut acc[..out.len()];
    for row in a.chunks(stride) {
        for (acc, x) in acc.iter_mut().zip(T::widened::<I>(&row[..out.len()], &mut buffer)) {
            one_element::<I>();
            *acc = K::combine(*acc, *x);
        }
    }
    for (o, acc) in out.iter_mut().zip(acc) {
        *o = T::narrow_acc(*acc);
    }
}

/// The order in which the first of several extremes is searched.
trait Extreme: 'static {
    type Combine<A: Ordered>: Combine<A>;
    /// Whether `a` replaces `best`.
    fn beats<A: Ordered>(a: A, best: A) -> bool;
}

struct First<const GREATEST: bool>;

impl Extreme for First<false> {
    type Combine<A: Ordered> = Least;
    #[inline(always)]
    fn beats<A: Ordered>(a: A, best: A) -> bool {
        a < best
    }
}

impl Extreme for First<true> {
    type Combine<A: Ordered> = Greatest;
    #[inline(always)]
    fn beats<A: Ordered>(a: A, best: A) -> bool {
        a > best
    }
}

/// Reduces to the index of the first extreme.
///
/// # Safety
/// As for [`AxisFn`], with results of i64.
unsafe extern "C" fn arg_axis<E: Extreme, T: Accumulate<Acc: Ordered>>(
    out: *mut u8,
    a: *const u8,
    outer: usize,
    len: usize,
    inner: usize,
) {
    // SAFETY: the caller passed `outer * len * inner` readable elements and `outer * inner`
    // writable results.
    let (out, a) = unsafe {
        (
            std::slice::from_raw_parts_mut(out.cast::<i64>(), outer * inner),
            std::slice::from_raw_parts(a.cast::<T>(), outer * len * inner),
        )
    };
    if inner == 1 {
        for (i, o) in out.iter_mut().enumerate() {
            *o = arg_run::<E, T>(&a[i * len..][..len]);
        }
        return;
    }
    for o in 0..outer {
        let (out, a) = (&mut out[o * inner..][..inner], &a[o * len * inner..][..len * inner]);
        for (block, out) in out.chunks_mut(COLUMNS).enumerate() {
            arg_columns::<E, T>(out, &a[(block * COLUMNS).min(a.len())..], inner);
        }
    }
}

/// Where the extreme of a contiguous run stands: first its value, at full vector speed, then its
/// place.
fn arg_run<E: Extreme, T: Accumulate<Acc: Ordered>>(a: &[T]) -> i64 {
    let mut extreme = T::default();
    let reduce = ReduceLoop::<E::Combine<T::Acc>, T>::at(Isa::best());
    // SAFETY: one run of `a.len()` elements and room for one result.
    unsafe { reduce((&raw mut extreme).cast(), a.as_ptr().cast(), 1, a.len(), 1) };
    for (block, row) in a.chunks(LANES).enumerate() {
        if row.iter().fold(false, |any, x| any | (*x == extreme)) {
            return (block * LANES + row.iter().position(|x| *x == extreme).unwrap_or(0)) as i64;
        }
    }
    0
}

/// The same for columns.
fn arg_columns<E: Extreme, T: Accumulate<Acc: Ordered>>(out: &mut [i64], a: &[T], stride: usize) {
    let mut best = [<E::Combine<T::Acc> as Combine<T::Acc>>::START; COLUMNS];
    let best = &mut best[..out.len()];
    out.fill(0);
    for (index, row) in a.chunks(stride).enumerate() {
        for ((best, place), x) in best.iter_mut().zip(out.iter_mut()).zip(row) {
            let x = x.widen_to_acc();
            // A number beats the NaN that `best` may start with.
            let is_number = |x: T::Acc| x.partial_cmp(&x).is_some();
            let wins = E::beats(x, *best) | (is_number(x) & !is_number(*best));
            *best = if wins { x } else { *best };
            *place = if wins { index as i64 } else { *place };
        }
    }
}

/// The primitive for a reduction, if the operation is defined on the type.
pub(crate) fn lookup(isa: Isa, op: ReduceOp, scalar: Scalar) -> Option<AxisFn> {
    let signed = matches!(op, ReduceOp::Min | ReduceOp::Max | ReduceOp::ArgMin | ReduceOp::ArgMax);
    match if signed { scalar } else { unsigned(scalar) } {
        Scalar::Bool => bits::<u8>(isa, op).or_else(|| ordered::<u8>(isa, op)),
        Scalar::I32 => ordered::<i32>(isa, op),
        Scalar::I64 => ordered::<i64>(isa, op),
        Scalar::U32 => bits::<u32>(isa, op).or_else(|| number::<u32>(isa, op)),
        Scalar::U64 => bits::<u64>(isa, op).or_else(|| number::<u64>(isa, op)),
        Scalar::F16 => number::<f16>(isa, op),
        Scalar::BF16 => number::<bf16>(isa, op),
        Scalar::F32 => number::<f32>(isa, op),
        Scalar::F64 => number::<f64>(isa, op),
        Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => None,
    }
}

/// The instruction set for what is too rare for a version of its own for AVX-512.
fn common(isa: Isa) -> Isa {
    #[cfg(target_arch = "x86_64")]
    return isa.min(Isa::Avx2);
    #[cfg(not(target_arch = "x86_64"))]
    return isa;
}

fn bits<T: Accumulate<Acc: Bits>>(isa: Isa, op: ReduceOp) -> Option<AxisFn> {
    Some(match op {
        ReduceOp::And => ReduceLoop::<All, T>::at(common(isa)),
        ReduceOp::Or => ReduceLoop::<Any, T>::at(common(isa)),
        ReduceOp::Xor => ReduceLoop::<Parity, T>::at(common(isa)),
        _ => return None,
    })
}

fn ordered<T: Accumulate<Acc: Ordered>>(isa: Isa, op: ReduceOp) -> Option<AxisFn> {
    Some(match op {
        ReduceOp::Min => ReduceLoop::<Least, T>::at(isa),
        ReduceOp::Max => ReduceLoop::<Greatest, T>::at(isa),
        ReduceOp::ArgMin => arg_axis::<First<false>, T>,
        ReduceOp::ArgMax => arg_axis::<First<true>, T>,
        _ => return None,
    })
}

fn number<T: Accumulate<Acc: Number>>(isa: Isa, op: ReduceOp) -> Option<AxisFn> {
    Some(match op {
        ReduceOp::Sum => ReduceLoop::<Sum, T>::at(isa),
        ReduceOp::Prod => ReduceLoop::<Prod, T>::at(common(isa)),
        _ => return ordered::<T>(isa, op),
    })
}
