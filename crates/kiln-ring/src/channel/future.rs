//! Futures of a channel. They run on any executor.

use super::Channel;
use super::mailbox::{Mailbox, Sent};
use super::native::Native;
use super::options::SendOptions;
use super::poller;
use super::wakers::Awaited;
use super::words::{decoded, for_many, for_one, laid};
use crate::error::{AskError, RecvError, SendError, SendManyError};
use crate::layout::Layout;
use crate::message::Message;
use crate::payload::Hold;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A future's place in the list of wakers.
#[derive(Debug)]
struct Waiting<'a> {
    mailbox: &'a Arc<Mailbox<Native>>,
    ticket: Option<u64>,
}

impl<'a> Waiting<'a> {
    fn new(mailbox: &'a Arc<Mailbox<Native>>) -> Self {
        Waiting { mailbox, ticket: None }
    }

    /// Has the task woken once what it waits for is there.
    fn until(&mut self, awaited: Awaited, cx: &Context<'_>) {
        self.ticket = Some(self.mailbox.wakers.add(self.ticket, awaited, cx.waker()));
        // The answer may have arrived before the waker was registered. Without a polling thread,
        // the task polls by itself.
        if self.mailbox.is_ready(awaited) || poller::see_to(self.mailbox).is_err() {
            cx.waker().wake_by_ref();
        }
    }
}

/// Has a task that waits for any of several channels woken by a reply of this one, or when none is
/// to come from it any more; whether one of both is so already. A channel that has nothing to
/// answer now wakes it by a reply alone, and one of which none will come does not.
pub(crate) fn wake_by_reply(mailbox: &Arc<Mailbox<Native>>, ticket: &mut Option<u64>, waker: &Waker) -> bool {
    if mailbox.none_to_come(false).is_some() {
        return false;
    }
    let awaited = Awaited::Reply { sent_later: mailbox.none_to_come(true).is_some() };
    *ticket = Some(mailbox.wakers.add(*ticket, awaited, waker));
    mailbox.is_ready(awaited) || poller::see_to(mailbox).is_err()
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.mailbox.wakers.remove(ticket);
        }
    }
}

/// A send under way: [`Channel::send_async`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Actor, RingConfig, RingCtx, RingRuntime, SendFuture, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// /// One on the way, which an executor polls with others.
/// fn on_the_way<'a>(actor: &'a Actor<double>, x: &'a u32) -> SendFuture<'a, u32> {
///     actor.send_async(x)
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.activate()?;
/// pollster::block_on(on_the_way(&actor, &4))?;
/// assert_eq!(actor.recv()?, 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct SendFuture<'a, M> {
    waiting: Waiting<'a>,
    message: &'a M,
    options: SendOptions,
}

impl<'a, M: Message> SendFuture<'a, M> {
    pub(super) fn new<R>(channel: &'a Channel<M, R>, message: &'a M, options: SendOptions) -> Self {
        SendFuture { waiting: Waiting::new(&channel.mailbox), message, options }
    }
}

impl<M: Message> Future for SendFuture<'_, M> {
    type Output = Result<Sent, SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mailbox = self.waiting.mailbox;
        let (ring, header) = mailbox.way(&self.options)?;
        let holds = mailbox.settled(self.message)?;
        let sent = laid(self.message, header, |words| mailbox.try_send(ring, words));
        match sent.map(|sent| mailbox.keep(sent, holds)) {
            Err(SendError::Full { .. }) if !mailbox.rejects() => {
                if let Some(error) = mailbox.no_room_comes().filter(|_| mailbox.blocks()) {
                    return Poll::Ready(Err(error));
                }
                self.waiting.until(Awaited::Room, cx);
                Poll::Pending
            }
            sent => Poll::Ready(sent),
        }
    }
}

/// A reply to come: [`Channel::recv_async`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Actor, RecvFuture, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// /// The next reply, which an executor waits for.
/// fn next(actor: &Actor<double>) -> RecvFuture<'_, u32> {
///     actor.recv_async()
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.activate()?;
/// actor.send(4)?;
/// assert_eq!(pollster::block_on(next(&actor))?, 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct RecvFuture<'a, R> {
    waiting: Waiting<'a>,
    sent_later: bool,
    reply: PhantomData<fn() -> R>,
}

impl<'a, R: Layout> RecvFuture<'a, R> {
    pub(super) fn new<M>(channel: &'a Channel<M, R>) -> Self {
        RecvFuture { waiting: Waiting::new(&channel.mailbox), sent_later: false, reply: PhantomData }
    }

    /// Has the future also wait for replies to messages that other tasks are yet to send, and for
    /// an actor that is not active yet. Without this, it ends with an error where no reply comes by
    /// itself, as [`recv`](Channel::recv) does.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, m: u32) -> u32 { m + 1 }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(increment, RingConfig::default())?;
    /// actor.activate()?;
    /// assert!(pollster::block_on(actor.recv_async()).is_err()); // nothing was sent
    /// std::thread::scope(|scope| {
    ///     let receiver = scope.spawn(|| pollster::block_on(actor.recv_async().sent_later()));
    ///     actor.send(1).expect("there is room");
    ///     assert_eq!(receiver.join().expect("no panic"), Ok(2));
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sent_later(self) -> Self {
        RecvFuture { sent_later: true, ..self }
    }
}

impl<R: Layout> Future for RecvFuture<'_, R> {
    type Output = Result<R, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut reply = None;
        let received = for_one::<R, _>(|buffer| {
            let take = |words: &[u32]| reply = Some(R::decode(&words[..R::WORDS]));
            self.waiting.mailbox.receive(1, !self.sent_later, buffer, take)
        });
        match (received, reply) {
            (_, Some(reply)) => {
                self.waiting.mailbox.let_go();
                Poll::Ready(Ok(reply))
            }
            (Err(error), None) => Poll::Ready(Err(error)),
            (Ok(_), None) => {
                let sent_later = self.sent_later;
                self.waiting.until(Awaited::Reply { sent_later }, cx);
                Poll::Pending
            }
        }
    }
}

/// Replies to come: [`Channel::recv_many_async`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RecvManyFuture, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.activate()?;
///
/// actor.send_many(&[1, 2])?;
/// let mut replies = Vec::new();
/// while replies.len() < 2 {
///     let some: RecvManyFuture<'_, u32> = actor.recv_many_async(2, &mut replies);
///     assert!(pollster::block_on(some)? > 0);
/// }
/// assert_eq!(replies, [2, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct RecvManyFuture<'a, R> {
    waiting: Waiting<'a>,
    most: usize,
    replies: &'a mut Vec<R>,
}

impl<'a, R: Layout> RecvManyFuture<'a, R> {
    pub(super) fn new<M>(channel: &'a Channel<M, R>, most: usize, replies: &'a mut Vec<R>) -> Self {
        RecvManyFuture { waiting: Waiting::new(&channel.mailbox), most, replies }
    }
}

impl<R: Layout> Future for RecvManyFuture<'_, R> {
    type Output = Result<usize, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let RecvManyFuture { waiting, most, replies } = &mut *self;
        let received = for_many::<R, _>(|buffer| {
            let take = |words: &[u32]| replies.push(R::decode(&words[..R::WORDS]));
            waiting.mailbox.receive(*most, true, buffer, take)
        });
        if received == Ok(0) && *most > 0 {
            waiting.until(Awaited::Reply { sent_later: false }, cx);
            return Poll::Pending;
        }
        waiting.mailbox.let_go();
        Poll::Ready(received)
    }
}

/// Sends under way: [`Channel::send_many_async`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, SendManyFuture, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.activate()?;
///
/// let all: SendManyFuture<'_, u32> = actor.send_many_async(&[1, 2]);
/// assert_eq!(pollster::block_on(all)?, 2);
/// assert_eq!([actor.recv()?, actor.recv()?], [2, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct SendManyFuture<'a, M> {
    waiting: Waiting<'a>,
    messages: &'a [M],
    sent: usize,
}

impl<'a, M: Message> SendManyFuture<'a, M> {
    pub(super) fn new<R>(channel: &'a Channel<M, R>, messages: &'a [M]) -> Self {
        SendManyFuture { waiting: Waiting::new(&channel.mailbox), messages, sent: 0 }
    }
}

impl<M: Message> Future for SendManyFuture<'_, M> {
    type Output = Result<usize, SendManyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mailbox = self.waiting.mailbox;
        while let Some(message) = self.messages.get(self.sent) {
            let sent = mailbox.settled(message).and_then(|holds| {
                let (ring, header) = mailbox.way(&SendOptions::default())?;
                let sent = laid(message, header, |words| mailbox.try_send(ring, words))?;
                Ok(mailbox.keep(sent, holds))
            });
            let error = match sent {
                Ok(Sent::Queued(_)) => {
                    self.sent += 1;
                    continue;
                }
                Ok(Sent::Dropped) => break,
                Err(error) => error,
            };
            let error = match error {
                SendError::Full { .. } if mailbox.blocks() => mailbox.no_room_comes(),
                SendError::Full { .. } if !mailbox.rejects() => None,
                error => Some(error),
            };
            let Some(error) = error else {
                self.waiting.until(Awaited::Room, cx);
                return Poll::Pending;
            };
            return Poll::Ready(Err(SendManyError { sent: self.sent, error }));
        }
        Poll::Ready(Ok(self.sent))
    }
}

/// A request under way: [`Channel::ask_async`]. Dropped before its answer, it leaves the request
/// with the actor, and the reply becomes a dead letter.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Actor, RingConfig, RingCtx, RingRuntime, AskFuture, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// /// One on the way, which an executor polls with others.
/// fn on_the_way<'a>(actor: &'a Actor<double>, x: &'a u32) -> AskFuture<'a, u32, u32> {
///     actor.ask_async(x)
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.activate()?;
/// assert_eq!(pollster::block_on(on_the_way(&actor, &4))?, Some(8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct AskFuture<'a, M, R> {
    waiting: Waiting<'a>,
    message: &'a M,
    options: SendOptions,
    /// Where the request is, and the arrays it refers to: once the answer is taken, others may let
    /// go of them before the reply, which may name them, is read.
    sent: Option<(u64, Vec<Hold>)>,
    reply: PhantomData<fn() -> R>,
}

impl<'a, M: Message, R: Layout> AskFuture<'a, M, R> {
    pub(super) fn new(channel: &'a Channel<M, R>, message: &'a M, options: SendOptions) -> Self {
        let waiting = Waiting::new(&channel.mailbox);
        AskFuture { waiting, message, options, sent: None, reply: PhantomData }
    }
}

impl<M: Message, R> AskFuture<'_, M, R> {
    fn request(&self) -> Result<(u64, Vec<Hold>), AskError> {
        let mailbox = self.waiting.mailbox;
        let (ring, header) = mailbox.way(&self.options)?;
        if !mailbox.is_closed() {
            mailbox.check_answers()?;
        }
        let holds = mailbox.settled(self.message)?;
        let position = laid(self.message, header, |words| mailbox.try_request(ring, words))?;
        mailbox.keep(Sent::Queued(position), holds.clone());
        Ok((position, holds))
    }
}

impl<M: Message, R: Layout> Future for AskFuture<'_, M, R> {
    type Output = Result<Option<R>, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mailbox = self.waiting.mailbox;
        let position = match &self.sent {
            Some((position, _)) => *position,
            None => match self.request() {
                Ok(sent) => self.sent.insert(sent).0,
                Err(AskError::Send(SendError::Full { .. })) if !mailbox.rejects() => {
                    self.waiting.until(Awaited::Room, cx);
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error)),
            },
        };
        let mut outcome = None;
        let reply = decoded::<R>(|words| outcome = mailbox.poll_request(position, words));
        match outcome {
            Some(outcome) => {
                self.sent = None;
                mailbox.let_go();
                Poll::Ready(outcome.map(|replied| replied.then_some(reply)))
            }
            None => {
                self.waiting.until(Awaited::Answer(position), cx);
                Poll::Pending
            }
        }
    }
}

impl<M, R> Drop for AskFuture<'_, M, R> {
    fn drop(&mut self) {
        if let Some((position, _)) = self.sent {
            self.waiting.mailbox.of(position).queue.give_up(position);
        }
    }
}
