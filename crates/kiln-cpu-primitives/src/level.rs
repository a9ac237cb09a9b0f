//! Which instruction set the primitives run with, decided once per process.
//!
//! Every loop is written once, as plain Rust that LLVM vectorizes, and compiled once per [`Level`]:
//! [`signature!`](super::signature) wraps it in functions that carry the level's target features.
//! What a loop must know about its level beyond that (is a fused multiply-add cheap, how are 16-bit
//! floats converted) it asks of the type parameter [`Isa`].

use super::float16;
use half::f16;
use std::sync::LazyLock;

/// An instruction set that the primitives are compiled for.
///
/// ```
/// use kiln_cpu_primitives::Level;
/// assert!(Level::available().contains(&Level::Portable));
/// assert_eq!(Level::available().last(), Some(&Level::best()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// What the target architecture guarantees: SSE2 on x86-64, NEON on aarch64.
    Portable,
    /// AVX2, FMA, F16C, BMI, LZCNT and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// `Avx2` and AVX-512 F, BW, CD, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The levels this processor can run, slowest first.
    pub fn available() -> Vec<Level> {
        [Level::Portable].into_iter().chain(Level::extensions()).collect()
    }

    /// The levels above what the architecture guarantees.
    #[cfg(target_arch = "x86_64")]
    fn extensions() -> Vec<Level> {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi1") && has!("bmi2");
        let avx2 = avx2 && has!("lzcnt") && has!("popcnt");
        let avx512 =
            has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl");
        match (avx2, avx512) {
            (false, _) => Vec::new(),
            (true, false) => vec![Level::Avx2],
            (true, true) => vec![Level::Avx2, Level::Avx512],
        }
    }

    /// The levels above what the architecture guarantees.
    #[cfg(not(target_arch = "x86_64"))]
    fn extensions() -> Vec<Level> {
        Vec::new()
    }

    /// The fastest level this processor can run.
    pub fn best() -> Level {
        static BEST: LazyLock<Level> =
            LazyLock::new(|| *Level::available().last().unwrap_or(&Level::Portable));
        *BEST
    }
}

/// What a loop may assume about the level that it is compiled for.
pub(crate) trait Isa: 'static {
    /// The level.
    const LEVEL: Level;
    /// Whether `mul_add` is one instruction.
    const FMA: bool;
    /// Elements of 4 bytes in a vector register: matrix tiles are shaped by it.
    const LANES_32: usize;

    /// Converts to f32; exact. The slices have one length.
    #[inline(always)]
    fn widen_f16(out: &mut [f32], a: &[f16]) {
        float16::widen_each(out, a);
    }

    /// Converts from f32, rounding to nearest even. The slices have one length.
    #[inline(always)]
    fn narrow_f16(out: &mut [f16], a: &[f32]) {
        float16::narrow_each(out, a);
    }
}

pub(crate) struct Portable;

impl Isa for Portable {
    const LEVEL: Level = Level::Portable;
    const FMA: bool = cfg!(target_arch = "aarch64") || cfg!(target_feature = "fma");
    const LANES_32: usize = 4;
}

#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Isa for Avx2 {
    const LEVEL: Level = Level::Avx2;
    const FMA: bool = true;
    const LANES_32: usize = 8;

    #[inline(always)]
    fn widen_f16(out: &mut [f32], a: &[f16]) {
        // SAFETY: this type is named only inside functions compiled for and dispatched to
        // processors with F16C.
        unsafe { f16c::widen(out, a) }
    }

    #[inline(always)]
    fn narrow_f16(out: &mut [f16], a: &[f32]) {
        // SAFETY: as above.
        unsafe { f16c::narrow(out, a) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Isa for Avx512 {
    const LEVEL: Level = Level::Avx512;
    const FMA: bool = true;
    const LANES_32: usize = 16;

    #[inline(always)]
    fn widen_f16(out: &mut [f32], a: &[f16]) {
        // SAFETY: processors with AVX-512 have F16C; `Level::available` checks it.
        unsafe { f16c::widen(out, a) }
    }

    #[inline(always)]
    fn narrow_f16(out: &mut [f16], a: &[f32]) {
        // SAFETY: as above.
        unsafe { f16c::narrow(out, a) }
    }
}

/// Conversions of f16 by instruction, which LLVM does not form from the portable loops.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use super::float16::Half;
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
        super::float16::widen_each(out_rest, rest);
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
