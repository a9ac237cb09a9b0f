//! Receiving replies: one or many, at once, within a time, or as a future.
//!
//! | | one reply | many |
//! |---|---|---|
//! | what is there | `try_recv` | `try_recv_many`, `try_recv_each` |
//! | waits for what is in flight | `recv`, `recv_async` | `recv_many`, `recv_many_async` |
//! | waits up to a time, whatever replies depend on | `recv_timeout` | `recv_many_timeout` |

use super::future::{RecvFuture, RecvManyFuture};
use super::words::{for_many, for_one};
use super::{Channel, Deadline};
use crate::error::RecvError;
use crate::layout::Layout;
use crate::message::Message;
use std::time::Duration;

/// What can be received from an actor: all that can be sent.
///
/// Functions for any handler that replies have it as a bound:
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Actor, Handler, Reply, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// /// The replies to messages, in their order, where every message has one.
/// fn replies<H: Handler>(actor: &Actor<H>, messages: &[H::Message]) -> Result<Vec<H::Reply>, Box<dyn std::error::Error>>
/// where
///     H::Reply: Reply,
/// {
///     actor.send_many(messages)?;
///     messages.iter().map(|_| Ok(actor.recv()?)).collect()
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn increment(_ctx: &RingCtx, x: u32) -> u32 {
///     x + 1
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(increment, RingConfig::default())?;
/// actor.activate()?;
/// assert_eq!(replies(&actor, &[1, 5, 2])?, [2, 6, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A handler that returns nothing has no replies, so that to receive from it does not compile:
///
/// ```compile_fail,E0277
/// # use kiln_ring::{Actor, RingCtx, ring_kernel};
/// # #[ring_kernel(crate = kiln_ring)]
/// # fn keep(_ctx: &RingCtx, last: &mut u32, x: u32) { *last = x; }
/// fn wait(actor: &Actor<keep>) {
///     actor.recv();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a handler that returns nothing has no replies to receive",
    label = "replies of this handler are `{Self}`",
    note = "to wait until a message is handled, `ask`: it gives `None` where there is no reply",
    note = "replies are numbers, arrays of numbers, and structs that derive `Message`"
)]
pub trait Reply: Layout {}

impl<R: Message> Reply for R {}

impl<M: Message, R: Layout> Channel<M, R> {
    /// The next reply, if it is there. Where another thread is receiving, waits some microseconds
    /// for it to end.
    ///
    /// # Errors
    ///
    /// There is none yet, or there will be none: the actor has ended, is lost, or failed and is not
    /// restarted by its policy.
    #[inline]
    pub fn try_recv(&self) -> Result<R, RecvError>
    where
        R: Reply,
    {
        let mut reply = None;
        for_one::<R, _>(|buffer| {
            let take = |words: &[u32]| reply = Some(R::decode(&words[..R::WORDS]));
            self.mailbox.receive(1, false, buffer, take)
        })?;
        self.let_go();
        reply.ok_or(RecvError::Empty { actor: self.mailbox.actor() })
    }

    /// The next reply. Waits as long as one may come by itself.
    ///
    /// # Errors
    ///
    /// There will be none: as of [`try_recv`](Self::try_recv); or every message that was sent is
    /// answered and all replies were taken; or the actor is not active. A receiver beside threads
    /// that send, activate or restart uses [`recv_timeout`](Self::recv_timeout), which waits for
    /// them.
    #[inline]
    pub fn recv(&self) -> Result<R, RecvError>
    where
        R: Reply,
    {
        self.recv_until(None)
    }

    /// The next reply, waiting no longer than `timeout`; `Duration::MAX` has no limit. It also
    /// waits for replies to messages that other threads are yet to send, and for an actor that
    /// another thread is yet to activate.
    ///
    /// # Errors
    ///
    /// There was none in time; or there will be none, as of [`try_recv`](Self::try_recv).
    pub fn recv_timeout(&self, timeout: Duration) -> Result<R, RecvError>
    where
        R: Reply,
    {
        self.recv_until(Some(Deadline::after(timeout)))
    }

    #[inline]
    fn recv_until(&self, until: Option<Deadline>) -> Result<R, RecvError> {
        let mut reply = None;
        for_one::<R, _>(|buffer| {
            self.mailbox.receive_until(1, until, buffer, |words| reply = Some(R::decode(&words[..R::WORDS])))
        })?;
        self.let_go();
        reply.ok_or(RecvError::Empty { actor: self.mailbox.actor() })
    }

    /// As [`recv`](Self::recv), without holding a thread while it waits.
    pub fn recv_async(&self) -> RecvFuture<'_, R>
    where
        R: Reply,
    {
        RecvFuture::new(self)
    }

    /// Waits until there are replies, and appends up to `most` to `replies`; gives how many, at
    /// least one. Cheaper than one by one.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(ctx: &RingCtx, m: u32) -> u32 { m + 1 }
    /// # let device = kiln_runtime::Device::open("interp")?;
    /// # let actor = RingRuntime::new(&device)?.launch(increment, RingConfig::default())?;
    /// # actor.activate()?;
    /// let channel = actor.channel();
    /// channel.send_many(&[1, 2, 3])?;
    /// let mut replies = Vec::new();
    /// while replies.len() < 3 {
    ///     channel.recv_many(16, &mut replies)?;
    /// }
    /// assert_eq!(replies, [2, 3, 4]);
    /// assert!(channel.recv_many(16, &mut replies).is_err()); // nothing is to come
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As of [`recv`](Self::recv).
    pub fn recv_many(&self, most: usize, replies: &mut Vec<R>) -> Result<usize, RecvError>
    where
        R: Reply,
    {
        self.recv_many_until(most, replies, None)
    }

    /// As [`recv_many`](Self::recv_many), waiting no longer than `timeout`, also for messages that
    /// other threads are yet to send.
    ///
    /// # Errors
    ///
    /// As of [`recv_timeout`](Self::recv_timeout).
    pub fn recv_many_timeout(
        &self,
        most: usize,
        replies: &mut Vec<R>,
        timeout: Duration,
    ) -> Result<usize, RecvError>
    where
        R: Reply,
    {
        self.recv_many_until(most, replies, Some(Deadline::after(timeout)))
    }

    fn recv_many_until(
        &self,
        most: usize,
        replies: &mut Vec<R>,
        until: Option<Deadline>,
    ) -> Result<usize, RecvError> {
        let received = for_many::<R, _>(|buffer| {
            let take = |words: &[u32]| replies.push(R::decode(&words[..R::WORDS]));
            self.mailbox.receive_until(most, until, buffer, take)
        });
        self.let_go();
        received
    }

    /// As [`recv_many`](Self::recv_many), without holding a thread while it waits.
    pub fn recv_many_async<'a>(&'a self, most: usize, replies: &'a mut Vec<R>) -> RecvManyFuture<'a, R>
    where
        R: Reply,
    {
        RecvManyFuture::new(self, most, replies)
    }

    /// Appends up to `most` replies that are there to `replies`; gives how many. Where another
    /// thread is receiving, waits some microseconds for it to end.
    ///
    /// # Errors
    ///
    /// As of [`try_recv`](Self::try_recv); but that there is none yet is no error.
    pub fn try_recv_many(&self, most: usize, replies: &mut Vec<R>) -> Result<usize, RecvError>
    where
        R: Reply,
    {
        self.try_recv_each(most, |reply| replies.push(reply))
    }

    /// Passes up to `most` replies that are there to `take`, one after the other; returns how many.
    /// Where another thread is receiving, waits some microseconds for it to end. Cheaper than one
    /// by one: many are read together, and their slots become free at once, when all were taken.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(ctx: &RingCtx, m: u32) -> u32 { m + 1 }
    /// # let device = kiln_runtime::Device::open("interp")?;
    /// # let actor = RingRuntime::new(&device)?.launch(increment, RingConfig::default())?;
    /// # actor.activate()?;
    /// let channel = actor.channel();
    /// channel.send_many(&[1, 2, 3])?;
    /// let (mut received, mut sum) = (0, 0);
    /// while received < 3 {
    ///     received += channel.try_recv_each(16, |reply| sum += reply)?;
    /// }
    /// assert_eq!(sum, 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As of [`try_recv_many`](Self::try_recv_many).
    #[inline]
    pub fn try_recv_each(&self, most: usize, take: impl FnMut(R)) -> Result<usize, RecvError>
    where
        R: Reply,
    {
        self.take_each(most, false, take)
    }

    /// As [`try_recv_each`](Self::try_recv_each). `for_ever` says that the caller would wait
    /// without a limit: then it is an error too where no reply comes by itself.
    #[inline]
    pub(crate) fn take_each(
        &self,
        most: usize,
        for_ever: bool,
        mut take: impl FnMut(R),
    ) -> Result<usize, RecvError> {
        let received = for_many::<R, _>(|buffer| {
            self.mailbox.receive(most, for_ever, buffer, |words| take(R::decode(&words[..R::WORDS])))
        });
        self.let_go();
        received
    }
}
