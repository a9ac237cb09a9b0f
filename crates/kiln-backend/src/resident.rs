//! Resident kernels: launches that may run for ever.

use crate::{Launch, Program, Result};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A resident launch of a device. Numbers are not used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResidentId(pub u64);

/// What a block of a resident launch has had of a processor that it shares with other threads.
///
/// A block that makes no progress either does not end its work or has not had a processor: this
/// distinguishes the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTime {
    /// The processor time that the block has had. The system may round it to 10 ms.
    pub ran: Duration,
    /// Whether the block runs, or would run if it had a processor. One that sleeps, that waits for
    /// something else, or that has ended does not.
    pub runnable: bool,
}

/// Launches that may run for ever: [`Backend::residents`](crate::Backend::residents).
pub trait Residents {
    /// Launches a kernel that may run for ever: apart from every stream, with all its blocks at
    /// once, from after the work that is now in `launch.stream`.
    /// [`synchronize`](crate::Backend::synchronize) waits for none of it.
    /// [`Properties::residency`](crate::Properties::residency) says whether it runs beside the host
    /// at all, and whether it must end by itself. The device holds on to the program until the
    /// launch is over; a process that ends does not wait for it.
    ///
    /// # Errors
    /// Those of [`launch`](crate::Backend::launch), and
    /// [`Error::LaunchLimit`](crate::Error::LaunchLimit) for more blocks than can run at once.
    ///
    /// # Safety
    /// As for [`launch`](crate::Backend::launch): the memory of the views lives until
    /// [`resident_done`](Self::resident_done) or [`resident_wait`](Self::resident_wait) has said
    /// that the launch is over.
    unsafe fn launch_resident(&self, program: &Arc<dyn Program>, launch: Launch<'_>) -> Result<ResidentId>;

    /// Whether a resident launch is over. Once it is, its first fault is reported, by the first
    /// call that finds out; later calls say `true`.
    fn resident_done(&self, id: ResidentId) -> Result<bool>;

    /// Waits for a resident launch at most this long, and says whether it is over, as
    /// [`resident_done`](Self::resident_done) does.
    fn resident_wait(&self, id: ResidentId, timeout: Duration) -> Result<bool>;

    /// Returns how much processor time a block of a resident launch has had, where blocks share
    /// processors with other threads of the system. `None` where they do not, and where the system
    /// does not say.
    fn block_time(&self, id: ResidentId, block: u64) -> Option<BlockTime> {
        let _ = (id, block);
        None
    }

    /// Registers who can end resident launches for a moment. A device that cannot load a program
    /// beside them requests that every tenant leave first, also those that other backends of it
    /// have; without one, [`compile`](crate::Backend::compile) and [`load`](crate::Artifacts::load)
    /// fail there while a resident launch runs. So does
    /// [`create_stream`](crate::Backend::create_stream), if the device has no room for one more.
    fn add_tenant(&self, tenant: Weak<dyn Tenant>);
}

/// The owner of resident launches on a device, which makes room for a moment when the device
/// requests it.
///
/// Some devices cannot do everything beside a resident kernel: NVIDIA's driver does not load a
/// program before every kernel of the process has ended.
/// [`Backend::add_tenant`](Residents::add_tenant) registers a tenant.
///
/// The calls come from within [`Backend::compile`](crate::Backend::compile),
/// [`Backend::load`](crate::Artifacts::load) and
/// [`Backend::create_stream`](crate::Backend::create_stream), on whatever thread made those, and
/// from where a device is opened once more: neither method may do any of these, nor wait for a lock
/// whose holder does.
pub trait Tenant: Send + Sync {
    /// Ends the tenant's resident launches, and returns when
    /// [`Backend::resident_done`](Residents::resident_done) has said so of each. What they
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
