//! Links between two runtimes: on two GPUs, or two grids of one.
//!
//! The ring of such an inbound link lies at the receiver, as every inbound link's does; the
//! sender's cursor lies in a record of its own arena. So both poll and count in memory of their
//! own, and what goes from one GPU to the other is the messages, and, where the ring seems full,
//! one word back.

use super::RingRuntime;
use super::Shared;
use super::actor::Actor;
use super::link::Origin;
use crate::address::Address;
use crate::error::{Result, RingError};
use crate::handler::Handler;
use kiln_backend::{Residency, Tenant};
use std::sync::Arc;

impl Shared {
    /// Lets kernels of this runtime's device write the arena of another runtime.
    fn reach(&self, other: &Shared) -> Result<()> {
        let (from, to) = (self.device.properties(), other.device.properties());
        let same = std::ptr::addr_eq(self.backend(), other.backend());
        if same && from.residency == Residency::Beside {
            return Ok(());
        }
        // A GPU in another process, which has addresses of its own, has no peer access.
        if !from.capabilities.peer_access || !to.capabilities.peer_access {
            return Err(RingError::OutOfReach { from: from.id.clone(), to: to.id.clone() });
        }
        if from.id != to.id {
            // The driver may wait for the kernels of both.
            let away = Away::of(other)?;
            let reached = self.backend().need_peers().and_then(|peers| peers.enable_peer_access(to));
            drop(away);
            reached?;
        }
        Ok(())
    }
}

/// A runtime whose grid is away; it comes back when this is dropped.
struct Away<'a>(&'a Shared);

impl Away<'_> {
    fn of(runtime: &Shared) -> Result<Away<'_>> {
        let away = Away(runtime);
        runtime.leave()?;
        Ok(away)
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.come_back();
    }
}

impl<H: Handler> Actor<H> {
    /// As [`inbound_link`](Self::inbound_link), for an actor of another runtime: of another GPU,
    /// which then writes to this one's memory, or of another grid on the same device.
    ///
    /// The first time it has both grids leave and come back. Runtimes on CUDA devices can be joined
    /// so where the GPUs reach each other (NVLink, or PCIe with peer access), and runtimes on one
    /// [`Device`](kiln_runtime::Device) of the CPU or in a process of its own.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Address, RingConfig, RingCtx, RingRuntime, ring_kernel};
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn square(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
    ///     ctx.send(next, x * x);
    /// }
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn total(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
    ///     *sum += x;
    ///     *sum
    /// }
    ///
    /// // On a machine with two GPUs: `cuda:0` and `cuda:1`.
    /// let device = kiln_runtime::Device::open("cpu")?;
    /// let (here, there) = (RingRuntime::new(&device)?, RingRuntime::new(&device)?);
    /// let last = there.launch(total, RingConfig::default().state(0))?;
    /// let first = here.launch(square, RingConfig::default().state(last.inbound_link_from(&here, 64)?))?;
    /// last.activate()?;
    /// first.activate()?;
    /// first.send(3)?;
    /// first.send(4)?;
    /// assert_eq!([last.outputs().recv(), last.outputs().recv()], [Ok(9), Ok(25)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As of [`inbound_link`](Self::inbound_link); [`RingError::PayloadAcross`] for
    /// messages that refer to arrays; and [`RingError::OutOfReach`] where the other runtime's
    /// device cannot write to this one's memory.
    pub fn inbound_link_from(&self, sender: &RingRuntime, capacity: usize) -> Result<Address<H::Message>> {
        let receiver = &self.body.side.shared;
        if Arc::ptr_eq(&sender.0, receiver) {
            return self.inbound_link(capacity);
        }
        let kind = self.body.kind();
        if !kind.handler.references().message.is_empty() {
            return Err(RingError::PayloadAcross { handler: kind.handler.signature().name });
        }
        sender.0.reach(receiver)?;
        sender.0.open_peers()?;
        let (link, serial) = self.body.add_inbound_link(capacity, Origin::Runtime(&sender.0))?;
        Ok(Address::new(link, serial))
    }
}
