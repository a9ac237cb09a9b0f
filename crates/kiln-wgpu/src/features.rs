//! What an adapter has that not every adapter has.

use crate::float_modes::FloatModes;
use kiln_ir::{Scalar, WARP};
use naga::valid::Capabilities;

/// What the code may use, and what it was lowered for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// 64-bit integers, wgpu's `SHADER_INT64`. Without it they are pairs of words.
    pub int64: bool,
    /// 64-bit floats, wgpu's `SHADER_F64`. They need 64-bit integers too.
    pub float64: bool,
    /// 16-bit floats, wgpu's `SHADER_F16`. Without it they are converted, and computed in f32.
    pub float16: bool,
    /// Modules go to a driver of Vulkan as SPIR-V that asks for these modes of floats and forbids
    /// contraction. Without it wgpu writes what a driver gets, which says neither.
    pub float_modes: Option<FloatModes>,
    /// The driver keeps operations on floats as they are written. Without it results are hidden
    /// from it.
    pub exact_floats: bool,
    /// The driver rounds a multiply-add of f32 or f16 once. Without it these are computed from
    /// parts.
    pub exact_multiply_adds: bool,
    /// The driver rounds a multiply-add of f64 once too. Without it these are computed from parts.
    pub exact_doubles: bool,
    /// The driver's quotients of f32 are the nearest numbers. Without it they are corrected.
    pub exact_quotients: bool,
    /// The driver's square roots of f32 are the nearest numbers. Without it they are corrected.
    pub exact_roots: bool,
    /// The driver's powers of two of f32 are right to two units of the last place. Without it they
    /// are computed.
    pub exact_powers: bool,
    /// The driver may make a multiply-add, which rounds once, of a product and a sum. Products are
    /// hidden from it then.
    pub contracts: bool,
    /// The driver does so with those of f16, or computes on with what was not rounded to f16 yet.
    /// Results that are rounded to f16 are hidden from it then.
    pub contracts_halves: bool,
    /// The driver takes a comparison that chooses one of two numbers for their minimum or maximum,
    /// which is not NaN where one is. What is compared is hidden from it then.
    pub loses_nan: bool,
    /// The driver may take the minimum or maximum of three integers without the sign of one that is
    /// a negation or an absolute value. These are hidden from it then.
    pub loses_signs: bool,
    /// The driver's minimum and maximum of f32 are as the IR has them: a number where the other one
    /// is NaN, and -0 below +0. Without it they are computed from comparisons of bits.
    pub exact_extrema: bool,
    /// The compiler refuses a barrier of which it does not see that all threads of a block reach
    /// it, as those of browsers do: what decides about it is read by all from one place then.
    pub asks_for_proof: bool,
    /// Subgroup operations, with as many lanes in every subgroup; wgpu's `SUBGROUP`.
    pub subgroup: Option<u32>,
    /// Barriers of a subgroup, wgpu's `SUBGROUP_BARRIER`. Without it those of a warp are of the
    /// block.
    pub subgroup_barriers: bool,
    /// The driver ends all loops of a thread, without an error, once they have made so many rounds.
    /// A loop that it has ended is a fault then.
    pub loop_rounds: Option<u32>,
    /// The matrices of f16 that a subgroup multiplies, with sums of f32; wgpu's
    /// `EXPERIMENTAL_COOPERATIVE_MATRIX`. Kernels need subgroups as wide as their warps for them,
    /// and for those of Vulkan SPIR-V of Kiln's.
    pub matrices: Option<MatrixSize>,
    /// Threads of a warp in the kernel: a power of two up to 32.
    pub warp: u32,
    /// The bytes of parameters that a launch can have beside its bindings, wgpu's `IMMEDIATES`. A
    /// module with more has them in a uniform buffer.
    pub immediate_bytes: u32,
}

/// The rows and columns of the matrices that a subgroup multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatrixSize {
    /// 8, as Metal has them.
    Eight,
    /// 16, as drivers of Vulkan have them.
    Sixteen,
}

impl MatrixSize {
    /// The number of rows and of columns.
    ///
    /// ```
    /// assert_eq!(kiln_wgpu::MatrixSize::Sixteen.side(), 16);
    /// ```
    pub fn side(self) -> u32 {
        match self {
            MatrixSize::Eight => 8,
            MatrixSize::Sixteen => 16,
        }
    }
}

impl Default for Features {
    /// What every adapter has, and a driver that keeps floats exact, for warps of 32 threads.
    fn default() -> Features {
        Features {
            int64: false,
            float64: false,
            float16: false,
            float_modes: None,
            exact_floats: true,
            exact_multiply_adds: true,
            exact_doubles: true,
            exact_quotients: true,
            exact_roots: true,
            exact_powers: true,
            contracts: false,
            contracts_halves: false,
            loses_nan: false,
            loses_signs: false,
            exact_extrema: false,
            asks_for_proof: false,
            subgroup: None,
            subgroup_barriers: false,
            loop_rounds: None,
            matrices: None,
            warp: 32,
            immediate_bytes: 0,
        }
    }
}

impl Features {
    /// The name of the feature that values of a type need, if it is not there.
    pub(crate) fn missing(self, elem: Scalar) -> Option<&'static str> {
        let (has, name) = match elem {
            Scalar::F64 if !self.float64 => (false, "SHADER_F64"),
            // Its bits are integers of 64 bits.
            Scalar::F64 => (self.int64, "SHADER_INT64"),
            Scalar::Bool
            | Scalar::I32
            | Scalar::U32
            | Scalar::I64
            | Scalar::U64
            | Scalar::F16
            | Scalar::BF16
            | Scalar::F32
            | Scalar::E4M3
            | Scalar::E5M2
            | Scalar::I8
            | Scalar::U8
            | Scalar::I16
            | Scalar::U16 => (true, ""),
        };
        (!has).then_some(name)
    }

    /// What code for an adapter depends on, by name: what a package's code needs of another one.
    #[cfg_attr(
        not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")),
        allow(dead_code)
    )]
    pub(crate) fn needs(self) -> Vec<String> {
        // Named one by one, so that a new feature is either named or left out on purpose.
        let Features {
            int64,
            float64,
            float16,
            float_modes,
            exact_floats,
            exact_multiply_adds,
            exact_doubles,
            exact_quotients,
            exact_roots,
            exact_powers,
            contracts,
            contracts_halves,
            loses_nan,
            loses_signs,
            exact_extrema,
            asks_for_proof,
            subgroup,
            subgroup_barriers,
            loop_rounds,
            matrices,
            // Of a kernel, not of an adapter.
            warp: _,
            immediate_bytes,
        } = self;
        let flags = [
            (int64, "SHADER_INT64"),
            (float64, "SHADER_F64"),
            (float16, "SHADER_F16"),
            (exact_floats, "exact floats"),
            (exact_multiply_adds, "exact multiply-adds"),
            (exact_doubles, "exact multiply-adds of f64"),
            (exact_quotients, "exact quotients"),
            (exact_roots, "exact roots"),
            (exact_powers, "exact powers of two"),
            (!contracts, "products apart from sums"),
            (!contracts_halves, "results of f16 rounded"),
            (!loses_nan, "NaN in comparisons"),
            (!loses_signs, "signs in minima"),
            (exact_extrema, "exact minima"),
            (!asks_for_proof, "barriers without proof"),
            (subgroup_barriers, "SUBGROUP_BARRIER"),
        ];
        let named = flags.into_iter().filter(|(has, _)| *has).map(|(_, name)| name.to_owned());
        let modes = float_modes.unwrap_or_default();
        let modes = [
            ("SignedZeroInfNanPreserve", modes.special_values),
            ("DenormPreserve", modes.subnormals),
            ("RoundingModeRTE", modes.nearest),
        ];
        let modes =
            modes.iter().flat_map(|(name, widths)| widths.bits().map(move |bits| format!("{name} {bits}")));
        let numbers = [
            subgroup.map(|lanes| format!("subgroups of {lanes}")),
            loop_rounds.map(|rounds| format!("loops of up to {rounds} rounds")),
            matrices.map(|size| format!("matrices of {0} x {0}", size.side())),
            Some(format!("{immediate_bytes} bytes of immediates")),
        ];
        named.chain(modes).chain(numbers.into_iter().flatten()).collect()
    }

    /// Whether warps are the adapter's subgroups.
    pub(crate) fn native_warps(self) -> bool {
        self.subgroup == Some(self.warp)
    }

    /// Whether barriers of a warp are the adapter's of a subgroup: only SPIR-V says that these
    /// order memory of the workgroup and of the device too.
    pub(crate) fn warp_barriers(self) -> bool {
        let is_written = self.float_modes.is_some();
        is_written && self.subgroup_barriers && self.native_warps() && self.warp == WARP
    }

    /// Whether kernels multiply on matrix units.
    pub(crate) fn multiplies(self) -> bool {
        let is_written = match self.matrices {
            Some(MatrixSize::Sixteen) => self.float_modes.is_some(),
            Some(MatrixSize::Eight) => self.float_modes.is_none(),
            None => false,
        };
        is_written && self.float16 && self.native_warps()
    }

    /// The same for naga's validator.
    pub(crate) fn capabilities(self) -> Capabilities {
        // Two 16-bit floats in a word are packed and unpacked everywhere.
        let mut capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        capabilities.set(Capabilities::SHADER_INT64, self.int64);
        capabilities.set(Capabilities::FLOAT64, self.float64);
        capabilities.set(Capabilities::SHADER_FLOAT16, self.float16);
        capabilities.set(Capabilities::SUBGROUP, self.subgroup.is_some());
        capabilities.set(Capabilities::SUBGROUP_BARRIER, self.subgroup_barriers);
        capabilities.set(Capabilities::COOPERATIVE_MATRIX, self.multiplies());
        capabilities.set(Capabilities::IMMEDIATES, self.immediate_bytes > 0);
        capabilities
    }
}
