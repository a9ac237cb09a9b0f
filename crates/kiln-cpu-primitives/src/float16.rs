//! 16-bit floats: conversions as branch-free integer arithmetic, so that loops over them vectorize
//! without hardware support.

use super::element::Element;
use super::isa::IsaProfile;
use half::{bf16, f16};

/// A 16-bit float. Arithmetic on it is done in f32 and rounded after each operation.
pub(crate) trait Half: Element {
    /// The value as f32; exact.
    fn widen(self) -> f32;
    /// The nearest value, ties to even; overflow gives infinity, NaN remains NaN.
    fn narrow(x: f32) -> Self;
    /// `widen` of each element. The slices have one length.
    fn widen_slice<I: IsaProfile>(out: &mut [f32], a: &[Self]);
    /// `narrow` of each element. The slices have one length.
    fn narrow_slice<I: IsaProfile>(out: &mut [Self], a: &[f32]);
}

#[inline(always)]
pub(crate) fn widen_each<H: Half>(out: &mut [f32], a: &[H]) {
    for (o, x) in out.iter_mut().zip(a) {
        *o = x.widen();
    }
}

#[inline(always)]
pub(crate) fn narrow_each<H: Half>(out: &mut [H], a: &[f32]) {
    for (o, x) in out.iter_mut().zip(a) {
        *o = H::narrow(*x);
    }
}

impl Half for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        let sign = ((self.to_bits() & 0x8000) as u32) << 16;
        let magnitude = (self.to_bits() & 0x7fff) as u32;
        // Re-biasing by a multiplication with 2^112 normalizes subnormals for free.
        let finite = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
        let special = 0x7f80_0000 | magnitude << 13;
        let bits = if magnitude >= 0x7c00 { special } else { finite.to_bits() };
        f32::from_bits(sign | bits)
    }

    #[inline(always)]
    fn narrow(x: f32) -> f16 {
        let bits = x.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        // Normal results: re-bias the exponent and round the 13 bits that go; a carry moves into
        // the exponent as it should.
        let odd = (magnitude >> 13) & 1;
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
        // Subnormal results: adding 0.5 makes the unit in the last place that of an f16 subnormal,
        // and the adder rounds.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let finite = if magnitude < (127 - 14) << 23 { subnormal } else { normal };
        let special = if magnitude > 0x7f80_0000 { 0x7e00 | (magnitude >> 13 & 0x3ff) } else { 0x7c00 };
        let bits = if magnitude >= (127 + 16) << 23 { special } else { finite };
        f16::from_bits((sign | bits) as u16)
    }

    #[inline(always)]
    fn widen_slice<I: IsaProfile>(out: &mut [f32], a: &[f16]) {
        #[cfg(target_arch = "x86_64")]
        if I::F16C {
            // SAFETY: such a type is named only inside functions for processors with F16C.
            return unsafe { f16c::widen(out, a) };
        }
        widen_each(out, a);
    }

    #[inline(always)]
    fn narrow_slice<I: IsaProfile>(out: &mut [f16], a: &[f32]) {
        #[cfg(target_arch = "x86_64")]
        if I::F16C {
            // SAFETY: as above.
            return unsafe { f16c::narrow(out, a) };
        }
        narrow_each(out, a);
    }
}

impl Half for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }

    #[inline(always)]
    fn narrow(x: f32) -> bf16 {
        let bits = x.to_bits();
        let odd = (bits >> 16) & 1;
        let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
        // Rounding could carry a NaN into infinity: keep its head and make it quiet.
        let nan = bits >> 16 | 0x40;
        bf16::from_bits(if x.is_nan() { nan } else { rounded } as u16)
    }

    #[inline(always)]
    fn widen_slice<I: IsaProfile>(out: &mut [f32], a: &[bf16]) {
        widen_each(out, a);
    }

    #[inline(always)]
    fn narrow_slice<I: IsaProfile>(out: &mut [bf16], a: &[f32]) {
        narrow_each(out, a);
    }
}

/// Conversions of f16 by instruction, which LLVM does not form from the portable loops.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use super::Half;
    use half::f16;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn widen(out: &mut [f32], a: &[f16]) {
        let (wide, out_rest) = out.as_chunks_mut::<8>();
        let (narrow, rest) = a.as_chunks::<8>();
        for (o, x) in wide.iter_mut().zip(narrow) {
            // SAFETY: `x` is 16 readable bytes and `o` 32 writable ones.
            unsafe {
                let x = _mm_loadu_si128(x.as_ptr().cast());
                _mm256_storeu_ps(o.as_mut_ptr(), _mm256_cvtph_ps(x));
            }
        }
        super::widen_each(out_rest, rest);
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn narrow(out: &mut [f16], a: &[f32]) {
        let (narrow, out_rest) = out.as_chunks_mut::<8>();
        let (wide, rest) = a.as_chunks::<8>();
        for (o, x) in narrow.iter_mut().zip(wide) {
            // SAFETY: `x` is 32 readable bytes and `o` 16 writable ones.
            unsafe {
                let x = _mm256_loadu_ps(x.as_ptr());
                _mm_storeu_si128(o.as_mut_ptr().cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x));
            }
        }
        for (o, x) in out_rest.iter_mut().zip(rest) {
            *o = f16::narrow(*x);
        }
    }
}

/// Conversion to f32 that rounds to odd: an inexact value becomes the neighbor whose last bit is
/// set.
///
/// A second rounding, to a format that is at least two bits shorter, then gives the correctly
/// rounded result of the original value; rounding to nearest twice would not.
pub(crate) trait ToOddF32: Element {
    /// The value rounded to odd.
    fn to_odd_f32(self) -> f32;
}

impl ToOddF32 for f64 {
    #[inline(always)]
    fn to_odd_f32(self) -> f32 {
        let nearest = self as f32;
        let away = (nearest as f64).abs() > self.abs();
        let truncated = nearest.to_bits().wrapping_sub(away as u32);
        let inexact = nearest as f64 != self;
        f32::from_bits(truncated | inexact as u32)
    }
}

impl ToOddF32 for f32 {
    #[inline(always)]
    fn to_odd_f32(self) -> f32 {
        self
    }
}

macro_rules! small_int_to_odd {
    ($($t:ty),*) => {$(
        impl ToOddF32 for $t {
            #[inline(always)]
            fn to_odd_f32(self) -> f32 {
                (self as f64).to_odd_f32()
            }
        }
    )*};
}
small_int_to_odd!(u8, i32, u32);

macro_rules! large_int_to_odd {
    ($($t:ty),*) => {$(
        impl ToOddF32 for $t {
            #[inline(always)]
            fn to_odd_f32(self) -> f32 {
                // f64 holds 53 of 64 bits: fold the lowest 11 into a sticky bit above them, where
                // the magnitude needs it.
                let low = self & 0x7ff;
                let folded = (self & !0x7ff) | (((low != 0) as $t) << 11);
                let top = self >> 52;
                let small = top == 0 || top == !0;
                (if small { self } else { folded } as f64).to_odd_f32()
            }
        }
    )*};
}
large_int_to_odd!(i64, u64);
