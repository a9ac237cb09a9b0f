//! Ring kernels: actors that live on a device and are fed messages.
//!
//! A ring kernel is a handler, written in the kernel language, that stays on the device with its state. The host sends it typed messages
//! and takes its replies through lock-free queues, without launching anything.
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
//! | file | holds |
//! |---|---|
//! | `layout.rs` | [`Layout`]: what types are in memory, and on the device |
//! | `message.rs` | [`Message`], [`State`] |
//! | `outcome.rs` | what a handler returns: [`DeviceOption`], [`DeviceResult`], [`Outcome`] |
//! | `handler.rs` | [`Handler`], [`RingCtx`], handlers without their types |
//! | `payload/` | [`Payload`], [`Inline`]: arrays in device memory that messages refer to, and arrays in messages |
//! | `address.rs`, `outgoing.rs` | [`Address`]: what handlers send to other actors |
//! | [`slot`] | how messages lie in shared memory |
//! | `channel/` | [`Channel`]: the host's side of a queue |
//! | `device/` | the device's side: the resident kernel |
//! | `runtime/` | [`RingRuntime`], [`Actor`]: resident grids and the actors in them |
//! | `telemetry/` | [`RuntimeTelemetry`]: what actors do, read while they do it |
//! | `dead_letter.rs` | [`DeadLetters`]: messages that no handler finished |

#![warn(missing_debug_implementations)]

mod address;
mod channel;
mod dead_letter;
mod device;
mod handler;
mod layout;
mod message;
mod outcome;
mod outgoing;
mod payload;
mod runtime;
pub mod slot;
mod telemetry;

pub use address::{Address, AddressVal};
pub use channel::{
    AskError, AskFuture, Channel, ChannelConfig, ConfigError, Counts, DeviceSide, Failed, Form, MAX_BANDS,
    MAX_CAPACITY, Overflow, Parts, Protocol, RecvError, RecvFuture, RecvManyFuture, Replies, Reply,
    RingMemory, SendError, SendFuture, SendManyError, SendManyFuture, SendOptions, Sent, Standing,
    WaitPolicy,
};
pub use dead_letter::{DeadLetters, Letter, Reason};
pub use handler::{
    Addresses, ErasedHandler, ErasedOutcome, Handler, Inlines, References, RingCtx, Signature,
};
pub use kiln_macros::{Message, State, ring_kernel};
pub use layout::{Hold, Layout, MAX_WORDS};
pub use message::{Message, State};
pub use outcome::{DeviceOption, DeviceResult, Outcome, Zeroed};
pub use payload::{Array, ArrayRef, Inline, InlineVal, Payload, PayloadElem, PayloadVal};
pub use runtime::{
    Actor, AnyActor, Backoff, Checkpoint, CheckpointError, Ending, Event, Events, Lifecycle, MAX_CLUSTER,
    OutputFuture, Outputs, Pool, PoolFuture, Restart, Result, RingConfig, RingError, RingRuntime, Routing,
    RuntimeConfig, Snapshot, Stages, Topic, Transport, TransportChoice, What,
};

pub use telemetry::{ActorTelemetry, Histogram, Publisher, RuntimeTelemetry, read_telemetry, telemetry_dir};

/// What the macros name. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::handler::{Handler, RingCtx};
    pub use crate::layout::{Hold, Layout, MAX_WORDS, layout_id};
    pub use crate::message::{Message, State};
    pub use crate::outcome::{DeviceOption, DeviceResult, Outcome, Zeroed, err, field, none, ok, some};
    pub use kiln_lang::__private::*;
    pub use kiln_lang::Val;
}
