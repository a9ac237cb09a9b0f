//! Kernels that stay: launches that may run for ever.

/// A resident launch of a device. Numbers are not used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResidentId(pub u64);

/// How a device runs a [resident launch](crate::Backend::launch_resident).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Residency {
    /// Beside the host and beside other launches, all blocks at once. The kernel may run until it is told to leave.
    Beside,
    /// Within the call, one block after another. The kernel must leave by itself, for instance after a number of polls, and is launched again.
    Within,
}
