//! What actors do, read while they do it.
//!
//! | file | holds |
//! |---|---|
//! | `folder.rs` | [`telemetry_dir`]: where files are published; their format |
//! | `histogram.rs` | [`Histogram`] |
//! | `prometheus.rs` | the Prometheus text format |
//! | `publish.rs` | [`Publisher`]: a file that is written again and again |

mod folder;
mod histogram;
mod prometheus;
mod publish;

pub use folder::{read_telemetry, telemetry_dir};
pub use histogram::Histogram;
pub use publish::Publisher;

use crate::channel::Counts;
use crate::lifecycle::Lifecycle;
use crate::runtime::Transport;
use std::time::{Duration, Instant};

/// What an actor has done: [`Actor::telemetry`](crate::Actor::telemetry).
///
/// The device keeps the number of messages, the failures and the handling times, and the host reads
/// them by a copy: the worker does not stop for it.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{ActorTelemetry, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.activate()?;
/// let before: ActorTelemetry = actor.telemetry()?;
/// for x in 0..100 {
///     actor.ask(x)?;
/// }
/// actor.deactivate()?;
/// let after = actor.telemetry()?;
/// assert_eq!((after.processed - before.processed, after.failed, after.depth), (100, 0, 0));
/// assert!(after.throughput_since(&before).is_some_and(|messages| messages > 0.0));
/// assert_eq!(before.throughput_since(&after), None); // the later reading comes first
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ActorTelemetry {
    /// The actor's number.
    pub actor: u32,
    /// The name of its handler.
    pub handler: &'static str,
    /// Where it is in its life.
    pub lifecycle: Lifecycle,
    /// How often it was restarted.
    pub restarts: u64,
    /// When this was read.
    pub read_at: Instant,
    /// How long ago it was launched.
    pub uptime: Duration,
    /// Messages that the device is done with: handled, or given back with a reason.
    pub processed: u64,
    /// Of these, those that other actors sent.
    pub received: u64,
    /// Of the messages done with, the ones that the handler did not answer: it failed, or they were
    /// dropped, expired or given back. Modulo 2^32.
    pub failed: u32,
    /// Messages that the host sent, and that the device is not done with.
    pub depth: u64,
    /// Of these, those of each priority, from the lowest.
    pub depths: Vec<u64>,
    /// What the host's side of its queue counts, with dropped and expired messages by themselves.
    /// It counts them when it takes the answers.
    pub counts: Counts,
    /// The times from when a message was seen by the worker until its answer had left, of one in
    /// [`measure_every`](crate::RuntimeConfig::measure_every) messages. On a GPU the clock may
    /// advance in steps, of a microsecond at worst.
    pub handling: Histogram,
    /// Why the handler failed last, with the place in its source.
    pub last_failure: Option<String>,
}

impl ActorTelemetry {
    /// Messages a second since an earlier reading; `None` if no time passed, or if `earlier` is the
    /// later one.
    pub fn throughput_since(&self, earlier: &ActorTelemetry) -> Option<f64> {
        let seconds = self.read_at.checked_duration_since(earlier.read_at)?.as_secs_f64();
        (seconds > 0.0).then(|| self.processed.saturating_sub(earlier.processed) as f64 / seconds)
    }
}

/// What all actors of a runtime have done:
/// [`RingRuntime::telemetry`](crate::RingRuntime::telemetry).
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, RuntimeTelemetry, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actors = [runtime.launch(double, RingConfig::default())?, runtime.launch(double, RingConfig::default())?];
/// actors[1].send_many(&[1, 2, 3])?; // which nobody has activated
/// let read: RuntimeTelemetry = runtime.telemetry()?;
/// assert_eq!(read.actors.iter().map(|actor| actor.depth).collect::<Vec<_>>(), [0, 3]);
/// assert_eq!((read.transport, read.dead_letters), (runtime.transport(), 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuntimeTelemetry {
    /// The device's name.
    pub device: String,
    /// Identifies the runtime among all on this machine: the number of the process, and the
    /// runtime's own in it.
    pub runtime: String,
    /// How messages get there, and answers come back.
    pub transport: Transport,
    /// How long the runtime has been there.
    pub uptime: Duration,
    /// The handling time of one in so many messages is measured; 0 for none.
    pub measure_every: u32,
    /// How many dead letters ever arrived.
    pub dead_letters: u64,
    /// Its actors, terminated ones too as long as there is a handle on them.
    pub actors: Vec<ActorTelemetry>,
}
