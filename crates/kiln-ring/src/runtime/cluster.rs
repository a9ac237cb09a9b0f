//! Clusters of workers: where actors stand in them, and queues in their shared memory.

use super::actor::Actor;
use super::cluster_mate::ClusterMate;
use super::config::{RingConfig, RuntimeConfig};
use super::link::Origin;
use super::memory::FreeRanges;
use super::region::{FreeList, WordRange};
use crate::address::Address;
use crate::device::Cluster;
use crate::error::{Result, RingError};
use crate::handler::Handler;
use kiln_backend::Residency;
use kiln_runtime::Device;

/// The most workers of a cluster, which every GPU with clusters has room for.
pub const MAX_CLUSTER: usize = 8;

/// Words of a worker's memory come in multiples of these.
const ALIGN: usize = 64;

impl RuntimeConfig {
    /// Sets how many workers form a cluster: see [`cluster`](Self::cluster).
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{RingConfig, RingCtx, RingRuntime, RuntimeConfig, ring_kernel};
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn double(_ctx: &RingCtx, x: u32) -> u32 {
    ///     x * 2
    /// }
    ///
    /// let config = RuntimeConfig::default().workers(2).clusters_of(2);
    /// let runtime = RingRuntime::with(&kiln_runtime::Device::open("interp")?, config)?;
    /// let actor = runtime.launch(double, RingConfig::default())?;
    /// actor.activate()?;
    /// assert_eq!(actor.ask(3)?, Some(6));
    /// // A CPU has no clusters.
    /// assert!(RingRuntime::with(&kiln_runtime::Device::open("cpu")?, config).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clusters_of(self, workers: usize) -> Self {
        RuntimeConfig { cluster: workers, ..self }
    }

    /// The clusters that a plan has.
    pub(crate) fn clusters(&self) -> Option<Cluster> {
        let words = (self.cluster_bytes / 4).next_multiple_of(ALIGN).max(ALIGN);
        (self.cluster > 1).then_some(Cluster { workers: self.cluster as u32, words })
    }

    /// How many workers a device gets, as whole clusters.
    pub(super) fn workers_on(&self, device: &Device) -> Result<usize> {
        let properties = device.properties();
        let size = self.cluster;
        if !size.is_power_of_two() || size > MAX_CLUSTER {
            return Err(RingError::ClusterSize { size, most: MAX_CLUSTER });
        }
        if size > 1 && !has_clusters(device) {
            return Err(RingError::NoClusters {
                device: device.id().to_owned(),
                why: "it has none; GPUs from compute capability 9.0 on do",
            });
        }
        if self.has_warps(device) && properties.residency == Residency::Dispatched {
            return Err(RingError::NoWarps { device: device.id().to_owned() });
        }
        Ok(match self.workers {
            Some(workers) => workers.max(1).next_multiple_of(size),
            None if self.has_warps(device) && properties.capabilities.is_simt() => {
                (properties.units as usize / size * size).max(size)
            }
            None => size,
        })
    }
}

/// Whether blocks on a device can form clusters.
pub(super) fn has_clusters(device: &Device) -> bool {
    device.properties().capabilities.has_clusters()
}

impl FreeRanges {
    /// Each worker's memory for rings, all of which is free.
    pub(super) fn of_workers(config: &RuntimeConfig, workers: usize) -> Vec<FreeList> {
        let lists = |words| (0..workers).map(|_| FreeList::new("cluster's memory", words, 0)).collect();
        config.clusters().map(|cluster| cluster.words).map(lists).unwrap_or_default()
    }

    /// Releases a ring of a worker, which lay in its own memory or in the arena.
    pub(super) fn release_ring(&mut self, worker: Option<usize>, ring: WordRange) {
        match worker {
            Some(worker) => self.near[worker].release(ring),
            None => self.arena.release(ring),
        }
    }
}

impl<S> RingConfig<S> {
    /// Puts the actor on a worker of the same [cluster](RuntimeConfig::cluster) as another actor of
    /// the runtime, on the one that has the fewest actors; where workers stand in no clusters, on
    /// the same worker. If the other actor has ended, or belongs to another runtime, it counts for
    /// nothing.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{RingConfig, RingCtx, RingRuntime, RuntimeConfig, ring_kernel};
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn double(_ctx: &RingCtx, x: u32) -> u32 {
    ///     x * 2
    /// }
    ///
    /// // Two workers, each with an actor and another one beside it.
    /// let config = RuntimeConfig::default().workers(2);
    /// let runtime = RingRuntime::with(&kiln_runtime::Device::open("cpu")?, config)?;
    /// let one = runtime.launch(double, RingConfig::default())?;
    /// let other = runtime.launch(double, RingConfig::default().beside(&one))?;
    /// other.activate()?;
    /// assert_eq!(other.ask(3)?, Some(6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn beside<H: Handler>(self, actor: &Actor<H>) -> Self {
        let side = &actor.body.side;
        RingConfig { beside: Some(ClusterMate::of(&side.shared, side.actor)), ..self }
    }
}

impl<H: Handler> Actor<H> {
    /// As [`inbound_link`](Self::inbound_link), with the queue in the shared memory of the actor's
    /// worker, where a message is there sooner. The sender must be an actor on a worker of the same
    /// cluster, as [`RingConfig::beside`] has it; the handler of any other fails when it sends to
    /// the address.
    ///
    /// The memory is part of [`RuntimeConfig::cluster_bytes`]. Messages in the queue survive that
    /// the grid leaves the device and comes back: they go to device memory and back.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Address, RingConfig, RingCtx, RingRuntime, RuntimeConfig, ring_kernel};
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
    /// // On a GPU of compute capability 9.0 or newer: `cuda:0`.
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let runtime = RingRuntime::with(&device, RuntimeConfig::default().clusters_of(2))?;
    /// let last = runtime.launch(total, RingConfig::default().state(0))?;
    /// // Where there are no clusters, a queue in device memory would do: `.or_else(|_| last.inbound_link(64))`.
    /// let to = last.inbound_link_in_cluster(64)?;
    /// let first = runtime.launch(square, RingConfig::default().state(to).beside(&last))?;
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
    /// As of [`inbound_link`](Self::inbound_link); [`RingError::NoClusters`] where workers
    /// stand in none; [`RingError::InlineInCluster`] for messages with [`Inline`](crate::Inline)
    /// arrays.
    pub fn inbound_link_in_cluster(&self, capacity: usize) -> Result<Address<H::Message>> {
        let shared = &self.body.side.shared;
        if shared.config.clusters().is_none() {
            return Err(RingError::NoClusters {
                device: shared.device.id().to_owned(),
                why: "the runtime was made without; give it some with `RuntimeConfig::cluster`",
            });
        }
        let kind = self.body.kind();
        if !kind.handler.inlines().message.is_empty() {
            return Err(RingError::InlineInCluster { handler: kind.handler.signature().name });
        }
        let (link, serial) = self.body.add_inbound_link(capacity, Origin::Cluster)?;
        Ok(Address::new(link, serial))
    }
}
