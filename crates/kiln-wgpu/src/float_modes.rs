//! What a driver of Vulkan can be told about floats.

/// The ways of computing with floats that SPIR-V can ask a driver for, by the bits of a float
/// (`VkPhysicalDeviceFloatControlsProperties`).
///
/// Without them Vulkan lets a driver take subnormal numbers for zeros, assume that no number is
/// infinite or NaN, and round conversions as it likes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct FloatModes {
    /// `SignedZeroInfNanPreserve`: nothing is assumed about zeros, infinities and NaN.
    pub special_values: Widths,
    /// `DenormPreserve`: subnormal numbers count in full.
    pub subnormals: Widths,
    /// `RoundingModeRTE`: results are rounded to the nearest number, ties to even.
    pub nearest: Widths,
}

/// Some of the widths of floats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Widths {
    /// 16 bits.
    pub half: bool,
    /// 32 bits.
    pub single: bool,
    /// 64 bits.
    pub double: bool,
}

impl Widths {
    /// All of them.
    pub const ALL: Widths = Widths { half: true, single: true, double: true };

    /// The bits of each of them.
    pub(crate) fn bits(self) -> impl Iterator<Item = u32> {
        let all = [(self.half, 16), (self.single, 32), (self.double, 64)];
        all.into_iter().filter(|(has, _)| *has).map(|(_, bits)| bits)
    }
}

impl FloatModes {
    /// All modes for all widths.
    pub const ALL: FloatModes =
        FloatModes { special_values: Widths::ALL, subnormals: Widths::ALL, nearest: Widths::ALL };
}
