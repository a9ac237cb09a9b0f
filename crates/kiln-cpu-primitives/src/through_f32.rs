//! Loops of 16-bit floats, which go through loops of f32 part by part.
//!
//! What is done to the parts is compiled for each instruction set; going from part to part is not,
//! and is one function for all operations.

use super::elementwise::{Map, MapLoop, OperandForm, STAGE, Zip, Zip3, Zip3Loop, ZipLoop};
use super::float16::Half;
use super::isa::IsaProfile;
use super::signature::{BinaryFn, BinaryLoop, Operand, TernaryFn, TernaryLoop, UnaryFn, UnaryLoop};
use std::marker::PhantomData;

/// Bytes of a 16-bit float.
const HALF: usize = 2;

/// The loop that widens 16-bit floats.
pub(crate) struct WidenLoop<H>(PhantomData<H>);

impl<H: Half> UnaryLoop for WidenLoop<H> {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: *const u8, n: usize) {
        // SAFETY: the caller passed `n` elements of each; every bit pattern is a valid element, so
        // that stale memory may be borrowed.
        unsafe {
            let (out, a) = (std::slice::from_raw_parts_mut(out.cast(), n), a.cast());
            H::widen_slice::<I>(out, std::slice::from_raw_parts(a, n));
        }
    }
}

/// The loop that rounds f32 to 16-bit floats.
pub(crate) struct NarrowLoop<H>(PhantomData<H>);

impl<H: Half> UnaryLoop for NarrowLoop<H> {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: *const u8, n: usize) {
        // SAFETY: as above.
        unsafe {
            let (out, a) = (std::slice::from_raw_parts_mut(out.cast(), n), a.cast());
            H::narrow_slice::<I>(out, std::slice::from_raw_parts(a, n));
        }
    }
}

/// What a unary loop through f32 does to a part.
pub(crate) struct Steps {
    /// From the operands, of so many bytes each, to f32.
    pub first: (UnaryFn, usize),
    /// On f32 in place.
    pub middle: Option<UnaryFn>,
    /// From f32 to the results, of so many bytes each.
    pub last: (UnaryFn, usize),
}

impl Steps {
    /// # Safety
    /// As for [`UnaryFn`], with the elements that the steps are for. The output may be the input
    /// where both have the same size.
    #[inline(never)]
    pub unsafe fn run(self, out: *mut u8, a: *const u8, n: usize) {
        let ((first, from), (last, to)) = (self.first, self.last);
        let mut wide = [0.0f32; STAGE];
        let wide = wide.as_mut_ptr().cast::<u8>();
        for start in (0..n).step_by(STAGE) {
            let len = STAGE.min(n - start);
            // SAFETY: the caller passed `n` elements and `start + len <= n`; the buffer holds
            // `STAGE >= len`. Each input is read before its place is written.
            unsafe {
                first(wide, a.add(start * from), len);
                if let Some(middle) = self.middle {
                    middle(wide, wide, len);
                }
                last(out.add(start * to), wide, len);
            }
        }
    }
}

/// The loop of a [`Map`] on f32 over 16-bit floats.
pub(crate) struct HalfMapLoop<K, H>(PhantomData<(K, H)>);

impl<H: Half, K: Map<f32, Out = f32>> UnaryLoop for HalfMapLoop<K, H> {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: *const u8, n: usize) {
        let steps = Steps {
            first: (WidenLoop::<H>::at(I::ISA), HALF),
            middle: Some(<MapLoop<K, f32> as UnaryLoop>::at(I::ISA)),
            last: (NarrowLoop::<H>::at(I::ISA), HALF),
        };
        // SAFETY: the caller's.
        unsafe { steps.run(out, a, n) }
    }
}

/// An operand of 16-bit floats: an array, or a scalar that is an f32 by now.
#[derive(Clone, Copy)]
enum HalfOperand {
    Array(*const u8),
    Scalar(f32),
}

impl HalfOperand {
    /// # Safety
    /// The operand is a scalar of type `H` if `is_scalar`, else an array.
    #[inline(always)]
    unsafe fn of<H: Half>(operand: Operand, is_scalar: bool) -> HalfOperand {
        // SAFETY: the caller's.
        unsafe {
            if is_scalar {
                HalfOperand::Scalar(H::from_bits(operand.bits).widen())
            } else {
                HalfOperand::Array(operand.array)
            }
        }
    }

    /// The part that begins at `start`, as an operand of f32: in the buffer, if it is of an array.
    ///
    /// # Safety
    /// An array is valid for reads of `start + buffer.len()` elements, which `widen` takes.
    unsafe fn part(self, widen: UnaryFn, start: usize, buffer: &mut [f32]) -> Operand {
        match self {
            HalfOperand::Scalar(x) => Operand { bits: x.to_bits().into() },
            HalfOperand::Array(array) => {
                let wide = buffer.as_mut_ptr().cast::<u8>();
                // SAFETY: the caller's.
                unsafe { widen(wide, array.add(start * HALF), buffer.len()) };
                Operand { array: wide }
            }
        }
    }
}

/// Calls a loop of f32 for parts of 16-bit floats, and rounds its results. A comparison's results
/// are bytes, which are not rounded.
///
/// # Safety
/// As for [`BinaryFn`], with elements that `widen` and `narrow` convert.
#[inline(never)]
unsafe fn zip_parts(
    (widen, zip, narrow): (UnaryFn, BinaryFn, Option<UnaryFn>),
    out: *mut u8,
    [a, b]: [HalfOperand; 2],
    n: usize,
) {
    let (mut wide_a, mut wide_b, mut wide) = ([0.0f32; STAGE], [0.0f32; STAGE], [0.0f32; STAGE]);
    let wide = wide.as_mut_ptr().cast::<u8>();
    for start in (0..n).step_by(STAGE) {
        let len = STAGE.min(n - start);
        // SAFETY: the caller passed `n` elements and `start + len <= n`; the buffers hold
        // `STAGE >= len`. Each input is read before its place is written.
        unsafe {
            let a = a.part(widen, start, &mut wide_a[..len]);
            let b = b.part(widen, start, &mut wide_b[..len]);
            match narrow {
                Some(narrow) => {
                    zip(wide, a, b, len);
                    narrow(out.add(start * HALF), wide, len);
                }
                None => {
                    zip(out.add(start), a, b, len);
                }
            }
        }
    }
}

/// The loop of a [`Zip`] on f32 over 16-bit floats, rounded to them.
pub(crate) struct HalfZipLoop<K, H, F>(PhantomData<(K, H, F)>);

impl<H: Half, K: Zip<f32, Out = f32>, F: OperandForm> BinaryLoop for HalfZipLoop<K, H, F> {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: Operand, b: Operand, n: usize) -> u32 {
        let zip = <ZipLoop<K, f32, F> as BinaryLoop>::at(I::ISA);
        let loops = (WidenLoop::<H>::at(I::ISA), zip, Some(NarrowLoop::<H>::at(I::ISA)));
        // SAFETY: the caller's; the form says which operand is a scalar.
        unsafe {
            let operands = [HalfOperand::of::<H>(a, F::A_IS_SCALAR), HalfOperand::of::<H>(b, F::B_IS_SCALAR)];
            zip_parts(loops, out, operands, n);
        }
        0
    }
}

/// The loop of a comparison on f32 over 16-bit floats.
pub(crate) struct HalfCompareLoop<K, H, F>(PhantomData<(K, H, F)>);

impl<H: Half, K: Zip<f32, Out = u8>, F: OperandForm> BinaryLoop for HalfCompareLoop<K, H, F> {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: Operand, b: Operand, n: usize) -> u32 {
        let zip = <ZipLoop<K, f32, F> as BinaryLoop>::at(I::ISA);
        let loops = (WidenLoop::<H>::at(I::ISA), zip, None);
        // SAFETY: as above.
        unsafe {
            let operands = [HalfOperand::of::<H>(a, F::A_IS_SCALAR), HalfOperand::of::<H>(b, F::B_IS_SCALAR)];
            zip_parts(loops, out, operands, n);
        }
        0
    }
}

/// As [`zip_parts`], with a third operand.
///
/// # Safety
/// As for [`TernaryFn`], with elements that `widen` and `narrow` convert.
#[inline(never)]
unsafe fn zip3_parts(
    (widen, zip, narrow): (UnaryFn, TernaryFn, UnaryFn),
    out: *mut u8,
    [a, b]: [HalfOperand; 2],
    c: *const u8,
    n: usize,
) {
    let (mut wide_a, mut wide_b, mut wide) = ([0.0f32; STAGE], [0.0f32; STAGE], [0.0f32; STAGE]);
    let wide = wide.as_mut_ptr().cast::<u8>();
    for start in (0..n).step_by(STAGE) {
        let len = STAGE.min(n - start);
        // SAFETY: as in `zip_parts`.
        unsafe {
            let a = a.part(widen, start, &mut wide_a[..len]);
            let b = b.part(widen, start, &mut wide_b[..len]);
            widen(wide, c.add(start * HALF), len);
            zip(wide, a, b, wide, len);
            narrow(out.add(start * HALF), wide, len);
        }
    }
}

/// The loop of a [`Zip3`] on f32 over 16-bit floats.
pub(crate) struct HalfZip3Loop<K, H, F>(PhantomData<(K, H, F)>);

impl<H: Half, K: Zip3<f32, f32>, F: OperandForm> TernaryLoop for HalfZip3Loop<K, H, F> {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn run<I: IsaProfile>(out: *mut u8, a: Operand, b: Operand, c: *const u8, n: usize) {
        let zip = <Zip3Loop<K, f32, f32, F> as TernaryLoop>::at(I::ISA);
        let loops = (WidenLoop::<H>::at(I::ISA), zip, NarrowLoop::<H>::at(I::ISA));
        // SAFETY: as above.
        unsafe {
            let operands = [HalfOperand::of::<H>(a, F::A_IS_SCALAR), HalfOperand::of::<H>(b, F::B_IS_SCALAR)];
            zip3_parts(loops, out, operands, c, n);
        }
    }
}
