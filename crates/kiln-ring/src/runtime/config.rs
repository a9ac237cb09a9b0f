//! How runtimes and actors are configured.

use super::cluster_mate::ClusterMate;
use super::restart_policy::Restart;
use super::transport::Transport;
use crate::channel::{ChannelConfig, Overflow, Replies, WaitPolicy};
use crate::error::{Result, RingError};
use kiln_backend::Residency;
use kiln_runtime::Device;
use std::time::Duration;

/// How a [`RingRuntime`](crate::RingRuntime) is set up. The defaults suit some thousand small
/// actors.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, RuntimeConfig, Transport, ring_kernel};
/// use std::time::Duration;
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let config = RuntimeConfig::default()
///     .workers(2)
///     .warps(false)
///     .endpoints_per_worker(8)
///     .transport(Transport::Pinned)
///     .park_after(Some(Duration::from_secs(1)))
///     .checkpoint_every(Duration::from_millis(500));
/// let runtime = RingRuntime::with(&kiln_runtime::Device::open("cpu")?, config)?;
/// assert_eq!(runtime.transport(), Transport::Pinned);
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.activate()?;
/// assert_eq!(actor.ask(21)?, Some(42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a configuration does nothing until something is made with it"]
pub struct RuntimeConfig {
    /// Workers: blocks of the resident grid, or threads of a CPU. At most 65,536. By default one
    /// cluster of them (of one worker, if [`cluster`](Self::cluster) is 1), but one for each
    /// multiprocessor where workers are [warps](Self::warps). Fewer leave room for kernels that
    /// need a multiprocessor for themselves: those take turns with a grid that is on all of them.
    pub workers: Option<usize>,
    /// Whether a worker is a warp of 32 threads that poll side by side, or one thread. By default a
    /// warp on a GPU with resident kernels (`cuda`), and one thread everywhere else.
    pub warps: Option<bool>,
    /// How many workers form a cluster: a power of two up to [`MAX_CLUSTER`](crate::MAX_CLUSTER),
    /// by default 1. Actors on workers of one cluster can send to queues in each other's shared
    /// memory ([`Actor::inbound_link_in_cluster`](crate::Actor::inbound_link_in_cluster)). GPUs
    /// from compute capability 9.0 on have clusters, and the interpreter. The number of
    /// workers is rounded up to whole clusters.
    ///
    /// The workers of a cluster leave the device together: where a handler does not end, none of
    /// them acknowledges the command.
    pub cluster: usize,
    /// Bytes of shared memory that each worker has for such queues, where workers form clusters: up
    /// to 1 MiB, and to what the device has; 8 KiB by default.
    pub cluster_bytes: usize,
    /// The queues that a worker can poll, up to 65,536; 64 by default. An actor takes one for each
    /// of its [priorities](crate::RingConfig::priorities), and one more for each [inbound
    /// link](crate::Actor::inbound_link) and each publisher of a topic that it subscribes to.
    pub endpoints_per_worker: usize,
    /// How messages get to the device and answers come back: by default the first way that the
    /// device has, and that passes its test.
    pub transport: Transport,
    /// Bytes for request rings, up to 16 GiB as of the next two; 16 MiB by default, as of these.
    pub inbox_bytes: usize,
    /// Bytes for answer rings.
    pub outbox_bytes: usize,
    /// Bytes of device memory for states, payloads and inbound links. Actors can hand on one
    /// payload at a time for each 4 KiB of it: 64 at least, and 16384 at most.
    pub arena_bytes: usize,
    /// The most steps that loops of a handler may take for one message: one more fails the actor. 0
    /// for no limit; 2^20 by default. The interpreter runs handlers within the host's waits, which
    /// an endless one would block for ever.
    pub step_budget: u32,
    /// The time that handling takes is measured for one in so many messages, rounded up to a power
    /// of two; 0 for none, 16 by default. See
    /// [`ActorTelemetry::handling`](crate::ActorTelemetry::handling).
    pub measure_every: u32,
    /// Polls without work after which a worker sleeps between polls; 65,536 by default. One whose
    /// actors can get no message, or that has none, sleeps at least 20 us after some 64: its polls
    /// would take of the bus that the others need.
    pub spins: u32,
    /// How long it then sleeps: up to a millisecond; 1 us by default.
    pub sleep: Duration,
    /// After how long without work the whole grid leaves the device, to come back with the next
    /// message, which then takes as long as a launch. `None` for never; 10 s by default.
    pub park_after: Option<Duration>,
    /// How long the host waits for an acknowledgement; 5 s by default. On a CPU, time in which a
    /// worker has no processor does not count, here and in [`stalled_after`](Self::stalled_after),
    /// where the system says so: Linux does.
    pub acknowledge_within: Duration,
    /// How many [dead letters](crate::DeadLetters) are kept; 1024 by default.
    pub dead_letters: usize,
    /// The longest time until the loss of an idle device is reported; 100 ms by default. (A command
    /// that waits for the device reports it sooner.)
    pub lost_within: Duration,
    /// How long a worker's heartbeat may stop before its actors count as lost, and how long one
    /// that goes on may leave a message of an active actor in its ring before that actor does; 10 s
    /// by default. It must be longer than any handler takes for a message, than 64 times `sleep`,
    /// and than 10 ms.
    pub stalled_after: Duration,
    /// How often the runtime takes checkpoints of its active actors by itself, where something has
    /// changed; `None`, the default, for never. An actor is held for that moment. Those whose
    /// messages or state refer to payloads or addresses, and those with inbound links, are left
    /// out: an event ([`What::NoCheckpoint`](crate::What::NoCheckpoint)) says so once for each.
    /// Take a [`Snapshot`](crate::Snapshot) of those together.
    pub checkpoint_every: Option<Duration>,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        RuntimeConfig {
            workers: None,
            warps: None,
            cluster: 1,
            cluster_bytes: 8 << 10,
            endpoints_per_worker: 64,
            transport: Transport::Auto,
            inbox_bytes: 16 << 20,
            outbox_bytes: 16 << 20,
            arena_bytes: 16 << 20,
            step_budget: 1 << 20,
            measure_every: 16,
            spins: 1 << 16,
            sleep: Duration::from_micros(1),
            park_after: Some(Duration::from_secs(10)),
            acknowledge_within: Duration::from_secs(5),
            dead_letters: 1024,
            lost_within: Duration::from_millis(100),
            stalled_after: Duration::from_secs(10),
            checkpoint_every: None,
        }
    }
}

/// The most workers of a runtime: more than any device runs side by side.
const MOST_WORKERS: u64 = 1 << 16;
/// The most actors of a worker.
const MOST_PORTS: u64 = 1 << 16;
/// The most bytes of shared memory of a worker: more than any device has.
const MOST_CLUSTER_BYTES: u64 = 1 << 20;
/// One measured message in so many: the largest power of two of 32 bits.
const MOST_MEASURE_EVERY: u64 = 1 << 31;

impl RuntimeConfig {
    /// Refuses numbers that later ones would overflow by. What is too much for a device the device
    /// refuses itself.
    pub(super) fn check(&self) -> Result<()> {
        let numbers = [
            ("workers", self.workers.unwrap_or(1) as u64, MOST_WORKERS),
            ("endpoints_per_worker", self.endpoints_per_worker as u64, MOST_PORTS),
            ("cluster_bytes", self.cluster_bytes as u64, MOST_CLUSTER_BYTES),
            ("measure_every", self.measure_every.into(), MOST_MEASURE_EVERY),
        ];
        match numbers.into_iter().find(|(_, given, most)| given > most) {
            Some((what, given, most)) => Err(RingError::ConfigTooLarge { what, given, most }),
            None => Ok(()),
        }
    }

    /// Whether a worker is a warp.
    pub(super) fn has_warps(&self, device: &Device) -> bool {
        let properties = device.properties();
        let gpu = properties.capabilities.is_simt() && properties.residency == Residency::Beside;
        self.warps.unwrap_or(gpu)
    }

    /// Sets the number of workers.
    pub fn workers(self, workers: usize) -> Self {
        RuntimeConfig { workers: Some(workers), ..self }
    }

    /// Sets whether a worker is a warp or a thread.
    pub fn warps(self, warps: bool) -> Self {
        RuntimeConfig { warps: Some(warps), ..self }
    }

    /// Sets how many queues a worker can poll: see
    /// [`endpoints_per_worker`](Self::endpoints_per_worker).
    pub fn endpoints_per_worker(self, endpoints: usize) -> Self {
        RuntimeConfig { endpoints_per_worker: endpoints, ..self }
    }

    /// Sets how often checkpoints are taken: see [`checkpoint_every`](Self::checkpoint_every).
    pub fn checkpoint_every(self, every: Duration) -> Self {
        RuntimeConfig { checkpoint_every: Some(every), ..self }
    }

    /// Sets how long the grid polls without work before it leaves the device; with `None` it stays.
    pub fn park_after(self, after: Option<Duration>) -> Self {
        RuntimeConfig { park_after: after, ..self }
    }

    /// Sets the transport of messages.
    pub fn transport(self, transport: Transport) -> Self {
        RuntimeConfig { transport, ..self }
    }
}

/// How an actor is launched: its first state, and its queue.
///
/// By default the state is `()`, and the queue has 1024 places of one priority, without deadlines,
/// at which senders wait for room. A handler that fails is not restarted.
///
/// ```
/// use kiln_ring::{Overflow, RingConfig};
///
/// let config = RingConfig::default().state(0u32).capacity(4096).overflow(Overflow::Reject);
/// # let _ = config;
/// ```
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Overflow, Replies, RingConfig, RingCtx, RingRuntime, SendOptions, WaitPolicy, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// // Two priorities, deadlines, threads that yield while they wait, and replies that nobody receives
/// // give way to other messages.
/// let config = RingConfig::default()
///     .capacity(4)
///     .overflow(Overflow::Block)
///     .priorities(2)
///     .deadlines(true)
///     .wait(WaitPolicy::default())
///     .replies(Replies::Discard);
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, config)?;
/// actor.activate()?;
/// for x in 0..100 {
///     actor.send_with(x, SendOptions::default().priority(1).deadline(u64::MAX))?;
/// }
/// assert_eq!(actor.ask(21)?, Some(42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a configuration does nothing until something is made with it"]
pub struct RingConfig<S = ()> {
    pub(crate) state: S,
    pub(crate) channel: ChannelConfig,
    pub(crate) restart: Restart,
    pub(crate) resume: bool,
    pub(crate) beside: Option<ClusterMate>,
}

impl Default for RingConfig {
    fn default() -> Self {
        RingConfig {
            state: (),
            channel: ChannelConfig::default(),
            restart: Restart::Never,
            resume: false,
            beside: None,
        }
    }
}

impl<S> RingConfig<S> {
    /// Sets the state that the actor begins with.
    pub fn state<T>(self, state: T) -> RingConfig<T> {
        let RingConfig { state: _, channel, restart, resume, beside } = self;
        RingConfig { state, channel, restart, resume, beside }
    }

    /// Sets the number of priorities, from 1 (the default) to
    /// [`MAX_PRIORITIES`](crate::MAX_PRIORITIES). A message has the lowest priority, 0, unless
    /// [`SendOptions::priority`](crate::SendOptions::priority) sets another.
    ///
    /// After each message the worker takes the next one from the highest non-empty priority. So a
    /// message of a higher priority overtakes all lower ones that have not begun. It waits for the
    /// message being handled and for earlier messages of its own priority. Messages of one priority
    /// are handled in the order in which they were sent. Messages of other actors have no priority:
    /// they are handled in turn with those of the host.
    ///
    /// All priorities share the [`capacity`](Self::capacity), but each has slots for that many
    /// messages, so an actor's memory grows with the number of priorities. Each priority also takes
    /// one of a worker's [`endpoints_per_worker`](crate::RuntimeConfig::endpoints_per_worker). A
    /// full actor makes room in its lowest priority: see [`Overflow`].
    pub fn priorities(self, priorities: usize) -> Self {
        RingConfig { channel: self.channel.priorities(priorities), ..self }
    }

    /// Sets the most messages that are under way, in all priorities together, from 1 to
    /// [`MAX_CAPACITY`](crate::MAX_CAPACITY); 1024 by default. A message is under way until its
    /// answer was received.
    pub fn capacity(self, capacity: usize) -> Self {
        RingConfig { channel: self.channel.capacity(capacity), ..self }
    }

    /// Sets what a send to a full queue does; by default it [waits](Overflow::Block).
    pub fn overflow(self, overflow: Overflow) -> Self {
        RingConfig { channel: self.channel.overflow(overflow), ..self }
    }

    /// Sets how threads of the host wait.
    pub fn wait(self, wait: WaitPolicy) -> Self {
        RingConfig { channel: self.channel.wait(wait), ..self }
    }

    /// Sets whether messages may have [deadlines](crate::SendOptions::deadline), for which each
    /// slot is 16 bytes longer; by default they have none.
    pub fn deadlines(self, deadlines: bool) -> Self {
        RingConfig { channel: self.channel.deadlines(deadlines), ..self }
    }

    /// Sets what becomes of replies without a request that waits for them; by default they are
    /// [kept](Replies::Keep).
    pub fn replies(self, replies: Replies) -> Self {
        RingConfig { channel: self.channel.replies(replies), ..self }
    }

    /// Sets what happens when the handler fails; by default it is [not restarted](Restart::Never).
    pub fn restart(self, restart: Restart) -> Self {
        RingConfig { restart, ..self }
    }

    /// Sets whether restarts by the [policy](Self::restart) keep the actor's state: it goes on with
    /// the state that it had before the message on which it failed. By default a restart begins
    /// with the state that the actor was launched with.
    ///
    /// Elements of arrays that the failed handler had replaced in place remain replaced.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Backoff, Restart, RingConfig, RingCtx, RingRuntime, ring_kernel};
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn quotients(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
    ///     *sum += 100 / x;
    ///     *sum
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let config = RingConfig::default().state(0).restart(Restart::Always(Backoff::NONE)).resume(true);
    /// let actor = runtime.launch(quotients, config)?;
    /// actor.activate()?;
    /// assert_eq!(actor.ask(10)?, Some(10));
    /// assert!(actor.ask(0).is_err());
    /// while actor.restarts() == 0 {
    ///     std::thread::yield_now();
    /// }
    /// assert_eq!(actor.ask(20)?, Some(15));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume(self, resume: bool) -> Self {
        RingConfig { resume, ..self }
    }
}
