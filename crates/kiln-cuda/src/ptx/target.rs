//! What PTX is written for: the GPU and the version of the language.

/// The first PTX ISA version with products of warpgroups of signed by unsigned integers, and of
/// fragments of 8-bit floats.
pub(crate) const MIXED_VERSION: (u32, u32) = (8, 4);
/// The first PTX ISA version with priorities of what leaves a cache.
pub(super) const EVICTION_VERSION: (u32, u32) = (7, 4);
/// The first PTX ISA version with conversions of 8-bit floats for all GPUs that have them.
pub(super) const FLOAT8_VERSION: (u32, u32) = (8, 1);
/// The first PTX ISA version with atomics of 128 bits, for compute capability 9.0 and newer.
pub(super) const ATOMIC_128_VERSION: (u32, u32) = (8, 3);
/// The first PTX ISA version with all that compute capability 9.0 has.
pub(super) const HOPPER_VERSION: (u32, u32) = (8, 0);

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

    /// The oldest PTX ISA version that supports this GPU: the version of a kernel without newer
    /// instructions.
    pub(super) fn least_version(self) -> (u32, u32) {
        match self.capability() {
            ..=80 => (7, 0),
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
            n @ (80 | 86 | 87 | 89 | 90 | 100 | 101 | 120) => format!("sm_{n}"),
            n if n > 90 => "sm_90".into(),
            n => format!("sm_{n}"),
        }
    }
}
