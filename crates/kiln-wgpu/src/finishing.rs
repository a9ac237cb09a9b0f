//! How a module is finished for a driver of Vulkan: which of naga's checks it keeps, and how floats
//! are computed.

use crate::features::Features;
use crate::float_modes::FloatModes;
use kiln_ir::{Bounds, Kernel, OpKind};

/// How naga's words of a module are finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Finishing {
    pub(crate) modes: FloatModes,
    /// Whether the driver may make multiply-adds of products and sums.
    pub(crate) contract: bool,
    /// Whether naga limits the rounds of loops.
    pub(crate) limits_loops: bool,
    /// Whether naga checks indices.
    pub(crate) checks_indices: bool,
}

impl Finishing {
    /// That of a kernel which was lowered to threads. Nothing is known of its indices.
    pub(crate) fn of(kernel: &Kernel, features: Features) -> Option<Finishing> {
        let mut has_while = false;
        kernel.walk(|_, data| has_while |= data.kind == OpKind::While);
        // A multiply-add that is computed from parts depends on how these are rounded.
        let fuses = features.exact_multiply_adds && (features.exact_doubles || !features.float64);
        Some(Finishing {
            modes: features.float_modes?,
            contract: kernel.contract && fuses,
            limits_loops: has_while,
            checks_indices: true,
        })
    }
}

/// Whether the author of a kernel vouches for an index, which nothing checks then.
pub(crate) fn has_unchecked_index(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(|_, data| {
        found |= data.kind.bounds() == Some(Bounds::Trust) || matches!(data.kind, OpKind::Linear { .. });
    });
    found
}
