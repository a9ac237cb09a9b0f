//! Channels: the host's side of an actor's queue.
//!
//! A channel sends messages of one type and takes the replies to them, in the order in which they
//! were sent; where it has several priorities, in that order within each, and those of a
//! higher priority first. Any number of threads may send and receive. A reply goes to the thread
//! that *receives* next, or, for a request, to the thread that *asked*.
//!
//! | file | holds |
//! |---|---|
//! | `queue.rs` | the lock-free queue: tickets, slots, answers |
//! | `priority_ring.rs`, `credits.rs` | one queue for each priority; limit on messages in flight |
//! | `mailbox.rs`, `batch.rs` | policies for full queues, waiting, dead letters; batches |
//! | `receive.rs` | replies, and what became of messages that have none |
//! | `receiving.rs` | the same with types: one reply or many, blocking or not |
//! | `config.rs` | how a channel behaves, and the memory that one is made over |
//! | `device_side.rs` | what a channel needs of the device that answers |
//! | `options.rs`, `sending.rs` | [`SendOptions`]: priorities and deadlines; sending with them |
//! | `platform.rs`, `native.rs` | atomics and shared memory: the machine's, or a model checker's |
//! | `memory.rs` | copies of words |
//! | `lines.rs` | cache lines of a ring by the widest vectors there are |
//! | `failure.rs`, `settled.rs` | the newest failure of a handler, and those that are settled |
//! | `overflow.rs`, `wait.rs` | what the policies are |
//! | `future.rs`, `wakers.rs`, `poller.rs` | waiting without a thread |
//! | `held.rs`, `payloads.rs` | arrays that messages under way refer to |
//! | `words.rs` | buffers for messages and replies |

mod batch;
mod config;
mod credits;
mod device_side;
mod failure;
mod future;
mod held;
mod lines;
mod mailbox;
mod memory;
mod native;
mod options;
mod overflow;
mod payloads;
mod platform;
mod poller;
mod priority_ring;
mod queue;
mod receive;
mod receiving;
mod sending;
mod settled;
mod wait;
mod wakers;
mod words;

#[cfg(test)]
mod tests;

pub use config::{ChannelConfig, Parts};
pub use device_side::DeviceSide;
pub(crate) use future::wake_by_reply;
pub use future::{AskFuture, RecvFuture, RecvManyFuture, SendFuture, SendManyFuture};
pub(crate) use lines::{SLACK, Slots};
pub(crate) use mailbox::Mailbox;
pub use mailbox::Sent;
pub use memory::RingMemory;
pub use options::SendOptions;
pub use overflow::{Counts, Overflow, Replies};
pub(crate) use poller::{Watched, watch};
pub use queue::{Form, Protocol};
pub use receiving::Reply;
pub(crate) use settled::Settled;
pub use wait::WaitPolicy;
pub(crate) use wait::{Deadline, Wait};
pub(crate) use wakers::{Awaited, Wakers};

use crate::dead_letter::DeadLetters;
use crate::error::{AskError, ConfigError, SendError, SendManyError};
use crate::layout::Layout;
use crate::message::Message;
use crate::wire::slot::PAYLOAD;
use batch::Batch;
pub(crate) use native::Native;
use options::Way;
pub(crate) use platform::QueueMemory;
pub(crate) use queue::Queue;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use words::{decoded, laid, laid_many};

/// The host's side of an actor's queue, for messages `M` and replies `R`. Clones are the same
/// channel.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{
///     AskError, Channel, RingConfig, RingCtx, RingRuntime, SendOptions, Sent, ring_kernel,
/// };
/// use std::time::Duration;
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default().capacity(8).priorities(2))?;
/// let channel: &Channel<u32, u32> = actor.channel();
/// assert_eq!((channel.form().capacity, channel.form().priorities), (8, 2));
///
/// // Messages of an actor that is not active yet: they wait.
/// let (high, second) = (SendOptions::default().priority(1), Duration::from_secs(1));
/// assert_eq!(channel.try_send(&1)?, Sent::Queued(0));
/// channel.send_timeout(&2, second)?;
/// channel.send_with(&3, high)?;
/// channel.try_send_with(&4, high)?;
/// assert_eq!((channel.tail(), channel.unanswered(), channel.counts().sent), (2, 4, 4));
/// assert!(channel.try_recv().is_err());
/// actor.activate()?;
/// // Those of the higher priority come first.
/// assert_eq!(channel.recv_timeout(second)?, 6);
/// let mut replies = Vec::new();
/// while replies.len() < 3 {
///     channel.recv_many_timeout(8, &mut replies, second)?;
/// }
/// assert_eq!(replies, [8, 2, 4]);
///
/// // Many at once, and those that are there.
/// assert_eq!(channel.send_many_with(&[5, 6], high)?, 2);
/// assert_eq!(channel.send_many_timeout(&[7], second)?, 1);
/// while channel.unanswered() > 0 {
///     std::thread::yield_now();
/// }
/// replies.clear();
/// assert_eq!(channel.try_recv_many(8, &mut replies)?, 3);
/// assert_eq!(replies, [10, 12, 14]);
///
/// // Requests.
/// assert_eq!(channel.ask(&10)?, Some(20));
/// assert_eq!(channel.ask_timeout(&11, second)?, Some(22));
/// assert_eq!(channel.ask_with(&12, high.timeout(second))?, Some(24));
///
/// // No more messages until it is opened again.
/// channel.close();
/// assert!(matches!(channel.ask(&1), Err(AskError::Send(_))));
/// channel.reopen();
/// channel.tidy();
/// assert_eq!(channel.ask(&13)?, Some(26));
/// assert!(channel.letters().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, SendOptions, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// // The same as futures.
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default().priorities(2))?;
/// actor.activate()?;
/// let (channel, high) = (actor.channel(), SendOptions::default().priority(1));
/// pollster::block_on(async {
///     channel.send_async(&1).await?;
///     assert_eq!(channel.recv_async().await?, 2);
///     channel.send_async_with(&2, high).await?;
///     assert_eq!(channel.recv_async().await?, 4);
///     assert_eq!(channel.send_many_async(&[3, 4]).await?, 2);
///     let mut replies = Vec::new();
///     while replies.len() < 2 {
///         channel.recv_many_async(2, &mut replies).await?;
///     }
///     assert_eq!(replies, [6, 8]);
///     assert_eq!(channel.ask_async(&5).await?, Some(10));
///     assert_eq!(channel.ask_async_with(&6, high).await?, Some(12));
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Channel<M, R> {
    mailbox: Arc<Mailbox<Native>>,
    types: PhantomData<fn(M) -> R>,
}

impl<M, R> Clone for Channel<M, R> {
    fn clone(&self) -> Self {
        Channel { mailbox: Arc::clone(&self.mailbox), types: PhantomData }
    }
}

impl<M: Message, R: Layout> fmt::Debug for Channel<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("actor", &self.mailbox.actor())
            .field("message", &M::NAME)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl<M: Message, R: Layout> Channel<M, R> {
    /// A channel over memory that it shares with a device. [`RingRuntime::launch`] makes those of
    /// actors; [`DeviceSide`] has an example of another one.
    ///
    /// [`RingRuntime::launch`]: crate::RingRuntime::launch
    ///
    /// # Errors
    ///
    /// A capacity that cannot be; memory that is too small, not aligned to cache lines, or
    /// write-combined where it must not be.
    pub fn new(config: &ChannelConfig, protocol: Protocol, parts: Parts) -> Result<Self, ConfigError> {
        let form = config.form::<M, R>(protocol)?;
        Ok(Channel::of(config.mailbox(form, [M::ID, R::ID], parts)?))
    }

    /// The channel of a queue whose messages and replies have these types.
    pub(crate) fn of(mailbox: Arc<Mailbox<Native>>) -> Self {
        Channel { mailbox, types: PhantomData }
    }

    /// The queue without its types.
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox<Native>> {
        &self.mailbox
    }

    /// The form: what the device's side must agree with.
    pub fn form(&self) -> &Form {
        self.mailbox.form()
    }

    // ---- sending

    /// Lets go of the arrays of messages whose answers were taken.
    #[inline]
    fn let_go(&self) {
        if M::HOLDS {
            self.mailbox.let_go();
        }
    }

    /// Sends a message's words, and keeps the arrays it refers to until it is answered.
    #[inline]
    fn holding(
        &self,
        message: &M,
        header: Option<[u32; PAYLOAD]>,
        send: impl FnOnce(&[u32]) -> Result<Sent, SendError>,
    ) -> Result<Sent, SendError> {
        if !M::HOLDS {
            return laid(message, header, send);
        }
        let holds = self.mailbox.settled(message)?;
        let sent = laid(message, header, send)?;
        Ok(self.mailbox.keep(sent, holds))
    }

    /// Sends a message. A full queue does as its [`Overflow`] says.
    ///
    /// # Errors
    ///
    /// The queue is closed, full and rejects, or full while the actor is not active; the message
    /// refers to a payload of another runtime, or one that could not be copied to the device.
    #[inline]
    pub fn send(&self, message: &M) -> Result<Sent, SendError> {
        self.holding(message, self.mailbox.header(), |words| {
            self.mailbox.send(self.mailbox.lowest(), words, None)
        })
    }

    /// As [`send`](Self::send), without waiting: a queue that would have to wait is
    /// [`SendError::Full`].
    ///
    /// # Errors
    ///
    /// As of [`send`](Self::send), and a full queue.
    #[inline]
    pub fn try_send(&self, message: &M) -> Result<Sent, SendError> {
        self.holding(message, self.mailbox.header(), |words| {
            self.mailbox.try_send(self.mailbox.lowest(), words)
        })
    }

    /// As [`send`](Self::send), waiting no longer than `timeout`.
    ///
    /// # Errors
    ///
    /// The queue is closed, is full and rejects, or stayed full.
    pub fn send_timeout(&self, message: &M, timeout: Duration) -> Result<Sent, SendError> {
        self.send_with(message, SendOptions::default().timeout(timeout))
    }

    /// As [`send`](Self::send), with a deadline by the device's clock, in nanoseconds: if the
    /// message's turn comes later, it is not handled and becomes a dead letter.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{RingConfig, RingCtx, RingRuntime, SendError, ring_kernel};
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn double(_ctx: &RingCtx, x: u32) -> u32 {
    ///     x * 2
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(double, RingConfig::default().deadlines(true))?;
    /// actor.channel().send_by(&1, 1)?; // long ago
    /// actor.channel().send_by(&2, u64::MAX)?;
    /// actor.activate()?;
    /// assert_eq!(actor.recv()?, 4);
    /// assert_eq!(actor.counts().expired, 1);
    /// let without = runtime.launch(double, RingConfig::default())?;
    /// assert!(matches!(without.channel().send_by(&1, 1), Err(SendError::NoDeadlines { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As of [`send`](Self::send); and the channel was made without deadlines.
    pub fn send_by(&self, message: &M, deadline: u64) -> Result<Sent, SendError> {
        self.send_with(message, SendOptions::default().deadline(deadline))
    }

    /// Sends messages in order, and gives how many: fewer only if the queue drops the newest. Other
    /// senders' messages may come between. Cheaper than one by one: positions are taken, and stores
    /// pushed out, for many at once.
    ///
    /// # Errors
    ///
    /// As of [`send`](Self::send), with the number of messages that were sent before.
    #[inline]
    pub fn send_many(&self, messages: &[M]) -> Result<usize, SendManyError> {
        self.send_all(messages, (self.mailbox.lowest(), self.mailbox.header()), None)
    }

    #[inline]
    fn send_all(
        &self,
        messages: &[M],
        (ring, header): Way<'_>,
        until: Option<Deadline>,
    ) -> Result<usize, SendManyError> {
        if M::HOLDS {
            // The positions are known only one by one.
            let mut sent = 0;
            for message in messages {
                let queued = self.holding(message, header, |words| self.mailbox.send(ring, words, until));
                match queued.map_err(|error| SendManyError { sent, error })? {
                    Sent::Queued(_) => sent += 1,
                    Sent::Dropped => return Ok(sent),
                }
            }
            return Ok(sent);
        }
        let mut batch = Batch::new(&self.mailbox, ring);
        match laid_many(messages, header, |words| batch.send(words, until)) {
            Ok(()) => Ok(batch.sent()),
            Err(error) => Err(SendManyError { sent: batch.sent(), error }),
        }
    }

    /// As [`send_many`](Self::send_many), waiting no longer than `timeout` in all.
    ///
    /// # Errors
    ///
    /// As of [`send_timeout`](Self::send_timeout), with the number of messages that were sent
    /// before.
    pub fn send_many_timeout(&self, messages: &[M], timeout: Duration) -> Result<usize, SendManyError> {
        self.send_many_with(messages, SendOptions::default().timeout(timeout))
    }

    /// As [`send`](Self::send), without holding a thread while it waits.
    pub fn send_async<'a>(&'a self, message: &'a M) -> SendFuture<'a, M> {
        SendFuture::new(self, message, SendOptions::default())
    }

    /// As [`send_many`](Self::send_many), without holding a thread while it waits. Dropped before
    /// its end, the future leaves the messages that it has sent with the actor.
    pub fn send_many_async<'a>(&'a self, messages: &'a [M]) -> SendManyFuture<'a, M> {
        SendManyFuture::new(self, messages)
    }

    // ---- asking

    /// Sends a request and waits for its reply; `None` if it is handled without one. A failure to
    /// handle it is an error here, and no dead letter.
    ///
    /// # Errors
    ///
    /// It was not sent or not handled, or there will be no reply.
    pub fn ask(&self, message: &M) -> Result<Option<R>, AskError> {
        self.ask_with(message, SendOptions::default())
    }

    /// As [`ask`](Self::ask), waiting no longer than `timeout` in all.
    ///
    /// # Errors
    ///
    /// As of [`ask`](Self::ask), and when there was no reply in time.
    pub fn ask_timeout(&self, message: &M, timeout: Duration) -> Result<Option<R>, AskError> {
        self.ask_with(message, SendOptions::default().timeout(timeout))
    }

    fn ask_until(
        &self,
        message: &M,
        (ring, header): Way<'_>,
        until: Option<Deadline>,
    ) -> Result<Option<R>, AskError> {
        if !self.mailbox.is_closed() {
            self.mailbox.check_answers()?;
        }
        let holds = self.mailbox.settled(message)?;
        let position = laid(message, header, |words| self.mailbox.request(ring, words, until))?;
        // Once the answer is taken, others may let go of the arrays before the reply, which may
        // name them, is read.
        let held = holds.clone();
        self.mailbox.keep(Sent::Queued(position), holds);
        let mut outcome = Ok(false);
        let reply = decoded::<R>(|words| outcome = self.mailbox.await_request(position, until, words));
        drop(held);
        self.let_go();
        outcome.map(|replied| replied.then_some(reply))
    }

    /// As [`ask`](Self::ask), without holding a thread while it waits.
    pub fn ask_async<'a>(&'a self, message: &'a M) -> AskFuture<'a, M, R> {
        AskFuture::new(self, message, SendOptions::default())
    }

    // ---- the channel itself

    /// What became of messages.
    pub fn counts(&self) -> Counts {
        self.mailbox.counts()
    }

    /// Where dead letters go.
    pub fn letters(&self) -> &Arc<DeadLetters> {
        self.mailbox.letters()
    }

    /// The position that the next message without a priority gets.
    pub fn tail(&self) -> u64 {
        self.mailbox.lowest().queue.tail()
    }

    /// How many messages the device has not answered yet, in all priorities.
    pub fn unanswered(&self) -> u64 {
        self.mailbox.unanswered()
    }

    /// Refuses senders from now on. What was sent is still answered and received.
    pub fn close(&self) {
        self.mailbox.close();
    }

    /// Accepts senders again after [`close`](Self::close).
    pub fn reopen(&self) {
        self.mailbox.reopen();
    }

    /// Closes the channel whose device answers no more: waits end, and answers that are not there
    /// will not come.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{RecvError, RingConfig, RingCtx, RingRuntime, SendError, ring_kernel};
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn double(_ctx: &RingCtx, x: u32) -> u32 {
    ///     x * 2
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(double, RingConfig::default())?;
    /// actor.send(1)?; // it is not active: there is no answer
    /// let channel = actor.channel();
    /// channel.abandon();
    /// assert!(matches!(channel.recv(), Err(RecvError::Lost { unanswered: 1, .. })));
    /// assert!(matches!(channel.send(&2), Err(SendError::Closed { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abandon(&self) {
        self.mailbox.abandon();
    }

    /// Takes answers that no thread receives (of messages handled without a reply, and dead
    /// letters), as far as they come first. Sends that find the queue full, and receivers, do so
    /// too. A device that runs while the host waits, such as the interpreter, first runs until it
    /// has nothing to do.
    pub fn tidy(&self) {
        self.mailbox.pump();
        self.mailbox.tidy();
    }

    /// Sets whether the device's side does not poll the request ring, so that senders call
    /// [`DeviceSide::wake`].
    ///
    /// To park the device's side, set this first and then check whether [`tail`](Self::tail) has
    /// moved: either this check finds the message, or the sender finds that it must wake the
    /// device.
    ///
    /// ```
    /// use kiln_ring::Channel;
    ///
    /// /// Whether the device's side may stop to poll. Without, it has requests to handle.
    /// fn park(channel: &Channel<u32, u32>) -> bool {
    ///     channel.set_parked(true);
    ///     let parks = channel.unanswered() == 0;
    ///     channel.set_parked(parks);
    ///     parks
    /// }
    /// # let _ = park;
    /// ```
    pub fn set_parked(&self, parked: bool) {
        self.mailbox.set_parked(parked);
    }
}
