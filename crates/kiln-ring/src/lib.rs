//! Ring kernels: actors that are resident on a device and handle messages.
//!
//! A ring kernel is a handler, written in the kernel language, that is resident on the device with
//! its state. The host sends it typed messages and takes its replies through lock-free queues,
//! without launching anything.
//!
//! ```
//! use kiln_lang::prelude::*;
//! use kiln_ring::{Message, RingCtx, State, ring_kernel};
//!
//! #[derive(Message)]
//! #[kiln(crate = kiln_ring)]
//! struct Sample { channel: u32, value: f32 }
//!
//! #[derive(Message)]
//! #[kiln(crate = kiln_ring)]
//! struct Alert { channel: u32, z: f32 }
//!
//! #[derive(State)]
//! #[kiln(crate = kiln_ring)]
//! struct Stats { n: u32, mean: f32, m2: f32 }
//!
//! /// Raises an alert for a value that lies far from the mean of those before it (Welford's method).
//! #[ring_kernel(crate = kiln_ring)]
//! fn detect(ctx: &RingCtx, s: &mut Stats, m: Sample) -> Option<Alert> {
//!     s.n += 1;
//!     let delta = m.value - s.mean;
//!     s.mean += delta / s.n.cast::<f32>();
//!     s.m2 += delta * (m.value - s.mean);
//!     if s.n < 8 {
//!         return None;
//!     }
//!     let z = delta / (s.m2 / (s.n - 1).cast::<f32>()).sqrt();
//!     if z.abs() > 3.0 { Some(Alert { channel: m.channel, z }) } else { None }
//! }
//!
//! use kiln_ring::{Overflow, RingConfig, RingRuntime};
//!
//! let device = kiln_runtime::Device::open("cpu")?; // or cuda:0: the same actor on a GPU
//! let runtime = RingRuntime::new(&device)?;
//! let config = RingConfig::default().state(Stats { n: 0, mean: 0.0, m2: 0.0 }).capacity(256).overflow(Overflow::Block);
//! let actor = runtime.launch(detect, config)?;     // resident: it holds its messages
//! actor.activate()?;                               // and now it handles them
//! for i in 0..100 {
//!     actor.send(Sample { channel: 3, value: if i == 90 { 50.0 } else { (i % 5) as f32 } })?;
//! }
//! let alert = actor.recv()?;
//! assert!(alert.channel == 3 && alert.z > 8.0);
//! actor.terminate()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to begin
//!
//! - Launch handlers, and end them: [`RingRuntime`], [`RingConfig`], [`Actor`], [`Ending`].
//! - Send, receive and ask: [`Actor::send`], [`Actor::recv`] and [`Actor::ask`]; each also with a
//!   limit, of many, and as a future.
//! - Order messages, and bound them: [`SendOptions`], [`Overflow`], [`Replies`], [`WaitPolicy`].
//! - Pass arrays: [`Inline`] in a message, [`Payload`] by reference; [`RingCtx::array`] opens both.
//! - Send from actor to actor: [`Actor::inbound_link`] makes an [`Address`] for [`RingCtx::send`];
//!   [`Outputs`] has the replies, and a [`Topic`] several receivers.
//! - Divide work among actors: [`Pool`].
//! - Learn what failed, and go on: [`DeadLetters`], [`Restart`], [`Actor::link`], [`Events`].
//! - Keep actors, or move them: [`Checkpoint`], [`Snapshot`], [`RingRuntime::recover`].
//! - See what actors do: [`Actor::telemetry`], [`RingRuntime::publish`].
//! - Reach something else than a device of Kiln's: [`Channel`], [`DeviceSide`], [`slot`].
//!
//! # The source
//!
//! | file | holds |
//! |---|---|
//! | `layout.rs` | [`Layout`]: what types are in memory, and on the device |
//! | `message.rs` | [`Message`], [`State`] |
//! | `outcome.rs` | what a handler returns: [`DeviceOption`], [`DeviceResult`], [`Outcome`] |
//! | `handler.rs` | [`Handler`], [`RingCtx`], handlers without their types |
//! | `payload/` | [`Payload`], [`Inline`]: arrays in device memory and in messages |
//! | `address.rs`, `outgoing.rs` | [`Address`]: what handlers send to other actors |
//! | `wire/` | what host and device share: [`slot`]s, records, commands; imports nothing |
//! | `error/`, `reason.rs` | what can go wrong; why a message was not handled |
//! | `standing.rs`, `lifecycle.rs` | whether an actor answers; its states |
//! | `channel/` | [`Channel`]: the host's side of a queue |
//! | `device/` | the device's side: the resident kernel |
//! | `runtime/` | [`RingRuntime`], [`Actor`]: resident grids and the actors in them |
//! | `telemetry/` | [`RuntimeTelemetry`]: what actors do, read while they do it |
//! | `dead_letter.rs` | [`DeadLetters`]: messages that no handler finished |
//!
//! # How it works
//!
//! A resident grid is one kernel, traced from `device/` like any other: the loop of a *worker*,
//! with the handlers of all kinds of actors inlined in fault regions. The same loop serves a warp
//! of a GPU, a thread of a CPU, and the interpreter, which runs it for a bounded number of polls
//! whenever the host waits, as do GPUs without resident kernels.
//!
//! What the kernel is made for (its kinds of actors, its lanes, its transport) is a host constant
//! while it is traced. An `if` on such a constant is written `if host(plan.lanes > 1)`; every other
//! `if` in `device/` is a branch of the kernel.
//!
//! **Channels.** A *channel* is a ring of requests and a ring of answers with as many slots. The
//! answer to request *i* stands in slot *i*, so the position correlates the two. A slot is free
//! when the host has taken its answer. Flow control is the host's alone, and the device never waits
//! for room. Each priority is a channel of its own, at an endpoint next to those of the actor's
//! other priorities, the highest first. The top byte of a position names the priority. After each
//! message the worker takes the next one from the highest non-empty priority. The host limits all
//! priorities together by credits.
//!
//! **Slots** are quads of 16 bytes with a stamp in each. An aligned 16-byte store arrives whole, so
//! a slot whose stamps all match is complete: no fences, and no message is seen in part. The
//! queue's code runs under loom, and the protocol is a model of which every state is visited.
//!
//! **Transports.** A *transport* is how messages get to a device: device memory that the host
//! writes through the BAR, pinned host memory, or pinned memory with release and acquire, which
//! needs no whole quads. Where the device is not the host's own processor, the first two are tested
//! when a runtime is made, before anything is resident: both sides write quads while the other
//! polls them, by the code that messages go by. An assembler splits a relaxed load of four words of
//! which some are not used, so such loads are volatile in PTX.
//!
//! **Dispatches.** Where a device has no resident kernels, the same workers run in dispatches,
//! which end by themselves: after so many polls without work, or so many turns
//! (`runtime/dispatch.rs`). Inbox and outbox are copies then, which each dispatch brings up to
//! date. Nothing else accesses a worker's memory meanwhile, so that its kernel needs neither whole
//! quads nor orders (`device/dispatched.rs`); workers between which there are links are dispatched
//! one after the other. The clock is the time at which the dispatch began.
//!
//! **Latency.** A worker prefetches what a message will need (its endpoint's record, the answer's
//! slot and stamp, the first words of the state) into registers before the message arrives, and
//! uses it for the first message of a poll (`device/prefetch.rs`). It caches the record of the link
//! that it sends to next in registers (`device/route.rs`) until the next command: only commands
//! change records. On the fast path (`device/fast_path.rs`) it handles several messages of one
//! inbound link in a row, with the actor's state and the next slot in registers, and polls its
//! other endpoints meanwhile where that costs nothing. There it runs only handlers that store
//! nothing and print nothing: when one does anything but send one message, its result is dropped
//! and the next turn runs it again.
//!
//! **Faults.** A fault in a handler is a value (`FaultRegion` in the IR): the actor's gate closes,
//! the message is answered as failed, and the worker goes on. The answer says which check failed.
//! The check's values stand in the arena (`wire/gauge.rs`) before the answer does, because a slot
//! may be too narrow for them. The host reads them when it sees the failure (`runtime/faults.rs`).
//!
//! **Arrays.** Arrays in a message, a reply or a state are *inline*: they remain in their slot, and
//! a handler reads them by index. A message has up to 64 KiB. What is larger, or used again, is a
//! *payload*: a range of the arena, named by three words of a message, filled by the copy engine
//! and kept until the message is answered. Actors may hand payloads on, and reply with them. The
//! host never sees such a message, so the device counts references, in a table of the arena
//! (`runtime/ref_counts.rs`), where a worker adds before it sends and subtracts before it answers.
//! The host takes memory back when it needs some, from arrays of which neither side has a
//! reference; a model of which every state is visited fixes the order of its reads.
//!
//! **Supervision.** A device cannot notify the host that a handler failed, so one thread of a
//! runtime, the supervisor, polls the newest answers of its actors. It restarts actors as their
//! policies say, has linked ones fail together, and reports every change to readers of events and
//! to `tracing`.
//!
//! **Telemetry** is words of the arena behind an actor's state. The worker stores them after the
//! answer has left (one store a message; a clock and a bucket for one message in 16), and the host
//! reads them by a copy. It is exported as text, in the Prometheus format, to a file that is
//! renamed into place.
//!
//! **Checkpoints.** A checkpoint is an actor apart from its device: state, messages not handled,
//! and what is left until their deadlines. Its gate is closed while it is taken. The requests are
//! read back through the device where they lie in memory that the host must not read. A handler is
//! replaced between two messages by one word of its endpoint.
//!
//! **Loss.** A device is lost when it fails a call, a worker when its heartbeat stops; time in
//! which it has no processor does not count (`Backend::block_time`). Both end all waits with errors
//! and free nothing. Actors come back from their last checkpoints in a new runtime. After a trap
//! NVIDIA's driver gives a process no new context, so that is another device or another process
//! (`examples/loss_check`).
//!
//! **Commands** (open a gate, take up an endpoint, leave) are quads too, each acknowledged. New
//! kinds of actors are compiled while the old grid runs; then it leaves, and the new one goes on
//! with the same records. NVIDIA's driver loads no program beside a resident kernel, so the grid is
//! a `Tenant` that makes room.
//!
//! **Links.** An actor sends to another through a *link*: a ring in device memory that the
//! receiver's worker polls, with one sender, whose cursor and view of the receiver's head stand in
//! one line. A handler is a transaction: room for all it may send is reserved before it runs; what
//! it sends goes out with its state and its reply. Nothing waits inside a worker. Replies to such
//! messages go to the actor's *outputs*, the only ring on which the device waits for the host. A
//! topic's publisher has a chain of links; addresses carry a number that no later link has. Where
//! the sender belongs to another runtime, of another GPU or in another grid, its end of the link
//! lies in its own arena and records the receiver's progress.
//!
//! **Clusters.** Workers may stand in block *clusters*. Then a link's ring can lie in the
//! receiver's shared memory (`device/cluster.rs`): the sender stores quads there by the receiver's
//! rank. An address says which worker's memory it means, and a sender of another cluster fails when
//! it first sends there. Shared memory ends with its block, so workers leave through a barrier of
//! the cluster, copy their rings to the arena, and copy them back before another barrier when the
//! grid returns. That a store to another block's memory arrives whole is a case of the suite
//! (`clusters::quads_arrive_whole`).

#![warn(missing_debug_implementations)]

mod address;
mod channel;
mod dead_letter;
mod device;
mod error;
mod handler;
mod layout;
mod lifecycle;
mod message;
mod outcome;
mod outgoing;
mod payload;
mod reason;
mod runtime;
mod standing;
mod telemetry;
mod wire;

pub use address::{Address, AddressVal};
pub use channel::{
    AskFuture, Channel, ChannelConfig, Counts, DeviceSide, Form, Overflow, Parts, Protocol, RecvFuture,
    RecvManyFuture, Replies, Reply, RingMemory, SendFuture, SendManyFuture, SendOptions, Sent, WaitPolicy,
};
pub use dead_letter::{DeadLetters, Letter};
pub use error::{AskError, ConfigError, RecvError, SendError, SendManyError};
pub use error::{CheckpointError, Result, RingError};
pub use handler::{
    Addresses, ErasedHandler, ErasedOutcome, Handler, Inlines, References, RingCtx, Signature,
};
pub use kiln_macros::{Message, State, ring_kernel};
pub use layout::{Layout, MAX_WORDS};
pub use lifecycle::Lifecycle;
pub use message::{Message, State};
pub use outcome::{DeviceOption, DeviceResult, Outcome, Zeroed};
pub use payload::{Array, ArrayRef, Hold, Inline, InlineVal, Payload, PayloadElem, PayloadVal};
pub use reason::Reason;
pub use runtime::{
    Actor, AnyActor, Backoff, Checkpoint, Ending, Event, Events, MAX_CLUSTER, OutputFuture, OutputManyFuture,
    Outputs, Pool, PoolFuture, PoolManyFuture, PoolSendManyFuture, Restart, RingConfig, RingRuntime, Routing,
    RuntimeConfig, Snapshot, Stages, Topic, Transport, TransportChoice, What,
};
pub use standing::{Failed, Standing};

pub use telemetry::{ActorTelemetry, Histogram, Publisher, RuntimeTelemetry, read_telemetry, telemetry_dir};
pub use wire::slot::{self, MAX_CAPACITY, MAX_PRIORITIES};

/// The examples in the documentation of the macros, whose crate knows nothing of this one.
#[cfg(doctest)]
mod macros {
    #[doc = include_str!("../../kiln-macros/src/examples/message.md")]
    struct DeriveMessage;
    #[doc = include_str!("../../kiln-macros/src/examples/state.md")]
    struct DeriveState;
    #[doc = include_str!("../../kiln-macros/src/examples/ring_kernel.md")]
    struct RingKernel;
}

/// What the macros name. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::handler::{Handler, RingCtx};
    pub use crate::layout::{Layout, MAX_WORDS, layout_id};
    pub use crate::message::{Message, State};
    pub use crate::outcome::{DeviceOption, DeviceResult, Outcome, Zeroed, err, field, none, ok, some};
    pub use crate::payload::Hold;
    pub use kiln_lang::__private::*;
    pub use kiln_lang::Val;
}
