//! Futures of a channel. They run on any executor.

use super::Channel;
use super::error::{AskError, RecvError, SendError};
use super::mailbox::{Mailbox, Sent};
use super::options::SendOptions;
use super::platform::Native;
use super::poller;
use super::wakers::Awaited;
use super::words::{decoded, for_one, laid};
use crate::layout::{Hold, Layout};
use crate::message::Message;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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
        // It may have come before the waker was there. Without a thread that looks, the task looks itself.
        if self.mailbox.is_ready(awaited) || poller::see_to(self.mailbox).is_err() {
            cx.waker().wake_by_ref();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.mailbox.wakers.remove(ticket);
        }
    }
}

/// A send under way: [`Channel::send_async`].
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
        let (band, header) = mailbox.way(&self.options)?;
        let holds = mailbox.settled(self.message)?;
        let sent = laid(self.message, header, |words| mailbox.try_send(band, words));
        match sent.map(|sent| mailbox.keep(sent, holds)) {
            Err(SendError::Full { .. }) if !mailbox.rejects() => {
                self.waiting.until(Awaited::Room, cx);
                Poll::Pending
            }
            sent => Poll::Ready(sent),
        }
    }
}

/// A reply to come: [`Channel::recv_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct RecvFuture<'a, R> {
    waiting: Waiting<'a>,
    reply: PhantomData<fn() -> R>,
}

impl<'a, R: Layout> RecvFuture<'a, R> {
    pub(super) fn new<M>(channel: &'a Channel<M, R>) -> Self {
        RecvFuture { waiting: Waiting::new(&channel.mailbox), reply: PhantomData }
    }
}

impl<R: Layout> Future for RecvFuture<'_, R> {
    type Output = Result<R, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut reply = None;
        let received = for_one::<R, _>(|buffer| {
            self.waiting.mailbox.receive(1, buffer, |words| reply = Some(R::decode(&words[..R::WORDS])))
        });
        match (received, reply) {
            (_, Some(reply)) => {
                self.waiting.mailbox.let_go();
                Poll::Ready(Ok(reply))
            }
            (Err(error), None) => Poll::Ready(Err(error)),
            (Ok(_), None) => {
                self.waiting.until(Awaited::Reply, cx);
                Poll::Pending
            }
        }
    }
}

/// A request under way: [`Channel::ask_async`]. Dropped before its answer, it leaves the request with the actor, and the reply becomes a
/// dead letter.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct AskFuture<'a, M, R> {
    waiting: Waiting<'a>,
    message: &'a M,
    options: SendOptions,
    /// Where the request is, and the arrays it refers to: once the answer is taken, others may let go of them before the reply, which may name them, is read.
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
        let (band, header) = mailbox.way(&self.options)?;
        let holds = mailbox.settled(self.message)?;
        let position = laid(self.message, header, |words| mailbox.try_request(band, words))?;
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
