//! Kernels that stay: launches that may run for ever.

use crate::Result;
use std::time::Duration;

/// A resident launch of a device. Numbers are not used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResidentId(pub u64);

/// What a block of a resident launch has had of a processor that it shares with other threads.
///
/// A block that makes no progress either does not end its work or has not had a processor: the two
/// are told apart by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTime {
    /// The processor time that the block has had. The system may round it to 10 ms.
    pub ran: Duration,
    /// Whether the block runs, or would run if it had a processor. One that sleeps, that waits for
    /// something else, or that has ended does not.
    pub runnable: bool,
}

/// How a device runs a [resident launch](crate::Backend::launch_resident).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Residency {
    /// Beside the host and beside other launches, all blocks at once. The kernel may run until it
    /// is told to leave.
    Beside,
    /// Within the call, one block after another. The kernel must leave by itself, for instance
    /// after a number of polls, and is launched again.
    Within,
}

/// Somebody whose resident launches stay on a device, and who makes room for a moment when the
/// device asks.
///
/// Some devices cannot do everything beside a kernel that stays: NVIDIA's driver does not load a
/// program before every kernel of the process has ended.
/// [`Backend::add_tenant`](crate::Backend::add_tenant) makes a tenant known.
///
/// The calls come from within [`Backend::compile`](crate::Backend::compile) and
/// [`Backend::load`](crate::Backend::load), on whatever thread made those: neither method may
/// compile or load, nor wait for a lock that somebody holds who does.
pub trait Tenant: Send + Sync {
    /// Ends the tenant's resident launches, and returns when
    /// [`Backend::resident_done`](crate::Backend::resident_done) has said so of each. What they
    /// need to go on is kept where the next launch finds it. Called from any thread, and by a
    /// device never again before [`come_back`](Self::come_back).
    ///
    /// # Errors
    /// Where a launch does not end. Then what the device was asked for fails with this error, and
    /// `come_back` follows all the same.
    fn leave(&self) -> Result<()>;

    /// Launches them again.
    fn come_back(&self);
}
