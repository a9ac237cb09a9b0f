//! Why operations are refused, and what to do instead.

use crate::writer::Writer;
use kiln_backend::Error;
use kiln_ir::OpData;

/// Why operations are refused.
#[derive(Clone, Copy)]
pub(crate) enum Refused {
    /// They are of whole tiles.
    Tiles,
    /// They need addresses.
    Addresses,
    /// They are fault regions, which the compiler lowers.
    Regions,
    /// They order memory that others write meanwhile.
    Order,
    /// They read a clock.
    Time,
    /// They are text for NVIDIA's assembler.
    Ptx,
    /// They are of the explicit level, or of fragments of matrices.
    Explicit,
}

impl Refused {
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Refused::Tiles => "Lower the kernel to threads first.",
            Refused::Addresses => "Lower the kernel for a device that has no addresses.",
            Refused::Regions => "Lower the kernel to threads first: fault regions become branches.",
            Refused::Order => "There is no order among workgroups: launch twice.",
            Refused::Time => "Measure on the host.",
            Refused::Ptx => "Write it with operations of the language.",
            Refused::Explicit => "The explicit level is for NVIDIA GPUs: write the kernel over tiles.",
        }
    }
}

impl Writer<'_> {
    /// The error for an operation that no adapter has.
    pub(crate) fn refused(&self, op: &OpData, why: Refused) -> Error {
        self.unsupported(op, format!("`{}`", op.kind.mnemonic()), why.hint())
    }
}
