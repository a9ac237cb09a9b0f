//! What can go wrong with a channel.

use crate::lifecycle::Lifecycle;
use crate::reason::Reason;
use crate::standing::{Failed, advice};
use std::sync::Arc;
use std::time::Duration;

/// Why a channel cannot be made.
///
/// ```
/// use kiln_ring::{ChannelConfig, ConfigError, Protocol};
/// let error = ChannelConfig::default().priorities(9).form::<u32, u32>(Protocol::Stamped);
/// assert_eq!(error, Err(ConfigError::Priorities { priorities: 9 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No message could ever be sent.
    #[error("a channel of capacity 0 holds no message: give it a capacity of at least 1")]
    ZeroCapacity,
    /// More slots than a channel can have.
    #[error("a channel of capacity {capacity} is too large: at most {most} messages can be under way", most = crate::wire::slot::MAX_CAPACITY)]
    TooLarge {
        /// What was asked for.
        capacity: usize,
    },
    /// No priorities, or too many.
    #[error("a channel has 1 to {most} priorities, and cannot have {priorities}", most = crate::wire::slot::MAX_PRIORITIES)]
    Priorities {
        /// What was asked for.
        priorities: usize,
    },
    /// The memory given does not fit the channel's form.
    #[error("the memory of the {ring} does not fit: {why}")]
    Memory {
        /// Which ring.
        ring: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// Why a message was not sent.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Overflow, RingConfig, RingCtx, RingRuntime, SendError, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default().capacity(1).overflow(Overflow::Reject))?;
/// actor.send(1)?;
/// assert!(matches!(actor.send(2), Err(SendError::Full { capacity: 1, .. })));
/// actor.terminate()?;
/// let error = actor.send(3).unwrap_err();
/// assert!(error.to_string().contains(&format!("actor {}", actor.number())), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The queue is full, and its policy rejects.
    #[error(
        "the queue of actor {actor} is full: {capacity} messages are under way. Receive replies, raise its capacity, or choose another \
         overflow policy"
    )]
    Full {
        /// The actor.
        actor: u32,
        /// The capacity of its queue.
        capacity: usize,
    },
    /// No room came in time.
    #[error("the queue of actor {actor} stayed full for {waited:?}")]
    TimedOut {
        /// The actor.
        actor: u32,
        /// How long the sender waited.
        waited: Duration,
    },
    /// The queue is full, and the actor handles no message until it is activated or restarted: a
    /// send without a limit would wait for ever.
    #[error(
        "the queue of actor {actor} is full ({capacity} messages), and it is {is}, so that no room comes: {}",
        advice(*is)
    )]
    NotActive {
        /// The actor.
        actor: u32,
        /// The capacity of its queue.
        capacity: usize,
        /// What it is: launched, deactivated or failed.
        is: Lifecycle,
    },
    /// The actor takes no more messages.
    #[error("actor {actor} takes no more messages: it was terminated, or it failed")]
    Closed {
        /// The actor.
        actor: u32,
    },
    /// The message refers to an array that the actor cannot reach.
    #[error(
        "the message to actor {actor} refers to a payload of another runtime: make payloads with the runtime whose actors use them"
    )]
    PayloadForeign {
        /// The actor.
        actor: u32,
    },
    /// The message refers to an array whose elements did not reach the device.
    #[error(
        "the message to actor {actor} refers to a payload that could not be copied to the device: write it again"
    )]
    PayloadNotFilled {
        /// The actor.
        actor: u32,
    },
    /// The message has a priority that the actor has no priority for.
    #[error(
        "actor {actor} has no priority {priority}: it has {priorities}, from 0, the lowest. Launch it with `priorities({})`, at most {most}",
        usize::from(*priority) + 1, most = crate::wire::slot::MAX_PRIORITIES
    )]
    NoPriority {
        /// The actor.
        actor: u32,
        /// The message's priority.
        priority: u8,
        /// How many priorities the actor has.
        priorities: usize,
    },
    /// The message has a deadline, for which the channel's slots have no place.
    #[error("the channel of actor {actor} carries no deadlines: make it with `deadlines(true)`")]
    NoDeadlines {
        /// The actor.
        actor: u32,
    },
}

/// Why not all of many messages were sent.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Overflow, RingConfig, RingCtx, RingRuntime, SendError, SendManyError, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default().capacity(2).overflow(Overflow::Reject))?;
/// let SendManyError { sent, error, .. } = actor.send_many(&[1, 2, 3]).unwrap_err();
/// assert_eq!(sent, 2); // the third is to be sent again
/// assert!(matches!(error, SendError::Full { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("after {sent} messages: {error}")]
pub struct SendManyError {
    /// How many were sent before.
    pub sent: usize,
    /// Why the next one was not.
    pub error: SendError,
}

/// Why there is no reply.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RecvError, RingConfig, RingCtx, RingRuntime, ring_kernel};
/// use std::time::Duration;
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default())?;
/// assert!(matches!(actor.recv(), Err(RecvError::NotActive { .. })));
/// actor.activate()?;
/// assert!(matches!(actor.try_recv(), Err(RecvError::Empty { .. })));
/// assert!(matches!(actor.recv(), Err(RecvError::NothingSent { .. })));
/// assert!(matches!(actor.recv_timeout(Duration::from_millis(1)), Err(RecvError::TimedOut { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// None is there yet.
    #[error("actor {actor} has no reply ready")]
    Empty {
        /// The actor.
        actor: u32,
    },
    /// None came in time.
    #[error("actor {actor} gave no reply for {waited:?}")]
    TimedOut {
        /// The actor.
        actor: u32,
        /// How long the receiver waited.
        waited: Duration,
    },
    /// None will come by itself: the actor holds its messages until it is activated. Calls with a
    /// limit wait for another thread to do that.
    #[error("actor {actor} is {is}, and answers nothing: {}", advice(*is))]
    NotActive {
        /// The actor.
        actor: u32,
        /// What it is: launched or deactivated.
        is: Lifecycle,
    },
    /// None will come by itself: the handler failed, and its policy does not restart it.
    #[error("actor {actor} answers nothing until it is restarted: {failed}")]
    Failed {
        /// The actor.
        actor: u32,
        /// On which message, why, and where in the source.
        failed: Arc<Failed>,
    },
    /// None will come by itself: every message that was sent is answered, and all replies are
    /// taken. A message that is handled without a reply has none. Calls with a limit wait for
    /// messages that other threads are yet to send.
    #[error(
        "actor {actor} has no message to answer: all replies were taken, and a handler that returns `None` \
         gives none. To wait for messages that others are yet to send, use `recv_timeout`"
    )]
    NothingSent {
        /// The actor.
        actor: u32,
    },
    /// None will come: the actor takes no more messages, and all it had are answered.
    #[error("actor {actor} has ended, and all its replies were taken")]
    Closed {
        /// The actor.
        actor: u32,
    },
    /// None will come: the device is lost, or the actor was given up.
    #[error("actor {actor} answers no more: {unanswered} of its messages have no answer")]
    Lost {
        /// The actor.
        actor: u32,
        /// How many messages were under way.
        unanswered: u64,
    },
}

/// Why a request has no reply.
///
/// ```
/// # use kiln_lang::prelude::*;
/// use kiln_ring::{AskError, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn hundred_by(_ctx: &RingCtx, x: u32) -> u32 {
///     100 / x
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(hundred_by, RingConfig::default())?;
/// actor.activate()?;
/// let error: AskError = actor.ask(0).unwrap_err();
/// assert!(error.to_string().contains("division by zero"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// It was not sent, for the queue was full and drops the newest.
    #[error("the queue of actor {actor} is full and drops what comes: the request was not sent")]
    DroppedNewest {
        /// The actor.
        actor: u32,
    },
    /// It was sent, and no handler finished it.
    #[error("actor {actor} did not handle the request: {why}")]
    Unhandled {
        /// The actor.
        actor: u32,
        /// Why.
        reason: Reason,
        /// The same in words, with the place in the handler's source where a check failed.
        why: Arc<str>,
    },
    /// No reply will come by itself: the actor holds its messages until it is activated. The
    /// request was not sent; or it was, before the actor was deactivated: then its reply will be a
    /// dead letter.
    #[error("actor {actor} is {is}, and answers nothing: {}", advice(*is))]
    NotActive {
        /// The actor.
        actor: u32,
        /// What it is: launched or deactivated.
        is: Lifecycle,
    },
    /// No reply will come by itself: the handler failed on another message, and its policy does not
    /// restart it. The request was not sent; or it was, before that: then its reply will be a dead
    /// letter.
    #[error("actor {actor} answers nothing until it is restarted: {failed}")]
    Failed {
        /// The actor.
        actor: u32,
        /// On which message, why, and where in the source.
        failed: Arc<Failed>,
    },
    /// No reply came in time. The request may still be handled; its reply will be a dead letter.
    #[error("actor {actor} gave no reply for {waited:?}")]
    TimedOut {
        /// The actor.
        actor: u32,
        /// How long the asker waited.
        waited: Duration,
    },
    /// The caller is a print sink, and the actor's device runs within calls of the host: it goes on
    /// when the sink has returned, which would wait for the reply. The request was not sent.
    #[error("actor {actor} answers nothing while a print sink runs: ask it after the sink has returned")]
    InsidePrintSink {
        /// The actor.
        actor: u32,
    },
    /// No reply will come: the device is lost, or the actor was given up.
    #[error("actor {actor} answers no more")]
    Lost {
        /// The actor.
        actor: u32,
    },
}
