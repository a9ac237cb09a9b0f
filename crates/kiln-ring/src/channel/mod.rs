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
mod credits;
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

pub(crate) use future::wake_by_reply;
pub use future::{AskFuture, RecvFuture, RecvManyFuture, SendFuture, SendManyFuture};
pub(crate) use lines::{SLACK, Slots};
pub(crate) use mailbox::Mailbox;
pub use mailbox::{DeviceSide, Sent};
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
use crate::wire::slot::{MAX_CAPACITY, MAX_PRIORITIES, PAYLOAD, RingLayout, SlotLayout, in_priority};
use batch::Batch;
use credits::Credits;
use mailbox::ChannelPolicy;
pub(crate) use native::Native;
use options::Way;
pub(crate) use platform::QueueMemory;
pub(crate) use queue::Queue;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use words::{decoded, laid, laid_many};

/// How a channel behaves.
///
/// ```
/// use kiln_ring::{ChannelConfig, ConfigError, Form, Overflow, Protocol, Replies, WaitPolicy};
///
/// let config = ChannelConfig::default()
///     .capacity(100)
///     .priorities(2)
///     .overflow(Overflow::Reject)
///     .wait(WaitPolicy::default())
///     .deadlines(true)
///     .replies(Replies::Keep);
/// // Messages of two words with a deadline, replies of one word.
/// let form: Form = config.form::<u64, u32>(Protocol::Stamped)?;
/// assert_eq!((form.capacity, form.priorities, form.reply_words), (100, 2, 1));
/// assert_eq!((form.requests.slots(), form.requests.slot().quads()), (128, 2));
/// let none = config.capacity(0).form::<u64, u32>(Protocol::Stamped);
/// assert_eq!(none, Err(ConfigError::ZeroCapacity));
/// # Ok::<(), ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a configuration does nothing until something is made with it"]
pub struct ChannelConfig {
    /// The most messages that are under way, in all priorities together: sent, and their answer not
    /// received.
    pub capacity: usize,
    /// How many priorities there are, from 1 to [`MAX_PRIORITIES`]. Each has slots for as many
    /// messages as the capacity.
    pub priorities: usize,
    /// What a full queue does.
    pub overflow: Overflow,
    /// How threads wait.
    pub wait: WaitPolicy,
    /// Whether messages may have deadlines: each slot has one more quad.
    pub deadlines: bool,
    /// What becomes of replies without a request that waits for them.
    pub replies: Replies,
}

impl Default for ChannelConfig {
    fn default() -> Self {
        ChannelConfig {
            capacity: 1024,
            priorities: 1,
            overflow: Overflow::default(),
            wait: WaitPolicy::default(),
            deadlines: false,
            replies: Replies::default(),
        }
    }
}

impl ChannelConfig {
    /// Sets the most messages that are under way.
    pub fn capacity(self, capacity: usize) -> Self {
        ChannelConfig { capacity, ..self }
    }

    /// Sets the number of priorities.
    pub fn priorities(self, priorities: usize) -> Self {
        ChannelConfig { priorities, ..self }
    }

    /// Sets the overflow policy.
    pub fn overflow(self, overflow: Overflow) -> Self {
        ChannelConfig { overflow, ..self }
    }

    /// Sets how threads wait.
    pub fn wait(self, wait: WaitPolicy) -> Self {
        ChannelConfig { wait, ..self }
    }

    /// Sets whether messages may have deadlines.
    pub fn deadlines(self, deadlines: bool) -> Self {
        ChannelConfig { deadlines, ..self }
    }

    /// Sets what becomes of replies without a request that waits for them.
    pub fn replies(self, replies: Replies) -> Self {
        ChannelConfig { replies, ..self }
    }

    /// The form of a channel of `M` and `R`.
    ///
    /// # Errors
    ///
    /// A capacity of 0, or of more than [`MAX_CAPACITY`]; no priorities, or more than
    /// [`MAX_PRIORITIES`].
    pub fn form<M: Message, R: Layout>(&self, protocol: Protocol) -> Result<Form, ConfigError> {
        self.form_of(protocol, M::WORDS, R::WORDS)
    }

    /// As [`form`](Self::form), of messages and replies of so many words.
    pub(crate) fn form_of(
        &self,
        protocol: Protocol,
        message_words: usize,
        reply_words: usize,
    ) -> Result<Form, ConfigError> {
        match self.capacity {
            0 => return Err(ConfigError::ZeroCapacity),
            capacity if capacity > MAX_CAPACITY => return Err(ConfigError::TooLarge { capacity }),
            _ => {}
        }
        if !(1..=MAX_PRIORITIES).contains(&self.priorities) {
            return Err(ConfigError::Priorities { priorities: self.priorities });
        }
        // Messages come back in the answers of dead letters; a failure takes two words.
        let answer_words = message_words.max(reply_words).max(2);
        Ok(Form {
            protocol,
            capacity: self.capacity,
            priorities: self.priorities,
            requests: RingLayout::new(SlotLayout::new(message_words, self.deadlines), self.capacity),
            answers: RingLayout::new(SlotLayout::new(answer_words, false), self.capacity),
            reply_words,
        })
    }

    /// The queue of a channel over memory that it shares with a device. Not generic, because every
    /// type of actor would have a copy: of the types it gets the [`Layout::ID`]s.
    pub(crate) fn mailbox(
        &self,
        form: Form,
        [message_layout, reply_layout]: [u64; 2],
        parts: Parts,
    ) -> Result<Arc<Mailbox<Native>>, ConfigError> {
        let protocol = form.protocol;
        check_memory(
            "requests",
            &parts.requests,
            ring_words(form.priorities, form.request_words(), &form.requests),
        )?;
        check_memory(
            "answers",
            &parts.answers,
            ring_words(form.priorities, form.answer_words(), &form.answers),
        )?;
        let refuse = |ring, why: &str| Err(ConfigError::Memory { ring, why: why.to_owned() });
        if parts.answers.is_write_combined() {
            return refuse("answers", "it is write-combined, which the host cannot read");
        }
        if protocol == Protocol::Ordered && parts.requests.is_write_combined() {
            return refuse(
                "requests",
                "it is write-combined, where stores have no order: use the stamped protocol",
            );
        }
        let credits = (form.priorities > 1).then(|| Arc::new(Credits::new(form.capacity)));
        let mut queues = (0..form.priorities).map(|priority| {
            let first = in_priority(priority, parts.passed.get(priority).copied().unwrap_or(0));
            // SAFETY: as was checked, the priorities lie inside one after the other, each a whole
            // number of lines, and each queue keeps the owner of the memory.
            let (requests, answers) = unsafe {
                (
                    parts.requests.part(priority * form.request_words(), form.requests.words()),
                    parts.answers.part(priority * form.answer_words(), form.answers.words()),
                )
            };
            let queue = Queue::new(form, requests, answers, first);
            match &credits {
                Some(credits) => queue.of_priority(credits),
                None => queue,
            }
        });
        let lowest = queues.next().ok_or(ConfigError::Priorities { priorities: 0 })?;
        let higher = queues.collect();
        let policy = ChannelPolicy {
            actor: parts.actor,
            overflow: self.overflow,
            wait: self.wait,
            replies: self.replies,
            message_layout,
            reply_layout,
            letters: parts.letters,
            device: parts.device,
        };
        Ok(Arc::new(Mailbox::with_priorities(lowest, higher, policy)))
    }
}

/// What the runtime gives a channel.
///
/// ```
/// use kiln_ring::{
///     Channel, ChannelConfig, ConfigError, DeadLetters, DeviceSide, Parts, Protocol, RingMemory,
/// };
/// # use std::ptr::NonNull;
/// use std::sync::Arc;
/// # use std::sync::atomic::AtomicU32;
/// # #[repr(align(64))]
/// # #[derive(Default)]
/// # struct Line([AtomicU32; 16]);
///
/// /// As many lines of 16 words, aligned to 64 bytes and zeroed.
/// fn ring(lines: usize) -> RingMemory {
///     // …
/// #   let words = lines * 16;
/// #   let lines: Arc<[Line]> = (0..lines).map(|_| Line::default()).collect();
/// #   let base = NonNull::from(&*lines).cast();
/// #   // SAFETY: as many words, which live as long as their owner.
/// #   unsafe { RingMemory::new(base, words, false, Arc::new(lines)) }
/// }
///
/// /// A device that answers nothing.
/// struct Idle;
///
/// impl DeviceSide for Idle {
///     fn skip(&self, _position: u64) {}
/// }
///
/// // 8 slots of a quad are 32 words for requests, and as many for answers.
/// let config = ChannelConfig::default().capacity(8);
/// let made = |lines| {
///     let (requests, answers) = (ring(2), ring(lines));
///     let (letters, device) = (Arc::new(DeadLetters::new(16)), Arc::new(Idle));
///     let parts = Parts { actor: 0, requests, answers, passed: vec![100], letters, device };
///     Channel::<u32, u32>::new(&config, Protocol::Stamped, parts)
/// };
/// assert!(matches!(made(1), Err(ConfigError::Memory { ring: "answers", .. })));
/// let channel = made(2)?;
/// assert_eq!(channel.tail(), 100); // positions go on behind those that were passed
/// # Ok::<(), ConfigError>(())
/// ```
pub struct Parts {
    /// The actor's number.
    pub actor: u32,
    /// The memory of the request rings, the lowest priority's first: at least
    /// [`request_words`](Form::request_words) for each.
    pub requests: RingMemory,
    /// The memory of the answer rings, which the host reads: at least
    /// [`answer_words`](Form::answer_words) for each.
    pub answers: RingMemory,
    /// How many messages each priority, from the lowest, had before, in a channel where this one
    /// goes on: so many positions are passed over. None where it is not said.
    pub passed: Vec<u64>,
    /// Where dead letters go.
    pub letters: Arc<DeadLetters>,
    /// The device's side.
    pub device: Arc<dyn DeviceSide>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("actor", &self.actor)
            .field("requests", &self.requests)
            .field("answers", &self.answers)
            .field("passed", &self.passed)
            .finish_non_exhaustive()
    }
}

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

/// Words of memory for the rings of all priorities, `pitch` words from one to the next.
fn ring_words(priorities: usize, pitch: usize, ring: &RingLayout) -> usize {
    (priorities - 1) * pitch + ring.words()
}

fn check_memory(ring: &'static str, memory: &RingMemory, words: usize) -> Result<(), ConfigError> {
    let why = if memory.words() < words {
        format!("it has {} words, and {words} are needed", memory.words())
    } else if !memory.is_aligned() {
        "it is not aligned to 64 bytes".to_owned()
    } else {
        return Ok(());
    };
    Err(ConfigError::Memory { ring, why })
}
