//! Which instruction set the primitives run with, decided once per process.
//!
//! Every loop is written once, as plain Rust that LLVM vectorizes, and compiled once per [`Isa`]:
//! [`signature!`](super::signature) wraps it in functions that carry the instruction set's target
//! features. What a loop must know about its instruction set beyond that (is a fused multiply-add
//! cheap, how are 16-bit floats converted) it asks of the type parameter [`IsaProfile`].

use std::sync::LazyLock;
use std::sync::atomic::{Ordering, compiler_fence};

/// An instruction set that the primitives are compiled for.
///
/// ```
/// use kiln_cpu_primitives::Isa;
/// assert!(Isa::available().contains(&Isa::Portable));
/// assert_eq!(Isa::available().last(), Some(&Isa::best()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// What the target architecture guarantees: SSE2 on x86-64, NEON on aarch64.
    Portable,
    /// AVX2, FMA, F16C, BMI, LZCNT and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// `Avx2` and AVX-512 F, BW, CD, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The instruction sets this processor can run, slowest first.
    pub fn available() -> Vec<Isa> {
        [Isa::Portable].into_iter().chain(Isa::extensions()).collect()
    }

    /// The instruction sets beyond what the architecture guarantees.
    #[cfg(target_arch = "x86_64")]
    fn extensions() -> Vec<Isa> {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi1") && has!("bmi2");
        let avx2 = avx2 && has!("lzcnt") && has!("popcnt");
        let avx512 =
            has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl");
        match (avx2, avx512) {
            (false, _) => Vec::new(),
            (true, false) => vec![Isa::Avx2],
            (true, true) => vec![Isa::Avx2, Isa::Avx512],
        }
    }

    /// The instruction sets beyond what the architecture guarantees.
    #[cfg(not(target_arch = "x86_64"))]
    fn extensions() -> Vec<Isa> {
        Vec::new()
    }

    /// The fastest instruction set this processor can run.
    pub fn best() -> Isa {
        static BEST: LazyLock<Isa> = LazyLock::new(|| *Isa::available().last().unwrap_or(&Isa::Portable));
        *BEST
    }
}

/// What a loop may assume about the instruction set that it is compiled for.
pub(crate) trait IsaProfile: 'static {
    /// The instruction set.
    const ISA: Isa;
    /// Whether `mul_add` is one instruction.
    const FMA: bool;
    /// Elements of 4 bytes in a vector register: matrix tiles are shaped by it.
    const LANES_32: usize;
    /// Whether loops are compiled for size: where nearly every processor has a faster instruction
    /// set.
    const COMPACT: bool = false;
    /// Whether f16 is converted by instructions (F16C): a type that says so is named only inside
    /// functions that are compiled for processors with them, and called on no others.
    const F16C: bool;
}

/// Stands in the body of a loop. A compact one is neither vectorized nor unrolled: the compiler
/// does neither to a loop with a fence, which is no instruction.
#[inline(always)]
pub(crate) fn one_element<I: IsaProfile>() {
    if I::COMPACT {
        compiler_fence(Ordering::SeqCst);
    }
}

pub(crate) struct Portable;

impl IsaProfile for Portable {
    const ISA: Isa = Isa::Portable;
    const FMA: bool = cfg!(target_arch = "aarch64") || cfg!(target_feature = "fma");
    const LANES_32: usize = 4;
    const COMPACT: bool = cfg!(target_arch = "x86_64");
    const F16C: bool = false;
}

#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx2;

#[cfg(target_arch = "x86_64")]
impl IsaProfile for Avx2 {
    const ISA: Isa = Isa::Avx2;
    const FMA: bool = true;
    const LANES_32: usize = 8;
    const F16C: bool = true;
}

#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl IsaProfile for Avx512 {
    const ISA: Isa = Isa::Avx512;
    const FMA: bool = true;
    const LANES_32: usize = 16;
    // `Isa::available` checks it.
    const F16C: bool = true;
}
