//! What PTX is written for: the GPU and the version of the language.

/// The first PTX ISA version with products of warpgroups of signed by unsigned integers, and of
/// fragments of 8-bit floats.
pub(crate) const MIXED_VERSION: (u32, u32) = (8, 4);
/// The first PTX ISA version that transposes a matrix of the lanes of a warp.
pub(super) const MOVMATRIX_VERSION: (u32, u32) = (7, 8);
/// The first PTX ISA version with priorities of what leaves a cache.
pub(super) const EVICTION_VERSION: (u32, u32) = (7, 4);
/// The first PTX ISA version with conversions of 8-bit floats for all GPUs that have them.
pub(super) const FLOAT8_VERSION: (u32, u32) = (8, 1);
/// The first PTX ISA version with atomics of 128 bits, for compute capability 9.0 and newer.
pub(super) const ATOMIC_128_VERSION: (u32, u32) = (8, 3);
/// The first PTX ISA version with all that compute capability 9.0 has.
pub(super) const HOPPER_VERSION: (u32, u32) = (8, 0);

/// The compute capability that has conversions to bf16, and multiply-adds of it.
pub(super) const BF16: u32 = 80;

/// GPUs that PTX is written for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// The compute capability as one number, such as 90.
    pub capability: u32,
    /// Its name, such as `sm_90`.
    pub name: &'static str,
    /// That of the architecture, such as Hopper.
    pub architecture: &'static str,
}

/// The generations of GPUs that are known, oldest first.
///
/// ```
/// let oldest = kiln_cuda::ptx::GENERATIONS[0];
/// assert_eq!((oldest.capability, oldest.name, oldest.architecture), (75, "sm_75", "Turing"));
/// ```
pub const GENERATIONS: [Generation; 9] = [
    Generation { capability: 75, name: "sm_75", architecture: "Turing" },
    Generation { capability: 80, name: "sm_80", architecture: "Ampere" },
    Generation { capability: 86, name: "sm_86", architecture: "Ampere" },
    Generation { capability: 87, name: "sm_87", architecture: "Ampere" },
    Generation { capability: 89, name: "sm_89", architecture: "Ada" },
    Generation { capability: 90, name: "sm_90", architecture: "Hopper" },
    Generation { capability: 100, name: "sm_100", architecture: "Blackwell" },
    Generation { capability: 101, name: "sm_101", architecture: "Blackwell" },
    Generation { capability: 120, name: "sm_120", architecture: "Blackwell" },
];

/// What PTX is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The compute capability, such as (9, 0).
    pub compute: (u32, u32),
    /// The highest PTX ISA version that may be used.
    pub ptx: (u32, u32),
}

impl Target {
    /// The compute capability as one number, such as 90.
    pub fn capability(self) -> u32 {
        self.compute.0 * 10 + self.compute.1
    }

    /// The shared memory that a block can ask for, in bytes (CUDA C++ Programming Guide, "Technical
    /// Specifications per Compute Capability"), less the 1 KiB that the system keeps since 8.0.
    ///
    /// ```
    /// use kiln_cuda::ptx::Target;
    /// assert_eq!(Target { compute: (9, 0), ptx: (8, 0) }.shared_memory(), 227 << 10);
    /// ```
    pub fn shared_memory(self) -> u32 {
        let kib = match self.capability() {
            ..80 => 64,
            80 | 87 => 163,
            90..=119 => 227,
            _ => 99,
        };
        kib << 10
    }

    /// The oldest PTX ISA version that supports this GPU: the version of a kernel without newer
    /// instructions.
    pub(super) fn least_version(self) -> (u32, u32) {
        match self.capability() {
            ..=75 => (6, 3),
            76..=80 => (7, 0),
            81..=86 => (7, 1),
            87 => (7, 4),
            88..=89 => (7, 8),
            90 => (7, 8),
            100..=101 => (8, 6),
            120 => (8, 7),
            _ => (7, 8),
        }
    }

    /// The name of the target: an unknown newer GPU runs code for the newest known without features
    /// of a family.
    pub(super) fn name(self) -> String {
        match self.capability() {
            n if n > 90 && GENERATIONS.iter().all(|known| known.capability != n) => "sm_90".into(),
            n => format!("sm_{n}"),
        }
    }
}
