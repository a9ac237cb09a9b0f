//! What happens to a message when the queue is full.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a send does when as many messages are under way as the channel's capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// It waits until there is room. The default. A send without a limit fails with
    /// [`SendError::NotActive`](crate::SendError::NotActive) where no room comes by itself.
    #[default]
    Block,
    /// It fails with [`SendError::Full`](crate::SendError::Full).
    Reject,
    /// The message is not sent, and counted as dropped. Where the actor has several
    /// [priorities](crate::RingConfig::priorities) and holds messages of a lower one, the oldest of
    /// the lowest of them is given up instead, as by [`DropOldest`](Self::DropOldest): what is in a
    /// queue can only leave it from the front.
    DropNewest,
    /// The oldest message that is not being handled is given up, and becomes a dead letter; so does
    /// the oldest reply, if no thread receives. The send waits until its slot is free: at most
    /// until the message being handled is done. With several
    /// [priorities](crate::RingConfig::priorities), it is the oldest of the lowest priority that
    /// holds any; if all messages are of higher priorities than the one to be sent, that one is
    /// dropped.
    DropOldest,
}

/// What becomes of replies without a request that waits for them.
///
/// A reply keeps its slot until it is received, and the message that it answers counts as under way
/// until then. So a program that sends to an actor that replies, and neither receives nor
/// [asks](crate::Channel::ask), fills the queue for good. A send that waits for more than a second
/// for this reason logs a warning.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Overflow, Replies, RingConfig, RingCtx, RingRuntime, SendError, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let config = RingConfig::default().capacity(2).overflow(Overflow::Reject);
/// // Two replies that nobody receives fill a queue that keeps them.
/// let keeping = runtime.launch(double, config.replies(Replies::Keep))?;
/// keeping.activate()?;
/// keeping.send(1)?;
/// keeping.send(2)?;
/// assert!(matches!(keeping.send(3), Err(SendError::Full { .. })));
/// assert_eq!([keeping.recv()?, keeping.recv()?], [2, 4]);
/// keeping.send(3)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Replies {
    /// They are kept until they are received. The default.
    #[default]
    Keep,
    /// They are dropped when the queue is full, without a dead letter. A receiver gets those that
    /// are left.
    Discard,
}

/// How many messages were sent, and how many of them had no ordinary reply.
///
/// All count from the channel's creation. Those [sent](Self::sent) and [answered](Self::answered)
/// begin with what a [checkpoint](crate::Checkpoint) had handled, for an actor that was restored.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Counts, Overflow, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default().capacity(2).overflow(Overflow::Reject))?;
/// actor.send(1)?;
/// actor.send(2)?;
/// assert!(actor.send(3).is_err());
/// let counts: Counts = actor.counts();
/// assert_eq!((counts.sent, counts.rejected, counts.under_way()), (2, 1, 2));
/// actor.activate()?;
/// assert_eq!(actor.recv()?, 2);
/// assert_eq!(actor.counts().under_way(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent.
    pub sent: u64,
    /// Messages whose answer was received.
    pub answered: u64,
    /// Sends refused because the queue was full.
    pub rejected: u64,
    /// Messages not sent because the queue was full.
    pub dropped_newest: u64,
    /// Messages, or replies that were not received, dropped to make room.
    pub dropped_oldest: u64,
    /// Messages whose deadline passed.
    pub expired: u64,
    /// Messages on which the handler failed, requests included.
    pub failed: u64,
    /// Messages that the actor no longer handled.
    pub undeliverable: u64,
    /// Replies whose request had timed out.
    pub unclaimed: u64,
}

impl Counts {
    /// Messages under way: sent, and their answer not received.
    pub fn under_way(&self) -> u64 {
        self.sent.saturating_sub(self.answered)
    }
}

/// The counters behind [`Counts`]. None of them is touched by a message that is sent, handled and
/// received.
#[derive(Debug, Default)]
pub struct Counters {
    pub rejected: Counter,
    pub dropped_newest: Counter,
    pub dropped_oldest: Counter,
    pub expired: Counter,
    pub failed: Counter,
    pub undeliverable: Counter,
    pub unclaimed: Counter,
}

/// A count of events.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add_one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
