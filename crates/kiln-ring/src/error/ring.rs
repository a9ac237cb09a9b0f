//! What can go wrong with a runtime and its actors.

use super::channel::{ConfigError, SendError};
use super::checkpoint::CheckpointError;
use crate::lifecycle::Lifecycle;
use std::time::Duration;

/// The result of what a runtime does.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Result, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// /// An actor's runtime, with the actor active.
/// fn started(device: &str) -> Result<(RingRuntime, kiln_ring::Actor<double>)> {
///     let runtime = RingRuntime::new(&kiln_runtime::Device::open(device)?)?;
///     let actor = runtime.launch(double, RingConfig::default())?;
///     actor.activate()?;
///     Ok((runtime, actor))
/// }
///
/// let (_runtime, actor) = started("cpu")?;
/// assert_eq!(actor.ask(1)?, Some(2));
/// assert!(started("no device").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Result<T, E = RingError> = std::result::Result<T, E>;

/// Why a runtime or an actor could not do what it was asked to.
///
/// ```
/// use kiln_ring::{RingError, RingRuntime, RuntimeConfig};
/// let device = kiln_runtime::Device::open("cpu")?;
/// let error = RingRuntime::with(&device, RuntimeConfig::default().workers(1 << 20)).unwrap_err();
/// assert!(matches!(error, RingError::ConfigTooLarge { what: "workers", most: 65_536, .. }), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The device refused or failed.
    #[error(transparent)]
    Device(#[from] kiln_backend::Error),
    /// The runtime beneath refused or failed.
    #[error(transparent)]
    Runtime(Box<kiln_runtime::Error>),
    /// The queue cannot be made.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A handler is not well formed.
    #[error("the handlers {handlers} cannot be made resident:\n{}", problems.join("\n"))]
    Handler {
        /// The names of all handlers of the runtime.
        handlers: String,
        /// Every problem, with its place in the source.
        problems: Vec<String>,
    },
    /// A message has too many words for this device's workers.
    #[error(
        "{} {what} of handler `{handler}` takes {words} words beside its `Inline` arrays, and a worker of this device handles at most {most}: make arrays `Inline`, or send a `Payload`",
        if *what == "output" { "an" } else { "a" }
    )]
    MessageTooLarge {
        /// Message, reply, or output: what becomes of a message of another actor.
        what: &'static str,
        /// The handler.
        handler: &'static str,
        /// Its words, but for those of inline arrays.
        words: usize,
        /// The most there may be.
        most: usize,
    },
    /// No transport, or not the one that was named.
    #[error(
        "messages cannot get to {device}: {why}. `kiln doctor` says what there is; `Transport::Auto` takes the first that works"
    )]
    NoTransport {
        /// The device.
        device: String,
        /// What is wrong with each.
        why: String,
    },
    /// No worker has as many free places side by side as the actor has priorities: see
    /// [`endpoints_per_worker`](crate::RuntimeConfig::endpoints_per_worker).
    #[error(
        "no worker has {priorities} free places side by side, one for each priority of the actor, of {places} in all: terminate some, or give the runtime more with `endpoints_per_worker`"
    )]
    NoPlace {
        /// How many there are, of all workers.
        places: usize,
        /// How many priorities the actor was to have.
        priorities: usize,
    },
    /// All places of the actor's worker are taken, so that there is none for an inbound link: see
    /// [`endpoints_per_worker`](crate::RuntimeConfig::endpoints_per_worker).
    #[error(
        "all {places} places of the actor's worker are taken, and each inbound link needs one: give workers more with `endpoints_per_worker`, or the runtime more workers"
    )]
    NoEndpoint {
        /// How many a worker has.
        places: usize,
    },
    /// The actor belongs to another runtime.
    #[error("actor {actor} belongs to another runtime: a topic's subscribers are actors of its own")]
    Foreign {
        /// The actor.
        actor: u32,
    },
    /// A region of shared memory is used up.
    #[error(
        "the {region} has no {needed} contiguous bytes left (it has {size} in all): use smaller queues or payloads, or raise `RuntimeConfig::{region}_bytes`"
    )]
    OutOfRegion {
        /// Which.
        region: &'static str,
        /// What was asked for.
        needed: usize,
        /// Its size.
        size: usize,
    },
    /// A region of shared memory is to be larger than workers can address.
    #[error("the {region} cannot have {bytes} bytes: at most {most}, by `RuntimeConfig`")]
    RegionTooLarge {
        /// Which.
        region: &'static str,
        /// What was asked for.
        bytes: usize,
        /// The most there may be.
        most: usize,
    },
    /// A number of the configuration is larger than any device has use for.
    #[error("`RuntimeConfig::{what}` is {given}, the most is {most}")]
    ConfigTooLarge {
        /// The field.
        what: &'static str,
        /// Its value.
        given: u64,
        /// The most it may be.
        most: u64,
    },
    /// The actor is not in a state from which this can be done.
    #[error("actor {actor} is {is}: {what} needs one that is {needs}")]
    Illegal {
        /// The actor.
        actor: u32,
        /// What was asked for.
        what: &'static str,
        /// What it is.
        is: Lifecycle,
        /// What it must be.
        needs: &'static str,
    },
    /// The device did not answer in time.
    #[error(
        "worker {worker} did not acknowledge `{what}` within {waited:?}: a handler that does not end holds it up, or the device is lost"
    )]
    Unresponsive {
        /// The worker.
        worker: usize,
        /// What it was told.
        what: &'static str,
        /// How long the host waited.
        waited: Duration,
    },
    /// The reference stands for no array that is still there.
    #[error(
        "the payload is a reference to an array that is gone: keep a clone of it while replies may name it"
    )]
    PayloadGone,
    /// The array belongs to another runtime.
    #[error(
        "the state refers to a payload of another runtime: make payloads with the runtime whose actors use them"
    )]
    PayloadForeign,
    /// Actors of another runtime cannot send what refers to arrays.
    #[error(
        "messages of handler `{handler}` refer to payloads, which lie in the memory of one runtime: actors of another cannot send them. Send `Inline` arrays, or have the host copy the elements"
    )]
    PayloadAcross {
        /// The receiver's handler.
        handler: &'static str,
    },
    /// The workers stand in no block clusters.
    #[error(
        "the workers of {device} stand in no block clusters: {why}. `Actor::inbound_link` makes a queue in device memory"
    )]
    NoClusters {
        /// The device.
        device: String,
        /// Why not.
        why: &'static str,
    },
    /// Workers cannot be warps.
    #[error(
        "workers of {device} cannot be warps: it runs them in dispatches, in which each is one thread; leave `warps` as it is"
    )]
    NoWarps {
        /// The device.
        device: String,
    },
    /// Clusters have no such size.
    #[error("clusters of {size} workers: their size is a power of two from 1 to {most}")]
    ClusterSize {
        /// What was asked for.
        size: usize,
        /// The most.
        most: usize,
    },
    /// Queues in shared memory take no messages with arrays.
    #[error(
        "messages of handler `{handler}` have `Inline` arrays, which a queue in a cluster's shared memory does not take: make one in device memory with `Actor::inbound_link`"
    )]
    InlineInCluster {
        /// The handler.
        handler: &'static str,
    },
    /// Actors of one runtime cannot send to those of the other.
    #[error(
        "actors on `{from}` cannot send to actors on `{to}`: that works between GPUs of this process, and between runtimes on one `Device` on which kernels stay. Have the host pass the messages on"
    )]
    OutOfReach {
        /// The sender's device.
        from: String,
        /// The receiver's.
        to: String,
    },
    /// Others refer to the array.
    #[error(
        "the payload is in use: a message that refers to it is not answered yet, an actor has handed it on, or there is a clone of it. Receive the answer, or use another payload"
    )]
    PayloadInUse,
    /// Another number of elements.
    #[error("the payload has {len} elements, and {given} were given")]
    PayloadLength {
        /// How many it has.
        len: usize,
        /// How many were given.
        given: usize,
    },
    /// Messages were not handled in time.
    #[error("actor {actor} still had {left} messages to handle after {waited:?}")]
    NotDrained {
        /// The actor.
        actor: u32,
        /// How many.
        left: u64,
        /// How long the host waited.
        waited: Duration,
    },
    /// A checkpoint cannot be taken or used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The device, or a worker of it, is lost, and the actors with it.
    #[error("{device} is lost, and its actors with it: {reason}. `RingRuntime::recover` brings them back")]
    Lost {
        /// The device.
        device: String,
        /// Why.
        reason: String,
    },
    /// Nothing is lost that could be recovered.
    #[error("{device} is not lost: there is nothing to recover")]
    NotLost {
        /// The device.
        device: String,
    },
    /// A message of a checkpoint was not taken by the new actor's queue.
    #[error("a message of the checkpoint could not be sent: {0}")]
    Restore(SendError),
    /// The supervisor's thread could not be started.
    #[error("the supervisor's thread could not be started: {0}")]
    Supervisor(std::io::Error),
}

impl From<kiln_runtime::Error> for RingError {
    fn from(error: kiln_runtime::Error) -> RingError {
        RingError::Runtime(Box::new(error))
    }
}

// Returning it in a `Result` moves it: Clippy counts that as too much from 128 bytes on.
const _: () = assert!(size_of::<RingError>() < 128);
