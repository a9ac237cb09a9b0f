//! Runtimes: the resident grid of a device, and the actors in it.
//!
//! | file | holds |
//! |---|---|
//! | `config.rs` | [`RuntimeConfig`], [`RingConfig`] |
//! | `memory.rs`, `region.rs` | the memory that host and device share, and its free lists |
//! | `transport.rs`, `choose_transport.rs`, `probe.rs` | [`Transport`]; choosing and testing one |
//! | `endpoints.rs` | where a worker polls |
//! | `grid.rs` | the resident grid: compiling, launching, commanding workers |
//! | `control.rs` | commands to the grid by runtimes and actors, and changes of its program |
//! | `dispatch.rs` | how the grid goes on where no kernel stays on the device |
//! | `launch.rs` | bringing actors into being |
//! | `actor.rs`, `messages.rs` | [`Actor`]: life and death; sending, receiving, asking |
//! | `body.rs`, `device_side.rs` | an actor without its types; its side of the device |
//! | `ending.rs` | [`Ending`]: how actors end |
//! | `link.rs`, `link_sender.rs` | [`Actor::inbound_link`]: messages from actor to actor |
//! | `peer.rs`, `chain.rs` | links from other runtimes; links of topics |
//! | `output_ring.rs`, `outputs.rs` | [`Outputs`]: results of messages between actors |
//! | `output_future.rs`, `quiet.rs` | waiting for them |
//! | `cluster.rs`, `cluster_mate.rs` | [`Actor::inbound_link_in_cluster`]: links in shared memory |
//! | `ref_counts.rs` | which arrays there are, and which of them actors have handed on |
//! | `topic.rs`, `pool.rs`, `pool_future.rs` | [`Topic`], [`Pool`] |
//! | `restart_policy.rs`, `restart.rs` | whether and when a failed actor restarts; restarting it |
//! | `supervisor.rs` | the thread that looks after actors |
//! | `snapshot.rs` | [`Snapshot`]: actors that send to each other, all at one moment |
//! | `checkpoint.rs`, `capture.rs` | [`Checkpoint`]: saved state of an actor; how it is taken |
//! | `loss.rs` | lost devices, and how actors come back |
//! | `untaken.rs` | messages that a worker does not take, although it goes on |
//! | `events.rs` | [`Events`]: what happened to actors |
//! | `faults.rs` | what is said of checks that failed |
//! | `telemetry.rs` | reading what actors do |
//! | `park.rs` | grids without work leave the device |
//! | `limit.rs`, `worker_time.rs` | deadlines of calls; how long a worker was waited for |

mod actor;
mod body;
mod capture;
mod chain;
mod checkpoint;
mod choose_transport;
mod cluster;
mod cluster_mate;
mod config;
mod control;
mod device_side;
mod dispatch;
mod ending;
mod endpoints;
mod events;
mod faults;
mod grid;
mod launch;
mod limit;
mod link;
mod link_sender;
mod loss;
mod memory;
mod messages;
mod output_future;
mod output_ring;
mod outputs;
mod park;
mod peer;
mod pool;
mod pool_future;
mod probe;
mod quiet;
mod ref_counts;
mod region;
mod restart;
mod restart_policy;
mod snapshot;
mod supervisor;
mod telemetry;
mod topic;
mod transport;
mod untaken;
mod worker_time;

pub use actor::Actor;
pub use checkpoint::Checkpoint;
pub use cluster::MAX_CLUSTER;
pub use config::{RingConfig, RuntimeConfig};
pub use ending::Ending;
pub use events::{Event, Events, What};
pub use output_future::{OutputFuture, OutputManyFuture};
pub use outputs::Outputs;
pub use pool::{Pool, Routing};
pub use pool_future::{PoolFuture, PoolManyFuture, PoolSendManyFuture};
pub use restart_policy::{Backoff, Restart};
pub use snapshot::{AnyActor, Snapshot, Stages};
pub use topic::Topic;
pub use transport::{Transport, TransportChoice};

use crate::channel::{Channel, Protocol};
use crate::dead_letter::DeadLetters;
use crate::error::{Result, RingError};
use crate::handler::Handler;
use crate::layout::Layout;
use crate::payload::{Arena, Block, Hold, Payload, PayloadElem};
use crate::reason::Reason;
use crate::standing::StandingCell;
use crate::wire::record::cause;
use body::BodyConfig;
use endpoints::{Endpoint, Endpoints};
use events::Bus;
use faults::{Faults, Site};
use grid::Grid;
use kiln_backend::{Backend, Tenant};
use kiln_runtime::Device;
use link::InboundLinks;
use memory::{FreeRanges, SharedMemory};
use ref_counts::RefCounts;
use region::WordRange;
use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Instant;
use supervisor::{ShutdownGuard, Supervisor};
use telemetry::Registry;

/// The ring kernels of a device: one resident grid, and the actors in it.
///
/// Clones are the same runtime. The grid leaves the device when the last clone and the last actor
/// are gone.
///
/// Actors are launched, one by one or as a pool, and come back from checkpoints and snapshots:
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, Routing, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn total(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
///     *sum += x;
///     *sum
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(total, RingConfig::default().state(10))?;
/// actor.activate()?;
/// assert_eq!(actor.ask(1)?, Some(11));
///
/// // Three, each with a first state of its own, that share the messages.
/// let first = |i: usize| RingConfig::default().state(100 * i as u32);
/// let pool = runtime.pool(total, 3, Routing::RoundRobin, first)?;
/// pool.activate()?;
/// assert_eq!([pool.ask(1)?, pool.ask(1)?, pool.ask(1)?], [Some(1), Some(101), Some(201)]);
///
/// // One that goes on where another one was, and several at once.
/// actor.deactivate()?;
/// let config = RingConfig::default();
/// let again = runtime.restore(total, config, &actor.checkpoint()?)?;
/// again.activate()?;
/// assert_eq!(again.ask(1)?, Some(12));
/// let snapshot = runtime.snapshot(&[&actor, &pool.actors()[2]])?;
/// let (one, other) = runtime.restore_all(&snapshot, ((total, config), (total, config)))?;
/// one.activate()?;
/// other.activate()?;
/// assert_eq!((one.ask(1)?, other.ask(1)?), (Some(12), Some(202)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{DeadLetters, Events, RingConfig, RingCtx, RingRuntime, RuntimeConfig, Transport, TransportChoice, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// // What a runtime says of itself.
/// let device = kiln_runtime::Device::open("cpu")?;
/// let runtime = RingRuntime::with(&device, RuntimeConfig::default().transport(Transport::Ordered))?;
/// let choice: &TransportChoice = runtime.transport_choice();
/// assert_eq!((runtime.transport(), choice.transport), (Transport::Ordered, Transport::Ordered));
/// assert!(!runtime.is_lost() && runtime.parkings() == 0 && runtime.departures() == 0);
/// let events: Events = runtime.events();
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.activate()?;
/// assert_eq!(actor.ask(4)?, Some(8));
/// let happened = events.try_next().expect("the actor was activated");
/// assert_eq!((happened.actor, events.missed()), (Some(actor.number()), 0));
/// assert_eq!(runtime.telemetry()?.actors.len(), 1);
/// let letters: &DeadLetters = runtime.dead_letters();
/// assert!(letters.is_empty());
/// // Nothing is lost, and so nothing can be recovered.
/// assert!(runtime.recover().is_err() && runtime.recover_on(&device).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RingRuntime(
    Arc<Shared>,
    #[expect(dead_code, reason = "it matters when it is dropped, as the last part")] ShutdownGuard,
);

/// What a runtime and its actors share.
pub(crate) struct Shared {
    device: Device,
    /// Of this process's runtimes.
    number: u32,
    config: RuntimeConfig,
    /// Why the device is lost.
    loss: OnceLock<String>,
    /// A worker is.
    stalled: AtomicBool,
    /// Held while a kind of actor is compiled in.
    kinds: Mutex<()>,
    /// Whether the device runs only while the host lets it.
    within: bool,
    transport: TransportChoice,
    protocol: Protocol,
    memory: SharedMemory,
    free: Mutex<FreeRanges>,
    ref_counts: RefCounts,
    grid: Mutex<Grid>,
    /// What the sites of faults are, by their numbers from 1.
    sites: RwLock<Vec<Site>>,
    letters: Arc<DeadLetters>,
    events: Bus,
    supervisor: Arc<Supervisor>,
    /// Whose senders wake it, while it is parked.
    parked: Mutex<Vec<Weak<body::Body>>>,
    parkings: AtomicU64,
    departures: AtomicU64,
    /// A caller made room for which actors may wait, where nothing on the device checks for it.
    room: AtomicBool,
    actors: AtomicU32,
    /// All actors, for telemetry.
    registry: Registry,
    begun: Instant,
    measure_every: u32,
    /// Where the actors are that have not ended.
    places: Mutex<HashMap<u32, Endpoint>>,
}

impl fmt::Debug for RingRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingRuntime")
            .field("device", &self.0.device.id())
            .field("transport", &self.0.transport.transport)
            .field("lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

impl RingRuntime {
    /// A runtime with the default configuration.
    ///
    /// # Errors
    /// The device has no memory that it can share with the host, or too little memory; it cannot be
    /// reached by the transport that was named, or has no clusters of the size that was named. On
    /// a thread that captures a graph of the device it is `kiln_runtime::Error::Capture`, as is all
    /// that starts something there.
    #[track_caller]
    pub fn new(device: &Device) -> Result<RingRuntime> {
        RingRuntime::with(device, RuntimeConfig::default())
    }

    /// A runtime.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn with(device: &Device, config: RuntimeConfig) -> Result<RingRuntime> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        config.check()?;
        device.check_not_capturing("a runtime of ring kernels was made", Location::caller())?;
        let workers = config.workers_on(device)?;
        let (memory, free, transport) = choose_transport::choose(device, &config, workers)?;
        let protocol = transport.transport.protocol();
        let grid = Grid::new(device, &config, workers, transport.transport);
        let measure_every = grid.measure_every();
        let ref_counts = RefCounts::new(config.arena_bytes / 4);
        let shared = Arc::new(Shared {
            device: device.clone(),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            config,
            loss: OnceLock::new(),
            stalled: AtomicBool::new(false),
            kinds: Mutex::new(()),
            within: grid.is_within(),
            transport,
            protocol,
            memory,
            free: Mutex::new(free),
            ref_counts,
            grid: Mutex::new(grid),
            sites: RwLock::default(),
            letters: Arc::new(DeadLetters::new(config.dead_letters)),
            events: Bus::default(),
            supervisor: Arc::default(),
            parked: Mutex::default(),
            parkings: AtomicU64::new(0),
            departures: AtomicU64::new(0),
            room: AtomicBool::new(false),
            actors: AtomicU32::new(0),
            registry: Registry::default(),
            begun: Instant::now(),
            measure_every,
            places: Mutex::default(),
        });
        let tenant: Weak<dyn Tenant> = Arc::downgrade(&shared) as _;
        device.backend().need_residents()?.add_tenant(tenant);
        let shutdown_guard = ShutdownGuard::of(&shared);
        Ok(RingRuntime(shared, shutdown_guard))
    }

    /// An array of zeros in device memory, to be sent by reference. The memory is taken from
    /// [`RuntimeConfig::arena_bytes`].
    ///
    /// ```
    /// # use kiln_ring::RingRuntime;
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let mut zeros = runtime.payload::<f32>(3)?;
    /// assert_eq!(zeros.to_vec()?, [0.0; 3]);
    /// zeros.write(&[1.0, 2.0, 3.0])?;
    /// assert_eq!(zeros.to_vec()?, runtime.payload_of(&[1.0f32, 2.0, 3.0])?.to_vec()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No memory left; failures of the device.
    pub fn payload<T: PayloadElem>(&self, len: usize) -> Result<Payload<T>> {
        Ok(Payload::new(Block::new(Arc::clone(&self.0) as Arc<dyn Arena>, self.0.allocate(len)?)))
    }

    /// As [`payload`](Self::payload), with these elements.
    ///
    /// ```
    /// # use kiln_ring::RingRuntime;
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// assert_eq!(runtime.payload_of(&[1u32, 2])?.to_vec()?, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`payload`](Self::payload).
    pub fn payload_of<T: PayloadElem>(&self, data: &[T]) -> Result<Payload<T>> {
        let mut payload = self.payload(data.len())?;
        payload.write(data)?;
        Ok(payload)
    }

    /// Why a message was not handled, in words, with the place in the source where a check failed
    /// and `?` for each of its values. With the values, they stand in the error, the dead letter or
    /// the event of the message.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Reason, RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// assert_eq!(runtime.explain(Reason::Expired), Reason::Expired.to_string());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self, reason: Reason) -> String {
        self.0.explain(reason)
    }

    /// A reader of what happens to this runtime's actors from now on.
    pub fn events(&self) -> Events {
        self.0.events.subscribe()
    }

    /// How messages get to the device, and answers come back.
    pub fn transport(&self) -> Transport {
        self.0.transport.transport
    }

    /// Why it is that transport.
    pub fn transport_choice(&self) -> &TransportChoice {
        &self.0.transport
    }

    /// How often the grid left the device because there was nothing to do: see
    /// [`RuntimeConfig::park_after`].
    pub fn parkings(&self) -> u64 {
        self.0.parkings.load(Ordering::Relaxed)
    }

    /// How often the grid left the device to make room: for a program to be loaded, or for a kernel
    /// that needs more of a multiprocessor than the workers leave. Messages wait meanwhile. Many of
    /// them say that fewer [workers](RuntimeConfig::workers) would do better.
    pub fn departures(&self) -> u64 {
        self.0.departures.load(Ordering::Relaxed)
    }

    /// The messages that no handler finished.
    pub fn dead_letters(&self) -> &DeadLetters {
        &self.0.letters
    }

    /// Makes an actor of a handler: it is resident and holds its messages until it is
    /// [activated](Actor::activate). A handler that is new to this runtime is compiled in, for
    /// which the grid leaves for a moment; no message is lost by that.
    ///
    /// # Errors
    /// A handler that is not well formed; a queue that cannot be; no place or memory left; failures
    /// of the device; a graph of the device is being captured on this thread, which cannot hold an
    /// actor (`kiln_runtime::Error::Capture`).
    #[track_caller]
    pub fn launch<H: Handler>(&self, handler: H, config: RingConfig<H::State>) -> Result<Actor<H>> {
        self.0.check_not_capturing("an actor was launched")?;
        let (mut first_state, mut held) = (vec![0; H::State::WORDS], Vec::new());
        config.state.encode(&mut first_state);
        config.state.hold(&mut held);
        let RingConfig { channel, restart, resume, beside, .. } = config;
        let refers = !(H::State::PORTABLE && H::Message::PORTABLE);
        let holds = H::State::HOLDS || H::Message::HOLDS;
        let body_config = BodyConfig { channel, restart, resume, first_state, held, refers, holds, beside };
        let body = self.launch_erased(Arc::new(handler), body_config, holds || H::Reply::HOLDS)?;
        let channel = Channel::of(Arc::clone(&body.mailbox));
        Ok(Actor::new(body, channel))
    }
}

/// Ranges of the arena for payloads.
impl Shared {
    /// The arrays that a state refers to, once they are filled.
    fn held_by<S: Layout>(self: &Arc<Self>, state: &S) -> Result<Vec<Hold>> {
        let mut held = Vec::new();
        state.hold(&mut held);
        self.settle(&held)?;
        Ok(held)
    }

    /// Waits until arrays that a state refers to are filled, all of this runtime.
    fn settle(self: &Arc<Self>, held: &[Hold]) -> Result<()> {
        for hold in held {
            if !hold.settle(&**self)? {
                return Err(RingError::PayloadForeign);
            }
        }
        Ok(())
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        self.device.backend()
    }

    pub(crate) fn allocate_arena(&self, words: usize) -> Result<WordRange> {
        self.with_room(|| self.free().arena.allocate(words))
    }

    pub(crate) fn release_arena(&self, range: WordRange) {
        self.free().arena.release(range);
    }

    pub(crate) fn clear_arena(&self, range: WordRange) -> Result<()> {
        self.memory.clear_arena(range)
    }
}

impl Shared {
    /// Why a message was not handled, in words.
    fn explain(&self, reason: Reason) -> String {
        match reason {
            Reason::Failed { cause: cause::FAULT, number } => match self.said(number, &[]) {
                Some(said) => said,
                None => reason.to_string(),
            },
            other => other.to_string(),
        }
    }

    /// What failed at a check, with these of its values.
    fn said(&self, number: u32, values: &[u64]) -> Option<String> {
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        sites.get((number as usize).checked_sub(1)?).map(|site| site.said(values))
    }

    fn places(&self) -> MutexGuard<'_, HashMap<u32, Endpoint>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where an actor is, if it has not ended.
    fn place_of(&self, actor: u32) -> Option<Endpoint> {
        self.places().get(&actor).copied()
    }

    fn free(&self) -> MutexGuard<'_, FreeRanges> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocate_ranges(&self, inbox: usize, outbox: usize, state: usize) -> Result<[WordRange; 3]> {
        let mut free = self.free();
        let inbox = free.inbox.allocate(inbox)?;
        let outbox = match free.outbox.allocate(outbox) {
            Ok(range) => range,
            Err(error) => {
                free.inbox.release(inbox);
                return Err(error);
            }
        };
        match free.arena.allocate(state) {
            Ok(state) => Ok([inbox, outbox, state]),
            Err(error) => {
                free.inbox.release(inbox);
                free.outbox.release(outbox);
                Err(error)
            }
        }
    }

    /// Places, one for each priority, and memory for an actor: words of the inbox, the outbox and
    /// the arena.
    fn reserve(
        &self,
        priorities: usize,
        beside: Option<usize>,
        [inbox, outbox, arena]: [usize; 3],
    ) -> Result<(Endpoints, [WordRange; 3])> {
        let endpoints = self.grid().take_endpoints(priorities, beside)?;
        let ranges = self.allocate_ranges(inbox, outbox, arena);
        Ok((endpoints, ranges.inspect_err(|_| self.grid().give_endpoints(endpoints))?))
    }

    fn release_ranges(&self, [inbox, outbox, state]: [WordRange; 3]) {
        let mut free = self.free();
        free.inbox.release(inbox);
        free.outbox.release(outbox);
        free.arena.release(state);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.supervisor.end();
        // What is lost is not waited for, and nothing that it may still touch is freed. A process
        // of its own takes all that with it.
        if self.loss.get().is_some() || self.stalled.load(Ordering::Acquire) {
            self.end_ref_counts(false);
            if !self.device.is_isolated() {
                std::mem::forget(self.device.clone());
            }
            return;
        }
        let grid = self.grid.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Memory that a grid may still use is never freed: it is the device's until the process
        // ends.
        let left = grid.leave(&self.memory).is_ok();
        self.end_ref_counts(left);
        if left {
            // SAFETY: the grid has left, and actors, which hold ranges, hold this value.
            unsafe { self.memory.release() };
        }
    }
}

/// The device's side of an actor's channel: its place and its memory, for as long as the actor or a
/// channel to it is there.
pub(crate) struct Side {
    shared: Arc<Shared>,
    /// The actor's number.
    actor: u32,
    endpoints: Endpoints,
    /// Of the inbox, the outbox and the arena.
    ranges: [WordRange; 3],
    /// Whether a worker may use the place and the memory.
    resident: AtomicBool,
    inbound_links: InboundLinks,
    /// The state that callers of the actor wait on.
    standing: StandingCell,
    /// The actor, once it is made.
    body: OnceLock<Weak<body::Body>>,
    faults: Faults,
}

#[cfg(test)]
mod tests;
